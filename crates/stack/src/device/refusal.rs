//! Why a device is not formatted.

use std::fmt;

use camino::Utf8PathBuf;
use thiserror::Error;

use super::report::{DeviceReport, MountedPart};

/// A fact that forbids formatting a device even when the user asks for it.
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
    /// The kernel refuses an exclusive open.
    NotExclusive(String),
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

/// Why a real device is not formatted. Nothing on it has been changed.
#[derive(Debug, Error)]
pub enum EraseRefused {
    /// Not a block device.
    #[error("{device} cannot be used as a device: {why}")]
    NotADevice {
        /// The path.
        device: Utf8PathBuf,
        /// The reason.
        why: String,
    },
    /// The user has not agreed.
    #[error("formatting destroys what is on {0}; if that is meant, add --erase {0}\n{report}", report.path)]
    NotAsked {
        /// What is on it.
        report: Box<DeviceReport>,
    },
    /// The user has agreed to lose another device.
    #[error("the stack is on {device}, but --erase names {erase}; name the same device in both places")]
    OtherDevice {
        /// The device of the stack.
        device: Utf8PathBuf,
        /// The one named.
        erase: Utf8PathBuf,
    },
    /// Something uses it.
    #[error("{} is in use and is not formatted, not even with --erase\n{report}", report.path)]
    InUse {
        /// Everything that is in the way.
        blockers: Vec<Blocker>,
        /// What is on it.
        report: Box<DeviceReport>,
    },
}
