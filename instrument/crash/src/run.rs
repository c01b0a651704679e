//! A crash check from the stack's name to the verdict.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};
use host::Host;
use journal::{Journal, PrivateTree};

use crate::bring_up::{BaseImage, System, Worker};
use crate::describe::Describer;
use crate::error::CrashError;
use crate::explore::{Judge, Limits, StateVerdict, explore};
use crate::history::{History, State};
use crate::kept::Kept;
use crate::options::{CrashOptions, Load};
use crate::oracle::{Kind, Timeline, Weakness};
use crate::record::{Recorded, record};
use crate::recording::Recording;
use crate::shrink::shrink;
use crate::states::{Distinct, Plan, plan};
use crate::verdict::{MinimalCase, Verdict};
use crate::workload::{Op, Script};

/// Longest that a failing state is shrunk.
const SHRINK_MAX: Duration = Duration::from_secs(60);
/// Free memory that a directory in memory must have.
const MEMORY_MIN: u64 = 1 << 30;
/// How to bring up a state that was not kept: a program does not do the same each time.
const KEEP_HINT: &str = "add --keep DIR: then the image is there, with the commands that mount and judge it";

/// How far a check is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The workload runs and is recorded.
    Recording,
    /// States are brought up.
    Checking {
        /// So many were judged.
        checked: usize,
        /// Of so many.
        of: usize,
        /// So many have failed.
        failed: usize,
    },
    /// A failing state is made smaller.
    Shrinking {
        /// States tried.
        tried: usize,
    },
}

/// Checks a stack: records the workload, brings up the states that a power cut may leave, judges them, and
/// shrinks a failing one. `stop` ends it early, with a verdict on what was checked.
///
/// # Errors
/// [`CrashError`]; what a check finds is in the verdict.
pub fn run(
    options: &CrashOptions,
    load: &mut Load,
    journal: &Arc<Journal>,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(Progress),
) -> Result<Verdict, CrashError> {
    let host = Host::system();
    if let stack::Availability::Unavailable(why) = stack::probe_availability(&options.spec) {
        return Err(why.into());
    }
    let system = System::of(&options.spec, &host, options.program.as_deref())?;
    if let Load::Script(script) = load
        && system.keeps_order()
    {
        // syncfs does not reach a FUSE file system; its own syncs cover everything
        for op in script.ops.iter_mut().filter(|op| **op == Op::Sync) {
            *op = Op::FsyncDir(String::new());
        }
    }
    std::fs::create_dir_all(&options.home).map_err(CrashError::io(format!("make {}", options.home)))?;
    let place = place(journal, options.work_dir.as_deref(), &options.home)?;
    progress(Progress::Recording);
    let recorded = record(options, load, journal, place.path(), stop)?;
    let history = History::new(&recorded.recording, recorded.contract);
    let (script, program) = match &*load {
        Load::Script(script) => (Some(script), None),
        Load::Custom { .. } => (None, None),
        Load::Program(program) => (None, Some(program)),
    };
    let timeline = script.map(if system.keeps_order() { Timeline::in_order } else { Timeline::new });
    let forgiven = if options.strict { &[] } else { Weakness::of(options.spec.fs()) };
    let checker = program.and_then(|program| program.checker.as_ref());
    let marks = program.map(|_| recorded.marks.as_slice());
    let judge = Judge { history: &history, timeline: timeline.as_ref(), forgiven, checker, marks, stop };
    let check = Check { options, journal, place: &place, system: &system, judge: &judge, script, stop };
    let mut verdict = check.verdict(&recorded, &load.name(), progress)?;
    verdict.stack = options.spec.to_string();
    verdict.only_consistency = script.is_none() && checker.is_none();
    verdict.marks = marks.map(<[String]>::len);
    verdict.checker = checker.map(|checker| checker.command.clone());
    Ok(verdict)
}

/// The private directory of a check; the recording, and what states are brought up with, goes with it.
pub(crate) fn place(
    journal: &Arc<Journal>,
    work_dir: Option<&Utf8Path>,
    home: &Utf8Path,
) -> Result<PrivateTree, CrashError> {
    let parent = match work_dir {
        Some(dir) => dir.to_owned(),
        None => in_memory().unwrap_or_else(|| home.to_owned()),
    };
    let parent = parent.canonicalize_utf8().map_err(CrashError::io(format!("resolve {parent}")))?;
    Ok(journal::PrivateTree::new(journal, &parent)?)
}

/// The system's directory in memory, if there is one with room.
fn in_memory() -> Option<Utf8PathBuf> {
    let shm = Utf8PathBuf::from("/dev/shm");
    let mounts = Host::system().mounts().ok()?;
    let is_tmpfs = mounts.iter().any(|mount| mount.target == shm && mount.fs_type == "tmpfs");
    let room = rustix::fs::statvfs(shm.as_str()).ok()?;
    (is_tmpfs && room.f_bavail * room.f_frsize >= MEMORY_MIN).then_some(shm)
}

struct Check<'a> {
    options: &'a CrashOptions,
    journal: &'a Arc<Journal>,
    place: &'a PrivateTree,
    system: &'a System,
    judge: &'a Judge<'a>,
    script: Option<&'a Script>,
    stop: &'a AtomicBool,
}

impl Check<'_> {
    fn verdict(
        &self,
        recorded: &Recorded,
        workload: &str,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Verdict, CrashError> {
        let history = self.judge.history;
        // of a script it is known that what is promised only grows
        let distinct = if self.judge.checker.is_some() { Distinct::Marks } else { Distinct::Images };
        let plan = plan(history, distinct, self.options.states, self.options.seed, self.stop);
        let mut rigs = match self.stop.load(Ordering::Relaxed) {
            true => Vec::new(),
            false => self.rigs(history.recording(), plan.states.len())?,
        };
        let start = Instant::now();
        let until = self.options.budget.map(|budget| start + budget);
        let limits = Limits { until, stop: self.stop };
        let of = plan.states.len();
        let (judged, mut error) =
            explore(self.judge, &plan.states, &mut rigs, &limits, &mut |checked, failed| {
                progress(Progress::Checking { checked, of, failed });
            });
        let seconds = start.elapsed().as_secs_f64();
        if judged.is_empty()
            && let Some(error) = error
        {
            return Err(error);
        }
        let mut verdict = figures(recorded, history, &plan, &judged);
        verdict.workload = workload.to_owned();
        verdict.seed = self.options.seed;
        verdict.jobs = rigs.len();
        verdict.seconds = seconds;
        if let Some((number, kind)) = worst(&plan.states, &judged) {
            let worst = (&plan.states[number], &judged[&number], kind);
            let describer = Describer::new(history, self.script, self.judge.marks, self.system.fs);
            let (smallest, trouble) = self.smallest(worst, &mut rigs[0], &describer, progress);
            verdict.smallest = Some(smallest);
            error = error.or(trouble);
        }
        verdict.error = error.map(|error| error.to_string());
        Ok(verdict)
    }

    fn rigs(&self, recording: &Recording, states: usize) -> Result<Vec<Worker>, CrashError> {
        let bytes = |id| recording.contents.get(id).to_vec();
        let filled: BTreeMap<u64, Vec<u8>> =
            recording.base.iter().map(|(lba, id)| (*lba, bytes(*id))).collect();
        let pristine = Arc::new(BaseImage::new(recording.blocks, &filled));
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let jobs = if self.options.jobs == 0 { cores } else { self.options.jobs };
        let jobs = jobs.min(self.system.jobs_max()).clamp(1, states.max(1));
        (0..jobs).map(|i| Worker::new(self.journal, self.place.path(), i, self.system, &pristine)).collect()
    }

    /// The smallest case that was found, and what ended the search or kept it from being kept.
    fn smallest(
        &self,
        (state, judged, kind): (&State, &StateVerdict, Kind),
        rig: &mut Worker,
        describer: &Describer<'_>,
        progress: &mut dyn FnMut(Progress),
    ) -> (MinimalCase, Option<CrashError>) {
        let (until, mut tried, mut failure) = (Instant::now() + SHRINK_MAX, 0, None);
        let limits = Limits { until: Some(until), stop: self.stop };
        // of the last state that failed, which is the smallest one
        let mut judged = judged.clone();
        let small = shrink(self.judge.history, state.clone(), &mut |state| {
            if limits.is_over() || failure.is_some() {
                return false;
            }
            tried += 1;
            if tried % 50 == 0 {
                progress(Progress::Shrinking { tried });
            }
            match self.judge.judge(rig, state) {
                Ok(Some(found)) if found.breaches.iter().any(|breach| breach.kind == kind) => {
                    judged = found;
                    true
                }
                Ok(_) => false,
                Err(error) => {
                    failure = Some(error);
                    false
                }
            }
        });
        let mut smallest = describer.smallest(&small, kind, judged);
        smallest.tried = tried;
        smallest.lost_at_first = state.lost.len();
        match &self.options.keep {
            Some(dir) => {
                if let Err(error) = self.keep(dir, &small, &mut smallest, rig) {
                    smallest.again = None;
                    failure.get_or_insert(error);
                }
            }
            None if self.judge.marks.is_some() => smallest.again = Some(KEEP_HINT.into()),
            None => {}
        }
        (smallest, failure)
    }

    fn keep(
        &self,
        dir: &Utf8Path,
        state: &State,
        smallest: &mut MinimalCase,
        rig: &mut Worker,
    ) -> Result<(), CrashError> {
        let kept = Kept::new(dir, self.judge, state)?;
        smallest.again = self.script.is_none().then(|| kept.again(self.system));
        smallest.kept = Some(kept.write(self.script, smallest, rig)?);
        Ok(())
    }
}

fn figures(
    recorded: &Recorded,
    history: &History<'_>,
    plan: &Plan,
    judged: &std::collections::HashMap<usize, StateVerdict>,
) -> Verdict {
    let recording = history.recording();
    let mut kinds: BTreeMap<Kind, usize> = BTreeMap::new();
    for breach in judged.values().filter_map(|judged| judged.breaches.first()) {
        *kinds.entry(breach.kind).or_default() += 1;
    }
    Verdict {
        device: recorded.device.clone(),
        contract: recorded.contract,
        requests: recording.writes.len(),
        blocks: recording.writes.iter().map(|write| write.contents.len()).sum(),
        fua: recording.writes.iter().filter(|write| write.fua).count(),
        flushes: recording.flushes.len(),
        windows: history.windows().len(),
        poisoned: recorded.poisoned,
        choices_log2: plan.choices_log2,
        exhaustive: plan.exhaustive && judged.len() == plan.states.len(),
        tried: plan.tried,
        distinct: plan.states.len(),
        checked: judged.len(),
        failed: judged.values().filter(|judged| !judged.breaches.is_empty()).count(),
        known: judged.values().filter(|judged| !judged.known.is_empty()).count(),
        known_example: judged.values().find_map(|judged| Some(judged.known.first()?.detail.clone())),
        lost_as_expected: judged.values().filter(|judged| judged.lost_as_expected).count(),
        kinds,
        ..Verdict::default()
    }
}

/// The state with the worst breach, of these the one that has lost least.
fn worst(states: &[State], judged: &std::collections::HashMap<usize, StateVerdict>) -> Option<(usize, Kind)> {
    let failing = judged.iter().filter_map(|(i, judged)| Some((*i, judged.breaches.first()?.kind)));
    failing.min_by_key(|(i, kind)| (*kind, states[*i].lost.len(), states[*i].cut, *i))
}
