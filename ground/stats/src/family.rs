//! The cells of a report judged together, so that among many verdicts few are false.
//!
//! One family is all cells of a report on one metric. Better and worse are those that survive [`benjamini_hochberg`] on
//! their p-values; *same* is a family of its own on `p_same`; the rest cannot be told.

use serde::{Deserialize, Serialize};

use crate::effect::{Effect, FEWEST};
use crate::judge::{Finding, Thresholds, direction, doubt, judge, of_ratio};
use crate::many::benjamini_hochberg;
use crate::sample::Sense;
use crate::verdict::Verdict;

/// One cell of a report, judged together with the others.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Adjusted {
    /// The finding, its verdict and its intervals adjusted. `p_value` and `p_same` stay those of the cell alone.
    pub finding: Finding,
    /// `p_value`, adjusted for the number of cells.
    pub p_adjusted: f64,
    /// `p_same`, adjusted among the `p_same` of all cells.
    pub p_same_adjusted: f64,
}

/// Judges all cells of a report on one metric together. Cells of fewer than 3 blocks stay "cannot tell" and are not
/// counted, since nothing could have been concluded from them.
///
/// The intervals of the `R` of `m` cells called better or worse are at `1 - R alpha / m`, so that the expected share of
/// intervals that miss is below `alpha` although they were selected (Benjamini & Yekutieli, "False Discovery
/// Rate-Adjusted Multiple Confidence Intervals for Selected Parameters", J. American Statistical Association 100, 2005).
pub fn judge_together(cells: &[(Effect, Sense)], thresholds: &Thresholds) -> Vec<Adjusted> {
    let alone = cells.iter().map(|(effect, sense)| judge(effect, *sense, thresholds));
    let mut all: Vec<Adjusted> =
        alone.map(|finding| Adjusted { finding, p_adjusted: 1.0, p_same_adjusted: 1.0 }).collect();
    let family: Vec<usize> = (0..all.len()).filter(|&i| all[i].finding.n >= FEWEST).collect();
    let adjust = |p: fn(&Finding) -> f64| {
        benjamini_hochberg(&family.iter().map(|&i| p(&all[i].finding)).collect::<Vec<_>>())
    };
    let (differ, same) = (adjust(|f| f.p_value), adjust(|f| f.p_same));
    for ((&i, p), p_same) in family.iter().zip(differ).zip(same) {
        (all[i].p_adjusted, all[i].p_same_adjusted) = (p, p_same);
        let (effect, sense) = &cells[i];
        let finding = &mut all[i].finding;
        finding.verdict = match finding.verdict {
            _ if p <= thresholds.alpha => direction(effect.estimate(), *sense),
            _ if p_same <= thresholds.alpha => Verdict::Same,
            open @ Verdict::CannotTell { .. } => open,
            _ => doubt(effect, thresholds),
        };
    }
    let selected = |found: &Adjusted| matches!(found.finding.verdict, Verdict::Better | Verdict::Worse);
    let chosen: Vec<usize> = (0..all.len()).filter(|&i| selected(&all[i])).collect();
    let level = 1.0 - thresholds.alpha * chosen.len() as f64 / family.len().max(1) as f64;
    chosen.iter().for_each(|&i| all[i].finding.interval = of_ratio(cells[i].0.interval(level)));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(offset: f64, n: usize) -> (Effect, Sense) {
        let d: Vec<f64> = (0..n).map(|i| offset + 0.01 * (i as f64 - (n - 1) as f64 / 2.0)).collect();
        (Effect::of_differences(&d).unwrap(), Sense::HigherIsBetter)
    }

    #[test]
    fn one_borderline_cell_among_many_is_no_longer_better() {
        let thresholds = Thresholds::default();
        let borderline = cell(0.032, 5);
        assert_eq!(
            judge_together(std::slice::from_ref(&borderline), &thresholds)[0].finding.verdict,
            Verdict::Better
        );
        let mut cells = vec![borderline];
        cells.extend((0..19).map(|_| cell(0.0, 5)));
        let together = judge_together(&cells, &thresholds);
        assert_ne!(together[0].finding.verdict, Verdict::Better);
        assert!(together[0].p_adjusted > 0.05 && together[0].finding.p_value < 0.05);
        assert!(together[1..].iter().all(|a| a.finding.verdict == Verdict::Same));
    }

    #[test]
    fn selected_intervals_are_wider_and_empty_cells_are_not_counted() {
        let thresholds = Thresholds::default();
        let mut cells = vec![cell(0.2, 10)];
        cells.extend((0..9).map(|_| cell(0.0, 10)));
        let together = judge_together(&cells, &thresholds);
        assert_eq!(together[0].finding.verdict, Verdict::Better);
        assert!((together[0].finding.interval.level - 0.995).abs() < 1e-12);
        let few = judge_together(&[cell(0.2, 2), cell(0.2, 10)], &thresholds);
        assert!(matches!(few[0].finding.verdict, Verdict::CannotTell { .. }));
        assert_eq!(few[1].p_adjusted, few[1].finding.p_value);
        assert!(judge_together(&[], &thresholds).is_empty());
    }
}
