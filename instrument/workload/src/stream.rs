//! Streams of transfers: what a job of fio asks of one thread. Unlike a list of flowops, a stream has a budget, a queue and a
//! rate of its own, and its place in the files is one for all that is in flight.

use serde::{Deserialize, Serialize};

pub use crate::trace::OPERATIONS;
use crate::trace::Trace;

/// What one thread transfers, how and for how long.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stream {
    /// Number of the stream among those that run at once, from 1: part of its seeds.
    pub number: u64,
    /// Seed of a job whose random numbers are to be the same in each run (`randrepeat`, `randseed`); `None`: the run's seed.
    pub seed: Option<u64>,
    /// Each pass over the files draws the same numbers again (`randrepeat` without `randseed`).
    pub repeat: bool,
    /// Its offsets are those that fio draws whatever `randseed` says (`randrepeat`).
    pub usual_offsets: bool,
    /// Its files, in order.
    pub files: Vec<StreamFile>,
    /// How files take turns.
    pub turns: FileOrder,
    /// Reads, writes or both.
    pub way: TransferDirection,
    /// Where transfers go.
    pub order: OffsetOrder,
    /// Sizes of reads, and of writes.
    pub sizes: [TransferSizes; 2],
    /// How transfers are issued.
    pub queue: IoQueue,
    /// When it is done.
    pub budget: StreamBudget,
    /// Rates and pauses.
    pub pace: StreamPacing,
    /// Syncs.
    pub syncs: SyncPolicy,
    /// How files are opened.
    pub open: OpenFlags,
    /// What written blocks hold, so that they can be checked.
    pub verify: Option<Verify>,
    /// What was recorded, and is done again: it goes before turns of the files, order, sizes, rates and syncs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<Replay>,
}

/// A recorded trace that is done again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Replay {
    /// The trace; its files are those of the stream.
    pub trace: Trace,
    /// How much faster than it was recorded, above 0; `None`: each record follows when the one before is done.
    pub speed: Option<f64>,
}

impl Replay {
    /// When a record is due, in nanoseconds of the replay; `None`: when the one before is done.
    #[inline]
    pub fn due_ns(&self, recorded_ns: u64) -> Option<u64> {
        match self.speed? {
            // as it was recorded, to the nanosecond
            1.0 => Some(recorded_ns),
            speed => Some((recorded_ns as f64 / speed) as u64),
        }
    }

    /// Whether some of it is due by the clock.
    pub fn is_paced(&self) -> bool {
        self.speed.is_some() && self.trace.is_timed
    }
}

/// What written blocks hold, and when they are read back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verify {
    /// By what a block is known.
    pub method: Check,
    /// Repeated over each transfer; empty: random bytes.
    pub pattern: Vec<u8>,
    /// So many bytes of a transfer have a header of their own; 0: the transfer has one.
    pub interval: u64,
    /// Written blocks are read back at the end of each pass.
    pub read_back: bool,
    /// They are read back after so many writes, too; 0: at the end of the pass alone.
    pub backlog: u64,
    /// How many are then read back.
    pub batch: u64,
}

/// By what a block is known to be the one that was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Check {
    /// A header and an MD5 of what follows.
    Md5,
    /// A header and a CRC-32C of what follows.
    Crc32c,
    /// A header alone.
    Header,
    /// The pattern, without header.
    Pattern,
    /// Nothing: blocks are read and not looked at.
    Nothing,
}

/// A file of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamFile {
    /// Index into [`crate::Workload::filesets`].
    pub fileset: usize,
    /// Where the stream's part begins, in bytes.
    pub offset: u64,
    /// Length of that part in bytes; it ends with the file at the latest.
    pub bytes: u64,
    /// Size of the file in bytes.
    pub size: u64,
}

/// How the files of a stream take turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileOrder {
    /// Which file is next.
    pub next: NextFile,
    /// Operations on a file before the next one; 0: until it is done.
    pub operations: u64,
}

/// Which file is next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NextFile {
    /// One after the other, in a circle.
    InTurn,
    /// Drawn.
    Random,
}

/// Which way data goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TransferDirection {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Both, drawn.
    Mixed {
        /// Reads of a hundred transfers.
        read_percent: u8,
    },
    /// Blocks of a device are discarded.
    Trim,
    /// Blocks of a device are discarded, and each is then written.
    TrimWrite,
}

impl TransferDirection {
    /// Whether it reads.
    pub fn reads(self) -> bool {
        matches!(self, TransferDirection::Read | TransferDirection::Mixed { .. })
    }

    /// Whether it writes.
    pub fn writes(self) -> bool {
        matches!(
            self,
            TransferDirection::Write | TransferDirection::Mixed { .. } | TransferDirection::TrimWrite
        )
    }

    /// Whether it discards.
    pub fn trims(self) -> bool {
        matches!(self, TransferDirection::Trim | TransferDirection::TrimWrite)
    }
}

/// Where transfers go.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OffsetOrder {
    /// Random offsets; otherwise one after the other.
    pub random: bool,
    /// Of a hundred random transfers so many are random indeed; the others follow the last one.
    pub random_percent: u8,
    /// How random offsets are drawn.
    pub spread: OffsetDistribution,
    /// Each block is visited once before one is again (fio's random map).
    pub visit_once: bool,
    /// Added to the position after each sequential transfer, in bytes; negative: backwards.
    pub step: i64,
    /// A new offset after so many transfers; those between stay in sequence or in place. 0: each has its own.
    pub every: u64,
    /// What those between do.
    pub between: OffsetStep,
    /// Offsets of random reads, and writes, are multiples of this, in bytes.
    pub align: [u64; 2],
}

/// Offsets between two new ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OffsetStep {
    /// They go on.
    Sequential,
    /// They stay.
    Identical,
}

/// How random offsets are drawn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OffsetDistribution {
    /// Each block is equally likely.
    Uniform,
    /// Zipf's law.
    Zipf {
        /// The exponent; not 1.
        theta: f64,
        /// Where the likeliest block lies, 0 to 1; drawn otherwise.
        center: Option<f64>,
    },
    /// Pareto's.
    Pareto {
        /// The share h: 0.2 for 80 to 20.
        power: f64,
        /// Where the likeliest block lies, 0 to 1; drawn otherwise.
        center: Option<f64>,
    },
    /// Nearly normal.
    Normal {
        /// Deviation in percent of the file.
        deviation: f64,
        /// Where the mean lies, 0 to 1.
        center: Option<f64>,
    },
    /// Zones: (percent of the transfers, percent of the file), of reads and of writes.
    Zoned([Vec<(u64, u64)>; 2]),
}

/// Sizes of transfers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TransferSizes {
    /// One size in bytes.
    One(u64),
    /// From the first to the second, multiples of the first.
    Range(u64, u64),
    /// (bytes, percent).
    Split(Vec<(u64, u64)>),
}

impl TransferSizes {
    /// The smallest size in bytes.
    pub fn min(&self) -> u64 {
        match self {
            TransferSizes::One(size) | TransferSizes::Range(size, _) => *size,
            TransferSizes::Split(parts) => parts.iter().map(|part| part.0).min().unwrap_or(0),
        }
    }

    /// The largest size in bytes.
    pub fn max(&self) -> u64 {
        match self {
            TransferSizes::One(size) | TransferSizes::Range(_, size) => *size,
            TransferSizes::Split(parts) => parts.iter().map(|part| part.0).max().unwrap_or(0),
        }
    }
}

/// What issues transfers, and how many are in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct IoQueue {
    /// The interface of the kernel.
    pub engine: QueueEngine,
    /// Transfers in flight, 1 to 4,096; 1 with [`QueueEngine::Blocking`] and [`QueueEngine::Mapped`].
    pub depth: u32,
    /// Transfers handed to the kernel at once.
    pub submit: u32,
    /// Completions waited for when the queue is full.
    pub complete_min: u32,
    /// A full queue is emptied down to this before it is filled again; 0: down to one place.
    pub low: u32,
    /// Pages leave the cache as soon as a transfer is done (`RWF_DONTCACHE`, Linux 6.14).
    #[serde(default)]
    pub uncached: bool,
    /// A write is on the device whole or not at all (`RWF_ATOMIC`, Linux 6.11).
    #[serde(default)]
    pub atomic: bool,
}

/// The interface of the kernel by which transfers are issued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueEngine {
    /// `pread`, `pwrite`.
    Blocking,
    /// `io_submit`, `io_getevents`.
    LibAio,
    /// io_uring.
    Uring,
    /// Copies from and to the mapped file.
    Mapped,
}

/// When a stream is done.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StreamBudget {
    /// Bytes moved.
    pub bytes: u64,
    /// Passes over its files.
    pub passes: u64,
    /// Transfers.
    pub transfers: Option<u64>,
    /// It moves its bytes even if its files are done before (`io_size`).
    pub more_passes: bool,
    /// Only the time ends it.
    pub time_based: bool,
    /// Seconds after its begin and its warm-up.
    pub seconds: Option<f64>,
    /// It waits so many seconds before it begins; what all wait is no part of the load.
    pub delay_seconds: f64,
    /// What it does in its first seconds is not counted; it is taken from `bytes`, but not from `transfers`. All streams of a run
    /// have the same, which is the run's warm-up unless another one is told.
    pub ramp_seconds: f64,
}

/// Rates and pauses of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct StreamPacing {
    /// Bytes a second of reads, and of writes; 0: no limit.
    pub bytes_per_second: [u64; 2],
    /// Intervals are exponential instead of equal.
    pub poisson: bool,
    /// Each transfer of a size that is drawn counts as one of the smallest (`rate_iops`).
    pub by_count: bool,
    /// A pause after so many transfers; 0: none.
    pub pause_every: u64,
    /// Its length in microseconds.
    pub pause_us: u64,
    /// How much of it is spent computing, in microseconds.
    pub spin_us: u64,
}

/// Syncs of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SyncPolicy {
    /// fsync after so many writes; 0: never.
    pub fsync: u64,
    /// fdatasync after so many writes; 0: never.
    pub fdatasync: u64,
    /// fsync of each file at the end.
    pub at_end: bool,
    /// fsync whenever a file is closed.
    pub on_close: bool,
}

/// How files of a stream are opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct OpenFlags {
    /// `O_DIRECT`.
    pub direct: bool,
    /// `O_SYNC`.
    pub sync: bool,
    /// `O_DSYNC`.
    pub dsync: bool,
    /// The kernel is told whether reads are random or sequential.
    pub advise: bool,
    /// The page cache lets the file go when it is opened, and at each new pass.
    pub invalidate: bool,
    /// The file is removed at the end.
    pub unlink: bool,
}
