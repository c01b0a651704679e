//! Applying messages: distributing them over edges, flushing full buffers, splitting and merging nodes.

use crate::block::BlockKind;
use crate::buffer::Buffer;
use crate::codec::{Basement, Body};
use crate::error::{Error, Result};
use crate::key::{End, Key, KeyRange};
use crate::message::{Base, ExtentSlice, Op, Value};
use crate::node::{Edge, Inner, Leaf, LeafPart, Node, NodeRef, Part};
use crate::store::{CachePolicy, Store, count};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Messages for which it is worth to start threads.
const PARALLEL_BYTES_MIN: usize = 512 << 10;

/// Small values leave their extents where they have at most this part of the bytes of what is new among them: three quarters
/// have been replaced, and a leaf is written for a third more, once.
const LEFT_PART_MAX: usize = 3;

/// An edge on its way into a new node.
pub(super) struct EdgeDraft {
    edge: Edge,
    /// The edge's buffer if it changed; then `edge.buffer` no longer counts.
    fresh: Option<Buffer>,
    /// Made or changed by this application, so worth a look for merging.
    touched: bool,
}

impl EdgeDraft {
    pub(super) fn old(edge: Edge) -> Self {
        EdgeDraft { edge, fresh: None, touched: false }
    }

    pub(super) fn new(edge: Edge) -> Self {
        EdgeDraft { edge, fresh: None, touched: true }
    }

    pub(super) fn edge(&self) -> &Edge {
        &self.edge
    }

    pub(super) fn fresh(&self) -> Option<&Buffer> {
        self.fresh.as_ref()
    }

    fn pending(&self) -> usize {
        self.fresh.as_ref().map_or_else(|| self.edge.pending(), Buffer::weight)
    }
}

impl Store {
    /// The tree after applying `batch` to `root`.
    pub(crate) fn apply(&self, root: &NodeRef, batch: &Buffer) -> Result<NodeRef> {
        let node = Node::clone(&*self.load(root)?);
        let edges = self.apply_node(node, &KeyRange::all(), batch)?;
        Ok(self.make_root(edges))
    }

    /// Finds the first pending messages beside keys in `within` and moves them one level down, so that deletes free
    /// what they delete. Returns the new tree and where to go on, or `None` if nothing is pending there.
    pub(crate) fn push_down(&self, root: &NodeRef, within: &KeyRange) -> Result<Option<(NodeRef, Key)>> {
        let node = Node::clone(&*self.load(root)?);
        let settled = self.push_down_node(node, &KeyRange::all(), within)?;
        Ok(settled.map(|(edges, next)| (self.make_root(edges), next)))
    }

    fn push_down_node(
        &self,
        node: Node,
        range: &KeyRange,
        within: &KeyRange,
    ) -> Result<Option<(Vec<Edge>, Key)>> {
        let Node::Inner(Inner { mut edges }) = node else { return Ok(None) };
        let start = edges.partition_point(|e| !e.range.hi.is_after(&within.lo));
        let end = edges.partition_point(|e| within.hi.is_after(&e.range.lo));
        for i in start..end {
            let edge = &edges[i];
            let next = (&edge.range.lo[..]).max(&within.lo).into();
            if edge.buffer.is_some() {
                let below = self.flush(&EdgeDraft::old(edge.clone()))?;
                edges.splice(i..=i, below);
                return Ok(Some((self.pack_edges(edges, range), next)));
            }
            if edge.child.level() == 0 {
                continue;
            }
            if let Some((below, next)) = self.push_down_node(self.load_exact(edge)?, &edge.range, within)? {
                edges.splice(i..=i, below);
                return Ok(Some((self.pack_edges(edges, range), next)));
            }
        }
        Ok(None)
    }

    /// Applies `batch`, all of it inside `range`, to a node with exactly that range; returns what replaces it.
    fn apply_node(&self, node: Node, range: &KeyRange, batch: &Buffer) -> Result<Vec<Edge>> {
        match node {
            Node::Leaf(leaf) => self.apply_leaf(leaf, range, batch),
            Node::Inner(inner) => self.apply_inner(inner, range, batch),
        }
    }

    fn apply_leaf(&self, leaf: Leaf, range: &KeyRange, batch: &Buffer) -> Result<Vec<Edge>> {
        let whole = self.unspill(batch)?;
        if whole.is_some() {
            count(&self.counters.drained_bytes, batch.spilled_bytes() as u64);
        }
        let batch = whole.as_ref().unwrap_or(batch);
        let mut parts = Vec::with_capacity(leaf.parts.len());
        let mut loaded = self.load_touched(&leaf, range, batch)?;
        // Entries of consecutive changed basements, divided anew together.
        let mut changed: Vec<(Key, Op)> = Vec::new();
        let mut lo = range.lo.clone();
        for (i, part) in leaf.parts.iter().enumerate() {
            let hi = leaf.parts.get(i + 1).map_or(range.hi.clone(), |next| End::At(next.lo.clone()));
            let window = KeyRange { lo, hi: hi.clone() };
            lo = leaf.parts.get(i + 1).map(|next| next.lo.clone()).unwrap_or_default();
            let slice = batch.view(&window);
            if slice.is_empty() {
                parts.extend(self.basements(std::mem::take(&mut changed)));
                parts.push(part.clone());
            } else if slice.tombs().covers(&window) {
                slice.apply_to(&[], &mut changed);
            } else {
                let body = loaded[i].take().map_or_else(|| self.load_part(&part.body), Ok)?;
                slice.apply_to(body.entries(), &mut changed);
            }
        }
        if leaf.parts.is_empty() {
            changed = batch.apply_to(&[]);
        }
        self.gather(&mut changed)?;
        for (_, op) in &mut changed {
            self.fold(op)?;
        }
        parts.extend(self.basements(changed));
        Ok(self.pack_leaves(parts, range))
    }

    /// Loads the basements of a leaf that `batch` changes, with few requests; one place for each.
    fn load_touched(
        &self,
        leaf: &Leaf,
        range: &KeyRange,
        batch: &Buffer,
    ) -> Result<Vec<Option<Arc<Basement>>>> {
        let touched = leaf.parts.iter().enumerate().map(|(i, part)| {
            let lo = if i == 0 { range.lo.clone() } else { part.lo.clone() };
            let hi = leaf.parts.get(i + 1).map_or(range.hi.clone(), |next| End::At(next.lo.clone()));
            batch.touches(&KeyRange { lo, hi }).then_some(&part.body)
        });
        self.load_some(&touched.collect::<Vec<_>>())
    }

    /// Loads those parts that are given; one place for each.
    fn load_some<T: Body>(&self, parts: &[Option<&Arc<Part<T>>>]) -> Result<Vec<Option<Arc<T>>>> {
        let wanted: Vec<_> = parts.iter().flatten().copied().collect();
        let mut loaded = self.load_parts(&wanted)?.into_iter();
        Ok(parts.iter().map(|p| p.and_then(|_| loaded.next())).collect())
    }

    /// Rewrites a value in an extent once its patches have grown to a good part of it, and moves a value that patches
    /// have made large out of the leaf. Without space both can wait.
    ///
    /// A small value waits until patches cover all of it, because each would cost a read here; canonical patches are never
    /// much larger than what they cover.
    fn fold(&self, op: &mut Op) -> Result<()> {
        let large = 2 * self.shape.basement_bytes;
        let bytes = match (&op.base, &op.edits) {
            (Base::Value(Value::Slice(slice)), Some(edits))
                if edits.cover(slice.len)
                    || slice.len as usize > large && edits.weight() >= slice.len as usize / 4
                    || edits.len_after(slice.len) > slice.len =>
            {
                self.value_of(op, CachePolicy::Tree)?
            }
            (Base::Value(Value::Inline(bytes)), None) if bytes.len() > large && self.steps.page_sharing => {
                Some(bytes.to_vec())
            }
            _ => return Ok(()),
        };
        let Some(bytes) = bytes else { return Ok(()) };
        if bytes.len() <= large {
            *op = Op::put(&bytes);
            return Ok(());
        }
        match self.write_extent(BlockKind::Extent, &[&bytes]) {
            Ok(extent) => *op = Op::put_slice(ExtentSlice { extent, off: 0, len: bytes.len() as u32 }),
            Err(Error::NoSpace) => {}
            Err(e) => return Err(e),
        }
        Ok(())
    }

    /// Takes small values out of their extents where little is left of them between what is new, so that the extents become
    /// free. A leaf is then written for at most a part more.
    fn gather(&self, entries: &mut [(Key, Op)]) -> Result<()> {
        let small = 2 * self.shape.basement_bytes as u32;
        let mut slices = Vec::new();
        let (mut left, mut new) = (0, 0);
        for (_, op) in entries.iter() {
            let edits = op.edits.as_ref().map_or(0, |e| e.weight());
            new += edits;
            match &op.base {
                Base::Value(Value::Slice(s)) if s.len <= small => {
                    left += (s.len as usize).saturating_sub(edits);
                    slices.push(s.clone());
                }
                Base::Value(Value::Inline(bytes)) => new += bytes.len(),
                _ => {}
            }
        }
        if slices.is_empty() || left > new / LEFT_PART_MAX {
            return Ok(());
        }
        // What cannot be read stays where it is, and whoever wants it learns of that.
        let Ok(read) = self.read_together(slices) else { return Ok(()) };
        for (_, op) in entries.iter_mut() {
            if let Base::Value(Value::Slice(s)) = &op.base
                && let Some(bytes) = read.bytes(s)
            {
                let whole = match &op.edits {
                    Some(edits) => edits.apply(Some(bytes.to_vec())),
                    None => Some(bytes.to_vec()),
                };
                *op = whole.map_or_else(Op::delete, |bytes| Op::put(&bytes));
            }
        }
        Ok(())
    }

    /// Leaves of about equal size from basements in key order.
    fn pack_leaves(&self, parts: Vec<LeafPart>, range: &KeyRange) -> Vec<Edge> {
        if parts.is_empty() {
            return Vec::new();
        }
        let total: usize = parts.iter().map(|p| p.body.weight()).sum();
        let leaves =
            if total <= self.shape.leaf_bytes { 1 } else { total.div_ceil(self.shape.leaf_bytes * 3 / 4) };
        let target = total.div_ceil(leaves);
        let mut out = Vec::with_capacity(leaves);
        let (mut current, mut size, mut lo) = (Vec::new(), 0, range.lo.clone());
        for part in parts {
            if size > 0 && size + part.body.weight() / 2 > target {
                let hi = KeyRange { lo, hi: End::At(part.lo.clone()) };
                out.push(self.edge_to(hi, Node::Leaf(Leaf { parts: std::mem::take(&mut current) })));
                (size, lo) = (0, part.lo.clone());
            }
            size += part.body.weight();
            current.push(part);
        }
        out.push(self.edge_to(KeyRange { lo, hi: range.hi.clone() }, Node::Leaf(Leaf { parts: current })));
        out
    }

    fn apply_inner(&self, inner: Inner, range: &KeyRange, batch: &Buffer) -> Result<Vec<Edge>> {
        let mut edges = self.distribute(inner, range, batch)?;
        self.flush_dead(&mut edges)?;
        let limit = self.buffer_bytes();
        let mut pending: usize = edges.iter().map(EdgeDraft::pending).sum();
        // When space is short, a node that has too many gets rid of them bit by bit: all at once could take more than there is.
        let mut turn = if self.short.load(Ordering::Relaxed) { 2 * batch.weight() } else { usize::MAX };
        while pending > limit && turn > 0 {
            // The fullest edges, as many as needed, in the order of their keys.
            let mut fullest: Vec<usize> = (0..edges.len()).collect();
            fullest.sort_by_key(|i| std::cmp::Reverse(edges[*i].pending()));
            let mut victims = Vec::new();
            for i in fullest {
                if pending <= limit || turn == 0 {
                    break;
                }
                pending -= edges[i].pending();
                turn = turn.saturating_sub(edges[i].pending());
                victims.push(i);
            }
            victims.sort_unstable();
            let below = self.flush_all(&edges, &victims)?;
            for (i, below) in victims.into_iter().zip(below).rev() {
                pending += below.iter().map(Edge::pending).sum::<usize>();
                edges.splice(i..=i, below.into_iter().map(EdgeDraft::new));
            }
        }
        self.merge_small(&mut edges)?;
        let edges = edges
            .into_iter()
            .map(|w| match w.fresh {
                Some(b) if b.is_empty() => Edge { buffer: None, ..w.edge },
                Some(b) => Edge { buffer: Some(self.part(b)), ..w.edge },
                None => w.edge,
            })
            .collect();
        Ok(self.pack_edges(edges, range))
    }

    /// Puts each message with its edge. An edge whose whole range is deleted goes at once, with all below it.
    fn distribute(&self, inner: Inner, range: &KeyRange, batch: &Buffer) -> Result<Vec<EdgeDraft>> {
        let mut out = Vec::with_capacity(inner.edges.len() + 1);
        let touched = inner.edges.iter().map(|e| e.buffer.as_ref().filter(|_| batch.touches(&e.range)));
        let mut loaded = self.load_some(&touched.collect::<Vec<_>>())?;
        let mut lo = range.lo.clone();
        for (i, edge) in inner.edges.into_iter().enumerate() {
            let gap = KeyRange { lo, hi: End::At(edge.range.lo.clone()) };
            self.fill(&gap, batch, &mut out)?;
            lo = match &edge.range.hi {
                End::At(hi) => hi.clone(),
                End::Open => Key::default(),
            };
            let open = edge.range.hi == End::Open;
            let slice = batch.view(&edge.range);
            if slice.is_empty() {
                out.push(EdgeDraft::old(edge));
            } else if slice.tombs().covers(&edge.range) {
                count(&self.counters.subtrees_dropped, 1);
                self.fill(&edge.range, batch, &mut out)?;
            } else {
                let fresh = match &edge.buffer {
                    Some(b) => slice.on(&*loaded[i].take().map_or_else(|| self.load_part(b), Ok)?),
                    None => slice.to_buffer(),
                };
                out.push(EdgeDraft { edge, fresh: Some(fresh), touched: true });
            }
            if open {
                return Ok(out);
            }
        }
        self.fill(&KeyRange { lo, hi: range.hi.clone() }, batch, &mut out)?;
        Ok(out)
    }

    /// Leaves for messages in a range that has nothing below it.
    fn fill(&self, gap: &KeyRange, batch: &Buffer, out: &mut Vec<EdgeDraft>) -> Result<()> {
        if gap.is_empty() {
            return Ok(());
        }
        let slice = batch.slice(gap);
        if !slice.ops().is_empty() {
            out.extend(self.apply_leaf(Leaf::default(), gap, &slice)?.into_iter().map(EdgeDraft::new));
        }
        Ok(())
    }

    /// Flushes several edges, side by side if there are threads to spare; returns what replaces each.
    pub(super) fn flush_all(&self, edges: &[EdgeDraft], victims: &[usize]) -> Result<Vec<Vec<Edge>>> {
        let bytes: usize = victims.iter().map(|i| edges[*i].pending()).sum();
        let wanted = if bytes < PARALLEL_BYTES_MIN { 0 } else { victims.len().saturating_sub(1) };
        let take = |n: usize| Some(n - wanted.min(n));
        let spare = self.helpers.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).unwrap_or(0);
        let helpers = wanted.min(spare);
        if helpers == 0 {
            return victims.iter().map(|i| self.flush(&edges[*i])).collect();
        }
        let next = AtomicUsize::new(0);
        let done: Mutex<Vec<(usize, Result<Vec<Edge>>)>> = Mutex::default();
        let work = || {
            while let Some(i) = victims.get(next.fetch_add(1, Ordering::Relaxed)) {
                let below = self.flush(&edges[*i]);
                done.lock().unwrap_or_else(|e| e.into_inner()).push((*i, below));
            }
        };
        std::thread::scope(|s| {
            let start = || std::thread::Builder::new().name("betree-flush".into()).spawn_scoped(s, work);
            let helpers: Vec<_> = (0..helpers).filter_map(|_| start().ok()).collect();
            work();
            // The scope would not say what a panic was about.
            for helper in helpers {
                helper.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            }
        });
        self.helpers.fetch_add(helpers, Ordering::Relaxed);
        let mut done = done.into_inner().unwrap_or_else(|e| e.into_inner());
        done.sort_by_key(|(i, _)| *i);
        done.into_iter().map(|(_, below)| below).collect()
    }

    /// Moves an edge's messages into its child; returns what replaces the edge.
    pub(super) fn flush(&self, w: &EdgeDraft) -> Result<Vec<Edge>> {
        count(&self.counters.flushes_down, 1);
        let loaded;
        let batch = match (&w.fresh, &w.edge.buffer) {
            (Some(b), _) => b,
            (None, Some(b)) => {
                loaded = self.load_part(b)?;
                &*loaded
            }
            (None, None) => &Buffer::default(),
        };
        self.apply_node(self.load_exact(&w.edge)?, &w.edge.range, batch)
    }

    /// Joins neighbours that fit well into one node, if at least one of them has just changed.
    fn merge_small(&self, edges: &mut Vec<EdgeDraft>) -> Result<()> {
        let mut i = 0;
        while i + 1 < edges.len() {
            let (a, b) = (&edges[i], &edges[i + 1]);
            if !(a.touched || b.touched) || !self.may_merge(&a.edge, &b.edge) {
                i += 1;
                continue;
            }
            let merged = match (self.load_exact(&a.edge)?, self.load_exact(&b.edge)?) {
                (Node::Leaf(mut l), Node::Leaf(r)) => {
                    l.parts.extend(r.parts);
                    Node::Leaf(l)
                }
                (Node::Inner(mut l), Node::Inner(r)) => {
                    l.edges.extend(r.edges);
                    Node::Inner(l)
                }
                // Levels are equal, so both are of one kind.
                _ => return Ok(()),
            };
            let range = KeyRange { lo: a.edge.range.lo.clone(), hi: b.edge.range.hi.clone() };
            let buffer = self.buffer_of(a)?.concat(&*self.buffer_of(b)?);
            let w = EdgeDraft { edge: self.edge_to(range, merged), fresh: Some(buffer), touched: true };
            edges.splice(i..i + 2, [w]);
        }
        Ok(())
    }

    fn may_merge(&self, a: &Edge, b: &Edge) -> bool {
        let (x, y) = (&a.child, &b.child);
        let weight = x.weight() + y.weight();
        match (x.level(), y.level()) {
            (0, 0) => weight < self.shape.leaf_bytes / 2,
            (l, m) => {
                l == m && x.width() + y.width() <= self.shape.fanout / 2 && weight < self.buffer_bytes() / 2
            }
        }
    }

    fn buffer_of(&self, w: &EdgeDraft) -> Result<Arc<Buffer>> {
        match (&w.fresh, &w.edge.buffer) {
            (Some(b), _) => Ok(Arc::new(b.clone())),
            (None, Some(b)) => self.load_part(b),
            (None, None) => Ok(Arc::default()),
        }
    }
}
