//! The loop device over the FUSE file: 4096-byte sectors, direct I/O, requests as large as FUSE carries.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;

use camino::{Utf8Path, Utf8PathBuf};
use host::Host;
use host::loopdev::LoopOptions;
use journal::Journal;
use journal::loopdev::AttachError;

use crate::error::SsdError;

/// Discards come in pieces of this size: the bytes of each are copied in one go.
pub(crate) const DISCARD_BYTES_MAX: u32 = 64 << 20;

/// Attaches `file` to a free loop device, which the journal knows of before it exists.
pub(crate) fn attach(host: &Host, journal: &Journal, file: &Utf8Path) -> Result<Utf8PathBuf, SsdError> {
    let options = LoopOptions { direct_io: true, sector_bytes: crate::image::BLOCK as u32 };
    let (device, _) = journal::loopdev::attach(host, journal, file, options)?;
    Ok(device)
}

impl From<AttachError> for SsdError {
    fn from(error: AttachError) -> SsdError {
        match error {
            AttachError::Journal(error) => SsdError::Journal(error),
            AttachError::Io(path, source) => SsdError::Io { what: format!("attach {path}"), source },
            wrong @ AttachError::WrongFile(..) => SsdError::Daemon { message: wrong.to_string() },
        }
    }
}

/// Sets the queue limits; what could not be set is said.
pub(crate) fn tune(device: &Utf8Path, rotating: bool) -> Vec<String> {
    let queue = format!("/sys/block/{}/queue", device.file_name().unwrap_or_default());
    let settings = [
        ("max_sectors_kb", (crate::fuse::REQUEST_BYTES_MAX / 1024).to_string()),
        ("discard_max_bytes", DISCARD_BYTES_MAX.to_string()),
        ("rotational", u32::from(rotating).to_string()),
        ("add_random", "0".to_string()),
        // as loop devices have it; a ublk device of one queue would get another
        ("scheduler", "none".to_string()),
    ];
    let mut notes = Vec::new();
    for (name, value) in settings {
        let path = format!("{queue}/{name}");
        // an older or newer kernel may lack one
        if std::path::Path::new(&path).exists()
            && let Err(error) = std::fs::write(&path, &value)
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
