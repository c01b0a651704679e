//! The loads of "CrossPrefetch: Accelerating I/O Prefetching for Modern Storage" (ASPLOS 2024, doi
//! 10.1145/3617232.3624872): programs that read, each under a configuration of who reads ahead.
//!
//! A load makes its data in phase 0 and measures one column in each later phase, cold. The parameter `columns` says
//! which, `config` under what. A measured program is a process of its own, into which the library can be loaded.
//!
//! | module | holds |
//! |---|---|
//! | [`library`] | the library as an option names it: commands with it and without |
//! | [`patterns`] | a reader of known patterns, for whoever asks what prefetching does to it |
//! | [`config`] | who reads ahead |
//! | [`files`] | loads `read-private`, `read-shared`, `compress` |
//! | [`database`] | loads `db-bench`, `ycsb` |
//! | `measure` | runs a program under a configuration; wall time, the artifact's timed region, the library's statistics |
//! | [`task`] | what the programs do: `read`, `mixed`, `mapped`, `compress`, `ycsb` |
//! | `shared` | what the tasks share: the order of reads, what a task did, its threads |
//! | `db_bench` | RocksDB's own benchmark program |
//! | `ballast` | memory taken away from the page cache |

use std::path::{Path, PathBuf};

pub mod config;
pub mod database;
pub mod files;
pub mod library;
pub mod patterns;
pub mod task;

mod ballast;
mod compress;
mod db_bench;
mod mapped;
mod measure;
mod mixed;
mod read;
mod shared;
mod ycsb;

pub use config::Config;
pub use database::{DbBench, Ycsb};
pub use files::{Compress, ReadPrivate, ReadShared};
pub use library::Library;

use crate::{AppError, Parameters};

/// Regular files of a folder, by name; none when it cannot be read.
fn files_in(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    files.sort();
    files
}

/// Takes the parameter `columns`, words of `known` (all, when it is not given), in the order of `known`.
fn take_columns(parameters: &mut Parameters, known: &[&'static str]) -> Result<Vec<&'static str>, AppError> {
    let text = parameters.word("columns", &known.join(" "));
    let words: Vec<&str> = text.split_whitespace().collect();
    if let Some(word) = words.iter().find(|word| !known.contains(word)) {
        return Err(AppError::Parameter(format!("`{word}` is no column; columns are {}", known.join(", "))));
    }
    Ok(known.iter().copied().filter(|one| words.contains(one)).collect())
}

/// The number after the last dash of a column's name.
fn number_of(column: &str) -> u64 {
    column.rsplit('-').next().and_then(|number| number.parse().ok()).unwrap_or(1)
}
