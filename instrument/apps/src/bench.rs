//! Timing: sections of a load, their operations, their results.

use std::fs::File;
use std::path::Path;
use std::time::Instant;

use probe::Counters;
use stats::{Direction, Ended, Histogram, Metric, OpClass, OpOutcome, Outcome};

use crate::AppError;
use crate::error::at;
use crate::ranks::{RankInfo, Ranks};
use crate::span::Span;

/// What a load may ask of whoever runs it.
pub struct Hooks<'a> {
    /// Reads the machine's counters.
    pub sample: &'a dyn Fn() -> Counters,
    /// Whether the load is to end.
    pub stopped: &'a (dyn Fn() -> bool + Sync),
    /// Hears what happens, in a line.
    pub tell: &'a dyn Fn(&str),
    /// Returns when the load may begin; an error keeps it from that.
    pub ready: &'a dyn Fn() -> Result<(), String>,
    /// The tasks of a load of many ranks; without them it is one task.
    pub ranks: Option<&'a dyn Ranks>,
}

/// Collects what a load measures.
pub struct Bench<'a> {
    hooks: Hooks<'a>,
    ops: Vec<OpOutcome>,
    metrics: Vec<Metric>,
    notes: Vec<String>,
    seconds: f64,
    warmup_seconds: f64,
    ended: Ended,
    spans: Vec<Span>,
}

/// A measured section of a load, from its first operation to [`Bench::close`].
#[derive(Debug)]
pub struct Section {
    column: &'static str,
    kind: &'static str,
    direction: Direction,
    before: Counters,
    start: Instant,
}

/// What a closed section took.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SectionTime {
    /// Without the closing sync.
    pub seconds: f64,
    /// With it.
    pub synced_seconds: f64,
}

/// Operations that one thread counts; the end of one is the start of the next.
#[derive(Debug, Clone)]
pub struct Tally {
    start: Instant,
    last: Instant,
    ops: u64,
    bytes: u64,
    service: Histogram,
    ops_by_second: Vec<u64>,
    bytes_by_second: Vec<u64>,
}

impl Tally {
    fn new(start: Instant) -> Tally {
        Tally {
            start,
            last: start,
            ops: 0,
            bytes: 0,
            service: Histogram::new(),
            ops_by_second: Vec::new(),
            bytes_by_second: Vec::new(),
        }
    }

    /// Counts the operation that has just ended.
    #[inline]
    pub fn op(&mut self, bytes: u64) {
        let now = Instant::now();
        self.service.record(u64::try_from((now - self.last).as_nanos()).unwrap_or(u64::MAX));
        self.last = now;
        self.ops += 1;
        self.bytes += bytes;
        let second = (now - self.start).as_secs() as usize;
        if self.ops_by_second.len() <= second {
            self.ops_by_second.resize(second + 1, 0);
            self.bytes_by_second.resize(second + 1, 0);
        }
        self.ops_by_second[second] += 1;
        self.bytes_by_second[second] += bytes;
    }

    /// Operations so far.
    pub fn ops(&self) -> u64 {
        self.ops
    }

    /// Seconds from the start to the end of the last operation.
    pub fn elapsed(&self) -> f64 {
        (self.last - self.start).as_secs_f64()
    }

    /// The next operation begins now: what came before was waiting.
    pub fn resume(&mut self) {
        self.last = Instant::now();
    }

    /// Bytes so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds operations that another process counted.
    pub fn add(&mut self, ops: u64, bytes: u64, service: &Histogram) {
        self.ops += ops;
        self.bytes += bytes;
        self.service.merge(service);
    }

    /// Adds another thread's operations.
    pub fn merge(&mut self, other: &Tally) {
        self.ops += other.ops;
        self.bytes += other.bytes;
        self.service.merge(&other.service);
        for (mine, theirs) in [
            (&mut self.ops_by_second, &other.ops_by_second),
            (&mut self.bytes_by_second, &other.bytes_by_second),
        ] {
            mine.resize(mine.len().max(theirs.len()), 0);
            mine.iter_mut().zip(theirs).for_each(|(mine, theirs)| *mine += theirs);
        }
    }
}

impl Section {
    /// Seconds since it began.
    pub fn elapsed(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }

    /// Its time begins now, once more: what came before was waiting.
    pub fn restart(&mut self) {
        self.start = Instant::now();
    }

    /// A tally whose first operation begins now.
    pub fn tally_from_now(&self) -> Tally {
        Tally { last: Instant::now(), ..Tally::new(self.start) }
    }

    /// A tally whose first operation begins with the section.
    pub fn tally(&self) -> Tally {
        Tally::new(self.start)
    }
}

impl<'a> Bench<'a> {
    pub(crate) fn new(hooks: Hooks<'a>) -> Bench<'a> {
        Bench {
            hooks,
            ops: Vec::new(),
            metrics: Vec::new(),
            notes: Vec::new(),
            seconds: 0.0,
            warmup_seconds: 0.0,
            ended: Ended::Done,
            spans: Vec::new(),
        }
    }

    /// Which task this is, among which.
    pub(crate) fn rank_info(&self) -> RankInfo {
        self.hooks.ranks.map_or_else(RankInfo::single, |ranks| ranks.rank_info().clone())
    }

    /// Waits for all tasks; see [`Ranks::meet`].
    pub(crate) fn all_gather(&self, value: u64, aligned: bool) -> Result<Vec<u64>, AppError> {
        let Some(ranks) = self.hooks.ranks else { return Ok(vec![value]) };
        ranks.all_gather(value, aligned).map_err(AppError::Protocol)
    }

    /// Keeps this task's part of a phase, and tells it.
    pub(crate) fn span(&mut self, span: Span) {
        if let Some(ranks) = self.hooks.ranks {
            ranks.report_span(&span);
        }
        self.spans.push(span);
    }

    /// The parts that were kept, of a load that is one task.
    pub(crate) fn spans_alone(&mut self) -> Option<Vec<Span>> {
        self.hooks.ranks.is_none().then(|| std::mem::take(&mut self.spans))
    }

    /// Ends the load when it was told to.
    ///
    /// # Errors
    /// [`AppError::Interrupted`].
    pub fn check(&self) -> Result<(), AppError> {
        if (self.hooks.stopped)() { Err(AppError::Interrupted) } else { Ok(()) }
    }

    /// All is there that the load needs, and it waits until it may begin: loads in containers begin together.
    ///
    /// # Errors
    /// It may not begin.
    pub fn ready(&self) -> Result<(), AppError> {
        (self.hooks.ready)().map_err(AppError::Protocol)
    }

    /// Whether the load was told to end, for other threads.
    pub fn stopped(&self) -> &'a (dyn Fn() -> bool + Sync) {
        self.hooks.stopped
    }

    /// Tells what happens.
    pub fn report(&self, line: &str) {
        (self.hooks.tell)(line);
    }

    /// A remark that a reader of the result must see.
    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// A figure of the result: a rate, a mean, a latency.
    pub fn metric(&mut self, name: impl Into<String>, unit: &str, value: f64) {
        self.metrics.push(Metric::rate(name, unit, value));
    }

    /// Seconds in which an operation was done, when it is a part of the load ([`Outcome::op_seconds`]).
    pub(crate) fn own_seconds(&mut self, operation: &str, seconds: f64) {
        self.metrics.push(Metric::duration(format!("{operation}/seconds"), seconds));
    }

    /// What the counters grew by.
    pub fn counters_grew(&mut self, grown: impl IntoIterator<Item = Metric>) {
        self.metrics.extend(grown);
    }

    /// The latest value of a figure; not a number when there is none.
    pub fn last(&self, name: &str) -> f64 {
        self.metrics.iter().rev().find(|metric| metric.name == name).map_or(f64::NAN, |metric| metric.value)
    }

    /// Opens a section: its time begins now.
    pub fn open(&self, column: &'static str, kind: &'static str, direction: Direction) -> Section {
        self.report(column);
        let before = (self.hooks.sample)();
        Section { column, kind, direction, before, start: Instant::now() }
    }

    /// Closes a section. With `sync`, what the section left dirty on that directory's file system is then written
    /// back, which is timed too.
    ///
    /// The kernel passes neither sync(2) nor syncfs(2) on to a plain FUSE server, but it does pass on the fsync of a
    /// directory: a file system with one ordered log makes all that came before durable by it.
    ///
    /// # Errors
    /// The sync failed.
    pub fn close(
        &mut self,
        section: Section,
        tally: &Tally,
        sync: Option<&Path>,
    ) -> Result<SectionTime, AppError> {
        let seconds = section.start.elapsed().as_secs_f64();
        if let Some(root) = sync {
            let dir = File::open(root).map_err(at(root))?;
            rustix::fs::syncfs(&dir).map_err(|error| at(root)(error.into()))?;
            dir.sync_all().map_err(at(root))?;
        }
        let synced_seconds = section.start.elapsed().as_secs_f64();
        let after = (self.hooks.sample)();
        let column = section.column;
        self.metrics.push(Metric::duration(format!("{column}/seconds"), seconds));
        if sync.is_some() {
            self.metrics.push(Metric::duration(format!("{column}/synced_seconds"), synced_seconds));
        }
        let grown = section.before.growth_until(&after);
        self.metrics.extend(grown.into_iter().map(|metric| metric.of_part(column)));
        self.seconds += seconds;
        self.ops.push(OpOutcome {
            ops: tally.ops,
            bytes: tally.bytes,
            service: tally.service.clone(),
            ops_per_second: tally.ops_by_second.clone(),
            bytes_per_second: tally.bytes_by_second.clone(),
            ..OpOutcome::new(column, section.kind, OpClass::Io, section.direction)
        });
        Ok(SectionTime { seconds, synced_seconds })
    }

    /// Adds operations that a program counted itself, within so many seconds.
    pub(crate) fn counted(&mut self, seconds: f64, ops: impl Iterator<Item = OpOutcome>) {
        self.seconds += seconds;
        self.ops.extend(ops);
    }

    /// Takes over what another engine measured.
    pub(crate) fn took_over(&mut self, outcome: Outcome) {
        self.counted(outcome.measured_seconds, outcome.ops.into_iter());
        self.metrics.extend(outcome.metrics);
        self.notes.extend(outcome.notes);
        self.warmup_seconds += outcome.warmup_seconds;
        self.ended = outcome.ended;
    }

    /// The counters of the machine now.
    pub(crate) fn counters(&self) -> Counters {
        (self.hooks.sample)()
    }

    pub(crate) fn outcome(self) -> Outcome {
        Outcome {
            measured_seconds: self.seconds,
            warmup_seconds: self.warmup_seconds,
            ended: self.ended,
            ops: self.ops,
            metrics: self.metrics,
            notes: self.notes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_become_operations_and_metrics() {
        let hooks = Hooks {
            sample: &Counters::default,
            stopped: &|| false,
            tell: &|_| {},
            ready: &|| Ok(()),
            ranks: None,
        };
        let mut bench = Bench::new(hooks);
        let section = bench.open("seq-write", "pwrite", Direction::Write);
        let (mut all, mut other) = (section.tally(), section.tally());
        (0..3).for_each(|_| all.op(10));
        other.op(5);
        all.merge(&other);
        let root = tempfile::tempdir().unwrap();
        let took = bench.close(section, &all, Some(root.path())).unwrap();
        assert!(took.seconds <= took.synced_seconds);
        let outcome = bench.outcome();
        assert_eq!((outcome.io_ops(), outcome.io_bytes()), (4, 35));
        assert_eq!(outcome.io_service().count(), 4);
        assert_eq!(outcome.io_ops_by_second().iter().sum::<u64>(), 4);
        let value = |name: &str| outcome.metrics.iter().find(|metric| metric.name == name).map(|m| m.value);
        assert_eq!(value("seq-write/seconds"), Some(took.seconds));
        assert_eq!(value("seq-write/synced_seconds"), Some(took.synced_seconds));
    }

    #[test]
    fn a_load_that_is_told_to_end_ends() {
        let hooks = Hooks {
            sample: &Counters::default,
            stopped: &|| true,
            tell: &|_| {},
            ready: &|| Ok(()),
            ranks: None,
        };
        assert!(matches!(Bench::new(hooks).check(), Err(AppError::Interrupted)));
    }
}
