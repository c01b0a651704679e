//! Checking everything on storage.

use super::Inner;
use crate::block::{BlockId, BlockInfo, BlockKind, BlockRef, EXTENT_CHUNK};
use crate::codec::{Body, decompress, extents_of};
use crate::error::Result;
use crate::header;
use crate::key::{Key, KeyRange};
use crate::message::Op;
use crate::node::{Home, Node, Part};
use crate::storage::UNIT;
use crate::store::{Store, offset_of};
use crate::superblock::{LOG_START, Superblock};
use crate::wire::Malformed;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

/// What [`super::Db::verify`] found.
#[derive(Clone, Debug, Default)]
pub struct VerifyReport {
    /// Nodes read.
    pub nodes: usize,
    /// Extents read.
    pub extents: usize,
    /// Bytes read.
    pub bytes: u64,
    /// Key-value pairs and pending messages seen. Nodes with several parents count once.
    pub entries: u64,
    /// What is wrong, in words; empty for a sound store.
    pub problems: Vec<String>,
}

struct Walk<'a> {
    store: &'a Store,
    report: VerifyReport,
    seen: HashSet<BlockId>,
}

impl Inner {
    pub(super) fn verify(&self) -> Result<VerifyReport> {
        let _gate = self.gate.write().unwrap_or_else(|e| e.into_inner());
        self.checkpoint()?;
        let last = self.checkpoint.lock().unwrap_or_else(|e| e.into_inner());
        let _tree = self.lock_tree();
        let mut walk = Walk { store: &self.store, report: VerifyReport::default(), seen: HashSet::new() };
        if let Some(root) = &last.root {
            walk.node(root, Some(&KeyRange::all()));
        }
        let mut report = walk.report;
        let problems = self.store.table.audit(LOG_START + self.log_units, self.units, &last.table);
        report.problems.extend(problems);
        if Superblock::copies(&*self.store.storage, last.generation)? < 2 {
            report.problems.push("a copy of the superblock is damaged".into());
        }
        Ok(report)
    }
}

impl Walk<'_> {
    fn problem(&mut self, block: &BlockRef, what: &str) {
        let at = offset_of(block.info());
        self.report.problems.push(format!("block {} at byte {at}: {what}", block.id()));
    }

    fn read(&mut self, block: &BlockRef, info: &BlockInfo) -> Option<Vec<u8>> {
        let len = info.len as usize;
        match self.store.read_block(info, 0, len) {
            Ok((buf, _)) => {
                self.report.bytes += len as u64;
                Some(buf[..len].to_vec())
            }
            Err(e) => {
                self.problem(block, &e.to_string());
                None
            }
        }
    }

    /// Checks a node and everything below; `range` is where its keys must lie, if that is known.
    fn node(&mut self, block: &BlockRef, range: Option<&KeyRange>) {
        let info = block.info().clone();
        if !self.seen.insert(block.id()) {
            return;
        }
        if info.kind == BlockKind::Extent {
            return self.problem(block, "an extent where a node should be");
        }
        self.report.nodes += 1;
        let Some(bytes) = self.read(block, &info) else { return };
        let head = &bytes[..(info.head_len as usize).min(bytes.len())];
        if info.sums.first() != Some(&crc32c::crc32c(head)) {
            return self.problem(block, "header checksum mismatch");
        }
        let table = &self.store.table;
        let node = header::decode(head, block, &self.store.meter, &mut |id| {
            table.reference(id).ok_or(Malformed("child does not exist"))
        });
        let node = match node {
            Ok(node) => node,
            Err(m) => return self.problem(block, m.0),
        };
        let mut out: BTreeSet<BlockId> = BTreeSet::new();
        match &node {
            Node::Leaf(leaf) => {
                for (i, p) in leaf.parts.iter().enumerate() {
                    let hi = leaf.parts.get(i + 1).map(|n| n.lo.clone());
                    let entries = self.part(block, &bytes, &p.body, &mut out);
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
                        let messages = self.part(block, &bytes, part, &mut out);
                        if messages.iter().any(|(k, _)| !e.range.contains(k)) {
                            self.problem(block, "message outside its edge's range");
                        }
                    }
                    if let Some(child) = e.child.block() {
                        out.insert(child.id());
                        // A clipped child may hold more than the edge shows.
                        self.node(child, (!e.clipped).then(|| e.range_below()).as_ref());
                    }
                }
            }
        }
        if out != info.out.iter().copied().collect() {
            self.problem(block, "the table's references differ from the node's");
        }
    }

    fn part<T: Body>(
        &mut self,
        block: &BlockRef,
        bytes: &[u8],
        part: &Arc<Part<T>>,
        out: &mut BTreeSet<BlockId>,
    ) -> Vec<(Key, Op)> {
        let Some(home) = part.lock().home.clone() else { return Vec::new() };
        let Home { off, stored, raw, codec, crc, .. } = home;
        let Some(stored) = bytes.get(off as usize..off as usize + stored as usize) else {
            self.problem(block, "part beyond its block");
            return Vec::new();
        };
        if crc32c::crc32c(stored) != crc {
            self.problem(block, "part checksum mismatch");
            return Vec::new();
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
                return Vec::new();
            }
        };
        if body.entries().len() != part.entries() as usize || body.weight() != part.weight() {
            self.problem(block, "part is not what its header says");
        }
        out.extend(extents_of(body.entries()));
        extents.iter().for_each(|e| self.extent(e));
        self.report.entries += body.entries().len() as u64;
        body.entries().to_vec()
    }

    fn extent(&mut self, block: &BlockRef) {
        if !self.seen.insert(block.id()) {
            return;
        }
        let info = block.info().clone();
        self.report.extents += 1;
        if info.units() * (UNIT as u64) < info.len as u64 || info.kind != BlockKind::Extent {
            return self.problem(block, "not an extent of its length");
        }
        let Some(bytes) = self.read(block, &info) else { return };
        if !bytes.chunks(EXTENT_CHUNK).map(crc32c::crc32c).eq(info.sums.iter().copied()) {
            self.problem(block, "extent checksum mismatch");
        }
    }
}
