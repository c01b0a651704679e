//! The values: inode records, directory entries, the superblock. All integers little-endian.
//!
//! A record has 96 bytes of attributes, two of length of the home, the home if it was moved, and a symbolic
//! link's target. An entry of a file with several names has 10 bytes: tag, type, inode number.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};
use crate::key::{BLOCK, ROOT, SIZE_MAX};

/// Version of the layout of keys and values.
pub const VERSION: u32 = 4;
/// The oldest that is read. Version 3 adds what is reserved for files, version 4 the places of inodes: an older one becomes one of
/// version 4 when it is opened to be used.
const OLDEST: u32 = 2;
/// From this version on the places of inodes are kept.
pub const WITH_PLACES: u32 = 4;
/// Of a file system that has no space for them, but all else that this program writes.
pub const WITHOUT_PLACES: u32 = WITH_PLACES - 1;

const INODE: u8 = 1;
const POINTER: u8 = 2;
const FIXED: usize = 96;

/// The home is not where name and parent say: the record names it.
pub(crate) const MOVED: u8 = 1;
/// There may be extended attributes.
pub(crate) const XATTRS: u8 = 2;
/// Something whose home lies in this directory's is, or was, elsewhere: the home may not be deleted as a whole.
pub(crate) const LENT: u8 = 4;
/// There may be holes; `blocks` then is what was written, at most.
pub(crate) const SPARSE: u8 = 8;
/// Something is allocated for the file: there is a key that says what.
pub(crate) const RESERVED: u8 = 16;

/// A moment: seconds since 1970, and nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time {
    /// Seconds since the beginning of 1970 UTC; may be negative.
    pub sec: i64,
    /// Nanoseconds, below 10^9.
    pub nsec: u32,
}

/// What is stored of an inode.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inode {
    /// Type and permissions, as in `st_mode`.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Names; for a directory 2 and one for each subdirectory.
    pub nlink: u32,
    /// Device number, as the kernel encodes it for `mknod`.
    pub rdev: u32,
    pub(crate) flags: u8,
    /// Bytes; for a directory the number of entries.
    pub size: u64,
    /// Blocks written, if there may be holes.
    pub blocks: u64,
    /// Last change of the data.
    pub mtime: Time,
    /// Last change of anything.
    pub ctime: Time,
    /// Last access, as far as it is set by hand.
    pub atime: Time,
    /// Creation.
    pub btime: Time,
    /// Of a directory's names: changes with them, and was never that of other names. Not stored.
    pub(crate) version: u64,
}

impl Inode {
    /// The names of this directory are, or will be, others.
    pub(crate) fn new_version(&mut self) {
        static LAST: AtomicU64 = AtomicU64::new(0);
        self.version = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    }

    pub(crate) fn kind(&self) -> u32 {
        self.mode & libc::S_IFMT
    }

    /// Other attributes hardly ever have the same number.
    pub(crate) fn in_short(&self) -> u64 {
        // Whatever changes, the time of the last change does; of those within one tick the size tells most.
        let parts = [self.ctime.sec as u64, self.ctime.nsec.into(), self.size, self.blocks, self.mode.into()];
        parts
            .iter()
            .fold(1, |sum: u64, part| (sum ^ part).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29))
    }

    /// True for a directory.
    pub fn is_dir(&self) -> bool {
        self.kind() == libc::S_IFDIR
    }

    /// True for a regular file.
    pub fn is_file(&self) -> bool {
        self.kind() == libc::S_IFREG
    }
}

/// An inode with what is stored beside its attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Inode number.
    pub ino: u64,
    /// Attributes.
    pub inode: Inode,
    /// The home, if it was moved.
    pub home: Option<Box<[u8]>>,
    /// Target of a symbolic link, else empty.
    pub target: Box<[u8]>,
}

/// The value of a directory entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// The inode itself.
    Inode(Record),
    /// The inode's record lies by itself, because it has or had several names.
    Pointer {
        /// Inode number.
        ino: u64,
        /// Type, as in `st_mode`.
        kind: u32,
    },
}

impl Entry {
    /// Inode number.
    pub fn ino(&self) -> u64 {
        match self {
            Entry::Inode(record) => record.ino,
            Entry::Pointer { ino, .. } => *ino,
        }
    }

    /// Type, as in `st_mode`.
    pub fn kind(&self) -> u32 {
        match self {
            Entry::Inode(record) => record.inode.kind(),
            Entry::Pointer { kind, .. } => *kind,
        }
    }
}

/// Encodes a record up to where the home and the target follow; `home` is the home's length.
pub(crate) fn head(ino: u64, inode: &Inode, home: usize) -> [u8; FIXED + 2] {
    let mut out = [0; FIXED + 2];
    let mut at = 0;
    let mut put = |bytes: &[u8]| {
        out[at..at + bytes.len()].copy_from_slice(bytes);
        at += bytes.len();
    };
    put(&[INODE, inode.flags, 0, 0]);
    put(&inode.mode.to_le_bytes());
    put(&ino.to_le_bytes());
    for n in [inode.uid, inode.gid, inode.nlink, inode.rdev] {
        put(&n.to_le_bytes());
    }
    for n in [inode.size, inode.blocks] {
        put(&n.to_le_bytes());
    }
    for t in [inode.mtime, inode.ctime, inode.atime, inode.btime] {
        put(&t.sec.to_le_bytes());
        put(&t.nsec.to_le_bytes());
    }
    put(&(home as u16).to_le_bytes());
    out
}

/// Encodes a record.
pub fn encode(ino: u64, inode: &Inode, home: Option<&[u8]>, target: &[u8]) -> Vec<u8> {
    let home = home.filter(|_| inode.flags & MOVED != 0).unwrap_or_default();
    [&head(ino, inode, home.len()), home, target].concat()
}

/// Encodes the entry of a file with several names.
pub fn encode_pointer(ino: u64, kind: u32) -> Vec<u8> {
    let mut out = vec![POINTER, (kind >> 12) as u8];
    out.extend_from_slice(&ino.to_le_bytes());
    out
}

fn corrupt(what: &str) -> Error {
    Error::Corrupt(what.to_owned())
}

/// Largest inode number: a thousand million new files each second take 146 years to get there, and the next batch of numbers still
/// fits 64 bits.
const INO_MAX: u64 = u64::MAX >> 2;
/// Most names of a file, or subdirectories of a directory; one more still fits 32 bits.
const NLINK_MAX: u32 = u32::MAX - 1;

/// Reads little-endian integers off the front.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk().ok_or_else(|| corrupt("record too short"))?;
        self.0 = rest;
        Ok(*field)
    }

    fn u32(&mut self) -> Result<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn ino(&mut self) -> Result<u64> {
        let ino = self.u64()?;
        if ino <= INO_MAX { Ok(ino) } else { Err(corrupt("an inode number that no file system gets to")) }
    }

    fn time(&mut self) -> Result<Time> {
        Ok(Time { sec: self.take().map(i64::from_le_bytes)?, nsec: self.u32()? })
    }
}

/// Decodes a directory entry.
///
/// # Errors
/// [`Error::Corrupt`].
pub fn decode(bytes: &[u8]) -> Result<Entry> {
    let mut f = Fields(bytes);
    let [tag, flags] = f.take()?;
    if tag == POINTER {
        return Ok(Entry::Pointer { ino: f.ino()?, kind: u32::from(flags) << 12 });
    }
    if tag != INODE {
        return Err(corrupt("unknown kind of directory entry"));
    }
    f.take::<2>()?;
    let mode = f.u32()?;
    let ino = f.ino()?;
    let inode = Inode {
        mode,
        flags,
        uid: f.u32()?,
        gid: f.u32()?,
        nlink: f.u32()?,
        rdev: f.u32()?,
        size: f.u64()?,
        blocks: f.u64()?,
        mtime: f.time()?,
        ctime: f.time()?,
        atime: f.time()?,
        btime: f.time()?,
        version: 0,
    };
    if inode.nlink > NLINK_MAX || inode.size > SIZE_MAX || inode.blocks > SIZE_MAX / BLOCK as u64 {
        return Err(corrupt("more links, bytes or blocks than there can be"));
    }
    let len = f.take().map(u16::from_le_bytes)? as usize;
    let (home, target) = f.0.split_at_checked(len).ok_or_else(|| corrupt("record too short"))?;
    let home = (flags & MOVED != 0).then(|| home.into());
    Ok(Entry::Inode(Record { ino, inode, home, target: target.into() }))
}

/// Decodes a record that lies by itself.
///
/// # Errors
/// [`Error::Corrupt`].
pub fn decode_record(bytes: &[u8]) -> Result<Record> {
    match decode(bytes)? {
        Entry::Inode(record) => Ok(record),
        Entry::Pointer { .. } => Err(corrupt("a pointer where a record should be")),
    }
}

/// What is stored once: the version, and which inode numbers were never used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Version of the layout.
    pub version: u32,
    /// Bytes of a block of data.
    pub block: u32,
    /// Inode numbers from here on were never given out.
    pub next_ino: u64,
}

impl Superblock {
    /// Of this version.
    pub fn new(next_ino: u64) -> Superblock {
        Superblock { version: VERSION, block: BLOCK as u32, next_ino }
    }

    /// Encodes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = b"BETRFS\0\0".to_vec();
        out.extend_from_slice(&self.version.to_le_bytes());
        out.extend_from_slice(&self.block.to_le_bytes());
        out.extend_from_slice(&self.next_ino.to_le_bytes());
        out
    }

    /// Decodes.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if it is none or of another version.
    pub fn decode(bytes: &[u8]) -> Result<Superblock> {
        let mut f = Fields(bytes);
        if f.take()? != *b"BETRFS\0\0" {
            return Err(corrupt("the store holds no betrfs"));
        }
        let version = f.u32()?;
        if !(OLDEST..=VERSION).contains(&version) {
            return Err(Error::Corrupt(format!(
                "layout version {version}, this program knows {OLDEST} to {VERSION}"
            )));
        }
        let (block, next_ino) = (f.u32()?, f.ino()?);
        if next_ino <= ROOT {
            return Err(corrupt("the root's inode number is said to be free"));
        }
        Ok(Superblock { version, block, next_ino })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_cannot_be_are_refused() {
        let inode =
            |nlink, size, blocks| Inode { mode: libc::S_IFREG, nlink, size, blocks, ..Inode::default() };
        let read = |ino, inode: Inode| decode(&encode(ino, &inode, None, b""));
        assert!(read(INO_MAX, inode(NLINK_MAX, SIZE_MAX, SIZE_MAX / BLOCK as u64)).is_ok());
        for wild in [inode(u32::MAX, 0, 0), inode(1, SIZE_MAX + 1, 0), inode(1, 0, u64::MAX)] {
            assert!(read(9, wild).is_err());
        }
        assert!(read(u64::MAX, inode(1, 0, 0)).is_err());
        assert!(decode(&encode_pointer(u64::MAX, libc::S_IFREG)).is_err());
        for next_ino in [0, 1, u64::MAX] {
            assert!(Superblock::decode(&Superblock::new(next_ino).encode()).is_err());
        }
    }

    #[test]
    fn records_come_back_and_torn_ones_are_refused() {
        let inode = Inode {
            mode: libc::S_IFLNK | 0o777,
            uid: 1,
            gid: 2,
            nlink: 3,
            rdev: 4,
            flags: MOVED | SPARSE,
            size: 5,
            blocks: 6,
            mtime: Time { sec: -7, nsec: 8 },
            ctime: Time { sec: 9, nsec: 10 },
            atime: Time { sec: 11, nsec: 12 },
            btime: Time { sec: 13, nsec: 14 },
            version: 0,
        };
        let bytes = encode(77, &inode, Some(b"home"), b"target");
        assert_eq!(bytes.len(), FIXED + 2 + 10);
        let record = decode_record(&bytes).expect("decode");
        let expected =
            Record { ino: 77, inode, home: Some(b"home"[..].into()), target: b"target"[..].into() };
        assert_eq!(record, expected);
        for cut in 0..FIXED + 2 + 4 {
            assert!(decode(&bytes[..cut]).is_err(), "{cut} bytes");
        }
        let pointer = encode_pointer(9, libc::S_IFSOCK);
        assert_eq!(decode(&pointer).expect("decode"), Entry::Pointer { ino: 9, kind: libc::S_IFSOCK });
        assert!(decode_record(&pointer).is_err());
        assert!(decode(&[9, 0, 0, 0]).is_err());
        let superblock = Superblock::new(12);
        assert_eq!(Superblock::decode(&superblock.encode()).expect("decode"), superblock);
        assert!(Superblock::decode(b"something else").is_err());
    }
}
