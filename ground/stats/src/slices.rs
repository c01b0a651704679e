//! Two kept stacks in turns of a few milliseconds.
//!
//! Slices of the same number of operations alternate in pairs, the order in each pair by lot. What the machine does for longer
//! than a pair hits both. A block is a run of pairs; its difference is `ln(rate B / rate A)` of *sums*, since logarithms of
//! short slices have tails that no rule likes. After Bulej et al., "Duet Benchmarking", ICPE 2020, in turns instead
//! of at once: a storage load would share queue, journal and cache with its rival.
//!
//! Slices lie where one stack's debt (dirty pages, journal, discard) is paid in the other's turn. A load is trusted to them
//! only after a planted difference came out as it does in whole trials ([`trust`]).

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::effect::{Effect, FEWEST, moments};
use crate::judge::{Finding, Thresholds, judge, ratio};
use crate::sample::{SampleError, Sense};
use crate::student;

/// Blocks that slices are usually gathered into.
pub const BLOCKS: usize = 20;
/// Shortest slice, in seconds.
pub const SHORTEST: f64 = 0.020;
/// A slice lasts so many times the p99 of an operation, and the cost of switching.
pub const TIMES: f64 = 20.0;
/// A slice lasts at most this share of the time that the noise remembers.
pub const MEMORY_SHARE: f64 = 1.0 / 3.0;
/// Two slices of a pair hold the same number of operations, but for this share.
pub const UNEQUAL_MAX: f64 = 0.01;
/// p-value of the slope from which ageing is reported instead of one number.
pub const AGEING: f64 = 0.01;
/// How far the ratio by slices may lie from that by whole trials.
pub const APART_MAX: f64 = 0.02;
/// Half width, at 95 %, from which the two say nothing of each other: half of the planted 10 %.
pub const VAGUE: f64 = 0.05;

/// One stack's turn.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Slice {
    /// Whether it was the candidate's (B).
    pub candidate: bool,
    /// Operations done.
    pub operations: u64,
    /// From the start of the first to the end of the last, what it owes written out.
    pub seconds: f64,
}

/// Why slices cannot be compared.
#[derive(Debug, Clone, Copy, PartialEq, Error)]
pub enum SliceError {
    /// Not one of each.
    #[error("slices {0} and {1} must be one of A and one of B", position, position + 1)]
    NotAPair {
        /// Position of the first of the two.
        position: usize,
    },
    /// Stacks age by operations, so each must have done as many.
    #[error("slices {0} and {1} hold {a} and {b} operations; compare equal numbers", position, position + 1)]
    UnequalWork {
        /// Position of the first of the two.
        position: usize,
        /// Operations of the first.
        a: u64,
        /// Operations of the second.
        b: u64,
    },
    /// No rate follows from it.
    #[error("slice {position} has no operation or lasted {seconds} s")]
    NoRate {
        /// Position.
        position: usize,
        /// Its length.
        seconds: f64,
    },
    /// Not a pair for each block.
    #[error(
        "{pairs} pairs of slices are too few for {blocks} blocks; at least 3 blocks of one pair are needed"
    )]
    TooFew {
        /// Pairs given.
        pairs: usize,
        /// Blocks asked for.
        blocks: usize,
    },
}

/// The ratio changes while the stacks age.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Drift {
    /// Ratio B/A at the first block, on the fitted line.
    pub first: f64,
    /// Ratio at the last block.
    pub last: f64,
    /// Two-sided p-value of the slope.
    pub p: f64,
}

/// Two stacks compared by slices.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SliceComparison {
    /// The finding over all blocks, on the rate. Where there is drift, it is the mean of something that changes.
    pub finding: Finding,
    /// Drift, to be reported instead of one number.
    pub drift: Option<Drift>,
    /// Neighbouring blocks were alike and were joined.
    pub joined: bool,
}

/// Gathers slices, in the order of time, into blocks, and judges them. `blocks` is usually [`BLOCKS`].
///
/// # Errors
/// When the slices are not pairs of equal work, or too few.
pub fn compare(
    slices: &[Slice],
    blocks: usize,
    thresholds: &Thresholds,
) -> Result<SliceComparison, SliceError> {
    let first = differences(slices, blocks)?;
    let drift = drift(&first, thresholds.floor.ln_1p());
    let alike = autocorrelation(&first).abs() > 2.0 / (first.len() as f64).sqrt();
    let joined = alike && blocks / 2 >= FEWEST;
    let used = if joined { differences(slices, blocks / 2)? } else { first };
    let few = |_: SampleError| SliceError::TooFew { pairs: slices.len() / 2, blocks };
    let effect = Effect::of_differences(&used).map_err(few)?;
    Ok(SliceComparison { finding: judge(&effect, Sense::HigherIsBetter, thresholds), drift, joined })
}

/// `ln(rate B / rate A)` of each block of equally many pairs; up to `blocks - 1` pairs at the end are left out.
///
/// # Errors
/// As [`compare`].
pub fn differences(slices: &[Slice], blocks: usize) -> Result<Vec<f64>, SliceError> {
    let pairs = slices.len() / 2;
    if blocks < FEWEST || pairs < blocks {
        return Err(SliceError::TooFew { pairs, blocks });
    }
    check(slices)?;
    let log_rate = |block: &[Slice], candidate: bool| {
        let own = block.iter().filter(|slice| slice.candidate == candidate);
        let (done, took) =
            own.fold((0.0, 0.0), |(n, s), slice| (n + slice.operations as f64, s + slice.seconds));
        (done / took).ln()
    };
    let size = 2 * (pairs / blocks);
    let of = |block: &[Slice]| log_rate(block, true) - log_rate(block, false);
    Ok(slices.chunks_exact(size).take(blocks).map(of).collect())
}

fn check(slices: &[Slice]) -> Result<(), SliceError> {
    for (position, slice) in slices.iter().enumerate() {
        if slice.operations == 0 || !slice.seconds.is_finite() || slice.seconds <= 0.0 {
            return Err(SliceError::NoRate { position, seconds: slice.seconds });
        }
    }
    for (index, pair) in slices.chunks_exact(2).enumerate() {
        let (position, a, b) = (2 * index, pair[0].operations, pair[1].operations);
        if pair[0].candidate == pair[1].candidate {
            return Err(SliceError::NotAPair { position });
        }
        if a.abs_diff(b) as f64 > UNEQUAL_MAX * a.max(b) as f64 {
            return Err(SliceError::UnequalWork { position, a, b });
        }
    }
    Ok(())
}

/// The slope of the differences on the number of the block, if it is significant and changes the ratio by at least
/// `floor` (a logarithm) from the first block to the last. Least squares, Student's t with `n - 2` degrees of freedom.
pub fn drift(differences: &[f64], floor: f64) -> Option<Drift> {
    let n = differences.len() as f64;
    if n < 4.0 {
        return None;
    }
    let (mean, middle) = (moments(differences).0, (n - 1.0) / 2.0);
    let place = |i: usize| i as f64 - middle;
    let squares: f64 = (0..differences.len()).map(|i| place(i).powi(2)).sum();
    let slope = differences.iter().enumerate().map(|(i, d)| place(i) * (d - mean)).sum::<f64>() / squares;
    let off = |(i, d): (usize, &f64)| (d - mean - slope * place(i)).powi(2);
    let rest: f64 = differences.iter().enumerate().map(off).sum();
    let error = (rest / (n - 2.0) / squares).sqrt();
    let p =
        if error > 0.0 { (2.0 * student::upper_tail((slope / error).abs(), n - 2.0)).min(1.0) } else { 0.0 };
    let change = slope * (n - 1.0);
    let end = |side: f64| (mean + side * change / 2.0).exp();
    (p <= AGEING && change.abs() >= floor.max(1e-12)).then(|| Drift { first: end(-1.0), last: end(1.0), p })
}

/// How much the same two stacks differ when they are built anew.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BuildSpread {
    /// Standard deviation of `ln(B/A)` from build to build, relative: 0.02 reads 2 %.
    pub sd: f64,
    /// What it would be if only the blocks within a build scattered, relative.
    pub of_blocks: f64,
}

/// Scatter of the builds of a comparison, each given as the `ln(B/A)` of its blocks; `None` for fewer than two builds of two
/// blocks.
pub fn builds(differences: &[Vec<f64>]) -> Option<BuildSpread> {
    let each: Vec<(f64, f64, f64)> = differences
        .iter()
        .filter(|build| build.len() > 1)
        .map(|build| {
            let (mean, variance) = moments(build);
            (mean, variance, build.len() as f64)
        })
        .collect();
    if each.len() < 2 {
        return None;
    }
    let means: Vec<f64> = each.iter().map(|(mean, ..)| *mean).collect();
    let within = each.iter().map(|(_, variance, n)| variance / n).sum::<f64>() / each.len() as f64;
    Some(BuildSpread { sd: ratio(moments(&means).1.sqrt()) - 1.0, of_blocks: ratio(within.sqrt()) - 1.0 })
}

/// Lag-1 autocorrelation; 0 for fewer than three values or none that differ.
fn autocorrelation(values: &[f64]) -> f64 {
    let (mean, variance) = moments(values);
    if values.len() < 3 || variance <= 0.0 {
        return 0.0;
    }
    let products: f64 = values.windows(2).map(|two| (two[0] - mean) * (two[1] - mean)).sum();
    products / (variance * (values.len() - 1) as f64)
}

/// Whether a load may be compared by slices.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "trust")]
pub enum SliceValidity {
    /// Slices and whole trials agree on the planted difference.
    Trusted {
        /// Ratio by slices over that by whole trials.
        apart: f64,
    },
    /// They do not: one stack pays for the other. Refuse slices for this load.
    Refused {
        /// Ratio by slices over that by whole trials.
        apart: f64,
    },
    /// Too noisy to say: no slices until more blocks have been made.
    Unproven {
        /// Ratio by slices over that by whole trials.
        apart: f64,
        /// Half width of `apart` at 95 %, relative.
        half_width: f64,
    },
}

/// Compares what slices and whole trials found of the same planted difference (10 % more work an operation), each as `ln(B/A)`
/// of blocks: trusted within 2 % of each other.
///
/// # Errors
/// When a side has fewer than two blocks, or a value is not finite.
pub fn trust(slices: &[f64], whole: &[f64]) -> Result<SliceValidity, SampleError> {
    let effect = Effect::of_samples(whole, slices)?;
    let (apart, interval) = (effect.estimate(), effect.interval(0.95));
    let half = interval.half_width();
    let near = apart.abs() <= APART_MAX.ln_1p();
    Ok(if near && half <= VAGUE.ln_1p() {
        SliceValidity::Trusted { apart: ratio(apart) }
    } else if !near && !interval.contains(0.0) {
        SliceValidity::Refused { apart: ratio(apart) }
    } else {
        SliceValidity::Unproven { apart: ratio(apart), half_width: ratio(half) - 1.0 }
    })
}

/// Length of a slice in seconds: as short as 20 ms, 20 times the p99 of an operation and 20 times the cost of switching
/// allow. `None` where that is more than a third of the time that the noise remembers: slices would gain nothing.
pub fn length(operation_p99: f64, switching: f64, noise_memory: f64) -> Option<f64> {
    let least = SHORTEST.max(TIMES * operation_p99).max(TIMES * switching);
    (least <= MEMORY_SHARE * noise_memory).then_some(least)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Verdict;

    /// Pairs whose B takes `cost(pair)` times as long; the order alternates.
    fn slices(pairs: usize, cost: impl Fn(usize) -> f64) -> Vec<Slice> {
        let slice = |candidate, seconds| Slice { candidate, operations: 100, seconds };
        let jitter = |i: usize| 1.0 + 0.01 * ((i * 7 % 5) as f64 - 2.0);
        let pair = |i: usize| {
            let (a, b) = (slice(false, 0.05), slice(true, 0.05 * cost(i) * jitter(i)));
            if i.is_multiple_of(2) { [a, b] } else { [b, a] }
        };
        (0..pairs).flat_map(pair).collect()
    }

    #[test]
    fn sums_of_blocks_are_compared() {
        let found = compare(&slices(207, |_| 1.1), BLOCKS, &Thresholds::default()).unwrap();
        assert_eq!((found.finding.verdict, found.drift), (Verdict::Worse, None));
        assert!((found.finding.ratio - 1.0 / 1.1).abs() < 0.005);
        let d = differences(&slices(2 * 3, |i| if i < 2 { 3.0 } else { 1.0 }), 3).unwrap();
        // Blocks of two pairs; the first holds seconds 0.98 and 1.02 times three.
        assert!((d[0] + 3.0f64.ln() - d[2]).abs() < 0.02 && d.len() == 3, "{d:?}");
    }

    #[test]
    fn ageing_is_reported_as_such() {
        let found =
            compare(&slices(200, |i| 1.0 + 0.001 * i as f64), BLOCKS, &Thresholds::default()).unwrap();
        let drift = found.drift.unwrap();
        assert!((drift.first - 1.0).abs() < 0.01 && (drift.last - 1.0 / 1.2).abs() < 0.01, "{drift:?}");
        assert!(found.joined, "a line makes neighbours alike");
        assert!(compare(&slices(200, |_| 1.0), BLOCKS, &Thresholds::default()).unwrap().drift.is_none());
    }

    #[test]
    fn bad_slices_are_named() {
        let thresholds = Thresholds::default();
        let refused = |slices: &[Slice]| compare(slices, 3, &thresholds).unwrap_err();
        let good = slices(6, |_| 1.0);
        assert_eq!(refused(&good[..4]), SliceError::TooFew { pairs: 2, blocks: 3 });
        assert!(matches!(compare(&good, 0, &thresholds), Err(SliceError::TooFew { .. })));
        let mut bad = good.clone();
        bad[4].candidate = !bad[4].candidate;
        assert_eq!(refused(&bad), SliceError::NotAPair { position: 4 });
        let mut bad = good.clone();
        bad[3].operations = 120;
        assert_eq!(refused(&bad), SliceError::UnequalWork { position: 2, a: 100, b: 120 });
        let text = refused(&bad).to_string();
        assert_eq!(text, "slices 2 and 3 hold 100 and 120 operations; compare equal numbers");
        let mut bad = good;
        bad[5].seconds = f64::NAN;
        assert!(matches!(refused(&bad), SliceError::NoRate { position: 5, .. }));
    }

    #[test]
    fn a_planted_difference_decides_about_trust() {
        let near =
            |center: f64| (0..20).map(|i| center + 0.01 * (f64::from(i % 5) - 2.0)).collect::<Vec<_>>();
        let whole = near(-0.095);
        assert!(matches!(trust(&near(-0.100), &whole), Ok(SliceValidity::Trusted { .. })));
        assert!(matches!(trust(&near(-0.020), &whole), Ok(SliceValidity::Refused { .. })), "carried over");
        let loud: Vec<f64> = (0..20).map(|i| if i % 2 == 0 { 0.3 } else { -0.5 }).collect();
        assert!(matches!(trust(&near(-0.1), &loud), Ok(SliceValidity::Unproven { .. })));
        assert!(trust(&[], &whole).is_err());
    }

    #[test]
    fn slices_are_long_enough_or_not_at_all() {
        assert_eq!(length(0.0001, 0.0, 1.0), Some(0.020));
        assert_eq!(length(0.005, 0.0, 1.0), Some(0.1));
        assert_eq!(length(0.050, 0.0, 1.0), None);
    }
}
