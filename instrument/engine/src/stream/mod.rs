//! Issues a stream of transfers: what a job of fio does in one thread.
//!
//! | module | holds |
//! |---|---|
//! | `next` | what comes next: file, way, offset, length, syncs, rates |
//! | `replay` | a recorded trace, instead of what `next` makes up |
//! | `random`, `map`, `spread` | fio's random numbers; blocks visited; skewed offsets |
//! | `open` | how a stream opens its files |
//! | `port`, `aio`, `mapped` | what transfers go through; libaio's system calls; mapped files |
//! | `verify` | what written blocks hold, and whether they still do |
//!
//! The thread begins transfers until its queue is full, waits for results, and goes on until its budget is spent or its time
//! is up. Each transfer is timed from before it is handed over until its result is there.

mod aio;
mod map;
mod mapped;
mod next;
mod open;
mod port;
mod random;
mod replay;
mod spread;
#[cfg(test)]
mod tests;
mod verify;

use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering::AcqRel;

use stats::Histogram;
use workload::Stream;
use workload::data::DataPool;
use workload::stream::{OPERATIONS, QueueEngine, StreamFile, TransferDirection};

use self::next::{Generator, Next, READ, TRIM, WRITE};
use self::open::OpenMode;
pub(crate) use self::port::Port;
use self::port::{Done, KernelPort, Transfer, VolumePort};
use self::verify::{Checker, Piece};
use crate::aligned::AlignedBuffer;
use crate::clock::Clock;
use crate::error::remedy;
use crate::lane::{LaneEnd, RunFault};
use crate::psync::{sleep_blocking, wait_blocking};
use crate::record::{OpRecord, Recorder, Timing};
use crate::shared::Shared;
use crate::volume::Volume;

/// Operations by number, as [`OPERATIONS`] has them: one that syncs a file.
const FSYNC: usize = 2;
/// One that syncs a file's data.
const FDATASYNC: usize = 3;
/// One that discards.
const DISCARD: usize = 4;

/// What a stream needs from its run.
pub(crate) struct Frame<'r> {
    pub(crate) shared: &'r Shared<'r>,
    /// For messages.
    pub(crate) label: String,
    /// Seed of the run.
    pub(crate) seed: u64,
    /// The length was told: the stream goes on until then.
    pub(crate) length_told: bool,
    /// The load begins after so many seconds of each stream's delay.
    pub(crate) common_delay_seconds: f64,
    pub(crate) data: DataPool,
    /// Records of the operations in the recorder.
    pub(crate) records: [usize; OPERATIONS.len()],
}

/// A stream on files below a directory, all but begun.
pub(crate) fn on_directory<'r>(
    spec: &'r Stream,
    root: BorrowedFd<'r>,
    frame: Frame<'r>,
) -> std::io::Result<Runner<'r, KernelPort<'r>>> {
    Ok(Runner::new(spec, KernelPort::new(root, spec.queue)?, frame))
}

/// The same on a file system in this process, where each transfer blocks.
pub(crate) fn on_volume<'r>(
    spec: &'r Stream,
    volume: &'r dyn Volume,
    frame: Frame<'r>,
) -> Runner<'r, VolumePort<'r>> {
    Runner::new(spec, VolumePort { volume }, frame)
}

/// A place of the queue: an operation in flight.
struct QueueSlot {
    buffer: AlignedBuffer,
    operation: usize,
    file: usize,
    offset: u64,
    bytes: usize,
    moved: usize,
    start_ns: u64,
    lag_ns: Option<u64>,
    /// What a read is to find.
    finds: Finds,
}

/// What a read is to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Finds {
    /// Whatever is there.
    Anything,
    /// A block that somebody has written so that it can be checked.
    Block,
    /// The block of this write.
    Piece(Piece),
}

/// A thread that issues a stream.
pub(crate) struct Runner<'r, P: Port> {
    spec: &'r Stream,
    port: P,
    frame: Frame<'r>,
    timing: Timing,
    /// While it runs.
    recorder: Option<Recorder<'r>>,
    clock: Clock,
    next: Generator<'r>,
    time_based: bool,
    files: Vec<Option<P::File>>,
    places: Vec<QueueSlot>,
    free: Vec<usize>,
    checker: Option<Checker<'r>>,
    done: Done,
    /// Begun and not handed over.
    queued: usize,
    begin_ns: u64,
    deadline_ns: u64,
    /// When it came to its end; 0 before.
    end_ns: u64,
    ramp_ns: u64,
    ramping: bool,
    issued_bytes: u64,
    issued: u64,
    /// What the current pass has issued, and what ends it where blocks are read back after it.
    pass_bytes: u64,
    pass_ends: u64,
    /// Its last operation was a sync: fio then makes no other one at the end.
    last_was_sync: bool,
    completed: u64,
    last_pause: u64,
    /// Operations that it may still complete of the run's number; those in flight are among them.
    quota: u64,
    ops_reached: bool,
    /// When the next operation of an offered load was due, once it is: what comes before it (a close, an open, the job's own
    /// rate) makes it late.
    offer: Option<u64>,
    /// When the replay of a trace comes to its end, as it was recorded; 0 before the first one.
    replay_ends_ns: u64,
    /// Nanoseconds of its measured interval in which it read back.
    pub(crate) read_back_ns: u64,
    /// How late it woke from its waits for due times, in nanoseconds.
    pub(crate) late: Option<Box<Histogram>>,
    path: Vec<u8>,
}

type Fallible<T> = Result<T, Box<RunFault>>;

impl<'r, P: Port> Runner<'r, P> {
    fn new(spec: &'r Stream, port: P, frame: Frame<'r>) -> Runner<'r, P> {
        let time_based = spec.budget.time_based || frame.length_told;
        let bytes = spec.sizes[READ].max().max(spec.sizes[WRITE].max()).max(1) as usize;
        let place = |_| {
            let mut buffer = AlignedBuffer::new(bytes);
            if spec.way.writes() {
                frame.data.fill(&mut buffer);
            }
            QueueSlot {
                buffer,
                operation: 0,
                file: 0,
                offset: 0,
                bytes: 0,
                moved: 0,
                start_ns: 0,
                lag_ns: None,
                finds: Finds::Anything,
            }
        };
        let depth = spec.queue.depth.max(1) as usize;
        let next = Generator::new(spec, time_based, frame.seed);
        // fio does not count the bytes of an engine that blocks as those that end a pass: that does the end of all files, or the time
        let blocks = matches!(spec.queue.engine, QueueEngine::Blocking | QueueEngine::Mapped);
        let endless = time_based && blocks;
        let reads_back =
            spec.verify.as_ref().is_some_and(|verify| verify.read_back && (!endless || verify.backlog > 0));
        let checker = Checker::new(spec, next.seeds(), reads_back, time_based);
        Runner {
            next,
            pass_bytes: 0,
            last_was_sync: false,
            pass_ends: if blocks || (time_based && !reads_back) { u64::MAX } else { pass_ends(spec) },
            checker,
            places: (0..depth).map(place).collect(),
            free: (0..depth).rev().collect(),
            files: spec.files.iter().map(|_| None).collect(),
            done: Vec::with_capacity(depth),
            queued: 0,
            begin_ns: 0,
            deadline_ns: u64::MAX,
            end_ns: 0,
            ramp_ns: 0,
            ramping: false,
            issued_bytes: 0,
            issued: 0,
            completed: 0,
            last_pause: 0,
            quota: 0,
            ops_reached: false,
            offer: None,
            timing: Timing { begin_ns: 0, measure_ns: 0, deadline_ns: u64::MAX, period_ns: 0 },
            recorder: None,
            replay_ends_ns: 0,
            read_back_ns: 0,
            late: None,
            path: Vec::with_capacity(256),
            clock: Clock::get(),
            spec,
            port,
            frame,
            time_based,
        }
    }

    /// Issues the stream to its end; how it ended, when, and what it recorded.
    pub(crate) fn run(&mut self, timing: Timing, recorder: Recorder<'r>) -> (LaneEnd, u64, Vec<OpRecord>) {
        self.timing = timing;
        self.recorder = Some(recorder);
        self.frame.shared.lanes.fetch_add(1, AcqRel);
        let passes = self.passes();
        self.frame.shared.lanes.fetch_sub(1, AcqRel);
        if self.end_ns == 0 {
            self.end_ns = self.clock.now();
        }
        let end_ns = self.end_ns;
        let end = match passes {
            Err(fault) => LaneEnd::Failed(fault),
            Ok(()) if self.ops_reached => LaneEnd::OpsReached,
            Ok(()) if self.cut_short(end_ns) => LaneEnd::Stopped,
            Ok(()) => LaneEnd::Done,
        };
        let ops = self.recorder.take().map_or_else(Vec::new, |mut recorder| {
            recorder.finish(end_ns);
            recorder.ops
        });
        (end, end_ns, ops)
    }

    /// When its own measured interval began, or was to: behind its delay and its warm-up.
    pub(crate) fn measured_from_ns(&self) -> u64 {
        self.begin_ns.max(self.timing.measure_ns)
    }

    /// Whether the run ended before the stream, which has come to `now`.
    fn cut_short(&self, now: u64) -> bool {
        self.frame.shared.control.stopped() || now >= self.timing.deadline_ns
    }

    fn passes(&mut self) -> Fallible<()> {
        let (budget, timing) = (self.spec.budget, self.timing);
        let ns = |seconds: f64| (seconds * 1e9) as u64;
        self.begin_ns = timing.begin_ns + ns(budget.delay_seconds - self.frame.common_delay_seconds);
        sleep_blocking(&self.clock, self.frame.shared.control, self.begin_ns.min(timing.deadline_ns));
        self.ramp_ns = self.measured_from_ns();
        self.ramping = self.ramp_ns > self.begin_ns;
        self.deadline_ns = match budget.seconds.filter(|_| !self.frame.length_told) {
            Some(seconds) => timing.deadline_ns.min(self.ramp_ns + ns(seconds)),
            None => timing.deadline_ns,
        };
        let mut passes = 1;
        let mut result = Ok(());
        loop {
            let goes_on = match &self.spec.replay {
                Some(replay) => self.replay(replay)?,
                None => self.pass()?,
            };
            self.pass_bytes = 0;
            self.end_syncs()?;
            self.read_back_all()?;
            if !goes_on {
                break;
            }
            let left = budget.bytes.saturating_mul(budget.passes).saturating_sub(self.issued_bytes);
            let most = self.spec.sizes[READ].max().max(self.spec.sizes[WRITE].max());
            let more = self.time_based || passes < budget.passes || (budget.more_passes && left >= most);
            if !more {
                break;
            }
            passes += 1;
            self.close_all()?;
            self.next.begin_pass();
        }
        self.quiesce()?;
        // closing and removing the files is no part of the load
        self.end_ns = self.clock.now();
        for file in 0..self.files.len() {
            result = result.and(self.close(file));
            if self.spec.open.unlink {
                let path =
                    self.frame.shared.filesets[self.spec.files[file].fileset].file_path(0, &mut self.path);
                // another clone may have done it
                let _ = self.port.unlink(path);
            }
        }
        result
    }

    /// Goes on until the files are done (true), or the budget or the time is (false).
    fn pass(&mut self) -> Fallible<bool> {
        let mut now = self.clock.now();
        loop {
            if now >= self.deadline_ns || self.frame.shared.control.stopped() {
                return Ok(false);
            }
            self.end_ramp_if_over(now);
            if !self.time_based && self.is_spent() {
                return Ok(false);
            }
            if self.pass_bytes >= self.pass_ends {
                return Ok(true);
            }
            if self.backlog_is_due() {
                self.read_back(self.spec.verify.as_ref().map_or(0, |verify| verify.batch), false)?;
            }
            if !self.may_begin()? {
                return Ok(false);
            }
            let next = self.next.next(now.saturating_sub(self.begin_ns) / 1000);
            self.let_go()?;
            now = match next {
                Next::Transfer { file, way, offset, bytes } => {
                    self.issued_bytes += bytes;
                    self.pass_bytes += bytes;
                    self.issued += 1;
                    let now = self.transfer(file, way, offset, bytes as usize)?;
                    self.pause(now)?
                }
                Next::Sync { file, data_only } => self.begin_sync(file, data_only)?,
                Next::Wait { until_us } => {
                    // the warm-up may end while transfers are awaited, and `begin_ns` with it
                    let until = self.begin_ns.saturating_add(until_us.saturating_mul(1000));
                    self.quiesce()?;
                    self.sleep(until);
                    self.clock.now()
                }
                Next::FileDone { file } => {
                    self.quiesce()?;
                    self.close(file)?;
                    self.clock.now()
                }
                Next::PassDone => {
                    self.quiesce()?;
                    return Ok(true);
                }
            };
        }
    }

    /// Whether an operation more may begin: of those that a run may do, and of a rate that it is offered.
    #[inline]
    fn may_begin(&mut self) -> Fallible<bool> {
        let counts = self.frame.shared.counts_ops() && self.quota <= self.in_flight() as u64;
        if counts && !self.claim()? {
            return Ok(false);
        }
        if self.frame.shared.pace.is_some() && self.offer.is_none() {
            return self.meet_offered();
        }
        Ok(true)
    }

    #[inline]
    fn end_ramp_if_over(&mut self, now: u64) {
        if self.ramping && now >= self.ramp_ns {
            self.end_ramp();
        }
    }

    /// The warm-up is over. As in fio it has eaten of the bytes (`size`, `io_size`), but not of the number of transfers
    /// (`number_ios`), among which are those in flight.
    #[cold]
    fn end_ramp(&mut self) {
        self.ramping = false;
        let is_issued = |(number, place): &(usize, &QueueSlot)| {
            let is_read_back = matches!(place.finds, Finds::Piece(_));
            !self.free.contains(number) && is_transfer(place.operation) && !is_read_back
        };
        self.issued = self.places.iter().enumerate().filter(is_issued).count() as u64;
        (self.completed, self.last_pause) = (0, 0);
        self.begin_ns = self.ramp_ns;
        self.next.restart_counts();
    }

    fn is_spent(&self) -> bool {
        let budget = &self.spec.budget;
        // what is discarded and then written counts twice
        let times = if self.spec.way == TransferDirection::TrimWrite { 2 } else { 1 };
        self.issued_bytes >= budget.bytes.saturating_mul(budget.passes * times)
            || budget.transfers.is_some_and(|transfers| self.issued >= transfers * budget.passes * times)
    }

    #[inline]
    fn backlog_is_due(&self) -> bool {
        match (&self.spec.verify, &self.checker) {
            (Some(verify), Some(checker)) if verify.backlog > 0 => {
                checker.waiting() > 0 && checker.waiting().is_multiple_of(verify.backlog)
            }
            _ => false,
        }
    }

    /// The syncs at the end of a pass (`end_fsync`, `fsync_on_close`), unless its last operation was one: of all files, closed
    /// ones too.
    fn end_syncs(&mut self) -> Fallible<()> {
        let syncs = self.spec.syncs;
        if !self.spec.way.writes() || !(syncs.at_end || syncs.on_close) || self.last_was_sync {
            return Ok(());
        }
        self.quiesce()?;
        self.last_was_sync = true;
        for file in 0..self.files.len() {
            let is_open = self.files[file].is_some();
            self.open(file)?;
            self.sync(file, false)?;
            if !is_open {
                self.close(file)?;
            }
        }
        Ok(())
    }

    /// Reads back and checks what the pass has written, unless the time is up; files are opened anew for it.
    #[cold]
    fn read_back_all(&mut self) -> Fallible<()> {
        if self.checker.as_ref().is_none_or(|checker| checker.waiting() == 0) || self.is_over() {
            return Ok(());
        }
        self.read_back(u64::MAX, true)
    }

    fn close_all(&mut self) -> Fallible<()> {
        self.quiesce()?;
        (0..self.files.len()).try_for_each(|file| self.close(file))
    }

    fn is_over(&self) -> bool {
        self.clock.now() >= self.deadline_ns || self.frame.shared.control.stopped()
    }

    /// Reads back so many written blocks, of files that are opened anew or not. It has the queue for itself meanwhile, so that
    /// writes and what reads them back have times of their own.
    fn read_back(&mut self, most: u64, anew: bool) -> Fallible<()> {
        // a block must be written before it can be read
        self.quiesce()?;
        let begin_ns = self.clock.now();
        if anew {
            self.close_all()?;
        }
        for _ in 0..most {
            if self.is_over() {
                break;
            }
            let Some(piece) = self.checker.as_mut().and_then(Checker::next) else { break };
            self.begin(piece.file, READ, piece.offset, piece.bytes, Finds::Piece(piece))?;
        }
        self.quiesce()?;
        // the warm-up may have ended meanwhile
        self.read_back_ns += self.clock.now().saturating_sub(begin_ns.max(self.measured_from_ns()));
        Ok(())
    }

    fn sleep(&self, until_ns: u64) {
        sleep_blocking(&self.clock, self.frame.shared.control, until_ns.min(self.deadline_ns));
    }

    /// Waits for the next due time of an offered rate, taking results meanwhile; false: the time is up before.
    #[cold]
    fn meet_offered(&mut self) -> Fallible<bool> {
        let Some(pace) = &self.frame.shared.pace else { return Ok(true) };
        let due = self.timing.begin_ns + pace.take(1);
        let met = self.meet(due)?;
        self.offer = met.then_some(due);
        Ok(met)
    }

    /// Waits for a due time, taking results meanwhile; false: the time is up before.
    fn meet(&mut self, due: u64) -> Fallible<bool> {
        let mut waited = false;
        loop {
            let now = self.clock.now();
            if now >= self.deadline_ns || self.frame.shared.control.stopped() {
                return Ok(false);
            }
            if now >= due {
                if waited && now >= self.measured_from_ns() {
                    self.late.get_or_insert_default().record(now - due);
                }
                return Ok(true);
            }
            waited = true;
            let until = due.min(self.deadline_ns);
            if self.in_flight() > 0 {
                self.port_submit()?;
                self.reap(1, Some(until - now))?;
            } else {
                self.sleep(until);
            }
        }
    }

    /// The page cache lets a file go whose end was reached by a stream that goes on from its begin.
    #[inline]
    fn let_go(&mut self) -> Fallible<()> {
        let Some(file) = self.next.wrapped.take() else { return Ok(()) };
        // of two writes of a block in flight nobody knows which is the later one
        if self.checker.is_some() {
            self.quiesce()?;
        }
        if self.spec.open.invalidate
            && !self.spec.open.direct
            && let Some(open) = &self.files[file]
        {
            self.port.invalidate(open);
        }
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.places.len() - self.free.len()
    }

    fn open(&mut self, file: usize) -> Fallible<()> {
        if self.files[file].is_some() {
            return Ok(());
        }
        let StreamFile { fileset: of, offset, bytes, .. } = self.spec.files[file];
        let (way, verify) = (self.spec.way, self.spec.verify.is_some());
        let how = OpenMode {
            flags: self.spec.open,
            reads: way.reads() || verify,
            writes: way.writes() || way.trims(),
            random: self.spec.order.random,
            end: offset + bytes,
        };
        let fileset = &self.frame.shared.filesets[of];
        let opened = self.port.open(fileset.file_path(0, &mut self.path), how);
        self.files[file] = Some(opened.map_err(|error| self.fault("cannot open", &error))?);
        Ok(())
    }

    fn close(&mut self, file: usize) -> Fallible<()> {
        let syncs = self.spec.way.writes() && self.spec.syncs.on_close && !self.last_was_sync;
        if syncs && self.files[file].is_some() {
            self.sync(file, false)?;
        }
        match self.files[file].take() {
            Some(open) => self.port.close(open).map_err(|error| self.fault("cannot close", &error)),
            None => Ok(()),
        }
    }

    /// A sync that is no part of the measured load.
    fn sync(&mut self, file: usize, data_only: bool) -> Fallible<()> {
        let Some(open) = &self.files[file] else { return Ok(()) };
        self.port.sync(open, data_only).map_err(|error| self.fault("cannot sync", &error))
    }

    #[cold]
    fn fault(&self, what: &str, error: &std::io::Error) -> Box<RunFault> {
        let at = self.frame.shared.shown(&self.path);
        let hint = match error.raw_os_error() {
            Some(libc::EINVAL) if self.spec.open.direct => {
                "; with direct=1, sizes and offsets must be multiples of the device's block"
            }
            Some(libc::EOPNOTSUPP) if self.spec.queue.uncached => {
                "; uncached needs a file system that does it (ext4, XFS, btrfs on Linux 6.14 or newer): leave it out"
            }
            Some(libc::EOPNOTSUPP | libc::EINVAL) if self.spec.queue.atomic => {
                "; atomic needs a file that can do it (statx tells: STATX_WRITE_ATOMIC), and direct=1: leave it out"
            }
            Some(libc::ENOTTY | libc::EOPNOTSUPP) if self.spec.way.trims() => {
                "; only a block device that can discard is trimmed"
            }
            Some(libc::EOPNOTSUPP) if self.spec.replay.is_some() => {
                "; a file system without holes does not trim: leave trims out with --set replay_skip=trim"
            }
            _ => remedy(error),
        };
        RunFault::boxed(format!("{}: {what}: {error}{hint}, last file {at}", self.frame.label))
    }

    /// Begins a transfer and waits while the queue is full; the time.
    #[inline]
    fn transfer(&mut self, file: usize, way: usize, offset: u64, bytes: usize) -> Fallible<u64> {
        // reads of a stream that writes, too, find what is there
        let checked = self.checker.is_some() && way == READ && !self.spec.way.writes();
        self.begin(file, way, offset, bytes, if checked { Finds::Block } else { Finds::Anything })
    }

    #[inline]
    fn begin(&mut self, file: usize, way: usize, offset: u64, bytes: usize, finds: Finds) -> Fallible<u64> {
        self.open(file)?;
        self.last_was_sync = false;
        let start_ns = self.clock.now();
        let Some(number) = self.free.pop() else {
            return Err(RunFault::boxed("no place of the queue is free"));
        };
        let place = &mut self.places[number];
        place.operation = if way == TRIM { DISCARD } else { way };
        (place.file, place.offset, place.bytes, place.moved, place.finds) = (file, offset, bytes, 0, finds);
        // what is read back was offered by nobody
        let due_ns = if matches!(finds, Finds::Piece(_)) { None } else { self.offer.take() };
        (place.start_ns, place.lag_ns) = (start_ns, due_ns.map(|due| start_ns.saturating_sub(due)));
        if way == WRITE {
            match &mut self.checker {
                Some(checker) => checker.fill(file, offset, &mut place.buffer[..bytes]),
                None => self.frame.data.stamp(&mut place.buffer[..bytes]),
            }
        }
        self.go_on(number)?;
        self.after_begin()
    }

    /// Begins what is left of a place's transfer.
    #[inline]
    fn go_on(&mut self, number: usize) -> Fallible<()> {
        let place = &mut self.places[number];
        let Some(open) = &self.files[place.file] else {
            return Err(RunFault::boxed("a file was closed under a transfer"));
        };
        let transfer = Transfer {
            way: if place.operation == DISCARD { TRIM } else { place.operation },
            buffer: place.buffer[place.moved..].as_mut_ptr(),
            bytes: place.bytes - place.moved,
            offset: place.offset + place.moved as u64,
        };
        // SAFETY: the buffer is the place's, which is used again only after its result was taken, and `quiesce` waits for all
        // results before the places go.
        match unsafe { self.port.begin(number, open, transfer) } {
            Ok(Some(moved)) => self.completed(number, Ok(moved)),
            Ok(None) => {
                self.queued += 1;
                Ok(())
            }
            Err(error) => self.completed(number, Err(error)),
        }
    }

    /// Hands over a batch; waits while the queue is full.
    #[inline]
    fn after_begin(&mut self) -> Fallible<u64> {
        if self.queued >= self.spec.queue.submit.max(1) as usize {
            self.port_submit()?;
        }
        if self.free.is_empty() {
            let low = self.spec.queue.low as usize;
            loop {
                let wanted = (self.spec.queue.complete_min as usize).clamp(1, self.in_flight());
                self.reap(wanted, None)?;
                if self.in_flight() == 0 || (!self.free.is_empty() && (low == 0 || self.in_flight() <= low)) {
                    break;
                }
            }
        }
        Ok(self.clock.now())
    }

    fn begin_sync(&mut self, file: usize, data_only: bool) -> Fallible<u64> {
        self.open(file)?;
        self.last_was_sync = true;
        let start_ns = self.clock.now();
        let Some(number) = self.free.pop() else {
            return Err(RunFault::boxed("no place of the queue is free"));
        };
        let place = &mut self.places[number];
        place.operation = if data_only { FDATASYNC } else { FSYNC };
        (place.file, place.bytes, place.moved, place.start_ns) = (file, 0, 0, start_ns);
        place.lag_ns = self.offer.take().map(|due| start_ns.saturating_sub(due));
        place.finds = Finds::Anything;
        let Some(open) = &self.files[file] else {
            return Err(RunFault::boxed("a file was closed under a sync"));
        };
        match self.port.begin_sync(number, open, data_only) {
            Ok(true) => {
                // it has handed over what was queued
                self.queued = 0;
                self.completed(number, Ok(0))?;
            }
            Ok(false) => self.queued += 1,
            Err(error) => self.completed(number, Err(error))?,
        }
        self.after_begin()
    }

    fn port_submit(&mut self) -> Fallible<()> {
        self.queued = 0;
        self.port.submit().map_err(|error| self.fault("cannot submit", &error))
    }

    /// Takes results.
    fn reap(&mut self, at_least: usize, nanoseconds: Option<u64>) -> Fallible<()> {
        let mut done = std::mem::take(&mut self.done);
        self.queued = 0;
        let waited = self.port.wait(at_least, nanoseconds, &mut done);
        let mut result = waited.map_err(|error| self.fault("cannot wait for results", &error));
        for (number, moved) in done.drain(..) {
            let one = self.completed(number, moved);
            result = result.and(one);
        }
        self.done = done;
        result
    }

    /// A result is there.
    #[inline]
    fn completed(&mut self, number: usize, moved: std::io::Result<usize>) -> Fallible<()> {
        let now = self.clock.now();
        let place = &mut self.places[number];
        let moved = match moved {
            Ok(moved) => moved,
            Err(error) => {
                self.free.push(number);
                return Err(self.fault(OPERATIONS[self.places[number].operation], &error));
            }
        };
        place.moved += moved;
        if place.moved < place.bytes {
            if moved == 0 {
                self.free.push(number);
                return Err(RunFault::boxed(format!(
                    "{}: a transfer of no bytes at offset {}: the file ends before",
                    self.frame.label, self.places[number].offset
                )));
            }
            return self.go_on(number);
        }
        let (operation, start, bytes, lag) =
            (place.operation, place.start_ns, place.bytes as u64, place.lag_ns);
        let is_read_back = matches!(place.finds, Finds::Piece(_));
        self.end_ramp_if_over(now);
        self.free.push(number);
        // neither what is read back nor the warm-up takes from the run's number of operations
        if !is_read_back && !self.ramping {
            self.quota = self.quota.saturating_sub(1);
        }
        if self.places[number].finds != Finds::Anything && operation == READ {
            self.check(number)?;
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.done(self.frame.records[operation], start, now, bytes, lag);
        }
        if is_transfer(operation) {
            self.completed += 1;
        }
        Ok(())
    }

    /// Whether a read found what it was to find.
    #[cold]
    fn check(&mut self, number: usize) -> Fallible<()> {
        let place = &self.places[number];
        let Some(checker) = &self.checker else { return Ok(()) };
        let piece = match &place.finds {
            Finds::Piece(piece) => Some(piece),
            Finds::Anything | Finds::Block => None,
        };
        checker.check(piece, place.offset, &place.buffer[..place.bytes]).map_err(|wrong| {
            let fileset = &self.frame.shared.filesets[self.spec.files[place.file].fileset];
            let path = self.frame.shared.shown(fileset.file_path(0, &mut self.path).to_bytes());
            RunFault::boxed(format!("{}: {wrong}, in {path}", self.frame.label))
        })
    }

    /// Waits until nothing is in flight, or nothing that is comes back: the port has failed.
    fn quiesce(&mut self) -> Fallible<()> {
        let mut result = Ok(());
        while self.in_flight() > 0 {
            let before = self.in_flight();
            let one = self.port_submit().and(self.reap(1, None));
            let failed = one.is_err();
            result = result.and(one);
            if failed && self.in_flight() == before {
                break;
            }
        }
        result
    }

    /// A pause, when one is due (`thinktime`).
    #[inline]
    fn pause(&mut self, now: u64) -> Fallible<u64> {
        let pace = &self.spec.pace;
        if pace.pause_every == 0 || self.completed < self.last_pause + pace.pause_every {
            return Ok(now);
        }
        self.last_pause = self.completed;
        self.quiesce()?;
        let begin = self.clock.now();
        let spin_until = (begin + pace.spin_us * 1000).min(self.deadline_ns);
        while self.clock.now() < spin_until {
            std::hint::spin_loop();
        }
        self.sleep(begin + pace.pause_us * 1000);
        Ok(self.clock.now())
    }

    /// Claims operations of a run with a set number of them; waits for a grant of one that goes in slices. False: it is over.
    #[cold]
    fn claim(&mut self) -> Fallible<bool> {
        let claimed = self.frame.shared.claim_ops();
        self.quota = self.quota.saturating_add(claimed);
        if claimed > 0 {
            return Ok(true);
        }
        self.quiesce()?;
        // what ended in the warm-up has taken nothing
        if self.quota > 0 {
            return Ok(true);
        }
        let control = self.frame.shared.control;
        let Some(slices) = control.slices() else {
            self.ops_reached = true;
            return Ok(false);
        };
        slices.park(self.clock.now());
        loop {
            let seen = slices.granted().seen();
            slices.leave();
            self.quota = self.frame.shared.claim_ops();
            if self.quota > 0 {
                return Ok(true);
            }
            slices.park(0);
            wait_blocking(control, slices.granted(), seen);
            if self.cut_short(self.clock.now()) {
                return Ok(false);
            }
        }
    }
}

/// Whether an operation moves or discards data; the others are syncs.
fn is_transfer(operation: usize) -> bool {
    matches!(operation, READ | WRITE | DISCARD)
}

/// The bytes after which a pass is over: those of the files, or more where random writes come to the same blocks again.
fn pass_ends(spec: &Stream) -> u64 {
    let files = spec.files.iter().map(|file| file.bytes).fold(0, u64::saturating_add);
    let again = spec.way.writes() && spec.order.random && !spec.order.visit_once;
    let bytes = if again { files.max(spec.budget.bytes) } else { files };
    // what is discarded and then written counts twice
    bytes.saturating_mul(if spec.way == TransferDirection::TrimWrite { 2 } else { 1 })
}

impl<P: Port> Drop for Runner<'_, P> {
    fn drop(&mut self) {
        // The kernel may still use the buffers: they go only when nothing is in flight.
        while self.in_flight() > 0 {
            let before = self.in_flight();
            let _ = self.quiesce();
            if self.in_flight() == before {
                std::mem::take(&mut self.places).into_iter().for_each(std::mem::forget);
                return;
            }
        }
    }
}
