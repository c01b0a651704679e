//! Decides what to prefetch, how far ahead, and when not to: the pure core of the prefetcher.
//!
//! No system calls, clock, threads or allocation: a shell (the LD_PRELOAD library, the daemon, the simulator) tells a
//! [`File`] of each read, and the file asks at once, through [`Pages`], for what will be read next. The same reads at the
//! same times give the same requests.
//!
//! | module | holds |
//! |---|---|
//! | [`file`](mod@file) | one descriptor as one thread reads it |
//! | [`stream`] | one order of reads: recognised by equal steps, and how far ahead it was asked for |
//! | [`rental`] | reads without order: parts of a file are fetched once their misses have paid for it |
//! | [`device`] | latency, rate and live streams of a device, which streams share |
//! | [`tuning`] | all constants |
//! | [`numbered`] | files that are opened in the order of their numbers |
//! | [`read`] | a read, what is asked for after it, and what is counted |
//! | [`mode`] | what is done at all, and why |
//! | [`sim`] | a simulated device, page cache and kernel read-ahead, to try the core on |

pub mod device;
pub mod file;
pub mod mode;
pub mod numbered;
pub mod read;
pub mod rental;
pub mod sim;
pub mod stream;
pub mod tuning;

pub use device::Device;
pub use file::File;
pub use mode::{Mode, Reason};
pub use numbered::Numbered;
pub use read::{Counters, Effect, Pages, Read, Shape};
pub use rental::Rental;
pub use stream::Stream;
pub use tuning::CHUNK;

/// Bytes of a page.
pub const PAGE: u64 = 4096;
/// Smaller files are left to the kernel, bytes (64 KiB to 4 MiB): two of its read-aheads.
pub const FILE_BYTES: u64 = 2 * CHUNK;
