//! Where the level of a series of runs changed.
//!
//! Statistic: the largest two-sample |t| over all splits. Its p-value comes from permutations of the series, so that looking
//! at many splits is paid for (E-Divisive's plan: Matteson & James, J. American Statistical Association 109, 2014; with
//! t as in Fleming et al., "Hunter", ICPE 2023). Weak splits are found first, at ten times the threshold, and then
//! tested again between their neighbours, weakest first, so that near changes do not hide each other. A level that comes back
//! is looked for as a stretch, which a single split does not see.
//!
//! Independent noise gives a false point in less than 3 % of series. Runs minutes apart are alike, and give more: keep one
//! point an hour.

use serde::{Deserialize, Serialize};

use crate::effect::{check, moments};
use crate::rng::SplitMix;
use crate::sample::SampleError;

/// p-value from which a change is raised.
pub const RAISE: f64 = 0.01;
/// p-value up to which a change raised earlier is kept: verdicts do not flicker as points arrive.
pub const KEEP: f64 = 0.05;
/// Only so many of the latest points are looked at.
pub const WINDOW: usize = 50;
/// Fewest points of a series.
pub const POINTS_MIN: usize = 10;
/// Points after a change from which it is reported; with one fewer it is suspected.
pub const REPORT_AFTER: usize = 3;
/// A level that is back within so many points was a spike.
pub const SPIKE_MAX: usize = 5;
/// Smallest change of the logarithm that is reported, 3 %.
pub const CHANGE_MIN: f64 = 0.03;
/// A seed for callers that have none of their own.
pub const SEED: u64 = 0x5ee_d0f5;
/// Permutations of a test; the smallest p-value is 1/500.
const PERMUTATIONS: usize = 499;
/// p-value from which a split is a candidate, to be tested again between its neighbours.
const WEAK: f64 = 10.0 * RAISE;
/// Fewest points on each side of a split.
const SIDE_MIN: usize = 2;

/// How sure a change is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeStatus {
    /// Two points after it only.
    Suspected,
    /// Three points or more.
    Reported,
    /// Start or end of an excursion of at most five points; or raised earlier, and the later points do not bear it out.
    Spike,
}

/// A change of level.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// Position of the first point of the new level.
    pub at: usize,
    /// Mean of the level before, back to the previous change.
    pub before: f64,
    /// Mean of the level from here to the next change.
    pub after: f64,
    /// Permutation p-value of the split between its neighbours; 1 for what is not found any more.
    pub p: f64,
    /// How sure it is.
    pub standing: ChangeStatus,
}

/// The changes of level in a series of logarithms of run results, oldest first; `raised` are the positions of changes
/// that an earlier look reported, for which the threshold is 5 % instead of 1 %. Same series and seed, same result.
///
/// None for fewer than 10 points. Points before the last 50 are not looked at.
///
/// # Errors
/// When a value is not finite.
pub fn points(series: &[f64], raised: &[usize], seed: u64) -> Result<Vec<Change>, SampleError> {
    if series.is_empty() {
        return Ok(Vec::new());
    }
    check(series)?;
    let start = series.len().saturating_sub(WINDOW);
    let window = &series[start..];
    if window.len() < POINTS_MIN {
        return Ok(Vec::new());
    }
    let mut cuts = weak_cuts(window, seed);
    let limit = |at: usize| if raised.contains(&(at + start)) { KEEP } else { RAISE };
    // The test between the neighbours depends on them, so each removal asks for the tests of the two beside it anew.
    loop {
        let tested: Vec<(usize, f64)> = retest(window, &cuts, seed);
        let worst = (0..cuts.len())
            .filter(|&i| tested[i].1 > limit(cuts[i]))
            .max_by(|x, y| tested[*x].1.total_cmp(&tested[*y].1));
        let Some(worst) = worst else {
            let mut found = describe(window, &tested, start);
            found.extend(withdrawn(series, start, raised, &found));
            found.sort_unstable_by_key(|change| change.at);
            return Ok(found);
        };
        cuts.remove(worst);
    }
}

/// Segmentation: each part is cut at its best split, if that reaches ten times the threshold. A single split does not see
/// a level that comes back; where there is none, the stretch that differs most from the rest of the part is cut out, if it
/// reaches the threshold itself (Olshen et al., "Circular Binary Segmentation", Biostatistics 5(4), 2004).
fn weak_cuts(window: &[f64], seed: u64) -> Vec<usize> {
    let (mut cuts, mut open) = (Vec::new(), vec![(0, window.len())]);
    while let Some((from, to)) = open.pop() {
        let part = &window[from..to];
        let split = permuted(part, split, WEAK, seed).filter(|found| found.1 <= WEAK).map(|(at, _)| (0, at));
        let or_stretch =
            || permuted(part, stretch, RAISE, seed).filter(|found| found.1 <= RAISE).map(|found| found.0);
        let Some((start, end)) = split.or_else(or_stretch) else { continue };
        let inner = [from + start, from + end].into_iter().filter(|cut| from < *cut && *cut < to);
        let ends: Vec<usize> = std::iter::once(from).chain(inner.clone()).chain([to]).collect();
        cuts.extend(inner);
        open.extend(ends.windows(2).map(|ends| (ends[0], ends[1])));
    }
    cuts.sort_unstable();
    cuts
}

/// The stretch with the largest squares between it and the rest, of at least two points on either side.
fn stretch(part: &[f64]) -> Option<((usize, usize), f64)> {
    let n = part.len();
    if n < 2 * SIDE_MIN {
        return None;
    }
    let mean = part.iter().sum::<f64>() / n as f64;
    let mut best = ((0, SIDE_MIN), -1.0f64);
    for start in 0..=n - SIDE_MIN {
        let mut sum = 0.0;
        for (i, value) in part.iter().enumerate().skip(start) {
            sum += value - mean;
            let (inside, end) = ((i + 1 - start) as f64, i + 1);
            let room = |points: usize| points == 0 || points >= SIDE_MIN;
            if end - start < SIDE_MIN || n - (end - start) < SIDE_MIN || !room(start) || !room(n - end) {
                continue;
            }
            let between = sum * sum * n as f64 / (inside * (n as f64 - inside));
            if between > best.1 {
                best = ((start, end), between);
            }
        }
    }
    Some(best)
}

/// p-value of each cut between its neighbours. The permutations look at all splits there, as the search did.
fn retest(window: &[f64], cuts: &[usize], seed: u64) -> Vec<(usize, f64)> {
    let ends: Vec<usize> = std::iter::once(0).chain(cuts.iter().copied()).chain([window.len()]).collect();
    let between = |ends: &[usize]| {
        (ends[1], permuted(&window[ends[0]..ends[2]], split, WEAK, seed).map_or(1.0, |found| found.1))
    };
    ends.windows(3).map(between).collect()
}

/// What is `largest` (a split, a stretch) in a part, and its p-value `(1 + permutations at least as large) / (1 +
/// permutations)`; stops once that cannot come down to the threshold any more. `None` when there is no room for a split.
fn permuted<T>(
    part: &[f64],
    largest: impl Fn(&[f64]) -> Option<(T, f64)>,
    threshold: f64,
    seed: u64,
) -> Option<(T, f64)> {
    let (found, statistic) = largest(part)?;
    let give_up = (threshold * (PERMUTATIONS + 1) as f64).ceil() as usize;
    let (mut rng, mut mixed, mut exceeded) = (SplitMix::new(seed), part.to_vec(), 0);
    for done in 1..=PERMUTATIONS {
        rng.shuffle(&mut mixed);
        exceeded += usize::from(largest(&mixed).is_some_and(|found| found.1 >= statistic * (1.0 - 1e-9)));
        if exceeded > give_up {
            return Some((found, (1 + exceeded) as f64 / (1 + done) as f64));
        }
    }
    Some((found, (1 + exceeded) as f64 / (1 + PERMUTATIONS) as f64))
}

/// The split with the largest squared t. With `B` the squares between the two parts and `T` all squares about the mean,
/// `t^2 = (n - 2) B / (T - B)`: growing in `B`, and `T` is the same in each permutation. So `B` is compared.
fn split(part: &[f64]) -> Option<(usize, f64)> {
    let n = part.len();
    if n < 2 * SIDE_MIN {
        return None;
    }
    let mean = part.iter().sum::<f64>() / n as f64;
    let (mut sum, mut best) = (0.0, (SIDE_MIN, -1.0f64));
    for (i, value) in part.iter().enumerate().take(n - SIDE_MIN) {
        sum += value - mean;
        let before = (i + 1) as f64;
        let between = sum * sum * n as f64 / (before * (n as f64 - before));
        if i + 1 >= SIDE_MIN && between > best.1 {
            best = (i + 1, between);
        }
    }
    Some(best)
}

/// What was raised, lies in the window, and is not found any more: the level came back.
fn withdrawn(series: &[f64], start: usize, raised: &[usize], found: &[Change]) -> Vec<Change> {
    let gone =
        |at: &&usize| **at > start && **at < series.len() && found.iter().all(|c| c.at.abs_diff(**at) > 1);
    let spike = |&at: &usize| Change {
        at,
        before: moments(&series[start..at]).0,
        after: moments(&series[at..(at + SPIKE_MAX).min(series.len())]).0,
        p: 1.0,
        standing: ChangeStatus::Spike,
    };
    raised.iter().filter(gone).map(spike).collect()
}

/// Levels between neighbouring cuts, without the changes that are too small.
fn describe(window: &[f64], cuts: &[(usize, f64)], start: usize) -> Vec<Change> {
    let ends: Vec<usize> = std::iter::once(0).chain(cuts.iter().map(|c| c.0)).chain([window.len()]).collect();
    let parts: Vec<&[f64]> = ends.windows(2).map(|ends| &window[ends[0]..ends[1]]).collect();
    let levels: Vec<f64> = parts.iter().map(|part| moments(part).0).collect();
    let squares: f64 = parts.iter().map(|part| moments(part).1 * (part.len() - 1) as f64).sum();
    let sd = (squares / (window.len().saturating_sub(parts.len()).max(1)) as f64).sqrt();
    let enough = |i: usize| CHANGE_MIN.max(2.0 * sd / (parts[i + 1].len() as f64).sqrt());
    // An excursion: the level between two cuts is short, and the level after it is that before it.
    let spike = |i: usize| {
        let back = |i: usize| {
            parts.len() > i + 1
                && parts[i].len() <= SPIKE_MAX
                && (levels[i + 1] - levels[i - 1]).abs() < enough(i)
        };
        back(i + 1) || i > 0 && back(i)
    };
    let change = |i: usize| Change {
        at: cuts[i].0 + start,
        before: levels[i],
        after: levels[i + 1],
        p: cuts[i].1,
        standing: match parts[i + 1].len() {
            _ if spike(i) => ChangeStatus::Spike,
            few if few < REPORT_AFTER && i + 2 == parts.len() => ChangeStatus::Suspected,
            _ => ChangeStatus::Reported,
        },
    };
    let large = |i: &usize| (levels[i + 1] - levels[*i]).abs() >= enough(*i);
    (0..cuts.len()).filter(large).map(change).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(seed: u64, levels: &[(f64, usize)]) -> Vec<f64> {
        let mut rng = SplitMix::new(seed);
        let part =
            |&(level, n): &(f64, usize)| (0..n).map(|_| level + 0.02 * rng.normal()).collect::<Vec<_>>();
        levels.iter().flat_map(part).collect()
    }

    fn found(series: &[f64]) -> Vec<(usize, ChangeStatus)> {
        points(series, &[], SEED).unwrap().iter().map(|c| (c.at, c.standing)).collect()
    }

    #[test]
    fn steps_are_found_where_they_are_and_near_ones_do_not_hide_each_other() {
        use ChangeStatus::Reported;
        assert_eq!(found(&series(1, &[(0.0, 20), (0.2, 20)])), [(20, Reported)]);
        let near = series(2, &[(0.0, 20), (0.3, 7), (0.1, 20)]);
        assert_eq!(found(&near), [(20, Reported), (27, Reported)]);
        let first = points(&near, &[], SEED).unwrap()[0];
        assert!(first.before.abs() < 0.02 && (first.after - 0.3).abs() < 0.02 && first.p <= RAISE);
    }

    #[test]
    fn two_points_are_a_suspicion_and_an_excursion_is_a_spike() {
        assert_eq!(found(&series(3, &[(0.0, 25), (0.3, 2)])), [(25, ChangeStatus::Suspected)]);
        let up = series(4, &[(0.0, 20), (0.3, 3), (0.0, 9)]);
        assert_eq!(found(&up[..23]), [(20, ChangeStatus::Reported)]);
        let later = points(&up, &[20], SEED).unwrap();
        assert_eq!(later[0].at, 20);
        assert!(later.iter().all(|c| c.standing == ChangeStatus::Spike), "{later:?}");
    }

    #[test]
    fn what_was_raised_is_kept_with_weaker_evidence() {
        let kept = (0..200).find_map(|seed| {
            let weak = series(seed, &[(0.0, 12), (0.05, 3)]);
            let raised = points(&weak, &[12], SEED).unwrap();
            (found(&weak).is_empty() && raised.len() == 1 && raised[0].at == 12).then_some(raised[0].p)
        });
        assert!(kept.is_some_and(|p| p > RAISE && p <= KEEP), "{kept:?}");
    }

    #[test]
    fn short_old_constant_and_broken_series() {
        assert!(found(&[]).is_empty());
        assert!(found(&series(1, &[(0.0, 5), (1.0, 4)])).is_empty(), "nine points are too few");
        assert!(found(&[1.0; 40]).is_empty());
        assert!(found(&series(5, &[(0.0, 10), (1.0, 60)])).is_empty(), "before the window");
        assert!(points(&[0.0, f64::NAN], &[], 1).is_err());
    }
}
