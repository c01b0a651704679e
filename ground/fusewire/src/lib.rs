//! The kernel's FUSE protocol, and both ways it is carried: `/dev/fuse` and io_uring.
//!
//! | module | change here |
//! |---|---|
//! | [`wire`] | the bytes: requests taken apart, answers put together, handshake, notifications |
//! | `serve` | what a file system is ([`FileSystem`]), and how it answers ([`Reply`], [`DeferredReply`]) |
//! | `device` | an open `/dev/fuse` |
//! | [`uring`] | a thread's io_uring and mailbox, of servers of other kernel interfaces too |
//! | `mailbox` | answers for a thread of ours with an io_uring, from other threads |
//! | `classic`, `throttle` | threads that read `/dev/fuse`, and which of them rest |
//! | `ring` | threads with an io_uring each |
//! | `session` | mount, handshake, serving, end |
//! | `abort` | a thread that panics ends the process |
//! | [`local`] | file systems of this machine alone: what the kernel may cache, how they are mounted |
//! | `preemption_ticker` | threads that take turns at writing to a file are not held up by the scheduler: [`PreemptionTicker`] |
//! | `single_client` | a client that is alone on its processor stays there |
//! | `small` | small threads, for both of them |
//! | `notify` | what the kernel is told unasked: [`Notifier`] |
//! | `transport` | which way, and the machine's switch |
//! | `fuzzing` | for fuzz targets: a file system is asked without a kernel |

mod abort;
mod classic;
mod device;
#[doc(hidden)]
pub mod fuzzing;
pub mod local;
mod mailbox;
mod notify;
mod preemption_ticker;
mod ring;
mod serve;
mod session;
mod single_client;
mod small;
mod throttle;
mod transport;
pub mod uring;
pub mod wire;

pub use abort::AbortOnPanic;
pub use notify::Notifier;
pub use preemption_ticker::PreemptionTicker;
pub use serve::{Answered, DeferredReply, FileSystem, Reply};
pub use session::{Config, Session, force_unmount, mount, unmount};
pub use throttle::WorkerThrottle;
pub use transport::{Transport, TransportKind, URING_SWITCH, UringSwitch, uring_is_on};
