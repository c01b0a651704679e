//! Which paths a recording holds, and under which names.

use crate::raw::PATH_BYTES_MAX;

/// File systems of the kernel's own, and of devices: what stands there is no load on storage.
const SYSTEM: [&[u8]; 4] = [b"/dev", b"/proc", b"/run", b"/sys"];

/// An absolute path without `.`, `..` and doubled slashes; `path` is seen from `directory`. `None` when it is not absolute even
/// so, or longer than the kernel allows. It is lexical: `link/..` is the directory in which the link stands.
pub(super) fn absolute(directory: &[u8], path: &[u8]) -> Option<Vec<u8>> {
    let relative = path.first() != Some(&b'/');
    if relative && directory.first() != Some(&b'/') {
        return None;
    }
    let mut parts: Vec<&[u8]> = Vec::new();
    let before = if relative { directory } else { b"" };
    for part in before.split(|byte| *byte == b'/').chain(path.split(|byte| *byte == b'/')) {
        match part {
            b"" | b"." => {}
            b".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let mut whole = Vec::with_capacity(before.len() + path.len() + 1);
    for part in parts {
        whole.push(b'/');
        whole.extend_from_slice(part);
    }
    if whole.is_empty() {
        whole.push(b'/');
    }
    (whole.len() <= PATH_BYTES_MAX).then_some(whole)
}

/// The directory in which a normalised path stands; the root stands in none.
pub(super) fn parent(path: &[u8]) -> Option<&[u8]> {
    let slash = path.iter().rposition(|byte| *byte == b'/')?;
    match (slash, path.len()) {
        (0, 1) => None,
        (0, _) => Some(b"/"),
        _ => path.get(..slash),
    }
}

/// What of a normalised path follows after a directory; empty for the directory itself.
pub(super) fn below<'a>(directory: &[u8], path: &'a [u8]) -> Option<&'a [u8]> {
    if directory == b"/" {
        return path.strip_prefix(b"/");
    }
    match path.strip_prefix(directory)? {
        b"" => Some(b""),
        rest => rest.strip_prefix(b"/"),
    }
}

/// Whether a path stands on a file system of the kernel's own.
pub(super) fn of_system(path: &[u8]) -> bool {
    SYSTEM.iter().any(|system| below(system, path).is_some())
}

/// Which paths are recorded, and how they are called.
#[derive(Debug)]
pub(super) struct Scope {
    under: Vec<Vec<u8>>,
    key: Option<[u64; 2]>,
}

impl Scope {
    pub(super) fn new(under: &[Vec<u8>], key: Option<[u64; 2]>) -> Self {
        Scope { under: under.iter().filter_map(|path| absolute(b"/", path)).collect(), key }
    }

    /// Whether calls on a path are recorded. A directory that was asked for may stand on a file system of the kernel's own,
    /// as /dev/shm does.
    pub(super) fn records(&self, path: &[u8]) -> bool {
        if self.under.is_empty() {
            return !of_system(path);
        }
        let asked = |under: &Vec<u8>| below(under, path).is_some() && (of_system(under) || !of_system(path));
        self.under.iter().any(asked)
    }

    /// The name under which a path is recorded.
    pub(super) fn name(&self, path: &[u8]) -> Vec<u8> {
        let Some(key) = self.key else { return path.to_vec() };
        let mut name = b"/".to_vec();
        for part in path.split(|byte| *byte == b'/').filter(|part| !part.is_empty()) {
            if name.last() != Some(&b'/') {
                name.push(b'/');
            }
            hashed(key, part, &mut name);
        }
        name
    }
}

/// Adds a name's hash in its place. That there is an extension stays to be seen, and a leading dot: programs treat such files
/// in their own ways.
fn hashed(key: [u64; 2], name: &[u8], to: &mut Vec<u8>) {
    if name.first() == Some(&b'.') {
        to.push(b'.');
    }
    to.extend_from_slice(format!("{:014x}", siphash(key, name) >> 8).as_bytes());
    if name.iter().rposition(|byte| *byte == b'.').is_some_and(|dot| dot > 0 && dot + 1 < name.len()) {
        to.extend_from_slice(b".x");
    }
}

/// SipHash-2-4: who does not have the key cannot try names.
fn siphash(key: [u64; 2], bytes: &[u8]) -> u64 {
    let mut state = [
        key[0] ^ 0x736f_6d65_7073_6575,
        key[1] ^ 0x646f_7261_6e64_6f6d,
        key[0] ^ 0x6c79_6765_6e65_7261,
        key[1] ^ 0x7465_6462_7974_6573,
    ];
    let words = bytes.chunks_exact(8);
    let mut last = (bytes.len() as u64) << 56;
    for (at, byte) in words.remainder().iter().enumerate() {
        last |= u64::from(*byte) << (8 * at);
    }
    let whole = words.map(|word| word.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)));
    for word in whole.chain([last]) {
        state[3] ^= word;
        (0..2).for_each(|_| sip_round(&mut state));
        state[0] ^= word;
    }
    state[2] ^= 0xff;
    (0..4).for_each(|_| sip_round(&mut state));
    state[0] ^ state[1] ^ state[2] ^ state[3]
}

fn sip_round([a, b, c, d]: &mut [u64; 4]) {
    *a = a.wrapping_add(*b);
    *c = c.wrapping_add(*d);
    *b = b.rotate_left(13) ^ *a;
    *d = d.rotate_left(16) ^ *c;
    *a = a.rotate_left(32);
    *c = c.wrapping_add(*b);
    *a = a.wrapping_add(*d);
    *b = b.rotate_left(17) ^ *c;
    *d = d.rotate_left(21) ^ *a;
    *c = c.rotate_left(32);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_become_absolute() {
        let of = |directory: &str, path: &str| {
            absolute(directory.as_bytes(), path.as_bytes()).map(|path| String::from_utf8(path).unwrap())
        };
        assert_eq!(of("/a", "b//./c/../d/").as_deref(), Some("/a/b/d"));
        assert_eq!(of("/a", "../../..").as_deref(), Some("/"));
        assert_eq!(of("", "/x/.").as_deref(), Some("/x"));
        assert_eq!(of("", "x"), None);
        assert_eq!(of("/", &"x".repeat(5000)), None);
    }

    #[test]
    fn directories_and_what_is_below() {
        assert_eq!(parent(b"/a/b"), Some(&b"/a"[..]));
        assert_eq!(parent(b"/a"), Some(&b"/"[..]));
        assert_eq!(parent(b"/"), None);
        assert_eq!(below(b"/a", b"/a/b/c"), Some(&b"b/c"[..]));
        assert_eq!(below(b"/a", b"/a"), Some(&b""[..]));
        assert_eq!(below(b"/a", b"/ab"), None);
        assert_eq!(below(b"/", b"/ab"), Some(&b"ab"[..]));
    }

    #[test]
    fn scope_of_systems_and_of_what_was_asked_for() {
        let all = Scope::new(&[], None);
        assert!(all.records(b"/device/x") && all.records(b"/"));
        assert!(!all.records(b"/dev/null") && !all.records(b"/proc") && !all.records(b"/run/lock"));
        let some = Scope::new(&[b"/data/".to_vec(), b"/dev/shm".to_vec()], None);
        assert!(some.records(b"/data") && some.records(b"/data/x") && some.records(b"/dev/shm/x"));
        assert!(!some.records(b"/data2") && !some.records(b"/dev/sda") && !some.records(b"/proc/1"));
        assert!(!Scope::new(&[b"/".to_vec()], None).records(b"/proc/1"));
    }

    /// The first values of the test vectors of SipHash's authors.
    #[test]
    fn siphash_is_that_of_its_authors() {
        let key = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        let bytes: Vec<u8> = (0..15).collect();
        assert_eq!(siphash(key, &[]), 0x726f_db47_dd0e_0e31);
        assert_eq!(siphash(key, &bytes), 0xa129_ca61_49be_45e5);
    }

    #[test]
    fn names_are_hidden_and_their_shape_is_not() {
        let scope = Scope::new(&[b"/data".to_vec()], Some([1, 2]));
        let name = |path: &str| String::from_utf8(scope.name(path.as_bytes())).unwrap();
        let secret = name("/data/secret/plan.tar.gz");
        assert!(
            secret.starts_with(&format!("{}/", name("/data")))
                && secret.ends_with(".x")
                && secret.matches('/').count() == 3
        );
        assert!(!secret.contains("secret") && !secret.contains("gz"));
        assert_eq!(secret, name("/data/secret/plan.tar.gz"));
        assert!(name("/data/secret/.profile").contains("/."));
        assert!(!name("/other/secret").contains("other"));
        assert!(!name("/data").contains("data"));
        assert_ne!(Scope::new(&[], Some([1, 3])).name(b"/x"), Scope::new(&[], Some([1, 2])).name(b"/x"));
    }
}
