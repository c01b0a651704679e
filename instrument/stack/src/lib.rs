//! Builds and takes down stacks: images, mkfs, mount, each step in the journal.
//!
//! | module | what it holds |
//! |---|---|
//! | [`availability`] | what this machine can build; else the reason and the remedy |
//! | [`builder`], [`mounted`], [`record`] | building, a stack in use, the evidence of how it was built |
//! | [`network`] | which clients of network file systems are here |
//! | `over`, [`link`] | a stack behind a network file system; the link of a stated delay and rate to its server |
//! | [`emulated`] | the emulated SSD that a stack names, as options of a device |
//! | `image`, `mkfs`, `mount`, `steps` | the single steps |
//!
//! The syntax of a stack is crate `spec`; facts of the machine, and whether something may be overwritten, are crate `host`;
//! what was made is in crate `journal`.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use spec::StackSpec;
//! use journal::Journal;
//! use stack::Builder;
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
pub mod link;
mod mkfs;
mod mount;
pub mod mounted;
pub mod network;
mod over;
pub mod record;
mod steps;

pub use availability::{Availability, probe_availability, probe_availability_on};
pub use builder::Builder;
pub use error::StackError;
pub use mounted::{Coldness, MountedStack};
pub use record::{BuildRecord, DeviceInfo, DirectoryInfo};
