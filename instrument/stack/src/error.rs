//! What can go wrong while a stack is built, used, or taken down.

use std::io;

use camino::Utf8PathBuf;
use thiserror::Error;

use host::Unavailable;
use host::device::EraseRefused;
use journal::loopdev::AttachError;
use journal::{JournalError, UndoReport};
use spec::Size;

/// Why a stack could not be built, remounted or taken down. Whatever had been made is undone when it is
/// returned.
#[derive(Debug, Error)]
pub enum StackError {
    /// This machine or this user cannot.
    #[error("unavailable here: {0}")]
    Unavailable(#[from] Unavailable),
    /// The journal refused, or could not be written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A real device may not be formatted.
    #[error(transparent)]
    Erase(#[from] EraseRefused),
    /// A file or a directory could not be made or read.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: Utf8PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The image is larger than the free space.
    #[error(
        "{work_dir} has {free} free, and the image may grow to {wanted}; \
         choose another work directory or a smaller image (for example ext4@image:1G)"
    )]
    NoSpace {
        /// The work directory.
        work_dir: Utf8PathBuf,
        /// The image's size, for people.
        wanted: String,
        /// The free space, for people.
        free: String,
    },
    /// The device is smaller than the file system needs.
    #[error("{fs} needs a device of at least {min}, and this one has {size}; write {fs}@image:{min} or more")]
    TooSmall {
        /// The file system.
        fs: &'static str,
        /// The device's size.
        size: Size,
        /// The smallest size.
        min: Size,
    },
    /// No loop device could be attached.
    #[error("attaching a loop device, {path}: {source}{hint}")]
    Loop {
        /// The device or the file.
        path: Utf8PathBuf,
        /// The system's error.
        source: io::Error,
        /// What to do, if known.
        hint: &'static str,
    },
    /// The loop device shows another file than the one it was given.
    #[error(
        "{device} was attached to {wanted} but shows {shown}; \
         is the work directory reached through another mount namespace?"
    )]
    LoopMismatch {
        /// The loop device.
        device: Utf8PathBuf,
        /// The file it was given.
        wanted: Utf8PathBuf,
        /// What /sys says.
        shown: String,
    },
    /// A program could not be started or did not end.
    #[error("`{command}` could not be run: {source}")]
    Spawn {
        /// The command line.
        command: String,
        /// The system's error.
        source: io::Error,
    },
    /// mkfs said no.
    #[error("`{command}` failed ({status}): {message}")]
    Mkfs {
        /// The command line.
        command: String,
        /// Exit code or signal.
        status: String,
        /// What it printed.
        message: String,
    },
    /// mount said no.
    #[error("`{command}` failed ({status}): {message}{kernel}")]
    Mount {
        /// The command line.
        command: String,
        /// Exit code or signal.
        status: String,
        /// What it printed.
        message: String,
        /// What the kernel's file-system context said about it.
        kernel: String,
    },
    /// mount said yes, but the mount is not there.
    #[error("`{command}` reported success, but {found}")]
    NotMounted {
        /// The command line.
        command: String,
        /// What is found instead.
        found: String,
    },
    /// The mount is in use and cannot be taken off.
    #[error("{target} is busy: {users}")]
    Busy {
        /// The mount point.
        target: Utf8PathBuf,
        /// Who uses it.
        users: String,
    },
    /// Something could not be taken down, or only lazily.
    #[error("the stack was not taken down cleanly:\n{0}")]
    Teardown(UndoReport),
    /// Building failed, and what had been made could not all be undone.
    #[error("{error}\nand taking down what had been made:\n{report}")]
    Rollback {
        /// Why building failed.
        error: Box<StackError>,
        /// What was undone and what was not.
        report: UndoReport,
    },
}

impl From<(Utf8PathBuf, io::Error)> for StackError {
    fn from((path, source): (Utf8PathBuf, io::Error)) -> Self {
        StackError::Io { path, source }
    }
}

impl StackError {
    pub(crate) fn from_attach(error: AttachError, file: &Utf8PathBuf) -> Self {
        match error {
            AttachError::Journal(error) => StackError::Journal(error),
            AttachError::Io(path, source) => {
                let hint = match source.raw_os_error() {
                    Some(libc::EBUSY) => "; other programs keep taking the free devices: try again",
                    Some(libc::EINVAL) => {
                        "; the file's own device may have larger sectors (write image(SIZE,sector=4096)), or \
                         the kernel is older than 5.8"
                    }
                    Some(libc::ENOSPC) | Some(libc::ENODEV) => "; no loop device is free: see losetup --list",
                    _ => "",
                };
                StackError::Loop { path, source, hint }
            }
            AttachError::WrongFile(device, shown) => StackError::LoopMismatch {
                device,
                wanted: file.clone(),
                shown: shown.map_or("no file".into(), Utf8PathBuf::into_string),
            },
        }
    }
}
