//! Power cuts at every point: what is found afterwards is the state after some batch, and none older than the last
//! sync. `examples/soak.rs` does the same for longer.

use super::model::{World, contents};
use super::trial::{KINDS, Kind, Trial};
use super::*;
use crate::db::open::load;
use crate::storage::FaultPlan;
use std::sync::Arc;

#[test]
fn a_cut_anywhere_leaves_a_prefix_not_older_than_the_last_sync() {
    for seed in seeds(24) {
        println!("seed {seed}");
        let kind = KINDS[seed as usize % KINDS.len()];
        let mut trial = Trial::new(seed, kind, Options::tiny());
        (0..10).for_each(|round| trial.round(round, 2));
    }
}

#[test]
fn cuts_are_survived_without_each_of_the_steps() {
    for (i, name) in crate::Features::NAMES.iter().enumerate() {
        println!("without {name}");
        let mut steps = crate::Features::ALL;
        assert!(steps.set(name, false));
        let mut trial = Trial::new(1000 + i as u64, Kind::Plain, Options { steps, ..Options::tiny() });
        (0..6).for_each(|round| trial.round(round, 1));
    }
}

/// A batch that changes nothing has a number all the same: what is synced after a recovery that ends with one is found by the
/// next recovery.
#[test]
fn an_empty_batch_before_a_cut_hides_nothing_that_follows() {
    let storage = sim(3072);
    let db = Db::create(storage.clone(), Options::tiny()).expect("create");
    db.put(b"before", b"1").expect("put");
    // so that the empty batch is all that the log holds
    db.checkpoint().expect("checkpoint");
    let empty = db.write(crate::WriteBatch::new()).expect("an empty batch");
    db.sync().expect("sync");
    let cut = storage.power_cut(0);
    drop(db);

    let db = Db::open(cut.clone(), Options::tiny()).expect("open");
    assert_eq!(db.last_msn(), empty);
    let after = db.put(b"after", b"2").expect("put");
    assert_eq!(after, empty + 1);
    db.sync().expect("sync");
    let cut = cut.power_cut(0);
    drop(db);

    let db = Db::open(cut, Options::tiny()).expect("open");
    assert_eq!(db.last_msn(), after);
    assert_eq!(db.get(b"after").expect("get").as_deref(), Some(&b"2"[..]));
    assert_eq!(db.get(b"before").expect("get").as_deref(), Some(&b"1"[..]));
}

#[test]
fn a_cut_at_each_write_of_a_checkpoint_loses_nothing_synced() {
    let mut world = World::new(3);
    let storage = sim(3072);
    let db = Db::create(storage.clone(), Options::tiny()).expect("create");
    (0..60).for_each(|_| world.write(&db));
    db.checkpoint().expect("checkpoint");
    (0..20).for_each(|_| world.write(&db));
    db.sync().expect("sync");
    let (expected, last) = (contents(&db), db.last_msn());
    drop(db);
    let image = storage.image();
    for cut in 0.. {
        let storage = SimStorage::from_image(image.clone());
        storage.set_faults(FaultPlan { power_off_after: Some(cut), ..FaultPlan::default() });
        let opened = Db::open(storage.clone(), Options::tiny());
        let finished = opened.is_ok();
        drop(opened);
        for seed in 0..6 {
            let again = Db::open(storage.power_cut(seed), Options::tiny()).expect("open");
            assert_eq!(again.last_msn(), last, "cut {cut} seed {seed}");
            assert!(contents(&again) == expected, "cut {cut} seed {seed}");
        }
        if finished {
            assert!(cut > 4, "recovery wrote next to nothing");
            break;
        }
    }
}

/// Where there is no space for all of the log beside the checkpoint that it follows, opening takes another checkpoint in the middle of
/// the log. A power cut after that one, or no space for the last one, must not lose the rest.
#[test]
fn an_opening_that_ends_in_the_middle_of_its_log_loses_nothing() {
    let (mut midway, mut refused) = (0, 0);
    for seed in seeds(12) {
        println!("seed {seed}");
        let mut world = World::new(seed);
        let storage = sim(400);
        let db = Db::create(storage.clone(), Options::tiny()).expect("create");
        (0..100).for_each(|_| _ = db.write(world.scattered()).expect("write"));
        db.checkpoint().expect("checkpoint");
        let before = db.stats().checkpoints;
        (0..50).for_each(|_| _ = db.write(world.scattered()).expect("write"));
        db.sync().expect("sync");
        assert_eq!(db.stats().checkpoints, before, "seed {seed}: the log was emptied");
        let last = db.last_msn();
        drop(db);
        let begun = storage.image();
        for left in (0..24).chain([1000]) {
            let storage = SimStorage::from_image(begun.clone());
            let what = format!("seed {seed} left {left}");
            let loaded = load(Arc::new(storage.clone()), Options::tiny()).expect("load");
            let generation = loaded.inner.lock_checkpoint().generation;
            let table = &loaded.inner.store.table;
            let others = table.allocate(table.free_units().saturating_sub(left));
            let opened = loaded.inner.recover(&loaded.logged).and_then(|()| loaded.inner.checkpoint());
            let taken = loaded.inner.lock_checkpoint().generation - generation;
            match opened {
                Ok(()) => midway += u64::from(taken > 1),
                Err(Error::NoSpace) => (midway, refused) = (midway + taken, refused + 1),
                Err(e) => panic!("{what}: {e}"),
            }
            drop((others, loaded));
            for kept in 0..3 {
                let again = Db::open(storage.power_cut(kept), Options::tiny());
                let again = again.unwrap_or_else(|e| panic!("{what} kept {kept}: {e}"));
                assert_eq!(again.last_msn(), last, "{what} kept {kept}");
                assert!(contents(&again) == world.model, "{what} kept {kept}");
                assert_sound(&again);
            }
        }
    }
    assert!(midway > 0, "no opening took a checkpoint in the middle of a log");
    assert!(refused > 0, "there was always space");
}

#[test]
fn creation_interrupted_anywhere_leaves_no_store_or_an_empty_one() {
    for cut in 0..12 {
        // An old store must not shine through either.
        let storage = sim(1024);
        let db = Db::create(storage.clone(), Options::tiny()).expect("create");
        db.put(b"old", b"1").expect("put");
        db.close().expect("close");
        storage.set_faults(FaultPlan { power_off_after: Some(cut), ..FaultPlan::default() });
        let created = Db::create(storage.clone(), Options::tiny()).is_ok();
        for seed in 0..8 {
            match Db::open(storage.power_cut(seed), Options::tiny()) {
                Ok(db) if db.get(b"old").expect("get").is_some() => {
                    assert!(cut <= 1, "the old store is back after cut {cut}");
                }
                Ok(db) => assert_eq!(contents(&db).len(), 0),
                Err(e) => assert!(matches!(e, Error::NotAStore(_)) && !created, "{e}"),
            }
        }
    }
}

#[test]
fn a_log_record_never_survives_without_the_extent_it_binds() {
    for cut in 0..4 {
        let storage = sim(1024);
        let db = Db::create(storage.clone(), Options::tiny()).expect("create");
        db.put(b"big", &[7; 20_000]).expect("put");
        storage.set_faults(FaultPlan { power_off_after: Some(cut), ..FaultPlan::default() });
        let synced = db.sync().is_ok();
        for seed in 0..40 {
            let found = Db::open(storage.power_cut(seed), Options::tiny()).expect("open").get(b"big");
            match found.expect("a bound extent is whole") {
                Some(value) => assert!(value == [7; 20_000]),
                None => assert!(!synced, "cut {cut} seed {seed}: lost after a sync"),
            }
        }
    }
}
