//! Full storage and full log.

use super::model::{World, contents};
use super::*;
use crate::db::write::{ApplyOutcome, SpaceCheck};

fn fill(db: &Db, size: usize) -> u32 {
    for i in 0..1_000_000u32 {
        match db.put(&(i.wrapping_mul(2_654_435_761)).to_be_bytes(), &vec![i as u8; size]) {
            Ok(_) => {}
            Err(Error::NoSpace) => return i,
            Err(e) => panic!("after {i} puts: {e}"),
        }
    }
    panic!("never full");
}

#[test]
fn at_a_hundred_per_cent_deletes_and_checkpoints_still_succeed() {
    for size in [10, 700, 3000, 20_000] {
        let storage = sim(1024);
        let db = Db::create(storage.clone(), Options::tiny()).expect("create");
        let written = fill(&db, size);
        assert!(
            written as usize * (size + 52) > 1024 * UNIT / 4,
            "full after only {written} of {size} bytes"
        );
        db.checkpoint().expect("checkpoint on a full store");
        assert_eq!(contents(&db).len(), written as usize, "nothing acknowledged may be lost");
        assert_sound(&db);
        for i in 0..written {
            db.delete(&(i.wrapping_mul(2_654_435_761)).to_be_bytes())
                .unwrap_or_else(|e| panic!("delete {i} of {written} (size {size}): {e}"));
        }
        db.checkpoint().expect("checkpoint");
        assert_eq!(contents(&db).len(), 0);
        let again = fill(&db, size);
        assert!(again >= written * 9 / 10, "size {size}: only {again} of {written} fit again");
        drop(db);
        let db = Db::open(storage, Options::tiny()).expect("a full store can be opened");
        db.delete_range(&KeyRange::all()).expect("range delete on a full store");
        assert_sound(&db);
    }
}

/// Takes all free space but so many units.
fn leave(db: &Db, units: u64) -> Vec<crate::block::Segment> {
    let table = &db.inner.store.table;
    let free = table.free_units();
    assert!(free >= units, "only {free} units are free");
    table.allocate(free - units).expect("what is free")
}

/// What many extents add to the table takes space beside the nodes: who lets a memtable be applied has looked for it, else no
/// checkpoint could be taken any more.
#[test]
fn what_was_applied_finds_the_space_for_its_table() {
    let options = Options { extent_bytes: 2048, log_bytes: 512 * UNIT as u64, ..Options::tiny() };
    let (mut applied, mut refused) = (0, 0);
    for left in (0..100).step_by(2) {
        let db = Db::create(sim(4096), options.clone()).expect("create");
        for n in 0..1500u32 {
            db.put(&n.to_be_bytes(), &[n as u8; 2100]).expect("put");
        }
        let _taken = leave(&db, left);
        db.inner.freeze();
        let done = loop {
            match db.inner.apply_next(SpaceCheck::Require) {
                Ok(ApplyOutcome::Done) => {}
                Ok(ApplyOutcome::Nothing) => break true,
                Err(Error::NoSpace) => break false,
                other => panic!("{left} units left: {other:?}"),
            }
        };
        if !done {
            refused += 1;
            continue;
        }
        applied += 1;
        let mut last = db.inner.lock_checkpoint();
        db.inner.checkpoint_applied(&mut last).unwrap_or_else(|e| panic!("{left} units left: {e}"));
    }
    assert!(applied > 0 && refused > 0, "{applied} applied, {refused} refused: this shows nothing");
}

#[test]
fn while_there_is_no_space_for_the_whole_table_changes_go_on() {
    let storage = sim(8192);
    let db = Db::create(storage.clone(), Options::tiny()).expect("create");
    for n in 0..6000u32 {
        db.put(&n.to_be_bytes(), &[7; 900]).expect("put");
    }
    db.checkpoint().expect("checkpoint");
    let is_whole_due = || {
        let place = &db.inner.lock_checkpoint().place;
        place.pieces.len() > 1 && !place.takes_changes(1)
    };
    for round in 0.. {
        if is_whole_due() {
            break;
        }
        assert!(round < 200, "the whole is never due");
        db.put(&[round], b"changed").expect("put");
        db.checkpoint().expect("checkpoint");
    }
    let pieces = || db.inner.lock_checkpoint().place.pieces.len();
    let before = pieces();
    for round in 1..=3 {
        db.put(b"key", &[round]).expect("put");
        db.inner.freeze();
        assert!(db.inner.apply_next(SpaceCheck::Skip).expect("apply") == ApplyOutcome::Done);
        db.inner.store.write_tree(&db.inner.view().root).expect("write");
        let taken = leave(&db, 2);
        let mut last = db.inner.lock_checkpoint();
        db.inner.checkpoint_applied(&mut last).expect("a checkpoint of changes");
        drop(last);
        assert_eq!(pieces(), before + usize::from(round));
        db.inner.store.table.give_back(&taken);
    }
    let image = storage.copy();
    let reopened = Db::open(image, Options::tiny()).expect("open");
    assert_eq!(reopened.get(b"key").expect("get"), Some(vec![3]));
    assert_sound(&reopened);
    db.put(b"key", b"again").expect("put");
    db.checkpoint().expect("checkpoint");
    assert_eq!(pieces(), 1, "with space the whole is written");
    assert_sound(&db);
}

/// A full log waits for a checkpoint. If there is no space for one, and nothing that could be applied, it waits in vain.
#[test]
fn who_waits_for_a_checkpoint_that_finds_no_space_is_refused() {
    use std::time::{Duration, Instant};
    const PATIENCE: Duration = Duration::from_secs(60);
    let checkpoint_interval = Duration::from_secs(3600);
    let options = Options { background: true, checkpoint_interval, ..Options::tiny() };
    let db = Db::create(sim(1024), options).expect("create");
    // The thread that takes checkpoints waits until all is in the tree, and the tree is written.
    let last = db.inner.lock_checkpoint();
    db.put(b"key", b"value").expect("put");
    db.inner.freeze();
    let begin = Instant::now();
    while !db.inner.view().frozen.is_empty() {
        assert!(begin.elapsed() < PATIENCE, "it is never applied");
        std::thread::yield_now();
    }
    db.inner.store.write_tree(&db.inner.view().root).expect("write");
    let taken = leave(&db, 0);
    drop(last);
    let begin = Instant::now();
    let refused = loop {
        match db.inner.make_log_room() {
            Ok(()) => assert!(begin.elapsed() < PATIENCE, "it waits without end"),
            Err(e) => break e,
        }
    };
    assert!(matches!(refused, Error::NoSpace), "{refused}");
    db.inner.store.table.give_back(&taken);
    db.checkpoint().expect("with space there is a checkpoint");
    db.inner.make_log_room().expect("and nobody is refused any more");
    assert_eq!(db.get(b"key").expect("get").as_deref(), Some(&b"value"[..]));
    assert_sound(&db);
}

#[test]
fn filling_to_the_brim_and_deleting_half_ten_times_over() {
    fill_and_delete_half(sim(900), Options::tiny(), 3000, 10);
}

/// Fills the store, deletes half of the keys, and so on: nothing but `NoSpace` ever, nothing lost, and no round takes
/// much less than the first.
fn fill_and_delete_half(storage: SimStorage, options: Options, value: usize, rounds: u32) {
    let mut db = Db::create(storage.clone(), options.clone()).expect("create");
    let mut model = model::Model::new();
    let (mut next, mut most) = (0u32, 0);
    for round in 0..rounds {
        loop {
            let key = next.wrapping_mul(2_654_435_761).to_be_bytes();
            match db.put(&key, &vec![next as u8; value]) {
                Ok(_) => _ = model.insert(key.to_vec(), vec![next as u8; value]),
                Err(Error::NoSpace) => break,
                Err(e) => panic!("round {round}: {e}"),
            }
            next += 1;
        }
        db.sync().expect("sync on a full store");
        most = most.max(model.len());
        assert!(model.len() * 10 >= most * 8, "round {round}: {} keys, {most} fitted before", model.len());
        let half: Vec<Vec<u8>> = model.keys().step_by(2).cloned().collect();
        for key in half {
            db.delete(&key).unwrap_or_else(|e| panic!("round {round}: delete on a full store: {e}"));
            model.remove(&key);
        }
        if round % 3 == 1 {
            drop(db);
            db = Db::open(storage.clone(), options.clone()).expect("open");
        }
        assert!(contents(&db) == model, "round {round}");
        assert_sound(&db);
    }
}

#[test]
fn random_batches_on_a_nearly_full_store_are_done_or_refused() {
    for seed in seeds(6) {
        println!("seed {seed}");
        let storage = sim(700);
        let mut db = Db::create(storage.clone(), Options::tiny()).expect("create");
        let mut world = World::new(seed);
        let (mut refused, mut done) = (0, 0);
        for step in 0..400 {
            let before = world.model.clone();
            let batch = world.batch();
            let grows = batch.growth() > 0;
            match db.write(batch) {
                Ok(_) => done += 1,
                Err(Error::NoSpace) if grows => {
                    refused += 1;
                    world.model = before;
                }
                Err(e) => panic!("seed {seed} step {step}: {e}"),
            }
            if step % 50 == 49 {
                db.checkpoint().expect("checkpoint");
                assert!(contents(&db) == world.model, "seed {seed} step {step}");
                assert_sound(&db);
                drop(db);
                db = Db::open(storage.clone(), Options::tiny()).expect("open");
            }
        }
        assert!(done > 50, "seed {seed}: {done} done, {refused} refused");
        db.delete_range(&KeyRange::all()).expect("delete");
        db.checkpoint().expect("checkpoint");
        db.put(b"a", b"b").expect("there is space again");
    }
}

#[test]
fn overwriting_for_ever_needs_no_more_space() {
    let db = Db::create(sim(1024), Options::tiny()).expect("create");
    for round in 0..60u32 {
        for i in 0..100u32 {
            db.put(&i.to_be_bytes(), &[round as u8; 9000]).unwrap_or_else(|e| panic!("round {round}: {e}"));
        }
    }
    assert_eq!(contents(&db).len(), 100);
    assert_sound(&db);
}

#[test]
fn a_full_log_makes_room_by_a_checkpoint() {
    let options = Options { log_bytes: 16 * UNIT as u64, memtable_bytes: 1 << 20, ..Options::tiny() };
    let db = Db::create(sim(4096), options).expect("create");
    for i in 0..400u32 {
        db.put(&i.to_be_bytes(), &[1; 500]).expect("put");
        if i % 7 == 0 {
            db.sync().expect("sync");
        }
    }
    assert!(db.stats().checkpoints > 3);
    assert_eq!(contents(&db).len(), 400);
}

#[test]
fn an_open_cursor_keeps_its_space_and_gives_it_back() {
    let db = Db::create(sim(2048), Options::tiny()).expect("create");
    for i in 0..200u32 {
        db.put(&i.to_be_bytes(), &[1; 5000]).expect("put");
    }
    db.checkpoint().expect("checkpoint");
    let cursor = db.scan(&KeyRange::all());
    db.delete_range(&KeyRange::all()).expect("delete");
    db.checkpoint().expect("checkpoint");
    let held = db.stats().free_bytes;
    assert_eq!(cursor.filter(|r| r.is_ok()).count(), 200);
    assert!(db.stats().free_bytes > held + 200 * 5000);
}

#[test]
fn settling_changes_nothing_that_can_be_read() {
    for seed in seeds(4) {
        println!("seed {seed}");
        let storage = sim(8192);
        let db = Db::create(storage.clone(), Options::tiny()).expect("create");
        let mut world = World::new(seed);
        for _ in 0..40 {
            (0..10).for_each(|_| world.write(&db));
            let ranges: Vec<KeyRange> = (0..world.below(4))
                .map(|_| {
                    let (a, b) = (world.key(), world.key());
                    KeyRange::new(a.as_slice().min(&b), a.as_slice().max(&b))
                })
                .collect();
            db.settle(&ranges).expect("settle");
            assert_eq!(contents(&db), world.model);
        }
        db.settle(&[KeyRange::all()]).expect("settle");
        assert_eq!(contents(&db), world.model);
        assert_sound(&db);
        drop(db);
        let db = Db::open(storage, Options::tiny()).expect("open");
        assert_eq!(contents(&db), world.model);
    }
}

/// Values in one leaf, some of which go: what a checkpoint leaves to the leaf's turn is free after settling. Without the store's
/// threads: one that is in the middle of something may hold what was there before for a moment longer.
#[test]
fn what_was_deleted_in_a_settled_range_is_free() {
    let options = Options { background: false, ..Options::default() };
    let db = Db::create(sim(64 << 8), options).expect("create");
    let key = |n: u32| n.to_be_bytes();
    for n in 0..30 {
        db.put(&key(n), &vec![n as u8; 1 << 20]).expect("put");
    }
    // Enough for other leaves, so that the root is none.
    for n in 30..40_000 {
        db.put(&key(n), &[n as u8; 100]).expect("put");
    }
    db.settle(&[KeyRange::all()]).expect("settle");
    let before = db.stats().free_bytes;
    let gone = KeyRange::new(&key(5), &key(25));
    db.delete_range(&gone).expect("delete");
    db.settle(&[KeyRange::new(&key(7), &key(7))]).expect("nothing but a checkpoint");
    let left = db.stats().free_bytes;
    db.settle(&[gone]).expect("settle");
    let after = db.stats().free_bytes;
    assert!(
        left < before + (1 << 20),
        "{before}, then {left}: a checkpoint alone freed so much, this shows nothing"
    );
    assert!(after > before + (19 << 20), "{before} bytes before, {after} after");
    assert_eq!(contents(&db).len(), 40_000 - 20);
    assert_sound(&db);
}

/// A checkpoint that ends while another one waits for its turn keeps nothing of what that frees.
#[test]
fn what_was_deleted_is_free_whoever_else_takes_checkpoints() {
    let options = Options { leaf_bytes: 64 << 10, memtable_bytes: 64 << 10, ..Options::tiny() };
    let db = Db::create(sim(8192), options).expect("create");
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|threads| {
        let other = || {
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                db.checkpoint().expect("checkpoint");
            }
        };
        let other =
            std::thread::Builder::new().name("other".into()).spawn_scoped(threads, other).expect("a thread");
        let looked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for round in 0..200u32 {
                db.put(&round.to_be_bytes(), &vec![7; 1 << 20]).expect("put");
                db.checkpoint().expect("checkpoint");
                let before = db.stats().free_bytes;
                db.delete(&round.to_be_bytes()).expect("delete");
                db.settle(&[KeyRange::all()]).expect("settle");
                let after = db.stats().free_bytes;
                // The other checkpoint may have a new table and nodes on the way.
                assert!(after > before + (1 << 19), "round {round}: {before} bytes before, {after} after");
            }
        }));
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        other.join().expect("the other thread");
        looked.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    assert_sound(&db);
}

#[test]
fn what_was_promised_can_be_written_on_a_full_store_and_written_over() {
    const VALUE: usize = 4096;
    const EACH: u64 = (VALUE as u64 + 128) / 4 * 5;
    for background in [false, true] {
        // In smaller nodes each value would be in a leaf of its own, and with fewer edges there is an inner node with its reserve for
        // every few leaves.
        let options = Options {
            background,
            leaf_bytes: 64 << 10,
            basement_bytes: 16 << 10,
            buffer_bytes: 64 << 10,
            cache_bytes: 1 << 20,
            fanout: 16,
            ..Options::tiny()
        };
        let db = Db::create(sim(4000), options).expect("create");
        db.promise(200 * EACH).expect("an empty store has space");
        assert!(matches!(db.promise(4000 * EACH), Err(Error::NoSpace)));
        assert_eq!(db.stats().promised_bytes, 200 * EACH);
        fill(&db, 3000);
        fill(&db, 10);
        assert!(matches!(db.put(b"other", &[0; VALUE]), Err(Error::NoSpace)), "the store is not full");
        let put = |n: u32, byte: u8, new: bool| {
            let mut batch = WriteBatch::new();
            batch
                .put(&[b"promised"[..].to_vec(), n.to_be_bytes().to_vec()].concat(), &[byte; VALUE])
                .overwrites();
            if new {
                batch.from_promise(EACH);
            }
            db.write(batch).unwrap_or_else(|e| panic!("value {n}, {byte}: {e}"));
            if new {
                db.take_back(EACH);
            }
        };
        (0..200).for_each(|n| put(n * 7 % 200, 1, true));
        assert_eq!(db.stats().promised_bytes, 0);
        for byte in 2..6 {
            (0..200).for_each(|n| put(n * 13 % 200, byte, false));
        }
        let values: Vec<_> = db.scan(&KeyRange::prefix(b"promised")).map(|r| r.expect("scan").1).collect();
        assert!(values.len() == 200 && values.iter().all(|v| *v == [5; VALUE]));
        db.delete_range(&KeyRange::all()).expect("delete");
        assert_sound(&db);
    }
}

/// What the thread that writes new nodes has taken must be written when there is space again: else memory for them is never freed.
#[test]
fn nodes_that_found_no_space_are_written_when_there_is_some() {
    let storage = sim(2048);
    let options = Options { cache_bytes: 64 << 20, memtable_bytes: 1 << 20, ..Options::tiny() };
    let db = Db::create(storage, options).expect("create");
    for i in 0..600u32 {
        db.put(&i.to_be_bytes(), &[i as u8; 200]).expect("put");
    }
    db.inner.freeze();
    while db.inner.apply_next(super::super::write::SpaceCheck::Skip).expect("apply")
        == super::super::write::ApplyOutcome::Done
    {}
    let store = &db.inner.store;
    let unwritten = store.meter.unwritten();
    assert!(unwritten > 100_000, "{unwritten} bytes: nothing waits to be written");
    // Some nodes find their space, one does not.
    let taken = store.table.allocate(store.table.free_units() - 8).expect("space");
    assert!(matches!(store.write_dirty(0), Err(Error::NoSpace)));
    assert_eq!(store.meter.unwritten(), unwritten);
    store.table.give_back(&taken);
    store.write_dirty(0).expect("space");
    assert_eq!(store.meter.unwritten(), 0, "nodes were forgotten");
    assert_sound(&db);
}

/// A storage that has something called at each flush.
#[derive(Clone)]
struct Watched {
    storage: SimStorage,
    at_flush: std::sync::Arc<std::sync::OnceLock<Box<dyn Fn() + Send + Sync>>>,
}

impl crate::Storage for Watched {
    fn len(&self) -> std::io::Result<u64> {
        self.storage.len()
    }

    fn read_at(&self, buf: &mut [u8], off: u64) -> std::io::Result<()> {
        self.storage.read_at(buf, off)
    }

    fn write_at(&self, buf: &[u8], off: u64) -> std::io::Result<()> {
        self.storage.write_at(buf, off)
    }

    fn flush(&self) -> std::io::Result<()> {
        self.at_flush.get().inspect(|call| call());
        self.storage.flush()
    }

    fn discard(&self, off: u64, len: u64) -> std::io::Result<()> {
        self.storage.discard(off, len)
    }
}

/// Who asks for more than there is waits for a checkpoint, and leaves to others what is free meanwhile.
#[test]
fn a_promise_takes_nothing_before_it_is_granted() {
    use std::sync::atomic::{AtomicU64, Ordering};
    let storage = Watched { storage: sim(4000), at_flush: Default::default() };
    let db = std::sync::Arc::new(Db::create(storage.clone(), Options::tiny()).expect("create"));
    for n in 0..1000u32 {
        db.put(&n.to_be_bytes(), &[n as u8; 4000]).expect("put");
    }
    let capacity = 4000 * UNIT as u64;
    db.promise(1000).expect("a little");
    let (flushes, most) = (std::sync::Arc::new(AtomicU64::new(0)), std::sync::Arc::new(AtomicU64::new(0)));
    let (seen, promised, weak) = (flushes.clone(), most.clone(), std::sync::Arc::downgrade(&db));
    let look = move || {
        seen.fetch_add(1, Ordering::Relaxed);
        let now = weak.upgrade().map_or(0, |db| db.inner.promised_bytes());
        promised.fetch_max(now, Ordering::Relaxed);
    };
    storage.at_flush.set(Box::new(look)).unwrap_or_else(|_| panic!("set twice"));
    for bytes in [capacity / 4 * 3, capacity, capacity + 1, u64::MAX] {
        assert!(matches!(db.promise(bytes), Err(Error::NoSpace)), "{bytes}");
    }
    assert!(flushes.load(Ordering::Relaxed) > 0, "nobody waited: this shows nothing");
    assert_eq!((most.load(Ordering::Relaxed), db.stats().promised_bytes), (1000, 1000));
    db.promise(capacity / 4).expect("there is as much");
    // Numbers that only a damaged image has neither overflow nor hinder what frees.
    db.promise_again(u64::MAX);
    assert!(matches!(db.put(b"more", &[1; 100]), Err(Error::NoSpace)));
    db.delete(&7u32.to_be_bytes()).expect("delete");
    db.take_back(u64::MAX);
    db.put(b"more", &[1; 100]).expect("put");
    assert_sound(&db);
}
