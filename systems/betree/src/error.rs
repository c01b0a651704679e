//! What can go wrong.

use std::any::Any;
use std::fmt;
use std::io;
use std::time::SystemTime;

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
    /// The log has lost batches that were acknowledged as durable. Nothing was changed.
    #[error("{0}; opening with `recover` goes on without them and what came after them")]
    Lost(LostBatches),
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

/// Batches that were acknowledged as durable and are not there any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostBatches {
    /// Number of the first.
    pub first: u64,
    /// Number of the last that is known to have been durable; later ones may be lost as well.
    pub last: u64,
    /// Number of the log frame that should hold the first.
    pub frame: u64,
    /// Where that frame should be, in bytes from the beginning of the storage.
    pub offset: u64,
}

impl fmt::Display for LostBatches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LostBatches { first, last, frame, offset } = self;
        let where_from = format!("log frame {frame} at byte {offset} of the storage is missing or damaged");
        write!(f, "batches {first} to {last} were durable and are lost: {where_from}")
    }
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
        self.map_err(|source| match StopReason::in_refusal(&source) {
            Some(reason) => Error::ReadOnly(reason.to_string()),
            None => Error::Io { doing, source },
        })
    }
}

/// What went wrong when a store stopped taking writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailedOperation {
    /// A write to the storage, or several at once.
    Write {
        /// Where it begins, in bytes; of several the first.
        offset: u64,
        /// Bytes, of all together.
        len: u64,
    },
    /// A flush of the storage: it concerns any write since the flush before.
    Flush,
    /// Something of the store itself, such as damage that keeps it from applying messages, or a panic.
    Internal,
}

/// Why a store takes no more writes: the first failure after which what is on storage is not known.
#[derive(Clone, Debug)]
pub struct StopReason {
    /// What failed.
    pub operation: FailedOperation,
    /// What the system said, if it was a system call.
    pub errno: Option<i32>,
    /// The cause in words.
    pub cause: String,
    /// When.
    pub time: SystemTime,
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.operation {
            FailedOperation::Write { offset, len } => {
                write!(f, "write of {len} bytes at byte {offset} of the storage: {}", self.cause)
            }
            FailedOperation::Flush => write!(f, "flush of the storage: {}", self.cause),
            FailedOperation::Internal => f.write_str(&self.cause),
        }
    }
}

impl std::error::Error for StopReason {}

impl StopReason {
    pub(crate) fn of(operation: FailedOperation, error: &io::Error) -> StopReason {
        let (errno, cause) = (error.raw_os_error(), error.to_string());
        StopReason { operation, errno, cause, time: SystemTime::now() }
    }

    /// The reason that a panic of this thread gives, in the middle of `operation`; `carried` is what it carries.
    pub(crate) fn panicked(operation: FailedOperation, carried: &(dyn Any + Send)) -> StopReason {
        let said = carried.downcast_ref::<&str>().copied();
        let said = said.or_else(|| carried.downcast_ref::<String>().map(String::as_str));
        let thread = std::thread::current();
        let cause = format!(
            "thread {} panicked: {}",
            thread.name().unwrap_or("without a name"),
            said.unwrap_or("it does not say why")
        );
        StopReason { operation, errno: None, cause, time: SystemTime::now() }
    }

    /// The reason that a lock gives whose holder panicked, to whoever takes it before the panic is known.
    pub(crate) fn poisoned() -> StopReason {
        let cause = "a thread panicked while it changed what others use".to_owned();
        let operation = FailedOperation::Internal;
        StopReason { operation, errno: None, cause, time: SystemTime::now() }
    }

    /// The reason that an error of the store gives.
    pub(crate) fn internal(error: &Error) -> StopReason {
        let errno = match error {
            Error::Io { source, .. } => source.raw_os_error(),
            _ => None,
        };
        let (operation, cause) = (FailedOperation::Internal, error.to_string());
        StopReason { operation, errno, cause, time: SystemTime::now() }
    }

    /// The reason in the error of a call that a latched storage refused.
    pub(crate) fn in_refusal(error: &io::Error) -> Option<&StopReason> {
        error.get_ref()?.downcast_ref()
    }
}
