//! The memtable: the buffer in front of the root, which takes messages one by one.

use crate::buffer::{Buffer, ENTRY_OVERHEAD, Lookup, MEMORY_OVERHEAD, entry_weight};
use crate::bytes::{Arena, Bytes};
use crate::edits::Edits;
use crate::key::{Key, KeyRange};
use crate::message::{Base, Op, Value};
use crate::ranges::RangeSet;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Bound;
use std::sync::Arc;

/// Memory that edits take beyond their weight, about.
const EDITS_OVERHEAD: usize = 96;

/// Memory of an entry besides key and value, about: the map is three quarters full, the slots are at least half.
const SLOT_MEMORY: usize = (size_of::<Key>() + size_of::<u32>()) * 4 / 3 + 8 + size_of::<Op>() * 4 / 3;

/// Keys that are found without a search.
const RECENT: usize = 4096;

/// A set of messages and deleted ranges, as a [`Buffer`] is one, that takes more.
#[derive(Default)]
pub struct Memtable {
    tombs: RangeSet,
    /// The keys in order, each with the place of its message in `ops`.
    order: BTreeMap<Key, u32>,
    ops: Vec<Op>,
    /// Places in `ops` that are not in use.
    unused: Vec<u32>,
    recent: Recent,
    /// Keys and values.
    arena: Arena,
    /// Memory of edits and deleted ranges, about.
    loose: usize,
    weight: usize,
}

/// Where the messages of some keys are that were met lately. Records of files and directories are written again
/// and again.
#[derive(Default)]
struct Recent {
    /// By hash; empty or [`RECENT`] long. What is from an earlier turn does not count.
    places: Vec<(Key, u32, u32)>,
    turn: u32,
}

impl Recent {
    /// The end of a key tells most keys apart, and a wrong guess does no harm.
    fn at(key: &[u8]) -> usize {
        let tail = &key[key.len().saturating_sub(32)..];
        let hash = tail.chunks(8).fold(key.len() as u64, |hash, chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            (hash.rotate_left(23) ^ u64::from_le_bytes(word)).wrapping_mul(0x9E37_79B9_7F4A_7C15)
        });
        (hash >> 32) as usize % RECENT
    }

    fn find(&self, at: usize, key: &[u8]) -> Option<u32> {
        let (known, place, turn) = self.places.get(at)?;
        (*turn == self.turn && **known == *key && !key.is_empty()).then_some(*place)
    }

    fn note(&mut self, at: usize, key: &Key, place: u32) {
        if self.places.is_empty() {
            self.places.resize(RECENT, (Key::default(), 0, 0));
        }
        self.places[at] = (key.clone(), place, self.turn);
    }

    fn forget(&mut self) {
        self.turn += 1;
    }
}

/// `bytes`, copied, or where they lie already: `within` a string of which they are a part.
fn keep(arena: &mut Arena, within: Option<&Bytes>, bytes: &[u8]) -> Bytes {
    within.map_or_else(|| arena.add(&[bytes]), |whole| whole.place_of(bytes))
}

impl Memtable {
    /// Copies a batch's changes: messages that are added from [within](Memtable::put) it need no copy each.
    pub fn copy(&mut self, body: &[u8]) -> Bytes {
        self.arena.add(&[body])
    }

    /// Sets the value of one key. Both may lie `within` a string that was [copied](Memtable::copy).
    pub fn put(&mut self, within: Option<&Bytes>, key: &[u8], value: &[u8]) {
        let value_of =
            |arena: &mut Arena| Op::new(Base::Value(Value::Inline(keep(arena, within, value))), None);
        let at = Recent::at(key);
        if let Some(place) = self.recent.find(at, key) {
            let old = &mut self.ops[place as usize];
            self.weight = self.weight - old.weight() + value.len();
            *old = value_of(&mut self.arena);
            return;
        }
        let mark = self.arena.mark();
        match self.order.entry(keep(&mut self.arena, within, key)) {
            Entry::Occupied(entry) => {
                self.recent.note(at, entry.key(), *entry.get());
                let old = &mut self.ops[*entry.into_mut() as usize];
                // SAFETY: if a key was added, it went with the entry, and nobody else had it: what was noted is the key in
                // the map.
                unsafe { self.arena.rewind(mark) };
                self.weight = self.weight - old.weight() + value.len();
                *old = value_of(&mut self.arena);
            }
            Entry::Vacant(entry) => {
                let op = value_of(&mut self.arena);
                self.weight += entry_weight(key, &op);
                let place = store(&mut self.ops, &mut self.unused, op);
                self.recent.note(at, entry.key(), place);
                entry.insert(place);
            }
        }
    }

    /// Lays `bytes` over a value from `off` on; the first for a key lies in the memtable's own memory. Key and bytes may lie `within`
    /// a string that was [copied](Memtable::copy).
    pub fn patch(&mut self, within: Option<&Bytes>, key: &[u8], off: u32, bytes: &[u8]) {
        if self.order.contains_key(key) || self.tombs.contains(key) {
            return self.push(key, Op::patch(off, bytes));
        }
        let edits = Edits::shared(off, keep(&mut self.arena, within, bytes));
        let op = Op::new(Base::Keep, Some(Arc::new(edits)));
        self.loose += EDITS_OVERHEAD;
        self.weight += entry_weight(key, &op);
        let place = store(&mut self.ops, &mut self.unused, op);
        self.order.insert(keep(&mut self.arena, within, key), place);
    }

    /// Adds a message for one key. Its value is copied.
    pub fn push(&mut self, key: &[u8], op: Op) {
        if let (Base::Value(Value::Inline(value)), None, None) = (&op.base, &op.older, &op.edits) {
            return self.put(None, key, value);
        }
        self.loose += op.edits.as_ref().map_or(0, |e| e.weight() + EDITS_OVERHEAD);
        if let Some(place) = self.order.get(key) {
            let old = &mut self.ops[*place as usize];
            self.weight -= old.weight();
            old.push(op);
            self.weight += old.weight();
            // What an edit makes of a value lies in memory of its own.
            self.loose += old.inline_len();
            return;
        }
        let op = if !op.is_resolved() && self.tombs.contains(key) { op.on_absent() } else { op };
        self.weight += entry_weight(key, &op);
        let place = store(&mut self.ops, &mut self.unused, op);
        self.order.insert(self.arena.add(&[key]), place);
    }

    /// Adds a range delete; messages it dominates are dropped.
    pub fn delete_range(&mut self, range: &KeyRange) {
        if range.is_empty() {
            return;
        }
        let inside = (Bound::Included(&range.lo[..]), Bound::Unbounded);
        let dead: Vec<Key> = self
            .order
            .range::<[u8], _>(inside)
            .take_while(|(k, _)| range.hi.is_after(k))
            .map(|(k, _)| k.clone())
            .collect();
        if !dead.is_empty() {
            self.recent.forget();
        }
        for key in dead {
            if let Some(place) = self.order.remove(&key) {
                let op = std::mem::replace(&mut self.ops[place as usize], Op::delete());
                self.weight -= entry_weight(&key, &op);
                self.unused.push(place);
            }
        }
        self.weight += 2 * range.lo.len() + ENTRY_OVERHEAD;
        self.loose += 2 * (range.lo.len() + ENTRY_OVERHEAD) + MEMORY_OVERHEAD;
        self.tombs.insert(range);
    }

    /// What is pending for `key`.
    pub fn get(&self, key: &[u8]) -> Lookup<'_> {
        match self.order.get(key) {
            Some(place) => Lookup::Op(&self.ops[*place as usize]),
            None if self.tombs.contains(key) => Lookup::Deleted,
            None => Lookup::Nothing,
        }
    }

    /// What is pending inside `window`, or `None` if that is more than `limit` messages.
    pub fn slice(&self, window: &KeyRange, limit: usize) -> Option<Buffer> {
        if window.is_empty() {
            return Some(Buffer::default());
        }
        let mut ops = Vec::new();
        for (k, place) in self.order.range::<[u8], _>((Bound::Included(&window.lo[..]), Bound::Unbounded)) {
            if !window.hi.is_after(k) {
                break;
            }
            if ops.len() == limit {
                return None;
            }
            ops.push((k.clone(), self.ops[*place as usize].clone()));
        }
        Some(Buffer::from_parts(self.tombs.clip(window), ops))
    }

    /// Bytes of memory it takes, about: more than its weight, which is what counts on storage.
    pub fn memory(&self) -> usize {
        self.arena.memory() + self.loose + self.ops.len() * SLOT_MEMORY
    }

    /// Of that, what lies on the heap piece by piece.
    pub fn loose(&self) -> usize {
        self.loose
    }

    /// Everything, as an immutable buffer.
    pub fn freeze(mut self) -> Buffer {
        let mut take = |place: u32| std::mem::replace(&mut self.ops[place as usize], Op::delete());
        let ops = self.order.into_iter().map(|(key, place)| (key, take(place))).collect();
        Buffer::from_parts(self.tombs, ops)
    }

    /// Size in the sense of [`Op::weight`].
    pub fn weight(&self) -> usize {
        self.weight
    }

    /// True if nothing is pending.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty() && self.tombs.is_empty()
    }
}

/// Puts a message to a place that is not in use.
fn store(ops: &mut Vec<Op>, unused: &mut Vec<u32>, op: Op) -> u32 {
    match unused.pop() {
        Some(place) => {
            ops[place as usize] = op;
            place
        }
        None => {
            ops.push(op);
            ops.len() as u32 - 1
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Many keys of which many are recent, with deletes in between, against a sorted map.
    #[test]
    fn holds_what_was_put_last() {
        let mut random = 88_172_645_463_325_252u64;
        let mut below = |n: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % n
        };
        let (mut table, mut model) = (Memtable::default(), BTreeMap::new());
        for step in 0..60_000u32 {
            let key = match below(9) {
                0 => Vec::new(),
                n => format!("{:01$}", below(2000), n as usize * 7).into_bytes(),
            };
            match below(200) {
                0 => {
                    let range = KeyRange::prefix(&key[..key.len() - key.len().min(1)]);
                    table.delete_range(&range);
                    model.retain(|k: &Vec<u8>, _| !range.contains(k));
                }
                1..20 => {
                    table.push(&key, Op::patch(1, &[7]));
                    let value: &mut Vec<u8> = model.entry(key.clone()).or_default();
                    value.resize(value.len().max(2), 0);
                    value[1] = 7;
                }
                _ => {
                    let value = step.to_le_bytes()[..below(5) as usize].to_vec();
                    // What is written, and something before and behind it.
                    let body = [&b"x"[..], &key, &value, b"y"].concat();
                    let body = (below(3) == 0).then(|| table.copy(&body));
                    match &body {
                        None => table.put(None, &key, &value),
                        Some(body) => {
                            let (key, rest) = body[1..].split_at(key.len());
                            table.put(Some(body), key, &rest[..value.len()]);
                        }
                    }
                    model.insert(key.clone(), value);
                }
            }
            let found = match table.get(&key) {
                Lookup::Op(op) => match &op.on_absent().base {
                    Base::Value(Value::Inline(bytes)) => Some(bytes.to_vec()),
                    other => panic!("{other:?}"),
                },
                _ => None,
            };
            assert_eq!(found.as_ref(), model.get(&key), "step {step}");
        }
        let weight = table.weight();
        let buffer = table.freeze();
        let entries = buffer.apply_to(&[]);
        assert!(weight >= buffer.weight(), "{weight}");
        assert!(entries.iter().map(|(k, _)| &k[..]).eq(model.keys().map(|k| &k[..])));
    }

    #[test]
    fn a_range_delete_drops_the_messages_it_dominates() {
        let mut table = Memtable::default();
        for k in 0..100u8 {
            table.push(&[k], Op::put(b"v"));
        }
        let before = table.weight();
        table.delete_range(&KeyRange::new(&[10], &[90]));
        assert_eq!(table.freeze().ops().len(), 20);
        assert!(before > 4000);
    }

    #[test]
    fn slicing_a_memtable_gives_up_beyond_its_limit() {
        let mut table = Memtable::default();
        (0..10u8).for_each(|k| table.push(&[k], Op::put(b"v")));
        assert!(table.slice(&KeyRange::all(), 9).is_none());
        assert_eq!(table.slice(&KeyRange::new(&[2], &[5]), 9).expect("within the limit").ops().len(), 3);
    }
}
