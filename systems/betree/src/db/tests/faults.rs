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

/// Node, table or superblock: the kernel may have told a checkpoint of a lost write that somebody else waits for.
#[test]
fn any_failed_write_or_flush_of_a_checkpoint_stops_syncs_and_superblocks() {
    let write = |n| FaultPlan { write_error_at: Some(n), ..FaultPlan::default() };
    let flush = |n| FaultPlan { lose_flush_at: Some(n), ..FaultPlan::default() };
    let lost = |n| FaultPlan { lose_write_at: Some(n), ..FaultPlan::default() };
    let begin = || {
        let (storage, world) = filled(2);
        let db = Db::open(storage.clone(), Options::tiny()).expect("open");
        db.put(b"a/x", b"1").expect("put");
        db.sync().expect("sync");
        assert!(db.failure().is_none());
        (storage, world, db)
    };
    // The last write of a checkpoint is the superblock, between its two flushes.
    let superblock = {
        let (storage, _, db) = begin();
        storage.set_faults(FaultPlan::default());
        db.checkpoint().expect("checkpoint");
        storage.mutations() - 3
    };
    let mut failed = 0;
    let plans = (0..6).map(write).chain((0..2).map(flush)).chain((0..6).map(lost));
    for plan in plans {
        let (storage, world, db) = begin();
        let before = crate::superblock::Superblock::read(&storage).expect("read").0.generation;
        storage.set_faults(plan.clone());
        let Err(first) = db.checkpoint() else { continue };
        failed += 1;
        assert!(matches!(first, Error::Io { .. }), "{plan:?}: {first}");
        for later in [db.checkpoint(), db.sync(), db.sync_to(1).map(|_| ()), db.put(b"a/y", b"2").map(|_| ())]
        {
            assert!(matches!(later, Err(Error::ReadOnly(_))), "{plan:?}: {later:?}");
        }
        let reason = db.failure().expect("a reason");
        assert_eq!(reason.errno, Some(libc::EIO), "{plan:?}");
        let by_flush = plan.write_error_at.is_none();
        assert_eq!(reason.operation == crate::FailedOperation::Flush, by_flush, "{plan:?}: {reason}");
        let may_be_written = plan.lose_flush_at == Some(1) || plan.lose_write_at == Some(superblock);
        for found in [storage.power_cut(0), storage.power_cut(1), storage.clone()] {
            let after = crate::superblock::Superblock::read(&found).expect("read").0.generation;
            let most = before + u64::from(may_be_written);
            assert!(after <= most, "{plan:?}: a superblock was written after a failure");
        }
        let mut expected = world.model;
        expected.insert(b"a/x".to_vec(), b"1".to_vec());
        assert_eq!(contents(&db), expected, "{plan:?}");
        drop(db);
        // What is read back before a power cut, and what is found after one.
        for storage in [storage.copy(), storage.power_cut(0), storage.power_cut(9)] {
            let db = Db::open(storage, Options::tiny()).expect("open");
            assert_eq!(contents(&db), expected, "{plan:?}");
            assert_sound(&db);
        }
    }
    assert!(failed >= 10, "only {failed} of the faults were met");
}

#[test]
fn a_full_host_below_the_storage_is_an_error_and_not_a_loss() {
    let (storage, _) = filled(3);
    let db = Db::open(storage.clone(), Options::tiny()).expect("open");
    let before = contents(&db);
    storage.set_faults(FaultPlan { full_from: Some(0), ..FaultPlan::default() });
    assert!(matches!(db.put(b"a/big", &[1; 50_000]), Err(Error::Io { .. })));
    assert!(matches!(db.checkpoint(), Err(Error::ReadOnly(_))), "a failed write is final");
    assert_eq!(db.failure().and_then(|reason| reason.errno), Some(libc::ENOSPC));
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

/// A store of `n` batches, each synced, of which the log has all; and the frames of its log.
fn logged(n: u64) -> (SimStorage, Vec<crate::log::ReplayedFrame>) {
    let storage = sim(1024);
    let db = Db::create(storage.clone(), Options::tiny()).expect("create");
    for i in 1..=n {
        db.put(&i.to_be_bytes(), &[i as u8; 50]).expect("put");
        db.sync().expect("sync");
    }
    let image = storage.copy();
    drop(db);
    let (sb, _) = crate::superblock::Superblock::read(&image).expect("read");
    let place = crate::log::LogPosition { pos: sb.log_pos, seq: sb.log_seq };
    let frames = crate::log::Frames::new(&image, ring_of(&sb), place, sb.msn);
    let frames: Vec<_> = frames.map(|frame| frame.expect("frame")).collect();
    assert_eq!(frames.len() as u64, n, "a frame for each sync");
    (image, frames)
}

fn frame_at(frame: &crate::log::ReplayedFrame) -> u64 {
    crate::superblock::LOG_START * UNIT as u64 + frame.pos
}

#[test]
fn a_hole_in_the_log_is_said_and_refused_without_recover() {
    const N: u64 = 9;
    let recover = Options { recover: true, ..Options::tiny() };
    for damaged in 0..N {
        let (storage, frames) = logged(N);
        let frame = &frames[damaged as usize];
        storage.corrupt(frame_at(frame) + 30, &[0xEE; 8]);
        let before = storage.image();
        let opened = Db::open(storage.clone(), Options::tiny());
        if damaged + 1 == N {
            // The last frame is the only one to say that it was durable: it may as well be torn.
            assert_eq!(opened.expect("open").last_msn(), N - 1);
            continue;
        }
        let Err(Error::Lost(lost)) = opened else {
            panic!("frame {damaged}: what was durable is gone unnoticed")
        };
        // What the last frame holds was durable too, but nothing behind it says so.
        let expected =
            crate::LostBatches { first: damaged + 1, last: N - 1, frame: frame.seq, offset: frame_at(frame) };
        assert_eq!(lost, expected);
        assert!(storage.image() == before, "a refused store was written");
        let db = Db::open(storage.clone(), recover.clone()).expect("recover");
        assert_eq!((db.last_msn(), db.lost()), (damaged, Some(&expected)));
        // And it is a store like any other afterwards: what was given up is not met again.
        db.put(b"new", b"1").expect("put");
        db.sync().expect("sync");
        let cut = storage.power_cut(0);
        drop(db);
        for storage in [cut, storage] {
            let db = Db::open(storage, Options::tiny()).expect("open");
            assert_eq!((db.last_msn(), db.lost()), (damaged + 1, None));
            assert_eq!(contents(&db).len() as u64, damaged + 1);
            assert_sound(&db);
        }
    }
}

/// A bad sector of the log that holds nothing keeps no store from being opened; one that may hold what was written is said.
#[test]
fn an_unreadable_part_of_the_log_is_passed_over_or_said() {
    const N: u64 = 9;
    let (whole, frames) = logged(N);
    let (sb, _) = crate::superblock::Superblock::read(&whole).expect("read");
    let ring = ring_of(&sb);
    let place_after = ring.start + frames.last().expect("frames").end;
    let recover = Options { recover: true, ..Options::tiny() };
    for unit in 0..ring.len / UNIT as u64 {
        let at = ring.start + unit * UNIT as u64;
        let storage = whole.copy();
        storage.set_faults(FaultPlan { unreadable_unit: Some(at), ..FaultPlan::default() });
        let report = crate::fsck(storage.clone(), crate::FsckOptions::default()).expect("fsck");
        let damaged = frames.iter().position(|f| (f.pos..f.end).contains(&(at - ring.start)));
        let opened = Db::open(storage.clone(), Options::tiny());
        let survive = match (damaged, opened) {
            (None, Ok(db)) if at != place_after => {
                assert!(report.is_clean(), "unit {unit}: {report}");
                assert_eq!((db.last_msn(), contents(&db).len() as u64), (N, N), "unit {unit}");
                continue;
            }
            (None, Err(Error::Corrupt { offset, why, .. })) if at == place_after => {
                assert!(offset == at && why.contains("recover"), "{why}");
                N
            }
            (Some(frame), Err(Error::Lost(lost))) if frame as u64 + 1 < N => {
                assert_eq!((lost.first, lost.offset), (frame as u64 + 1, at));
                frame as u64
            }
            // Nothing behind the last frame says that it was durable.
            (Some(frame), Err(Error::Corrupt { offset, .. })) if frame as u64 + 1 == N => {
                assert_eq!(offset, at);
                frame as u64
            }
            (_, opened) => panic!("unit {unit}, frame {damaged:?}: {:?}", opened.map(|db| db.last_msn())),
        };
        assert!(report.worst() >= Some(crate::Severity::Warning), "unit {unit}: {report}");
        let mended = whole.copy();
        mended.set_faults(FaultPlan { unreadable_unit: Some(at), ..FaultPlan::default() });
        let repaired = crate::fsck(mended.clone(), crate::FsckOptions { repair: true }).expect("repair");
        assert!(repaired.repaired, "unit {unit}: {repaired}");
        for (storage, options) in [(storage, &recover), (mended, &Options::tiny())] {
            let db = Db::open(storage.clone(), options.clone()).expect("recover");
            assert_eq!(db.last_msn(), survive, "unit {unit}");
            drop(db);
            let db = Db::open(storage, Options::tiny()).expect("what was given up is not met again");
            assert_eq!(contents(&db).len() as u64, survive, "unit {unit}");
            assert_sound(&db);
        }
    }
}

#[test]
fn both_copies_of_the_newest_superblock_lost_are_noticed_by_what_was_logged_since() {
    // With the same life, and after it was opened again.
    for reopened in [false, true] {
        let storage = sim(1024);
        let mut db = Db::create(storage.clone(), Options::tiny()).expect("create");
        // So many that frames of before the checkpoint are written over.
        let put = |db: &Db, n: u8| {
            for i in 0..n {
                db.put(&[i], &[i; 300]).expect("put");
                db.sync().expect("sync");
            }
        };
        put(&db, 20);
        if reopened {
            drop(db);
            db = Db::open(storage.clone(), Options::tiny()).expect("open");
        } else {
            db.checkpoint().expect("checkpoint");
        }
        put(&db, 3);
        let image = storage.copy();
        drop(db);
        let (newest, _) = crate::superblock::Superblock::read(&image).expect("read");
        image.corrupt(newest.generation % 2 * 2 * UNIT as u64, &[0; 2 * UNIT]);
        match Db::open(image.clone(), Options::tiny()) {
            // The older one and the log after it hold everything.
            Ok(db) => assert!(!reopened && db.last_msn() == 23, "{}", db.last_msn()),
            Err(Error::Lost(lost)) => {
                assert!(reopened && lost.last >= 22, "{lost}");
                let recover = Options { recover: true, ..Options::tiny() };
                let db = Db::open(image.clone(), recover).expect("recover");
                put(&db, 2);
                drop(db);
                assert_sound(&Db::open(image, Options::tiny()).expect("open"));
            }
            Err(e) => panic!("{e}"),
        }
    }
}

#[test]
fn a_superblock_says_what_the_log_after_it_must_hold() {
    let storage = sim(1024);
    let db =
        Db::create(storage.clone(), Options { memtable_bytes: 1 << 20, ..Options::tiny() }).expect("create");
    for i in 1..=3u8 {
        db.put(&[i], &[i; 50]).expect("put");
        db.sync().expect("sync");
        if i == 1 {
            db.inner.freeze();
            let applied = db.inner.apply_next(super::super::write::SpaceCheck::Skip).expect("apply");
            assert!(applied == super::super::write::ApplyOutcome::Done);
        }
    }
    // A checkpoint of what has been applied, which is the first.
    let mut last = db.inner.checkpoint.lock().expect("no panic");
    db.inner.checkpoint_applied(&mut last).expect("checkpoint");
    drop(last);
    let image = storage.copy();
    drop(db);
    let (sb, _) = crate::superblock::Superblock::read(&image).expect("read");
    assert_eq!((sb.msn, sb.durable), (1, 3));
    image.corrupt(crate::superblock::LOG_START * UNIT as u64, &vec![0; 64 * UNIT]);
    let Err(Error::Lost(lost)) = Db::open(image, Options::tiny()) else {
        panic!("an empty log was believed")
    };
    assert_eq!((lost.first, lost.last), (2, 3));
}

#[test]
fn an_unreadable_superblock_copy_keeps_no_store_from_being_opened() {
    for unit in 0..4 {
        let (storage, world) = filled(6);
        storage.set_faults(FaultPlan { read_error_at: Some(unit), ..FaultPlan::default() });
        let db = Db::open(storage, Options::tiny()).expect("three copies are left");
        assert_eq!(contents(&db), world.model);
    }
}

/// Threads of a store's own and of its users, a device that loses something once and says so once: what was acknowledged is there.
#[test]
fn what_is_acknowledged_beside_a_loss_is_there() {
    use std::sync::atomic::{AtomicU64, Ordering};
    const WRITERS: u8 = 3;
    let mut met = 0;
    for seed in seeds(40) {
        println!("seed {seed}");
        let mut random = World::new(seed);
        let storage = sim(4096);
        let options = Options {
            background: true,
            memtable_bytes: 8192,
            checkpoint_interval: std::time::Duration::from_millis(1),
            sync_interval: Some(std::time::Duration::from_millis(1)),
            ..Options::tiny()
        };
        let db = Db::create(storage.clone(), options.clone()).expect("create");
        let at = Some(random.below(60));
        storage.set_faults(match seed % 3 {
            0 => FaultPlan { lose_flush_at: at, ..FaultPlan::default() },
            1 => FaultPlan { write_error_at: at, ..FaultPlan::default() },
            _ => FaultPlan { lose_write_at: at, ..FaultPlan::default() },
        });
        let acknowledged: [AtomicU64; WRITERS as usize] = Default::default();
        std::thread::scope(|s| {
            for w in 0..WRITERS {
                let (db, acknowledged) = (&db, &acknowledged[w as usize]);
                s.spawn(move || {
                    for i in 1..=200u64 {
                        let mut value = i.to_be_bytes().to_vec();
                        value.resize(if i % 8 == 3 { 9000 } else { 300 }, w);
                        if db.put(&[w], &value).is_err() || db.sync().is_err() {
                            return;
                        }
                        acknowledged.store(i, Ordering::Release);
                    }
                });
            }
        });
        met += u32::from(db.failure().is_some());
        let cut = storage.power_cut(seed);
        drop(db);
        let db = Db::open(cut, Options { background: false, ..options }).expect("open");
        for (w, acknowledged) in acknowledged.iter().enumerate() {
            let value = db.get(&[w as u8]).expect("get").unwrap_or_else(|| vec![0; 8]);
            let found = u64::from_be_bytes(value[..8].try_into().expect("eight bytes"));
            let acknowledged = acknowledged.load(Ordering::Acquire);
            assert!(found >= acknowledged, "seed {seed}: {acknowledged} was acknowledged, {found} is there");
        }
        assert_sound(&db);
    }
    assert!(met > 20, "the fault was met {met} times");
}
