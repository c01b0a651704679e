//! Extended attributes.

use betree::WriteBatch;

use super::{Fs, now};
use crate::error::{Error, Result};
use crate::key;
use crate::node::Node;
use crate::record::XATTRS;

/// The attribute of the root directory that tells what the store has done since it was opened; it is in no list.
pub const STATISTICS: &str = "betrfs.statistics";
/// The attribute of the root directory that tells whether it can be written to, in words; it is in no list.
pub const STATE: &str = "betrfs.state";
/// What it says as long as it can.
pub(crate) const TAKES_WRITES: &str = "takes writes";
/// How it begins when data are lost that were taken, and neither a sync nor a write has said so.
pub(crate) const LOST_DATA: &str = "takes writes, data that were taken are lost: ";
/// Largest value in bytes.
const VALUE_MAX: usize = 64 << 10;

/// The namespaces of attributes that there are here.
const NAMESPACES: [&[u8]; 3] = [b"user.", b"trusted.", b"security."];

/// Refuses the names that ext4 refuses, and as it does: outside of the namespaces, and a namespace without a name in it. (The
/// kernel itself refuses an empty name.) `system.*` would be access control lists, which are not there.
fn check(name: &[u8]) -> Result<()> {
    if name.len() > key::NAME_MAX {
        return Err(Error::Invalid("attribute name longer than 255 bytes"));
    }
    let within = NAMESPACES.into_iter().find_map(|space| name.strip_prefix(space));
    match within {
        None => Err(Error::NotSupported),
        Some(b"") => Err(Error::Invalid("attribute without a name in its namespace")),
        Some(_) => Ok(()),
    }
}

impl Fs {
    /// A line for each counter: its name, a blank, its value.
    fn statistics(&self) -> String {
        let stats = self.db.stats();
        let counters = [
            ("checkpoints", stats.checkpoints),
            ("log_syncs", stats.log_syncs),
            ("log_position_bytes", stats.log_position_bytes),
            ("log_ring_bytes", stats.log_ring_bytes),
            ("nodes_written", stats.nodes_written),
            ("node_bytes_written", stats.node_bytes_written),
            ("extent_bytes_written", stats.extent_bytes_written),
            ("spilled_bytes", stats.spilled_bytes),
            ("bound_bytes", stats.bound_bytes),
            ("reads", stats.reads),
            ("bytes_read", stats.bytes_read),
            ("flushes_down", stats.flushes_down),
            ("evictions", stats.evictions),
            ("cached_bytes", stats.cached_bytes as u64),
        ];
        counters.map(|(name, value)| format!("{name} {value}\n")).concat()
    }

    /// [`TAKES_WRITES`], or since when and why it does not, or behind [`LOST_DATA`] why data are lost of which nobody has heard.
    fn state(&self) -> String {
        if let Some(reason) = self.failure() {
            let seconds = reason.time.elapsed().map_or(0, |since| since.as_secs());
            return format!("read-only for {seconds} s: {reason}");
        }
        // Whoever asks does not wait for the device: files that others hold meanwhile are left out, and what was lost of one that is
        // not settled yet is said as it is.
        let is_dead =
            |ino| self.nodes.get(ino).is_none_or(|node| node.try_read().is_some_and(|state| state.dead));
        let mut lost = self.streams.lost().into_iter().filter(|ino| !is_dead(*ino));
        let unsettled = || lost.find_map(|ino| self.streams.loss_of(ino)).map(|loss| loss.cause.error());
        let loss = self.unsaid_loss(Node::try_read).or_else(unsettled);
        loss.map_or(TAKES_WRITES.into(), |loss| format!("{LOST_DATA}{loss}"))
    }

    /// The value of an extended attribute.
    ///
    /// # Errors
    /// [`Error::NoAttribute`]; [`Error::NotSupported`] outside of `user.`, `trusted.` and `security.`, access control lists among
    /// that; [`Error::Invalid`] for a namespace alone.
    pub fn xattr(&self, ino: u64, name: &[u8]) -> Result<Vec<u8>> {
        if ino == key::ROOT && name == STATISTICS.as_bytes() {
            return Ok(self.statistics().into_bytes());
        }
        if ino == key::ROOT && name == STATE.as_bytes() {
            return Ok(self.state().into_bytes());
        }
        check(name)?;
        let node = self.node(ino)?;
        let state = node.read();
        if state.inode.flags & XATTRS == 0 {
            return Err(Error::NoAttribute);
        }
        self.db.get(&key::xattr(&node.home(&state)?, name))?.ok_or(Error::NoAttribute)
    }

    /// Sets an extended attribute; with `create` only a new one, with `replace` only one that exists.
    ///
    /// # Errors
    /// [`Error::Exists`], [`Error::NoAttribute`], [`Error::AttributeTooLarge`], [`Error::NotSupported`],
    /// [`Error::NoSpace`], the store's.
    pub fn set_xattr(&self, ino: u64, name: &[u8], value: &[u8], create: bool, replace: bool) -> Result<()> {
        self.despite_losses(|| self.set_xattr_once(ino, name, value, create, replace))
    }

    fn set_xattr_once(&self, ino: u64, name: &[u8], value: &[u8], create: bool, replace: bool) -> Result<()> {
        check(name)?;
        if value.len() > VALUE_MAX {
            return Err(Error::AttributeTooLarge);
        }
        let _tree = self.shared();
        let node = self.node(ino)?;
        let mut state = node.write();
        let key = key::xattr(&node.home(&state)?, name);
        if create || replace {
            let there = state.inode.flags & XATTRS != 0 && self.db.get(&key)?.is_some();
            match there {
                true if create => return Err(Error::Exists),
                false if replace => return Err(Error::NoAttribute),
                _ => {}
            }
        }
        let mut inode = state.inode.clone();
        inode.flags |= XATTRS;
        inode.ctime = now();
        let mut batch = WriteBatch::new();
        batch.put(&key, value);
        self.put_record(&mut batch, &node, &state, &inode)?;
        self.commit(batch)?;
        state.inode = inode;
        state.unsaved = false;
        state.incapable = false;
        Ok(())
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// [`Error::NoAttribute`]; as [`Fs::set_xattr`].
    pub fn remove_xattr(&self, ino: u64, name: &[u8]) -> Result<()> {
        self.despite_losses(|| self.remove_xattr_once(ino, name))
    }

    fn remove_xattr_once(&self, ino: u64, name: &[u8]) -> Result<()> {
        check(name)?;
        let _tree = self.shared();
        let node = self.node(ino)?;
        let mut state = node.write();
        let key = key::xattr(&node.home(&state)?, name);
        if state.inode.flags & XATTRS == 0 || self.db.get(&key)?.is_none() {
            return Err(Error::NoAttribute);
        }
        let mut inode = state.inode.clone();
        inode.ctime = now();
        let mut batch = WriteBatch::new();
        batch.delete(&key);
        self.put_record(&mut batch, &node, &state, &inode)?;
        batch.from_reserve();
        let saved = self.commit_freeing(batch, || {
            let mut batch = WriteBatch::new();
            batch.delete(&key);
            Ok(batch)
        })?;
        state.inode = inode;
        state.unsaved = !saved && !state.dead;
        Ok(())
    }

    /// The names of all extended attributes.
    ///
    /// # Errors
    /// The store's.
    pub fn xattrs(&self, ino: u64) -> Result<Vec<Vec<u8>>> {
        let node = self.node(ino)?;
        let state = node.read();
        if state.inode.flags & XATTRS == 0 {
            return Ok(Vec::new());
        }
        let home = node.home(&state)?;
        let names = self.db.scan(&key::xattrs(&home)).map(|item| Ok(item?.0[home.len() + 1..].to_vec()));
        names.collect()
    }
}
