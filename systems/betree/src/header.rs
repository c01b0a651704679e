//! Encoding of a node's header: what its parts are, where they are in the block, and which children it has.

use crate::block::{BlockId, BlockRef};
use crate::key::{Key, KeyRange, Translation, common_prefix_len};
use crate::meter::Meter;
use crate::node::{Edge, Inner, Leaf, LeafPart, Node, Part, PartAddress, Slot};
use crate::wire::{Decoded, Malformed, Reader, put_bytes, put_end, put_int, put_u32};
use crate::{codec::Body, key::End};
use std::sync::Arc;

const MAGIC: u32 = 0x644E_6542; // "BeNd"

/// Where a part has been put in the block that is being written.
#[derive(Clone, Debug)]
pub struct PartLocation {
    /// Offset in bytes from the end of the header.
    pub off: u32,
    /// Length in bytes as stored.
    pub stored: u32,
    /// Length in bytes before compression.
    pub raw: u32,
    /// Compression tag.
    pub codec: u8,
    /// CRC-32C of the stored bytes.
    pub crc: u32,
    /// Extents the part refers to.
    pub extents: Arc<[BlockId]>,
}

impl PartLocation {
    /// The part's place once the block exists.
    pub fn home(&self, block: &BlockRef) -> PartAddress {
        PartAddress {
            block: block.clone(),
            off: block.info().head_len + self.off,
            stored: self.stored,
            raw: self.raw,
            codec: self.codec,
            crc: self.crc,
            extents: self.extents.clone(),
        }
    }
}

fn put_placed<T: Body>(out: &mut Vec<u8>, part: &Part<T>, p: &PartLocation) {
    for n in [p.off, p.stored, p.raw, part.weight() as u32, part.entries()] {
        put_int(out, n as u64);
    }
    out.push(p.codec);
    put_u32(out, p.crc);
    put_int(out, p.extents.len() as u64);
    p.extents.iter().for_each(|id| put_int(out, *id));
}

fn read_part<T: Body>(r: &mut Reader<'_>, block: &BlockRef, meter: &Arc<Meter>) -> Decoded<Arc<Part<T>>> {
    let (off, stored, raw) = (r.int32()?, r.int32()?, r.int32()?);
    let (weight, entries) = (r.int32()?, r.int32()?);
    let (codec, crc) = (r.u8()?, r.u32()?);
    let extents = (0..r.count()?).map(|_| r.int()).collect::<Decoded<_>>()?;
    let placed = PartLocation { off, stored, raw, codec, crc, extents };
    let end = block.info().head_len as u64 + off as u64 + stored as u64;
    if end > block.info().len as u64 {
        return Err(Malformed("part beyond its block"));
    }
    Ok(Part::stored(placed.home(block), weight, entries, meter))
}

/// Writes a key as what differs from the one before.
fn put_key(out: &mut Vec<u8>, before: &mut Vec<u8>, key: &[u8]) {
    let shared = common_prefix_len(before, key);
    put_int(out, shared as u64);
    put_bytes(out, &key[shared..]);
    before.clear();
    before.extend_from_slice(key);
}

fn read_key(r: &mut Reader<'_>, before: &mut Vec<u8>) -> Decoded<Key> {
    let shared = r.int32()? as usize;
    if shared > before.len() {
        return Err(Malformed("key shares more than there is"));
    }
    before.truncate(shared);
    before.extend_from_slice(r.bytes()?);
    Ok(before[..].into())
}

/// Encodes the header of `node`; `placed` has an entry per part, in order (an edge without buffer has none). All
/// children must have been written.
pub fn encode(node: &Node, msn: u64, placed: &[PartLocation]) -> Vec<u8> {
    let mut out = Vec::new();
    put_u32(&mut out, MAGIC);
    put_int(&mut out, msn);
    let mut before = Vec::new();
    match node {
        Node::Leaf(leaf) => {
            out.push(0);
            put_int(&mut out, leaf.parts.len() as u64);
            for (part, p) in leaf.parts.iter().zip(placed) {
                put_key(&mut out, &mut before, &part.lo);
                put_placed(&mut out, &part.body, p);
            }
        }
        Node::Inner(inner) => {
            out.push(1);
            put_int(&mut out, inner.edges.len() as u64);
            let mut placed = placed.iter();
            for edge in &inner.edges {
                let p = edge.buffer.as_ref().and_then(|part| Some((part, placed.next()?)));
                put_edge(&mut out, &mut before, edge);
                if let Some((part, p)) = p {
                    put_placed(&mut out, part, p);
                }
            }
        }
    }
    out
}

fn put_edge(out: &mut Vec<u8>, before: &mut Vec<u8>, edge: &Edge) {
    let flags = u8::from(edge.clipped)
        | u8::from(edge.translation.is_some()) << 1
        | u8::from(edge.buffer.is_some()) << 2;
    out.push(flags);
    put_key(out, before, &edge.range.lo);
    put_end(out, &edge.range.hi);
    if let Some(t) = &edge.translation {
        put_bytes(out, &t.outer);
        put_bytes(out, &t.inner);
    }
    put_int(out, edge.child.block().map_or(0, |b| b.id()));
    out.push(edge.child.level());
    put_int(out, edge.child.weight() as u64);
    put_int(out, edge.child.width() as u64);
    put_int(out, edge.child.msn());
}

/// Decodes a header of the block `block`; `resolve` turns a child's number into a reference.
pub fn decode(
    bytes: &[u8],
    block: &BlockRef,
    meter: &Arc<Meter>,
    resolve: &mut dyn FnMut(BlockId) -> Decoded<BlockRef>,
) -> Decoded<Node> {
    let mut r = Reader::new(bytes);
    if r.u32()? != MAGIC {
        return Err(Malformed("not a node"));
    }
    r.int()?;
    let kind = r.u8()?;
    let n = r.count()?;
    let mut before = Vec::new();
    let node = match kind {
        0 => {
            let mut parts: Vec<LeafPart> = Vec::with_capacity(n);
            for _ in 0..n {
                let lo = read_key(&mut r, &mut before)?;
                if parts.last().is_some_and(|p| p.lo >= lo) {
                    return Err(Malformed("basements out of order"));
                }
                parts.push(LeafPart { lo, body: read_part(&mut r, block, meter)? });
            }
            Node::Leaf(Leaf { parts })
        }
        1 => {
            let mut edges: Vec<Edge> = Vec::with_capacity(n);
            for _ in 0..n {
                let edge = read_edge(&mut r, &mut before, block, meter, resolve)?;
                if edges.last().is_some_and(|e| e.range.hi > End::At(edge.range.lo.clone())) {
                    return Err(Malformed("edges overlap"));
                }
                edges.push(edge);
            }
            Node::Inner(Inner { edges })
        }
        _ => return Err(Malformed("unknown kind of node")),
    };
    r.finish()?;
    Ok(node)
}

fn read_edge(
    r: &mut Reader<'_>,
    before: &mut Vec<u8>,
    block: &BlockRef,
    meter: &Arc<Meter>,
    resolve: &mut dyn FnMut(BlockId) -> Decoded<BlockRef>,
) -> Decoded<Edge> {
    let flags = r.u8()?;
    let range = KeyRange { lo: read_key(r, before)?, hi: r.end()? };
    let translation =
        if flags & 2 != 0 { Some(Translation { outer: r.key()?, inner: r.key()? }) } else { None };
    if translation.as_ref().is_some_and(|t| !KeyRange::prefix(&t.outer).covers(&range)) {
        return Err(Malformed("an edge's range lies outside the prefix that it translates"));
    }
    let child = resolve(r.int()?)?;
    let (level, weight, width, msn) = (r.u8()?, r.int32()?, r.int32()?, r.int()?);
    let child = Slot::stored(child, (level, weight, width), msn, meter);
    let buffer = if flags & 4 != 0 { Some(read_part(r, block, meter)?) } else { None };
    Ok(Edge { range, clipped: flags & 1 != 0, translation, child, buffer })
}
