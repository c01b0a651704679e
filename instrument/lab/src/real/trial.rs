//! One trial on the way: stack, processes, what is heard of them.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use camino::Utf8PathBuf;
use engine::options::{Event, RunOptions, Stage};
use journal::{Cgroup, Journal, PrivateTree};
use probe::fsync::{RecordError, record_within};
use record::fsync::FsyncSplit;
use record::results::{Parameter, Period, Status};
use stats::Outcome;

use super::ending::{Failure, conclude, status};
use super::evidence;
use crate::limit;
use crate::load::{self, Prepared, Ready};
use crate::protocol::{Message, Request};
use crate::ranks::Crew;
use crate::runner::{Job, Progress, Report};
use crate::site::{Built, Site};
use crate::supervise::{Departure, Program, supervise};

/// Time-out of a trial for which the study gives none: this, and twice its load.
const TIMEOUT_SECONDS: f64 = 3600.0;
/// Bytes of trace that are kept of a trial: some 20,000 fsyncs.
const TRACE_BYTES_MAX: u64 = 128 << 20;

/// With less than that a file system is full for a load: what is left is too small for what it asked for.
const FULL_BYTES: u64 = 4 << 20;

/// Where a trial runs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    /// Builds its stack.
    pub site: &'a Site,
    /// What becomes its processes.
    pub program: &'a Program,
    /// What it makes is noted there.
    pub journal: &'a Arc<Journal>,
    /// The ranks that run the load, when a launcher started several.
    pub crew: Option<&'a Mutex<Crew>>,
    /// Unlike that of any other trial of this process.
    pub number: u32,
}

/// One trial on the way.
pub(super) struct Trial<'a> {
    pub(super) place: Place<'a>,
    pub(super) job: &'a Job<'a>,
    pub(super) stop: &'a AtomicBool,
    pub(super) progress: &'a mut dyn FnMut(Progress),
    pub(super) timeout_seconds: f64,
    pub(super) deadline: Instant,
    pub(super) report: Report,
}

/// What the processes of a trial have in common.
pub(super) struct Processes {
    pub(super) program: Program,
    pub(super) request: Request,
    pub(super) group: Option<Cgroup>,
    /// What a program of the load leaves there when it is killed is in the journal.
    _temporary: Option<PrivateTree>,
}

/// What one process of a trial is to do.
#[derive(Debug, Clone, Copy)]
pub(super) enum Part {
    /// A stage of a WML script.
    Stage(Stage),
    /// A phase of an application.
    Phase(u32),
}

impl<'a> Trial<'a> {
    /// A trial that begins now.
    pub(super) fn new(
        place: Place<'a>,
        job: &'a Job<'a>,
        stop: &'a AtomicBool,
        progress: &'a mut dyn FnMut(Progress),
    ) -> Trial<'a> {
        let timeout_seconds = timeout_seconds(job);
        let deadline = Instant::now() + Duration::from_secs_f64(timeout_seconds);
        let report = Report::empty(Status::Interrupted);
        Trial { place, job, stop, progress, timeout_seconds, deadline, report }
    }

    /// Runs it to its end and takes everything down again.
    pub(super) fn run(mut self) -> Report {
        let start = Instant::now();
        let ended = self.on_fresh_stack();
        self.report.status = status(ended, self.stop.load(Ordering::Acquire), &mut self.report);
        self.report.seconds = start.elapsed().as_secs_f64();
        self.report
    }

    fn on_fresh_stack(&mut self) -> Result<Status, Failure> {
        if let Ready::Simulated(_) = self.job.load.load {
            return Ok(self.simulated());
        }
        if let Some(app) = self.job.load.app() {
            app.provide(self.place.site.home().as_std_path(), &mut |line| {
                (self.progress)(Progress::Engine(Event::Line { text: line.to_string() }));
            })?;
        }
        (self.progress)(Progress::Building);
        let built = self.place.site.build(self.job.stack, self.place.journal)?;
        self.report.commands = evidence::commands(&built);
        let mut status = self.on_stack(&built);
        if let Ok(Status::Failed { message }) | Err(Failure::Message(message)) = &mut status
            && let Some(trouble) = built.trouble()
        {
            message.push_str(&format!("; {trouble}"));
        }
        (self.progress)(Progress::TakingDown);
        if self.job.study.study.keep && self.job.last {
            self.report.log.push(format!("kept at {}; `loadline doctor` takes it down", built.path()));
            built.keep();
        } else if let Err(error) = built.teardown() {
            self.report.raw_output.push_str(&format!("{error}\n"));
            if matches!(status, Ok(Status::Done)) {
                return Err(Failure::Message(error.to_string()));
            }
        }
        status
    }

    /// The load on a stack that is built.
    fn on_stack(&mut self, built: &Built) -> Result<Status, Failure> {
        // The wish may have come while the stack was built.
        if self.stop.load(Ordering::Acquire) {
            return Ok(Status::Interrupted);
        }
        let (resized, processes) = self.ready(built)?;
        let load = resized.as_ref().unwrap_or(self.job.load);
        let mut departure = match &load.load {
            _ if let Some(crew) = self.place.crew => self.ranked(crew, load, built, &processes)?,
            _ if load.containers.is_some() => self.contained(load, built, &processes)?,
            Ready::App(app) => self.phases(app.phases(), built, &processes)?,
            Ready::Wml(_) | Ready::Simulated(_) => self.stages(built, &processes)?,
        };
        if let (Ok(outcome), Some(status)) = (&mut departure.result, built.ssd_status()) {
            outcome.metrics.extend(evidence::ssd_metrics(&status));
            outcome.notes.extend(self.job.stack.time_scale().and_then(evidence::scale_note));
        }
        // an engine in the process that meets a full disk may end it there: RocksDB with Debian's assertions does
        if departure.is_without_a_word()
            && built.free_bytes().is_ok_and(|free| free < FULL_BYTES)
            && let Err(message) = &mut departure.result
        {
            message.push_str(&apps::full_disk());
        }
        if let Some(group) = processes.group {
            limit::leave(group, &mut departure);
        }
        Ok(conclude(departure, self.timeout_seconds, &mut self.report))
    }

    /// A load in virtual time: there is nothing to build.
    fn simulated(&mut self) -> Status {
        let load = self.job.load;
        let variable =
            |(name, value): &(String, String)| Parameter { name: name.clone(), value: value.clone() };
        self.report.variables = load.variables.iter().map(variable).collect();
        self.report.log.extend(load.warnings.lines().map(str::to_string));
        self.report.environment = Some(evidence::without_place());
        let request = Request {
            parent: std::process::id(),
            load: load.issue(),
            phase: 0,
            home: self.place.site.home().as_std_path().to_path_buf(),
            in_process: None,
            root: PathBuf::new(),
            options: run_options(self.job),
            erase: None,
            device: None,
            disk: None,
            ssd: None,
            in_slices: false,
            waits: false,
            roll: None,
            counter_speed: None,
        };
        let program = self.place.program.clone();
        let processes = Processes { program, request, group: None, _temporary: None };
        let departure = self.child(Part::Stage(Stage::All), &processes);
        conclude(departure, self.timeout_seconds, &mut self.report)
    }

    /// The load once more, when it depends on the built stack, and what its processes have in common.
    pub(super) fn ready(&mut self, built: &Built) -> Result<(Option<Prepared>, Processes), Failure> {
        let resized = self.resized(built)?;
        let load = resized.as_ref().unwrap_or(self.job.load);
        let variable =
            |(name, value): &(String, String)| Parameter { name: name.clone(), value: value.clone() };
        self.report.variables = load.variables.iter().map(variable).collect();
        self.report.log.extend(load.warnings.lines().map(str::to_string));
        let processes = self.processes(load, built)?;
        Ok((resized, processes))
    }

    /// The load once more, when it depends on the target, whose size is known by now.
    fn resized(&self, built: &Built) -> Result<Option<Prepared>, Failure> {
        let Job { load, workload, cell, study, .. } = self.job;
        if !load.sized_by_target {
            return Ok(None);
        }
        let machine = wml::Machine { free_bytes: built.free_bytes().unwrap_or(0), ..load.machine };
        let prepared = load::prepare(workload, &cell.parameters, &study.study, machine);
        prepared.map(Some).map_err(|error| Failure::Message(error.to_string()))
    }

    fn processes(&mut self, load: &Prepared, built: &Built) -> Result<Processes, Failure> {
        let (root, in_process) = match built.in_process() {
            Some((device, options)) => (device, Some(options)),
            None => (built.path(), None),
        };
        if in_process.is_some() && load.app().is_some() {
            let why = "this load runs programs, which need a mounted file system: leave out `inprocess`";
            return Err(Failure::Message(why.into()));
        }
        // with containers the limit is that of each of them, with ranks each makes its own
        let is_one = load.containers.is_none() && self.place.crew.is_none();
        let limit = self.job.study.study.memory.filter(|_| is_one);
        let group = limit.map(|limit| self.group(limit.0)).transpose()?;
        let environment = evidence::environment(self.job, built);
        let request = Request {
            parent: std::process::id(),
            load: load.issue(),
            phase: 0,
            home: self.place.site.home().as_std_path().to_path_buf(),
            in_process,
            root: root.as_std_path().to_path_buf(),
            options: run_options(self.job),
            erase: self.place.site.builder.erase.clone(),
            device: environment.devices.first().map(|device| device.name.clone()),
            disk: environment.devices.last().map(|device| device.name.clone()),
            ssd: built.ssd().map(|ssd| ssd.state().name.clone()),
            in_slices: false,
            waits: false,
            roll: None,
            counter_speed: None,
        };
        self.report.environment = Some(environment);
        let temporary =
            load.app().filter(|_| load.containers.is_none()).map(|_| self.temporary()).transpose()?;
        let folder: Option<PathBuf> = temporary.as_ref().map(|tree| tree.path().as_std_path().to_owned());
        let program = Program { temporary: folder, ..self.place.program.clone() };
        Ok(Processes { program, request, group, _temporary: temporary })
    }

    /// Runs one process to its end.
    pub(super) fn child(&mut self, part: Part, processes: &Processes) -> Departure {
        let request = part.of(&processes.request);
        let admit = |pid: u32| match &processes.group {
            Some(group) => group.add_pid(pid).map_err(|error| error.to_string()),
            None => Ok(()),
        };
        let Trial { report, progress, stop, deadline, .. } = self;
        let mut hear = |message: Message| {
            let Message::Event { event } = message else { return };
            match &event {
                Event::Line { text } => report.log.push(text.clone()),
                Event::LatencyCounters => report.extras.latency_counters = true,
                Event::Period { at_seconds, outcome } => {
                    let counters = report.extras.latency_counters;
                    report.extras.keep(Period::of(*at_seconds, outcome, counters));
                }
                Event::Creating { .. } | Event::Ready | Event::Running { .. } => {}
            }
            progress(Progress::Engine(event));
        };
        let departure = supervise(&processes.program, &request, Some(*deadline), stop, admit, &mut hear);
        report.raw_output.push_str(&departure.raw_output);
        departure
    }

    /// Runs a script: in one process, or in two when something is to be done between creation and load.
    fn stages(&mut self, built: &Built, processes: &Processes) -> Result<Departure, Failure> {
        let settings = &self.job.study.study;
        if !settings.cold && !settings.explain {
            return Ok(self.child(Part::Stage(Stage::All), processes));
        }
        let prepared = self.child(Part::Stage(Stage::Prepare), processes);
        if prepared.told.is_some() || prepared.result.is_err() {
            return Ok(prepared);
        }
        if settings.cold {
            (self.progress)(Progress::Cooling);
            built.remount_cold()?;
        }
        if settings.explain {
            self.explained(built, processes)
        } else {
            Ok(self.child(Part::Stage(Stage::Measure), processes))
        }
    }

    /// Runs the load under tracing and keeps the split of its fsyncs.
    fn explained(&mut self, built: &Built, processes: &Processes) -> Result<Departure, Failure> {
        let (split, departure) = traced(built, || self.child(Part::Stage(Stage::Measure), processes))?;
        self.report.fsync = Some(split);
        Ok(departure)
    }

    /// Runs the phases of an application, each in a process of its own, the stack cold between them.
    fn phases(&mut self, number: u32, built: &Built, processes: &Processes) -> Result<Departure, Failure> {
        let mut before: Vec<Outcome> = Vec::new();
        for phase in 0..number {
            if phase > 0 {
                (self.progress)(Progress::Cooling);
                built.remount_cold()?;
            }
            let mut departure = self.child(Part::Phase(phase), processes);
            if departure.told.is_none()
                && let Ok(outcome) = departure.result
            {
                before.push(outcome);
                if phase + 1 < number {
                    continue;
                }
                departure.result = apps::join(before).ok_or_else(|| "nothing was measured".to_string());
            }
            return Ok(departure);
        }
        Err(Failure::Message("the load has no phases".into()))
    }

    /// A private directory where everybody may look: mail servers have users of their own.
    fn temporary(&self) -> Result<PrivateTree, Failure> {
        let made = Utf8PathBuf::from_path_buf(std::env::temp_dir())
            .map_err(|path| format!("{} is not UTF-8; choose another TMPDIR", path.display()))
            .and_then(|dir| dir.canonicalize_utf8().map_err(|error| format!("{dir}: {error}")))
            .and_then(|dir| PrivateTree::new(self.place.journal, &dir).map_err(|error| error.to_string()));
        made.map_err(Failure::Message)
    }

    fn group(&self, bytes: u64) -> Result<Cgroup, Failure> {
        let name = format!("{}.{}.{}", self.job.run, std::process::id(), self.place.number);
        let made = limit::group(&name, bytes, self.place.journal);
        made.map_err(|error| match error {
            journal::CgroupError::Unavailable(why) => {
                Failure::Unavailable { reason: why.reason, remedy: why.remedy }
            }
            other => Failure::Message(other.to_string()),
        })
    }
}

/// Runs a load under tracing; the split of its fsyncs, and what came of it.
pub(super) fn traced<T>(built: &Built, load: impl FnOnce() -> T) -> Result<(FsyncSplit, T), Failure> {
    let traced = record_within(built.path().as_std_path(), Some(TRACE_BYTES_MAX), load);
    let (recording, departure) = traced.map_err(|error| match error.unavailable() {
        Some(why) => Failure::Unavailable { reason: why.reason.clone(), remedy: why.remedy.clone() },
        None if matches!(error, RecordError::NoDevice(_)) => Failure::Unavailable {
            reason: error.to_string(),
            remedy: "leave --explain out, or choose a stack on a device".into(),
        },
        None => Failure::Message(error.to_string()),
    })?;
    let mut split = recording.split();
    split.notes.extend(built.ssd_status().and_then(|status| evidence::fua_note(&status)));
    Ok((split, departure))
}

impl Part {
    fn of(self, whole: &Request) -> Request {
        match self {
            Part::Stage(stage) => {
                Request { options: RunOptions { stage, ..whole.options.clone() }, ..whole.clone() }
            }
            Part::Phase(phase) => Request { phase, ..whole.clone() },
        }
    }
}

/// The options of a trial's run. Trial `n` of every cell has the study's seed plus `n`: within a block of
/// trials all stacks see the same operations.
/// When a trial is killed, in seconds after its begin.
pub(crate) fn timeout_seconds(job: &Job<'_>) -> f64 {
    let told = job.study.study.timeout.map(|timeout| timeout.0);
    told.unwrap_or_else(|| TIMEOUT_SECONDS + 2.0 * job.load.load_seconds())
}

fn run_options(job: &Job<'_>) -> RunOptions {
    let (settings, workload) = (&job.study.study, job.workload);
    RunOptions {
        seed: settings.seed.wrapping_add(u64::from(job.slot.index)),
        files_seed: None,
        seconds: workload.seconds.or(settings.seconds).map(|seconds| seconds.0),
        ops: workload.ops.or(settings.ops),
        warmup_seconds: workload.warmup.or(settings.warmup).map(|seconds| seconds.0),
        rate: job.rate.or(workload.rate).or(settings.rate),
        io: job.load.io.unwrap_or(workload.io.unwrap_or(settings.io).0),
        compress_percent: settings.compress.0,
        duplicate_percent: settings.duplicate.0,
        strict: settings.strict,
        stage: Stage::All,
        settle: true,
        allow_system: settings.allow_system,
    }
}
