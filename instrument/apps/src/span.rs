//! Parts of a phase, one of each task, and the rates of all together.

use serde::{Deserialize, Serialize};
use stats::{Metric, Outcome};

/// What one task did in a phase. Moments are nanoseconds of the monotonic clock of its host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// The phase's name.
    pub phase: String,
    /// Before opening, before the first operation, after the last one (and its fsync), after closing.
    pub marks_ns: [i64; 4],
    /// Operations done.
    pub ops: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// What was done when the time of the stonewall was up.
    pub wall: Option<StonewallMark>,
}

/// What a task had done when the time of the stonewall was up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StonewallMark {
    /// When it saw that.
    pub at_ns: i64,
    /// Operations until then.
    pub ops: u64,
    /// Bytes until then.
    pub bytes: u64,
}

impl Span {
    /// The same on a clock on which each of its moments is what `here` says.
    pub fn on(mut self, here: impl Fn(i64) -> i64) -> Span {
        self.marks_ns = self.marks_ns.map(&here);
        if let Some(wall) = &mut self.wall {
            wall.at_ns = here(wall.at_ns);
        }
        self
    }

    /// Seconds of this task, by its own clock.
    pub fn seconds(&self) -> f64 {
        (self.marks_ns[3] - self.marks_ns[0]) as f64 / 1e9
    }

    fn transfer_seconds(&self) -> f64 {
        (self.marks_ns[2] - self.marks_ns[1]) as f64 / 1e9
    }
}

/// What all tasks did in a phase.
#[derive(Debug, Clone, PartialEq)]
pub struct PhaseTotals {
    /// The phase's name.
    pub phase: String,
    /// How many tasks did something.
    pub tasks: usize,
    /// Operations of all.
    pub ops: u64,
    /// Bytes of all.
    pub bytes: u64,
    /// From the first start to the last end.
    pub seconds: f64,
    /// From the first operation's start to the last one's end.
    pub transfer_seconds: f64,
    /// Each task's operations a second within its own time: the slowest and the fastest.
    pub rates: (f64, f64),
    /// Until the last task saw that the stonewall's time was up: seconds, operations, bytes.
    pub wall: Option<(f64, u64, u64)>,
    /// The clocks are known too badly: the seconds are those of the slowest task by its own clock.
    pub by_own_clocks: bool,
}

/// A phase must be so much longer than the bound of the clocks, or each task's own time counts.
const CLOCK_SHARE: f64 = 0.01;

impl PhaseTotals {
    /// Each phase of spans that are on one clock, a list of each task; in the order in which they began. A phase in which
    /// nobody did anything, or that took no time, has none: it has no rate.
    pub fn of(tasks: &[Vec<Span>], bound_ns: i64) -> Vec<PhaseTotals> {
        names(tasks).into_iter().filter_map(|name| PhaseTotals::phase(tasks, name, bound_ns)).collect()
    }

    fn phase(tasks: &[Vec<Span>], name: &str, bound_ns: i64) -> Option<PhaseTotals> {
        let spans = tasks.iter().flatten().filter(|span| span.phase == name);
        let busy: Vec<&Span> = spans.filter(|span| span.ops > 0).collect();
        let least = |at: usize| busy.iter().map(|span| span.marks_ns[at]).min();
        let most = |at: usize| busy.iter().map(|span| span.marks_ns[at]).max();
        let between = |from: Option<i64>, to: Option<i64>| Some((to? - from?) as f64 / 1e9);
        let mut seconds = between(least(0), most(3))?;
        let mut transfer_seconds = between(least(1), most(2))?;
        let by_own_clocks = busy.len() > 1 && bound_ns as f64 / 1e9 > seconds * CLOCK_SHARE;
        if by_own_clocks {
            seconds = busy.iter().map(|span| span.seconds()).fold(0.0, f64::max);
            transfer_seconds = busy.iter().map(|span| span.transfer_seconds()).fold(0.0, f64::max);
        }
        if seconds <= 0.0 || transfer_seconds <= 0.0 {
            return None;
        }
        let rates = busy.iter().map(|span| span.ops as f64 / span.seconds().max(1e-9));
        let rates = rates.fold((f64::INFINITY, 0.0_f64), |(low, high), rate| (low.min(rate), high.max(rate)));
        let walls: Vec<StonewallMark> = busy.iter().filter_map(|span| span.wall).collect();
        let wall_seconds = between(least(0), walls.iter().map(|wall| wall.at_ns).max());
        let wall =
            wall_seconds.filter(|seconds| *seconds > 0.0 && walls.len() == busy.len()).map(|seconds| {
                (seconds, walls.iter().map(|wall| wall.ops).sum(), walls.iter().map(|wall| wall.bytes).sum())
            });
        Some(PhaseTotals {
            phase: name.to_string(),
            tasks: busy.len(),
            ops: busy.iter().map(|span| span.ops).sum(),
            bytes: busy.iter().map(|span| span.bytes).sum(),
            seconds,
            transfer_seconds,
            rates,
            wall,
            by_own_clocks,
        })
    }

    /// MiB a second over the whole phase, as IOR computes its bandwidth; `None` when no bytes were moved.
    pub fn mib_per_second(&self) -> Option<f64> {
        (self.bytes > 0).then(|| self.bytes as f64 / MIB / self.seconds)
    }

    /// Operations a second from the first one's start to the last one's end, as IOR computes its IOPS.
    pub fn ops_per_second(&self) -> f64 {
        self.ops as f64 / self.transfer_seconds
    }
}

/// Bytes in a MiB.
const MIB: f64 = 1_048_576.0;

fn names(tasks: &[Vec<Span>]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for span in tasks.iter().flatten() {
        if !names.contains(&span.phase.as_str()) {
            names.push(&span.phase);
        }
    }
    names
}

/// Puts the rates of all tasks into their joined outcome, in place of sums of the tasks' own.
pub fn conclude(tasks: &[Vec<Span>], joint: &[PhaseTotals], outcome: &mut Outcome) {
    for name in names(tasks) {
        if joint.iter().all(|one| one.phase != name) {
            outcome.metrics.retain(|metric| metric.name != format!("{name}/seconds"));
            outcome.notes.push(format!("{name}: nothing was done, so that it has no rate"));
        }
    }
    for one in joint {
        let mut put = |what: &str, unit: &str, value: f64| {
            let name = format!("{}/{what}", one.phase);
            outcome.metrics.retain(|metric| metric.name != name);
            outcome.metrics.push(Metric::rate(name, unit, value));
        };
        put("seconds", "s", one.seconds);
        put("ops_per_second", "1/s", one.ops_per_second());
        if let Some(rate) = one.mib_per_second() {
            put("mib_per_second", "MiB/s", rate);
            put("transfer_seconds", "s", one.transfer_seconds);
        }
        if one.tasks > 1 {
            put("slowest_rank_ops_per_second", "1/s", one.rates.0);
            put("fastest_rank_ops_per_second", "1/s", one.rates.1);
            put("ranks_times_slowest_ops_per_second", "1/s", one.tasks as f64 * one.rates.0);
        }
        if let Some((seconds, ops, bytes)) = one.wall {
            put("stonewall_seconds", "s", seconds);
            put("stonewall_ops_per_second", "1/s", ops as f64 / seconds);
            if bytes > 0 {
                put("stonewall_mib_per_second", "MiB/s", bytes as f64 / MIB / seconds);
            }
        }
        if one.by_own_clocks {
            let what = "the clocks are known too badly for this phase: its time is the slowest task's own";
            outcome.notes.push(format!("{}: {what}", one.phase));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(from: i64, to: i64, ops: u64) -> Span {
        Span {
            phase: "write".into(),
            marks_ns: [from, from + 1, to - 1, to],
            ops,
            bytes: ops << 20,
            wall: None,
        }
    }

    /// IOR with one clock 0.2 s off prints a fifth of the rate; corrected it is the rate.
    #[test]
    fn a_corrected_clock_gives_the_rate() {
        let (true_first, true_second) = (span(0, 50_000_000, 100), span(1_000, 51_000_000, 100));
        let second = true_second.clone().on(|at| at + 200_000_000);
        let raw = &PhaseTotals::of(&[vec![true_first.clone()], vec![second.clone()]], 1000)[0];
        let corrected =
            &PhaseTotals::of(&[vec![true_first], vec![second.on(|at| at - 200_000_000)]], 1000)[0];
        assert!(raw.mib_per_second().unwrap() < 1000.0);
        assert!((corrected.mib_per_second().unwrap() - 200.0 / 0.051).abs() < 1e-6);
        assert_eq!((corrected.ops, corrected.tasks, corrected.by_own_clocks), (200, 2, false));
    }

    #[test]
    fn bad_clocks_are_not_used() {
        let tasks = [vec![span(0, 100, 1)], vec![span(1_000_000, 1_000_150, 1)]];
        let joint = &PhaseTotals::of(&tasks, 20_000)[0];
        assert!(joint.by_own_clocks);
        assert!((joint.seconds - 150e-9).abs() < 1e-12);
    }

    #[test]
    fn what_did_nothing_has_no_rate() {
        let tasks = [vec![span(0, 100, 0)], vec![span(5, 90, 0)]];
        let joint = PhaseTotals::of(&tasks, 0);
        assert_eq!(joint, []);
        let mut outcome = Outcome {
            measured_seconds: 1.0,
            warmup_seconds: 0.0,
            ended: stats::Ended::Done,
            ops: vec![],
            metrics: vec![Metric::duration("write/seconds", 1.0)],
            notes: vec![],
        };
        conclude(&tasks, &joint, &mut outcome);
        assert_eq!((outcome.metrics.len(), outcome.notes.len()), (0, 1));
    }
}
