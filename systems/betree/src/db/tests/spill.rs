//! Messages that wait in inner nodes with their bytes in extents.

use super::model::{Model, World, contents};
use super::*;
use crate::db::drain::DrainStep;
use crate::key::Key;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

fn key(i: u64) -> Vec<u8> {
    format!("k{i:05}").into_bytes()
}

/// Values for `n` keys in order, all in leaves, and little memory.
fn filled(storage: &SimStorage, n: u64) -> (Db, Model) {
    filled_with(storage, n, Options::tiny().cache_bytes)
}

fn filled_with(storage: &SimStorage, n: u64, cache_bytes: usize) -> (Db, Model) {
    let options = Options { memtable_bytes: 16 << 10, buffer_bytes: 8 << 10, cache_bytes, ..Options::tiny() };
    let db = Db::create(storage.clone(), options).expect("create");
    let mut model = Model::new();
    for i in 0..n {
        let value = vec![i as u8; 300];
        db.put(&key(i), &value).expect("put");
        model.insert(key(i), value);
    }
    db.checkpoint().expect("checkpoint");
    assert_eq!(db.stats().spilled_bytes, 0, "what is new in key order goes to leaves as it is");
    (db, model)
}

#[test]
fn sparse_changes_wait_in_extents_and_are_seen_at_once() {
    for seed in seeds(6) {
        println!("seed {seed}");
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut below = move |n: u64| random.next_u64() % n;
        let storage = sim(8192);
        let (mut db, mut model) = filled(&storage, 2000);
        let mut spilled = 0;
        for turn in 0..3000 {
            let k = key(below(2100));
            match below(10) {
                0..4 => {
                    let value = vec![below(256) as u8; below(400) as usize];
                    db.put(&k, &value).expect("put");
                    model.insert(k, value);
                }
                4..8 => {
                    let (off, len) = (below(400) as usize, below(200) as usize);
                    let bytes = vec![below(256) as u8; len];
                    db.patch(&k, off as u32, &bytes).expect("patch");
                    let value = model.entry(k).or_default();
                    if len > 0 {
                        value.resize(value.len().max(off + len), 0);
                        value[off..off + len].copy_from_slice(&bytes);
                    }
                }
                8 => {
                    let mut batch = WriteBatch::new();
                    batch.truncate(&k, below(300) as u32 / 2);
                    let len = match batch.clone().into_changes().pop() {
                        Some(crate::batch::Change::Key(_, op)) => op.edits.and_then(|e| e.cut),
                        other => panic!("a truncation is a message: {other:?}"),
                    };
                    db.write(batch).expect("truncate");
                    if let (Some(value), Some(len)) = (model.get_mut(&k), len) {
                        value.truncate(len as usize);
                    }
                }
                _ => {
                    db.delete(&k).expect("delete");
                    model.remove(&k);
                }
            }
            let k = key(below(2100));
            assert_eq!(db.get(&k).expect("get"), model.get(&k).cloned(), "turn {turn}");
            if turn % 1000 == 999 {
                assert!(contents(&db) == model, "turn {turn}");
                assert_eq!(db.verify().expect("verify").problems, Vec::<String>::new());
                spilled += db.stats().spilled_bytes;
                db.close().expect("close");
                db = Db::open(storage.clone(), Options::tiny()).expect("open");
                assert!(contents(&db) == model, "opened after turn {turn}");
            }
        }
        assert!(spilled > 100_000, "{spilled} bytes were spilled: this test has tried nothing");
    }
}

#[test]
fn what_memory_holds_is_not_spilled() {
    for (cache_bytes, whole) in [(64 << 10, true), (64 << 10, false), (64 << 20, true), (64 << 20, false)] {
        let (db, _) = filled_with(&sim(8192), 2000, cache_bytes);
        for i in 0..2000 {
            let key = key(i * 7919 % 2000);
            if whole { db.put(&key, &[7; 200]) } else { db.patch(&key, 10, &[7; 200]) }.expect("write");
        }
        let spilled = db.stats().spilled_bytes;
        assert_eq!(
            spilled > 0,
            cache_bytes < 1 << 20,
            "{spilled} bytes, cache of {cache_bytes}, values: {whole}"
        );
    }
}

#[test]
fn spilled_extents_go_with_the_messages() {
    let storage = sim(8192);
    let (db, _) = filled(&storage, 2000);
    for i in 0..2000 {
        db.put(&key(i * 7919 % 2000), &[7; 200]).expect("put");
    }
    db.checkpoint().expect("checkpoint");
    let stats = db.stats();
    assert!(stats.spilled_bytes > 0 && stats.extents > 0, "{stats:?}");
    (0..2000).for_each(|i| _ = db.put(&key(i), &[8; 300]).expect("put"));
    db.checkpoint().expect("checkpoint");
    assert!(contents(&db).values().all(|v| v[..] == [8; 300]));
    db.delete_range(&KeyRange::all()).expect("delete");
    db.checkpoint().expect("checkpoint");
    assert_eq!(db.stats().extents, 0, "extents without messages");
}

/// Writes all over a store of which a fifth is in use, many times what it holds: space does not run short, and what is
/// written for each byte does not grow.
#[test]
fn writes_without_end_cost_the_same_to_the_last() {
    for (seed, whole) in seeds(2).flat_map(|seed| [(seed, true), (seed, false)]) {
        println!("seed {seed}, whole values: {whole}");
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut below = move |n: u64| random.next_u64() % n;
        const KEYS: u64 = 8000;
        let storage = sim(4096);
        let (db, mut model) = filled(&storage, KEYS);
        let written = |db: &Db| {
            let stats = db.stats();
            stats.node_bytes_written + stats.extent_bytes_written
        };
        let mut costs = Vec::new();
        for _ in 0..6 {
            let (before, mut bytes) = (written(&db), 0);
            for _ in 0..KEYS {
                let (k, byte) = (key(below(KEYS)), below(256) as u8);
                let value = model.get_mut(&k).expect("every key has a value");
                if whole {
                    *value = vec![byte; 300];
                    db.put(&k, value).expect("put");
                    bytes += 300;
                } else {
                    let off = below(200) as usize;
                    value[off..off + 100].fill(byte);
                    db.patch(&k, off as u32, &[byte; 100]).expect("patch");
                    bytes += 100;
                }
                let short = db.inner.store.short.load(std::sync::atomic::Ordering::Relaxed);
                assert!(!short, "space is short: {costs:?} {:?}", db.stats());
            }
            costs.push((written(&db) - before) as f64 / bytes as f64);
        }
        println!("written for each byte: {costs:.1?}");
        assert!(contents(&db) == model);
        assert_sound(&db);
        assert!(db.stats().spilled_bytes > 0, "nothing was spilled");
        let worst = costs[2..].iter().copied().fold(0.0, f64::max);
        assert!(worst < 1.5 * costs[1], "{costs:.1?}");
    }
}

/// Draining reads what nobody has asked for; what it cannot read is no reason to refuse other writes.
#[test]
fn a_damaged_leaf_does_not_stop_the_draining() {
    let storage = sim(4096);
    const KEYS: u64 = 8000;
    let (db, _) = filled(&storage, KEYS);
    for i in 0..100 {
        let byte = if (5..10).contains(&i) { 0xA7 } else { 0xA6 };
        db.put(format!("a{i:02}").as_bytes(), &[byte; 300]).expect("put");
    }
    db.checkpoint().expect("checkpoint");
    db.close().expect("close");
    for (unit, _) in storage
        .image()
        .chunks(UNIT)
        .enumerate()
        .filter(|(_, bytes)| bytes.windows(200).any(|w| w == [0xA7; 200]))
    {
        // Behind the header, in the values.
        storage.corrupt((unit * UNIT + UNIT / 2) as u64, &[0; 64]);
    }
    let db =
        Db::open(storage, Options { memtable_bytes: 16 << 10, buffer_bytes: 8 << 10, ..Options::tiny() })
            .expect("open");
    assert!(matches!(db.get(b"a07"), Err(Error::Corrupt { .. })), "{:?}", db.get(b"a07"));
    db.patch(b"a07", 5, b"waits above the damage").expect("patch");
    (0..KEYS).step_by(50).for_each(|i| _ = db.put(&key(i), &[1; 20]).expect("put"));
    db.checkpoint().expect("what waits is not at its leaf");
    let mut from = Key::default();
    let mut steps = Vec::new();
    while steps.last() != Some(&DrainStep::Turn) {
        steps.push(db.inner.drain_next(&mut from, 1).expect("damage is passed over"));
    }
    assert!(steps.contains(&DrainStep::Damaged) && steps.contains(&DrainStep::Passed), "{steps:?}");
    assert_eq!(db.get(&key(50)).expect("get"), Some(vec![1; 20]));
    assert!(matches!(db.get(b"a07"), Err(Error::Corrupt { .. })));
}

/// Nodes become small by range deletes and clones while messages wait in them, and are drained at any moment.
#[test]
fn draining_changes_nothing_that_can_be_read() {
    for seed in seeds(12) {
        println!("seed {seed}");
        let options = Options { memtable_bytes: 2048, fanout: 4, ..Options::tiny() };
        let db = Db::create(sim(8192), options).expect("create");
        let mut world = World::new(seed);
        let (mut from, mut passed) = (Key::default(), 0);
        for turn in 0..600 {
            let batch = if world.below(3) == 0 { world.batch() } else { world.scattered() };
            db.write(batch).expect("write");
            if world.below(4) == 0 {
                let least = 1 + world.below(2000) as usize;
                passed +=
                    u32::from(db.inner.drain_next(&mut from, least).expect("drain") == DrainStep::Passed);
                assert!(contents(&db) == world.model, "seed {seed}, turn {turn}");
            }
        }
        assert!(passed > 20, "seed {seed}: {passed} nodes were drained: this test has tried little");
        assert_sound(&db);
    }
}

/// What was spilled takes its space twice when it is passed to its leaves. On a full store that may not take the space that a
/// delete needs.
#[test]
fn deletes_pass_on_a_full_store_that_has_spilled_much() {
    const KEYS: u64 = 1200;
    let (mut spilled, mut refused) = (0, 0);
    for seed in seeds(8) {
        println!("seed {seed}");
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut below = move |n: u64| random.next_u64() % n;
        let options = Options {
            leaf_bytes: 16 << 10,
            basement_bytes: 4 << 10,
            buffer_bytes: 8 << 10,
            memtable_bytes: 16 << 10,
            ..Options::tiny()
        };
        let storage = sim(768);
        let db = Db::create(storage.clone(), options.clone()).expect("create");
        let mut model = Model::new();
        for i in 0..KEYS {
            db.put(&key(i), &[i as u8; 700]).expect("put");
            model.insert(key(i), vec![i as u8; 700]);
        }
        db.checkpoint().expect("checkpoint");
        let patch =
            |model: &mut Model, k: Vec<u8>, off: usize, bytes: &[u8]| match db.patch(&k, off as u32, bytes) {
                Ok(_) => {
                    let value = model.entry(k).or_default();
                    value.resize(value.len().max(off + bytes.len()), 0);
                    value[off..off + bytes.len()].copy_from_slice(bytes);
                    0
                }
                Err(Error::NoSpace) => 1,
                Err(e) => panic!("patch: {e}"),
            };
        for _ in 0..1000 {
            let (k, off, byte) = (key(below(KEYS)), below(400) as usize, below(256) as u8);
            refused += patch(&mut model, k, off, &[byte; 250]);
        }
        spilled += db.stats().spilled_bytes;
        let mut large = 0u64;
        let mut fill = |model: &mut Model| loop {
            let k = format!("x{large:05}").into_bytes();
            match db.put(&k, &[large as u8; 20_000]) {
                Ok(_) => _ = model.insert(k, vec![large as u8; 20_000]),
                Err(Error::NoSpace) => break,
                Err(e) => panic!("put: {e}"),
            }
            large += 1;
        };
        for step in 0..600 {
            if step % 60 == 0 {
                fill(&mut model);
            }
            let k = key(below(KEYS));
            db.delete(&k).unwrap_or_else(|e| panic!("seed {seed}, delete {step} on a full store: {e}"));
            model.remove(&k);
            let (k, off, byte) = (key(below(KEYS)), below(400) as usize, below(256) as u8);
            refused += patch(&mut model, k, off, &[byte; 250]);
        }
        db.checkpoint().expect("checkpoint on a full store");
        assert!(contents(&db) == model);
        assert_sound(&db);
        drop(db);
        let db = Db::open(storage, options).expect("open a full store");
        assert!(contents(&db) == model, "opened");
    }
    assert!(
        spilled > 100_000 && refused > 100,
        "{spilled} bytes spilled, {refused} refused: this shows nothing"
    );
}
