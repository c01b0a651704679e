//! What can go wrong with a SQL load.

use camino::Utf8PathBuf;

use crate::db::DbError;

/// Why a SQL load has no result.
#[derive(Debug, thiserror::Error)]
pub enum SqlError {
    /// A value that cannot be.
    #[error("{0}")]
    Parameter(String),
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
        path: Utf8PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The server did not start, or died; with the end of its log.
    #[error("{0}")]
    Server(String),
    /// The server answered an error.
    #[error("{what}: {error}")]
    Database {
        /// What was being done.
        what: String,
        /// What it answered.
        error: DbError,
    },
    /// The database is not what it must be.
    #[error("{0}")]
    Inconsistent(String),
    /// The journal refused.
    #[error(transparent)]
    Journal(#[from] journal::JournalError),
    /// The user interrupted it.
    #[error("interrupted")]
    Interrupted,
}

impl From<serve::ServeError> for SqlError {
    fn from(error: serve::ServeError) -> SqlError {
        match error {
            serve::ServeError::Unavailable { reason, remedy } => SqlError::Unavailable { reason, remedy },
            serve::ServeError::Io { path, source } => SqlError::Io { path, source },
            serve::ServeError::Server(text) => SqlError::Server(text),
            serve::ServeError::Journal(error) => SqlError::Journal(error),
        }
    }
}

impl SqlError {
    /// Names the file of an I/O error.
    pub(crate) fn at(path: impl Into<Utf8PathBuf>) -> impl FnOnce(std::io::Error) -> SqlError {
        let path = path.into();
        move |source| SqlError::Io { path, source }
    }

    /// Says what was being done when the database answered an error.
    pub(crate) fn doing(what: impl Into<String>) -> impl FnOnce(DbError) -> SqlError {
        let what = what.into();
        move |error| SqlError::Database { what, error }
    }
}
