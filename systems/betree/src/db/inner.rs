//! What all threads share: the state of the database.
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

use super::Options;
use crate::block::BlockRef;
use crate::buffer::{Buffer, Lookup};
use crate::error::{Error, FailedOperation, Result, StopReason};
use crate::key::Key;
use crate::log::{Log, LogPosition};
use crate::memtable::Memtable;
use crate::message::Op;
use crate::node::NodeRef;
use crate::place::TableLocation;
use crate::storage::FailureLatch;
use crate::store::{CachePolicy, Store};
use crate::sync::{Condvar, LOCK_TRIES, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};
use std::sync::{Arc, LazyLock};

/// A memtable that takes no more writes and waits to be applied to the tree.
#[derive(Clone)]
pub(super) struct Frozen {
    /// Its messages in order: made when they are first wanted, since writers would have to wait for it where it is frozen.
    buffer: Arc<LazyLock<Buffer, Box<dyn FnOnce() -> Buffer + Send>>>,
    pub(super) weight: usize,
    /// Bytes that it takes, about, and how many of them lie on the heap piece by piece.
    pub(super) memory: usize,
    pub(super) loose: usize,
    pub(super) last_msn: u64,
}

impl Frozen {
    pub(super) fn new(memtable: Memtable, last_msn: u64) -> Frozen {
        let (weight, memory, loose) = (memtable.weight(), memtable.memory(), memtable.loose());
        let buffer = Arc::new(LazyLock::new(Box::new(|| memtable.freeze()) as Box<_>));
        Frozen { buffer, weight, memory, loose, last_msn }
    }

    /// Its messages. Whoever asks first makes them of the memtable.
    pub(super) fn buffer(&self) -> &Buffer {
        &self.buffer
    }
}

/// A state of the database: the tree after message `applied`, and newer messages, oldest first.
pub(super) struct View {
    pub(super) frozen: Vec<Frozen>,
    pub(super) root: NodeRef,
    pub(super) applied: u64,
}

pub(super) struct CurrentViews {
    pub(super) active: Memtable,
    pub(super) last_msn: u64,
    pub(super) view: Arc<View>,
}

impl CurrentViews {
    /// Weight of everything that is not in the tree.
    pub(super) fn waiting(&self) -> usize {
        self.active.weight() + self.view.frozen.iter().map(|f| f.weight).sum::<usize>()
    }
}

/// The checkpoint in force.
pub(super) struct Checkpoint {
    pub(super) generation: u64,
    /// Keeps every block of it from being reused.
    pub(super) root: Option<BlockRef>,
    /// Where its table is.
    pub(super) place: TableLocation,
    /// Number of the last batch it holds; `None` if it is of an earlier life of the store.
    pub(super) msn: Option<u64>,
    /// The log that a recovery replays.
    pub(super) replayed: Option<ReplayedLog>,
    /// Write superblocks with [`crate::superblock::Superblock::write_in_turn`].
    pub(super) in_turn: bool,
}

/// The log that is being replayed, whose frames stay as they are until all of it is in a checkpoint.
pub(super) struct ReplayedLog {
    pub(super) life: u64,
    /// Its first frame.
    pub(super) from: LogPosition,
    /// Number of its last batch.
    pub(super) last_msn: u64,
    /// Number of the last batch that was durable before.
    pub(super) durable: u64,
}

/// How far spilled messages have been passed to their leaves.
#[derive(Default)]
pub(super) struct Drain {
    /// Where the next step begins.
    pub from: Key,
    /// A whole turn found nothing when so many bytes had been spilled since opening.
    pub dry_at: Option<u64>,
}

/// What all threads share.
pub(super) struct Inner {
    pub(super) options: Options,
    pub(super) store: Store,
    pub(super) log: Log,
    pub(super) uuid: u64,
    pub(super) life: u64,
    pub(super) units: u64,
    pub(super) log_units: u64,
    pub(super) gate: RwLock<()>,
    pub(super) checkpoint: Mutex<Checkpoint>,
    pub(super) tree: Mutex<()>,
    pub(super) front: RwLock<CurrentViews>,
    /// [`CurrentViews::waiting`] when the lock was last held alone.
    pub(super) waiting: AtomicUsize,
    /// Extents that log records still needed by a recovery refer to, by the number of the record.
    pub(super) pins: Mutex<BTreeMap<u64, Vec<BlockRef>>>,
    /// The first failure after which the outcome of writes is unknown, whoever of all who write to the storage met it.
    pub(super) failure: Arc<FailureLatch>,
    /// Freed units when a writer was last told that space is out, plus one; and refusals since.
    pub(super) refused_at: AtomicU64,
    pub(super) refusals: AtomicU64,
    /// Bytes of free space kept for batches that will ask for them.
    pub(super) promised: AtomicU64,
    /// Held by whoever looks whether more can be promised.
    pub(super) promising: Mutex<()>,
    pub(super) checkpoints: AtomicU64,
    /// Times that threads in the background could not apply a memtable or take a checkpoint for want of space, one after the other.
    pub(super) starved: AtomicU32,
    /// Freed units the last time.
    pub(super) starved_at: AtomicU64,
    /// Node bytes written when the last checkpoint ended.
    pub(super) written_at_checkpoint: AtomicU64,
    /// The same for messages that have reached leaves out of extents.
    pub(super) drained_at_checkpoint: AtomicU64,
    pub(super) drain: Mutex<Drain>,
    pub(super) signals: Mutex<Signals>,
    pub(super) progress: Condvar,
}

/// What the threads are asked to do; guarded by `Inner::signals`, announced through `Inner::progress`.
#[derive(Default)]
pub(super) struct Signals {
    pub(super) stop: bool,
    pub(super) checkpoint: bool,
}

impl Inner {
    pub(super) fn read_front(&self) -> RwLockReadGuard<'_, CurrentViews> {
        self.failure.unpoisoned(self.front.read())
    }

    pub(super) fn write_front(&self) -> RwLockWriteGuard<'_, CurrentViews> {
        // It is held for some microseconds: who sleeps for it is woken long after.
        for _ in 0..LOCK_TRIES {
            if let Ok(front) = self.front.try_write() {
                return front;
            }
            std::hint::spin_loop();
        }
        self.failure.unpoisoned(self.front.write())
    }

    pub(super) fn lock_tree(&self) -> MutexGuard<'_, ()> {
        self.failure.unpoisoned(self.tree.lock())
    }

    pub(super) fn lock_checkpoint(&self) -> MutexGuard<'_, Checkpoint> {
        self.failure.unpoisoned(self.checkpoint.lock())
    }

    pub(super) fn view(&self) -> Arc<View> {
        self.read_front().view.clone()
    }

    pub(super) fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut newer: Option<Op> = None;
        let view = {
            let front = self.read_front();
            match front.active.get(key) {
                Lookup::Deleted => return Ok(None),
                Lookup::Op(op) => newer = Some(op.clone()),
                Lookup::Nothing => {}
            }
            front.view.clone()
        };
        for frozen in view.frozen.iter().rev() {
            if newer.as_ref().is_some_and(Op::is_resolved) {
                break;
            }
            match frozen.buffer().get(key) {
                Lookup::Op(op) => newer = Some(newer.map_or_else(|| op.clone(), |n| op.then(&n))),
                Lookup::Deleted => newer = Some(newer.unwrap_or_else(Op::delete).on_absent()),
                Lookup::Nothing => {}
            }
        }
        let op = match newer {
            Some(op) if op.is_resolved() => op,
            newer => self.store.find(&view.root, key, newer)?,
        };
        self.store.value_of(&op, CachePolicy::Caller)
    }

    pub(super) fn ask_sync(&self) -> Result<u64> {
        self.check_writable()?;
        Ok(self.log.ask())
    }

    pub(super) fn sync_to(&self, batch: u64) -> Result<u64> {
        self.log.sync_to(batch).map_err(|e| self.fail(e))
    }

    /// Refuses writes after a failure that left their outcome unknown.
    pub(super) fn check_writable(&self) -> Result<()> {
        self.failure.check()
    }

    /// Does `work` for a thread of the store or a caller of it. If that panics the store takes no more writes, all who wait for the
    /// thread hear of it, and the panic goes on.
    pub(super) fn guarded<T>(&self, work: impl FnOnce(&Self) -> T) -> T {
        let woken = WokenAfterPanic(self);
        let done = self.failure.guard(FailedOperation::Internal, || work(self));
        std::mem::forget(woken);
        done
    }

    /// Makes the store read-only because of `e`.
    pub(super) fn fail(&self, e: Error) -> Error {
        self.failure.set(StopReason::internal(&e));
        self.progress.notify_all();
        e
    }
}

/// Wakes all who may wait for this thread, which has panicked, and has kept that as the failure.
struct WokenAfterPanic<'a>(&'a Inner);

impl Drop for WokenAfterPanic<'_> {
    fn drop(&mut self) {
        let inner = self.0;
        if let Some(reason) = inner.failure.get() {
            inner.store.flight.fail(&reason.to_string());
        }
        inner.log.wake_all();
        inner.progress.notify_all();
    }
}
