//! `ab` without a budget: a bet against the symmetry of the differences, valid whenever one stops.
//!
//! If A and B do not differ, the sign of each block's difference is a fair coin given its size. Whoever bets on the signs then
//! wins nothing on average, and has twenty times his stake at any time with a chance of at most 1 in 20 (Ville).
//!
//! ```text
//! E = mean over lambda in +-{.15, .3, .6, 1, 1.5} of prod_i exp(lambda z_i) / cosh(lambda z_i)
//! z_i = clip(d_i / s_i, +-2.5),  s_i = 1.4826 median(|d_1|, ..., |d_i|)
//! ```
//!
//! No moments are needed. de la Pena, "A General Class of Exponential Inequalities", Annals of Probability 27(1), 1999;
//! Howard, Ramdas et al., "Time-uniform, Nonparametric, Nonasymptotic Confidence Sequences", Annals of Statistics 49(2),
//! 2021; Vovk & Wang, "Nonparametric e-tests of Symmetry", New England J. of Statistics in Data Science 2(2), 2024.

use crate::effect::check;
use crate::interval::Interval;
use crate::judge::{direction, of_ratio, ratio};
use crate::sample::{SampleError, Sense, median_of_sorted};
use crate::signed_rank::walsh_averages;
use crate::verdict::Verdict;

/// The bets, as multiples of the scaled difference, each on both sides.
const BETS: [f64; 5] = [0.15, 0.3, 0.6, 1.0, 1.5];
/// Differences count at most so many deviations: one wild block wins or loses no fortune.
const CLIP: f64 = 2.5;
/// Median absolute value of the standard normal, inverted.
const MAD_TO_SD: f64 = 1.4826;
/// Widenings of the search for an end of the interval; each doubles.
const WIDENINGS: usize = 60;

/// Logarithm of the wealth after all differences, for the hypothesis that their centre is `theta`, at its highest so far:
/// 20 times the stake, once reached, is enough.
///
/// # Errors
/// When there is no difference, or one is not finite.
pub fn log_wealth(differences: &[f64], theta: f64) -> Result<f64, SampleError> {
    check(differences)?;
    Ok(highest(differences, theta))
}

fn highest(differences: &[f64], theta: f64) -> f64 {
    let (mut sizes, mut sums) = (Vec::with_capacity(differences.len()), [[0.0f64; 2]; BETS.len()]);
    let mut best = f64::NEG_INFINITY;
    for d in differences {
        let off = d - theta;
        let place = sizes.partition_point(|size| *size < off.abs());
        sizes.insert(place, off.abs());
        let scale = MAD_TO_SD * median_of_sorted(&sizes);
        // A scale of 0 means that most differences are exactly theta; the few others are then far off.
        let z = if off == 0.0 { 0.0 } else { (off / scale).clamp(-CLIP, CLIP) };
        for (sum, bet) in sums.iter_mut().zip(BETS) {
            let log_cosh = (bet * z).cosh().ln();
            sum[0] += bet * z - log_cosh;
            sum[1] -= bet * z + log_cosh;
        }
        let top = sums.as_flattened().iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mean = sums.as_flattened().iter().map(|s| (s - top).exp()).sum::<f64>() / (2 * BETS.len()) as f64;
        best = best.max(top + mean.ln());
    }
    best
}

/// Better or worse once the wealth has reached `1 / alpha`; `None` before. May be asked after each block.
///
/// # Errors
/// When there is no difference, or one is not finite.
pub fn decide(differences: &[f64], sense: Sense, alpha: f64) -> Result<Option<Verdict>, SampleError> {
    let rich = log_wealth(differences, 0.0)? >= -alpha.ln();
    let centre = median_of_sorted(&walsh_averages(differences));
    Ok((rich && centre != 0.0).then(|| direction(centre, sense)))
}

/// The ratios B/A against which nobody has grown rich: a confidence sequence at `1 - alpha`, valid at every time together.
/// `None` while it is unbounded, and where it is empty (the level has changed along the way).
///
/// # Errors
/// When there is no difference, or one is not finite.
pub fn interval(differences: &[f64], alpha: f64) -> Result<Option<Interval>, SampleError> {
    check(differences)?;
    let limit = -alpha.ln();
    let centre = median_of_sorted(&walsh_averages(differences));
    if highest(differences, centre) >= limit {
        return Ok(None);
    }
    let end = |side: f64| {
        let mut out = 1e-6;
        let far = (0..WIDENINGS).find(|_| {
            out *= 2.0;
            highest(differences, centre + side * out) >= limit
        });
        far?;
        let (mut inside, mut outside) = (out / 2.0, out);
        for _ in 0..30 {
            let middle = f64::midpoint(inside, outside);
            if highest(differences, centre + side * middle) >= limit {
                outside = middle
            } else {
                inside = middle
            }
        }
        Some(centre + side * outside)
    };
    let level = 1.0 - alpha;
    let ends = end(-1.0).zip(end(1.0));
    Ok(ends.map(|(low, high)| of_ratio(Interval { low, high, level, coverage: level })))
}

/// The estimated ratio B/A: Hodges-Lehmann. 1 without differences.
pub fn estimate(differences: &[f64]) -> f64 {
    ratio(median_of_sorted(&walsh_averages(differences)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::SplitMix;

    #[test]
    fn wealth_by_hand() {
        // One difference: its scale is 1.4826 of itself, so z = 0.6745; by symmetry of the bets E = mean of 1 over both.
        let z: f64 = 1.0 / MAD_TO_SD;
        let bet = |lambda: f64| (lambda * z).exp() / (lambda * z).cosh();
        let mean = BETS.iter().map(|l| bet(*l) + bet(-l)).sum::<f64>() / 10.0;
        assert!((log_wealth(&[0.3], 0.0).unwrap() - mean.ln()).abs() < 1e-12 && (mean - 1.0).abs() < 1e-12);
    }

    #[test]
    fn a_clear_difference_is_found_with_its_interval() {
        let mut rng = SplitMix::new(8);
        let d: Vec<f64> = (0..60).map(|_| 0.05 + 0.05 * rng.normal()).collect();
        assert_eq!(decide(&d, Sense::HigherIsBetter, 0.05), Ok(Some(Verdict::Better)));
        assert_eq!(decide(&d, Sense::LowerIsBetter, 0.05), Ok(Some(Verdict::Worse)));
        let interval = interval(&d, 0.05).unwrap().unwrap();
        assert!(interval.contains(estimate(&d)) && !interval.contains(1.0), "{interval:?}");
        assert_eq!(decide(&d[..4], Sense::HigherIsBetter, 0.05), Ok(None));
    }

    #[test]
    fn exact_and_empty_differences() {
        assert_eq!(decide(&[0.0; 50], Sense::HigherIsBetter, 0.05), Ok(None));
        assert_eq!(decide(&[0.1; 50], Sense::HigherIsBetter, 0.05), Ok(Some(Verdict::Better)));
        assert!(decide(&[], Sense::HigherIsBetter, 0.05).is_err());
        assert!(interval(&[f64::NAN], 0.05).is_err());
        assert_eq!(interval(&[0.1], 0.05), Ok(None), "one block bounds nothing");
    }
}
