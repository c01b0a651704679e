//! Which device or file a path means.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use std::path::{Path, PathBuf};

use camino::{Utf8Path, Utf8PathBuf};
use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};

use super::refusal::EraseRefused;
use crate::Host;

/// A block device, by whatever path it was named, or a regular file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Subject {
    /// Symbolic links resolved. A node elsewhere than in /dev keeps its path.
    pub(super) path: Utf8PathBuf,
    /// The kernel's name, such as `sdx1`; `None` for a file.
    pub(super) name: Option<String>,
    /// Device and inode of a file, as far as they are known.
    pub(super) id: Option<(u64, u64)>,
}

impl Subject {
    /// The block device that the kernel calls `name`.
    pub(super) fn device(name: String) -> Subject {
        Subject { path: format!("/dev/{name}").into(), name: Some(name), id: None }
    }

    /// What an open descriptor is; or why it is neither a device nor a file.
    pub(super) fn of(host: &Host, at: &OwnedFd) -> Result<Subject, String> {
        let found = fstat(at).map_err(|error| std::io::Error::from(error).to_string())?;
        let resolved = std::fs::read_link(reopen_path(at)).map_err(|error| error.to_string())?;
        // one that is not UTF-8 is only shown; numbers tell what it is
        let path = Utf8PathBuf::from_path_buf(resolved)
            .unwrap_or_else(|path| path.to_string_lossy().into_owned().into());
        let name = match FileType::from_raw_mode(found.st_mode) {
            FileType::RegularFile => None,
            FileType::BlockDevice => match name_of_number(host, found.st_rdev) {
                Some(name) => Some(name),
                None => return Err("it is not a block device that /sys knows".into()),
            },
            _ => return Err("it is neither a block device nor a file".into()),
        };
        let id = name.is_none().then_some((found.st_dev, found.st_ino));
        Ok(Subject { path, name, id })
    }
}

/// Whether both are the same file. A name alone decides when nothing else is known of one.
pub(super) fn is_same_file(one: &Subject, other: &Subject) -> bool {
    one.id.zip(other.id).map_or(one.path == other.path, |(one, other)| one == other)
}

/// A subject and the descriptor that pins it: its path was followed once, and is only shown from then on.
#[derive(Debug)]
pub(super) struct Located {
    pub(super) subject: Subject,
    pub(super) at: OwnedFd,
}

impl Located {
    pub(super) fn of(host: &Host, path: &Utf8Path) -> Result<Located, EraseRefused> {
        let refused = |why: String| EraseRefused::NotADevice { device: path.to_owned(), why };
        let at = locate(path.as_std_path()).map_err(|error| refused(error.to_string()))?;
        Ok(Located { subject: Subject::of(host, &at).map_err(refused)?, at })
    }

    /// A path to read it by: that of the descriptor; or a block device's usual one, which only root arranges and programs
    /// know. Others may make files in /dev, such as in /dev/shm.
    pub(super) fn content_path(&self) -> Utf8PathBuf {
        // the kernel writes `!` for a slash in a name
        let usual = self.subject.name.as_ref().map(|name| format!("/dev/{}", name.replace('!', "/")));
        if usual.is_some_and(|usual| self.subject.path == usual) {
            return self.subject.path.clone();
        }
        self.pinned_path()
    }

    /// The path of the descriptor, which leads to what was located whatever has its name now.
    pub(super) fn pinned_path(&self) -> Utf8PathBuf {
        Utf8PathBuf::from_path_buf(reopen_path(&self.at)).unwrap_or_else(|_| self.subject.path.clone())
    }
}

/// The kernel's name of the device of that number.
pub(super) fn name_of_number(host: &Host, number: u64) -> Option<String> {
    let text = format!("{}:{}", rustix::fs::major(number), rustix::fs::minor(number));
    let has = |name: &String| host.read(format!("/sys/class/block/{name}/dev")).is_ok_and(|dev| dev == text);
    host.names("/sys/class/block").into_iter().find(has)
}

/// Whether both paths mean the same device or file, also through links and other nodes.
pub(super) fn same(a: &Utf8Path, b: &Utf8Path) -> bool {
    let (Ok(x), Ok(y)) = (a.metadata(), b.metadata()) else { return a == b };
    match (x.file_type().is_block_device(), y.file_type().is_block_device()) {
        (true, true) => x.rdev() == y.rdev(),
        (false, false) => (x.dev(), x.ino()) == (y.dev(), y.ino()),
        _ => false,
    }
}

/// What `path` means now. Nothing is opened for reading: the descriptor pins it.
pub(super) fn locate(path: &Path) -> io::Result<OwnedFd> {
    Ok(openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)
}

/// A path at which this process, and the programs that it starts, open again what an open descriptor is, whatever has
/// become of its names (proc(5), /proc/PID/fd). Good as long as the descriptor is open.
pub fn reopen_path(open: impl AsFd) -> PathBuf {
    // the number that /proc knows us by, which is another than getpid's when it is mounted by an outer PID namespace
    let own = std::fs::read_link("/proc/self").unwrap_or_else(|_| std::process::id().to_string().into());
    Path::new("/proc").join(own).join("fd").join(open.as_fd().as_raw_fd().to_string())
}
