//! Blocks: what the translation table knows about a node or an extent on storage, and counted references.

use crate::extent_cache::ExtentCache;
use crate::storage::UNIT;
use std::fmt;
use std::sync::{Arc, Mutex};

/// Number of a block. Numbers are never reused within the life of an open store.
pub type BlockId = u64;

/// A run of allocation units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Segment {
    /// First unit, counted from the start of the storage.
    pub start: u64,
    /// Number of units.
    pub units: u32,
}

impl Segment {
    /// Its length in bytes.
    pub fn bytes(&self) -> u64 {
        u64::from(self.units) * UNIT as u64
    }
}

/// What a block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockKind {
    /// A leaf of the tree.
    Leaf,
    /// An inner node of the tree.
    Inner,
    /// Bytes of large values.
    Extent,
    /// Bytes of messages that wait in inner nodes: an extent whose values belong into leaves in the end.
    Spilled,
}

impl BlockKind {
    /// True for what has no header and refers to nothing.
    pub fn is_extent(self) -> bool {
        matches!(self, BlockKind::Extent | BlockKind::Spilled)
    }
}

/// Everything about a block but its reference count. Immutable: a changed node is a new block.
#[derive(Debug)]
pub struct BlockInfo {
    /// What it holds.
    pub kind: BlockKind,
    /// Where it is; several segments when free space was in pieces.
    pub segments: Vec<Segment>,
    /// Length in bytes, without the padding to whole units.
    pub len: u32,
    /// Length in bytes of a node's header; 0 for an extent.
    pub head_len: u32,
    /// CRC-32C: of a node's header, or of each [`EXTENT_CHUNK`] of an extent.
    pub sums: Vec<u32>,
    /// Blocks that this one refers to, without repetition.
    pub out: Vec<BlockId>,
}

/// Bytes of an extent that share a checksum.
pub const EXTENT_CHUNK: usize = 16 * 1024;

impl BlockInfo {
    /// Units it takes.
    pub fn units(&self) -> u64 {
        self.segments.iter().map(|s| s.units as u64).sum()
    }

    /// The storage ranges `(offset, length)`, in bytes and in order, that hold bytes `[off, off + len)` of the
    /// block; `off` and `len` are multiples of the unit.
    pub fn locate(&self, off: u64, len: u64) -> Vec<(u64, u64)> {
        let unit = UNIT as u64;
        let (mut skip, mut want) = (off, len);
        let mut out = Vec::new();
        for s in &self.segments {
            let size = s.units as u64 * unit;
            if skip >= size {
                skip -= size;
                continue;
            }
            let n = want.min(size - skip);
            if n == 0 {
                break;
            }
            out.push((s.start * unit + skip, n));
            (skip, want) = (0, want - n);
        }
        out
    }
}

/// Pairs the segments of a block with the bytes that go there.
pub(crate) fn scatter<'a>(info: &BlockInfo, buf: &'a [u8]) -> Vec<(u64, &'a [u8])> {
    let mut rest = buf;
    let places = info.locate(0, buf.len() as u64);
    places
        .into_iter()
        .map(|(off, n)| {
            let (head, tail) = rest.split_at(n as usize);
            rest = tail;
            (off, head)
        })
        .collect()
}

/// Numbers of blocks that lost a reference, waiting to be subtracted in the table.
///
/// References die anywhere, also while locks are held; so a drop only notes the number here, and the table
/// collects the notes when it next works. This mutex is the innermost of all.
#[derive(Debug, Default)]
pub struct ReferenceReaper {
    dropped: Mutex<Vec<BlockId>>,
}

impl ReferenceReaper {
    /// Takes the numbers noted so far.
    pub fn take(&self) -> Vec<BlockId> {
        std::mem::take(&mut *self.dropped.lock().unwrap_or_else(|e| e.into_inner()))
    }
}

struct Counted {
    id: BlockId,
    info: Arc<BlockInfo>,
    held: Option<Arc<ExtentCache>>,
    reaper: Arc<ReferenceReaper>,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.reaper.dropped.lock().unwrap_or_else(|e| e.into_inner()).push(self.id);
    }
}

/// A reference that keeps a block's space from being reused. Made by the table, which counts it.
#[derive(Clone)]
pub struct BlockRef(Arc<Counted>);

impl fmt::Debug for BlockRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockRef").field("id", &self.0.id).field("info", &self.0.info).finish()
    }
}

impl BlockRef {
    /// A reference that the maker has counted; `reaper` is told when the last clone goes.
    pub fn new(id: BlockId, info: Arc<BlockInfo>, reaper: Arc<ReferenceReaper>) -> Self {
        BlockRef(Arc::new(Counted { id, info, held: None, reaper }))
    }

    /// The same of an extent of which something may be in memory.
    pub(crate) fn with_held(
        id: BlockId,
        info: Arc<BlockInfo>,
        held: Option<Arc<ExtentCache>>,
        reaper: Arc<ReferenceReaper>,
    ) -> Self {
        BlockRef(Arc::new(Counted { id, info, held, reaper }))
    }

    /// Where what of it is in memory is found, if that is kept.
    pub(crate) fn held(&self) -> Option<&ExtentCache> {
        self.0.held.as_deref()
    }

    /// The block's number.
    pub fn id(&self) -> BlockId {
        self.0.id
    }

    /// What is known about the block.
    pub fn info(&self) -> &Arc<BlockInfo> {
        &self.0.info
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locate_walks_over_segments() {
        let unit = UNIT as u64;
        let info = BlockInfo {
            kind: BlockKind::Extent,
            segments: vec![Segment { start: 10, units: 2 }, Segment { start: 50, units: 3 }],
            len: 5 * UNIT as u32,
            head_len: 0,
            sums: vec![],
            out: vec![],
        };
        assert_eq!(info.units(), 5);
        assert_eq!(info.locate(0, 5 * unit), vec![(10 * unit, 2 * unit), (50 * unit, 3 * unit)]);
        assert_eq!(info.locate(unit, 2 * unit), vec![(11 * unit, unit), (50 * unit, unit)]);
        assert_eq!(info.locate(3 * unit, unit), vec![(51 * unit, unit)]);
    }

    #[test]
    fn the_reaper_hears_of_the_last_clone_only() {
        let reaper = Arc::new(ReferenceReaper::default());
        let info = BlockInfo {
            kind: BlockKind::Leaf,
            segments: vec![],
            len: 0,
            head_len: 0,
            sums: vec![],
            out: vec![],
        };
        let a = BlockRef::new(7, Arc::new(info), reaper.clone());
        let b = a.clone();
        drop(a);
        assert!(reaper.take().is_empty());
        drop(b);
        assert_eq!(reaper.take(), vec![7]);
    }
}
