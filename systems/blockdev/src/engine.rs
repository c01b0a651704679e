//! Requests, the model and the bytes put together. The caller owns the clock.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use ssd::error::SubmitError;
use ssd::{Command, Completion, FaultOp, Faults, Nanos, Op, Ssd, Status, Tags, Token};

use crate::fua::{self, Awaiting, Commit, OpenCommit};
use crate::image::BLOCK;
use crate::record::Recorder;
use crate::versions::Versions;

/// What a host asks, in blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request<'a> {
    Read {
        lba: u64,
        blocks: u32,
    },
    Write {
        lba: u64,
        data: &'a [u8],
        /// It is durable when it ends.
        fua: bool,
    },
    Flush,
    Discard {
        lba: u64,
        blocks: u32,
    },
    WriteZeroes {
        lba: u64,
        blocks: u32,
    },
}

/// How it ended.
#[derive(Debug)]
pub(crate) enum Outcome {
    Done,
    Data(Vec<u8>),
    /// An error number of errno(3).
    Failed(i32),
}

#[derive(Debug)]
struct Pending<R> {
    reply: R,
    data: Option<Vec<u8>>,
    /// Number of the change, for writes, discards and zeroes.
    change: Option<u64>,
    /// For a flush: changes below this are durable when it ends.
    horizon: Option<u64>,
    /// Id in the recording.
    record: Option<u64>,
    commit: Option<Commit>,
    /// What it does to jbd2's log, on a device that keeps order.
    leaves_open: Option<bool>,
    /// It ends with an error, whatever the model says.
    fails: bool,
    at: Nanos,
}

/// What came of the faults that were asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Failed {
    /// Requests that failed.
    pub(crate) requests: u64,
    /// Blocks that flushes which failed have set back to an older version.
    pub(crate) lost_blocks: u64,
}

/// A request as the model sees it, its bytes dealt with.
struct Prepared {
    op: Op,
    lba: u64,
    blocks: u32,
    data: Option<Vec<u8>>,
    change: Option<u64>,
}

/// A finished request.
#[derive(Debug)]
pub(crate) struct Finished<R> {
    pub(crate) reply: R,
    pub(crate) outcome: Outcome,
    /// When the model completed it; the time of submission for what it refused.
    pub(crate) at: Nanos,
    /// When it was submitted.
    pub(crate) submitted: Nanos,
}

/// The device without its clock. `R` is what the caller wants back with the outcome.
#[derive(Debug)]
pub(crate) struct Engine<R> {
    ssd: Ssd,
    now: Nanos,
    versions: Option<Versions>,
    record: Option<Arc<Recorder>>,
    faults: Faults,
    failed: Failed,
    /// For flushes that stand in for FUA; None: all take the time of a flush.
    fua: Option<Awaiting>,
    /// On a device that keeps order: finds the flushes that only order. None: all are flushes.
    open_commit: Option<OpenCommit>,
    pending: Vec<Option<Pending<R>>>,
    free: Vec<usize>,
    in_flight: u32,
    in_flight_max: u32,
    /// Commands that found the submission queue full, in order.
    backlog: VecDeque<Command>,
    completions: Vec<Completion>,
    refused: Vec<Finished<R>>,
}

impl<R> Engine<R> {
    pub(crate) fn new(ssd: Ssd, versions: Versions) -> Engine<R> {
        Engine {
            ssd,
            now: 0,
            versions: Some(versions),
            record: None,
            faults: Faults::default(),
            failed: Failed::default(),
            fua: None,
            open_commit: None,
            pending: Vec::new(),
            free: Vec::new(),
            in_flight: 0,
            in_flight_max: 0,
            backlog: VecDeque::new(),
            completions: Vec::new(),
            refused: Vec::new(),
        }
    }

    /// Gives flushes that stand in for the FUA flag of a write the time of such a write.
    pub(crate) fn model_fua(&mut self) {
        self.fua = Some(Awaiting::default());
    }

    /// Makes the first flush of a commit an epoch boundary, which is acknowledged at once. For a model that keeps order.
    pub(crate) fn order_commits(&mut self) {
        self.open_commit = Some(OpenCommit::default());
    }

    /// Records every change and flush from now on.
    pub(crate) fn record(&mut self, recorder: Arc<Recorder>) {
        self.record = Some(recorder);
    }

    /// Has these requests fail, counted from now on, and no others.
    pub(crate) fn set_faults(&mut self, faults: Faults) {
        self.faults = faults;
    }

    /// What came of the faults.
    pub(crate) fn failed(&self) -> Failed {
        self.failed
    }

    /// Records a mark; false without a recording.
    pub(crate) fn mark(&self, text: &str) -> bool {
        if let Some(recorder) = &self.record {
            recorder.mark(self.now, text);
        }
        self.record.is_some()
    }

    pub(crate) fn ssd(&self) -> &Ssd {
        &self.ssd
    }

    pub(crate) fn is_cut(&self) -> bool {
        self.versions.is_none()
    }

    pub(crate) fn superseded_bytes(&self) -> u64 {
        self.versions.as_ref().map_or(0, Versions::superseded_bytes)
    }

    /// Requests between submission and reply: now, most ever.
    pub(crate) fn depth(&self) -> (u32, u32) {
        (self.in_flight, self.in_flight_max)
    }

    /// The newest bytes, at once and unknown to the model.
    pub(crate) fn peek(&self, lba: u64, to: &mut [u8]) -> Result<(), i32> {
        let versions = self.versions.as_ref().ok_or(libc::EIO)?;
        versions.read(lba, to).map_err(errno)
    }

    /// Takes a request in. It is answered by an `advance`, at once if it is refused.
    pub(crate) fn submit(&mut self, now: Nanos, request: Request<'_>, reply: R) {
        self.now = self.now.max(now);
        let fails = self.is_struck(&request);
        let flushes = request == Request::Flush;
        if fails && (!flushes || self.lose_cached().is_err()) {
            return self.refuse(reply, libc::EIO);
        }
        match self.prepare(request) {
            Ok(Prepared { op, lba, blocks, data, change }) => {
                let flush = matches!(op, Op::Flush | Op::FlushForFua { .. });
                let (commit, leaves_open) = match request {
                    Request::Write { data, .. } => (self.commit_in(data), self.leaves_open(data)),
                    _ => (None, None),
                };
                let horizon = flush.then(|| self.versions.as_ref().map_or(0, Versions::horizon));
                let record =
                    self.record.as_ref().and_then(|to| record_submission(to, self.now, &request, op));
                let at = self.now;
                let pending =
                    Pending { reply, data, change, horizon, record, commit, leaves_open, fails, at };
                let id = self.keep(pending);
                let command = Command { id: id as u64, queue: 0, op, lba, blocks, tags: Tags::default() };
                self.backlog.push_back(command);
                self.feed();
            }
            Err(error) => self.refuse(reply, error),
        }
    }

    /// Counts a request, and tells whether it is one that fails. Of a write that fails nothing arrives.
    fn is_struck(&mut self, request: &Request<'_>) -> bool {
        let struck = match *request {
            Request::Read { lba, blocks } => self.faults.strikes(FaultOp::Read, lba, blocks.into()),
            Request::Write { lba, data, .. } => {
                self.faults.strikes(FaultOp::Write, lba, (data.len() / BLOCK) as u64)
            }
            Request::Flush => self.faults.strikes(FaultOp::Flush, 0, 0),
            Request::Discard { .. } | Request::WriteZeroes { .. } => false,
        };
        self.failed.requests += u64::from(struck);
        struck
    }

    /// A flush that fails loses what the cache held, unless it is protected; flushes under way, which cover some of that,
    /// fail with it. In a recording the device itself writes the older versions again.
    fn lose_cached(&mut self) -> io::Result<()> {
        for flush in self.pending.iter_mut().flatten().filter(|pending| pending.horizon.is_some()) {
            self.failed.requests += u64::from(!flush.fails);
            flush.fails = true;
        }
        let Some(versions) = self.versions.as_mut().filter(|_| !self.ssd.profile().power.plp) else {
            return Ok(());
        };
        let (record, now) = (&self.record, self.now);
        let lost = versions.lose_cached(&self.ssd.durable_image(), |lba, bytes| {
            if let Some(record) = record {
                let id = record.write(now, lba * BLOCK as u64, bytes, false);
                record.complete(now, id, 0);
            }
        });
        self.failed.lost_blocks += *lost.as_ref().unwrap_or(&0);
        lost.map(drop)
    }

    /// A record whose flush costs what FUA does. With order kept, jbd2's commit record is a plain write.
    fn commit_in(&self, data: &[u8]) -> Option<Commit> {
        self.fua.as_ref()?;
        fua::commit(data).filter(|commit| self.open_commit.is_none() || *commit != Commit::Jbd2)
    }

    fn leaves_open(&self, data: &[u8]) -> Option<bool> {
        self.open_commit.as_ref()?;
        fua::leaves_open(data)
    }

    fn refuse(&mut self, reply: R, error: i32) {
        let outcome = Outcome::Failed(error);
        self.refused.push(Finished { reply, outcome, at: self.now, submitted: self.now });
    }

    fn prepare(&mut self, request: Request<'_>) -> Result<Prepared, i32> {
        let capacity = self.ssd.capacity_blocks();
        let versions = self.versions.as_mut().ok_or(libc::EIO)?;
        let fits = |lba: u64, blocks: u64| {
            let fine = blocks > 0 && lba.checked_add(blocks).is_some_and(|end| end <= capacity);
            if fine { Ok(()) } else { Err(libc::EINVAL) }
        };
        let prepared = |op, lba, blocks| Prepared { op, lba, blocks, data: None, change: None };
        match request {
            Request::Read { lba, blocks } => {
                fits(lba, blocks.into())?;
                let mut data = vec![0; blocks as usize * BLOCK];
                versions.read(lba, &mut data).map_err(errno)?;
                let op = Op::Read { want_tokens: false };
                Ok(Prepared { data: Some(data), ..prepared(op, lba, blocks) })
            }
            Request::Write { lba, data, fua } => {
                let blocks = (data.len() / BLOCK) as u64;
                fits(lba, blocks)?;
                let first = versions.write(lba, data).map_err(errno)?;
                let op = Op::Write { token: Token(first), fua };
                Ok(Prepared { change: Some(first), ..prepared(op, lba, blocks as u32) })
            }
            Request::Flush if self.open_commit.as_mut().is_some_and(OpenCommit::flush) => {
                Ok(prepared(Op::Barrier, 0, 0))
            }
            Request::Flush => {
                let since = self.fua.as_mut().and_then(Awaiting::flush);
                Ok(prepared(since.map_or(Op::Flush, |since| Op::FlushForFua { since }), 0, 0))
            }
            Request::Discard { lba, blocks } | Request::WriteZeroes { lba, blocks } => {
                fits(lba, blocks.into())?;
                let number = versions.zero(lba, blocks.into()).map_err(errno)?;
                let discard = matches!(request, Request::Discard { .. });
                let op = if discard { Op::Discard } else { Op::WriteZeroes { fua: false } };
                Ok(Prepared { change: Some(number), ..prepared(op, lba, blocks) })
            }
        }
    }

    fn keep(&mut self, pending: Pending<R>) -> usize {
        self.in_flight += 1;
        self.in_flight_max = self.in_flight_max.max(self.in_flight);
        match self.free.pop() {
            Some(id) => {
                self.pending[id] = Some(pending);
                id
            }
            None => {
                self.pending.push(Some(pending));
                self.pending.len() - 1
            }
        }
    }

    fn take(&mut self, id: u64) -> Option<Pending<R>> {
        let pending = self.pending.get_mut(id as usize)?.take()?;
        self.free.push(id as usize);
        self.in_flight -= 1;
        Some(pending)
    }

    /// Hands waiting commands to the model, in order, as far as its queue takes them.
    fn feed(&mut self) {
        while let Some(command) = self.backlog.front().copied() {
            match self.ssd.submit(command, self.now) {
                Err(SubmitError::QueueFull { .. }) => return,
                Ok(()) => {}
                Err(_) => {
                    if let Some(pending) = self.take(command.id) {
                        self.record_end(pending.record, self.now, libc::EIO);
                        self.refuse(pending.reply, libc::EIO);
                    }
                }
            }
            self.backlog.pop_front();
        }
    }

    /// Does all that is due up to `now`.
    pub(crate) fn advance(&mut self, now: Nanos, done: &mut Vec<Finished<R>>) {
        self.now = self.now.max(now);
        loop {
            let mut completions = std::mem::take(&mut self.completions);
            self.ssd.advance(self.now, &mut completions);
            let none = completions.is_empty();
            for completion in completions.drain(..) {
                self.finish(completion, done);
            }
            self.completions = completions;
            if self.backlog.is_empty() || none {
                break;
            }
            self.feed();
        }
        done.append(&mut self.refused);
        self.prune();
    }

    fn finish(&mut self, completion: Completion, done: &mut Vec<Finished<R>>) {
        let Some(pending) = self.take(completion.id) else { return };
        if let (Some(awaiting), Some(commit)) = (&mut self.fua, pending.commit) {
            awaiting.completed(commit, pending.at);
        }
        if let (Some(open), Some(leaves_open)) = (&mut self.open_commit, pending.leaves_open) {
            open.completed(leaves_open);
        }
        if let Some(versions) = &mut self.versions {
            let (regime, plp) = (self.ssd.regime(), self.ssd.profile().power.plp);
            if let Some(number) = pending.change {
                versions.completed(number);
                if plp && !regime.is_ordered() {
                    let horizon = versions.horizon();
                    versions.durable_below(horizon);
                }
            }
            if let Some(horizon) = pending.horizon
                && !pending.fails
                && regime.honours_flush()
            {
                versions.durable_below(horizon);
            }
        }
        let outcome = match (completion.status, pending.data) {
            _ if pending.fails => Outcome::Failed(libc::EIO),
            (Status::Ok, Some(data)) => Outcome::Data(data),
            (Status::Ok, None) => Outcome::Done,
            _ => Outcome::Failed(libc::EIO),
        };
        let error = if let Outcome::Failed(error) = outcome { error } else { 0 };
        self.record_end(pending.record, completion.at, error);
        done.push(Finished { reply: pending.reply, outcome, at: completion.at, submitted: pending.at });
    }

    fn record_end(&self, id: Option<u64>, at: Nanos, error: i32) {
        if let (Some(recorder), Some(id)) = (&self.record, id) {
            recorder.complete(at, id, error);
        }
    }

    fn prune(&mut self) {
        if let Some(versions) = &mut self.versions
            && versions.wants_prune()
        {
            versions.prune(&self.ssd.durable_image());
        }
    }

    /// When `advance` should be called next; None while nobody waits (what the device does by itself can be
    /// caught up with later: it depends on the model's time only).
    pub(crate) fn due(&self) -> Option<Nanos> {
        if !self.refused.is_empty() {
            return Some(self.now);
        }
        if self.in_flight == 0 { None } else { self.ssd.next_event() }
    }

    /// Cuts the power: what is left, and the requests that nobody will answer.
    pub(crate) fn power_cut(&mut self) -> Option<(ssd::PowerCut, Versions, Vec<R>)> {
        let versions = self.versions.take()?;
        self.ssd.advance(self.now, &mut self.completions);
        self.completions.clear();
        if let Some(recorder) = self.record.take() {
            recorder.power_cut(self.now);
        }
        let cut = self.ssd.power_cut();
        self.backlog.clear();
        self.free.clear();
        self.in_flight = 0;
        let waiting = self.pending.drain(..).flatten().map(|p| p.reply).collect();
        Some((cut, versions, waiting))
    }

    #[cfg(test)]
    pub(crate) fn versions_mut(&mut self) -> Option<&mut Versions> {
        self.versions.as_mut()
    }
}

/// Reads leave no trace.
fn record_submission(to: &Recorder, now: Nanos, request: &Request<'_>, op: Op) -> Option<u64> {
    let bytes = |blocks: u64| blocks * BLOCK as u64;
    Some(match *request {
        Request::Read { .. } => return None,
        Request::Write { lba, data, fua } => to.write(now, bytes(lba), data, fua),
        Request::Flush if op == Op::Barrier => to.barrier(now),
        Request::Flush => to.flush(now),
        Request::Discard { lba, blocks } => to.discard(now, bytes(lba), bytes(blocks.into())),
        Request::WriteZeroes { lba, blocks } => to.write_zeroes(now, bytes(lba), bytes(blocks.into())),
    })
}

fn errno(error: io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EIO)
}

#[cfg(test)]
mod tests;
