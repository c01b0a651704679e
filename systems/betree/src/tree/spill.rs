//! Spilling: messages that will wait in inner nodes leave their bytes in extents, and get them back before they reach a leaf.
//!
//! A batch that changes a little in each of many leaves waits in the buffers of inner nodes until there is enough for each
//! leaf. With the bytes in the buffers, every new version of an inner node would write them again, and a buffer would be
//! full, and its leaves rewritten, for little. So they are written once, in the order of their keys, and the buffers hold
//! references, of which a node takes many more.

use crate::block::BlockKind;
use crate::buffer::{Buffer, entry_weight};
use crate::bytes::Bytes;
use crate::codec::put_edits_around;
use crate::edits::Edits;
use crate::error::{Error, Result};
use crate::key::Key;
use crate::message::{Base, ExtentSlice, Op, Piece, Value};
use crate::node::{Inner, Node, NodeRef};
use crate::store::{CachePolicy, SLICE_GAP_MAX, Store, count};
use std::ops::Range;
use std::sync::atomic::Ordering;

/// A spilled extent has about four basements' bytes: enough for one request, and little that stays because of one value in it.
const BASEMENTS_PER_EXTENT: usize = 4;

/// Values and edits below this part of a basement (512 bytes of 64 KiB) stay in their messages: a reference is not much
/// smaller.
const BASEMENT_PART_MIN: usize = 128;

/// And never below this many bytes, about the weight of a reference.
const BYTES_MIN: usize = 48;

/// Values and edits of so many bytes are worth a place in an extent.
struct SpillThresholds(usize);

impl SpillThresholds {
    /// The bytes that `op` would leave in an extent.
    fn of(&self, op: &Op) -> usize {
        self.value_of(op).map_or(0, |v| v.len()) + self.edits_of(op).map_or(0, |e| e.weight())
    }

    fn value_of<'a>(&self, op: &'a Op) -> Option<&'a [u8]> {
        match &op.base {
            Base::Value(Value::Inline(value)) if value.len() >= self.0 => Some(value),
            _ => None,
        }
    }

    fn edits_of<'a>(&self, op: &'a Op) -> Option<&'a Edits> {
        op.edits.as_deref().filter(|e| e.weight() >= self.0)
    }
}

/// What goes into one extent, and whose it is.
#[derive(Default)]
struct ExtentDraft<'a> {
    len: usize,
    /// Heads of edits, one after the other.
    heads: Vec<u8>,
    parts: Vec<Source<'a>>,
    values: Vec<(usize, Range<usize>)>,
    edits: Vec<(usize, Range<usize>)>,
}

enum Source<'a> {
    Head(Range<usize>),
    Bytes(&'a [u8]),
}

impl<'a> ExtentDraft<'a> {
    fn add(&mut self, i: usize, op: &'a Op, least: &SpillThresholds) {
        if let Some(value) = least.value_of(op) {
            let at = self.len;
            self.push(value);
            self.values.push((i, at..self.len));
        }
        if let Some(edits) = least.edits_of(op) {
            let (at, mut from) = (self.len, self.heads.len());
            let mut runs = Vec::new();
            put_edits_around(&mut self.heads, edits, |heads, run| {
                runs.push((heads.len(), run));
            });
            for (upto, run) in runs {
                self.parts.push(Source::Head(from..upto));
                self.len += upto - from;
                self.push(run);
                from = upto;
            }
            self.parts.push(Source::Head(from..self.heads.len()));
            self.len += self.heads.len() - from;
            self.edits.push((i, at..self.len));
        }
    }

    fn push(&mut self, bytes: &'a [u8]) {
        self.parts.push(Source::Bytes(bytes));
        self.len += bytes.len();
    }
}

/// Messages for leaves that are clearly larger than what is new for them.
#[derive(Default)]
struct Sparse {
    /// Places in the batch, in order.
    ranges: Vec<Range<usize>>,
    /// Weight of those of these leaves that are on storage: the others are unwritten already.
    leaves: usize,
}

impl Store {
    /// The messages of `batch`, with the bytes of those in extents for which leaves below `root` would be rewritten for little;
    /// `None` if that is not worth it. `room` is how many bytes of nodes may be unwritten: as long as memory holds all leaves
    /// that change, messages cost a leaf little, and whoever reads them finds them there. Without space on storage the bytes stay
    /// there too.
    pub(crate) fn spill(&self, root: &NodeRef, batch: &Buffer, room: usize) -> Result<Option<Buffer>> {
        if !self.steps.page_sharing || self.short.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let Node::Inner(inner) = &*self.load(root)? else { return Ok(None) };
        let mut sparse = Sparse::default();
        self.sparse(inner, batch.ops(), 0, &mut sparse)?;
        if self.meter.unwritten() + sparse.leaves + batch.weight() <= room {
            return Ok(None);
        }
        let least = SpillThresholds((self.shape.basement_bytes / BASEMENT_PART_MIN).max(BYTES_MIN));
        let places = || sparse.ranges.iter().flat_map(Clone::clone);
        if places().map(|i| least.of(&batch.ops()[i].1)).sum::<usize>() < self.shape.basement_bytes {
            return Ok(None);
        }
        let mut ops = batch.ops().to_vec();
        let mut load = ExtentDraft::default();
        for i in places() {
            load.add(i, &batch.ops()[i].1, &least);
            if load.len >= self.shape.basement_bytes * BASEMENTS_PER_EXTENT
                && !self.unload(&mut load, &mut ops)?
            {
                break;
            }
        }
        self.unload(&mut load, &mut ops)?;
        Ok(Some(Buffer::from_parts(batch.tombs().clone(), ops)))
    }

    /// Writes what is loaded and puts references in its place; false without space for it.
    fn unload(&self, load: &mut ExtentDraft<'_>, ops: &mut [(Key, Op)]) -> Result<bool> {
        let ExtentDraft { len, heads, parts, values, edits } = std::mem::take(load);
        if len == 0 {
            return Ok(true);
        }
        let parts: Vec<&[u8]> = parts
            .iter()
            .map(|part| match part {
                Source::Head(r) => &heads[r.clone()],
                Source::Bytes(bytes) => bytes,
            })
            .collect();
        let extent = match self.write_extent(BlockKind::Spilled, &parts) {
            Ok(extent) => extent,
            Err(Error::NoSpace) => return Ok(false),
            Err(e) => return Err(e),
        };
        count(&self.counters.spilled_bytes, len as u64);
        let slice = |r: Range<usize>| ExtentSlice {
            extent: extent.clone(),
            off: r.start as u32,
            len: r.len() as u32,
        };
        for (i, r) in values {
            ops[i].1.base = Base::Value(Value::Slice(slice(r)));
        }
        for (i, r) in edits {
            let op = &mut ops[i].1;
            let there = [Piece::There(slice(r))];
            let pieces = match &op.older {
                Some(older) => [&older[..], &there].concat().into(),
                None => there.into(),
            };
            (op.older, op.edits) = (Some(pieces), None);
        }
        Ok(true)
    }

    /// Adds the places in `ops`, counted from `first` on, of messages for leaves that are clearly larger than what is new for
    /// them: where most of a leaf is new, it may as well be rewritten.
    fn sparse(&self, inner: &Inner, ops: &[(Key, Op)], first: usize, out: &mut Sparse) -> Result<()> {
        for edge in &inner.edges {
            let from = ops.partition_point(|(k, _)| k[..] < edge.range.lo[..]);
            let to = from + ops[from..].partition_point(|(k, _)| edge.range.hi.is_after(k));
            if from == to {
                continue;
            }
            let (here, at) = (&ops[from..to], first + from..first + to);
            // Behind a translation keys are others; what waits there is worth no closer look.
            if edge.child.level() == 0 || !edge.is_plain() {
                let new: usize = here.iter().map(|(k, op)| entry_weight(k, op)).sum();
                if edge.child.level() > 0 || edge.child.weight() > new + new / 2 {
                    out.ranges.push(at);
                    if edge.child.block().is_some() {
                        out.leaves += edge.child.weight();
                    }
                }
            } else if let Node::Inner(below) = &*self.load(&edge.child)? {
                self.sparse(below, here, at.start, out)?;
            }
        }
        Ok(())
    }

    /// The messages of `batch` with their bytes, as a leaf needs them; `None` if nothing of them was spilled.
    pub(crate) fn unspill(&self, batch: &Buffer) -> Result<Option<Buffer>> {
        let spilled = |s: &ExtentSlice| s.extent.info().kind == BlockKind::Spilled;
        let away = |op: &Op| op.older.is_some() || op.slices().any(spilled);
        if !batch.ops().iter().any(|(_, op)| away(op)) {
            return Ok(None);
        }
        let wanted = batch.ops().iter().flat_map(|(_, op)| {
            // A base that was never spilled stays where it is.
            let skip = usize::from(matches!(&op.base, Base::Value(Value::Slice(s)) if !spilled(s)));
            op.slices().skip(skip).cloned()
        });
        let read = self.read_together(wanted.collect())?;
        let bytes = |s: &ExtentSlice| {
            read.bytes(s)
                .map_or_else(|| self.read_slice(s, CachePolicy::Tree).map(|lent| Bytes::from(&lent[..])), Ok)
        };
        let mut ops = Vec::with_capacity(batch.ops().len());
        for (key, op) in batch.ops() {
            let mut whole = op.clone();
            if away(op) {
                if let Base::Value(Value::Slice(s)) = &op.base
                    && spilled(s)
                {
                    whole = Op::new(Base::Value(Value::Inline(bytes(s)?)), None);
                } else {
                    (whole.older, whole.edits) = (None, None);
                }
                if let Some(edits) = self.edits_of(op, bytes)? {
                    whole = whole.then(&Op { base: Base::Keep, older: None, edits: Some(edits) });
                }
            }
            ops.push((key.clone(), whole));
        }
        Ok(Some(Buffer::from_parts(batch.tombs().clone(), ops)))
    }

    /// Reads slices, with one request for those that lie close together.
    pub(super) fn read_together(&self, mut slices: Vec<ExtentSlice>) -> Result<ExtentRanges> {
        slices.sort_by_key(|s| (s.extent.id(), s.off));
        let mut stretches = Vec::new();
        let mut rest = &slices[..];
        while let [first, ..] = rest {
            let mut upto = first.off + first.len;
            let mut n = 1;
            while let Some(next) = rest.get(n)
                && next.extent.id() == first.extent.id()
                && next.off <= upto + SLICE_GAP_MAX
            {
                upto = upto.max(next.off + next.len);
                n += 1;
            }
            stretches.push(ExtentSlice {
                extent: first.extent.clone(),
                off: first.off,
                len: upto - first.off,
            });
            rest = &rest[n..];
        }
        let read = self.read_slices(&stretches, CachePolicy::Tree)?;
        Ok(ExtentRanges(stretches.into_iter().zip(read.iter().map(|lent| Bytes::from(&lent[..]))).collect()))
    }
}

/// Parts of extents that have been read, in order.
pub(super) struct ExtentRanges(Vec<(ExtentSlice, Bytes)>);

impl ExtentRanges {
    pub(super) fn bytes(&self, s: &ExtentSlice) -> Option<Bytes> {
        let after = self.0.partition_point(|(all, _)| (all.extent.id(), all.off) <= (s.extent.id(), s.off));
        let (all, bytes) = self.0.get(after.checked_sub(1)?)?;
        let at = (s.off - all.off) as usize;
        let part = bytes.get(at..at + s.len as usize).filter(|_| all.extent.id() == s.extent.id())?;
        Some(bytes.place_of(part))
    }
}
