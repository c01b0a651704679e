//! What a WML script asks to be told beside the result: periodic reports (`psrun`), latency counters (`enable lathist`).

use serde::{Deserialize, Serialize};
use stats::{Direction, OpClass, OpOutcome, Outcome};

/// Periodic reports that are kept of a trial: at one a second, almost three hours of them.
const PERIODS_MAX: usize = 10_000;

/// What a trial's script asked to be told beside the result.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ScriptExtras {
    /// `enable lathist`: Filebench's power-of-two latency counters belong to the reports.
    pub latency_counters: bool,
    /// `psrun`: the periodic reports, in order.
    pub periods: Vec<Period>,
    /// Periodic reports that were told and not kept, since there were too many.
    #[serde(skip_serializing_if = "is_zero")]
    pub periods_left_out: u64,
    /// What each rank measured, when a launcher started several; their sum is the trial's outcome.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ranks: Vec<RankPart>,
}

/// What one rank of a launcher measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RankPart {
    /// Its number.
    pub rank: u32,
    /// Its host's name.
    pub host: String,
    /// Nanoseconds that its monotonic clock was ahead of rank 0's when the load began.
    pub clock_offset_ns: i64,
    /// That is wrong by at most so many nanoseconds.
    pub clock_bound_ns: i64,
    /// Parts in a million that its clock ran faster during the trial, and how wrong that can be.
    pub clock_drift_ppm: Option<(f64, f64)>,
    /// How long after the agreed moment it began, in nanoseconds.
    pub late_ns: i64,
    /// When it was done, in seconds after the agreed moment, by rank 0's clock.
    pub ended_seconds: f64,
    /// What it measured.
    pub outcome: stats::Outcome,
}

/// The figures of a stretch of a trial's measured interval, as far as Filebench's text shows them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Period {
    /// Seconds of the measured interval that were over at its end.
    pub at_seconds: f64,
    /// Seconds that the figures cover.
    pub seconds: f64,
    /// The flowops in order of definition.
    pub ops: Vec<PeriodOp>,
}

/// One flowop in a [`Period`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PeriodOp {
    /// Its name.
    pub name: String,
    /// Whether it counts in the I/O summary.
    pub io: bool,
    /// Read, write or neither.
    pub direction: Direction,
    /// Completed operations.
    pub ops: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Seconds that its rates divide by, when they are not the period's: of a load of several parts those of its part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// Operations that the three service times below are of.
    pub timed: u64,
    /// Mean service time in nanoseconds; `None`: nothing was timed.
    pub mean_ns: Option<f64>,
    /// Shortest one.
    pub min_ns: Option<u64>,
    /// Longest one.
    pub max_ns: Option<u64>,
    /// 64 counters of powers of two when they were asked for, else none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub latency_counters: Vec<u64>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl ScriptExtras {
    /// Nothing was asked for.
    pub fn is_empty(&self) -> bool {
        *self == ScriptExtras::default()
    }

    /// Keeps a periodic report.
    pub fn keep(&mut self, period: Period) {
        if self.periods.len() < PERIODS_MAX {
            self.periods.push(period);
        } else {
            self.periods_left_out += 1;
        }
    }
}

impl Period {
    /// The figures of an outcome that ended at `at_seconds`, with or without latency counters.
    pub fn of(at_seconds: f64, outcome: &Outcome, latency_counters: bool) -> Period {
        let ops = outcome.ops.iter().map(|op| PeriodOp::of(outcome, op, latency_counters)).collect();
        Period { at_seconds, seconds: outcome.measured_seconds, ops }
    }
}

impl PeriodOp {
    fn of(outcome: &Outcome, op: &OpOutcome, latency_counters: bool) -> PeriodOp {
        let seconds = outcome.op_seconds(op);
        PeriodOp {
            name: op.name.clone(),
            io: matches!(op.class, OpClass::Io | OpClass::Aio),
            direction: op.direction,
            ops: op.ops,
            bytes: op.bytes,
            seconds: (seconds != outcome.measured_seconds).then_some(seconds),
            timed: op.service.count(),
            mean_ns: op.service.mean(),
            min_ns: op.service.min(),
            max_ns: op.service.max(),
            latency_counters: if latency_counters {
                op.service.power_of_two_counts().to_vec()
            } else {
                vec![]
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_beyond_the_limit_are_counted() {
        let mut extras = ScriptExtras::default();
        assert!(extras.is_empty());
        for second in 0..PERIODS_MAX + 3 {
            extras.keep(Period { at_seconds: second as f64, seconds: 1.0, ops: vec![] });
        }
        assert_eq!((extras.periods.len(), extras.periods_left_out), (PERIODS_MAX, 3));
    }
}
