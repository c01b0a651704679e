//! Cloning a range of keys under another prefix by reference: a new edge to the old nodes, with a translation
//! (Bε-DAG, FAST'20; here nodes are immutable, so sharing needs no further care).

use crate::buffer::Buffer;
use crate::error::Result;
use crate::key::{End, Key, KeyRange, Translation};
use crate::node::{Edge, Inner, Leaf, Node, NodeRef};
use crate::store::Store;
use crate::tree::LEVEL_MAX;

impl Store {
    /// The tree in which every key `from + x` also exists as `to + x`, and `to` has no other keys.
    ///
    /// Neither prefix may begin with the other. Takes time proportional to the height of the tree.
    pub(crate) fn clone_prefix(&self, root: &NodeRef, from: &Key, to: &Key) -> Result<NodeRef> {
        let edge = self.extract(root, from, to)?;
        if edge.child.level() >= LEVEL_MAX {
            return self.copy_prefix(root, from, to);
        }
        let node = Node::clone(&*self.load(root)?);
        let edges = self.place(node, &KeyRange::all(), edge)?;
        Ok(self.make_root(edges))
    }

    /// An edge for the keys `to + x` that leads to what is at `from + x`.
    fn extract(&self, root: &NodeRef, from: &Key, to: &Key) -> Result<Edge> {
        let mut slot = root.clone();
        // The source prefix in the key space of `slot`, and messages from above, in the space of `from`.
        let mut here = from.clone();
        let mut pending = Buffer::default();
        let (child, clipped) = loop {
            let node = self.load(&slot)?;
            let Node::Inner(inner) = &*node else { break (slot, true) };
            let range = KeyRange::prefix(&here);
            if let Some(edge) = inner.edges.iter().find(|e| e.range.covers(&range)) {
                if let Some(b) = &edge.buffer {
                    let lower = self.load_part(b)?.slice(&range);
                    let up = Translation { outer: from.clone(), inner: here.clone() };
                    pending = lower.translate_out(&up).then(&pending);
                }
                if let Some(t) = &edge.translation {
                    here = t.key_in(&here);
                }
                slot = edge.child.clone();
                continue;
            }
            let mut edges = Vec::new();
            for e in &inner.edges {
                edges.extend(self.cut(e, &range)?);
            }
            break match edges.is_empty() {
                true => (self.make(Node::Leaf(Leaf::default())), false),
                false => (self.make(Node::Inner(Inner { edges })), false),
            };
        };
        let moved = pending.translate_in(&Translation { outer: from.clone(), inner: to.clone() });
        Ok(Edge {
            range: KeyRange::prefix(to),
            clipped,
            translation: Some(Translation { outer: to.clone(), inner: here }).filter(|t| t.outer != t.inner),
            child,
            buffer: if moved.is_empty() { None } else { Some(self.part(moved)) },
        })
    }

    /// Puts `edge` into a node in place of whatever is in its range: as deep as it keeps the tree even.
    fn place(&self, node: Node, range: &KeyRange, edge: Edge) -> Result<Vec<Edge>> {
        let edges = match node {
            Node::Inner(inner) => inner.edges,
            Node::Leaf(leaf) => vec![self.edge_to(range.clone(), Node::Leaf(leaf))],
        };
        let deeper = edges
            .iter()
            .position(|e| e.range.covers(&edge.range) && e.child.level() > edge.child.level().max(1));
        let mut out = Vec::with_capacity(edges.len() + 2);
        match deeper {
            Some(i) => {
                for (j, e) in edges.into_iter().enumerate() {
                    out.push(if i == j { self.place_below(&e, edge.clone())? } else { e });
                }
            }
            None => {
                let before = KeyRange { lo: Key::default(), hi: End::At(edge.range.lo.clone()) };
                let mut after = Vec::new();
                for e in &edges {
                    out.extend(self.cut(e, &before)?);
                    if let End::At(hi) = &edge.range.hi {
                        after.extend(self.cut(e, &KeyRange::from(hi))?);
                    }
                }
                out.push(edge);
                out.extend(after);
            }
        }
        Ok(self.pack_edges(out, range))
    }

    /// Places `edge` in the child of `parent`, and takes older messages for its range out of the way.
    fn place_below(&self, parent: &Edge, edge: Edge) -> Result<Edge> {
        let buffer = match &parent.buffer {
            None => None,
            Some(b) => {
                let b = self.load_part(b)?;
                let left = KeyRange { lo: parent.range.lo.clone(), hi: End::At(edge.range.lo.clone()) };
                let mut kept = b.slice(&left);
                if let End::At(hi) = &edge.range.hi {
                    kept = kept.concat(&b.slice(&KeyRange { lo: hi.clone(), hi: parent.range.hi.clone() }));
                }
                if kept.is_empty() { None } else { Some(self.part(kept)) }
            }
        };
        let mut below = self.place(self.load_exact(parent)?, &parent.range, edge)?;
        let child = match below.pop() {
            Some(only) if below.is_empty() && only.is_plain() && only.buffer.is_none() => only.child,
            last => {
                below.extend(last);
                self.make(Node::Inner(Inner { edges: below }))
            }
        };
        Ok(Edge { range: parent.range.clone(), clipped: false, translation: None, child, buffer })
    }

    /// [`Store::clone_prefix`] by copying every entry.
    pub(crate) fn copy_prefix(&self, root: &NodeRef, from: &Key, to: &Key) -> Result<NodeRef> {
        let t = Translation { outer: to.clone(), inner: from.clone() };
        let mut tombs = crate::ranges::RangeSet::default();
        tombs.insert(&KeyRange::prefix(to));
        let mut out = self.apply(root, &Buffer::from_parts(tombs, Vec::new()))?;
        let mut window = KeyRange::prefix(from);
        while !window.is_empty() {
            let chunk = self.chunk(root, &window, true)?;
            let ops = chunk.entries.iter().map(|(k, op)| (t.key_out(k), op.clone())).collect();
            out = self.apply(&out, &Buffer::from_parts(Default::default(), ops))?;
            match chunk.upto {
                End::At(next) => window.lo = next,
                End::Open => break,
            }
        }
        Ok(out)
    }
}
