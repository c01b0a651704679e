//! Many threads on one store, with the background threads running.

use super::model::{Model, contents};
use super::*;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::time::Duration;

fn options() -> Options {
    Options {
        background: true,
        memtable_bytes: 8192,
        checkpoint_interval: Duration::from_millis(20),
        sync_interval: Some(Duration::from_millis(5)),
        ..Options::tiny()
    }
}

#[test]
fn writers_readers_scans_clones_and_checkpoints_together() {
    let storage = sim(8192);
    let db = Db::create(storage.clone(), options()).expect("create");
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        let writers: Vec<_> = (0..3u8)
            .map(|w| {
                let db = &db;
                s.spawn(move || {
                    let mut model = Model::new();
                    for i in 0..600u32 {
                        // Each writer owns a directory, and pairs of keys that always change together.
                        let key = |side: u8| [&[b'w', w, side], &(i * 7919 % 101).to_be_bytes()[..]].concat();
                        let mut batch = WriteBatch::new();
                        for side in 0..2 {
                            batch.put(&key(side), &i.to_be_bytes());
                            model.insert(key(side), i.to_be_bytes().to_vec());
                        }
                        db.write(batch).expect("write");
                        if i % 100 == 50 {
                            db.sync().expect("sync");
                        }
                        assert_eq!(db.get(&key(0)).expect("get"), Some(i.to_be_bytes().to_vec()));
                    }
                    model
                })
            })
            .collect();
        let reader = s.spawn(|| {
            let mut scans = 0;
            // At least once, however busy the machine is.
            let mut last = false;
            while !last {
                last = stop.load(Ordering::Relaxed);
                for w in 0..3u8 {
                    let all: Model =
                        db.scan(&KeyRange::prefix(&[b'w', w])).map(|r| r.expect("scan")).collect();
                    for (k, v) in all.range(vec![b'w', w, 0]..vec![b'w', w, 1]) {
                        let twin = [&[b'w', w, 1], &k[3..]].concat();
                        assert_eq!(all.get(&twin), Some(v), "half a batch was seen");
                    }
                    scans += 1;
                }
            }
            scans
        });
        let cloner = s.spawn(|| {
            for i in 0..20u8 {
                db.clone_range(&[b'w', i % 3], &[b'c', i]).expect("clone");
                let copy: Model = db.scan(&KeyRange::prefix(&[b'c', i])).map(|r| r.expect("scan")).collect();
                for (k, v) in copy.range(vec![b'c', i, 0]..vec![b'c', i, 1]) {
                    assert_eq!(
                        copy.get(&[&[b'c', i, 1], &k[3..]].concat()),
                        Some(v),
                        "half a batch was cloned"
                    );
                }
            }
        });
        let mut expected = Model::new();
        for w in writers {
            expected.extend(w.join().expect("writer"));
        }
        cloner.join().expect("cloner");
        stop.store(true, Ordering::Relaxed);
        assert!(reader.join().expect("reader") > 0);
        let found: Model = contents(&db).into_iter().filter(|(k, _)| k[0] == b'w').collect();
        assert_eq!(found, expected);
    });
    assert_sound(&db);
    let (all, last) = (contents(&db), db.last_msn());
    drop(db);
    let db = Db::open(storage, options()).expect("open");
    assert_eq!((contents(&db), db.last_msn()), (all, last));
}

#[test]
fn background_failures_stop_writers_instead_of_hanging_them() {
    let storage = sim(4096);
    let db = Db::create(storage.clone(), options()).expect("create");
    let plan = crate::storage::FaultPlan { power_off_after: Some(20), ..Default::default() };
    storage.set_faults(plan);
    let mut written = 0u32;
    let error = loop {
        match db.put(&written.to_be_bytes(), &[1; 300]) {
            Ok(_) => written += 1,
            Err(e) => break e,
        }
        assert!(written < 1_000_000, "the failure was never noticed");
    };
    assert!(matches!(error, Error::ReadOnly(_) | Error::Io { .. }), "{error}");
}

#[test]
fn the_store_is_send_and_sync() {
    fn shared<T: Send + Sync>() {}
    fn moved<T: Send>() {}
    shared::<Db>();
    moved::<Cursor>();
}

#[test]
fn extents_on_their_way_can_be_read_and_a_sync_waits_for_them() {
    let storage = sim(16_384);
    let options =
        Options { background: true, sync_interval: None, log_bytes: 256 * UNIT as u64, ..Options::tiny() };
    let db = Db::create(storage.clone(), options.clone()).expect("create");
    std::thread::scope(|s| {
        for w in 0..3u8 {
            let db = &db;
            s.spawn(move || {
                for i in 0..30u8 {
                    let value = vec![w * 50 + i; 100_000];
                    db.put(&[w, i], &value).expect("put");
                    assert!(db.get(&[w, i]).expect("get") == Some(value), "read while it is being written");
                    if i % 10 == 9 {
                        db.sync().expect("sync");
                    }
                }
            });
        }
    });
    let expected = contents(&db);
    assert_eq!(expected.len(), 90);
    // Nothing but what the last sync made durable.
    let cut = storage.power_cut(0);
    let again = Db::open(cut, Options::tiny()).expect("open");
    assert!(contents(&again) == expected, "a synced extent is missing");
    assert_sound(&again);
    drop(db);
    assert!(contents(&Db::open(storage, options).expect("open")) == expected);
}

#[test]
fn a_failed_extent_write_is_reported_by_the_sync() {
    let storage = sim(4096);
    let options = Options { background: true, sync_interval: None, ..Options::tiny() };
    let db = Db::create(storage.clone(), options).expect("create");
    storage.set_faults(crate::storage::FaultPlan { write_error_at: Some(0), ..Default::default() });
    let put = db.put(b"big", &[1; 50_000]);
    assert!(put.is_ok(), "the write is behind: {put:?}");
    assert!(db.sync().is_err() && db.sync().is_err(), "a lost extent was promised");
}

#[test]
fn a_scan_that_reads_ahead_returns_the_same() {
    let storage = sim(32_768);
    let options = Options { background: true, sync_interval: None, ..Options::tiny() };
    let db = Db::create(storage, options).expect("create");
    let mut expected = Model::new();
    for i in 0..4000u32 {
        let value = i.to_be_bytes().repeat(512 + (i % 7) as usize * 64);
        // Some values next to each other in an extent, some overwritten or patched later.
        expected.insert(i.to_be_bytes().to_vec(), value);
    }
    for chunk in expected.iter().collect::<Vec<_>>().chunks(50) {
        let mut batch = WriteBatch::new();
        chunk.iter().for_each(|(k, v)| _ = batch.put(k, v));
        db.write(batch).expect("write");
    }
    for i in (0..4000u32).step_by(37) {
        db.patch(&i.to_be_bytes(), 100, b"patch").expect("patch");
        expected.get_mut(&i.to_be_bytes()[..]).expect("there")[100..105].copy_from_slice(b"patch");
    }
    db.checkpoint().expect("checkpoint");
    assert!(contents(&db) == expected);
    let first: Model = db.scan(&KeyRange::all()).take(3).map(|r| r.expect("scan")).collect();
    assert!(first.iter().eq(expected.iter().take(3)));
}
