//! A worker's loop device: attached once, for all its states.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};
use host::Host;
use host::loopdev::LoopOptions;
use journal::{EntryId, Journal};

use crate::error::CrashError;
use crate::recording::BLOCK;

/// `include/uapi/linux/fs.h`.
const BLKFLSBUF: libc::Ioctl = 0x1261;

/// Longest that an unmounted file system may hold its device.
const RELEASE_PATIENCE: Duration = Duration::from_secs(60);
/// How often that is looked at.
const TICK: Duration = Duration::from_micros(500);

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

/// Waits until the file system of an unmounted device has written everything and let go of it. A daemon of betrfs does so after the
/// unmount; and whoever entered a mount namespace of his own meanwhile (a container, a service) has a copy of the mount.
pub(crate) fn wait_released(device: &Utf8Path) -> io::Result<()> {
    let start = Instant::now();
    loop {
        match OpenOptions::new().read(true).custom_flags(libc::O_EXCL).open(device) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) && start.elapsed() < RELEASE_PATIENCE => {
                std::thread::sleep(TICK);
            }
            result => return result.map(drop),
        }
    }
}
