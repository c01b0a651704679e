//! The story of a simulation: files, tasks, warm-up, measured time, result.

use std::rc::Rc;

use engine::Control;
use engine::options::RunOptions;
use engine::record::Timing;
use engine::simulated::Simulated;
use order::trace::Trace;
use order::{Protocol, Report, Simulation, programs};
use stats::Histogram;
use stats::outcome::{Direction, Ended, Metric, OpClass, OpOutcome, Outcome};

use crate::disk::{DiskFull, JOURNAL_BLOCKS};
use crate::error::SimulateError;
use crate::job::{Job, JobError, Load, SECONDS, WARMUP_SECONDS};
use crate::loadfile::{self, LoadFile};
use crate::{scripts, single};

/// Longest step of a simulation, ns; between steps progress is told and a stop is heard.
const STEP_NS: u64 = 10_000_000;
/// Virtual time after the deadline in which lanes end their last operations, ns.
const TAIL_NS: u64 = 60_000_000_000;

/// How far a simulation is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Virtual seconds of the measured interval; negative during warm-up.
    pub elapsed_seconds: f64,
    /// How many it will have.
    pub total_seconds: f64,
    /// Operations so far.
    pub ops: u64,
}

/// The length of a simulation on its own clock, ns.
#[derive(Debug, Clone, Copy)]
struct Length {
    warmup: u64,
    end: u64,
}

impl Length {
    fn of(options: &RunOptions) -> Length {
        let ns = |seconds: f64| (seconds.max(0.0) * 1e9).min(1e18) as u64;
        let warmup = ns(options.warmup_seconds.unwrap_or(WARMUP_SECONDS));
        Length { warmup, end: warmup + ns(options.seconds.unwrap_or(SECONDS)).max(1) }
    }
}

/// Simulates a job. Of the options `seed`, `seconds`, `warmup_seconds`, `ops`, `rate` and `strict` count; `control` ends it
/// early, with what was measured until then.
///
/// # Errors
/// See [`SimulateError`]. What a protocol does wrong is part of the outcome: [`Ended::Failed`].
pub fn run(
    job: &Job,
    options: &RunOptions,
    control: &Control,
    tell: &mut dyn FnMut(Progress),
) -> Result<Outcome, SimulateError> {
    match &job.load {
        Load::Wml { .. } => script(job, options, control, tell, false).map(|(outcome, _)| outcome),
        Load::Program { name } if name == "write-fsync" => single::run(job, options.seed),
        _ => program(job, options, control, tell, false).map(|(outcome, _)| outcome),
    }
}

/// The commands that a job sends to the device, from its first one on.
///
/// # Errors
/// As [`run`].
pub fn trace(job: &Job, options: &RunOptions, control: &Control) -> Result<Trace, SimulateError> {
    match &job.load {
        Load::Wml { .. } => script(job, options, control, &mut |_| (), true).map(|(_, trace)| trace),
        Load::Program { name } if name == "write-fsync" => single::trace(job, options.seed),
        _ => program(job, options, control, &mut |_| (), true).map(|(_, trace)| trace),
    }
}

/// Lets time pass from `from` to `to` in small steps; where it stopped.
fn pass(
    sim: &mut Simulation<'_>,
    (from, to): (u64, u64),
    control: &Control,
    tell: &mut dyn FnMut(&Simulation<'_>, u64),
) -> u64 {
    let mut now = from;
    while now < to && !control.interrupted() {
        now = now.saturating_add(STEP_NS).min(to);
        sim.run(now);
        tell(sim, now);
    }
    now
}

fn script(
    job: &Job,
    options: &RunOptions,
    control: &Control,
    tell: &mut dyn FnMut(Progress),
    traced: bool,
) -> Result<(Outcome, Trace), SimulateError> {
    let Load::Wml { model } = &job.load else {
        return Err(SimulateError::from(DiskFull("the load is no script".into())));
    };
    let length = Length::of(options);
    let own: Vec<RunOptions> = (0..job.containers)
        .map(|container| RunOptions {
            // container 0 has the seed of a real run; golden-ratio steps keep the others apart over trials as well
            seed: options.seed.wrapping_add(u64::from(container).wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            seconds: Some((length.end - length.warmup) as f64 / 1e9),
            warmup_seconds: Some(length.warmup as f64 / 1e9),
            ..options.clone()
        })
        .collect();
    let controls: Vec<Control> = own.iter().map(|_| Control::new()).collect();
    let runs: Vec<Simulated<'_>> = own
        .iter()
        .zip(&controls)
        .map(|(options, control)| Simulated::new(model, options, control))
        .collect::<Result<_, _>>()?;
    let mut setup = job.setup(scripts::layout(&runs)?, options.seed)?;
    setup.traced = traced;
    let timing = Timing { begin_ns: 0, measure_ns: length.warmup, deadline_ns: length.end, period_ns: 0 };
    let (report, mut end, trace);
    {
        let mut sim = Simulation::new(setup)?;
        let mut lanes = 0;
        let mut containers = Vec::new();
        for (group, run) in runs.iter().enumerate() {
            containers.push(scripts::start(&mut sim, run, group as u32, timing, job.call_ns, &mut lanes)?);
        }
        let mut told = |_: &Simulation<'_>, now: u64| {
            tell(Progress {
                elapsed_seconds: (now as f64 - length.warmup as f64) / 1e9,
                total_seconds: (length.end - length.warmup) as f64 / 1e9,
                ops: runs.iter().map(Simulated::ops).sum(),
            });
        };
        pass(&mut sim, (0, length.warmup), control, &mut told);
        sim.reset_tally();
        let before = sim.report();
        end = pass(&mut sim, (length.warmup, length.end), control, &mut told);
        report = Measured::between(&before, &sim.report(), length.warmup, end);
        if control.interrupted() {
            controls.iter().for_each(Control::interrupt);
            containers.iter().for_each(|container| container.wake_all());
        }
        // lanes end after their last operation; the journal threads never do, so time alone tells nothing
        let until = end.saturating_add(TAIL_NS);
        while runs.iter().any(|run| run.running() > 0) && end < until {
            end += STEP_NS;
            if !sim.run(end) {
                break;
            }
        }
        trace = sim.trace();
        report.judge(job, &sim);
    }
    let mut outcomes = Vec::new();
    for run in runs {
        outcomes.push(run.outcome(timing)?);
    }
    let mut outcome = merged(outcomes);
    report.add_to(&mut outcome, job, control);
    Ok((outcome, trace))
}

/// The results of all containers as one.
fn merged(outcomes: Vec<Outcome>) -> Outcome {
    let count = outcomes.len().max(1) as f64;
    let mut all: Option<Outcome> = None;
    let mut seconds = 0.0;
    for one in outcomes {
        seconds += one.measured_seconds;
        match &mut all {
            None => all = Some(one),
            Some(all) => {
                all.ops.iter_mut().zip(&one.ops).for_each(|(sum, one)| add(sum, one));
                all.notes.extend(one.notes);
                if matches!(one.ended, Ended::Failed { .. }) {
                    all.ended = one.ended;
                }
            }
        }
    }
    let mut all = all.unwrap_or_else(|| empty(0.0, 0.0));
    all.measured_seconds = seconds / count;
    all.notes.sort();
    all.notes.dedup();
    all
}

fn add(sum: &mut OpOutcome, one: &OpOutcome) {
    sum.ops += one.ops;
    sum.bytes += one.bytes;
    sum.errors += one.errors;
    sum.starved += one.starved;
    sum.service.merge(&one.service);
    if let Some(theirs) = &one.intended {
        sum.intended.get_or_insert_default().merge(theirs);
    }
    for (mine, theirs) in
        [(&mut sum.ops_per_second, &one.ops_per_second), (&mut sum.bytes_per_second, &one.bytes_per_second)]
    {
        mine.resize(mine.len().max(theirs.len()), 0);
        mine.iter_mut().zip(theirs).for_each(|(mine, theirs)| *mine += theirs);
    }
}

fn empty(measured_seconds: f64, warmup_seconds: f64) -> Outcome {
    Outcome {
        measured_seconds,
        warmup_seconds,
        ended: Ended::TimeUp,
        ops: Vec::new(),
        metrics: Vec::new(),
        notes: Vec::new(),
    }
}

fn program(
    job: &Job,
    options: &RunOptions,
    control: &Control,
    tell: &mut dyn FnMut(Progress),
    traced: bool,
) -> Result<(Outcome, Trace), SimulateError> {
    let (length, seed, containers) = (Length::of(options), options.seed, job.containers);
    let file = match &job.load {
        Load::LoadFile { path, digest } => {
            Some(Rc::new(LoadFile::unchanged(path, digest).map_err(JobError::from)?))
        }
        _ => None,
    };
    let name = match &job.load {
        Load::Program { name } => name.as_str(),
        _ => "dbench load file",
    };
    let layout = match (&file, name) {
        (Some(file), _) => loadfile::layout(file, containers)?,
        (None, "dbench") => programs::dbench_layout(containers, JOURNAL_BLOCKS),
        (None, "varmail") => programs::varmail_layout(containers, JOURNAL_BLOCKS),
        (None, _) => programs::sysbench_layout(JOURNAL_BLOCKS),
    };
    let mut setup = job.setup(layout, seed)?;
    setup.traced = traced;
    let mut sim = Simulation::new(setup)?;
    let started = match (&file, name) {
        (Some(file), _) => (0..containers).try_for_each(|group| {
            let own = seed ^ u64::from(group + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            loadfile::client(&mut sim, file, group, own, job.call_ns)
        }),
        (None, "dbench") => (0..containers).try_for_each(|group| programs::dbench(&mut sim, group, seed)),
        (None, "varmail") => (0..containers).try_for_each(|group| programs::varmail(&mut sim, group, seed)),
        (None, _) => programs::sysbench(&mut sim, containers, seed),
    };
    started.ok_or_else(|| SimulateError::from(DiskFull("the files of the containers do not fit".into())))?;
    let mut told = |sim: &Simulation<'_>, now: u64| {
        tell(Progress {
            elapsed_seconds: (now as f64 - length.warmup as f64) / 1e9,
            total_seconds: (length.end - length.warmup) as f64 / 1e9,
            ops: sim.report().tally.counted,
        });
    };
    pass(&mut sim, (0, length.warmup), control, &mut told);
    sim.reset_tally();
    let before = sim.report();
    let end = pass(&mut sim, (length.warmup, length.end), control, &mut told);
    let after = sim.report();
    let report = Measured::between(&before, &after, length.warmup, end);
    report.judge(job, &sim);
    let mut outcome = empty(report.seconds(), length.warmup as f64 / 1e9);
    let operation = |name: &str, class, ops, service| OpOutcome {
        ops,
        service,
        ..OpOutcome::new(name, name, class, Direction::Write)
    };
    // what the program counts has no time of its own; its sync calls have
    let counted = if name == "sysbench" { "transaction" } else { "operation" };
    outcome.ops.push(operation(counted, OpClass::Io, after.tally.counted, Histogram::new()));
    let durable = after.tally.durable.clone();
    outcome.ops.push(operation("fsync", OpClass::Other, durable.count(), durable));
    report.add_to(&mut outcome, job, control);
    Ok((outcome, sim.trace()))
}

/// What the stack did in the measured interval.
struct Measured {
    from: u64,
    to: u64,
    durable: Histogram,
    commits: u64,
    flushes: u64,
    fua_writes: u64,
    pinned_away: u64,
    busy: f64,
    wrong: std::cell::RefCell<Option<String>>,
}

impl Measured {
    fn between(before: &Report, after: &Report, from: u64, to: u64) -> Measured {
        let spent = |report: &Report| report.busy * report.now as f64;
        let time = after.now.saturating_sub(before.now).max(1) as f64;
        Measured {
            from,
            to,
            durable: after.tally.durable.clone(),
            commits: after.commits - before.commits,
            flushes: after.device.flushes - before.device.flushes,
            fua_writes: after.device.fua_writes - before.device.fua_writes,
            pinned_away: after.block.pinned_away - before.block.pinned_away,
            busy: (spent(after) - spent(before)) / time,
            wrong: None.into(),
        }
    }

    fn seconds(&self) -> f64 {
        self.to.saturating_sub(self.from) as f64 / 1e9
    }

    /// Holds the device's promises and the recovered image against what was acknowledged; without barriers nothing is
    /// promised.
    fn judge(&self, job: &Job, sim: &Simulation<'_>) {
        let verdict = sim.audit();
        if job.stack != Protocol::Ext4NoBarrier.name() && !verdict.is_clean() {
            *self.wrong.borrow_mut() = Some(format!("the simulated stack broke its promises: {verdict:?}"));
        }
    }

    fn add_to(self, outcome: &mut Outcome, job: &Job, control: &Control) {
        let ms = |ns: Option<f64>| ns.unwrap_or(0.0) / 1e6;
        let at = |q: f64| ms(self.durable.quantile(q).map(|ns| ns as f64));
        let seconds = self.seconds().max(1e-9);
        let mut metrics = vec![
            ("kops_per_second", "kops/s", outcome.io_ops_per_second() / 1e3),
            ("fsyncs_per_second", "1/s", self.durable.count() as f64 / seconds),
            ("fsyncs_per_commit", "1", self.durable.count() as f64 / self.commits.max(1) as f64),
            ("commits_per_second", "1/s", self.commits as f64 / seconds),
            ("flushes_per_second", "1/s", self.flushes as f64 / seconds),
            ("fua_writes_per_second", "1/s", self.fua_writes as f64 / seconds),
            ("sent_to_pinned_queue", "1", self.pinned_away as f64),
            ("cores_busy", "1", self.busy),
        ];
        let metric = |(name, unit, value): (&str, &str, f64)| Metric::rate(name, unit, value);
        if self.durable.is_empty() {
            outcome.notes.push(
                "no fsync ended in the measured time; without one nothing is written, since write-back by age is not modelled"
                    .into(),
            );
        } else {
            metrics.extend([
                ("fsync_mean_ms", "ms", ms(self.durable.mean())),
                ("fsync_p50_ms", "ms", at(0.5)),
                ("fsync_p99_ms", "ms", at(0.99)),
            ]);
        }
        outcome.metrics.extend(metrics.into_iter().map(metric));
        outcome.notes.push(format!(
            "simulated in virtual time: {} containers on {}, {} cores, {} queues, device {}",
            job.containers, job.stack, job.cores, job.queues, job.device
        ));
        if let Some(message) = self.wrong.into_inner() {
            outcome.ended = Ended::Failed { message };
        } else if control.interrupted() {
            outcome.ended = Ended::Interrupted;
        }
    }
}
