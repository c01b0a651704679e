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
use crate::block::{BlockRef, Segment};
use crate::buffer::{Buffer, Found};
use crate::error::{Error, Result};
use crate::key::Key;
use crate::log::Log;
use crate::memtable::Memtable;
use crate::message::Op;
use crate::node::NodeRef;
use crate::store::{For, Store};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, OnceLock, RwLock};

/// Looks at [`Inner::front`] while others have it before a thread goes to sleep: as long as a batch or two, some 10 us.
const FRONT_TRIES: u32 = 500;

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

pub(super) struct Front {
    pub(super) active: Memtable,
    pub(super) last_msn: u64,
    pub(super) view: Arc<View>,
}

impl Front {
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
    pub(super) table: Vec<Segment>,
    /// Write superblocks with [`crate::superblock::Superblock::write_in_turn`].
    pub(super) in_turn: bool,
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
    pub(super) front: RwLock<Front>,
    /// [`Front::waiting`] when the lock was last held alone.
    pub(super) waiting: AtomicUsize,
    /// Extents that log records still needed by a recovery refer to, by the number of the record.
    pub(super) pins: Mutex<BTreeMap<u64, Vec<BlockRef>>>,
    /// Set by the first failure after which the outcome of writes is unknown.
    pub(super) failure: OnceLock<String>,
    /// Freed units when a writer was last told that space is out, plus one; and refusals since.
    pub(super) refused_at: AtomicU64,
    pub(super) refusals: AtomicU64,
    pub(super) checkpoints: AtomicU64,
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
    pub(super) fn read_front(&self) -> std::sync::RwLockReadGuard<'_, Front> {
        self.front.read().unwrap_or_else(|e| e.into_inner())
    }

    pub(super) fn write_front(&self) -> std::sync::RwLockWriteGuard<'_, Front> {
        // It is held for some microseconds: who sleeps for it is woken long after.
        for _ in 0..FRONT_TRIES {
            if let Ok(front) = self.front.try_write() {
                return front;
            }
            std::hint::spin_loop();
        }
        self.front.write().unwrap_or_else(|e| e.into_inner())
    }

    pub(super) fn lock_tree(&self) -> MutexGuard<'_, ()> {
        self.tree.lock().unwrap_or_else(|e| e.into_inner())
    }

    pub(super) fn view(&self) -> Arc<View> {
        self.read_front().view.clone()
    }

    pub(super) fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
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
            match frozen.buffer().get(key) {
                Found::Op(op) => newer = Some(newer.map_or_else(|| op.clone(), |n| op.then(&n))),
                Found::Deleted => newer = Some(newer.unwrap_or_else(Op::delete).on_absent()),
                Found::Nothing => {}
            }
        }
        let op = match newer {
            Some(op) if op.is_resolved() => op,
            newer => self.store.find(&view.root, key, newer)?,
        };
        self.store.value_of(&op, For::Caller)
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
        self.failure.get().map_or(Ok(()), |why| Err(Error::ReadOnly(why.clone())))
    }

    /// Makes the store read-only because of `e`.
    pub(super) fn fail(&self, e: Error) -> Error {
        let _ = self.failure.set(e.to_string());
        self.progress.notify_all();
        e
    }
}
