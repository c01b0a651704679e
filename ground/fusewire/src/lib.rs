//! The kernel's FUSE protocol, and both ways it is carried: `/dev/fuse` and io_uring.
//!
//! | module | change here |
//! |---|---|
//! | [`wire`] | the bytes: requests taken apart, answers put together, handshake, notifications |
//! | `serve` | what a file system is ([`FileSystem`]), and how it answers ([`Reply`], [`Later`]) |
//! | `device` | an open `/dev/fuse` |
//! | [`uring`] | a thread's io_uring and mailbox, of servers of other kernel interfaces too |
//! | `mailbox` | answers for a thread of ours with an io_uring, from other threads |
//! | `classic`, `duty` | threads that read `/dev/fuse`, and which of them rest |
//! | `ring` | threads with an io_uring each |
//! | `session` | mount, handshake, serving, end |
//! | [`local`] | file systems of this machine alone: what the kernel may cache, how they are mounted |
//! | `beat` | threads that take turns at writing to a file are not held up by the scheduler: [`Beat`] |
//! | `lone` | a client that is alone on its processor stays there |
//! | `small` | small threads, for both of them |
//! | `notify` | what the kernel is told unasked: [`Notifier`] |
//! | `transport` | which way, and the machine's switch |

mod beat;
mod classic;
mod device;
mod duty;
pub mod local;
mod lone;
mod mailbox;
mod notify;
mod ring;
mod serve;
mod session;
mod small;
mod transport;
pub mod uring;
pub mod wire;

pub use beat::Beat;
pub use duty::Duty;
pub use notify::Notifier;
pub use serve::{Answered, FileSystem, Later, Reply};
pub use session::{Config, Session, force_unmount, mount, unmount};
pub use transport::{Transport, URING_SWITCH, UringSwitch, Way, uring_is_on};
