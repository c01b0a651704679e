//! Reading an immutable tree: one key, or a chunk of a scan.

use crate::buffer::Lookup;
use crate::codec::Body;
use crate::error::Result;
use crate::key::{End, Key, KeyRange};
use crate::message::Op;
use crate::node::{Inner, Leaf, Node, NodeRef};
use crate::store::{Store, count};

/// Some consecutive entries of a scan.
#[derive(Debug)]
pub struct Chunk {
    /// Sorted entries, all of them with a value.
    pub entries: Vec<(Key, Op)>,
    /// The entries are all there are before this end.
    pub upto: End,
    /// Where the leaf that they come from ends: the place to read ahead from.
    pub leaf_end: End,
}

impl Store {
    /// The message for `key` that remains when `newer` comes on top of the tree: resolved.
    pub(crate) fn find(&self, root: &NodeRef, key: &[u8], mut newer: Option<Op>) -> Result<Op> {
        if !self.steps.query_path {
            let (entries, _) = self.whole_leaf(root, &KeyRange::all(), key)?;
            count(&self.counters.entries_applied, entries.len() as u64);
            let below = entries.binary_search_by(|(k, _)| k[..].cmp(key)).ok().map(|i| entries[i].1.clone());
            return Ok(match (below, newer) {
                (Some(older), Some(newer)) => older.then(&newer),
                (Some(older), None) => older,
                (None, newer) => newer.map_or_else(Op::delete, |n| n.on_absent()),
            });
        }
        let mut key: Key = key.into();
        let mut slot = root.clone();
        let under =
            |older: &Op, newer: &Option<Op>| newer.as_ref().map_or_else(|| older.clone(), |n| older.then(n));
        let nothing = |newer: Option<Op>| newer.map_or_else(Op::delete, |n| n.on_absent());
        loop {
            let node = self.load(&slot)?;
            let edge = match &*node {
                Node::Leaf(leaf) => {
                    let Some(part) = leaf.parts.get(leaf.find(&key)) else { return Ok(nothing(newer)) };
                    let body = self.load_part(&part.body)?;
                    let entries = body.entries();
                    return Ok(match entries.binary_search_by(|(k, _)| k.cmp(&key)) {
                        Ok(i) => under(&entries[i].1, &newer),
                        Err(_) => nothing(newer),
                    });
                }
                Node::Inner(inner) => match inner.find(&key) {
                    Some(edge) => edge,
                    None => return Ok(nothing(newer)),
                },
            };
            if let Some(buffer) = &edge.buffer {
                match self.load_part(buffer)?.get(&key) {
                    Lookup::Op(op) => {
                        let op = under(op, &newer);
                        if op.is_resolved() {
                            return Ok(op);
                        }
                        newer = Some(op);
                    }
                    Lookup::Deleted => return Ok(nothing(newer)),
                    Lookup::Nothing => {}
                }
            }
            if let Some(t) = &edge.translation {
                key = t.key_in(&key);
            }
            slot = edge.child.clone();
        }
    }

    /// Everything in the leaf where `key` belongs, up to date, and the leaf's range, which lies in `window`: how a point
    /// query works without the step `query-path`.
    fn whole_leaf(
        &self,
        slot: &NodeRef,
        window: &KeyRange,
        key: &[u8],
    ) -> Result<(Vec<(Key, Op)>, KeyRange)> {
        let node = self.load(slot)?;
        let inner = match &*node {
            Node::Inner(inner) => inner,
            Node::Leaf(leaf) => {
                let mut entries = Vec::new();
                for part in &leaf.parts {
                    let body = self.load_part(&part.body)?;
                    entries.extend(body.entries().iter().filter(|(k, _)| window.contains(k)).cloned());
                }
                return Ok((entries, window.clone()));
            }
        };
        let Some(edge) = inner.find(key) else { return Ok((Vec::new(), window.clone())) };
        let sub = edge.range.intersect(window);
        let (entries, range) = match &edge.translation {
            None => self.whole_leaf(&edge.child, &sub, key)?,
            Some(t) => {
                let (below, range) = self.whole_leaf(&edge.child, &t.range_in(&sub), &t.key_in(key))?;
                (below.into_iter().map(|(k, op)| (t.key_out(&k), op)).collect(), t.range_out(&range))
            }
        };
        let entries = match &edge.buffer {
            Some(buffer) => self.load_part(buffer)?.slice(&range).apply_to(&entries),
            None => entries,
        };
        Ok((entries, range))
    }

    /// The first entries of the tree in `window`: at most one basement with what is pending for it. With
    /// `ahead`, the rest of the leaf is read in the same request.
    pub(crate) fn chunk(&self, slot: &NodeRef, window: &KeyRange, ahead: bool) -> Result<Chunk> {
        match &*self.load(slot)? {
            Node::Leaf(leaf) => self.leaf_chunk(leaf, window, ahead),
            Node::Inner(inner) => self.inner_chunk(inner, window, ahead),
        }
    }

    fn leaf_chunk(&self, leaf: &Leaf, window: &KeyRange, ahead: bool) -> Result<Chunk> {
        let i = leaf.find(&window.lo);
        let Some(part) = leaf.parts.get(i) else {
            return Ok(Chunk { entries: vec![], upto: window.hi.clone(), leaf_end: window.hi.clone() });
        };
        if ahead && part.body.lock().body.is_none() {
            self.load_ahead(&leaf.parts[i..])?;
        }
        let next = leaf.parts.get(i + 1).map_or(End::Open, |p| End::At(p.lo.clone()));
        let upto = next.min(window.hi.clone());
        let body = self.load_part(&part.body)?;
        let entries = body.entries();
        let from = entries.partition_point(|(k, _)| k[..] < window.lo[..]);
        let to = from + entries[from..].partition_point(|(k, _)| upto.is_after(k));
        Ok(Chunk { entries: entries[from..to].to_vec(), upto, leaf_end: window.hi.clone() })
    }

    fn inner_chunk(&self, inner: &Inner, window: &KeyRange, ahead: bool) -> Result<Chunk> {
        let i = inner.edges.partition_point(|e| !e.range.hi.is_after(&window.lo));
        let sub = inner.edges.get(i).map(|e| (e, e.range.intersect(window)));
        let Some((edge, sub)) = sub.filter(|(_, sub)| !sub.is_empty()) else {
            return Ok(Chunk { entries: vec![], upto: window.hi.clone(), leaf_end: window.hi.clone() });
        };
        let mut chunk = match &edge.translation {
            None => self.chunk(&edge.child, &sub, ahead)?,
            Some(t) => {
                let below = t.range_in(&sub);
                let c = self.chunk(&edge.child, &below, ahead)?;
                let out = |end: &End| t.range_out(&KeyRange { lo: below.lo.clone(), hi: end.clone() }).hi;
                let (upto, leaf_end) = (out(&c.upto), out(&c.leaf_end));
                Chunk {
                    entries: c.entries.iter().map(|(k, op)| (t.key_out(k), op.clone())).collect(),
                    upto,
                    leaf_end,
                }
            }
        };
        if let Some(buffer) = &edge.buffer {
            let covered = KeyRange { lo: sub.lo.clone(), hi: chunk.upto.clone() };
            let pending = self.load_part(buffer)?.slice(&covered);
            if !pending.is_empty() {
                // Together, because the bytes of neighbours lie together. What cannot be read concerns only whoever wants that key.
                let whole = self.unspill(&pending).ok().flatten();
                chunk.entries = whole.as_ref().unwrap_or(&pending).apply_to(&chunk.entries);
            }
        }
        Ok(chunk)
    }
}
