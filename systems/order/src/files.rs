//! The file system's state: files, their dirty pages, and the metadata blocks that each operation changes.

use std::collections::BTreeSet;
use std::rc::Rc;

use ssd::Nanos;

use crate::setup::Layout;
use crate::sync::{Group, TaskId};

/// Number of a transaction; 0 is none.
pub(crate) type Tid = u32;
/// Number of a metadata block.
pub(crate) type MetaId = u32;

/// A file or directory of a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(pub u32);

#[derive(Debug)]
pub(crate) struct File {
    pub(crate) group: u32,
    slot: u32,
    is_dir: bool,
    pub(crate) dir: FileId,
    /// First block and most pages.
    pub(crate) base: u64,
    pub(crate) pages_max: u32,
    pub(crate) exists: bool,
    /// Size, and how far blocks are allocated (delayed allocation), in pages.
    pub(crate) size: u32,
    pub(crate) allocated: u32,
    pub(crate) dirty: BTreeSet<u32>,
    /// The last transactions that changed it: at all, and in what fdatasync needs.
    pub(crate) sync_tid: Tid,
    pub(crate) datasync_tid: Tid,
    pub(crate) touched_at: Option<Nanos>,
    /// The last data write.
    pub(crate) writeback: Rc<Group>,
    /// Who has written data that no flush has covered.
    pub(crate) writer: Option<u32>,
    /// MQFS: metadata blocks changed since the last fsync.
    pub(crate) pending: Vec<MetaId>,
    /// Data writes so far, for the order check.
    pub(crate) generation: u32,
    /// The last data write on its way to its ids.
    pub(crate) sending: Rc<Group>,
}

/// A metadata block.
#[derive(Debug)]
pub(crate) struct Meta {
    pub(crate) lba: u64,
    /// The running transaction it is in.
    pub(crate) running: Tid,
    /// The last transaction that logged it, and the token of that version.
    pub(crate) logged: Tid,
    pub(crate) token: u64,
    /// Commits whose log write of this block is in flight.
    pub(crate) shadow: u32,
    pub(crate) waiters: Vec<TaskId>,
}

#[derive(Debug)]
pub(crate) struct Files {
    layout: Layout,
    pub(crate) files: Vec<File>,
    pub(crate) metas: Vec<Meta>,
    /// Next free data block and inode of each group.
    next: Vec<(u32, u32)>,
    data_base: u64,
}

impl Files {
    pub(crate) fn new(layout: Layout) -> Files {
        let gdescs = layout.descriptors();
        let first = 64 + u64::from(layout.journal);
        let per_group = 2 + layout.inodes + layout.dirs;
        let count = gdescs + layout.groups * per_group;
        let meta = |i: u32| Meta {
            lba: first + u64::from(i),
            running: 0,
            logged: 0,
            token: 0,
            shadow: 0,
            waiters: Vec::new(),
        };
        Files {
            layout,
            files: Vec::new(),
            metas: (0..count).map(meta).collect(),
            next: vec![(0, 0); layout.groups as usize],
            data_base: first + u64::from(count),
        }
    }

    fn group_meta(&self, group: u32, i: u32) -> MetaId {
        self.layout.descriptors() + group * (2 + self.layout.inodes + self.layout.dirs) + i
    }

    /// A file (or, without pages, a directory) of a container; None if the group is full.
    pub(crate) fn add(
        &mut self,
        group: u32,
        dir: Option<FileId>,
        pages_max: u32,
        pages: Option<u32>,
    ) -> Option<FileId> {
        let l = &self.layout;
        let (block, inode) = self.next.get_mut(group as usize)?;
        if *block + pages_max > l.data || *inode >= l.inodes * 16 {
            return None;
        }
        let base = self.data_base + u64::from(group) * u64::from(l.data) + u64::from(*block);
        let (slot, id) = (*inode, FileId(self.files.len() as u32));
        *block += pages_max;
        *inode += 1;
        let size = pages.unwrap_or(0).min(pages_max);
        self.files.push(File {
            group,
            slot,
            is_dir: dir.is_none(),
            dir: dir.unwrap_or(id),
            base,
            pages_max,
            exists: pages.is_some(),
            size,
            allocated: size,
            dirty: BTreeSet::new(),
            sync_tid: 0,
            datasync_tid: 0,
            touched_at: None,
            writeback: Rc::default(),
            writer: None,
            pending: Vec::new(),
            generation: 0,
            sending: Rc::default(),
        });
        Some(id)
    }

    pub(crate) fn file(&mut self, id: FileId) -> &mut File {
        &mut self.files[id.0 as usize]
    }

    /// The block of the group's descriptor: groups of different containers lie far apart on a large disk.
    fn descriptor(&self, group: u32) -> MetaId {
        group % self.layout.descriptors()
    }

    pub(crate) fn inode(&self, id: FileId) -> MetaId {
        let f = &self.files[id.0 as usize];
        self.group_meta(f.group, 2 + f.slot / 16)
    }

    /// The block of the file's directory that names it; for a directory its own first block.
    fn entry(&self, id: FileId) -> MetaId {
        let f = &self.files[id.0 as usize];
        let i = if f.is_dir { 0 } else { f.slot % self.layout.dirs };
        self.group_meta(f.group, 2 + self.layout.inodes + i)
    }

    /// Metadata of an allocation or release of data blocks.
    pub(crate) fn of_blocks(&self, id: FileId) -> Vec<MetaId> {
        let group = self.files[id.0 as usize].group;
        vec![self.group_meta(group, 0), self.descriptor(group), self.inode(id)]
    }

    /// Metadata of a create or (`with_blocks`) a delete.
    pub(crate) fn of_name(&self, id: FileId, with_blocks: bool) -> Vec<MetaId> {
        let group = self.files[id.0 as usize].group;
        let mut out = vec![self.entry(id), self.group_meta(group, 1), self.descriptor(group), self.inode(id)];
        if with_blocks {
            out.push(self.group_meta(group, 0));
        }
        out
    }

    /// Metadata of a rename in the same directory.
    pub(crate) fn of_rename(&self, id: FileId) -> Vec<MetaId> {
        vec![self.entry(id), self.inode(id)]
    }
}
