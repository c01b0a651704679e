//! The watching thread of a run: opens the gate, tells the time, ends the run.

use std::sync::atomic::Ordering::*;

use stats::outcome::{Ended, Outcome};
use workload::{EndMode, IoMode, Process, Step, Thread, Workload};

use crate::clock::Clock;
use crate::options::{Event, RunOptions};
use crate::outcome::{WatchResult, empty_outcome, op_outcome};
use crate::record::Timing;
use crate::slices::Slices;
use crate::threads::RunContext;
use crate::usage::Usage;

const SECOND_NS: u64 = 1_000_000_000;

/// How often the watching thread looks.
pub(crate) const LOOK_NS: u64 = 100_000_000;

/// `run` without a length, in mode timeout.
const DEFAULT_SECONDS: f64 = 60.0;

/// Looks of the watching thread in a row that must find every thread waiting for another one.
const DEADLOCK_LOOKS: u32 = 5;

/// The times that the script and the options ask for.
pub(crate) struct Plan {
    pub(crate) seconds: Option<f64>,
    pub(crate) ops: Option<u64>,
    pub(crate) warmup_seconds: f64,
    pub(crate) period_seconds: Option<i64>,
}

impl Plan {
    /// What the options say goes before what the script says.
    pub(crate) fn of(workload: &Workload, options: &RunOptions) -> Plan {
        let (mut seconds, mut ops, mut period_seconds, mut warmup) = (None, None, None, 0);
        for step in &workload.script {
            if let Step::Run { seconds: s, ops: o, report_period_seconds: p, warmup_seconds: w } = step {
                (seconds, ops, period_seconds, warmup) = (s.map(|s| s as f64), *o, *p, *w);
            }
        }
        // a script's number of operations is an end of the run, and a time that is told is another
        let ops = options.ops.or(ops.filter(|_| options.seconds.is_none()));
        let until_done = workload.end != EndMode::Timeout || ops.is_some();
        let asked = options.seconds.or(seconds).filter(|seconds| *seconds > 0.0);
        Plan {
            seconds: asked.or((!until_done).then_some(DEFAULT_SECONDS)),
            ops,
            warmup_seconds: options.warmup_seconds.unwrap_or(warmup as f64).max(0.0),
            period_seconds: period_seconds.filter(|period| *period != 0),
        }
    }
}

/// The watching thread: opens the gate, tells the time, ends the run.
pub(crate) struct Watch<'w, 'r> {
    crew: &'w RunContext<'r>,
    plan: &'w Plan,
    on_event: &'w mut dyn FnMut(Event),
    clock: Clock,
    timing: Timing,
    usage_at_start: Option<Usage>,
    usage_at_end: Option<Usage>,
    periods_told: usize,
    notes: Vec<String>,
}

impl<'w, 'r> Watch<'w, 'r> {
    pub(crate) fn new(
        crew: &'w RunContext<'r>,
        plan: &'w Plan,
        on_event: &'w mut dyn FnMut(Event),
    ) -> Watch<'w, 'r> {
        let timing = Timing { begin_ns: 0, measure_ns: 0, deadline_ns: u64::MAX, period_ns: 0 };
        Watch {
            crew,
            plan,
            on_event,
            clock: Clock::get(),
            timing,
            usage_at_start: None,
            usage_at_end: None,
            periods_told: 0,
            notes: Vec::new(),
        }
    }

    pub(crate) fn watch(&mut self) {
        if self.wait_until_ready() {
            (self.on_event)(Event::Ready);
        }
        if self.crew.shared.control.stopped() || self.crew.gate.ready() < self.crew.published.len() {
            self.crew.gate.open(None);
            return;
        }
        self.timing = self.times();
        if let Some(slices) = self.crew.shared.control.slices() {
            slices.begin(self.lanes());
        }
        self.crew.gate.open(Some(self.timing));
        (self.on_event)(Event::Line { text: "Running...".into() });
        let mut stuck = 0;
        while self.alive() > 0 {
            let now = self.clock.now();
            let next =
                [self.timing.measure_ns, self.timing.deadline_ns].into_iter().filter(|at| *at > now).min();
            self.crew.alive.wait(next.map_or(LOOK_NS, |at| (at - now).min(LOOK_NS)));
            self.look(&mut stuck);
        }
        if self.crew.shared.control.slices().is_some() {
            // who grants hears of the end
            self.crew.shared.control.finish();
        }
        self.usage_at_end.get_or_insert_with(Usage::now);
        self.tell_periods(true);
        self.tell_lines();
    }

    fn alive(&self) -> usize {
        self.crew.alive.count()
    }

    /// False: some thread could not be started, or the user interrupted.
    fn wait_until_ready(&mut self) -> bool {
        let idle = crate::event::Event::default();
        while self.crew.gate.ready() < self.crew.published.len() {
            if self.crew.shared.control.stopped() {
                return false;
            }
            idle.block(0, 1_000_000);
        }
        !self.crew.shared.control.stopped()
    }

    fn times(&self) -> Timing {
        let ns = |seconds: f64| (seconds * 1e9).min(9e18) as u64;
        // Long enough for every thread to wake up before the load begins.
        let wake_ns = 1_000_000 + 20_000 * self.crew.published.len() as u64;
        // nobody begins before
        let begin_ns = self.clock.now() + wake_ns + ns(self.crew.workload.common_delay_seconds());
        let measure_ns = begin_ns + ns(self.plan.warmup_seconds);
        let deadline_ns =
            self.plan.seconds.map_or(u64::MAX, |seconds| measure_ns.saturating_add(ns(seconds)));
        let period_ns =
            self.plan.period_seconds.map_or(0, |period| period.unsigned_abs().saturating_mul(SECOND_NS));
        Timing { begin_ns, measure_ns, deadline_ns, period_ns }
    }

    fn look(&mut self, stuck: &mut u32) {
        let now = self.clock.now();
        let control = self.crew.shared.control;
        if now >= self.timing.measure_ns {
            self.usage_at_start.get_or_insert_with(Usage::now);
        }
        // lanes in turns have clocks of their own
        if now >= self.timing.deadline_ns && !control.slices().is_some_and(Slices::is_timed) {
            self.usage_at_end.get_or_insert_with(Usage::now);
            control.finish();
        }
        if self.all_idle_at_the_end() {
            self.stop_if_idle(stuck, "the set number of operations is done");
        } else if control.slices().is_none()
            && control.waiting_threads() as usize >= self.alive()
            && self.alive() > 0
        {
            self.stop_if_idle(
                stuck,
                "every thread waited for another one (block, semblock): the run was ended",
            );
        } else {
            *stuck = 0;
        }
        self.tell_lines();
        self.tell_periods(false);
        (self.on_event)(Event::Running {
            elapsed_seconds: (now as f64 - self.timing.measure_ns as f64) / 1e9,
            total_seconds: self.plan.seconds,
            io_ops: self.crew.published.iter().map(|count| count.load(Relaxed)).sum(),
        });
    }

    /// Whether the set number of operations is claimed, and no lane is left that will do one. (What is claimed may be not due
    /// yet, or slow.)
    fn all_idle_at_the_end(&self) -> bool {
        let shared = self.crew.shared;
        let lanes = shared.lanes.load(Acquire);
        shared.ops_left.as_ref().is_some_and(|left| left.load(Relaxed) == 0)
            && lanes > 0
            && shared.control.idle_lanes() >= lanes
    }

    fn stop_if_idle(&mut self, looks: &mut u32, note: &str) {
        *looks += 1;
        if *looks == DEADLOCK_LOOKS {
            self.notes.push(note.to_owned());
            self.crew.shared.control.finish();
        }
    }

    fn tell_lines(&mut self) {
        let lines = std::mem::take(
            &mut *self.crew.shared.lines.lock().unwrap_or_else(|poisoned| poisoned.into_inner()),
        );
        lines.into_iter().for_each(|text| (self.on_event)(Event::Line { text }));
    }

    fn lanes(&self) -> usize {
        let depth = match self.crew.options.io {
            IoMode::Psync => 1,
            IoMode::Uring { depth } => depth.max(1),
        };
        let lanes = |process: &Process| {
            let of = |thread: &Thread| {
                thread.instances * u64::from(if thread.stream.is_some() { 1 } else { depth })
            };
            process.instances * process.threads.iter().map(of).sum::<u64>()
        };
        self.crew.workload.processes.iter().map(lanes).sum::<u64>() as usize
    }

    /// Tells the periods to which every lane has added its part (or, at the end, all that are left).
    fn tell_periods(&mut self, all: bool) {
        let lanes = self.lanes();
        loop {
            let mut periods =
                self.crew.shared.periods.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            let Some(sums) = periods.take(self.periods_told, if all { 0 } else { lanes }) else { return };
            drop(periods);
            let (from_ns, at_ns) = self.timing.period(self.periods_told);
            self.periods_told += 1;
            let covered_ns = if self.crew.periods_start_anew { at_ns - from_ns } else { at_ns };
            let outcome = Outcome {
                measured_seconds: covered_ns as f64 / 1e9,
                ended: Ended::TimeUp,
                ops: (self.crew.programs.lines.iter().zip(sums))
                    .map(|(line, sum)| op_outcome(line, sum))
                    .collect(),
                ..empty_outcome()
            };
            (self.on_event)(Event::Period { at_seconds: at_ns as f64 / 1e9, outcome });
        }
    }

    pub(crate) fn done(self) -> WatchResult {
        let usage = match (self.usage_at_start, self.usage_at_end) {
            (Some(start), Some(end)) => end.since(&start),
            _ => Vec::new(),
        };
        WatchResult { timing: self.timing, usage, notes: self.notes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_is_told_replaces_the_scripts_number_of_operations() {
        let run =
            Step::Run { seconds: Some(9), ops: Some(100), report_period_seconds: None, warmup_seconds: 0 };
        let workload = Workload { script: vec![run], ..Workload::default() };
        let of = |seconds, ops| {
            let plan = Plan::of(&workload, &RunOptions { seconds, ops, ..RunOptions::default() });
            (plan.seconds, plan.ops)
        };
        assert_eq!(of(None, None), (Some(9.0), Some(100)));
        assert_eq!(of(Some(5.0), None), (Some(5.0), None));
        assert_eq!(of(Some(5.0), Some(7)), (Some(5.0), Some(7)), "both were told");
        assert_eq!(of(None, Some(7)), (Some(9.0), Some(7)));
    }
}
