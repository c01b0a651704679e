//! Where the fsyncs of a trial spent their time, as it is stored.

use probe::fsync::{Breakdown, Recording, Summary, summary};
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
    /// What is kept of a recording.
    pub fn of(recording: &Recording) -> Self {
        let breakdowns = recording.breakdowns();
        FsyncSplit {
            summary: Summary::of(breakdowns),
            typical: summary::typical(breakdowns).cloned(),
            lost: recording.lost,
            ended_early: recording.ended_early,
            notes: Vec::new(),
        }
    }
}
