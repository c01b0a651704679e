//! Builds and takes down stacks: images, loop devices, mkfs, mount, cgroups; and the journal of what was
//! made.
//!
//! | module | what it holds |
//! |---|---|
//! | crate [`spec`] | the stack syntax `FS[,option...]@DEVICE[:REGIME]` |
//! | [`availability`] | what this machine can build; else the reason and the remedy |
//! | [`emulated`] | the emulated SSD that a stack names, as options of a device |
//! | [`builder`], [`mounted`], [`record`] | building, a stack in use, the evidence of how it was built |
//! | `image`, [`loopdev`], `mkfs`, `mount`, [`mountinfo`] | the single steps |
//! | [`block`] | facts about a block device; [`device`]: what lies on a real one or in a file, may it be overwritten |
//! | [`journal`] | what was made, on disk before it is made; undoing it, also after a crash |
//! | [`dead_mount`] | mounts of betrfs whose daemon was killed |
//! | [`daemon`] | what a daemon behind a file system or device does with its own memory |
//! | [`cgroup`] | memory limits, control groups v1 and v2 |
//! | `place` | directories that others could steer: opened by descriptor, and distrusted |
//! | [`host`], [`runner`], [`process`] | the seams: /proc and /sys, programs, process identity |
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use spec::StackSpec;
//! use stack::{Builder, Journal};
//!
//! let spec: StackSpec = "ext4,data=journal@image:4G".parse()?;
//! let journal = Journal::open("/var/lib/loadline/journal".into(), "run-1")?;
//! let built = Builder::new("/var/tmp/loadline").build(&spec, &journal)?;
//! println!("{} is at {}", built.spec(), built.path());
//! built.remount_cold()?;
//! built.teardown()?;
//! # Ok(())
//! # }
//! ```
//!
//! Rules that hold everywhere: nothing is overwritten but what loadline made or what is named in `erase` and
//! nothing uses; every resource is in the journal before it exists; before anything is undone it is verified
//! to be still the thing that was made.

pub mod availability;
pub mod builder;
pub mod emulated;
mod error;
mod image;
mod mkfs;
mod mount;
pub mod mounted;
pub mod record;
mod steps;

pub use availability::{Availability, probe_availability, probe_availability_on};
pub use builder::Builder;
pub use error::StackError;
pub use mounted::{Coldness, MountedStack};
pub use record::{BuildRecord, DeviceInfo, DirectoryInfo};
