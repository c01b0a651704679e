//! Decides what to prefetch, how deep, and when not to: the pure core of cross-layer prefetching.
//!
//! No system calls, clock, threads or allocation on the policy's path: a shell (the LD_PRELOAD library, the
//! daemon, the simulator) tells it of reads with their times, and takes requests from it. Every figure it acts
//! on was measured by the shell, so a recorded trace replays to the same decisions.
//!
//! | module | holds |
//! |---|---|
//! | [`tuning`] | modes, and all constants |
//! | [`vote`] | the deltas of a stream and their majority |
//! | [`course`] | the way of a stream: forward, backward, stride, recognised from its reads |
//! | [`ahead`] | what is prefetched ahead of a stream |
//! | [`stream`] | one stream: its course, what is ahead of it, how its reads went |
//! | [`file`](mod@file) | the streams of a file, its misses, fetching all of it, feedback |
//! | [`rent`] | fetching files whose misses have no pattern, once that pays |
//! | [`pace`] | what fetching costs on a device, and how much of it may be under way |
//! | [`pairs`] | what a device delivers at most, from misses that wait in one queue |
//! | [`device`] | the evidence about a device: latency, bandwidth, caps, what is under way |
//! | [`model`] | what is believed of a device at a moment, in figures |
//! | [`decide`](mod@decide) | whether a stream is prefetched, how far ahead, in which pieces |
//! | [`latency`] | the latency of a device, from everything that waited for it |
//! | [`waits`] | waits judged several at a time |
//! | [`window`] | how much may be on its way, by the queueing it causes |
//! | [`traffic`] | what a device is busy with for the program, and what it delivers |
//! | [`experiment`] | try, compare, rest twice as long |
//! | [`base`] | the rate of a stream before it is prefetched |
//! | [`trial`] | whether prefetching pays, by the program's reads without and with it |
//! | [`budget`] | how much may be prefetched and unread: headroom, pressure, evictions |
//! | `shared` | numbers that threads share |
//! | [`names`] | which file comes next: numbered shards |
//! | [`series`] | numbered files opened in order: recognised, and how far ahead they may be fetched |
//! | [`order`] | whether fetching numbered files in their order pays |
//! | [`walk`] | directory order: how far a walker may run ahead |
//! | [`reason`] | why a file is prefetched, or why not |
//! | [`sim`] | a simulated device, page cache and kernel read-ahead, to try policies on |

#[macro_use]
mod shared;

pub mod ahead;
pub mod base;
pub mod budget;
pub mod course;
pub mod decide;
pub mod device;
pub mod experiment;
pub mod file;
pub mod latency;
pub mod model;
pub mod names;
pub mod order;
pub mod pace;
pub mod pairs;
pub mod reason;
pub mod rent;
pub mod series;
pub mod sim;
pub mod stream;
pub mod traffic;
pub mod trial;
pub mod tuning;
pub mod vote;
pub mod waits;
pub mod walk;
pub mod window;

pub use budget::Budget;
pub use device::Device;
pub use file::{Effect, FileState, Read, Request};
pub use reason::Reason;
pub use rent::Fetched;
pub use tuning::{Mode, Tuning};

/// Bytes of a page: all ranges are multiples of it.
pub const PAGE: u64 = 4096;
