//! Encoding of node parts: basements and buffers, with key prefixes lifted; and their compression.

use crate::block::{BlockId, BlockRef};
use crate::buffer::{Buffer, entry_weight};
use crate::bytes::{Arena, Bytes};
use crate::edits::{Edits, PatchBytes};
use crate::key::{Key, common_prefix_len};
use crate::message::{Base, ExtentSlice, Op, Piece, Value, pack};
use crate::ranges::RangeSet;
use crate::wire::{Decoded, Malformed, Reader, put_bytes, put_int, put_parts, put_range};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Turns the number of an extent into a counted reference.
pub type Resolve<'a> = &'a mut dyn FnMut(BlockId) -> Decoded<BlockRef>;

/// The content of one part of a node: read, checked and cached as a whole.
pub trait Body: Sized + Send + Sync + 'static {
    /// Preferred by the cache over what scans load.
    const KEEP: bool;
    /// Appends the encoded content.
    fn encode(&self, out: &mut Vec<u8>);
    /// Reads what [`Body::encode`] wrote.
    fn decode(bytes: &[u8], resolve: Resolve<'_>) -> Decoded<Self>;
    /// Its entries.
    fn entries(&self) -> &[(Key, Op)];
    /// The same with its keys and values in memory of their own, side by side: what stays for long must not keep that
    /// of others.
    fn packed(self) -> Self;
    /// Size in the sense of [`Op::weight`].
    fn weight(&self) -> usize;
}

/// Sorted key-value pairs: the sub-leaf that is read as a whole. Every message in it is a value.
#[derive(Clone, Debug, Default)]
pub struct Basement {
    entries: Vec<(Key, Op)>,
    weight: usize,
}

impl Basement {
    /// From entries sorted by key.
    pub fn new(entries: Vec<(Key, Op)>) -> Self {
        let weight = entries.iter().map(|(k, op)| entry_weight(k, op)).sum();
        Basement { entries, weight }
    }
}

impl Body for Basement {
    const KEEP: bool = false;

    fn encode(&self, out: &mut Vec<u8>) {
        put_entries(out, &self.entries);
    }

    fn decode(bytes: &[u8], resolve: Resolve<'_>) -> Decoded<Self> {
        let mut r = Reader::new(bytes);
        let entries = read_entries(&mut r, resolve)?;
        r.finish()?;
        if entries.iter().any(|(_, op)| !matches!(op.base, Base::Value(_)) || op.older.is_some()) {
            return Err(Malformed("basement entry without a value"));
        }
        Ok(Basement::new(entries))
    }

    fn entries(&self) -> &[(Key, Op)] {
        &self.entries
    }

    fn packed(mut self) -> Self {
        pack(&mut self.entries);
        self
    }

    fn weight(&self) -> usize {
        self.weight
    }
}

impl Body for Buffer {
    const KEEP: bool = true;

    fn encode(&self, out: &mut Vec<u8>) {
        put_int(out, self.tombs().len() as u64);
        self.tombs().iter().for_each(|r| put_range(out, &r));
        put_entries(out, self.ops());
    }

    fn decode(bytes: &[u8], resolve: Resolve<'_>) -> Decoded<Self> {
        let mut r = Reader::new(bytes);
        let mut tombs = RangeSet::default();
        for _ in 0..r.count()? {
            tombs.insert(&r.range()?);
        }
        let ops = read_entries(&mut r, resolve)?;
        r.finish()?;
        Ok(Buffer::from_parts(tombs, ops))
    }

    fn entries(&self) -> &[(Key, Op)] {
        self.ops()
    }

    fn packed(self) -> Self {
        Buffer::packed(self)
    }

    fn weight(&self) -> usize {
        Buffer::weight(self)
    }
}

/// The extents that entries refer to.
pub fn extents_of(entries: &[(Key, Op)]) -> BTreeSet<BlockId> {
    entries.iter().flat_map(|(_, op)| op.slices()).map(|s| s.extent.id()).collect()
}

/// The common prefix of all keys is stored once: "key lifting" (FAST'18), here per part.
fn put_entries(out: &mut Vec<u8>, entries: &[(Key, Op)]) {
    let lifted = match (entries.first(), entries.last()) {
        (Some((first, _)), Some((last, _))) => common_prefix_len(first, last),
        _ => 0,
    };
    put_int(out, entries.len() as u64);
    put_bytes(out, entries.first().map_or(&[], |(k, _)| &k[..lifted]));
    for (key, op) in entries {
        put_bytes(out, &key[lifted..]);
        put_op(out, op);
    }
}

fn read_entries(r: &mut Reader<'_>, resolve: Resolve<'_>) -> Decoded<Vec<(Key, Op)>> {
    let n = r.count()?;
    let lifted = r.bytes()?;
    let bytes = r.remaining().saturating_add(n.saturating_mul(lifted.len()));
    let mut arena = Arena::with_capacity(bytes.min(DECODED_BYTES_MAX));
    let mut out: Vec<(Key, Op)> = Vec::with_capacity(n);
    let mut last_extent: Option<BlockRef> = None;
    for _ in 0..n {
        let key = arena.add(&[lifted, r.bytes()?]);
        if out.last().is_some_and(|(k, _)| *k >= key) {
            return Err(Malformed("keys out of order"));
        }
        let op = read_op(r, &mut arena, &mut |id| {
            // Runs of entries share an extent; one counted reference serves them all.
            if let Some(last) = last_extent.as_ref().filter(|e| e.id() == id) {
                return Ok(last.clone());
            }
            let extent = resolve(id)?;
            last_extent = Some(extent.clone());
            Ok(extent)
        })?;
        out.push((key, op));
    }
    Ok(out)
}

/// Memory set aside at once for what is decoded: bad lengths cannot ask for more.
const DECODED_BYTES_MAX: usize = 16 << 20;

const KEEP: u8 = 0;
const ABSENT: u8 = 1;
const INLINE: u8 = 2;
const SLICE: u8 = 3;
const EDITED: u8 = 0x10;
const EDITED_BEFORE: u8 = 0x20;

/// Flags of edits.
const CREATE: u8 = 1;
const CUT: u8 = 2;

const HERE: u8 = 0;
const THERE: u8 = 1;

/// Appends a message. An extent is written as its number.
pub fn put_op(out: &mut Vec<u8>, op: &Op) {
    let edited =
        if op.edits.is_some() { EDITED } else { 0 } | if op.older.is_some() { EDITED_BEFORE } else { 0 };
    match &op.base {
        Base::Keep => out.push(KEEP | edited),
        Base::Absent => out.push(ABSENT | edited),
        Base::Value(Value::Inline(bytes)) => {
            out.push(INLINE | edited);
            put_bytes(out, bytes);
        }
        Base::Value(Value::Slice(s)) => {
            out.push(SLICE | edited);
            put_slice(out, s);
        }
    }
    if let Some(pieces) = &op.older {
        put_int(out, pieces.len() as u64);
        for piece in pieces.iter() {
            match piece {
                Piece::Here(edits) => {
                    out.push(HERE);
                    put_edits(out, edits);
                }
                Piece::There(s) => {
                    out.push(THERE);
                    put_slice(out, s);
                }
            }
        }
    }
    if let Some(edits) = &op.edits {
        put_edits(out, edits);
    }
}

fn put_slice(out: &mut Vec<u8>, s: &ExtentSlice) {
    put_int(out, s.extent.id());
    put_int(out, s.off as u64);
    put_int(out, s.len as u64);
}

fn read_slice(r: &mut Reader<'_>, resolve: Resolve<'_>) -> Decoded<ExtentSlice> {
    let extent = resolve(r.int()?)?;
    let (off, len) = (r.int32()?, r.int32()?);
    if off.checked_add(len).is_none_or(|end| end > extent.info().len) {
        return Err(Malformed("slice beyond its extent"));
    }
    Ok(ExtentSlice { extent, off, len })
}

/// Appends the message that sets a value, in parts.
pub fn put_value(out: &mut Vec<u8>, parts: &[&[u8]]) {
    out.push(INLINE);
    put_parts(out, parts);
}

/// Appends the message that lays `bytes` over a value, from `off` on.
pub fn put_patch(out: &mut Vec<u8>, off: u32, bytes: &[u8]) {
    out.extend_from_slice(&[KEEP | EDITED, CREATE, 0]);
    put_int(out, u64::from(!bytes.is_empty()));
    if !bytes.is_empty() {
        put_int(out, off as u64);
        put_bytes(out, bytes);
    }
}

/// Reads a message if it sets a value, and returns that; else reads nothing.
pub fn read_value<'a>(r: &mut Reader<'a>) -> Decoded<Option<&'a [u8]>> {
    if r.peek() != Some(INLINE) {
        return Ok(None);
    }
    r.u8()?;
    r.bytes().map(Some)
}

/// Reads a message if it lays bytes over a value as [`put_patch`] writes it, and returns offset and bytes; else reads nothing.
pub fn read_patch<'a>(r: &mut Reader<'a>) -> Decoded<Option<(u32, &'a [u8])>> {
    if !r.starts_with(&[KEEP | EDITED, CREATE, 0, 1]) {
        return Ok(None);
    }
    r.take(4)?;
    let (off, bytes) = (r.int32()?, r.bytes()?);
    if off as u64 + bytes.len() as u64 > u32::MAX as u64 {
        return Err(Malformed("patches out of order"));
    }
    Ok(Some((off, bytes)))
}

/// Reads a message; its value goes to `arena`.
pub fn read_op(r: &mut Reader<'_>, arena: &mut Arena, resolve: Resolve<'_>) -> Decoded<Op> {
    let tag = r.u8()?;
    let base = match tag & !(EDITED | EDITED_BEFORE) {
        KEEP => Base::Keep,
        ABSENT => Base::Absent,
        INLINE => Base::Value(Value::Inline(arena.add(&[r.bytes()?]))),
        SLICE => Base::Value(Value::Slice(read_slice(r, resolve)?)),
        _ => return Err(Malformed("unknown message")),
    };
    let mut pieces = Vec::new();
    if tag & EDITED_BEFORE != 0 {
        for _ in 0..r.count()? {
            pieces.push(match r.u8()? {
                HERE => Piece::Here(Arc::new(read_edits(r, own)?)),
                THERE => Piece::There(read_slice(r, resolve)?),
                _ => return Err(Malformed("unknown edits")),
            });
        }
        if pieces.is_empty() {
            return Err(Malformed("edits missing"));
        }
    }
    let older = (!pieces.is_empty()).then(|| pieces.into());
    let edits = if tag & EDITED != 0 { Some(Arc::new(read_edits(r, own)?)) } else { None };
    Ok(Op { base, older, edits })
}

/// Edits as [`put_edits`] wrote them, and nothing else. Patches share the memory of `bytes`.
pub fn decode_edits(bytes: &Bytes) -> Decoded<Edits> {
    let mut r = Reader::new(bytes);
    let edits = read_edits(&mut r, |run| PatchBytes::Shared(bytes.place_of(run)))?;
    r.finish()?;
    Ok(edits)
}

/// Appends edits.
pub fn put_edits(out: &mut Vec<u8>, edits: &Edits) {
    put_edits_around(out, edits, |out, run| out.extend_from_slice(run));
}

/// Appends edits but for the bytes of their patches, which `put` is given where they belong.
pub fn put_edits_around<'e>(
    out: &mut Vec<u8>,
    edits: &'e Edits,
    mut put: impl FnMut(&mut Vec<u8>, &'e [u8]),
) {
    out.push(if edits.create { CREATE } else { 0 } | if edits.cut.is_some() { CUT } else { 0 });
    if let Some(cut) = edits.cut {
        put_int(out, cut as u64);
    }
    put_int(out, edits.grow as u64);
    put_int(out, edits.runs.len() as u64);
    for (off, bytes) in &edits.runs {
        put_int(out, *off as u64);
        put_int(out, bytes.len() as u64);
        put(out, bytes);
    }
}

fn own(run: &[u8]) -> PatchBytes {
    PatchBytes::Own(run.to_vec())
}

fn read_edits<'a>(r: &mut Reader<'a>, keep: impl Fn(&'a [u8]) -> PatchBytes) -> Decoded<Edits> {
    let flags = r.u8()?;
    let cut = if flags & CUT != 0 { Some(r.int32()?) } else { None };
    let mut edits = Edits { cut, create: flags & CREATE != 0, grow: r.int32()?, runs: Vec::new() };
    let mut end = 0u64;
    for _ in 0..r.count()? {
        let (off, bytes) = (r.int32()?, r.bytes()?);
        if (off as u64) < end || off as u64 + bytes.len() as u64 > u32::MAX as u64 {
            return Err(Malformed("patches out of order"));
        }
        end = off as u64 + bytes.len() as u64;
        edits.runs.push((off, keep(bytes)));
    }
    Ok(edits)
}

/// How parts of nodes are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// Stored as they are.
    #[default]
    None,
    /// LZ4 blocks: cheap.
    Lz4,
    /// Zstandard at this level (1 to 19): denser.
    Zstd(i32),
}

/// Compresses `raw`; returns the codec tag and the bytes to store. Bytes that do not shrink by an eighth are
/// stored raw, so incompressible data costs no time when read.
pub fn compress(how: Compression, raw: Vec<u8>) -> (u8, Vec<u8>) {
    let packed = match how {
        Compression::None => None,
        Compression::Lz4 => Some((1, lz4_flex::block::compress(&raw))),
        Compression::Zstd(level) => zstd::bulk::compress(&raw, level).ok().map(|p| (2, p)),
    };
    match packed {
        Some((tag, p)) if p.len() <= raw.len() - raw.len() / 8 => (tag, p),
        _ => (0, raw),
    }
}

/// Most bytes that a byte of LZ4 stands for: one that makes a match longer (lz4_Block_format.md).
const LZ4_RATIO_MAX: usize = 255;
/// And one of Zstandard: a block of 128 KiB of one byte takes four (RFC 8878).
const ZSTD_RATIO_MAX: usize = (128 << 10) / 4;

/// Undoes [`compress`]; `raw_len` is the length before.
pub fn decompress(tag: u8, stored: &[u8], raw_len: usize) -> Decoded<Cow<'_, [u8]>> {
    let most = if tag == 1 { LZ4_RATIO_MAX } else { ZSTD_RATIO_MAX };
    if raw_len / most > stored.len() {
        return Err(Malformed("length that nothing can be decompressed to"));
    }
    let raw = match tag {
        0 => Cow::Borrowed(stored),
        1 => lz4_flex::block::decompress(stored, raw_len).map_err(|_| Malformed("bad lz4 data"))?.into(),
        2 => zstd::bulk::decompress(stored, raw_len).map_err(|_| Malformed("bad zstd data"))?.into(),
        _ => return Err(Malformed("unknown compression")),
    };
    if raw.len() == raw_len { Ok(raw) } else { Err(Malformed("wrong length after decompression")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::{BlockInfo, BlockKind, ReferenceReaper};

    fn extent(id: BlockId) -> BlockRef {
        let info = BlockInfo {
            kind: BlockKind::Extent,
            segments: vec![],
            len: 1000,
            head_len: 0,
            sums: vec![],
            out: vec![],
        };
        BlockRef::new(id, Arc::new(info), Arc::new(ReferenceReaper::default()))
    }

    fn sample() -> Buffer {
        let mut tombs = RangeSet::default();
        tombs.insert(&crate::key::KeyRange::prefix(b"dir/gone/"));
        let mut edited = Op::put_slice(ExtentSlice { extent: extent(9), off: 10, len: 100 });
        edited.push(Op::patch(5, b"zz"));
        let mut set = Edits::default();
        set.set_len(77);
        let mut ops: Vec<(Key, Op)> = vec![
            (b"dir/a"[..].into(), Op::put(b"hello")),
            (b"dir/b"[..].into(), Op::delete()),
            (b"dir/c"[..].into(), Op::patch(1 << 20, b"far")),
            (b"dir/d"[..].into(), edited),
            (b"dir/e"[..].into(), Op::edit(set)),
        ];
        ops.extend((0..200u32).map(|i| (format!("dir/z{i:05}").into_bytes().into(), Op::put(&[7; 40]))));
        Buffer::from_parts(tombs, ops)
    }

    #[test]
    fn a_length_that_cannot_be_takes_no_memory() {
        for (tag, how) in [(1, Compression::Lz4), (2, Compression::Zstd(3))] {
            let (found, stored) = compress(how, vec![7; 1 << 20]);
            assert_eq!(found, tag);
            assert_eq!(decompress(tag, &stored, 1 << 20).map(|raw| raw.len()), Ok(1 << 20));
            let wild = decompress(tag, &stored[..20], u32::MAX as usize);
            assert_eq!(wild.unwrap_err(), Malformed("length that nothing can be decompressed to"));
        }
    }

    #[test]
    fn buffers_round_trip_under_every_compression() {
        let buffer = sample();
        let mut raw = Vec::new();
        buffer.encode(&mut raw);
        for how in [Compression::None, Compression::Lz4, Compression::Zstd(3)] {
            let (tag, stored) = compress(how, raw.clone());
            assert_eq!(tag == 0, how == Compression::None);
            let back = decompress(tag, &stored, raw.len()).expect("decompress");
            let decoded = Buffer::decode(&back, &mut |id| Ok(extent(id))).expect("decode");
            assert_eq!(format!("{:?}", decoded.ops().len()), "205");
            let mut again = Vec::new();
            decoded.encode(&mut again);
            assert!(again == raw, "encoding is not stable");
            assert_eq!(decoded.weight(), buffer.weight());
        }
        assert_eq!(extents_of(buffer.ops()).into_iter().collect::<Vec<_>>(), vec![9]);
    }

    #[test]
    fn prefixes_are_lifted() {
        let key = |i: u32| format!("a/very/long/common/directory/name/{i:03}").into_bytes();
        let entries: Vec<(Key, Op)> = (0..100).map(|i| (key(i).into(), Op::put(b""))).collect();
        let mut out = Vec::new();
        Basement::new(entries).encode(&mut out);
        assert!(out.len() < 100 * 8 + 50, "{} bytes", out.len());
    }

    #[test]
    fn no_truncation_or_bit_flip_panics() {
        let mut raw = Vec::new();
        sample().encode(&mut raw);
        for cut in 0..raw.len() {
            assert!(Buffer::decode(&raw[..cut], &mut |id| Ok(extent(id))).is_err());
        }
        for at in 0..raw.len() {
            let mut bad = raw.clone();
            bad[at] ^= 0x55;
            // Without the checksum some flips decode to something else; none may panic.
            let _ = Buffer::decode(&bad, &mut |id| Ok(extent(id)));
        }
    }

    #[test]
    fn incompressible_parts_stay_raw() {
        use rand_xoshiro::rand_core::{Rng, SeedableRng};
        let mut noise = vec![0; 4096];
        rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(1).fill_bytes(&mut noise);
        assert_eq!(compress(Compression::Lz4, noise).0, 0);
    }
}
