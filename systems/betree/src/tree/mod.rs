//! The tree: functions from an immutable root and some messages to a new root.

mod apply;
mod dead;
mod drain;
mod graft;
mod read;
mod spill;
#[cfg(test)]
mod tests;

use crate::codec::{Basement, Body};
use crate::error::Result;
use crate::key::{End, KeyRange};
use crate::node::{Edge, Inner, Leaf, Node, NodeRef};
use crate::store::Store;

/// A taller subtree is not cloned by reference but copied, which bounds the depth of recursion everywhere.
pub(crate) const LEVEL_MAX: u8 = 40;

impl Store {
    /// The empty tree.
    pub(crate) fn empty_tree(&self) -> NodeRef {
        self.make(Node::Leaf(Leaf::default()))
    }

    /// A plain edge to a new node.
    pub(crate) fn edge_to(&self, range: KeyRange, node: Node) -> Edge {
        Edge { range, clipped: false, translation: None, child: self.make(node), buffer: None }
    }

    /// One node from the edges that an operation on the root left.
    pub(crate) fn make_root(&self, mut edges: Vec<Edge>) -> NodeRef {
        loop {
            match &edges[..] {
                [] => return self.empty_tree(),
                [only] if only.is_plain() && only.buffer.is_none() => return only.child.clone(),
                _ if edges.len() <= self.shape.fanout => return self.make(Node::Inner(Inner { edges })),
                _ => edges = self.pack_edges(edges, &KeyRange::all()),
            }
        }
    }

    /// Makes as few inner nodes as hold `edges`, all in `range`; a single edge is returned as it is.
    pub(crate) fn pack_edges(&self, edges: Vec<Edge>, range: &KeyRange) -> Vec<Edge> {
        if edges.len() <= 1 {
            return edges;
        }
        let nodes = if edges.len() <= self.shape.fanout {
            1
        } else {
            edges.len().div_ceil((self.shape.fanout * 3 / 4).max(2))
        };
        let mut out = Vec::with_capacity(nodes);
        let mut rest = edges;
        let mut lo = range.lo.clone();
        for i in 0..nodes {
            let take = rest.len().div_ceil(nodes - i);
            let tail = rest.split_off(take);
            let hi = tail.first().map_or(range.hi.clone(), |e| End::At(e.range.lo.clone()));
            let next = tail.first().map(|e| e.range.lo.clone());
            out.push(self.edge_to(KeyRange { lo, hi }, Node::Inner(Inner { edges: rest })));
            rest = tail;
            lo = next.unwrap_or_default();
        }
        out
    }

    /// The child of `edge` with exactly the edge's keys, in the key space above the edge.
    pub(crate) fn load_exact(&self, edge: &Edge) -> Result<Node> {
        let node = self.load(&edge.child)?;
        if edge.is_plain() {
            return Ok(Node::clone(&node));
        }
        let below = edge.range_below();
        match &*node {
            Node::Leaf(leaf) => {
                let mut entries = Vec::new();
                for part in &leaf.parts {
                    if !below.hi.is_after(&part.lo) {
                        break;
                    }
                    let body = self.load_part(&part.body)?;
                    entries.extend(body.entries().iter().filter(|(k, _)| below.contains(k)).map(
                        |(k, op)| {
                            let key = edge.translation.as_ref().map_or_else(|| k.clone(), |t| t.key_out(k));
                            (key, op.clone())
                        },
                    ));
                }
                Ok(Node::Leaf(Leaf { parts: self.basements(entries) }))
            }
            Node::Inner(inner) => {
                let mut edges = Vec::new();
                for e in &inner.edges {
                    if let Some(cut) = self.cut(e, &below)? {
                        edges.push(self.lift(cut, edge)?);
                    }
                }
                Ok(Node::Inner(Inner { edges }))
            }
        }
    }

    /// The part of an edge that lies in `window`, if any.
    pub(crate) fn cut(&self, edge: &Edge, window: &KeyRange) -> Result<Option<Edge>> {
        let range = edge.range.intersect(window);
        if range.is_empty() {
            return Ok(None);
        }
        if range == edge.range {
            return Ok(Some(edge.clone()));
        }
        let buffer = match &edge.buffer {
            Some(b) => {
                let slice = self.load_part(b)?.slice(&range);
                if slice.is_empty() { None } else { Some(self.part(slice)) }
            }
            None => None,
        };
        let (child, translation) = (edge.child.clone(), edge.translation.clone());
        Ok(Some(Edge { range, clipped: true, translation, child, buffer }))
    }

    /// An edge of the child of `above`, moved into the key space above it.
    fn lift(&self, edge: Edge, above: &Edge) -> Result<Edge> {
        let Some(t) = &above.translation else { return Ok(edge) };
        let buffer = match &edge.buffer {
            Some(b) => Some(self.part(self.load_part(b)?.translate_out(t))),
            None => None,
        };
        let translation = match &edge.translation {
            Some(below) => t.then(below),
            None => t.clone(),
        };
        let translation = Some(translation).filter(|t| t.outer != t.inner);
        Ok(Edge {
            range: t.range_out(&edge.range),
            clipped: edge.clipped,
            translation,
            child: edge.child,
            buffer,
        })
    }

    /// Sorted entries as basements of about equal size.
    pub(crate) fn basements(
        &self,
        entries: Vec<(crate::key::Key, crate::message::Op)>,
    ) -> Vec<crate::node::LeafPart> {
        let weights: Vec<usize> = entries.iter().map(|(k, op)| crate::buffer::entry_weight(k, op)).collect();
        let total: usize = weights.iter().sum();
        let target = total.div_ceil(total.div_ceil(self.shape.basement_bytes).max(1)).max(1);
        let mut out = Vec::new();
        let (mut current, mut size) = (Vec::new(), 0);
        for (entry, weight) in entries.into_iter().zip(weights) {
            if size > 0 && size + weight > target + target / 8 {
                out.push(self.leaf_part(std::mem::take(&mut current)));
                size = 0;
            }
            size += weight;
            current.push(entry);
        }
        if !current.is_empty() {
            out.push(self.leaf_part(current));
        }
        out
    }

    fn leaf_part(&self, entries: Vec<(crate::key::Key, crate::message::Op)>) -> crate::node::LeafPart {
        // Alone, as it stays when the basement leaves memory.
        let lo = entries[0].0.detached();
        crate::node::LeafPart { lo, body: self.part(Basement::new(entries)) }
    }
}
