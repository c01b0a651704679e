//! Terminals: threads with a connection each that run operations, one after the other (closed loop) or each at the time
//! at which it is due (open loop), and count them.
//!
//! Without a rate and without waits the end of one operation is the start of the next: an operation costs one reading of
//! the clock. What serves many connections on one thread takes part through [`drive_with`] and its [`Clock`].

use std::fmt::Display;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use stats::metric::names;
use stats::{Direction, Ended, Histogram, Metric, OpClass, OpOutcome, Outcome};

/// How long a terminal sleeps before it looks again whether it is to end.
const NAP: Duration = Duration::from_millis(50);
/// Attempts of one transaction that other transactions are in the way of; then it counts as an error.
const ATTEMPTS_MAX: u32 = 100;

/// What a terminal can run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    /// Its name in results.
    pub name: &'static str,
    /// Whether it only reads.
    pub direction: Direction,
}

/// What a terminal's connection answers when an operation fails.
pub trait Failure: Display + Send {
    /// Another transaction was in the way: the same can be tried again.
    fn is_conflict(&self) -> bool {
        false
    }

    /// The error of a terminal whose thread panicked.
    fn panicked() -> Self;
}

/// One terminal: it knows its connection, its random numbers, its load.
pub trait Terminal: Send {
    /// What its connection answers when an operation fails.
    type Error: Failure;

    /// Whether there is something left to do: a load may be a number of operations.
    fn has_more(&mut self) -> bool {
        true
    }

    /// Chooses the next transaction: the number of its kind.
    fn choose(&mut self) -> usize;

    /// Operations of the chosen call, each of which is one of the rate; 0: it runs beside the load, and at no rate.
    fn ops_at_rate(&self) -> u64 {
        1
    }

    /// Runs the chosen transaction from its beginning; the same once more after a conflict.
    ///
    /// # Errors
    /// What the server answered; after a conflict it has been rolled back.
    fn attempt(&mut self) -> Result<TransactionEnd, Self::Error>;

    /// The operations of the call that has just ended were in the warm-up: a load that is a number of operations has them left
    /// again, since its number is that of the measured interval.
    fn give_back(&mut self, ops: u64) {
        let _ = ops;
    }

    /// Seconds that a person would key and think before a transaction of this kind; 0: none.
    fn wait_seconds(&mut self, kind: usize) -> f64 {
        let _ = kind;
        0.0
    }
}

impl<T: Terminal + ?Sized> Terminal for Box<T> {
    type Error = T::Error;

    fn has_more(&mut self) -> bool {
        (**self).has_more()
    }

    fn choose(&mut self) -> usize {
        (**self).choose()
    }

    fn ops_at_rate(&self) -> u64 {
        (**self).ops_at_rate()
    }

    fn attempt(&mut self) -> Result<TransactionEnd, T::Error> {
        (**self).attempt()
    }

    fn give_back(&mut self, ops: u64) {
        (**self).give_back(ops);
    }

    fn wait_seconds(&mut self, kind: usize) -> f64 {
        (**self).wait_seconds(kind)
    }
}

/// How a transaction ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransactionEnd {
    /// It was committed.
    Committed,
    /// It was rolled back because the load wants that.
    RolledBack,
    /// One call did so many operations, which moved so many bytes; each has the call's latency.
    Moved {
        /// Operations.
        ops: u64,
        /// Bytes of keys and values, or of values alone, as the load says.
        bytes: u64,
    },
}

impl TransactionEnd {
    /// Operations that it is.
    fn ops(self) -> u64 {
        match self {
            TransactionEnd::Committed | TransactionEnd::RolledBack => 1,
            TransactionEnd::Moved { ops, .. } => ops,
        }
    }
}

/// How long and how fast.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// Seconds before the measured interval.
    pub warmup_seconds: f64,
    /// Measured seconds.
    pub seconds: f64,
    /// Operations a second that are offered to all terminals together; without it each begins the next at once.
    pub rate: Option<f64>,
}

/// What one terminal, or one thread with many connections, counts.
#[derive(Debug, Clone)]
pub struct Counts {
    of: Vec<CountsOfKind>,
    retries: u64,
    /// How long after it was due an operation began that was waited for: the scheduler's part of the intended latencies.
    late: Histogram,
    /// When the last operation that counts ended.
    last_end: Option<Instant>,
}

#[derive(Debug, Clone, Default)]
struct CountsOfKind {
    ops: u64,
    bytes: u64,
    rolled_back: u64,
    errors: u64,
    service: Histogram,
    intended: Histogram,
    ops_by_second: Vec<u64>,
    bytes_by_second: Vec<u64>,
}

/// What all terminals did.
#[derive(Debug)]
pub struct DriveOutcome<E> {
    /// As the laboratory stores it.
    pub outcome: Outcome,
    /// Transactions that were rolled back by intent, in the measured interval.
    pub rolled_back: u64,
    /// The first error that ended the run, if one did.
    pub failed: Option<E>,
}

/// A moment of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// The measured interval begins: the warm-up has ended, or, without one, the first transaction is about to begin.
    Begin,
    /// The last transaction has ended.
    End,
}

/// Whoever asked for a run: when it is to end early, and who hears of its measured interval. What only ends a run is one as well.
#[derive(Clone, Copy)]
pub struct Caller<'a> {
    /// Whether to end.
    pub stopped: &'a (dyn Fn() -> bool + Sync),
    /// Hears, in the caller's thread, when the measured interval begins and when the last operation has ended. The interval of a
    /// run that ends in its warm-up does not begin.
    pub moment: &'a dyn Fn(Moment),
}

impl<'a, S: Fn() -> bool + Sync> From<&'a S> for Caller<'a> {
    fn from(stopped: &'a S) -> Self {
        Caller { stopped, moment: &|_| {} }
    }
}

/// Runs the terminals to the end of the interval, until `stopped`, or until one meets an error that is no conflict.
pub fn drive<'a, T: Terminal>(
    kinds: &[Kind],
    terminals: Vec<T>,
    pace: &Pace,
    caller: impl Into<Caller<'a>>,
) -> DriveOutcome<T::Error> {
    let run = |mut terminal: T, clock: &Clock<'_>| clock.run(&mut terminal, kinds.len());
    drive_with(kinds, terminals, pace, caller, run)
}

/// Runs each part on a thread of its own; a part takes what is due from the clock, and counts itself.
pub fn drive_with<'a, P: Send, E: Failure>(
    kinds: &[Kind],
    parts: Vec<P>,
    pace: &Pace,
    caller: impl Into<Caller<'a>>,
    run: impl Fn(P, &Clock<'_>) -> (Counts, Option<E>) + Sync,
) -> DriveOutcome<E> {
    let Caller { stopped, moment } = caller.into();
    let is_warm = pace.warmup_seconds > 0.0;
    if !is_warm {
        // whoever hears it takes time that no operation waits for
        moment(Moment::Begin);
    }
    let start = Instant::now();
    let begin = start + Duration::from_secs_f64(pace.warmup_seconds);
    let end = begin + Duration::from_secs_f64(pace.seconds);
    let clock = Clock {
        start,
        begin,
        end,
        rate: pace.rate,
        tickets: AtomicU64::new(0),
        over: AtomicBool::new(false),
        stopped,
    };
    let mut results = Vec::new();
    std::thread::scope(|scope| {
        // each part holds an end of it for as long as it runs: a wait for it ends with the last one
        let (runs, all_ended) = channel::<()>();
        let running: Vec<_> = parts
            .into_iter()
            .map(|part| {
                let (clock, run, runs) = (&clock, &run, runs.clone());
                scope.spawn(move || {
                    let _runs = runs;
                    wake_on_time();
                    run(part, clock)
                })
            })
            .collect();
        drop(runs);
        let warmup = begin.saturating_duration_since(Instant::now());
        // what is counted of the machine and of servers is that of the measured interval, as operations are
        if is_warm && all_ended.recv_timeout(warmup) == Err(RecvTimeoutError::Timeout) {
            moment(Moment::Begin);
        }
        for thread in running {
            results.push(thread.join());
        }
    });
    let ended = Instant::now();
    moment(Moment::End);
    let mut all = Counts::new(kinds.len());
    let mut failed = None;
    let mut lengths = Vec::new();
    for result in results {
        match result {
            Ok((counts, error)) => {
                // an operation that was under way when the time was up makes its terminal's interval longer
                let last = counts.last_end.map_or(end, |last| last.max(end));
                lengths.push(last.saturating_duration_since(begin).as_secs_f64());
                all.merge(&counts);
                failed = failed.or(error);
            }
            Err(_) => failed = failed.or_else(|| Some(E::panicked())),
        }
    }
    let why = match &failed {
        Some(error) => Ended::Failed { message: error.to_string() },
        None if stopped() => Ended::Interrupted,
        None if ended < end => Ended::Done,
        None => Ended::TimeUp,
    };
    // as of the threads of a workload: docs/semantics.md, "The measured interval"
    let measured = match why {
        Ended::TimeUp => lengths.iter().sum::<f64>() / lengths.len().max(1) as f64,
        _ => ended.saturating_duration_since(begin).as_secs_f64(),
    };
    let (outcome, rolled_back) = summarize(kinds, all, why, measured, pace);
    DriveOutcome { outcome, rolled_back, failed }
}

/// The clock that all terminals share.
pub struct Clock<'a> {
    start: Instant,
    begin: Instant,
    end: Instant,
    rate: Option<f64>,
    tickets: AtomicU64,
    over: AtomicBool,
    stopped: &'a (dyn Fn() -> bool + Sync),
}

impl Clock<'_> {
    fn run<T: Terminal>(&self, terminal: &mut T, kinds: usize) -> (Counts, Option<T::Error>) {
        let mut counts = Counts::new(kinds);
        let mut now = Instant::now();
        while terminal.has_more() && !self.is_over(now) {
            let kind = terminal.choose();
            let Some((began, due)) = self.due(terminal, kind, now, &mut counts) else {
                return (counts, None);
            };
            let mut retries = 0;
            let done = loop {
                match terminal.attempt() {
                    Ok(done) => break Some(done),
                    Err(error) if error.is_conflict() && retries < ATTEMPTS_MAX => retries += 1,
                    // the connection may be gone because the run is
                    Err(_) if self.is_abandoned() => return (counts, None),
                    Err(error) if error.is_conflict() => break None,
                    Err(error) => {
                        self.fail();
                        return (counts, Some(error));
                    }
                }
            };
            now = Instant::now();
            match self.second(now) {
                Some(second) => {
                    counts.retries += u64::from(retries);
                    let due = due.map(|due| now.saturating_duration_since(due));
                    counts.count(kind, done, now - began, due, second);
                    counts.ended(now);
                }
                None => terminal.give_back(done.map_or(1, TransactionEnd::ops)),
            }
        }
        (counts, None)
    }

    /// Ends all that share this clock.
    pub fn fail(&self) {
        self.over.store(true, Ordering::Release);
    }

    /// Whether nothing may begin any more.
    pub fn is_over(&self, now: Instant) -> bool {
        now >= self.end || self.over.load(Ordering::Acquire) || (self.stopped)()
    }

    /// Whether the run was interrupted, or has failed in another terminal: what is under way is not waited for.
    pub fn is_abandoned(&self) -> bool {
        self.over.load(Ordering::Acquire) || (self.stopped)()
    }

    /// The second since the measured interval began, for an operation that ends now; none during the warm-up. An operation that
    /// was under way when the time was up ends in a second past the interval, and counts.
    pub fn second(&self, now: Instant) -> Option<usize> {
        (now >= self.begin).then(|| (now - self.begin).as_secs() as usize)
    }

    /// An operation that was waited for begins now and was due before; what the warm-up has waited does not count.
    pub fn woke(&self, due: Instant, now: Instant, counts: &mut Counts) {
        if self.second(now).is_some() {
            counts.late.record(nanoseconds(now.saturating_duration_since(due)));
        }
    }

    /// Whether operations come at a rate, due one after the other.
    pub fn is_paced(&self) -> bool {
        self.rate.is_some()
    }

    /// With a rate: takes the next operations, of which the first is to begin at this moment.
    pub fn next_due(&self, ops: u64) -> Option<Instant> {
        let rate = self.rate.filter(|_| ops > 0)?;
        let number = self.tickets.fetch_add(ops, Ordering::Relaxed);
        let after = Duration::try_from_secs_f64(number as f64 / rate).ok();
        // beyond what a clock shows nothing is due within the run
        Some(after.and_then(|after| self.start.checked_add(after)).unwrap_or(self.end))
    }

    /// Waits until the next transaction is due: when it begins, and when it should (with a rate); none when the run is over.
    fn due<T: Terminal>(
        &self,
        terminal: &mut T,
        kind: usize,
        now: Instant,
        counts: &mut Counts,
    ) -> Option<(Instant, Option<Instant>)> {
        let due = self.next_due(terminal.ops_at_rate());
        let until = match due {
            Some(due) => due,
            None => {
                let wait = terminal.wait_seconds(kind);
                if wait == 0.0 {
                    return Some((now, None));
                }
                now + Duration::from_secs_f64(wait)
            }
        };
        let mut waited = false;
        loop {
            let now = Instant::now();
            if self.is_over(now) {
                return None;
            }
            let left = until.saturating_duration_since(now);
            if left.is_zero() {
                if let Some(due) = due.filter(|_| waited) {
                    self.woke(due, now, counts);
                }
                return Some((now, due));
            }
            waited = true;
            std::thread::sleep(left.min(NAP));
        }
    }
}

impl Counts {
    /// Nothing, of so many kinds.
    pub fn new(kinds: usize) -> Counts {
        Counts {
            of: vec![CountsOfKind::default(); kinds],
            retries: 0,
            late: Histogram::new(),
            last_end: None,
        }
    }

    /// An operation that counts ended at this moment, which is not before any earlier one.
    #[inline]
    pub fn ended(&mut self, now: Instant) {
        self.last_end = Some(now);
    }

    /// Counts an operation of a kind that ended in this second since the interval began; none: it failed.
    #[inline]
    pub fn count(
        &mut self,
        kind: usize,
        done: Option<TransactionEnd>,
        service: Duration,
        intended: Option<Duration>,
        second: usize,
    ) {
        let counts = &mut self.of[kind];
        let (ops, bytes) = match done {
            Some(TransactionEnd::Moved { ops, bytes }) => (ops, bytes),
            Some(TransactionEnd::Committed) => (1, 0),
            Some(TransactionEnd::RolledBack) => {
                counts.rolled_back += 1;
                (1, 0)
            }
            None => {
                counts.errors += 1;
                return;
            }
        };
        counts.ops += ops;
        counts.bytes += bytes;
        counts.service.record_n(nanoseconds(service), ops);
        if let Some(intended) = intended {
            counts.intended.record_n(nanoseconds(intended), ops);
        }
        if counts.ops_by_second.len() <= second {
            counts.ops_by_second.resize(second + 1, 0);
            counts.bytes_by_second.resize(second + 1, 0);
        }
        counts.ops_by_second[second] += ops;
        counts.bytes_by_second[second] += bytes;
    }

    fn merge(&mut self, other: &Counts) {
        self.retries += other.retries;
        self.late.merge(&other.late);
        for (mine, theirs) in self.of.iter_mut().zip(&other.of) {
            mine.ops += theirs.ops;
            mine.bytes += theirs.bytes;
            mine.rolled_back += theirs.rolled_back;
            mine.errors += theirs.errors;
            mine.service.merge(&theirs.service);
            mine.intended.merge(&theirs.intended);
            for (mine, theirs) in [
                (&mut mine.ops_by_second, &theirs.ops_by_second),
                (&mut mine.bytes_by_second, &theirs.bytes_by_second),
            ] {
                mine.resize(mine.len().max(theirs.len()), 0);
                mine.iter_mut().zip(theirs).for_each(|(mine, theirs)| *mine += theirs);
            }
        }
    }
}

/// Timers of the calling thread end when they are due: the kernel's default lets them come 50 us later, to wake several at once.
fn wake_on_time() {
    // refused nowhere but by a filter of system calls; the lateness is told
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZero::new(1));
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn summarize(
    kinds: &[Kind],
    all: Counts,
    ended: Ended,
    measured_seconds: f64,
    pace: &Pace,
) -> (Outcome, u64) {
    let rolled_back = all.of.iter().map(|one| one.rolled_back).sum();
    let mut metrics = vec![
        Metric::process(names::RETRIES, "1", all.retries as f64),
        Metric::process(names::ROLLED_BACK, "1", rolled_back as f64),
    ];
    for (name, quantile) in names::DUE_TIME_LATENESS {
        metrics.extend(all.late.quantile(quantile).map(|value| Metric::rate(name, "ns", value as f64)));
    }
    // the last, incomplete second is left out, and so is what ended after the time was up
    let whole_seconds = measured_seconds.min(pace.seconds).floor() as usize;
    let within = |mut by_second: Vec<u64>| {
        by_second.truncate(whole_seconds);
        by_second
    };
    let ops = kinds.iter().zip(all.of).map(|(kind, counts)| OpOutcome {
        name: kind.name.to_string(),
        kind: "transaction".into(),
        class: OpClass::Io,
        direction: kind.direction,
        ops: counts.ops,
        bytes: counts.bytes,
        errors: counts.errors,
        starved: 0,
        service: counts.service,
        // what runs beside a load at a rate is due at no moment
        intended: pace.rate.map(|_| counts.intended).filter(|intended| intended.count() == counts.ops),
        ops_per_second: within(counts.ops_by_second),
        bytes_per_second: within(counts.bytes_by_second),
        over_time: None,
    });
    let outcome = Outcome {
        measured_seconds,
        warmup_seconds: pace.warmup_seconds,
        ended,
        ops: ops.collect(),
        metrics,
        notes: Vec::new(),
    };
    (outcome, rolled_back)
}

/// Sums of each 5 whole seconds; a rest is left out.
pub fn by_five_seconds(by_second: &[u64]) -> Vec<u64> {
    by_second.chunks_exact(5).map(|five| five.iter().sum()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [Kind; 2] =
        [Kind { name: "a", direction: Direction::Read }, Kind { name: "b", direction: Direction::Write }];

    #[derive(Debug, PartialEq)]
    enum Fault {
        Conflict,
        Gone,
        Panicked,
    }

    impl std::fmt::Display for Fault {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "{self:?}")
        }
    }

    impl Failure for Fault {
        fn is_conflict(&self) -> bool {
            *self == Fault::Conflict
        }

        fn panicked() -> Fault {
            Fault::Panicked
        }
    }

    /// Takes the transactions in turns; each attempt but the last of a transaction is a conflict.
    struct Fake {
        number: usize,
        conflicts: u32,
        left: u32,
        fails_at: usize,
    }

    impl Terminal for Fake {
        type Error = Fault;

        fn choose(&mut self) -> usize {
            self.number += 1;
            self.left = self.conflicts;
            self.number % 2
        }

        fn attempt(&mut self) -> Result<TransactionEnd, Fault> {
            if self.number >= self.fails_at {
                return Err(Fault::Gone);
            }
            if self.left > 0 {
                self.left -= 1;
                return Err(Fault::Conflict);
            }
            std::thread::sleep(Duration::from_millis(1));
            Ok(if self.number.is_multiple_of(10) {
                TransactionEnd::RolledBack
            } else {
                TransactionEnd::Committed
            })
        }
    }

    fn run(conflicts: u32, fails_at: usize, rate: Option<f64>) -> DriveOutcome<Fault> {
        let fake = || Fake { number: 0, conflicts, left: 0, fails_at };
        let pace = Pace { warmup_seconds: 0.0, seconds: 0.3, rate };
        drive(&KINDS, vec![fake(), fake()], &pace, &|| false)
    }

    #[test]
    fn transactions_are_counted_by_kind_and_conflicts_are_tried_again() {
        let driven = run(2, usize::MAX, None);
        let (outcome, ops) = (&driven.outcome, driven.outcome.io_ops());
        assert!(ops > 0 && driven.failed.is_none() && outcome.ended == Ended::TimeUp);
        assert_eq!(outcome.io_service().count(), ops);
        assert_eq!(outcome.io_ops_by_second(), [0; 0], "no second is complete");
        assert!(outcome.ops.iter().all(|op| op.intended.is_none()));
        let retries = outcome.metrics.iter().find(|metric| metric.name == "retries").unwrap().value;
        assert_eq!(retries, 2.0 * ops as f64);
        assert!(driven.rolled_back > 0);
    }

    #[test]
    fn an_error_ends_all_terminals_and_is_told() {
        let driven = run(0, 5, None);
        assert_eq!(driven.failed, Some(Fault::Gone));
        assert!(matches!(&driven.outcome.ended, Ended::Failed { message } if message == "Gone"));
    }

    #[test]
    fn at_a_rate_no_more_is_begun_than_is_due_and_lateness_counts() {
        let driven = run(0, usize::MAX, Some(100.0));
        assert!(driven.outcome.io_ops() <= 31, "{}", driven.outcome.io_ops());
        let overload = run(0, usize::MAX, Some(100_000.0));
        let late = overload.outcome.ops.iter().map(|op| op.intended.as_ref().unwrap().max().unwrap_or(0));
        let service = overload.outcome.io_service().max().unwrap();
        assert!(late.max().unwrap() > service, "a queue of transactions that are due adds to their latency");
    }

    #[test]
    fn threads_wake_on_time_and_it_is_told_how_late() {
        let pace = Pace { warmup_seconds: 0.0, seconds: 0.1, rate: None };
        let slack = std::sync::Mutex::new(Vec::new());
        let look = |(): (), _: &Clock<'_>| {
            slack.lock().unwrap().push(rustix::thread::current_timer_slack().unwrap());
            (Counts::new(1), None::<Fault>)
        };
        drive_with(&KINDS[..1], vec![(), ()], &pace, &|| false, look);
        assert_eq!(*slack.lock().unwrap(), [1, 1], "ns");
        let told = |rate| {
            let metrics = run(0, usize::MAX, rate).outcome.metrics;
            let is_lateness = |name: &str| names::DUE_TIME_LATENESS.iter().any(|(known, _)| *known == name);
            metrics.iter().filter(|metric| is_lateness(&metric.name)).count()
        };
        assert_eq!((told(Some(100.0)), told(None)), (2, 0));
    }

    /// A clock whose measured interval begins now.
    fn clock(seconds: u64, rate: f64) -> Clock<'static> {
        let begin = Instant::now();
        Clock {
            start: begin,
            begin,
            end: begin + Duration::from_secs(seconds),
            rate: Some(rate),
            tickets: AtomicU64::new(0),
            over: AtomicBool::new(false),
            stopped: &|| false,
        }
    }

    #[test]
    fn a_rate_is_of_operations_and_what_runs_beside_takes_none() {
        /// Calls of so many operations.
        struct Calls(u64);
        impl Terminal for Calls {
            type Error = Fault;
            fn choose(&mut self) -> usize {
                0
            }
            fn ops_at_rate(&self) -> u64 {
                self.0
            }
            fn attempt(&mut self) -> Result<TransactionEnd, Fault> {
                Ok(TransactionEnd::Moved { ops: self.0, bytes: 0 })
            }
        }
        let (clock, mut counts) = (clock(3600, 1e6), Counts::new(1));
        let mut due = |ops: u64| clock.due(&mut Calls(ops), 0, clock.start, &mut counts).unwrap().1;
        let after = |ops: u64| Some(clock.start + Duration::from_micros(ops));
        assert_eq!([due(32), due(0), due(100), due(1)], [after(0), None, after(32), after(132)]);
        let pace = Pace { warmup_seconds: 0.0, seconds: 0.3, rate: Some(1000.0) };
        let ops = drive(&KINDS[..1], vec![Calls(32), Calls(32)], &pace, &|| false).outcome.io_ops();
        assert!(ops <= 320, "{ops}");
    }

    #[test]
    fn a_rate_that_no_clock_can_follow_is_none() {
        let clock = clock(3600, 1e-20);
        assert_eq!((clock.next_due(1), clock.next_due(1)), (Some(clock.start), Some(clock.end)));
    }

    #[test]
    fn lateness_of_the_warm_up_does_not_count() {
        let clock = clock(0, 1.0);
        let begin = clock.begin;
        let (mut counts, due) = (Counts::new(1), begin - Duration::from_micros(3));
        clock.woke(due, begin - Duration::from_micros(1), &mut counts);
        assert_eq!(counts.late.count(), 0);
        clock.woke(due, begin, &mut counts);
        assert_eq!((counts.late.count(), counts.late.max()), (1, Some(3000)));
    }

    /// Every operation takes as long as this.
    struct Slow(Duration);

    impl Terminal for Slow {
        type Error = Fault;

        fn choose(&mut self) -> usize {
            0
        }

        fn attempt(&mut self) -> Result<TransactionEnd, Fault> {
            std::thread::sleep(self.0);
            Ok(TransactionEnd::Committed)
        }
    }

    #[test]
    fn an_operation_under_way_at_the_end_counts_with_its_whole_latency() {
        let pace = Pace { warmup_seconds: 0.0, seconds: 1.1, rate: None };
        let stall = Duration::from_millis(1700);
        let driven = drive(&KINDS[..1], vec![Slow(stall), Slow(stall)], &pace, &|| false);
        let outcome = driven.outcome;
        assert_eq!((outcome.io_ops(), &outcome.ended), (2, &Ended::TimeUp));
        assert!(outcome.io_service().max().unwrap() >= 1_700_000_000, "the stall is in the tail");
        assert!(
            outcome.measured_seconds >= 1.7,
            "rates are divided by the time until the last operation ended"
        );
        assert!(outcome.io_ops_by_second().len() <= 1, "no second past the interval is in the series");
    }

    #[test]
    fn the_interval_is_told_when_the_warm_up_has_ended() {
        let pace = Pace { warmup_seconds: 0.2, seconds: 0.1, rate: None };
        let (start, told) = (Instant::now(), std::cell::RefCell::new(Vec::new()));
        let tell = |moment| told.borrow_mut().push((moment, start.elapsed()));
        let caller = Caller { stopped: &|| false, moment: &tell };
        let slow = || Slow(Duration::from_millis(1));
        assert!(drive(&KINDS[..1], vec![slow(), slow()], &pace, caller).failed.is_none());
        let told = told.take();
        assert_eq!(told.iter().map(|(moment, _)| *moment).collect::<Vec<_>>(), [Moment::Begin, Moment::End]);
        assert!(told[0].1 >= Duration::from_millis(200), "the warm-up is no part of it: {told:?}");
        assert!(told[1].1 >= Duration::from_millis(300), "{told:?}");
    }

    #[test]
    fn a_run_that_ends_in_its_warm_up_waits_for_no_interval() {
        let pace = Pace { warmup_seconds: 3600.0, seconds: 1.0, rate: None };
        let told = std::cell::RefCell::new(Vec::new());
        let caller = Caller { stopped: &|| false, moment: &|moment| told.borrow_mut().push(moment) };
        let fake = || Fake { number: 0, conflicts: 0, left: 0, fails_at: 5 };
        assert_eq!(drive(&KINDS, vec![fake(), fake()], &pace, caller).failed, Some(Fault::Gone));
        assert_eq!(told.take(), [Moment::End]);
    }

    /// Ten calls of three operations each.
    struct Few(u32);

    impl Terminal for Few {
        type Error = Fault;

        fn has_more(&mut self) -> bool {
            self.0 < 10
        }

        fn choose(&mut self) -> usize {
            self.0 += 1;
            0
        }

        fn attempt(&mut self) -> Result<TransactionEnd, Fault> {
            Ok(TransactionEnd::Moved { ops: 3, bytes: 7 })
        }
    }

    #[test]
    fn a_number_of_operations_ends_by_itself_and_calls_of_many_count_each() {
        let pace = Pace { warmup_seconds: 0.0, seconds: 60.0, rate: None };
        let driven = drive(&KINDS[..1], vec![Few(0), Few(5)], &pace, &|| false);
        assert_eq!((driven.outcome.io_ops(), driven.outcome.io_bytes()), (45, 105));
        assert_eq!(driven.outcome.io_service().count(), 45);
        assert_eq!(driven.outcome.ended, Ended::Done);
        assert!(driven.outcome.measured_seconds < 60.0);
    }

    #[test]
    fn a_terminal_that_panics_is_an_error_of_the_run() {
        let pace = Pace { warmup_seconds: 0.0, seconds: 60.0, rate: None };
        struct Panics;
        impl Terminal for Panics {
            type Error = Fault;
            fn choose(&mut self) -> usize {
                0
            }
            fn attempt(&mut self) -> Result<TransactionEnd, Fault> {
                panic!("planted")
            }
        }
        assert_eq!(drive(&KINDS, vec![Panics], &pace, &|| false).failed, Some(Fault::Panicked));
    }

    #[test]
    fn seconds_are_summed_in_fives() {
        assert_eq!(by_five_seconds(&[1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 9]), [5, 10]);
    }
}
