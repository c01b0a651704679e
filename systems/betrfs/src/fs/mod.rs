//! The file system: operations by inode number, from any number of threads.
//!
//! # Locks
//!
//! 0. `places`: one thread at a time looks for an inode by its number.
//! 1. `tree`: whoever changes several directories at once, or takes nodes out of memory, holds it alone; every
//!    other operation on names holds it shared.
//! 2. a node's state. With `tree` shared: the directory before its child, two at most. Without: one only.
//! 3. the maps of nodes and names: leaves, never held across anything but making a node.
//!
//! One operation is one batch of the store, written while the states it concerns are locked, so that the order of
//! batches is an order of the operations, and a crash leaves what a prefix of them makes.

mod attr;
mod data;
mod dir;
mod handles;
mod names;
mod places;
mod remove;
mod rename;
mod stream;
#[cfg(test)]
mod whole;
mod xattr;

pub use attr::{Attr, SetAttr, SetTime, Space};
pub(crate) use data::Through;
pub use data::Whence;
pub(crate) use dir::With;
pub use dir::{DirItem, DirStream};
pub use names::NewFile;
pub use rename::RenameMode;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, RwLock};
use std::time::Instant;

use betree::{Db, KeyRange, Steps, Storage, WriteBatch};
use places::{HINTS_MAX, Places};
use stream::Streams;

use crate::contents::Contents;
use crate::error::{Error, Result};
use crate::key;
use crate::node::{Node, Nodes, State};
use crate::record::{self, Inode, Superblock, Time};
use fusewire::Duty;

/// Inode numbers reserved at once.
const INO_BATCH: u64 = 4096;

/// How a file system is opened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The store's options: cache, node sizes, compression.
    pub store: betree::Options,
    /// Inodes that nobody uses are kept in memory up to this number.
    pub idle_nodes_max: usize,
    /// Bytes of small files that are kept whole, beside the store's cache. Default 0: the kernel has a page cache.
    pub contents_bytes: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options { store: betree::Options::default(), idle_nodes_max: 50_000, contents_bytes: 0 }
    }
}

impl Options {
    /// The defaults with these options of the store.
    pub fn with_store(store: betree::Options) -> Options {
        Options { store, ..Options::default() }
    }
}

/// A mounted file system. Shared between threads; operations on different inodes run in parallel.
///
/// An inode number is valid from the call that returned it ([`Fs::lookup`], the calls that make something) until
/// it was given back as often by [`Fs::forget`]; until then the file lives on after its last name is gone.
pub struct Fs {
    streams: Streams,
    db: Arc<Db>,
    nodes: Nodes,
    contents: Contents,
    tree: RwLock<()>,
    /// Next inode number, and where the reserved ones end.
    numbers: Mutex<(u64, u64)>,
    idle_nodes_max: usize,
    /// Which of BetrFS's steps are in force.
    steps: Steps,
    /// Some node may be `unsaved`.
    unsaved: AtomicBool,
    /// Where inodes were that are not in memory.
    places: Mutex<Places>,
    hints_max: usize,
    /// Files made without a name that were given one.
    named_late: AtomicU64,
    /// Blocks of data that were removed since all were counted, at most.
    removed_blocks: AtomicU64,
    /// The largest of these removals: blocks and their keys.
    removed_ranges: Mutex<Vec<(u64, KeyRange)>>,
    /// When they may be counted again.
    count_again: Mutex<Option<Instant>>,
    /// Hears before an operation that may wait for the device.
    duty: OnceLock<Arc<Duty>>,
}

impl Fs {
    /// Makes an empty file system; everything on `storage` is lost.
    ///
    /// # Errors
    /// Those of the store, such as a storage too small.
    pub fn format(storage: impl Storage + 'static, options: &Options) -> Result<()> {
        let db = Db::create(storage, options.store.clone())?;
        let now = now();
        let root = Inode {
            mode: libc::S_IFDIR | 0o755,
            nlink: 2,
            mtime: now,
            ctime: now,
            atime: now,
            btime: now,
            ..Inode::default()
        };
        let mut batch = WriteBatch::new();
        let superblock = Superblock { block: key::BLOCK as u32, next_ino: key::ROOT + 1 };
        batch.put(key::SUPERBLOCK, &superblock.encode());
        batch.put(key::ROOT_RECORD, &record::encode(key::ROOT, &root, None, b""));
        db.write(batch)?;
        Ok(db.close()?)
    }

    /// Opens a file system: replays the log, removes what was unlinked but open.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if there is none or its root is damaged; the store's errors.
    pub fn open(storage: impl Storage + 'static, options: &Options) -> Result<Fs> {
        Fs::from_store(Db::open(storage, options.store.clone())?, options)
    }

    /// The file system in an open store.
    ///
    /// # Errors
    /// As [`Fs::open`].
    pub fn from_store(db: Db, options: &Options) -> Result<Fs> {
        let superblock = db.get(key::SUPERBLOCK)?.ok_or_else(|| Error::Corrupt("no superblock".into()))?;
        let superblock = Superblock::decode(&superblock)?;
        if superblock.block != key::BLOCK as u32 {
            return Err(Error::Corrupt(format!("blocks of {} bytes are not supported", superblock.block)));
        }
        let root = db.get(key::ROOT_RECORD)?.ok_or_else(|| Error::Corrupt("no root directory".into()))?;
        let root = record::decode_record(&root)?;
        let db = Arc::new(db);
        let fs = Fs {
            streams: Streams::new(db.clone(), options.store.background && options.store.steps.page_sharing)?,
            steps: options.store.steps,
            db,
            nodes: Nodes::new(),
            contents: Contents::new(options.contents_bytes),
            tree: RwLock::new(()),
            numbers: Mutex::new((superblock.next_ino, superblock.next_ino)),
            idle_nodes_max: options.idle_nodes_max,
            unsaved: AtomicBool::new(false),
            places: Mutex::default(),
            hints_max: HINTS_MAX,
            named_late: AtomicU64::new(0),
            removed_blocks: AtomicU64::new(0),
            removed_ranges: Mutex::default(),
            count_again: Mutex::default(),
            duty: OnceLock::new(),
        };
        let state = State { inode: root.inode, ..State::default() };
        let root =
            fs.nodes.get_or(key::ROOT, || Ok(Node::new(key::ROOT, Some(key::ROOT_HOME.into()), state)))?;
        // The root is never let go.
        fs.nodes.hold(&root);
        fs.remove_orphans()?;
        Ok(fs)
    }

    /// Writes everything and closes. What is unlinked but still held is removed.
    ///
    /// # Errors
    /// The store's; the file system is then as after a crash.
    pub fn close(self) -> Result<()> {
        self.settle()?;
        let Fs { streams, db, .. } = self;
        drop(streams);
        Arc::into_inner(db).map_or(Ok(()), |db| Ok(db.close()?))
    }

    /// Removes what is unlinked but held, and makes everything durable in its place: what [`Fs::close`] does
    /// for callers that cannot give the file system away. Only valid when no operation follows but reads.
    ///
    /// # Errors
    /// The store's.
    pub fn settle(&self) -> Result<()> {
        self.save_unsaved();
        self.streams.flush()?;
        self.remove_dead()?;
        // The next mount does not know what was removed in this one.
        if self.settle_removed().is_err() {
            self.db.checkpoint()?;
        }
        Ok(())
    }

    /// The store below, for figures and checks.
    pub fn store(&self) -> &Db {
        &self.db
    }

    /// Makes every operation so far durable.
    ///
    /// # Errors
    /// The store's.
    pub fn sync(&self) -> Result<()> {
        self.sync_to(self.ask_sync()?).map(|_| ())
    }

    /// The first half of [`Fs::sync`], after which all that was written is in the store: returns the number of the batch
    /// for which [`Fs::sync_to`], which must follow, has to wait.
    pub(crate) fn ask_sync(&self) -> Result<u64> {
        self.save_unsaved();
        self.streams.flush()?;
        Ok(self.db.ask_sync()?)
    }

    /// Returns when batch `batch` is durable, with the number of the last one that is.
    pub(crate) fn sync_to(&self, batch: u64) -> Result<u64> {
        Ok(self.db.sync_to(batch)?)
    }

    /// Has `duty` called before an operation waits for the device, if it can be foreseen. Only the first one is.
    pub(crate) fn call_before_waiting(&self, duty: Arc<Duty>) {
        let _ = self.duty.set(duty);
    }

    /// What follows may wait for the device.
    fn waits(&self) {
        if let Some(duty) = self.duty.get() {
            duty.slow();
        }
    }

    fn node(&self, ino: u64) -> Result<Arc<Node>> {
        self.nodes.get(ino).ok_or(Error::NotFound)
    }

    fn shared(&self) -> std::sync::RwLockReadGuard<'_, ()> {
        self.tree.read().unwrap_or_else(|e| e.into_inner())
    }

    fn alone(&self) -> std::sync::RwLockWriteGuard<'_, ()> {
        self.tree.write().unwrap_or_else(|e| e.into_inner())
    }

    /// Adds the record of `node` with the attributes `inode`; nothing if no name leads to it.
    fn put_record(&self, batch: &mut WriteBatch, node: &Node, state: &State, inode: &Inode) -> Result<()> {
        if !state.dead {
            node.with_record(state, inode, |key, value| _ = batch.put_parts(key, value))?;
        }
        Ok(())
    }

    fn commit(&self, batch: WriteBatch) -> Result<()> {
        if !batch.is_empty() {
            if self.duty.get().is_some() && self.db.has_to_wait() {
                self.waits();
            }
            self.streams.flush()?;
            self.db.write(batch)?;
        }
        Ok(())
    }

    /// Writes `all`, or if there is no space for that `least`, which only frees. False in the latter case.
    fn commit_freeing(&self, all: WriteBatch, least: impl FnOnce() -> Result<WriteBatch>) -> Result<bool> {
        match self.commit(all) {
            Ok(()) => Ok(true),
            Err(Error::NoSpace) => {
                self.commit(least()?)?;
                self.unsaved.store(true, Ordering::Release);
                Ok(false)
            }
            Err(e) => Err(e),
        }
    }

    /// A number that no inode ever had.
    fn new_ino(&self) -> Result<u64> {
        let mut numbers = self.numbers.lock().unwrap_or_else(|e| e.into_inner());
        if numbers.0 == numbers.1 {
            let superblock = Superblock { block: key::BLOCK as u32, next_ino: numbers.1 + INO_BATCH };
            self.db.put(key::SUPERBLOCK, &superblock.encode())?;
            numbers.1 += INO_BATCH;
        }
        numbers.0 += 1;
        Ok(numbers.0 - 1)
    }

    /// Tries again to write records for which there was no space.
    fn save_unsaved(&self) {
        if !self.unsaved.swap(false, Ordering::AcqRel) {
            return;
        }
        for node in self.nodes.all() {
            if node.read().unsaved {
                let mut state = node.write();
                let mut batch = WriteBatch::new();
                let put = self.put_record(&mut batch, &node, &state, &state.inode);
                state.unsaved = put.and_then(|()| self.commit(batch)).is_err();
                if state.unsaved {
                    self.unsaved.store(true, Ordering::Release);
                }
            }
        }
    }

    /// Inodes in memory: those that callers hold, and some others.
    pub fn inodes_in_memory(&self) -> usize {
        self.nodes.count.load(Ordering::Relaxed)
    }

    /// Up to `most` files that are held but were not asked for lately. `turn` counts up.
    pub(crate) fn cold(&self, turn: usize, most: usize) -> Vec<u64> {
        self.nodes.cold(turn, most)
    }

    /// Names of an inode in memory, as parent and name.
    pub(crate) fn names_of(&self, ino: u64) -> Vec<(u64, Box<[u8]>)> {
        self.nodes.names_of(ino)
    }

    /// Gives back `count` lookups of an inode.
    pub fn forget(&self, ino: u64, count: u64) {
        if ino == key::ROOT {
            return;
        }
        let Some(node) = self.nodes.get(ino) else { return };
        if self.nodes.release(&node, count) && node.read().dead {
            self.reap(&node);
        }
        if self.nodes.idle.load(Ordering::Relaxed) > self.idle_nodes_max {
            self.evict();
        }
    }

    /// Takes the nodes that nobody holds out of memory.
    fn evict(&self) {
        let _tree = self.alone();
        if self.nodes.idle.load(Ordering::Relaxed) <= self.idle_nodes_max {
            return;
        }
        // What is read again must be what was written.
        if self.streams.flush().is_err() {
            return;
        }
        let mut left = self.nodes.all();
        while let Some(node) = left.pop() {
            let state = node.read();
            if node.refs.load(Ordering::Acquire) != 0 || state.dead || state.unsaved {
                continue;
            }
            // A directory comes again when its last child goes.
            if !self.nodes.remove(node.ino) {
                continue;
            }
            for name in state.names.iter() {
                self.nodes.forget_name(&name.parent, &name.name);
                if self.nodes.release(&name.parent, 1) {
                    left.push(name.parent.clone());
                }
            }
        }
    }
}

/// The time as the kernel's own file systems take it: of the last tick, so that many changes have the same.
pub(crate) fn now() -> Time {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
    Time { sec: t.tv_sec, nsec: t.tv_nsec as u32 }
}
