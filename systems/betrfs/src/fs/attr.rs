//! Attributes, and figures of the whole.

use std::sync::atomic::Ordering;
use std::time::Instant;

use betree::{KeyRange, WriteBatch};

use super::reserve::put_reserved;
use super::{Fs, now};
use crate::error::Result;
use crate::key::BLOCK;
use crate::node::Node;
use crate::record::{Inode, SPARSE, Time};

/// Less than this share of the device (1/N), removed, is not looked for: it would hardly be seen in what df(1) prints.
const SHARE_SEEN: u64 = 4096;
/// Blocks of a removal that is brought to its leaf to be counted: 1 MiB.
const LARGE: u64 = 256;
/// Such removals that are remembered, the largest: each costs the rewriting of two leaves and what is above them.
const RANGES_MAX: usize = 64;
/// Checkpoints that are made to count take at most this share (1/N) of the time.
const COUNTING_SHARE: u32 = 10;

/// What `stat` shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attr {
    /// Inode number.
    pub ino: u64,
    /// Type and permissions, as in `st_mode`.
    pub mode: u32,
    /// Names; for a directory 2 and one for each subdirectory.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number.
    pub rdev: u32,
    /// Bytes.
    pub size: u64,
    /// Units of 512 bytes. A file with holes has at most so many; any other has its size.
    pub blocks: u64,
    /// Last access, as far as it is set by hand.
    pub atime: Time,
    /// Last change of the data.
    pub mtime: Time,
    /// Last change of anything.
    pub ctime: Time,
    /// Creation.
    pub btime: Time,
}

impl Attr {
    /// Those of a node, which a holder is told.
    pub(super) fn told(node: &Node, inode: &Inode) -> Attr {
        node.tell(inode);
        Attr::of(node.ino, inode)
    }

    pub(super) fn of(ino: u64, inode: &Inode) -> Attr {
        let size = if inode.is_dir() { inode.size * 32 } else { inode.size };
        Attr {
            ino,
            mode: inode.mode,
            nlink: inode.nlink,
            uid: inode.uid,
            gid: inode.gid,
            rdev: inode.rdev,
            size,
            blocks: inode.data_blocks() * (BLOCK as u64 / 512),
            atime: inode.atime,
            mtime: inode.mtime,
            ctime: inode.ctime,
            btime: inode.btime,
        }
    }
}

/// A time to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// The present.
    Now,
    /// This.
    At(Time),
}

impl SetTime {
    fn time(self) -> Time {
        match self {
            SetTime::Now => now(),
            SetTime::At(time) => time,
        }
    }
}

/// Attributes to change; what is `None` stays.
#[derive(Clone, Copy, Debug, Default)]
pub struct SetAttr {
    /// Permissions (the type bits are ignored).
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Bytes: cuts a file or extends it with a hole.
    pub size: Option<u64>,
    /// Last access.
    pub atime: Option<SetTime>,
    /// Last change of the data.
    pub mtime: Option<SetTime>,
    /// Take the set-user-ID and set-group-ID bits away, as a change of size by a stranger does.
    pub kill_priv: bool,
    /// The group of who asks for that. The set-group-ID bit of a file that its group may not execute goes for those of another
    /// group only; it stays if None.
    pub group: Option<u32>,
}

/// What `statfs` shows, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Capacity.
    pub total: u64,
    /// Not in use, and not reserved for a file.
    pub free: u64,
    /// Free for data: without what is reserved or waits to be written.
    pub available: u64,
}

impl Inode {
    /// Blocks of data, of a file that may have holes at most.
    pub(super) fn data_blocks(&self) -> u64 {
        let whole = self.size.div_ceil(BLOCK as u64);
        match self.flags & SPARSE {
            _ if !self.is_file() => 0,
            0 => whole,
            _ => self.blocks.min(whole),
        }
    }

    /// What a write by somebody without privileges does to the mode.
    pub(super) fn kill_priv(&mut self) {
        if self.is_dir() {
            return;
        }
        self.mode &= !libc::S_ISUID;
        if self.mode & libc::S_IXGRP != 0 {
            self.mode &= !libc::S_ISGID;
        }
    }
}

impl Fs {
    /// Attributes of an inode.
    ///
    /// # Errors
    /// [`Error::NotFound`](crate::Error::NotFound) if the caller does not hold it.
    pub fn attr(&self, ino: u64) -> Result<Attr> {
        let node = self.node(ino)?;
        let state = node.read();
        Ok(Attr::told(&node, &state.inode))
    }

    /// Changes attributes. Changes of owner or group take the set-user-ID bit away, unless `mode` gives it again.
    ///
    /// # Errors
    /// [`Error::IsDirectory`](crate::Error::IsDirectory) or [`Error::Invalid`](crate::Error::Invalid) for the size
    /// of what is no regular file, [`Error::TooLarge`](crate::Error::TooLarge), the store's.
    pub fn set_attr(&self, ino: u64, set: &SetAttr) -> Result<Attr> {
        self.despite_losses(|| self.set_attr_once(ino, set))
    }

    fn set_attr_once(&self, ino: u64, set: &SetAttr) -> Result<Attr> {
        let _tree = self.shared();
        let node = self.node(ino)?;
        let mut state = node.write();
        let mut inode = state.inode.clone();
        let mut batch = WriteBatch::new();
        let mut least = WriteBatch::new();
        let mut reserved = None;
        let now = now();
        inode.ctime = now;
        if set.uid.is_some() || set.gid.is_some() || set.kill_priv {
            inode.kill_priv();
        }
        if set.kill_priv && set.group.is_some_and(|group| group != inode.gid) && !inode.is_dir() {
            inode.mode &= !libc::S_ISGID;
        }
        if let Some(size) = set.size {
            state.changes();
            self.resize(&mut batch, &node, &state, &mut inode, size)?;
            inode.mtime = now;
            if size <= state.inode.size {
                let gone = (size.div_ceil(BLOCK as u64), u64::MAX);
                reserved = self.unreserve(&mut batch, &node, &mut state, &mut inode, gone)?;
                self.resize(&mut least, &node, &state, &mut state.inode.clone(), size)?;
                if let Some(reserved) = &reserved {
                    put_reserved(&mut least, &node, &mut inode, reserved);
                }
            }
        }
        if let Some(mode) = set.mode {
            inode.mode = inode.mode & libc::S_IFMT | mode & !libc::S_IFMT;
        }
        inode.uid = set.uid.unwrap_or(inode.uid);
        inode.gid = set.gid.unwrap_or(inode.gid);
        inode.atime = set.atime.map_or(inode.atime, SetTime::time);
        inode.mtime = set.mtime.map_or(inode.mtime, SetTime::time);
        self.put_record(&mut batch, &node, &state, &inode)?;
        let frees = !least.is_empty();
        if frees {
            batch.from_reserve();
        }
        let saved =
            self.commit_freeing(batch, || if frees { Ok(least) } else { Err(crate::Error::NoSpace) })?;
        let removed = state.inode.data_blocks().saturating_sub(inode.data_blocks());
        if removed > 0 {
            let home = node.home(&state)?;
            self.removed(removed, || crate::key::blocks(&home, inode.size.div_ceil(BLOCK as u64), None));
        }
        if let Some(reserved) = reserved {
            self.set_reserved(&mut state, reserved);
        }
        state.inode = inode;
        if let (Some(size), Some(loss)) = (set.size, &mut state.loss) {
            loss.truncated(size);
        }
        state.unsaved = !saved && !state.dead;
        Ok(Attr::told(&node, &state.inode))
    }

    /// Notes that blocks of data were removed: `blocks`, with the keys in `range`.
    pub(super) fn removed(&self, blocks: u64, range: impl FnOnce() -> KeyRange) {
        if blocks == 0 {
            return;
        }
        self.removed_blocks.fetch_add(blocks, Ordering::Relaxed);
        if blocks >= LARGE {
            let mut removed = self.removed_ranges.lock().unwrap_or_else(|e| e.into_inner());
            let least = removed.iter().enumerate().min_by_key(|(_, (blocks, _))| *blocks);
            match least.map(|(at, (least, _))| (at, *least)) {
                Some((at, least)) if removed.len() == RANGES_MAX => {
                    if least < blocks {
                        removed[at] = (blocks, range());
                    }
                }
                _ => removed.push((blocks, range())),
            }
        }
    }

    /// Takes a checkpoint, and brings the largest removals to where they free something.
    pub(super) fn settle_removed(&self) -> Result<()> {
        let removed = std::mem::take(&mut *self.removed_ranges.lock().unwrap_or_else(|e| e.into_inner()));
        let ranges: Vec<KeyRange> = removed.into_iter().map(|(_, range)| range).collect();
        Ok(self.db.settle(&ranges)?)
    }

    /// How full the file system is, with what was removed free: if that is enough to be seen, and it was not done just now,
    /// the largest removals are first brought to where they free something, with a checkpoint. What that will free cannot be
    /// told without it: data may wait in several places of the tree, or be removed before it ever took space.
    pub fn counted_space(&self) -> Space {
        let space = self.space();
        let removed = self.removed_blocks.load(Ordering::Relaxed);
        if removed < space.total / BLOCK as u64 / SHARE_SEEN {
            return space;
        }
        // Somebody else who is at it will have counted when asked again.
        let Ok(mut earliest) = self.count_again.try_lock() else { return space };
        let begin = Instant::now();
        if earliest.is_some_and(|earliest| begin < earliest) {
            return space;
        }
        self.waits();
        self.removed_blocks.fetch_sub(removed, Ordering::Relaxed);
        // If it fails, there is as much as can be said.
        let _ = self.streams.flush().and_then(|()| self.settle_removed());
        *earliest = Some(begin + begin.elapsed() * COUNTING_SHARE);
        self.space()
    }

    /// How full the file system is.
    pub fn space(&self) -> Space {
        let stats = self.db.stats();
        let waiting = (stats.unwritten_bytes + stats.memtable_bytes) as u64 / 4 * 5;
        let taken = waiting + stats.promised_bytes;
        Space {
            total: stats.capacity_bytes,
            free: stats.free_bytes.saturating_sub(taken),
            available: stats.free_bytes.saturating_sub(taken + stats.reserve_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use betree::SimStorage;

    use super::*;
    use crate::fs::{NewFile, Options};

    const MIB: u64 = 1 << 20;
    const FILE: NewFile<'_> = NewFile { mode: libc::S_IFREG | 0o644, uid: 0, gid: 0, rdev: 0, target: b"" };

    fn fill(fs: &Fs, name: &[u8], bytes: u64) -> u64 {
        let file = fs.make(1, name, FILE).expect("make").ino;
        let data: Vec<u8> = (0..MIB).map(|n| ((n * n) >> 7) as u8).collect();
        for at in (0..bytes).step_by(MIB as usize) {
            fs.write(file, at, &data, false).expect("write");
        }
        file
    }

    #[test]
    fn what_was_removed_is_counted_as_free_and_can_be_written() {
        let storage = SimStorage::new(128 * MIB);
        let options = Options::with_store(betree::Options { cache_bytes: 16 << 20, ..Default::default() });
        Fs::format(storage.clone(), &options).expect("format");
        let fs = Fs::open(storage.clone(), &options).expect("open");
        let empty = fs.space();
        let file = fill(&fs, b"file", 64 * MIB);
        fs.forget(file, 1);
        fs.close().expect("close");
        for way in ["unlinked", "held and then let go", "truncated", "punched"] {
            let fs = Fs::open(storage.clone(), &options).expect("open");
            let file = match fs.lookup(1, b"file") {
                Ok(attr) => attr.ino,
                Err(_) => fill(&fs, b"file", 64 * MIB),
            };
            fs.settle().expect("all is on the storage");
            let full = fs.counted_space();
            assert!(full.free < empty.free - 60 * MIB, "{way}: {full:?} of {empty:?}");
            match way {
                "truncated" => {
                    fs.set_attr(file, &SetAttr { size: Some(4096), ..SetAttr::default() }).expect("truncate");
                }
                "punched" => {
                    let punch = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
                    fs.allocate(file, punch, 0, 64 * MIB).expect("punch");
                }
                "unlinked" => {
                    fs.forget(file, 1);
                    fs.unlink(1, b"file").expect("unlink");
                }
                _ => {
                    fs.unlink(1, b"file").expect("unlink");
                    assert!(fs.counted_space().free < empty.free - 60 * MIB, "{way}: somebody holds it");
                    fs.forget(file, 1);
                }
            }
            let counted = fs.counted_space();
            // A block that is left keeps its extent.
            assert!(counted.free > empty.free - 2 * MIB, "{way}: {counted:?} of {empty:?}");
            // As soon again it is not counted anew; without anything removed never.
            let checkpoints = fs.store().stats().checkpoints;
            *fs.count_again.lock().expect("nobody failed") = None;
            fs.counted_space();
            assert_eq!(fs.store().stats().checkpoints, checkpoints, "{way}");
            // What was said to be there is there.
            let most = counted.available / MIB * MIB - 2 * MIB;
            let other = fill(&fs, b"other", most);
            fs.forget(other, 1);
            fs.unlink(1, b"other").expect("unlink");
            *fs.count_again.lock().expect("nobody failed") =
                Some(Instant::now() + std::time::Duration::from_secs(3600));
            let before = fs.store().stats().checkpoints;
            fs.counted_space();
            assert!(fs.store().stats().checkpoints <= before + 1, "{way}: one of the store's own at most");
            if fs.lookup(1, b"file").is_ok() {
                fs.unlink(1, b"file").expect("unlink");
            }
            fs.close().expect("close");
            let report = crate::check(storage.clone(), false).expect("check");
            assert!(report.is_clean() && report.findings.is_empty(), "{report}");
        }
    }
}
