//! The story of a run: make the files, start the threads, watch them, sum up.

use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::*};

use rustix::fs::{Mode, OFlags};
use stats::outcome::{Ended, Metric, OpOutcome, Outcome};
use workload::{DataSpec, EndMode, IoMode, Kind, Layout, Step, Value, Workload};

use crate::clock::Clock;
use crate::control::Control;
use crate::create::Creation;
use crate::error::Error;
use crate::fileset::LiveFileset;
use crate::ground::Ground;
use crate::lane::LaneEnd;
use crate::limit::Schedule;
use crate::listing;
use crate::options::{Event, RunOptions, Stage};
use crate::place;
use crate::program::{Line, Programs};
use crate::raw::{self, Approved};
use crate::record::{OpRecord, Timing};
use crate::shared::{Periods, Shared, Totals};
use crate::system;
use crate::threads::{self, Alive, Crew, Gate, LaneResult};
use crate::usage::Usage;
use crate::volume::Volume;

const SECOND_NS: u64 = 1_000_000_000;

/// How often the watching thread looks.
const LOOK_NS: u64 = 100_000_000;

/// `run` without a length, in mode timeout.
const DEFAULT_SECONDS: f64 = 60.0;

/// Share of the free space that append-only filesets may fill before their files are cut back.
const GROWTH_SHARE: f64 = 0.4;

/// Most threads of a run: the kernel's own default limit is of this order.
const THREADS_MAX: u64 = 32_768;

/// Looks of the watching thread in a row that must find every thread waiting for another one.
const DEADLOCK_LOOKS: u32 = 5;

/// Runs `workload` below `root`.
///
/// The calling thread tells `on_event` what happens. With [`Stage::Prepare`] the outcome is empty. What an operation does
/// wrong is part of the outcome ([`Ended::Failed`]); an `Err` means that there was no run. Block devices that the workload
/// names are only read: [`run_with_devices`] writes to some.
pub fn run(
    workload: &Workload,
    root: &Path,
    options: &RunOptions,
    control: &Control,
    on_event: &mut dyn FnMut(Event),
) -> Result<Outcome, Error> {
    run_with_devices(workload, root, options, control, on_event, &[])
}

/// As [`run`]; block devices that the workload names may be written if they are among `approved`.
pub fn run_with_devices(
    workload: &Workload,
    root: &Path,
    options: &RunOptions,
    control: &Control,
    on_event: &mut dyn FnMut(Event),
    approved: &[Approved],
) -> Result<Outcome, Error> {
    let fd = rustix::fs::open(root, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|error| Error::io("cannot open the target", root, error))?;
    on_ground(
        workload,
        Ground::Directory { path: root, fd: fd.as_fd() },
        options,
        control,
        on_event,
        approved,
    )
}

/// Runs `workload` on a file system in this process, as [`run`] does below a directory. There, `system "..."` has no
/// directory to run in and io_uring nothing to ask: both are refused.
pub fn run_on(
    workload: &Workload,
    volume: &dyn Volume,
    options: &RunOptions,
    control: &Control,
    on_event: &mut dyn FnMut(Event),
) -> Result<Outcome, Error> {
    if let IoMode::Uring { .. } = options.io {
        let what = "a file system in this process is not reached through io_uring: leave out `--io uring`";
        return Err(Error::Invalid(what.into()));
    }
    if let Some(device) = workload.filesets.iter().find_map(raw::path_of) {
        let what =
            format!("the block device {} is not within a file system in this process", device.display());
        return Err(Error::Invalid(what));
    }
    on_ground(workload, Ground::Volume(volume), options, control, on_event, &[])
}

fn on_ground(
    workload: &Workload,
    ground: Ground<'_>,
    options: &RunOptions,
    control: &Control,
    on_event: &mut dyn FnMut(Event),
    approved: &[Approved],
) -> Result<Outcome, Error> {
    system::allowed(workload, options)?;
    raise_open_files();
    let trees = place::roots(&workload.filesets)?;
    let layouts = layouts(workload, options.seed_of_files())?;
    let run = Run { workload, ground, options, control, trees, approved };
    if options.stage != Stage::Measure {
        run.prepare(&layouts, on_event)?;
    }
    if options.stage == Stage::Prepare {
        return Ok(empty_outcome());
    }
    run.measure(layouts, on_event)
}

/// Workloads such as an OLTP one hold thousands of files open; the usual soft limit is 1,024.
fn raise_open_files() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // A refusal shows as EMFILE, with its remedy, if the limit is ever met.
    let _ = setrlimit(Resource::Nofile, limit);
}

pub(crate) fn layouts(workload: &Workload, seed: u64) -> Result<Vec<Layout>, Error> {
    workload
        .filesets
        .iter()
        .map(|fileset| {
            Layout::build(fileset, &workload.draws, seed).map_err(|error| Error::Invalid(error.to_string()))
        })
        .collect()
}

fn empty_outcome() -> Outcome {
    Outcome {
        measured_seconds: 0.0,
        warmup_seconds: 0.0,
        ended: Ended::Done,
        ops: Vec::new(),
        metrics: Vec::new(),
        notes: Vec::new(),
    }
}

struct Run<'a> {
    workload: &'a Workload,
    ground: Ground<'a>,
    options: &'a RunOptions,
    control: &'a Control,
    trees: Vec<String>,
    approved: &'a [Approved],
}

/// The times that the script and the options ask for.
pub(crate) struct Plan {
    pub(crate) seconds: Option<f64>,
    pub(crate) ops: Option<u64>,
    pub(crate) warmup_seconds: f64,
    pub(crate) period_seconds: Option<i64>,
}

impl Plan {
    /// What the options say goes before what the script says.
    pub(crate) fn of(workload: &Workload, options: &RunOptions) -> Plan {
        let (mut seconds, mut ops, mut period_seconds, mut warmup) = (None, None, None, 0);
        for step in &workload.script {
            if let Step::Run { seconds: s, ops: o, report_period_seconds: p, warmup_seconds: w } = step {
                (seconds, ops, period_seconds, warmup) = (s.map(|s| s as f64), *o, *p, *w);
            }
        }
        // a script's number of operations is an end of the run, and a time that is told is another
        let ops = options.ops.or(ops.filter(|_| options.seconds.is_none()));
        let until_done = workload.end != EndMode::Timeout || ops.is_some();
        let asked = options.seconds.or(seconds).filter(|seconds| *seconds > 0.0);
        Plan {
            seconds: asked.or((!until_done).then_some(DEFAULT_SECONDS)),
            ops,
            warmup_seconds: options.warmup_seconds.unwrap_or(warmup as f64).max(0.0),
            period_seconds: period_seconds.filter(|period| *period != 0),
        }
    }
}

impl Run<'_> {
    /// The script up to its run, the creation of the files included.
    fn prepare(&self, layouts: &[Layout], on_event: &mut dyn FnMut(Event)) -> Result<(), Error> {
        let mut created = false;
        for step in &self.workload.script {
            if self.control.stopped() {
                return Err(Error::Interrupted);
            }
            match step {
                Step::Echo(text) => on_event(Event::Line { text: text.clone() }),
                Step::System(command) => system::run(self.ground, command, on_event)?,
                Step::ListFilesets { defined } => listing::filesets(self.workload, layouts, *defined)
                    .into_iter()
                    .for_each(|text| on_event(Event::Line { text })),
                Step::SleepSeconds(seconds) => self.sleep(*seconds),
                Step::CreateFiles if !created => {
                    self.create(layouts, on_event)?;
                    created = true;
                }
                Step::CreateFiles | Step::Run { .. } => {}
            }
        }
        if !created {
            self.create(layouts, on_event)?;
        }
        if self.options.settle {
            self.ground.sync()?;
        }
        Ok(())
    }

    fn sleep(&self, seconds: u64) {
        let until = std::time::Instant::now() + std::time::Duration::from_secs(seconds);
        let idle = crate::event::Event::default();
        while std::time::Instant::now() < until && !self.control.stopped() {
            idle.block(0, LOOK_NS);
        }
    }

    /// Makes all filesets, the last defined first, as Filebench does.
    fn create(&self, layouts: &[Layout], on_event: &mut dyn FnMut(Event)) -> Result<(), Error> {
        on_event(Event::Line { text: "Populating and pre-allocating filesets".into() });
        let made = AtomicU64::new(0);
        let total: u64 = self
            .workload
            .filesets
            .iter()
            .zip(layouts)
            .map(|(fileset, layout)| {
                layout.initial_files(fileset.prealloc_percent, self.options.seed_of_files()).count() as u64
            })
            .sum();
        let creation = Creation {
            ground: self.ground,
            seed: self.options.seed_of_files(),
            data: self.data(),
            control: self.control,
            made: &made,
        };
        for index in (0..layouts.len()).rev() {
            let fileset = &self.workload.filesets[index];
            if raw::path_of(fileset).is_some() {
                continue;
            }
            let ended = crate::event::Event::default();
            let lines = std::thread::scope(|scope| {
                let worker = scope.spawn(|| {
                    let _telling = crate::event::NotifyAtEnd(&ended);
                    creation.create(fileset, &layouts[index], &self.trees[index])
                });
                while ended.seen() == 0 {
                    on_event(Event::Creating { done: made.load(Relaxed), total });
                    ended.block(0, LOOK_NS / 4);
                }
                worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })?;
            lines.into_iter().for_each(|text| on_event(Event::Line { text }));
        }
        on_event(Event::Creating { done: made.load(Relaxed), total });
        on_event(Event::Line { text: "Population and pre-allocation of filesets completed".into() });
        Ok(())
    }

    fn data(&self) -> DataSpec {
        DataSpec {
            compress_percent: self.options.compress_percent,
            duplicate_percent: self.options.duplicate_percent,
        }
    }

    fn plan(&self) -> Plan {
        Plan::of(self.workload, self.options)
    }

    /// The filesets as they are at the start of the load.
    fn filesets(&self, layouts: Vec<Layout>, programs: &Programs) -> Result<Vec<LiveFileset>, Error> {
        let changes = changing(self.workload, programs);
        let free = self.ground.free_bytes();
        let share = (free as f64 * GROWTH_SHARE / layouts.len().max(1) as f64) as u64;
        let mut live = Vec::with_capacity(layouts.len());
        for (index, layout) in layouts.into_iter().enumerate() {
            let fileset = &self.workload.filesets[index];
            let percent = fileset.prealloc_percent;
            let raw = raw::path_of(fileset);
            // A device is always there.
            let percent = if raw.is_some() { 100 } else { percent };
            let mut one = LiveFileset::new(
                layout,
                &self.trees[index],
                changes.files[index],
                percent,
                self.options.seed_of_files(),
            );
            one.read_only = fileset.read_only;
            one.write_only = fileset.write_only;
            if let Some(device) = raw {
                if changes.files[index] {
                    return Err(Error::DeviceChanges { device: device.display().to_string() });
                }
                let written = raw::is_written(self.workload, fileset);
                // then it is opened for reading only, whatever the fileset says
                one.read_only = !written;
                one.raw = Some(raw::open_path(&device, written, self.approved)?);
            } else if !changes.deleted[index] {
                one.growth_limit_bytes = share;
            }
            live.push(one);
        }
        Ok(live)
    }

    fn measure(&self, layouts: Vec<Layout>, on_event: &mut dyn FnMut(Event)) -> Result<Outcome, Error> {
        let plan = self.plan();
        let programs = Programs::compile(self.workload);
        let threads = threads::count(self.workload);
        if threads == 0 {
            return Err(Error::Invalid(
                "the workload defines no threads: add `define process ... { thread ... { ... } }`".into(),
            ));
        }
        if threads > THREADS_MAX {
            return Err(Error::Invalid(format!(
                "{threads} threads are more than {THREADS_MAX}: lower `instances`"
            )));
        }
        let totals = if programs.needs_totals { threads::processes(self.workload) } else { 0 };
        let shared = Shared {
            filesets: self.filesets(layouts, &programs)?,
            end_mode: self.workload.end,
            strict: self.options.strict,
            control: self.control,
            pace: self.options.rate.and_then(Schedule::new),
            ops_left: plan.ops.map(AtomicU64::new),
            totals: (0..totals).map(|_| Totals::default()).collect(),
            lines: Mutex::default(),
            periods: Mutex::new(Periods::new(plan.period_seconds.is_some_and(|period| period < 0))),
            cut_back: AtomicU64::new(0),
        };
        let published: Vec<AtomicU64> = (0..threads).map(|_| AtomicU64::new(0)).collect();
        let (gate, alive) = (Gate::default(), Alive::new(threads as usize));
        let (results, failure) = (Mutex::default(), Mutex::default());
        let crew = Crew {
            workload: self.workload,
            programs: &programs,
            shared: &shared,
            options: self.options,
            ground: Some(self.ground),
            published: &published,
            periods_start_anew: plan.period_seconds.is_some_and(|period| period < 0),
            gate: &gate,
            alive: &alive,
            results: &results,
            failure: &failure,
        };
        if self.workload.latency_counters {
            on_event(Event::LatencyCounters);
        }
        for process in self.workload.processes.iter().rev() {
            on_event(Event::Line {
                text: format!("Starting {} {} instances", process.instances, process.name),
            });
        }
        let mut watch = Watch::new(&crew, &plan, on_event);
        crew.run(|| watch.watch());
        let watched = watch.done();
        if let Some(error) = failure.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()) {
            return Err(error);
        }
        let results = results.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
        Ok(sum_up(self.workload, &programs, &shared, results, watched))
    }
}

/// The result of a run from those of its lanes.
pub(crate) fn sum_up(
    workload: &Workload,
    programs: &Programs,
    shared: &Shared<'_>,
    results: Vec<LaneResult>,
    watched: Watched,
) -> Outcome {
    let Watched { timing, usage, mut notes } = watched;
    let mut sums = vec![OpRecord::default(); programs.lines.len()];
    for result in &results {
        let program = &programs.programs[result.program.0][result.program.1];
        for (op, record) in program.ops.iter().zip(&result.ops) {
            sums[op.line].merge(record);
        }
    }
    notes.extend(system::notes(workload));
    let cut_back = shared.cut_back.load(Relaxed);
    let mut metrics: Vec<Metric> =
        usage.iter().map(|(name, unit, value)| metric(name, unit, *value)).collect();
    if cut_back > 0 {
        metrics.push(metric("append_only_files_cut_back", "1", cut_back as f64));
        notes.push(
            "append-only files were cut back to their nominal size when they had filled 40 % of the free space"
                .into(),
        );
    }
    for result in results.iter().filter(|result| result.drawn.0 > 0) {
        let (count, mean, squares) = result.drawn;
        let deviation = (squares / count as f64).sqrt() / mean.abs().max(f64::MIN_POSITIVE);
        notes.push(format!("testrandvar: {count} values, mean {mean:.3}, relative deviation {deviation:.3}"));
    }
    let (ended, measured_ns) = ended(workload, shared.control, &results, &timing);
    Outcome {
        measured_seconds: measured_ns as f64 / 1e9,
        warmup_seconds: (timing.measure_ns - timing.begin_ns) as f64 / 1e9,
        ended,
        ops: programs.lines.iter().zip(sums).map(|(line, sum)| op_outcome(line, sum)).collect(),
        metrics,
        notes,
    }
}

/// Why the run ended, and the length of the measured interval: of each thread that was at work to the end, until its
/// last operation ended, on average; until the last thread ended when the run was to do a set amount of work.
/// Threads that had nothing more to do before would make the interval shorter than it was.
fn ended(workload: &Workload, control: &Control, results: &[LaneResult], timing: &Timing) -> (Ended, u64) {
    let measured = |result: &LaneResult| result.end_ns.saturating_sub(timing.measure_ns);
    let longest = results.iter().map(measured).max().unwrap_or(0);
    let lasting = || results.iter().filter(|result| result.end != LaneEnd::Done);
    let mean = match lasting().count() as u64 {
        0 => longest,
        count => lasting().map(measured).sum::<u64>() / count,
    };
    let first = |wanted: fn(&LaneEnd) -> bool| results.iter().find(|result| wanted(&result.end));
    if let Some(LaneResult { end: LaneEnd::Failed(fault), .. }) =
        first(|end| matches!(end, LaneEnd::Failed(_)))
    {
        return (Ended::Failed { message: fault.what.clone() }, mean);
    }
    if control.interrupted() {
        return (Ended::Interrupted, mean);
    }
    if first(|end| *end == LaneEnd::OpsReached).is_some() {
        return (Ended::OpsReached, longest);
    }
    let done = match workload.end {
        EndMode::Timeout | EndMode::FirstDone => first(|end| *end == LaneEnd::Done).is_some(),
        EndMode::AllDone => lasting().next().is_none(),
    };
    if done { (Ended::Done, longest) } else { (Ended::TimeUp, mean) }
}

/// Whether files come or go under a workload: then two runs cannot share them, since each keeps books of its own.
pub fn changes_files(workload: &Workload) -> bool {
    changing(workload, &Programs::compile(workload)).files.contains(&true)
}

/// Which filesets a workload changes.
pub(crate) struct Changes {
    /// Files come or go.
    pub(crate) files: Vec<bool>,
    /// Files go.
    deleted: Vec<bool>,
}

pub(crate) fn changing(workload: &Workload, programs: &Programs) -> Changes {
    let none = vec![false; workload.filesets.len()];
    let mut changes = Changes { files: none.clone(), deleted: none };
    for op in programs.programs.iter().flatten().flat_map(|program| &program.ops) {
        let deletes = op.flow.kind == Kind::DeleteFile;
        if !deletes && op.flow.kind != Kind::CreateFile {
            continue;
        }
        for index in 0..workload.filesets.len() {
            // A delete by slot may hit any fileset.
            if op.flow.fileset.is_none_or(|fileset| fileset == index) || (deletes && op.flow.fd > 0) {
                changes.files[index] = true;
                changes.deleted[index] |= deletes;
            }
        }
    }
    changes
}

fn op_outcome(line: &Line, sum: OpRecord) -> OpOutcome {
    OpOutcome {
        name: line.name.clone(),
        kind: line.kind.to_owned(),
        class: line.class,
        direction: line.direction,
        ops: sum.ops,
        bytes: sum.bytes,
        errors: sum.errors,
        starved: sum.starved,
        service: sum.service,
        intended: sum.intended.map(|histogram| *histogram),
        ops_per_second: sum.seconds.iter().map(|second| second.0).collect(),
        bytes_per_second: sum.seconds.iter().map(|second| second.1).collect(),
        over_time: sum.over_time.finish(),
    }
}

fn metric(name: &str, unit: &str, value: f64) -> Metric {
    Metric { name: name.into(), unit: unit.into(), value }
}

/// What the watching thread brings back.
pub(crate) struct Watched {
    pub(crate) timing: Timing,
    pub(crate) usage: Vec<(&'static str, &'static str, f64)>,
    pub(crate) notes: Vec<String>,
}

/// The watching thread: opens the gate, tells the time, ends the run.
struct Watch<'w, 'r> {
    crew: &'w Crew<'r>,
    plan: &'w Plan,
    on_event: &'w mut dyn FnMut(Event),
    clock: Clock,
    timing: Timing,
    usage_at_start: Option<Usage>,
    usage_at_end: Option<Usage>,
    periods_told: usize,
    notes: Vec<String>,
}

impl<'w, 'r> Watch<'w, 'r> {
    fn new(crew: &'w Crew<'r>, plan: &'w Plan, on_event: &'w mut dyn FnMut(Event)) -> Watch<'w, 'r> {
        let timing = Timing { begin_ns: 0, measure_ns: 0, deadline_ns: u64::MAX, period_ns: 0 };
        Watch {
            crew,
            plan,
            on_event,
            clock: Clock::get(),
            timing,
            usage_at_start: None,
            usage_at_end: None,
            periods_told: 0,
            notes: Vec::new(),
        }
    }

    fn watch(&mut self) {
        if self.wait_until_ready() {
            (self.on_event)(Event::Ready);
        }
        if self.crew.shared.control.stopped() || self.crew.gate.ready() < self.crew.published.len() {
            self.crew.gate.open(None);
            return;
        }
        self.timing = self.times();
        if let Some(slices) = self.crew.shared.control.slices() {
            slices.begin(self.lanes());
        }
        self.crew.gate.open(Some(self.timing));
        (self.on_event)(Event::Line { text: "Running...".into() });
        let mut stuck = 0;
        while self.alive() > 0 {
            let now = self.clock.now();
            let next =
                [self.timing.measure_ns, self.timing.deadline_ns].into_iter().filter(|at| *at > now).min();
            self.crew.alive.wait(next.map_or(LOOK_NS, |at| (at - now).min(LOOK_NS)));
            self.look(&mut stuck);
        }
        self.usage_at_end.get_or_insert_with(Usage::now);
        self.tell_periods(true);
        self.tell_lines();
    }

    fn alive(&self) -> usize {
        self.crew.alive.count()
    }

    /// False: some thread could not be started, or the user interrupted.
    fn wait_until_ready(&mut self) -> bool {
        let idle = crate::event::Event::default();
        while self.crew.gate.ready() < self.crew.published.len() {
            if self.crew.shared.control.stopped() {
                return false;
            }
            idle.block(0, 1_000_000);
        }
        !self.crew.shared.control.stopped()
    }

    fn times(&self) -> Timing {
        let ns = |seconds: f64| (seconds * 1e9).min(9e18) as u64;
        // Long enough for every thread to wake up before the load begins.
        let wake_ns = 1_000_000 + 20_000 * self.crew.published.len() as u64;
        let begin_ns = self.clock.now() + wake_ns;
        let measure_ns = begin_ns + ns(self.plan.warmup_seconds);
        let deadline_ns =
            self.plan.seconds.map_or(u64::MAX, |seconds| measure_ns.saturating_add(ns(seconds)));
        let period_ns =
            self.plan.period_seconds.map_or(0, |period| period.unsigned_abs().saturating_mul(SECOND_NS));
        Timing { begin_ns, measure_ns, deadline_ns, period_ns }
    }

    fn look(&mut self, stuck: &mut u32) {
        let now = self.clock.now();
        let control = self.crew.shared.control;
        if now >= self.timing.measure_ns {
            self.usage_at_start.get_or_insert_with(Usage::now);
        }
        if now >= self.timing.deadline_ns {
            self.usage_at_end.get_or_insert_with(Usage::now);
            control.finish();
        }
        if self.crew.shared.ops_left.as_ref().is_some_and(|left| left.load(Relaxed) == 0) {
            self.stop_if_idle(stuck, "the set number of operations is done");
        } else if control.slices().is_none()
            && control.waiting_threads() as usize >= self.alive()
            && self.alive() > 0
        {
            self.stop_if_idle(
                stuck,
                "every thread waited for another one (block, semblock): the run was ended",
            );
        } else {
            *stuck = 0;
        }
        self.tell_lines();
        self.tell_periods(false);
        (self.on_event)(Event::Running {
            elapsed_seconds: (now as f64 - self.timing.measure_ns as f64) / 1e9,
            total_seconds: self.plan.seconds,
            io_ops: self.crew.published.iter().map(|count| count.load(Relaxed)).sum(),
        });
    }

    fn stop_if_idle(&mut self, looks: &mut u32, note: &str) {
        *looks += 1;
        if *looks == DEADLOCK_LOOKS {
            self.notes.push(note.to_owned());
            self.crew.shared.control.finish();
        }
    }

    fn tell_lines(&mut self) {
        let lines = std::mem::take(
            &mut *self.crew.shared.lines.lock().unwrap_or_else(|poisoned| poisoned.into_inner()),
        );
        lines.into_iter().for_each(|text| (self.on_event)(Event::Line { text }));
    }

    fn lanes(&self) -> usize {
        let depth = match self.crew.options.io {
            IoMode::Psync => 1,
            IoMode::Uring { depth } => depth.max(1) as usize,
        };
        self.crew.published.len() * depth
    }

    /// Tells the periods to which every lane has added its part (or, at the end, all that are left).
    fn tell_periods(&mut self, all: bool) {
        let lanes = self.lanes();
        loop {
            let mut periods =
                self.crew.shared.periods.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            let Some(sums) = periods.take(self.periods_told, if all { 0 } else { lanes }) else { return };
            drop(periods);
            let (from_ns, at_ns) = self.timing.period(self.periods_told);
            self.periods_told += 1;
            let covered_ns = if self.crew.periods_start_anew { at_ns - from_ns } else { at_ns };
            let outcome = Outcome {
                measured_seconds: covered_ns as f64 / 1e9,
                ended: Ended::TimeUp,
                ops: (self.crew.programs.lines.iter().zip(sums))
                    .map(|(line, sum)| op_outcome(line, sum))
                    .collect(),
                ..empty_outcome()
            };
            (self.on_event)(Event::Period { at_seconds: at_ns as f64 / 1e9, outcome });
        }
    }

    fn done(self) -> Watched {
        let usage = match (self.usage_at_start, self.usage_at_end) {
            (Some(start), Some(end)) => end.since(&start),
            _ => Vec::new(),
        };
        Watched { timing: self.timing, usage, notes: self.notes }
    }
}

/// The fixed rate of `eventgen`, for callers that want to show it.
pub fn event_rate(workload: &Workload) -> Option<u64> {
    workload.events_per_second.and_then(Value::fixed).filter(|rate| *rate > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_is_told_replaces_the_scripts_number_of_operations() {
        let run =
            Step::Run { seconds: Some(9), ops: Some(100), report_period_seconds: None, warmup_seconds: 0 };
        let workload = Workload { script: vec![run], ..Workload::default() };
        let of = |seconds, ops| {
            let plan = Plan::of(&workload, &RunOptions { seconds, ops, ..RunOptions::default() });
            (plan.seconds, plan.ops)
        };
        assert_eq!(of(None, None), (Some(9.0), Some(100)));
        assert_eq!(of(Some(5.0), None), (Some(5.0), None));
        assert_eq!(of(Some(5.0), Some(7)), (Some(5.0), Some(7)), "both were told");
        assert_eq!(of(None, Some(7)), (Some(9.0), Some(7)));
    }
}
