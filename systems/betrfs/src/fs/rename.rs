//! Renames: records move, homes stay.

use std::sync::Arc;

use betree::WriteBatch;

use super::names::{check_name, new_inode};
use super::{Fs, NewFile, now};
use crate::error::{Error, Result};
use crate::key;
use crate::node::{Name, Node};
use crate::record::{self, Inode, Time};

/// What a rename does when the new name is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RenameMode {
    /// Replaces the file, or the empty directory.
    #[default]
    Replace,
    /// Fails (`RENAME_NOREPLACE`).
    NoReplace,
    /// Gives the other one the old name (`RENAME_EXCHANGE`).
    Exchange,
    /// Leaves a device node 0, 0 of this owner under the old name (`RENAME_WHITEOUT`), as overlayfs marks what is gone.
    Whiteout {
        /// Owner.
        uid: u32,
        /// Group, unless the directory's set-group-ID bit gives its own.
        gid: u32,
    },
}

/// A name and what it leads to.
struct RenameEnd<'a> {
    dir: Arc<Node>,
    name: &'a [u8],
}

/// The directories concerned, one or two, and the attributes they will have.
struct Parents(Vec<(Arc<Node>, Inode)>);

impl Parents {
    fn new(from: &RenameEnd<'_>, to: &RenameEnd<'_>) -> Parents {
        let mut dirs = vec![from.dir.clone()];
        if to.dir.ino != from.dir.ino {
            dirs.push(to.dir.clone());
        }
        Parents(dirs.into_iter().map(|dir| (dir.clone(), dir.read().inode.clone())).collect())
    }

    fn of(&mut self, side: &RenameEnd<'_>) -> &mut Inode {
        let at = self.0.iter().position(|(dir, _)| dir.ino == side.dir.ino).unwrap_or(0);
        &mut self.0[at].1
    }
}

impl Fs {
    /// Renames `name` in the directory `parent` to `new_name` in `new_parent`, in one step.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Exists`] ([`RenameMode::NoReplace`]), [`Error::IsDirectory`],
    /// [`Error::NotDirectory`], [`Error::NotEmpty`], [`Error::Invalid`] for a directory into itself,
    /// [`Error::NameTooLong`], [`Error::NoSpace`], the store's.
    pub fn rename(
        &self,
        parent: u64,
        name: &[u8],
        new_parent: u64,
        new_name: &[u8],
        mode: RenameMode,
    ) -> Result<()> {
        self.despite_losses(|| self.rename_once(parent, name, new_parent, new_name, mode))
    }

    fn rename_once(
        &self,
        parent: u64,
        name: &[u8],
        new_parent: u64,
        new_name: &[u8],
        mode: RenameMode,
    ) -> Result<()> {
        check_name(name)?;
        check_name(new_name)?;
        let _tree = self.alone();
        let from = RenameEnd { dir: self.node(parent)?, name };
        let to = RenameEnd { dir: self.node(new_parent)?, name: new_name };
        // What is read from here on is what is written.
        let _settling = self.settling();
        from.dir.dir()?;
        to.dir.dir()?;
        if to.dir.read().dead {
            return Err(Error::NotFound);
        }
        let node = self.child(&from.dir, &from.dir.read(), name)?.ok_or(Error::NotFound)?;
        let target = self.child(&to.dir, &to.dir.read(), new_name)?;
        if target.is_some() && mode == RenameMode::NoReplace {
            return Err(Error::Exists);
        }
        if is_within(&to.dir, &node) {
            return Err(Error::Invalid("a directory cannot be moved into itself"));
        }
        match target {
            Some(target) if target.ino == node.ino => Ok(()),
            Some(target) if mode == RenameMode::Exchange => self.exchange(&from, &node, &to, &target),
            None if mode == RenameMode::Exchange => Err(Error::NotFound),
            target => self.replace(&from, &node, &to, target.as_ref(), mode),
        }
    }

    fn replace(
        &self,
        from: &RenameEnd<'_>,
        node: &Arc<Node>,
        to: &RenameEnd<'_>,
        target: Option<&Arc<Node>>,
        mode: RenameMode,
    ) -> Result<()> {
        let now = now();
        let is_dir = node.dir().is_ok();
        let mut parents = Parents::new(from, to);
        parents.of(from).entry_removed(is_dir, now);
        parents.of(to).entry_added(is_dir, now);
        let mut batch = WriteBatch::new();
        let (mut target_inode, mut unwritten) = (None, 0);
        if let Some(target) = target {
            let state = target.read();
            unwritten = self.unwritten(target, &state)?;
            match (is_dir, target.dir().is_ok()) {
                (true, false) => return Err(Error::NotDirectory),
                (false, true) => return Err(Error::IsDirectory),
                (true, true) if !self.is_empty(target, &state)? => return Err(Error::NotEmpty),
                (true, true) => self.drop_dir(&mut batch, target, &state, parents.of(to))?,
                (false, false) => target_inode = Some(self.drop_link(&mut batch, target, &state, now)?),
            }
            parents.of(to).entry_removed(is_dir, now);
        }
        match mode {
            RenameMode::Whiteout { uid, gid } => {
                let new = NewFile { mode: libc::S_IFCHR, uid, gid, ..NewFile::default() };
                let inode = new_inode(&new, parents.of(from));
                parents.of(from).entry_added(false, now);
                let entry = key::entry_parts(from.dir.dir()?, from.name);
                let ino = self.new_ino()?;
                batch.put_parts(&entry, &[&record::head(ino, &inode, 0)]);
                key::put_place(&mut batch, ino, from.dir.ino, from.name);
            }
            _ => _ = batch.delete(&key::entry(from.dir.dir()?, from.name)),
        }
        let moved = self.place(&mut batch, node, to, &mut parents, now)?;
        self.put_parents(&mut batch, &parents)?;
        self.commit(batch)?;
        if let Some(target) = target {
            let mut state = target.write();
            let dir_state = &mut to.dir.write();
            match target_inode {
                Some(inode) => {
                    self.name_gone(&to.dir, dir_state, target, &mut state, to.name, inode)?;
                    self.take_back_if_gone(target, &state, unwritten);
                }
                None => {
                    self.take_name(&to.dir, dir_state, &mut state, to.name);
                    self.dir_gone(target, &mut state);
                }
            }
        }
        self.unname(node, from);
        if let RenameMode::Whiteout { .. } = mode {
            // Whoever asks for it finds it in the store.
            self.nodes.learn(&mut from.dir.write().known, self.nodes.hash(&from.dir, from.name));
        }
        self.name(node, to, moved);
        self.keep_parents(parents);
        Ok(())
    }

    fn exchange(
        &self,
        from: &RenameEnd<'_>,
        node: &Arc<Node>,
        to: &RenameEnd<'_>,
        other: &Arc<Node>,
    ) -> Result<()> {
        if is_within(&from.dir, other) {
            return Err(Error::Invalid("a directory cannot be moved into itself"));
        }
        let now = now();
        let mut parents = Parents::new(from, to);
        let (one, two) = (node.dir().is_ok(), other.dir().is_ok());
        parents.of(from).entry_removed(one, now);
        parents.of(from).entry_added(two, now);
        parents.of(to).entry_removed(two, now);
        parents.of(to).entry_added(one, now);
        let mut batch = WriteBatch::new();
        let moved = self.place(&mut batch, node, to, &mut parents, now)?;
        let other_moved = self.place(&mut batch, other, from, &mut parents, now)?;
        self.put_parents(&mut batch, &parents)?;
        self.commit(batch)?;
        self.unname(node, from);
        self.unname(other, to);
        self.name(node, to, moved);
        self.name(other, from, other_moved);
        self.keep_parents(parents);
        Ok(())
    }

    /// Adds the entry of `node` at `to`; returns its attributes and home from then on.
    fn place(
        &self,
        batch: &mut WriteBatch,
        node: &Arc<Node>,
        to: &RenameEnd<'_>,
        parents: &mut Parents,
        now: Time,
    ) -> Result<(Inode, Option<Box<[u8]>>)> {
        let state = node.read();
        let mut inode = state.inode.clone();
        inode.ctime = now;
        if inode.is_dir() {
            // Its `..` may lead elsewhere.
            inode.new_version();
        }
        let entry = key::entry(to.dir.dir()?, to.name);
        if state.linked {
            batch.put(&entry, &record::encode_pointer(node.ino, inode.kind()));
            batch.put(&key::linked(node.ino), &node.record(&state, &inode));
            return Ok((inode, None));
        }
        let moved = self.move_home(batch, node, &state, &mut inode, &mut parents.0)?;
        let home = node.dir().ok().or(moved.as_deref()).or(state.home.as_deref());
        batch.put(&entry, &record::encode(node.ino, &inode, home, &state.target));
        key::put_place(batch, node.ino, to.dir.ino, to.name);
        Ok((inode, moved))
    }

    fn put_parents(&self, batch: &mut WriteBatch, parents: &Parents) -> Result<()> {
        parents.0.iter().try_for_each(|(dir, inode)| self.put_record(batch, dir, &dir.read(), inode))
    }

    fn keep_parents(&self, parents: Parents) {
        for (dir, inode) in parents.0 {
            let mut state = dir.write();
            state.inode = inode;
            state.unsaved = false;
        }
    }

    fn unname(&self, node: &Arc<Node>, side: &RenameEnd<'_>) {
        self.take_name(&side.dir, &mut side.dir.write(), &mut node.write(), side.name);
    }

    fn name(&self, node: &Arc<Node>, side: &RenameEnd<'_>, (inode, moved): (Inode, Option<Box<[u8]>>)) {
        let mut state = node.write();
        state.inode = inode;
        state.home = moved.or(state.home.take());
        state.unsaved = false;
        state.names.push(Name { parent: side.dir.clone(), name: side.name.into() });
        self.nodes.hold(&side.dir);
        self.nodes.remember(&side.dir, side.name, node.ino);
        drop(state);
        let mut dir_state = side.dir.write();
        dir_state.touch(side.name);
        self.nodes.learn(&mut dir_state.known, self.nodes.hash(&side.dir, side.name));
    }
}

/// True if `dir` is `ancestor` or lies below it.
fn is_within(dir: &Arc<Node>, ancestor: &Node) -> bool {
    let mut at = dir.clone();
    loop {
        if at.ino == ancestor.ino {
            return true;
        }
        let up = at.read().names.first().map(|name| name.parent.clone());
        match up {
            Some(parent) => at = parent,
            None => return false,
        }
    }
}
