//! Errors and damage: nothing wrong is ever returned as right, and the store says what it can still do.

use super::model::{World, contents};
use super::*;
use crate::storage::FaultPlan;

fn filled(seed: u64) -> (SimStorage, World) {
    let storage = sim(3072);
    let db = Db::create(storage.clone(), Options::tiny()).expect("create");
    let mut world = World::new(seed);
    (0..120).for_each(|_| world.write(&db));
    db.close().expect("close");
    (storage, world)
}

#[test]
fn a_failed_log_flush_makes_the_store_read_only() {
    let (storage, world) = filled(1);
    let db = Db::open(storage.clone(), Options::tiny()).expect("open");
    db.put(b"a/x", b"1").expect("put");
    storage.set_faults(FaultPlan { flush_error_at: Some(0), ..FaultPlan::default() });
    assert!(db.sync().is_err());
    assert!(matches!(db.sync(), Err(Error::ReadOnly(_))), "a second flush must not pretend all is well");
    assert!(matches!(db.put(b"a/y", b"1"), Err(Error::ReadOnly(_))));
    let mut expected = world.model;
    expected.insert(b"a/x".to_vec(), b"1".to_vec());
    assert_eq!(contents(&db), expected, "reads go on");
}

#[test]
fn a_failed_node_write_is_retried_by_the_next_checkpoint() {
    let mut one_failed = false;
    for n in 0..6 {
        let (storage, world) = filled(2);
        let db = Db::open(storage.clone(), Options::tiny()).expect("open");
        db.put(b"a/x", b"1").expect("put");
        db.sync().expect("sync");
        storage.set_faults(FaultPlan { write_error_at: Some(n), ..FaultPlan::default() });
        let outcomes: Vec<_> = (0..3).map(|_| db.checkpoint()).collect();
        // The superblock is the last write; if that one fails, its outcome is unknown.
        let lasting = outcomes.iter().filter(|o| matches!(o, Err(Error::ReadOnly(_)))).count();
        let failed = outcomes.iter().filter(|o| o.is_err()).count() - lasting;
        assert!(failed <= 1 && (lasting == 0 || failed == 1), "write {n}: {outcomes:?}");
        one_failed |= failed == 1 && lasting == 0;
        let mut expected = world.model;
        expected.insert(b"a/x".to_vec(), b"1".to_vec());
        assert_eq!(contents(&db), expected, "write {n}: {outcomes:?}");
        drop(db);
        let db = Db::open(storage, Options::tiny()).expect("open");
        assert_eq!(contents(&db), expected, "write {n}");
        assert_sound(&db);
    }
    assert!(one_failed, "no write failed and was retried");
}

#[test]
fn a_full_host_below_the_storage_is_an_error_and_not_a_loss() {
    let (storage, _) = filled(3);
    let db = Db::open(storage.clone(), Options::tiny()).expect("open");
    let before = contents(&db);
    storage.set_faults(FaultPlan { full_from: Some(0), ..FaultPlan::default() });
    assert!(matches!(db.put(b"a/big", &[1; 50_000]), Err(Error::Io { .. })));
    let checkpoint = db.checkpoint();
    assert!(matches!(checkpoint, Ok(()) | Err(Error::Io { .. } | Error::ReadOnly(_))), "{checkpoint:?}");
    storage.set_faults(FaultPlan::default());
    assert_eq!(contents(&db), before);
    drop(db);
    let db = Db::open(storage, Options::tiny()).expect("open");
    assert_eq!(contents(&db), before);
    assert_sound(&db);
}

#[test]
fn a_read_error_is_reported_and_passes() {
    let (storage, world) = filled(4);
    let db = Db::open(storage.clone(), Options::tiny()).expect("open");
    let mut reported = 0;
    for n in 0..8 {
        storage.set_faults(FaultPlan { read_error_at: Some(n), ..FaultPlan::default() });
        let scanned: Result<model::Model> = db.scan(&KeyRange::all()).collect();
        match scanned {
            Ok(found) => assert_eq!(found, world.model),
            Err(Error::Io { .. }) => reported += 1,
            Err(e) => panic!("read {n}: {e}"),
        }
        storage.set_faults(FaultPlan::default());
        assert_eq!(contents(&db), world.model);
    }
    assert!(reported > 0, "no read has failed");
}

#[test]
fn damage_anywhere_is_found_and_never_read_as_data() {
    let (storage, world) = filled(5);
    let image = storage.image();
    let in_use = |unit: &[u8]| unit.iter().any(|b| *b != 0);
    let used: Vec<u64> =
        image.chunks(UNIT).enumerate().filter(|(_, u)| in_use(u)).map(|(i, _)| (i * UNIT) as u64).collect();
    let mut noticed = 0;
    let mut random = World::new(99);
    for _ in 0..150 {
        let at = used[random.below(used.len() as u64) as usize] + random.below(UNIT as u64);
        let storage = SimStorage::from_image(image.clone());
        let old = image[at as usize];
        storage.corrupt(at, &[old ^ (1 << random.below(8))]);
        let db = match Db::open(storage, Options::tiny()) {
            Ok(db) => db,
            Err(Error::Corrupt { .. } | Error::NotAStore(_)) => {
                noticed += 1;
                continue;
            }
            Err(e) => panic!("byte {at}: {e}"),
        };
        let scanned: Result<model::Model> = db.scan(&KeyRange::all()).collect();
        let problems = db.verify().map(|r| r.problems).unwrap_or_else(|e| vec![e.to_string()]);
        match scanned {
            Ok(found) => assert_eq!(found, world.model, "byte {at}: wrong data passed as right"),
            Err(e) => {
                assert!(matches!(e, Error::Corrupt { .. }), "byte {at}: {e}");
                assert!(!problems.is_empty(), "byte {at}: verify missed what a scan met: {e}");
            }
        }
        noticed += u32::from(!problems.is_empty());
    }
    assert!(noticed > 5, "only {noticed} of 150 damaged images were noticed: is anything checked?");
}

/// A damaged part of a leaf is no reason to refuse writes to the others; who wants it is told, also after it has moved.
#[test]
fn beside_a_damaged_part_of_a_leaf_the_others_can_change() {
    let options = Options { leaf_bytes: 32 << 10, cache_bytes: 256 << 10, ..Options::tiny() };
    let storage = sim(3072);
    let key = |n: u32| format!("k{n:04}").into_bytes();
    let db = Db::create(storage.clone(), options.clone()).expect("create");
    (0..400).for_each(|n| _ = db.put(&key(n), &[n as u8; 100]).expect("put"));
    db.settle(&[KeyRange::all()]).expect("settle");
    let leaves: Vec<_> = db
        .inner
        .store
        .table
        .list()
        .into_iter()
        .filter(|(_, info, _)| info.kind == crate::block::BlockKind::Leaf)
        .collect();
    let (_, info, _) = leaves.first().expect("a leaf");
    let (from, _) = info.locate(u64::from(info.len) - 40, 1)[0];
    db.close().expect("close");
    storage.corrupt(from, &[0x5A; 8]);
    let db = Db::open(storage.clone(), options.clone()).expect("open");
    let state = |db: &Db| -> Vec<u32> {
        let damaged = |n: &u32| match db.get(&key(*n)) {
            Ok(value) => {
                assert_eq!(value, Some(vec![*n as u8; 100]), "{n}");
                false
            }
            Err(Error::Corrupt { .. }) => true,
            Err(e) => panic!("{n}: {e}"),
        };
        (0..400).filter(damaged).collect()
    };
    let damaged = state(&db);
    assert!(!damaged.is_empty() && damaged.len() < 30, "{damaged:?}");
    drop(db);
    // With nothing of the leaf in memory, what lies in another part of it changes.
    let db = Db::open(storage.clone(), options.clone()).expect("open");
    let before = damaged[0] - 20;
    db.put(&key(before), &[before as u8; 100]).expect("put");
    let written = db.stats().node_bytes_written;
    db.settle(&[KeyRange::new(&key(before), &key(before + 1))]).expect("settle");
    assert!(
        db.stats().node_bytes_written > written + (16 << 10),
        "the leaf has not moved: this shows nothing"
    );
    db.put(&key(0), &[0; 100]).expect("the store takes writes");
    db.checkpoint().expect("checkpoint");
    assert_eq!(state(&db), damaged);
    drop(db);
    let db = Db::open(storage.clone(), options).expect("open");
    assert_eq!(state(&db), damaged);
    assert!(!db.verify().expect("verify").problems.is_empty());
    drop(db);
    let report = crate::fsck(storage, crate::FsckOptions::default()).expect("fsck");
    assert_eq!(report.worst(), Some(crate::Severity::Error), "{report}");
}
