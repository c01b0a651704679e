//! A sound tree from a damaged one: what cannot be read is left out, everything else stays, and the keys concerned are
//! named.
//!
//! Nothing is written here: the result is a new root that shares every sound node with the damaged tree.

use crate::batch::Change;
use crate::block::{BlockId, BlockKind, BlockRef, EXTENT_CHUNK};
use crate::buffer::Buffer;
use crate::codec::{Basement, Body};
use crate::error::{Error, Result};
use crate::key::{End, Key, KeyRange, Translation};
use crate::message::{ExtentSlice, Op};
use crate::node::{Edge, Inner, Leaf, LeafPart, Node, NodeRef, Slot};
use crate::ranges::RangeSet;
use crate::store::{CachePolicy, Store};
use std::collections::{HashMap, HashSet};

/// Extents with the numbers of their chunks that do not match their checksum.
pub(crate) type BadChunks = HashMap<BlockId, HashSet<usize>>;

/// The keys that damage concerns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Loss {
    /// Values that were here, if any, are gone.
    pub gone: RangeSet,
    /// Changes may be missing: a key may show an older state.
    pub doubtful: RangeSet,
}

impl Loss {
    fn of_gone(range: &KeyRange) -> Self {
        let mut loss = Loss::default();
        loss.gone.insert(range);
        loss
    }

    fn of_doubtful(range: &KeyRange) -> Self {
        let mut loss = Loss::default();
        loss.doubtful.insert(range);
        loss
    }

    pub fn is_empty(&self) -> bool {
        self.gone.is_empty() && self.doubtful.is_empty()
    }

    pub fn add(&mut self, other: &Loss) {
        other.gone.iter().for_each(|r| self.gone.insert(&r));
        other.doubtful.iter().for_each(|r| self.doubtful.insert(&r));
    }

    /// The state of these keys is known again.
    fn settle(&mut self, range: &KeyRange) {
        self.gone.remove(range);
        self.doubtful.remove(range);
    }

    /// The part inside `window`, in the key space above an edge.
    fn lift(&self, window: &KeyRange, t: Option<&Translation>) -> Loss {
        let lift = |set: &RangeSet| {
            let mut out = RangeSet::default();
            for r in set.clip(window).iter() {
                out.insert(&t.map_or_else(|| r.clone(), |t| t.range_out(&r)));
            }
            out
        };
        Loss { gone: lift(&self.gone), doubtful: lift(&self.doubtful) }
    }

    /// What becomes of a message on top of the damaged state; `None` drops it. A message that needs a lost value is
    /// lost with it, and one that sets a value makes the key known.
    fn take(&mut self, key: &Key, op: &Op, bad: &mut BadExtents<'_>) -> Result<Option<Op>> {
        let one = KeyRange::one(key);
        if bad.hit(op) {
            self.gone.insert(&one);
            return Ok(Some(Op::delete()));
        }
        if op.is_resolved() {
            self.settle(&one);
        } else if self.gone.contains(key) {
            return Ok(None);
        }
        Ok(Some(bad.moved(op)?))
    }

    /// Applies a batch of the log: removes or replaces changes that the damage concerns.
    pub fn sift(&mut self, changes: Vec<Change>, bad: &mut BadExtents<'_>) -> Result<Vec<Change>> {
        if self.is_empty() && bad.chunks.is_empty() {
            return Ok(changes);
        }
        let mut out = Vec::with_capacity(changes.len());
        for change in changes {
            match &change {
                Change::Key(key, op) => {
                    out.extend(self.take(key, op, bad)?.map(|op| Change::Key(key.clone(), op)));
                    continue;
                }
                Change::DeleteRange(range) => self.settle(range),
                Change::Clone { from, to } | Change::Rename { from, to } => {
                    let t = Translation { outer: to.clone(), inner: from.clone() };
                    let moved = self.lift(&KeyRange::prefix(from), Some(&t));
                    self.settle(&KeyRange::prefix(to));
                    if matches!(change, Change::Rename { .. }) {
                        self.settle(&KeyRange::prefix(from));
                    }
                    self.add(&moved);
                }
            }
            out.push(change);
        }
        Ok(out)
    }
}

/// The damaged extents.
pub(crate) struct BadExtents<'a> {
    chunks: &'a BadChunks,
    /// Where to copy the values that can still be read, if they are to be moved to extents of their own.
    store: Option<&'a Store>,
    moved: HashMap<(BlockId, u32, u32), ExtentSlice>,
}

impl<'a> BadExtents<'a> {
    /// With `store`, whole values leave the damaged extents, so that these can be dropped.
    pub fn new(chunks: &'a BadChunks, store: Option<&'a Store>) -> Self {
        BadExtents { chunks, store, moved: HashMap::new() }
    }

    /// True if part of `op` is in a damaged extent.
    fn concerns(&self, op: &Op) -> bool {
        op.slices().any(|s| self.chunks.contains_key(&s.extent.id()))
    }

    /// True if part of `op` touches a damaged chunk.
    fn hit(&self, op: &Op) -> bool {
        op.slices().any(|s| {
            let Some(chunks) = self.chunks.get(&s.extent.id()) else { return false };
            let (first, end) = (s.off as usize / EXTENT_CHUNK, (s.off + s.len) as usize);
            s.len > 0 && (first..end.div_ceil(EXTENT_CHUNK)).any(|c| chunks.contains(&c))
        })
    }

    /// `op`, with its value moved out of a damaged extent.
    fn moved(&mut self, op: &Op) -> Result<Op> {
        let Some(store) = self.store.filter(|_| self.concerns(op)) else { return Ok(op.clone()) };
        op.map_slices(|s| {
            let info = s.extent.info();
            if !self.chunks.contains_key(&s.extent.id()) {
                return Ok(s.clone());
            }
            let place = (s.extent.id(), s.off, s.len);
            if let Some(slice) = self.moved.get(&place) {
                return Ok(slice.clone());
            }
            let bytes = store.read_slice(s, CachePolicy::Tree)?;
            let extent = store.write_extent(info.kind, &[&bytes])?;
            let slice = ExtentSlice { extent, off: 0, len: s.len };
            self.moved.insert(place, slice.clone());
            Ok(slice)
        })
    }
}

/// What replaces a node.
#[derive(Clone)]
struct Replacement {
    /// The new node, the old one if it is sound, or nothing.
    node: Option<NodeRef>,
    /// In the node's own key space.
    loss: Loss,
    /// The new node may hold keys that the old one did not show.
    clip: bool,
}

/// The work; see [`salvage`].
struct Salvage<'a, 'b> {
    store: &'a Store,
    extents: &'a mut BadExtents<'b>,
    /// Damaged blocks and all from which they can be reached: the rest is not looked at.
    damaged: HashSet<BlockId>,
    done: HashMap<BlockId, Replacement>,
}

/// The tree below `root` without what is damaged: `bad` blocks and chunks of extents.
pub(crate) fn salvage(
    store: &Store,
    root: &NodeRef,
    bad: &HashSet<BlockId>,
    extents: &mut BadExtents<'_>,
) -> Result<(NodeRef, Loss)> {
    let damaged = store.table.ancestors(bad);
    let mut work = Salvage { store, extents, damaged, done: HashMap::new() };
    let saved = work.node(root)?;
    Ok((saved.node.unwrap_or_else(|| store.empty_tree()), saved.loss))
}

/// `None` for damage, which is what salvage is about; other errors are passed on.
fn readable<T>(loaded: Result<T>) -> Result<Option<T>> {
    match loaded {
        Ok(v) => Ok(Some(v)),
        Err(Error::Corrupt { .. } | Error::Io { .. }) => Ok(None),
        Err(e) => Err(e),
    }
}

impl Salvage<'_, '_> {
    fn node(&mut self, slot: &NodeRef) -> Result<Replacement> {
        let sound = Replacement { node: Some(slot.clone()), loss: Loss::default(), clip: false };
        let Some(block) = slot.block().cloned() else { return Ok(sound) };
        if !self.damaged.contains(&block.id()) {
            return Ok(sound);
        }
        if let Some(saved) = self.done.get(&block.id()) {
            return Ok(saved.clone());
        }
        // A damaged table may lead from a block back to it: there is nothing more below.
        let nothing = Replacement { node: None, loss: Loss::of_gone(&KeyRange::all()), clip: false };
        self.done.insert(block.id(), nothing.clone());
        let saved = match readable(self.store.load(slot))?.as_deref() {
            Some(Node::Leaf(leaf)) => self.leaf(leaf)?,
            Some(Node::Inner(inner)) => self.inner(inner)?,
            None if block.info().kind == BlockKind::Inner => self.adopt_children(&block)?,
            None => nothing,
        };
        self.done.insert(block.id(), saved.clone());
        Ok(saved)
    }

    fn leaf(&mut self, leaf: &Leaf) -> Result<Replacement> {
        let mut parts = Vec::new();
        let mut loss = Loss::default();
        for (i, p) in leaf.parts.iter().enumerate() {
            let Some(body) = readable(self.store.load_part(&p.body))? else {
                let hi = leaf.parts.get(i + 1).map_or(End::Open, |next| End::At(next.lo.clone()));
                loss.gone.insert(&KeyRange { lo: p.lo.clone(), hi });
                continue;
            };
            if !body.entries().iter().any(|(_, op)| self.extents.concerns(op)) {
                parts.push(p.clone());
                continue;
            }
            let mut kept = Vec::with_capacity(body.entries().len());
            for (key, op) in body.entries() {
                if self.extents.hit(op) {
                    loss.gone.insert(&KeyRange::one(key));
                } else {
                    kept.push((key.clone(), self.extents.moved(op)?));
                }
            }
            if let Some((lo, _)) = kept.first() {
                parts.push(LeafPart { lo: lo.clone(), body: self.store.part(Basement::new(kept)) });
            }
        }
        let node = (!parts.is_empty()).then(|| self.store.make(Node::Leaf(Leaf { parts })));
        Ok(Replacement { node, loss, clip: false })
    }

    fn inner(&mut self, inner: &Inner) -> Result<Replacement> {
        let mut edges = Vec::with_capacity(inner.edges.len());
        let mut loss = Loss::default();
        for edge in &inner.edges {
            let child = self.node(&edge.child)?;
            let mut here = child.loss.lift(&edge.range_below(), edge.translation.as_ref());
            let messages = match &edge.buffer {
                None => None,
                Some(part) => match readable(self.store.load_part(part))? {
                    Some(b) => Some((part, b)),
                    None => {
                        here.add(&Loss::of_doubtful(&edge.range));
                        None
                    }
                },
            };
            let buffer = match messages {
                Some((part, b)) => match self.filter(&b, &mut here)? {
                    None => Some(part.clone()),
                    Some(changed) => (!changed.is_empty()).then(|| self.store.part(changed)),
                },
                None => None,
            };
            loss.add(&here);
            let child_node = match child.node {
                Some(node) => node,
                None if buffer.is_none() => continue,
                None => self.store.empty_tree(),
            };
            edges.push(Edge {
                child: child_node,
                buffer,
                clipped: edge.clipped || child.clip,
                ..edge.clone()
            });
        }
        let node = (!edges.is_empty()).then(|| self.store.make(Node::Inner(Inner { edges })));
        Ok(Replacement { node, loss, clip: false })
    }

    /// The messages that still make sense above `loss`, which is brought up to date; `None` if all do.
    fn filter(&mut self, buffer: &Buffer, loss: &mut Loss) -> Result<Option<Buffer>> {
        buffer.tombs().iter().for_each(|r| loss.settle(&r));
        if loss.is_empty() && !buffer.ops().iter().any(|(_, op)| self.extents.concerns(op)) {
            return Ok(None);
        }
        let mut ops = Vec::with_capacity(buffer.ops().len());
        for (key, op) in buffer.ops() {
            ops.extend(loss.take(key, op, self.extents)?.map(|op| (key.clone(), op)));
        }
        Ok(Some(Buffer::from_parts(buffer.tombs().clone(), ops)))
    }

    /// An inner node whose header is lost: the table still knows its children, and each of them knows its keys. The
    /// messages are lost, and so are translations, so all of it is doubtful.
    fn adopt_children(&mut self, block: &BlockRef) -> Result<Replacement> {
        let mut children: Vec<(KeyRange, NodeRef)> = Vec::new();
        for id in &block.info().out {
            let Some(child) = self.store.table.reference(*id) else { continue };
            if child.info().kind.is_extent() {
                continue;
            }
            // The hints that a parent keeps are only known once the node has been read.
            let blank = Slot::stored(child.clone(), (u8::MAX, 0, 0), 0, &self.store.meter);
            let Some(found) = self.node(&blank)?.node else { continue };
            let Some(node) = readable(self.store.load(&found))? else { continue };
            let Some(span) = self.span(&node)? else { continue };
            let hints = (node.level(), node.weight() as u32, node.width() as u32);
            let slot = match found.block() {
                Some(b) => Slot::stored(b.clone(), hints, found.msn(), &self.store.meter),
                None => found,
            };
            children.push((span, slot));
        }
        children.sort_by(|a, b| a.0.lo.cmp(&b.0.lo));
        let mut edges: Vec<Edge> = Vec::new();
        for (range, child) in children {
            // Two children with the same keys come from a clone; which part of which showed is lost.
            if edges.last().is_none_or(|e| e.range.hi <= End::At(range.lo.clone())) {
                edges.push(Edge { range, clipped: true, translation: None, child, buffer: None });
            }
        }
        let node = (!edges.is_empty()).then(|| self.store.make(Node::Inner(Inner { edges })));
        Ok(Replacement { node, loss: Loss::of_doubtful(&KeyRange::all()), clip: true })
    }

    /// From the first key of a node to its last one.
    fn span(&self, node: &Node) -> Result<Option<KeyRange>> {
        Ok(match node {
            Node::Leaf(leaf) => {
                let (Some(first), Some(last)) = (leaf.parts.first(), leaf.parts.last()) else {
                    return Ok(None);
                };
                let end = match readable(self.store.load_part(&last.body))? {
                    Some(body) => body.entries().last().map(|(k, _)| k.clone()),
                    None => None,
                };
                let end = end.unwrap_or_else(|| last.lo.clone());
                Some(KeyRange { lo: first.lo.clone(), hi: KeyRange::one(&end).hi })
            }
            Node::Inner(inner) => match (inner.edges.first(), inner.edges.last()) {
                (Some(a), Some(b)) => Some(KeyRange { lo: a.range.lo.clone(), hi: b.range.hi.clone() }),
                _ => None,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(ranges: &[KeyRange]) -> RangeSet {
        let mut set = RangeSet::default();
        ranges.iter().for_each(|r| set.insert(r));
        set
    }

    fn sift(loss: &mut Loss, changes: Vec<Change>) -> Vec<Change> {
        let none = BadChunks::new();
        loss.sift(changes, &mut BadExtents::new(&none, None)).expect("nothing is read")
    }

    #[test]
    fn a_patch_of_a_lost_value_is_dropped_and_a_put_makes_the_key_known() {
        let mut loss = Loss::of_gone(&KeyRange::prefix(b"d/"));
        let key = |k: &[u8], op: Op| Change::Key(k.into(), op);
        let batch = vec![
            key(b"d/a", Op::patch(0, b"x")),
            key(b"d/b", Op::put(b"y")),
            key(b"d/b", Op::patch(0, b"z")),
            key(b"e/a", Op::patch(0, b"x")),
            Change::DeleteRange(KeyRange::prefix(b"d/c")),
        ];
        assert_eq!(sift(&mut loss, batch).len(), 4);
        assert!(loss.gone.contains(b"d/a") && loss.gone.contains(b"d/d"));
        assert!(!loss.gone.contains(b"d/b") && !loss.gone.contains(b"d/cc"));
    }

    #[test]
    fn clones_and_renames_carry_the_loss_along() {
        let mut loss = Loss::of_gone(&KeyRange::new(b"a/1", b"a/3"));
        let to = |p: &[u8]| -> Key { p.into() };
        sift(&mut loss, vec![Change::Clone { from: to(b"a/"), to: to(b"b/") }]);
        assert_eq!(loss.gone, set(&[KeyRange::new(b"a/1", b"a/3"), KeyRange::new(b"b/1", b"b/3")]));
        sift(&mut loss, vec![Change::Rename { from: to(b"b/"), to: to(b"c/") }]);
        assert_eq!(loss.gone, set(&[KeyRange::new(b"a/1", b"a/3"), KeyRange::new(b"c/1", b"c/3")]));
        sift(&mut loss, vec![Change::Rename { from: to(b"x/"), to: to(b"a/") }]);
        assert_eq!(loss.gone, set(&[KeyRange::new(b"c/1", b"c/3")]));
    }
}
