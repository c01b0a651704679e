//! The guest that a stack is built in: what follows `+` at its end.

use std::fmt;

use super::ParseErrorKind;
use super::lex::{DETERMINISTIC, KERNEL, quoted, split, unquote};

/// The seed of `+deterministic` without one.
const SEED: u64 = 1;

/// A guest: a kernel under an emulator.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Guest {
    /// The kernel: `debian-6.12`, or a path.
    pub kernel: String,
    /// Words for the kernel's command line.
    pub parameters: Vec<String>,
    /// The guest has a virtual time that repeats to the bit, with this seed; `None`: it runs by the machine's clock.
    pub seed: Option<u64>,
}

impl fmt::Display for Guest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let special = |c: char| c.is_whitespace() || "+()".contains(c);
        let name =
            if self.kernel.contains(special) { format!("\"{}\"", self.kernel) } else { quoted(&self.kernel) };
        write!(f, "{KERNEL}{name}")?;
        if !self.parameters.is_empty() {
            write!(f, "({})", self.parameters.join(","))?;
        }
        match self.seed {
            None => Ok(()),
            Some(SEED) => f.write_str(DETERMINISTIC),
            Some(seed) => write!(f, "{DETERMINISTIC}(seed={seed})"),
        }
    }
}

/// The text before the guest, and the guest.
pub(super) fn cut(text: &str) -> Result<(&str, Option<Guest>), ParseErrorKind> {
    let mut before = text.len();
    let mut end = 0;
    let mut parts: Vec<String> = Vec::new();
    for (number, piece) in split(text, |c| c == '+')?.into_iter().enumerate() {
        // where the piece begins, its plus included: the first, which may be empty, has none
        let start = end;
        end = start + piece.len() + usize::from(number > 0);
        let whole = &text[start..end];
        if whole.starts_with(KERNEL) || whole.starts_with(DETERMINISTIC) {
            before = before.min(start);
            parts.push(whole.to_string());
        } else if let Some(last) = parts.last_mut() {
            // a plus within the kernel's name
            last.push_str(whole);
        }
    }
    if parts.is_empty() {
        return Ok((text, None));
    }
    let bad = |word: &str| ParseErrorKind::BadGuest { word: word.to_string() };
    let (mut kernel, mut seed) = (None, None);
    for part in &parts {
        match part.strip_prefix(KERNEL) {
            Some(_) if kernel.is_some() => return Err(ParseErrorKind::Twice { what: "the kernel" }),
            None if seed.is_some() => return Err(ParseErrorKind::Twice { what: "deterministic" }),
            Some(rest) => kernel = Some(named(rest).ok_or_else(|| bad(part))?),
            None => seed = Some(seeded(part).ok_or_else(|| bad(part))?),
        }
    }
    let (kernel, parameters) = kernel.ok_or_else(|| bad(&parts[0]))?;
    Ok((text[..before].trim_end(), Some(Guest { kernel, parameters, seed })))
}

fn named(text: &str) -> Option<(String, Vec<String>)> {
    let (name, words) = match text.strip_suffix(')').and_then(|text| text.split_once('(')) {
        Some((name, words)) => (name, words.split(',').map(|word| word.trim().to_string()).collect()),
        None => (text, Vec::new()),
    };
    let name = unquote(name.trim());
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-+/ ".contains(c);
    let of_line = |word: &String| {
        !word.is_empty() && word.chars().all(|c| c.is_ascii_graphic() && !"\"'\\".contains(c))
    };
    (!name.is_empty() && name.chars().all(plain) && words.iter().all(of_line)).then_some((name, words))
}

fn seeded(part: &str) -> Option<u64> {
    match part.strip_prefix(DETERMINISTIC)? {
        "" => Some(SEED),
        rest => rest.strip_prefix("(seed=")?.strip_suffix(')')?.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use crate::StackSpec;

    #[test]
    fn guests_are_read_and_written_alike() {
        for (text, kernel, words, seed) in [
            ("f2fs@nvme+kernel:debian-6.12", "debian-6.12", 0, None),
            ("ext4,nobarrier@null(80us):512M+kernel:debian-6.12+deterministic", "debian-6.12", 0, Some(1)),
            (
                "ext4@null+kernel:debian-6.12(mitigations=off,nosmt)+deterministic(seed=7)",
                "debian-6.12",
                2,
                Some(7),
            ),
            (
                "xfs@860evo:none+kernel:/boot/vmlinuz-6.12.1+deb12-amd64",
                "/boot/vmlinuz-6.12.1+deb12-amd64",
                0,
                None,
            ),
            ("ext4+kernel:\"/a b/c\"", "/a b/c", 0, None),
        ] {
            let stack: StackSpec = text.parse().unwrap_or_else(|error| panic!("{error}"));
            let guest = stack.guest().unwrap();
            assert_eq!(
                (guest.kernel.as_str(), guest.parameters.len(), guest.seed),
                (kernel, words, seed),
                "{text}"
            );
            let label = stack.to_string();
            assert_eq!(label.parse::<StackSpec>().unwrap(), stack, "{label}");
            assert!(stack.within().guest().is_none());
        }
        let list = "f2fs@nvme+kernel:debian-6.12,ext4@null+kernel:debian-6.1(a=1,quiet)+deterministic,xfs";
        let stacks = StackSpec::parse_list(list).unwrap();
        assert_eq!(stacks.len(), 3);
        assert_eq!(
            stacks[2].deterministic("debian-6.12", 3).unwrap().to_string(),
            "xfs+kernel:debian-6.12+deterministic(seed=3)"
        );
    }

    #[test]
    fn what_is_no_guest_is_told() {
        for text in [
            "ext4+kernel:",
            "ext4+deterministic",
            "dir:/tmp+kernel:x",
            "ext4+kernel:a+kernel:b",
            "ext4+kernel:a+deterministicx",
            // nothing before the first plus, and letters of several bytes
            "+kernel",
            "+kerne\u{14d}+",
        ] {
            assert!(text.parse::<StackSpec>().is_err(), "{text}");
        }
    }
}
