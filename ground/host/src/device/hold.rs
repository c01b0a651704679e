//! Keeping everybody else from a device or a file, which its path led to once: what is asked and done later goes by
//! descriptor, so that a name that somebody changes meanwhile leads nowhere else.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, FlockOperation, Mode, OFlags, flock, fstat, openat};
use rustix::io::Errno;

/// Opens `path` for reading and keeps others away as long as the descriptor lives; `None` when somebody else does so
/// already. A block device is claimed with O_EXCL (open(2)): mount, swapon, mkfs and other claims fail meanwhile, ordinary
/// opens do not. A file is locked (flock(2)), which binds those that lock it too, as all of loadline does.
///
/// # Errors
/// It cannot be opened.
pub fn hold(path: &Path) -> io::Result<Option<File>> {
    hold_located(&locate(path)?)
}

/// What `path` means now. Nothing is opened for reading: the descriptor pins it.
pub(super) fn locate(path: &Path) -> io::Result<OwnedFd> {
    Ok(openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)
}

/// As [`hold`], of what was located.
pub(super) fn hold_located(at: &OwnedFd) -> io::Result<Option<File>> {
    let mut open = OpenOptions::new();
    // without O_NONBLOCK the open of a fifo would wait for a writer
    open.read(true).custom_flags(libc::O_NONBLOCK);
    let is_block = FileType::from_raw_mode(fstat(at)?.st_mode) == FileType::BlockDevice;
    if is_block {
        open.custom_flags(libc::O_EXCL);
    }
    let file = match open.open(reopen_path(at)) {
        Err(error) if is_block && error.raw_os_error() == Some(libc::EBUSY) => return Ok(None),
        opened => opened?,
    };
    if is_block {
        // a lock besides would only meet those that look at new devices, such as udev
        return Ok(Some(file));
    }
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// A path at which this process, and the programs that it starts, open again what an open descriptor is, whatever has
/// become of its names (proc(5), /proc/PID/fd). Good as long as the descriptor is open.
pub fn reopen_path(open: impl AsFd) -> PathBuf {
    // the number that /proc knows us by, which is another than getpid's when it is mounted by an outer PID namespace
    let own = std::fs::read_link("/proc/self").unwrap_or_else(|_| std::process::id().to_string().into());
    Path::new("/proc").join(own).join("fd").join(open.as_fd().as_raw_fd().to_string())
}
