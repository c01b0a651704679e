//! Two cells of one run, compared within blocks.
//!
//! The trials of a block follow each other closely, so slow changes of the machine hit both and cancel in
//! `d = ln(B/A)`. The mean of `d` is the ratio of the geometric means. 3 to 7 blocks are judged by Student's t; from 8 by the
//! signed-rank test ([`crate::signed_rank`]), which needs no law of the noise. (Box, Hunter & Hunter, "Statistics for
//! Experimenters", chapter 4: randomised blocks.)
//!
//! For a quantile of latency the values are the quantile of each trial: bootstrap blocks, never latencies, since the
//! operations of a trial are alike. [`tail_samples`] says how many lie beyond it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::effect::{Effect, FEWEST, moments};
use crate::judge::{Finding, Thresholds, judge};
use crate::sample::{SampleError, Sense, median_in_place};

/// Trials of a block that began further apart than this do not share the machine's state, in seconds.
pub const APART_MAX: f64 = 60.0;
/// Unless the run's blocks are usually so far apart: times the median distance.
pub const APART_USUAL: f64 = 3.0;
/// Fewest samples beyond a quantile, in each trial, for it to be compared. The quantile of `m / (1 - q)` samples is, on
/// average, one with `1 / m` more or less beyond it, and by how much depends on their number, which differs where one side is
/// faster. At 100 that is 1 %, the floor of a verdict.
pub const TAIL_MIN: u64 = 100;

/// What a trial of a cell gave.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The block it belongs to. Trials of two cells with equal numbers are a pair.
    pub block: u64,
    /// When it began, in seconds from any fixed moment.
    pub began: f64,
    /// Throughput, time, a quantile of latency: above 0.
    pub value: f64,
}

/// The differences of the intact blocks.
#[derive(Debug, Clone, PartialEq)]
pub struct Pairs {
    /// Number of each intact block with its `ln(B/A)`, ascending.
    pub of_blocks: Vec<(u64, f64)>,
    /// Blocks that hold one of the two cells only, or both too far apart in time.
    pub broken: usize,
}

impl Pairs {
    /// `ln(B/A)` of each intact block.
    pub fn differences(&self) -> Vec<f64> {
        self.of_blocks.iter().map(|block| block.1).collect()
    }
}

/// Pairs the trials of two cells by block. A block is intact if both trials are there and began within 60 s, or within
/// 3 times the run's median distance. Of two trials of a cell in one block the first given counts.
///
/// # Errors
/// When a value is not above 0, or a value or time is not finite.
pub fn pair(a: &[Trial], b: &[Trial]) -> Result<Pairs, SampleError> {
    let (a, b) = (by_block(a)?, by_block(b)?);
    let both: Vec<(&Trial, &Trial)> = a.iter().filter_map(|(block, x)| Some((x, b.get(block)?))).collect();
    let apart = |(x, y): &(&Trial, &Trial)| (x.began - y.began).abs();
    let usual = median_in_place(&mut both.iter().map(apart).collect::<Vec<_>>());
    let limit = APART_MAX.max(APART_USUAL * usual);
    let intact = both.iter().filter(|pair| apart(pair) <= limit);
    let of_blocks: Vec<(u64, f64)> = intact.map(|(x, y)| (x.block, (y.value / x.value).ln())).collect();
    let blocks = a.len() + b.len() - both.len();
    Ok(Pairs { broken: blocks - of_blocks.len(), of_blocks })
}

/// Compares cell `b` with cell `a` of the same run. Fewer than 3 intact blocks: Welch's t on all trials, labelled by
/// [`crate::effect::Method::WelchT`]; a side of fewer than 3 trials then decides nothing.
///
/// # Errors
/// When a side is empty, a value is not above 0, or a value or time is not finite.
pub fn compare(
    a: &[Trial],
    b: &[Trial],
    sense: Sense,
    thresholds: &Thresholds,
) -> Result<Finding, SampleError> {
    Ok(judge(&effect(a, b)?, sense, thresholds))
}

/// The effect that [`compare`] judges.
///
/// # Errors
/// As [`compare`].
pub fn effect(a: &[Trial], b: &[Trial]) -> Result<Effect, SampleError> {
    let differences = pair(a, b)?.differences();
    let fewest = a.len().min(b.len());
    if differences.len() >= FEWEST || fewest < 2 && !differences.is_empty() {
        return Effect::of_differences(&differences);
    }
    let logs = |trials: &[Trial]| trials.iter().map(|t| t.value.ln()).collect::<Vec<_>>();
    let (a, b) = (logs(a), logs(b));
    if fewest >= 2 {
        return Effect::of_samples(&a, &b);
    }
    // One trial on a side, in no common block: the ratio of the means, and no interval worth the name.
    let (&[_, ..], &[_, ..]) = (&a[..], &b[..]) else { return Err(SampleError::Empty) };
    Effect::of_differences(&[moments(&b).0 - moments(&a).0])
}

fn by_block(trials: &[Trial]) -> Result<BTreeMap<u64, Trial>, SampleError> {
    let mut blocks = BTreeMap::new();
    for (position, trial) in trials.iter().enumerate() {
        for value in [trial.value, trial.began] {
            if !value.is_finite() {
                return Err(SampleError::NotFinite { position, value });
            }
        }
        if trial.value <= 0.0 {
            return Err(SampleError::NotPositive(trial.value));
        }
        blocks.entry(trial.block).or_insert(*trial);
    }
    Ok(blocks)
}

/// How many of so many samples lie beyond quantile `q` (0..=1).
pub fn tail_samples(q: f64, samples: u64) -> u64 {
    // 0.1 % of 100,000 is 100, whatever binary fractions make of it
    ((1.0 - q).max(0.0) * samples as f64 * (1.0 + 1e-9)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effect::Method;
    use crate::verdict::{Doubt, Verdict};

    fn trials(values: &[f64], first_block: u64, began: f64) -> Vec<Trial> {
        let trial = |(i, value): (usize, &f64)| Trial {
            block: first_block + i as u64,
            began: began + 10.0 * i as f64,
            value: *value,
        };
        values.iter().enumerate().map(trial).collect()
    }

    fn judged(a: &[Trial], b: &[Trial]) -> Finding {
        compare(a, b, Sense::HigherIsBetter, &Thresholds::default()).unwrap()
    }

    #[test]
    fn drift_that_hits_both_cancels() {
        let drift = [100.0, 140.0, 90.0, 200.0, 60.0];
        let a = trials(&drift, 0, 0.0);
        let b = trials(&drift.map(|v| v * 1.1), 0, 2.0);
        let found = judged(&a, &b);
        assert_eq!((found.verdict, found.method, found.n), (Verdict::Better, Method::StudentT, 5));
        assert!((found.ratio - 1.1).abs() < 1e-12);
    }

    #[test]
    fn a_resumed_trial_breaks_its_block() {
        let a = trials(&[1.0; 6], 0, 0.0);
        let mut b = trials(&[1.0; 6], 0, 2.0);
        b[2].began += 3_600.0;
        b.remove(5);
        let pairs = pair(&a, &b).unwrap();
        assert_eq!((pairs.of_blocks.len(), pairs.broken), (4, 2));
        // Where all trials last long, being far apart is usual.
        let far: Vec<Trial> = a.iter().map(|t| Trial { began: t.began + 500.0, ..*t }).collect();
        assert_eq!(pair(&a, &far).unwrap().broken, 0);
    }

    #[test]
    fn without_three_blocks_the_trials_are_compared_as_they_are() {
        let a = trials(&[100.0, 101.0, 99.0, 100.0], 0, 0.0);
        let b = trials(&[150.0, 151.0, 149.0, 152.0], 100, 0.0);
        let found = judged(&a, &b);
        assert_eq!((found.verdict, found.method, found.n), (Verdict::Better, Method::WelchT, 4));
        let two = judged(&a[..2], &b[..2]);
        let why = Doubt::TooFewTrials { have: 2, need: 3 };
        assert_eq!(two.verdict, Verdict::CannotTell { why });
        assert!(matches!(judged(&a[..1], &b).verdict, Verdict::CannotTell { .. }));
        assert!(matches!(judged(&a[..1], &a[..1]).verdict, Verdict::CannotTell { .. }));
    }

    #[test]
    fn bad_input_is_an_error() {
        let good = trials(&[1.0; 3], 0, 0.0);
        let thresholds = Thresholds::default();
        let with = |bad: Trial| compare(&[bad], &good, Sense::LowerIsBetter, &thresholds).unwrap_err();
        assert_eq!(with(Trial { value: 0.0, ..good[0] }), SampleError::NotPositive(0.0));
        assert!(matches!(with(Trial { began: f64::NAN, ..good[0] }), SampleError::NotFinite { .. }));
        assert_eq!(effect(&[], &good), Err(SampleError::Empty));
        assert_eq!(effect(&[], &[]), Err(SampleError::Empty));
    }

    #[test]
    fn samples_beyond_a_quantile_are_counted() {
        let beyond = [(0.99, 10_000), (0.999, 100_000), (0.99, 9_999), (0.5, 3), (1.0, 100)];
        assert_eq!(beyond.map(|(q, samples)| tail_samples(q, samples)), [100, 100, 99, 1, 0]);
    }
}
