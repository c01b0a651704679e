//! Every stack against the first one: better, worse, same or cannot tell.

use stats::{Comparison, Doubt, Rules, Verdict};

use super::View;
use crate::format;

/// One stack against the baseline on one load.
#[derive(Debug, Clone, PartialEq)]
pub struct Against {
    /// Column of the grid.
    pub column: usize,
    /// Row of the baseline.
    pub baseline: usize,
    /// Row of the candidate.
    pub candidate: usize,
    /// The comparison by the column's measure.
    pub comparison: Comparison,
}

/// The verdicts against the first competing stack, column by column. Places without results, and ceilings, are
/// left out.
pub fn against_first(view: &View<'_>, rules: &Rules) -> Vec<Against> {
    let Some(baseline) = view.stacks.iter().position(|stack| stack.competes) else { return Vec::new() };
    let mut all = Vec::new();
    for (column, load) in view.loads.iter().enumerate() {
        let base = &view.point(baseline, column).values;
        for (candidate, stack, point) in view.measured(column) {
            if candidate == baseline || !stack.competes {
                continue;
            }
            if let Ok(comparison) = stats::compare(base, &point.values, load.measure.sense(), rules) {
                all.push(Against { column, baseline, candidate, comparison });
            }
        }
    }
    all
}

/// The verdict in a word or two.
pub fn word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "better",
        Verdict::Worse => "worse",
        Verdict::Same => "same",
        Verdict::CannotTell { .. } => "cannot tell",
    }
}

/// A sign that tells the verdicts apart without colour.
pub fn sign(verdict: &Verdict) -> char {
    match verdict {
        Verdict::Better => '+',
        Verdict::Worse => '-',
        Verdict::Same => '=',
        Verdict::CannotTell { .. } => '?',
    }
}

/// Why it cannot be told, and what would help; empty for the other verdicts.
pub fn doubt(verdict: &Verdict) -> String {
    match verdict {
        Verdict::CannotTell { why: Doubt::TooFewTrials { have, need } } => {
            format!("{}, {need} needed", format::plural(*have, "trial"))
        }
        Verdict::CannotTell { why: Doubt::TooMuchVariance { trials, .. } } => {
            format!("too much variance, about {trials} trials might decide")
        }
        _ => String::new(),
    }
}
