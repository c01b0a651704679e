//! One recorded system call. Offsets are explicit and paths absolute, whatever the program used: the recorder follows
//! descriptors, positions and working directories.

use serde::{Deserialize, Serialize};

/// What a call does. Calls that differ only in how they name the file or the buffers are one: `openat2` opens, `preadv` reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Call {
    /// Opens `path` (flags: those of open(2)); a success makes `handle`.
    Open,
    /// The last descriptor of `handle` is closed, also by the end of its process.
    Close,
    /// Reads `bytes` of `handle` at `offset`; the result is what was read.
    Read,
    /// Writes; an appending write has the offset at which it ended up.
    Write,
    /// fsync of `handle`.
    Fsync,
    /// fdatasync of `handle`.
    Fdatasync,
    /// sync_file_range of `handle`, from `offset`, `bytes`, flags as there.
    SyncRange,
    /// sync or syncfs; no file.
    Sync,
    /// Sets the size of `handle`, or of `path`, to `bytes`.
    Truncate,
    /// fallocate of `handle`, from `offset`, `bytes`, flags: its mode.
    Allocate,
    /// Removes the name `path`.
    Unlink,
    /// Renames `path` to `to`; flags: those of renameat2.
    Rename,
    /// Makes `to` a second name of `path`.
    Link,
    /// Makes a symbolic link `path`.
    Symlink,
    /// Makes the directory `path`.
    MakeDirectory,
    /// Removes the directory `path`.
    RemoveDirectory,
    /// Asks for attributes of `path`, or of `handle`.
    Stat,
    /// Reads entries of the directory `handle`; the result is bytes.
    ReadDirectory,
    /// Changes attributes (mode, owner, times, extended ones) of `path`, or of `handle`.
    SetAttributes,
    /// A page of a mapping of `handle`'s file was read in: a read of `bytes` at `offset` by the kernel.
    Fault,
}

impl Call {
    /// Every kind, in the order of their numbers in a file.
    pub const ALL: [Call; 20] = [
        Call::Open,
        Call::Close,
        Call::Read,
        Call::Write,
        Call::Fsync,
        Call::Fdatasync,
        Call::SyncRange,
        Call::Sync,
        Call::Truncate,
        Call::Allocate,
        Call::Unlink,
        Call::Rename,
        Call::Link,
        Call::Symlink,
        Call::MakeDirectory,
        Call::RemoveDirectory,
        Call::Stat,
        Call::ReadDirectory,
        Call::SetAttributes,
        Call::Fault,
    ];

    /// Its name in tables and messages.
    pub fn name(self) -> &'static str {
        match self {
            Call::Open => "open",
            Call::Close => "close",
            Call::Read => "read",
            Call::Write => "write",
            Call::Fsync => "fsync",
            Call::Fdatasync => "fdatasync",
            Call::SyncRange => "sync_file_range",
            Call::Sync => "sync",
            Call::Truncate => "truncate",
            Call::Allocate => "fallocate",
            Call::Unlink => "unlink",
            Call::Rename => "rename",
            Call::Link => "link",
            Call::Symlink => "symlink",
            Call::MakeDirectory => "mkdir",
            Call::RemoveDirectory => "rmdir",
            Call::Stat => "stat",
            Call::ReadDirectory => "readdir",
            Call::SetAttributes => "setattr",
            Call::Fault => "fault",
        }
    }
}

/// One call as it was recorded. What a kind of call does not have is `None` or 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// Who: a number of [`Item::Thread`](crate::Item::Thread).
    pub thread: u32,
    /// What.
    pub call: Call,
    /// When it began, in nanoseconds since the recording's begin.
    pub begin_ns: u64,
    /// How long it took, in nanoseconds.
    pub took_ns: u64,
    /// What it returned: 0 or more, or the negative `errno`.
    pub result: i64,
    /// The file's name: a number of [`Item::Path`](crate::Item::Path).
    pub path: Option<u32>,
    /// The second name of a rename or link.
    pub to: Option<u32>,
    /// The opening of the file, numbered from 0 by successful opens in the recording; shared by what `dup` and `fork` made of
    /// it. A file that was open before the recording has an [`Item::Inherited`](crate::Item::Inherited).
    pub handle: Option<u32>,
    /// Where, in bytes.
    pub offset: u64,
    /// How much was asked for, in bytes.
    pub bytes: u64,
    /// Flags of the call, by its kind.
    pub flags: u32,
}

impl Operation {
    /// An operation of which nothing is known but what it does and what it returned.
    pub const fn blank(call: Call, result: i64) -> Operation {
        Operation {
            thread: 0,
            call,
            begin_ns: 0,
            took_ns: 0,
            result,
            path: None,
            to: None,
            handle: None,
            offset: 0,
            bytes: 0,
            flags: 0,
        }
    }

    /// When it ended, in nanoseconds since the recording's begin.
    pub fn end_ns(&self) -> u64 {
        self.begin_ns.saturating_add(self.took_ns)
    }

    /// Whether it did what it was to do.
    pub fn succeeded(&self) -> bool {
        self.result >= 0
    }
}
