//! A worker's loop device: attached once, for all its states.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use camino::{Utf8Path, Utf8PathBuf};
use host::Host;
use host::loopdev::LoopOptions;
use journal::{EntryId, Journal};

use crate::error::CrashError;
use crate::recording::BLOCK;

/// `include/uapi/linux/fs.h`.
const BLKFLSBUF: libc::Ioctl = 0x1261;

/// Attaches `file` to a free loop device, which the journal knows of before it exists.
pub(crate) fn attach(journal: &Journal, file: &Utf8Path) -> Result<(Utf8PathBuf, EntryId), CrashError> {
    // through the page cache, since a state is written into the file from outside
    let options = LoopOptions { direct_io: false, sector_bytes: BLOCK as u32 };
    journal::loopdev::attach(&Host::system(), journal, file, options)
        .map_err(|error| CrashError::io(format!("attach {file}"))(io::Error::other(error)))
}

/// Forgets what the kernel has cached of the device: its file was changed underneath.
pub(crate) fn forget_cache(device: &Utf8Path) -> io::Result<()> {
    let opened = File::open(device)?;
    // SAFETY: the descriptor is open, and this request takes no argument.
    let result = unsafe { libc::ioctl(opened.as_raw_fd(), BLKFLSBUF, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
