//! The mount table, `/proc/self/mountinfo` (proc_pid_mountinfo(5)).

use std::path::{Path, PathBuf};

/// The mount table in its order: later mounts hide earlier ones on the same point.
#[derive(Debug, Clone, Default)]
pub struct Mounts(Vec<Mount>);

/// One mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// `major:minor`.
    pub device_number: String,
    /// Where it is mounted.
    pub point: PathBuf,
    /// File system type.
    pub fs_type: String,
    /// What is mounted.
    pub source: String,
    /// Options of the mount and of the file system, sorted, each once.
    pub options: Vec<String>,
}

impl Mounts {
    /// Reads the table's text; lines that are not of its form are left out.
    pub fn parse(text: &str) -> Self {
        Mounts(text.lines().filter_map(parse_line).collect())
    }

    /// The mount that holds `path` (absolute, without symbolic links).
    pub fn covering(&self, path: &Path) -> Option<&Mount> {
        let depth = |mount: &Mount| mount.point.components().count();
        // max_by_key gives the last of equals: the one on top.
        self.0.iter().filter(|mount| path.starts_with(&mount.point)).max_by_key(|mount| depth(mount))
    }
}

fn parse_line(line: &str) -> Option<Mount> {
    let (left, right) = line.split_once(" - ")?;
    let left: Vec<&str> = left.split(' ').collect();
    let mut right = right.splitn(3, ' ');
    let (fs_type, source, super_options) = (right.next()?, right.next()?, right.next().unwrap_or(""));
    let mut options: Vec<String> = left
        .get(5)?
        .split(',')
        .chain(super_options.split(','))
        .map(unescape)
        .filter(|o| !o.is_empty())
        .collect();
    options.sort();
    options.dedup();
    Some(Mount {
        device_number: (*left.get(2)?).to_string(),
        point: PathBuf::from(unescape(left.get(4)?)),
        fs_type: fs_type.to_string(),
        source: unescape(source),
        options,
    })
}

/// Undoes the kernel's octal escapes of blanks and backslashes (`\040`).
fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let octal =
            tail.get(..3).filter(|_| *first == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[3..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
31 23 0:28 / /mnt/a\\040b rw,noatime shared:1 - tmpfs none rw,size=4k
32 27 7:3 / /mnt/x rw,noatime - ext4 /dev/loop3 rw,noatime,data=journal
33 27 0:44 / /mnt/x rw - btrfs /dev/loop4 rw,ssd
nonsense
34 27 0:50 / /mnt/empty rw - fuse.x  rw
";

    #[test]
    fn the_deepest_and_topmost_mount_covers() {
        let mounts = Mounts::parse(TABLE);
        assert_eq!(mounts.covering(Path::new("/home/me")).map(|m| m.fs_type.as_str()), Some("ext4"));
        assert_eq!(mounts.covering(Path::new("/mnt/x/y")).map(|m| m.fs_type.as_str()), Some("btrfs"));
        assert_eq!(mounts.covering(Path::new("/mnt/xy")).map(|m| m.source.as_str()), Some("/dev/vda"));
        assert_eq!(mounts.covering(Path::new("/mnt/a b/c")).map(|m| m.fs_type.as_str()), Some("tmpfs"));
        assert_eq!(mounts.covering(Path::new("relative")), None);
    }

    #[test]
    fn options_are_sorted_and_unique() {
        let mounts = Mounts::parse(&TABLE.lines().take(3).collect::<Vec<_>>().join("\n"));
        let mount = mounts.covering(Path::new("/mnt/x")).map(|mount| mount.options.clone());
        assert_eq!(mount, Some(vec!["data=journal".into(), "noatime".into(), "rw".into()]));
    }

    #[test]
    fn broken_escapes_stay_as_they_are() {
        assert_eq!(unescape("a\\040b"), "a b");
        assert_eq!(unescape("a\\04"), "a\\04");
        assert_eq!(unescape("\\999"), "\\999");
    }
}
