//! What can go wrong with the processes of a server.

use camino::Utf8PathBuf;

/// Why a server does not run, or could not be ended.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// This machine lacks something.
    #[error("{reason}; {remedy}")]
    Unavailable {
        /// What it lacks.
        reason: String,
        /// What would help.
        remedy: String,
    },
    /// A file could not be read or written, a program not started.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: Utf8PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The server did not start, or cannot be ended.
    #[error("{0}")]
    Server(String),
    /// The journal refused.
    #[error(transparent)]
    Journal(#[from] journal::JournalError),
}

impl ServeError {
    pub(crate) fn at(path: impl Into<Utf8PathBuf>) -> impl FnOnce(std::io::Error) -> ServeError {
        let path = path.into();
        move |source| ServeError::Io { path, source }
    }
}
