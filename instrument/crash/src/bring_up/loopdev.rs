//! A worker's loop device: attached once, for all its states.
//!
//! The ioctl numbers and structures are those of the kernel's `include/uapi/linux/loop.h` and `fs.h`.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;

use camino::{Utf8Path, Utf8PathBuf};
use journal::EntryId;
use journal::{Journal, Resource};

use crate::error::CrashError;
use crate::recording::BLOCK;

const LOOP_CONFIGURE: libc::Ioctl = 0x4C0A;
const LOOP_CTL_GET_FREE: libc::Ioctl = 0x4C82;
const BLKFLSBUF: libc::Ioctl = 0x1261;
/// How often another program may snatch the free device between asking for it and configuring it.
const TRIES: u32 = 64;

/// `struct loop_config`, of which only these fields are used.
#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    rest: [u8; 296],
}

/// Attaches `file` to a free loop device, which the journal knows of before it exists.
pub(crate) fn attach(journal: &Journal, file: &Utf8Path) -> Result<(Utf8PathBuf, EntryId), CrashError> {
    let control_path = Utf8Path::new("/dev/loop-control");
    let control = read_write(control_path).map_err(CrashError::io("open /dev/loop-control"))?;
    let backing = read_write(file).map_err(CrashError::io(format!("open {file}")))?;
    for _ in 0..TRIES {
        // SAFETY: the descriptor is open, and this request takes no argument.
        let number = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) };
        if number < 0 {
            return Err(CrashError::io("find a free loop device")(io::Error::last_os_error()));
        }
        let device = Utf8PathBuf::from(format!("/dev/loop{number}"));
        let resource = Resource::LoopDevice { device: device.clone(), backing_file: file.to_owned() };
        let made = journal.create(resource, || {
            let opened = read_write(&device).map_err(CrashError::io(format!("open {device}")))?;
            configure(&opened, &backing).map_err(CrashError::io(format!("attach {device}")))
        });
        match made {
            Ok((id, ())) => return Ok((device, id)),
            Err((id, error)) => {
                // made wholly or not at all: what is there now belongs to somebody else
                if let Some(id) = id {
                    journal.forget(id)?;
                }
                match error {
                    CrashError::Io { source, .. } if source.raw_os_error() == Some(libc::EBUSY) => {}
                    error => return Err(error),
                }
            }
        }
    }
    Err(CrashError::io("find a free loop device")(io::Error::from_raw_os_error(libc::EBUSY)))
}

fn read_write(path: &Utf8Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open(path)
}

fn configure(device: &File, backing: &File) -> io::Result<()> {
    let config = LoopConfig { fd: backing.as_raw_fd() as u32, block_size: BLOCK as u32, rest: [0; 296] };
    // SAFETY: both descriptors are open, and `config` has the layout and size of the kernel's struct
    // loop_config, which the kernel only reads during the call.
    let result = unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE, &raw const config) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Forgets what the kernel has cached of the device: its file was changed underneath.
pub(crate) fn forget_cache(device: &Utf8Path) -> io::Result<()> {
    let opened = File::open(device)?;
    // SAFETY: the descriptor is open, and this request takes no argument.
    let result = unsafe { libc::ioctl(opened.as_raw_fd(), BLKFLSBUF, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structure_has_the_size_of_the_kernels() {
        assert_eq!(std::mem::size_of::<LoopConfig>(), 304);
    }
}
