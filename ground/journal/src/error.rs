//! What can go wrong with a journal.

use camino::Utf8PathBuf;
use thiserror::Error;

/// What went wrong with the journal itself.
#[derive(Debug, Error)]
pub enum JournalError {
    /// The journal's file could not be written or read.
    #[error("journal {path}: {source}; choose a journal directory on a writable file system")]
    Io {
        /// The file or directory.
        path: Utf8PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// Others could write to the journal, or have put it there.
    #[error("{path} {why}; {remedy}")]
    Unsafe {
        /// The file or directory.
        path: Utf8PathBuf,
        /// What is wrong with it.
        why: String,
        /// What to do.
        remedy: String,
    },
    /// An error has left half a line in the journal, and it could not be taken back.
    #[error("journal {path} cannot be written any more, so nothing more is made; look at its disk")]
    Broken {
        /// The file.
        path: Utf8PathBuf,
    },
    /// A private directory could not be made.
    #[error("private directory {path}: {source}; choose another place for it")]
    Tree {
        /// The directory or its marker.
        path: Utf8PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The run is being undone: nothing new may be made.
    #[error("the run is being taken down (interrupted), so nothing more is made")]
    Closed,
    /// /proc does not tell who we are, so a later run could not tell that we are dead.
    #[error("/proc/self/stat cannot be read, so the journal cannot name its owner; mount /proc")]
    NoProc,
    /// A process that is to be recorded has ended already.
    #[error("process {pid} has ended and cannot be recorded")]
    NoSuchProcess {
        /// The process number.
        pid: u32,
    },
    /// The run's name cannot be a file name.
    #[error("run id `{run_id}` is not made of letters, digits, `.`, `_` and `-` (at most 100)")]
    BadRunId {
        /// The name.
        run_id: String,
    },
}
