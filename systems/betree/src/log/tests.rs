//! Tests of the log.

use super::*;
use crate::storage::{SimStorage, UNIT};

const RING: Ring = Ring { start: 2 * UNIT as u64, len: 16 * UNIT as u64, uuid: 7, life: 1 };

fn latched(storage: SimStorage) -> Arc<Latched> {
    Arc::new(Latched::new(Arc::new(storage)))
}

fn taken(appended: Result<AppendOutcome>) -> bool {
    matches!(appended.expect("append"), AppendOutcome::Done(_))
}

fn messages(storage: &SimStorage, ring: &Ring, pos: u64, seq: u64, msn: u64) -> Vec<(u64, Vec<u8>)> {
    let mut out = Vec::new();
    for frame in Frames::new(storage, *ring, LogPosition { pos, seq }, msn).map(|frame| frame.expect("frame"))
    {
        for (i, r) in records(frame.payload()).expect("records").into_iter().enumerate() {
            out.push((frame.first_msn + i as u64, r.to_vec()));
        }
    }
    out.retain(|(n, _)| *n > msn);
    out
}

#[test]
fn frames_are_read_back_over_many_laps() {
    let storage = SimStorage::new(32 * UNIT as u64);
    let log = Log::new(latched(storage.clone()), RING, 0, 1, 0);
    let (mut pos, mut seq, mut base) = (0, 1, 0);
    for msn in 1..=200u64 {
        let record = vec![msn as u8; (msn * 37 % 5000) as usize];
        let (head, rest) = record.split_at(record.len() / 3);
        // Of some records the log has a part only, of others all.
        let append = || match msn % 4 {
            0 | 1 => log.append(msn, &[&record], false),
            _ => log.append_shared(msn, head, rest.len(), || rest.into(), false),
        };
        while append().expect("append") == AppendOutcome::Full {
            // A "checkpoint" of everything written.
            log.commit(true).expect("commit");
            base = msn - 1;
            (pos, seq) = log.tail_after(base);
            log.release(base);
        }
        if msn % 3 == 0 {
            log.commit(msn % 2 == 0).expect("commit");
            let found = messages(&storage, &RING, pos, seq, base);
            let expected: Vec<u64> = (base + 1..=msn).collect();
            assert_eq!(found.iter().map(|f| f.0).collect::<Vec<_>>(), expected, "at message {msn}");
            assert!(found.iter().all(|(n, r)| *r == vec![*n as u8; (n * 37 % 5000) as usize]));
        }
    }
}

#[test]
fn a_torn_or_lost_frame_ends_the_replay_and_later_lives_are_not_confused() {
    let storage = SimStorage::new(32 * UNIT as u64);
    let log = Log::new(latched(storage.clone()), RING, 0, 1, 0);
    for msn in 1..=4u64 {
        assert!(taken(log.append(msn, &[&[msn as u8; 5000]], false)));
        log.commit(true).expect("commit");
    }
    assert_eq!(messages(&storage, &RING, 0, 1, 0).len(), 4);
    // The second frame is damaged in its second unit.
    storage.corrupt(RING.start + 3 * UNIT as u64 + 10, &[0xEE; 8]);
    assert_eq!(messages(&storage, &RING, 0, 1, 0).len(), 1);
    // The next life writes over it; the old third frame must not follow.
    let life = Ring { life: 2, ..RING };
    let log = Log::new(latched(storage.clone()), life, 2 * UNIT as u64, 2, 1);
    assert!(taken(log.append(2, &[&[9; 5000]], false)));
    log.commit(true).expect("commit");
    assert_eq!(messages(&storage, &life, 2 * UNIT as u64, 2, 1), vec![(2, vec![9; 5000])]);
}

#[test]
fn a_failed_write_stops_the_log_for_good() {
    let storage = SimStorage::new(32 * UNIT as u64);
    let log = Log::new(latched(storage.clone()), RING, 0, 1, 0);
    storage.set_faults(crate::storage::FaultPlan { flush_error_at: Some(0), ..Default::default() });
    assert!(taken(log.append(1, &[b"x"], false)));
    assert!(matches!(log.commit(true), Err(crate::Error::ReadOnly(_))));
    assert!(log.append(2, &[b"x"], false).is_err(), "nothing may be promised after a failed flush");
    assert_eq!(log.durable(), 0);
}

#[test]
fn many_syncs_share_flushes() {
    let storage = SimStorage::new(32 * UNIT as u64);
    let log = Arc::new(Log::new(latched(storage), RING, 0, 1, 0));
    (1..=8).for_each(|msn| assert!(taken(log.append(msn, &[b"r"], false))));
    std::thread::scope(|s| {
        for _ in 0..8 {
            s.spawn(|| log.commit(true).expect("commit"));
        }
    });
    assert_eq!((log.durable(), log.syncs()), (8, 1), "one flush must serve all");
}

#[test]
fn a_leader_waits_for_those_who_are_missing_and_one_flush_serves_all() {
    let storage = SimStorage::new(32 * UNIT as u64);
    let log = Log::new(latched(storage), RING, 0, 1, 0);
    // So long that only the third sync can end the wait.
    log.lock().gather = gather::GroupCommit::primed(3, Duration::from_secs(3600));
    let sync = |msn: u64| {
        assert!(taken(log.append(msn, &[&[msn as u8; 100]], false)));
        let target = log.ask();
        assert!(log.sync_to(target).expect("sync") >= msn);
    };
    std::thread::scope(|scope| {
        scope.spawn(|| sync(1));
        while log.lock().goal.is_none() {
            std::thread::yield_now();
        }
        let second = scope.spawn(|| sync(2));
        while log.lock().asked < 2 {
            std::thread::yield_now();
        }
        assert_eq!((log.syncs(), log.durable()), (0, 0));
        assert!(!second.is_finished());
        sync(3);
    });
    assert_eq!((log.syncs(), log.durable()), (1, 3));
    // Nothing is left to be made durable, so nothing is counted.
    assert_eq!((log.ask(), log.lock().asked), (3, 0));
}

#[test]
fn nothing_is_answered_before_it_is_durable_however_many_sync() {
    let storage = SimStorage::new(32 * UNIT as u64);
    let log = Log::new(latched(storage.clone()), RING, 0, 1, 0);
    // Gathers each time, up to a millisecond.
    log.lock().gather = gather::GroupCommit::primed(6, Duration::from_millis(2));
    let next = Mutex::new(0u64);
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                for _ in 0..100 {
                    let msn = {
                        let mut next = next.lock().expect("next");
                        let msn = *next + 1;
                        while log.append(msn, &[&msn.to_le_bytes()], false).expect("append")
                            == AppendOutcome::Full
                        {
                            log.commit(true).expect("commit");
                            log.release(log.durable());
                        }
                        *next = msn;
                        msn
                    };
                    let durable = log.sync_to(log.ask()).expect("sync");
                    assert!(durable >= msn && log.durable() >= durable, "message {msn}, {durable} durable");
                }
            });
        }
    });
    assert_eq!(log.durable(), 600);
}

/// A log of 1 MiB whose records are held, after `n` records of 1,000 bytes.
fn held(storage: &SimStorage, n: u64) -> (Log, Ring) {
    let ring = Ring { len: 256 * UNIT as u64, ..RING };
    let log = Log::new(latched(storage.clone()), ring, 0, 1, 0).holding(10_000);
    // Nobody has synced for long enough.
    for msn in 1..=12 {
        assert!(taken(log.append(msn, &[&[msn as u8; 1000]], false)));
    }
    log.hold();
    for msn in 13..=12 + n {
        assert!(taken(log.append(msn, &[&[msn as u8; 1000]], false)));
    }
    (log, ring)
}

fn numbers(storage: &SimStorage, ring: &Ring) -> Vec<(u64, usize)> {
    messages(storage, ring, 0, 1, 0).into_iter().map(|(n, r)| (n, r.len())).collect()
}

/// What a recovery finds of messages `from..=upto`, each with its own record.
fn whole(from: u64, upto: u64) -> Vec<(u64, usize)> {
    (from..=upto).map(|n| (n, 1000)).collect()
}

#[test]
fn held_records_are_written_when_somebody_wants_them() {
    let storage = SimStorage::new(300 * UNIT as u64);
    let (log, ring) = held(&storage, 5);
    log.commit_ready().expect("commit");
    assert_eq!(numbers(&storage, &ring), whole(1, 12), "what came before may be written");
    assert_eq!(log.bytes(), 17_000);
    let asked = log.ask();
    assert_eq!(log.sync_to(asked).expect("sync"), 17);
    assert_eq!(numbers(&storage, &ring), whole(1, 17));
    // After a sync nothing is held until it has been quiet for long enough.
    log.hold();
    assert!(taken(log.append(18, &[&[18; 1000]], false)));
    log.commit_ready().expect("commit");
    assert_eq!(numbers(&storage, &ring), whole(1, 18));
}

#[test]
fn one_record_stands_for_those_of_a_memtable() {
    let storage = SimStorage::new(300 * UNIT as u64);
    let (log, ring) = held(&storage, 4);
    assert!(!log.bind(16, b"one"), "no memtable has ended there");
    log.close_chunk();
    assert!(taken(log.append(17, &[&[17; 1000]], false)));
    assert_eq!(log.held(16), Some((13, 4000)));
    assert!(log.bind(16, b"one for all"));
    log.commit_ready().expect("commit");
    let bound = |n: u64| (n, if n == 16 { 11 } else { 2 });
    let expected: Vec<_> = whole(1, 12).into_iter().chain((13..=16).map(bound)).collect();
    assert_eq!(numbers(&storage, &ring), expected);
    // A recovery that begins within them applies it too: it is the record of the last.
    assert_eq!(messages(&storage, &ring, 0, 1, 15), vec![(16, b"one for all".to_vec())]);
    assert!(!log.bind(16, b"again"), "it has been written");
    log.commit(true).expect("commit");
    assert_eq!(numbers(&storage, &ring).last(), Some(&(17, 1000)));
    assert_eq!(log.durable(), 17);
}

#[test]
fn what_is_not_bound_is_written_as_it_is() {
    let storage = SimStorage::new(300 * UNIT as u64);
    let (log, ring) = held(&storage, 3);
    log.close_chunk();
    assert!(taken(log.append(16, &[&[16; 1000]], false)));
    log.free(15);
    assert!(!log.bind(15, b"too late"));
    log.commit_ready().expect("commit");
    assert_eq!(numbers(&storage, &ring), whole(1, 15), "the next memtable's is held");
    log.release_held();
    log.commit_ready().expect("commit");
    assert_eq!(numbers(&storage, &ring), whole(1, 16));
}

#[test]
fn held_records_are_neither_many_nor_old() {
    let storage = SimStorage::new(300 * UNIT as u64);
    let (log, ring) = held(&storage, 4);
    let (soon, late) = (Duration::from_secs(3600), Duration::ZERO);
    assert!(!log.holds_for(soon) && log.holds_for(late));
    log.secure(soon).expect("secure");
    assert_eq!((log.durable(), numbers(&storage, &ring)), (12, whole(1, 12)));
    log.secure(late).expect("secure");
    assert_eq!((log.durable(), numbers(&storage, &ring)), (16, whole(1, 16)));
    assert!(!log.holds_for(late), "they are held no longer");
    // Beyond what may be held the oldest are ready, chunk by chunk.
    log.hold();
    for msn in 17..=30 {
        log.close_chunk();
        assert!(taken(log.append(msn, &[&[msn as u8; 1000]], false)));
    }
    log.commit_ready().expect("commit");
    let found = numbers(&storage, &ring);
    assert!(found.len() > 16 && found.len() < 30 && found == whole(1, found.len() as u64), "{found:?}");
}

#[test]
fn what_a_recovery_has_to_apply_asks_for_a_checkpoint() {
    let storage = SimStorage::new(300 * UNIT as u64);
    let (log, ring) = held(&storage, 0);
    let mut msn = 12;
    let mut fill = log.fill();
    // 110 memtables of 10 records, each bound to a few bytes: more than a ring's length in all.
    for _ in 0..110 {
        for _ in 0..10 {
            msn += 1;
            assert!(taken(log.append(msn, &[&[1; 1000]], false)));
        }
        log.close_chunk();
        log.hold();
        log.bind(msn, b"few");
        log.commit_ready().expect("commit");
        assert!(log.fill() >= fill);
        fill = log.fill();
    }
    assert!(log.position().0 < ring.len / 2, "the ring is not the reason");
    assert!(fill >= 500, "{fill}");
    log.release(msn);
    assert_eq!(log.fill(), 0);
}

/// Each frame begins a unit of the ring, however little is in it.
#[test]
fn memtables_of_a_record_each_fill_the_ring_and_write_over_nothing() {
    let storage = SimStorage::new(32 * UNIT as u64);
    let log = Log::new(latched(storage.clone()), RING, 0, 1, 0);
    for msn in 1..=4 {
        assert!(taken(log.append(msn, &[&[1; 5000]], false)));
        log.commit(true).expect("commit");
        log.release(msn);
    }
    let (pos, seq) = log.tail_after(4);
    log.hold();
    let taken = (5..500u64).take_while(|msn| {
        let taken = taken(log.append(*msn, &[&[2; 8]], false));
        log.close_chunk();
        taken
    });
    let expected: Vec<u64> = taken.collect();
    assert!(expected.len() > 3, "{expected:?}");
    log.commit(true).expect("commit");
    let found: Vec<u64> = messages(&storage, &RING, pos, seq, 4).into_iter().map(|(msn, _)| msn).collect();
    assert_eq!(found, expected);
}

/// A ring in which every unit claims to be a frame of all that is left, as only somebody who wants a search to take long makes one.
#[test]
fn frames_that_lie_over_one_another_are_an_error_in_time_linear_in_the_ring() {
    let ring = Ring { start: 0, len: 1000 * UNIT as u64, uuid: 7, life: 1 };
    let storage = SimStorage::new(ring.len);
    for unit in 0..1000u64 {
        let mut head = Vec::new();
        put_u32(&mut head, MAGIC);
        put_u32(&mut head, 0);
        [ring.uuid, ring.life, unit + 2, unit, unit].iter().for_each(|n| put_u64(&mut head, *n));
        put_u32(&mut head, ((1000 - unit) * UNIT as u64) as u32 - HEADER as u32);
        put_u64(&mut head, 0);
        storage.corrupt(unit * UNIT as u64, &head);
    }
    let reads = Reads { below: storage, bytes: Default::default() };
    let end = LogPosition { pos: 0, seq: 1 };
    let found = later_frames(&reads, &ring, end, ring.len);
    let error = found.expect_err("crafted").to_string();
    assert!(error.contains("lie over one another"), "{error}");
    let read = reads.bytes.into_inner();
    assert!(read < 10 * ring.len, "{read} bytes of a ring of {}", ring.len);
}

/// Counts what is read.
struct Reads {
    below: SimStorage,
    bytes: std::sync::atomic::AtomicU64,
}

impl Storage for Reads {
    fn len(&self) -> std::io::Result<u64> {
        self.below.len()
    }

    fn read_at(&self, buf: &mut [u8], off: u64) -> std::io::Result<()> {
        self.bytes.fetch_add(buf.len() as u64, std::sync::atomic::Ordering::Relaxed);
        self.below.read_at(buf, off)
    }

    fn write_at(&self, buf: &[u8], off: u64) -> std::io::Result<()> {
        self.below.write_at(buf, off)
    }

    fn flush(&self) -> std::io::Result<()> {
        self.below.flush()
    }

    fn discard(&self, off: u64, len: u64) -> std::io::Result<()> {
        self.below.discard(off, len)
    }
}
