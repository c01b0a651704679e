//! Steps: what a thread does as one act. An opening of a file with all that happens until its close is a step; so is a call on
//! a file that stays open, and a call by path. A step is what becomes a flowop, or a composite one.

use std::collections::BTreeMap;

use super::sizes::Sizes;
use crate::call::Call;

/// What is done to an open file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Act {
    /// Reads from the begin to the end.
    ReadWhole,
    /// Reads on where the read before ended.
    ReadNext,
    /// Reads elsewhere.
    ReadRandom,
    /// Fills a new or emptied file from its begin.
    WriteWhole,
    /// Writes on where the write before ended, over what is there.
    WriteNext,
    /// Writes elsewhere.
    WriteRandom,
    /// Writes at the end.
    Append,
    Fsync,
    Fdatasync,
    /// Asks for attributes.
    Stat,
}

impl Act {
    pub fn is_read(self) -> bool {
        matches!(self, Act::ReadWhole | Act::ReadNext | Act::ReadRandom)
    }

    pub fn is_write(self) -> bool {
        matches!(self, Act::WriteWhole | Act::WriteNext | Act::WriteRandom | Act::Append)
    }

    pub fn is_sync(self) -> bool {
        matches!(self, Act::Fsync | Act::Fdatasync)
    }

    /// The call that does it.
    pub fn call(self) -> Call {
        match self {
            _ if self.is_read() => Call::Read,
            _ if self.is_write() => Call::Write,
            Act::Fsync => Call::Fsync,
            Act::Fdatasync => Call::Fdatasync,
            _ => Call::Stat,
        }
    }
}

/// How a file was opened, as far as WML can say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct Modes {
    /// `O_SYNC`, `O_DSYNC`.
    pub sync: bool,
    /// `O_DIRECT`.
    pub direct: bool,
}

impl Modes {
    pub fn of(flags: u32) -> Modes {
        let has = |flag: i32| flags & flag as u32 != 0;
        Modes { sync: has(libc::O_DSYNC) || has(libc::O_SYNC & !libc::O_DSYNC), direct: has(libc::O_DIRECT) }
    }
}

/// Two steps of the same shape do the same, to a file or another.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Shape {
    /// From open to close.
    Opening {
        /// The open made the file.
        creates: bool,
        modes: Modes,
        acts: Vec<Act>,
    },
    /// A call on a file that stays open.
    Kept(Act, Modes),
    /// A call by path.
    Named(Named),
}

/// Calls by path that WML has a flowop for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Named {
    Stat,
    Unlink,
    /// Removes the file that the thread has just made and closed.
    UnlinkOwn,
    MakeDirectory,
    RemoveDirectory,
    /// Opens a directory, reads it, closes it.
    List,
}

/// What all calls of one act of a step have in common.
#[derive(Debug, Clone, Default)]
pub(crate) struct ActStats {
    /// Calls.
    pub calls: u64,
    /// Bytes moved by each.
    pub sizes: Sizes,
    /// Bytes asked for by each read.
    pub asked: Sizes,
    /// Bytes of all calls of a step together.
    pub sums: Sizes,
}

impl ActStats {
    pub fn merge(&mut self, other: &ActStats) {
        self.calls += other.calls;
        self.sizes.merge(&other.sizes);
        self.asked.merge(&other.asked);
        self.sums.merge(&other.sums);
    }
}

/// What all steps of one shape on one group of files have in common.
#[derive(Debug, Clone, Default)]
pub(crate) struct StepStats {
    /// Steps.
    pub count: u64,
    /// Calls of all of them, opens and closes too.
    pub calls: u64,
    /// Nanoseconds in these calls.
    pub took_ns: u64,
    /// Parallel to the acts of the shape.
    pub acts: Vec<ActStats>,
}

impl StepStats {
    pub fn merge(&mut self, other: &StepStats) {
        self.count += other.count;
        self.calls += other.calls;
        self.took_ns = self.took_ns.saturating_add(other.took_ns);
        self.acts.resize(self.acts.len().max(other.acts.len()), ActStats::default());
        self.acts.iter_mut().zip(&other.acts).for_each(|(ours, theirs)| ours.merge(theirs));
    }
}

/// A row of calls of one act.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub act: Act,
    pub calls: u64,
    pub bytes: u64,
    pub first_offset: u64,
    pub sizes: Sizes,
    pub asked: Sizes,
}

/// Rows of an opening that are kept apart; a longer opening is folded: rows of one act become one.
const RUNS_MAX: usize = 6;
/// Calls of an opening, above which it is one that stays open, unless they are a single row.
const KEPT_CALLS: u64 = 64;
/// The same for calls that come after the thread has done something else since the call before.
const KEPT_RETURNS: u64 = 4;

/// The rows of an opening so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Runs {
    pub runs: Vec<Run>,
    pub folded: bool,
    pub calls: u64,
    /// Steps that the thread had done at the call before.
    steps_before: u64,
    /// Calls that came after other steps.
    returns: u64,
}

impl Runs {
    /// Adds a call; `steps`: how many the thread has done.
    pub fn add(&mut self, act: Act, offset: u64, asked: u64, moved: u64, steps: u64) {
        self.returns += u64::from(self.calls > 0 && self.steps_before != steps);
        self.steps_before = steps;
        self.calls += 1;
        let same = match self.folded {
            true => self.runs.iter_mut().find(|run| run.act == act),
            false => self.runs.last_mut().filter(|run| run.act == act),
        };
        let run = match same {
            Some(run) => run,
            None => {
                let (sizes, asked) = (Sizes::default(), Sizes::default());
                self.runs.push(Run { act, calls: 0, bytes: 0, first_offset: offset, sizes, asked });
                let last = self.runs.len() - 1;
                &mut self.runs[last]
            }
        };
        run.calls += 1;
        run.bytes = run.bytes.saturating_add(moved);
        if !act.is_sync() {
            run.sizes.add(moved);
            run.asked.add(asked);
        }
        if self.runs.len() > RUNS_MAX && !self.folded {
            self.fold();
        }
    }

    fn fold(&mut self) {
        self.folded = true;
        let mut folded: Vec<Run> = Vec::new();
        for run in self.runs.drain(..) {
            match folded.iter_mut().find(|known| known.act == run.act) {
                Some(known) => {
                    known.calls += run.calls;
                    known.bytes = known.bytes.saturating_add(run.bytes);
                    known.sizes.merge(&run.sizes);
                    known.asked.merge(&run.asked);
                }
                None => folded.push(run),
            }
        }
        self.runs = folded;
    }

    /// Whether the opening is one that stays open: many calls that are no single sequence, or that have others between. A file
    /// that is read in one row is no such one: whoever copies it writes elsewhere between the reads.
    pub fn is_kept(&self) -> bool {
        let mut transfers = self.runs.iter().map(|run| run.act).filter(|act| *act != Act::Stat);
        let first = transfers.next().filter(|_| transfers.next().is_none());
        let returns = self.returns >= KEPT_RETURNS;
        match first {
            Some(Act::ReadNext) => false,
            Some(Act::WriteNext | Act::Append) => returns,
            _ => returns || self.calls > KEPT_CALLS,
        }
    }

    /// Names whole reads and writes by their name. A file that the opening made or emptied is written whole, if it was written
    /// in one row; a file is read whole, if one row began at 0 and went to its end.
    pub fn name_whole(&mut self, new: bool, ended: bool, size: u64) {
        let single = |is: fn(Act) -> bool, runs: &[Run]| runs.iter().filter(|run| is(run.act)).count() == 1;
        let (one_read, one_write) = (single(Act::is_read, &self.runs), single(Act::is_write, &self.runs));
        for run in self.runs.iter_mut().filter(|run| run.first_offset == 0) {
            match run.act {
                Act::ReadNext if one_read && (ended || (run.bytes >= size && size > 0)) => {
                    run.act = Act::ReadWhole;
                }
                Act::Append | Act::WriteNext if one_write && (new || (run.bytes >= size && size > 0)) => {
                    run.act = Act::WriteWhole;
                }
                _ => {}
            }
        }
    }
}

/// A step: its shape and its group of files, by their numbers.
pub(crate) type StepKey = (u32, u32);

/// The steps of a thread; the number of different ones is bounded.
#[derive(Debug, Clone, Default)]
pub(crate) struct Steps {
    pub steps: BTreeMap<StepKey, StepStats>,
    /// How often one step follows another.
    pub next: BTreeMap<(StepKey, StepKey), u64>,
    last: Option<StepKey>,
    /// Steps so far.
    pub done: u64,
}

/// Different steps of a thread; those beyond count as steps of their shape on other files.
const STEPS_MAX: usize = 2048;
/// Different successions of steps of a thread.
const NEXT_MAX: usize = 1024;

impl Steps {
    /// The statistics of a step, if there is room, and one more of it.
    pub fn one_more(&mut self, key: StepKey, acts: usize, calls: u64) -> Option<&mut StepStats> {
        self.done += 1;
        let full = self.steps.len() >= STEPS_MAX && !self.steps.contains_key(&key);
        let key = if full { *self.steps.range((key.0, 0)..=(key.0, u32::MAX)).next()?.0 } else { key };
        if let Some(last) = self.last.replace(key)
            && last != key
            && (self.next.len() < NEXT_MAX || self.next.contains_key(&(last, key)))
        {
            *self.next.entry((last, key)).or_default() += 1;
        }
        let stats = self.steps.entry(key).or_default();
        stats.acts.resize(acts.max(stats.acts.len()), ActStats::default());
        stats.count += 1;
        stats.calls += calls;
        Some(stats)
    }
}
