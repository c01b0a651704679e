//! Where things lie in the store: the layout of keys.
//!
//! Every directory and file has a *home*: a prefix of the keys of what it holds. A home is made when the object is: the
//! home of the directory, a tag, the name, NUL, the inode number. So in a tree that was never renamed keys are full
//! paths. A rename moves the record and leaves the home where it is, so that it costs the same for any size; the record
//! then names the home. Homes of objects too deep for a key begin with a zone of their own.
//!
//! Names, inodes and attributes lie under the home itself, data under the same home behind a byte of its own: so both
//! are in the order of the tree, `find` meets no data, and `grep` reads two streams.
//!
//! | key | value |
//! |---|---|
//! | `00 'S'` | superblock |
//! | `00 'R'` | record of the root directory |
//! | `01` | home of the root directory |
//! | `02` ino | homes that would be too long, and of files made without a name |
//! | `03` ino | records of files with several names |
//! | `04` ino | orphans: unlinked but still open; the value is the home |
//! | `07` ino | where the entry is that holds the record of this inode: ino of the directory, name |
//! | dir-home `01` name | directory entry |
//! | home `02` name | extended attribute |
//! | dir-home `03` name `00` ino | home of a file |
//! | dir-home `04` name `00` ino | home of a directory |
//! | `05` file-home block | data; block in 6 bytes, big-endian |
//!
//! `ino` is a byte with its length and that many bytes, big-endian, without leading zeros.

use std::ops::Deref;

use betree::{KeyRange, WriteBatch};

/// Bytes of a block of data.
pub const BLOCK: usize = 4096;
/// Longest name in bytes.
pub const NAME_MAX: usize = 255;
/// Offsets in files end here.
pub const SIZE_MAX: u64 = 1 << 60;
/// Inode number of the root directory.
pub const ROOT: u64 = 1;
/// Home of the root directory.
pub const ROOT_HOME: &[u8] = &[0x01];
/// Key of the superblock.
pub const SUPERBLOCK: &[u8] = b"\x00S";
/// Key of the root directory's record.
pub const ROOT_RECORD: &[u8] = b"\x00R";

pub(crate) const ZONE: u8 = 0x02;
pub(crate) const LINKED: u8 = 0x03;
pub(crate) const ORPHAN: u8 = 0x04;
pub(crate) const RESERVED: u8 = 0x06;
pub(crate) const PLACE: u8 = 0x07;
pub(crate) const ENTRY: u8 = 0x01;
pub(crate) const XATTR: u8 = 0x02;
pub(crate) const FILE: u8 = 0x03;
pub(crate) const DIRECTORY: u8 = 0x04;
pub(crate) const DATA: u8 = 0x05;

/// A home that would be longer gets a zone.
const HOME_MAX: usize = 1024;

/// An inode number in bytes, so that keys sort by it and none is a prefix of another.
pub(crate) struct InoBytes {
    bytes: [u8; 9],
    from: usize,
}

impl InoBytes {
    pub fn of(ino: u64) -> InoBytes {
        let mut bytes = [0; 9];
        bytes[1..].copy_from_slice(&ino.to_be_bytes());
        let from = (ino.leading_zeros() / 8) as usize;
        bytes[from] = (8 - from) as u8;
        InoBytes { bytes, from }
    }
}

impl Deref for InoBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.from..]
    }
}

/// Appends an inode number.
pub(crate) fn put_ino(key: &mut Vec<u8>, ino: u64) {
    key.extend_from_slice(&InoBytes::of(ino));
}

/// Splits an inode number from the front of `bytes`; None if there is none.
pub fn take_ino(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (&len, rest) = bytes.split_first()?;
    if len > 8 || rest.len() < len as usize {
        return None;
    }
    let (number, rest) = rest.split_at(len as usize);
    Some((number.iter().fold(0, |n, b| n << 8 | u64::from(*b)), rest))
}

fn zoned(zone: u8, ino: u64) -> Vec<u8> {
    let mut key = vec![zone];
    put_ino(&mut key, ino);
    key
}

/// Key of the record of a file with several names.
pub fn linked(ino: u64) -> Vec<u8> {
    zoned(LINKED, ino)
}

/// Key of an orphan.
pub fn orphan(ino: u64) -> Vec<u8> {
    zoned(ORPHAN, ino)
}

/// Key of what is reserved for a file.
pub fn reserved(ino: u64) -> Vec<u8> {
    zoned(RESERVED, ino)
}

/// The keys of what is reserved for all files.
pub fn all_reserved() -> KeyRange {
    KeyRange::prefix(&[RESERVED])
}

/// Key of the place of an inode.
pub fn place(ino: u64) -> Vec<u8> {
    zoned(PLACE, ino)
}

/// The keys of all places.
pub fn all_places() -> KeyRange {
    KeyRange::prefix(&[PLACE])
}

/// Adds that the record of `ino` is in the entry `name` of the directory `dir`.
pub(crate) fn put_place(batch: &mut WriteBatch, ino: u64, dir: u64, name: &[u8]) {
    batch.put_parts(&[&[PLACE], &*InoBytes::of(ino)], &[&*InoBytes::of(dir), name]);
}

fn tagged(home: &[u8], tag: u8, name: &[u8]) -> Vec<u8> {
    [home, &[tag], name].concat()
}

/// [`entry`] in parts.
pub(crate) fn entry_parts<'a>(home: &'a [u8], name: &'a [u8]) -> [&'a [u8]; 3] {
    [home, &[ENTRY], name]
}

/// Key of a directory's entry.
pub fn entry(home: &[u8], name: &[u8]) -> Vec<u8> {
    tagged(home, ENTRY, name)
}

/// The keys of all entries of a directory.
pub fn entries(home: &[u8]) -> KeyRange {
    KeyRange::prefix(&tagged(home, ENTRY, b""))
}

/// The keys of the entries behind `name`.
pub fn entries_after(home: &[u8], name: &[u8]) -> KeyRange {
    let mut first = entry(home, name);
    first.push(0);
    KeyRange { lo: first.into(), hi: entries(home).hi }
}

/// Key of an extended attribute.
pub fn xattr(home: &[u8], name: &[u8]) -> Vec<u8> {
    tagged(home, XATTR, name)
}

/// The keys of all extended attributes.
pub fn xattrs(home: &[u8]) -> KeyRange {
    KeyRange::prefix(&tagged(home, XATTR, b""))
}

/// The home of a file made without a name.
pub fn nameless_home(ino: u64) -> Vec<u8> {
    zoned(ZONE, ino)
}

/// The home of an object made under `name` in the directory at `parent`.
pub fn home(parent: &[u8], is_dir: bool, name: &[u8], ino: u64) -> Vec<u8> {
    if parent.len() + name.len() + 11 > HOME_MAX {
        return zoned(ZONE, ino);
    }
    let mut key = Vec::with_capacity(parent.len() + name.len() + 11);
    key.extend_from_slice(parent);
    key.push(if is_dir { DIRECTORY } else { FILE });
    key.extend_from_slice(name);
    key.push(0);
    put_ino(&mut key, ino);
    key
}

fn data(home: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(home.len() + 7);
    key.push(DATA);
    key.extend_from_slice(home);
    key
}

/// Key of a block of data.
pub fn block(home: &[u8], number: u64) -> Vec<u8> {
    let mut key = data(home);
    key.extend_from_slice(&number.to_be_bytes()[2..]);
    key
}

/// The end of a block's key.
pub(crate) fn block_tail(number: u64) -> [u8; 6] {
    let [_, _, tail @ ..] = number.to_be_bytes();
    tail
}

/// [`block`] in parts; `tail` is [`block_tail`].
pub(crate) fn block_parts<'a>(home: &'a [u8], tail: &'a [u8; 6]) -> [&'a [u8]; 3] {
    [&[DATA], home, tail]
}

/// The keys of the blocks from `first` up to, not including, `end`; None for all the rest.
pub fn blocks(home: &[u8], first: u64, end: Option<u64>) -> KeyRange {
    let lo = block(home, first);
    match end {
        Some(end) => KeyRange::new(&lo, &block(home, end)),
        None => KeyRange { lo: lo.into(), hi: betree::key::prefix_end(&data(home)) },
    }
}

/// Adds the removal of everything in a home, and in all homes in it.
pub fn delete_home(batch: &mut WriteBatch, home: &[u8]) {
    batch.delete_range(&KeyRange::prefix(home)).delete_range(&KeyRange::prefix(&data(home)));
}

/// The number of a block from its key.
pub fn block_number(key: &[u8]) -> Option<u64> {
    let tail = key.get(key.len().checked_sub(6)?..)?;
    Some(tail.iter().fold(0, |n, b| n << 8 | u64::from(*b)))
}

/// What a key in somebody's home is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HomeKeyKind<'a> {
    /// The entry of this name.
    Entry(&'a [u8]),
    /// The extended attribute of this name.
    Xattr(&'a [u8]),
    /// The block of this number.
    Block(u64),
    /// Nothing: the home itself.
    Home,
}

/// The lengths of the homes that a home lies in, outermost first, itself last. None for what is no home.
pub fn homes(home: &[u8]) -> Option<Vec<usize>> {
    match split(home)? {
        (homes, []) => Some(homes),
        _ => None,
    }
}

/// The home of a directory, and a name in that.
pub type NameKey<'a> = (&'a [u8], &'a [u8]);

/// Of a directory's home: the directory's inode number, and where it was made: home and name, None for the root and for one
/// with a zone of its own. None for what is no home.
pub fn made(home: &[u8]) -> Option<(u64, Option<NameKey<'_>>)> {
    let lengths = homes(home)?;
    if home == ROOT_HOME {
        return Some((ROOT, None));
    }
    let Some(up) = lengths.len().checked_sub(2).map(|at| lengths[at]) else {
        return Some((take_ino(&home[1..])?.0, None));
    };
    let (_tag, rest) = home[up..].split_first()?;
    let end = rest.iter().position(|b| *b == 0)?;
    Some((take_ino(&rest[end + 1..])?.0, Some((&home[..up], &rest[..end]))))
}

/// The home that a key lies in, and what it is for there. None for keys that lie in no home, and for what is no key of
/// this layout.
pub fn parse(key: &[u8]) -> Option<(&[u8], HomeKeyKind<'_>)> {
    if let Some((&DATA, path)) = key.split_first() {
        let home = path.get(..path.len().checked_sub(6)?)?;
        homes(home)?;
        return Some((home, HomeKeyKind::Block(block_number(key)?)));
    }
    let (homes, rest) = split(key)?;
    let home = &key[..*homes.last()?];
    match rest.split_first() {
        None => Some((home, HomeKeyKind::Home)),
        Some((&ENTRY, name)) => Some((home, HomeKeyKind::Entry(name))),
        Some((&XATTR, name)) => Some((home, HomeKeyKind::Xattr(name))),
        _ => None,
    }
}

/// Takes homes off the front as far as there are any: their lengths, and the rest.
fn split(key: &[u8]) -> Option<(Vec<usize>, &[u8])> {
    let mut rest = match key.split_first()? {
        (&first, rest) if [first] == *ROOT_HOME => rest,
        (&ZONE, rest) => take_ino(rest)?.1,
        _ => return None,
    };
    let mut homes = vec![key.len() - rest.len()];
    while let Some((&(FILE | DIRECTORY), tail)) = rest.split_first() {
        let end = tail.iter().position(|b| *b == 0)?;
        rest = take_ino(&tail[end + 1..])?.1;
        homes.push(key.len() - rest.len());
    }
    Some((homes, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inode_numbers_sort_and_come_back() {
        let mut last = Vec::new();
        for ino in [0, 1, 2, 255, 256, 65_535, 65_536, 1 << 40, u64::MAX] {
            let mut key = Vec::new();
            put_ino(&mut key, ino);
            assert!(key > last, "{ino} sorts behind the smaller ones");
            last = key.clone();
            key.push(7);
            assert_eq!(take_ino(&key), Some((ino, &[7u8][..])));
        }
        assert_eq!(take_ino(&[3, 1, 2]), None);
        assert_eq!(take_ino(&[9, 1, 2, 3, 4, 5, 6, 7, 8, 9]), None);
    }

    #[test]
    fn entries_come_before_subdirectories_and_data() {
        let file = home(ROOT_HOME, false, b"a", 5);
        let dir = home(ROOT_HOME, true, b"a", 6);
        let inner = home(&dir, false, b"\xFF", 7);
        let keys = [
            entry(ROOT_HOME, b"a"),
            entry(ROOT_HOME, b"\xFF"),
            xattr(&file, b"user.x"),
            entry(&dir, b"\x01"),
            block(&file, 0),
            block(&file, 1 << 40),
            block(&home(ROOT_HOME, false, b"ab", 4), 0),
            block(&inner, 3),
        ];
        assert!(keys.is_sorted(), "{keys:?}");
        assert_eq!(block_number(&keys[5]), Some(1 << 40));
        assert!(blocks(&file, 1, None).contains(&keys[5]) && !blocks(&file, 0, None).contains(&keys[6]));
        assert!(entries(ROOT_HOME).contains(&keys[1]) && !entries(ROOT_HOME).contains(&keys[2]));
        assert!(!entries_after(ROOT_HOME, b"a").contains(&keys[0]));
        assert!(entries_after(ROOT_HOME, b"a").contains(&entry(ROOT_HOME, b"a\x00")));
    }

    #[test]
    fn keys_are_taken_apart() {
        let dir = home(ROOT_HOME, true, b"a", 6);
        let file = home(&dir, false, b"f", 300);
        assert_eq!(homes(&file), Some(vec![1, dir.len(), file.len()]));
        assert_eq!(parse(&block(&file, 9)), Some((&file[..], HomeKeyKind::Block(9))));
        assert_eq!(parse(&xattr(&file, b"user.x")), Some((&file[..], HomeKeyKind::Xattr(b"user.x"))));
        assert_eq!(parse(&file), Some((&file[..], HomeKeyKind::Home)));
        assert_eq!(parse(&entry(&dir, b"f")), Some((&dir[..], HomeKeyKind::Entry(b"f"))));
        assert_eq!(made(ROOT_HOME), Some((ROOT, None)));
        assert_eq!(made(&dir), Some((6, Some((ROOT_HOME, &b"a"[..])))));
        let zone = zoned(ZONE, 77);
        assert_eq!(made(&zone), Some((77, None)));
        let inner = home(&zone, true, b"\x04x", 78);
        assert_eq!(made(&inner), Some((78, Some((&zone[..], &b"\x04x"[..])))));
        assert_eq!(parse(&block(&zone, 0)), Some((&zone[..], HomeKeyKind::Block(0))));
        for bad in [&b""[..], SUPERBLOCK, &linked(5), b"\x01\x09", b"\x05abc", b"\x01\x03name"] {
            assert_eq!(parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn deep_homes_get_a_zone() {
        let mut at = ROOT_HOME.to_vec();
        for ino in 2..100 {
            at = home(&at, true, &[b'x'; 200], ino);
            assert!(at.len() <= HOME_MAX);
        }
    }
}
