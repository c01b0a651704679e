//! Stacks that are kept between trials: each trial is a slice of a load that goes on where it stopped.
//!
//! After a number of blocks both stacks are taken down and built anew ([`study::Turns::kept_blocks`]).
//!
//! What a slice holds is set once, by the first stack: as many operations as it does in the length that was asked for. The other
//! one does as many, however long it takes, since stacks age by operations. See `stats::slices` for when slices can
//! be trusted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use journal::Cgroup;
use stats::outcome::{Direction, Ended, OpClass, OpOutcome, Outcome};
use study::results::Status;

use super::ending::status;
use super::evidence;
use super::trial::Trial;
use crate::protocol::{Message, Release, Request, SliceUnit};
use crate::runner::{Progress, Report};
use crate::stack_factory::BuiltStack;
use crate::trial::executor::{Failure, StopReason};
use crate::trial::process::Process;
use crate::trial::supervisor::{NoObserver, Observer, Supervision, Supervisor};

/// Operations of the first grant, from which the right number is found.
const FIRST_GRANT: u64 = 100;
/// The next grant is at most so many times this one.
const GRANT_GROWTH_MAX: f64 = 8.0;
/// A grant of at least this share of the wanted length says how many operations that length holds.
const LENGTH_SHARE: f64 = 0.5;
/// Grants that are made to find the number.
const GRANTS_MAX: u32 = 40;
/// Slices whose median length says how many operations a slice holds: single ones scatter widely where a device stalls.
const CALIBRATING: usize = 5;

/// The stacks that are kept, and what a slice holds.
#[derive(Default)]
pub(super) struct KeptStacks {
    kept: Vec<KeptStack>,
    /// Which build of both stacks is kept.
    build: u32,
    /// Operations of a slice.
    operations: Option<u64>,
    /// Operations that the first stack of all did until that was known: the other one does as many.
    calibrated: u64,
}

/// A stack with its load, which waits.
struct KeptStack {
    cell: u32,
    // in this order: the load goes before its stack
    load: Supervisor<Process>,
    grace: Duration,
    group: Option<Arc<Cgroup>>,
    built: BuiltStack,
}

impl std::fmt::Debug for KeptStacks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeptStacks")
            .field("kept", &self.kept.len())
            .field("operations", &self.operations)
            .finish()
    }
}

impl KeptStacks {
    /// One slice of the trial's cell; at the first of a build, its stack is built and its load begun. Its time includes that.
    pub(super) fn slice(&mut self, mut trial: Trial<'_>, length_seconds: f64) -> Report {
        let (cell, begin) = (trial.job.cell.id, Instant::now());
        self.renew(&mut trial);
        let sliced = self.sliced(&mut trial, length_seconds);
        if sliced.is_err() {
            self.drop_cell(cell, &mut trial.report);
        }
        trial.report.seconds = begin.elapsed().as_secs_f64();
        let outcome = sliced.map(|outcome| {
            trial.report.outcome = Some(outcome);
            Status::Done
        });
        let interrupted = trial.stop.load(Ordering::Acquire);
        trial.report.status = status(outcome, interrupted, &mut trial.report);
        trial.report
    }

    /// Takes down what an earlier build has left.
    fn renew(&mut self, trial: &mut Trial<'_>) {
        let turns = trial.job.study.study.turns.as_ref();
        let build = turns.map_or(0, |turns| turns.build_of(trial.job.slot.index));
        if build != self.build {
            self.build = build;
            (trial.progress)(Progress::TakingDown);
            self.end().iter().for_each(|told| trial.report.raw_output.push_str(told));
        }
    }

    fn sliced(&mut self, trial: &mut Trial<'_>, length_seconds: f64) -> Result<Outcome, Failure> {
        let cell = trial.job.cell.id;
        let at = match self.kept.iter().position(|kept| kept.cell == cell) {
            Some(at) => at,
            None => {
                let kept = KeptStack::begin(trial)?;
                self.kept.push(kept);
                let kept = self.kept.last_mut().expect("pushed above");
                match self.operations {
                    // as the other one had by then: a slice that does not count
                    Some(operations) => {
                        let as_many = if self.build == 0 { self.calibrated } else { operations };
                        kept.grant(trial, as_many)?;
                    }
                    None => {
                        let (operations, done) = kept.calibrate(trial, length_seconds)?;
                        (self.operations, self.calibrated) = (Some(operations), done);
                    }
                }
                self.kept.len() - 1
            }
        };
        let operations = self.operations.unwrap_or(FIRST_GRANT);
        let seconds = self.kept[at].grant(trial, operations)?;
        if seconds <= 0.0 {
            let why = "a slice took no time: its threads wait for each other; compare whole trials";
            return Err(Failure::Message(why.into()));
        }
        Ok(outcome(trial.job.cell.workload.clone(), operations, seconds))
    }

    fn drop_cell(&mut self, cell: u32, report: &mut Report) {
        if let Some(at) = self.kept.iter().position(|kept| kept.cell == cell) {
            report.raw_output.push_str(&self.kept.remove(at).end());
        }
    }

    /// Takes all down; what went wrong.
    pub(super) fn end(&mut self) -> Vec<String> {
        let told = self.kept.drain(..).map(KeptStack::end);
        told.filter(|told| !told.is_empty()).collect()
    }
}

impl Drop for KeptStacks {
    fn drop(&mut self) {
        self.end();
    }
}

impl KeptStack {
    /// Builds the stack of the trial's cell and begins its load, which waits for its first grant.
    fn begin(trial: &mut Trial<'_>) -> Result<KeptStack, Failure> {
        if trial.job.load.containers.is_some() {
            return Err(Failure::Message("containers do not go in slices: compare whole trials".into()));
        }
        (trial.progress)(Progress::Building);
        let built = trial.place.site.build(trial.job.stack, trial.place.journal)?;
        trial.report.commands = evidence::commands(&built);
        let resized = trial.resized(&built)?;
        let processes = trial.processes(resized.as_ref().unwrap_or(trial.job.load), &built)?;
        let mut request = Request { slices: Some(SliceUnit::Operations), ..processes.request.clone() };
        // grants end it, not its length
        request.options.seconds = Some(1e9);
        request.options.warmup_seconds = Some(0.0);
        request.options.ops = None;
        let load = Process::new(&processes.program, request, processes.group.clone());
        let (load, grace) = (Supervisor::new(load), processes.program.grace);
        let mut kept = KeptStack { cell: trial.job.cell.id, load, grace, group: processes.group, built };
        match kept.wait(trial, |load, by| load.spawn(by)) {
            Ok(_) => Ok(kept),
            Err(failure) => {
                trial.report.raw_output.push_str(&kept.end());
                Err(failure)
            }
        }
    }

    /// How many operations make a slice of about this length, and how many were done to know it.
    fn calibrate(&mut self, trial: &mut Trial<'_>, length_seconds: f64) -> Result<(u64, u64), Failure> {
        let (mut operations, mut done) = (FIRST_GRANT, 0);
        for _ in 0..GRANTS_MAX {
            let seconds = self.grant(trial, operations)?.max(1e-9);
            done += operations;
            let factor = length_seconds / seconds;
            let next = (operations as f64 * factor.min(GRANT_GROWTH_MAX)).round().max(1.0) as u64;
            if seconds >= LENGTH_SHARE * length_seconds {
                return self.settled(trial, length_seconds, next, done);
            }
            operations = next.max(operations + 1);
        }
        Err(Failure::Message(format!(
            "{operations} operations take less than {length_seconds} s: no slices can be made of it"
        )))
    }

    /// The number that makes the median of a few slices as long as was asked for.
    fn settled(
        &mut self,
        trial: &mut Trial<'_>,
        length_seconds: f64,
        operations: u64,
        done: u64,
    ) -> Result<(u64, u64), Failure> {
        let mut lengths =
            (0..CALIBRATING).map(|_| self.grant(trial, operations)).collect::<Result<Vec<f64>, _>>()?;
        lengths.sort_by(f64::total_cmp);
        let factor = length_seconds / lengths[CALIBRATING / 2].max(1e-9);
        let factor = factor.clamp(GRANT_GROWTH_MAX.recip(), GRANT_GROWTH_MAX);
        let right = (operations as f64 * factor).round().max(1.0) as u64;
        Ok((right, done + CALIBRATING as u64 * operations))
    }

    /// Does so many operations; seconds that they took.
    fn grant(&mut self, trial: &mut Trial<'_>, operations: u64) -> Result<f64, Failure> {
        self.wait(trial, |load, by| load.open(Release { operations, ..Release::default() }, by))
    }

    /// Has the load go on and hears it until it waits: seconds of the slice, 0 before the first.
    fn wait(
        &mut self,
        trial: &mut Trial<'_>,
        go_on: impl FnOnce(&mut Supervisor<Process>, &mut Supervision<'_>) -> Result<(), Failure>,
    ) -> Result<f64, Failure> {
        let (stop, deadline, grace) = (trial.stop, Some(trial.deadline), self.grace);
        let observer = &mut ProgressRelay(trial.progress);
        let mut by = Supervision { stop, deadline, grace, straggling: None, observer };
        go_on(&mut self.load, &mut by)?;
        if let Some(release) = self.load.until_gate(&mut by)? {
            return Ok(release.values.iter().sum::<u64>() as f64 / 1e9);
        }
        let departure = self.load.depart()?;
        trial.report.raw_output.push_str(&departure.raw_output);
        Err(Failure::Message(match (departure.stopped, departure.result) {
            (Some(StopReason::Interrupted), _) => "interrupted".into(),
            (Some(_), _) => format!("a slice was not done within {} s", trial.timeout_seconds),
            (None, Err(message) | Ok(Outcome { ended: Ended::Failed { message }, .. })) => message,
            (None, Ok(_)) => "the load came to its end; slices are for loads that go on".into(),
        }))
    }

    /// Ends the load and takes the stack down; what went wrong.
    fn end(self) -> String {
        let KeptStack { mut load, grace, group, built, .. } = self;
        let stop = &AtomicBool::new(false);
        let mut by = Supervision { stop, deadline: None, grace, straggling: None, observer: &mut NoObserver };
        let mut told = load.dismiss(&mut by).map_or(String::new(), |departure| departure.raw_output);
        drop(load);
        if let Some(Err(error)) = group.map(|group| group.destroy()) {
            told.push_str(&format!("{error}\n"));
        }
        if let Err(error) = built.teardown() {
            told.push_str(&format!("{error}\n"));
        }
        told
    }
}

/// Tells what happens in the load.
struct ProgressRelay<'t>(&'t mut dyn FnMut(Progress));

impl Observer for ProgressRelay<'_> {
    fn on_message(&mut self, message: &Message) {
        if let Message::Event { event } = message {
            (self.0)(Progress::Engine(event.clone()));
        }
    }
}

/// What a slice measured: operations and time. Latencies would be those of the load, not of the slice.
fn outcome(name: String, operations: u64, seconds: f64) -> Outcome {
    Outcome {
        measured_seconds: seconds,
        warmup_seconds: 0.0,
        ended: Ended::OpsReached,
        ops: vec![OpOutcome {
            ops: operations,
            ..OpOutcome::new(name, "slice", OpClass::Io, Direction::Neither)
        }],
        metrics: Vec::new(),
        notes: Vec::new(),
    }
}
