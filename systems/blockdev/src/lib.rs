//! The emulated SSD in real time: a block device that unmodified file systems and programs run on.
//!
//! A daemon serves one FUSE file, `disk`, and attaches it to a loop device, or it serves the queues of a ublk device. The model of crate `ssd` decides
//! when each request completes; the bytes lie beside it, with those superseded versions that a power cut
//! could still bring back.
//!
//! | module | change here |
//! |---|---|
//! | `image`, `versions` | the bytes: in memory or in a file; what a power cut leaves of them |
//! | `backing` | the file: whose it is, and whether it may be used |
//! | `fua` | which flushes stand in for FUA |
//! | `engine` | requests, model and bytes put together; no clock, no threads |
//! | [`record`] | the requests of a device in a file: writer, reader, format |
//! | `driver` | real time: the lock, the timer thread, the compensation of the transport |
//! | `fuse` | the FUSE file, on crate fusewire |
//! | [`transport`] | which of the two, or ublk, and what this machine has |
//! | `ublk` | the queues of a ublk device: several, and FUA |
//! | `reply` | who waits for an answer, whichever way its request came |
//! | `wake_lock` | CPUs that do not sleep while the device is in use |
//! | `loopdev`, `fusectl`, `memory` | loop device, abort of a hung connection, locked memory, cgroup |
//! | [`daemon`], `assemble`, `control` | the process behind a device, how it puts it together, what it is asked |
//! | [`status`] | counters, also as Prometheus text |

mod assemble;
mod backing;
pub mod client;
mod control;
pub mod daemon;
mod driver;
mod engine;
mod error;
mod fua;
mod fuse;
mod fusectl;
mod image;
mod loopdev;
mod memory;
pub mod options;
pub mod record;
mod reply;
pub mod status;
pub mod transport;
mod ublk;
mod versions;
mod wake_lock;

pub use client::{
    Attached, Launcher, Listed, attach, detach, fail, list, mark, power_cut, stats, sweep, sync_record,
};
pub use control::SsdState;
pub use error::SsdError;
pub use options::{AttachOptions, Backing, BackingUse, FuaMode, NAME_MAX};
pub use status::SsdStatus;
pub use transport::Transport;
pub use versions::CutReport;
