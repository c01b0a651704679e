//! What goes wrong with an emulated SSD, where, and what to do.

use camino::Utf8PathBuf;
use host::EraseRefused;
use journal::JournalError;
use thiserror::Error;

/// An operation on an emulated SSD that failed.
#[derive(Debug, Error)]
pub enum SsdError {
    /// A name that cannot be a directory's.
    #[error("device name `{name}`: must be 1 to 40 letters, digits, `-` or `_`")]
    BadName {
        /// The name.
        name: String,
    },
    /// Something about the options.
    #[error("{what}")]
    BadOption {
        /// What is wrong and what would be right.
        what: String,
    },
    /// No profile of that name, or a capacity that the model does not take.
    #[error(transparent)]
    Model(#[from] ssd::error::ConfigError),
    /// A fault that cannot be read.
    #[error(transparent)]
    Fault(#[from] ssd::error::FaultError),
    /// No such device.
    #[error("no emulated SSD named `{name}` is attached; `loadline ssd list` shows those there are")]
    NotFound {
        /// The name.
        name: String,
    },
    /// A living device has that name.
    #[error("an emulated SSD named `{name}` is already attached as {device}; detach it or choose a --name")]
    Exists {
        /// The name.
        name: String,
        /// Its block device.
        device: Utf8PathBuf,
    },
    /// The block device is in use.
    #[error(
        "{device} is in use (mounted or opened exclusively, perhaps by a container that began while it was mounted); \
         unmount it first"
    )]
    Busy {
        /// The block device.
        device: Utf8PathBuf,
    },
    /// Not root.
    #[error("attaching a block device needs CAP_SYS_ADMIN; run as root")]
    NotRoot,
    /// The daemon said no.
    #[error("the device's daemon: {message}")]
    Daemon {
        /// Its words.
        message: String,
    },
    /// The daemon is gone or hangs.
    #[error("the daemon of `{name}` does not answer ({what}); `loadline ssd detach --force {name}` ends it")]
    Silent {
        /// The device's name.
        name: String,
        /// The symptom.
        what: String,
    },
    /// The device was attached without a recording.
    #[error("`{name}` is not being recorded; attach it with a file to record to")]
    NotRecorded {
        /// The device's name.
        name: String,
    },
    /// This kernel has no ublk.
    #[error(
        "this kernel ({release}) has no /dev/ublk-control: ublk needs Linux 6.4 and the module ublk_drv (modprobe ublk_drv); \
         otherwise another transport, or the stack in a guest: +kernel:debian-6.12"
    )]
    NoUblk {
        /// The kernel's release.
        release: String,
    },
    /// The recording.
    #[error(transparent)]
    Record(#[from] crate::record::RecordError),
    /// The backing file is somebody else's.
    #[error(transparent)]
    Erase(#[from] EraseRefused),
    /// The journal of what was made.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The system refused something.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
}

impl SsdError {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> SsdError {
        let what = what.into();
        move |source| SsdError::Io { what, source }
    }
}
