//! Compares two runs, or the stacks of one run: verdicts by cell, and what differs in the environment.

use serde::{Deserialize, Serialize};
use stats::{Comparison, Outcome, Rules, SampleError, Sense, Verdict};

use crate::results::{Cell, MetricName, Run};

/// The metrics that are compared: the first decides, the others are shown.
pub const METRICS: [MetricName; 2] = [MetricName::Throughput, MetricName::LatencyP99];

/// A comparison of two runs, or of stacks within one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    /// Pairs of cells in the order of the second run.
    pub pairs: Vec<Pair>,
    /// Cells that have no partner, as labels: of the first run, and of the second one.
    pub unpaired: (Vec<String>, Vec<String>),
    /// What differs between the environments, the weightiest first. Incidental differences are left out.
    pub environment: Vec<crate::Difference>,
    /// Conclusion over all pairs.
    pub conclusion: Conclusion,
}

/// Two cells side by side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    /// The workload with its parameters.
    pub load: String,
    /// Stack of the baseline.
    pub baseline: String,
    /// Stack of the candidate.
    pub candidate: String,
    /// One line for each metric that both cells have.
    pub lines: Vec<Line>,
}

/// One metric of two cells.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// The metric.
    pub metric: MetricName,
    /// Median of the baseline.
    pub baseline: f64,
    /// Median of the candidate.
    pub candidate: f64,
    /// The verdict on the candidate with all that it rests on.
    pub comparison: Comparison,
}

/// Conclusion over all pairs, by throughput.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Conclusion {
    /// Every pair is better or the same.
    NoWorse,
    /// Some pair is worse.
    SomeWorse,
    /// No pair is worse, but of some it cannot be told, or there is no pair at all.
    CannotTell,
}

impl Conclusion {
    /// Exit code of `loadline compare`: 0, 1 or 4.
    pub fn exit_code(self) -> u8 {
        match self {
            Conclusion::NoWorse => 0,
            Conclusion::SomeWorse => 1,
            Conclusion::CannotTell => 4,
        }
    }
}

/// Compares a candidate run with a baseline run.
///
/// Cells pair when workload, parameters and stack are equal. When each run has a single stack, workload and
/// parameters suffice, so that `ext4` may be compared with `ext4,data=journal`.
pub fn compare(baseline: &Run, candidate: &Run, rules: &Rules) -> Compared {
    let any_stack = baseline.stacks().len() == 1 && candidate.stacks().len() == 1;
    let partner = |cell: &Cell, cells: &[Cell]| {
        let same = |other: &&Cell| same_load(other, cell) && (any_stack || other.stack == cell.stack);
        cells.iter().find(same).map(|found| found.id)
    };
    let label = |cell: &Cell| cell.label();
    let mut pairs = Vec::new();
    let mut without: (Vec<String>, Vec<String>) = Default::default();
    for cell in &candidate.cells {
        match partner(cell, &baseline.cells) {
            Some(other) => pairs.extend(pair(baseline, other, candidate, cell.id, rules)),
            None => without.1.push(label(cell)),
        }
    }
    let lonely = baseline.cells.iter().filter(|cell| partner(cell, &candidate.cells).is_none());
    without.0.extend(lonely.map(label));
    Compared {
        conclusion: conclude(&pairs),
        pairs,
        unpaired: without,
        environment: environment_differences(baseline, candidate),
    }
}

/// Compares every other stack of a run with one of its stacks (the first when none is named), load by load.
pub fn compare_stacks(run: &Run, baseline: Option<&str>, rules: &Rules) -> Compared {
    let baseline = baseline.or_else(|| run.stacks().first().copied()).unwrap_or_default().to_string();
    let mut pairs = Vec::new();
    let mut alone = Vec::new();
    for cell in run.cells.iter().filter(|cell| cell.stack != baseline) {
        match run.cells.iter().find(|other| other.stack == baseline && same_load(other, cell)) {
            Some(other) => pairs.extend(pair(run, other.id, run, cell.id, rules)),
            None => alone.push(cell.label()),
        }
    }
    Compared { conclusion: conclude(&pairs), pairs, unpaired: (Vec::new(), alone), environment: Vec::new() }
}

/// What differs between the environments of two runs: of their first trials that have one. (Later load
/// averages are the run's own doing.) Threads that others had ready to run are the median over all trials,
/// seen before each load.
pub fn environment_differences(a: &Run, b: &Run) -> Vec<crate::Difference> {
    let first = |run: &Run| {
        let mut environment = run.trials.iter().find_map(|trial| trial.environment.clone())?;
        environment.load.runnable = median_runnable(run);
        Some(environment)
    };
    let (Some(left), Some(right)) = (first(a), first(b)) else { return Vec::new() };
    let mut differences = crate::diff(&left, &right);
    differences.retain(|difference| difference.weight > crate::Weight::Incidental);
    differences
}

fn median_runnable(run: &Run) -> Option<u64> {
    let environments = run.trials.iter().filter_map(|trial| trial.environment.as_ref());
    let mut runnable: Vec<u64> = environments.filter_map(|environment| environment.load.runnable).collect();
    runnable.sort_unstable();
    runnable.get(runnable.len() / 2).copied()
}

/// Values of a metric in the results of a cell, by trial index.
pub fn values(run: &Run, cell: u32, metric: MetricName) -> Vec<f64> {
    run.outcomes_of(cell).into_iter().filter_map(|outcome: &Outcome| metric.of(outcome)).collect()
}

/// Which way a metric improves.
pub fn sense(metric: MetricName) -> Sense {
    if metric.higher_is_better() { Sense::HigherIsBetter } else { Sense::LowerIsBetter }
}

fn same_load(a: &Cell, b: &Cell) -> bool {
    a.workload == b.workload && a.parameters == b.parameters
}

fn pair(a: &Run, cell_a: u32, b: &Run, cell_b: u32, rules: &Rules) -> Option<Pair> {
    let (left, right) = (a.cell(cell_a)?, b.cell(cell_b)?);
    let line = |metric: MetricName| -> Result<Line, SampleError> {
        let (values_a, values_b) = (values(a, cell_a, metric), values(b, cell_b, metric));
        Ok(Line {
            metric,
            baseline: stats::Sample::new(&values_a)?.median(),
            candidate: stats::Sample::new(&values_b)?.median(),
            comparison: stats::compare(&values_a, &values_b, sense(metric), rules)?,
        })
    };
    Some(Pair {
        load: right.load_label(),
        baseline: left.stack.clone(),
        candidate: right.stack.clone(),
        // A metric without values on one side has no line; a pair without lines counts as "cannot tell".
        lines: METRICS.into_iter().filter_map(|metric| line(metric).ok()).collect(),
    })
}

fn conclude(pairs: &[Pair]) -> Conclusion {
    let verdict = |pair: &Pair| {
        pair.lines.iter().find(|line| line.metric == METRICS[0]).map(|line| line.comparison.verdict)
    };
    let verdicts: Vec<Option<Verdict>> = pairs.iter().map(verdict).collect();
    if verdicts.contains(&Some(Verdict::Worse)) {
        Conclusion::SomeWorse
    } else if verdicts.is_empty()
        || verdicts.iter().any(|verdict| matches!(verdict, None | Some(Verdict::CannotTell { .. })))
    {
        Conclusion::CannotTell
    } else {
        Conclusion::NoWorse
    }
}
