//! Executes the plan of a run, trial by trial, each stored the moment it ends.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use stats::stopping::{Decision, StopRule, decide};
use stats::{Metric, Outcome};
use workload::address::redact;

use crate::check::Loads;
use crate::queue::Queue;
use crate::runner::{Job, Progress, Report, Runner};
use crate::store::{Store, StoreError};
use analysis::sweep::{self, OFFERED_RATE};
use analysis::turns::{self, InterimComparison};
use study::Study;
use study::plan::{self, Slot};
use study::results::{Cell, Run, Status, Trial};

/// How often slices are stored, each of which lasts much less.
const SLICES_STORED_EVERY: Duration = Duration::from_secs(1);
/// A cell that has failed so often without any result gets no further trials in this session.
const FAILURES_MAX: u32 = 2;

/// How a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionOutcome {
    /// The plan is done.
    Complete,
    /// The user interrupted it; the run can be resumed.
    Interrupted,
}

/// What a session tells.
#[derive(Debug)]
pub enum SessionEvent<'a> {
    /// A stack cannot be had here; its cells are skipped.
    Unavailable {
        /// The stack's label.
        stack: &'a str,
        /// Why.
        reason: &'a str,
        /// What would help.
        remedy: &'a str,
    },
    /// A trial begins.
    Begins {
        /// Its cell.
        cell: &'a Cell,
        /// Which trial of its cell, from 0.
        index: u32,
        /// Trials of this session that have ended.
        ended: usize,
        /// Trials that were planned for this session.
        planned: usize,
        /// Estimated seconds until the end of the session.
        remaining_seconds: f64,
    },
    /// A trial tells something.
    Progress(Progress),
    /// A trial has ended and is stored.
    Ended {
        /// Its cell.
        cell: &'a Cell,
        /// The trial.
        trial: &'a Trial,
    },
    /// A cell needs no further trials: the interval of its median is narrow enough.
    Settled {
        /// The cell.
        cell: &'a Cell,
        /// Trials that it has.
        trials: usize,
        /// Relative half width of the interval.
        half_width: f64,
    },
    /// Of two systems in turns another block is whole; with a verdict there are no further ones.
    Turn(&'a InterimComparison),
    /// A cell gets no further trials: it has failed too often.
    GivenUp {
        /// The cell.
        cell: &'a Cell,
    },
}

/// What a session works with.
pub struct SessionContext<'m> {
    /// What each cell runs.
    pub loads: &'m Loads,
    /// Where every trial goes.
    pub store: &'m mut Store,
    /// What executes a trial.
    pub runner: &'m mut dyn Runner,
    /// Ends the session after the trial that runs, which is told to end early.
    pub stop: &'m AtomicBool,
    /// Hears what happens.
    pub notify: &'m mut dyn FnMut(SessionEvent<'_>),
}

/// Runs what is missing of a run and extends it.
pub struct Session<'s> {
    study: &'s Study,
    run: &'s mut Run,
    means: SessionContext<'s>,
    queue: Queue,
    /// Trials that have ended.
    ended: usize,
    /// Failures in a row of cells without any result.
    failures: HashMap<u32, u32>,
    /// Blocks of a comparison in turns that were told.
    blocks: usize,
    /// Trials that are not stored yet: slices are, once in a while.
    unstored: Vec<Trial>,
    /// When something was last stored, and a comparison of slices last looked at.
    looked: Instant,
}

impl<'s> Session<'s> {
    /// A session that is to complete `run`, which is one of `study`.
    pub fn new(study: &'s Study, run: &'s mut Run, means: SessionContext<'s>) -> Self {
        let queue = Queue::new(study, run, means.loads);
        Session {
            study,
            run,
            means,
            queue,
            ended: 0,
            failures: HashMap::new(),
            blocks: 0,
            unstored: Vec::new(),
            looked: Instant::now(),
        }
    }

    /// Runs until the plan is done or the user wishes to stop.
    ///
    /// # Errors
    /// The store cannot be written. What goes wrong in a trial is in its status and stops no other trial.
    pub fn execute(mut self) -> Result<SessionOutcome, StoreError> {
        let ending = self.trials();
        for line in self.means.runner.end() {
            tracing::warn!("{line}");
        }
        ending
    }

    fn trials(&mut self) -> Result<SessionOutcome, StoreError> {
        self.skip_unavailable()?;
        self.close_finished_cells();
        while !self.means.stop.load(Ordering::Acquire) {
            let Some(slot) = self.queue.take() else {
                self.store()?;
                self.run.finished = Some(self.means.store.finish(&self.run.id)?);
                return Ok(SessionOutcome::Complete);
            };
            let block = match self.study.study.interleave {
                Some(_) => self.block_of(slot),
                None => vec![slot],
            };
            match (self.study.study.interleave, &block[..]) {
                (Some(turn), [_, _, ..]) => self.in_turns(&block, Duration::from_secs_f64(turn.0))?,
                _ => self.trial(slot)?,
            }
            self.close_finished_cells();
        }
        self.store()?;
        self.means.store.release(&self.run.id)?;
        Ok(SessionOutcome::Interrupted)
    }

    fn skip_unavailable(&mut self) -> Result<(), StoreError> {
        for stack in &plan::stacks(self.study) {
            let label = stack.label();
            let cells = self.queue.cells_on(self.run, &label);
            if cells.is_empty() {
                continue;
            }
            let Some((reason, remedy)) = self.means.runner.unavailable(stack) else { continue };
            (self.means.notify)(SessionEvent::Unavailable {
                stack: &label,
                reason: &reason,
                remedy: &remedy,
            });
            for slot in cells {
                let status = Status::Unavailable { reason: reason.clone(), remedy: remedy.clone() };
                self.store_report(slot, Report::empty(status), Timestamp::now())?;
                self.queue.close(slot.cell);
            }
        }
        Ok(())
    }

    fn trial(&mut self, slot: Slot) -> Result<(), StoreError> {
        let started = Timestamp::now();
        let SessionContext { loads, runner, stop, notify, .. } = &mut self.means;
        let report = match job(self.study, loads, self.run, slot, self.queue.is_empty()) {
            Some(Ok(job)) => {
                let next = self.queue.trial_seconds(slot.cell);
                notify(SessionEvent::Begins {
                    cell: job.cell,
                    index: slot.index,
                    ended: self.ended,
                    planned: self.queue.planned(),
                    remaining_seconds: next + self.queue.seconds(),
                });
                let mut report =
                    runner.run(&job, stop, &mut |progress| notify(SessionEvent::Progress(progress)));
                if let (Some(value), Some(outcome)) = (job.rate, &mut report.outcome) {
                    outcome.metrics.push(Metric::machine(OFFERED_RATE, "op/s", value));
                }
                report
            }
            Some(Err(message)) => Report::empty(Status::Failed { message }),
            None => Report::empty(Status::Failed { message: "the cell is not in the stored study".into() }),
        };
        self.ended += 1;
        self.store_report(slot, report, started)?;
        self.count_failures(slot.cell);
        Ok(())
    }

    /// This trial, and those of the same load under other stacks that follow it.
    fn block_of(&mut self, slot: Slot) -> Vec<Slot> {
        let like = |cell: u32| {
            let (one, other) = (self.run.cell(slot.cell)?, self.run.cell(cell)?);
            Some(one.workload == other.workload && one.parameters == other.parameters)
        };
        let others = self.queue.take_block(slot.index, |cell| like(cell) == Some(true));
        std::iter::once(slot).chain(others).collect()
    }

    /// The trials of a block in turns.
    fn in_turns(&mut self, block: &[Slot], turn: Duration) -> Result<(), StoreError> {
        let started = Timestamp::now();
        let SessionContext { loads, runner, stop, notify, .. } = &mut self.means;
        let jobs: Option<Vec<_>> =
            block.iter().map(|slot| job(self.study, loads, self.run, *slot, false)?.ok()).collect();
        // what is wrong with one is told by its trial
        let Some(jobs) = jobs else { return block.iter().try_for_each(|slot| self.trial(*slot)) };
        let block_seconds: f64 = block.iter().map(|slot| self.queue.trial_seconds(slot.cell)).sum();
        for job in &jobs {
            notify(SessionEvent::Begins {
                cell: job.cell,
                index: job.slot.index,
                ended: self.ended,
                planned: self.queue.planned(),
                remaining_seconds: block_seconds + self.queue.seconds(),
            });
        }
        let reports =
            runner.run_in_turns(&jobs, turn, stop, &mut |progress| notify(SessionEvent::Progress(progress)));
        for (slot, report) in block.iter().zip(reports) {
            self.ended += 1;
            self.store_report(*slot, report, started)?;
            self.count_failures(slot.cell);
        }
        Ok(())
    }

    /// Stores what a trial came to.
    fn store_report(&mut self, slot: Slot, report: Report, started: Timestamp) -> Result<(), StoreError> {
        let trial = Trial {
            cell: slot.cell,
            index: slot.index,
            order: slot.order,
            status: without_passwords(report.status),
            outcome: report.outcome.map(only_finite),
            environment: report.environment,
            commands: report.commands,
            log: report.log.iter().map(|line| redact(line).into_owned()).collect(),
            raw_output: redact(&report.raw_output).into_owned(),
            started,
            seconds: report.seconds,
            fsync: report.fsync,
            extras: report.extras,
            variables: report.variables,
        };
        self.unstored.push(trial.clone());
        if !self.in_slices() || self.looked.elapsed() >= SLICES_STORED_EVERY {
            self.store()?;
        }
        self.queue.learn(&trial);
        self.run.trials.retain(|other| (other.cell, other.index) != (trial.cell, trial.index));
        self.run.trials.push(trial);
        if let (Some(trial), Some(cell)) = (self.run.trials.last(), self.run.cell(slot.cell)) {
            (self.means.notify)(SessionEvent::Ended { cell, trial });
        }
        Ok(())
    }

    fn in_slices(&self) -> bool {
        self.study.study.turns.as_ref().is_some_and(|turns| turns.slices.is_some())
    }

    fn store(&mut self) -> Result<(), StoreError> {
        self.looked = Instant::now();
        self.means.store.add_trials(&self.run.id, &std::mem::take(&mut self.unstored))
    }

    fn count_failures(&mut self, cell: u32) {
        let failed = self.run.trials.last().is_some_and(|trial| {
            matches!(
                trial.status,
                Status::Failed { .. } | Status::TimedOut { .. } | Status::Unavailable { .. }
            )
        });
        if !failed || self.run.trials_of(cell).any(|trial| trial.status.is_done()) {
            return;
        }
        let failures = self.failures.entry(cell).or_default();
        *failures += 1;
        if *failures >= FAILURES_MAX {
            self.queue.close(cell);
            self.run
                .cell(cell)
                .into_iter()
                .for_each(|cell| (self.means.notify)(SessionEvent::GivenUp { cell }));
        }
    }

    /// Closes the cells that need no further trials.
    fn close_finished_cells(&mut self) {
        if self.study.study.turns.is_some() {
            // of slices, every look would take longer than a slice: it is looked whenever some are stored, and at the end
            let is_due = !self.in_slices() || self.unstored.is_empty() || self.queue.is_empty();
            if let Some(so_far) = is_due.then(|| turns::so_far(self.run, &self.study.study)).flatten() {
                self.turn(&so_far);
            }
            return;
        }
        if !self.study.study.offered.is_empty() {
            sweep::to_close(self.run).into_iter().for_each(|cell| self.queue.close(cell));
        }
        let Some(share) = self.study.study.stop_early else { return };
        let rule = StopRule { relative_half_width: share.0, trials_max: usize::MAX, ..StopRule::default() };
        for cell in &self.run.cells {
            let values = self.run.throughputs_of(cell.id);
            if !self.queue.holds(cell.id) {
                continue;
            }
            if let Ok(Decision::NarrowEnough(estimate)) = decide(&values, &rule) {
                self.queue.close(cell.id);
                (self.means.notify)(SessionEvent::Settled {
                    cell,
                    trials: values.len(),
                    half_width: estimate.relative_half_width(),
                });
            }
        }
    }
}

impl Session<'_> {
    /// Ends a comparison in turns when it is decided.
    fn turn(&mut self, so_far: &InterimComparison) {
        if so_far.blocks > self.blocks {
            self.blocks = so_far.blocks;
            (self.means.notify)(SessionEvent::Turn(so_far));
        }
        if so_far.verdict.is_some() {
            self.run.cells.iter().for_each(|cell| self.queue.close(cell.id));
        }
    }
}

/// What went wrong, as it is shown.
fn without_passwords(status: Status) -> Status {
    match status {
        Status::Failed { message } => Status::Failed { message: redact(&message).into_owned() },
        other => other,
    }
}

/// What a trial needs to know; `None` when its cell is not in the study.
fn job<'a>(
    study: &'a Study,
    loads: &'a Loads,
    run: &'a Run,
    slot: Slot,
    last: bool,
) -> Option<Result<Job<'a>, String>> {
    let cell = run.cell(slot.cell)?;
    let rate = match sweep::rate_of(run, cell) {
        Ok(rate) => rate,
        Err(message) => return Some(Err(message)),
    };
    Some(Ok(Job {
        rate,
        run: &run.id,
        slot,
        cell,
        stack: plan::stack_of(study, cell)?,
        workload: plan::workload_of(study, cell)?,
        load: loads.of(cell)?,
        study,
        last,
    }))
}

/// JSON has no infinite numbers and no NaN; a metric that is one tells nothing.
fn only_finite(mut outcome: Outcome) -> Outcome {
    outcome.metrics.retain(|metric| metric.value.is_finite());
    for seconds in [&mut outcome.measured_seconds, &mut outcome.warmup_seconds] {
        *seconds = if seconds.is_finite() { *seconds } else { 0.0 };
    }
    outcome
}
