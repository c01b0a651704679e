//! The bytes of the table's pieces: a whole table, and what has changed since the last piece.

use crate::block::{BlockId, BlockInfo, BlockKind, Segment};
use crate::storage::UNIT;
use crate::wire::{Decoded, Malformed, Reader, put_int, put_u32};
use std::collections::HashMap;
use std::sync::Arc;

/// How the table of a checkpoint differs from that of the one before.
#[derive(Default)]
pub struct TableDelta {
    pub(super) root: BlockId,
    /// Root of the one before; `None` if the changes are the whole table.
    pub(super) from: Option<BlockId>,
    pub(super) added: Vec<(BlockId, Arc<BlockInfo>)>,
    pub(super) removed: Vec<BlockId>,
    /// New counts of references from listed blocks, where they differ or might.
    pub(super) listed: HashMap<BlockId, u32>,
}

impl TableDelta {
    /// True if these are all blocks, not what has changed.
    pub fn are_whole(&self) -> bool {
        self.from.is_none()
    }

    /// True if the table of the checkpoint before will do.
    pub fn is_empty(&self) -> bool {
        self.from.is_some() && self.added.is_empty() && self.removed.is_empty()
    }

    /// The bytes of a piece of the table.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        if self.from.is_some() {
            put_int(&mut out, self.removed.len() as u64);
            self.removed.iter().for_each(|id| put_int(&mut out, *id));
        }
        put_int(&mut out, self.added.len() as u64);
        self.added.iter().for_each(|(id, info)| put_block(&mut out, *id, info));
        out
    }
}

/// The blocks that a whole table and the changes after it list; what contradicts itself is added to `wrong`.
pub(super) fn read_pieces(
    pieces: &[Vec<u8>],
    wrong: &mut Vec<(BlockId, &'static str)>,
) -> Decoded<Vec<(BlockId, BlockInfo)>> {
    let mut blocks: Vec<Option<(BlockId, BlockInfo)>> = Vec::new();
    let mut places: HashMap<BlockId, usize> = HashMap::new();
    for (n, piece) in pieces.iter().enumerate() {
        let mut r = Reader::new(piece);
        let removed = if n > 0 { r.count()? } else { 0 };
        for _ in 0..removed {
            let id = r.int()?;
            match places.remove(&id) {
                Some(at) => blocks[at] = None,
                None => wrong.push((id, "block removed that was not there")),
            }
        }
        for _ in 0..r.count()? {
            let (id, info) = read_block(&mut r)?;
            if places.contains_key(&id) {
                wrong.push((id, "block listed twice"));
                continue;
            }
            places.insert(id, blocks.len());
            blocks.push(Some((id, info)));
        }
        r.finish()?;
    }
    Ok(blocks.into_iter().flatten().collect())
}

/// Appends segments.
pub fn put_segments(out: &mut Vec<u8>, segments: &[Segment]) {
    put_int(out, segments.len() as u64);
    for s in segments {
        put_int(out, s.start);
        put_int(out, s.units as u64);
    }
}

/// Reads segments.
pub fn read_segments(r: &mut Reader<'_>) -> Decoded<Vec<Segment>> {
    let segments = read_any_segments(r)?;
    let exists =
        |s: &Segment| s.start.checked_add(s.units.into()).is_some_and(|end| end <= u64::MAX / UNIT as u64);
    if segments.iter().all(exists) { Ok(segments) } else { Err(Malformed("a place beyond every storage")) }
}

/// The same, wherever they lie.
fn read_any_segments(r: &mut Reader<'_>) -> Decoded<Vec<Segment>> {
    (0..r.count()?).map(|_| Ok(Segment { start: r.int()?, units: r.int32()? })).collect()
}

/// Encodes any blocks as a table.
#[cfg(test)]
pub(crate) fn encode_list(list: &[(BlockId, BlockInfo)]) -> Vec<u8> {
    let mut out = Vec::new();
    put_int(&mut out, list.len() as u64);
    list.iter().for_each(|(id, info)| put_block(&mut out, *id, info));
    out
}

/// Bytes that a block takes in a piece of the table, at most; no fewer than its number where it is removed.
pub(super) fn block_bytes_max(info: &BlockInfo) -> u64 {
    // An id takes ten bytes, a place fifteen, and the lengths and counts twenty-six.
    36 + 15 * info.segments.len() as u64 + 4 * info.sums.len() as u64 + 10 * info.out.len() as u64
}

fn put_block(out: &mut Vec<u8>, id: BlockId, info: &BlockInfo) {
    put_int(out, id);
    out.push(match info.kind {
        BlockKind::Leaf => 0,
        BlockKind::Extent => 1,
        BlockKind::Inner => 2,
        BlockKind::Spilled => 3,
    });
    put_segments(out, &info.segments);
    put_int(out, info.len as u64);
    put_int(out, info.head_len as u64);
    put_int(out, info.sums.len() as u64);
    info.sums.iter().for_each(|s| put_u32(out, *s));
    put_int(out, info.out.len() as u64);
    info.out.iter().for_each(|id| put_int(out, *id));
}

fn read_block(r: &mut Reader<'_>) -> Decoded<(BlockId, BlockInfo)> {
    let id = r.int()?;
    let kind = match r.u8()? {
        0 => BlockKind::Leaf,
        1 => BlockKind::Extent,
        2 => BlockKind::Inner,
        3 => BlockKind::Spilled,
        _ => return Err(Malformed("unknown kind of block")),
    };
    // Space that does not exist cannot be taken: a block there is left out, and no other one for its sake.
    let segments = read_any_segments(r)?;
    let (len, head_len) = (r.int32()?, r.int32()?);
    let sums = (0..r.count()?).map(|_| r.u32()).collect::<Decoded<_>>()?;
    let out = (0..r.count()?).map(|_| r.int()).collect::<Decoded<_>>()?;
    Ok((id, BlockInfo { kind, segments, len, head_len, sums, out }))
}
