//! What the measured programs do: one task each, in a process of its own, so that the library can be loaded into it.
//!
//! The program is this executable under the hidden name [`ARGUMENT`]. Reads go through libc, where the library's
//! hooks are.

use std::path::PathBuf;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use stats::Histogram;

use super::{compress, mapped, mixed, read, ycsb};
use crate::AppError;

/// The hidden first argument.
pub const ARGUMENT: &str = "prefetch-load";

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

/// What a program is to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// Reads files once.
    Read(read::Read),
    /// Writers and readers at random places of one file, for some seconds.
    Mixed(mixed::Mixed),
    /// Copies a mapped file.
    Mapped(mapped::Mapped),
    /// Compresses folders of files.
    Compress(compress::Compress),
    /// YCSB on RocksDB.
    Ycsb(ycsb::Ycsb),
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

impl Task {
    /// The files that it reads.
    pub fn files(&self) -> Vec<PathBuf> {
        match self {
            Task::Read(task) => task.files.clone(),
            Task::Mixed(task) => vec![task.file.clone()],
            Task::Mapped(task) => vec![task.file.clone()],
            Task::Compress(task) => task.files(),
            Task::Ycsb(task) => super::files_in(&task.database),
        }
    }

    /// Does it, in this process.
    ///
    /// # Errors
    /// What failed.
    pub fn run(&self) -> Result<Done, AppError> {
        match self {
            Task::Read(task) => task.run(),
            Task::Mixed(task) => task.run(),
            Task::Mapped(task) => task.run(),
            Task::Compress(task) => task.run(),
            Task::Ycsb(task) => task.run(),
        }
    }
}

/// The program: runs the task of its second argument and prints what it did. `None` when it was not asked to be this
/// program; else its exit code.
pub fn main() -> Option<u8> {
    let mut words = std::env::args().skip(1);
    if words.next().as_deref() != Some(ARGUMENT) {
        return None;
    }
    // When the trial is killed, this must not go on reading and hold the file system.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    let task = words.next().ok_or_else(|| "for loadline's own use".to_string());
    let task = task.and_then(|text| serde_json::from_str::<Task>(&text).map_err(|error| error.to_string()));
    let done = task.and_then(|task| task.run().map_err(|error| error.to_string()));
    let told = done.and_then(|done| serde_json::to_string(&done).map_err(|error| error.to_string()));
    Some(match told {
        Ok(text) => {
            println!("{text}");
            0
        }
        Err(message) => {
            eprintln!("{message}");
            1
        }
    })
}

/// Runs a function on `threads` threads, all started together after their own preparation, and merges what they did.
/// The time runs from the common start to the last end.
pub(super) fn together<P: Send>(
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
