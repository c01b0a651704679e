//! One trial in a guest, from the question to the answer.

use std::time::Duration;

use camino::Utf8Path;
use guest::setup::{Mode, Phase, Setup};
use guest::snapshot;
use guest::{GuestError, Machine};
use study::Study;
use study::environment;
use study::plan::Slot;

use super::context::{BOOT_PATIENCE, GuestContext, report_progress};
use super::executor::{Task, ask};
use crate::protocol::{GuestJob, Instruction, Message};
use crate::real::timeout_seconds;
use crate::runner::{Job, Report};

/// How long a guest may take beyond the time-out of its trial.
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
    means: &mut GuestContext<'_>,
    machine: &mut Machine,
    facts: &environment::Guest,
) -> Result<Report, GuestError> {
    let task = Task::Do(Instruction::Trial { job: Box::new(guest_job(job, job.run, job.study)) });
    let patience = Duration::from_secs_f64(timeout_seconds(job)) + GRACE;
    let stop = means.stop;
    report(ask(machine, task, patience, stop, means)?, facts.clone(), machine.console())
}

/// The report in a guest's answer.
fn report(answer: Message, facts: environment::Guest, console: &Utf8Path) -> Result<Report, GuestError> {
    match answer {
        Message::Report { report } => Ok(labelled(*report, facts, console)),
        _ => Err(GuestError::Damaged("no report".into())),
    }
}

/// The trial, with the run's name and the study that the guest is told.
fn guest_job(job: &Job<'_>, run: &str, study: &Study) -> GuestJob {
    GuestJob {
        run: run.to_string(),
        study: study.to_toml(),
        cell: job.cell.clone(),
        slot: job.slot,
        stack: job.stack.within(),
        rate: job.rate,
    }
}

/// What a deterministic guest is asked: only what the trial is. A run's name, of which directories are named, or other stacks
/// of the study would take the guest another number of instructions, and the same trial would no longer be the same in
/// another run.
fn job_for_guest(job: &Job<'_>) -> GuestJob {
    let mut study = job.study.clone();
    study.study.title = RUN.to_string();
    study.all_trials(1);
    study.stacks = vec![job.stack.within()];
    study.workloads.retain(|workload| workload.label() == job.cell.workload);
    let mut errand = guest_job(job, RUN, &study);
    errand.cell.id = 0;
    errand.slot = Slot { cell: 0, order: 0, ..errand.slot };
    errand
}

/// A trial in a guest of its own, in virtual time, from a boot that is kept.
pub(super) fn once(
    job: &Job<'_>,
    means: &mut GuestContext<'_>,
    seed: u64,
    console: &Utf8Path,
    facts: environment::Guest,
    setup: &Setup,
) -> Result<Report, GuestError> {
    let errand = job_for_guest(job);
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
        let stop = means.stop;
        let found = snapshot::resume(&mut machine)
            .and_then(|()| ask(&mut machine, Task::Finish(&answer), patience(job), stop, means));
        let found = match found {
            Err(error @ GuestError::Ended { .. }) if attempt < ATTEMPTS && !means.stopped() => {
                lost = format!("a guest came to nothing and was booted again: {error}");
                continue;
            }
            found => found?,
        };
        let raw_data = match &found {
            Message::Report { report } => report.outcome.as_ref().map(checksum).transpose()?,
            _ => None,
        };
        let mut report = report(found, environment::Guest { raw_data, ..facts }, console)?;
        report.log.extend(Some(lost).filter(|lost| !lost.is_empty()));
        return Ok(report);
    }
    Err(GuestError::Damaged(lost))
}

/// The boot that a trial goes on from.
fn booted(setup: &Setup, seed: u64, means: &mut GuestContext<'_>) -> Result<camino::Utf8PathBuf, GuestError> {
    let (stop, progress) = (means.stop, &mut *means.progress);
    let mut place = snapshot::SnapshotStore {
        home: means.site.home(),
        journal: means.journal,
        patience: BOOT_PATIENCE,
        stopped: &|| stop.load(std::sync::atomic::Ordering::Acquire),
        tell: &mut |text| report_progress(progress, text),
    };
    snapshot::find(setup, seed, &mut place)
}

/// How long a deterministic guest may take.
fn patience(job: &Job<'_>) -> Duration {
    let seconds = SLOWNESS * job.load.load_seconds().max(1.0);
    BOOT_PATIENCE + Duration::from_secs_f64(seconds.min(timeout_seconds(job)))
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
