//! An emulated SSD: flash timing, volatile cache, flash translation layer, power cut. Sans-I/O.
//!
//! [`Ssd`] is a state machine: the caller owns the clock and the bytes, the device moves tokens. Same
//! commands, same times, same seed: same completions.
//!
//! | module | change here |
//! |---|---|
//! | `command`, `error` | what a host sends and gets back |
//! | `profile`, `built_in`, `profiles/*.toml` | devices as data; every value with its source |
//! | `slow` | the parametric profile `slow(LATENCY,RATE)` |
//! | `geometry` | flash addresses, scaling to a capacity |
//! | `fault` | commands that are told to fail |
//! | `regime`, `order` | what survives in which order; streams and epochs |
//! | `cache`, `window` | versions on their way to flash; what a flush waits for |
//! | `flash`, `journal` | all that survives a power cut: pages, map journal, map segments |
//! | `ftl` | the two maps, delayed mapping, collection, wear, recovery: steps without time |
//! | `timing` | time on controller, link, channels, dies, arm |
//! | `device` | commands and time put together; flush and FUA; power |
//! | `tags` | the host's epoch counters, pinning, and the check of both |
//! | `metric`, `measure` | closed-loop figures of a profile |
//! | `oracle` | which images a power cut may lawfully leave |
//! | `soak` | random hosts against the oracle; `mutation` plants bugs it must find |

mod built_in;
mod cache;
pub mod command;
mod device;
pub mod error;
pub mod fault;
mod flash;
mod ftl;
pub mod geometry;
mod journal;
pub mod measure;
mod metric;
#[doc(hidden)]
pub mod mutation;
pub mod oracle;
mod order;
pub mod profile;
pub mod regime;
mod slow;
pub mod soak;
pub mod stats;
pub mod tags;
mod timing;
mod window;

pub use command::{BLOCK_BYTES, Command, Completion, Nanos, Op, Status, StreamTag, Tags, Token};
pub use device::{Config, PowerCut, Recovery, Ssd};
pub use fault::{Fault, FaultOp, FaultTrigger, Faults};
pub use ftl::UNREADABLE;
pub use geometry::Geometry;
pub use order::EPOCHS_AHEAD_MAX;
pub use profile::Profile;
pub use regime::Regime;
pub use stats::Stats;
