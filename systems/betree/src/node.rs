//! Nodes in memory: leaves made of basements, inner nodes made of edges with a buffer each.
//!
//! A node is immutable once made: a change makes a new node that shares all untouched parts and children with
//! the old one. So a root is a snapshot of the whole tree, readers need no locks against the writer, and a part
//! of the tree may have several parents.

use crate::block::{BlockId, BlockRef};
use crate::buffer::{Buffer, MEMORY_OVERHEAD};
use crate::codec::{Basement, Body};
use crate::key::{Key, KeyRange, Translation};
use crate::meter::{Evictable, Meter};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

/// Where a part is on storage.
#[derive(Clone, Debug)]
pub struct PartAddress {
    /// The block, kept alive.
    pub block: BlockRef,
    /// Offset in bytes within the block.
    pub off: u32,
    /// Length in bytes as stored.
    pub stored: u32,
    /// Length in bytes before compression.
    pub raw: u32,
    /// Compression tag.
    pub codec: u8,
    /// CRC-32C of the stored bytes.
    pub crc: u32,
    /// Extents the part refers to.
    pub extents: Arc<[BlockId]>,
}

#[derive(Debug)]
pub(crate) struct PartState<T> {
    pub(crate) body: Option<Arc<T>>,
    pub(crate) home: Option<PartAddress>,
}

/// A part of a node that is loaded and evicted as a whole.
#[derive(Debug)]
pub struct Part<T> {
    weight: u32,
    entries: u32,
    hot: AtomicBool,
    ghost: AtomicBool,
    state: Mutex<PartState<T>>,
    meter: Arc<Meter>,
}

impl<T: Body> Part<T> {
    /// A new part, in memory only.
    pub fn dirty(body: T, meter: &Arc<Meter>) -> Arc<Self> {
        let weight = body.weight();
        let entries = body.entries().len() as u32;
        let memory = memory_of(weight as u32, entries);
        meter.add(memory);
        meter.dirty.fetch_add(memory, Ordering::Relaxed);
        Self::make(weight as u32, entries, PartState { body: Some(Arc::new(body)), home: None }, meter)
    }

    /// A part that is on storage.
    pub fn stored(home: PartAddress, weight: u32, entries: u32, meter: &Arc<Meter>) -> Arc<Self> {
        Self::make(weight, entries, PartState { body: None, home: Some(home) }, meter)
    }

    fn make(weight: u32, entries: u32, state: PartState<T>, meter: &Arc<Meter>) -> Arc<Self> {
        Arc::new(Part {
            weight,
            entries,
            hot: AtomicBool::new(false),
            ghost: AtomicBool::new(false),
            state: Mutex::new(state),
            meter: meter.clone(),
        })
    }

    /// Number of entries.
    pub fn entries(&self) -> u32 {
        self.entries
    }

    /// Locks the part; whoever loads it holds this lock, so it is read once however many want it.
    pub(crate) fn lock(&self) -> MutexGuard<'_, PartState<T>> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// The content if it is in memory.
    pub fn peek(&self) -> Option<Arc<T>> {
        self.hot.store(true, Ordering::Relaxed);
        self.lock().body.clone()
    }

    /// Notes that `state` now has its body in memory again.
    pub(crate) fn loaded(&self, state: &mut PartState<T>, body: Arc<T>) {
        state.body = Some(body);
        self.meter.add(self.memory());
    }

    /// The part has been written to `home`. Returns true if it was dirty.
    pub(crate) fn settle(&self, home: PartAddress) -> bool {
        let old = self.lock().home.replace(home);
        if old.is_none() {
            self.meter.dirty.fetch_sub(self.memory(), Ordering::Relaxed);
        }
        old.is_none()
    }
}

impl<T> Part<T> {
    /// Size in the sense of [`crate::message::Op::weight`].
    pub fn weight(&self) -> usize {
        self.weight as usize
    }

    /// Bytes of memory that the content takes, about.
    pub fn memory(&self) -> usize {
        memory_of(self.weight, self.entries)
    }
}

fn memory_of(weight: u32, entries: u32) -> usize {
    weight as usize + entries as usize * MEMORY_OVERHEAD
}

impl<T> Drop for Part<T> {
    fn drop(&mut self) {
        let memory = self.memory();
        let state = self.state.get_mut().unwrap_or_else(|e| e.into_inner());
        if state.body.is_some() {
            self.meter.remove(memory);
            if state.home.is_none() {
                self.meter.dirty.fetch_sub(memory, Ordering::Relaxed);
            }
        }
    }
}

impl<T: Body> Evictable for Part<T> {
    fn take_hot(&self) -> bool {
        self.hot.swap(false, Ordering::Relaxed)
    }

    fn is_ghost(&self) -> bool {
        self.ghost.load(Ordering::Relaxed)
    }

    fn size(&self) -> usize {
        self.memory()
    }

    fn evict(&self) {
        let mut state = self.lock();
        if state.home.is_some() && state.body.take().is_some() {
            self.ghost.store(true, Ordering::Relaxed);
            self.meter.remove(self.memory());
        }
    }
}

/// A basement and its first key.
#[derive(Clone, Debug)]
pub struct LeafPart {
    /// First key in the basement.
    pub lo: Key,
    /// The basement.
    pub body: Arc<Part<Basement>>,
}

/// A leaf: basements in key order, none of them empty.
#[derive(Clone, Debug, Default)]
pub struct Leaf {
    /// The basements.
    pub parts: Vec<LeafPart>,
}

impl Leaf {
    /// Index of the basement that holds `key` if any does.
    pub fn find(&self, key: &[u8]) -> usize {
        self.parts.partition_point(|p| p.lo[..] <= *key).saturating_sub(1)
    }

    /// Size of all basements.
    pub fn weight(&self) -> usize {
        self.parts.iter().map(|p| p.body.weight()).sum()
    }
}

/// An inner node's reference to a child: the keys `range` are in `child`, changed by `buffer`.
#[derive(Clone, Debug)]
pub struct Edge {
    /// The keys that belong to the child, as seen above the edge.
    pub range: KeyRange,
    /// The child may hold entries outside `range`, which do not count.
    pub clipped: bool,
    /// The child's keys are written with another prefix.
    pub translation: Option<Translation>,
    /// The child.
    pub child: NodeRef,
    /// Messages for the child, in the key space above the edge. `None` is an empty buffer.
    pub buffer: Option<Arc<Part<Buffer>>>,
}

impl Edge {
    /// Size of the pending messages.
    pub fn pending(&self) -> usize {
        self.buffer.as_ref().map_or(0, |b| b.weight())
    }

    /// True if the child may be used as it is for exactly the keys of the edge.
    pub fn is_plain(&self) -> bool {
        !self.clipped && self.translation.is_none()
    }

    /// The edge's range in the child's key space.
    pub fn range_below(&self) -> KeyRange {
        match &self.translation {
            Some(t) => t.range_in(&self.range),
            None => self.range.clone(),
        }
    }
}

/// An inner node: edges in key order with disjoint ranges. Keys in the gaps have no value.
#[derive(Clone, Debug, Default)]
pub struct Inner {
    /// The edges.
    pub edges: Vec<Edge>,
}

impl Inner {
    /// The edge that `key` belongs to.
    pub fn find(&self, key: &[u8]) -> Option<&Edge> {
        let i = self.edges.partition_point(|e| e.range.lo[..] <= *key).checked_sub(1)?;
        self.edges.get(i).filter(|e| e.range.hi.is_after(key))
    }

    /// Size of all pending messages.
    pub fn pending(&self) -> usize {
        self.edges.iter().map(Edge::pending).sum()
    }
}

/// What is wrong with a node of which [`Node::is_above_its_children`] does not hold.
pub(crate) const NOT_BELOW: &str = "a child is not of a lower level";

/// A node.
#[derive(Clone, Debug)]
pub enum Node {
    /// A leaf.
    Leaf(Leaf),
    /// An inner node.
    Inner(Inner),
}

impl Node {
    /// 0 for a leaf, else one more than the highest child. Only a hint: a clone may hang a taller tree anywhere.
    pub fn level(&self) -> u8 {
        match self {
            Node::Leaf(_) => 0,
            Node::Inner(n) => n.edges.iter().map(|e| e.child.level()).max().unwrap_or(0).saturating_add(1),
        }
    }

    /// Whether every child is of a lower level than `level`, that of the node as its parent tells it: so no way down is longer
    /// than there are levels, nor leads in a circle.
    pub(crate) fn is_above_its_children(&self, level: u8) -> bool {
        match self {
            Node::Leaf(_) => true,
            Node::Inner(n) => n.edges.iter().all(|e| e.child.level() < level),
        }
    }

    /// Size of all parts.
    pub fn weight(&self) -> usize {
        match self {
            Node::Leaf(n) => n.weight(),
            Node::Inner(n) => n.pending(),
        }
    }

    /// Number of basements or edges.
    pub fn width(&self) -> usize {
        match self {
            Node::Leaf(n) => n.parts.len(),
            Node::Inner(n) => n.edges.len(),
        }
    }
}

#[derive(Debug)]
pub(crate) struct SlotState {
    pub(crate) node: Option<Arc<Node>>,
}

/// One immutable version of a node: in memory, on storage, or both.
#[derive(Debug)]
pub struct Slot {
    level: u8,
    weight: u32,
    width: u32,
    msn: u64,
    hot: AtomicBool,
    block: OnceLock<BlockRef>,
    state: Mutex<SlotState>,
    meter: Arc<Meter>,
}

/// A shared reference to a node version.
pub type NodeRef = Arc<Slot>;

impl Slot {
    /// A new node, in memory only; `msn` is the number of the last message applied to the tree.
    pub fn dirty(node: Node, msn: u64, meter: &Arc<Meter>) -> NodeRef {
        let slot = Slot {
            level: node.level(),
            weight: node.weight() as u32,
            width: node.width() as u32,
            msn,
            hot: AtomicBool::new(true),
            block: OnceLock::new(),
            state: Mutex::new(SlotState { node: Some(Arc::new(node)) }),
            meter: meter.clone(),
        };
        meter.unwritten.fetch_add(slot.write_cost(), Ordering::Relaxed);
        Arc::new(slot)
    }

    /// What [`Meter::unwritten`] counts for this node.
    fn write_cost(&self) -> usize {
        self.weight() + 160 * self.width() + crate::storage::UNIT
    }

    /// A node on storage, described by the hints its parent keeps.
    pub fn stored(
        block: BlockRef,
        (level, weight, width): (u8, u32, u32),
        msn: u64,
        meter: &Arc<Meter>,
    ) -> NodeRef {
        let state = Mutex::new(SlotState { node: None });
        let meter = meter.clone();
        Arc::new(Slot {
            level,
            weight,
            width,
            msn,
            hot: AtomicBool::new(false),
            block: block.into(),
            state,
            meter,
        })
    }

    /// See [`Node::level`].
    pub fn level(&self) -> u8 {
        self.level
    }

    /// See [`Node::weight`].
    pub fn weight(&self) -> usize {
        self.weight as usize
    }

    /// See [`Node::width`].
    pub fn width(&self) -> usize {
        self.width as usize
    }

    /// Number of the last message that had been applied to the tree when the node was made.
    pub fn msn(&self) -> u64 {
        self.msn
    }

    /// The node's block, once it has been written.
    pub fn block(&self) -> Option<&BlockRef> {
        self.block.get()
    }

    /// The node is on storage now.
    pub(crate) fn settle(&self, block: BlockRef) {
        // Write-back is serialised, so a second value cannot come.
        if self.block.set(block).is_ok() {
            self.meter.unwritten.fetch_sub(self.write_cost(), Ordering::Relaxed);
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, SlotState> {
        self.hot.store(true, Ordering::Relaxed);
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if self.block.get().is_none() {
            self.meter.unwritten.fetch_sub(self.write_cost(), Ordering::Relaxed);
        }
    }
}

impl Evictable for Slot {
    fn take_hot(&self) -> bool {
        self.hot.swap(false, Ordering::Relaxed)
    }

    fn is_ghost(&self) -> bool {
        false
    }

    fn size(&self) -> usize {
        self.width() * 64
    }

    fn evict(&self) {
        if self.block.get().is_some() {
            let node = self.state.lock().unwrap_or_else(|e| e.into_inner()).node.take();
            // Dropped after the lock: it takes the parts, and their memory, with it.
            drop(node);
        }
    }
}
