//! What can go wrong with containers.

use camino::{Utf8Path, Utf8PathBuf};
use host::Unavailable;
use journal::JournalError;
use thiserror::Error;

/// Why containers could not be made or taken down.
#[derive(Debug, Error)]
pub enum ContainerError {
    /// This machine or this user cannot.
    #[error("unavailable here: {0}")]
    Unavailable(#[from] Unavailable),
    /// The journal refused.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A file, a mount or a group could not be made.
    #[error("{what} {path}: {source}")]
    Io {
        /// What was done.
        what: &'static str,
        /// To what.
        path: Utf8PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A container did not start.
    #[error("container {name} did not start: {message}")]
    Start {
        /// Its name.
        name: String,
        /// What the runtime or its first process said.
        message: String,
    },
    /// The user wished to end.
    #[error("interrupted while containers were made")]
    Interrupted,
}

/// Names what was done to a path.
pub(crate) fn failed<E: Into<std::io::Error>>(
    what: &'static str,
    path: &Utf8Path,
) -> impl FnOnce(E) -> ContainerError {
    let path = path.to_owned();
    move |source| ContainerError::Io { what, path, source: source.into() }
}
