//! Reading every node and extent that a root reaches, and checking each checksum, order and reference.

use crate::block::{BlockId, BlockInfo, BlockKind, BlockRef, EXTENT_CHUNK};
use crate::codec::{Body, decompress, extents_of};
use crate::header;
use crate::key::{Key, KeyRange};
use crate::message::Op;
use crate::node::{NOT_BELOW, Node, Part, PartAddress};
use crate::storage::UNIT;
use crate::store::{Store, offset_of};
use crate::wire::Malformed;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// What a walk has counted and found.
#[derive(Default)]
pub(crate) struct WalkCounts {
    /// Nodes read.
    pub nodes: usize,
    /// Extents read.
    pub extents: usize,
    /// Bytes read.
    pub bytes: u64,
    /// Key-value pairs and messages; nodes with several parents count once.
    pub entries: u64,
    /// What is wrong, in words.
    pub problems: Vec<String>,
    /// The blocks that are wrong.
    pub bad: HashSet<BlockId>,
    /// Which chunks of extents do not match their checksums.
    pub bad_chunks: HashMap<BlockId, HashSet<usize>>,
}

/// A walk; start it with [`Walk::node`] or [`Walk::extent`] as often as there are roots.
pub(crate) struct Walk<'a> {
    store: &'a Store,
    pub found: WalkCounts,
    /// Blocks that were met, with the level of which a node is at least.
    seen: HashMap<BlockId, u8>,
}

impl<'a> Walk<'a> {
    pub fn new(store: &'a Store) -> Self {
        Walk { store, found: WalkCounts::default(), seen: HashMap::new() }
    }

    fn problem(&mut self, block: &BlockRef, what: &str) {
        let at = offset_of(block.info());
        self.found.problems.push(format!("block {} at byte {at}: {what}", block.id()));
        self.found.bad.insert(block.id());
    }

    fn read(&mut self, block: &BlockRef, info: &BlockInfo) -> Option<Vec<u8>> {
        let len = info.len as usize;
        match self.store.read_block(info, 0, len) {
            Ok((buf, _)) => {
                self.found.bytes += len as u64;
                Some(buf[..len].to_vec())
            }
            Err(e) => {
                self.problem(block, &e.to_string());
                None
            }
        }
    }

    /// Checks a node of at most level `level` and everything below; `range` is where its keys must lie, if that is known.
    pub fn node(&mut self, block: &BlockRef, level: u8, range: Option<&KeyRange>) {
        let info = block.info().clone();
        if let Some(lowest) = self.seen.get(&block.id()) {
            // Of two parents one may say less than the other; or a node may be its own.
            if level < *lowest {
                self.problem(block, NOT_BELOW);
            }
            return;
        }
        self.seen.insert(block.id(), 0);
        if info.kind.is_extent() {
            return self.problem(block, "an extent where a node should be");
        }
        self.found.nodes += 1;
        let Some(bytes) = self.read(block, &info) else { return };
        let head = &bytes[..(info.head_len as usize).min(bytes.len())];
        if info.sums.first() != Some(&crc32c::crc32c(head)) {
            self.problem(block, "header checksum mismatch");
            return self.below_unknown(&info, level);
        }
        let table = &self.store.table;
        let node = header::decode(head, block, &self.store.meter, &mut |id| {
            table.reference(id).ok_or(Malformed("child does not exist"))
        });
        let node = match node {
            Ok(node) => node,
            Err(m) => return self.problem(block, m.0),
        };
        if !node.is_above_its_children(level) {
            return self.problem(block, NOT_BELOW);
        }
        self.seen.insert(block.id(), node.level());
        if matches!(node, Node::Leaf(_)) != (info.kind == BlockKind::Leaf) {
            self.problem(block, "the table's kind differs from the node's");
        }
        let mut out: BTreeSet<BlockId> = BTreeSet::new();
        match &node {
            Node::Leaf(leaf) => {
                for (i, p) in leaf.parts.iter().enumerate() {
                    let hi = leaf.parts.get(i + 1).map(|n| n.lo.clone());
                    let Some(entries) = self.part(block, &bytes, &p.body, &mut out) else { continue };
                    let inside = |k: &Key| *k >= p.lo && hi.as_ref().is_none_or(|hi| k < hi);
                    if entries.first().is_none_or(|(k, _)| *k != p.lo)
                        || !entries.iter().all(|(k, _)| inside(k))
                    {
                        self.problem(block, "basement does not match its place in the leaf");
                    }
                    if entries.iter().any(|(k, _)| range.is_some_and(|r| !r.contains(k))) {
                        self.problem(block, "key outside the node's range");
                    }
                }
            }
            Node::Inner(inner) => {
                for e in &inner.edges {
                    if range.is_some_and(|r| !r.covers(&e.range)) {
                        self.problem(block, "edge outside the node's range");
                    }
                    if let Some(part) = &e.buffer {
                        let messages = self.part(block, &bytes, part, &mut out).unwrap_or_default();
                        if messages.iter().any(|(k, _)| !e.range.contains(k)) {
                            self.problem(block, "message outside its edge's range");
                        }
                    }
                    if let Some(child) = e.child.block() {
                        out.insert(child.id());
                        // A clipped child may hold more than the edge shows.
                        self.node(child, e.child.level(), (!e.clipped).then(|| e.range_below()).as_ref());
                    }
                }
            }
        }
        if !self.found.bad.contains(&block.id()) && out != info.out.iter().copied().collect() {
            self.problem(block, "the table's references differ from the node's");
        }
    }

    /// Below a node that cannot be read, the table still knows what there is.
    fn below_unknown(&mut self, info: &BlockInfo, level: u8) {
        for id in &info.out {
            let Some(block) = self.store.table.reference(*id) else { continue };
            match block.info().kind {
                BlockKind::Extent | BlockKind::Spilled => self.extent(&block),
                BlockKind::Leaf | BlockKind::Inner => {
                    if let Some(level) = level.checked_sub(1) {
                        self.node(&block, level, None);
                    }
                }
            }
        }
    }

    /// The entries of a part, unless it is damaged.
    fn part<T: Body>(
        &mut self,
        block: &BlockRef,
        bytes: &[u8],
        part: &Arc<Part<T>>,
        out: &mut BTreeSet<BlockId>,
    ) -> Option<Vec<(Key, Op)>> {
        let home = part.lock().home.clone()?;
        let PartAddress { off, stored, raw, codec, crc, extents, .. } = home;
        let Some(stored) = bytes.get(off as usize..off as usize + stored as usize) else {
            self.problem(block, "part beyond its block");
            return None;
        };
        if crc32c::crc32c(stored) != crc {
            self.problem(block, "part checksum mismatch");
            for id in &extents[..] {
                out.insert(*id);
                if let Some(extent) = self.store.table.reference(*id) {
                    self.extent(&extent);
                }
            }
            return None;
        }
        let mut extents: Vec<BlockRef> = Vec::new();
        let body = decompress(codec, stored, raw as usize).and_then(|raw| {
            T::decode(&raw, &mut |id| {
                let extent = self.store.table.reference(id).ok_or(Malformed("extent does not exist"))?;
                extents.push(extent.clone());
                Ok(extent)
            })
        });
        let body = match body {
            Ok(body) => body,
            Err(m) => {
                self.problem(block, m.0);
                return None;
            }
        };
        if body.entries().len() != part.entries() as usize || body.weight() != part.weight() {
            self.problem(block, "part is not what its header says");
        }
        out.extend(extents_of(body.entries()));
        extents.iter().for_each(|e| self.extent(e));
        self.found.entries += body.entries().len() as u64;
        Some(body.entries().to_vec())
    }

    /// Checks an extent.
    pub fn extent(&mut self, block: &BlockRef) {
        if self.seen.insert(block.id(), 0).is_some() {
            return;
        }
        let info = block.info().clone();
        self.found.extents += 1;
        let chunks = (info.len as usize).div_ceil(EXTENT_CHUNK);
        if info.units() * (UNIT as u64) < info.len as u64
            || !info.kind.is_extent()
            || info.sums.len() != chunks
        {
            self.found.bad_chunks.insert(block.id(), (0..chunks).collect());
            return self.problem(block, "not an extent of its length");
        }
        let bad: HashSet<usize> = match self.read(block, &info) {
            None => (0..chunks).collect(),
            Some(bytes) => {
                let sums = bytes.chunks(EXTENT_CHUNK).map(crc32c::crc32c);
                sums.zip(&info.sums).enumerate().filter(|(_, (a, b))| a != *b).map(|(i, _)| i).collect()
            }
        };
        if !bad.is_empty() {
            let what = format!("{} of {chunks} extent chunks do not match their checksum", bad.len());
            self.problem(block, &what);
            self.found.bad_chunks.insert(block.id(), bad);
        }
    }
}
