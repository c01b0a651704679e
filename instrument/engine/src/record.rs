//! Per-thread recording: nothing here is shared, so that measuring costs a few nanoseconds an operation.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use stats::Histogram;
use stats::over_time::Follower;

use crate::diary::DiaryWriter;

/// The second is the resolution of the series.
const SECOND_NS: u64 = 1_000_000_000;

/// How often a thread publishes its count for the progress display.
const PUBLISH_NS: u64 = 100_000_000;

/// What one thread did with one flowop.
#[derive(Debug, Clone, Default)]
pub struct OpRecord {
    /// Completed operations.
    pub ops: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Failures.
    pub errors: u64,
    /// Skipped, since no file could be picked.
    pub starved: u64,
    /// Service times in nanoseconds.
    pub service: Histogram,
    /// Latencies from the intended start in nanoseconds, when paced.
    pub intended: Option<Box<Histogram>>,
    /// Operations and bytes in each whole second so far.
    pub seconds: Vec<(u64, u64)>,
    /// Latencies in each whole second so far.
    pub over_time: Follower,
}

impl OpRecord {
    #[inline(always)]
    fn count(&mut self, took_ns: u64, bytes: u64, lag_ns: Option<u64>) {
        self.ops += 1;
        self.bytes += bytes;
        self.service.record(took_ns);
        if let Some(lag) = lag_ns {
            self.intended.get_or_insert_default().record(took_ns.saturating_add(lag));
        }
    }

    /// Adds what another thread did with the same flowop.
    pub fn merge(&mut self, other: &OpRecord) {
        self.ops += other.ops;
        self.bytes += other.bytes;
        self.errors += other.errors;
        self.starved += other.starved;
        self.service.merge(&other.service);
        if let Some(theirs) = &other.intended {
            self.intended.get_or_insert_default().merge(theirs);
        }
        if self.seconds.len() < other.seconds.len() {
            self.seconds.resize(other.seconds.len(), (0, 0));
        }
        for (mine, theirs) in self.seconds.iter_mut().zip(&other.seconds) {
            mine.0 += theirs.0;
            mine.1 += theirs.1;
        }
        self.over_time.merge(&other.over_time);
    }

    fn close_seconds_until(&mut self, second: usize) {
        let (ops, bytes) = self.seconds.iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        if self.seconds.len() < second {
            self.seconds.push((self.ops - ops, self.bytes - bytes));
            // A thread that was blocked over several seconds completed nothing in the later ones.
            self.seconds.resize(second, (0, 0));
            self.over_time.close(second, self.intended.as_deref().unwrap_or(&self.service));
        }
    }
}

/// When things happen, on the target's clock.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// The load begins.
    pub begin_ns: u64,
    /// The measured interval begins.
    pub measure_ns: u64,
    /// It ends; `u64::MAX`: when the work is done.
    pub deadline_ns: u64,
    /// Length of a reporting period; 0: none.
    pub period_ns: u64,
}

impl Timing {
    /// The same, so many nanoseconds later.
    pub(crate) fn later(self, by_ns: u64) -> Timing {
        let later = |at: u64| at.saturating_add(by_ns);
        Timing {
            begin_ns: later(self.begin_ns),
            measure_ns: later(self.measure_ns),
            deadline_ns: later(self.deadline_ns),
            ..self
        }
    }

    /// Begin and end of a reporting period (from 0), in nanoseconds of the measured interval. The last one ends with
    /// the interval, however long the others are.
    pub fn period(&self, number: usize) -> (u64, u64) {
        let length = self.deadline_ns - self.measure_ns.min(self.deadline_ns);
        let end = |periods: u64| self.period_ns.saturating_mul(periods).min(length);
        (end(number as u64), end(number as u64 + 1))
    }
}

/// Takes the records of a thread when a reporting period is over, and once more when the thread ends.
pub type PeriodSink<'r> = Box<dyn Fn(ReportKind, &[OpRecord]) + 'r>;

/// What is reported to a [`PeriodSink`], from the start or since the last report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportKind {
    /// The period of this number is over.
    Over(usize),
    /// The thread has ended within the period of this number.
    Ended(usize),
}

/// The record of one thread (or lane).
pub struct Recorder<'r> {
    /// One for each flowop of the program.
    pub ops: Vec<OpRecord>,
    /// Once more, since the last report, when reports start anew each time.
    since: Option<Vec<OpRecord>>,
    sink: Option<PeriodSink<'r>>,
    /// Line of each flowop, and what is written with.
    diary: Option<(Vec<usize>, DiaryWriter<'r>)>,
    period: usize,
    timing: Timing,
    next_tick_ns: u64,
    next_period_ns: u64,
    second: usize,
    completed: u64,
    published: &'r AtomicU64,
}

impl<'r> Recorder<'r> {
    /// A record of `ops` flowops that publishes its count of operations in `published`.
    pub fn new(ops: usize, timing: Timing, published: &'r AtomicU64) -> Recorder<'r> {
        let next_period_ns = if timing.period_ns > 0 {
            timing.measure_ns.saturating_add(timing.period(0).1)
        } else {
            u64::MAX
        };
        let next_tick_ns = if timing.begin_ns < timing.measure_ns {
            timing.measure_ns
        } else {
            timing.begin_ns + PUBLISH_NS
        };
        Recorder {
            ops: vec![OpRecord::default(); ops],
            since: None,
            sink: None,
            diary: None,
            period: 0,
            timing,
            next_tick_ns: next_tick_ns.min(timing.begin_ns + PUBLISH_NS),
            next_period_ns,
            second: 0,
            completed: 0,
            published,
        }
    }

    /// Reports every period to `sink`; `anew`: each report starts from zero.
    pub fn report_to(&mut self, sink: PeriodSink<'r>, anew: bool) {
        self.sink = Some(sink);
        self.since = anew.then(|| vec![OpRecord::default(); self.ops.len()]);
    }

    /// Writes down with `pen` when each operation began and ended; `lines` are the flowops' lines in the outcome.
    pub(crate) fn keep_diary(&mut self, lines: Vec<usize>, pen: DiaryWriter<'r>) {
        self.diary = Some((lines, pen));
    }

    /// So many nanoseconds did not count: the clock of the record stood still.
    pub(crate) fn pause(&mut self, nanoseconds: u64) {
        self.timing = self.timing.later(nanoseconds);
        self.next_tick_ns = self.next_tick_ns.saturating_add(nanoseconds);
        self.next_period_ns = self.next_period_ns.saturating_add(nanoseconds);
    }

    /// Counts one completed operation.
    #[inline(always)]
    pub fn done(&mut self, op: usize, start_ns: u64, end_ns: u64, bytes: u64, lag_ns: Option<u64>) {
        if end_ns >= self.next_tick_ns {
            self.tick(end_ns);
        }
        let took = end_ns.saturating_sub(start_ns);
        self.ops[op].count(took, bytes, lag_ns);
        if let Some(since) = &mut self.since {
            since[op].count(took, bytes, lag_ns);
        }
        if let Some((lines, pen)) = &mut self.diary {
            pen.write(lines[op], start_ns, end_ns);
        }
        self.completed += 1;
    }

    /// The record that counts an operation that was not completed at `now_ns`.
    pub(crate) fn missed(&mut self, op: usize, now_ns: u64) -> &mut OpRecord {
        if now_ns >= self.next_tick_ns {
            self.tick(now_ns);
        }
        &mut self.ops[op]
    }

    /// Everything that happens now and then: the end of the warm-up, of a second, of a period.
    #[cold]
    #[inline(never)]
    fn tick(&mut self, now_ns: u64) {
        self.published.store(self.completed, Relaxed);
        self.next_tick_ns = now_ns + PUBLISH_NS;
        if now_ns < self.timing.measure_ns {
            self.next_tick_ns = self.next_tick_ns.min(self.timing.measure_ns);
            return;
        }
        let in_warmup = self.next_second_ns() == self.timing.measure_ns + SECOND_NS
            && self.timing.begin_ns < self.timing.measure_ns
            && self.second == 0;
        if in_warmup {
            // The warm-up's figures go; an operation that straddles the line ends in the measured interval.
            self.ops
                .iter_mut()
                .chain(self.since.iter_mut().flatten())
                .for_each(|op| *op = OpRecord::default());
            self.timing.begin_ns = self.timing.measure_ns;
        }
        // what ends after the interval belongs to no second of it
        let second = now_ns.min(self.timing.deadline_ns).saturating_sub(self.timing.measure_ns) / SECOND_NS;
        let second = second as usize;
        if second > self.second {
            self.ops.iter_mut().for_each(|op| op.close_seconds_until(second));
            self.second = second;
        }
        while now_ns >= self.next_period_ns {
            if let Some(sink) = &self.sink {
                sink(ReportKind::Over(self.period), self.since.as_deref().unwrap_or(&self.ops));
            }
            self.since.iter_mut().flatten().for_each(|op| *op = OpRecord::default());
            self.period += 1;
            self.next_period_ns = match self.timing.period(self.period) {
                (from, to) if from < to => self.timing.measure_ns.saturating_add(to),
                _ => u64::MAX,
            };
        }
        self.next_tick_ns = self.next_tick_ns.min(self.next_second_ns()).min(self.next_period_ns);
    }

    fn next_second_ns(&self) -> u64 {
        self.timing.measure_ns.saturating_add((self.second as u64 + 1) * SECOND_NS)
    }

    /// Whether the warm-up is still on at `now_ns`.
    pub fn warming_up(&self, now_ns: u64) -> bool {
        now_ns < self.timing.measure_ns
    }

    /// Closes the record at `now_ns`.
    pub fn finish(&mut self, now_ns: u64) {
        self.tick(now_ns);
        if now_ns < self.timing.measure_ns {
            self.ops.iter_mut().for_each(|op| *op = OpRecord::default());
        } else if let Some(sink) = &self.sink {
            sink(ReportKind::Ended(self.period), self.since.as_deref().unwrap_or(&self.ops));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = SECOND_NS;

    fn timing(warmup: u64) -> Timing {
        Timing { begin_ns: 1000, measure_ns: 1000 + warmup, deadline_ns: u64::MAX, period_ns: 0 }
    }

    #[test]
    fn the_series_ends_with_the_interval() {
        let published = AtomicU64::new(0);
        let timing = Timing { deadline_ns: 1000 + 2 * S, ..timing(0) };
        let mut recorder = Recorder::new(1, timing, &published);
        recorder.done(0, 1000, 1000 + S / 2, 1, None);
        // one that stood still over the deadline
        recorder.done(0, 1000 + S, 1000 + 5 * S, 1, None);
        recorder.done(0, 1000 + 5 * S, 1000 + 7 * S, 1, None);
        recorder.finish(1000 + 7 * S);
        let record = &recorder.ops[0];
        assert_eq!((record.ops, &record.seconds), (3, &vec![(1, 1), (0, 0)]));
        assert!(record.service.max().unwrap() >= 4 * S, "its time is in the tail all the same");
    }

    #[test]
    fn seconds_are_closed_on_time() {
        let published = AtomicU64::new(0);
        let mut recorder = Recorder::new(1, timing(0), &published);
        for end in [S / 2, S / 2 + 7, S + 5, 3 * S + 1, 3 * S + 2] {
            recorder.done(0, 1000 + end - 3, 1000 + end, 10, None);
        }
        recorder.finish(1000 + 4 * S);
        assert_eq!(recorder.ops[0].seconds, [(2, 20), (1, 10), (0, 0), (2, 20)]);
        assert_eq!(recorder.ops[0].ops, 5);
        let over_time = recorder.ops[0].over_time.clone().finish().unwrap();
        let counts =
            over_time.steps().iter().map(|step| step.buckets().map(|(.., count)| count).sum::<u64>());
        assert_eq!(counts.collect::<Vec<_>>(), [2, 1, 0, 2]);
        assert_eq!(published.load(Relaxed), 5);
    }

    #[test]
    fn the_warm_up_leaves_no_trace() {
        let published = AtomicU64::new(0);
        let mut recorder = Recorder::new(1, timing(2 * S), &published);
        for tenth in 0..25 {
            recorder.done(0, 1000 + tenth * S / 10, 1000 + tenth * S / 10 + 5, 1, None);
        }
        recorder.finish(1000 + 5 * S / 2);
        // 2.0 to 2.4 s are five operations.
        assert_eq!(recorder.ops[0].ops, 5);
        assert_eq!(recorder.ops[0].service.count(), 5);
    }

    #[test]
    fn an_operation_over_the_line_is_measured() {
        let published = AtomicU64::new(0);
        let mut recorder = Recorder::new(1, timing(S), &published);
        recorder.done(0, 1000, 1000 + S + 500, 1, None);
        recorder.finish(1000 + 2 * S);
        assert_eq!(recorder.ops[0].service.max(), Some(S + 500));
    }

    #[test]
    fn what_failed_after_the_warm_up_counts_where_nothing_was_completed() {
        let published = AtomicU64::new(0);
        let mut recorder = Recorder::new(1, timing(S), &published);
        for half in 1..=5 {
            recorder.missed(0, 1000 + half * S / 2).errors += 1;
        }
        recorder.finish(1000 + 3 * S);
        assert_eq!((recorder.ops[0].ops, recorder.ops[0].errors), (0, 4));
    }

    #[test]
    fn nothing_is_measured_when_the_warm_up_never_ends() {
        let published = AtomicU64::new(0);
        let mut recorder = Recorder::new(1, timing(S), &published);
        recorder.done(0, 1000, 2000, 1, None);
        recorder.finish(3000);
        assert_eq!(recorder.ops[0].ops, 0);
    }

    #[test]
    fn lateness_counts_in_the_intended_latency_only() {
        let published = AtomicU64::new(0);
        let mut recorder = Recorder::new(1, timing(0), &published);
        recorder.done(0, 2000, 3000, 1, Some(S));
        let op = &recorder.ops[0];
        assert_eq!(op.service.max(), Some(1000));
        assert_eq!(op.intended.as_ref().unwrap().max(), Some(S + 1000));
    }

    #[test]
    fn periods_hold_what_was_done_until_then() {
        for (anew, expected) in [(false, (2, 4, 5)), (true, (2, 2, 1))] {
            let published = AtomicU64::new(0);
            let timing = Timing { period_ns: S, ..timing(0) };
            let counts = std::cell::RefCell::new(Vec::new());
            let mut recorder = Recorder::new(1, timing, &published);
            let sink = |what, ops: &[OpRecord]| counts.borrow_mut().push((what, ops[0].ops));
            recorder.report_to(Box::new(sink), anew);
            for half in 1..=5 {
                recorder.done(0, 1000, 1000 + half * S / 2 - 1, 1, None);
            }
            recorder.finish(1000 + 5 * S / 2);
            drop(recorder);
            let (first, second, rest) = expected;
            let expected =
                [(ReportKind::Over(0), first), (ReportKind::Over(1), second), (ReportKind::Ended(2), rest)];
            assert_eq!(counts.into_inner(), expected);
        }
    }

    #[test]
    fn the_last_period_ends_with_the_interval() {
        let published = AtomicU64::new(0);
        let timing = Timing { period_ns: 2 * S, deadline_ns: 1000 + 5 * S, ..timing(0) };
        let periods: Vec<(u64, u64)> = (0..4).map(|number| timing.period(number)).collect();
        assert_eq!(periods, [(0, 2 * S), (2 * S, 4 * S), (4 * S, 5 * S), (5 * S, 5 * S)]);
        let told = std::cell::RefCell::new(Vec::new());
        let mut recorder = Recorder::new(1, timing, &published);
        recorder
            .report_to(Box::new(|what, ops: &[OpRecord]| told.borrow_mut().push((what, ops[0].ops))), true);
        for second in 1..=5 {
            recorder.done(0, 1000, 1000 + second * S - 1, 1, None);
        }
        recorder.finish(1000 + 5 * S + 7);
        drop(recorder);
        let over = |number, ops| (ReportKind::Over(number), ops);
        assert_eq!(told.into_inner(), [over(0, 2), over(1, 2), over(2, 1), (ReportKind::Ended(3), 0)]);
    }
}
