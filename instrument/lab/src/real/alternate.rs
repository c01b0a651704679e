//! The trials of a block in turns: all stacks are built, then their loads are granted slices of time one after the other, in an
//! order by lot, until each has had its length. See [`crate::interleave`] for when.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use journal::Cgroup;
use stats::rng::SplitMix;
use study::results::Status;

use super::ending::status;
use super::evidence;
use super::observer::{Observations, TrialObserver};
use super::trial::Trial;
use crate::load::ResolvedWorkload;
use crate::protocol::{Release, Request, SliceUnit};
use crate::runner::{Progress, Report};
use crate::stack_factory::BuiltStack;
use crate::trial::executor::Failure;
use crate::trial::machine::MachineSampler;
use crate::trial::process::Process;
use crate::trial::supervisor::{Supervision, Supervisor};

/// One stack of the block.
struct Side<'a> {
    trial: Trial<'a>,
    running: Option<Running>,
    built: Option<BuiltStack>,
    /// Once it is known.
    ended: Option<Result<Status, Failure>>,
}

/// Its load.
struct Running {
    supervisor: Supervisor<Process>,
    grace: Duration,
    group: Option<Arc<Cgroup>>,
    machine: MachineSampler,
    /// When it depends on the built stack.
    resized: Option<ResolvedWorkload>,
    seen: Observations,
}

/// Runs the trials of a block in turns of `turn`; `seed` is that of their order.
pub(super) fn block(trials: Vec<Trial<'_>>, turn: Duration, seed: u64) -> Vec<Report> {
    let (begin, number) = (Instant::now(), trials.len().max(1));
    let mut sides: Vec<Side<'_>> = trials
        .into_iter()
        .map(|mut trial| {
            trial.deadline = begin + Duration::from_secs_f64(trial.timeout_seconds);
            Side { trial, running: None, built: None, ended: None }
        })
        .collect();
    for at in 0..sides.len() {
        in_its_own_time(&mut sides, at, |side| {
            if let Err(failure) = side.begin() {
                side.end(Err(failure));
            }
        });
    }
    let mut rng = SplitMix::new(seed);
    let mut order: Vec<usize> = (0..sides.len()).collect();
    let nanoseconds = u64::try_from(turn.as_nanos()).unwrap_or(u64::MAX);
    while sides.iter().any(|side| side.running.is_some()) {
        rng.shuffle(&mut order);
        for at in &order {
            let turn = Release { nanoseconds, ..Release::default() };
            in_its_own_time(&mut sides, *at, |side| side.until_gate(|load, by| load.open(turn, by)));
        }
    }
    // only now, so that no stack is taken down in another one's turn
    let mut reports: Vec<Report> = sides.into_iter().map(Side::take_down).collect();
    let share = begin.elapsed().as_secs_f64() / number as f64;
    reports.iter_mut().for_each(|report| report.seconds = share);
    reports
}

/// What one stack does is no time of the others: a load that hangs ends no other one.
fn in_its_own_time<'a>(sides: &mut [Side<'a>], at: usize, does: impl FnOnce(&mut Side<'a>)) {
    let begin = Instant::now();
    does(&mut sides[at]);
    let took = begin.elapsed();
    sides
        .iter_mut()
        .enumerate()
        .filter(|(other, _)| *other != at)
        .for_each(|(_, side)| side.trial.deadline += took);
}

impl Side<'_> {
    /// Builds the stack and begins the load, which waits for its first turn.
    fn begin(&mut self) -> Result<(), Failure> {
        let trial = &mut self.trial;
        if trial.stop.load(Ordering::Acquire) {
            return Ok(());
        }
        (trial.progress)(Progress::Building);
        let built = self.built.insert(trial.place.site.build(trial.job.stack, trial.place.journal)?);
        trial.report.commands = evidence::commands(built);
        let resized = trial.resized(built)?;
        let processes = trial.processes(resized.as_ref().unwrap_or(trial.job.load), built)?;
        let request = Request { slices: Some(SliceUnit::Time), ..processes.request };
        let load = Process::new(&processes.program, request, processes.group.clone());
        let (supervisor, grace) = (Supervisor::new(load), processes.program.grace);
        let (group, machine, seen) = (processes.group, processes.machine, Observations::default());
        self.running = Some(Running { supervisor, grace, group, machine, resized, seen });
        self.until_gate(|load, by| load.spawn(by));
        Ok(())
    }

    /// Has the load go on, if it has not ended, and hears it until it waits for its next turn or has ended.
    fn until_gate(
        &mut self,
        go_on: impl FnOnce(&mut Supervisor<Process>, &mut Supervision<'_>) -> Result<(), Failure>,
    ) {
        let Some(running) = &mut self.running else { return };
        let trial = &mut self.trial;
        let mut observer = TrialObserver {
            report: &mut trial.report,
            progress: trial.progress,
            machine: &running.machine,
            load: running.resized.as_ref().unwrap_or(trial.job.load),
            // the yardstick would take the time of several turns
            is_long: false,
            several: None,
            settle: None,
            seen: &mut running.seen,
        };
        let mut by = Supervision {
            stop: trial.stop,
            deadline: Some(trial.deadline),
            grace: running.grace,
            straggling: None,
            observer: &mut observer,
        };
        let load = &mut running.supervisor;
        match go_on(load, &mut by).and_then(|()| load.until_gate(&mut by)) {
            Ok(Some(_)) => {}
            Ok(None) => self.end(Ok(())),
            Err(failure) => self.end(Err(failure)),
        }
    }

    /// What the load came to.
    fn end(&mut self, heard: Result<(), Failure>) {
        let departed = self.running.take().map(|Running { mut supervisor, group, seen, .. }| {
            let departed = heard.clone().and_then(|()| supervisor.depart());
            // nothing of the load may live when its group goes
            drop(supervisor);
            (departed, group, seen)
        });
        let trial = &mut self.trial;
        self.ended = Some(match (departed, &self.built, heard) {
            (Some((Ok(mut departure), group, seen)), Some(built), _) => {
                if let Ok(outcome) = &mut departure.result {
                    seen.add_to(outcome);
                }
                trial.report.raw_output.push_str(&departure.raw_output);
                Ok(trial.concluded(departure, built, group.as_deref()))
            }
            (Some((Err(failure), ..)), ..) | (_, _, Err(failure)) => Err(failure),
            _ => Ok(Status::Interrupted),
        });
    }

    fn take_down(mut self) -> Report {
        let ended = self.ended.take().unwrap_or(Ok(Status::Interrupted));
        let mut trial = self.trial;
        let ended = match self.built.take() {
            Some(built) => trial.take_down(built, ended),
            None => ended,
        };
        let interrupted = trial.stop.load(Ordering::Acquire);
        trial.report.status = status(ended, interrupted, &mut trial.report);
        trial.report
    }
}

/// One hearer for several trials.
pub(super) fn shared<'p>(
    progress: &'p mut dyn FnMut(Progress),
    number: usize,
) -> Vec<Box<dyn FnMut(Progress) + 'p>> {
    let progress = std::rc::Rc::new(RefCell::new(progress));
    let one = |_| -> Box<dyn FnMut(Progress) + 'p> {
        let progress = progress.clone();
        Box::new(move |what| (progress.borrow_mut())(what))
    };
    (0..number).map(one).collect()
}
