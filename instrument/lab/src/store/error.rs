//! What can go wrong with the store.

use std::path::PathBuf;

use rusqlite::ffi;
use thiserror::Error;

/// What helps when the store has no room.
const ELSEWHERE: &str =
    "make room where it lies, or keep results elsewhere (--home FOLDER, or LOADLINE_HOME)";

/// What helps when it cannot be written at all.
const WRITABLE: &str = "keep results where you may write (--home FOLDER, or LOADLINE_HOME)";

/// What went wrong with the store.
#[derive(Debug, Error)]
pub enum StoreError {
    /// There is no place for the store.
    #[error("no place for results is known; set LOADLINE_HOME or HOME")]
    NoHome,
    /// The store's folder could not be made.
    #[error("the folder {path} for results: {source}{remedy}", remedy = room(.source))]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// SQLite's own errors.
    #[error("the store of results: {0}{remedy}", remedy = remedy(.0))]
    Sqlite(#[from] rusqlite::Error),
    /// A stored record cannot be read.
    #[error("a record of run {run} cannot be read: {why}")]
    Damaged {
        /// The run's id.
        run: String,
        /// What is wrong.
        why: String,
    },
    /// The store was written by a newer loadline.
    #[error(
        "the store has version {found}, this loadline knows versions up to {known}; use a newer loadline"
    )]
    TooNew {
        /// The store's version.
        found: u32,
        /// The newest version that is known here.
        known: u32,
    },
    /// The store was written by an older loadline, and is only to be read.
    #[error(
        "the store has version {found}, this loadline reads version {known}; `loadline runs` brings it up to date"
    )]
    TooOld {
        /// The store's version.
        found: u32,
        /// The version that is read here.
        known: u32,
    },
    /// A name that a run cannot have.
    #[error(
        "`{name}` is no name for a run; it begins with a letter and has letters, digits, `-`, `_` and `.` only"
    )]
    Name {
        /// The name.
        name: String,
    },
    /// No run of that name.
    #[error("no run is called {wanted}{hint}")]
    NoSuchRun {
        /// What was asked for.
        wanted: String,
        /// How to see what there is.
        hint: &'static str,
    },
    /// An abbreviation of several runs.
    #[error("{wanted} is the beginning of several runs: {}", .matches.join(", "))]
    Ambiguous {
        /// What was asked for.
        wanted: String,
        /// The runs.
        matches: Vec<String>,
    },
    /// Another process extends the run.
    #[error("run {run} is being extended by process {pid}; wait for it or end it")]
    InUse {
        /// The run's id.
        run: String,
        /// The process.
        pid: u32,
    },
}

/// What would help against an error of SQLite: also to read, it makes a file beside the store, for which a full disk has no
/// room. Codes of sqlite.org/rescode.html.
fn remedy(error: &rusqlite::Error) -> String {
    let Some(error) = error.sqlite_error() else { return String::new() };
    // it keeps SQLITE_FULL for a write that met ENOSPC; the index of the log in shared memory has a code of its own
    const WRITES: [i32; 6] = [
        ffi::SQLITE_IOERR_WRITE,
        ffi::SQLITE_IOERR_FSYNC,
        ffi::SQLITE_IOERR_TRUNCATE,
        ffi::SQLITE_IOERR_SHMOPEN,
        ffi::SQLITE_IOERR_SHMSIZE,
        ffi::SQLITE_CANTOPEN,
    ];
    match error.extended_code {
        code if code & 0xff == ffi::SQLITE_FULL => format!("; its disk is full: {ELSEWHERE}"),
        code if WRITES.contains(&code) => {
            format!(
                "; is its disk full, or a quota or `ulimit -f` met (`df` tells)? {ELSEWHERE}; if there is room, `dmesg` tells of a broken disk"
            )
        }
        _ => String::new(),
    }
}

/// The same of a folder that cannot be made.
fn room(error: &std::io::Error) -> String {
    use std::io::ErrorKind::{PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    match error.kind() {
        StorageFull | QuotaExceeded => format!("; its disk is full, or a quota met: {ELSEWHERE}"),
        ReadOnlyFilesystem | PermissionDenied => format!("; {WRITABLE}"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_without_room_is_told_with_a_remedy() {
        let told = |code| {
            StoreError::Sqlite(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)).to_string()
        };
        assert!(told(ffi::SQLITE_FULL).contains("its disk is full: make room"), "{}", told(ffi::SQLITE_FULL));
        for code in [ffi::SQLITE_IOERR_SHMSIZE, ffi::SQLITE_IOERR_WRITE, ffi::SQLITE_CANTOPEN] {
            assert!(
                told(code).contains("is its disk full") && told(code).contains("--home"),
                "{}",
                told(code)
            );
        }
        for code in [ffi::SQLITE_CORRUPT, ffi::SQLITE_IOERR_READ, ffi::SQLITE_BUSY] {
            assert!(!told(code).contains("full"), "{}", told(code));
        }
        let folder = |errno| StoreError::Folder {
            path: "/x".into(),
            source: std::io::Error::from_raw_os_error(errno),
        };
        assert!(folder(libc::ENOSPC).to_string().contains("make room"), "{}", folder(libc::ENOSPC));
        assert!(!folder(libc::EACCES).to_string().contains("make room"));
    }
}
