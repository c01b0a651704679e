//! Writing new nodes: encoded in batches, children before parents.

use super::load::BlockRuns;
use super::{Store, count};
use crate::block::{BlockId, BlockInfo, BlockKind, BlockRef, scatter};
use crate::codec::{Body, Compression, compress, extents_of};
use crate::error::{Doing, Error, Result};
use crate::header::{self, PartLocation};
use crate::node::{Inner, Node, NodeRef, Part};
use crate::storage::{PooledBuf, UNIT};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Bytes of encoded nodes that are written together.
const WRITE_BATCH_BYTES: usize = 8 << 20;

/// Nodes encoded but not written yet.
#[derive(Default)]
struct Batch {
    bytes: usize,
    nodes: Vec<Staged>,
}

struct Staged {
    slot: NodeRef,
    node: Arc<Node>,
    info: BlockInfo,
    buf: PooledBuf,
    placed: Vec<PartLocation>,
}

impl Store {
    /// Writes `root` and everything below that is not on storage; returns its block. Nothing is flushed.
    pub(crate) fn write_tree(&self, root: &NodeRef) -> Result<BlockRef> {
        let _writing = self.failure.unpoisoned(self.writing.lock());
        let mut batch = Batch::default();
        self.stage(root, &mut batch)?;
        self.write_batch(&mut batch)?;
        root.block().cloned().ok_or_else(|| Error::Invalid("root was not written".into()))
    }

    /// Writes the oldest new nodes until at most `keep` bytes are unwritten, in the sense of
    /// [`Meter::unwritten`].
    pub(crate) fn write_dirty(&self, keep: usize) -> Result<()> {
        if self.meter.unwritten() <= keep {
            return Ok(());
        }
        let _writing = self.failure.unpoisoned(self.writing.lock());
        let (mut batch, mut taken) = (Batch::default(), Vec::new());
        let staged = self.stage_oldest(keep, &mut batch, &mut taken);
        let written = staged.and_then(|()| self.write_batch(&mut batch));
        if written.is_err() {
            self.abandon(&mut batch);
            // What was not written in the meantime waits in its old order.
            let mut dirty = self.dirty.lock().unwrap_or_else(|e| e.into_inner());
            let waits = |slot: &NodeRef| slot.block().is_none();
            taken.into_iter().rev().filter(waits).for_each(|slot| dirty.push_front(Arc::downgrade(&slot)));
        }
        self.cache.trim();
        written
    }

    /// The first part of [`Store::write_dirty`]; what it takes from the queue of new nodes is in `taken` afterwards.
    fn stage_oldest(&self, keep: usize, batch: &mut Batch, taken: &mut Vec<NodeRef>) -> Result<()> {
        while self.meter.unwritten().saturating_sub(batch.bytes) > keep {
            let oldest = self.dirty.lock().unwrap_or_else(|e| e.into_inner()).pop_front();
            let Some(oldest) = oldest else { break };
            let Some(slot) = oldest.upgrade() else { continue };
            taken.push(slot.clone());
            self.stage(&slot, batch)?;
            if batch.bytes > WRITE_BATCH_BYTES {
                self.write_batch(batch)?;
                taken.retain(|slot| slot.block().is_none());
            }
        }
        Ok(())
    }

    /// Encodes `slot` and what is new below it into the batch.
    fn stage(&self, slot: &NodeRef, batch: &mut Batch) -> Result<()> {
        if slot.block().is_some() || batch.nodes.iter().any(|s| Arc::ptr_eq(&s.slot, slot)) {
            return Ok(());
        }
        let node = self.load(slot)?;
        if let Node::Inner(inner) = &*node {
            inner.edges.iter().try_for_each(|e| self.stage(&e.child, batch))?;
            if inner.edges.iter().any(|e| e.child.block().is_none()) {
                self.write_batch(batch)?;
            }
        }
        let staged = match self.encode_node(slot, node) {
            Ok(staged) => staged,
            Err(e) => {
                self.abandon(batch);
                return Err(e);
            }
        };
        batch.bytes += staged.buf.len();
        batch.nodes.push(staged);
        if batch.bytes >= WRITE_BATCH_BYTES { self.write_batch(batch) } else { Ok(()) }
    }

    fn encode_node(&self, slot: &NodeRef, node: Arc<Node>) -> Result<Staged> {
        let mut placed = Vec::new();
        let mut body = if self.steps.malloc { Vec::with_capacity(slot.weight()) } else { Vec::new() };
        let mut out: BTreeSet<BlockId> = BTreeSet::new();
        match &*node {
            Node::Leaf(leaf) => {
                let runs = self.absent_parts(leaf.parts.iter().map(|p| &p.body))?;
                for p in &leaf.parts {
                    self.encode_part(&p.body, &runs, &mut body, &mut placed)?;
                }
            }
            Node::Inner(Inner { edges }) => {
                let runs = self.absent_parts(edges.iter().filter_map(|e| e.buffer.as_ref()))?;
                for e in edges {
                    out.extend(e.child.block().map(|b| b.id()));
                    if let Some(b) = &e.buffer {
                        self.encode_part(b, &runs, &mut body, &mut placed)?;
                    }
                }
            }
        }
        out.extend(placed.iter().flat_map(|p| p.extents.iter().copied()));
        let head = header::encode(&node, slot.msn(), &placed);
        let len = head.len() + body.len();
        let buf = self.pool.filled(&[&head, &body]);
        let segments = self.table.allocate((buf.len() / UNIT) as u64).ok_or(Error::NoSpace)?;
        let info = BlockInfo {
            kind: if matches!(*node, Node::Leaf(_)) { BlockKind::Leaf } else { BlockKind::Inner },
            segments,
            len: len as u32,
            head_len: head.len() as u32,
            sums: vec![crc32c::crc32c(&head)],
            out: out.into_iter().collect(),
        };
        Ok(Staged { slot: slot.clone(), node, info, buf, placed })
    }

    /// The stored bytes of those parts that are not in memory and go into a new node unchanged.
    fn absent_parts<'p, T: Body>(&self, parts: impl Iterator<Item = &'p Arc<Part<T>>>) -> Result<BlockRuns> {
        let absent = parts.filter_map(|part| {
            let state = part.lock();
            state.body.is_none().then(|| state.home.clone()).flatten()
        });
        self.read_runs(absent.collect())
    }

    fn encode_part<T: Body>(
        &self,
        part: &Arc<Part<T>>,
        runs: &BlockRuns,
        out: &mut Vec<u8>,
        placed: &mut Vec<PartLocation>,
    ) -> Result<()> {
        let (body, home) = {
            let state = part.lock();
            (state.body.clone(), state.home.clone())
        };
        let off = out.len() as u32;
        let p = match (body, home) {
            (Some(body), home) => {
                let extents = match home {
                    Some(h) => h.extents,
                    None => extents_of(body.entries()).into_iter().collect(),
                };
                let (codec, raw) = if self.compression == Compression::None {
                    body.encode(out);
                    (0, out.len() as u32 - off)
                } else {
                    let mut raw =
                        if self.steps.malloc { Vec::with_capacity(part.weight()) } else { Vec::new() };
                    body.encode(&mut raw);
                    let raw_len = raw.len() as u32;
                    let (codec, stored) = compress(self.compression, raw);
                    out.extend_from_slice(&stored);
                    (codec, raw_len)
                };
                let stored = &out[off as usize..];
                let crc = crc32c::crc32c(stored);
                PartLocation { off, stored: stored.len() as u32, raw, codec, crc, extents }
            }
            (None, Some(h)) => {
                match runs.get(&h).filter(|stored| self.check_part(&h, stored).is_ok()) {
                    Some(stored) => out.extend_from_slice(stored),
                    // It left memory a moment ago, or it is damaged.
                    None => out.extend_from_slice(&self.read_as_it_is(&h)?),
                }
                PartLocation {
                    off,
                    stored: h.stored,
                    raw: h.raw,
                    codec: h.codec,
                    crc: h.crc,
                    extents: h.extents,
                }
            }
            (None, None) => return Err(Error::Invalid("part is neither in memory nor stored".into())),
        };
        placed.push(p);
        Ok(())
    }

    fn write_batch(&self, batch: &mut Batch) -> Result<()> {
        let writes: Vec<(u64, &[u8])> = batch.nodes.iter().flat_map(|s| scatter(&s.info, &s.buf)).collect();
        if let Err(e) = self.storage.write_many(&writes).doing("writing nodes") {
            self.abandon(batch);
            return Err(e);
        }
        batch.bytes = 0;
        for s in std::mem::take(&mut batch.nodes) {
            count(&self.counters.nodes_written, 1);
            count(&self.counters.node_bytes_written, s.buf.len() as u64);
            let block = self.table.insert(s.info);
            self.settle(&s.node, &s.placed, &block);
            s.slot.settle(block);
            if matches!(*s.node, Node::Leaf(_)) {
                self.cache.insert(&s.slot, false);
            }
        }
        Ok(())
    }

    /// Gives back the space of nodes that could not be written; they stay dirty.
    fn abandon(&self, batch: &mut Batch) {
        batch.bytes = 0;
        for s in batch.nodes.drain(..) {
            self.table.give_back(&s.info.segments);
        }
    }

    /// Tells the parts of a written node where they are.
    fn settle(&self, node: &Node, placed: &[PartLocation], block: &BlockRef) {
        match node {
            Node::Leaf(leaf) => {
                for (p, at) in leaf.parts.iter().zip(placed) {
                    if p.body.settle(at.home(block)) {
                        self.cache.insert(&p.body, false);
                    }
                }
            }
            Node::Inner(inner) => {
                for (b, at) in inner.edges.iter().filter_map(|e| e.buffer.as_ref()).zip(placed) {
                    if b.settle(at.home(block)) {
                        self.cache.insert(b, true);
                    }
                }
            }
        }
    }
}
