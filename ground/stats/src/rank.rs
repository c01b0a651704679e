//! Two samples by ranks: the Mann-Whitney test and the Hodges-Lehmann shift.

use crate::interval::{Estimate, Interval};
pub use crate::many::benjamini_hochberg as adjust_for_many;
use crate::normal;
use crate::sample::{Sample, median_of_sorted};

/// Up to this many values altogether the null distribution is computed exactly.
const EXACT_UP_TO: usize = 40;

/// Result of the Mann-Whitney (Wilcoxon rank-sum) test of `b` against `a`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MannWhitney {
    /// Pairs in which the value of `b` is the larger one, ties counting half: 0 ..= `a.len() * b.len()`.
    pub u: f64,
    /// Two-sided p-value: twice the smaller tail, at most 1.
    pub p: f64,
    /// Whether `p` is exact (permutation distribution, ties included) or a normal approximation.
    pub exact: bool,
}

/// Mann & Whitney, "On a Test of Whether one of Two Random Variables is Stochastically Larger than the
/// Other", Annals of Mathematical Statistics 18(1), 1947.
///
/// Up to 40 values the permutation distribution of the midranks is computed by the shift algorithm
/// (Streitberg & Roehmel, "Exact distributions for permutation and rank tests", Statistical Software
/// Newsletter 12(1), 1986); above, the normal approximation with tie and continuity correction
/// (Hollander & Wolfe, "Nonparametric Statistical Methods", section 4.1).
pub fn mann_whitney(a: &Sample, b: &Sample) -> MannWhitney {
    let (n, m) = (a.len(), b.len());
    let pooled = pool(a, b);
    let rank_sum: u64 = pooled.ranks.iter().zip(&pooled.from_b).filter(|(_, b)| **b).map(|(r, _)| r).sum();
    let u = (rank_sum - (m * (m + 1)) as u64) as f64 / 2.0;
    if n + m <= EXACT_UP_TO {
        let (below, above) = exact_tails(&pooled.ranks, m, rank_sum as usize);
        return MannWhitney { u, p: (2.0 * below.min(above)).min(1.0), exact: true };
    }
    MannWhitney { u, p: approximate_p(u, n as f64, m as f64, pooled.tie_term), exact: false }
}

fn approximate_p(u: f64, n: f64, m: f64, tie_term: f64) -> f64 {
    let total = n + m;
    let variance = n * m / 12.0 * (total + 1.0 - tie_term / (total * (total - 1.0)));
    let off = ((u - n * m / 2.0).abs() - 0.5).max(0.0);
    if variance > 0.0 { (2.0 * normal::cdf(-off / variance.sqrt())).min(1.0) } else { 1.0 }
}

/// The smallest two-sided p-value that samples of `n` and `m` values can give (without ties):
/// `2 / C(n + m, n)`.
pub fn smallest_p(n: usize, m: usize) -> f64 {
    let (few, total) = (n.min(m), n + m);
    let arrangements = (1..=few).fold(1.0, |c: f64, i| c * (total - few + i) as f64 / i as f64);
    (2.0 / arrangements).min(1.0)
}

/// The Hodges-Lehmann estimate of the shift from `a` to `b` (median of all differences `b_j - a_i`) with
/// the interval that inverts the Mann-Whitney test (Hollander & Wolfe, sections 4.2 and 4.3).
///
/// Takes memory for `a.len() * b.len()` differences. With few values the interval is the range of the
/// differences and its `coverage` tells what that is worth.
pub fn hodges_lehmann(a: &Sample, b: &Sample, level: f64) -> Estimate {
    let mut differences: Vec<f64> =
        a.sorted().iter().flat_map(|a| b.sorted().iter().map(move |b| b - a)).collect();
    differences.sort_unstable_by(f64::total_cmp);
    let pairs = differences.len();
    let (skip, coverage) = trimmed_pairs(a.len(), b.len(), level);
    let interval = Interval { low: differences[skip], high: differences[pairs - 1 - skip], level, coverage };
    Estimate { value: median_of_sorted(&differences), interval }
}

/// How many differences to leave out at each end for `level`, and the coverage of what remains.
fn trimmed_pairs(n: usize, m: usize, level: f64) -> (usize, f64) {
    let tail = (1.0 - level) / 2.0 + 1e-12;
    if n + m <= EXACT_UP_TO {
        let ranks: Vec<u64> = (1..=(n + m) as u64).map(|rank| 2 * rank).collect();
        let base = m * (m + 1);
        // P(U <= skip) is the chance that the shift lies below the (skip + 1)-th difference.
        let below = |skip: usize| exact_tails(&ranks, m, base + 2 * skip).0;
        let skip = (0..n * m / 2).take_while(|&skip| below(skip) <= tail).last().unwrap_or(0);
        return (skip, (1.0 - 2.0 * below(skip)).max(0.0));
    }
    let (n, m) = (n as f64, m as f64);
    let deviation = (n * m * (n + m + 1.0) / 12.0).sqrt();
    let skip = (n * m / 2.0 + normal::quantile(tail) * deviation - 0.5).floor();
    let skip = skip.clamp(0.0, ((n * m - 1.0) / 2.0).floor());
    let z = (skip + 0.5 - n * m / 2.0) / deviation;
    (skip as usize, 1.0 - 2.0 * normal::cdf(z))
}

struct Pooled {
    /// Twice the midrank of each value, ascending: whole numbers even with ties.
    ranks: Vec<u64>,
    from_b: Vec<bool>,
    /// Sum of `t^3 - t` over groups of `t` equal values.
    tie_term: f64,
}

fn pool(a: &Sample, b: &Sample) -> Pooled {
    let of = |sample: &Sample, from_b: bool| -> Vec<(f64, bool)> {
        sample.sorted().iter().map(|v| (*v, from_b)).collect()
    };
    let mut all = of(a, false);
    all.extend(of(b, true));
    all.sort_by(|x, y| x.0.total_cmp(&y.0));
    let mut pooled = Pooled { ranks: Vec::new(), from_b: all.iter().map(|x| x.1).collect(), tie_term: 0.0 };
    // `==`, not the total order: -0.0 and 0.0 are a tie.
    for group in all.chunk_by(|x, y| x.0 == y.0) {
        let before = pooled.ranks.len() as u64;
        let size = group.len();
        pooled.ranks.extend(std::iter::repeat_n(2 * before + size as u64 + 1, size));
        pooled.tie_term += (size as f64).powi(3) - size as f64;
    }
    pooled
}

/// `P(S <= observed)` and `P(S >= observed)` for the sum `S` of `choose` of the ranks, all choices being
/// equally likely. Counts stay below 2^53 for up to 40 ranks, so the sums are exact.
fn exact_tails(ranks: &[u64], choose: usize, observed: usize) -> (f64, f64) {
    let width = ranks.iter().sum::<u64>() as usize + 1;
    let mut ways = vec![0.0f64; (choose + 1) * width];
    ways[0] = 1.0;
    for (seen, &rank) in ranks.iter().enumerate() {
        let rank = rank as usize;
        for taken in (1..=choose.min(seen + 1)).rev() {
            let (fewer, row) = ways.split_at_mut(taken * width);
            let fewer = &fewer[(taken - 1) * width..];
            for sum in rank..width {
                row[sum] += fewer[sum - rank];
            }
        }
    }
    let row = &ways[choose * width..];
    let total: f64 = row.iter().sum();
    let below: f64 = row[..=observed.min(width - 1)].iter().sum();
    let above: f64 = row[observed.min(width)..].iter().sum();
    (below / total, above / total)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::SplitMix;

    fn sample(values: &[f64]) -> Sample {
        Sample::new(values).unwrap()
    }

    fn run(n: usize, from: usize) -> Sample {
        sample(&(from..from + n).map(|v| v as f64).collect::<Vec<_>>())
    }

    /// Every choice of `m` values from the pool, one after the other.
    fn brute_force(a: &Sample, b: &Sample) -> f64 {
        let pooled = pool(a, b);
        let (total, m) = (pooled.ranks.len(), b.len() as u32);
        let sum = |mask: u32| (0..total).filter(|i| mask >> i & 1 == 1).map(|i| pooled.ranks[i]).sum::<u64>();
        let seen = (0..total).filter(|i| pooled.from_b[*i]).map(|i| pooled.ranks[i]).sum::<u64>();
        let masks: Vec<u32> = (0..1u32 << total).filter(|mask| mask.count_ones() == m).collect();
        let share = |keep: &dyn Fn(u64) -> bool| {
            masks.iter().filter(|mask| keep(sum(**mask))).count() as f64 / masks.len() as f64
        };
        (2.0 * share(&|s| s <= seen).min(share(&|s| s >= seen))).min(1.0)
    }

    #[test]
    fn complete_separation_gives_the_smallest_p() {
        for (n, m, p) in [(3, 3, 0.1), (4, 4, 2.0 / 70.0), (5, 5, 2.0 / 252.0), (3, 5, 2.0 / 56.0)] {
            let test = mann_whitney(&run(n, 0), &run(m, 100));
            assert!((test.p - p).abs() < 1e-12 && test.exact, "{n}v{m}: {test:?}");
            assert_eq!(test.u, (n * m) as f64);
            assert!((smallest_p(n, m) - p).abs() < 1e-12);
            assert_eq!(mann_whitney(&run(m, 100), &run(n, 0)).u, 0.0);
        }
    }

    #[test]
    fn exact_p_equals_brute_force_with_and_without_ties() {
        let mut rng = SplitMix::new(21);
        for round in 0..60 {
            let (n, m) = (1 + rng.below(6), 1 + rng.below(6));
            let kinds = [3, 6, 1_000][round % 3];
            let mut draw = |n| sample(&(0..n).map(|_| rng.below(kinds) as f64).collect::<Vec<_>>());
            let (a, b) = (draw(n), draw(m));
            let (p, truth) = (mann_whitney(&a, &b).p, brute_force(&a, &b));
            assert!((p - truth).abs() < 1e-12, "round {round}: {a:?} {b:?}: {p} for {truth}");
        }
    }

    #[test]
    fn the_normal_approximation_meets_the_exact_distribution() {
        let mut rng = SplitMix::new(22);
        for _ in 0..20 {
            let mut draw = |shift: f64| {
                sample(&(0..20).map(|_| (10.0 * (rng.normal() + shift)).round()).collect::<Vec<_>>())
            };
            let (a, b) = (draw(0.0), draw(0.6));
            let exact = mann_whitney(&a, &b);
            let approximate = approximate_p(exact.u, 20.0, 20.0, pool(&a, &b).tie_term);
            assert!(exact.exact && (exact.p - approximate).abs() < 0.01, "{exact:?} {approximate:?}");
        }
        let large = mann_whitney(&run(21, 0), &run(21, 100));
        assert!(!large.exact && large.p < 1e-6);
        let same = sample(&[1.0; 30]);
        assert_eq!(mann_whitney(&same, &same).p, 1.0);
    }

    #[test]
    fn the_test_is_symmetric() {
        let (a, b) = (sample(&[1.0, 4.0, 4.0, 9.0]), sample(&[2.0, 4.0, 8.0, 11.0, 12.0]));
        let (ab, ba) = (mann_whitney(&a, &b), mann_whitney(&b, &a));
        assert_eq!(ab.u + ba.u, 20.0);
        assert!((ab.p - ba.p).abs() < 1e-12);
    }

    #[test]
    fn the_shift_and_its_interval() {
        // Differences of 1..=5 and 11..=15: nine values from 6 to 14, symmetric about 10.
        let shift = hodges_lehmann(&run(5, 1), &run(5, 11), 0.95);
        assert_eq!(shift.value, 10.0);
        // The tabulated critical value of U for 5 and 5 at 5 % two-sided is 2: the third difference.
        assert_eq!((shift.interval.low, shift.interval.high), (7.0, 13.0));
        assert!((shift.interval.coverage - (1.0 - 2.0 * 4.0 / 252.0)).abs() < 1e-12);
        let small = hodges_lehmann(&run(3, 0), &run(3, 5), 0.95);
        assert!(!small.interval.reached() && (small.interval.coverage - 0.9).abs() < 1e-12);
        assert_eq!((small.interval.low, small.interval.high), (3.0, 7.0));
        for level in [-1.0, 0.0, 1.0, 2.0, f64::NAN] {
            for n in [1, 4, 30] {
                let odd = hodges_lehmann(&run(n, 0), &run(n, 5), level);
                assert!(odd.interval.low <= 5.0 && odd.interval.high >= 5.0, "{level} {n}: {odd:?}");
            }
        }
        let single = hodges_lehmann(&run(1, 0), &run(1, 5), 0.95);
        assert_eq!((single.value, single.interval.coverage), (5.0, 0.0));
    }

    #[test]
    fn many_p_values_are_adjusted_upwards_in_place() {
        let got = adjust_for_many(&[0.04, 0.005, 0.5, 0.03]);
        for (got, want) in got.iter().zip([0.16 / 3.0, 0.02, 0.5, 0.16 / 3.0]) {
            assert!((got - want).abs() < 1e-12, "{got} for {want}");
        }
        assert_eq!(adjust_for_many(&[0.3]), [0.3]);
        assert!(adjust_for_many(&[]).is_empty());
    }

    #[test]
    fn the_interval_and_the_test_agree() {
        let mut rng = SplitMix::new(23);
        for round in 0..200 {
            let (n, m) = if round % 10 == 0 { (30, 25) } else { (4 + rng.below(8), 4 + rng.below(8)) };
            let shift = rng.normal();
            let a = sample(&(0..n).map(|_| rng.normal()).collect::<Vec<_>>());
            let b = sample(&(0..m).map(|_| rng.normal() + shift).collect::<Vec<_>>());
            let interval = hodges_lehmann(&a, &b, 0.95).interval;
            assert!(interval.reached());
            let significant = mann_whitney(&a, &b).p <= 0.05;
            assert_eq!(significant, !interval.contains(0.0), "round {round}: {n} and {m} values");
        }
    }
}
