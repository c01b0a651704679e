//! Messages: what is to happen to one key, and how two messages become one.
//!
//! Every pending change of a key has the normal form [`Op`]: a base (keep what is below, nothing, or a new
//! value) and edits on top of it. Composition is associative, which is why messages may be merged in any
//! buffer on their way down without changing what a reader sees.

use crate::block::BlockRef;
use crate::bytes::{Arena, Bytes};
use crate::edits::Edits;
use crate::key::Key;
use std::sync::Arc;

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
/// folded into the base.
#[derive(Clone, Debug)]
pub struct Op {
    /// What to start from.
    pub base: Base,
    /// What to change in it.
    pub edits: Option<Arc<Edits>>,
}

impl Op {
    /// Sets the value.
    pub fn put(bytes: &[u8]) -> Op {
        Op { base: Base::Value(Value::Inline(bytes.into())), edits: None }
    }

    /// Sets the value to part of an extent.
    pub fn put_slice(slice: ExtentSlice) -> Op {
        Op { base: Base::Value(Value::Slice(slice)), edits: None }
    }

    /// Removes the value.
    pub fn delete() -> Op {
        Op { base: Base::Absent, edits: None }
    }

    /// Applies edits to whatever value there is.
    pub fn edit(edits: Edits) -> Op {
        Op { base: Base::Keep, edits: Some(Arc::new(edits)) }
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
        matches!(self.base, Base::Absent)
    }

    /// This message when it is known that nothing is below.
    pub fn on_absent(&self) -> Op {
        match self.base {
            Base::Keep => Op { base: Base::Absent, edits: self.edits.clone() }.normal(),
            _ => self.clone(),
        }
    }

    /// The message that does what `self` and then `newer` do.
    pub fn then(&self, newer: &Op) -> Op {
        if newer.is_resolved() {
            return newer.clone();
        }
        let edits = match (&self.edits, &newer.edits) {
            (Some(old), Some(new)) => {
                let mut both = Edits::clone(old);
                both.then(new);
                Some(Arc::new(both))
            }
            (old, new) => old.clone().or_else(|| new.clone()),
        };
        Op { base: self.base.clone(), edits }.normal()
    }

    /// Like [`Op::then`], in place: cheap when nobody else holds this message's edits.
    pub fn push(&mut self, newer: Op) {
        match (&self.base, &mut self.edits, &newer.edits) {
            (Base::Keep, Some(old), Some(new)) if !newer.is_resolved() => Arc::make_mut(old).then(new),
            _ => *self = self.then(&newer),
        }
    }

    /// Folds edits into a base whose bytes are known.
    fn normal(self) -> Op {
        let Some(edits) = &self.edits else { return self };
        let known = match &self.base {
            Base::Absent => None,
            Base::Value(Value::Inline(bytes)) => Some(bytes.to_vec()),
            Base::Keep | Base::Value(Value::Slice(_)) => return self,
        };
        match edits.apply(known) {
            Some(bytes) => Op { base: Base::Value(Value::Inline(bytes.into())), edits: None },
            None => Op::delete(),
        }
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
            Base::Value(Value::Slice(_)) => 32,
            _ => self.inline_len(),
        };
        base + self.edits.as_ref().map_or(0, |e| e.weight())
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
