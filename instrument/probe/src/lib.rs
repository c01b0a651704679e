//! Watches a trial: environment, /proc counters, device counters. What cannot be read is left out.
//!
//! | module | holds |
//! |---|---|
//! | [`mod@capture`] | the machine and the target as they are now |
//! | [`fs_counters`] | counters that file systems and memory groups keep |
//! | [`counters`] | counters before and after a load |
//! | [`external_cpu`] | CPU that other processes took |
//! | [`speed`] | how fast the processor runs |
//! | [`yardstick`] | a small load that is always the same |
//! | [`mod@cache`] | what the page cache did for each file |
//! | [`mod@fsync`] | where the time of an fsync goes, from stock tracepoints |
//! | [`mod@fuse`] | what the requests of a FUSE file system cost, from stock tracepoints |
//! | [`root`] | reads /proc, /sys and /etc below a root that tests can move |
//! | `machine`, `device`, `tools` | the sources, one each |

pub mod cache;
pub mod capture;
pub mod counters;
mod device;
pub mod external_cpu;
pub mod fs_counters;
pub mod fsync;
pub mod fuse;
mod machine;
pub mod root;
pub mod speed;
mod tools;
pub mod yardstick;

pub use capture::{CaptureSubject, capture, capture_below};
pub use counters::Counters;
