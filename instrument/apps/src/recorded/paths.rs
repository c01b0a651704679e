//! The names of a recording as names below the target.

use std::collections::HashMap;
use std::ffi::CStr;

/// The target itself, which is where `/` of a recording is.
pub(super) const ROOT: u32 = 0;

/// Names relative to the target, each once and with a zero behind it as system calls want it; with every name its parents are
/// there too. They take their length, 12 bytes, and as long as names are added an entry of a table.
#[derive(Debug)]
pub(super) struct Paths {
    text: Vec<u8>,
    starts: Vec<u64>,
    parents: Vec<u32>,
    numbers: HashMap<Vec<u8>, u32>,
}

impl Paths {
    /// The root alone.
    pub(super) fn new() -> Paths {
        let numbers = HashMap::from([(Vec::new(), ROOT)]);
        Paths { text: b".\0".to_vec(), starts: vec![0], parents: vec![ROOT], numbers }
    }

    /// How many there are; they are numbered from 0.
    pub(super) fn len(&self) -> usize {
        self.starts.len()
    }

    /// The number of an absolute path, and whatever is above it; `None` for what is no path of a recording: relative, with `.`,
    /// `..`, doubled slashes or a zero. Nothing that is named here can lie outside of the target.
    pub(super) fn add(&mut self, path: &[u8]) -> Option<u32> {
        let relative = path.strip_prefix(b"/")?;
        let is_name = |part: &[u8]| !matches!(part, b"" | b"." | b"..") && !part.contains(&0);
        if !relative.is_empty() && !relative.split(|byte| *byte == b'/').all(is_name) {
            return None;
        }
        Some(self.intern(relative))
    }

    fn intern(&mut self, relative: &[u8]) -> u32 {
        if let Some(number) = self.numbers.get(relative) {
            return *number;
        }
        // from the top, so that a path of any depth needs no stack
        let mut parent = ROOT;
        let ends = (0..relative.len()).filter(|at| relative[*at] == b'/').chain([relative.len()]);
        for end in ends.collect::<Vec<_>>() {
            let name = &relative[..end];
            parent = match self.numbers.get(name) {
                Some(number) => *number,
                None => self.push(name, parent),
            };
        }
        parent
    }

    fn push(&mut self, name: &[u8], parent: u32) -> u32 {
        let number = self.starts.len() as u32;
        self.starts.push(self.text.len() as u64);
        self.parents.push(parent);
        self.text.extend_from_slice(name);
        self.text.push(0);
        self.numbers.insert(name.to_vec(), number);
        number
    }

    /// What a symbolic link at `link` leads to, by its text: absolute, or relative to the link's directory. What would leave the
    /// target ends at its root, as it does at `/`.
    pub(super) fn target_of(&mut self, link: u32, text: &[u8]) -> u32 {
        let mut parts: Vec<&[u8]> = Vec::new();
        let directory = self.parents[link as usize];
        let base = if text.starts_with(b"/") || directory == ROOT {
            Vec::new()
        } else {
            self.name(directory).to_bytes().to_vec()
        };
        for part in base.split(|byte| *byte == b'/').chain(text.split(|byte| *byte == b'/')) {
            match part {
                b"" | b"." => {}
                b".." => drop(parts.pop()),
                // what comes after a zero no system call has seen
                part => parts.push(part.split(|byte| *byte == 0).next().unwrap_or_default()),
            }
        }
        let normal = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(&b'/');
        self.intern(&normal)
    }

    /// A name relative to the target; the target itself where there is no such number.
    pub(super) fn name(&self, number: u32) -> &CStr {
        let start = self.starts.get(number as usize).map_or(0, |start| *start as usize);
        CStr::from_bytes_until_nul(&self.text[start..]).unwrap_or(c".")
    }

    /// The directory that a path is in; the root's is the root.
    pub(super) fn parent(&self, number: u32) -> u32 {
        self.parents.get(number as usize).copied().unwrap_or(ROOT)
    }

    /// The directories above a path, from its own to the root.
    pub(super) fn above(&self, number: u32) -> impl Iterator<Item = u32> {
        let next = |number: u32| (number != ROOT).then(|| self.parent(number));
        std::iter::successors(next(number), move |number| next(*number))
    }

    /// No more names are added: their table goes.
    pub(super) fn seal(&mut self) {
        self.numbers = HashMap::new();
        self.text.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_below_the_target() {
        let mut paths = Paths::new();
        let file = paths.add(b"/var/lib/x").unwrap();
        assert_eq!(paths.name(file), c"var/lib/x");
        let above: Vec<&CStr> = paths.above(file).map(|number| paths.name(number)).collect();
        assert_eq!(above, [c"var/lib", c"var", c"."]);
        assert_eq!(paths.add(b"/var/lib/x"), Some(file));
        assert_eq!((paths.add(b"/"), paths.len()), (Some(ROOT), 4));
        for wrong in [&b"x"[..], b"", b"/a/../b", b"/..", b"/a//b", b"/a/", b"/./a", b"/a\0b"] {
            assert_eq!(paths.add(wrong), None, "{wrong:?}");
        }
        assert_eq!(paths.len(), 4);
    }

    #[test]
    fn links_lead_nowhere_else() {
        let mut paths = Paths::new();
        let link = paths.add(b"/var/run").unwrap();
        for (text, leads_to) in [
            (&b"/run"[..], c"run"),
            (b"../run", c"run"),
            (b"lib/x", c"var/lib/x"),
            (b"../../../../etc/passwd", c"etc/passwd"),
            (b"/..", c"."),
            (b"/a/./b//c/..", c"a/b"),
            (b"a\0/../..", c"."),
            (b"", c"var"),
        ] {
            let target = paths.target_of(link, text);
            assert_eq!(paths.name(target), leads_to, "{text:?}");
        }
    }
}
