//! Long sequential writes, and short appends to one file while nothing else is written: neighbouring writes to one file become
//! one batch of the store, written by a thread of its own while the next is collected.
//!
//! The order of operations stays: whatever else is to be written waits until all that was collected before has been.
//! Only as much is collected as there seems to be space for. What then finds none is lost: the file is brought back to what the
//! store has of it, and its next sync says so. So it is after any other error that is not the store's failure.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use betree::{Db, WriteBatch};

use crate::error::{Error, Result};
use crate::key::{self, BLOCK};
use crate::node::LossCause;

/// A shorter write is written by itself, but for [appends](Streams::continues).
const PIECE_MIN: usize = 16 << 10;
/// So is one nearer to the beginning of the file: most files are short.
const OFFSET_MIN: u64 = 64 << 10;
/// Bytes of a batch.
const BATCH: usize = 1 << 20;
/// Batches that may wait.
const QUEUE_MAX: usize = 4;
/// Space that must be free besides, so that what is collected finds its place whatever the store rewrites meanwhile.
const SPACE_MIN: u64 = 64 << 20;
/// Bytes that are taken before the free space is looked at again.
const CREDIT: usize = 16 << 20;
/// Longest time that something is collected.
const PATIENCE: Duration = Duration::from_millis(200);
/// So many appends to one file, and nothing else written in between, let the next be collected. Who syncs each, or writes to
/// several files, gains nothing.
const RUN_MIN: u64 = 8;
/// Bits for their number.
const RUN_BITS: u32 = 8;

/// Neighbouring writes to one file. What begins within a block changes that; what ends in one ends the file.
struct Stream {
    began: Instant,
    ino: u64,
    home: Vec<u8>,
    start: u64,
    /// Bytes of the file before them.
    old_size: u64,
    data: Vec<u8>,
    /// Key and value of the file's record after them, and of what is reserved for it.
    record: Option<(Vec<u8>, Vec<u8>)>,
    reserved: Option<(Vec<u8>, Vec<u8>)>,
}

impl Stream {
    fn batch(&self) -> WriteBatch {
        let mut batch = WriteBatch::with_capacity(self.data.len() + self.data.len() / 16);
        put_blocks(&mut batch, &self.home, self.start, &self.data, 0);
        for (key, value) in self.record.iter().chain(&self.reserved) {
            batch.put(key, value);
        }
        batch
    }
}

/// What was collected of a file and could not be written.
#[derive(Clone)]
pub(super) struct LostData {
    pub cause: LossCause,
    /// Where it begins: nothing of the file behind it was written.
    pub start: u64,
    /// Bytes of the file before it.
    pub old_size: u64,
}

/// Adds a write to a file of `size` bytes, block by block. What replaces all there is of one needs nothing below it.
pub(super) fn put_blocks(batch: &mut WriteBatch, home: &[u8], off: u64, data: &[u8], size: u64) {
    let end = off + data.len() as u64;
    const SIZE: u64 = BLOCK as u64;
    for number in off / SIZE..=(end - 1) / SIZE {
        let start = number * SIZE;
        let (from, to) = (off.max(start), end.min(start + SIZE));
        let piece = &data[(from - off) as usize..(to - off) as usize];
        if from == start && (to == start + SIZE || to >= size) {
            batch.put_parts(&key::block_parts(home, &key::block_tail(number)), &[piece]);
        } else {
            batch.patch(&key::block(home, number), (from - start) as u32, piece);
        }
    }
}

#[derive(Default)]
struct State {
    filling: Option<Stream>,
    queue: VecDeque<Arc<Stream>>,
    /// Somebody is writing the first of the queue.
    writing: bool,
    /// Something was collected that could not be written, as the store has failed.
    failed: Option<String>,
    /// Of each file what could not be written.
    lost: BTreeMap<u64, LostData>,
    stop: bool,
}

impl State {
    fn seal(&mut self) {
        self.queue.extend(self.filling.take().map(Arc::new));
    }

    /// Drops what was collected of a file of which `data` are lost; how many streams.
    fn lose(&mut self, ino: u64, data: LostData) -> usize {
        let before = self.queue.len() + usize::from(self.filling.is_some());
        self.filling.take_if(|stream| stream.ino == ino);
        self.queue.retain(|stream| stream.ino != ino);
        self.lost.insert(ino, data);
        before - self.queue.len() - usize::from(self.filling.is_some())
    }

    fn holds(&self, ino: u64) -> bool {
        self.filling.iter().any(|s| s.ino == ino) || self.queue.iter().any(|s| s.ino == ino)
    }
}

struct Shared {
    db: Arc<Db>,
    state: Mutex<State>,
    changed: Condvar,
    /// Streams there are: filling or waiting.
    active: AtomicUsize,
    /// Something failed or was lost.
    in_doubt: AtomicBool,
    /// Times that something that was collected could not be written.
    losses: AtomicU64,
    /// Bytes that may be taken unseen.
    credit: AtomicUsize,
    /// What becomes of the next batch.
    #[cfg(test)]
    planted: Mutex<Option<Planted>>,
    /// The file that was appended to last, and in the lowest bits how often, nothing else being written since. A hint.
    run: AtomicU64,
}

/// What is being collected, and the thread that writes it.
pub(super) struct Streams {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// What a test has become of a batch.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Planted {
    /// Whoever writes it panics.
    Panic,
    /// A read that it needs fails, as that of a bad sector; the store goes on.
    BadSector,
    /// Whoever waits for it hears of a loss that somebody else has settled when he looks.
    Settled,
    /// That, when one was waited for in vain.
    SettledAtNext,
}

/// A piece of a stream.
pub(super) struct Piece<'a> {
    pub ino: u64,
    pub home: &'a [u8],
    pub off: u64,
    /// Bytes of the file before it.
    pub old_size: u64,
    pub data: &'a [u8],
    pub record: Option<(Vec<u8>, Vec<u8>)>,
    pub reserved: Option<(Vec<u8>, Vec<u8>)>,
    /// Another is expected, which may begin within a block.
    pub append: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>, time: Duration) -> MutexGuard<'a, State> {
        self.changed.wait_timeout(state, time).unwrap_or_else(|e| e.into_inner()).0
    }

    /// Writes the first of the queue, unless it is empty or somebody does already.
    fn write_one<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let Some(stream) = state.queue.front().filter(|_| !state.writing).cloned() else { return state };
        state.writing = true;
        drop(state);
        let write = || {
            self.db.guarded(|| {
                #[cfg(test)]
                match self.planted.lock().expect("planted").take() {
                    Some(Planted::Panic) => panic!("planted"),
                    Some(Planted::BadSector) => {
                        let source = std::io::Error::from_raw_os_error(libc::EIO);
                        return Err(betree::Error::Io { doing: "reading a node", source });
                    }
                    Some(Planted::Settled | Planted::SettledAtNext) | None => {}
                }
                self.db.write(stream.batch())
            })
        };
        // After a panic the store has failed, and says why; those who wait for this thread must hear of it.
        let why = || self.db.failure().map(ToString::to_string).unwrap_or_default();
        let written =
            catch_unwind(AssertUnwindSafe(write)).unwrap_or_else(|_| Err(betree::Error::ReadOnly(why())));
        let mut state = self.state();
        state.writing = false;
        state.queue.pop_front();
        let mut gone = 1;
        if let Err(error) = written {
            if self.db.failure().is_some() {
                state.failed.get_or_insert(error.to_string());
            }
            let cause = match error {
                betree::Error::NoSpace => LossCause::NoSpace,
                other => LossCause::Failed(other.to_string()),
            };
            // Nothing of it was written. What followed in the file must not be, or there would be a hole.
            let (start, old_size) = (stream.start, stream.old_size);
            gone += state.lose(stream.ino, LostData { cause, start, old_size });
            self.in_doubt.store(true, Ordering::Release);
            self.losses.fetch_add(1, Ordering::AcqRel);
        }
        self.active.fetch_sub(gone, Ordering::AcqRel);
        self.changed.notify_all();
        state
    }

    /// Writes the first of the queue, or waits while somebody does.
    fn help<'a>(&'a self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        if state.writing { self.wait(state, PATIENCE) } else { self.write_one(state) }
    }

    fn run(&self) {
        let mut state = self.state();
        loop {
            if !state.queue.is_empty() && !state.writing {
                state = self.write_one(state);
            } else if state.stop && state.queue.is_empty() {
                return;
            } else {
                let left = |s: &Stream| PATIENCE.saturating_sub(s.began.elapsed());
                match state.filling.as_ref().map_or(PATIENCE, left) {
                    Duration::ZERO => state.seal(),
                    time => state = self.wait(state, time),
                }
            }
        }
    }
}

impl Streams {
    /// Without a thread every piece is written at once.
    pub fn new(db: Arc<Db>, background: bool) -> Result<Streams> {
        let shared = Shared {
            db,
            state: Mutex::default(),
            changed: Condvar::new(),
            active: AtomicUsize::new(0),
            in_doubt: AtomicBool::new(false),
            losses: AtomicU64::new(0),
            credit: AtomicUsize::new(0),
            #[cfg(test)]
            planted: Mutex::default(),
            run: AtomicU64::new(0),
        };
        let shared = Arc::new(shared);
        let run = shared.clone();
        let start = || {
            std::thread::Builder::new()
                .name("betrfs-stream".into())
                .spawn(move || run.db.guarded(|| run.run()))
        };
        let failed = |source| Error::Store(betree::Error::Io { doing: "starting a thread", source });
        let thread = if background { Some(start().map_err(failed)?) } else { None };
        Ok(Streams { shared, thread })
    }

    /// True if a piece of `len` bytes at `off` is worth collecting, and there is a thread, and space.
    pub fn takes(&self, off: u64, len: usize) -> bool {
        len >= PIECE_MIN && off >= OFFSET_MIN && self.has_room(len)
    }

    /// True if `len` more bytes at the end of `ino` are worth collecting: the last writes of all were appends to it.
    pub fn continues(&self, ino: u64, len: usize) -> bool {
        self.run(ino) >= RUN_MIN && self.has_room(len)
    }

    /// So many appends to `ino` were the last writes of all.
    pub fn run(&self, ino: u64) -> u64 {
        let run = self.shared.run.load(Ordering::Relaxed);
        if run >> RUN_BITS == ino { run % (1 << RUN_BITS) } else { 0 }
    }

    /// The last writes of all were `count` appends to `ino`.
    pub fn set_run(&self, ino: u64, count: u64) {
        self.shared.run.store(ino << RUN_BITS | count.min(RUN_MIN), Ordering::Relaxed);
    }

    fn has_room(&self, len: usize) -> bool {
        if self.thread.is_none() {
            return false;
        }
        let credit = &self.shared.credit;
        if credit.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(len)).is_ok() {
            return true;
        }
        let stats = self.shared.db.stats();
        let waiting = (stats.unwritten_bytes + stats.memtable_bytes) as u64 / 4 * 5;
        let plenty = stats.free_bytes
            > stats.reserve_bytes + stats.promised_bytes + waiting + CREDIT as u64 + SPACE_MIN;
        credit.store(if plenty { CREDIT } else { 0 }, Ordering::Relaxed);
        plenty
    }

    /// Takes a piece that [`Streams::takes`], which begins at a block, or that [`Streams::continues`], which begins at the end of
    /// the file. What lies behind the end of the last block is not in the file.
    pub fn push(&self, piece: Piece<'_>) -> Result<()> {
        let mut state = self.shared.state();
        check(&state)?;
        let fits = |s: &Stream| s.ino == piece.ino && s.start + s.data.len() as u64 == piece.off;
        let mut tell = false;
        if !state.filling.as_ref().is_some_and(fits) {
            state.seal();
            tell = true;
            self.shared.active.fetch_add(1, Ordering::AcqRel);
            let mut data = Vec::with_capacity(BATCH.max(piece.data.len()));
            data.extend_from_slice(piece.data);
            let (ino, home, start, old_size) = (piece.ino, piece.home.to_vec(), piece.off, piece.old_size);
            let began = Instant::now();
            let (record, reserved) = (piece.record, piece.reserved);
            state.filling = Some(Stream { began, ino, home, start, old_size, data, record, reserved });
        } else if let Some(stream) = &mut state.filling {
            stream.data.extend_from_slice(piece.data);
            stream.record = piece.record.or(stream.record.take());
            stream.reserved = piece.reserved.or(stream.reserved.take());
        }
        // Behind the middle of a block only an append goes on.
        let ends =
            |s: &Stream| !piece.append && !(s.start + s.data.len() as u64).is_multiple_of(BLOCK as u64);
        if state.filling.as_ref().is_some_and(|s| s.data.len() >= BATCH || ends(s)) {
            state.seal();
            tell = true;
        }
        if tell {
            self.shared.changed.notify_all();
        }
        while state.queue.len() > QUEUE_MAX {
            state = self.shared.help(state);
        }
        // Taken is taken, unless it has been dropped meanwhile: what another file has lost is not said here.
        if state.failed.is_none() && !state.lost.contains_key(&piece.ino) { Ok(()) } else { check(&state) }
    }

    /// Returns when everything collected so far is in the store. Whoever asks may write something himself, so the
    /// free space is looked at again before more is taken.
    pub fn flush(&self) -> Result<()> {
        #[cfg(test)]
        let mut planted = self.shared.planted.lock().unwrap_or_else(|e| e.into_inner());
        #[cfg(test)]
        match *planted {
            Some(Planted::SettledAtNext) => *planted = Some(Planted::Settled),
            Some(Planted::Settled) => {
                *planted = None;
                self.shared.losses.fetch_add(1, Ordering::AcqRel);
                return Err(Error::NoSpace);
            }
            _ => {}
        }
        #[cfg(test)]
        drop(planted);
        self.shared.credit.store(0, Ordering::Relaxed);
        if self.shared.run.load(Ordering::Relaxed) != 0 {
            self.shared.run.store(0, Ordering::Relaxed);
        }
        if self.shared.active.load(Ordering::Acquire) == 0 && !self.is_in_doubt() {
            return Ok(());
        }
        let mut state = self.shared.state();
        state.seal();
        if let Some(last) = state.queue.back().cloned() {
            while state.queue.iter().any(|s| Arc::ptr_eq(s, &last)) {
                // Done here, unless it is being done: a wait for the thread would take longer.
                state = self.shared.help(state);
            }
        }
        check(&state)
    }

    /// Whether something that was collected could not be written.
    pub fn is_in_doubt(&self) -> bool {
        self.shared.in_doubt.load(Ordering::Acquire)
    }

    /// How often something that was collected could not be written.
    pub fn losses(&self) -> u64 {
        self.shared.losses.load(Ordering::Acquire)
    }

    /// Whether a file of which something was lost is not yet as the store has it.
    pub fn has_lost(&self) -> bool {
        !self.shared.state().lost.is_empty()
    }

    /// Whether something was lost since there were `before` [losses](Streams::losses), or is not settled yet: then a want of space may
    /// be no more than that.
    pub fn has_lost_since(&self, before: u64) -> bool {
        self.has_lost() || self.losses() != before
    }

    /// The files of which something was lost, until [`Streams::forget_lost`].
    pub fn lost(&self) -> Vec<u64> {
        self.shared.state().lost.keys().copied().collect()
    }

    /// What of `ino` is lost, if it is among these.
    pub fn loss_of(&self, ino: u64) -> Option<LostData> {
        self.shared.state().lost.get(&ino).cloned()
    }

    /// A file is again as the store has it.
    pub fn forget_lost(&self, ino: u64) {
        let mut state = self.shared.state();
        state.lost.remove(&ino);
        self.shared.in_doubt.store(state.failed.is_some() || !state.lost.is_empty(), Ordering::Release);
    }

    /// Has this become of the next batch.
    #[cfg(test)]
    pub fn plant(&self, planted: Planted) {
        *self.shared.planted.lock().expect("planted") = Some(planted);
    }

    /// Nobody writes anything, until this is taken back.
    #[cfg(test)]
    pub fn hold(&self, holds: bool) {
        let mut state = self.shared.state();
        while holds && state.writing {
            state = self.shared.wait(state, PATIENCE);
        }
        state.writing = holds;
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Whether more waits than may.
    #[cfg(test)]
    pub fn is_crowded(&self) -> bool {
        self.shared.state().queue.len() > QUEUE_MAX
    }

    /// Takes whatever comes, whether there is space or not.
    #[cfg(test)]
    pub fn take_without_space(&self) {
        self.shared.credit.store(usize::MAX, Ordering::Relaxed);
    }

    /// Returns when the store has everything that was written to `ino`.
    ///
    /// # Errors
    /// As [`Streams::flush`], if something of this file was lost. What others have lost is no matter of who reads it.
    pub fn flush_file(&self, ino: u64) -> Result<()> {
        let active = self.shared.active.load(Ordering::Acquire) > 0;
        if !self.is_in_doubt() && (!active || !self.shared.state().holds(ino)) {
            return Ok(());
        }
        self.flush().or_else(|error| if self.loss_of(ino).is_some() { Err(error) } else { Ok(()) })
    }
}

/// After a failure of the store nothing more of what had been taken is written: its order could not be kept. After a loss nothing
/// is until the files concerned are again as the store has them: what is known of them is wrong. That is no lack of space of whoever
/// hears it, and [`Fs::despite_losses`](super::Fs::despite_losses) keeps it from him.
fn check(state: &State) -> Result<()> {
    match &state.failed {
        Some(why) => Err(Error::ReadOnly(why.clone())),
        None if !state.lost.is_empty() => Err(Error::NoSpace),
        None => Ok(()),
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        self.shared.state().stop = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
