//! What a run may be told beside its workload, and what it tells while it runs.

use serde::{Deserialize, Serialize};
use workload::IoMode;

/// Options of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunOptions {
    /// Seed of every random choice: the same seed gives the same operations.
    pub seed: u64,
    /// Seed of names and sizes of the files, when several runs with seeds of their own share the files.
    pub files_seed: Option<u64>,
    /// Length of the measured interval in seconds; goes before the script's own.
    pub seconds: Option<f64>,
    /// End after this many I/O operations (all threads together).
    pub ops: Option<u64>,
    /// Load before the measured interval, in seconds; goes before the script's own.
    pub warmup_seconds: Option<f64>,
    /// Offered load in I/O operations a second (all threads together); `None`: as fast as it goes.
    pub rate: Option<f64>,
    /// How reads and writes are issued.
    pub io: IoMode,
    /// How much of each 4 KiB block of written data is compressible, 0-100 %.
    pub compress_percent: u8,
    /// Share of written 4 KiB blocks that repeat others, 0-100 %.
    pub duplicate_percent: u8,
    /// End the run, without a result, when no file can be picked, as Filebench does.
    pub strict: bool,
    /// Which part of the script to run.
    pub stage: Stage,
    /// Write dirty data out (syncfs) between creation and measurement.
    pub settle: bool,
    /// Let `system "..."` start programs, with the rights of this process. Without it such a workload is refused.
    pub allow_system: bool,
}

impl RunOptions {
    /// The seed of names and sizes of the files.
    pub fn seed_of_files(&self) -> u64 {
        self.files_seed.unwrap_or(self.seed)
    }
}

impl Default for RunOptions {
    fn default() -> Self {
        RunOptions {
            seed: 1,
            files_seed: None,
            seconds: None,
            ops: None,
            warmup_seconds: None,
            rate: None,
            io: IoMode::Psync,
            compress_percent: 0,
            duplicate_percent: 0,
            strict: false,
            stage: Stage::All,
            settle: true,
            allow_system: false,
        }
    }
}

/// Part of the script to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Everything.
    All,
    /// Everything before the run, file creation included.
    Prepare,
    /// Only the run, on files that `Prepare` made with the same seed.
    Measure,
}

/// What a run tells while it runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "event")]
pub enum Event {
    /// A line for the reader (`echo`, population figures ...).
    Line {
        /// The text, without a line end.
        text: String,
    },
    /// Files created so far.
    Creating {
        /// Created.
        done: u64,
        /// To create.
        total: u64,
    },
    /// Files and threads are there, and the load begins as soon as whoever hears this returns.
    Ready,
    /// The load runs.
    Running {
        /// Seconds since the measured interval began; negative during warm-up.
        elapsed_seconds: f64,
        /// Planned length, when there is one.
        total_seconds: Option<f64>,
        /// I/O operations so far, warm-up included.
        io_ops: u64,
    },
    /// The script asks for Filebench's latency counters beside the result (`enable lathist`).
    LatencyCounters,
    /// A periodic report (`psrun`).
    Period {
        /// Seconds of the measured interval that are over at its end.
        at_seconds: f64,
        /// What was measured since the start, or since the last report.
        outcome: stats::Outcome,
    },
}
