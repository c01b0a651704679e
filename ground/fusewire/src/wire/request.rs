//! Requests, taken apart. What they name lies where it arrived.

use super::init::InitRequest;
use super::{IN_HEADER_BYTES, opcode, u32_at, u64_at};

/// `struct fuse_in_header`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Bytes of the whole request.
    pub len: u32,
    /// What is asked; see [`opcode`].
    pub opcode: u32,
    /// Names the request when it is answered.
    pub unique: u64,
    /// The node that is asked about.
    pub node: u64,
    /// Who asks.
    pub uid: u32,
    /// Their group.
    pub gid: u32,
    /// Their process; 0 if it is the kernel itself.
    pub pid: u32,
}

impl Header {
    /// Reads a header; None if there are too few bytes.
    pub fn parse(bytes: &[u8]) -> Option<Header> {
        let bytes = bytes.get(..IN_HEADER_BYTES)?;
        Some(Header {
            len: u32_at(bytes, 0)?,
            opcode: u32_at(bytes, 4)?,
            unique: u64_at(bytes, 8)?,
            node: u64_at(bytes, 16)?,
            uid: u32_at(bytes, 24)?,
            gid: u32_at(bytes, 28)?,
            pid: u32_at(bytes, 32)?,
        })
    }
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// Who asks, about what.
    pub header: Header,
    /// What is asked.
    pub operation: Operation<'a>,
}

/// A time to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// The present.
    Now,
    /// Seconds since 1970 and nanoseconds (below 10^9).
    At(i64, u32),
}

/// What SETATTR sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttr {
    /// Permissions (and type, which stays).
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Bytes.
    pub size: Option<u64>,
    /// Last access.
    pub atime: Option<SetTime>,
    /// Last change of the data.
    pub mtime: Option<SetTime>,
    /// Take set-user-ID and the like away. Also true if nothing else is asked: of a file system that takes them away
    /// itself the kernel asks so before a write through its cache and an allocation by a stranger, in a request
    /// without any attribute.
    pub kill_priv: bool,
}

/// What a request asks. Offsets and sizes are in bytes; `handle` is what the file system gave at the open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields are those of the system calls of the same name")]
pub enum Operation<'a> {
    Lookup {
        name: &'a [u8],
    },
    Forget {
        lookups: u64,
    },
    BatchForget(Forgets<'a>),
    /// With a handle of an open file if `with_handle`: asked within a call on that file, such as a write that the kernel collects, and
    /// not for stat(2).
    GetAttr {
        with_handle: bool,
    },
    /// Attributes with the creation time; the answer is [`Reply::statx`](crate::Reply::statx).
    StatX,
    SetAttr(SetAttr),
    ReadLink,
    Symlink {
        name: &'a [u8],
        target: &'a [u8],
    },
    MkNod {
        name: &'a [u8],
        mode: u32,
        rdev: u32,
        umask: u32,
    },
    MkDir {
        name: &'a [u8],
        mode: u32,
        umask: u32,
    },
    Unlink {
        name: &'a [u8],
    },
    RmDir {
        name: &'a [u8],
    },
    Rename {
        name: &'a [u8],
        new_parent: u64,
        new_name: &'a [u8],
        flags: u32,
    },
    Link {
        node: u64,
        new_name: &'a [u8],
    },
    Open {
        flags: u32,
    },
    Read {
        handle: u64,
        offset: u64,
        size: u32,
        /// Past the page cache.
        direct: bool,
    },
    Write {
        handle: u64,
        offset: u64,
        data: &'a [u8],
        kill_priv: bool,
        /// Past the page cache.
        direct: bool,
        /// Pages that the kernel has collected, of a mapping or with write-back: no program waits for the answer, and of it the kernel
        /// (6.18) looks at the error alone, never at how much was written.
        collected: bool,
        /// It must be durable when the caller goes on: `O_DSYNC` and `O_SYNC`. If it is `direct`, the kernel (6.18) sends no FSYNC
        /// after it.
        durable: bool,
    },
    StatFs,
    /// `sync` and `syncfs`: Linux sends it for `fuseblk` and virtiofs only.
    SyncFs,
    Release {
        handle: u64,
    },
    Fsync {
        handle: u64,
        data_only: bool,
    },
    SetXattr {
        name: &'a [u8],
        value: &'a [u8],
        flags: u32,
    },
    GetXattr {
        name: &'a [u8],
        size: u32,
    },
    ListXattr {
        size: u32,
    },
    RemoveXattr {
        name: &'a [u8],
    },
    Flush {
        handle: u64,
    },
    Init(InitRequest),
    OpenDir {
        flags: u32,
    },
    ReadDir {
        handle: u64,
        offset: u64,
        size: u32,
    },
    ReadDirPlus {
        handle: u64,
        offset: u64,
        size: u32,
    },
    ReleaseDir {
        handle: u64,
    },
    FsyncDir {
        handle: u64,
        data_only: bool,
    },
    Create {
        name: &'a [u8],
        mode: u32,
        umask: u32,
        flags: u32,
    },
    /// A file without a name, opened.
    TmpFile {
        mode: u32,
        umask: u32,
        flags: u32,
    },
    Interrupt {
        unique: u64,
    },
    Destroy,
    Fallocate {
        handle: u64,
        offset: u64,
        length: u64,
        mode: u32,
    },
    Lseek {
        handle: u64,
        offset: u64,
        whence: u32,
    },
    /// Anything else: the answer is ENOSYS.
    Unknown,
}

/// Nodes to forget, and how many lookups of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forgets<'a>(&'a [u8]);

impl Forgets<'_> {
    /// Node and lookups of each.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.chunks_exact(16).filter_map(|one| Some((u64_at(one, 0)?, u64_at(one, 8)?)))
    }
}

/// Bytes of the fixed arguments behind the header of a request; names and data follow them.
pub fn fixed_bytes(operation: u32) -> usize {
    match operation {
        opcode::FORGET | opcode::MKDIR | opcode::RENAME | opcode::LINK | opcode::OPEN | opcode::OPENDIR => 8,
        opcode::SETXATTR | opcode::GETXATTR | opcode::LISTXATTR | opcode::INTERRUPT => 8,
        opcode::BATCH_FORGET | opcode::SYNCFS => 8,
        opcode::GETATTR | opcode::MKNOD | opcode::CREATE | opcode::RENAME2 => 16,
        opcode::FSYNC | opcode::FSYNCDIR | opcode::TMPFILE => 16,
        opcode::RELEASE | opcode::RELEASEDIR | opcode::FLUSH | opcode::LSEEK | opcode::STATX => 24,
        opcode::FALLOCATE => 32,
        opcode::READ | opcode::WRITE | opcode::READDIR | opcode::READDIRPLUS => 40,
        opcode::SETATTR => 88,
        _ => 0,
    }
}

/// The bytes before the first NUL, and those behind it.
fn name(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|b| *b == 0)?;
    Some((&bytes[..end], &bytes[end + 1..]))
}

fn one_name(bytes: &[u8]) -> Option<&[u8]> {
    name(bytes).map(|(name, _)| name)
}

fn two_names(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (first, rest) = name(bytes)?;
    Some((first, one_name(rest)?))
}

fn set_attr(fixed: &[u8]) -> Option<SetAttr> {
    const MODE: u32 = 1;
    const UID: u32 = 1 << 1;
    const GID: u32 = 1 << 2;
    const SIZE: u32 = 1 << 3;
    const ATIME: u32 = 1 << 4;
    const MTIME: u32 = 1 << 5;
    const ATIME_NOW: u32 = 1 << 7;
    const MTIME_NOW: u32 = 1 << 8;
    const KILL_SUIDGID: u32 = 1 << 11;
    /// With a handle, with a lock's owner: not what is to change.
    const HOW: u32 = 1 << 6 | 1 << 9;
    let valid = u32_at(fixed, 0)?;
    let given = |flag: u32, at: usize| (valid & flag != 0).then(|| u32_at(fixed, at)).flatten();
    let time = |flag: u32, now: u32, seconds: usize, nanoseconds: usize| {
        if valid & flag == 0 {
            None
        } else if valid & now != 0 {
            Some(SetTime::Now)
        } else {
            let nanoseconds = u32_at(fixed, nanoseconds)?.min(999_999_999);
            Some(SetTime::At(u64_at(fixed, seconds)? as i64, nanoseconds))
        }
    };
    Some(SetAttr {
        mode: given(MODE, 68),
        uid: given(UID, 76),
        gid: given(GID, 80),
        size: if valid & SIZE != 0 { Some(u64_at(fixed, 16)?) } else { None },
        atime: time(ATIME, ATIME_NOW, 32, 56),
        mtime: time(MTIME, MTIME_NOW, 40, 60),
        kill_priv: valid & KILL_SUIDGID != 0 || valid & !HOW == 0,
    })
}

impl<'a> Request<'a> {
    /// Reads a request as it comes from `/dev/fuse`: header, fixed arguments and what follows in one piece. None if
    /// it is none.
    pub fn parse(bytes: &'a [u8]) -> Option<Request<'a>> {
        let header = Header::parse(bytes)?;
        let body = bytes.get(IN_HEADER_BYTES..header.len as usize)?;
        let (fixed, rest) = body.split_at_checked(fixed_bytes(header.opcode))?;
        Request::of_parts(header, fixed, rest)
    }

    /// Reads a request as it comes from a ring: in three pieces. `fixed` may be longer than the arguments.
    pub fn of_parts(header: Header, fixed: &'a [u8], rest: &'a [u8]) -> Option<Request<'a>> {
        let operation = if header.opcode == opcode::INIT {
            Operation::Init(InitRequest::parse(rest)?)
        } else {
            parse(header.opcode, fixed, rest)?
        };
        Some(Request { header, operation })
    }
}

/// Flag of GETATTR: its handle counts.
const GETATTR_FH: u32 = 1;

fn parse<'a>(code: u32, fixed: &'a [u8], rest: &'a [u8]) -> Option<Operation<'a>> {
    let word = |at| u32_at(fixed, at);
    let long = |at| u64_at(fixed, at);
    Some(match code {
        opcode::LOOKUP => Operation::Lookup { name: one_name(rest)? },
        opcode::FORGET => Operation::Forget { lookups: long(0)? },
        opcode::BATCH_FORGET => {
            Operation::BatchForget(Forgets(rest.get(..(word(0)? as usize).checked_mul(16)?)?))
        }
        opcode::GETATTR => Operation::GetAttr { with_handle: word(0)? & GETATTR_FH != 0 },
        opcode::STATX => Operation::StatX,
        opcode::SETATTR => Operation::SetAttr(set_attr(fixed)?),
        opcode::READLINK => Operation::ReadLink,
        opcode::SYMLINK => {
            let (name, target) = two_names(rest)?;
            Operation::Symlink { name, target }
        }
        opcode::MKNOD => {
            Operation::MkNod { name: one_name(rest)?, mode: word(0)?, rdev: word(4)?, umask: word(8)? }
        }
        opcode::MKDIR => Operation::MkDir { name: one_name(rest)?, mode: word(0)?, umask: word(4)? },
        opcode::UNLINK => Operation::Unlink { name: one_name(rest)? },
        opcode::RMDIR => Operation::RmDir { name: one_name(rest)? },
        opcode::RENAME | opcode::RENAME2 => {
            let (name, new_name) = two_names(rest)?;
            let flags = if code == opcode::RENAME2 { word(8)? } else { 0 };
            Operation::Rename { name, new_parent: long(0)?, new_name, flags }
        }
        opcode::LINK => Operation::Link { node: long(0)?, new_name: one_name(rest)? },
        opcode::CREATE => {
            Operation::Create { name: one_name(rest)?, flags: word(0)?, mode: word(4)?, umask: word(8)? }
        }
        // The name that comes with it is none.
        opcode::TMPFILE => Operation::TmpFile { flags: word(0)?, mode: word(4)?, umask: word(8)? },
        opcode::STATFS => Operation::StatFs,
        opcode::SYNCFS => Operation::SyncFs,
        opcode::SETXATTR => {
            let (name, value) = name(rest)?;
            Operation::SetXattr { name, value: value.get(..word(0)? as usize)?, flags: word(4)? }
        }
        opcode::GETXATTR => Operation::GetXattr { name: one_name(rest)?, size: word(0)? },
        opcode::LISTXATTR => Operation::ListXattr { size: word(0)? },
        opcode::REMOVEXATTR => Operation::RemoveXattr { name: one_name(rest)? },
        opcode::INTERRUPT => Operation::Interrupt { unique: long(0)? },
        opcode::DESTROY => Operation::Destroy,
        _ => return of_handle(code, fixed, rest),
    })
}

/// Operations on something open.
fn of_handle<'a>(code: u32, fixed: &'a [u8], rest: &'a [u8]) -> Option<Operation<'a>> {
    const DATA_ONLY: u32 = 1;
    const WRITE_KILL_SUIDGID: u32 = 1 << 2;
    /// `FUSE_WRITE_CACHE`.
    const WRITE_COLLECTED: u32 = 1;
    /// Only a read or write past the page cache names the owner of its locks: those of the cache are nobody's.
    const IO_LOCK_OWNER: u32 = 1 << 1;
    let word = |at| u32_at(fixed, at);
    let long = |at| u64_at(fixed, at);
    Some(match code {
        opcode::OPEN => Operation::Open { flags: word(0)? },
        opcode::OPENDIR => Operation::OpenDir { flags: word(0)? },
        opcode::READ => Operation::Read {
            handle: long(0)?,
            offset: long(8)?,
            size: word(16)?,
            direct: word(20)? & IO_LOCK_OWNER != 0,
        },
        opcode::READDIR => Operation::ReadDir { handle: long(0)?, offset: long(8)?, size: word(16)? },
        opcode::READDIRPLUS => Operation::ReadDirPlus { handle: long(0)?, offset: long(8)?, size: word(16)? },
        opcode::WRITE => Operation::Write {
            handle: long(0)?,
            offset: long(8)?,
            data: rest.get(..word(16)? as usize)?,
            kill_priv: word(20)? & WRITE_KILL_SUIDGID != 0,
            direct: word(20)? & IO_LOCK_OWNER != 0,
            collected: word(20)? & WRITE_COLLECTED != 0,
            durable: word(32)? & libc::O_DSYNC as u32 != 0,
        },
        opcode::RELEASE => Operation::Release { handle: long(0)? },
        opcode::RELEASEDIR => Operation::ReleaseDir { handle: long(0)? },
        opcode::FLUSH => Operation::Flush { handle: long(0)? },
        opcode::FSYNC => Operation::Fsync { handle: long(0)?, data_only: word(8)? & DATA_ONLY != 0 },
        opcode::FSYNCDIR => Operation::FsyncDir { handle: long(0)?, data_only: word(8)? & DATA_ONLY != 0 },
        opcode::FALLOCATE => {
            Operation::Fallocate { handle: long(0)?, offset: long(8)?, length: long(16)?, mode: word(24)? }
        }
        opcode::LSEEK => Operation::Lseek { handle: long(0)?, offset: long(8)?, whence: word(16)? },
        _ => Operation::Unknown,
    })
}
