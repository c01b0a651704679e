//! Taking names away, and what only they led to.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use betree::WriteBatch;

use super::{Fs, now};
use crate::error::{Error, Result};
use crate::key;
use crate::node::{Node, State};
use crate::record::{Inode, LENT, MOVED, RESERVED, SPARSE, XATTRS};

/// Files up to this many blocks are removed block by block, which leaves shorter traces than a range.
const POINTS_MAX: u64 = 4;

impl Fs {
    /// Removes the name of a file that is no directory. The file stays as long as it has names or is held.
    /// Works on a full device.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::IsDirectory`], [`Error::NotDirectory`], the store's.
    pub fn unlink(&self, parent: u64, name: &[u8]) -> Result<()> {
        self.despite_losses(|| self.unlink_once(parent, name))
    }

    fn unlink_once(&self, parent: u64, name: &[u8]) -> Result<()> {
        let _tree = self.shared();
        let dir = self.node(parent)?;
        let home = dir.dir()?;
        let mut dir_state = dir.write();
        let node = self.child(&dir, &dir_state, name)?.ok_or(Error::NotFound)?;
        let mut state = node.write();
        if state.inode.is_dir() {
            return Err(Error::IsDirectory);
        }
        let now = now();
        let mut dir_inode = dir_state.inode.clone();
        dir_inode.entry_removed(false, now);
        let entry = key::entry_parts(home, name);
        let mut batch = WriteBatch::new();
        batch.delete_parts(&entry);
        let unwritten = self.unwritten(&node, &state)?;
        let inode = self.drop_link(&mut batch, &node, &state, now)?;
        self.put_record(&mut batch, &dir, &dir_state, &dir_inode)?;
        // Records are replaced by others of their size, and the note of an orphan is smaller than the entry that goes.
        batch.from_reserve();
        let saved = self.commit_freeing(batch, || {
            let mut batch = WriteBatch::new();
            batch.delete_parts(&entry);
            if inode.nlink == 0 {
                self.drop_all(&mut batch, &node, &state)?;
                batch.from_reserve();
            }
            Ok(batch)
        })?;
        dir_state.inode = dir_inode;
        dir_state.unsaved = !saved;
        self.name_gone(&dir, &mut dir_state, &node, &mut state, name, inode)?;
        self.take_back_if_gone(&node, &state, unwritten);
        state.unsaved = !saved && !state.dead;
        // Others wait for the directory: the file's memory is given back, with `node`, after that.
        drop(state);
        drop(dir_state);
        Ok(())
    }

    /// The attributes of a file with one name less; adds to `batch` what becomes of its record and data.
    pub(super) fn drop_link(
        &self,
        batch: &mut WriteBatch,
        node: &Node,
        state: &State,
        now: crate::record::Time,
    ) -> Result<Inode> {
        let mut inode = state.inode.clone();
        inode.nlink = inode.nlink.saturating_sub(1);
        inode.ctime = now;
        if inode.nlink == 0 {
            self.drop_all(batch, node, state)?;
        } else {
            self.put_record(batch, node, state, &inode)?;
        }
        Ok(inode)
    }

    /// Adds what happens when a file's last name goes: its data goes too, or if somebody holds it,
    /// when they let go.
    fn drop_all(&self, batch: &mut WriteBatch, node: &Node, state: &State) -> Result<()> {
        let home = node.home(state)?;
        let of_its_own = if state.linked { key::linked(node.ino) } else { key::place(node.ino) };
        batch.delete(&of_its_own);
        if node.refs.load(Ordering::Acquire) == 0 {
            delete_data(batch, &home, node.ino, &state.inode);
        } else {
            batch.put(&key::orphan(node.ino), &home);
        }
        Ok(())
    }

    /// Brings memory up to date after the name of a file was removed or replaced.
    pub(super) fn name_gone(
        &self,
        dir: &Arc<Node>,
        dir_state: &mut State,
        node: &Arc<Node>,
        state: &mut State,
        name: &[u8],
        inode: Inode,
    ) -> Result<()> {
        let home = if inode.nlink == 0 { Some(node.home(state)?) } else { None };
        self.take_name(dir, dir_state, state, name);
        state.inode = inode;
        let Some(home) = home else { return Ok(()) };
        let lent = state.inode.flags & MOVED != 0;
        state.dead = true;
        state.names.clear();
        if node.refs.load(Ordering::Acquire) == 0 {
            self.removed(state.inode.data_blocks(), || key::blocks(&home, 0, None));
            self.nodes.remove(node.ino);
            return Ok(());
        }
        state.home = Some(home.into());
        if !lent {
            dir.orphans.fetch_add(1, Ordering::AcqRel);
            self.nodes.hold(dir);
            state.lender = Some(dir.clone());
        }
        Ok(())
    }

    /// Takes a name out of the maps.
    pub(super) fn take_name(&self, dir: &Arc<Node>, dir_state: &mut State, state: &mut State, name: &[u8]) {
        dir_state.touch(name);
        self.mark_gone(dir, name);
        if let Some(known) = &mut dir_state.known {
            known.remove(self.nodes.hash(dir, name));
        }
        self.nodes.forget_name(dir, name);
        if let Some(at) = state.names.iter().position(|n| n.parent.ino == dir.ino && *n.name == *name) {
            state.names.swap_remove(at);
            self.nodes.release(dir, 1);
        }
    }

    /// Removes a file without names that nobody holds any more.
    pub(super) fn reap(&self, node: &Arc<Node>) {
        // If this fails, the orphan is still noted and goes at the next mount.
        if matches!(self.despite_losses(|| self.delete_orphan(node)), Ok(false)) {
            return;
        }
        let lender = node.write().lender.take();
        self.nodes.remove(node.ino);
        if let Some(lender) = lender {
            lender.orphans.fetch_sub(1, Ordering::AcqRel);
            if self.nodes.release(&lender, 1) && lender.read().dead {
                self.reap(&lender);
            }
        }
    }

    /// Removes the data of a file without names; false if it has one again, or somebody holds it.
    fn delete_orphan(&self, node: &Arc<Node>) -> Result<bool> {
        let mut state = node.write();
        if node.refs.load(Ordering::Acquire) != 0 || !state.dead {
            return Ok(false);
        }
        if let Some(home) = state.home.clone() {
            let mut batch = WriteBatch::new();
            let unwritten = self.unwritten(node, &state).unwrap_or(0);
            delete_data(&mut batch, &home, node.ino, &state.inode);
            batch.delete(&key::orphan(node.ino));
            self.commit(batch)?;
            state.home = None;
            self.take_back(unwritten);
            self.removed(state.inode.data_blocks(), || key::blocks(&home, 0, None));
        }
        Ok(true)
    }

    /// Removes the data of files without names that are still held.
    pub(super) fn remove_dead(&self) -> Result<()> {
        for node in self.nodes.all() {
            let state = node.read();
            if let (true, Some(home)) = (state.dead, &state.home) {
                let mut batch = WriteBatch::new();
                key::delete_home(&mut batch, home);
                self.commit(batch)?;
            }
        }
        self.remove_orphans()
    }

    /// Removes every orphan that is noted.
    pub(super) fn remove_orphans(&self) -> Result<()> {
        let noted = betree::KeyRange::prefix(&[key::ORPHAN]);
        let orphans: Vec<_> = self.db.scan(&noted).collect::<betree::Result<_>>()?;
        for (key, home) in orphans {
            let mut batch = WriteBatch::new();
            key::delete_home(&mut batch, &home);
            if let Some((ino, _)) = key::take_ino(&key[1..]) {
                batch.delete(&key::reserved(ino));
            }
            batch.delete(&key);
            self.commit(batch)?;
        }
        Ok(())
    }

    /// Removes an empty directory. Works on a full device.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::NotDirectory`], [`Error::NotEmpty`], the store's.
    pub fn rmdir(&self, parent: u64, name: &[u8]) -> Result<()> {
        self.despite_losses(|| self.rmdir_once(parent, name))
    }

    fn rmdir_once(&self, parent: u64, name: &[u8]) -> Result<()> {
        let _tree = self.shared();
        let dir = self.node(parent)?;
        let home = dir.dir()?;
        let mut dir_state = dir.write();
        let node = self.child(&dir, &dir_state, name)?.ok_or(Error::NotFound)?;
        node.dir()?;
        let mut state = node.write();
        if !self.is_empty(&node, &state)? {
            return Err(Error::NotEmpty);
        }
        let mut dir_inode = dir_state.inode.clone();
        dir_inode.entry_removed(true, now());
        let mut batch = WriteBatch::new();
        batch.delete(&key::entry(home, name));
        self.drop_dir(&mut batch, &node, &state, &mut dir_inode)?;
        self.put_record(&mut batch, &dir, &dir_state, &dir_inode)?;
        batch.from_reserve();
        let newly_lent = dir_inode.flags & !dir_state.inode.flags & LENT != 0;
        let saved = self.commit_freeing(batch, || {
            // The mark protects data of others: it may not be lost.
            if newly_lent {
                return Err(Error::NoSpace);
            }
            let mut batch = WriteBatch::new();
            batch.delete(&key::entry(home, name)).delete(&key::place(node.ino));
            Ok(batch)
        })?;
        dir_state.inode = dir_inode;
        dir_state.unsaved = !saved;
        self.take_name(&dir, &mut dir_state, &mut state, name);
        self.dir_gone(&node, &mut state);
        Ok(())
    }

    /// True if a directory has no entries. Its count may be too high after a crash on a full device.
    pub(super) fn is_empty(&self, node: &Node, state: &State) -> Result<bool> {
        if state.inode.size == 0 {
            return Ok(true);
        }
        match self.db.scan(&key::entries(node.dir()?)).next() {
            None => Ok(true),
            Some(Ok(_)) => Ok(false),
            Some(Err(e)) => Err(e.into()),
        }
    }

    /// Adds the removal of all that an empty directory holds: of its whole home, which also kills what is pending
    /// for files in it that are gone, unless something alive may lie there.
    pub(super) fn drop_dir(
        &self,
        batch: &mut WriteBatch,
        node: &Node,
        state: &State,
        parent: &mut Inode,
    ) -> Result<()> {
        let home = node.dir()?;
        batch.delete(&key::place(node.ino));
        let lent = state.inode.flags & LENT != 0 || node.orphans.load(Ordering::Acquire) > 0;
        if !lent && self.steps.range {
            key::delete_home(batch, home);
            return Ok(());
        }
        // What lies in this home may lie in the parent's, too. (If the directory was moved, its first parent
        // was marked then.)
        if lent {
            parent.flags |= LENT;
        }
        if state.inode.flags & XATTRS != 0 {
            batch.delete_range(&key::xattrs(home));
        }
        Ok(())
    }

    /// Brings memory up to date after a directory was removed; its name is gone already.
    pub(super) fn dir_gone(&self, node: &Node, state: &mut State) {
        state.dead = true;
        state.inode.nlink = 0;
        state.names.clear();
        state.known = None;
        if node.refs.load(Ordering::Acquire) == 0 {
            self.nodes.remove(node.ino);
        }
    }
}

/// Adds the removal of a file's data and attributes.
fn delete_data(batch: &mut WriteBatch, home: &[u8], ino: u64, inode: &Inode) {
    if inode.flags & RESERVED != 0 {
        batch.delete(&key::reserved(ino));
    }
    if inode.flags & XATTRS != 0 {
        batch.delete_range(&key::xattrs(home));
    }
    if inode.is_file() {
        delete_blocks(batch, home, inode);
    }
}

/// Adds the removal of a file's data.
pub(super) fn delete_blocks(batch: &mut WriteBatch, home: &[u8], inode: &Inode) {
    let blocks = inode.size.div_ceil(key::BLOCK as u64);
    if inode.flags & SPARSE == 0 && blocks <= POINTS_MAX {
        (0..blocks).for_each(|n| _ = batch.delete_parts(&key::block_parts(home, &key::block_tail(n))));
    } else {
        batch.delete_range(&key::blocks(home, 0, None));
    }
}
