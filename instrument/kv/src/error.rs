//! What can go wrong with a key-value load.

use camino::Utf8PathBuf;
use serve::ServeError;
use serve::drive::Failure;

/// Why a key-value load has no result.
#[derive(Debug, thiserror::Error)]
pub enum KvError {
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
    /// The way to the server broke.
    #[error(
        "the connection to {0} broke: {1}; does a server of Redis listen there, and does it still run? its log says more"
    )]
    Gone(String, String),
    /// The server is not there, or does not let us in.
    #[error("{0}")]
    Refused(String),
    /// No room is left.
    #[error("{0}; the disk is full, or too small: {more}", more = serve::process::MORE_ROOM)]
    Full(String),
    /// The engine answered an error.
    #[error("{0}")]
    Engine(String),
    /// A value is not what it must be.
    #[error("{0}")]
    Wrong(String),
    /// The journal refused.
    #[error(transparent)]
    Journal(#[from] journal::JournalError),
    /// The user interrupted it.
    #[error("interrupted")]
    Interrupted,
}

/// Words by which engines say that a disk is full: ENOSPC's text, SQLite's SQLITE_FULL, Redis' refusal to write after a
/// failed save.
const FULL: [&str; 4] = ["No space left on device", "database or disk is full", "MISCONF", "NoSpace"];

impl KvError {
    /// What an engine says, sorted.
    pub(crate) fn engine(name: &str, text: impl std::fmt::Display) -> KvError {
        let text = format!("{name}: {text}");
        if FULL.iter().any(|word| text.contains(word)) { KvError::Full(text) } else { KvError::Engine(text) }
    }

    /// Names the file of an I/O error.
    pub(crate) fn at(path: impl Into<Utf8PathBuf>) -> impl FnOnce(std::io::Error) -> KvError {
        let path = path.into();
        move |source| KvError::Io { path, source }
    }
}

impl From<ServeError> for KvError {
    fn from(error: ServeError) -> KvError {
        match error {
            ServeError::Unavailable { reason, remedy } => KvError::Unavailable { reason, remedy },
            ServeError::Io { path, source } => KvError::Io { path, source },
            ServeError::Server(text) => KvError::Server(text),
            ServeError::Journal(error) => KvError::Journal(error),
        }
    }
}

impl Failure for KvError {
    fn panicked() -> KvError {
        KvError::Engine("a terminal panicked".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_with_a_remedy() {
        let error = KvError::engine("RocksDB", "IO error: No space left on device: While appending to file");
        assert!(matches!(error, KvError::Full(_)));
        assert!(error.to_string().contains("give the stack more room"), "{error}");
        assert!(matches!(KvError::engine("LMDB", "corrupted"), KvError::Engine(_)));
    }
}
