//! What forbids overwriting.

use std::fmt;

use camino::Utf8PathBuf;
use serde::Serialize;

/// A mount of the device or of a part of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MountedPart {
    /// The device.
    pub source: String,
    /// Where.
    pub target: Utf8PathBuf,
}

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
    pub(super) fn is_unknown(&self) -> bool {
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
