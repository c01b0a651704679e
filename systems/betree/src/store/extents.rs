//! Large values: extents, and slices of them.

use super::{Store, count, offset_of};
use crate::block::{BlockInfo, BlockKind, BlockRef, EXTENT_CHUNK, scatter};
use crate::bytes::Bytes;
use crate::codec::decode_edits;
use crate::edits::Edits;
use crate::error::{Doing, Error, Result};
use crate::extent_cache::BorrowedBytes;
use crate::message::{Base, ExtentSlice, Op, Piece, Value};
use crate::storage::{PooledBuf, UNIT};
use std::sync::Arc;

/// Bytes between two slices of an extent that are read along rather than skipped.
pub(crate) const SLICE_GAP_MAX: u32 = 64 << 10;

/// Who wants bytes of an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CachePolicy {
    /// A caller of the store: what was read once may be wanted again.
    Caller,
    /// The tree, which puts them elsewhere.
    Tree,
}

impl Store {
    /// Writes an extent of `parts`, one after the other. It becomes durable with the next flush, provided that
    /// [`ExtentWriteQueue::drain`] was called before.
    pub(crate) fn write_extent(&self, kind: BlockKind, parts: &[&[u8]]) -> Result<BlockRef> {
        let len: usize = parts.iter().map(|p| p.len()).sum();
        let stays = kind == BlockKind::Extent && self.extents.written();
        let buf = if stays { self.pool.filled_snug(parts) } else { self.pool.filled(parts) };
        let segments = self.table.allocate((buf.len() / UNIT) as u64).ok_or(Error::NoSpace)?;
        let info = BlockInfo {
            kind,
            segments,
            len: len as u32,
            head_len: 0,
            sums: buf[..len].chunks(EXTENT_CHUNK).map(crc32c::crc32c).collect(),
            out: Vec::new(),
        };
        count(&self.counters.extent_bytes_written, buf.len() as u64);
        let buf = Arc::new(buf);
        if self.behind {
            let block = self.table.insert(info);
            self.flight.send(block.clone(), buf)?;
            return Ok(block);
        }
        if let Err(e) = self.storage.write_many(&scatter(&info, &buf)).doing("writing an extent") {
            self.table.give_back(&info.segments);
            return Err(e);
        }
        let block = self.table.insert(info);
        self.keep_written(&block, buf);
        Ok(block)
    }

    /// An extent is on storage: keeps it in memory if the store is to.
    pub(crate) fn keep_written(&self, block: &BlockRef, buf: Arc<PooledBuf>) {
        if self.extents.written() {
            self.keep(block, 0, block.info().len as usize, buf);
        }
    }

    /// Writes extents on their way until no more will come.
    pub(crate) fn write_flight(&self) {
        self.flight.run(&*self.storage, &|block, buf| self.keep_written(block, buf));
    }

    fn keep(&self, block: &BlockRef, off: usize, len: usize, buf: Arc<PooledBuf>) {
        let Some(held) = block.held().filter(|_| buf.memory() <= self.cache.stretch_bytes_max()) else {
            return;
        };
        let (stretch, evicted) = held.put(off, len, buf, &self.meter);
        self.cache.insert_extent(&stretch, evicted);
        self.cache.trim();
    }

    /// The bytes of a slice if they are in memory.
    pub(crate) fn at_hand(&self, slice: &ExtentSlice, who: CachePolicy) -> Option<BorrowedBytes> {
        let (off, len) = (slice.off as usize, slice.len as usize);
        if len == 0 {
            return Some(BorrowedBytes::default());
        }
        let hot = who == CachePolicy::Caller && self.extents.read();
        // In this order: what is on its way is held before it has arrived.
        let block = &slice.extent;
        let held = || block.held().and_then(|held| held.get(off, len, hot));
        let there = held().or_else(|| self.flight.read(block.id(), off, len)).or_else(held)?;
        count(&self.counters.extent_bytes_at_hand, len as u64);
        Some(there)
    }

    /// Reads part of an extent, checking every chunk it touches unless it is in memory.
    pub(crate) fn read_slice(&self, slice: &ExtentSlice, who: CachePolicy) -> Result<BorrowedBytes> {
        self.read_slices(std::slice::from_ref(slice), who).map(|mut read| read.swap_remove(0))
    }

    /// Reads parts of extents side by side, checking every chunk they touch unless it is in memory.
    pub(crate) fn read_slices(&self, slices: &[ExtentSlice], who: CachePolicy) -> Result<Vec<BorrowedBytes>> {
        let mut out: Vec<BorrowedBytes> = Vec::with_capacity(slices.len());
        let mut missing = Vec::new();
        for (i, slice) in slices.iter().enumerate() {
            let there = self.at_hand(slice, who);
            if there.is_none() {
                let (off, len) = (slice.off as usize, slice.len as usize);
                let first = off / EXTENT_CHUNK * EXTENT_CHUNK;
                let end = (off + len).div_ceil(EXTENT_CHUNK) * EXTENT_CHUNK;
                let last = end.min(slice.extent.info().len as usize);
                missing.push((i, first, last.saturating_sub(first)));
            }
            out.push(there.unwrap_or_default());
        }
        let keeps = who == CachePolicy::Caller && self.extents.read();
        let wanted: Vec<_> =
            missing.iter().map(|(i, first, len)| (&**slices[*i].extent.info(), *first, *len)).collect();
        for ((i, first, len), (buf, skip)) in missing.iter().zip(self.read_blocks(&wanted, keeps)?) {
            let slice = &slices[*i];
            let info = slice.extent.info();
            for (n, chunk) in buf[skip..skip + len].chunks(EXTENT_CHUNK).enumerate() {
                if info.sums.get(first / EXTENT_CHUNK + n) != Some(&crc32c::crc32c(chunk)) {
                    let at = offset_of(info) + *first as u64;
                    return Err(Error::corrupt("extent", at, "checksum mismatch"));
                }
            }
            let buf = Arc::new(buf);
            // Chunks are whole units.
            if keeps && skip == 0 {
                self.keep(&slice.extent, *first, *len, buf.clone());
            }
            let lent = BorrowedBytes::of(buf, skip + slice.off as usize - first, slice.len as usize);
            let short = || Error::corrupt("extent", offset_of(info), "shorter than what refers to it");
            out[*i] = lent.ok_or_else(short)?;
        }
        Ok(out)
    }

    /// The value that a message without anything below it leaves; `None` is no value.
    pub(crate) fn value_of(&self, op: &Op, who: CachePolicy) -> Result<Option<Vec<u8>>> {
        let edits =
            self.edits_of(op, |slice| self.read_slice(slice, who).map(|lent| Bytes::from(&lent[..])))?;
        let base = match &op.base {
            Base::Value(Value::Inline(bytes)) => Some(bytes.to_vec()),
            // What patches cover need not be read.
            Base::Value(Value::Slice(s)) if edits.as_ref().is_some_and(|e| e.cover(s.len)) => {
                Some(vec![0; s.len as usize])
            }
            Base::Value(Value::Slice(s)) => Some(self.read_slice(s, who)?.to_vec()),
            Base::Absent | Base::Keep => None,
        };
        Ok(match &edits {
            Some(edits) => edits.apply(base),
            None => base,
        })
    }

    /// All edits of a message as one; `read` is asked for those that are in extents.
    pub(crate) fn edits_of(
        &self,
        op: &Op,
        read: impl Fn(&ExtentSlice) -> Result<Bytes>,
    ) -> Result<Option<Arc<Edits>>> {
        let Some(pieces) = &op.older else { return Ok(op.edits.clone()) };
        let there = |slice: &ExtentSlice| {
            let at = || offset_of(slice.extent.info()) + slice.off as u64;
            decode_edits(&read(slice)?).map_err(|m| Error::corrupt("extent", at(), m.0))
        };
        if let ([Piece::There(slice)], None) = (&pieces[..], &op.edits) {
            return Ok(Some(Arc::new(there(slice)?)));
        }
        let mut all = Edits::default();
        for piece in pieces.iter() {
            match piece {
                Piece::Here(edits) => all.then(edits),
                Piece::There(slice) => all.then(&there(slice)?),
            }
        }
        if let Some(edits) = &op.edits {
            all.then(edits);
        }
        Ok(Some(Arc::new(all)))
    }
}
