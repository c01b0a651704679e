//! Confidence intervals that assume nothing about the distribution: order statistics.

use serde::{Deserialize, Serialize};

use crate::sample::Sample;

/// A confidence interval and what it is worth.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Confidence asked for, e.g. 0.95.
    pub level: f64,
    /// Confidence reached: a guaranteed lower bound for order statistics and rank tests, the nominal
    /// level for a bootstrap. Below `level` when the sample is too small: then the interval is the
    /// widest the sample allows.
    pub coverage: f64,
}

impl Interval {
    /// Whether the sample was large enough for the confidence asked for.
    pub fn reached(&self) -> bool {
        self.coverage >= self.level - 1e-12
    }

    /// Whether `x` lies in the interval, ends included.
    pub fn contains(&self, x: f64) -> bool {
        self.low <= x && x <= self.high
    }

    /// Half the distance of the ends.
    pub fn half_width(&self) -> f64 {
        (self.high - self.low) / 2.0
    }
}

/// A value with its confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The point estimate.
    pub value: f64,
    /// Where the true value may lie.
    pub interval: Interval,
}

impl Estimate {
    /// Half width over the absolute value: 0.02 reads "plus or minus 2 %". Infinite when the value is 0
    /// and the interval is not a point.
    pub fn relative_half_width(&self) -> f64 {
        let half = self.interval.half_width();
        if half == 0.0 { 0.0 } else { half / self.value.abs() }
    }
}

/// The median with its order-statistic interval at `level` (0.95 for 95 %).
///
/// Fewer than 6 values cannot give 95 %: the interval is then the whole range and its `coverage` says
/// what that is worth (5 values: 93.75 %, 3 values: 75 %, 1 value: 0).
pub fn median(sample: &Sample, level: f64) -> Estimate {
    Estimate { value: sample.median(), interval: of_quantile(sample, 0.5, level) }
}

/// Quantile `q` with its order-statistic interval at `level`.
pub fn quantile(sample: &Sample, q: f64, level: f64) -> Estimate {
    Estimate { value: sample.quantile(q), interval: of_quantile(sample, q, level) }
}

/// The smallest number of values whose range covers quantile `q` with confidence `level`; 6 for the
/// median at 95 %, 59 for `q` = 0.95 or 0.05. `None` where no number suffices (`q` or `level` not
/// inside 0..1) or more than a million are needed.
pub fn values_needed(q: f64, level: f64) -> Option<usize> {
    let inside = |x: f64| x > 0.0 && x < 1.0;
    if !inside(q) || !inside(level) {
        return None;
    }
    let covers = |n: usize| 1.0 - q.powf(n as f64) - (1.0 - q).powf(n as f64) >= level;
    let (mut low, mut high) = (0usize, 1_000_000usize);
    if !covers(high) {
        return None;
    }
    while high - low > 1 {
        let middle = low.midpoint(high);
        if covers(middle) { high = middle } else { low = middle }
    }
    Some(high)
}

/// `[x_(l), x_(u)]` covers quantile `q` with probability at least `P(l <= B <= u - 1)`, `B` being
/// binomial with `n` and `q` (David & Nagaraja, "Order Statistics", 3rd ed., section 7.1; Le Boudec,
/// "Performance Evaluation of Computer and Communication Systems", chapter 2). The ranks are the
/// innermost with at most `(1 - level) / 2` in each tail; where one tail cannot be that small, the
/// other one takes what is left.
fn of_quantile(sample: &Sample, q: f64, level: f64) -> Interval {
    let values = sample.sorted();
    let n = values.len();
    let q = q.clamp(0.0, 1.0);
    let cumulative = binomial_cumulative(n, q);
    let spare = (1.0 - level).clamp(0.0, 1.0).max(0.0) + 1e-12;
    // Tail beyond rank l: P(B <= l - 1). Tail beyond rank u: P(B >= u).
    let lower_tail = |l: usize| cumulative[l - 1];
    let upper_tail = |u: usize| 1.0 - cumulative[u - 1];
    let lowest_within = |allowed: f64| (1..=n).rev().find(|&l| lower_tail(l) <= allowed);
    let highest_within = |allowed: f64| (1..=n).find(|&u| upper_tail(u) <= allowed);
    let (l, u) = match (lowest_within(spare / 2.0), highest_within(spare / 2.0)) {
        (Some(l), Some(u)) => (l, u),
        (None, _) => (1, highest_within(spare - lower_tail(1)).unwrap_or(n)),
        (_, None) => (lowest_within(spare - upper_tail(n)).unwrap_or(1), n),
    };
    let coverage = (1.0 - lower_tail(l) - upper_tail(u)).max(0.0);
    Interval { low: values[l - 1], high: values[u - 1], level, coverage }
}

/// `P(B <= k)` for `k` in `0..=n`, `B` binomial; in logarithms, since `q^n` may underflow.
pub(crate) fn binomial_cumulative(n: usize, q: f64) -> Vec<f64> {
    if q <= 0.0 || q >= 1.0 {
        return (0..=n).map(|k| if q <= 0.0 || k == n { 1.0 } else { 0.0 }).collect();
    }
    let (log_q, log_p) = (q.ln(), (1.0 - q).ln());
    let mut log_choose = 0.0;
    let mut sum = 0.0f64;
    (0..=n)
        .map(|k| {
            if k > 0 {
                log_choose += ((n - k + 1) as f64 / k as f64).ln();
            }
            sum += (log_choose + k as f64 * log_q + (n - k) as f64 * log_p).exp();
            sum.min(1.0)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::SplitMix;

    fn ranks(n: usize, q: f64, level: f64) -> (usize, usize, f64) {
        let values: Vec<f64> = (1..=n).map(|v| v as f64).collect();
        let interval = quantile(&Sample::new(&values).unwrap(), q, level).interval;
        (interval.low as usize, interval.high as usize, interval.coverage)
    }

    #[test]
    fn ranks_for_the_median_are_the_innermost_that_suffice() {
        // Sums of binomial coefficients: for n = 9 the tails beyond ranks 2 and 8 are (1 + 9) / 512 each.
        for (n, l, u, coverage) in [
            (6, 1, 6, 0.96875),
            (7, 1, 7, 0.984_375),
            (8, 1, 8, 0.992_187_5),
            (9, 2, 8, 0.960_937_5),
            (10, 2, 9, 0.978_515_625),
            (20, 6, 15, 0.958_610_5),
        ] {
            let (got_l, got_u, got) = ranks(n, 0.5, 0.95);
            assert_eq!((got_l, got_u), (l, u), "n = {n}");
            assert!((got - coverage).abs() < 1e-6, "n = {n}: {got}");
        }
    }

    #[test]
    fn a_small_sample_gives_its_range_and_says_what_it_is_worth() {
        for (n, coverage) in [(1, 0.0), (2, 0.5), (3, 0.75), (4, 0.875), (5, 0.9375)] {
            let values: Vec<f64> = (0..n).map(f64::from).collect();
            let interval = median(&Sample::new(&values).unwrap(), 0.95).interval;
            assert!(!interval.reached());
            assert_eq!((interval.low, interval.high), (0.0, f64::from(n - 1)));
            assert!((interval.coverage - coverage).abs() < 1e-12);
        }
    }

    #[test]
    fn tail_quantiles_borrow_from_the_other_tail() {
        let (l, u, coverage) = ranks(30, 0.9, 0.95);
        assert_eq!(u, 30);
        assert!(coverage >= 0.95 && l > 20, "{l}..{u} {coverage}");
        let (l, u, coverage) = ranks(10, 0.99, 0.95);
        assert_eq!((l, u), (1, 10));
        assert!((coverage - (1.0 - 0.99f64.powi(10))).abs() < 1e-9);
        for level in [-1.0, 0.0, 2.0, f64::NAN] {
            for n in 1..6 {
                let (l, u, _) = ranks(n, 0.5, level);
                assert!(l <= u, "level {level}, n = {n}: {l}..{u}");
            }
        }
        assert_eq!(ranks(5, 0.0, 0.95).0, 1);
        assert_eq!(ranks(5, 1.0, 0.95).1, 5);
    }

    #[test]
    fn values_needed_is_minimal() {
        assert_eq!(values_needed(0.5, 0.95), Some(6));
        assert_eq!(values_needed(0.95, 0.95), Some(59));
        assert_eq!(values_needed(0.05, 0.95), Some(59));
        assert_eq!(values_needed(0.5, 1.0), None);
        assert_eq!(values_needed(1.0, 0.5), None);
    }

    #[test]
    fn large_samples_do_not_underflow() {
        let (l, u, coverage) = ranks(5_000, 0.5, 0.95);
        assert!((l, u) == (2_431, 2_570) && (0.95..0.953).contains(&coverage), "{l} {u} {coverage}");
    }

    #[test]
    fn coverage_holds_for_a_skewed_distribution() {
        let mut rng = SplitMix::new(7);
        let truth = 2.0f64.ln();
        let mut inside = 0;
        for _ in 0..2_000 {
            let values: Vec<f64> = (0..15).map(|_| -rng.unit().ln()).collect();
            inside += u32::from(median(&Sample::new(&values).unwrap(), 0.95).interval.contains(truth));
        }
        // Exact coverage for n = 15 is 0.965; 2,000 draws deviate by less than 0.02.
        assert!((1_890..1_970).contains(&inside), "{inside}");
    }
}
