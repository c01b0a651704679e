//! The bytes: requests of the kernel, answers, and what a file system tells the kernel unasked.
//!
//! Numbers and layouts are those of the kernel's include/uapi/linux/fuse.h, protocol 7.31 to 7.45, in the byte order
//! of the machine.

mod init;
mod notify;
mod reply;
mod request;

pub use init::{Capabilities, InitConfig, InitRequest};
pub use notify::{invalidate_entry, invalidate_inode, prune};
pub use reply::{
    Attr, Directory, Entry, Opened, StatFs, attr_bytes, created_bytes, entry_bytes, opened_bytes,
    statx_bytes, written_bytes,
};
pub use request::{Forgets, Header, Operation, Request, SetAttr, SetTime, fixed_bytes};

/// Bytes of `struct fuse_in_header`.
pub const IN_HEADER_BYTES: usize = 40;
/// Bytes of `struct fuse_out_header`.
pub const OUT_HEADER_BYTES: usize = 16;
/// Node number of the root directory.
pub const ROOT: u64 = 1;

/// Opcodes (`enum fuse_opcode`).
pub mod opcode {
    #![expect(missing_docs, reason = "the names are the kernel's, and all there is to say")]
    pub const LOOKUP: u32 = 1;
    pub const FORGET: u32 = 2;
    pub const GETATTR: u32 = 3;
    pub const SETATTR: u32 = 4;
    pub const READLINK: u32 = 5;
    pub const SYMLINK: u32 = 6;
    pub const MKNOD: u32 = 8;
    pub const MKDIR: u32 = 9;
    pub const UNLINK: u32 = 10;
    pub const RMDIR: u32 = 11;
    pub const RENAME: u32 = 12;
    pub const LINK: u32 = 13;
    pub const OPEN: u32 = 14;
    pub const READ: u32 = 15;
    pub const WRITE: u32 = 16;
    pub const STATFS: u32 = 17;
    pub const RELEASE: u32 = 18;
    pub const FSYNC: u32 = 20;
    pub const SETXATTR: u32 = 21;
    pub const GETXATTR: u32 = 22;
    pub const LISTXATTR: u32 = 23;
    pub const REMOVEXATTR: u32 = 24;
    pub const FLUSH: u32 = 25;
    pub const INIT: u32 = 26;
    pub const OPENDIR: u32 = 27;
    pub const READDIR: u32 = 28;
    pub const RELEASEDIR: u32 = 29;
    pub const FSYNCDIR: u32 = 30;
    pub const CREATE: u32 = 35;
    pub const INTERRUPT: u32 = 36;
    pub const DESTROY: u32 = 38;
    pub const NOTIFY_REPLY: u32 = 41;
    pub const BATCH_FORGET: u32 = 42;
    pub const FALLOCATE: u32 = 43;
    pub const READDIRPLUS: u32 = 44;
    pub const RENAME2: u32 = 45;
    pub const LSEEK: u32 = 46;
    pub const SYNCFS: u32 = 50;
    pub const TMPFILE: u32 = 51;
    pub const STATX: u32 = 52;
}

/// Flags of INIT.
pub mod init_flag {
    /// Reads of one file at once.
    pub const ASYNC_READ: u64 = 1;
    /// LOOKUP of `.` and `..`, also of a number that the kernel holds no more: for file handles.
    pub const EXPORT_SUPPORT: u64 = 1 << 4;
    /// Writes of more than a page.
    pub const BIG_WRITES: u64 = 1 << 5;
    /// READDIRPLUS.
    pub const DO_READDIRPLUS: u64 = 1 << 13;
    /// Direct I/O in the background.
    pub const ASYNC_DIO: u64 = 1 << 15;
    /// The kernel collects writes.
    pub const WRITEBACK_CACHE: u64 = 1 << 16;
    /// OPEN may be answered ENOSYS once and for all.
    pub const NO_OPEN_SUPPORT: u64 = 1 << 17;
    /// Lookups and reads of one directory at once.
    pub const PARALLEL_DIROPS: u64 = 1 << 18;
    /// `max_pages` of the answer counts.
    pub const MAX_PAGES: u64 = 1 << 22;
    /// Targets of symbolic links are cached.
    pub const CACHE_SYMLINKS: u64 = 1 << 23;
    /// Data leave the page cache only when the file system says so.
    pub const EXPLICIT_INVAL_DATA: u64 = 1 << 25;
    /// The file system takes set-user-ID and capabilities away.
    pub const HANDLE_KILLPRIV_V2: u64 = 1 << 28;
    /// The flags have a second half.
    pub const INIT_EXT: u64 = 1 << 30;
    /// Requests come through io_uring.
    pub const OVER_IO_URING: u64 = 1 << 41;
}

/// Flags of an opened file.
pub mod open_flag {
    /// Past the page cache.
    pub const DIRECT_IO: u32 = 1;
    /// What the page cache has of the file stays.
    pub const KEEP_CACHE: u32 = 1 << 1;
    /// The kernel may keep what it reads of a directory.
    pub const CACHE_DIR: u32 = 1 << 3;
    /// No FLUSH at a close.
    pub const NOFLUSH: u32 = 1 << 5;
    /// Direct writes of one file at once.
    pub const PARALLEL_DIRECT_WRITES: u32 = 1 << 6;
}

/// Reads a number at `at`, if the bytes reach so far.
fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}
