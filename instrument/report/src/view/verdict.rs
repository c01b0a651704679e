//! Every stack against the first one, and the two that lead: better, worse, same or cannot tell.

use analysis::blocks;
use analysis::tail::ShortTail;
use stats::family::judge_together;
use stats::judge::judge;
use stats::{Doubt, Effect, Finding, Sense, Thresholds, Verdict};

use super::{Measure, View};
use crate::format;

/// One stack against another on one load.
#[derive(Debug, Clone, PartialEq)]
pub struct BaselineComparison {
    /// Column of the grid.
    pub column: usize,
    /// Row of the baseline: the first competing stack, or the second of the two that lead.
    pub baseline: usize,
    /// Row of the candidate.
    pub candidate: usize,
    /// The verdict by the column's measure, judged together with all others of the report. Ratio: candidate by baseline.
    pub finding: Finding,
    /// Its p-value, adjusted for the number of verdicts.
    pub p: f64,
}

/// The verdicts against the first competing stack, column by column. Places without results, and ceilings, are left out.
pub fn against_first(view: &View<'_>) -> Vec<BaselineComparison> {
    let first = first(view);
    told(view).into_iter().filter(|one| Some(one.baseline) == first).collect()
}

fn first(view: &View<'_>) -> Option<usize> {
    view.stacks.iter().position(|stack| stack.competes)
}

/// A column, the row of the baseline, that of the candidate.
type Pair = (usize, usize, usize);

/// The pairs that a report speaks of: every stack against the first one, and the two that lead, if neither is the first.
fn pairs(view: &View<'_>) -> Vec<Pair> {
    let Some(first) = first(view) else { return Vec::new() };
    let mut pairs = Vec::new();
    for column in 0..view.loads.len() {
        let ranked = view.ranking(column);
        let others = ranked.iter().filter(|(row, _)| *row != first);
        pairs.extend(others.map(|(row, _)| (column, first, *row)));
        if let [(leader, _), (next, _), ..] = ranked[..]
            && ![leader, next].contains(&first)
        {
            pairs.push((column, next, leader));
        }
    }
    pairs
}

/// All verdicts that a report tells, within blocks: against the first stack, and of the two that lead. Those on one measure are a family: among many, few are false.
pub fn told(view: &View<'_>) -> Vec<BaselineComparison> {
    // a comparison that ended when it was decided has a rule of its own, which is in the headline
    if analysis::turns::of_run(view.run).is_some() {
        return Vec::new();
    }
    let thresholds = Thresholds::default();
    let of = |(column, baseline, candidate): Pair, finding: Finding, p: f64| BaselineComparison {
        column,
        baseline,
        candidate,
        finding,
        p,
    };
    let mut all = Vec::new();
    for measure in [Measure::Throughput, Measure::PacedLatency] {
        let mut family = Vec::new();
        for pair in pairs(view).into_iter().filter(|pair| view.loads[pair.0].measure == measure) {
            let Some(effect) = effect(view, pair) else { continue };
            let (column, baseline, candidate) = pair;
            let tails = [baseline, candidate].map(|row| view.point(row, column).short_tail);
            let Some(short) = tails.into_iter().flatten().min() else {
                family.push((pair, (effect, measure.sense())));
                continue;
            };
            let alone = judge(&effect, measure.sense(), &thresholds);
            all.push(of(pair, Finding { verdict: short.verdict(), ..alone }, alone.p_value));
        }
        let (pairs, effects): (Vec<Pair>, Vec<(Effect, Sense)>) = family.into_iter().unzip();
        let judged = pairs.into_iter().zip(judge_together(&effects, &thresholds));
        all.extend(judged.map(|(pair, judged)| of(pair, judged.finding, judged.p_adjusted)));
    }
    all.sort_by_key(|one| (one.column, one.candidate));
    all
}

/// The effect of one row against another in a column, by its measure.
fn effect(view: &View<'_>, (column, baseline, candidate): Pair) -> Option<Effect> {
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
        Verdict::CannotTell { why: Doubt::ShortTail { have, .. } } => ShortTail(*have).to_string(),
        Verdict::CannotTell { why: Doubt::OtherMachine } => {
            "the machine was another; --anchor STACK compares by what was not changed".into()
        }
        _ => String::new(),
    }
}
