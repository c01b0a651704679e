//! Answers, put together.

use std::time::Duration;

/// Attributes (`struct fuse_attr`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attr {
    /// Inode number, as in `st_ino`.
    pub ino: u64,
    /// Bytes.
    pub size: u64,
    /// Units of 512 bytes.
    pub blocks: u64,
    /// Last access: seconds since 1970, nanoseconds.
    pub atime: (i64, u32),
    /// Last change of the data.
    pub mtime: (i64, u32),
    /// Last change of anything.
    pub ctime: (i64, u32),
    /// Type and permissions, as in `st_mode`.
    pub mode: u32,
    /// Names.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number.
    pub rdev: u32,
    /// Bytes of a good unit of I/O.
    pub block_bytes: u32,
}

const ATTR_BYTES: usize = 88;
const ENTRY_BYTES: usize = 40 + ATTR_BYTES;
const OPENED_BYTES: usize = 16;
const STATX_BYTES: usize = 32 + 256;
const DIRENT_BYTES: usize = 24;

/// What a name leads to (`struct fuse_entry_out`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The node; 0 says that there is none, and that this may be cached.
    pub node: u64,
    /// How long name and attributes may be cached.
    pub ttl: Duration,
    /// Its attributes.
    pub attr: Attr,
}

/// Something opened (`struct fuse_open_out`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// Comes back with every request.
    pub handle: u64,
    /// Flags of [`super::open_flag`].
    pub flags: u32,
}

/// Space (`struct fuse_kstatfs`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatFs {
    /// Units of `unit_bytes`.
    pub blocks: u64,
    /// Free ones.
    pub free: u64,
    /// Free for anybody.
    pub available: u64,
    /// Inodes.
    pub files: u64,
    /// Free ones.
    pub files_free: u64,
    /// Bytes of a unit.
    pub unit_bytes: u32,
    /// Bytes of the longest name.
    pub name_bytes_max: u32,
}

/// Puts numbers into an array one behind the other.
struct Pen<'a> {
    to: &'a mut [u8],
    at: usize,
}

impl Pen<'_> {
    fn long(&mut self, value: u64) {
        self.to[self.at..self.at + 8].copy_from_slice(&value.to_ne_bytes());
        self.at += 8;
    }

    fn word(&mut self, value: u32) {
        self.to[self.at..self.at + 4].copy_from_slice(&value.to_ne_bytes());
        self.at += 4;
    }

    fn half(&mut self, value: u16) {
        self.to[self.at..self.at + 2].copy_from_slice(&value.to_ne_bytes());
        self.at += 2;
    }

    fn attr(&mut self, attr: &Attr) {
        for value in [attr.ino, attr.size, attr.blocks] {
            self.long(value);
        }
        for time in [attr.atime, attr.mtime, attr.ctime] {
            self.long(time.0 as u64);
        }
        let times = [attr.atime.1, attr.mtime.1, attr.ctime.1];
        let rest = [attr.mode, attr.nlink, attr.uid, attr.gid, attr.rdev, attr.block_bytes, 0];
        times.into_iter().chain(rest).for_each(|value| self.word(value));
    }

    fn entry(&mut self, entry: &Entry) {
        self.long(entry.node);
        // One number is one file for the file system's whole life: no generations.
        self.long(0);
        self.long(entry.ttl.as_secs());
        self.long(entry.ttl.as_secs());
        self.word(entry.ttl.subsec_nanos());
        self.word(entry.ttl.subsec_nanos());
        self.attr(&entry.attr);
    }

    fn opened(&mut self, opened: Opened) {
        self.long(opened.handle);
        self.word(opened.flags);
        self.word(0);
    }
}

/// `struct fuse_entry_out`.
pub fn entry_bytes(entry: &Entry) -> [u8; ENTRY_BYTES] {
    let mut out = [0; ENTRY_BYTES];
    Pen { to: &mut out, at: 0 }.entry(entry);
    out
}

/// `struct fuse_attr_out`: attributes that may be cached for `ttl`.
pub fn attr_bytes(attr: &Attr, ttl: Duration) -> [u8; 16 + ATTR_BYTES] {
    let mut out = [0; 16 + ATTR_BYTES];
    let mut pen = Pen { to: &mut out, at: 0 };
    pen.long(ttl.as_secs());
    pen.word(ttl.subsec_nanos());
    pen.word(0);
    pen.attr(attr);
    out
}

/// The answer to STATX, `struct fuse_statx_out`: attributes and the creation time, which may be cached for `ttl`.
pub fn statx_bytes(attr: &Attr, btime: (i64, u32), ttl: Duration) -> [u8; STATX_BYTES] {
    let mut out = [0; STATX_BYTES];
    let mut pen = Pen { to: &mut out, at: 0 };
    pen.long(ttl.as_secs());
    // After the nanoseconds flags and two spare numbers.
    [ttl.subsec_nanos(), 0, 0, 0, 0, 0].into_iter().for_each(|value| pen.word(value));
    [libc::STATX_BASIC_STATS | libc::STATX_BTIME, attr.block_bytes]
        .into_iter()
        .for_each(|value| pen.word(value));
    // No attributes such as "immutable" are there.
    pen.long(0);
    [attr.nlink, attr.uid, attr.gid].into_iter().for_each(|value| pen.word(value));
    [attr.mode as u16, 0].into_iter().for_each(|value| pen.half(value));
    [attr.ino, attr.size, attr.blocks, 0].into_iter().for_each(|value| pen.long(value));
    for (sec, nsec) in [attr.atime, btime, attr.ctime, attr.mtime] {
        pen.long(sec as u64);
        pen.word(nsec);
        pen.word(0);
    }
    // The kernel's own encoding, taken apart.
    let (major, minor) = (attr.rdev >> 8 & 0xFFF, attr.rdev & 0xFF | attr.rdev >> 12 & 0xFFF00);
    pen.word(major);
    pen.word(minor);
    out
}

/// The answer to WRITE, `struct fuse_write_out`: so many bytes.
pub fn written_bytes(bytes: u32) -> [u8; 8] {
    // Padding follows the number.
    let mut out = [0; 8];
    out[..4].copy_from_slice(&bytes.to_ne_bytes());
    out
}

/// `struct fuse_open_out`.
pub fn opened_bytes(opened: Opened) -> [u8; OPENED_BYTES] {
    let mut out = [0; OPENED_BYTES];
    Pen { to: &mut out, at: 0 }.opened(opened);
    out
}

/// The answer to CREATE: `struct fuse_entry_out`, then `struct fuse_open_out`.
pub fn created_bytes(entry: &Entry, opened: Opened) -> [u8; ENTRY_BYTES + OPENED_BYTES] {
    let mut out = [0; ENTRY_BYTES + OPENED_BYTES];
    let mut pen = Pen { to: &mut out, at: 0 };
    pen.entry(entry);
    pen.opened(opened);
    out
}

impl StatFs {
    /// `struct fuse_statfs_out`.
    pub fn bytes(&self) -> [u8; 80] {
        let mut out = [0; 80];
        let mut pen = Pen { to: &mut out, at: 0 };
        for value in [self.blocks, self.free, self.available, self.files, self.files_free] {
            pen.long(value);
        }
        [self.unit_bytes, self.name_bytes_max, self.unit_bytes].into_iter().for_each(|value| pen.word(value));
        out
    }
}

/// Entries of a directory, put into an answer one behind the other.
#[derive(Debug)]
pub struct Directory<'a> {
    to: &'a mut [u8],
    filled: usize,
}

impl<'a> Directory<'a> {
    /// Entries for an answer of at most `size` bytes, put together in `to`.
    pub fn new(to: &'a mut [u8], size: u32) -> Directory<'a> {
        let most = to.len().min(size as usize);
        Directory { to: &mut to[..most], filled: 0 }
    }

    /// Bytes so far.
    pub fn filled(&self) -> usize {
        self.filled
    }

    /// Adds an entry of READDIR: `mode` is its type as in `st_mode`, `next` where to go on behind it. False if there
    /// is no more room: then it was not added.
    pub fn add(&mut self, ino: u64, next: u64, mode: u32, name: &[u8]) -> bool {
        self.put(None, ino, next, mode, name)
    }

    /// Adds an entry of READDIRPLUS. With node 0 the kernel learns nothing but the name.
    pub fn add_plus(&mut self, entry: &Entry, ino: u64, next: u64, mode: u32, name: &[u8]) -> bool {
        self.put(Some(entry), ino, next, mode, name)
    }

    fn put(&mut self, entry: Option<&Entry>, ino: u64, next: u64, mode: u32, name: &[u8]) -> bool {
        let fixed = DIRENT_BYTES + if entry.is_some() { ENTRY_BYTES } else { 0 };
        let bytes = (fixed + name.len()).next_multiple_of(8);
        let Some(to) = self.to.get_mut(self.filled..self.filled + bytes) else { return false };
        let mut pen = Pen { to, at: 0 };
        if let Some(entry) = entry {
            pen.entry(entry);
        }
        pen.long(ino);
        pen.long(next);
        pen.word(name.len() as u32);
        pen.word((mode & 0o170_000) >> 12);
        to[fixed..fixed + name.len()].copy_from_slice(name);
        to[fixed + name.len()..].fill(0);
        self.filled += bytes;
        true
    }
}
