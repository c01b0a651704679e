//! Where the fsyncs of a trial spent their time, as it is stored. How it is found out: docs/explain.md, crate `probe`.
//!
//! | module | holds |
//! |---|---|
//! | this one | [`FsyncSplit`]: the fsyncs of one trial |
//! | [`breakdown`] | one fsync, level by level |
//! | [`command`] | what a device was given to do |
//! | [`summary`] | many fsyncs: quantiles and means of the parts |
//! | [`interval`] | unions and precedence of time intervals |

pub mod breakdown;
pub mod command;
pub mod interval;
pub mod summary;

pub use breakdown::{Breakdown, LevelBreakdown, Mark, Stage};
pub use command::{DeviceCommand, Operation};
pub use interval::{Part, Parts};
pub use summary::Summary;

use serde::{Deserialize, Serialize};

/// The fsyncs of one trial, explained (`--explain`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FsyncSplit {
    /// All fsyncs that were recorded, level by level.
    pub summary: Summary,
    /// The one of median length, for the waterfall.
    pub typical: Option<Breakdown>,
    /// Trace events that the kernel lost: if not 0, parts may lack I/O that took place.
    pub lost: u64,
    /// The recording was full before the trial ended: these are its first fsyncs.
    pub ended_early: bool,
    /// A remark on what the figures stand for, such as flushes charged as FUA writes.
    pub notes: Vec<String>,
}

impl FsyncSplit {
    /// What is kept of all `breakdowns` of a recording; `lost` and `ended_early` as in the fields.
    pub fn of(breakdowns: &[Breakdown], lost: u64, ended_early: bool) -> Self {
        FsyncSplit {
            summary: Summary::of(breakdowns),
            typical: summary::typical(breakdowns).cloned(),
            lost,
            ended_early,
            notes: Vec::new(),
        }
    }
}
