//! Whether a quantile of latency may decide anything: enough operations have to lie beyond it in each trial.

use std::fmt;

use stats::blocked::{TAIL_MIN, tail_samples};
use stats::{Doubt, Outcome, Verdict};

use study::results::{MetricName, Run};

/// So many operations lie beyond a quantile in the trial that has fewest there: too few for a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ShortTail(pub u64);

impl ShortTail {
    /// Of a quantile of trials with so many operations; `None`: enough lie beyond it in each.
    pub fn of(quantile: f64, operations: impl IntoIterator<Item = u64>) -> Option<ShortTail> {
        let beyond = operations.into_iter().map(|operations| tail_samples(quantile, operations)).min()?;
        (beyond < TAIL_MIN).then_some(ShortTail(beyond))
    }

    /// By a metric of what trials measured; `None` of a metric that is no quantile.
    pub fn of_outcomes<'a>(
        metric: MetricName,
        outcomes: impl IntoIterator<Item = &'a Outcome>,
    ) -> Option<ShortTail> {
        let operations = |outcome: &Outcome| outcome.io().map(|op| op.service.count()).sum();
        ShortTail::of(metric.quantile()?, outcomes.into_iter().map(operations))
    }

    /// By a metric of the trials of cells that are done.
    pub fn of_cells(metric: MetricName, cells: [(&Run, u32); 2]) -> Option<ShortTail> {
        ShortTail::of_outcomes(metric, cells.into_iter().flat_map(|(run, cell)| run.outcomes_of(cell)))
    }

    /// The only verdict that there is.
    pub fn verdict(self) -> Verdict {
        Verdict::CannotTell { why: Doubt::ShortTail { have: self.0, need: TAIL_MIN } }
    }
}

impl fmt::Display for ShortTail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} operations of a trial beyond it, {TAIL_MIN} needed: longer trials", self.0)
    }
}
