//! Executes the plan of a run, trial by trial, each stored the moment it ends.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};

use jiff::Timestamp;
use stats::Outcome;
use stats::stopping::{Decision, StopRule, decide};
use thiserror::Error;

use crate::runner::{Job, Progress, Report, Runner};
use crate::store::{Store, StoreError};
use record::estimate::Estimate;
use record::plan::{self, Slot};
use record::results::{Cell, Run, Status, Trial};
use record::study::{Study, StudyError};

/// A cell that has failed so often without any result gets no further trials in this session.
const FAILURES_MAX: u32 = 2;

/// Why a session ended before its plan.
#[derive(Debug, Error)]
pub enum SessionError {
    /// The store refused.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The stored study cannot be read.
    #[error("the stored study of the run: {0}")]
    Study(#[from] StudyError),
}

/// How a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The plan is done.
    Complete,
    /// The user interrupted it; the run can be resumed.
    Interrupted,
}

/// What a session tells.
#[derive(Debug)]
pub enum Notice<'a> {
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
    /// A cell gets no further trials: it has failed too often.
    GivenUp {
        /// The cell.
        cell: &'a Cell,
    },
}

/// Runs what is missing of a run and extends it. `stop` ends the session after the trial that runs, which is
/// told to end early.
///
/// # Errors
/// The store cannot be written. What goes wrong in a trial is in its status and stops no other trial.
pub fn execute(
    run: &mut Run,
    store: &mut Store,
    runner: &mut dyn Runner,
    stop: &AtomicBool,
    notify: &mut dyn FnMut(Notice<'_>),
) -> Result<Ending, SessionError> {
    let study = Study::from_stored(&run.study)?;
    let mut session = Session::new(&study, run, runner);
    session.skip_unavailable(run, store, runner, notify)?;
    session.settle(run, notify);
    while !stop.load(Ordering::Acquire) {
        let Some(slot) = session.next() else {
            run.finished = Some(store.finish(&run.id)?);
            return Ok(Ending::Complete);
        };
        session.trial(slot, run, store, runner, stop, notify)?;
        session.settle(run, notify);
    }
    store.release(&run.id)?;
    Ok(Ending::Interrupted)
}

/// Seconds that the rest of a run is likely to take.
///
/// # Errors
/// The stored study cannot be read.
pub fn estimate_seconds(run: &Run, runner: &mut dyn Runner) -> Result<f64, SessionError> {
    let study = Study::from_stored(&run.study)?;
    let session = Session::new(&study, run, runner);
    Ok(session.estimate.total_seconds(&session.waiting))
}

struct Session<'s> {
    study: &'s Study,
    /// Trials to run, the next one first.
    waiting: VecDeque<Slot>,
    /// How many there were at the beginning, less those of cells that get no further trials.
    planned: usize,
    ended: usize,
    estimate: Estimate,
    /// Failures in a row of cells without any result.
    failures: HashMap<u32, u32>,
}

impl<'s> Session<'s> {
    fn new(study: &'s Study, run: &Run, runner: &mut dyn Runner) -> Self {
        let waiting: VecDeque<Slot> = plan::remaining(&plan::order(study), &run.trials).into();
        let mut estimate = Estimate::new(load_seconds(study, run, runner));
        run.trials.iter().for_each(|trial| estimate.learn(trial));
        Session { study, planned: waiting.len(), waiting, ended: 0, estimate, failures: HashMap::new() }
    }

    fn next(&mut self) -> Option<Slot> {
        self.waiting.pop_front()
    }

    /// Takes the waiting trials of a cell off the plan.
    fn close(&mut self, cell: u32) {
        let before = self.waiting.len();
        self.waiting.retain(|slot| slot.cell != cell);
        self.planned -= before - self.waiting.len();
    }

    fn skip_unavailable(
        &mut self,
        run: &mut Run,
        store: &mut Store,
        runner: &mut dyn Runner,
        notify: &mut dyn FnMut(Notice<'_>),
    ) -> Result<(), SessionError> {
        for stack in &self.study.stacks {
            let label = stack.label();
            let mut cells: Vec<Slot> = Vec::new();
            for slot in &self.waiting {
                let of_stack = run.cell(slot.cell).is_some_and(|cell| cell.stack == label);
                if of_stack && cells.iter().all(|known| known.cell != slot.cell) {
                    cells.push(*slot);
                }
            }
            if cells.is_empty() {
                continue;
            }
            let Some((reason, remedy)) = runner.unavailable(stack) else { continue };
            notify(Notice::Unavailable { stack: &label, reason: &reason, remedy: &remedy });
            for slot in cells {
                let status = Status::Unavailable { reason: reason.clone(), remedy: remedy.clone() };
                self.keep(slot, Report::empty(status), Timestamp::now(), run, store, notify)?;
                self.close(slot.cell);
            }
        }
        Ok(())
    }

    fn trial(
        &mut self,
        slot: Slot,
        run: &mut Run,
        store: &mut Store,
        runner: &mut dyn Runner,
        stop: &AtomicBool,
        notify: &mut dyn FnMut(Notice<'_>),
    ) -> Result<(), SessionError> {
        let started = Timestamp::now();
        let report = match job(self.study, run, slot, self.waiting.is_empty()) {
            Some(job) => {
                let next = self.estimate.trial_seconds(slot.cell);
                notify(Notice::Begins {
                    cell: job.cell,
                    index: slot.index,
                    ended: self.ended,
                    planned: self.planned,
                    remaining_seconds: next + self.estimate.total_seconds(&self.waiting),
                });
                runner.run(&job, stop, &mut |progress| notify(Notice::Progress(progress)))
            }
            None => Report::empty(Status::Failed { message: "the cell is not in the stored study".into() }),
        };
        self.ended += 1;
        self.keep(slot, report, started, run, store, notify)?;
        self.count_failures(slot.cell, run, notify);
        Ok(())
    }

    /// Stores what a trial came to.
    fn keep(
        &mut self,
        slot: Slot,
        report: Report,
        started: Timestamp,
        run: &mut Run,
        store: &mut Store,
        notify: &mut dyn FnMut(Notice<'_>),
    ) -> Result<(), SessionError> {
        let trial = Trial {
            cell: slot.cell,
            index: slot.index,
            order: slot.order,
            status: report.status,
            outcome: report.outcome.map(only_finite),
            environment: report.environment,
            commands: report.commands,
            log: report.log,
            raw_output: report.raw_output,
            started,
            seconds: report.seconds,
            fsync: report.fsync,
            extras: report.extras,
        };
        store.add_trial(&run.id, &trial)?;
        self.estimate.learn(&trial);
        run.trials.retain(|other| (other.cell, other.index) != (trial.cell, trial.index));
        run.trials.push(trial);
        if let (Some(trial), Some(cell)) = (run.trials.last(), run.cell(slot.cell)) {
            notify(Notice::Ended { cell, trial });
        }
        Ok(())
    }

    fn count_failures(&mut self, cell: u32, run: &Run, notify: &mut dyn FnMut(Notice<'_>)) {
        let failed = run.trials.last().is_some_and(|trial| {
            matches!(
                trial.status,
                Status::Failed { .. } | Status::TimedOut { .. } | Status::Unavailable { .. }
            )
        });
        if !failed || run.trials_of(cell).any(|trial| trial.status.is_done()) {
            return;
        }
        let failures = self.failures.entry(cell).or_default();
        *failures += 1;
        if *failures >= FAILURES_MAX {
            self.close(cell);
            run.cell(cell).into_iter().for_each(|cell| notify(Notice::GivenUp { cell }));
        }
    }

    /// Closes the cells whose interval is narrow enough.
    fn settle(&mut self, run: &Run, notify: &mut dyn FnMut(Notice<'_>)) {
        let Some(share) = self.study.study.stop_early else { return };
        let rule = StopRule { relative_half_width: share.0, trials_max: usize::MAX, ..StopRule::default() };
        for cell in &run.cells {
            let values = run.throughputs_of(cell.id);
            if !self.waiting.iter().any(|slot| slot.cell == cell.id) {
                continue;
            }
            if let Ok(Decision::NarrowEnough(estimate)) = decide(&values, &rule) {
                self.close(cell.id);
                notify(Notice::Settled {
                    cell,
                    trials: values.len(),
                    half_width: estimate.relative_half_width(),
                });
            }
        }
    }
}

fn job<'a>(study: &'a Study, run: &'a Run, slot: Slot, last: bool) -> Option<Job<'a>> {
    let cell = run.cell(slot.cell)?;
    Some(Job {
        run: &run.id,
        slot,
        cell,
        stack: study.stacks.iter().find(|stack| stack.label() == cell.stack)?,
        workload: plan::workload_of(study, cell)?,
        study,
        last,
    })
}

fn load_seconds(study: &Study, run: &Run, runner: &mut dyn Runner) -> Vec<f64> {
    run.cells
        .iter()
        .map(|cell| {
            let slot = Slot { cell: cell.id, index: 0, order: 0 };
            job(study, run, slot, false).map_or(0.0, |job| runner.load_seconds(&job))
        })
        .collect()
}

/// JSON has no infinite numbers and no NaN; a metric that is one tells nothing.
fn only_finite(mut outcome: Outcome) -> Outcome {
    outcome.metrics.retain(|metric| metric.value.is_finite());
    for seconds in [&mut outcome.measured_seconds, &mut outcome.warmup_seconds] {
        *seconds = if seconds.is_finite() { *seconds } else { 0.0 };
    }
    outcome
}
