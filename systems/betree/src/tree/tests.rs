//! The tree against a sorted map, without log or checkpoints: everything but the reading of evicted nodes
//! happens in memory.

use crate::codec::Compression;
use crate::key::{End, Key, KeyRange};
use crate::memtable::Memtable;
use crate::message::Op;
use crate::node::NodeRef;
use crate::storage::SimStorage;
use crate::store::{CachePolicy, NodeSizes, Store};
use crate::table::Table;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::sync::Arc;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

const UNITS: u64 = 4096;

fn store(cache_bytes: usize) -> Store {
    store_of(NodeSizes { leaf_bytes: 2000, basement_bytes: 500, buffer_bytes: 2500, fanout: 6 }, cache_bytes)
}

fn store_of(shape: NodeSizes, cache_bytes: usize) -> Store {
    let storage = Arc::new(SimStorage::new(UNITS * 4096));
    Store::new(
        storage,
        Table::new(0, UNITS, false),
        shape,
        Compression::Lz4,
        cache_bytes,
        crate::Features::ALL,
    )
}

fn scan(store: &Store, root: &NodeRef, range: KeyRange, ahead: bool) -> Model {
    let mut out = Model::new();
    let mut window = range;
    while !window.is_empty() {
        let chunk = store.chunk(root, &window, ahead).expect("scan");
        for (k, op) in &chunk.entries {
            assert!(window.contains(k), "{k:?} outside {window:?}");
            let value = store.value_of(op, CachePolicy::Caller).expect("read").expect("entries have values");
            assert!(out.insert(k.to_vec(), value).is_none(), "key {k:?} seen twice");
        }
        match chunk.upto {
            End::At(next) => {
                assert!(next > window.lo, "scan does not advance");
                window.lo = next;
            }
            End::Open => break,
        }
    }
    out
}

fn get(store: &Store, root: &NodeRef, key: &[u8]) -> Option<Vec<u8>> {
    store.value_of(&store.find(root, key, None).expect("find"), CachePolicy::Caller).expect("read")
}

struct World {
    random: Xoshiro256PlusPlus,
    keys: u64,
}

impl World {
    fn below(&mut self, n: u64) -> u64 {
        self.random.next_u64() % n
    }

    fn dir(&mut self) -> Vec<u8> {
        format!("{}/", (b'a' + self.below(6) as u8) as char).into_bytes()
    }

    fn key(&mut self) -> Vec<u8> {
        let mut key = self.dir();
        if self.below(3) == 0 {
            key.extend(self.dir());
        }
        key.extend(format!("{:04}", self.below(self.keys)).bytes());
        key
    }

    fn batch(&mut self, model: &mut Model) -> Memtable {
        let mut table = Memtable::default();
        for _ in 0..self.below(60) {
            let key = self.key();
            match self.below(20) {
                0..10 => {
                    let value = vec![self.below(256) as u8; self.below(120) as usize];
                    table.push(&key, Op::put(&value));
                    model.insert(key, value);
                }
                10..15 => {
                    let (off, byte) = (self.below(60), self.below(256) as u8);
                    table.push(&key, Op::patch(off as u32, &[byte; 3]));
                    let value = model.entry(key).or_default();
                    value.resize(value.len().max(off as usize + 3), 0);
                    value[off as usize..off as usize + 3].fill(byte);
                }
                15..18 => {
                    table.push(&key, Op::delete());
                    model.remove(&key);
                }
                18 => {
                    let mut ends = [key, self.key()];
                    ends.sort();
                    let range = KeyRange::new(&ends[0], &ends[1]);
                    // Mostly short ranges, or the map would stay empty.
                    if self.below(4) > 0 || ends[0][..2] == ends[1][..2] {
                        table.delete_range(&range);
                        model.retain(|k, _| !range.contains(k));
                    }
                }
                _ => {
                    if self.below(4) == 0 {
                        let range = KeyRange::prefix(&self.dir());
                        table.delete_range(&range);
                        model.retain(|k, _| !range.contains(k));
                    }
                }
            }
        }
        table
    }

    /// Two prefixes of which neither begins with the other.
    fn two_dirs(&mut self) -> (Key, Key) {
        loop {
            let (mut a, mut b) = (self.dir(), self.dir());
            if self.below(3) == 0 {
                a.extend(self.dir());
            }
            if self.below(3) == 0 {
                b.extend(self.dir());
            }
            if !a.starts_with(&b) && !b.starts_with(&a) {
                return (a.into(), b.into());
            }
        }
    }
}

fn clone_in_model(model: &mut Model, from: &[u8], to: &[u8]) {
    model.retain(|k, _| !k.starts_with(to));
    let copies: Vec<_> = model
        .iter()
        .filter(|(k, _)| k.starts_with(from))
        .map(|(k, v)| ([to, &k[from.len()..]].concat(), v.clone()))
        .collect();
    model.extend(copies);
}

fn run(seed: u64, steps: u64, cache_bytes: usize, clones: bool) {
    println!("seed {seed}");
    let store = store(cache_bytes);
    let mut w = World { random: Xoshiro256PlusPlus::seed_from_u64(seed), keys: 200 };
    let mut model = Model::new();
    let mut root = store.empty_tree();
    let mut snapshots: Vec<(NodeRef, Model)> = Vec::new();
    for step in 0..steps {
        if clones && w.below(6) == 0 {
            let (from, to) = w.two_dirs();
            root = match w.below(8) {
                0 => store.copy_prefix(&root, &from, &to).expect("copy"),
                _ => store.clone_prefix(&root, &from, &to).expect("clone"),
            };
            clone_in_model(&mut model, &from, &to);
        } else {
            let batch = w.batch(&mut model).freeze();
            root = store.apply(&root, &batch).expect("apply");
        }
        if cache_bytes < 1 << 20 {
            store.write_dirty(cache_bytes / 2).expect("write back");
        }
        for _ in 0..10 {
            let key = w.key();
            assert_eq!(
                get(&store, &root, &key),
                model.get(&key).cloned(),
                "seed {seed} step {step} key {key:?}"
            );
        }
        if step % 16 == 0 {
            assert_eq!(
                scan(&store, &root, KeyRange::all(), step % 32 == 0),
                model,
                "seed {seed} step {step}"
            );
            let range = KeyRange::prefix(&w.dir());
            let expected: Model = model
                .iter()
                .filter(|(k, _)| range.contains(k))
                .map(|(k, v)| (k.clone(), v.clone()))
                .collect();
            assert_eq!(scan(&store, &root, range, true), expected);
            snapshots.push((root.clone(), model.clone()));
        }
    }
    assert!(clones || root.level() >= 2, "tree too small to prove much: level {}", root.level());
    for (snapshot, model) in &snapshots {
        assert_eq!(&scan(&store, snapshot, KeyRange::all(), false), model, "an old root changed");
    }
    snapshots.clear();
    // Everything can be written, and everything is freed when the last root goes.
    let block = store.write_tree(&root).expect("write");
    assert_eq!(store.meter.dirty(), 0);
    assert_eq!(store.table.audit(0, UNITS, &[]), Vec::<String>::new());
    assert_eq!(scan(&store, &root, KeyRange::all(), true), model);
    drop((root, block));
    assert_eq!(store.table.free_units(), UNITS, "space leaked");
    assert_eq!((store.meter.resident(), store.meter.dirty(), store.meter.unwritten()), (0, 0, 0));
}

#[test]
fn random_batches_agree_with_a_map_in_memory() {
    (0..4).for_each(|seed| run(seed, 300, 1 << 30, false));
}

#[test]
fn random_batches_agree_with_a_map_under_eviction() {
    (10..14).for_each(|seed| run(seed, 150, 10_000, false));
}

#[test]
fn clones_agree_with_copies_in_memory() {
    (20..28).for_each(|seed| run(seed, 150, 1 << 30, true));
}

#[test]
fn clones_agree_with_copies_under_eviction() {
    (30..34).for_each(|seed| run(seed, 120, 10_000, true));
}

#[test]
fn deleting_a_whole_range_drops_subtrees_without_reading_them() {
    let store = store(1 << 30);
    let mut table = Memtable::default();
    for i in 0..3000u32 {
        table.push(format!("d/{i:06}").as_bytes(), Op::put(&[1; 50]));
    }
    let root = store.apply(&store.empty_tree(), &table.freeze()).expect("apply");
    assert!(root.level() >= 2);
    let before = store.meter.resident();
    let mut table = Memtable::default();
    table.delete_range(&KeyRange::prefix(b"d/"));
    let mut root = root;
    let nodes = store.meter.unwritten();
    root = store.apply(&root, &table.freeze()).expect("apply");
    assert!(store.counters.subtrees_dropped.load(std::sync::atomic::Ordering::Relaxed) > 0);
    assert!(scan(&store, &root, KeyRange::all(), false).is_empty());
    // What is left hangs under the first and last edge of the root, which the range covers only in part.
    assert!(
        store.meter.resident() < before * 2 / 3,
        "{} of {before} bytes still held",
        store.meter.resident()
    );
    assert!(store.meter.unwritten() < nodes);
}

#[test]
fn what_is_deleted_in_leaves_that_memory_holds_is_not_written() {
    const VALUE: usize = 2000;
    const KEYS: u32 = 60;
    let shape = NodeSizes { leaf_bytes: 40_000, basement_bytes: 10_000, buffer_bytes: 50_000, fanout: 6 };
    let key = |i: u32| format!("k{i:03}").into_bytes();
    let value = |i: u32| {
        // No codec makes it smaller.
        let mut bytes = vec![0; VALUE];
        Xoshiro256PlusPlus::seed_from_u64(i.into()).fill_bytes(&mut bytes);
        bytes
    };
    for by_range in [true, false] {
        let store = store_of(shape, 1 << 30);
        let mut table = Memtable::default();
        (0..KEYS).for_each(|i| table.push(&key(i), Op::put(&value(i))));
        let before = store.apply(&store.empty_tree(), &table.freeze()).expect("apply");
        assert_eq!(before.level(), 1, "leaves right below the root");
        // Two of three, none of the ranges as long as a leaf.
        let mut table = Memtable::default();
        for i in (0..KEYS).step_by(3) {
            match by_range {
                true => table.delete_range(&KeyRange::new(&key(i), &key(i + 2))),
                false => [i, i + 1].iter().for_each(|i| table.push(&key(*i), Op::delete())),
            }
        }
        let deletes = table.freeze();
        assert!(deletes.weight() < store.buffer_bytes() / 2, "there is room for them above the leaves");
        let root = store.apply(&before, &deletes).expect("apply");
        drop(before);
        let left: Model = (0..KEYS).filter(|i| i % 3 == 2).map(|i| (key(i), value(i))).collect();
        assert_eq!(scan(&store, &root, KeyRange::all(), false), left);
        let _block = store.write_tree(&root).expect("write");
        let written = store.counters.node_bytes_written.load(std::sync::atomic::Ordering::Relaxed) as usize;
        assert!(written < left.len() * VALUE * 2, "{written} bytes by range {by_range}");
        assert_eq!(scan(&store, &root, KeyRange::all(), false), left);
    }
}

#[test]
fn repeated_renames_do_not_deepen_the_tree() {
    let store = store(1 << 30);
    let mut table = Memtable::default();
    for i in 0..3000u32 {
        table.push(format!("a/{i:06}").as_bytes(), Op::put(&[1; 50]));
        table.push(format!("z/{i:06}").as_bytes(), Op::put(&[2; 50]));
    }
    let mut root = store.apply(&store.empty_tree(), &table.freeze()).expect("apply");
    let before = root.level();
    for i in 0..50 {
        let (from, to): (Key, Key) = if i % 2 == 0 {
            (b"a/"[..].into(), b"b/"[..].into())
        } else {
            (b"b/"[..].into(), b"a/"[..].into())
        };
        root = store.clone_prefix(&root, &from, &to).expect("clone");
        let mut table = Memtable::default();
        table.delete_range(&KeyRange::prefix(&from));
        root = store.apply(&root, &table.freeze()).expect("apply");
    }
    assert_eq!(scan(&store, &root, KeyRange::prefix(b"a/"), false).len(), 3000);
    assert!(root.level() <= before + 2, "level {} after {before}", root.level());
}
