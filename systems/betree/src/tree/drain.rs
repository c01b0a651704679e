//! Draining: what waits for the leaves of one node goes there before its time, so that spilled extents become free.

use super::apply::EdgeDraft;
use crate::error::Result;
use crate::key::{End, Key, KeyRange};
use crate::node::{Edge, Inner, Node, NodeRef};
use crate::store::Store;

impl Store {
    /// A key, at or after `from`, of the first parent of leaves for which messages of `least` bytes wait, in its own buffers and, about,
    /// in those above it, of which `above` bytes are known already; and where what follows begins.
    pub(crate) fn first_waiting(
        &self,
        node: &NodeRef,
        from: &[u8],
        least: usize,
        above: usize,
    ) -> Result<Option<(Key, End)>> {
        let Node::Inner(Inner { edges }) = &*self.load(node)? else { return Ok(None) };
        let edges = &edges[edges.partition_point(|e| !e.range.hi.is_after(from))..];
        let leaves = || edges.iter().filter(|e| e.child.level() == 0);
        if let Some(first) = leaves().next()
            && above + leaves().map(Edge::pending).sum::<usize>() >= least
        {
            let end = leaves().next_back().map_or(End::Open, |e| e.range.hi.clone());
            return Ok(Some(((&first.range.lo[..]).max(from).into(), end)));
        }
        for edge in edges.iter().filter(|e| e.child.level() > 0 && e.is_plain()) {
            let share = if edge.child.level() == 1 { 1 } else { edge.child.width().max(1) };
            let above = above + edge.pending().div_ceil(share);
            let from = (&edge.range.lo[..]).max(from);
            if let Some(found) = self.first_waiting(&edge.child, from, least, above)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Passes all messages in the buffers on the way to `key` down, and from the last of these nodes to its leaves. Returns the new
    /// tree.
    pub(crate) fn drain(&self, root: &NodeRef, key: &[u8]) -> Result<NodeRef> {
        let edges = self.drain_node(Node::clone(&*self.load(root)?), &KeyRange::all(), key)?;
        Ok(self.make_root(edges))
    }

    fn drain_node(&self, node: Node, range: &KeyRange, key: &[u8]) -> Result<Vec<Edge>> {
        let Node::Inner(Inner { mut edges }) = node else {
            return Ok(vec![self.edge_to(range.clone(), node)]);
        };
        let here = edges.iter().position(|e| e.range.contains(key));
        if let Some(i) = here.filter(|i| edges[*i].child.level() > 0) {
            let mut below = vec![edges[i].clone()];
            // What takes an edge's place may be edges of the node below, with messages of their own.
            while let Some(j) = below.iter().position(|e| e.range.contains(key)) {
                let next = if below[j].buffer.is_some() {
                    self.flush(&EdgeDraft::old(below[j].clone()))?
                } else if below[j].child.level() > 0 {
                    let drained = self.drain_node(self.load_exact(&below[j])?, &below[j].range, key)?;
                    below.splice(j..=j, drained);
                    break;
                } else {
                    break;
                };
                below.splice(j..=j, next);
            }
            edges.splice(i..=i, below);
            return Ok(self.pack_edges(edges, range));
        }
        let to_leaf = |e: &Edge| e.child.level() == 0 && e.buffer.is_some();
        let waiting: Vec<usize> = (0..edges.len()).filter(|i| to_leaf(&edges[*i])).collect();
        let working: Vec<EdgeDraft> = edges.iter().cloned().map(EdgeDraft::old).collect();
        let below = self.flush_all(&working, &waiting)?;
        for (i, below) in waiting.into_iter().zip(below).rev() {
            edges.splice(i..=i, below);
        }
        Ok(self.pack_edges(edges, range))
    }
}
