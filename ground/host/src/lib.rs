//! What a Linux machine and its kernel say and do: the facts that the laboratory and the systems stand on, each in one
//! place. Nothing here is recorded or undone: crate `journal` does that.
//!
//! | module | holds |
//! |---|---|
//! | [`machine`] | [`Host`]: /proc, /sys and /dev below a root that tests can move |
//! | [`mountinfo`], [`mount`] | what is mounted; mount options, unmounting, who uses a mount |
//! | [`loopdev`], [`block`] | loop devices; facts about block devices |
//! | [`ublk`] | block devices that a process serves |
//! | [`device`] | what lies on a device or in a file, who uses it, may it be overwritten: one door |
//! | [`cgroup`] | memory control groups, v1 and v2 |
//! | [`class`] | scheduling classes of threads |
//! | [`process`], [`daemon`] | process identity; what a daemon behind a file system does with its own memory |
//! | [`runner`] | programs: command lines, running them, a seam for tests |
//! | [`place`] | paths followed by descriptor, so that no link leads astray |
//! | [`unavailable`] | what this machine cannot do, with reason and remedy |
//! | [`mod@note`] | what is said on standard error, whoever reads it |
//! | [`text`] | values in texts of `key: value` lines |
//! | [`bytes`] | numbers of bytes for people |
//! | [`wait`](mod@wait) | waiting with growing pauses |

pub mod block;
pub mod bytes;
pub mod cgroup;
pub mod class;
pub mod daemon;
pub mod device;
pub mod loopdev;
pub mod machine;
pub mod mount;
pub mod mountinfo;
pub mod note;
pub mod place;
pub mod process;
pub mod runner;
pub mod text;
pub mod ublk;
pub mod unavailable;
pub mod wait;

pub use block::BlockInfo;
pub use device::{Blocker, Consent, DeviceReport, EraseRefused, Permit, Signature, may_overwrite};
pub use machine::Host;
pub use process::ProcessId;
pub use runner::{CommandLine, CommandOutput, Runner, SystemRunner};
pub use unavailable::Unavailable;
