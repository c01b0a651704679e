//! What can keep a crash check from being made. What a check finds is no error.

use camino::Utf8PathBuf;
use host::Unavailable;
use thiserror::Error;

/// Why a crash check was not made.
#[derive(Debug, Error)]
pub enum CrashError {
    /// This machine, or this user, cannot.
    #[error("unavailable here: {0}")]
    Unavailable(#[from] Unavailable),
    /// Something about the options.
    #[error("{what}")]
    BadOption {
        /// What is wrong and what would be right.
        what: String,
    },
    /// The stack that is recorded.
    #[error(transparent)]
    Stack(#[from] stack::StackError),
    /// The emulated SSD that is recorded.
    #[error(transparent)]
    Ssd(#[from] blockdev::SsdError),
    /// The recording.
    #[error(transparent)]
    Record(#[from] blockdev::record::RecordError),
    /// The journal of what was made.
    #[error(transparent)]
    Journal(#[from] journal::JournalError),
    /// The database on the device.
    #[error(transparent)]
    Database(#[from] sql::SqlError),
    /// The workload failed while it was recorded.
    #[error("the workload failed while it was recorded: {0}")]
    Workload(String),
    /// The user's program failed where no power had.
    #[error("{what}")]
    Program {
        /// What failed, with the end of its output.
        what: String,
    },
    /// It could not be started; or its setup failed; or its checker rejects what it left.
    #[error("{what}")]
    BesideProgram {
        /// What failed, with the end of its output.
        what: String,
    },
    /// Ended before anything could be judged.
    #[error("ended before any state was judged")]
    Interrupted,
    /// A state could not be brought up for a reason that is not the state's.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// Something was left behind.
    #[error("not taken down cleanly (`loadline doctor` tries again):\n{report}")]
    Teardown {
        /// What.
        report: String,
    },
    /// The recording cannot be used.
    #[error("the recording {path} cannot be used: {what}")]
    Unusable {
        /// The file.
        path: Utf8PathBuf,
        /// Why.
        what: String,
    },
}

impl CrashError {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> CrashError {
        let what = what.into();
        move |source| CrashError::Io { what, source }
    }

    /// Why this machine cannot, if that is the reason.
    pub fn unavailable(&self) -> Option<&Unavailable> {
        match self {
            CrashError::Unavailable(why) | CrashError::Stack(stack::StackError::Unavailable(why)) => {
                Some(why)
            }
            _ => None,
        }
    }
}

impl From<crate::workload::DriveError> for CrashError {
    fn from(error: crate::workload::DriveError) -> CrashError {
        CrashError::Workload(error.to_string())
    }
}
