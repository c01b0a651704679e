//! Every stack against the first one: better, worse, same or cannot tell.

use analysis::blocks;
use stats::family::judge_together;
use stats::{Doubt, Effect, Finding, Sense, Thresholds, Verdict};

use super::{Measure, View};
use crate::format;

/// One stack against the baseline on one load.
#[derive(Debug, Clone, PartialEq)]
pub struct BaselineComparison {
    /// Column of the grid.
    pub column: usize,
    /// Row of the baseline.
    pub baseline: usize,
    /// Row of the candidate.
    pub candidate: usize,
    /// The verdict by the column's measure, judged together with all others of the report. Ratio: candidate by baseline.
    pub finding: Finding,
    /// Its p-value, adjusted for the number of verdicts.
    pub p: f64,
}

/// The verdicts against the first competing stack, column by column, within blocks. Places without results, and
/// ceilings, are left out. All verdicts on one measure are a family: among many, few are false.
pub fn against_first(view: &View<'_>, thresholds: &Thresholds) -> Vec<BaselineComparison> {
    // a comparison that ended when it was decided has a rule of its own, which is in the headline
    if analysis::turns::of_run(view.run).is_some() {
        return Vec::new();
    }
    let Some(baseline) = view.stacks.iter().position(|stack| stack.competes) else { return Vec::new() };
    let mut places: Vec<(usize, usize, Measure)> = Vec::new();
    let mut effects: Vec<(Effect, Sense)> = Vec::new();
    for (column, load) in view.loads.iter().enumerate() {
        for (candidate, stack, _) in view.measured(column) {
            if candidate == baseline || !stack.competes {
                continue;
            }
            if let Some(effect) = effect(view, column, baseline, candidate) {
                places.push((column, candidate, load.measure));
                effects.push((effect, load.measure.sense()));
            }
        }
    }
    let mut all = Vec::new();
    for measure in [Measure::Throughput, Measure::PacedLatency] {
        let of = |at: &usize| places[*at].2 == measure;
        let family: Vec<usize> = (0..places.len()).filter(of).collect();
        let together: Vec<(Effect, Sense)> = family.iter().map(|at| effects[*at].clone()).collect();
        for (at, judged) in family.into_iter().zip(judge_together(&together, thresholds)) {
            let (column, candidate, _) = places[at];
            let (finding, p) = (judged.finding, judged.p_adjusted);
            all.push(BaselineComparison { column, baseline, candidate, finding, p });
        }
    }
    all.sort_by_key(|one| (one.column, one.candidate));
    all
}

/// The effect of one row against another in a column, by its measure.
pub fn effect(view: &View<'_>, column: usize, baseline: usize, candidate: usize) -> Option<Effect> {
    let trials = |row: usize| {
        let cell = view.point(row, column).cell?;
        Some(blocks::of_cell(view.run, cell.id, |outcome| view.loads[column].measure.of(outcome)))
    };
    stats::blocked::effect(&trials(baseline)?, &trials(candidate)?).ok()
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
            format!("{}, {need} needed", format::plural(*have, "block"))
        }
        Verdict::CannotTell { why: Doubt::TooMuchVariance { trials, .. } } => {
            format!("too much variance, about {trials} blocks might decide")
        }
        Verdict::CannotTell { why: Doubt::ShortTail { have, need } } => {
            format!("{have} operations of a trial beyond it, {need} needed: longer trials")
        }
        Verdict::CannotTell { why: Doubt::OtherMachine } => {
            "the machine was another; --anchor STACK compares by what was not changed".into()
        }
        _ => String::new(),
    }
}
