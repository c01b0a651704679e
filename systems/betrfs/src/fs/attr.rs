//! Attributes, and figures of the whole.

use betree::WriteBatch;

use super::{Fs, now};
use crate::error::Result;
use crate::key::BLOCK;
use crate::node::Node;
use crate::record::{Inode, SPARSE, Time};

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
        let whole = inode.size.div_ceil(BLOCK as u64);
        let (size, blocks) = match inode.mode & libc::S_IFMT {
            libc::S_IFDIR => (inode.size * 32, 0),
            libc::S_IFREG if inode.flags & SPARSE != 0 => (inode.size, inode.blocks.min(whole)),
            libc::S_IFREG => (inode.size, whole),
            _ => (inode.size, 0),
        };
        Attr {
            ino,
            mode: inode.mode,
            nlink: inode.nlink,
            uid: inode.uid,
            gid: inode.gid,
            rdev: inode.rdev,
            size,
            blocks: blocks * (BLOCK as u64 / 512),
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
    /// Not in use.
    pub free: u64,
    /// Free for data: without what is reserved or waits to be written.
    pub available: u64,
}

impl Inode {
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
        let node = self.node(ino)?;
        let mut state = node.write();
        let mut inode = state.inode.clone();
        let mut batch = WriteBatch::new();
        let mut least = WriteBatch::new();
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
                self.resize(&mut least, &node, &state, &mut inode.clone(), size)?;
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
        state.inode = inode;
        state.unsaved = !saved && !state.dead;
        Ok(Attr::told(&node, &state.inode))
    }

    /// How full the file system is.
    pub fn space(&self) -> Space {
        let stats = self.db.stats();
        let waiting = (stats.unwritten_bytes + stats.memtable_bytes) as u64 / 4 * 5;
        Space {
            total: stats.capacity_bytes,
            free: stats.free_bytes.saturating_sub(waiting),
            available: stats.free_bytes.saturating_sub(waiting + stats.reserve_bytes),
        }
    }
}
