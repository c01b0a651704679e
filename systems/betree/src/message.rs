//! Messages: what is to happen to one key, and how two messages become one.
//!
//! Every pending change of a key has the normal form [`Op`]: a base (keep what is below, nothing, or a new
//! value) and edits on top of it. Composition is associative, which is why messages may be merged in any
//! buffer on their way down without changing what a reader sees.

use crate::block::{BlockKind, BlockRef};
use crate::bytes::{Arena, Bytes};
use crate::edits::Edits;
use crate::key::Key;
use std::sync::Arc;

/// What a reference to part of an extent counts for the size limits, in bytes: about what it takes in memory.
pub const SLICE_WEIGHT: usize = 32;

/// Of the bytes that a message left in an extent when it was spilled, one of so many counts. With the usual sizes the buffers
/// of an inner node (2 MiB) then refer to at most 32 MiB, mostly to about 20: 1 MiB and more for each leaf, so a leaf
/// is rewritten for as many bytes as it has. More would save little and keep more that is dead on storage.
pub const SPILLED_SHARE: usize = 16;

/// Part of an extent: a large value's bytes, written once outside the tree.
#[derive(Clone, Debug)]
pub struct ExtentSlice {
    /// The extent, kept alive by this reference.
    pub extent: BlockRef,
    /// First byte within the extent.
    pub off: u32,
    /// Length in bytes.
    pub len: u32,
}

/// A value's bytes, or where they are.
#[derive(Clone, Debug)]
pub enum Value {
    /// The bytes.
    Inline(Bytes),
    /// A reference to bytes in an extent.
    Slice(ExtentSlice),
}

impl ExtentSlice {
    /// What it counts for the size limits. One that was spilled also counts [`SPILLED_SHARE`] of its bytes: the buffers of
    /// a node then bound what they refer to.
    pub fn weight(&self) -> usize {
        let spilled = self.extent.info().kind == BlockKind::Spilled;
        SLICE_WEIGHT + if spilled { self.len as usize / SPILLED_SHARE } else { 0 }
    }
}

impl Value {
    /// Length in bytes.
    pub fn len(&self) -> u32 {
        match self {
            Value::Inline(bytes) => bytes.len() as u32,
            Value::Slice(slice) => slice.len,
        }
    }

    /// True for the empty value.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Edits that wait to be applied, or where they are.
#[derive(Clone, Debug)]
pub enum Piece {
    /// The edits.
    Here(Arc<Edits>),
    /// The edits as [`crate::codec::put_edits`] writes them, in an extent.
    There(ExtentSlice),
}

impl Piece {
    fn weight(&self) -> usize {
        match self {
            Piece::Here(edits) => edits.weight(),
            Piece::There(slice) => slice.weight(),
        }
    }
}

/// What the edits of an [`Op`] start from.
#[derive(Clone, Debug)]
pub enum Base {
    /// Whatever is below.
    Keep,
    /// No value.
    Absent,
    /// This value.
    Value(Value),
}

/// A message for one key, in normal form: edits stand only on `Keep` and on a slice; elsewhere they have been
/// folded into the base, unless some of them are in an extent.
#[derive(Clone, Debug)]
pub struct Op {
    /// What to start from.
    pub base: Base,
    /// What to change in it first: edits one after the other, some of them in extents; never an empty list.
    pub older: Option<Arc<[Piece]>>,
    /// What to change in it then.
    pub edits: Option<Arc<Edits>>,
}

impl Op {
    /// With edits that are all at hand.
    pub fn new(base: Base, edits: Option<Arc<Edits>>) -> Op {
        Op { base, older: None, edits }
    }

    /// Sets the value.
    pub fn put(bytes: &[u8]) -> Op {
        Op::new(Base::Value(Value::Inline(bytes.into())), None)
    }

    /// Sets the value to part of an extent.
    pub fn put_slice(slice: ExtentSlice) -> Op {
        Op::new(Base::Value(Value::Slice(slice)), None)
    }

    /// Removes the value.
    pub fn delete() -> Op {
        Op::new(Base::Absent, None)
    }

    /// Applies edits to whatever value there is.
    pub fn edit(edits: Edits) -> Op {
        Op::new(Base::Keep, Some(Arc::new(edits)))
    }

    /// Overwrites bytes `[off, off + len)`, zero-extending a shorter value and creating a missing one.
    pub fn patch(off: u32, bytes: &[u8]) -> Op {
        let mut edits = Edits::default();
        edits.patch(off, bytes);
        Op::edit(edits)
    }

    /// True if the outcome does not depend on what is below.
    pub fn is_resolved(&self) -> bool {
        !matches!(self.base, Base::Keep)
    }

    /// True if the key certainly has no value afterwards.
    pub fn is_absent(&self) -> bool {
        matches!(self.base, Base::Absent) && self.older.is_none()
    }

    /// This message when it is known that nothing is below.
    pub fn on_absent(&self) -> Op {
        match self.base {
            Base::Keep => Op { base: Base::Absent, ..self.clone() }.normal(),
            _ => self.clone(),
        }
    }

    /// The message that does what `self` and then `newer` do.
    pub fn then(&self, newer: &Op) -> Op {
        if newer.is_resolved() {
            return newer.clone();
        }
        if let Some(older) = &newer.older {
            let mut pieces = self.older.as_deref().unwrap_or_default().to_vec();
            pieces.extend(self.edits.iter().cloned().map(Piece::Here));
            pieces.extend_from_slice(older);
            return Op { base: self.base.clone(), older: Some(pieces.into()), edits: newer.edits.clone() };
        }
        let edits = match (&self.edits, &newer.edits) {
            (Some(old), Some(new)) => {
                let mut both = Edits::clone(old);
                both.then(new);
                Some(Arc::new(both))
            }
            (old, new) => old.clone().or_else(|| new.clone()),
        };
        Op { base: self.base.clone(), older: self.older.clone(), edits }.normal()
    }

    /// Like [`Op::then`], in place: cheap when nobody else holds this message's edits.
    pub fn push(&mut self, newer: Op) {
        match (&self.base, &mut self.edits, &newer.edits) {
            (Base::Keep, Some(old), Some(new)) if !newer.is_resolved() && newer.older.is_none() => {
                Arc::make_mut(old).then(new);
            }
            _ => *self = self.then(&newer),
        }
    }

    /// Folds edits into a base whose bytes are known.
    fn normal(self) -> Op {
        let (None, Some(edits)) = (&self.older, &self.edits) else { return self };
        let known = match &self.base {
            Base::Absent => None,
            Base::Value(Value::Inline(bytes)) => Some(bytes.to_vec()),
            Base::Keep | Base::Value(Value::Slice(_)) => return self,
        };
        match edits.apply(known) {
            Some(bytes) => Op::new(Base::Value(Value::Inline(bytes.into())), None),
            None => Op::delete(),
        }
    }

    /// The parts of extents that it refers to.
    pub fn slices(&self) -> impl Iterator<Item = &ExtentSlice> {
        let base = match &self.base {
            Base::Value(Value::Slice(slice)) => Some(slice),
            _ => None,
        };
        base.into_iter().chain(self.older.iter().flat_map(|pieces| pieces.iter()).filter_map(|p| match p {
            Piece::There(slice) => Some(slice),
            Piece::Here(_) => None,
        }))
    }

    /// The same with other parts of extents; `f` is asked for each in the order of [`Op::slices`].
    pub fn map_slices<E>(&self, mut f: impl FnMut(&ExtentSlice) -> Result<ExtentSlice, E>) -> Result<Op, E> {
        let mut op = self.clone();
        if let Base::Value(Value::Slice(slice)) = &mut op.base {
            *slice = f(slice)?;
        }
        if let Some(pieces) = &mut op.older {
            for piece in Arc::make_mut(pieces) {
                if let Piece::There(slice) = piece {
                    *slice = f(slice)?;
                }
            }
        }
        Ok(op)
    }

    /// Bytes of its value if it holds one.
    pub fn inline_len(&self) -> usize {
        match &self.base {
            Base::Value(Value::Inline(bytes)) => bytes.len(),
            _ => 0,
        }
    }

    /// Bytes this message takes in memory, about; what all size limits count.
    pub fn weight(&self) -> usize {
        let base = match &self.base {
            Base::Value(Value::Slice(slice)) => slice.weight(),
            _ => self.inline_len(),
        };
        let older = self.older.iter().flat_map(|pieces| pieces.iter()).map(Piece::weight).sum::<usize>();
        base + older + self.edits.as_ref().map_or(0, |e| e.weight())
    }
}

/// Puts the keys and values of `entries` side by side in memory of their own.
pub fn pack(entries: &mut Vec<(Key, Op)>) {
    let mut arena = Arena::with_capacity(entries.iter().map(|(k, op)| k.len() + op.inline_len()).sum());
    for (key, op) in entries.iter_mut() {
        *key = arena.add(&[key]);
        if let Base::Value(Value::Inline(bytes)) = &mut op.base {
            *bytes = arena.add(&[bytes]);
        }
        if let Some(edits) = op.edits.as_mut().filter(|e| e.is_shared()) {
            Arc::make_mut(edits).detach();
        }
        // Edits that others came after were at hand in a buffer, so they have been here before.
    }
    if entries.capacity() > entries.len() + entries.len() / 8 {
        entries.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            prop::collection::vec(any::<u8>(), 0..20).prop_map(|b| Op::put(&b)),
            Just(Op::delete()),
            (0u32..20, prop::collection::vec(any::<u8>(), 0..10)).prop_map(|(o, b)| Op::patch(o, &b)),
            (0u32..20).prop_map(|len| {
                let mut edits = Edits::default();
                edits.truncate(len);
                Op::edit(edits)
            }),
        ]
    }

    fn outcome(start: &Op, ops: &[&Op]) -> Option<Vec<u8>> {
        let end = ops.iter().fold(start.clone(), |state, op| state.then(op));
        match end.base {
            Base::Value(Value::Inline(bytes)) => Some(bytes.to_vec()),
            Base::Absent => None,
            other => panic!("state not resolved: {other:?}"),
        }
    }

    proptest! {
        #[test]
        fn composition_is_associative_and_in_place_push_agrees(
            start in prop::option::of(prop::collection::vec(any::<u8>(), 0..20)), a in op(), b in op(), c in op(),
        ) {
            let start = start.map_or(Op::delete(), |v| Op::put(&v));
            let expected = outcome(&start, &[&a, &b, &c]);
            prop_assert_eq!(outcome(&start, &[&a.then(&b), &c]), expected.clone());
            prop_assert_eq!(outcome(&start, &[&a, &b.then(&c)]), expected.clone());
            let mut pushed = a.clone();
            pushed.push(b.clone());
            pushed.push(c.clone());
            prop_assert_eq!(outcome(&start, &[&pushed]), expected.clone());
            if start.is_absent() {
                prop_assert_eq!(outcome(&start, &[&pushed.on_absent()]), expected);
            }
        }
    }

    #[test]
    fn a_patch_creates_and_zero_extends() {
        assert_eq!(outcome(&Op::delete(), &[&Op::patch(3, b"x")]), Some(b"\0\0\0x".to_vec()));
        assert_eq!(outcome(&Op::put(b"abc"), &[&Op::patch(1, b"X")]), Some(b"aXc".to_vec()));
    }
}
