//! Two runs compared with each other: before a change and after it.
//!
//! Runs differ although nothing was changed. Two cures:
//!
//! - **Anchor**: both runs hold a cell R that was not changed, in the same blocks. `d = y - y_R` is free of what the machine
//!   did to both, and the runs are compared by Welch's t on the `d`: a ratio of ratios.
//! - **History**: without an anchor, the machine's variance between runs ([`crate::history`]) is added twice, once for each run:
//!   `V = 2 tau^2 + s_A^2/n_A + s_B^2/n_B`, `df = V^2 / [ (2 tau^2)^2/nu + ... ]` (Satterthwaite).
//!
//! Before either, [`crate::machine::gate`] asks whether the machine was another: then only an anchor can judge.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::blocked::{Trial, pair};
use crate::effect::{Effect, FEWEST, Method};
use crate::history::{Spread, Summary};
use crate::judge::{Finding, Thresholds, judge, ratio};
use crate::machine::Reason;
use crate::sample::{SampleError, Sense, median_in_place};
use crate::verdict::Verdict;

/// A cell in one run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Run {
    /// Its trials.
    pub plain: Summary,
    /// Their differences from the anchor within blocks ([`from_anchors`]), where the run has one.
    pub anchored: Option<Summary>,
}

/// What the runs were compared by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// A cell that both runs hold.
    Anchor,
    /// The machine's variance between runs.
    History,
}

/// Two runs compared.
#[derive(Debug, Clone, PartialEq)]
pub struct RunComparison {
    /// What the figures say. [`RunComparison::answer`] is the verdict: the machine may forbid one.
    pub finding: Finding,
    /// What the finding was judged by, for judging it among others.
    pub effect: Effect,
    /// What it rests on.
    pub basis: Basis,
    /// Share of the variance that is the machine's, 0..=1; 0 with an anchor.
    pub machine_share: f64,
    /// The machine's part of the interval, relative: half width times the root of `machine_share`. 0.07 reads "of which
    /// the machine +-7 %".
    pub machine_half_width: f64,
    /// In what the machine differed.
    pub differed: Vec<Reason>,
}

/// The verdict between runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Answer<'a> {
    /// As within a run. Where reasons are given too, an anchor stood for the machine that differed.
    Judged(Verdict, &'a [Reason]),
    /// Cannot tell: the machine differed, and the runs share no cell.
    MachineDiffered(&'a [Reason]),
}

impl RunComparison {
    /// The verdict, or why there is none.
    pub fn answer(&self) -> Answer<'_> {
        if self.basis == Basis::History && !self.differed.is_empty() {
            return Answer::MachineDiffered(&self.differed);
        }
        Answer::Judged(self.finding.verdict, &self.differed)
    }
}

/// Compares run `b` with run `a`: by the anchor where both have at least 3 anchored blocks, else by the machine's
/// `spread`. `differed` is what [`crate::machine::gate`] found. A run of fewer than 3 trials decides nothing.
pub fn compare(
    a: &Run,
    b: &Run,
    spread: &Spread,
    differed: Vec<Reason>,
    sense: Sense,
    thresholds: &Thresholds,
) -> RunComparison {
    let anchors = a.anchored.zip(b.anchored).filter(|(a, b)| a.n.min(b.n) >= FEWEST);
    let (basis, (a, b), spread) = match anchors {
        Some(anchored) => (Basis::Anchor, anchored, &Spread::NONE),
        None => (Basis::History, (a.plain, b.plain), spread),
    };
    let effect = effect(&a, &b, spread);
    let finding = judge(&effect, sense, thresholds);
    let machine = 2.0 * spread.tau * spread.tau;
    let total = machine + a.of_mean() + b.of_mean();
    let share = if total > 0.0 { machine / total } else { 0.0 };
    let half = effect.interval(1.0 - thresholds.alpha).half_width() * share.sqrt();
    let machine_half_width = ratio(half) - 1.0;
    RunComparison { finding, effect, basis, machine_share: share, machine_half_width, differed }
}

/// The change from run `a` to run `b` with its law. For means of anchored differences with [`Spread::NONE`], which makes
/// it Welch's t, or with a spread learned from the history of such differences.
pub fn effect(a: &Summary, b: &Summary, spread: &Spread) -> Effect {
    let within = |run: &Summary| (run.of_mean(), run.n.saturating_sub(1).max(1) as f64);
    let machine = (2.0 * spread.tau * spread.tau, spread.degrees);
    let n = a.n.min(b.n);
    Effect::of_parts(Method::BetweenRuns, n, b.mean - a.mean, &[machine, within(a), within(b)])
}

/// A cell's differences from its run's anchors: of each block in which the cell and *all* anchors are intact, `ln(cell)`
/// minus the mean of `ln(anchor)`. A change common to all anchors is invisible. Both runs must be given the same anchors.
/// `None` for fewer than 3 such blocks, or without anchors.
///
/// # Errors
/// When a value is not above 0, or a value or time is not finite.
pub fn from_anchors(cell: &[Trial], anchors: &[&[Trial]]) -> Result<Option<Summary>, SampleError> {
    let mut off: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for anchor in anchors {
        for (block, difference) in pair(anchor, cell)?.of_blocks {
            off.entry(block).or_default().push(difference);
        }
    }
    let complete = off.values().filter(|d| d.len() == anchors.len());
    let means: Vec<f64> = complete.map(|d| d.iter().sum::<f64>() / d.len() as f64).collect();
    if means.len() < FEWEST { Ok(None) } else { Summary::of_logs(&means).map(Some) }
}

/// The machine's factor between two runs, from the changes `ln(after/before)` of several unchanged cells: `exp` of their
/// median. 1 for none. A cell far off the median was changed after all, and is no anchor.
pub fn machine_factor(changes: &[f64]) -> f64 {
    ratio(median_in_place(&mut changes.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Prior;

    fn run(mean: f64, anchored: Option<f64>) -> Run {
        let summary = |mean| Summary { mean, variance: 0.0004, n: 6 };
        Run { plain: summary(mean), anchored: anchored.map(summary) }
    }

    fn judged(a: &Run, b: &Run, differed: Vec<Reason>) -> RunComparison {
        let spread = Spread::learn(&[], Prior::VIRTUAL);
        compare(a, b, &spread, differed, Sense::HigherIsBetter, &Thresholds::default())
    }

    #[test]
    fn the_variance_between_runs_stands_in_the_interval() {
        let found = judged(&run(0.0, None), &run(0.08, None), Vec::new());
        assert!(matches!(found.answer(), Answer::Judged(Verdict::CannotTell { .. }, [])), "{found:?}");
        let machine = 2.0 * 0.0009;
        let share = machine / (machine + 2.0 * 0.0004 / 6.0);
        assert!((found.machine_share - share).abs() < 1e-12 && found.basis == Basis::History);
        assert!((0.10..0.13).contains(&found.machine_half_width), "{found:?}");
        let large = judged(&run(0.0, None), &run(0.3, None), Vec::new());
        assert_eq!(large.answer(), Answer::Judged(Verdict::Better, &[]));
    }

    #[test]
    fn an_anchor_judges_also_where_the_machine_differed() {
        let why = Reason::Steal { before: 0.0, after: 0.2 };
        let without = judged(&run(0.0, None), &run(0.5, None), vec![why.clone()]);
        assert_eq!(without.answer(), Answer::MachineDiffered(std::slice::from_ref(&why)));
        let with = judged(&run(0.0, Some(1.0)), &run(0.5, Some(1.1)), vec![why.clone()]);
        assert_eq!((with.basis, with.machine_share), (Basis::Anchor, 0.0));
        assert_eq!(with.answer(), Answer::Judged(Verdict::Better, &[why]));
        assert!((with.finding.ratio - 0.1f64.exp()).abs() < 1e-12, "a ratio of ratios");
    }

    #[test]
    fn one_trial_decides_nothing_and_breaks_nothing() {
        let one = Run { plain: Summary { mean: 0.0, variance: 0.0, n: 1 }, anchored: None };
        let found =
            compare(&one, &one, &Spread::NONE, Vec::new(), Sense::LowerIsBetter, &Thresholds::default());
        assert!(matches!(found.answer(), Answer::Judged(Verdict::CannotTell { .. }, _)), "{found:?}");
    }

    #[test]
    fn anchors_take_the_machine_out_block_by_block() {
        let trial = |block: u64, value: f64| Trial { block, began: block as f64, value };
        let machine = [1.0, 3.0, 0.5, 2.0];
        let cell: Vec<Trial> = (0..4).map(|b| trial(b, 8.0 * machine[b as usize])).collect();
        let one: Vec<Trial> = (0..4).map(|b| trial(b, 2.0 * machine[b as usize])).collect();
        let two: Vec<Trial> = (0..3).map(|b| trial(b, 8.0 * machine[b as usize])).collect();
        let found = from_anchors(&cell, &[&one, &two]).unwrap().unwrap();
        assert!(found.n == 3 && (found.mean - 2.0f64.ln()).abs() < 1e-12 && found.variance < 1e-20);
        assert_eq!(from_anchors(&cell, &[]), Ok(None));
        assert_eq!(from_anchors(&cell, &[&two[..2]]), Ok(None));
        assert_eq!(machine_factor(&[0.0, 0.1f64.ln(), 2.0f64.ln()]), 1.0);
    }
}
