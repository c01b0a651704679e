//! Terminals: threads with a connection each that run transactions, one after the other (closed loop) or each at the
//! time at which it is due (open loop), and count them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use stats::{Direction, Ended, Histogram, Metric, OpClass, OpOutcome, Outcome};

use crate::db::DbError;

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

/// One terminal: it knows its connection, its random numbers, its load.
pub trait Terminal: Send {
    /// Chooses the next transaction: the number of its kind.
    fn choose(&mut self) -> usize;

    /// Runs the chosen transaction from its beginning; the same once more after a conflict.
    ///
    /// # Errors
    /// What the server answered; after a conflict it has been rolled back.
    fn attempt(&mut self) -> Result<Done, DbError>;

    /// Seconds that a person would key and think before a transaction of this kind; 0: none.
    fn wait_seconds(&mut self, kind: usize) -> f64 {
        let _ = kind;
        0.0
    }
}

/// How a transaction ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Done {
    /// It was committed.
    Committed,
    /// It was rolled back because the load wants that.
    RolledBack,
}

/// How long and how fast.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// Seconds before the measured interval.
    pub warmup_seconds: f64,
    /// Measured seconds.
    pub seconds: f64,
    /// Transactions a second that are offered to all terminals together; without one each begins the next at once.
    pub rate: Option<f64>,
}

/// What one terminal counts.
#[derive(Debug, Clone)]
struct Counts {
    of: Vec<CountsOfKind>,
    retries: u64,
}

#[derive(Debug, Clone, Default)]
struct CountsOfKind {
    ops: u64,
    rolled_back: u64,
    errors: u64,
    service: Histogram,
    intended: Histogram,
    by_second: Vec<u64>,
}

/// What all terminals did.
#[derive(Debug)]
pub struct Driven {
    /// As the laboratory stores it.
    pub outcome: Outcome,
    /// Transactions that were rolled back by intent, in the measured interval.
    pub rolled_back: u64,
    /// The first error that ended the run, if one did.
    pub failed: Option<DbError>,
}

/// Runs the terminals to the end of the interval, until `stopped`, or until one meets an error that is no conflict.
pub fn drive(
    kinds: &[Kind],
    terminals: Vec<Box<dyn Terminal + '_>>,
    pace: &Pace,
    stopped: &(dyn Fn() -> bool + Sync),
) -> Driven {
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
        let running: Vec<_> = terminals
            .into_iter()
            .map(|mut terminal| {
                let clock = &clock;
                scope.spawn(move || clock.run(&mut *terminal, kinds.len()))
            })
            .collect();
        for thread in running {
            results.push(thread.join());
        }
    });
    let ended = Instant::now();
    let mut all = Counts { of: vec![CountsOfKind::default(); kinds.len()], retries: 0 };
    let mut failed = None;
    for result in results {
        match result {
            Ok((counts, error)) => {
                all.merge(&counts);
                failed = failed.or(error);
            }
            Err(_) => failed = failed.or_else(|| Some(DbError::Other("a terminal panicked".into()))),
        }
    }
    let measured = ended.min(end).saturating_duration_since(begin).as_secs_f64();
    let interrupted = stopped();
    summarize(kinds, all, failed, measured, pace, interrupted)
}

/// The clock that all terminals share.
struct Clock<'a> {
    start: Instant,
    begin: Instant,
    end: Instant,
    rate: Option<f64>,
    tickets: AtomicU64,
    over: AtomicBool,
    stopped: &'a (dyn Fn() -> bool + Sync),
}

impl Clock<'_> {
    fn run(&self, terminal: &mut dyn Terminal, kinds: usize) -> (Counts, Option<DbError>) {
        let mut counts = Counts { of: vec![CountsOfKind::default(); kinds], retries: 0 };
        loop {
            let kind = terminal.choose();
            let Some(due) = self.due(terminal, kind) else { return (counts, None) };
            let began = Instant::now();
            let mut retries = 0;
            let done = loop {
                match terminal.attempt() {
                    Err(DbError::Conflict(_)) if retries < ATTEMPTS_MAX => retries += 1,
                    // nothing of it counts that ends after the interval
                    Err(_) if self.is_over() => return (counts, None),
                    Err(DbError::Conflict(_)) => break None,
                    Err(error) => {
                        self.over.store(true, Ordering::Release);
                        return (counts, Some(error));
                    }
                    Ok(done) => break Some(done),
                }
            };
            let now = Instant::now();
            if now >= self.begin && now < self.end {
                counts.retries += u64::from(retries);
                let due = due.map(|due| nanoseconds(now.saturating_duration_since(due)));
                counts.of[kind].count(
                    done,
                    nanoseconds(now - began),
                    due,
                    (now - self.begin).as_secs() as usize,
                );
            }
        }
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire) || Instant::now() >= self.end || (self.stopped)()
    }

    /// Waits until the next transaction is due: when (with a rate), or none when the run is over.
    fn due(&self, terminal: &mut dyn Terminal, kind: usize) -> Option<Option<Instant>> {
        let due = match self.rate {
            Some(rate) => {
                let number = self.tickets.fetch_add(1, Ordering::Relaxed);
                Some(self.start + Duration::from_secs_f64(number as f64 / rate))
            }
            None => None,
        };
        let until = match due {
            Some(due) => due,
            None => Instant::now() + Duration::from_secs_f64(terminal.wait_seconds(kind)),
        };
        loop {
            if self.is_over() {
                return None;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Some(due);
            }
            std::thread::sleep(left.min(NAP));
        }
    }
}

impl CountsOfKind {
    fn count(&mut self, done: Option<Done>, service_ns: u64, intended_ns: Option<u64>, second: usize) {
        let Some(done) = done else {
            self.errors += 1;
            return;
        };
        self.ops += 1;
        self.rolled_back += u64::from(done == Done::RolledBack);
        self.service.record(service_ns);
        if let Some(intended_ns) = intended_ns {
            self.intended.record(intended_ns);
        }
        if self.by_second.len() <= second {
            self.by_second.resize(second + 1, 0);
        }
        self.by_second[second] += 1;
    }
}

impl Counts {
    fn merge(&mut self, other: &Counts) {
        self.retries += other.retries;
        for (mine, theirs) in self.of.iter_mut().zip(&other.of) {
            mine.ops += theirs.ops;
            mine.rolled_back += theirs.rolled_back;
            mine.errors += theirs.errors;
            mine.service.merge(&theirs.service);
            mine.intended.merge(&theirs.intended);
            mine.by_second.resize(mine.by_second.len().max(theirs.by_second.len()), 0);
            mine.by_second.iter_mut().zip(&theirs.by_second).for_each(|(mine, theirs)| *mine += theirs);
        }
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn summarize(
    kinds: &[Kind],
    all: Counts,
    failed: Option<DbError>,
    measured_seconds: f64,
    pace: &Pace,
    interrupted: bool,
) -> Driven {
    let rolled_back = all.of.iter().map(|one| one.rolled_back).sum();
    let metrics = vec![
        Metric { name: "retries".into(), unit: "1".into(), value: all.retries as f64 },
        Metric { name: "rolled_back".into(), unit: "1".into(), value: rolled_back as f64 },
    ];
    let ops = kinds.iter().zip(all.of).map(|(kind, counts)| OpOutcome {
        name: kind.name.to_string(),
        kind: "transaction".into(),
        class: OpClass::Io,
        direction: kind.direction,
        ops: counts.ops,
        bytes: 0,
        errors: counts.errors,
        starved: 0,
        service: counts.service,
        intended: pace.rate.map(|_| counts.intended),
        ops_per_second: counts.by_second,
        bytes_per_second: Vec::new(),
    });
    let ended = match &failed {
        Some(error) => Ended::Failed { message: error.to_string() },
        None if interrupted => Ended::Interrupted,
        None => Ended::TimeUp,
    };
    let outcome = Outcome {
        measured_seconds,
        warmup_seconds: pace.warmup_seconds,
        ended,
        ops: ops.collect(),
        metrics,
        notes: Vec::new(),
    };
    Driven { outcome, rolled_back, failed }
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

    /// Takes the transactions in turns; each attempt but the last of a transaction is a conflict.
    struct Fake {
        number: usize,
        conflicts: u32,
        left: u32,
        fails_at: usize,
    }

    impl Terminal for Fake {
        fn choose(&mut self) -> usize {
            self.number += 1;
            self.left = self.conflicts;
            self.number % 2
        }

        fn attempt(&mut self) -> Result<Done, DbError> {
            if self.number >= self.fails_at {
                return Err(DbError::Gone("reset".into()));
            }
            if self.left > 0 {
                self.left -= 1;
                return Err(DbError::Conflict("deadlock".into()));
            }
            std::thread::sleep(Duration::from_millis(1));
            Ok(if self.number.is_multiple_of(10) { Done::RolledBack } else { Done::Committed })
        }
    }

    fn run(conflicts: u32, fails_at: usize, rate: Option<f64>) -> Driven {
        let fake = || Box::new(Fake { number: 0, conflicts, left: 0, fails_at }) as Box<dyn Terminal>;
        let pace = Pace { warmup_seconds: 0.0, seconds: 0.3, rate };
        drive(&KINDS, vec![fake(), fake()], &pace, &|| false)
    }

    #[test]
    fn transactions_are_counted_by_kind_and_conflicts_are_tried_again() {
        let driven = run(2, usize::MAX, None);
        let (outcome, ops) = (&driven.outcome, driven.outcome.io_ops());
        assert!(ops > 0 && driven.failed.is_none() && outcome.ended == Ended::TimeUp);
        assert_eq!(outcome.io_service().count(), ops);
        assert_eq!(outcome.io_ops_by_second().iter().sum::<u64>(), ops);
        assert!(outcome.ops.iter().all(|op| op.intended.is_none()));
        let retries = outcome.metrics.iter().find(|metric| metric.name == "retries").unwrap().value;
        assert_eq!(retries, 2.0 * ops as f64);
        assert!(driven.rolled_back > 0);
    }

    #[test]
    fn an_error_ends_all_terminals_and_is_told() {
        let driven = run(0, 5, None);
        assert_eq!(driven.failed, Some(DbError::Gone("reset".into())));
        assert!(matches!(&driven.outcome.ended, Ended::Failed { message } if message.contains("reset")));
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
    fn seconds_are_summed_in_fives() {
        assert_eq!(by_five_seconds(&[1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 9]), [5, 10]);
    }
}
