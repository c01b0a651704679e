//! What one trial measured, in the form that every load engine produces and the store keeps.

use serde::{Deserialize, Serialize};

use crate::histogram::Histogram;
pub use crate::metric::Metric;
use crate::over_time::OverTime;

/// Everything that one trial measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Length of the measured interval in seconds; the warm-up is not in it.
    pub measured_seconds: f64,
    /// Seconds of load before the measured interval began; nothing of it is counted below.
    pub warmup_seconds: f64,
    /// Why the trial ended.
    pub ended: Ended,
    /// One entry per flowop definition, in order of definition.
    pub ops: Vec<OpOutcome>,
    /// Further scalar results (CPU seconds, context switches, device bytes ...).
    pub metrics: Vec<Metric>,
    /// Remarks a reader of the result must see (a fallback taken, a limit met).
    pub notes: Vec<String>,
}

/// Why a trial ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "why")]
pub enum Ended {
    /// The set time was up.
    TimeUp,
    /// The first thread had nothing left to do (mode `firstdone`), or every one (mode `alldone`).
    Done,
    /// The set number of operations was reached.
    OpsReached,
    /// The user interrupted it; the figures cover the part that ran.
    Interrupted,
    /// An operation failed and the run stopped; the figures are not a result.
    Failed {
        /// What failed, where, with the system's error.
        message: String,
    },
}

/// Filebench's classes of flowops: only `Io` and `Aio` count in the I/O summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OpClass {
    /// A file operation that counts in the summary.
    Io,
    /// An asynchronous file operation; counts too.
    Aio,
    /// Semaphores, barriers.
    Sync,
    /// Limiters, delays and other controls.
    Other,
    /// A composite flowop.
    Composite,
}

/// Whether an operation counts as a read, a write or neither.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Counts in the `rd` column.
    Read,
    /// Counts in the `wr` column.
    Write,
    /// Counts in neither.
    Neither,
}

/// What one flowop (all its instances together) did in the measured interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OpOutcome {
    /// The flowop's name in the workload, e.g. `appendfilerand2`.
    pub name: String,
    /// The flowop's type, e.g. `appendfilerand`.
    pub kind: String,
    /// Filebench's class.
    pub class: OpClass,
    /// Read, write or neither.
    pub direction: Direction,
    /// Completed operations.
    pub ops: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Operations that failed.
    pub errors: u64,
    /// Operations skipped because no file could be picked (a drained pool).
    pub starved: u64,
    /// Service time in nanoseconds: from the start of the operation to its end.
    pub service: Histogram,
    /// Latency in nanoseconds from the intended start (set when a rate is set): no coordinated omission.
    pub intended: Option<Histogram>,
    /// Completed operations in each whole second of the measured interval.
    pub ops_per_second: Vec<u64>,
    /// Bytes moved in each whole second of the measured interval.
    pub bytes_per_second: Vec<u64>,
    /// Latencies over the whole seconds of the measured interval: from the intended start when a rate is set, else service
    /// times. `None`: the load engine does not keep them, or nothing was counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over_time: Option<OverTime>,
}

impl OpOutcome {
    /// A flowop that has done nothing.
    pub fn new(
        name: impl Into<String>,
        kind: impl Into<String>,
        class: OpClass,
        direction: Direction,
    ) -> OpOutcome {
        OpOutcome {
            name: name.into(),
            kind: kind.into(),
            class,
            direction,
            ops: 0,
            bytes: 0,
            errors: 0,
            starved: 0,
            service: Histogram::new(),
            intended: None,
            ops_per_second: Vec::new(),
            bytes_per_second: Vec::new(),
            over_time: None,
        }
    }
}

impl Outcome {
    /// Operations of the classes that Filebench's I/O summary counts.
    pub fn io_ops(&self) -> u64 {
        self.io().map(|op| op.ops).sum()
    }

    /// Bytes moved by those operations.
    pub fn io_bytes(&self) -> u64 {
        self.io().map(|op| op.bytes).sum()
    }

    /// I/O operations per second of the measured interval; 0 when the interval is empty.
    pub fn io_ops_per_second(&self) -> f64 {
        if self.measured_seconds > 0.0 { self.io_ops() as f64 / self.measured_seconds } else { 0.0 }
    }

    /// Seconds in which an operation was done: of a load of several parts those of its part, which are a metric
    /// `NAME/seconds`; else the measured interval.
    pub fn op_seconds(&self, op: &OpOutcome) -> f64 {
        let is_part = |metric: &&Metric| metric.name.strip_suffix("/seconds") == Some(op.name.as_str());
        self.metrics.iter().find(is_part).map_or(self.measured_seconds, |metric| metric.value)
    }

    /// Service times in nanoseconds of all those operations together.
    pub fn io_service(&self) -> Histogram {
        let mut all = Histogram::new();
        self.io().for_each(|op| all.merge(&op.service));
        all
    }

    /// Those operations completed in each whole second of the measured interval.
    pub fn io_ops_by_second(&self) -> Vec<u64> {
        sum_by_second(self.io().map(|op| op.ops_per_second.as_slice()))
    }

    /// Bytes moved by those operations in each whole second of the measured interval.
    pub fn io_bytes_by_second(&self) -> Vec<u64> {
        sum_by_second(self.io().map(|op| op.bytes_per_second.as_slice()))
    }

    /// Latencies of those operations over the measured interval; `None` when they were not kept.
    pub fn io_over_time(&self) -> Option<OverTime> {
        let each = self.io().filter_map(|op| op.over_time.as_ref());
        each.fold(None, |all: Option<OverTime>, one| match all {
            None => Some(one.clone()),
            Some(mut all) => {
                all.merge(one);
                Some(all)
            }
        })
    }

    /// The operations that count in the I/O summary.
    pub fn io(&self) -> impl Iterator<Item = &OpOutcome> {
        self.ops.iter().filter(|op| matches!(op.class, OpClass::Io | OpClass::Aio))
    }
}

/// Sums series that start together; the longest gives the length.
fn sum_by_second<'a>(series: impl Iterator<Item = &'a [u64]>) -> Vec<u64> {
    let mut sums: Vec<u64> = Vec::new();
    for one in series {
        sums.resize(sums.len().max(one.len()), 0);
        for (sum, value) in sums.iter_mut().zip(one) {
            *sum = sum.saturating_add(*value);
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op(class: OpClass, latencies_ns: &[u64], by_second: &[u64]) -> OpOutcome {
        OpOutcome {
            name: "op1".into(),
            kind: "appendfilerand".into(),
            class,
            direction: Direction::Write,
            ops: latencies_ns.len() as u64,
            bytes: 4_096,
            errors: 0,
            starved: 1,
            service: latencies_ns.iter().copied().collect(),
            intended: Some(Histogram::new()),
            ops_per_second: by_second.to_vec(),
            bytes_per_second: by_second.iter().map(|n| n * 10).collect(),
            over_time: None,
        }
    }

    fn outcome() -> Outcome {
        Outcome {
            measured_seconds: 2.5,
            warmup_seconds: 0.1,
            ended: Ended::Failed { message: "fsync: EIO".into() },
            ops: vec![
                op(OpClass::Io, &[1_000, 2_000, 3_000], &[2, 1]),
                op(OpClass::Aio, &[9_000, 9_500], &[1, 0, 1]),
                op(OpClass::Sync, &[5], &[1, 1, 1, 1]),
            ],
            metrics: vec![Metric::process("cpu_user_seconds", "s", 0.1 + 0.2)],
            notes: vec!["no io_uring".into()],
        }
    }

    #[test]
    fn only_io_classes_count_in_the_summary() {
        let outcome = outcome();
        assert_eq!((outcome.io_ops(), outcome.io_bytes(), outcome.io_ops_per_second()), (5, 8_192, 2.0));
        let service = outcome.io_service();
        assert_eq!((service.count(), service.min(), service.max()), (5, Some(1_000), Some(9_500)));
        assert_eq!(outcome.io_ops_by_second(), [3, 1, 1]);
        assert_eq!(outcome.io_bytes_by_second(), [30, 10, 10]);
        assert_eq!(Outcome { measured_seconds: 0.0, ..outcome.clone() }.io_ops_per_second(), 0.0);
        let mut in_parts = outcome;
        assert_eq!(in_parts.op_seconds(&in_parts.ops[0]), 2.5);
        in_parts.metrics.push(Metric::duration("op1/seconds", 0.5));
        assert_eq!(in_parts.op_seconds(&in_parts.ops[0]), 0.5);
    }

    #[test]
    fn the_stored_form_is_lossless() {
        let text = serde_json::to_string(&outcome()).unwrap();
        assert_eq!(serde_json::from_str::<Outcome>(&text).unwrap(), outcome());
        assert!(text.contains(r#""ended":{"why":"failed","message":"fsync: EIO"}"#), "{text}");
        assert!(
            !text.contains("over_time"),
            "what was stored before there was such a thing can be read: {text}"
        );
        let mut kept = outcome();
        let mut follower = crate::over_time::Follower::default();
        follower.close(3, &kept.ops[0].service);
        kept.ops[0].over_time = follower.finish();
        let text = serde_json::to_string(&kept).unwrap();
        assert_eq!(serde_json::from_str::<Outcome>(&text).unwrap(), kept);
        assert!(text.contains(r#""over_time":{"step_seconds":1,"steps":[[["#), "{text}");
    }
}
