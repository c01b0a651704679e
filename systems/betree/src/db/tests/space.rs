//! Full storage and full log.

use super::model::{World, contents};
use super::*;

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
