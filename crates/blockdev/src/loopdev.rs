//! The loop device over the FUSE file: 4096-byte sectors, direct I/O, requests as large as FUSE carries.
//!
//! The ioctl numbers and structures are those of the kernel's `include/uapi/linux/loop.h`.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

use camino::{Utf8Path, Utf8PathBuf};
use stack::journal::EntryId;
use stack::{Journal, JournalError, Resource};

use crate::error::SsdError;

const LOOP_CONFIGURE: libc::Ioctl = 0x4C0A;
const LOOP_CTL_GET_FREE: libc::Ioctl = 0x4C82;
const LO_FLAGS_DIRECT_IO: u32 = 16;
/// How often another program may snatch the free device between asking for it and configuring it.
const TRIES: u32 = 64;
/// Discards come in pieces of this size: the bytes of each are copied in one go.
const DISCARD_BYTES_MAX: u32 = 64 << 20;

/// `struct loop_config`, of which only these fields are used.
#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    /// Device, inode, rdevice, offset, size limit.
    info: [u64; 5],
    number_and_encryption: [u32; 3],
    flags: u32,
    rest: [u8; 240],
}

/// Attaches `file` to a free loop device, which the journal knows of before it exists.
pub(crate) fn attach(journal: &Journal, file: &Utf8Path) -> Result<(Utf8PathBuf, EntryId), SsdError> {
    let failed = |what: String| move |source| SsdError::Io { what, source };
    let control = read_write("/dev/loop-control".into()).map_err(failed("open /dev/loop-control".into()))?;
    let backing = read_write(file).map_err(failed(format!("open {file}")))?;
    for _ in 0..TRIES {
        // SAFETY: the descriptor is open, and this request takes no argument.
        let number = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) };
        if number < 0 {
            return Err(failed("find a free loop device".into())(io::Error::last_os_error()));
        }
        let device = Utf8PathBuf::from(format!("/dev/loop{number}"));
        let resource = Resource::LoopDevice { device: device.clone(), backing_file: file.to_owned() };
        let made = journal.create(resource, || {
            let opened = read_write(&device).map_err(failed(format!("open {device}")))?;
            configure(&opened, &backing).map_err(failed(format!("attach {device}")))
        });
        match made {
            Ok((id, ())) => return Ok((device, id)),
            Err((id, error)) => {
                // made wholly or not at all: what is there now belongs to somebody else
                if let Some(id) = id {
                    journal.forget(id)?;
                }
                match error {
                    SsdError::Io { source, .. } if source.raw_os_error() == Some(libc::EBUSY) => {}
                    error => return Err(error),
                }
            }
        }
    }
    Err(failed("find a free loop device".into())(io::Error::from_raw_os_error(libc::EBUSY)))
}

impl From<JournalError> for SsdError {
    fn from(source: JournalError) -> SsdError {
        SsdError::Journal(source)
    }
}

fn read_write(path: &Utf8Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open(path)
}

fn configure(device: &File, backing: &File) -> io::Result<()> {
    let config = LoopConfig {
        fd: backing.as_raw_fd() as u32,
        block_size: crate::image::BLOCK as u32,
        info: [0; 5],
        number_and_encryption: [0; 3],
        flags: LO_FLAGS_DIRECT_IO,
        rest: [0; 240],
    };
    // SAFETY: both descriptors are open, and `config` has the layout and size of the kernel's struct
    // loop_config, which the kernel only reads during the call.
    let result = unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE, &raw const config) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sets the queue limits; what could not be set is said.
pub(crate) fn tune(device: &Utf8Path, rotating: bool) -> Vec<String> {
    let queue = format!("/sys/block/{}/queue", device.file_name().unwrap_or_default());
    let settings = [
        ("max_sectors_kb", crate::fuse::REQUEST_BYTES_MAX / 1024),
        ("discard_max_bytes", DISCARD_BYTES_MAX),
        ("rotational", u32::from(rotating)),
        ("add_random", 0),
    ];
    let mut notes = Vec::new();
    for (name, value) in settings {
        let path = format!("{queue}/{name}");
        // an older or newer kernel may lack one
        if std::path::Path::new(&path).exists()
            && let Err(error) = std::fs::write(&path, value.to_string())
        {
            notes.push(format!("{path} could not be set to {value}: {error}"));
        }
    }
    let dio =
        std::fs::read_to_string(format!("/sys/block/{}/loop/dio", device.file_name().unwrap_or_default()));
    if dio.is_ok_and(|text| text.trim() != "1") {
        notes.push(format!("{device} does not do direct I/O: requests may be cut and reordered"));
    }
    notes
}

/// Whether a file system or program has claimed the device.
pub(crate) fn is_busy(device: &Utf8Path) -> bool {
    let claim = OpenOptions::new().read(true).custom_flags(libc::O_EXCL).open(device);
    claim.is_err_and(|error| error.raw_os_error() == Some(libc::EBUSY))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structure_has_the_kernels_layout() {
        assert_eq!(std::mem::size_of::<LoopConfig>(), 304);
        assert_eq!(std::mem::offset_of!(LoopConfig, flags), 60);
    }
}
