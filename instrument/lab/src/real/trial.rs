//! One trial on the way: stack, workers, what came of them.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use camino::Utf8PathBuf;
use container::Runtime;
use engine::options::{Event, RunOptions, Stage};
use host::Host;
use journal::{Cgroup, Journal, PrivateTree};
use probe::external_cpu::TrialProcesses;
use probe::fsync::{RecordError, record_within};
use stats::Outcome;
use study::fsync::FsyncSplit;
use study::results::{Parameter, Status};

use super::ending::{conclude, status};
use super::evidence;
use super::observer::{Observations, TrialObserver};
use crate::limit;
use crate::load::{self, ResolvedLoad, ResolvedWorkload};
use crate::protocol::Request;
use crate::ranks::RankGroup;
use crate::runner::{Job, Progress, Report};
use crate::stack_factory::{BuiltStack, StackFactory};
use crate::trial::containers::{Containers, Plan};
use crate::trial::executor::{Executor, Failure};
use crate::trial::machine::{MachineSampler, SampleHook};
use crate::trial::process::{Process, Program};
use crate::trial::ranks::END_PATIENCE;
use crate::trial::supervisor::{Supervision, WorkersOutcome, execute};

/// Time-out of a trial for which the study gives none: this, and twice its load.
const TIMEOUT_SECONDS: f64 = 3600.0;
/// Bytes of trace that are kept of a trial: some 20,000 fsyncs.
const TRACE_BYTES_MAX: u64 = 128 << 20;

/// How long the last of several workers may take after the first, beside the time of the load.
const STRAGGLING: Duration = Duration::from_secs(60);

/// Trials of this length or more have a yardstick, which takes 0.1 s: a tenth at most.
const YARDSTICK_FROM_SECONDS: f64 = 1.0;

/// With less than that a file system is full for a load: what is left is too small for what it asked for.
const FULL_BYTES: u64 = 4 << 20;

/// Where a trial runs.
#[derive(Clone, Copy)]
pub(super) struct TrialTarget<'a> {
    /// Builds its stack.
    pub site: &'a StackFactory,
    /// What becomes its processes.
    pub program: &'a Program,
    /// What it makes is noted there.
    pub journal: &'a Arc<Journal>,
    /// The ranks that run the load, when a launcher started several.
    pub crew: Option<&'a Mutex<RankGroup>>,
    /// Unlike that of any other trial of this process.
    pub number: u32,
    /// Hears of the machine's samples.
    pub sampled: Option<&'a SampleHook>,
}

/// One trial on the way.
pub(super) struct Trial<'a> {
    pub(super) place: TrialTarget<'a>,
    pub(super) job: &'a Job<'a>,
    pub(super) stop: &'a AtomicBool,
    pub(super) progress: &'a mut dyn FnMut(Progress),
    pub(super) timeout_seconds: f64,
    pub(super) deadline: Instant,
    pub(super) report: Report,
}

/// What the processes of a trial have in common.
pub(super) struct Processes<'l> {
    pub(super) load: &'l ResolvedWorkload,
    pub(super) program: Program,
    pub(super) request: Request,
    pub(super) machine: MachineSampler,
    pub(super) group: Option<Arc<Cgroup>>,
    /// What a program of the load leaves there when it is killed is in the journal.
    _temporary: Option<PrivateTree>,
}

/// What one process of a trial is to do.
#[derive(Debug, Clone, Copy)]
pub(super) enum ProcessTask {
    /// A stage of a WML script.
    Stage(Stage),
    /// A phase of an application.
    Phase(u32),
}

impl<'a> Trial<'a> {
    /// A trial that begins now.
    pub(super) fn new(
        place: TrialTarget<'a>,
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
        if let ResolvedLoad::Simulated(_) = self.job.load.load {
            return self.simulated();
        }
        if let Some(app) = self.job.load.app() {
            app.provide(self.place.site.home().as_std_path(), &mut |line| {
                (self.progress)(Progress::Engine(Event::Line { text: line.to_string() }));
            })?;
        }
        (self.progress)(Progress::Building);
        let built = self.place.site.build(self.job.stack, self.place.journal)?;
        self.report.commands = evidence::commands(&built);
        let status = self.on_stack(&built);
        self.take_down(built, status)
    }

    /// Takes a stack down, or keeps it: what its trial then came to.
    pub(super) fn take_down(
        &mut self,
        built: BuiltStack,
        mut status: Result<Status, Failure>,
    ) -> Result<Status, Failure> {
        if let Ok(Status::Failed { message }) | Err(Failure::Message(message)) = &mut status
            && let Some(trouble) = built.problem()
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
    fn on_stack(&mut self, built: &BuiltStack) -> Result<Status, Failure> {
        // The wish may have come while the stack was built.
        if self.stop.load(Ordering::Acquire) {
            return Ok(Status::Interrupted);
        }
        let resized = self.resized(built)?;
        let load = resized.as_ref().unwrap_or(self.job.load);
        let processes = self.processes(load, built)?;
        let mut departure = match &load.load {
            _ if let Some(crew) = self.place.crew => self.ranked(crew, built, &processes)?,
            _ if let Some(number) = load.containers => self.contained(number, built, &processes)?,
            ResolvedLoad::App(app) => self.phases(app.phases(), built, &processes)?,
            ResolvedLoad::Wml(_) | ResolvedLoad::Simulated(_) => self.stages(built, &processes)?,
        };
        // an engine in the process that meets a full disk may end it there: RocksDB with Debian's assertions does
        if departure.is_without_a_word()
            && built.free_bytes().is_ok_and(|free| free < FULL_BYTES)
            && let Err(message) = &mut departure.result
        {
            message.push_str(&apps::full_disk());
        }
        Ok(self.concluded(departure, built, processes.group.as_deref()))
    }

    /// What the load on a stack came to, with what the stack and the memory limit tell of it.
    pub(super) fn concluded(
        &mut self,
        mut departure: WorkersOutcome,
        built: &BuiltStack,
        group: Option<&Cgroup>,
    ) -> Status {
        if let (Ok(outcome), Some(status)) = (&mut departure.result, built.ssd_status()) {
            outcome.metrics.extend(evidence::ssd_metrics(&status));
            outcome.notes.extend(self.job.stack.time_scale().and_then(evidence::scale_note));
        }
        if let Some(group) = group {
            limit::leave(group, &mut departure);
        }
        conclude(departure, self.timeout_seconds, &mut self.report)
    }

    /// A load in virtual time: there is nothing to build.
    fn simulated(&mut self) -> Result<Status, Failure> {
        let load = self.job.load;
        self.show(load);
        self.report.environment = Some(evidence::without_place());
        let home = self.place.site.home().as_std_path();
        let request = Request::new(load.spec(), home, std::path::Path::new(""), run_options(self.job));
        let machine = self.machine(&request);
        let program = self.place.program.clone();
        let processes = Processes { load, program, request, machine, group: None, _temporary: None };
        let departure = self.alone(ProcessTask::Stage(Stage::All), &processes)?;
        Ok(conclude(departure, self.timeout_seconds, &mut self.report))
    }

    /// Keeps what is known of a load before it runs.
    fn show(&mut self, load: &ResolvedWorkload) {
        let variable =
            |(name, value): &(String, String)| Parameter { name: name.clone(), value: value.clone() };
        self.report.variables = load.variables.iter().map(variable).collect();
        self.report.log.extend(load.warnings.lines().map(str::to_string));
    }

    /// The load once more, when it depends on the target, whose size is known by now.
    pub(super) fn resized(&self, built: &BuiltStack) -> Result<Option<ResolvedWorkload>, Failure> {
        let Job { load, workload, cell, study, .. } = self.job;
        if !load.sized_by_target {
            return Ok(None);
        }
        let machine = wml::Machine { free_bytes: built.free_bytes().unwrap_or(0), ..load.machine };
        let prepared = load::prepare(workload, &cell.parameters, &study.study, machine);
        prepared.map(Some).map_err(|error| Failure::Message(error.to_string()))
    }

    /// What the processes of the load have in common.
    pub(super) fn processes<'l>(
        &mut self,
        load: &'l ResolvedWorkload,
        built: &BuiltStack,
    ) -> Result<Processes<'l>, Failure> {
        self.show(load);
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
        let home = self.place.site.home().as_std_path();
        let request = Request {
            in_process,
            erase: self.place.site.builder.erase.clone(),
            ..Request::new(load.spec(), home, root.as_std_path(), run_options(self.job))
        };
        let machine = MachineSampler {
            device: environment.devices.first().map(|device| device.name.clone()),
            disk: environment.devices.last().map(|device| device.name.clone()),
            ssd: built.ssd().map(|ssd| ssd.state().name.clone()),
            ..self.machine(&request)
        };
        self.report.environment = Some(environment);
        let temporary =
            load.app().filter(|_| load.containers.is_none()).map(|_| self.temporary()).transpose()?;
        let folder: Option<PathBuf> = temporary.as_ref().map(|tree| tree.path().as_std_path().to_owned());
        let program = Program { temporary: folder, ..self.place.program.clone() };
        Ok(Processes { load, program, request, machine, group, _temporary: temporary })
    }

    fn machine(&self, request: &Request) -> MachineSampler {
        MachineSampler {
            own: if self.place.crew.is_some() {
                TrialProcesses::ranks()
            } else {
                TrialProcesses::of_this_process()
            },
            device: None,
            disk: None,
            ssd: None,
            home: request.home.clone(),
            root: request.root.clone(),
            sampled: self.place.sampled.cloned(),
        }
    }

    /// Runs the workers of an executor to their ends, and the machine's watch around them. `several`: what they are when there
    /// may be more than one.
    pub(super) fn execute<E: Executor<Result = Outcome>>(
        &mut self,
        processes: &Processes<'_>,
        executor: E,
        several: Option<&'static str>,
    ) -> Result<WorkersOutcome, Failure> {
        let load = processes.load;
        let settle = load.containers.and(Utf8PathBuf::from_path_buf(processes.request.root.clone()).ok());
        let mut seen = Observations::default();
        let mut observer = TrialObserver {
            report: &mut self.report,
            progress: self.progress,
            machine: &processes.machine,
            load,
            is_long: processes.request.options.seconds.is_some_and(|told| told >= YARDSTICK_FROM_SECONDS),
            several,
            settle,
            seen: &mut seen,
        };
        let mut departure = execute(
            executor,
            &mut Supervision {
                stop: self.stop,
                deadline: Some(self.deadline),
                grace: self.place.crew.map_or(processes.program.grace, |_| END_PATIENCE),
                straggling: several.map(|_| Duration::from_secs_f64(load.load_seconds()) + STRAGGLING),
                observer: &mut observer,
            },
        )?;
        if let Ok(outcome) = &mut departure.result {
            seen.add_to(outcome);
        }
        self.report.raw_output.push_str(&departure.raw_output);
        Ok(departure)
    }

    /// Runs the load, or a part of it, in one process.
    pub(super) fn alone(
        &mut self,
        part: ProcessTask,
        processes: &Processes<'_>,
    ) -> Result<WorkersOutcome, Failure> {
        let request = part.of(&processes.request);
        let executor = Process::new(&processes.program, request, processes.group.clone());
        self.execute(processes, executor, None)
    }

    /// Runs the load in containers.
    fn contained(
        &mut self,
        number: u32,
        built: &BuiltStack,
        processes: &Processes<'_>,
    ) -> Result<WorkersOutcome, Failure> {
        let settings = &self.job.study.study;
        if built.in_process().is_some() || settings.cold || settings.explain {
            let why = "containers need a mounted stack that stays so, and processes of their own: leave out \
                       `inprocess`, --cold and --explain";
            return Err(Failure::Message(why.into()));
        }
        let runtime = Runtime::choose(&Host::system())?;
        let plan = Plan {
            number,
            memory_bytes: load::container_bytes(number, settings),
            server_bytes: processes.load.app().and_then(|app| app.server_memory_bytes()),
            request: &processes.request,
            root: built.path(),
            work_dir: &self.place.site.builder.work_dir,
            name: &self.name(),
            program: &processes.program,
            journal: self.place.journal,
            runtime: &runtime,
        };
        let stop = self.stop;
        let containers = Containers::make(&plan, &|| stop.load(Ordering::Acquire))?;
        self.report.log.push(format!("containers made by {runtime}"));
        self.execute(processes, containers, Some("containers"))
    }

    /// Runs a script: in one process, or in two when something is to be done between creation and load.
    fn stages(&mut self, built: &BuiltStack, processes: &Processes<'_>) -> Result<WorkersOutcome, Failure> {
        let settings = &self.job.study.study;
        if !settings.cold && !settings.explain {
            return self.alone(ProcessTask::Stage(Stage::All), processes);
        }
        let prepared = self.alone(ProcessTask::Stage(Stage::Prepare), processes)?;
        if prepared.stopped.is_some() || prepared.result.is_err() {
            return Ok(prepared);
        }
        if settings.cold {
            (self.progress)(Progress::Cooling);
            built.remount_cold()?;
        }
        if settings.explain {
            self.explained(built, processes)
        } else {
            self.alone(ProcessTask::Stage(Stage::Measure), processes)
        }
    }

    /// Runs the load under tracing and keeps the split of its fsyncs.
    fn explained(
        &mut self,
        built: &BuiltStack,
        processes: &Processes<'_>,
    ) -> Result<WorkersOutcome, Failure> {
        let (split, departure) = traced(built, || self.alone(ProcessTask::Stage(Stage::Measure), processes))?;
        self.report.fsync = Some(split);
        departure
    }

    /// Runs the phases of an application, each in a process of its own, the stack cold between them.
    fn phases(
        &mut self,
        number: u32,
        built: &BuiltStack,
        processes: &Processes<'_>,
    ) -> Result<WorkersOutcome, Failure> {
        let mut before: Vec<Outcome> = Vec::new();
        for phase in 0..number {
            if phase > 0 {
                (self.progress)(Progress::Cooling);
                built.remount_cold()?;
            }
            let mut departure = self.alone(ProcessTask::Phase(phase), processes)?;
            if departure.stopped.is_none()
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

    /// Unlike that of any other trial.
    fn name(&self) -> String {
        format!("{}.{}.{}", self.job.run, std::process::id(), self.place.number)
    }

    fn group(&self, bytes: u64) -> Result<Arc<Cgroup>, Failure> {
        let made = limit::group(&self.name(), bytes, self.place.journal);
        made.map_err(|error| match error {
            journal::CgroupError::Unavailable(why) => {
                Failure::Unavailable { reason: why.reason, remedy: why.remedy }
            }
            other => Failure::Message(other.to_string()),
        })
    }
}

/// Runs a load under tracing; the split of its fsyncs, and what came of it.
pub(super) fn traced<T>(built: &BuiltStack, load: impl FnOnce() -> T) -> Result<(FsyncSplit, T), Failure> {
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

impl ProcessTask {
    fn of(self, whole: &Request) -> Request {
        match self {
            ProcessTask::Stage(stage) => {
                Request { options: RunOptions { stage, ..whole.options.clone() }, ..whole.clone() }
            }
            ProcessTask::Phase(phase) => Request { phase, ..whole.clone() },
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
        io: workload.io.unwrap_or(settings.io).0,
        compress_percent: settings.compress.0,
        duplicate_percent: settings.duplicate.0,
        strict: settings.strict,
        stage: Stage::All,
        settle: true,
        allow_system: settings.allow_system,
    }
}
