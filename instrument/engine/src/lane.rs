//! The interpreter: one thread's program, run on any target.
//!
//! A *lane* is one execution of a thread's program. On a blocking target a thread has one; on io_uring it has as many as
//! the queue is deep, and each behaves like a thread of its own. The code is `async` over [`Target`]; where every future
//! is ready at once, what is left is a loop of system calls.

use std::io;
use std::sync::atomic::Ordering::AcqRel;

use stats::Histogram;
use workload::data::DataPool;
use workload::{Draws, EndMode, Kind, Rng};

use crate::aligned::AlignedBuffer;
use crate::error::remedy;
use crate::fileset::RotorCache;
use crate::program::{Instruction, Op, Program};
use crate::record::{Recorder, Timing};
use crate::shared::Shared;
use crate::slices::Slices;
use crate::target::Target;

/// Position of a slot whose next sequential transfer is at the file's end.
pub(crate) const AT_END: u64 = u64::MAX;

/// What a thread waits when a whole pass found nothing to do.
const STARVED_PAUSE_NS: u64 = 1_000_000;

/// A file slot of a thread (`fd=`).
pub(crate) struct Slot<F> {
    pub file: Option<F>,
    /// Fileset and index of the file that is, or was last, open here.
    pub of: Option<(usize, u64)>,
    /// Where the next sequential transfer starts.
    pub position: u64,
    /// Offsets and lengths are rounded to this (`O_DIRECT`); 1 otherwise.
    pub alignment: u64,
    /// The flowop that should have opened it was skipped; those that use it are skipped too.
    pub starved: bool,
}

impl<F> Default for Slot<F> {
    fn default() -> Self {
        Slot { file: None, of: None, position: 0, alignment: 1, starved: false }
    }
}

/// What an execution of a flowop came to.
pub(crate) enum OpResult {
    /// It was done, and moved this many bytes.
    Done(u64),
    /// There was nothing to do it on.
    Starved,
    /// It failed in a way that the run survives (`statfile`).
    Errored,
    /// This thread has nothing more to do.
    Finished,
    /// It does not count as an operation.
    Nothing,
    /// The run is being stopped.
    Stopped,
}

/// A failure that ends the run. Passed around in a box, so that the result of a flowop stays in two registers.
#[derive(Debug, PartialEq, Eq)]
pub struct RunFault {
    /// What failed.
    pub what: String,
}

impl RunFault {
    #[cold]
    pub(crate) fn boxed(what: impl Into<String>) -> Box<RunFault> {
        Box::new(RunFault { what: what.into() })
    }
}

impl From<io::Error> for Box<RunFault> {
    #[cold]
    fn from(error: io::Error) -> Box<RunFault> {
        let hint = match error.raw_os_error() {
            Some(libc::EINVAL) => "; with directio, sizes must be multiples of the device's block",
            _ => remedy(&error),
        };
        RunFault::boxed(format!("{error}{hint}"))
    }
}

/// How a lane ended.
#[derive(Debug, PartialEq, Eq)]
pub enum LaneEnd {
    /// The time was up, or the run was stopped.
    Stopped,
    /// It had nothing more to do.
    Done,
    /// The run's number of operations was reached.
    OpsReached,
    /// A flowop failed.
    Failed(Box<RunFault>),
}

/// One execution of a thread's program.
pub struct Lane<'r, T: Target> {
    pub(crate) target: &'r T,
    pub(crate) shared: &'r Shared<'r>,
    pub(crate) program: &'r Program,
    /// Index of the process instance, for its totals.
    pub(crate) process: usize,
    /// Number of this lane among the instances of its thread definition, over all processes.
    pub(crate) instance: usize,
    pub(crate) timing: Timing,
    /// Of a run in turns: nanoseconds in which it waited for them; its own clock is so much behind the target's.
    pub(crate) waited_ns: u64,
    /// The end of the run, on the target's clock; in a run in turns `timing` has that of the turn, when it comes before.
    pub(crate) end_ns: u64,
    /// When its last operation was done, on the target's clock; 0 before.
    pub(crate) ended_ns: u64,
    /// For messages: thread name and instance.
    pub(crate) label: String,
    pub(crate) draws: Draws,
    pub(crate) rng: Rng,
    pub(crate) slots: Vec<Slot<T::File>>,
    /// The `opennext` rotor over the slots.
    pub(crate) next_slot: usize,
    /// The `opennext` rotors over the files of each fileset.
    pub(crate) own_rotors: Vec<u64>,
    /// Turns taken ahead of time from the shared rotors, of each fileset.
    pub(crate) turns: Vec<RotorCache>,
    pub(crate) read_buffer: AlignedBuffer,
    pub(crate) write_buffer: AlignedBuffer,
    pub(crate) write_position: usize,
    pub(crate) data: DataPool,
    pub(crate) path: Vec<u8>,
    pub(crate) recorder: Recorder<'r>,
    /// Part of a place of the offered load that its passes have not taken yet.
    pub(crate) places: f64,
    /// How late the present cycle began, when the load is paced.
    pub(crate) lag_ns: Option<u64>,
    /// How late the thread woke from its waits for due times, in nanoseconds.
    pub(crate) late: Option<Box<Histogram>>,
    /// Operations and bytes of each flowop since the start, kept when some flowop looks at them.
    pub(crate) done: Vec<(u64, u64)>,
    /// What each limiter has been charged for.
    pub(crate) charged: Vec<u64>,
    /// Operations that this lane may still do of the run's number.
    pub(crate) quota: u64,
    /// It has done one of them, or an I/O operation in the warm-up, since the pass began.
    pub(crate) advanced: bool,
    /// It is among the idle lanes, since its last pass came to nothing.
    pub(crate) idle: bool,
    /// Values drawn by `testrandvar`: count, mean, sum of squared deviations.
    pub(crate) drawn: (u64, f64, f64),
}

impl<'r, T: Target> Lane<'r, T> {
    /// Waits for the begin of the load, runs until the lane is done or the run is over, waits for its asynchronous writes, then
    /// closes its files. (What a lane did before the begin would be in no record.)
    pub async fn run(&mut self) -> LaneEnd {
        self.shared.lanes.fetch_add(1, AcqRel);
        self.target.sleep_until(self.timing.begin_ns).await;
        let turns = self.shared.control.slices().filter(|slices| slices.is_timed());
        let begins = match turns {
            Some(turns) => self.next_turn(turns, self.timing.begin_ns).await,
            None => true,
        };
        let end = if begins { self.passes().await } else { LaneEnd::Stopped };
        turns.inspect(|turns| turns.depart());
        self.set_idle(false);
        self.shared.lanes.fetch_sub(1, AcqRel);
        let outstanding = self.target.aio_outstanding();
        let mut last = self.target.aio_wait(outstanding).await.map(drop);
        // closing the files is no part of the load
        self.ended_ns = self.target.now();
        self.recorder.finish(self.ended_ns);
        for slot in 0..self.slots.len() {
            let closed = self.close_slot(slot).await;
            last = last.and(closed);
        }
        match last {
            Err(error) if !matches!(end, LaneEnd::Failed(_)) => LaneEnd::Failed(RunFault::boxed(format!(
                "{}: writes failed after the last operation: {error}{}",
                self.label,
                remedy(&error)
            ))),
            _ => end,
        }
    }

    /// Whether another lane has to do something before this one does an operation of the run's number.
    fn set_idle(&mut self, is_idle: bool) {
        if self.idle != is_idle {
            self.idle = is_idle;
            self.shared.control.count_idle(is_idle);
        }
    }

    async fn close_slot(&mut self, slot: usize) -> io::Result<()> {
        match self.slots[slot].file.take() {
            Some(file) => self.target.close(file).await,
            None => Ok(()),
        }
    }

    async fn passes(&mut self) -> LaneEnd {
        // In slices the first operation comes before the first grant.
        let counts = self.shared.ops_left.is_some() && self.shared.control.slices().is_none();
        if counts && self.program.io_ops_per_pass == 0.0 {
            self.set_idle(true);
        } else if counts {
            self.quota = self.shared.claim_ops();
            if self.quota == 0 {
                return LaneEnd::OpsReached;
            }
        }
        let mut loops: Vec<u64> = Vec::new();
        let program = self.program;
        let mut start = self.target.now();
        loop {
            if self.shared.pace.is_some() {
                if !self.pace().await {
                    return LaneEnd::Stopped;
                }
                start = self.target.now();
            }
            let mut counter = 0;
            let mut worked = false;
            self.advanced = false;
            while let Some(instruction) = program.code.get(counter) {
                counter += 1;
                match *instruction {
                    Instruction::Run(index) => {
                        let op = &program.ops[index];
                        let iters = self.draws.eval(op.flow.iters);
                        for _ in 0..iters {
                            match self.once(op, index, &mut start).await {
                                Ok(did) => worked |= did,
                                Err(end) => return end,
                            }
                        }
                    }
                    Instruction::Enter { iters, end } => match self.draws.eval(iters) {
                        0 => counter = end,
                        times => loops.push(times - 1),
                    },
                    Instruction::Leave { start } => match loops.pop() {
                        Some(left) if left > 0 => {
                            loops.push(left - 1);
                            counter = start;
                        }
                        _ => {}
                    },
                }
            }
            if counts {
                self.set_idle(!self.advanced);
            }
            if !worked {
                self.target.sleep_until(start + STARVED_PAUSE_NS).await;
                if self.over() {
                    return LaneEnd::Stopped;
                }
                start = self.target.now();
            }
        }
    }

    /// One execution of a flowop, recorded. True when something was done.
    #[inline(always)]
    async fn once(&mut self, op: &Op, index: usize, start: &mut u64) -> Result<bool, LaneEnd> {
        let did = match self.execute(op, index).await {
            Ok(did) => did,
            Err(fault) => return Err(self.failed(op, &fault)),
        };
        let now = self.target.now();
        let worked = match did {
            OpResult::Done(bytes) => {
                self.completed(op, index, *start, now, bytes);
                if op.is_io && self.shared.counts_ops() && !self.spend(now) {
                    return self.granted(now, start).await;
                }
                true
            }
            other => self.not_completed(op, index, now, &other)?,
        };
        *start = now;
        if now >= self.timing.deadline_ns || self.shared.control.stopped() {
            return self.time_is_up(now, start).await.map(|()| worked);
        }
        Ok(worked)
    }

    /// The end, but for a run in turns of which it is the end of one.
    #[cold]
    async fn time_is_up(&mut self, now: u64, start: &mut u64) -> Result<(), LaneEnd> {
        let turns = self.shared.control.slices().filter(|slices| slices.is_timed());
        if let Some(turns) = turns
            && now < self.end_ns
            && self.next_turn(turns, now).await
        {
            *start = self.target.now();
            return Ok(());
        }
        Err(LaneEnd::Stopped)
    }

    /// Waits for the next turn, from `now` on; the lane's clock stands still. False: the run is over.
    async fn next_turn(&mut self, turns: &Slices, now: u64) -> bool {
        turns.park(now);
        let mut resumes = now;
        while resumes >= turns.until_ns() {
            let seen = turns.granted().seen();
            if resumes >= turns.until_ns() {
                self.target.wait(turns.granted(), seen).await;
            }
            if self.shared.control.stopped() {
                return false;
            }
            resumes = self.target.now();
        }
        turns.leave();
        let waited = resumes.saturating_sub(now);
        self.waited_ns += waited;
        self.end_ns = self.end_ns.saturating_add(waited);
        self.timing = self.timing.later(waited);
        self.recorder.pause(waited);
        self.timing.deadline_ns = self.end_ns.min(turns.until_ns());
        true
    }

    #[inline(always)]
    pub(crate) fn completed(&mut self, op: &Op, index: usize, start: u64, now: u64, bytes: u64) {
        let lag = if op.is_io { self.lag_ns } else { None };
        self.recorder.done(index, start, now, bytes, lag);
        if let Some(done) = self.done.get_mut(index) {
            done.0 += 1;
            done.1 += bytes;
            // Filebench's sums over a process are of I/O alone
            if op.is_io
                && let Some(totals) = self.shared.totals.get(self.process)
            {
                totals.add(bytes);
            }
        }
    }

    #[cold]
    fn not_completed(&mut self, op: &Op, index: usize, now: u64, did: &OpResult) -> Result<bool, LaneEnd> {
        match did {
            OpResult::Starved if self.shared.strict => Err(LaneEnd::Failed(RunFault::boxed(format!(
                "{}: flowop {} could not obtain a file (--strict): shorten the run, add entries to the fileset, or \
                 leave out --strict to skip and count such operations",
                self.label, op.flow.name
            )))),
            OpResult::Starved => {
                self.recorder.missed(index, now).starved += 1;
                Ok(false)
            }
            OpResult::Errored => {
                self.recorder.missed(index, now).errors += 1;
                Ok(true)
            }
            OpResult::Finished => Err(LaneEnd::Done),
            OpResult::Stopped => Err(LaneEnd::Stopped),
            OpResult::Nothing | OpResult::Done(_) => Ok(true),
        }
    }

    #[cold]
    fn failed(&self, op: &Op, fault: &RunFault) -> LaneEnd {
        let path = self.shared.shown(&self.path);
        let at = if path.is_empty() { path } else { format!(", last file {path}") };
        LaneEnd::Failed(RunFault::boxed(format!(
            "{}: flowop {} ({}) failed: {}{at}",
            self.label,
            op.flow.name,
            op.flow.kind.name(),
            fault.what
        )))
    }

    /// Takes one operation, which ended at `now`, of the run's number; false when that was the last. Lanes take them in small
    /// batches so that they do not all write one counter for every operation.
    fn spend(&mut self, now: u64) -> bool {
        self.advanced = true;
        // the number is that of the measured interval: the warm-up takes nothing from it
        if self.recorder.warming_up(now) {
            return true;
        }
        if self.quota == 0 {
            self.quota = self.shared.claim_ops();
            if self.quota == 0 {
                return false;
            }
        }
        self.quota -= 1;
        self.quota > 0 || {
            self.quota = self.shared.claim_ops();
            self.quota > 0
        }
    }

    /// Waits for the next grant of a run in slices; any other run is over.
    #[cold]
    async fn granted(&mut self, now: u64, start: &mut u64) -> Result<bool, LaneEnd> {
        let Some(slices) = self.shared.control.slices() else { return Err(LaneEnd::OpsReached) };
        slices.park(now);
        loop {
            let seen = slices.granted().seen();
            slices.leave();
            self.quota = self.shared.claim_ops();
            if self.quota > 0 {
                break;
            }
            slices.park(0);
            self.target.wait(slices.granted(), seen).await;
            if self.over() {
                return Err(LaneEnd::Stopped);
            }
        }
        // what was waited for is no part of the next operation
        *start = self.target.now();
        Ok(true)
    }

    /// Waits for the next due time of the offered load; false: the run was over before.
    async fn pace(&mut self) -> bool {
        let Some(schedule) = &self.shared.pace else { return true };
        // a mean need not be a whole number: what is left over is for the next pass
        let per_pass = self.program.io_ops_per_pass;
        self.places += if per_pass > 0.0 { per_pass } else { 1.0 };
        let places = self.places.floor();
        self.places -= places;
        let due = self.timing.begin_ns + schedule.take(places as u64);
        self.meet(due).await
    }

    /// Waits until `due_ns`; notes how late it is when that has passed. False: the run was over before, and what was to be done
    /// is no longer.
    pub(crate) async fn meet(&mut self, due_ns: u64) -> bool {
        let mut now = self.target.now();
        if now < due_ns {
            self.target.sleep_until(due_ns.min(self.timing.deadline_ns)).await;
            now = self.target.now();
            if now < due_ns || due_ns >= self.timing.deadline_ns {
                return false;
            }
            // Waking late is the scheduler's doing and part of the latency, as for a real client.
            if now >= self.timing.measure_ns {
                self.late.get_or_insert_default().record(now - due_ns);
            }
        }
        self.lag_ns = Some(now - due_ns);
        true
    }

    /// Whether the run is over.
    pub(crate) fn over(&self) -> bool {
        self.target.now() >= self.end_ns || self.shared.control.stopped()
    }

    /// Dispatches on the kind.
    #[inline(always)]
    async fn execute(&mut self, op: &Op, index: usize) -> Result<OpResult, Box<RunFault>> {
        match op.flow.kind {
            Kind::OpenFile => self.open_file(op).await,
            Kind::CreateFile => self.create_file(op).await,
            Kind::CloseFile => self.close_file(op).await,
            Kind::DeleteFile => self.delete_file(op).await,
            Kind::StatFile => self.stat_file(op).await,
            Kind::Read => self.read(op).await,
            Kind::Write => self.write(op).await,
            Kind::ReadWholeFile => self.read_whole(op).await,
            Kind::WriteWholeFile => self.write_whole(op).await,
            Kind::AppendFile | Kind::AppendFileRand => self.append(op).await,
            Kind::Fsync => self.fsync(op).await,
            Kind::FsyncSet => self.fsync_set(op, index).await,
            Kind::MakeDir => self.make_dir(op).await,
            Kind::RemoveDir => self.remove_dir(op).await,
            Kind::ListDir => self.list_dir(op).await,
            Kind::AioWrite => self.aio_write(op).await,
            Kind::AioWait => self.aio_wait().await,
            _ => self.control_op(op, index).await,
        }
    }

    /// No file could be picked: the end of the thread in the modes that wait for that, else a skip.
    #[cold]
    pub(crate) fn no_resource(&self) -> OpResult {
        match self.shared.end_mode {
            EndMode::Timeout => OpResult::Starved,
            EndMode::FirstDone | EndMode::AllDone => OpResult::Finished,
        }
    }
}
