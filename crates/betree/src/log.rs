//! The write-ahead log: a ring of frames with group commit.
//!
//! Records collect in memory. Whoever needs them on storage becomes the leader, writes all of them as one
//! frame, and flushes; others that come meanwhile wait for the next frame, which again takes all at once. A
//! frame holds the store's number, the life it was written in, and its place in the sequence, so frames of an
//! earlier lap, life or store are never taken for its continuation.
//!
//! Positions count bytes since the store was made; position modulo ring length is the place on storage. A frame
//! never wraps: if it does not fit before the end of the ring, it goes to the start of the next lap.

use crate::error::{Doing, Error, Result};
use crate::flight::Flight;
use crate::storage::{AlignedBuf, BufPool, PooledBuf, Storage, UNIT, round_up};
use crate::wire::{Decoded, Malformed, Reader, put_u32, put_u64};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

const MAGIC: u32 = 0x474F_4C42; // "BLOG"
const HEADER: usize = 52;
/// Records collected beyond this are written without waiting for a sync.
const BUFFER_BYTES: usize = 1 << 20;
/// And beyond this many times as much by whoever adds more.
const BEHIND_MAX: usize = 4;

/// Which ring, and which frames in it count.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ring {
    /// First byte on storage.
    pub start: u64,
    /// Length in bytes.
    pub len: u64,
    /// Number of the store.
    pub uuid: u64,
    /// Life that frames are written in.
    pub life: u64,
}

struct Frame {
    last_msn: u64,
    pos: u64,
    seq: u64,
}

struct State {
    buf: Vec<u8>,
    buf_first: u64,
    /// Some record in `buf` refers to an extent that has not been flushed.
    binds: bool,
    /// Where the next frame goes, and its number.
    head: u64,
    seq: u64,
    /// Frames that a recovery would still need, oldest first.
    frames: VecDeque<Frame>,
    appended: u64,
    written: u64,
    durable: u64,
    writing: bool,
    failed: Option<String>,
    syncs: u64,
    bytes: u64,
}

/// The log of an open store.
pub(crate) struct Log {
    storage: Arc<dyn Storage>,
    ring: Ring,
    /// Extents that records may refer to and that are still being written.
    flight: Arc<Flight>,
    /// Buffers of frames.
    pool: BufPool,
    /// Whoever writes ripe records waits for them here.
    ripe: Condvar,
    state: Mutex<State>,
    turn: Condvar,
}

/// How much waits to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// Little, or somebody was told before.
    Little,
    /// As of now so much that it is worth a frame.
    Enough,
    /// So much that whoever adds more should write it.
    TooMuch,
}

/// What became of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Appended {
    /// It waits to be written.
    Done(Waiting),
    /// The ring has no room; nothing happened.
    Full,
}

/// A frame read back.
pub(crate) struct Replayed {
    /// Number of the first record.
    pub first_msn: u64,
    /// Number of the last record.
    pub last_msn: u64,
    /// Position, see the module's description.
    pub pos: u64,
    /// Number of the frame.
    pub seq: u64,
    /// The records.
    pub payload: Vec<u8>,
    /// Position behind it.
    pub end: u64,
}

/// What follows the last frame that a replay accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tail {
    /// Nothing of this log.
    End,
    /// The next frame is there but damaged: torn by a power cut, or decayed.
    Torn {
        /// Its position.
        pos: u64,
        /// Its number.
        seq: u64,
    },
    /// The next frame is missing or damaged, but later ones are there.
    Gap {
        /// Number of the first frame that is missing.
        seq: u64,
        /// Sound frames behind the gap.
        later: u64,
    },
}

/// Looks behind the last frame accepted, which ends at `pos`; `seq` is the number that should follow.
pub(crate) fn tail(storage: &dyn Storage, ring: &Ring, pos: u64, seq: u64) -> Result<Tail> {
    let mut later = 0;
    let mut chunk = AlignedBuf::zeroed(256 * UNIT);
    let mut at = 0;
    while at < ring.len {
        let n = (chunk.len() as u64).min(ring.len - at) as usize;
        storage.read_at(&mut chunk[..n], ring.start + at).doing("reading the log")?;
        for i in 0..n / UNIT {
            let number = sequence_of(&chunk[i * UNIT..(i + 1) * UNIT], ring);
            let there = at + (i * UNIT) as u64;
            if let Some(number) = number.filter(|n| *n > seq) {
                later += u64::from(read_frame(storage, ring, there, number)?.is_some());
            }
        }
        at += n as u64;
    }
    if later > 0 {
        return Ok(Tail::Gap { seq, later });
    }
    let lap_end = pos + (ring.len - pos % ring.len);
    for pos in [pos, lap_end] {
        if looks_damaged(storage, ring, pos, seq)? {
            return Ok(Tail::Torn { pos, seq });
        }
    }
    Ok(Tail::End)
}

/// The number in a unit that begins like a frame of this life.
fn sequence_of(unit: &[u8], ring: &Ring) -> Option<u64> {
    let mut r = Reader::new(unit);
    let (magic, _crc) = (r.u32().ok()?, r.u32().ok()?);
    let (uuid, life, number) = (r.u64().ok()?, r.u64().ok()?, r.u64().ok()?);
    (magic == MAGIC && uuid == ring.uuid && life == ring.life).then_some(number)
}

/// True if at `pos` is most of the header of frame `seq`, or all of the frame but for its header.
fn looks_damaged(storage: &dyn Storage, ring: &Ring, pos: u64, seq: u64) -> Result<bool> {
    let at = ring.start + pos % ring.len;
    let mut unit = AlignedBuf::zeroed(UNIT);
    storage.read_at(&mut unit, at).doing("reading the log")?;
    let mut expected = Vec::with_capacity(32);
    put_u32(&mut expected, MAGIC);
    expected.extend_from_slice(&unit[4..8]);
    [ring.uuid, ring.life, seq].iter().for_each(|n| put_u64(&mut expected, *n));
    let same = |from: usize, to: usize| unit[from..to] == expected[from..to];
    // A frame of an earlier life may well have this number.
    if same(16, 32) && (same(0, 4) || same(8, 16)) {
        return Ok(true);
    }
    let len = u32::from_le_bytes([unit[48], unit[49], unit[50], unit[51]]) as usize;
    if (HEADER + len) as u64 > ring.len - pos % ring.len {
        return Ok(false);
    }
    let mut buf = AlignedBuf::zeroed(HEADER + len);
    storage.read_at(&mut buf, at).doing("reading the log")?;
    buf[..expected.len()].copy_from_slice(&expected);
    Ok(crc32c::crc32c(&buf[8..HEADER + len]).to_le_bytes() == expected[4..8])
}

impl Log {
    /// A log whose next frame goes to `pos` with number `seq`, after message `msn`.
    pub fn new(storage: Arc<dyn Storage>, ring: Ring, pos: u64, seq: u64, msn: u64) -> Self {
        let state = State {
            buf: Vec::new(),
            buf_first: msn + 1,
            binds: false,
            head: pos,
            seq,
            frames: VecDeque::new(),
            appended: msn,
            written: msn,
            durable: msn,
            writing: false,
            failed: None,
            syncs: 0,
            bytes: 0,
        };
        Log {
            storage,
            ring,
            flight: Arc::default(),
            pool: BufPool::new(2 * BUFFER_BYTES),
            ripe: Condvar::new(),
            state: Mutex::new(state),
            turn: Condvar::new(),
        }
    }

    /// Names the extents that must be on storage before a record that refers to one.
    pub fn behind(mut self, flight: &Arc<Flight>) -> Self {
        self.flight = flight.clone();
        self
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Largest record the ring can take.
    pub fn record_bytes_max(&self) -> usize {
        (self.ring.len / 8) as usize
    }

    /// Part of the ring in use, in thousandths.
    pub fn fill(&self) -> u64 {
        let s = self.lock();
        self.used(&s) * 1000 / self.ring.len
    }

    fn used(&self, s: &State) -> u64 {
        s.head - s.frames.front().map_or(s.head, |f| f.pos) + s.buf.len() as u64
    }

    /// Adds the record of message `msn`, given in pieces, unless the ring would get too full.
    pub fn append(&self, msn: u64, record: &[&[u8]], binds: bool) -> Result<Appended> {
        let len: usize = record.iter().map(|piece| piece.len()).sum();
        let mut s = self.lock();
        if let Some(why) = &s.failed {
            return Err(Error::ReadOnly(why.clone()));
        }
        // Twice the pending bytes: the frame may have to skip the end of the ring. A tenth stays free.
        let pending = round_up(s.buf.len() + len + HEADER + 4) as u64;
        if self.used(&s) + 2 * pending > self.ring.len / 10 * 9 {
            return Ok(Appended::Full);
        }
        if s.buf.is_empty() {
            s.buf_first = msn;
        }
        let (before, ripe) = (s.buf.len(), BUFFER_BYTES.min(self.ring.len as usize / 16));
        put_u32(&mut s.buf, len as u32);
        record.iter().for_each(|piece| s.buf.extend_from_slice(piece));
        s.binds |= binds;
        s.bytes += len as u64;
        s.appended = msn;
        Ok(Appended::Done(match s.buf.len() {
            n if n >= ripe * BEHIND_MAX => Waiting::TooMuch,
            n if n >= ripe && before < ripe => Waiting::Enough,
            _ => Waiting::Little,
        }))
    }

    /// Wakes whoever is in [`Log::wait`].
    pub fn wake(&self) {
        drop(self.lock());
        self.ripe.notify_all();
    }

    /// Waits until enough records wait to be written, somebody calls [`Log::wake`], or `time` is over. True in the
    /// first case.
    pub fn wait(&self, time: Duration) -> bool {
        let ripe = BUFFER_BYTES.min(self.ring.len as usize / 16);
        let s = self.lock();
        if s.buf.len() >= ripe {
            return true;
        }
        self.ripe.wait_timeout(s, time).unwrap_or_else(|e| e.into_inner()).0.buf.len() >= ripe
    }

    /// Number of the last message that is known to survive a power cut.
    pub fn durable(&self) -> u64 {
        self.lock().durable
    }

    /// Flushes made for syncs.
    pub fn syncs(&self) -> u64 {
        self.lock().syncs
    }

    /// Bytes of memory for records that have not been written, and for writing them.
    pub fn memory(&self) -> usize {
        self.lock().buf.capacity() + self.pool.bytes()
    }

    /// Bytes of records appended.
    pub fn bytes(&self) -> u64 {
        self.lock().bytes
    }

    /// Writes every record appended so far; with `sync`, returns only when they are durable.
    pub fn commit(&self, sync: bool) -> Result<()> {
        let mut s = self.lock();
        let target = s.appended;
        loop {
            if let Some(why) = &s.failed {
                return Err(Error::ReadOnly(why.clone()));
            }
            let reached = if sync { s.durable } else { s.written };
            if reached >= target {
                return Ok(());
            }
            if s.writing {
                s = self.turn.wait(s).unwrap_or_else(|e| e.into_inner());
                continue;
            }
            s.writing = true;
            let job = self.take_frame(&mut s);
            drop(s);
            let writing = Writing(self);
            let done = self.write(job.as_ref(), sync);
            std::mem::forget(writing);
            s = self.lock();
            s.writing = false;
            match done {
                Ok(()) => {
                    if let Some(job) = job {
                        s.written = job.last_msn;
                    }
                    if sync {
                        s.durable = s.durable.max(s.written);
                        s.syncs += 1;
                    }
                }
                Err(e) => s.failed = Some(e.to_string()),
            }
            self.turn.notify_all();
        }
    }

    /// Makes a frame of the pending records and assigns its place.
    fn take_frame(&self, s: &mut State) -> Option<Job> {
        if s.buf.is_empty() {
            return None;
        }
        let mut payload = std::mem::take(&mut s.buf);
        let binds = std::mem::take(&mut s.binds);
        let size = round_up(HEADER + payload.len()) as u64;
        let room = self.ring.len - s.head % self.ring.len;
        if size > room {
            s.head += room;
        }
        let (pos, seq, last_msn) = (s.head, s.seq, s.appended);
        let buf = self.frame(seq, s.buf_first, last_msn, &payload);
        s.frames.push_back(Frame { last_msn, pos, seq });
        s.head += size;
        s.seq += 1;
        if payload.capacity() <= 2 * BEHIND_MAX * BUFFER_BYTES {
            payload.clear();
            s.buf = payload;
        }
        Some(Job { pos, last_msn, binds, buf })
    }

    fn frame(&self, seq: u64, first: u64, last: u64, payload: &[u8]) -> PooledBuf {
        let mut head = Vec::with_capacity(HEADER);
        put_u32(&mut head, MAGIC);
        put_u32(&mut head, 0);
        for n in [self.ring.uuid, self.ring.life, seq, first, last] {
            put_u64(&mut head, n);
        }
        put_u32(&mut head, payload.len() as u32);
        let mut buf = self.pool.filled(&[&head, payload]);
        let crc = crc32c::crc32c(&buf[8..HEADER + payload.len()]);
        buf[4..8].copy_from_slice(&crc.to_le_bytes());
        buf
    }

    fn write(&self, job: Option<&Job>, sync: bool) -> Result<()> {
        if let Some(job) = job {
            if job.binds {
                self.flight.drain()?;
                // A record may only become durable after the extent it binds.
                self.storage.flush().doing("flushing extents before the log")?;
            }
            let at = self.ring.start + job.pos % self.ring.len;
            self.storage.write_at(&job.buf, at).doing("writing the log")?;
        }
        if sync { self.storage.flush().doing("flushing the log") } else { Ok(()) }
    }

    /// After a recovery: messages up to `msn` have been applied and need no record of this life.
    pub fn resume(&self, msn: u64) {
        let mut s = self.lock();
        (s.appended, s.written, s.durable, s.buf_first) = (msn, msn, msn, msn + 1);
    }

    /// Where a recovery must start that has everything up to message `msn`: position and number of a frame.
    pub fn tail_after(&self, msn: u64) -> (u64, u64) {
        let s = self.lock();
        s.frames.iter().find(|f| f.last_msn > msn).map_or((s.head, s.seq), |f| (f.pos, f.seq))
    }

    /// A checkpoint with everything up to `msn` is durable: frames before may be overwritten.
    pub fn release(&self, msn: u64) {
        let mut s = self.lock();
        while s.frames.front().is_some_and(|f| f.last_msn <= msn) {
            s.frames.pop_front();
        }
        s.durable = s.durable.max(msn);
    }
}

/// Held by the thread that writes: should it panic, those that wait for it hear of it.
struct Writing<'a>(&'a Log);

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.failed = Some("a thread that wrote the log panicked".into());
        state.writing = false;
        self.0.turn.notify_all();
    }
}

struct Job {
    pos: u64,
    last_msn: u64,
    binds: bool,
    buf: PooledBuf,
}

/// Reads the frames from `pos` on, until one is missing, torn or foreign.
pub(crate) fn replay(
    storage: &dyn Storage,
    ring: &Ring,
    pos: u64,
    seq: u64,
    msn: u64,
) -> Result<Vec<Replayed>> {
    let mut out: Vec<Replayed> = Vec::new();
    let (mut pos, mut seq) = (pos, seq);
    let mut next_msn: Option<u64> = None;
    loop {
        let lap_end = pos + (ring.len - pos % ring.len);
        let mut found = read_frame(storage, ring, pos, seq)?;
        if found.is_none() && !pos.is_multiple_of(ring.len) {
            found = read_frame(storage, ring, lap_end, seq)?;
        }
        let Some(frame) = found else { return Ok(out) };
        // The first frame may begin before the checkpoint; after that there are no gaps.
        let follows = next_msn.map_or(frame.first_msn <= msn + 1, |n| frame.first_msn == n);
        if !follows {
            return Ok(out);
        }
        (pos, seq, next_msn) = (frame.end, seq + 1, Some(frame.last_msn + 1));
        out.push(frame);
    }
}

fn read_frame(storage: &dyn Storage, ring: &Ring, pos: u64, seq: u64) -> Result<Option<Replayed>> {
    let at = ring.start + pos % ring.len;
    let room = ring.len - pos % ring.len;
    let mut unit = AlignedBuf::zeroed(UNIT);
    storage.read_at(&mut unit, at).doing("reading the log")?;
    let Ok((crc, first, last, len)) = frame_header(&unit, ring, seq) else { return Ok(None) };
    if (HEADER + len) as u64 > room {
        return Ok(None);
    }
    let mut buf = AlignedBuf::zeroed(HEADER + len);
    storage.read_at(&mut buf, at).doing("reading the log")?;
    if crc32c::crc32c(&buf[8..HEADER + len]) != crc {
        return Ok(None);
    }
    let payload = buf[HEADER..HEADER + len].to_vec();
    let end = pos + round_up(HEADER + len) as u64;
    Ok(Some(Replayed { first_msn: first, last_msn: last, pos, seq, payload, end }))
}

fn frame_header(unit: &[u8], ring: &Ring, seq: u64) -> Decoded<(u32, u64, u64, usize)> {
    let mut r = Reader::new(unit);
    let (magic, crc) = (r.u32()?, r.u32()?);
    let (uuid, life, number) = (r.u64()?, r.u64()?, r.u64()?);
    if magic != MAGIC || uuid != ring.uuid || life != ring.life || number != seq {
        return Err(Malformed("not the frame looked for"));
    }
    Ok((crc, r.u64()?, r.u64()?, r.u32()? as usize))
}

/// Splits a frame's payload into records.
pub(crate) fn records(payload: &[u8]) -> Decoded<Vec<&[u8]>> {
    let mut r = Reader::new(payload);
    let mut out = Vec::new();
    while r.remaining() > 0 {
        let len = r.u32()? as usize;
        out.push(r.take(len)?);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::SimStorage;

    const RING: Ring = Ring { start: 2 * UNIT as u64, len: 16 * UNIT as u64, uuid: 7, life: 1 };

    fn taken(appended: Result<Appended>) -> bool {
        matches!(appended.expect("append"), Appended::Done(_))
    }

    fn messages(storage: &SimStorage, ring: &Ring, pos: u64, seq: u64, msn: u64) -> Vec<(u64, Vec<u8>)> {
        let mut out = Vec::new();
        for frame in replay(storage, ring, pos, seq, msn).expect("replay") {
            for (i, r) in records(&frame.payload).expect("records").into_iter().enumerate() {
                out.push((frame.first_msn + i as u64, r.to_vec()));
            }
        }
        out.retain(|(n, _)| *n > msn);
        out
    }

    #[test]
    fn frames_are_read_back_over_many_laps() {
        let storage = SimStorage::new(32 * UNIT as u64);
        let log = Log::new(Arc::new(storage.clone()), RING, 0, 1, 0);
        let (mut pos, mut seq, mut base) = (0, 1, 0);
        for msn in 1..=200u64 {
            let record = vec![msn as u8; (msn * 37 % 5000) as usize];
            while log.append(msn, &[&record], false).expect("append") == Appended::Full {
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
        let log = Log::new(Arc::new(storage.clone()), RING, 0, 1, 0);
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
        let log = Log::new(Arc::new(storage.clone()), life, 2 * UNIT as u64, 2, 1);
        assert!(taken(log.append(2, &[&[9; 5000]], false)));
        log.commit(true).expect("commit");
        assert_eq!(messages(&storage, &life, 2 * UNIT as u64, 2, 1), vec![(2, vec![9; 5000])]);
    }

    #[test]
    fn a_failed_write_stops_the_log_for_good() {
        let storage = SimStorage::new(32 * UNIT as u64);
        let log = Log::new(Arc::new(storage.clone()), RING, 0, 1, 0);
        storage.set_faults(crate::storage::FaultPlan { flush_error_at: Some(0), ..Default::default() });
        assert!(taken(log.append(1, &[b"x"], false)));
        assert!(matches!(log.commit(true), Err(Error::ReadOnly(_))));
        assert!(log.append(2, &[b"x"], false).is_err(), "nothing may be promised after a failed flush");
        assert_eq!(log.durable(), 0);
    }

    #[test]
    fn many_syncs_share_flushes() {
        let storage = SimStorage::new(32 * UNIT as u64);
        let log = Arc::new(Log::new(Arc::new(storage), RING, 0, 1, 0));
        (1..=8).for_each(|msn| assert!(taken(log.append(msn, &[b"r"], false))));
        std::thread::scope(|s| {
            for _ in 0..8 {
                s.spawn(|| log.commit(true).expect("commit"));
            }
        });
        assert_eq!((log.durable(), log.syncs()), (8, 1), "one flush must serve all");
    }

    /// Panics at every flush, once both threads are there.
    struct Panics(std::sync::Barrier);

    impl Storage for Panics {
        fn len(&self) -> std::io::Result<u64> {
            Ok(32 * UNIT as u64)
        }

        fn read_at(&self, buf: &mut [u8], _off: u64) -> std::io::Result<()> {
            buf.fill(0);
            Ok(())
        }

        fn write_at(&self, _buf: &[u8], _off: u64) -> std::io::Result<()> {
            Ok(())
        }

        fn flush(&self) -> std::io::Result<()> {
            self.0.wait();
            panic!("on purpose");
        }

        fn discard(&self, _off: u64, _len: u64) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_panic_while_writing_is_heard_by_those_who_wait() {
        let storage = Arc::new(Panics(std::sync::Barrier::new(2)));
        let log = Arc::new(Log::new(storage.clone(), RING, 0, 1, 0));
        assert!(taken(log.append(1, &[b"r"], false)));
        let writes = {
            let log = log.clone();
            std::thread::spawn(move || log.commit(true))
        };
        let waits = {
            let log = log.clone();
            // its commit begins while the other one writes, or finds the log failed
            std::thread::spawn(move || {
                storage.0.wait();
                log.commit(true)
            })
        };
        assert!(writes.join().is_err());
        assert!(matches!(waits.join().expect("no panic"), Err(Error::ReadOnly(_))));
    }
}
