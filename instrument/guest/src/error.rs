//! Why there is no guest, or none any more.

use camino::Utf8PathBuf;
use host::Unavailable;

/// Why a guest could not be made, or has ended too early.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// This machine cannot.
    #[error("{0}")]
    Unavailable(Unavailable),
    /// A file or a program.
    #[error("{what}: {source}")]
    Io {
        /// Path or program.
        what: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// A program failed.
    #[error("{program} failed: {message}")]
    Program {
        /// Its name.
        program: String,
        /// What it printed.
        message: String,
    },
    /// What was written of a device means nothing.
    #[error("{0}")]
    Device(String),
    /// The guest has ended, or was ended.
    #[error("{why}; its console is kept in {console}{tail}")]
    Ended {
        /// Why.
        why: String,
        /// The console's log.
        console: Utf8PathBuf,
        /// The last lines of it, each after a line break.
        tail: String,
    },
    /// What came back is not what was sent.
    #[error("what the guest sent is damaged: {0}")]
    Damaged(String),
    /// The journal refused.
    #[error(transparent)]
    Journal(#[from] journal::JournalError),
}

impl GuestError {
    /// An error of the system about `what`.
    pub fn at(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> GuestError {
        let what = what.into();
        move |source| GuestError::Io { what, source }
    }

    /// A folder that others could steer.
    pub(crate) fn untrusted(error: host::place::OpenError) -> GuestError {
        GuestError::Io { what: "what is kept for guests".into(), source: error.into() }
    }

    /// Reason and remedy, when this machine cannot do it at all.
    pub fn unavailable(&self) -> Option<&Unavailable> {
        match self {
            GuestError::Unavailable(why) => Some(why),
            _ => None,
        }
    }
}

impl From<Unavailable> for GuestError {
    fn from(why: Unavailable) -> GuestError {
        GuestError::Unavailable(why)
    }
}
