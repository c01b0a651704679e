//! Better, worse, same or cannot tell: the comparison of two sets of trials.
//!
//! The rules, in this order, for a baseline A and a candidate B of at least 3 trials each:
//!
//! 1. **better / worse** when all three hold: the difference is significant; the interval of the ratio of
//!    medians excludes 1; the ratio is off 1 by more than the floor (2 %).
//! 2. **same** when the whole interval of the ratio lies inside the equivalence margin (5 %): the
//!    interval form of the two one-sided tests (Schuirmann, J. Pharmacokinetics and Biopharmaceutics
//!    15(6), 1987), stricter than usual since the interval is at 95 % instead of 90 %.
//! 3. **cannot tell** otherwise: too few trials where no outcome of the rank test could have been
//!    significant, else too much variance.
//!
//! *Significant* means: the two-sided Mann-Whitney p is below alpha. With 3 trials against 3 or 4 the
//! smallest possible p (0.1, 0.057) is above 5 %; there, and only there, a difference counts as
//! significant when the groups are separate and the gap between them is at least
//! [`GAP_RATIO`] times the wider group, on a logarithmic scale. Separation alone bounds false alarms by
//! 10 % for any distribution; with the gap, simulated rates are below 1.5 % for normal, exponential,
//! uniform and heavy-tailed noise (see this module's tests).
//!
//! The interval is BCa bootstrap. Below 5 trials on a side the bootstrap is too optimistic, and the
//! interval is the widest ratio the ranges allow, whose coverage is then stated instead of 95 %.

use serde::{Deserialize, Serialize};

use crate::bootstrap::{Resampling, ratio_of_medians};
use crate::interval::{Estimate, Interval};
use crate::rank::{hodges_lehmann, mann_whitney, smallest_p};
use crate::sample::{Sample, SampleError, Sense};

/// Fewest trials on each side for any verdict but "cannot tell".
pub const MIN_TRIALS: usize = 3;
/// Fewest trials on each side for a bootstrap interval.
pub const MIN_BOOTSTRAP_TRIALS: usize = 5;
/// Gap between separate groups, in widths of the wider one, that counts as significant where the rank
/// test cannot.
pub const GAP_RATIO: f64 = 2.0;

/// Thresholds of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rules {
    /// Significance level, also of the intervals (level `1 - alpha`). Default 0.05.
    pub alpha: f64,
    /// Equivalence margin: 0.05 reads "within a factor of 1.05 is the same". Default 0.05.
    pub margin: f64,
    /// Smallest relative effect worth a verdict. Default 0.02.
    pub floor: f64,
    /// Bootstrap resamples. Default 2,000.
    pub resamples: usize,
    /// Bootstrap seed.
    pub seed: u64,
}

impl Default for Rules {
    fn default() -> Self {
        let Resampling { resamples, seed } = Resampling::default();
        Rules { alpha: 0.05, margin: 0.05, floor: 0.02, resamples, seed }
    }
}

/// What a comparison concludes about B.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "verdict")]
pub enum Verdict {
    /// B is better than A.
    Better,
    /// B is worse than A.
    Worse,
    /// B and A differ by less than the margin.
    Same,
    /// The trials do not decide.
    CannotTell {
        /// What is missing.
        why: Doubt,
    },
}

/// Why the trials do not decide.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "doubt")]
pub enum Doubt {
    /// No outcome of so few trials could be significant.
    TooFewTrials {
        /// Trials on the smaller side.
        have: usize,
        /// Trials on each side from which a significant outcome is possible.
        need: usize,
    },
    /// Two runs were made on machines that differ, and share nothing to compare them by.
    OtherMachine,
    /// The interval is too wide for the effect and for the margin.
    TooMuchVariance {
        /// Half width of the ratio's interval, relative (0.1 reads "times or over 1.1").
        half_width: f64,
        /// Trials on each side that would probably decide, if the variance stays; a rough guess from
        /// the inverse square-root law, at most 10,000.
        trials: usize,
    },
}

/// What made a difference significant, or would have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// The Mann-Whitney test.
    RankTest,
    /// Separation with a wide gap, the trials being too few for the test.
    Gap,
}

/// A verdict with everything it rests on.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The conclusion.
    pub verdict: Verdict,
    /// Which rule of significance applied.
    pub basis: Basis,
    /// Trials of A and of B.
    pub trials: (usize, usize),
    /// Median of B over median of A, with its interval.
    pub ratio: Estimate,
    /// Two-sided Mann-Whitney p.
    pub p: f64,
    /// Chance that a trial of B beats one of A, ties counting half (Vargha & Delaney, "A Critique and
    /// Improvement of the CL Common Language Effect Size Statistics", 2000): 0.5 no effect, 1 always.
    pub superiority: f64,
    /// Hodges-Lehmann shift from A to B in the unit of the values, with its rank interval.
    pub shift: Estimate,
}

/// Compares the trials of a candidate `b` with those of a baseline `a`.
///
/// # Errors
/// When a side is empty, or holds a value that is not finite or not above 0 (ratios need that).
pub fn compare(a: &[f64], b: &[f64], sense: Sense, rules: &Rules) -> Result<Comparison, SampleError> {
    let (a, b) = (Sample::new(a)?.positive()?, Sample::new(b)?.positive()?);
    let test = mann_whitney(&a, &b);
    let share = test.u / (a.len() * b.len()) as f64;
    let testable = smallest_p(a.len(), b.len()) < rules.alpha;
    let ratio = ratio(&a, &b, rules)?;
    let significant = if testable { test.p < rules.alpha } else { wide_gap(&a, &b) };
    Ok(Comparison {
        verdict: judge(&a, &b, &ratio, significant, sense, rules),
        basis: if testable { Basis::RankTest } else { Basis::Gap },
        trials: (a.len(), b.len()),
        ratio,
        p: test.p,
        superiority: if sense == Sense::HigherIsBetter { share } else { 1.0 - share },
        shift: hodges_lehmann(&a, &b, 1.0 - rules.alpha),
    })
}

fn judge(
    a: &Sample,
    b: &Sample,
    ratio: &Estimate,
    significant: bool,
    sense: Sense,
    rules: &Rules,
) -> Verdict {
    let have = a.len().min(b.len());
    let too_few = Doubt::TooFewTrials { have, need: trials_needed(rules.alpha) };
    if have < MIN_TRIALS {
        return Verdict::CannotTell { why: too_few };
    }
    let effect = ratio.value.ln();
    if significant && !ratio.interval.contains(1.0) && effect.abs() > rules.floor.ln_1p() {
        let good = (effect > 0.0) == (sense == Sense::HigherIsBetter);
        return if good { Verdict::Better } else { Verdict::Worse };
    }
    let margin = rules.margin.ln_1p();
    let (low, high) = (ratio.interval.low.ln(), ratio.interval.high.ln());
    if -margin <= low && high <= margin {
        return Verdict::Same;
    }
    if smallest_p(a.len(), b.len()) >= rules.alpha {
        return Verdict::CannotTell { why: too_few };
    }
    // Either the interval must come off 1, or it must fit into the margin: the easier of the two.
    let half = (high - low) / 2.0;
    let room = effect.abs().max(margin - effect.abs()).max(1e-3);
    let trials = (have as f64 * (half / room).powi(2)).ceil().clamp(have as f64 + 1.0, 10_000.0) as usize;
    Verdict::CannotTell { why: Doubt::TooMuchVariance { half_width: half.exp_m1(), trials } }
}

/// Trials on each side from which the rank test can reach `alpha`: 4 for 5 %, 5 for 1 %.
pub fn trials_needed(alpha: f64) -> usize {
    (MIN_TRIALS..1_000).find(|&n| smallest_p(n, n) < alpha).unwrap_or(1_000)
}

fn ratio(a: &Sample, b: &Sample, rules: &Rules) -> Result<Estimate, SampleError> {
    let level = 1.0 - rules.alpha;
    if a.len().min(b.len()) >= MIN_BOOTSTRAP_TRIALS {
        return ratio_of_medians(a, b, level, Resampling { resamples: rules.resamples, seed: rules.seed });
    }
    // Both medians lie in their ranges with at least this probability (order statistics).
    let coverage = [a, b].iter().map(|s| 1.0 - 0.5f64.powi(s.len() as i32 - 1)).product();
    let interval = Interval { low: b.min() / a.max(), high: b.max() / a.min(), level, coverage };
    Ok(Estimate { value: b.median() / a.median(), interval })
}

fn wide_gap(a: &Sample, b: &Sample) -> bool {
    let width = |s: &Sample| (s.max() / s.min()).ln();
    let gap = (b.min() / a.max()).ln().max((a.min() / b.max()).ln());
    gap > 0.0 && gap >= GAP_RATIO * width(a).max(width(b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::SplitMix;

    /// Fewer resamples, so that thousands of comparisons are quick.
    fn quick() -> Rules {
        Rules { resamples: 400, ..Rules::default() }
    }

    fn up(a: &[f64], b: &[f64]) -> Comparison {
        compare(a, b, Sense::HigherIsBetter, &Rules::default()).unwrap()
    }

    type Noise = fn(&mut SplitMix) -> f64;

    /// Multiplicative noise about 1, from harmless to vicious.
    const NOISES: [(&str, Noise); 6] = [
        ("normal, cv 5 %", |rng| 1.0 + 0.05 * rng.normal()),
        ("lognormal, wide", |rng| (0.5 * rng.normal()).exp()),
        ("exponential", |rng| -rng.unit().ln()),
        ("uniform", |rng| 0.5 + rng.unit()),
        ("Cauchy, exponentiated", |rng| {
            (0.05 * (std::f64::consts::PI * (rng.unit() - 0.5)).tan()).clamp(-50.0, 50.0).exp()
        }),
        ("bimodal", |rng| if rng.unit() < 0.3 { 1.5 } else { 1.0 } * (1.0 + 0.02 * rng.normal())),
    ];

    fn draw(rng: &mut SplitMix, n: usize, scale: f64, noise: Noise) -> Vec<f64> {
        (0..n).map(|_| scale * noise(rng)).collect()
    }

    /// Shares of (better or worse, same) among comparisons of `n` trials a side.
    fn rates(rounds: usize, n: usize, scale: f64, noise: Noise) -> (f64, f64) {
        let mut rng = SplitMix::new(0xace + n as u64);
        let (mut different, mut same) = (0, 0);
        for _ in 0..rounds {
            let (a, b) = (draw(&mut rng, n, 100.0, noise), draw(&mut rng, n, 100.0 * scale, noise));
            match compare(&a, &b, Sense::HigherIsBetter, &quick()).unwrap().verdict {
                Verdict::Better | Verdict::Worse => different += 1,
                Verdict::Same => same += 1,
                Verdict::CannotTell { .. } => {}
            }
        }
        (f64::from(different) / rounds as f64, f64::from(same) / rounds as f64)
    }

    #[test]
    fn false_alarms_stay_below_alpha_for_any_noise() {
        for (name, noise) in NOISES {
            for (n, limit) in [(3, 0.02), (4, 0.05), (5, 0.05), (8, 0.06)] {
                let (different, _) = rates(800, n, 1.0, noise);
                println!("{name}, {n} trials: {different}");
                assert!(different <= limit, "{name}, {n} trials: {different}");
            }
        }
    }

    #[test]
    fn equal_and_quiet_is_the_same() {
        let quiet: Noise = |rng| 1.0 + 0.01 * rng.normal();
        for (n, least) in [(3, 0.8), (5, 0.9), (10, 0.97)] {
            let (_, same) = rates(300, n, 1.0, quiet);
            println!("{n} trials: same {same}");
            assert!(same >= least, "{n} trials: {same}");
        }
    }

    #[test]
    fn a_real_difference_is_not_called_the_same() {
        for n in [3, 5, 10] {
            let (_, same) = rates(300, n, 1.1, NOISES[0].1);
            println!("{n} trials: same {same}");
            assert!(same <= 0.05, "{n} trials: {same}");
        }
    }

    #[test]
    fn a_shift_of_thirty_percent_is_found() {
        for (n, least) in [(3, 0.35), (5, 0.95), (10, 0.99)] {
            let (different, _) = rates(300, n, 1.3, NOISES[0].1);
            println!("{n} trials: found {different}");
            assert!(different >= least, "{n} trials: {different}");
        }
    }

    #[test]
    fn direction_follows_the_sense() {
        let (slow, fast) = ([100.0, 101.0, 99.0, 102.0, 98.0], [130.0, 131.0, 129.0, 133.0, 128.0]);
        let got = up(&slow, &fast);
        assert_eq!((got.verdict, got.basis, got.trials), (Verdict::Better, Basis::RankTest, (5, 5)));
        assert!((got.p - 2.0 / 252.0).abs() < 1e-12);
        assert_eq!((got.ratio.value, got.superiority, got.shift.value), (1.3, 1.0, 30.0));
        assert_eq!(up(&fast, &slow).verdict, Verdict::Worse);
        let time = compare(&slow, &fast, Sense::LowerIsBetter, &Rules::default()).unwrap();
        assert_eq!((time.verdict, time.superiority), (Verdict::Worse, 0.0));
    }

    #[test]
    fn three_trials_decide_only_by_a_wide_gap() {
        let wide = up(&[100.0, 102.0, 104.0], &[300.0, 310.0, 305.0]);
        assert_eq!((wide.verdict, wide.basis), (Verdict::Better, Basis::Gap));
        assert!((wide.p - 0.1).abs() < 1e-12, "p is shown as it is");
        assert_eq!(wide.ratio.interval.coverage, 0.5625);
        let narrow = up(&[100.0, 105.0, 110.0], &[115.0, 120.0, 125.0]);
        let why = Doubt::TooFewTrials { have: 3, need: 4 };
        assert_eq!(narrow.verdict, Verdict::CannotTell { why });
        assert_eq!(up(&[100.0, 100.5, 100.2], &[100.1, 100.6, 99.9]).verdict, Verdict::Same);
    }

    #[test]
    fn one_or_two_trials_decide_nothing() {
        for n in 1..3 {
            let got = up(&vec![100.0; n], &vec![900.0; n]).verdict;
            assert_eq!(got, Verdict::CannotTell { why: Doubt::TooFewTrials { have: n, need: 4 } });
        }
    }

    #[test]
    fn deterministic_results_compare_as_they_are() {
        assert_eq!(up(&[50.0; 5], &[50.0; 5]).verdict, Verdict::Same);
        assert_eq!(up(&[50.0; 5], &[60.0; 5]).verdict, Verdict::Better);
        assert_eq!(up(&[50.0; 3], &[40.0; 3]).verdict, Verdict::Worse);
    }

    #[test]
    fn a_significant_trifle_is_the_same() {
        let base: Vec<f64> = (0..8).map(|i| 1_000.0 + f64::from(i)).collect();
        let more: Vec<f64> = base.iter().map(|v| v * 1.012).collect();
        let got = up(&base, &more);
        assert!(got.p < 0.05 && !got.ratio.interval.contains(1.0));
        assert_eq!(got.verdict, Verdict::Same);
    }

    #[test]
    fn noise_asks_for_more_trials() {
        let got = up(&[60.0, 100.0, 140.0, 80.0, 120.0], &[70.0, 110.0, 150.0, 90.0, 130.0]);
        let Verdict::CannotTell { why: Doubt::TooMuchVariance { half_width, trials } } = got.verdict else {
            panic!("{got:?}");
        };
        assert!(half_width > 0.1 && trials > 5, "{half_width} {trials}");
    }

    #[test]
    fn bad_input_is_an_error() {
        let rules = Rules::default();
        let one = |a: &[f64], b: &[f64]| compare(a, b, Sense::HigherIsBetter, &rules).unwrap_err();
        assert_eq!(one(&[], &[1.0]), SampleError::Empty);
        assert_eq!(one(&[1.0], &[0.0]), SampleError::NotPositive(0.0));
        assert!(matches!(one(&[f64::NAN], &[1.0]), SampleError::NotFinite { .. }));
    }

    #[test]
    fn a_comparison_is_stored_without_loss() {
        let got = up(&[60.0, 100.0, 140.0], &[70.0, 110.0, 150.0]);
        let text = serde_json::to_string(&got).unwrap();
        assert_eq!(serde_json::from_str::<Comparison>(&text).unwrap(), got);
        let verdict = r#"{"verdict":"cannot_tell","why":{"doubt":"too_few_trials","have":3,"need":4}}"#;
        assert!(text.contains(verdict), "{text}");
        assert_eq!(serde_json::from_str::<Rules>("{}").unwrap(), Rules::default());
    }
}
