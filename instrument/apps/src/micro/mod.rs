//! The micro workloads of Table 3.
//!
//! | module | columns |
//! |---|---|
//! | `large_file` | `seq-write`, `seq-read` |
//! | `random` | `rand-write-4096` or `rand-write-4`, `seq-write10g`, and the aligned variant |
//! | `tokubench` | `tokubench` |
//! | `tree` | `find`, `grep`, `del` |
//! | `data` | buffers of random bytes |

mod data;
mod large_file;
mod random;
mod tokubench;
mod tree;

pub use large_file::LargeFile;
pub use random::RandomWrite;
pub use tokubench::TokuBench;
pub use tree::Tree;

/// Bytes in the 10^6 of the artifact's MB/s.
pub const MEGA: f64 = 1e6;
