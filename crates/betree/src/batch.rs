//! Write batches, and their record in the log.

use crate::block::{BlockId, BlockInfo, BlockKind, BlockRef};
use crate::codec::{put_op, read_op};
use crate::edits::Edits;
use crate::key::{Key, KeyRange};
use crate::message::{Base, Op, Value};
use crate::table::{put_segments, read_segments};
use crate::wire::{Decoded, Malformed, Reader, put_bytes, put_int, put_range, put_u32};
use std::collections::BTreeMap;

/// One change.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// A message for a key.
    Key(Key, Op),
    /// All keys of a range are deleted.
    DeleteRange(KeyRange),
    /// Keys `from + x` are copied to `to + x`, replacing all that began with `to`.
    Clone { from: Key, to: Key },
    /// The same, and those that began with `from` are deleted.
    Rename { from: Key, to: Key },
}

/// Changes that are applied in order and together: after a crash either all of them are there or none.
#[derive(Clone, Debug, Default)]
pub struct WriteBatch {
    pub(crate) changes: Vec<Change>,
    /// The space that is kept for deletes may be used.
    from_reserve: bool,
}

impl WriteBatch {
    /// An empty batch.
    pub fn new() -> Self {
        WriteBatch::default()
    }

    /// Sets the value of `key`.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> &mut Self {
        self.push(key, Op::put(value))
    }

    /// Removes `key`; no effect if it has no value.
    pub fn delete(&mut self, key: &[u8]) -> &mut Self {
        self.push(key, Op::delete())
    }

    /// Overwrites bytes `[off, off + bytes.len())` of the value without reading it. A shorter value is extended
    /// with zeros; a missing one is created.
    pub fn patch(&mut self, key: &[u8], off: u32, bytes: &[u8]) -> &mut Self {
        if off as u64 + bytes.len() as u64 > VALUE_BYTES_MAX as u64 {
            // Kept, so that the write refuses the batch instead of a panic here.
            return self.push(key, Op::edit(Edits { create: true, grow: u32::MAX, ..Edits::default() }));
        }
        self.push(key, Op::patch(off, bytes))
    }

    /// Shortens the value to `len` bytes if it is longer; no effect if it is missing.
    pub fn truncate(&mut self, key: &[u8], len: u32) -> &mut Self {
        let mut edits = Edits::default();
        edits.truncate(len);
        self.push(key, Op::edit(edits))
    }

    /// Makes the value exist with exactly `len` bytes, cut or extended with zeros.
    pub fn set_len(&mut self, key: &[u8], len: u32) -> &mut Self {
        let mut edits = Edits::default();
        edits.set_len(len);
        self.push(key, Op::edit(edits))
    }

    /// Removes every key of the range, in time independent of their number.
    pub fn delete_range(&mut self, range: &KeyRange) -> &mut Self {
        self.changes.push(Change::DeleteRange(range.clone()));
        self
    }

    /// Copies every key `from + x` to `to + x`; keys that began with `to` before are gone. Shares the data, in
    /// time independent of its size. Neither prefix may begin with the other.
    pub fn clone_range(&mut self, from: &[u8], to: &[u8]) -> &mut Self {
        self.changes.push(Change::Clone { from: from.into(), to: to.into() });
        self
    }

    /// [`WriteBatch::clone_range`] that also removes the source.
    pub fn rename_range(&mut self, from: &[u8], to: &[u8]) -> &mut Self {
        self.changes.push(Change::Rename { from: from.into(), to: to.into() });
        self
    }

    /// Lets the batch be written even if there is no space but what is kept for deletes. For batches that remove
    /// more than they add, such as a record replaced by a smaller note.
    pub fn from_reserve(&mut self) -> &mut Self {
        self.from_reserve = true;
        self
    }

    /// Number of changes.
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// True if there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    fn push(&mut self, key: &[u8], op: Op) -> &mut Self {
        self.changes.push(Change::Key(key.into(), op));
        self
    }

    /// Refuses what cannot be stored.
    pub(crate) fn check(&self) -> Result<(), String> {
        for change in &self.changes {
            match change {
                Change::Key(key, op) => {
                    check_key(key)?;
                    let value = match &op.base {
                        Base::Value(v) => v.len(),
                        _ => 0,
                    };
                    let edited = op.edits.as_ref().map_or(value, |e| e.len_after(value));
                    if edited > VALUE_BYTES_MAX {
                        return Err(format!(
                            "value of {edited} bytes, at most {VALUE_BYTES_MAX} are allowed"
                        ));
                    }
                }
                Change::DeleteRange(range) => check_key(&range.lo)?,
                Change::Clone { from, to } | Change::Rename { from, to } => {
                    check_key(from)?;
                    check_key(to)?;
                    if from.starts_with(to) || to.starts_with(from) {
                        return Err("a prefix cannot be cloned into or out of itself".into());
                    }
                }
            }
        }
        Ok(())
    }

    /// True if the batch needs the tree itself and not only messages.
    pub(crate) fn is_structural(&self) -> bool {
        self.changes.iter().any(|c| matches!(c, Change::Clone { .. } | Change::Rename { .. }))
    }

    /// True if the batch deletes a range.
    pub(crate) fn deletes_range(&self) -> bool {
        self.changes.iter().any(|c| matches!(c, Change::DeleteRange(_)))
    }

    /// Bytes of new data; 0 if the batch only removes or may use the reserve.
    pub(crate) fn growth(&self) -> usize {
        if self.from_reserve {
            return 0;
        }
        // A patch may extend its value up to its own end.
        let growth = |op: &Op| match (&op.base, &op.edits) {
            (Base::Value(_), _) => op.weight(),
            (_, Some(edits)) if edits.create => op.weight() + edits.len_after(0) as usize,
            _ => 0,
        };
        self.changes
            .iter()
            .map(|c| match c {
                Change::Key(key, op) => match growth(op) {
                    0 if !matches!(op.base, Base::Value(_)) => 0,
                    n => key.len() + n + 48,
                },
                Change::Clone { .. } => 4096,
                _ => 0,
            })
            .sum()
    }
}

/// Longest key in bytes.
pub const KEY_BYTES_MAX: usize = 16 * 1024;
/// Longest value in bytes.
pub const VALUE_BYTES_MAX: u32 = 16 << 20;

fn check_key(key: &[u8]) -> Result<(), String> {
    if key.len() <= KEY_BYTES_MAX {
        return Ok(());
    }
    Err(format!("key of {} bytes, at most {KEY_BYTES_MAX} are allowed", key.len()))
}

/// The extents that a batch refers to.
pub(crate) fn extents(changes: &[Change]) -> Vec<BlockRef> {
    let mut found: BTreeMap<BlockId, BlockRef> = BTreeMap::new();
    for change in changes {
        if let Change::Key(_, Op { base: Base::Value(Value::Slice(s)), .. }) = change {
            found.entry(s.extent.id()).or_insert_with(|| s.extent.clone());
        }
    }
    found.into_values().collect()
}

/// Encodes the record of a batch, but for its number.
pub(crate) fn encode(changes: &[Change]) -> Vec<u8> {
    let mut out = Vec::new();
    let extents = extents(changes);
    put_int(&mut out, extents.len() as u64);
    for e in &extents {
        put_int(&mut out, e.id());
        put_int(&mut out, e.info().len as u64);
        put_segments(&mut out, &e.info().segments);
        put_int(&mut out, e.info().sums.len() as u64);
        e.info().sums.iter().for_each(|s| put_u32(&mut out, *s));
    }
    put_int(&mut out, changes.len() as u64);
    for change in changes {
        match change {
            Change::Key(key, op) => {
                out.push(0);
                put_bytes(&mut out, key);
                put_op(&mut out, op);
            }
            Change::DeleteRange(range) => {
                out.push(1);
                put_range(&mut out, range);
            }
            Change::Clone { from, to } | Change::Rename { from, to } => {
                out.push(if matches!(change, Change::Clone { .. }) { 2 } else { 3 });
                put_bytes(&mut out, from);
                put_bytes(&mut out, to);
            }
        }
    }
    out
}

/// Decodes a record. `adopt` makes a block of each extent in it.
pub(crate) fn decode(
    bytes: &[u8],
    adopt: &mut dyn FnMut(BlockInfo) -> Decoded<BlockRef>,
) -> Decoded<Vec<Change>> {
    let mut r = Reader::new(bytes);
    let mut extents: BTreeMap<BlockId, BlockRef> = BTreeMap::new();
    for _ in 0..r.count()? {
        let (id, len) = (r.int()?, r.int32()?);
        let segments = read_segments(&mut r)?;
        let sums = (0..r.count()?).map(|_| r.u32()).collect::<Decoded<_>>()?;
        let info = BlockInfo { kind: BlockKind::Extent, segments, len, head_len: 0, sums, out: Vec::new() };
        extents.insert(id, adopt(info)?);
    }
    let mut changes = Vec::new();
    for _ in 0..r.count()? {
        changes.push(match r.u8()? {
            0 => {
                let key = r.key()?;
                let op =
                    read_op(&mut r, &mut |id| extents.get(&id).cloned().ok_or(Malformed("unknown extent")))?;
                Change::Key(key, op)
            }
            1 => Change::DeleteRange(r.range()?),
            2 => Change::Clone { from: r.key()?, to: r.key()? },
            3 => Change::Rename { from: r.key()?, to: r.key()? },
            _ => return Err(Malformed("unknown change")),
        });
    }
    r.finish()?;
    Ok(changes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_round_trip() {
        let mut batch = WriteBatch::new();
        batch.put(b"a", b"1").delete(b"b").patch(b"c", 7, b"xyz").truncate(b"d", 3).set_len(b"e", 9);
        batch.delete_range(&KeyRange::prefix(b"f/")).clone_range(b"g/", b"h/").rename_range(b"i/", b"j/");
        assert_eq!(batch.check(), Ok(()));
        let bytes = encode(&batch.changes);
        let back = decode(&bytes, &mut |_| Err(Malformed("no extents here"))).expect("decode");
        assert_eq!(format!("{back:?}"), format!("{:?}", batch.changes));
        for cut in 0..bytes.len() {
            assert!(decode(&bytes[..cut], &mut |_| Err(Malformed("none"))).is_err());
        }
    }

    #[test]
    fn what_cannot_be_stored_is_refused() {
        let bad = |f: &dyn Fn(&mut WriteBatch)| {
            let mut batch = WriteBatch::new();
            f(&mut batch);
            batch.check().expect_err("must be refused")
        };
        bad(&|b| _ = b.put(&vec![0; KEY_BYTES_MAX + 1], b""));
        bad(&|b| _ = b.patch(b"k", VALUE_BYTES_MAX, b"x"));
        bad(&|b| _ = b.patch(b"k", u32::MAX, b"xx"));
        bad(&|b| _ = b.set_len(b"k", VALUE_BYTES_MAX + 1));
        bad(&|b| _ = b.rename_range(b"a/", b"a/b/"));
        bad(&|b| _ = b.clone_range(b"", b"x"));
    }

    #[test]
    fn only_batches_that_add_grow() {
        let mut batch = WriteBatch::new();
        batch.delete(b"a").delete_range(&KeyRange::all()).truncate(b"c", 0).rename_range(b"x", b"y");
        assert_eq!(batch.growth(), 0);
        batch.put(b"k", b"");
        assert!(batch.growth() > 0);
    }
}
