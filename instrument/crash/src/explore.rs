//! Checking many states in parallel: each worker brings up one after the other and judges what it finds.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};

use crate::bring_up::{BringUpOutcome, Worker};
use crate::error::CrashError;
use crate::history::{History, State};
use crate::oracle::{Breach, Kind, Timeline, Weakness, Window, check, unreadable};
use crate::program::{Checker, Looked, Scene};
use crate::recording::{ContentId, Progress};

/// How often the caller hears of the progress.
const REPORT_EVERY: Duration = Duration::from_millis(200);

/// What came of a state.
#[derive(Clone, Debug, Default)]
pub(crate) struct StateVerdict {
    /// What is wrong, worst first.
    pub(crate) breaches: Vec<Breach>,
    /// What follows a known weakness of the file system.
    pub(crate) known: Vec<Breach>,
    /// Whether synced data is missing on a device that promised nothing.
    pub(crate) lost_as_expected: bool,
    /// The checker's output, if it found something.
    pub(crate) output: String,
    /// The end of what the checker of a user's program printed, if it found something.
    pub(crate) said: String,
}

/// Judges states of one recording.
#[derive(Debug)]
pub(crate) struct Judge<'a> {
    pub(crate) history: &'a History<'a>,
    /// None for a workload of which only the requests are known.
    pub(crate) timeline: Option<&'a Timeline>,
    /// Breaches of these patterns are counted apart.
    pub(crate) forgiven: &'a [Weakness],
    /// The checker of a user's program, if there is one.
    pub(crate) checker: Option<&'a Checker>,
    /// The marks that a user's program passed.
    pub(crate) marks: Option<&'a [String]>,
    /// Ends a checker.
    pub(crate) stop: &'a AtomicBool,
}

impl<'a> Judge<'a> {
    /// The blocks of a state, as bytes.
    pub(crate) fn blocks(&self, state: &State) -> Vec<(u64, &'a [u8])> {
        let contents = &self.history.recording().contents;
        let bytes = |(lba, content): (u64, ContentId)| (lba, contents.get(content));
        self.history.image(state).into_iter().map(bytes).collect()
    }

    /// Brings a state up and judges it; `None` if that was ended before a checker could say anything.
    pub(crate) fn judge(&self, rig: &mut Worker, state: &State) -> Result<Option<StateVerdict>, CrashError> {
        let blocks = self.blocks(state).into_iter();
        let progress = self.history.recording().progress_at(state.cut);
        let found = match self.timeline {
            Some(_) => rig.bring_up(blocks, None)?,
            None => rig.bring_up(blocks, Some(&mut |dir| self.look(dir, progress)))?,
        };
        Ok((!found.looked.interrupted).then(|| self.judge_found(found, progress)))
    }

    /// The marks that had been passed.
    pub(crate) fn passed(&self, progress: Progress) -> &'a [String] {
        let marks = self.marks.unwrap_or_default();
        &marks[..progress.returned.min(marks.len())]
    }

    /// Looks at what nothing is known of: whether it can be read, and what the user's checker says.
    fn look(&self, dir: &Utf8Path, progress: Progress) -> Result<Looked, CrashError> {
        if let Some(why) = unreadable(dir, self.stop) {
            return Ok(Looked { breach: Some(Breach::new(Kind::Unreadable, why)), ..Looked::default() });
        }
        if self.stop.load(Ordering::Relaxed) {
            return Ok(Looked { interrupted: true, ..Looked::default() });
        }
        let Some(checker) = self.checker else { return Ok(Looked::default()) };
        let list = Utf8PathBuf::from(format!("{dir}.marks"));
        checker.look(&Scene { dir, passed: self.passed(progress), list: &list }, self.stop)
    }

    fn judge_found(&self, found: BringUpOutcome, progress: Progress) -> StateVerdict {
        let BringUpOutcome { tree, mut breaches, output, looked } = found;
        breaches.extend(looked.breach);
        let mut lost_as_expected = false;
        if let (Some(timeline), Some(tree)) = (self.timeline, &tree) {
            let contract = self.history.contract();
            let base = self.history.recording().base_progress;
            let strict = Window { must: progress.returned, may: progress.begun };
            if contract.promises_durability() {
                breaches.extend(check(timeline, strict, tree));
            } else {
                // only what was there at first can be demanded, and where there is an order also what was
                // synced before the newest write that is seen began
                let seen = if contract.order_only { timeline.newest_seen(tree) } else { 0 };
                let mut due = check(timeline, Window { must: base.returned.max(seen), ..strict }, tree);
                // without flushes and without an order there is no state between operations to be in
                due.retain(|breach| contract.order_only || breach.kind != Kind::NoPrefix);
                breaches.extend(due);
                lost_as_expected = breaches.is_empty() && !check(timeline, strict, tree).is_empty();
            }
        }
        breaches.sort_by_key(|breach| breach.kind);
        let is_known = |breach: &Breach| breach.weakness.is_some_and(|w| self.forgiven.contains(&w));
        let (known, breaches) = breaches.into_iter().partition(is_known);
        StateVerdict { breaches, known, lost_as_expected, output, said: looked.output }
    }
}

/// When to end.
#[derive(Debug)]
pub(crate) struct Limits<'a> {
    pub(crate) until: Option<Instant>,
    pub(crate) stop: &'a AtomicBool,
}

impl Limits<'_> {
    pub(crate) fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.until.is_some_and(|until| Instant::now() >= until)
    }
}

/// Judges all states, or as many as the limits allow: number of the state -> what came of it; and the error that ended it.
pub(crate) fn explore(
    judge: &Judge<'_>,
    states: &[State],
    rigs: &mut [Worker],
    limits: &Limits<'_>,
    progress: &mut dyn FnMut(usize, usize),
) -> (HashMap<usize, StateVerdict>, Option<CrashError>) {
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let mut judged = HashMap::new();
    let mut error = None;
    std::thread::scope(|scope| {
        let (tell, told) = mpsc::channel();
        for rig in rigs {
            let (tell, next, failed) = (tell.clone(), &next, &failed);
            scope.spawn(move || {
                while !limits.is_over() && !failed.load(Ordering::Relaxed) {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(state) = states.get(number) else { return };
                    let Some(result) = judge.judge(rig, state).transpose() else { return };
                    failed.fetch_or(result.is_err(), Ordering::Relaxed);
                    if tell.send((number, result)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(tell);
        let (mut breaching, mut reported) = (0, Instant::now());
        for (number, result) in told {
            match result {
                Ok(result) => {
                    breaching += usize::from(!result.breaches.is_empty());
                    judged.insert(number, result);
                }
                Err(first) => {
                    error.get_or_insert(first);
                }
            }
            if reported.elapsed() >= REPORT_EVERY {
                reported = Instant::now();
                progress(judged.len(), breaching);
            }
        }
    });
    (judged, error)
}
