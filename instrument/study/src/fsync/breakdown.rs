//! One fsync taken apart, as plain data. Crate `probe` fills it in.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::interval::{Interval, Part, Parts};

/// A time an fsync (or its journal commit) was in one stage of its I/O.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stage {
    /// When it began, in nanoseconds of the trace clock.
    pub start_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// What it counts as.
    pub part: Part,
    /// What it is, for people.
    pub label: Cow<'static, str>,
    /// Operation and flags as the file system set them.
    pub rwbs: String,
    /// The disk, as tracepoints number it.
    pub disk: u32,
    /// First sector.
    pub sector: u64,
    /// Bytes; 0 for flushes and for time in the queue.
    pub bytes: u64,
}

impl Stage {
    /// Its time span.
    pub fn span(&self) -> Interval {
        Interval::new(self.start_ns, self.end_ns)
    }
}

/// A named moment of the journal, to be shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// Nanoseconds of the trace clock.
    pub at_ns: u64,
    /// E.g. `commit starts`.
    pub label: Cow<'static, str>,
}

/// One fsync on one level.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LevelBreakdown {
    /// The level's name, e.g. `ext4 on loop3`.
    pub name: String,
    /// What it is a part of: the whole call at the top, the device's working time of the level above below
    /// it.
    pub windows_ns: u64,
    /// The parts; their sum is `windows_ns`.
    pub parts: Parts,
    /// What was waited for, in order of time.
    pub stages: Vec<Stage>,
    /// Journal steps.
    pub marks: Vec<Mark>,
    /// Writes waited for.
    pub writes: u64,
    /// Their bytes.
    pub written_bytes: u64,
    /// Flushes the disks worked on meanwhile.
    pub flushes: u64,
    /// Below the top: how often the file that holds the level above was synced.
    pub syncs: u64,
}

/// One fsync.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Breakdown {
    /// The calling thread.
    pub pid: i32,
    /// Its name, where any event told it.
    pub comm: String,
    /// The file; `None` for a file system without tracepoints of its own.
    pub inode: Option<u64>,
    /// fdatasync.
    pub data_only: bool,
    /// Entry, in nanoseconds of the trace clock.
    pub start_ns: u64,
    /// From entry to return.
    pub total_ns: u64,
    /// The levels, the file system the program sees first. The rest is what the device's time there consists
    /// of.
    pub levels: Vec<LevelBreakdown>,
}

impl Breakdown {
    /// The parts of the whole call: those of the first level.
    pub fn parts(&self) -> Parts {
        self.levels.first().map_or_else(Parts::default, |level| level.parts)
    }
}
