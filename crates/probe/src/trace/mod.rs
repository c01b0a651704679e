//! Reads the kernel's tracepoints from a private tracefs instance, in binary, without losing count of lost
//! events.
//!
//! | module | holds |
//! |---|---|
//! | [`mod@format`] | the `format` files: where each field of an event is |
//! | [`page`] | ring-buffer pages: bytes in, records out; pure |
//! | [`event`] | one event with access to its fields; events of many CPUs in one order |
//! | [`instance`] | a private instance: created, set up, removed when dropped |
//! | [`session`] | runs a closure under tracing |
//! | [`live`] | hands over records while the kernel makes them |
//!
//! Reading `trace_pipe_raw` costs about a tenth of reading the text of `trace_pipe`, and pages are parsed
//! only after the traced work has ended. Only little-endian machines are supported.

pub mod event;
pub mod format;
pub mod instance;
pub mod live;
pub mod page;
pub mod session;

pub use event::Event;
pub use format::EventFormat;
pub use instance::{Instance, Selection, sweep};
pub use live::Rings;
pub use session::{Capture, Options, capture};

/// Why this process cannot trace here, and what would help.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("tracing is not available: {reason}; {remedy}")]
pub struct Unavailable {
    /// What is missing.
    pub reason: String,
    /// What to do about it.
    pub remedy: String,
}

impl Unavailable {
    pub(crate) fn new(reason: impl Into<String>, remedy: impl Into<String>) -> Self {
        Unavailable { reason: reason.into(), remedy: remedy.into() }
    }
}

/// What went wrong while tracing.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// Tracing cannot be had on this machine or for this user.
    #[error(transparent)]
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
