//! The file system: operations by inode number, from any number of threads.
//!
//! # Locks
//!
//! 1. `saving`, over all that is saved.
//! 2. `tree`: whoever changes several directories at once, or takes nodes out of memory, holds it alone; every
//!    other operation on names, and whatever writes the record of a node, holds it shared. So nothing that a rename has read changes
//!    before the rename is done, although it does not hold the states of its nodes meanwhile.
//! 3. `settling`: whoever brings inodes back to what the store has of them, and a rename.
//! 4. a node's state. With `tree` shared: the directory before its child, two at most. Without: one only.
//! 5. `numbers`, held over a write of the superblock; the streams' state, in which a collected batch may be waited for, but is
//!    never written. With either nothing but the store is entered, which knows nothing of these.
//! 6. the maps of nodes and names, what was removed, marks and listings: leaves, never held across anything but making a node.
//!
//! `count_again` is only ever tried, by whoever holds none of the others.
//!
//! One operation is one batch of the store, written while the states it concerns are locked, so that the order of
//! batches is an order of the operations, and a crash leaves what a prefix of them makes.

mod attr;
mod data;
mod dir;
mod handles;
mod holes;
mod listings;
mod names;
mod positions;
mod remove;
mod rename;
mod reserve;
mod stream;
#[cfg(test)]
mod sync_tests;
#[cfg(test)]
mod whole;
mod xattr;

pub use attr::{Attr, SetAttr, SetTime, Space};
pub(crate) use data::IoPath;
pub(crate) use dir::AttrMode;
pub use dir::{DirItem, DirStream};
pub(crate) use holes::SeekResult;
pub use holes::Whence;
pub use names::NewFile;
pub use rename::RenameMode;
pub(crate) use reserve::{Reserved, decode as decode_reserved};
pub(crate) use xattr::{LOST_DATA, STATE, TAKES_WRITES};

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, RwLock};
use std::time::Instant;

use betree::{Db, Features, KeyRange, StopReason, Storage, WriteBatch};
use listings::Listings;
use positions::DirectoryPositions;
use stream::{LostData, Streams};

use crate::contents::Contents;
use crate::error::{Error, Result};
use crate::key;
use crate::node::{Loss, LossCause, Node, Nodes, State};
use crate::record::{self, Inode, Superblock, Time, WITH_PLACES};
use fusewire::WorkerThrottle;

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

/// Called with each inode of which less is there than was said.
type LossListener = Box<dyn Fn(u64) + Send + Sync>;

/// A mounted file system. Shared between threads; operations on different inodes run in parallel.
///
/// An inode number is valid from the call that returned it ([`Fs::lookup`], the calls that make something) until
/// it was given back as often by [`Fs::forget`]; until then the file lives on after its last name is gone.
pub struct Fs {
    /// Of its layout.
    version: u32,
    streams: Streams,
    db: Arc<Db>,
    nodes: Nodes,
    contents: Contents,
    tree: RwLock<()>,
    /// Next inode number, and where the reserved ones end.
    numbers: Mutex<(u64, u64)>,
    idle_nodes_max: usize,
    /// Which of BetrFS's steps are in force.
    steps: Features,
    /// Some node may be `unsaved`.
    unsaved: AtomicBool,
    /// Held by whoever saves them.
    saving: Mutex<()>,
    /// Held while inodes of which data were lost are brought back to what the store has, and while they must not be.
    settling: Mutex<()>,
    /// Why data that were taken are not there, if no sync of all has said so.
    lost: Mutex<Option<LossCause>>,
    /// Names of directories.
    listings: Listings,
    /// Places in them.
    marks: DirectoryPositions,
    /// Blocks of data that were removed since all were counted, at most.
    removed_blocks: AtomicU64,
    /// The largest of these removals: blocks and their keys.
    removed_ranges: Mutex<Vec<(u64, KeyRange)>>,
    /// When they may be counted again.
    count_again: Mutex<Option<Instant>>,
    /// Hears before an operation that may wait for the device.
    duty: OnceLock<Arc<WorkerThrottle>>,
    /// Hears of inodes of which data were lost.
    tell_lost: RwLock<Option<LossListener>>,
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
        batch.put(key::SUPERBLOCK, &Superblock::new(key::ROOT + 1).encode());
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
        let mut fs = Fs {
            version: superblock.version,
            streams: Streams::new(db.clone(), options.store.background && options.store.steps.page_sharing)?,
            steps: options.store.steps,
            db,
            nodes: Nodes::new(),
            contents: Contents::new(options.contents_bytes),
            tree: RwLock::new(()),
            numbers: Mutex::new((superblock.next_ino, superblock.next_ino)),
            idle_nodes_max: options.idle_nodes_max,
            unsaved: AtomicBool::new(false),
            saving: Mutex::new(()),
            settling: Mutex::new(()),
            lost: Mutex::default(),
            listings: Listings::default(),
            marks: DirectoryPositions::default(),
            removed_blocks: AtomicU64::new(0),
            removed_ranges: Mutex::default(),
            count_again: Mutex::default(),
            duty: OnceLock::new(),
            tell_lost: RwLock::default(),
        };
        let state = State { inode: root.inode, ..State::default() };
        let root =
            fs.nodes.get_or(key::ROOT, || Ok(Node::new(key::ROOT, Some(key::ROOT_HOME.into()), state)))?;
        // The root is never let go.
        fs.nodes.hold(&root);
        fs.remove_orphans()?;
        fs.promise_again()?;
        // They take only what is promised to nobody.
        if superblock.version < WITH_PLACES {
            fs.version = fs.note_places(superblock.next_ino)?;
        }
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
    /// [`Error::NoSpace`] if there is none for what is known of some inode, even now; that or [`Error::DataLost`] if data of some file
    /// were taken and are lost, and nobody has heard of it; the store's.
    pub fn settle(&self) -> Result<()> {
        self.save_unsaved();
        self.write_collected()?;
        self.remove_dead()?;
        // The next mount does not know what was removed in this one.
        if self.settle_removed().is_err() {
            self.db.checkpoint()?;
        }
        // There may be space now. Whoever gives the device away counts on it that nothing is written any more.
        if self.unsaved.load(Ordering::Acquire) {
            self.save_unsaved();
            self.db.checkpoint()?;
        }
        match self.unsaid_loss(|node| Some(node.read())) {
            Some(error) => Err(error),
            None if self.unsaved.load(Ordering::Acquire) => Err(Error::NoSpace),
            None => Ok(()),
        }
    }

    /// What was lost of some file and nobody has heard; of those whose state can be `looked` at.
    fn unsaid_loss(
        &self,
        looked: impl Fn(&Node) -> Option<std::sync::RwLockReadGuard<'_, State>>,
    ) -> Option<Error> {
        // A sync of everything has said it of all files.
        self.lost.lock().unwrap_or_else(|e| e.into_inner()).as_ref()?;
        self.nodes.all().into_iter().find_map(|node| {
            let state = looked(&node)?;
            let loss = state.loss.as_ref().filter(|loss| !state.dead && !loss.is_heard());
            loss.map(|loss| loss.error())
        })
    }

    /// The store below, for figures and checks.
    pub fn store(&self) -> &Db {
        &self.db
    }

    /// Why no more writes are taken, if none are: the first failure of the device or the store.
    pub fn failure(&self) -> Option<&StopReason> {
        self.db.failure()
    }

    /// Makes every operation so far durable.
    ///
    /// # Errors
    /// [`Error::NoSpace`] if there is none for what is known of some inode; of data that were taken and are lost that or
    /// [`Error::DataLost`], once; the store's.
    pub fn sync(&self) -> Result<()> {
        let is_unsaved = self.sync_without_report()?;
        match self.lost.lock().unwrap_or_else(|e| e.into_inner()).take() {
            Some(cause) => Err(cause.error()),
            None if is_unsaved => Err(Error::NoSpace),
            None => Ok(()),
        }
    }

    /// As [`Fs::sync`], for somebody who tells nobody: what was lost is still to be said. Whether of some inode there is something
    /// for which there was no space.
    ///
    /// # Errors
    /// The store's.
    pub(crate) fn sync_without_report(&self) -> Result<bool> {
        // Looked at before the batch has its number: what is saved later may be in a later batch.
        let is_unsaved = self.save_unsaved();
        let batch = self.ask_sync()?;
        self.sync_to(batch)?;
        Ok(is_unsaved)
    }

    /// The first half of a sync, after which all that was written is in the store, but for what is lost: returns the
    /// number of the batch for which [`Fs::sync_to`], which must follow, has to wait. What is known of inodes in memory alone
    /// was saved before, see [`Fs::save_unsaved`].
    fn ask_sync(&self) -> Result<u64> {
        self.write_collected()?;
        Ok(self.db.ask_sync()?)
    }

    /// As the first half of [`Fs::sync`], for somebody who wants to know it of one inode.
    ///
    /// # Errors
    /// [`Error::NoSpace`] if there is none for what is known of the inode; of data of it that were taken and are lost that or
    /// [`Error::DataLost`], once; the store's.
    pub(crate) fn ask_sync_of(&self, ino: u64) -> Result<u64> {
        self.save_unsaved();
        // As in `sync`. One that nobody knows any more has nothing left to be written.
        let is_unsaved = self.nodes.get(ino).is_some_and(|node| node.read().unsaved);
        let batch = self.ask_sync()?;
        let node = self.nodes.get(ino);
        // Looked at first: many threads may sync one file.
        let lossy = node.filter(|node| node.read().loss.is_some());
        match lossy.and_then(|node| node.write().loss.take()) {
            Some(loss) => Err(loss.error()),
            None if is_unsaved => Err(Error::NoSpace),
            None => Ok(batch),
        }
    }

    /// Makes every operation so far durable, for somebody who wants to know it of one inode.
    ///
    /// # Errors
    /// As [`Fs::ask_sync_of`].
    pub(crate) fn sync_of(&self, ino: u64) -> Result<()> {
        self.sync_to(self.ask_sync_of(ino)?).map(|_| ())
    }

    /// Writes what was collected; the inodes of what cannot be written are brought back to what the store has.
    ///
    /// # Errors
    /// The store's failure.
    fn write_collected(&self) -> Result<()> {
        // Something of another file may be lost by the time that the first is settled.
        while let Err(error) = self.streams.flush() {
            if !matches!(error, Error::NoSpace) {
                return Err(error);
            }
            self.settle_lost();
        }
        Ok(())
    }

    /// Brings the inodes of which data were lost back to what the store has of them.
    fn settle_lost(&self) {
        let settling = self.settling();
        let lost = self.streams.lost();
        for &ino in &lost {
            if let Some(node) = self.nodes.get(ino) {
                let mut state = node.write();
                // While it is among them nothing more of it is collected.
                let Some(lost) = self.streams.loss_of(ino) else { continue };
                let LostData { cause, start, old_size } = lost;
                state.inode = self.stored_inode(&node, &state).unwrap_or_else(|| {
                    // What was lost may have lain over older data, which are all there.
                    let size = state.inode.size.min(start.max(old_size));
                    Inode { size, ..state.inode.clone() }
                });
                self.reread_reserved(&node, &mut state);
                state.changes();
                state.last_end = u64::MAX;
                *self.lost.lock().unwrap_or_else(|e| e.into_inner()) = Some(cause.clone());
                state.loss = Some(Box::new(Loss::new(cause, start)));
                self.streams.forget_lost(ino);
            } else {
                self.streams.forget_lost(ino);
            }
        }
        drop(settling);
        if let Some(tell) = &*self.tell_lost.read().unwrap_or_else(|e| e.into_inner()) {
            lost.into_iter().for_each(tell);
        }
    }

    /// Does `change`, and again as often as it was refused for want of space while collected data of some file were lost: nothing is
    /// written until that file is again as the store has it, and its loss is no reason to refuse others. The caller holds no lock.
    fn despite_losses<T>(&self, mut change: impl FnMut() -> Result<T>) -> Result<T> {
        loop {
            let before = self.streams.losses();
            let done = change();
            if !matches!(done, Err(Error::NoSpace)) || !self.streams.has_lost_since(before) {
                return done;
            }
            self.settle_lost();
        }
    }

    fn settling(&self) -> MutexGuard<'_, ()> {
        self.settling.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// The attributes as the store has them, of an inode that has a record.
    fn stored_inode(&self, node: &Node, state: &State) -> Option<Inode> {
        let key = node.record_key(state).ok()?;
        let value = self.db.get(&key).ok()??;
        Some(record::decode_record(&value).ok()?.inode)
    }

    /// Has `tell` called with the inodes of which less is there than was said, in the place of whoever was before.
    pub(crate) fn call_when_lost(&self, tell: impl Fn(u64) + Send + Sync + 'static) {
        *self.tell_lost.write().unwrap_or_else(|e| e.into_inner()) = Some(Box::new(tell));
    }

    /// Returns when batch `batch` is durable, with the number of the last one that is.
    pub(crate) fn sync_to(&self, batch: u64) -> Result<u64> {
        Ok(self.db.sync_to(batch)?)
    }

    /// Has `duty` called before an operation waits for the device, if it can be foreseen. Only the first one is.
    pub(crate) fn call_before_waiting(&self, duty: Arc<WorkerThrottle>) {
        let _ = self.duty.set(duty);
    }

    /// What follows may wait for the device.
    fn waits(&self) {
        if let Some(duty) = self.duty.get() {
            duty.slow();
        }
    }

    fn node(&self, ino: u64) -> Result<Arc<Node>> {
        if self.streams.is_in_doubt() {
            self.settle_lost();
        }
        self.nodes.get(ino).ok_or(Error::NotFound)
    }

    fn shared(&self) -> std::sync::RwLockReadGuard<'_, ()> {
        if let Ok(held) = self.tree.try_read() {
            return held;
        }
        // Whoever holds it may be waiting for the device.
        self.waits();
        self.tree.read().unwrap_or_else(|e| e.into_inner())
    }

    fn alone(&self) -> std::sync::RwLockWriteGuard<'_, ()> {
        if let Ok(held) = self.tree.try_write() {
            return held;
        }
        self.waits();
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

    /// Writes `all`, or if there is no space for that `least`, which only frees. False in the latter case. If another file has lost
    /// data meanwhile, that says nothing of the space: the caller is to come again, see [`Fs::despite_losses`].
    fn commit_freeing(&self, all: WriteBatch, least: impl FnOnce() -> Result<WriteBatch>) -> Result<bool> {
        let losses = self.streams.losses();
        match self.commit(all) {
            Ok(()) => Ok(true),
            Err(Error::NoSpace) if !self.streams.has_lost_since(losses) => {
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
            let superblock = Superblock { version: self.version, ..Superblock::new(numbers.1 + INO_BATCH) };
            self.db.put(key::SUPERBLOCK, &superblock.encode())?;
            numbers.1 += INO_BATCH;
        }
        numbers.0 += 1;
        Ok(numbers.0 - 1)
    }

    /// Tries again to write records for which there was no space; true if some are still in memory alone. One at a time: whoever
    /// comes second must not believe that there is nothing to save while the first is at it.
    fn save_unsaved(&self) -> bool {
        // Else what one file has lost would keep all others from being saved. A failure of the store shows in what follows.
        let save = || if self.save_unsaved_once() { Err(Error::NoSpace) } else { Ok(()) };
        self.despite_losses(save).is_err()
    }

    fn save_unsaved_once(&self) -> bool {
        let _saving = self.saving.lock().unwrap_or_else(|e| e.into_inner());
        if !self.unsaved.swap(false, Ordering::AcqRel) {
            return false;
        }
        let mut is_unsaved = false;
        let _tree = self.shared();
        for node in self.nodes.all() {
            if node.read().unsaved {
                let mut state = node.write();
                let mut batch = WriteBatch::new();
                let put = self.put_record(&mut batch, &node, &state, &state.inode);
                state.unsaved = put.and_then(|()| self.commit(batch)).is_err();
                is_unsaved |= state.unsaved;
            }
        }
        if is_unsaved {
            self.unsaved.store(true, Ordering::Release);
        }
        is_unsaved
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

    /// Takes the nodes that nobody holds out of memory, but for those of which it knows what the store does not.
    fn evict(&self) {
        let _tree = self.alone();
        if self.nodes.idle.load(Ordering::Relaxed) <= self.idle_nodes_max {
            return;
        }
        // What is read again must be what was written; after a failure of the store it is what that has.
        if self.streams.flush().is_err() {
            self.settle_lost();
            if self.streams.flush().is_err() && self.failure().is_none() {
                return;
            }
        }
        let mut left = self.nodes.all();
        while let Some(node) = left.pop() {
            let state = node.read();
            let kept = state.dead || state.unsaved || state.loss.is_some();
            if kept || node.refs.load(Ordering::Acquire) != 0 {
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
