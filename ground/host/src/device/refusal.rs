//! Why something is not overwritten.

use camino::Utf8PathBuf;
use thiserror::Error;

use super::blocker::Blocker;
use super::report::DeviceReport;

/// Why a device or file is not overwritten. Nothing on it has been changed.
#[derive(Debug, Error)]
pub enum EraseRefused {
    /// Neither a block device nor a file.
    #[error("{device} cannot be used as a device: {why}")]
    NotADevice {
        /// The path.
        device: Utf8PathBuf,
        /// The reason.
        why: String,
    },
    /// The user has not agreed.
    #[error("{0} would be overwritten; if what is on it may be lost, add --erase {0}\n{report}", report.path)]
    NotAsked {
        /// What is on it.
        report: Box<DeviceReport>,
    },
    /// The user has agreed to lose another device.
    #[error(
        "{device} would be overwritten, but --erase names {erase}; name the same in both places\n{report}"
    )]
    OtherDevice {
        /// The one that would be lost.
        device: Utf8PathBuf,
        /// The one named.
        erase: Utf8PathBuf,
        /// What is on it.
        report: Box<DeviceReport>,
    },
    /// Something uses it.
    #[error("{} is in use and is not touched, not even with --erase\n{report}", report.path)]
    InUse {
        /// Everything that is in the way.
        blockers: Vec<Blocker>,
        /// What is on it.
        report: Box<DeviceReport>,
    },
}
