//! The write-ahead log: a ring of frames with group commit.
//!
//! Records collect in memory. Whoever needs them on storage becomes the leader, writes all of them as one
//! frame, and flushes; others that come meanwhile wait for the next frame, which again takes all at once. If many
//! sync, the leader first waits a moment for those that are missing (`gather`). A frame holds the store's number, the life it was written in, and its place in the sequence, so frames of an
//! earlier lap, life or store are never taken for its continuation.
//!
//! Records of a memtable that will be spilled may be *held* (`pending`): the bytes are in extents a moment later, and one record that
//! refers to them stands for all. Whoever wants a held record on storage gets it as it is.
//!
//! A frame also says up to which message all was durable when it was made. A recovery that finds less than that before a later
//! frame has lost what somebody was promised.
//!
//! Positions count bytes since the store was made; position modulo ring length is the place on storage. A frame
//! never wraps: if it does not fit before the end of the ring, it goes to the start of the next lap.

mod gather;
mod pending;
mod replay;
#[cfg(test)]
mod tests;

pub(crate) use replay::{
    Frames, LaterFrames, LogPosition, ReplayedFrame, Tail, later_frames, overwrite_unreadable, records, tail,
    unreadable,
};

use crate::bytes::Bytes;
use crate::error::{Doing, Result, StopReason};
use crate::extent_queue::ExtentWriteQueue;
use crate::storage::{BufPool, Latched, PooledBuf, Storage, round_up};
use crate::sync::{Condvar, Mutex, MutexGuard, TIMED_WAITS};
use crate::wire::{put_u32, put_u64};
use gather::{CommitWait, GroupCommit};
use pending::{Chunk, Payload, Pending};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

const MAGIC: u32 = 0x324F_4C42; // "BLO2"
const HEADER: usize = 60;
/// Of frames before format 4, which do not say what was durable.
const MAGIC_1: u32 = 0x474F_4C42; // "BLOG"
const HEADER_1: usize = 52;
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
    /// Bytes of the batches in it, as they were written.
    stands_for: u64,
}

struct State {
    pending: Pending,
    /// Bytes of batches since somebody asked for a sync.
    unasked: u64,
    /// What the frames stand for, which a recovery would have to apply.
    burden: u64,
    /// Where the next frame goes, and its number.
    head: u64,
    seq: u64,
    /// Frames that a recovery would still need, oldest first.
    frames: VecDeque<Frame>,
    appended: u64,
    written: u64,
    durable: u64,
    writing: bool,
    syncs: u64,
    bytes: u64,
    /// Syncs that have been asked for since the last flush for syncs took its records.
    asked: u64,
    gather: GroupCommit,
    /// A leader waits until so many have been asked for.
    goal: Option<u64>,
}

/// The log of an open store.
pub(crate) struct Log {
    /// Knows of every failure, also of those that others met.
    storage: Arc<Latched>,
    ring: Ring,
    /// Extents that records may refer to and that are still being written.
    flight: Arc<ExtentWriteQueue>,
    /// Buffers of frames.
    pool: BufPool,
    /// Whoever writes ripe records waits for them here.
    ripe: Condvar,
    state: Mutex<State>,
    turn: Condvar,
    /// Bytes of records that may be held.
    held_max: usize,
    /// A leader that gathers syncs waits here.
    gathered: Condvar,
}

/// How much waits to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backlog {
    /// Little, or somebody was told before.
    Little,
    /// As of now so much that it is worth a frame.
    Enough,
    /// So much that whoever adds more should write it.
    TooMuch,
}

/// What became of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AppendOutcome {
    /// It waits to be written.
    Done(Backlog),
    /// The ring has no room; nothing happened.
    Full,
}

impl Log {
    /// A log whose next frame goes to `pos` with number `seq`, after message `msn`.
    pub fn new(storage: Arc<Latched>, ring: Ring, pos: u64, seq: u64, msn: u64) -> Self {
        let state = State {
            pending: Pending::default(),
            unasked: 0,
            burden: 0,
            head: pos,
            seq,
            frames: VecDeque::new(),
            appended: msn,
            written: msn,
            durable: msn,
            writing: false,
            syncs: 0,
            bytes: 0,
            asked: 0,
            gather: GroupCommit::new(),
            goal: None,
        };
        Log {
            storage,
            ring,
            flight: Arc::default(),
            pool: BufPool::new(2 * BUFFER_BYTES),
            ripe: Condvar::new(),
            state: Mutex::new(state),
            turn: Condvar::new(),
            held_max: ring.len as usize / 4,
            gathered: Condvar::new(),
        }
    }

    /// Holds at most so many bytes of records, and never more than a quarter of the ring.
    pub fn holding(mut self, bytes: usize) -> Self {
        self.held_max = self.held_max.min(bytes);
        self
    }

    /// Names the extents that must be on storage before a record that refers to one.
    pub fn behind(mut self, flight: &Arc<ExtentWriteQueue>) -> Self {
        self.flight = flight.clone();
        self
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.storage.latch().unpoisoned(self.state.lock())
    }

    /// Wakes all who wait here, after a failure: they look for one first.
    pub fn wake_all(&self) {
        drop(self.lock());
        self.turn.notify_all();
        self.ripe.notify_all();
    }

    /// Largest record the ring can take.
    pub fn record_bytes_max(&self) -> usize {
        (self.ring.len / 8) as usize
    }

    /// Part of the ring in use, in thousandths; or half of what a recovery has to apply as a part of it, if that is more, so that
    /// records in few bytes do not make recoveries long.
    pub fn fill(&self) -> u64 {
        let s = self.lock();
        self.used(&s).max(s.burden / 2) * 1000 / self.ring.len
    }

    /// Where the next frame goes, in bytes since the store was made, and the length of the ring.
    pub fn position(&self) -> (u64, u64) {
        (self.lock().head, self.ring.len)
    }

    fn used(&self, s: &State) -> u64 {
        s.head - s.frames.front().map_or(s.head, |f| f.pos) + s.pending.frame_bytes(None) as u64
    }

    /// Adds the record of message `msn`, given in pieces, unless the ring would get too full.
    pub fn append(&self, msn: u64, record: &[&[u8]], binds: bool) -> Result<AppendOutcome> {
        let len = record.iter().map(|piece| piece.len()).sum();
        self.append_record(msn, len, binds, |payload| record.iter().for_each(|piece| payload.put(piece)))
    }

    /// Adds the record of message `msn`, unless the ring would get too full: it begins with `head`, and `rest_len` bytes follow, which
    /// `rest` makes if there is room, and which are not copied.
    pub fn append_shared(
        &self,
        msn: u64,
        head: &[u8],
        rest_len: usize,
        rest: impl FnOnce() -> Bytes,
        binds: bool,
    ) -> Result<AppendOutcome> {
        self.append_record(msn, head.len() + rest_len, binds, |payload| {
            payload.put(head);
            payload.share(rest());
        })
    }

    fn append_record(
        &self,
        msn: u64,
        len: usize,
        binds: bool,
        record: impl FnOnce(&mut Payload),
    ) -> Result<AppendOutcome> {
        let mut s = self.lock();
        self.storage.latch().check()?;
        // Twice what waits: a frame may have to skip the end of the ring. A tenth stays free.
        let pending = s.pending.frame_bytes(Some(len)) as u64;
        if self.used(&s) + 2 * pending > self.ring.len / 10 * 9 {
            return Ok(AppendOutcome::Full);
        }
        let (before, ripe) = (s.pending.writable(), BUFFER_BYTES.min(self.ring.len as usize / 16));
        s.pending.add(msn, len, record, binds);
        s.bytes += len as u64;
        s.unasked += len as u64;
        s.appended = msn;
        if s.pending.held() && s.pending.bytes() - s.pending.writable() > self.held_max {
            s.pending.free_oldest();
        }
        Ok(AppendOutcome::Done(match s.pending.writable() {
            n if n >= ripe * BEHIND_MAX => Backlog::TooMuch,
            n if n >= ripe && before < ripe => Backlog::Enough,
            _ => Backlog::Little,
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
        if s.pending.is_ripe(ripe) {
            return true;
        }
        self.ripe.wait_timeout(s, time).unwrap_or_else(|e| e.into_inner()).0.pending.is_ripe(ripe)
    }

    /// Holds the records of messages to come, until somebody wants them on storage, they are [bound](Log::bind) or
    /// [freed](Log::free), or there are too many. Not if somebody syncs now and then: he would have to wait for them to be written.
    pub fn hold(&self) {
        let mut s = self.lock();
        if s.unasked >= self.held_max as u64 {
            s.pending.hold();
        }
    }

    /// No record is held any longer.
    pub fn release_held(&self) {
        self.lock().pending.release();
        self.ripe.notify_all();
    }

    /// A memtable ends with what has been appended so far.
    pub fn close_chunk(&self) {
        let mut s = self.lock();
        if s.pending.held() {
            s.pending.close();
        }
    }

    /// The number of the first record that is held before the end of a memtable at message `upto`, and the bytes of all such.
    pub fn held(&self, upto: u64) -> Option<(u64, u64)> {
        self.lock().pending.replaceable(upto)
    }

    /// One record in the place of those held up to message `upto`, at the end of a memtable: it says what that memtable does, in
    /// all, and refers to extents. Applying it after some of the messages that it stands for comes to the same as applying it
    /// after none. False if they are being written.
    pub fn bind(&self, upto: u64, record: &[u8]) -> bool {
        let mut s = self.lock();
        let Some((_, held)) = s.pending.replaceable(upto) else { return false };
        let bound = s.pending.replace(upto, record);
        s.bytes = s.bytes + record.len() as u64 - held;
        drop(s);
        self.ripe.notify_all();
        bound
    }

    /// What is held up to message `upto` is to be written as it is.
    pub fn free(&self, upto: u64) {
        self.lock().pending.free(upto);
        self.ripe.notify_all();
    }

    /// Writes what is not held.
    pub fn commit_ready(&self) -> Result<()> {
        let Some(target) = self.lock().pending.last_ready() else { return Ok(()) };
        self.reach(target, false).map(|_| ())
    }

    /// Makes durable what is not held, and all if a held record has waited for `age`.
    pub fn secure(&self, age: Duration) -> Result<()> {
        let target = {
            let s = self.lock();
            match s.pending.held_since() {
                Some(since) if since.elapsed() < age => s.pending.last_ready().unwrap_or(s.written),
                _ => s.appended,
            }
        };
        self.reach(target, true).map(|_| ())
    }

    /// True if a held record has waited for `age`.
    pub fn holds_for(&self, age: Duration) -> bool {
        self.lock().pending.held_since().is_some_and(|since| since.elapsed() >= age)
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
        self.lock().pending.memory() + self.pool.bytes()
    }

    /// Bytes of records appended, of those bound to extents only what was written of them.
    pub fn bytes(&self) -> u64 {
        self.lock().bytes
    }

    /// Says that a sync of everything appended so far is under way; returns the message that [`Log::sync_to`] has to wait
    /// for, which must follow.
    pub fn ask(&self) -> u64 {
        let mut s = self.lock();
        // What is durable already takes part in no flush.
        if s.durable < s.appended {
            s.unasked = 0;
            s.asked += 1;
            if s.goal.is_some_and(|goal| s.asked >= goal) {
                self.gathered.notify_one();
            }
        }
        s.appended
    }

    /// Returns when message `target` is durable, with the number of the last message that is. Should the thread that writes panic,
    /// whoever catches that calls [`Log::wake_all`].
    pub fn sync_to(&self, target: u64) -> Result<u64> {
        self.reach(target, true)
    }

    /// Writes every record appended so far; with `sync`, returns only when they are durable.
    pub fn commit(&self, sync: bool) -> Result<()> {
        let target = self.lock().appended;
        self.reach(target, sync).map(|_| ())
    }

    fn reach(&self, target: u64, sync: bool) -> Result<u64> {
        let mut s = self.lock();
        loop {
            self.storage.latch().check()?;
            let reached = if sync { s.durable } else { s.written };
            if reached >= target {
                return Ok(reached);
            }
            if s.writing {
                s = self.turn.wait(s).unwrap_or_else(|e| e.into_inner());
                continue;
            }
            s.writing = true;
            if s.pending.last_ready().unwrap_or(s.written) < target {
                s.pending.release();
            }
            if sync && TIMED_WAITS && s.pending.is_one() {
                s = self.gather(s);
            }
            let mut job = self.take_frame(&mut s);
            // Of several frames the last is flushed.
            let sync = sync && job.as_ref().map_or(s.written, |job| job.last_msn) >= target;
            let served = if sync { std::mem::take(&mut s.asked) } else { 0 };
            drop(s);
            let began = Instant::now();
            let done = self.write(job.as_mut(), sync);
            s = self.lock();
            s.writing = false;
            let last = job.map(|job| {
                s.pending.give_back(job.payload);
                job.last_msn
            });
            match done {
                Ok(()) => {
                    s.written = last.unwrap_or(s.written);
                    if sync {
                        s.durable = s.durable.max(s.written);
                        s.syncs += 1;
                        let came = s.asked;
                        s.gather.flushed(served, came, began.elapsed());
                    }
                }
                Err(e) => self.storage.latch().set(StopReason::internal(&e)),
            }
            self.turn.notify_all();
        }
    }

    /// Waits until as many syncs have come as are expected, if that is worth it. The caller is the leader.
    fn gather<'a>(&'a self, mut s: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let before = s.asked;
        let Some(CommitWait { goal, time }) = s.gather.begin(before) else { return s };
        let began = Instant::now();
        s.goal = Some(goal);
        while s.asked < goal
            && let Some(left) = time.checked_sub(began.elapsed()).filter(|left| !left.is_zero())
        {
            s = self.gathered.wait_timeout(s, left).unwrap_or_else(|e| e.into_inner()).0;
        }
        s.goal = None;
        let after = s.asked;
        s.gather.end(before, after, began.elapsed());
        s
    }

    /// Takes the pending records of a frame and assigns its place. The frame itself is made without the lock, which whoever
    /// writes to the store would have to wait for.
    fn take_frame(&self, s: &mut State) -> Option<Job> {
        let Chunk { first, last: last_msn, payload, binds, stands_for, .. } = s.pending.take()?;
        let size = round_up(HEADER + payload.len()) as u64;
        let room = self.ring.len - s.head % self.ring.len;
        if size > room {
            s.head += room;
        }
        let (pos, seq) = (s.head, s.seq);
        s.frames.push_back(Frame { last_msn, pos, seq, stands_for });
        s.burden += stands_for;
        s.head += size;
        s.seq += 1;
        Some(Job { pos, seq, first, last_msn, durable: s.durable, binds, payload })
    }

    fn frame(&self, job: &Job) -> PooledBuf {
        let Job { seq, first, last_msn, durable, payload, .. } = job;
        let mut head = Vec::with_capacity(HEADER);
        put_u32(&mut head, MAGIC);
        put_u32(&mut head, 0);
        for n in [self.ring.uuid, self.ring.life, *seq, *first, *last_msn] {
            put_u64(&mut head, n);
        }
        put_u32(&mut head, payload.len() as u32);
        put_u64(&mut head, *durable);
        let parts: Vec<&[u8]> = std::iter::once(&head[..]).chain(payload.parts()).collect();
        let mut buf = self.pool.filled(&parts);
        let crc = crc32c::crc32c(&buf[8..HEADER + payload.len()]);
        buf[4..8].copy_from_slice(&crc.to_le_bytes());
        buf
    }

    fn write(&self, job: Option<&mut Job>, sync: bool) -> Result<()> {
        if let Some(job) = job {
            let buf = self.frame(job);
            // What it shares with memtables is theirs alone from now on.
            job.payload.clear();
            if job.binds {
                self.flight.drain()?;
                // A record may only become durable after the extent it binds.
                self.storage.flush().doing("flushing extents before the log")?;
            }
            let at = self.ring.start + job.pos % self.ring.len;
            self.storage.write_at(&buf, at).doing("writing the log")?;
        }
        if sync { self.storage.flush().doing("flushing the log") } else { Ok(()) }
    }

    /// Frames are of this life from now on.
    pub fn set_life(&mut self, life: u64) {
        self.ring.life = life;
    }

    /// After a recovery: messages up to `msn` have been applied and need no record of this life, whose first frame goes to `next`,
    /// behind the old ones, on a lap's first unit if need be.
    pub fn resume(&self, next: LogPosition, msn: u64) {
        let mut s = self.lock();
        (s.head, s.seq) = (next.pos, next.seq);
        (s.appended, s.written, s.durable) = (msn, msn, msn);
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
            s.burden -= s.frames.pop_front().map_or(0, |f| f.stands_for);
        }
        s.durable = s.durable.max(msn);
    }
}

/// A frame to be written.
struct Job {
    pos: u64,
    seq: u64,
    first: u64,
    last_msn: u64,
    /// Last message that was durable when it was taken.
    durable: u64,
    binds: bool,
    payload: Payload,
}
