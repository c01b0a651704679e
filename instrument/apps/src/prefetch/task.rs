//! What the measured programs do: one task each, in a process of its own, so that the library can be loaded into it.
//!
//! The program is this executable under the hidden name [`ARGUMENT`]. Reads go through libc, where the library's
//! hooks are.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use super::shared::{Done, Pattern, Side};
use super::{compress, mapped, mixed, read, ycsb};
use crate::AppError;

/// The hidden first argument.
pub const ARGUMENT: &str = "prefetch-load";

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
            host::note!("{message}");
            1
        }
    })
}
