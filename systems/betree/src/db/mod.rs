//! The database: a memtable, frozen memtables and a tree, behind a log.
//!
//! # Locks
//!
//! Taken in this order, each only while those before it are held or free:
//!
//! 1. `gate`: writers hold it shared; a clone, a close and a verification hold it alone.
//! 2. `checkpoint`: one checkpoint at a time; holds what is needed to free the previous one.
//! 3. `tree`: whoever replaces the root. Messages are applied under it, by one thread at a time.
//! 4. `front`: the memtable and the current view. Writers hold it alone to log a batch, number it and add it to
//!    the memtable; readers hold it shared to look into the memtable and take the view. Never held across I/O.
//! 5. the log's, a node's, a part's, the table's, the cache's locks: leaves of the order, held one at a time
//!    except that a node or part may lock the table while it is being read.
//!
//! A view is immutable: frozen memtables and a root. Readers work on the view they took, so flushing, splitting
//! and checkpoints never block them, and a scan sees the state at its start whatever happens later.

mod background;
mod checkpoint;
mod cursor;
mod open;
mod options;
mod repair;
mod run;
mod space;
#[cfg(test)]
pub(crate) mod tests;
mod verify;
mod write;

pub(crate) use open::{Numbered, batches, ring};
pub(crate) use repair::{Plan, rebuild};

pub use cursor::Cursor;
pub use options::Options;
pub use verify::VerifyReport;

use crate::batch::WriteBatch;
use crate::block::{BlockRef, Segment};
use crate::buffer::{Buffer, Found};
use crate::error::{Error, Result};
use crate::key::KeyRange;
use crate::log::Log;
use crate::memtable::Memtable;
use crate::message::Op;
use crate::node::NodeRef;
use crate::store::Store;
use background::{Background, Signals};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, RwLock};

/// A memtable that takes no more writes and waits to be applied to the tree.
#[derive(Clone)]
struct Frozen {
    buffer: Arc<Buffer>,
    /// Bytes that it takes, about, and how many of them lie on the heap piece by piece.
    memory: usize,
    loose: usize,
    last_msn: u64,
}

/// A state of the database: the tree after message `applied`, and newer messages, oldest first.
struct View {
    frozen: Vec<Frozen>,
    root: NodeRef,
    applied: u64,
}

struct Front {
    active: Memtable,
    last_msn: u64,
    view: Arc<View>,
}

impl Front {
    /// Weight of everything that is not in the tree.
    fn waiting(&self) -> usize {
        self.active.weight() + self.view.frozen.iter().map(|f| f.buffer.weight()).sum::<usize>()
    }
}

/// The checkpoint in force.
struct Checkpoint {
    generation: u64,
    /// Keeps every block of it from being reused.
    root: Option<BlockRef>,
    table: Vec<Segment>,
    /// Write superblocks with [`crate::superblock::Superblock::write_in_turn`].
    in_turn: bool,
}

/// What all threads share.
struct Inner {
    options: Options,
    store: Store,
    log: Log,
    uuid: u64,
    life: u64,
    units: u64,
    log_units: u64,
    gate: RwLock<()>,
    checkpoint: Mutex<Checkpoint>,
    tree: Mutex<()>,
    front: RwLock<Front>,
    /// [`Front::waiting`] when the lock was last held alone.
    waiting: AtomicUsize,
    /// Extents that log records still needed by a recovery refer to.
    pins: Mutex<VecDeque<(u64, Vec<BlockRef>)>>,
    /// Set by the first failure after which the outcome of writes is unknown.
    failure: OnceLock<String>,
    /// Freed units when a writer was last told that space is out, plus one; and refusals since.
    refused_at: AtomicU64,
    refusals: AtomicU64,
    checkpoints: AtomicU64,
    /// Node bytes written when the last checkpoint ended.
    written_at_checkpoint: AtomicU64,
    signals: Mutex<Signals>,
    progress: Condvar,
}

/// An open store. May be shared between threads; every method may be called from any of them.
///
/// A write is visible to later reads when the call returns, and durable after a later [`Db::sync`] or
/// [`Db::checkpoint`]. After a crash the store holds a prefix of the batches in the order of their numbers,
/// and at least those before the last sync.
pub struct Db {
    inner: Arc<Inner>,
    background: Option<Background>,
}

/// Figures about an open store.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Capacity of the storage in bytes.
    pub capacity_bytes: u64,
    /// Bytes not in use.
    pub free_bytes: u64,
    /// Bytes that only deletes and checkpoints may use.
    pub reserve_bytes: u64,
    /// Nodes and extents on storage.
    pub nodes: usize,
    /// Extents on storage.
    pub extents: usize,
    /// Height of the tree: 0 for a single leaf.
    pub height: u8,
    /// Number of the last batch.
    pub last_msn: u64,
    /// Number of the last batch known to be durable.
    pub durable_msn: u64,
    /// Number of the last batch that the tree includes.
    pub applied_msn: u64,
    /// Bytes of node parts in memory.
    pub cached_bytes: usize,
    /// Bytes of new nodes not written yet.
    pub unwritten_bytes: usize,
    /// Bytes in the memtable and the frozen ones.
    pub memtable_bytes: usize,
    /// Bytes of memory accounted for, about: node parts, memtables, extents on their way, transfer buffers, log records.
    pub memory_bytes: usize,
    /// Part of the log in use, in thousandths.
    pub log_fill: u64,
    /// Since opening: checkpoints, log flushes for syncs, nodes and their bytes written, bytes of extents
    /// written, requests and bytes read, buffers flushed to a child, subtrees dropped by a range delete.
    pub checkpoints: u64,
    /// See [`Stats::checkpoints`].
    pub log_syncs: u64,
    /// See [`Stats::checkpoints`].
    pub nodes_written: u64,
    /// See [`Stats::checkpoints`].
    pub node_bytes_written: u64,
    /// See [`Stats::checkpoints`].
    pub extent_bytes_written: u64,
    /// See [`Stats::checkpoints`].
    pub reads: u64,
    /// See [`Stats::checkpoints`].
    pub bytes_read: u64,
    /// See [`Stats::checkpoints`].
    pub flushes_down: u64,
    /// See [`Stats::checkpoints`].
    pub subtrees_dropped: u64,
    /// Bytes of records handed to the log since opening.
    pub log_bytes: u64,
    /// Transfer buffers allocated since opening.
    pub buffers_made: u64,
    /// Transfer buffers used again since opening; 0 without the step `malloc`.
    pub buffers_reused: u64,
    /// Flushes since opening that also committed the metadata of a file system below: without the step `sfl`.
    pub stacked_flushes: u64,
    /// Range deletes since opening that became deletes of single keys: without the step `range`.
    pub ranges_expanded: u64,
    /// The deletes of single keys that they became.
    pub keys_expanded: u64,
    /// Bytes of values since opening that were logged although they are in an extent: without the step `cond-log`.
    pub logged_twice_bytes: u64,
    /// Entries that point queries brought up to date since opening besides those asked for: without the step
    /// `query-path`.
    pub entries_applied: u64,
}

impl Db {
    /// The value of `key`.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.inner.get(key)
    }

    /// Sets the value of `key`.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<u64> {
        let mut batch = WriteBatch::new();
        batch.put(key, value);
        self.write(batch)
    }

    /// Removes `key`. Always succeeds on a full store.
    pub fn delete(&self, key: &[u8]) -> Result<u64> {
        let mut batch = WriteBatch::new();
        batch.delete(key);
        self.write(batch)
    }

    /// Overwrites bytes of a value without reading it; see [`WriteBatch::patch`].
    pub fn patch(&self, key: &[u8], off: u32, bytes: &[u8]) -> Result<u64> {
        let mut batch = WriteBatch::new();
        batch.patch(key, off, bytes);
        self.write(batch)
    }

    /// Removes every key of `range`. Always succeeds on a full store.
    pub fn delete_range(&self, range: &KeyRange) -> Result<u64> {
        let mut batch = WriteBatch::new();
        batch.delete_range(range);
        self.write(batch)
    }

    /// Copies a range of keys by reference; see [`WriteBatch::clone_range`].
    pub fn clone_range(&self, from: &[u8], to: &[u8]) -> Result<u64> {
        let mut batch = WriteBatch::new();
        batch.clone_range(from, to);
        self.write(batch)
    }

    /// Moves a range of keys to another prefix; see [`WriteBatch::rename_range`].
    pub fn rename_range(&self, from: &[u8], to: &[u8]) -> Result<u64> {
        let mut batch = WriteBatch::new();
        batch.rename_range(from, to);
        self.write(batch)
    }

    /// Applies a batch atomically, as one log record; returns its number, which grows by one with each batch.
    ///
    /// [`Error::NoSpace`] and [`Error::Invalid`] mean that nothing happened. Any other error leaves open whether
    /// the batch survives, and the store takes no more writes.
    pub fn write(&self, batch: WriteBatch) -> Result<u64> {
        self.inner.write(batch)
    }

    /// True if a write would have to wait now until the tree has taken in what was written before.
    pub fn has_to_wait(&self) -> bool {
        self.inner.has_to_wait()
    }

    /// Makes every batch written before durable.
    pub fn sync(&self) -> Result<()> {
        self.inner.sync()
    }

    /// Writes everything to the tree and starts the log anew.
    pub fn checkpoint(&self) -> Result<()> {
        self.inner.checkpoint()
    }

    /// A scan of the keys in `range`, in order.
    ///
    /// It sees exactly the state when it was made: all batches written before, none written later. While it
    /// lives, the space of what it sees cannot be reused.
    pub fn scan(&self, range: &KeyRange) -> Cursor {
        Cursor::new(&self.inner, range, self.background.as_ref().and_then(Background::prefetcher))
    }

    /// Number of the last batch written; after opening, of the last batch recovered.
    pub fn last_msn(&self) -> u64 {
        self.inner.read_front().last_msn
    }

    /// Figures about the store.
    pub fn stats(&self) -> Stats {
        self.inner.stats()
    }

    /// Takes a checkpoint, then reads every node and extent and checks every checksum, key order, reference and
    /// free unit. Writers wait meanwhile.
    pub fn verify(&self) -> Result<VerifyReport> {
        self.inner.verify()
    }

    /// Takes a checkpoint and stops the background threads. Dropping without closing is like a crash, except
    /// that the log is written: opening replays it.
    pub fn close(mut self) -> Result<()> {
        let done = self.inner.checkpoint();
        self.background.take();
        done
    }
}

impl Drop for Db {
    fn drop(&mut self) {
        self.background.take();
        // A failure here is the same as a crash a moment earlier, which recovery handles.
        let _ = self.inner.log.commit(true);
    }
}

impl Inner {
    fn read_front(&self) -> std::sync::RwLockReadGuard<'_, Front> {
        self.front.read().unwrap_or_else(|e| e.into_inner())
    }

    fn write_front(&self) -> std::sync::RwLockWriteGuard<'_, Front> {
        self.front.write().unwrap_or_else(|e| e.into_inner())
    }

    fn lock_tree(&self) -> MutexGuard<'_, ()> {
        self.tree.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn view(&self) -> Arc<View> {
        self.read_front().view.clone()
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut newer: Option<Op> = None;
        let view = {
            let front = self.read_front();
            match front.active.get(key) {
                Found::Deleted => return Ok(None),
                Found::Op(op) => newer = Some(op.clone()),
                Found::Nothing => {}
            }
            front.view.clone()
        };
        for frozen in view.frozen.iter().rev() {
            if newer.as_ref().is_some_and(Op::is_resolved) {
                break;
            }
            match frozen.buffer.get(key) {
                Found::Op(op) => newer = Some(newer.map_or_else(|| op.clone(), |n| op.then(&n))),
                Found::Deleted => newer = Some(newer.unwrap_or_else(Op::delete).on_absent()),
                Found::Nothing => {}
            }
        }
        let op = match newer {
            Some(op) if op.is_resolved() => op,
            newer => self.store.find(&view.root, key, newer)?,
        };
        self.store.value_of(&op)
    }

    fn sync(&self) -> Result<()> {
        self.check_writable()?;
        self.log.commit(true).map_err(|e| self.fail(e))
    }

    /// Refuses writes after a failure that left their outcome unknown.
    fn check_writable(&self) -> Result<()> {
        self.failure.get().map_or(Ok(()), |why| Err(Error::ReadOnly(why.clone())))
    }

    /// Makes the store read-only because of `e`.
    fn fail(&self, e: Error) -> Error {
        let _ = self.failure.set(e.to_string());
        self.progress.notify_all();
        e
    }

    fn stats(&self) -> Stats {
        let (view, active, active_memory, last_msn) = {
            let front = self.read_front();
            (front.view.clone(), front.active.weight(), front.active.memory(), front.last_msn)
        };
        let c = &self.store.counters;
        let n = |a: &AtomicU64| a.load(Ordering::Relaxed);
        let (nodes, extents) = self.store.table.counts();
        let unit = crate::storage::UNIT as u64;
        let (buffers_made, buffers_reused) = self.store.pool.counts();
        Stats {
            capacity_bytes: self.units * unit,
            free_bytes: self.store.table.free_units() * unit,
            reserve_bytes: self.reserve_bytes(),
            nodes,
            extents,
            height: view.root.level(),
            last_msn,
            durable_msn: self.log.durable(),
            applied_msn: view.applied,
            cached_bytes: self.store.meter.resident(),
            unwritten_bytes: self.store.meter.unwritten(),
            memtable_bytes: active + view.frozen.iter().map(|f| f.buffer.weight()).sum::<usize>(),
            memory_bytes: self.store.meter.resident()
                + active_memory
                + view.frozen.iter().map(|f| f.memory).sum::<usize>()
                + self.store.flight.bytes()
                + self.store.pool.bytes()
                + self.log.memory(),
            log_fill: self.log.fill(),
            checkpoints: n(&self.checkpoints),
            log_syncs: self.log.syncs(),
            nodes_written: n(&c.nodes_written),
            node_bytes_written: n(&c.node_bytes_written),
            extent_bytes_written: n(&c.extent_bytes_written),
            reads: n(&c.reads),
            bytes_read: n(&c.bytes_read),
            flushes_down: n(&c.flushes_down),
            subtrees_dropped: n(&c.subtrees_dropped),
            log_bytes: self.log.bytes(),
            buffers_made,
            buffers_reused,
            stacked_flushes: n(&c.stacked_flushes),
            ranges_expanded: n(&c.ranges_expanded),
            keys_expanded: n(&c.keys_expanded),
            logged_twice_bytes: n(&c.logged_twice_bytes),
            entries_applied: n(&c.entries_applied),
        }
    }
}
