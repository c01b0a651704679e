//! What the tasks share: the order of reads, what a task did, threads that start together.

use std::time::Instant;

use serde::{Deserialize, Serialize};
use stats::Histogram;

use crate::AppError;

/// The order of reads within a thread's part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// Forward, block after block.
    Sequential,
    /// Every block once, shuffled.
    Random,
    /// One block, four blocks skipped (the artifact: 64 pages).
    Stride,
    /// From the end, block after block.
    Reverse,
}

/// What one side of a task did.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Side {
    /// Operations.
    pub ops: u64,
    /// Bytes.
    pub bytes: u64,
    /// Time of each operation in ns.
    pub service: Histogram,
}

/// What a task did.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Done {
    /// Seconds of the region that the artifact times: without opening files.
    pub timed_seconds: f64,
    /// Reads, or all operations.
    pub main: Side,
    /// Writes, where both sides are reported.
    pub writes: Side,
}

impl Side {
    /// Adds what another thread did.
    pub fn merge(mut self, other: &Side) -> Side {
        self.ops += other.ops;
        self.bytes += other.bytes;
        self.service.merge(&other.service);
        self
    }

    /// Counts an operation that began at `start`.
    pub(super) fn count(&mut self, start: Instant, bytes: u64) {
        self.ops += 1;
        self.bytes += bytes;
        self.service.record(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
    }
}

/// Runs a function on `threads` threads, all started together after their own preparation, and merges what they did.
/// The time runs from the common start to the last end.
pub(super) fn run_threads<P: Send>(
    prepared: Vec<P>,
    work: impl Fn(usize, P) -> Result<Side, AppError> + Sync,
) -> Result<(f64, Side), AppError> {
    let work = &work;
    let start = Instant::now();
    let sides: Vec<Result<Side, AppError>> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            prepared.into_iter().enumerate().map(|(at, one)| scope.spawn(move || work(at, one))).collect();
        let died = || Err(AppError::Protocol("a thread of the load died".into()));
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| died())).collect()
    });
    let seconds = start.elapsed().as_secs_f64();
    let mut all = Side::default();
    for side in sides {
        all = all.merge(&side?);
    }
    Ok((seconds, all))
}
