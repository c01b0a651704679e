//! The kinds of things a run makes.

use std::fmt;

use camino::Utf8PathBuf;
use serde::{Deserialize, Serialize};

use host::ProcessId;

use crate::orphans::Orphans;

/// One thing that a run makes and must take away. Paths are absolute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Resource {
    /// A private directory with everything in it. Undone only if the marker file within it holds `nonce`, or
    /// if it is empty.
    Tree {
        /// The directory.
        path: Utf8PathBuf,
        /// The random word in the marker file.
        nonce: String,
    },
    /// A directory that is removed only when it is empty.
    Directory {
        /// The directory.
        path: Utf8PathBuf,
    },
    /// A file; must lie in a private directory or have a name nobody else would choose.
    ImageFile {
        /// The file.
        path: Utf8PathBuf,
    },
    /// A loop device; ours only as long as its backing file is this one.
    LoopDevice {
        /// Such as `/dev/loop3`.
        device: Utf8PathBuf,
        /// The file it shows.
        backing_file: Utf8PathBuf,
    },
    /// A block device that a daemon serves; ours only as long as it has this tag.
    UblkDevice {
        /// N of `/dev/ublkbN`.
        number: u32,
        /// A random number that the kernel keeps with it.
        tag: u64,
        /// The directory of the daemon.
        owner: Utf8PathBuf,
    },
    /// A mount; ours only as long as the topmost mount at the target has this source and type.
    Mount {
        /// Where.
        target: Utf8PathBuf,
        /// The device, or the unique word given as source.
        source: String,
        /// The kernel's name of the file system.
        fs_type: String,
    },
    /// A control group.
    Cgroup {
        /// Its directory; the last part begins with `loadline-`.
        path: Utf8PathBuf,
    },
    /// A process, such as a daemon or a workload; ended on undo.
    Process {
        /// Number and start time.
        process: ProcessId,
        /// What it is, for people.
        what: String,
        /// How the processes are known that it has forked, when they may outlive it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        orphans: Option<Orphans>,
    },
}

impl Resource {
    /// Whether a reboot takes it away.
    pub(crate) fn dies_with_the_boot(&self) -> bool {
        match self {
            Resource::Tree { .. } | Resource::Directory { .. } | Resource::ImageFile { .. } => false,
            Resource::LoopDevice { .. } | Resource::UblkDevice { .. } | Resource::Mount { .. } => true,
            Resource::Cgroup { .. } | Resource::Process { .. } => true,
        }
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Resource::Tree { path, .. } => write!(f, "directory {path} and its contents"),
            Resource::Directory { path } => write!(f, "directory {path}"),
            Resource::ImageFile { path } => write!(f, "image file {path}"),
            Resource::LoopDevice { device, backing_file } => {
                write!(f, "loop device {device} on {backing_file}")
            }
            Resource::UblkDevice { number, owner, .. } => {
                write!(f, "block device /dev/ublkb{number} of {owner}")
            }
            Resource::Mount { target, source, fs_type } => {
                write!(f, "mount of {source} ({fs_type}) at {target}")
            }
            Resource::Cgroup { path } => write!(f, "control group {path}"),
            Resource::Process { process, what, .. } => write!(f, "process {} ({what})", process.pid),
        }
    }
}
