//! Executes trials on this machine: a fresh stack for each, the load in a process of its own.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use camino::Utf8PathBuf;
use engine::options::{Event, RunOptions, Stage};
use journal::{Cgroup, Journal, MemoryLimit, PrivateTree};
use probe::Subject;
use probe::fsync::{RecordError, record_within};
use record::Environment;
use record::results::Period;
use spec::StackSpec;
use stack::{Availability, MountedStack, StackError};
use stats::{Ended, Metric};

use crate::protocol::{ARGUMENT, Message, Request};
use crate::runner::{Job, Progress, Report, Runner};
use crate::site::{Built, Site, SiteError};
use crate::supervise::{Departure, Program, Told, supervise};
use record::results::{Command, Status};

/// Time-out of a trial for which the study gives none: this, and twice its load.
const TIMEOUT_SECONDS: f64 = 3600.0;
/// Length of a run for which neither study nor script gives one.
const RUN_SECONDS: f64 = 60.0;

/// Executes trials on this machine.
#[derive(Debug)]
pub struct RealRunner {
    /// Builds the stacks: where images go, which device may be erased.
    pub site: Site,
    /// The program that becomes a trial's process.
    pub program: Program,
    journal: Arc<Journal>,
    home: PathBuf,
    trials: u32,
}

/// Why a trial came to nothing.
enum Failure {
    Unavailable { reason: String, remedy: String },
    Message(String),
}

impl From<SiteError> for Failure {
    fn from(error: SiteError) -> Self {
        match error.unavailable() {
            Some(why) => Failure::Unavailable { reason: why.reason, remedy: why.remedy },
            None => Failure::Message(error.to_string()),
        }
    }
}

impl From<StackError> for Failure {
    fn from(error: StackError) -> Self {
        SiteError::from(error).into()
    }
}

impl RealRunner {
    /// A runner that keeps its journal in `home/journal` (under the run's id) and its images in `work`;
    /// trials run in processes of this executable.
    ///
    /// # Errors
    /// The journal cannot be written, or the executable is not known.
    pub fn new(home: &Path, work: &Path, run: &str) -> Result<Self, RunnerError> {
        let path = |path: &Path| {
            Utf8PathBuf::from_path_buf(path.to_path_buf()).map_err(|path| RunnerError::Path { path })
        };
        let journal = Journal::open(&journal_folder(&path(home)?), &format!("{run}.{}", std::process::id()))?;
        let program = std::env::current_exe().map_err(|source| RunnerError::Executable { source })?;
        Ok(RealRunner {
            site: Site::new(&path(home)?, &path(work)?).map_err(Box::new)?,
            program: Program::new(program, &[ARGUMENT]),
            journal,
            home: home.to_path_buf(),
            trials: 0,
        })
    }

    /// The journal of what this runner makes.
    pub fn journal(&self) -> &Arc<Journal> {
        &self.journal
    }

    fn trial(
        &mut self,
        job: &Job<'_>,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(Progress),
        report: &mut Report,
    ) -> Result<Status, Failure> {
        let timeout_seconds = self.timeout_seconds(job);
        let deadline = Instant::now() + Duration::from_secs_f64(timeout_seconds);
        let app = app_of(job)?;
        if let Some(app) = &app {
            app.provide(&self.home, &mut |line| {
                progress(Progress::Engine(Event::Line { text: line.to_string() }));
            })?;
        }
        progress(Progress::Building);
        let built = self.site.build(job.stack, &self.journal)?;
        report.commands = commands(&built);
        let mut status = self.load(job, &built, (deadline, timeout_seconds), stop, progress, report);
        if let Ok(Status::Failed { message }) | Err(Failure::Message(message)) = &mut status
            && let Some(trouble) = built.trouble()
        {
            message.push_str(&format!("; {trouble}"));
        }
        progress(Progress::TakingDown);
        if job.study.study.keep && job.last {
            report.log.push(format!("kept at {}; `loadline doctor` takes it down", built.path()));
            built.keep();
        } else if let Err(error) = built.teardown() {
            report.raw_output.push_str(&format!("{error}\n"));
            if matches!(status, Ok(Status::Done)) {
                return Err(Failure::Message(error.to_string()));
            }
        }
        status
    }

    /// The load on a stack that is built.
    fn load(
        &mut self,
        job: &Job<'_>,
        built: &Built,
        (deadline, timeout_seconds): (Instant, f64),
        stop: &AtomicBool,
        progress: &mut dyn FnMut(Progress),
        report: &mut Report,
    ) -> Result<Status, Failure> {
        // The wish may have come while the stack was built.
        if stop.load(Ordering::Acquire) {
            return Ok(Status::Interrupted);
        }
        self.trials += 1;
        let settings = &job.study.study;
        let group = settings.memory.map(|limit| self.group(job, limit.0)).transpose()?;
        let environment = environment(job, built);
        let erase = self.site.builder.erase.clone();
        let request = Request { home: self.home.clone(), erase, ..request(job, built, &environment) };
        report.environment = Some(environment);
        let admit = |pid: u32| match &group {
            Some(group) => group.add_pid(pid).map_err(|error| error.to_string()),
            None => Ok(()),
        };
        // what a program of the load leaves there when it is killed is in the journal
        let temporary = app_of(job)?.map(|_| self.temporary()).transpose()?;
        let folder = temporary.as_ref().map(|tree| tree.path().as_std_path().to_owned());
        let program = Program { temporary: folder, ..self.program.clone() };
        let child = |part: Part, report: &mut Report, progress: &mut dyn FnMut(Progress)| {
            let request = part.of(&request);
            let mut hear = |message: Message| match message {
                Message::Event { event } => {
                    match &event {
                        Event::Line { text } => report.log.push(text.clone()),
                        Event::LatencyCounters => report.extras.latency_counters = true,
                        Event::Period { at_seconds, outcome } => {
                            let counters = report.extras.latency_counters;
                            report.extras.keep(Period::of(*at_seconds, outcome, counters));
                        }
                        Event::Creating { .. } | Event::Running { .. } => {}
                    }
                    progress(Progress::Engine(event));
                }
                Message::Warnings { text } => report.log.extend(text.lines().map(str::to_string)),
                Message::Outcome { .. } | Message::Error { .. } => {}
            };
            let departure = supervise(&program, &request, Some(deadline), stop, admit, &mut hear);
            report.raw_output.push_str(&departure.raw_output);
            departure
        };
        let mut departure = if let Some(app) = app_of(job)? {
            phases(app.phases(), built, report, progress, child)?
        } else if settings.cold || settings.explain {
            let prepared = child(Part::Stage(Stage::Prepare), report, progress);
            if prepared.told.is_none() && prepared.result.is_ok() {
                if settings.cold {
                    progress(Progress::Cooling);
                    built.remount_cold()?;
                }
                if settings.explain {
                    explained(built, report, |report| child(Part::Stage(Stage::Measure), report, progress))?
                } else {
                    child(Part::Stage(Stage::Measure), report, progress)
                }
            } else {
                prepared
            }
        } else {
            child(Part::Stage(Stage::All), report, progress)
        };
        if let (Ok(outcome), Some(status)) = (&mut departure.result, built.ssd_status()) {
            outcome.metrics.extend(ssd_metrics(&status));
        }
        if let Some(group) = group {
            leave(group, &mut departure);
        }
        Ok(conclude(departure, timeout_seconds, report))
    }

    /// A private directory where everybody may look: mail servers have users of their own.
    fn temporary(&self) -> Result<PrivateTree, Failure> {
        let made = Utf8PathBuf::from_path_buf(std::env::temp_dir())
            .map_err(|path| format!("{} is not UTF-8; choose another TMPDIR", path.display()))
            .and_then(|dir| dir.canonicalize_utf8().map_err(|error| format!("{dir}: {error}")))
            .and_then(|dir| PrivateTree::new(&self.journal, &dir).map_err(|error| error.to_string()));
        made.map_err(Failure::Message)
    }

    fn group(&self, job: &Job<'_>, bytes: u64) -> Result<Cgroup, Failure> {
        let name = format!("{}.{}.{}", job.run, std::process::id(), self.trials);
        Cgroup::create(&name, MemoryLimit::bytes(bytes), &self.journal).map_err(|error| match error {
            journal::CgroupError::Unavailable(why) => {
                Failure::Unavailable { reason: why.reason, remedy: why.remedy }
            }
            other => Failure::Message(other.to_string()),
        })
    }

    fn timeout_seconds(&mut self, job: &Job<'_>) -> f64 {
        let set = job.study.study.timeout.map(|timeout| timeout.0);
        set.unwrap_or_else(|| TIMEOUT_SECONDS + 2.0 * self.load_seconds(job))
    }
}

impl Runner for RealRunner {
    fn unavailable(&mut self, stack: &StackSpec) -> Option<(String, String)> {
        match self.site.availability(stack) {
            Availability::Available => None,
            Availability::Unavailable(why) => Some((why.reason, why.remedy)),
        }
    }

    fn load_seconds(&mut self, job: &Job<'_>) -> f64 {
        let settings = &job.study.study;
        let (seconds, warmup) =
            (job.workload.seconds.or(settings.seconds), job.workload.warmup.or(settings.warmup));
        let (script_seconds, script_warmup) = script_seconds(job);
        seconds.map_or(script_seconds, |s| s.0) + warmup.map_or(script_warmup, |s| s.0)
    }

    fn run(&mut self, job: &Job<'_>, stop: &AtomicBool, progress: &mut dyn FnMut(Progress)) -> Report {
        let start = Instant::now();
        let mut report = Report::empty(Status::Interrupted);
        let ended = self.trial(job, stop, progress, &mut report);
        report.status = status(ended, stop.load(Ordering::Acquire), &mut report);
        report.seconds = start.elapsed().as_secs_f64();
        report
    }
}

/// What a trial came to. After an interrupt an error tells nothing of the stack: the terminal's Ctrl-C reaches mkfs and
/// mount as well, and they end with one.
fn status(ended: Result<Status, Failure>, interrupted: bool, report: &mut Report) -> Status {
    match ended {
        Ok(status) => status,
        Err(Failure::Message(message)) if interrupted => {
            report.raw_output.push_str(&format!("when it was interrupted: {message}\n"));
            Status::Interrupted
        }
        Err(Failure::Unavailable { reason, remedy }) => Status::Unavailable { reason, remedy },
        Err(Failure::Message(message)) => Status::Failed { message },
    }
}

/// Where journals are kept below the home of results; what `loadline doctor` looks through.
pub fn journal_folder(home: &camino::Utf8Path) -> Utf8PathBuf {
    Journal::folder(home)
}

/// Why no runner can be had.
#[derive(Debug, thiserror::Error)]
pub enum RunnerError {
    /// A path is not UTF-8.
    #[error("{path:?} is not UTF-8; choose another folder")]
    Path {
        /// The path.
        path: PathBuf,
    },
    /// The journal refused.
    #[error(transparent)]
    Journal(#[from] journal::JournalError),
    /// No stacks can be built.
    #[error(transparent)]
    Site(#[from] Box<SiteError>),
    /// The executable is not known.
    #[error("the path of this executable cannot be told: {source}")]
    Executable {
        /// The system's error.
        source: std::io::Error,
    },
}

/// What one child of a trial is to do.
#[derive(Debug, Clone, Copy)]
enum Part {
    /// A stage of a WML script.
    Stage(Stage),
    /// A phase of a load of crate `apps`.
    Phase(u32),
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

/// The load of crate `apps` that a job's workload is, if it is one.
fn app_of(job: &Job<'_>) -> Result<Option<apps::App>, Failure> {
    Ok(apps::App::parse(job.workload.text.as_deref().unwrap_or_default(), &job.set())?)
}

impl From<apps::AppError> for Failure {
    fn from(error: apps::AppError) -> Self {
        match error {
            apps::AppError::Unavailable { reason, remedy } => Failure::Unavailable { reason, remedy },
            other => Failure::Message(other.to_string()),
        }
    }
}

/// Runs the phases of a load, each in a process of its own, the stack cold between them.
fn phases(
    number: u32,
    built: &Built,
    report: &mut Report,
    progress: &mut dyn FnMut(Progress),
    child: impl Fn(Part, &mut Report, &mut dyn FnMut(Progress)) -> Departure,
) -> Result<Departure, Failure> {
    let mut before: Vec<stats::Outcome> = Vec::new();
    for phase in 0..number {
        if phase > 0 {
            progress(Progress::Cooling);
            built.remount_cold()?;
        }
        let mut departure = child(Part::Phase(phase), report, progress);
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

/// Bytes of trace that are kept of a trial: some 20,000 fsyncs.
const TRACE_BYTES_MAX: u64 = 128 << 20;

/// Runs the load under tracing and keeps the split of its fsyncs.
fn explained(
    built: &Built,
    report: &mut Report,
    load: impl FnOnce(&mut Report) -> Departure,
) -> Result<Departure, Failure> {
    let traced = record_within(built.path().as_std_path(), Some(TRACE_BYTES_MAX), || load(report));
    let (recording, departure) = traced.map_err(|error| match error.unavailable() {
        Some(why) => Failure::Unavailable { reason: why.reason.clone(), remedy: why.remedy.clone() },
        None if matches!(error, RecordError::NoDevice(_)) => Failure::Unavailable {
            reason: error.to_string(),
            remedy: "leave --explain out, or choose a stack on a device".into(),
        },
        None => Failure::Message(error.to_string()),
    })?;
    let mut split = recording.split();
    split.notes.extend(built.ssd_status().and_then(|status| fua_note(&status)));
    report.fsync = Some(split);
    Ok(departure)
}

/// Turns what a child came to into a status, and keeps its outcome.
fn conclude(departure: Departure, timeout_seconds: f64, report: &mut Report) -> Status {
    let failed = match departure.result {
        Ok(outcome) => {
            let failed = match &outcome.ended {
                Ended::Failed { message } => Some(message.clone()),
                _ => None,
            };
            report.outcome = Some(outcome);
            failed
        }
        Err(message) => Some(message),
    };
    match (departure.told, failed) {
        (Some(Told::Interrupted), _) => Status::Interrupted,
        (Some(Told::TimedOut), _) => Status::TimedOut { after_seconds: timeout_seconds },
        (None, Some(message)) => Status::Failed { message },
        // A signal from elsewhere reached the child itself.
        (None, None) if report.outcome.as_ref().is_some_and(|o| o.ended == Ended::Interrupted) => {
            Status::Interrupted
        }
        (None, None) => Status::Done,
    }
}

/// Takes the figures of a memory group and removes it.
fn leave(group: Cgroup, departure: &mut Departure) {
    if let Ok(used) = group.stats() {
        if used.oom_kills > 0
            && let Err(message) = &mut departure.result
        {
            message.push_str("; the memory limit was met and the kernel killed it");
        }
        if let Ok(outcome) = &mut departure.result {
            outcome.metrics.extend(memory_metrics(&used));
        }
    }
    if let Err(error) = group.destroy() {
        departure.raw_output.push_str(&format!("{error}\n"));
    }
}

fn memory_metrics(used: &journal::CgroupStats) -> Vec<Metric> {
    let metric = |name: &str, unit: &str, value: u64| Metric {
        name: name.to_string(),
        unit: unit.to_string(),
        value: value as f64,
    };
    let peak = used.peak_bytes.map(|peak| metric("memory_peak_bytes", "bytes", peak));
    let hits = used.limit_hits.map(|hits| metric("memory_limit_hits", "1", hits));
    peak.into_iter().chain(hits).collect()
}

/// The loop device has no FUA: what the figure of that part stands for.
pub fn fua_note(status: &blockdev::SsdStatus) -> Option<String> {
    let flushes = *status.counters.get("flushes")?;
    Some(match status.counters.get("fua_flushes").copied().unwrap_or(0) {
        0 => "the kernel sends a flush instead of FUA, and the emulated device took it for one".to_string(),
        as_fua => format!(
            "the kernel sends a flush instead of FUA; {as_fua} of the emulated device's {flushes} flushes took the \
             time of a FUA write"
        ),
    })
}

fn ssd_metrics(status: &blockdev::SsdStatus) -> Vec<Metric> {
    let metric = |name: &str, unit: &str, value: f64| Metric { name: name.into(), unit: unit.into(), value };
    let amplification = status.write_amplification.map(|value| metric("ssd_write_amplification", "1", value));
    let counters =
        status.counters.iter().map(|(name, value)| metric(&format!("ssd_{name}"), "1", *value as f64));
    amplification.into_iter().chain(counters).collect()
}

fn commands(built: &MountedStack) -> Vec<Command> {
    let purpose = |line: &str| {
        let program = line.split_whitespace().next().unwrap_or_default();
        let name = program.rsplit('/').next().unwrap_or(program);
        name.split('.').next().unwrap_or(name).to_string()
    };
    let ran = built.record().commands.iter().map(|command| &command.line);
    ran.map(|line| Command { purpose: purpose(line), line: line.clone() }).collect()
}

fn environment(job: &Job<'_>, built: &MountedStack) -> Environment {
    let mkfs = built.record().commands.iter().map(|command| &command.line).find(|line| line.contains("mkfs"));
    // The number of a loop device differs in every trial and would show as a difference of settings.
    let device = built.device_path().map_or(String::new(), |device| format!(" {device}"));
    let mkfs = mkfs.map(|line| line.strip_suffix(&device).unwrap_or(line));
    let mut environment = probe::capture(&Subject {
        path: Some(built.path().as_std_path()),
        device: built.device_path().map(camino::Utf8Path::as_std_path),
        mkfs,
        memory_limit_bytes: job.study.study.memory.map(|limit| limit.0),
        programs: &[],
    });
    let versions = built.record().tool_versions.iter();
    environment.tools = versions
        .map(|(name, version)| record::environment::Tool { name: name.clone(), version: version.clone() })
        .collect();
    environment
}

fn request(job: &Job<'_>, built: &MountedStack, environment: &Environment) -> Request {
    let machine = machine(job.study.study.memory.map(|limit| limit.0), built.free_bytes().unwrap_or(0));
    let device = environment.devices.first().map(|device| device.name.clone());
    let disk = environment.devices.last().map(|device| device.name.clone());
    let (root, in_process) = match built.in_process() {
        Some((device, options)) => (device, Some(options)),
        None => (built.path(), None),
    };
    Request {
        parent: std::process::id(),
        name: job.workload.label().to_string(),
        text: job.workload.text.clone().unwrap_or_default(),
        phase: 0,
        home: PathBuf::new(),
        set: job.set(),
        ram_bytes: machine.ram_bytes,
        cores: machine.cores,
        free_bytes: machine.free_bytes,
        in_process,
        root: root.as_std_path().to_path_buf(),
        options: run_options(job),
        erase: None,
        device,
        disk,
    }
}

/// The machine as workloads see it: `$ram` is the memory limit when there is one.
pub fn machine(memory_limit_bytes: Option<u64>, free_bytes: u64) -> wml::Machine {
    let total = || probe::capture(&Subject::default()).memory.total_bytes.unwrap_or(1 << 30);
    wml::Machine {
        ram_bytes: memory_limit_bytes.unwrap_or_else(total),
        cores: std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64),
        free_bytes,
    }
}

/// The options of a trial's run. Trial `n` of every cell has the study's seed plus `n`: within a block of
/// trials all stacks see the same operations.
fn run_options(job: &Job<'_>) -> RunOptions {
    let (settings, workload) = (&job.study.study, job.workload);
    RunOptions {
        seed: settings.seed.wrapping_add(u64::from(job.slot.index)),
        seconds: workload.seconds.or(settings.seconds).map(|seconds| seconds.0),
        ops: workload.ops.or(settings.ops),
        warmup_seconds: workload.warmup.or(settings.warmup).map(|seconds| seconds.0),
        rate: workload.rate.or(settings.rate),
        io: workload.io.unwrap_or(settings.io).0,
        compress_percent: settings.compress.0,
        duplicate_percent: settings.duplicate.0,
        strict: settings.strict,
        stage: Stage::All,
        settle: true,
        allow_system: settings.allow_system,
    }
}

/// Measured and warm-up seconds that the workload's own script asks for.
fn script_seconds(job: &Job<'_>) -> (f64, f64) {
    if let Ok(Some(app)) = app_of(job) {
        return (app.seconds_guess(), 0.0);
    }
    let settings = wml::Settings {
        machine: machine(job.study.study.memory.map(|limit| limit.0), 1 << 40),
        set: job.set(),
        name: job.workload.label().to_string(),
    };
    let text = job.workload.text.as_deref().unwrap_or_default();
    let loaded = wml::load(text.as_bytes(), &settings).ok();
    let run = loaded.and_then(|loaded| {
        loaded.workload.script.into_iter().find_map(|step| match step {
            workload::Step::Run { seconds, warmup_seconds, .. } => Some((seconds, warmup_seconds)),
            _ => None,
        })
    });
    run.map_or((RUN_SECONDS, 0.0), |(seconds, warmup)| {
        (seconds.map_or(RUN_SECONDS, |seconds| seconds as f64), warmup as f64)
    })
}

#[cfg(test)]
mod tests {
    use stats::Outcome;

    use super::*;

    fn departure(result: Result<Ended, &str>, told: Option<Told>) -> Departure {
        let result = result.map_err(str::to_string).map(|ended| Outcome {
            measured_seconds: 1.0,
            warmup_seconds: 0.0,
            ended,
            ops: vec![],
            metrics: vec![],
            notes: vec![],
        });
        Departure { result, told, raw_output: String::new() }
    }

    #[test]
    fn an_error_after_an_interrupt_is_no_failure_of_the_stack() {
        let mut report = Report::empty(Status::Interrupted);
        let killed = || Err(Failure::Message("mkfs.ext4: ended by a signal".into()));
        assert_eq!(status(killed(), true, &mut report), Status::Interrupted);
        assert!(report.raw_output.contains("mkfs.ext4: ended by a signal"), "{}", report.raw_output);
        let failed = Status::Failed { message: "mkfs.ext4: ended by a signal".into() };
        assert_eq!(status(killed(), false, &mut report), failed);
        assert_eq!(status(Ok(Status::Done), true, &mut report), Status::Done);
    }

    #[test]
    fn what_a_child_came_to_becomes_a_status() {
        let failed = |message: &str| Status::Failed { message: message.into() };
        let broke = || Ok(Ended::Failed { message: "EIO".into() });
        for (result, told, status, has_outcome) in [
            (Ok(Ended::TimeUp), None, Status::Done, true),
            (Ok(Ended::Interrupted), Some(Told::Interrupted), Status::Interrupted, true),
            (Ok(Ended::Interrupted), Some(Told::TimedOut), Status::TimedOut { after_seconds: 5.0 }, true),
            (Ok(Ended::Interrupted), None, Status::Interrupted, true),
            (Err("killed"), Some(Told::TimedOut), Status::TimedOut { after_seconds: 5.0 }, false),
            (Err("killed"), None, failed("killed"), false),
            (broke(), None, failed("EIO"), true),
        ] {
            let mut report = Report::empty(Status::Interrupted);
            let concluded = conclude(departure(result.clone(), told), 5.0, &mut report);
            assert_eq!((concluded, report.outcome.is_some()), (status, has_outcome), "{result:?} {told:?}");
        }
    }
}
