//! The database against a sorted map: random batches, power cuts, faults, full storage, threads.

mod aged;
mod crash;
mod extents;
mod faults;
pub(crate) mod model;
mod panics;
mod space;
mod spill;
mod steps;
mod threads;
mod trial;

use super::*;
use crate::error::Error;
use crate::storage::SimStorage;
use crate::{Compression, storage::UNIT};
use model::{World, contents};

pub(crate) fn sim(units: u64) -> SimStorage {
    SimStorage::new(units * UNIT as u64)
}

/// The seeds to try: `BETREE_SEEDS=A..B` instead of the first few, to search longer or to repeat a failure.
pub(crate) fn seeds(usual: u64) -> std::ops::Range<u64> {
    let Ok(text) = std::env::var("BETREE_SEEDS") else { return 0..usual };
    let (from, to) = text.split_once("..").expect("BETREE_SEEDS is A..B");
    from.parse().expect("first seed")..to.parse().expect("last seed")
}

fn assert_sound(db: &Db) {
    let report = db.verify().expect("verify");
    assert_eq!(report.problems, Vec::<String>::new());
    assert!(report.nodes > 0);
}

#[test]
fn random_batches_agree_with_a_map_across_reopening() {
    agree_with_a_map(seeds(6), &Options::tiny());
}

fn agree_with_a_map(seeds: std::ops::Range<u64>, options: &Options) {
    for seed in seeds {
        println!("seed {seed}");
        let compression = [Compression::None, Compression::Lz4, Compression::Zstd(1)][seed as usize % 3];
        let options = Options { compression, discard: seed.is_multiple_of(2), ..options.clone() };
        let storage = sim(4096);
        let mut db = Db::create(storage.clone(), options.clone()).expect("create");
        let mut world = World::new(seed);
        for step in 0..250 {
            world.write(&db);
            world.check_some(&db);
            match world.below(40) {
                0 => db.sync().expect("sync"),
                1 => db.checkpoint().expect("checkpoint"),
                2 => assert_sound(&db),
                3 => {
                    db.close().expect("close");
                    db = Db::open(storage.clone(), options.clone()).expect("open");
                }
                4 => {
                    // Dropped without closing: the log is replayed.
                    drop(db);
                    db = Db::open(storage.clone(), options.clone()).expect("open");
                }
                _ => {}
            }
            if step % 25 == 0 {
                assert_eq!(contents(&db), world.model, "seed {seed} step {step}");
            }
        }
        assert_eq!(contents(&db), world.model);
        assert_eq!(db.last_msn(), world.batches, "one number for each batch");
        assert_sound(&db);
    }
}

#[test]
fn a_scan_sees_the_state_at_its_start() {
    let db = Db::create(sim(4096), Options::tiny()).expect("create");
    let mut world = World::new(77);
    (0..100).for_each(|_| world.write(&db));
    let before = world.model.clone();
    let mut scan = db.scan(&KeyRange::all());
    let mut seen = model::Model::new();
    for _ in 0..100 {
        if let Some(item) = scan.next() {
            let (k, v) = item.expect("scan");
            seen.insert(k, v);
        }
        world.write(&db);
    }
    db.delete_range(&KeyRange::all()).expect("delete");
    db.checkpoint().expect("checkpoint");
    for item in scan {
        let (k, v) = item.expect("scan");
        seen.insert(k, v);
    }
    assert_eq!(seen, before);
    assert_eq!(contents(&db), model::Model::new());
}

#[test]
fn space_returns_when_everything_is_deleted() {
    let db = Db::create(sim(4096), Options::tiny()).expect("create");
    // The table may have a few pieces more.
    let unlisted = || {
        let last = db.inner.checkpoint.lock().expect("nobody failed");
        let table: u64 = last.place.segments().iter().map(|s| s.bytes()).sum();
        db.stats().free_bytes + table
    };
    let empty = unlisted();
    let mut world = World::new(5);
    (0..200).for_each(|_| world.write(&db));
    db.checkpoint().expect("checkpoint");
    assert!(unlisted() < empty);
    db.delete_range(&KeyRange::all()).expect("delete");
    db.checkpoint().expect("checkpoint");
    db.checkpoint().expect("checkpoint");
    assert_eq!(unlisted(), empty);
    assert_eq!(db.stats().nodes, 1);
}

#[test]
fn large_values_stay_out_of_the_log_and_patches_of_them_work() {
    let options = Options { log_bytes: 16 * UNIT as u64, ..Options::tiny() };
    let storage = sim(4096);
    let db = Db::create(storage.clone(), options.clone()).expect("create");
    let big: Vec<u8> = (0..300_000u32).map(|i| (i / 3) as u8).collect();
    db.put(b"big", &big).expect("a value larger than the log");
    let mut batch = WriteBatch::new();
    (0..64u8).for_each(|i| _ = batch.put(&[b'r', i], &[i; 4096]));
    db.write(batch).expect("a batch larger than the log");
    db.patch(b"big", 100_000, b"patched").expect("patch");
    db.sync().expect("sync");
    assert!(db.stats().log_fill < 400);
    assert_eq!(db.stats().extents, 2);
    let mut expected = big;
    expected[100_000..100_007].copy_from_slice(b"patched");
    assert_eq!(db.get(b"big").expect("get").as_ref(), Some(&expected));
    drop(db);
    let db = Db::open(storage, options).expect("open");
    assert_eq!(db.get(b"big").expect("get").as_ref(), Some(&expected));
    let rows: Vec<_> = db.scan(&KeyRange::prefix(b"r")).map(|r| r.expect("scan")).collect();
    assert_eq!(rows.len(), 64);
    assert!(rows.iter().enumerate().all(|(i, (_, v))| *v == [i as u8; 4096]));
    // Enough patches turn the value into a new extent without them.
    for i in 0..40u32 {
        db.patch(b"big", i * 7000, &[9; 2500]).expect("patch");
        expected[(i * 7000) as usize..][..2500].fill(9);
        db.checkpoint().expect("checkpoint");
    }
    assert_eq!(db.get(b"big").expect("get").as_ref(), Some(&expected));
    assert_sound(&db);
    db.delete_range(&KeyRange::all()).expect("delete");
    db.checkpoint().expect("checkpoint");
    db.checkpoint().expect("checkpoint");
    assert_eq!(db.stats().extents, 0, "extents leaked");
}

#[test]
fn what_cannot_be_opened_says_why() {
    let options = Options::tiny();
    assert!(matches!(Db::open(sim(1000), options.clone()), Err(Error::NotAStore(_))));
    assert!(matches!(Db::create(sim(70), options.clone()), Err(Error::Invalid(_))));
    let storage = sim(1000);
    drop(Db::create(storage.clone(), options.clone()).expect("create"));
    let half = SimStorage::from_image(storage.image()[..500 * UNIT].to_vec());
    assert!(matches!(Db::open(half, options), Err(Error::NotAStore(_))));
}

#[test]
fn keys_that_share_more_than_the_rest_of_a_header_can_be_read_back() {
    let storage = sim(4096);
    let db = Db::create(storage.clone(), Options::tiny()).expect("create");
    let key = |i: u32| [&b"a/long/path/common/to/all/keys/".repeat(20)[..], &i.to_be_bytes()].concat();
    (0..400).for_each(|i| _ = db.put(&key(i), &[1; 20]).expect("put"));
    db.close().expect("close");
    let db = Db::open(storage, Options::tiny()).expect("open");
    assert!((0..400).all(|i| db.get(&key(i)).expect("get").is_some()));
    assert_sound(&db);
}

#[test]
fn a_refused_batch_leaves_no_trace() {
    let db = Db::create(sim(1000), Options::tiny()).expect("create");
    db.put(b"a/1", b"x").expect("put");
    let mut batch = WriteBatch::new();
    batch.put(b"a/2", b"y").rename_range(b"a/", b"a/b/");
    assert!(matches!(db.write(batch), Err(Error::Invalid(_))));
    let mut batch = WriteBatch::new();
    (0..100u32).for_each(|i| _ = batch.put(&i.to_be_bytes(), &[0; 1000]));
    assert!(matches!(db.write(batch), Err(Error::Invalid(_))), "larger than an eighth of the log");
    assert_eq!(contents(&db).len(), 1);
    assert_eq!(db.last_msn(), 1);
}

#[test]
fn values_that_a_small_log_cannot_take_go_to_extents() {
    let options = Options { log_bytes: 16 * UNIT as u64, ..Options::tiny() };
    let room = options.log_bytes as usize / 8;
    let storage = sim(4096);
    let db = Db::create(storage.clone(), options.clone()).expect("create");
    let mut batch = WriteBatch::new();
    (0..4u32).for_each(|i| _ = batch.put(&i.to_be_bytes(), &vec![i as u8 + 1; room / 2]));
    db.write(batch).expect("write");
    db.sync().expect("sync");
    drop(db);
    let db = Db::open(storage, options).expect("open");
    for i in 0..4u32 {
        assert!(db.get(&i.to_be_bytes()).expect("get").is_some_and(|v| v[..] == vec![i as u8 + 1; room / 2]));
    }
    assert_sound(&db);
}

#[test]
fn small_patches_of_values_in_extents_read_nothing() {
    let storage = sim(4096);
    let db = Db::create(storage.clone(), Options::tiny()).expect("create");
    let mut batch = WriteBatch::new();
    (0..100u8).for_each(|i| _ = batch.put(&[i], &[0xA7; 2048]));
    db.write(batch).expect("write");
    db.checkpoint().expect("checkpoint");
    // The values cannot be read any more, so patching them only works without.
    let image = storage.image();
    for (unit, bytes) in image.chunks(UNIT).enumerate().filter(|(_, bytes)| **bytes == [0xA7; UNIT]) {
        storage.corrupt((unit * UNIT) as u64, &vec![0; bytes.len()]);
    }
    assert!(matches!(db.get(&[7]), Err(Error::Corrupt { .. })));
    let mut expected = vec![vec![0; 2048]; 100];
    for round in 0..8usize {
        for (i, value) in expected.iter_mut().enumerate() {
            let off = (round * 3 % 8) * 256;
            db.patch(&[i as u8], off as u32, &[round as u8 + 1; 256]).expect("patch");
            value[off..off + 256].fill(round as u8 + 1);
        }
        db.checkpoint().expect("checkpoint");
    }
    assert!((0..100u8).all(|i| db.get(&[i]).expect("get").as_ref() == Some(&expected[i as usize])));
}
