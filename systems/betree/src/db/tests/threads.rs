//! Many threads on one store, with the background threads running.

use super::model::{Model, contents};
use super::*;
use crate::storage::Storage;
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
    // The write is behind; should it have failed already, that is said.
    let put = db.put(b"big", &[1; 50_000]);
    assert!(matches!(put, Ok(_) | Err(Error::ReadOnly(_))), "{put:?}");
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

/// A simulated device whose flushes take so long that syncs wait for each other.
struct SlowFlush(SimStorage);

/// Above what makes a flush worth waiting for.
const SLOW_FLUSH: Duration = Duration::from_micros(600);

impl Storage for SlowFlush {
    fn len(&self) -> std::io::Result<u64> {
        self.0.len()
    }

    fn read_at(&self, buf: &mut [u8], off: u64) -> std::io::Result<()> {
        self.0.read_at(buf, off)
    }

    fn write_at(&self, buf: &[u8], off: u64) -> std::io::Result<()> {
        self.0.write_at(buf, off)
    }

    fn flush(&self) -> std::io::Result<()> {
        std::thread::sleep(SLOW_FLUSH);
        self.0.flush()
    }

    fn discard(&self, off: u64, len: u64) -> std::io::Result<()> {
        self.0.discard(off, len)
    }
}

/// Eight threads write and sync in turns, half of them by asking first and waiting later, while the power is cut again and
/// again: what a sync has answered is there, whoever made the flush.
#[test]
fn what_a_sync_has_answered_survives_whoever_flushed() {
    const WRITERS: usize = 8;
    let storage = sim(2048);
    let options = Options { sync_interval: None, ..options() };
    let db = Db::create(SlowFlush(storage.clone()), options.clone()).expect("create");
    let answered: [std::sync::atomic::AtomicU32; WRITERS] = Default::default();
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        for (w, mine) in answered.iter().enumerate() {
            let (db, stop) = (&db, &stop);
            s.spawn(move || {
                for i in 1u32.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    // Some are large enough for an extent, which has to be there as well.
                    let mut value = i.to_be_bytes().to_vec();
                    value.resize(if i % 16 == 3 { 9000 } else { 40 }, w as u8);
                    db.put(&[w as u8], &value).expect("put");
                    if w % 2 == 0 {
                        db.sync().expect("sync");
                    } else {
                        let asked = db.ask_sync().expect("ask");
                        assert!(db.sync_to(asked).expect("sync") >= asked);
                    }
                    mine.store(i, Ordering::Release);
                }
            });
        }
        for seed in seeds(60) {
            // Each of them goes on between two cuts.
            let before = answered[seed as usize % WRITERS].load(Ordering::Acquire);
            while answered[seed as usize % WRITERS].load(Ordering::Acquire) == before {
                std::thread::yield_now();
            }
            let floors: Vec<u32> = answered.iter().map(|n| n.load(Ordering::Acquire)).collect();
            let cut = storage.power_cut(seed);
            let after = Db::open(cut, Options { background: false, ..options.clone() }).expect("open");
            for (w, floor) in floors.into_iter().enumerate() {
                let value = after.get(&[w as u8]).expect("get");
                let found = value.map_or(0, |v| u32::from_be_bytes([v[0], v[1], v[2], v[3]]));
                assert!(found >= floor, "seed {seed}: writer {w} was told {floor}, {found} is there");
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    db.close().expect("close");
}
