//! What a server answers, sorted by what a client can do about it.

/// An error of a server or of the way to it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DbError {
    /// Another transaction was in the way: deadlock, lock wait, changed row. Roll back and try again.
    #[error("{0}")]
    Conflict(String),
    /// A key is there already.
    #[error("{0}")]
    Duplicate(String),
    /// There is no such table.
    #[error("{0}")]
    NoTable(String),
    /// A table of that name is there already.
    #[error("{0}")]
    TableExists(String),
    /// The connection broke: what was under way may or may not have happened.
    #[error("the connection broke: {0}; does the server still run, and what does its log say?")]
    Gone(String),
    /// The server does not let us in, or is not there.
    #[error("{0}")]
    Refused(String),
    /// The server's disk is full.
    #[error("{0}{full}", full = serve::process::full_disk())]
    Full(String),
    /// Anything else.
    #[error("{0}")]
    Other(String),
}

impl DbError {
    pub(super) fn foreign() -> DbError {
        DbError::Other("a statement of another connection".into())
    }
}
