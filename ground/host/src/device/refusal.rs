//! Why something is not overwritten.

use std::fmt;

use camino::Utf8PathBuf;
use thiserror::Error;

use super::report::{DeviceReport, MountedPart};

/// A fact that forbids overwriting a device or file even when the user asks for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Blocker {
    /// It or a part of it is mounted.
    Mounted(MountedPart),
    /// It or a part of it is swap space in use.
    Swap(Utf8PathBuf),
    /// Another device is built on it.
    Held(String),
    /// It belongs to a running md array.
    Array(String),
    /// It cannot be written.
    ReadOnly,
    /// What lies on it or who uses it cannot be found out.
    Unreadable(String),
    /// Somebody else has claimed it, or the kernel refuses an exclusive open.
    NotExclusive(String),
}

impl Blocker {
    /// Whether only what lies there is not known; who uses it is.
    pub(super) fn is_ignorance(&self) -> bool {
        matches!(self, Blocker::Unreadable(_))
    }
}

impl fmt::Display for Blocker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Blocker::Mounted(mount) => {
                write!(f, "{0} is mounted at {1} (umount {1})", mount.source, mount.target)
            }
            Blocker::Swap(path) => write!(f, "{path} is swap space in use (swapoff {path})"),
            Blocker::Held(name) => write!(f, "device {name} is built on it (take {name} down first)"),
            Blocker::Array(name) => write!(f, "it belongs to the array {name} (mdadm --stop /dev/{name})"),
            Blocker::ReadOnly => write!(f, "it is read-only"),
            Blocker::Unreadable(why) => write!(f, "what it holds cannot be told: {why}"),
            Blocker::NotExclusive(why) => {
                write!(f, "it cannot be opened exclusively, so something uses it: {why}")
            }
        }
    }
}

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
