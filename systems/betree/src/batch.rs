//! Write batches, and their record in the log.

use crate::block::{BlockId, BlockInfo, BlockKind, BlockRef};
use crate::buffer::Buffer;
use crate::bytes::{Arena, Bytes};
use crate::codec::{put_op, put_patch, put_value, read_op, read_patch, read_value};
use crate::edits::Edits;
use crate::key::{Key, KeyRange};
use crate::message::{Base, Op, Value};
use crate::table::{put_segments, read_segments};
use crate::wire::{Decoded, Malformed, Reader, put_bytes, put_int, put_parts, put_range, put_u32};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

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

/// A change in a batch that has not been written yet.
pub(crate) enum Pending<'a> {
    /// A value for a key.
    Put(&'a [u8], &'a [u8]),
    /// Bytes to be laid over a key's value, from an offset on.
    Patch(&'a [u8], u32, &'a [u8]),
    /// Another message for a key.
    Key(&'a [u8], Op),
    /// All keys of a range are deleted.
    DeleteRange(KeyRange),
    /// [`Change::Clone`] or [`Change::Rename`].
    Structural,
}

/// The beginning of a record.
#[derive(Clone, Copy, Default)]
pub(crate) struct Head {
    bytes: [u8; 11],
    len: usize,
}

impl Deref for Head {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// The memory of a batch's changes. That of the last batch of a thread is kept for its next one: blocks of 4 KiB and more take
/// an allocator longer than all that is done with a small batch.
#[derive(Clone, Debug)]
struct Body(Vec<u8>);

thread_local! {
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

impl Default for Body {
    fn default() -> Self {
        let mut spare = SPARE.try_with(Cell::take).unwrap_or_default();
        spare.reserve(*BODY_BYTES.start());
        Body(spare)
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        if BODY_BYTES.contains(&self.0.capacity()) {
            self.0.clear();
            let spare = std::mem::take(&mut self.0);
            // At the end of a thread there is no next one.
            let _ = SPARE.try_with(|kept| kept.set(spare));
        }
    }
}

impl Body {
    /// The changes.
    fn into_vec(mut self) -> Vec<u8> {
        std::mem::take(&mut self.0)
    }
}

impl Deref for Body {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.0
    }
}

impl DerefMut for Body {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.0
    }
}

/// Changes that are applied in order and together: after a crash either all of them are there or none.
///
/// They are kept as the log will have them.
#[derive(Clone, Debug, Default)]
pub struct WriteBatch {
    body: Body,
    len: usize,
    growth: usize,
    packable_bytes: usize,
    structural: bool,
    deletes_range: bool,
    /// The space that is kept for deletes may be used.
    from_reserve: bool,
    promised: u64,
    overwrites: bool,
    /// Why it cannot be stored.
    bad: Option<String>,
}

/// What a batch asks of the free space.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Demand {
    /// Bytes of new data.
    pub growth: usize,
    /// Bytes of space that have been promised for them.
    pub promised: u64,
    /// They replace as much.
    pub overwrites: bool,
}

impl WriteBatch {
    /// An empty batch.
    pub fn new() -> Self {
        WriteBatch::default()
    }

    /// An empty batch with room for changes whose keys and values have about so many bytes in all.
    pub fn with_capacity(bytes: usize) -> Self {
        let mut batch = WriteBatch::default();
        batch.body.reserve(bytes);
        batch
    }

    /// Sets the value of `key`.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> &mut Self {
        self.put_parts(&[key], &[value])
    }

    /// Sets the value of a key; both are given in parts.
    pub fn put_parts(&mut self, key: &[&[u8]], value: &[&[u8]]) -> &mut Self {
        let len: usize = value.iter().map(|p| p.len()).sum();
        if self.begin(key, len as u64) {
            put_value(&mut self.body, value);
            self.grow(key, len);
            if len >= PACKED_VALUE_MIN {
                self.packable_bytes += len;
            }
        }
        self
    }

    /// Removes `key`; no effect if it has no value.
    pub fn delete(&mut self, key: &[u8]) -> &mut Self {
        self.delete_parts(&[key])
    }

    /// Removes a key given in parts.
    pub fn delete_parts(&mut self, key: &[&[u8]]) -> &mut Self {
        if self.begin(key, 0) {
            put_op(&mut self.body, &Op::delete());
        }
        self
    }

    /// Overwrites bytes `[off, off + bytes.len())` of the value without reading it. A shorter value is extended
    /// with zeros; a missing one is created.
    pub fn patch(&mut self, key: &[u8], off: u32, bytes: &[u8]) -> &mut Self {
        let end = off as u64 + bytes.len() as u64;
        if self.begin(&[key], end) {
            put_patch(&mut self.body, off, bytes);
            // It may extend its value up to its own end.
            let run = if bytes.is_empty() { 0 } else { bytes.len() + 12 + end as usize };
            self.grow(&[key], 24 + run);
        }
        self
    }

    /// Shortens the value to `len` bytes if it is longer; no effect if it is missing.
    pub fn truncate(&mut self, key: &[u8], len: u32) -> &mut Self {
        if self.begin(&[key], 0) {
            let mut edits = Edits::default();
            edits.truncate(len);
            put_op(&mut self.body, &Op::edit(edits));
        }
        self
    }

    /// Makes the value exist with exactly `len` bytes, cut or extended with zeros.
    pub fn set_len(&mut self, key: &[u8], len: u32) -> &mut Self {
        if self.begin(&[key], len as u64) {
            let mut edits = Edits::default();
            edits.set_len(len);
            self.grow(&[key], edits.weight() + len as usize);
            put_op(&mut self.body, &Op::edit(edits));
        }
        self
    }

    /// Removes every key of the range, in time independent of their number.
    pub fn delete_range(&mut self, range: &KeyRange) -> &mut Self {
        if self.check_key(range.lo.len()) {
            self.body.push(RANGE);
            put_range(&mut self.body, range);
            self.len += 1;
            self.deletes_range = true;
        }
        self
    }

    /// Copies every key `from + x` to `to + x`; keys that began with `to` before are gone. Shares the data, in
    /// time independent of its size. Neither prefix may begin with the other.
    pub fn clone_range(&mut self, from: &[u8], to: &[u8]) -> &mut Self {
        self.growth += 4096;
        self.put_structural(CLONE, from, to)
    }

    /// [`WriteBatch::clone_range`] that also removes the source.
    pub fn rename_range(&mut self, from: &[u8], to: &[u8]) -> &mut Self {
        self.put_structural(RENAME, from, to)
    }

    /// Lets the batch be written even if there is no space but what is kept for deletes. For batches that remove
    /// more than they add, such as a record replaced by a smaller note.
    pub fn from_reserve(&mut self) -> &mut Self {
        self.from_reserve = true;
        self
    }

    /// Number of changes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.len == 0 && self.bad.is_none()
    }

    /// Begins a message for a key that leaves a value of up to `value` bytes; false if that cannot be stored.
    fn begin(&mut self, key: &[&[u8]], value: u64) -> bool {
        if !self.check_key(key.iter().map(|p| p.len()).sum()) {
            return false;
        }
        if value > VALUE_BYTES_MAX as u64 {
            let why = || format!("value of {value} bytes, at most {VALUE_BYTES_MAX} are allowed");
            self.bad.get_or_insert_with(why);
            return false;
        }
        self.body.push(KEY);
        put_parts(&mut self.body, key);
        self.len += 1;
        true
    }

    fn grow(&mut self, key: &[&[u8]], bytes: usize) {
        self.growth += key.iter().map(|p| p.len()).sum::<usize>() + bytes + 48;
    }

    fn check_key(&mut self, len: usize) -> bool {
        if len > KEY_BYTES_MAX {
            let why = || format!("key of {len} bytes, at most {KEY_BYTES_MAX} are allowed");
            self.bad.get_or_insert_with(why);
        }
        len <= KEY_BYTES_MAX
    }

    fn put_structural(&mut self, tag: u8, from: &[u8], to: &[u8]) -> &mut Self {
        if !self.check_key(from.len()) || !self.check_key(to.len()) {
            return self;
        }
        if from.starts_with(to) || to.starts_with(from) {
            self.bad.get_or_insert_with(|| "a prefix cannot be cloned into or out of itself".into());
            return self;
        }
        self.body.push(tag);
        put_bytes(&mut self.body, from);
        put_bytes(&mut self.body, to);
        self.len += 1;
        self.structural = true;
        self
    }

    /// Refuses what cannot be stored.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.bad.clone().map_or(Ok(()), Err)
    }

    /// True if the batch needs the tree itself and not only messages.
    pub(crate) fn is_structural(&self) -> bool {
        self.structural
    }

    /// True if the batch deletes a range.
    pub(crate) fn deletes_range(&self) -> bool {
        self.deletes_range
    }

    /// For what it adds, `bytes` of space have been [promised](crate::Db::promise). The promise is not taken back by the write:
    /// [`Db::take_back`](crate::Db::take_back) is to be called after it.
    pub fn from_promise(&mut self, bytes: u64) -> &mut Self {
        self.promised = bytes;
        self
    }

    /// It puts values in the place of others as large, which must succeed on a full store: until the others are free it may use part
    /// of the reserve.
    pub fn overwrites(&mut self) -> &mut Self {
        self.overwrites = true;
        self
    }

    /// What it asks of the free space.
    pub(crate) fn demand(&self) -> Demand {
        Demand { growth: self.growth(), promised: self.promised, overwrites: self.overwrites }
    }

    /// Bytes of new data; 0 if the batch only removes or may use the reserve.
    pub(crate) fn growth(&self) -> usize {
        if self.from_reserve { 0 } else { self.growth }
    }

    /// Bytes of values that are worth a place in an extent.
    pub(crate) fn packable_bytes(&self) -> usize {
        self.packable_bytes
    }

    /// What stands before [`WriteBatch::body`] in the record of the batch: no extents, and the number of changes.
    pub(crate) fn head(&self) -> Head {
        let mut head = Head { bytes: [0; 11], len: 2 };
        let mut rest = self.len;
        while rest >= 0x80 {
            head.bytes[head.len - 1] = rest as u8 | 0x80;
            head.len += 1;
            rest >>= 7;
        }
        head.bytes[head.len - 1] = rest as u8;
        head
    }

    /// The changes as a record has them.
    pub(crate) fn body(&self) -> &[u8] {
        &self.body
    }

    /// The changes, for those who look at them more closely. Keys and values share the batch's memory.
    pub(crate) fn into_changes(self) -> Vec<Change> {
        let body = Bytes::from(self.body.into_vec());
        let mut r = Reader::new(&body);
        let mut changes = Vec::with_capacity(self.len);
        while let Some(Ok(next)) = (r.remaining() > 0).then(|| next_change(&mut r, &body)) {
            changes.push(next);
        }
        changes
    }

    /// A batch of these changes.
    pub(crate) fn from_changes(changes: &[Change]) -> WriteBatch {
        let mut batch = WriteBatch::new();
        for change in changes {
            match change {
                Change::Key(
                    key,
                    Op { base: Base::Value(Value::Inline(value)), older: None, edits: None },
                ) => {
                    batch.put(key, value);
                }
                Change::Key(key, op) => {
                    if batch.begin(&[key], 0) {
                        put_op(&mut batch.body, op);
                    }
                }
                Change::DeleteRange(range) => _ = batch.delete_range(range),
                Change::Clone { from, to } => _ = batch.clone_range(from, to),
                Change::Rename { from, to } => _ = batch.rename_range(from, to),
            }
        }
        batch
    }
}

/// The changes of a batch's `body`.
pub(crate) fn pending(body: &[u8]) -> impl Iterator<Item = Pending<'_>> {
    let mut r = Reader::new(body);
    // What was encoded here can be decoded.
    std::iter::from_fn(
        move || if r.remaining() == 0 { None } else { next_pending(&mut r, &mut no_extents).ok() },
    )
}

const KEY: u8 = 0;
const RANGE: u8 = 1;
const CLONE: u8 = 2;
const RENAME: u8 = 3;

/// Room that a batch begins with: for a small change; and at most that is kept for the next one: a few blocks.
const BODY_BYTES: std::ops::RangeInclusive<usize> = 480..=32 << 10;

/// Values shorter than this are not worth a place in an extent.
pub(crate) const PACKED_VALUE_MIN: usize = 2048;

fn no_extents(_: BlockId) -> Decoded<BlockRef> {
    Err(Malformed("extent in a batch"))
}

fn next_pending<'a>(
    r: &mut Reader<'a>,
    extent: &mut dyn FnMut(BlockId) -> Decoded<BlockRef>,
) -> Decoded<Pending<'a>> {
    match r.u8()? {
        KEY => {
            let key = r.bytes()?;
            if let Some(value) = read_value(r)? {
                return Ok(Pending::Put(key, value));
            }
            if let Some((off, bytes)) = read_patch(r)? {
                return Ok(Pending::Patch(key, off, bytes));
            }
            Ok(Pending::Key(key, read_op(r, &mut Arena::default(), extent)?))
        }
        RANGE => Ok(Pending::DeleteRange(r.range()?)),
        CLONE | RENAME => {
            r.bytes()?;
            r.bytes()?;
            Ok(Pending::Structural)
        }
        _ => Err(Malformed("unknown change")),
    }
}

/// The next change of `body`, whose memory it shares.
fn next_change(r: &mut Reader<'_>, body: &Bytes) -> Decoded<Change> {
    match r.u8()? {
        KEY => {
            let key = body.place_of(r.bytes()?);
            let op = match read_value(r)? {
                Some(value) => Op::new(Base::Value(Value::Inline(body.place_of(value))), None),
                None => read_op(r, &mut Arena::default(), &mut no_extents)?,
            };
            Ok(Change::Key(key, op))
        }
        RANGE => Ok(Change::DeleteRange(r.range()?)),
        CLONE => Ok(Change::Clone { from: r.key()?, to: r.key()? }),
        RENAME => Ok(Change::Rename { from: r.key()?, to: r.key()? }),
        _ => Err(Malformed("unknown change")),
    }
}

/// Longest key in bytes.
pub const KEY_BYTES_MAX: usize = 16 * 1024;
/// Longest value in bytes.
pub const VALUE_BYTES_MAX: u32 = 16 << 20;

/// Added to the length of an extent of spilled messages in a record.
const SPILLED: u64 = 1 << 32;

/// The extents that a batch refers to.
pub(crate) fn extents(changes: &[Change]) -> Vec<BlockRef> {
    let mut found: BTreeMap<BlockId, BlockRef> = BTreeMap::new();
    for change in changes {
        let Change::Key(_, op) = change else { continue };
        for s in op.slices() {
            found.entry(s.extent.id()).or_insert_with(|| s.extent.clone());
        }
    }
    found.into_values().collect()
}

/// The changes that a buffer stands for, and their record.
pub(crate) fn of_buffer(buffer: &Buffer) -> (Vec<Change>, Vec<u8>) {
    let deletes = buffer.tombs().iter().map(Change::DeleteRange);
    let ops = buffer.ops().iter().map(|(key, op)| Change::Key(key.clone(), op.clone()));
    let changes: Vec<Change> = deletes.chain(ops).collect();
    let record = encode(&changes);
    (changes, record)
}

/// Encodes the record of a batch, but for its number.
pub(crate) fn encode(changes: &[Change]) -> Vec<u8> {
    let mut out = Vec::new();
    let extents = extents(changes);
    put_int(&mut out, extents.len() as u64);
    for e in &extents {
        put_int(&mut out, e.id());
        let spilled = if e.info().kind == BlockKind::Spilled { SPILLED } else { 0 };
        put_int(&mut out, e.info().len as u64 | spilled);
        put_segments(&mut out, &e.info().segments);
        put_int(&mut out, e.info().sums.len() as u64);
        e.info().sums.iter().for_each(|s| put_u32(&mut out, *s));
    }
    put_int(&mut out, changes.len() as u64);
    for change in changes {
        match change {
            Change::Key(key, op) => {
                out.push(KEY);
                put_bytes(&mut out, key);
                put_op(&mut out, op);
            }
            Change::DeleteRange(range) => {
                out.push(RANGE);
                put_range(&mut out, range);
            }
            Change::Clone { from, to } | Change::Rename { from, to } => {
                out.push(if matches!(change, Change::Clone { .. }) { CLONE } else { RENAME });
                put_bytes(&mut out, from);
                put_bytes(&mut out, to);
            }
        }
    }
    out
}

/// The extents that a record names; `adopt` makes a block of each.
fn read_extents(
    r: &mut Reader<'_>,
    adopt: &mut dyn FnMut(BlockInfo) -> Decoded<BlockRef>,
) -> Decoded<BTreeMap<BlockId, BlockRef>> {
    let mut extents = BTreeMap::new();
    for _ in 0..r.count()? {
        let (id, len) = (r.int()?, r.int()?);
        let kind = if len & SPILLED == 0 { BlockKind::Extent } else { BlockKind::Spilled };
        let len = u32::try_from(len & !SPILLED).map_err(|_| Malformed("extent too long"))?;
        let segments = read_segments(r)?;
        let sums = (0..r.count()?).map(|_| r.u32()).collect::<Decoded<_>>()?;
        let info = BlockInfo { kind, segments, len, head_len: 0, sums, out: Vec::new() };
        extents.insert(id, adopt(info)?);
    }
    Ok(extents)
}

fn known(extents: &BTreeMap<BlockId, BlockRef>, id: BlockId) -> Decoded<BlockRef> {
    extents.get(&id).cloned().ok_or(Malformed("unknown extent"))
}

/// Decodes a record. `adopt` makes a block of each extent in it.
pub(crate) fn decode(
    bytes: &[u8],
    adopt: &mut dyn FnMut(BlockInfo) -> Decoded<BlockRef>,
) -> Decoded<Vec<Change>> {
    let mut r = Reader::new(bytes);
    let extents = read_extents(&mut r, adopt)?;
    let mut changes = Vec::new();
    let mut arena = Arena::default();
    for _ in 0..r.count()? {
        changes.push(match r.u8()? {
            KEY => {
                let key = r.key()?;
                Change::Key(key, read_op(&mut r, &mut arena, &mut |id| known(&extents, id))?)
            }
            RANGE => Change::DeleteRange(r.range()?),
            CLONE => Change::Clone { from: r.key()?, to: r.key()? },
            RENAME => Change::Rename { from: r.key()?, to: r.key()? },
            _ => return Err(Malformed("unknown change")),
        });
    }
    r.finish()?;
    Ok(changes)
}

/// Sees whether [`decode`] can make sense of a record, without making most of it.
pub(crate) fn check(bytes: &[u8], adopt: &mut dyn FnMut(BlockInfo) -> Decoded<BlockRef>) -> Decoded<()> {
    let mut r = Reader::new(bytes);
    let extents = read_extents(&mut r, adopt)?;
    for _ in 0..r.count()? {
        next_pending(&mut r, &mut |id| known(&extents, id))?;
    }
    r.finish()
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
        let bytes = [&batch.head(), batch.body()].concat();
        assert_eq!((batch.len(), pending(batch.body()).count()), (8, 8));
        let changes = batch.clone().into_changes();
        assert_eq!(bytes, encode(&changes), "batch and record agree");
        assert_eq!(batch.body(), WriteBatch::from_changes(&changes).body());
        let back = decode(&bytes, &mut |_| Err(Malformed("no extents here"))).expect("decode");
        assert_eq!(check(&bytes, &mut |_| Err(Malformed("no extents here"))), Ok(()));
        assert_eq!(format!("{back:?}"), format!("{changes:?}"));
        for cut in 0..bytes.len() {
            assert!(decode(&bytes[..cut], &mut |_| Err(Malformed("none"))).is_err());
            assert!(check(&bytes[..cut], &mut |_| Err(Malformed("none"))).is_err());
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
    fn the_head_counts_the_changes() {
        let mut batch = WriteBatch::new();
        for n in 1..=17_000u64 {
            batch.delete(b"k");
            if [1, 127, 128, 16_383, 16_384, 17_000].contains(&n) {
                let mut expected = vec![0];
                put_int(&mut expected, n);
                assert_eq!(&batch.head()[..], expected);
            }
        }
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
