//! What can go wrong with a load.

use std::path::{Path, PathBuf};

/// Why a load has no result.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// The script says something that cannot be.
    #[error("{0}")]
    Script(String),
    /// This machine lacks something.
    #[error("{reason}; {remedy}")]
    Unavailable {
        /// What it lacks.
        reason: String,
        /// What would help.
        remedy: String,
    },
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A program failed.
    #[error("`{command}` failed ({status}): {message}")]
    Program {
        /// As one would type it.
        command: String,
        /// Exit code or signal.
        status: String,
        /// The end of what it wrote to its standard error.
        message: String,
    },
    /// The prefetching library cannot be loaded into a program.
    #[error(transparent)]
    Launch(#[from] prefetch_os::launch::LaunchError),
    /// A server answered what it should not.
    #[error("{0}")]
    Protocol(String),
    /// The user interrupted it.
    #[error("interrupted")]
    Interrupted,
}

/// Names the file of an I/O error.
pub(crate) fn at(path: &Path) -> impl FnOnce(std::io::Error) -> AppError {
    let path = path.to_owned();
    move |source| AppError::Io { path, source }
}
