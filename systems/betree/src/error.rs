//! What can go wrong.

use std::io;

/// Result of a store operation.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of the store. Unless said otherwise the operation had no effect and the store stays usable.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The storage failed.
    #[error("storage failed while {doing}: {source}")]
    Io {
        /// What the store was about.
        doing: &'static str,
        /// What the storage said.
        source: io::Error,
    },
    /// The space left is reserved for deletes and checkpoints; delete something, or enlarge the storage.
    #[error("no space: what is left is reserved for deletes and checkpoints")]
    NoSpace,
    /// Bytes read from storage do not match their checksum or make no sense.
    #[error("corrupt {what} at byte {offset} of the storage: {why}")]
    Corrupt {
        /// Kind of object.
        what: &'static str,
        /// Where it starts.
        offset: u64,
        /// What is wrong with it.
        why: String,
    },
    /// The storage holds no store, or one of another version.
    #[error("cannot open: {0}")]
    NotAStore(String),
    /// An argument or option is out of range.
    #[error("invalid argument: {0}")]
    Invalid(String),
    /// An earlier failure left the outcome of writes unknown; reads still work. Reopen to recover.
    #[error("store is read-only after an earlier failure: {0}")]
    ReadOnly(String),
}

impl Error {
    pub(crate) fn corrupt(what: &'static str, offset: u64, why: impl Into<String>) -> Self {
        Error::Corrupt { what, offset, why: why.into() }
    }
}

/// Says what the store was doing when an I/O call failed.
pub(crate) trait Doing<T> {
    fn doing(self, doing: &'static str) -> Result<T>;
}

impl<T> Doing<T> for io::Result<T> {
    fn doing(self, doing: &'static str) -> Result<T> {
        self.map_err(|source| Error::Io { doing, source })
    }
}
