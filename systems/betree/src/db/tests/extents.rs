//! Extents in memory: they are what they were written as, cost no reads, and go when they should.

use super::model::{World, contents};
use super::{agree_with_a_map, assert_sound, seeds, sim};
use crate::block::BlockKind;
use crate::db::{CachedExtents, Db, Options};
use crate::storage::{SimStorage, Storage, UNIT};
use crate::{Error, KeyRange, WriteBatch};
use std::collections::BTreeSet;

const MIB: usize = 1 << 20;

/// Small nodes, extents of up to 100 KiB in memory.
fn options(cached_extents: CachedExtents, cache_bytes: usize) -> Options {
    Options { cached_extents, cache_bytes, ..Options::tiny() }
}

/// `len` bytes that tell which value they are of and where they lie in it.
fn value(n: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i / 97 + n * 31 + i * n % 7) as u8).collect()
}

#[test]
fn random_batches_agree_with_a_map_whatever_is_kept_in_memory() {
    for kept in [CachedExtents::All, CachedExtents::Written, CachedExtents::Nothing] {
        // So small that nearly everything is evicted; most extents have their turn; all stay.
        for cache_bytes in [64 << 10, 256 << 10, 16 << 20] {
            println!("{kept:?}, {cache_bytes} bytes");
            agree_with_a_map(seeds(4), &options(kept, cache_bytes));
        }
    }
}

#[test]
fn random_batches_agree_with_a_map_while_threads_write_and_evict_extents() {
    for seed in seeds(3) {
        println!("seed {seed}");
        let options = Options { background: true, ..options(CachedExtents::All, 256 << 10) };
        let storage = sim(8192);
        let db = Db::create(storage.clone(), options.clone()).expect("create");
        let mut world = World::new(seed);
        for step in 0..300 {
            world.write(&db);
            world.check_some(&db);
            if step % 50 == 0 {
                assert_eq!(contents(&db), world.model, "seed {seed} step {step}");
                db.checkpoint().expect("checkpoint");
            }
        }
        assert_eq!(contents(&db), world.model);
        let stats = db.stats();
        assert!(stats.extent_bytes_at_hand > 0 && stats.evictions > 0, "{stats:?}");
        assert_sound(&db);
        db.close().expect("close");
        assert_eq!(contents(&Db::open(storage, options).expect("open")), world.model);
    }
}

/// Where the only extent lies, in units.
fn place(db: &Db) -> u64 {
    let list = db.inner.store.table.list();
    let mut extents = list.iter().filter(|(_, info, _)| info.kind == BlockKind::Extent);
    let (_, info, _) = extents.next().expect("an extent");
    assert!(extents.next().is_none(), "more than one");
    info.segments[0].start
}

#[test]
fn an_old_extent_is_never_served_for_a_new_one_at_the_same_place() {
    for kept in [CachedExtents::All, CachedExtents::Written] {
        let options = options(kept, 2 * MIB);
        let storage = sim(1024);
        let mut db = Db::create(storage.clone(), options.clone()).expect("create");
        let mut places = Vec::new();
        for n in 0..40 {
            // Of several lengths, so that the memory of a longer one would still be there behind a shorter one.
            let new = value(n, 100_000 + n * 7919 % 50_000);
            db.put(b"key", &new).expect("put");
            assert_eq!(db.get(b"key").expect("get").as_ref(), Some(&new), "{kept:?}, value {n} in memory");
            db.checkpoint().expect("checkpoint");
            // The old version goes with the checkpoint before.
            db.checkpoint().expect("checkpoint");
            places.push(place(&db));
            assert_eq!(db.get(b"key").expect("get").as_ref(), Some(&new), "{kept:?}, value {n} in its place");
            match n % 4 {
                1 => {
                    db.close().expect("close");
                    db = Db::open(storage.clone(), options.clone()).expect("open");
                    assert_eq!(db.get(b"key").expect("get").as_ref(), Some(&new), "value {n} read again");
                }
                2 => {
                    db.delete(b"key").expect("delete");
                    db.checkpoint().expect("checkpoint");
                    db.checkpoint().expect("checkpoint");
                    assert_eq!(db.stats().extents, 0);
                }
                _ => {}
            }
        }
        let distinct: BTreeSet<u64> = places.iter().copied().collect();
        let again = places.len() - distinct.len();
        assert!(again > 10, "places were used again only {again} times: {places:?}");
    }
}

#[test]
fn a_scan_of_an_older_state_gets_its_own_extents_while_new_ones_come_and_go() {
    let db = Db::create(sim(8192), options(CachedExtents::All, MIB)).expect("create");
    let put = |n: usize| {
        let mut batch = WriteBatch::new();
        (0..20u8).for_each(|i| _ = batch.put(&[i], &value(n + i as usize, 9000)));
        db.write(batch).expect("write");
    };
    put(0);
    db.checkpoint().expect("checkpoint");
    let mut scan = db.scan(&KeyRange::all());
    for i in 0..20u8 {
        put(100 * (1 + i as usize));
        db.checkpoint().expect("checkpoint");
        db.checkpoint().expect("checkpoint");
        let (key, found) = scan.next().expect("one more").expect("scan");
        assert_eq!((key, found), (vec![i], value(i as usize, 9000)));
        let newest = value(100 * (1 + i as usize) + i as usize, 9000);
        assert_eq!(db.get(&[i]).expect("get"), Some(newest));
    }
}

/// Values of 100 KiB, one after the other.
fn load(db: &Db, values: usize) {
    (0..values).for_each(|n| _ = db.put(&n.to_be_bytes(), &value(n, 100 << 10)).expect("put"));
    db.checkpoint().expect("checkpoint");
}

/// Gets them all; returns the bytes read from storage.
fn bytes_read(db: &Db, values: usize) -> u64 {
    let before = db.stats().bytes_read;
    for n in 0..values {
        assert!(db.get(&n.to_be_bytes()).expect("get") == Some(value(n, 100 << 10)), "value {n}");
    }
    for (n, item) in db.scan(&KeyRange::all()).enumerate() {
        assert!(item.expect("scan").1 == value(n, 100 << 10), "value {n}");
    }
    db.stats().bytes_read - before
}

#[test]
fn what_was_just_written_or_read_is_not_read_again() {
    let all = 20 * (100 << 10);
    // For each way: bytes read after writing, after opening, and once more.
    for (kept, expected) in [
        (CachedExtents::All, [0, all, 0]),
        (CachedExtents::Written, [0, 2 * all, 2 * all]),
        (CachedExtents::Nothing, [2 * all, 2 * all, 2 * all]),
    ] {
        for background in [false, true] {
            let options = Options { background, ..options(kept, 8 * MIB) };
            let storage = sim(4096);
            let db = Db::create(storage.clone(), options.clone()).expect("create");
            load(&db, 20);
            let mut read = vec![bytes_read(&db, 20)];
            let at_hand = db.stats().extent_bytes_at_hand;
            assert!(if expected[0] == 0 { at_hand >= 2 * all } else { at_hand < 2 * all });
            db.close().expect("close");
            let db = Db::open(storage, options).expect("open");
            read.extend([bytes_read(&db, 20), bytes_read(&db, 20)]);
            for (read, expected) in read.iter().zip(expected) {
                let nodes = 100_000;
                assert!((expected..=expected + nodes).contains(read), "{kept:?}: {read}, not {expected}");
            }
        }
    }
}

#[test]
fn what_is_freed_leaves_memory_and_the_budget_holds() {
    let budget = 2 * MIB;
    let db = Db::create(sim(8192), options(CachedExtents::All, budget)).expect("create");
    load(&db, 10);
    let kept = db.stats().cached_bytes;
    assert!(kept > 10 * (100 << 10), "{kept} bytes");
    for n in 0..5usize {
        db.delete(&n.to_be_bytes()).expect("delete");
    }
    db.checkpoint().expect("checkpoint");
    db.checkpoint().expect("checkpoint");
    assert_eq!(db.stats().extents, 5);
    let left = db.stats().cached_bytes;
    assert!(left + 5 * (100 << 10) <= kept, "{left} of {kept} bytes are left");
    for n in 0..100usize {
        db.put(&n.to_be_bytes(), &value(n, 100 << 10)).expect("put");
        assert!(db.stats().cached_bytes <= budget);
    }
    db.checkpoint().expect("checkpoint");
    bytes_read(&db, 100);
    let stats = db.stats();
    assert!(stats.cached_bytes <= budget && stats.cached_bytes > budget / 2, "{} bytes", stats.cached_bytes);
    assert!(stats.evictions > 50);
}

#[test]
fn damage_below_is_found_by_verify_and_by_whoever_reads_it() {
    let storage = sim(2048);
    let db = Db::create(storage.clone(), options(CachedExtents::All, 8 * MIB)).expect("create");
    load(&db, 2);
    let at = place_of_value(&storage, &value(1, 100 << 10));
    storage.corrupt(at as u64, &[0x5A; 64]);
    assert_eq!(db.get(&1usize.to_be_bytes()).expect("in memory"), Some(value(1, 100 << 10)));
    assert!(!db.verify().expect("verify").problems.is_empty());
    drop(db);
    let db = Db::open(storage, options(CachedExtents::All, 8 * MIB)).expect("open");
    for _ in 0..2 {
        assert!(matches!(db.get(&1usize.to_be_bytes()), Err(Error::Corrupt { .. })), "kept nothing of it");
    }
    assert_eq!(db.get(&0usize.to_be_bytes()).expect("get"), Some(value(0, 100 << 10)));
}

fn place_of_value(storage: &SimStorage, value: &[u8]) -> usize {
    let mut image = vec![0; storage.len().expect("length") as usize];
    storage.read_at(&mut image, 0).expect("read");
    let unit = image.chunks(UNIT).position(|unit| *unit == value[..UNIT]).expect("the value");
    unit * UNIT
}

#[test]
fn a_visit_shows_what_a_scan_returns() {
    for seed in seeds(3) {
        let db = Db::create(sim(4096), options(CachedExtents::All, 256 << 10)).expect("create");
        let mut world = World::new(seed);
        (0..150).for_each(|_| world.write(&db));
        let mut shown = Vec::new();
        let mut scan = db.scan(&KeyRange::all());
        while let Some(one) = scan.visit(|key, value| shown.push((key.to_vec(), value.to_vec()))) {
            one.expect("scan");
        }
        assert!(shown.into_iter().eq(world.model), "seed {seed}");
    }
}
