//! Holes: where in a file there are data.

use std::ops::Range;
use std::sync::atomic::Ordering;

use super::Fs;
use super::data::{SIZE, regular};
use crate::error::{Error, Result};
use crate::key;
use crate::record::SPARSE;

/// What [`Fs::seek`] looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whence {
    /// `SEEK_DATA`.
    Data,
    /// `SEEK_HOLE`.
    Hole,
}

/// What a seek found.
#[derive(Debug)]
pub(crate) struct SeekResult {
    /// The offset.
    pub at: Result<u64>,
    /// There must be no data here, or the answer is another; to the end of the file if it ends with [`u64::MAX`].
    pub hole: Range<u64>,
}

impl Fs {
    /// The first offset from `off` on where data, or a hole, begins. The end of the file is a hole.
    ///
    /// # Errors
    /// [`Error::BehindEnd`]; as [`Fs::read`].
    pub fn seek(&self, ino: u64, off: u64, whence: Whence) -> Result<u64> {
        self.sought(ino, off, whence)?.at
    }

    /// As [`Fs::seek`], with the hole that the answer relies on. Reads no data.
    pub(crate) fn sought(&self, ino: u64, off: u64, whence: Whence) -> Result<SeekResult> {
        self.despite_losses(|| self.sought_once(ino, off, whence))
    }

    fn sought_once(&self, ino: u64, off: u64, whence: Whence) -> Result<SeekResult> {
        let node = self.node(ino)?;
        let state = node.read();
        regular(&state.inode)?;
        let size = state.inode.size;
        if off >= size {
            return Ok(SeekResult { at: Err(Error::BehindEnd), hole: size..u64::MAX });
        }
        if state.inode.flags & SPARSE == 0 {
            return Ok(match whence {
                Whence::Data => SeekResult { at: Ok(off), hole: 0..0 },
                Whence::Hole => SeekResult { at: Ok(size), hole: size..u64::MAX },
            });
        }
        self.streams.flush_file(ino)?;
        let home = node.home(&state)?;
        let mut blocks = self.db.scan(&key::blocks(&home, off / SIZE, Some(size.div_ceil(SIZE))));
        // Where the data end that begin at `off`, and where others begin.
        let mut data_end = off / SIZE;
        let mut data_next = u64::MAX;
        while let Some(key) = blocks.next_key() {
            let number = key::block_number(&key?).unwrap_or(data_end);
            if number > data_end {
                data_next = number * SIZE;
                break;
            }
            data_end = number + 1;
            if whence == Whence::Data {
                return Ok(SeekResult { at: Ok(off), hole: 0..0 });
            }
        }
        let hole = off.max(data_end * SIZE).min(size)..data_next;
        let at = match whence {
            Whence::Hole => Ok(hole.start),
            Whence::Data if data_next == u64::MAX => Err(Error::BehindEnd),
            Whence::Data => Ok(data_next),
        };
        Ok(SeekResult { at, hole })
    }

    /// As [`Fs::seek`], with all of the file taken for data.
    pub(crate) fn seek_without_holes(&self, ino: u64, off: u64, whence: Whence) -> Result<u64> {
        let size = self.attr(ino)?.size;
        match whence {
            _ if off >= size => Err(Error::BehindEnd),
            Whence::Data => Ok(off),
            Whence::Hole => Ok(size),
        }
    }

    /// Whether the kernel may have pages of this file in its cache, and so some that are dirty.
    pub(crate) fn is_cached(&self, ino: u64) -> bool {
        self.nodes.get(ino).is_some_and(|node| node.cached.load(Ordering::SeqCst))
    }

    /// Bytes of a file.
    pub(crate) fn size(&self, ino: u64) -> Result<u64> {
        Ok(self.node(ino)?.read().inode.size)
    }
}

#[cfg(test)]
mod tests {
    use betree::SimStorage;

    use crate::fs::{Fs, NewFile, Options, Whence};

    fn open(storage: &SimStorage) -> Fs {
        let store = betree::Options { background: true, ..betree::Options::tiny() };
        Fs::open(storage.clone(), &Options::with_store(store)).expect("open")
    }

    #[test]
    fn a_seek_for_a_hole_reads_no_data() {
        const MIB: u64 = 1 << 20;
        let storage = SimStorage::new(128 << 20);
        Fs::format(storage.clone(), &Options::default()).expect("format");
        let fs = open(&storage);
        let new = NewFile { mode: libc::S_IFREG | 0o644, ..NewFile::default() };
        let ino = fs.make(1, b"holes", new).expect("make").ino;
        let data = vec![7; MIB as usize];
        for at in (0..24).chain(30..40) {
            fs.write(ino, at * MIB, &data, false).expect("write");
        }
        fs.close().expect("close");
        let fs = open(&storage);
        let ino = fs.lookup(1, b"holes").expect("the file").ino;
        let before = fs.store().stats().bytes_read;
        assert_eq!(fs.seek(ino, 0, Whence::Hole).expect("a hole"), 24 * MIB);
        assert_eq!(fs.seek(ino, 24 * MIB, Whence::Data).expect("data"), 30 * MIB);
        assert_eq!(fs.seek(ino, 30 * MIB, Whence::Hole).expect("the end"), 40 * MIB);
        let read = fs.store().stats().bytes_read - before;
        assert!(read < 4 * MIB, "{read} bytes for 34 MiB of data that nobody asked for");
    }
}
