//! Buffers: sets of pending messages over a key range, and the algebra that moves them down the tree.
//!
//! A buffer means: first delete its ranges, then apply its messages. Keeping the ranges "first" is possible
//! because a message that arrives for a key in a deleted range is resolved at once
//! ([`Op::on_absent`]), and a range delete that arrives drops the messages it dominates. So no message needs
//! a sequence number inside a buffer, and a buffer never holds what cannot matter any more.

use crate::block::BlockKind;
use crate::key::{Key, KeyRange, Translation};
use crate::message::{Op, pack};
use crate::ranges::RangeSet;

/// Memory of an entry besides key and payload, about.
pub(crate) const ENTRY_OVERHEAD: usize = 48;

/// Memory that an entry takes beyond its weight, about: allocator, reference counts, map.
pub const MEMORY_OVERHEAD: usize = 112;

/// Weight of one entry; see [`Op::weight`].
pub fn entry_weight(key: &[u8], op: &Op) -> usize {
    key.len() + op.weight() + ENTRY_OVERHEAD
}

fn tombs_weight(tombs: &RangeSet) -> usize {
    tombs.iter().map(|r| 2 * r.lo.len() + ENTRY_OVERHEAD).sum()
}

/// What a buffer knows about a key.
#[derive(Debug)]
pub enum Lookup<'a> {
    /// Nothing is pending.
    Nothing,
    /// The key lies in a deleted range and has no message of its own.
    Deleted,
    /// This message is pending (it already accounts for the deleted ranges).
    Op(&'a Op),
}

/// An immutable, sorted set of messages.
#[derive(Clone, Debug, Default)]
pub struct Buffer {
    tombs: RangeSet,
    ops: Vec<(Key, Op)>,
    weight: usize,
}

impl Buffer {
    /// From deleted ranges and messages sorted by key, each already resolved against the ranges.
    pub fn from_parts(tombs: RangeSet, ops: Vec<(Key, Op)>) -> Self {
        debug_assert!(ops.windows(2).all(|w| w[0].0 < w[1].0), "messages out of order");
        let weight = tombs_weight(&tombs) + ops.iter().map(|(k, op)| entry_weight(k, op)).sum::<usize>();
        Buffer { tombs, ops, weight }
    }

    /// The deleted ranges.
    pub fn tombs(&self) -> &RangeSet {
        &self.tombs
    }

    /// The messages, sorted by key.
    pub fn ops(&self) -> &[(Key, Op)] {
        &self.ops
    }

    /// Size in the sense of [`Op::weight`].
    pub fn weight(&self) -> usize {
        self.weight
    }

    /// Bytes that messages left in extents when they were spilled.
    pub fn spilled_bytes(&self) -> usize {
        let slices = self.ops.iter().flat_map(|(_, op)| op.slices());
        slices.filter(|s| s.extent.info().kind == BlockKind::Spilled).map(|s| s.len as usize).sum()
    }

    /// True if nothing is pending.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty() && self.tombs.is_empty()
    }

    /// What is pending for `key`.
    pub fn get(&self, key: &[u8]) -> Lookup<'_> {
        match self.ops.binary_search_by(|(k, _)| k[..].cmp(key)) {
            Ok(i) => Lookup::Op(&self.ops[i].1),
            Err(_) if self.tombs.contains(key) => Lookup::Deleted,
            Err(_) => Lookup::Nothing,
        }
    }

    fn span(&self, window: &KeyRange) -> std::ops::Range<usize> {
        let from = self.ops.partition_point(|(k, _)| k[..] < window.lo[..]);
        let to = from + self.ops[from..].partition_point(|(k, _)| window.hi.is_after(k));
        from..to
    }

    /// True if what `window` holds is needed to apply this: something is pending inside, but not that all of it goes.
    pub fn touches(&self, window: &KeyRange) -> bool {
        if self.tombs.is_empty() {
            return !self.span(window).is_empty();
        }
        !self.tombs.covers(window) && (!self.span(window).is_empty() || !self.tombs.clip(window).is_empty())
    }

    /// What is pending inside `window`.
    pub fn slice(&self, window: &KeyRange) -> Buffer {
        self.view(window).to_buffer()
    }

    /// What is pending inside `window`, without a copy of it.
    pub fn view(&self, window: &KeyRange) -> View<'_> {
        View { tombs: self.tombs.clip(window), ops: &self.ops[self.span(window)] }
    }

    /// Splits off what is pending inside each of `windows`, which are sorted and disjoint and together hold
    /// everything that is pending.
    pub fn partition<'a>(&'a self, windows: impl Iterator<Item = &'a KeyRange>) -> Vec<Buffer> {
        windows.map(|w| self.slice(w)).collect()
    }

    /// The buffer that does what `self` and then `newer` do.
    pub fn then(&self, newer: &Buffer) -> Buffer {
        if newer.is_empty() {
            return self.clone();
        }
        newer.whole().on(self)
    }

    fn whole(&self) -> View<'_> {
        View { tombs: self.tombs.clone(), ops: &self.ops }
    }

    /// Everything of both; `right` lies wholly after `self`.
    pub fn concat(&self, right: &Buffer) -> Buffer {
        let mut tombs = self.tombs.clone();
        right.tombs.iter().for_each(|r| tombs.insert(&r));
        let mut ops = self.ops.clone();
        ops.extend_from_slice(&right.ops);
        Buffer::from_parts(tombs, ops)
    }

    /// The same with its keys and values in memory of their own, side by side.
    pub fn packed(mut self) -> Buffer {
        pack(&mut self.ops);
        self
    }

    /// The same messages below an edge. All must lie within the keys that begin with the outer prefix.
    pub fn translate_in(&self, t: &Translation) -> Buffer {
        self.rekey(|k| t.key_in(k), |r| t.range_in(r))
    }

    /// The same messages above an edge. All must lie within the keys that begin with the inner prefix.
    pub fn translate_out(&self, t: &Translation) -> Buffer {
        self.rekey(|k| t.key_out(k), |r| t.range_out(r))
    }

    fn rekey(&self, key: impl Fn(&[u8]) -> Key, range: impl Fn(&KeyRange) -> KeyRange) -> Buffer {
        let mut tombs = RangeSet::default();
        self.tombs.iter().for_each(|r| tombs.insert(&range(&r)));
        Buffer::from_parts(tombs, self.ops.iter().map(|(k, op)| (key(k), op.clone())).collect())
    }

    /// The key-value pairs that result from applying this buffer to `entries` (sorted, resolved, none absent).
    pub fn apply_to(&self, entries: &[(Key, Op)]) -> Vec<(Key, Op)> {
        let mut out = Vec::new();
        self.whole().apply_to(entries, &mut out);
        out
    }
}

/// A part of a buffer.
#[derive(Debug)]
pub struct View<'a> {
    tombs: RangeSet,
    ops: &'a [(Key, Op)],
}

impl View<'_> {
    /// The deleted ranges.
    pub fn tombs(&self) -> &RangeSet {
        &self.tombs
    }

    /// True if nothing is pending.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty() && self.tombs.is_empty()
    }

    /// A buffer of its own.
    pub fn to_buffer(&self) -> Buffer {
        Buffer::from_parts(self.tombs.clone(), self.ops.to_vec())
    }

    /// The buffer that does what `older` and then this do.
    pub fn on(&self, older: &Buffer) -> Buffer {
        if older.is_empty() {
            return self.to_buffer();
        }
        let mut tombs = older.tombs.clone();
        self.tombs.iter().for_each(|r| tombs.insert(&r));
        let below = match &older.tombs {
            none if none.is_empty() => Below::Unknown,
            some => Below::Deleted(some),
        };
        let mut ops = Vec::with_capacity(older.ops.len() + self.ops.len());
        self.merge(&older.ops, &below, &mut ops);
        Buffer::from_parts(tombs, ops)
    }

    /// Adds the key-value pairs that result from applying this to `entries` (sorted, resolved, none absent) to `out`.
    pub fn apply_to(&self, entries: &[(Key, Op)], out: &mut Vec<(Key, Op)>) {
        out.reserve(entries.len() + self.ops.len());
        self.merge(entries, &Below::Nothing, out);
    }

    /// Merges sorted `older` messages with this.
    fn merge(&self, older: &[(Key, Op)], below: &Below<'_>, out: &mut Vec<(Key, Op)>) {
        let mut rest = older;
        let absent = |op: &Op| matches!(below, Below::Nothing) && op.is_absent();
        for (key, op) in self.ops {
            // Runs of older messages are copied as such.
            let n = run_before(rest, key);
            self.copy(&rest[..n], out);
            rest = &rest[n..];
            let same = rest.first().filter(|(k, _)| k == key);
            rest = &rest[usize::from(same.is_some())..];
            let merged = match same {
                _ if op.is_resolved() => op.clone(),
                Some((_, o)) => o.then(op),
                None if below.lacks(key) => op.on_absent(),
                None => op.clone(),
            };
            if !absent(&merged) {
                out.push((key.clone(), merged));
            }
        }
        self.copy(rest, out);
    }

    /// Adds older messages but those in deleted ranges.
    fn copy(&self, older: &[(Key, Op)], out: &mut Vec<(Key, Op)>) {
        if self.tombs.is_empty() {
            out.extend_from_slice(older);
        } else {
            out.extend(older.iter().filter(|(k, _)| !self.tombs.contains(k)).cloned());
        }
    }
}

/// How many of `older` come before `key`: near the front, mostly.
fn run_before(older: &[(Key, Op)], key: &Key) -> usize {
    let mut step = 1;
    while older.get(step - 1).is_some_and(|(k, _)| k < key) {
        step *= 2;
    }
    let from = step / 2;
    from + older[from..older.len().min(step - 1).max(from)].partition_point(|(k, _)| k < key)
}

/// What is known of what lies below the older of two buffers.
enum Below<'a> {
    Unknown,
    /// Nothing in these ranges.
    Deleted(&'a RangeSet),
    /// Nothing at all.
    Nothing,
}

impl Below<'_> {
    fn lacks(&self, key: &[u8]) -> bool {
        match self {
            Below::Unknown => false,
            Below::Deleted(ranges) => ranges.contains(key),
            Below::Nothing => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memtable::Memtable;
    use crate::message::{Base, Value};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[derive(Clone, Debug)]
    enum Step {
        Put(u8, u8),
        Delete(u8),
        Patch(u8, u8, u8),
        DeleteRange(u8, u8),
    }

    type Model = BTreeMap<Vec<u8>, Vec<u8>>;

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            3 => (0u8..24, any::<u8>()).prop_map(|(k, v)| Step::Put(k, v)),
            2 => (0u8..24).prop_map(Step::Delete),
            3 => (0u8..24, 0u8..6, any::<u8>()).prop_map(|(k, o, v)| Step::Patch(k, o, v)),
            2 => (0u8..24, 0u8..28).prop_map(|(a, b)| Step::DeleteRange(a, b)),
        ];
        prop::collection::vec(step, 0..30)
    }

    fn range(a: u8, b: u8) -> KeyRange {
        KeyRange::new(&[b'k', a], &[b'k', b])
    }

    fn run(steps: &[Step], model: &mut Model) -> Buffer {
        let mut table = Memtable::default();
        for step in steps {
            match *step {
                Step::Put(k, v) => {
                    table.push(&[b'k', k], Op::put(&[v; 3]));
                    model.insert(vec![b'k', k], vec![v; 3]);
                }
                Step::Delete(k) => {
                    table.push(&[b'k', k], Op::delete());
                    model.remove(&vec![b'k', k]);
                }
                Step::Patch(k, off, v) => {
                    table.push(&[b'k', k], Op::patch(off as u32, &[v]));
                    let value = model.entry(vec![b'k', k]).or_default();
                    value.resize(value.len().max(off as usize + 1), 0);
                    value[off as usize] = v;
                }
                Step::DeleteRange(a, b) => {
                    table.delete_range(&range(a, b));
                    model.retain(|k, _| !range(a, b).contains(k));
                }
            }
        }
        let buffer = table.freeze();
        assert!(buffer.ops().iter().all(|(k, op)| op.is_resolved() || !buffer.tombs().contains(k)));
        buffer
    }

    fn plain(entries: &[(Key, Op)]) -> Model {
        let bytes = |op: &Op| match &op.base {
            Base::Value(Value::Inline(b)) => b.to_vec(),
            other => panic!("unresolved entry {other:?}"),
        };
        entries.iter().map(|(k, op)| (k.to_vec(), bytes(op))).collect()
    }

    proptest! {
        #[test]
        fn buffers_compose_slice_and_translate(a in steps(), b in steps(), c in steps(), cut in 0u8..26) {
            let mut model = Model::new();
            let (a, b, c) = (run(&a, &mut model), run(&b, &mut model), run(&c, &mut model));
            let one_by_one = c.apply_to(&b.apply_to(&a.apply_to(&[])));
            prop_assert_eq!(plain(&one_by_one), model.clone());
            prop_assert_eq!(plain(&a.then(&b).then(&c).apply_to(&[])), model.clone());
            let all = a.then(&b.then(&c));
            prop_assert_eq!(plain(&all.apply_to(&[])), model.clone());
            for k in 0..26u8 {
                let composed = match all.get(&[b'k', k]) {
                    Lookup::Op(op) => !op.on_absent().is_absent(),
                    _ => false,
                };
                prop_assert_eq!(composed, model.contains_key(&vec![b'k', k]), "key {}", k);
            }
            let (left, right) = (KeyRange::new(b"", &[b'k', cut]), KeyRange::from(&[b'k', cut]));
            let parts = all.partition([&left, &right].into_iter());
            prop_assert_eq!(plain(&parts[0].concat(&parts[1]).apply_to(&[])), model.clone());
            let t = Translation { outer: b"k"[..].into(), inner: b"xyz"[..].into() };
            let there = all.translate_in(&t);
            prop_assert!(there.ops().iter().all(|(k, _)| k.starts_with(b"xyz")));
            prop_assert_eq!(plain(&there.translate_out(&t).apply_to(&[])), model);
        }
    }
}
