//! Leaves whose data are deleted while only memory has them: the deletes go there at once, so that the data are never written.

use super::apply::EdgeDraft;
use crate::buffer::{Buffer, entry_weight};
use crate::codec::Body;
use crate::error::Result;
use crate::node::{Edge, Node};
use crate::store::Store;

/// A leaf is worth the deletes when they are for at least this part (1/N) of it: to make it anew costs as many bytes as stay.
const DEAD_PART: usize = 2;

impl Store {
    /// Passes what is pending for leaves right below on where it deletes much of one that has not been written. In the buffer
    /// it would wait for more, and the leaf would be written meanwhile, as it was.
    pub(super) fn flush_dead(&self, edges: &mut Vec<EdgeDraft>) -> Result<()> {
        let mut dead = Vec::new();
        for (i, w) in edges.iter().enumerate() {
            if let Some(buffer) = w.fresh()
                && self.is_dead(w.edge(), buffer)?
            {
                dead.push(i);
            }
        }
        let below = self.flush_all(edges, &dead)?;
        for (i, below) in dead.into_iter().zip(below).rev() {
            edges.splice(i..=i, below.into_iter().map(EdgeDraft::new));
        }
        Ok(())
    }

    /// Whether `buffer` deletes a good part of a leaf below `edge` that only memory has.
    fn is_dead(&self, edge: &Edge, buffer: &Buffer) -> Result<bool> {
        let child = &edge.child;
        if child.level() > 0 || child.block().is_some() || !edge.is_plain() {
            return Ok(false);
        }
        let deletes = buffer.ops().iter().filter(|(_, op)| op.is_absent());
        if buffer.tombs().is_empty() && deletes.clone().next().is_none() {
            return Ok(false);
        }
        let Node::Leaf(leaf) = &*self.load(child)? else { return Ok(false) };
        let enough = child.weight() / DEAD_PART;
        let mut dead = 0;
        let mut deletes = deletes.map(|(key, _)| key).peekable();
        for part in &leaf.parts {
            // What was written, with another version of the leaf, and is not in memory any more, is not written again for this.
            let Some(body) = part.body.peek() else { continue };
            for (key, op) in body.entries() {
                while deletes.next_if(|deleted| *deleted < key).is_some() {}
                if deletes.peek().is_some_and(|deleted| *deleted == key) || buffer.tombs().contains(key) {
                    dead += entry_weight(key, op);
                    if dead >= enough {
                        return Ok(true);
                    }
                }
            }
        }
        Ok(false)
    }
}
