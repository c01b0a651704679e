//! Wilcoxon's signed-rank test of differences, exact, and its inversion: the Hodges-Lehmann estimate with its interval.
//!
//! Wilcoxon, "Individual Comparisons by Ranking Methods", Biometrics Bulletin 1(6), 1945; Hodges & Lehmann, "Estimates of
//! Location Based on Rank Tests", Annals of Mathematical Statistics 34(2), 1963; Hollander & Wolfe, "Nonparametric
//! Statistical Methods", sections 3.1-3.3.
//!
//! If the order of A and B in each block was drawn by lot and they do not differ, all `2^n` patterns of the signs of the
//! `n` differences are equally likely, whatever the noise is: the test needs no other assumption.

/// Up to this many differences the null distribution is computed exactly; above, the normal approximation with
/// continuity correction is off by less than 3e-4 in tails of at most 5 %, and by 1e-3 in the middle.
const EXACT_UP_TO: usize = 100;

/// Number of Walsh averages of `n` differences, `n (n + 1) / 2`: the largest value of the statistic.
pub fn pairs(n: usize) -> usize {
    n * (n + 1) / 2
}

/// The Walsh averages `(d_i + d_j) / 2`, `i <= j`, ascending. Their median is the Hodges-Lehmann estimate, and the
/// number of them above `theta` is the signed-rank statistic of the differences from `theta`. Memory: `n^2 / 2` values.
pub fn walsh_averages(differences: &[f64]) -> Vec<f64> {
    let mut averages = Vec::with_capacity(pairs(differences.len()));
    for (i, x) in differences.iter().enumerate() {
        averages.extend(differences[i..].iter().map(|y| x.midpoint(*y)));
    }
    averages.sort_unstable_by(f64::total_cmp);
    averages
}

/// The sum of the signed ranks of `d - theta`: positive where most lie above `theta`. Midranks for ties; a difference
/// of 0 takes a rank but has no sign. In `n log n` steps, without the averages.
pub fn signed_rank_sum(differences: &[f64], theta: f64) -> f64 {
    let mut off: Vec<f64> = differences.iter().map(|d| d - theta).collect();
    off.sort_unstable_by(|x, y| x.abs().total_cmp(&y.abs()));
    let (mut sum, mut before) = (0.0, 0usize);
    for group in off.chunk_by(|x, y| x.abs() == y.abs()) {
        let midrank = before as f64 + (group.len() + 1) as f64 / 2.0;
        let signs = |positive: bool| group.iter().filter(|v| **v != 0.0 && (**v > 0.0) == positive).count();
        sum += midrank * (signs(true) as f64 - signs(false) as f64);
        before += group.len();
    }
    sum
}

/// Standard deviation of [`signed_rank_sum`] if the signs are fair coins: `sqrt(n (n+1) (2n+1) / 6)`.
pub fn deviation(n: usize) -> f64 {
    let n = n as f64;
    (n * (n + 1.0) * (2.0 * n + 1.0) / 6.0).sqrt()
}

/// The law of the statistic (sum of the ranks of the positive differences) if the signs are fair coins.
#[derive(Debug, Clone, PartialEq)]
pub struct Null {
    n: usize,
    /// `P(W <= w)` for each `w`, where it is exact; else empty.
    cumulative: Vec<f64>,
}

impl Null {
    /// For `n` differences. Takes `n^3 / 6` steps for up to 100 of them.
    pub fn new(n: usize) -> Self {
        if n > EXACT_UP_TO {
            return Null { n, cumulative: Vec::new() };
        }
        let mut chance = vec![0.0f64; pairs(n) + 1];
        chance[0] = 1.0;
        for rank in 1..=n {
            for sum in (0..=pairs(rank)).rev() {
                let with = if sum >= rank { chance[sum - rank] } else { 0.0 };
                chance[sum] = 0.5 * (chance[sum] + with);
            }
        }
        let mut total = 0.0;
        chance.iter_mut().for_each(|p| {
            total += *p;
            *p = total;
        });
        Null { n, cumulative: chance }
    }

    /// `P(W <= w)`.
    pub fn at_most(&self, w: usize) -> f64 {
        if w >= pairs(self.n) {
            return 1.0;
        }
        if let Some(p) = self.cumulative.get(w) {
            return *p;
        }
        let z = (w as f64 + 0.5 - pairs(self.n) as f64 / 2.0) / (deviation(self.n) / 2.0);
        crate::normal::cdf(z)
    }

    /// `k` and the coverage of the interval from the `k`-th smallest to the `k`-th largest Walsh average: the largest
    /// `k` whose coverage `1 - 2 P(W <= k - 1)` is at least `level`. Where no `k` reaches it, `k` = 1 (the range of the
    /// differences) with the coverage that this has. `(0, 0)` for no differences.
    pub fn ends(&self, level: f64) -> (usize, f64) {
        if self.n == 0 {
            return (0, 0.0);
        }
        let coverage = |k: usize| 1.0 - 2.0 * self.at_most(k - 1);
        let (mut low, mut high) = (1, pairs(self.n).div_ceil(2) + 1);
        while high - low > 1 {
            let middle = low.midpoint(high);
            if coverage(middle) >= level - 1e-12 { low = middle } else { high = middle }
        }
        (low, coverage(low).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::SplitMix;

    /// Every pattern of signs, one after the other.
    fn brute_force(n: usize) -> Vec<f64> {
        let mut counts = vec![0u32; pairs(n) + 1];
        for signs in 0u32..1 << n {
            let sum: usize = (0..n).filter(|i| signs >> i & 1 == 1).map(|i| i + 1).sum();
            counts[sum] += 1;
        }
        let mut total = 0;
        counts
            .iter()
            .map(|c| {
                total += c;
                f64::from(total) / f64::from(1u32 << n)
            })
            .collect()
    }

    #[test]
    fn null_equals_brute_force() {
        for n in 0..=12 {
            let exact = Null::new(n);
            for (w, p) in brute_force(n).into_iter().enumerate() {
                assert!((exact.at_most(w) - p).abs() < 1e-12, "n = {n}, w = {w}");
            }
        }
    }

    #[test]
    fn the_approximation_meets_the_exact_law() {
        let exact = Null::new(EXACT_UP_TO);
        let rough = Null { n: EXACT_UP_TO, cumulative: Vec::new() };
        for w in 0..pairs(EXACT_UP_TO) {
            let limit = if exact.at_most(w) <= 0.05 { 3e-4 } else { 1e-3 };
            assert!(
                (exact.at_most(w) - rough.at_most(w)).abs() < limit,
                "{w}: {} {}",
                exact.at_most(w),
                rough.at_most(w)
            );
        }
    }

    #[test]
    fn statistic_counts_walsh_averages() {
        let mut rng = SplitMix::new(5);
        for round in 0..200 {
            // Coarse values, so that there are ties and zeros.
            let d: Vec<f64> = (0..1 + round % 15).map(|_| rng.below(9) as f64 - 4.0).collect();
            for theta in [0.0, 1.0, -2.5] {
                let averages = walsh_averages(&d);
                let above = averages.iter().filter(|a| **a > theta).count() as f64;
                let below = averages.iter().filter(|a| **a < theta).count() as f64;
                assert_eq!(signed_rank_sum(&d, theta), above - below, "{d:?} {theta}");
            }
        }
    }

    #[test]
    fn too_few_differences_give_the_range_and_what_it_is_worth() {
        for (n, coverage) in [(1, 0.0), (2, 0.5), (3, 0.75), (4, 0.875), (5, 0.9375)] {
            assert_eq!(Null::new(n).ends(0.95), (1, coverage));
        }
        assert_eq!(Null::new(0).ends(0.95), (0, 0.0));
        assert_eq!(Null::new(4).ends(f64::NAN).0, 1);
    }
}
