//! What can go wrong while tracing.

use host::Unavailable;

/// What went wrong while tracing.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// Tracing cannot be had on this machine or for this user.
    #[error("tracing is not available: {0}")]
    Unavailable(#[from] Unavailable),
    /// A file of tracefs could not be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// The kernel refused a filter.
    #[error("the kernel refused the filter `{filter}` of {event}: {source}")]
    Filter {
        /// `system/name`.
        event: String,
        /// The filter as written.
        filter: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// A required tracepoint does not exist in this kernel.
    #[error("this kernel has no tracepoint {0}; it is needed for the breakdown")]
    NoEvent(String),
    /// A format text is not understood.
    #[error("the format of {event} is not understood: {what}")]
    Format {
        /// `system/name`, or the file.
        event: String,
        /// What is missing in it.
        what: String,
    },
}

/// Wraps an I/O error with the file's name.
pub(crate) fn at(path: &std::path::Path) -> impl FnOnce(std::io::Error) -> TraceError {
    let path = path.display().to_string();
    move |source| TraceError::Io { path, source }
}
