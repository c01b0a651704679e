//! /proc/self/mountinfo (proc(5)).

use camino::{Utf8Path, Utf8PathBuf};

/// One line of mountinfo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountEntry {
    /// `major:minor` of the files' st_dev (Btrfs shows an anonymous one, not its device's).
    pub device_number: String,
    /// The path within the file system that is mounted here.
    pub root: Utf8PathBuf,
    /// Where it is mounted.
    pub target: Utf8PathBuf,
    /// The kernel's name of the file system, such as `ext4` or `fuse.betrfs`.
    pub fs_type: String,
    /// What was given as source: a device path, or any word for file systems without one.
    pub source: String,
    /// Per-mount and per-superblock options, joined.
    pub options: String,
}

impl MountEntry {
    /// The device number as stat(2) gives it.
    pub fn device(&self) -> Option<u64> {
        let (major, minor) = self.device_number.split_once(':')?;
        Some(rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?))
    }
}

/// Reads the file's text; lines that do not look like the manual page says are left out.
pub fn parse(text: &str) -> Vec<MountEntry> {
    text.lines().filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<MountEntry> {
    let (left, right) = line.split_once(" - ")?;
    let mut left = left.split(' ');
    let device_number = left.nth(2)?.to_string();
    let root = unescape(left.next()?).into();
    let target = unescape(left.next()?).into();
    let mount_options = left.next()?;
    let mut right = right.split(' ');
    let fs_type = unescape(right.next()?);
    let source = unescape(right.next()?);
    let options = unescape(&format!("{mount_options},{}", right.next().unwrap_or_default()));
    Some(MountEntry { device_number, root, target, fs_type, source, options })
}

/// Blank, tab, newline and backslash are written as three octal digits.
fn unescape(field: &str) -> String {
    let bytes = field.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let octal = bytes.get(at + 1..at + 4).filter(|_| bytes[at] == b'\\');
        let value = octal.and_then(|digits| {
            let digits = std::str::from_utf8(digits).ok()?;
            u8::from_str_radix(digits, 8).ok()
        });
        match value {
            Some(byte) => {
                out.push(byte);
                at += 4;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// The mount one sees at exactly `target`: the last one made there.
pub fn topmost_at<'a>(mounts: &'a [MountEntry], target: &Utf8Path) -> Option<&'a MountEntry> {
    mounts.iter().rev().find(|mount| mount.target == target)
}

/// Mounts strictly below `dir`.
pub fn below<'a>(mounts: &'a [MountEntry], dir: &Utf8Path) -> Vec<&'a MountEntry> {
    mounts.iter().filter(|mount| mount.target != dir && mount.target.starts_with(dir)).collect()
}

/// The mount that holds the file or directory at the absolute path `path`.
pub fn containing<'a>(mounts: &'a [MountEntry], path: &Utf8Path) -> Option<&'a MountEntry> {
    let deepest = mounts.iter().filter(|mount| path.starts_with(&mount.target));
    let depth = deepest.map(|mount| mount.target.components().count()).max()?;
    mounts
        .iter()
        .rev()
        .find(|mount| path.starts_with(&mount.target) && mount.target.components().count() == depth)
}

/// As [`containing`], of a path that may not be UTF-8: then none.
pub fn containing_path<'a>(mounts: &'a [MountEntry], path: &std::path::Path) -> Option<&'a MountEntry> {
    containing(mounts, Utf8Path::from_path(path)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime shared:1 master:2 - ext4 /dev/vda rw,discard
40 27 7:0 / /mnt/a\\040b rw,noatime - ext4 /dev/loop0 rw
41 27 7:1 /sub /mnt/a\\040b rw - btrfs /dev/loop1 rw
garbage
";

    #[test]
    fn optional_fields_and_escapes_are_read() {
        let mounts = parse(TEXT);
        assert_eq!(mounts.len(), 4);
        assert_eq!(mounts[1].source, "/dev/vda");
        assert_eq!(mounts[1].options, "rw,relatime,rw,discard");
        assert_eq!(mounts[2].target, "/mnt/a b");
        assert_eq!(mounts[3].root, "/sub");
        let no_source = parse("34 27 0:50 / /mnt/empty rw - fuse.x  rw");
        assert_eq!((no_source[0].source.as_str(), no_source[0].options.as_str()), ("", "rw,rw"));
        assert_eq!(unescape("a\\9b\\0"), "a\\9b\\0");
    }

    #[test]
    fn the_last_mount_hides_the_earlier_one() {
        let mounts = parse(TEXT);
        assert_eq!(topmost_at(&mounts, "/mnt/a b".into()).unwrap().source, "/dev/loop1");
        assert_eq!(containing(&mounts, "/mnt/a b/c".into()).unwrap().source, "/dev/loop1");
        assert_eq!(containing(&mounts, "/mnt/ab".into()).unwrap().source, "/dev/vda");
        assert_eq!(below(&mounts, "/mnt".into()).len(), 2);
        assert_eq!(below(&mounts, "/mnt/a b".into()).len(), 0);
    }
}
