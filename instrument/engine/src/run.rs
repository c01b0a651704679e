//! The story of a run: make the files, start the threads, watch them, sum up.

use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::*};

use rustix::fs::{Mode, OFlags};
use stats::outcome::Outcome;
use workload::{DataSpec, IoMode, Kind, Layout, Step, Value, Workload};

use crate::control::Control;
use crate::create::Creation;
use crate::error::Error;
use crate::file_space::FileSpace;
use crate::fileset::LiveFileset;
use crate::limit::Schedule;
use crate::listing;
use crate::options::{Event, RunOptions, Stage};
use crate::outcome::{empty_outcome, sum_up};
use crate::place;
use crate::program::Programs;
use crate::raw::{self, ApprovedDevice};
use crate::shared::{Periods, Shared, Totals};
use crate::system;
use crate::threads::{self, Gate, LiveThreads, RunContext};
use crate::volume::Volume;
use crate::watch::{LOOK_NS, Plan, Watch};

/// Share of the free space that append-only filesets may fill before their files are cut back.
const GROWTH_SHARE: f64 = 0.4;

/// Most threads of a run: the kernel's own default limit is of this order.
const THREADS_MAX: u64 = 32_768;

/// Runs `workload` below `root`.
///
/// The calling thread tells `on_event` what happens. With [`Stage::Prepare`] the outcome is empty. What an operation does
/// wrong is part of the outcome ([`stats::Ended::Failed`]); an `Err` means that there was no run. Block devices that the workload
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
    approved: &[ApprovedDevice],
) -> Result<Outcome, Error> {
    let fd = rustix::fs::open(root, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|error| Error::io("cannot open the target", root, error))?;
    on_ground(
        workload,
        FileSpace::Directory { path: root, fd: fd.as_fd() },
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
    on_ground(workload, FileSpace::Volume(volume), options, control, on_event, &[])
}

fn on_ground(
    workload: &Workload,
    ground: FileSpace<'_>,
    options: &RunOptions,
    control: &Control,
    on_event: &mut dyn FnMut(Event),
    approved: &[ApprovedDevice],
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

struct Run<'a> {
    workload: &'a Workload,
    ground: FileSpace<'a>,
    options: &'a RunOptions,
    control: &'a Control,
    trees: Vec<String>,
    approved: &'a [ApprovedDevice],
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
        self.workload.replayed_files_fit(self.ground.free_bytes()).map_err(Error::Invalid)?;
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
                one.device = Some(device.display().to_string());
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
            lanes: AtomicU64::new(0),
            totals: (0..totals).map(|_| Totals::default()).collect(),
            lines: Mutex::default(),
            periods: Mutex::new(Periods::new(plan.period_seconds.is_some_and(|period| period < 0))),
            cut_back: AtomicU64::new(0),
        };
        let published: Vec<AtomicU64> = (0..threads).map(|_| AtomicU64::new(0)).collect();
        let (gate, alive) = (Gate::default(), LiveThreads::new(threads as usize));
        let (results, failure) = (Mutex::default(), Mutex::default());
        let crew = RunContext {
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

/// The fixed rate of `eventgen`, for callers that want to show it.
pub fn event_rate(workload: &Workload) -> Option<u64> {
    workload.events_per_second.and_then(Value::fixed).filter(|rate| *rate > 0)
}
