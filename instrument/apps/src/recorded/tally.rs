//! What a replay measures: each kind of call, how late it was, and what ended otherwise than in the recording.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use recording::Call;
use rustix::io::Errno;
use stats::{Direction, Ended, Histogram, Metric, OpClass, OpOutcome, Outcome};

use super::segments::Step;

/// Kinds of divergences that a note names.
const NAMED_MAX: usize = 6;
/// How the histogram of lateness is named among the operations.
const LATENESS: &str = "lateness";

/// How a call ended, as far as two runs of it can be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    /// It did what it was to do; a read or write moved so many bytes, 0 elsewhere: a page fault fills a page also where the file
    /// ends before that does.
    Done(i64),
    /// It failed, by its `errno`.
    Failed(i32),
}

/// What ended otherwise, for a count of its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Divergence {
    /// It failed, by its `errno`, where it had succeeded, or failed with the second one.
    Failed(i32, Option<i32>),
    /// It succeeded, where it had failed.
    Succeeded(i32),
    /// It moved fewer bytes.
    Fewer,
    /// It moved more.
    More,
}

/// One kind of call.
#[derive(Debug, Default)]
struct Kind {
    ops: u64,
    bytes: u64,
    errors: u64,
    service: Histogram,
    intended: Option<Histogram>,
    ops_by_second: Vec<u64>,
    bytes_by_second: Vec<u64>,
}

/// When a call was due, began and ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    /// When it should have begun; not at maximal speed.
    pub due: Option<Instant>,
    /// When it began.
    pub begin: Instant,
    /// When it ended.
    pub end: Instant,
}

/// What one thread, or all together, have done.
#[derive(Debug)]
pub(super) struct Tally {
    start: Instant,
    kinds: Vec<Option<Box<Kind>>>,
    lateness: Histogram,
    diverged: BTreeMap<(Call, Divergence), u64>,
    skipped: u64,
    done: u64,
    last: Instant,
}

impl End {
    fn of(call: Call, result: i64) -> End {
        let moves = matches!(call, Call::Read | Call::Write);
        match result {
            failed if failed < 0 => End::Failed(failed.checked_neg().unwrap_or(0).try_into().unwrap_or(0)),
            moved if moves => End::Done(moved),
            _ => End::Done(0),
        }
    }

    fn against(self, recorded: End) -> Option<Divergence> {
        match (self, recorded) {
            (one, other) if one == other => None,
            (End::Failed(error), End::Failed(expected)) => Some(Divergence::Failed(error, Some(expected))),
            (End::Failed(error), End::Done(_)) => Some(Divergence::Failed(error, None)),
            (End::Done(_), End::Failed(expected)) => Some(Divergence::Succeeded(expected)),
            (End::Done(bytes), End::Done(expected)) if bytes < expected => Some(Divergence::Fewer),
            (End::Done(_), End::Done(_)) => Some(Divergence::More),
        }
    }
}

/// Whether a call can be done again: not one that was interrupted, or failed for a reason that lies in the program's memory or
/// that of the machine, nor attributes that were refused: which ones they were is not recorded.
pub(super) fn can_be_repeated(step: &Step) -> bool {
    let Step { call, result, path, slot, .. } = *step;
    // what came from outside of the recorded directories has no name here
    if path.is_none() && (call == Call::Rename || call == Call::Link && slot.is_none()) {
        return false;
    }
    let failed = |errors: &[i32]| errors.iter().any(|error| result == -i64::from(*error));
    // the kernel's own codes of calls that it restarts
    let is_restarted = (-600..=-512).contains(&result);
    let is_passing =
        failed(&[libc::EINTR, libc::EAGAIN, libc::EFAULT, libc::ENOMEM, libc::EMFILE, libc::ENFILE]);
    let is_name = failed(&[libc::ENOENT, libc::ENOTDIR, libc::ENAMETOOLONG, libc::ELOOP]);
    !is_restarted && !is_passing && (call != Call::SetAttributes || result >= 0 || is_name)
}

impl Tally {
    /// Nothing yet; the replay begins at `start`.
    pub(super) fn new(start: Instant) -> Tally {
        Tally {
            start,
            kinds: Call::ALL.iter().map(|_| None).collect(),
            lateness: Histogram::new(),
            diverged: BTreeMap::new(),
            skipped: 0,
            done: 0,
            last: start,
        }
    }

    /// One that cannot be done again.
    pub(super) fn skip(&mut self) {
        self.skipped += 1;
    }

    /// Counts an operation and compares how it ended.
    pub(super) fn count(&mut self, step: &Step, result: i64, times: Times) {
        let ended = End::of(step.call, result);
        let divergence = ended.against(End::of(step.call, step.result));
        if let Some(divergence) = divergence {
            *self.diverged.entry((step.call, divergence)).or_default() += 1;
        }
        self.done += 1;
        self.last = times.end;
        let late = times.due.map(|due| nanoseconds(times.begin.saturating_duration_since(due)));
        late.into_iter().for_each(|late| self.lateness.record(late));
        let kind = self.kinds[step.call as usize].get_or_insert_default();
        if matches!(divergence, Some(Divergence::Failed(..))) {
            kind.errors += 1;
            return;
        }
        let moves = matches!(step.call, Call::Read | Call::Write | Call::Fault);
        let bytes = if moves { u64::try_from(result).unwrap_or(0) } else { 0 };
        let took = nanoseconds(times.end.saturating_duration_since(times.begin));
        kind.ops += 1;
        kind.bytes += bytes;
        kind.service.record(took);
        if let Some(late) = late {
            kind.intended.get_or_insert_default().record(took.saturating_add(late));
        }
        let second = times.end.saturating_duration_since(self.start).as_secs() as usize;
        add(&mut kind.ops_by_second, second, 1);
        add(&mut kind.bytes_by_second, second, bytes);
    }

    /// Adds what another thread has done.
    pub(super) fn merge(&mut self, other: Tally) {
        for (mine, theirs) in self.kinds.iter_mut().zip(other.kinds) {
            match (mine, theirs) {
                (Some(mine), Some(theirs)) => mine.merge(&theirs),
                (mine @ None, theirs) => *mine = theirs,
                (Some(_), None) => {}
            }
        }
        self.lateness.merge(&other.lateness);
        for (kind, count) in other.diverged {
            *self.diverged.entry(kind).or_default() += count;
        }
        self.skipped += other.skipped;
        self.done += other.done;
        self.last = self.last.max(other.last);
    }

    /// The result. Reads and writes are the I/O; where there are none, all calls are.
    pub(super) fn outcome(self, ended: Ended) -> Outcome {
        let moves = [Call::Read, Call::Write, Call::Fault];
        let has_transfers = moves.iter().any(|call| self.kinds[*call as usize].is_some());
        let mut ops = Vec::new();
        let (metrics, notes) = (self.metrics(), self.notes());
        let measured_seconds = (self.last - self.start).as_secs_f64();
        for (call, kind) in Call::ALL.into_iter().zip(self.kinds) {
            let Some(kind) = kind else { continue };
            let is_io = moves.contains(&call) || !has_transfers;
            let direction = match call {
                Call::Read | Call::Fault => Direction::Read,
                Call::Write => Direction::Write,
                _ => Direction::Neither,
            };
            let class = if is_io { OpClass::Io } else { OpClass::Other };
            ops.push(kind.outcome(OpOutcome::new(call.name(), call.name(), class, direction)));
        }
        if !self.lateness.is_empty() {
            let lateness = OpOutcome::new(LATENESS, LATENESS, OpClass::Other, Direction::Neither);
            ops.push(OpOutcome { ops: self.lateness.count(), service: self.lateness, ..lateness });
        }
        Outcome { measured_seconds, warmup_seconds: 0.0, ended, ops, metrics, notes }
    }

    fn metrics(&self) -> Vec<Metric> {
        let count = |name: &str, count: u64| Metric::process(name, "1", count as f64);
        let mut metrics = vec![count("diverged", self.diverged.values().sum())];
        let mut by_call = BTreeMap::<&str, u64>::new();
        for ((call, _), count) in &self.diverged {
            *by_call.entry(call.name()).or_default() += count;
        }
        metrics.extend(by_call.into_iter().map(|(call, number)| count(&format!("diverged/{call}"), number)));
        if self.skipped > 0 {
            metrics.push(count("skipped", self.skipped));
        }
        for (name, quantile) in [("lateness_p50", 0.5), ("lateness_p99", 0.99), ("lateness_max", 1.0)] {
            if let Some(late) = self.lateness.quantile(quantile) {
                metrics.push(Metric::rate(name, "ns", late as f64));
            }
        }
        metrics
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let count: u64 = self.diverged.values().sum();
        if count > 0 {
            let mut kinds: Vec<_> = self.diverged.iter().collect();
            kinds.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
            let named = kinds.iter().take(NAMED_MAX).map(|((call, divergence), count)| {
                format!("{} {} {divergence}", grouped(**count), call.name())
            });
            let mut named: Vec<String> = named.collect();
            if kinds.len() > NAMED_MAX {
                named.push(format!("{} more kinds", kinds.len() - NAMED_MAX));
            }
            notes.push(format!(
                "{} of {} operations ended otherwise than recorded: {}",
                grouped(count),
                grouped(self.done),
                named.join(", ")
            ));
        }
        if self.skipped > 0 {
            notes.push(format!(
                "{} operations were not repeated: they had been interrupted, or set attributes that are not recorded",
                grouped(self.skipped)
            ));
        }
        notes
    }
}

impl Kind {
    fn merge(&mut self, other: &Kind) {
        self.ops += other.ops;
        self.bytes += other.bytes;
        self.errors += other.errors;
        self.service.merge(&other.service);
        if let Some(intended) = &other.intended {
            self.intended.get_or_insert_default().merge(intended);
        }
        for (second, ops) in other.ops_by_second.iter().enumerate() {
            add(&mut self.ops_by_second, second, *ops);
        }
        for (second, bytes) in other.bytes_by_second.iter().enumerate() {
            add(&mut self.bytes_by_second, second, *bytes);
        }
    }

    fn outcome(self, named: OpOutcome) -> OpOutcome {
        OpOutcome {
            ops: self.ops,
            bytes: self.bytes,
            errors: self.errors,
            service: self.service,
            intended: self.intended,
            ops_per_second: self.ops_by_second,
            bytes_per_second: self.bytes_by_second,
            ..named
        }
    }
}

fn add(series: &mut Vec<u64>, second: usize, count: u64) {
    if series.len() <= second {
        series.resize(second + 1, 0);
    }
    series[second] = series[second].saturating_add(count);
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl std::fmt::Display for Divergence {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Divergence::Failed(error, None) => write!(to, "({} instead of success)", name(*error)),
            Divergence::Failed(error, Some(other)) => {
                write!(to, "({} instead of {})", name(*error), name(*other))
            }
            Divergence::Succeeded(other) => write!(to, "(success instead of {})", name(*other)),
            Divergence::Fewer => write!(to, "(fewer bytes)"),
            Divergence::More => write!(to, "(more bytes)"),
        }
    }
}

/// `ENOENT`, by what the system calls it.
fn name(errno: i32) -> String {
    let names = [
        (Errno::PERM, "EPERM"),
        (Errno::NOENT, "ENOENT"),
        (Errno::IO, "EIO"),
        (Errno::BADF, "EBADF"),
        (Errno::ACCESS, "EACCES"),
        (Errno::BUSY, "EBUSY"),
        (Errno::EXIST, "EEXIST"),
        (Errno::XDEV, "EXDEV"),
        (Errno::NOTDIR, "ENOTDIR"),
        (Errno::ISDIR, "EISDIR"),
        (Errno::INVAL, "EINVAL"),
        (Errno::FBIG, "EFBIG"),
        (Errno::NOSPC, "ENOSPC"),
        (Errno::ROFS, "EROFS"),
        (Errno::MLINK, "EMLINK"),
        (Errno::NAMETOOLONG, "ENAMETOOLONG"),
        (Errno::NOTEMPTY, "ENOTEMPTY"),
        (Errno::LOOP, "ELOOP"),
        (Errno::OPNOTSUPP, "EOPNOTSUPP"),
        (Errno::MFILE, "EMFILE"),
        (Errno::DQUOT, "EDQUOT"),
        (Errno::NOSYS, "ENOSYS"),
    ];
    let known = names.iter().find(|(one, _)| one.raw_os_error() == errno);
    known.map_or_else(|| format!("errno {errno}"), |(_, name)| (*name).to_string())
}

/// `10,412`.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(call: Call, result: i64) -> Step {
        Step {
            number: 1,
            call,
            begin_ns: 0,
            result,
            path: None,
            to: None,
            slot: None,
            offset: 0,
            bytes: 0,
            flags: 0,
        }
    }

    #[test]
    fn what_ends_otherwise_is_counted_by_kind() {
        let start = Instant::now();
        let mut tally = Tally::new(start);
        let end = start + Duration::from_millis(1_500);
        let times = Times { due: Some(start), begin: start + Duration::from_millis(5), end };
        let not_found = -i64::from(libc::ENOENT);
        for (call, recorded, result) in [
            (Call::Open, 7, 0),
            (Call::Open, not_found, not_found),
            (Call::Open, 0, not_found),
            (Call::Open, 0, not_found),
            (Call::Unlink, not_found, 0),
            (Call::Unlink, not_found, -i64::from(libc::EISDIR)),
            (Call::Read, 4096, 4096),
            (Call::Read, 4096, 100),
            (Call::Read, 10, 20),
            (Call::ReadDirectory, 100, 80),
            (Call::Fault, 4096, 80),
        ] {
            tally.count(&step(call, recorded), result, times);
        }
        tally.skip();
        let mut all = Tally::new(start);
        all.merge(tally);
        let outcome = all.outcome(Ended::Done);
        assert_eq!(
            outcome.notes,
            [
                "6 of 11 operations ended otherwise than recorded: 2 open (ENOENT instead of success), 1 read (fewer bytes), \
                 1 read (more bytes), 1 unlink (EISDIR instead of ENOENT), 1 unlink (success instead of ENOENT)",
                "1 operations were not repeated: they had been interrupted, or set attributes that are not recorded",
            ]
        );
        let metric = |name: &str| outcome.metrics.iter().find(|metric| metric.name == name).unwrap().value;
        assert_eq!((metric("diverged"), metric("diverged/open"), metric("skipped")), (6.0, 2.0, 1.0));
        assert!((4.9e6..5.1e6).contains(&metric("lateness_max")));
        let op = |name: &str| outcome.ops.iter().find(|op| op.name == name).unwrap();
        assert_eq!((op("open").ops, op("open").errors, op("read").bytes), (2, 2, 4216));
        assert_eq!(op("read").ops_per_second, [0, 3]);
        assert_eq!((op(LATENESS).ops, outcome.io_ops(), outcome.io_bytes()), (11, 4, 4296));
        assert_eq!(outcome.measured_seconds, 1.5);
        assert!(op("read").intended.as_ref().unwrap().min().unwrap() >= 1_499_000_000);
    }

    #[test]
    fn what_cannot_be_repeated_is_known() {
        let none = Step {
            number: 1,
            call: Call::Open,
            begin_ns: 0,
            result: 0,
            path: Some(0),
            to: None,
            slot: None,
            offset: 0,
            bytes: 0,
            flags: 0,
        };
        let repeats = |call, result: i64| can_be_repeated(&Step { call, result, ..none.clone() });
        assert!(repeats(Call::Open, -i64::from(libc::ENOENT)) && repeats(Call::Read, 0));
        assert!(!repeats(Call::Read, -512) && !repeats(Call::Read, -i64::from(libc::EINTR)));
        assert!(!repeats(Call::SetAttributes, -i64::from(libc::EOPNOTSUPP)));
        assert!(repeats(Call::SetAttributes, -i64::from(libc::ENOENT)));
        let outside =
            |call, slot| can_be_repeated(&Step { call, slot, path: None, to: Some(1), ..none.clone() });
        assert!(!outside(Call::Rename, None) && !outside(Call::Link, None) && outside(Call::Link, Some(0)));
        assert_eq!(End::of(Call::Read, i64::MIN), End::Failed(0));
        assert_eq!([0, 999, 10_412, 1_000_000].map(grouped), ["0", "999", "10,412", "1,000,000"]);
    }
}
