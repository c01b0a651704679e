//! Keeping everybody else from a device or a file.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// Opens `path` for reading and keeps others away as long as the descriptor lives; `None` when somebody else does so
/// already. A block device is claimed with O_EXCL (open(2)): mount, swapon, mkfs and other claims fail meanwhile, ordinary
/// opens do not. A file is locked (flock(2)), which binds those that lock it too, as all of loadline does.
///
/// # Errors
/// It cannot be opened.
pub fn hold(path: &Path) -> io::Result<Option<File>> {
    let mut open = OpenOptions::new();
    // without O_NONBLOCK the open of a fifo would wait for a writer
    open.read(true).custom_flags(libc::O_NONBLOCK);
    let is_block = std::fs::metadata(path)?.file_type().is_block_device();
    if is_block {
        open.custom_flags(libc::O_EXCL);
    }
    let file = match open.open(path) {
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
