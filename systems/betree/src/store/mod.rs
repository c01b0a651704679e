//! Nodes and extents on storage: `load` reads them, `write` writes new nodes back, `extents` has large values.

mod extents;
mod load;
mod write;

pub(crate) use extents::{CachePolicy, SLICE_GAP_MAX};

use crate::block::BlockInfo;
use crate::cache::Cache;
use crate::codec::{Body, Compression};
use crate::extent_queue::ExtentWriteQueue;
use crate::meter::Meter;
use crate::node::{Node, NodeRef, Part, Slot};
use crate::steps::Features;
use crate::storage::{BufPool, FailureLatch, Storage, UNIT, round_up};
use crate::sync::Mutex;
use crate::table::Table;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

/// Bytes of transfer buffers of each size that are kept for use again.
const POOL_BYTES: usize = 8 << 20;

/// Sizes at which nodes change shape, in bytes of [`crate::message::Op::weight`] unless said otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeSizes {
    /// A leaf above this splits.
    pub leaf_bytes: usize,
    /// A basement above this splits.
    pub basement_bytes: usize,
    /// An inner node whose pending messages exceed this flushes some to a child.
    pub buffer_bytes: usize,
    /// An inner node with more children splits.
    pub fanout: usize,
}

/// Which extents stay in the cache, as long as nothing else needs the room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CachedExtents {
    /// None.
    Nothing,
    /// What was just written. What is read does not count as used: whoever reads keeps it, as the kernel does in its page cache.
    Written,
    /// What was just written or read.
    #[default]
    All,
}

impl CachedExtents {
    pub(crate) fn written(self) -> bool {
        self != CachedExtents::Nothing
    }

    pub(crate) fn read(self) -> bool {
        self == CachedExtents::All
    }
}

/// Counts of work done since the store was opened.
#[derive(Debug, Default)]
pub struct Counters {
    pub(crate) node_bytes_written: AtomicU64,
    pub(crate) nodes_written: AtomicU64,
    pub(crate) extent_bytes_written: AtomicU64,
    /// Of checkpoints' tables, in all copies.
    pub(crate) table_bytes_written: AtomicU64,
    /// Of these, bytes of messages that wait in inner nodes.
    pub(crate) spilled_bytes: AtomicU64,
    pub(crate) bound_bytes: AtomicU64,
    /// Bytes of messages that came back out of extents to go to leaves.
    pub(crate) drained_bytes: AtomicU64,
    /// Bytes of extents that were wanted and in memory.
    pub(crate) extent_bytes_at_hand: AtomicU64,
    pub(crate) bytes_read: AtomicU64,
    pub(crate) reads: AtomicU64,
    pub(crate) flushes_down: AtomicU64,
    pub(crate) subtrees_dropped: AtomicU64,
    /// Flushes that also committed the metadata of a file system below.
    pub(crate) stacked_flushes: Arc<AtomicU64>,
    /// Range deletes that were written as deletes of single keys, and these.
    pub(crate) ranges_expanded: AtomicU64,
    pub(crate) keys_expanded: AtomicU64,
    /// Values handed to the log although they are in an extent, in bytes.
    pub(crate) logged_twice_bytes: AtomicU64,
    /// Entries brought up to date by point queries beyond those they asked for.
    pub(crate) entries_applied: AtomicU64,
}

/// Adds to a counter that nobody synchronises with.
pub(crate) fn count(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}

/// Everything the tree needs to turn references into nodes and back.
pub struct Store {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) table: Table,
    pub(crate) meter: Arc<Meter>,
    pub(crate) cache: Cache,
    pub(crate) shape: NodeSizes,
    pub(crate) compression: Compression,
    /// Number of the last message applied to the newest tree; stamped on new nodes.
    pub(crate) msn: AtomicU64,
    pub(crate) counters: Counters,
    pub(crate) steps: Features,
    pub(crate) pool: BufPool,
    /// Threads that may still be started to flush subtrees side by side.
    pub(crate) helpers: AtomicUsize,
    /// Extents that are being written; with threads that do it, `behind` is set.
    pub(crate) flight: Arc<ExtentWriteQueue>,
    pub(crate) behind: bool,
    pub(crate) extents: CachedExtents,
    /// Space is short: inner nodes keep fewer messages, so that they hardly grow.
    pub(crate) short: AtomicBool,
    /// New nodes in the order made, so children before parents.
    dirty: Mutex<VecDeque<Weak<Slot>>>,
    /// Held while nodes are written, so that none is written twice.
    writing: Mutex<()>,
    /// Of the storage.
    pub(crate) failure: Arc<FailureLatch>,
}

impl Store {
    /// A store over `storage` whose blocks `table` describes.
    pub fn new(
        storage: Arc<dyn Storage>,
        table: Table,
        shape: NodeSizes,
        compression: Compression,
        cache_bytes: usize,
        steps: Features,
    ) -> Self {
        let meter = Arc::new(Meter::default());
        Store {
            storage,
            table,
            cache: Cache::new(cache_bytes, meter.clone()),
            meter,
            shape,
            compression,
            msn: AtomicU64::new(0),
            counters: Counters::default(),
            steps,
            helpers: AtomicUsize::new(0),
            flight: Arc::default(),
            behind: false,
            extents: CachedExtents::Nothing,
            pool: BufPool::new(if steps.malloc { POOL_BYTES } else { 0 }),
            short: AtomicBool::new(false),
            dirty: Mutex::default(),
            writing: Mutex::default(),
            failure: Arc::default(),
        }
    }

    /// Takes a new node into the care of the store.
    pub(crate) fn make(&self, node: Node) -> NodeRef {
        let slot = Slot::dirty(node, self.msn.load(Ordering::Relaxed), &self.meter);
        let mut dirty = self.dirty.lock().unwrap_or_else(|e| e.into_inner());
        if dirty.len() == dirty.capacity() {
            dirty.retain(|w| w.upgrade().is_some_and(|s| s.block().is_none()));
        }
        dirty.push_back(Arc::downgrade(&slot));
        slot
    }

    pub(crate) fn part<T: Body>(&self, body: T) -> Arc<Part<T>> {
        Part::dirty(body.packed(), &self.meter)
    }

    /// Messages that an inner node keeps when space is short.
    pub(crate) fn buffer_bytes_short(&self) -> usize {
        self.shape.buffer_bytes / 8
    }

    /// Messages that an inner node keeps.
    pub(crate) fn buffer_bytes(&self) -> usize {
        if self.short.load(Ordering::Relaxed) { self.buffer_bytes_short() } else { self.shape.buffer_bytes }
    }
}

/// Byte offset of a block, for messages. Round numbers keep it readable.
pub(crate) fn offset_of(info: &BlockInfo) -> u64 {
    info.segments.first().map_or(0, |s| s.start * UNIT as u64)
}

/// Units needed for `bytes`.
pub(crate) fn units_for(bytes: usize) -> u64 {
    (round_up(bytes) / UNIT) as u64
}
