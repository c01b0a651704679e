//! Attaching files to loop devices, each attempt in the journal before it is made.

use std::io;

use camino::{Utf8Path, Utf8PathBuf};
use host::Host;
use host::loopdev::{LoopOptions, backing_file, clear, configure, get_free, open_rw, remove_partitions};

use crate::{EntryId, Journal, JournalError, Resource};

/// How often another program may snatch the free device between asking for it and configuring it.
const ATTACH_TRIES: u32 = 64;

/// Why a file could not be attached.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// The journal refused.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// This path, this error.
    #[error("{0}: {1}")]
    Io(Utf8PathBuf, io::Error),
    /// The device shows another file than the one given.
    #[error("{0} shows {1:?}, not the file that was attached to it")]
    WrongFile(Utf8PathBuf, Option<Utf8PathBuf>),
}

/// Attaches `file` (absolute, without symbolic links) to a free loop device, each attempt recorded in `journal`
/// beforehand. Returns the device and the entry that stands for it.
///
/// # Errors
/// [`AttachError::Io`] with `EBUSY` when other programs keep taking the free devices.
pub fn attach(
    host: &Host,
    journal: &Journal,
    file: &Utf8Path,
    options: LoopOptions,
) -> Result<(Utf8PathBuf, EntryId), AttachError> {
    let control_path = Utf8PathBuf::from("/dev/loop-control");
    let control = open_rw(&host.path(&control_path)).map_err(|e| AttachError::Io(control_path.clone(), e))?;
    let backing = host::place::open_own_rw(file).map_err(|e| AttachError::Io(file.to_owned(), e))?;
    let mut last = io::Error::from_raw_os_error(libc::EBUSY);
    for _ in 0..ATTACH_TRIES {
        let number = get_free(&control).map_err(|e| AttachError::Io(control_path.clone(), e))?;
        let device = Utf8PathBuf::from(format!("/dev/loop{number}"));
        let resource = Resource::LoopDevice { device: device.clone(), backing_file: file.to_owned() };
        let attached = journal.create_exclusive(resource, || {
            let opened = open_rw(&host.path(&device)).map_err(|e| AttachError::Io(device.clone(), e))?;
            configure(&opened, &backing, options).map_err(|e| AttachError::Io(device.clone(), e))?;
            // of an earlier file, which somebody used until it was gone
            remove_partitions(host, &device, &opened).map_err(|e| {
                // its entry goes with this error
                let _ = clear(&opened);
                AttachError::Io(device.clone(), e)
            })
        });
        match attached {
            Ok((id, ())) => {
                let shown = backing_file(host, &device);
                if shown.as_deref() == Some(file) {
                    return Ok((device, id));
                }
                journal.undo_entries(&[id]);
                return Err(AttachError::WrongFile(device, shown));
            }
            Err(AttachError::Io(_, error)) if error.raw_os_error() == Some(libc::EBUSY) => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(AttachError::Io(control_path, last))
}
