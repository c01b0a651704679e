//! An effect on the logarithmic scale with its law: what every rule of the crate judges.
//!
//! The effect is the logarithm of a ratio B/A. It is known by one of two laws: an estimate with a standard error and
//! Student's t, or a sample of differences with the signed-rank test. Both answer the same questions: an
//! interval at any level, and the one-sided p-values against any value.

use serde::{Deserialize, Serialize};

use crate::interval::Interval;
use crate::sample::{SampleError, median_of_sorted};
use crate::signed_rank::{Null, walsh_averages};
use crate::student;

/// From so many differences the signed-rank test judges, below it Student's t. The choice is by number, never by result.
pub const RANKS_FROM: usize = 8;
/// Fewest differences that say anything.
pub const FEWEST: usize = 3;

/// Which law an effect was judged by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Mean of 3 to 7 differences within blocks, Student's t.
    StudentT,
    /// Hodges-Lehmann estimate of 8 or more differences within blocks, exact signed-rank test.
    SignedRank,
    /// Two samples without blocks, Welch's t.
    WelchT,
    /// Two runs, Welch's t with the machine's variance between runs added.
    BetweenRuns,
    /// Pairs of deterministic trials: no law, the ends of the interval are those of the pairs.
    Exact,
}

/// The logarithm of a ratio, with its law.
#[derive(Debug, Clone, PartialEq)]
pub struct Effect {
    method: Method,
    n: usize,
    law: Law,
}

#[derive(Debug, Clone, PartialEq)]
enum Law {
    Student { mean: f64, error: f64, degrees: f64 },
    Ranks { averages: Vec<f64>, null: Null },
}

impl Effect {
    /// From the differences `ln(B/A)` of blocks. One or two differences give their range; [`crate::judge`] never
    /// concludes anything from them.
    ///
    /// # Errors
    /// When there is none, or one is not finite.
    pub fn of_differences(differences: &[f64]) -> Result<Effect, SampleError> {
        let n = check(differences)?;
        if (FEWEST..RANKS_FROM).contains(&n) {
            let (mean, variance) = moments(differences);
            return Ok(Effect::student(Method::StudentT, n, mean, variance / n as f64, (n - 1) as f64));
        }
        let law = Law::Ranks { averages: walsh_averages(differences), null: Null::new(n) };
        Ok(Effect { method: Method::SignedRank, n, law })
    }

    /// From logarithms of two samples that share no blocks: difference of the means, Welch's t with Satterthwaite's
    /// degrees of freedom (Welch, "The Generalization of Student's Problem", Biometrika 34, 1947).
    ///
    /// # Errors
    /// When a side has fewer than two values, or one is not finite.
    pub fn of_samples(a: &[f64], b: &[f64]) -> Result<Effect, SampleError> {
        let (n, m) = (check(a)?, check(b)?);
        if n.min(m) < 2 {
            return Err(SampleError::Empty);
        }
        let ((mean_a, variance_a), (mean_b, variance_b)) = (moments(a), moments(b));
        let parts = [(variance_a / n as f64, (n - 1) as f64), (variance_b / m as f64, (m - 1) as f64)];
        Ok(Effect::of_parts(Method::WelchT, n.min(m), mean_b - mean_a, &parts))
    }

    /// From an estimate whose variance is the sum of `parts`, each a variance with its degrees of freedom:
    /// `df = V^2 / sum(v_i^2 / df_i)` (Satterthwaite, Biometrics Bulletin 2(6), 1946).
    pub(crate) fn of_parts(method: Method, n: usize, estimate: f64, parts: &[(f64, f64)]) -> Effect {
        let variance: f64 = parts.iter().map(|p| p.0).sum();
        let spread: f64 = parts.iter().map(|(v, df)| v * v / df.max(1e-9)).sum();
        let degrees = if spread > 0.0 { variance * variance / spread } else { 1.0 };
        Effect::student(method, n, estimate, variance, degrees)
    }

    fn student(method: Method, n: usize, mean: f64, variance: f64, degrees: f64) -> Effect {
        Effect { method, n, law: Law::Student { mean, error: variance.sqrt(), degrees } }
    }

    /// The law it is judged by.
    pub fn method(&self) -> Method {
        self.method
    }

    /// Blocks, or trials of the smaller side.
    pub fn n(&self) -> usize {
        self.n
    }

    /// The estimate of `ln(B/A)`.
    pub fn estimate(&self) -> f64 {
        match &self.law {
            Law::Student { mean, .. } => *mean,
            Law::Ranks { averages, .. } => median_of_sorted(averages),
        }
    }

    /// The two-sided confidence interval of `ln(B/A)` at `level` (0.95 for 95 %).
    pub fn interval(&self, level: f64) -> Interval {
        match &self.law {
            Law::Student { mean, error, degrees } => {
                let half = error * student::quantile(0.5 + level / 2.0, *degrees);
                Interval { low: mean - half, high: mean + half, level, coverage: level }
            }
            Law::Ranks { averages, null } => {
                let (k, coverage) = null.ends(level);
                let (low, high) = (averages[k - 1], averages[averages.len() - k]);
                Interval { low, high, level, coverage }
            }
        }
    }

    /// One-sided p-value against "the effect is `theta` or less": small where it is above.
    pub fn p_above(&self, theta: f64) -> f64 {
        match &self.law {
            Law::Student { mean, error, degrees } => tail_probability(mean - theta, *error, *degrees),
            Law::Ranks { averages, null } => null.at_most(averages.partition_point(|a| *a <= theta)),
        }
    }

    /// One-sided p-value against "the effect is `theta` or more": small where it is below.
    pub fn p_below(&self, theta: f64) -> f64 {
        match &self.law {
            Law::Student { mean, error, degrees } => tail_probability(theta - mean, *error, *degrees),
            Law::Ranks { averages, null } => {
                null.at_most(averages.len() - averages.partition_point(|a| *a < theta))
            }
        }
    }

    /// Two-sided p-value against "the effect is `floor` or less, up or down": twice the smaller of two one-sided ones (Murphy &
    /// Myors, "Testing the Hypothesis that Treatments Have Negligible Effects", J. Applied Psychology 84(2), 1999). At most 5 %
    /// exactly when the 95 % interval lies beyond the floor on one side.
    pub fn p_differs(&self, floor: f64) -> f64 {
        (2.0 * self.p_above(floor).min(self.p_below(-floor))).min(1.0)
    }

    /// p-value against "the effect is `margin` or more, up or down": the larger of two one-sided ones (Schuirmann, J.
    /// Pharmacokinetics and Biopharmaceutics 15(6), 1987). At most 5 % exactly when the 90 % interval lies inside.
    pub fn p_same(&self, margin: f64) -> f64 {
        self.p_above(-margin).max(self.p_below(margin))
    }
}

/// `P(T > off / error)`; certain where there is no error at all.
fn tail_probability(off: f64, error: f64, degrees: f64) -> f64 {
    if error > 0.0 {
        return student::upper_tail(off / error, degrees);
    }
    if off > 0.0 { 0.0 } else { 1.0 }
}

/// Mean and variance (divisor `n - 1`; 0 for one value).
pub(crate) fn moments(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    (mean, if n > 1.0 { squares / (n - 1.0) } else { 0.0 })
}

/// Number of values, which are finite and not none.
pub(crate) fn check(values: &[f64]) -> Result<usize, SampleError> {
    if values.is_empty() {
        return Err(SampleError::Empty);
    }
    match values.iter().position(|v| !v.is_finite()) {
        Some(position) => Err(SampleError::NotFinite { position, value: values[position] }),
        None => Ok(values.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::SplitMix;

    #[test]
    fn a_worked_example_of_students_t() {
        // Mean 3, variance 2.5, n = 5: standard error sqrt(0.5), t(4, 0.975) = 2.7764451.
        let effect = Effect::of_differences(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        let interval = effect.interval(0.95);
        assert_eq!((effect.method(), effect.estimate()), (Method::StudentT, 3.0));
        assert!((interval.low - (3.0 - 2.776_445_1 * 0.5f64.sqrt())).abs() < 1e-6);
        assert!((effect.p_differs(0.0) - 0.013_235).abs() < 1e-5, "{}", effect.p_differs(0.0));
    }

    #[test]
    fn intervals_are_inverted_tests() {
        let mut rng = SplitMix::new(3);
        for n in [3, 5, 7, 8, 10, 25, 60] {
            for _ in 0..100 {
                let d: Vec<f64> = (0..n).map(|_| 0.02 + 0.05 * rng.normal()).collect();
                let effect = Effect::of_differences(&d).unwrap();
                let wide = effect.interval(0.95);
                assert_eq!(!wide.contains(0.0), effect.p_differs(0.0) < 0.05, "{d:?}");
                let narrow = effect.interval(0.90);
                let inside = -0.04 <= narrow.low && narrow.high <= 0.04;
                assert_eq!(inside, effect.p_same(0.04) <= 0.05, "{d:?}");
                assert!(wide.low <= narrow.low && narrow.high <= wide.high);
            }
        }
    }

    #[test]
    fn welch_with_equal_halves_is_the_textbook_one() {
        let effect = Effect::of_samples(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]).unwrap();
        // t = 3 / sqrt(2/3) = 3.674 with 4 degrees of freedom.
        assert!((effect.p_differs(0.0) - 0.021_312).abs() < 1e-5, "{}", effect.p_differs(0.0));
        assert!(Effect::of_samples(&[1.0], &[1.0, 2.0]).is_err());
    }

    #[test]
    fn values_without_noise_are_what_they_are() {
        for n in [3, 8] {
            let equal = Effect::of_differences(&vec![0.0; n]).unwrap();
            assert_eq!((equal.estimate(), equal.p_differs(0.0)), (0.0, 1.0));
            let off = Effect::of_differences(&vec![0.1; n]).unwrap();
            assert!(off.p_differs(0.0) < 0.05 && (off.interval(0.95).low - 0.1).abs() < 1e-12);
        }
        assert_eq!(Effect::of_differences(&[]), Err(SampleError::Empty));
        assert!(Effect::of_differences(&[0.0, f64::NAN]).is_err());
        assert_eq!(Effect::of_differences(&[0.3]).unwrap().interval(0.95).coverage, 0.0);
    }
}
