//! The results of one flowop over all trials of a cell.

use stats::outcome::OpOutcome;
use stats::{Direction, Histogram, OpClass, Sample};

use super::GridPoint;

/// One flowop over all results of a cell.
#[derive(Debug, Clone)]
pub struct Flowop {
    /// Its name in the workload.
    pub name: String,
    /// Its type.
    pub kind: String,
    /// Whether it counts in the throughput.
    pub class: OpClass,
    /// Read, write or neither.
    pub direction: Direction,
    /// Completed operations of all trials together.
    pub ops: u64,
    /// Median over the trials of the operations per second.
    pub ops_per_second: f64,
    /// Median over the trials of the bytes per second.
    pub bytes_per_second: f64,
    /// Failed operations of all trials together.
    pub errors: u64,
    /// Operations skipped because no file could be picked, of all trials together.
    pub starved: u64,
    /// Service times of all trials together, in nanoseconds.
    pub service: Histogram,
    /// Latencies from the intended start of all trials together, in nanoseconds.
    pub intended: Option<Histogram>,
}

impl Flowop {
    /// Whether it counts in the throughput.
    pub fn is_io(&self) -> bool {
        matches!(self.class, OpClass::Io | OpClass::Aio)
    }

    /// All time spent in it, in nanoseconds: what makes a flowop matter.
    pub fn total_ns(&self) -> u128 {
        self.service.sum()
    }
}

/// The flowops of a cell in order of definition.
///
/// Trials of one cell run the same workload, so a flowop is known by its position; names may repeat.
pub fn flowops(point: &GridPoint<'_>) -> Vec<Flowop> {
    let mut all: Vec<(Flowop, Vec<f64>, Vec<f64>)> = Vec::new();
    for (_, outcome) in point.results() {
        for (position, op) in outcome.ops.iter().enumerate() {
            let seconds = outcome.op_seconds(op);
            let per_second = |amount: u64| if seconds > 0.0 { amount as f64 / seconds } else { 0.0 };
            let at = match all.get(position) {
                Some((known, ..)) if known.name == op.name => position,
                _ => all.iter().position(|(known, ..)| known.name == op.name).unwrap_or(all.len()),
            };
            if at == all.len() {
                all.push((blank(op), Vec::new(), Vec::new()));
            }
            let (sum, ops, bytes) = &mut all[at];
            ops.push(per_second(op.ops));
            bytes.push(per_second(op.bytes));
            add(sum, op);
        }
    }
    let median = |values: &[f64]| Sample::new(values).map_or(0.0, |sample| sample.median());
    all.into_iter()
        .map(|(sum, ops, bytes)| Flowop {
            ops_per_second: median(&ops),
            bytes_per_second: median(&bytes),
            ..sum
        })
        .collect()
}

/// The flowops in which most time was spent, the first the most, at most `limit`; only those that ran.
pub fn slowest(point: &GridPoint<'_>, limit: usize) -> Vec<Flowop> {
    let mut ran: Vec<Flowop> =
        flowops(point).into_iter().filter(|op| op.is_io() && op.service.count() > 0).collect();
    ran.sort_by_key(|op| std::cmp::Reverse(op.total_ns()));
    ran.truncate(limit);
    ran
}

fn blank(op: &OpOutcome) -> Flowop {
    Flowop {
        name: op.name.clone(),
        kind: op.kind.clone(),
        class: op.class,
        direction: op.direction,
        ops: 0,
        ops_per_second: 0.0,
        bytes_per_second: 0.0,
        errors: 0,
        starved: 0,
        service: Histogram::new(),
        intended: None,
    }
}

fn add(sum: &mut Flowop, op: &OpOutcome) {
    sum.ops = sum.ops.saturating_add(op.ops);
    sum.errors = sum.errors.saturating_add(op.errors);
    sum.starved = sum.starved.saturating_add(op.starved);
    sum.service.merge(&op.service);
    if let Some(intended) = &op.intended {
        sum.intended.get_or_insert_default().merge(intended);
    }
}
