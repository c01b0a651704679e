//! What can go wrong, each with the errno that a system call would return.

/// Result of a file system operation.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of an operation. The operation had no effect.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// `ENOENT`.
    #[error("no such file or directory")]
    NotFound,
    /// `EEXIST`.
    #[error("file exists")]
    Exists,
    /// `ENOTDIR`.
    #[error("not a directory")]
    NotDirectory,
    /// `EISDIR`.
    #[error("is a directory")]
    IsDirectory,
    /// `ENOTEMPTY`.
    #[error("directory not empty")]
    NotEmpty,
    /// `EINVAL`.
    #[error("invalid argument: {0}")]
    Invalid(&'static str),
    /// `ENAMETOOLONG`.
    #[error("name longer than 255 bytes")]
    NameTooLong,
    /// `EFBIG`.
    #[error("file too large: offsets go to 2^60")]
    TooLarge,
    /// `ENOSPC`: what is left is reserved for deletes and checkpoints.
    #[error("no space left")]
    NoSpace,
    /// `ENOSPC`: a file is not written, as data of it that were taken found no space, and no sync has said so.
    #[error("data that were taken found no space")]
    LostForSpace,
    /// `EIO`: data that were taken could not be written. Other files are not concerned.
    #[error("data that were taken are lost: {0}")]
    DataLost(String),
    /// `ENODATA`: no such extended attribute.
    #[error("no such extended attribute")]
    NoAttribute,
    /// `E2BIG`.
    #[error("extended attribute larger than 64 KiB")]
    AttributeTooLarge,
    /// `EMLINK`.
    #[error("too many links")]
    TooManyLinks,
    /// `EPERM`.
    #[error("operation not permitted")]
    NotPermitted,
    /// `ENXIO`: no data or hole at or behind the offset.
    #[error("offset at or behind the end of the file")]
    BehindEnd,
    /// `EOPNOTSUPP`.
    #[error("operation not supported")]
    NotSupported,
    /// `EROFS`: an earlier failure left the outcome of writes unknown; mount again to recover.
    #[error("read-only after an earlier failure: {0}")]
    ReadOnly(String),
    /// `EIO`: the store holds something that this layer did not write.
    #[error("corrupt file system: {0}; run fsck")]
    Corrupt(String),
    /// `EIO`: there is nothing to open, or it is of another version.
    #[error("no betrfs file system that this program can open: {0}")]
    NotOne(String),
    /// `EIO`: the store failed.
    #[error(transparent)]
    Store(betree::Error),
}

impl Error {
    /// The error number that a system call returns for it.
    pub fn errno(&self) -> i32 {
        match self {
            Error::NotFound => libc::ENOENT,
            Error::Exists => libc::EEXIST,
            Error::NotDirectory => libc::ENOTDIR,
            Error::IsDirectory => libc::EISDIR,
            Error::NotEmpty => libc::ENOTEMPTY,
            Error::Invalid(_) => libc::EINVAL,
            Error::NameTooLong => libc::ENAMETOOLONG,
            Error::TooLarge => libc::EFBIG,
            Error::NoSpace | Error::LostForSpace => libc::ENOSPC,
            Error::NoAttribute => libc::ENODATA,
            Error::AttributeTooLarge => libc::E2BIG,
            Error::TooManyLinks => libc::EMLINK,
            Error::NotPermitted => libc::EPERM,
            Error::BehindEnd => libc::ENXIO,
            Error::NotSupported => libc::EOPNOTSUPP,
            Error::ReadOnly(_) => libc::EROFS,
            Error::DataLost(_) | Error::Corrupt(_) | Error::NotOne(_) | Error::Store(_) => libc::EIO,
        }
    }
}

impl From<betree::Error> for Error {
    fn from(error: betree::Error) -> Error {
        match error {
            betree::Error::NoSpace => Error::NoSpace,
            betree::Error::NotAStore(why) => Error::NotOne(why),
            betree::Error::ReadOnly(why) => Error::ReadOnly(why),
            other => Error::Store(other),
        }
    }
}
