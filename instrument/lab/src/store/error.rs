//! What can go wrong with the store.

use std::path::PathBuf;

use thiserror::Error;

/// What went wrong with the store.
#[derive(Debug, Error)]
pub enum StoreError {
    /// There is no place for the store.
    #[error("no place for results is known; set LOADLINE_HOME or HOME")]
    NoHome,
    /// The store's folder could not be made.
    #[error("the folder {path} for results: {source}")]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// SQLite's own errors.
    #[error("the store of results: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// A stored record cannot be read.
    #[error("a record of run {run} cannot be read: {why}")]
    Damaged {
        /// The run's id.
        run: String,
        /// What is wrong.
        why: String,
    },
    /// The store was written by a newer loadline.
    #[error(
        "the store has version {found}, this loadline knows versions up to {known}; use a newer loadline"
    )]
    TooNew {
        /// The store's version.
        found: u32,
        /// The newest version that is known here.
        known: u32,
    },
    /// The store was written by an older loadline, and is only to be read.
    #[error(
        "the store has version {found}, this loadline reads version {known}; `loadline runs` brings it up to date"
    )]
    TooOld {
        /// The store's version.
        found: u32,
        /// The version that is read here.
        known: u32,
    },
    /// A name that a run cannot have.
    #[error(
        "`{name}` is no name for a run; it begins with a letter and has letters, digits, `-`, `_` and `.` only"
    )]
    Name {
        /// The name.
        name: String,
    },
    /// No run of that name.
    #[error("no run is called {wanted}{hint}")]
    NoSuchRun {
        /// What was asked for.
        wanted: String,
        /// How to see what there is.
        hint: &'static str,
    },
    /// An abbreviation of several runs.
    #[error("{wanted} is the beginning of several runs: {}", .matches.join(", "))]
    Ambiguous {
        /// What was asked for.
        wanted: String,
        /// The runs.
        matches: Vec<String>,
    },
    /// Another process extends the run.
    #[error("run {run} is being extended by process {pid}; wait for it or end it")]
    InUse {
        /// The run's id.
        run: String,
        /// The process.
        pid: u32,
    },
}
