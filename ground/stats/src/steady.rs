//! Was the load steady? Warm-up and change points of a per-second series.

use serde::{Deserialize, Serialize};

use crate::sample::{SampleError, median_in_place};

/// Thresholds of the search for change points.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SteadyRule {
    /// Chance of a false change point in independent noise, per split tried. Default 0.01: seconds of a
    /// storage load are correlated, which makes false alarms more frequent than this.
    pub alpha: f64,
    /// Smallest relative change of the median level worth reporting. Default 0.1.
    pub change_min: f64,
    /// Fewest points on each side of a change. Default 5.
    pub segment_min: usize,
}

impl Default for SteadyRule {
    fn default() -> Self {
        SteadyRule { alpha: 0.01, change_min: 0.1, segment_min: 5 }
    }
}

/// A lasting change of level.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ChangePoint {
    /// Position of the first point of the new level.
    pub at: usize,
    /// Median level before, back to the previous change.
    pub before: f64,
    /// Median level from here to the next change.
    pub after: f64,
    /// Pettitt's approximate p-value of the split.
    pub p: f64,
}

/// What a series says about its steadiness.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Steadiness {
    /// Points at the start that are warm-up; `None` when the series never settles (the best cut lies in
    /// its second half, or it has fewer than 10 points).
    pub warmup: Option<usize>,
    /// Changes of level after the warm-up, ascending.
    pub changes: Vec<ChangePoint>,
}

impl Steadiness {
    /// Settled, and no change of level afterwards.
    pub fn is_steady(&self) -> bool {
        self.warmup.is_some() && self.changes.is_empty()
    }
}

/// Judges a per-second series: its warm-up by MSER-5, the rest by change points.
///
/// # Errors
/// When a value is not finite.
pub fn judge(series: &[f64], rule: &SteadyRule) -> Result<Steadiness, SampleError> {
    let warmup = warmup(series)?;
    let from = warmup.unwrap_or(0);
    let mut changes = change_points(&series[from..], rule)?;
    changes.iter_mut().for_each(|change| change.at += from);
    Ok(Steadiness { warmup, changes })
}

/// Points to cut from the start so that the rest has the smallest standard error: MSER-5, on means of
/// batches of 5 (White, "An Effective Truncation Heuristic for Bias Reduction in Simulation Output",
/// Simulation 69(6), 1997; White, Cobb & Spratt, Winter Simulation Conference 2000). `None` if the best
/// cut lies beyond the middle, the heuristic's sign that the series is too short.
///
/// # Errors
/// When a value is not finite.
pub fn warmup(series: &[f64]) -> Result<Option<usize>, SampleError> {
    const BATCH: usize = 5;
    check(series)?;
    let batches: Vec<f64> =
        series.chunks_exact(BATCH).map(|batch| batch.iter().sum::<f64>() / BATCH as f64).collect();
    if batches.len() < 2 {
        return Ok(None);
    }
    let error = |cut: usize| {
        let rest = &batches[cut..];
        let n = rest.len() as f64;
        let mean = rest.iter().sum::<f64>() / n;
        rest.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n * n)
    };
    // The last few batches agree with each other by chance; they are no evidence.
    let cuts = 0..=batches.len().saturating_sub(BATCH).max(batches.len() / 2);
    let best = cuts.min_by(|x, y| error(*x).total_cmp(&error(*y))).unwrap_or(0);
    Ok((best <= batches.len() / 2).then_some(best * BATCH))
}

/// Lasting changes of level, by binary segmentation with Pettitt's rank test ("A Non-Parametric Approach
/// to the Change-Point Problem", Applied Statistics 28(2), 1979): a single outlier moves no rank far.
///
/// A split must be significant, leave `segment_min` points on each side and change the median by at
/// least `change_min`.
///
/// # Errors
/// When a value is not finite.
pub fn change_points(series: &[f64], rule: &SteadyRule) -> Result<Vec<ChangePoint>, SampleError> {
    check(series)?;
    let mut splits = Vec::new();
    let mut open = vec![(0, series.len())];
    while let Some((start, end)) = open.pop() {
        let Some((offset, p)) = pettitt(&series[start..end], rule.segment_min.max(1)) else { continue };
        let at = start + offset;
        if p < rule.alpha && differs(median(&series[start..at]), median(&series[at..end]), rule.change_min) {
            splits.push((at, p));
            open.extend([(start, at), (at, end)]);
        }
    }
    splits.sort_unstable_by_key(|split| split.0);
    Ok(describe(series, splits, rule.change_min))
}

/// Levels between neighbouring splits; drops the weakest split until every one changes the level enough.
fn describe(series: &[f64], mut splits: Vec<(usize, f64)>, change_min: f64) -> Vec<ChangePoint> {
    loop {
        let ends: Vec<usize> =
            std::iter::once(0).chain(splits.iter().map(|s| s.0)).chain([series.len()]).collect();
        let levels: Vec<f64> = ends.windows(2).map(|w| median(&series[w[0]..w[1]])).collect();
        let weak = (0..splits.len())
            .filter(|&i| !differs(levels[i], levels[i + 1], change_min))
            .max_by(|x, y| splits[*x].1.total_cmp(&splits[*y].1));
        if let Some(weak) = weak {
            splits.remove(weak);
            continue;
        }
        let change = |(i, &(at, p)): (usize, &(usize, f64))| ChangePoint {
            at,
            before: levels[i],
            after: levels[i + 1],
            p,
        };
        return splits.iter().enumerate().map(change).collect();
    }
}

/// The most likely split (first position of the second part) and its p-value
/// `2 exp(-6 K^2 / (n^3 + n^2))`; `None` when there is no room for one.
fn pettitt(series: &[f64], segment_min: usize) -> Option<(usize, f64)> {
    let n = series.len();
    if n < 2 * segment_min {
        return None;
    }
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_unstable_by(|x, y| series[*x].total_cmp(&series[*y]));
    let mut ranks = vec![0.0; n];
    let mut before = 0;
    for group in order.chunk_by(|x, y| series[*x] == series[*y]) {
        let midrank = before as f64 + (group.len() + 1) as f64 / 2.0;
        group.iter().for_each(|&i| ranks[i] = midrank);
        before += group.len();
    }
    let mut sum = 0.0;
    let mut best = (segment_min, 0.0f64);
    for (i, rank) in ranks.iter().enumerate() {
        sum += rank;
        let split = i + 1;
        let k = (2.0 * sum - split as f64 * (n + 1) as f64).abs();
        if split >= segment_min && split <= n - segment_min && k > best.1 {
            best = (split, k);
        }
    }
    let n = n as f64;
    let p = 2.0 * (-6.0 * best.1 * best.1 / (n * n * n + n * n)).exp();
    Some((best.0, p.min(1.0)))
}

fn differs(before: f64, after: f64, change_min: f64) -> bool {
    let change = (after - before).abs();
    change > 0.0 && change >= change_min * before.abs().max(after.abs())
}

fn median(values: &[f64]) -> f64 {
    median_in_place(&mut values.to_vec())
}

fn check(series: &[f64]) -> Result<(), SampleError> {
    match series.iter().position(|v| !v.is_finite()) {
        Some(position) => Err(SampleError::NotFinite { position, value: series[position] }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::SplitMix;

    /// Levels with their lengths, with normal noise of 3 % of each level.
    fn steps(seed: u64, levels: &[(f64, usize)]) -> Vec<f64> {
        let mut rng = SplitMix::new(seed);
        let mut series = Vec::new();
        for &(level, seconds) in levels {
            series.extend((0..seconds).map(|_| level * (1.0 + 0.03 * rng.normal())));
        }
        series
    }

    #[test]
    fn a_level_series_is_steady() {
        let mut changed = 0;
        for seed in 0..200 {
            let verdict = judge(&steps(seed, &[(100.0, 60)]), &SteadyRule::default()).unwrap();
            changed += usize::from(!verdict.changes.is_empty());
        }
        assert!(changed <= 2, "{changed} of 200 level series had a change of 10 %");
    }

    #[test]
    fn noise_alone_is_rarely_significant() {
        let rule = SteadyRule { change_min: 0.0, ..SteadyRule::default() };
        let found =
            (0..500).filter(|&seed| !change_points(&steps(seed, &[(100.0, 50)]), &rule).unwrap().is_empty());
        let found = found.count();
        assert!(found <= 10, "{found} of 500 at alpha = 0.01");
    }

    #[test]
    fn steps_are_found_where_they_are() {
        let series = steps(1, &[(100.0, 30), (60.0, 25), (120.0, 40)]);
        let found = change_points(&series, &SteadyRule::default()).unwrap();
        assert_eq!(found.iter().map(|c| c.at).collect::<Vec<_>>(), [30, 55], "{found:?}");
        assert!((found[0].before - 100.0).abs() < 3.0 && (found[0].after - 60.0).abs() < 3.0);
        assert_eq!(found[0].after, found[1].before);
    }

    #[test]
    fn an_outlier_is_not_a_change() {
        let mut series = steps(2, &[(100.0, 60)]);
        series[30] = 0.0;
        series[31] = 900.0;
        assert!(change_points(&series, &SteadyRule::default()).unwrap().is_empty());
    }

    #[test]
    fn the_warm_up_is_cut_and_the_rest_is_steady() {
        let mut series = steps(3, &[(100.0, 100)]);
        for (second, value) in series.iter_mut().take(20).enumerate() {
            *value *= 0.1 + 0.045 * second as f64;
        }
        let verdict = judge(&series, &SteadyRule::default()).unwrap();
        assert!(matches!(verdict.warmup, Some(15..=25)), "{verdict:?}");
        assert!(verdict.is_steady(), "{verdict:?}");
    }

    #[test]
    fn a_cliff_after_the_cache_is_full_is_not_steady() {
        let verdict = judge(&steps(4, &[(100.0, 50), (20.0, 50)]), &SteadyRule::default()).unwrap();
        assert!(verdict.warmup == Some(50) || verdict.changes.len() == 1, "{verdict:?}");
        let late = judge(&steps(5, &[(100.0, 70), (20.0, 30)]), &SteadyRule::default()).unwrap();
        assert!(!late.is_steady(), "{late:?}");
    }

    #[test]
    fn a_ramp_never_settles() {
        let series: Vec<f64> = (0..100).map(f64::from).collect();
        let verdict = judge(&series, &SteadyRule::default()).unwrap();
        assert!(!verdict.is_steady());
    }

    #[test]
    fn short_constant_and_broken_series() {
        let rule = SteadyRule::default();
        assert_eq!(judge(&[], &rule).unwrap(), Steadiness { warmup: None, changes: vec![] });
        assert_eq!(judge(&[1.0; 9], &rule).unwrap().warmup, None);
        assert!(judge(&[0.0; 30], &rule).unwrap().is_steady());
        assert!(judge(&[1.0, f64::NAN], &rule).is_err());
        let none = SteadyRule { segment_min: 0, ..rule };
        assert!(change_points(&[1.0], &none).unwrap().is_empty());
    }
}
