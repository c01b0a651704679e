//! Offered rates step by step (`loadline sweep`): which rate a step has, when the steps end, the load curve.
//!
//! A *target* is a load with its parameters on a stack. Its cell `offered=max` runs in a closed loop; what that achieves
//! is the saturation, of which the other cells offer shares in an open loop. Everything is worked out from the stored trials.

use serde::Serialize;
use stats::knee::{self, HighestRate, Knee, StepOutcome};
use stats::outcome::{OpOutcome, Outcome};
use stats::{Estimate, Histogram};

use study::offered::{OFFERED, OfferedRate};
use study::results::{Cell, Parameter, Run, Trial};

/// The metric of a trial that says how much was offered, in operations a second.
pub const OFFERED_RATE: &str = "offered_rate";
/// Quantiles of a point, with their names.
pub const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p99.9", 0.999)];
/// The quantile that a limit is for.
pub const LIMITED: f64 = 0.99;

/// The load curve of a target.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Curve {
    /// The load with its parameters.
    pub load: String,
    /// The stack.
    pub stack: String,
    /// What the closed loop achieved, operations a second: the median of its trials.
    pub saturation: Option<f64>,
    /// Latency of the closed loop, from one operation to the next; there is no intended start in it.
    pub closed: Option<Latency>,
    /// The points by rising rate.
    pub points: Vec<Point>,
    /// Where the achieved rate leaves the offered one.
    pub knee: Option<IntervalEstimate>,
    /// Mean achieved rate of the steps that failed.
    pub plateau: Option<IntervalEstimate>,
    /// The highest rate whose 99th percentile holds the limit, when one was given.
    pub held: Option<HighestRate>,
    /// How trials without a result ended, each once.
    pub faults: Vec<String>,
}

/// An estimate with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct IntervalEstimate {
    /// The estimate, operations a second.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// One offered rate.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Point {
    /// As the study has it: `50%`, `5000`.
    pub level: String,
    /// Operations a second that were offered.
    pub offered: f64,
    /// Operations a second that were done.
    pub achieved: f64,
    /// Whether the system kept up.
    pub kept: StepOutcome,
    /// Trials with a result.
    pub trials: usize,
    /// From the intended start, all operations.
    pub latency: Latency,
    /// The same for each kind of operation.
    pub ops: Vec<OpPoint>,
}

/// Latency of a kind of operation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OpPoint {
    /// Its name in the load.
    pub name: String,
    /// From the intended start.
    pub latency: Latency,
}

/// Quantiles in nanoseconds; `None` without operations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Latency {
    /// Operations.
    pub count: u64,
    /// Mean.
    pub mean: Option<f64>,
    /// Median.
    pub p50: Option<u64>,
    /// 95th percentile.
    pub p95: Option<u64>,
    /// 99th percentile.
    pub p99: Option<u64>,
    /// 99.9th percentile; `None` below 1,000 operations.
    pub p999: Option<u64>,
    /// Maximum.
    pub max: Option<u64>,
}

impl Latency {
    /// The figures of a histogram.
    pub fn of(values: &Histogram) -> Latency {
        Latency {
            count: values.count(),
            mean: values.mean(),
            p50: values.quantile(0.5),
            p95: values.quantile(0.95),
            p99: values.quantile(0.99),
            p999: (values.count() >= 1_000).then(|| values.quantile(0.999)).flatten(),
            max: values.max(),
        }
    }
}

/// The rate that a cell offers; `None`: none, a closed loop (also of a study that sweeps no rates).
///
/// # Errors
/// It offers a share of a saturation that was not measured.
pub fn rate_of(run: &Run, cell: &Cell) -> Result<Option<f64>, String> {
    match OfferedRate::of(cell) {
        None | Some(OfferedRate::Max) => Ok(None),
        Some(OfferedRate::Rate(rate)) => Ok(Some(rate)),
        Some(OfferedRate::Share(percent)) => {
            let base = base_of(run, cell).and_then(|base| saturation(run, base, true));
            let base = base.filter(|rate| *rate > 0.0).ok_or_else(|| {
                format!("{percent} % of nothing: {OFFERED}=max has no result on {}", cell.stack)
            })?;
            Ok(Some(base * percent / 100.0))
        }
    }
}

/// Cells that need no (further) trials: rates above the second one at which the system fell behind, and shares of a closed
/// loop that failed.
pub fn to_close(run: &Run) -> Vec<u32> {
    let mut close = Vec::new();
    for target in targets(run) {
        let base = target.iter().find(|cell| OfferedRate::of(cell) == Some(OfferedRate::Max));
        let no_base = base.is_some_and(|base| {
            run.trials_of(base.id).next().is_some() && saturation(run, base, true).is_none()
        });
        let mut steps: Vec<(f64, &Cell)> = Vec::new();
        for cell in &target {
            match (OfferedRate::of(cell), rate_of(run, cell)) {
                (Some(OfferedRate::Share(_)), Err(_)) if no_base => close.push(cell.id),
                (_, Ok(Some(rate))) => steps.push((rate, cell)),
                _ => {}
            }
        }
        steps.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut behind = 0;
        for (rate, cell) in steps {
            if behind >= knee::FAILING_MAX {
                close.push(cell.id);
            }
            behind += usize::from(step(run, cell, rate).outcome() == StepOutcome::Behind);
        }
    }
    close
}

/// The curves of a run, in the order of its cells; none when it sweeps no rates. `limit_ns`: for [`Curve::held`].
pub fn curves(run: &Run, limit_ns: Option<u64>) -> Vec<Curve> {
    targets(run).into_iter().map(|cells| curve(run, &cells, limit_ns)).collect()
}

fn curve(run: &Run, cells: &[&Cell], limit_ns: Option<u64>) -> Curve {
    let first = cells[0];
    let base = cells.iter().find(|cell| OfferedRate::of(cell) == Some(OfferedRate::Max));
    let mut steps: Vec<(f64, &Cell)> = cells
        .iter()
        .filter(|cell| run.outcomes_of(cell.id).iter().any(|outcome| offered(outcome).is_some()))
        .filter_map(|cell| Some((offered(run.outcomes_of(cell.id).first()?)?, *cell)))
        .collect();
    steps.sort_by(|a, b| a.0.total_cmp(&b.0));
    let taken: Vec<knee::Step> = steps.iter().map(|(rate, cell)| step(run, cell, *rate)).collect();
    let Knee { plateau, knee } = knee::knee(&taken);
    let histograms: Vec<Vec<Histogram>> = steps
        .iter()
        .map(|(_, cell)| run.outcomes_of(cell.id).into_iter().map(|outcome| merged(outcome.io())).collect())
        .collect();
    let held = limit_ns.map(|limit| {
        let all = taken.iter().zip(&histograms);
        knee::held(
            all.map(|(step, trials)| (step.offered, step.outcome(), trials.iter().collect())),
            LIMITED,
            limit,
        )
    });
    let points = steps.iter().zip(&taken).zip(&histograms);
    Curve {
        load: Cell { parameters: own(first), ..first.clone() }.load_label(),
        stack: first.stack.clone(),
        saturation: base.and_then(|base| saturation(run, base, false)),
        closed: base.map(|base| Latency::of(&service(&run.outcomes_of(base.id)))),
        points: points.map(|(((rate, cell), step), trials)| point(run, cell, *rate, step, trials)).collect(),
        knee: knee.map(found),
        plateau: plateau.map(found),
        held,
        faults: faults(run, cells),
    }
}

fn point(run: &Run, cell: &Cell, rate: f64, step: &knee::Step, trials: &[Histogram]) -> Point {
    let outcomes = run.outcomes_of(cell.id);
    let mut all = Histogram::default();
    trials.iter().for_each(|trial| all.merge(trial));
    let mut names: Vec<&str> = Vec::new();
    for op in outcomes.iter().flat_map(|outcome| outcome.io()).filter(|op| op.ops > 0) {
        if !names.contains(&op.name.as_str()) {
            names.push(&op.name);
        }
    }
    let of = |name: &str| {
        let same = outcomes.iter().flat_map(|outcome| outcome.io()).filter(|op| op.name == name);
        OpPoint { name: name.to_string(), latency: Latency::of(&merged(same)) }
    };
    let whole = outcomes.iter().map(|outcome| outcome.io_ops_per_second()).sum::<f64>()
        / outcomes.len().max(1) as f64;
    Point {
        level: OfferedRate::of(cell).map(|level| level.to_string()).unwrap_or_default(),
        offered: rate,
        achieved: step.achieved().unwrap_or(whole),
        kept: step.outcome(),
        trials: outcomes.len(),
        latency: Latency::of(&all),
        ops: names.into_iter().map(of).collect(),
    }
}

/// What the trials of a cell achieved, second by second.
fn step(run: &Run, cell: &Cell, rate: f64) -> knee::Step {
    let seconds = |outcome: &Outcome| -> Vec<f64> {
        let mut seconds: Vec<f64> = outcome.io_ops_by_second().into_iter().map(|ops| ops as f64).collect();
        // a second in which nothing ended is a second; the series ends with the last one in which something did
        seconds.resize(seconds.len().max(outcome.measured_seconds as usize), 0.0);
        seconds
    };
    knee::Step { offered: rate, trials: run.outcomes_of(cell.id).into_iter().map(seconds).collect() }
}

fn found(estimate: Estimate) -> IntervalEstimate {
    IntervalEstimate { value: estimate.value, low: estimate.interval.low, high: estimate.interval.high }
}

fn faults(run: &Run, cells: &[&Cell]) -> Vec<String> {
    use study::results::Status;
    let mut faults: Vec<String> = Vec::new();
    for trial in cells.iter().flat_map(|cell| run.trials_of(cell.id)) {
        let told = match &trial.status {
            Status::Done => continue,
            Status::Failed { message } => format!("failed: {message}"),
            Status::Unavailable { reason, remedy } => format!("unavailable: {reason}; {remedy}"),
            other => other.word().to_string(),
        };
        if !faults.contains(&told) {
            faults.push(told);
        }
    }
    faults
}

/// From the intended start where there is one.
fn merged<'a>(ops: impl Iterator<Item = &'a OpOutcome>) -> Histogram {
    let mut all = Histogram::default();
    ops.for_each(|op| all.merge(op.intended.as_ref().unwrap_or(&op.service)));
    all
}

fn service(outcomes: &[&Outcome]) -> Histogram {
    let mut all = Histogram::default();
    outcomes.iter().flat_map(|outcome| outcome.io()).for_each(|op| all.merge(&op.service));
    all
}

fn offered(outcome: &Outcome) -> Option<f64> {
    outcome.metrics.iter().find(|metric| metric.name == OFFERED_RATE).map(|metric| metric.value)
}

/// What a closed loop achieved: its first trial, so that the rates of a run never change, or the median of all.
fn saturation(run: &Run, base: &Cell, first: bool) -> Option<f64> {
    let mut done: Vec<&Trial> = run.trials_of(base.id).filter(|trial| trial.status.is_done()).collect();
    done.sort_by_key(|trial| trial.index);
    let mut rates: Vec<f64> =
        done.iter().filter_map(|trial| Some(trial.outcome.as_ref()?.io_ops_per_second())).collect();
    if first {
        return rates.first().copied();
    }
    rates.sort_by(f64::total_cmp);
    let middle = rates.len() / 2;
    match rates.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(rates[middle]),
        _ => Some(f64::midpoint(rates[middle - 1], rates[middle])),
    }
}

/// The parameters that are the load's own.
fn own(cell: &Cell) -> Vec<Parameter> {
    cell.parameters.iter().filter(|one| one.name != OFFERED).cloned().collect()
}

fn base_of<'a>(run: &'a Run, cell: &Cell) -> Option<&'a Cell> {
    run.cells
        .iter()
        .find(|base| OfferedRate::of(base) == Some(OfferedRate::Max) && is_same_target(base, cell))
}

fn is_same_target(a: &Cell, b: &Cell) -> bool {
    a.workload == b.workload && a.stack == b.stack && own(a) == own(b)
}

/// The cells of each target.
fn targets(run: &Run) -> Vec<Vec<&Cell>> {
    let mut targets: Vec<Vec<&Cell>> = Vec::new();
    for cell in run.cells.iter().filter(|cell| OfferedRate::of(cell).is_some()) {
        match targets.iter_mut().find(|target| is_same_target(target[0], cell)) {
            Some(target) => target.push(cell),
            None => targets.push(vec![cell]),
        }
    }
    targets
}

#[cfg(test)]
mod tests;
