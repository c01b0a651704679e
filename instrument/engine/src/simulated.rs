//! A run whose lanes somebody else polls: a simulation with a target and a time of its own.
//!
//! The interpreter, the picking of files, the recording and the summing up are those of a real run, so that the same
//! workload with the same seed issues the same operations. There are no threads, no files on disk and no clock: who
//! holds a [`Simulated`] makes the files that it names, and polls the future of each lane.

use std::ffi::CString;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use stats::Outcome;
use workload::{Layout, Workload};

use crate::control::Control;
use crate::error::Error;
use crate::fileset::LiveFileset;
use crate::limit::Schedule;
use crate::options::RunOptions;
use crate::outcome::{self, WatchResult};
use crate::place;
use crate::program::Programs;
use crate::record::Timing;
use crate::run;
use crate::shared::{Periods, Shared, Totals};
use crate::target::Target;
use crate::threads::{self, Gate, LaneResult, LiveThreads, RunContext, ThreadPlace};
use crate::watch::Plan;

/// A run of a workload, without a world.
pub struct Simulated<'r> {
    workload: &'r Workload,
    options: &'r RunOptions,
    programs: Programs,
    shared: Shared<'r>,
    published: Vec<AtomicU64>,
    places: Vec<ThreadPlace>,
    gate: Gate,
    alive: LiveThreads,
    results: Mutex<Vec<LaneResult>>,
    failure: Mutex<Option<Error>>,
}

/// A file or directory that the simulation is to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The path by which lanes will name it.
    pub path: CString,
    /// What it is.
    pub what: EntryKind,
    /// It is there when the load begins.
    pub exists: bool,
}

/// What an [`Entry`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A file of this nominal size, in bytes.
    File {
        /// Bytes.
        size: u64,
    },
    /// A directory.
    Directory,
}

impl<'r> Simulated<'r> {
    /// A run that has not begun. Of the options `seed`, `seconds`, `warmup_seconds`, `ops`, `rate` and `strict` count.
    ///
    /// # Errors
    /// A workload without threads, with a block device, or with a fileset that cannot be laid out.
    pub fn new(
        workload: &'r Workload,
        options: &'r RunOptions,
        control: &'r Control,
    ) -> Result<Simulated<'r>, Error> {
        if let Some(device) = workload.filesets.iter().find_map(crate::raw::path_of) {
            let what = format!("the block device {} is not within a simulation", device.display());
            return Err(Error::Invalid(what));
        }
        let count = threads::count(workload);
        if count == 0 {
            let what = "the workload defines no threads: add `define process ... { thread ... { ... } }`";
            return Err(Error::Invalid(what.into()));
        }
        if workload.streams().next().is_some() {
            return Err(Error::Invalid(
                "a job file of fio, or an iolog, does not run in virtual time".into(),
            ));
        }
        let programs = Programs::compile(workload);
        let plan = Plan::of(workload, options);
        let totals = if programs.needs_totals { threads::processes(workload) } else { 0 };
        let shared = Shared {
            filesets: filesets(workload, options, &programs)?,
            end_mode: workload.end,
            strict: options.strict,
            control,
            pace: options.rate.and_then(Schedule::new),
            ops_left: plan.ops.map(AtomicU64::new),
            lanes: AtomicU64::new(0),
            totals: (0..totals).map(|_| Totals::default()).collect(),
            lines: Mutex::default(),
            periods: Mutex::new(Periods::new(false)),
            cut_back: AtomicU64::new(0),
        };
        let mut run = Simulated {
            workload,
            options,
            programs,
            shared,
            published: (0..count).map(|_| AtomicU64::new(0)).collect(),
            places: Vec::new(),
            gate: Gate::default(),
            alive: LiveThreads::new(count as usize),
            results: Mutex::default(),
            failure: Mutex::default(),
        };
        let (mut process, mut overall) = (0, 0);
        for (definition, spec) in workload.processes.iter().enumerate() {
            for instance in 0..spec.instances {
                let places = run.crew().places(definition, instance, process, &mut overall);
                run.places.extend(places);
                process += 1;
            }
        }
        Ok(run)
    }

    fn crew(&self) -> RunContext<'_> {
        RunContext {
            workload: self.workload,
            programs: &self.programs,
            shared: &self.shared,
            options: self.options,
            ground: None,
            published: &self.published,
            periods_start_anew: false,
            gate: &self.gate,
            alive: &self.alive,
            results: &self.results,
            failure: &self.failure,
        }
    }

    /// Threads of the workload: the lanes to run.
    pub fn threads(&self) -> usize {
        self.places.len()
    }

    /// All files and directories that lanes may name, parents first.
    pub fn entries(&self) -> Vec<Entry> {
        let mut out = Vec::new();
        for (index, live) in self.shared.filesets.iter().enumerate() {
            let percent = self.workload.filesets[index].prealloc_percent;
            let (layout, seed) = (&live.layout, self.options.seed);
            let mut path = Vec::new();
            for dir in 0..layout.dir_count() {
                let path = live.dir_path(dir as u64, &mut path).to_owned();
                out.push(Entry { path, what: EntryKind::Directory, exists: true });
            }
            let initial = layout.initial_leafdirs(percent, seed);
            for leaf in 0..layout.leafdir_count() {
                let path = live.leafdir_path(leaf as u64, &mut path).to_owned();
                out.push(Entry { path, what: EntryKind::Directory, exists: initial.contains(leaf) });
            }
            let initial = layout.initial_files(percent, seed);
            for file in 0..layout.len() {
                let path = live.file_path(file as u64, &mut path).to_owned();
                let what = EntryKind::File { size: layout.file_size(file) };
                out.push(Entry { path, what, exists: initial.contains(file) });
            }
        }
        out
    }

    /// The life of lane number `thread` on a target: waits for `timing.begin_ns`, runs the thread's program to the end,
    /// keeps what it recorded for [`Simulated::outcome`].
    pub async fn lane<T: Target>(&self, thread: usize, target: &T, timing: Timing) {
        let (crew, place) = (self.crew(), self.places[thread]);
        let kit = match crew.try_kit(&place, 0, T::CARRIES_DATA) {
            Ok(kit) => kit,
            Err(error) => {
                self.alive.leave(1);
                return self.fail(error);
            }
        };
        let mut lane = crew.lane(target, &place, kit, timing);
        let end = lane.run().await;
        crew.collect(&place, lane, end);
        self.alive.leave(1);
    }

    fn fail(&self, error: Error) {
        let mut failure = self.failure.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        failure.get_or_insert(error);
        self.shared.control.finish();
    }

    /// The times of a run that begins at `begin_ns`.
    pub fn timing(&self, begin_ns: u64) -> Timing {
        let plan = Plan::of(self.workload, self.options);
        let ns = |seconds: f64| (seconds * 1e9).min(9e18) as u64;
        let measure_ns = begin_ns.saturating_add(ns(plan.warmup_seconds));
        let deadline_ns = plan.seconds.map_or(u64::MAX, |seconds| measure_ns.saturating_add(ns(seconds)));
        Timing { begin_ns, measure_ns, deadline_ns, period_ns: 0 }
    }

    /// Ends the run: lanes end after their present operation.
    pub fn finish(&self) {
        self.shared.control.finish();
    }

    /// Operations so far, warm-up included; each lane tells now and then.
    pub fn ops(&self) -> u64 {
        self.published.iter().map(|count| count.load(Relaxed)).sum()
    }

    /// Lanes that have not ended.
    pub fn running(&self) -> usize {
        self.alive.count()
    }

    /// The result, when all lanes have ended. One that has not, since it waits for another, counts with nothing.
    ///
    /// # Errors
    /// A lane could not begin.
    pub fn outcome(self, timing: Timing) -> Result<Outcome, Error> {
        if let Some(error) = self.failure.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()) {
            return Err(error);
        }
        let results = self.results.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
        let mut notes = Vec::new();
        if results.len() < self.places.len() {
            let left = self.places.len() - results.len();
            notes.push(format!("{left} threads never came back: they wait for one another"));
        }
        let watched = WatchResult { timing, usage: Vec::new(), notes };
        Ok(outcome::sum_up(self.workload, &self.programs, &self.shared, results, watched))
    }
}

/// The filesets as they are at the start of the load.
fn filesets(
    workload: &Workload,
    options: &RunOptions,
    programs: &Programs,
) -> Result<Vec<LiveFileset>, Error> {
    let trees = place::roots(&workload.filesets)?;
    let layouts: Vec<Layout> = run::layouts(workload, options.seed)?;
    let changes = run::changing(workload, programs);
    let one = |(index, layout): (usize, Layout)| {
        let fileset = &workload.filesets[index];
        let percent = fileset.prealloc_percent;
        let mut live = LiveFileset::new(layout, &trees[index], changes.files[index], percent, options.seed);
        live.read_only = fileset.read_only;
        live.write_only = fileset.write_only;
        live
    };
    Ok(layouts.into_iter().enumerate().map(one).collect())
}
