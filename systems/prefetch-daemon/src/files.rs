//! Finds the file of an inode among those that a process has open or mapped, and opens it anew.
//!
//! The new open file description is the daemon's own: nothing that is closed here drops a lock of the program.

use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use prefetch_os::sys;

use crate::moment::Key;

/// Descriptors of a process that are looked at.
const DESCRIPTORS_MAX: usize = 4096;

const TMPFS: i64 = 0x0102_1994;
const RAMFS: i64 = 0x8584_58f6;
const HUGETLBFS: i64 = 0x9584_58f6;
const PROC: i64 = 0x9fa0;
const SYSFS: i64 = 0x6265_6572;
const BTRFS: i64 = 0x9123_683e;
const OVERLAY: i64 = 0x794c_7630;

/// A file that the daemon has opened for itself.
#[derive(Debug)]
pub struct Opened {
    /// The descriptor.
    pub file: File,
    /// Its size, bytes.
    pub size: u64,
    /// The device as `stat` gives it, for the limits in sysfs.
    pub device: u64,
    /// Its path in its process.
    pub path: PathBuf,
    /// Where it was found.
    pub holder: Holder,
}

/// Where a process holds a file: an entry of `/proc/PID/fd` or `/proc/PID/map_files`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    key: Key,
    link: PathBuf,
    device: u64,
    inode: u64,
}

impl Holder {
    /// Whether the process still holds the file, there or elsewhere.
    pub fn holds(&mut self) -> bool {
        if self.is_at(&self.link) {
            return true;
        }
        let Some(process) = self.link.parent().and_then(Path::parent) else { return false };
        let Some(link) = among_descriptors(self.key, process).or_else(|| among_mappings(self.key, process))
        else {
            return false;
        };
        let holds = self.is_at(&link);
        self.link = link;
        holds
    }

    fn is_at(&self, link: &Path) -> bool {
        fs::metadata(link).is_ok_and(|m| (m.dev(), m.ino()) == (self.device, self.inode))
    }
}

/// The device of tracepoints (`major << 20 | minor`) from that of stat(2).
pub fn kernel_device(device: u64) -> u32 {
    libc::major(device) << 20 | libc::minor(device) & 0xf_ffff
}

/// Whether a file as stat(2) sees it is the one of an event. btrfs and overlayfs give stat(2) other devices than
/// their files' pages belong to; the process has the file open, so the inode number decides there.
fn is_same(key: Key, device: u64, inode: u64, kind: impl FnOnce() -> i64) -> bool {
    inode == key.inode && (kernel_device(device) == key.dev || matches!(kind(), BTRFS | OVERLAY))
}

/// The process of a thread.
fn process_of(tid: i32) -> i32 {
    let status = fs::read_to_string(format!("/proc/{tid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
    line.and_then(|number| number.trim().parse().ok()).unwrap_or(tid)
}

/// Opens the file of an event for reading; `None` when its process no longer has it, or it is not worth following:
/// not regular, smaller than `bytes_min`, deleted, or of a file system without a device.
pub fn find(key: Key, tid: i32, bytes_min: u64) -> Option<Opened> {
    let process = PathBuf::from(format!("/proc/{}", process_of(tid)));
    among_descriptors(key, &process)
        .or_else(|| among_mappings(key, &process))
        .and_then(|link| open(key, &link, bytes_min))
}

fn among_descriptors(key: Key, process: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(process.join("fd")).ok()?;
    let links = entries.take(DESCRIPTORS_MAX).flatten().map(|entry| entry.path());
    links.into_iter().find(|link| {
        // The inode number first: asking for the kind of file system opens the file.
        fs::metadata(link).is_ok_and(|m| m.is_file() && is_same(key, m.dev(), m.ino(), || kind_of(link)))
    })
}

fn among_mappings(key: Key, process: &Path) -> Option<PathBuf> {
    let maps = fs::read_to_string(process.join("maps")).ok()?;
    let range = maps.lines().find_map(|line| mapping_of(key, line))?;
    Some(process.join("map_files").join(range))
}

/// The address range of a line of `/proc/PID/maps` when it maps the file.
fn mapping_of(key: Key, line: &str) -> Option<&str> {
    let mut words = line.split_ascii_whitespace();
    let (range, _, _) = (words.next()?, words.next()?, words.next()?);
    let (major, minor) = words.next()?.split_once(':')?;
    let device = u32::from_str_radix(major, 16).ok()? << 20 | u32::from_str_radix(minor, 16).ok()?;
    let inode: u64 = words.next()?.parse().ok()?;
    (inode == key.inode && device == key.dev).then_some(range)
}

fn kind_of(link: &Path) -> i64 {
    reopen(link).ok().and_then(|file| sys::fs_type(file.as_raw_fd()).ok()).unwrap_or(0) & 0xffff_ffff
}

/// Without waiting for leases, without changing the access time where that is allowed.
fn reopen(link: &Path) -> std::io::Result<File> {
    let with = |flags| OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | flags).open(link);
    with(libc::O_NOATIME).or_else(|_| with(0))
}

fn open(key: Key, link: &Path, bytes_min: u64) -> Option<Opened> {
    let before = fs::metadata(link).ok()?;
    if !before.is_file() || before.len() < bytes_min || before.nlink() == 0 || before.ino() != key.inode {
        return None;
    }
    let file = reopen(link).ok()?;
    let meta = file.metadata().ok()?;
    let kind = sys::fs_type(file.as_raw_fd()).ok()? & 0xffff_ffff;
    if meta.ino() != before.ino() || [TMPFS, RAMFS, HUGETLBFS, PROC, SYSFS].contains(&kind) {
        return None;
    }
    let holder = Holder { key, link: link.to_owned(), device: meta.dev(), inode: meta.ino() };
    let path = fs::read_link(link).unwrap_or_default();
    Some(Opened { size: meta.len(), device: meta.dev(), path, holder, file })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn sample(bytes: usize) -> (tempfile::TempDir, File, Key) {
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let mut file = File::create_new(directory.path().join("data")).unwrap();
        file.write_all(&vec![1; bytes]).unwrap();
        let meta = file.metadata().unwrap();
        let key = Key { dev: kernel_device(meta.dev()), inode: meta.ino() };
        (directory, file, key)
    }

    #[test]
    fn an_open_file_is_found_and_its_closing_is_seen() {
        let (_directory, file, key) = sample(300 << 10);
        let tid = std::process::id() as i32;
        let mut found = find(key, tid, 256 << 10).expect("this process has it open");
        assert_eq!(found.size, 300 << 10);
        assert!(found.path.ends_with("data"));
        assert_ne!(found.file.as_raw_fd(), file.as_raw_fd());
        assert!(found.holder.holds());
        let again = file.try_clone().unwrap();
        drop(file);
        assert!(found.holder.holds());
        drop(again);
        // What the daemon itself holds here is in the same process.
        let Opened { file, mut holder, .. } = found;
        drop(file);
        assert!(!holder.holds());
        assert!(find(key, tid, 256 << 10).is_none());
    }

    #[test]
    fn small_and_deleted_files_are_not_opened() {
        let (_directory, _file, key) = sample(1000);
        let tid = std::process::id() as i32;
        assert!(find(key, tid, 256 << 10).is_none());
        let (directory, _file, key) = sample(300 << 10);
        std::fs::remove_file(directory.path().join("data")).unwrap();
        assert!(find(key, tid, 256 << 10).is_none());
        assert!(find(key, -5, 0).is_none());
    }

    #[test]
    fn mappings_are_found_by_device_and_inode() {
        let key = Key { dev: 0xfe << 20, inode: 1234 };
        let line = "7f00-7f10 r--p 00000000 fe:00 1234   /data/a file";
        assert_eq!(mapping_of(key, line), Some("7f00-7f10"));
        assert_eq!(mapping_of(Key { inode: 1, ..key }, line), None);
        assert_eq!(mapping_of(Key { dev: 1, ..key }, line), None);
        for other in ["", "x", "7f00-7f10 r--p 0 zz:00 1234", "7f00-7f10 r--p 0 fe:00"] {
            assert_eq!(mapping_of(key, other), None);
        }
    }

    #[test]
    fn the_executable_is_found_among_mappings() {
        let meta = fs::metadata("/proc/self/exe").unwrap();
        let key = Key { dev: kernel_device(meta.dev()), inode: meta.ino() };
        let link = among_mappings(key, Path::new("/proc/self"));
        // btrfs and overlayfs give stat another device than their mappings
        let Some(link) = link else {
            let mapped = fs::read_to_string("/proc/self/maps").unwrap();
            let device = format!("{:02x}:{:02x}", key.dev >> 20, key.dev & 0xf_ffff);
            assert!(!mapped.contains(&format!(" {device} {} ", key.inode)), "{device} is in {mapped}");
            return;
        };
        assert!(link.starts_with("/proc/self/map_files"));
    }
}
