//! One trial in a guest, from the question to the answer.

use std::time::{Duration, Instant};

use camino::Utf8Path;
use guest::setup::{Mode, Phase, Setup};
use guest::snapshot;
use guest::{GuestError, Machine};
use record::environment;
use record::plan::Slot;

use super::means::{BOOT_PATIENCE, Means, TICK, tell};
use super::talk::{Answer, Ask, Errand};
use crate::real::timeout_seconds;
use crate::runner::{Job, Report};

/// How long a guest may take beyond the time-out of its trial, or to end one that was stopped.
const GRACE: Duration = Duration::from_secs(60);
/// Seconds of the machine that a second of virtual time may take.
const SLOWNESS: f64 = 20.0;
/// The run's name in a deterministic guest.
const RUN: &str = "deterministic";
/// How often a deterministic guest is booted for a trial, at most: one that comes to nothing without a word is tried again.
const ATTEMPTS: u32 = 2;

/// A trial in a guest that serves.
pub(super) fn served(
    job: &Job<'_>,
    means: &mut Means<'_>,
    machine: &mut Machine,
    facts: &environment::Guest,
) -> Result<Report, GuestError> {
    machine.send(&Ask::Trial { errand: Box::new(Errand::of(job, job.run, job.study)) })?;
    let mut deadline = Instant::now() + Duration::from_secs_f64(timeout_seconds(job)) + GRACE;
    let mut told = false;
    loop {
        if means.stopped() && !told {
            told = true;
            machine.send(&Ask::Stop)?;
            deadline = Instant::now() + GRACE;
        }
        if Instant::now() >= deadline {
            return Err(machine.ended("the guest did not answer in time"));
        }
        match machine.hear(TICK)? {
            Some(Answer::Progress { progress }) => (means.progress)(progress),
            Some(Answer::Report { report }) => {
                return Ok(labelled(*report, facts.clone(), machine.console()));
            }
            Some(Answer::Error { message }) => {
                return Err(GuestError::Device(format!("in the guest: {message}")));
            }
            Some(Answer::Ready | Answer::Said { .. } | Answer::Ended { .. }) | None => {}
        }
    }
}

/// What a deterministic guest is asked: only what the trial is. A run's name, of which directories are named, or other stacks
/// of the study would take the guest another number of instructions, and the same trial would no longer be the same in
/// another run.
fn alone(job: &Job<'_>) -> Errand {
    let mut study = job.study.clone();
    study.study.title = RUN.to_string();
    study.all_trials(1);
    study.stacks = vec![job.stack.within()];
    study.workloads.retain(|workload| workload.label() == job.cell.workload);
    let mut errand = Errand::of(job, RUN, &study);
    errand.cell.id = 0;
    errand.slot = Slot { cell: 0, order: 0, ..errand.slot };
    errand
}

/// A trial in a guest of its own, in virtual time, from a boot that is kept.
pub(super) fn once(
    job: &Job<'_>,
    means: &mut Means<'_>,
    seed: u64,
    console: &Utf8Path,
    facts: environment::Guest,
    setup: &Setup,
) -> Result<Report, GuestError> {
    let errand = alone(job);
    let payload = serde_json::to_vec(&errand).map_err(|error| GuestError::Damaged(error.to_string()))?;
    let mut lost = String::new();
    for attempt in 1..=ATTEMPTS {
        let tree = means.tree()?;
        let (question, answer) = (tree.path().join("job"), tree.path().join("result"));
        std::fs::write(&question, &payload).map_err(GuestError::at(question.as_str()))?;
        let stream = booted(setup, seed, means)?;
        let phase = Phase::Trial { stream, job: question, result: answer.clone() };
        let setup = Setup { mode: Mode::Deterministic { seed, phase }, ..setup.clone() };
        let mut machine = Machine::boot(&setup, console, means.journal)?;
        let found = snapshot::go_on(&mut machine)
            .and_then(|()| waited(job, means, &mut machine))
            .and_then(|()| guest::machine::result(&machine, &answer));
        let bytes = match found {
            Err(error @ GuestError::Ended { .. }) if attempt < ATTEMPTS && !means.stopped() => {
                lost = format!("a guest came to nothing and was booted again: {error}");
                continue;
            }
            found => found?,
        };
        let answer: Answer =
            serde_json::from_slice(&bytes).map_err(|error| GuestError::Damaged(error.to_string()))?;
        return match answer {
            Answer::Report { report } => {
                let raw_data = report.outcome.as_ref().map(checksum).transpose()?;
                let mut report = labelled(*report, environment::Guest { raw_data, ..facts }, console);
                report.log.extend(Some(lost).filter(|lost| !lost.is_empty()));
                Ok(report)
            }
            Answer::Error { message } => Err(GuestError::Device(format!("in the guest: {message}"))),
            _ => Err(GuestError::Damaged("no report".into())),
        };
    }
    Err(GuestError::Damaged(lost))
}

/// The boot that a trial goes on from.
fn booted(setup: &Setup, seed: u64, means: &mut Means<'_>) -> Result<camino::Utf8PathBuf, GuestError> {
    let (stop, progress) = (means.stop, &mut *means.progress);
    let mut place = snapshot::Place {
        home: means.site.home(),
        journal: means.journal,
        patience: BOOT_PATIENCE,
        stopped: &|| stop.load(std::sync::atomic::Ordering::Acquire),
        tell: &mut |text| tell(progress, text),
    };
    snapshot::find(setup, seed, &mut place)
}

/// Waits until a deterministic guest has ended.
fn waited(job: &Job<'_>, means: &mut Means<'_>, machine: &mut Machine) -> Result<(), GuestError> {
    let start = Instant::now();
    let seconds = SLOWNESS * job.load.load_seconds().max(1.0);
    let limit = BOOT_PATIENCE + Duration::from_secs_f64(seconds.min(timeout_seconds(job)));
    while !machine.has_ended() {
        if means.stopped() {
            return Err(machine.ended("interrupted"));
        }
        if start.elapsed() >= limit {
            return Err(
                machine.ended(&format!("the guest has not ended within {:.0} s", limit.as_secs_f64()))
            );
        }
        std::thread::sleep(TICK);
    }
    Ok(())
}

/// Checksum of everything that was measured, 16 hexadecimal digits: equal when the raw data are.
fn checksum(outcome: &stats::Outcome) -> Result<String, GuestError> {
    let bytes = serde_json::to_vec(outcome).map_err(|error| GuestError::Damaged(error.to_string()))?;
    Ok(guest::image::checksum(&bytes))
}

/// What a trial came to, with the label that keeps it from standing beside others as one of their kind.
fn labelled(mut report: Report, facts: environment::Guest, console: &Utf8Path) -> Report {
    report.log.push(format!("console: {console}"));
    if let Some(outcome) = &mut report.outcome {
        outcome.notes.extend(facts.remark());
    }
    if let Some(environment) = &mut report.environment {
        environment.guest = Some(facts);
    }
    report
}
