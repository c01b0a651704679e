//! Large values: extents, and slices of them.

use super::{Store, count, offset_of};
use crate::block::{BlockInfo, BlockKind, BlockRef, EXTENT_CHUNK, scatter};
use crate::bytes::Bytes;
use crate::codec::decode_edits;
use crate::edits::Edits;
use crate::error::{Doing, Error, Result};
use crate::message::{Base, ExtentSlice, Op, Piece, Value};
use crate::storage::UNIT;
use std::sync::Arc;

/// Bytes between two slices of an extent that are read along rather than skipped.
pub(crate) const SLICE_GAP_MAX: u32 = 64 << 10;

impl Store {
    /// Writes an extent of `parts`, one after the other. It becomes durable with the next flush, provided that
    /// [`Flight::drain`] was called before.
    pub(crate) fn write_extent(&self, kind: BlockKind, parts: &[&[u8]]) -> Result<BlockRef> {
        let len: usize = parts.iter().map(|p| p.len()).sum();
        let buf = self.pool.filled(parts);
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
        if self.behind {
            let block = self.table.insert(info);
            self.flight.send(block.clone(), buf)?;
            return Ok(block);
        }
        if let Err(e) = self.storage.write_many(&scatter(&info, &buf)).doing("writing an extent") {
            self.table.give_back(&info.segments);
            return Err(e);
        }
        Ok(self.table.insert(info))
    }

    /// Reads part of an extent, checking every chunk it touches.
    pub(crate) fn read_slice(&self, slice: &ExtentSlice) -> Result<Vec<u8>> {
        self.read_slices(std::slice::from_ref(slice)).map(|mut read| read.swap_remove(0))
    }

    /// Reads parts of extents side by side, checking every chunk they touch.
    pub(crate) fn read_slices(&self, slices: &[ExtentSlice]) -> Result<Vec<Vec<u8>>> {
        let mut out: Vec<Vec<u8>> = Vec::with_capacity(slices.len());
        let mut missing = Vec::new();
        for (i, slice) in slices.iter().enumerate() {
            let (info, off, len) = (slice.extent.info(), slice.off as usize, slice.len as usize);
            let there =
                if len == 0 { Some(Vec::new()) } else { self.flight.read(slice.extent.id(), off, len) };
            if there.is_none() {
                let first = off / EXTENT_CHUNK * EXTENT_CHUNK;
                let last = ((off + len).div_ceil(EXTENT_CHUNK) * EXTENT_CHUNK).min(info.len as usize);
                missing.push((i, first, last - first));
            }
            out.push(there.unwrap_or_default());
        }
        let wanted: Vec<_> =
            missing.iter().map(|(i, first, len)| (&**slices[*i].extent.info(), *first, *len)).collect();
        for ((i, first, len), (buf, skip)) in missing.iter().zip(self.read_blocks(&wanted)?) {
            let (slice, bytes) = (&slices[*i], &buf[skip..skip + len]);
            let info = slice.extent.info();
            for (n, chunk) in bytes.chunks(EXTENT_CHUNK).enumerate() {
                if info.sums.get(first / EXTENT_CHUNK + n) != Some(&crc32c::crc32c(chunk)) {
                    let at = offset_of(info) + *first as u64;
                    return Err(Error::corrupt("extent", at, "checksum mismatch"));
                }
            }
            out[*i] = bytes[slice.off as usize - first..][..slice.len as usize].to_vec();
        }
        Ok(out)
    }

    /// The value that a message without anything below it leaves; `None` is no value.
    pub(crate) fn value_of(&self, op: &Op) -> Result<Option<Vec<u8>>> {
        let edits = self.edits_of(op, |slice| self.read_slice(slice).map(Bytes::from))?;
        let base = match &op.base {
            Base::Value(Value::Inline(bytes)) => Some(bytes.to_vec()),
            // What patches cover need not be read.
            Base::Value(Value::Slice(s)) if edits.as_ref().is_some_and(|e| e.cover(s.len)) => {
                Some(vec![0; s.len as usize])
            }
            Base::Value(Value::Slice(s)) => Some(self.read_slice(s)?),
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
