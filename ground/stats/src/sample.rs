//! A sample: the results of several trials of one cell, checked once so that the rest cannot fail.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Which way a result improves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sense {
    /// Throughput, hit ratio.
    HigherIsBetter,
    /// Latency, elapsed time, bytes written per byte.
    LowerIsBetter,
}

/// Why a set of values cannot be judged.
#[derive(Debug, Clone, Copy, PartialEq, Error)]
pub enum SampleError {
    /// There is no value.
    #[error("a sample needs at least one value")]
    Empty,
    /// A value is infinite or not a number.
    #[error("value {value} at position {position} of the sample is not a finite number")]
    NotFinite {
        /// Position in the given order, from 0.
        position: usize,
        /// The value.
        value: f64,
    },
    /// A ratio needs values above 0.
    #[error("a ratio needs values above 0, but the sample holds {0}")]
    NotPositive(f64),
    /// A statistic gave no finite number for a resample.
    #[error("the statistic is not finite on a resample of the data")]
    Statistic,
}

/// At least one finite value, sorted.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    sorted: Vec<f64>,
}

impl Sample {
    /// Takes the values in any order.
    ///
    /// # Errors
    /// When there is none, or one is not finite.
    pub fn new(values: &[f64]) -> Result<Sample, SampleError> {
        if values.is_empty() {
            return Err(SampleError::Empty);
        }
        if let Some(position) = values.iter().position(|v| !v.is_finite()) {
            return Err(SampleError::NotFinite { position, value: values[position] });
        }
        let mut sorted = values.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        Ok(Sample { sorted })
    }

    /// The sample itself if all of it is above 0.
    ///
    /// # Errors
    /// [`SampleError::NotPositive`] otherwise.
    pub fn positive(self) -> Result<Sample, SampleError> {
        if self.min() > 0.0 { Ok(self) } else { Err(SampleError::NotPositive(self.min())) }
    }

    /// The values, ascending.
    pub fn sorted(&self) -> &[f64] {
        &self.sorted
    }

    /// Number of values, at least 1.
    #[expect(clippy::len_without_is_empty, reason = "a sample is never empty")]
    pub fn len(&self) -> usize {
        self.sorted.len()
    }

    /// Smallest value.
    pub fn min(&self) -> f64 {
        self.sorted[0]
    }

    /// Largest value.
    pub fn max(&self) -> f64 {
        self.sorted[self.sorted.len() - 1]
    }

    /// Middle value, or the mean of the two middle values.
    pub fn median(&self) -> f64 {
        median_of_sorted(&self.sorted)
    }

    /// Quantile `q` (clamped to 0..=1) by linear interpolation between order statistics: type 7 of
    /// Hyndman & Fan, "Sample Quantiles in Statistical Packages", The American Statistician 50(4), 1996.
    pub fn quantile(&self, q: f64) -> f64 {
        let place = q.clamp(0.0, 1.0) * (self.len() - 1) as f64;
        let below = self.sorted[place.floor() as usize];
        let above = self.sorted[place.ceil() as usize];
        below + (above - below) * place.fract()
    }

    /// Arithmetic mean.
    pub fn mean(&self) -> f64 {
        self.sorted.iter().sum::<f64>() / self.len() as f64
    }

    /// Standard deviation with divisor `n - 1`; 0 for a single value.
    pub fn stddev(&self) -> f64 {
        if self.len() < 2 {
            return 0.0;
        }
        let mean = self.mean();
        let squares: f64 = self.sorted.iter().map(|v| (v - mean).powi(2)).sum();
        (squares / (self.len() - 1) as f64).sqrt()
    }

    /// Coefficient of variation, `stddev / |mean|`; `None` when the mean is 0.
    pub fn cv(&self) -> Option<f64> {
        let mean = self.mean().abs();
        (mean > 0.0).then(|| self.stddev() / mean)
    }
}

/// Median of ascending values; 0 for none.
pub(crate) fn median_of_sorted(sorted: &[f64]) -> f64 {
    let n = sorted.len();
    match n {
        0 => 0.0,
        _ if n % 2 == 1 => sorted[n / 2],
        _ => sorted[n / 2 - 1].midpoint(sorted[n / 2]),
    }
}

/// Median of values in any order, which are reordered; 0 for none.
pub(crate) fn median_in_place(values: &mut [f64]) -> f64 {
    let half = values.len() / 2;
    if values.is_empty() {
        return 0.0;
    }
    let odd = values.len() % 2 == 1;
    let (below, upper, _) = values.select_nth_unstable_by(half, f64::total_cmp);
    if odd { *upper } else { below.iter().copied().fold(f64::MIN, f64::max).midpoint(*upper) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_values_are_refused() {
        assert_eq!(Sample::new(&[]), Err(SampleError::Empty));
        let error = Sample::new(&[1.0, f64::INFINITY]).unwrap_err();
        assert_eq!(error, SampleError::NotFinite { position: 1, value: f64::INFINITY });
        assert!(Sample::new(&[f64::NAN]).is_err());
        assert_eq!(Sample::new(&[2.0, 0.0]).unwrap().positive(), Err(SampleError::NotPositive(0.0)));
    }

    #[test]
    fn moments_and_quantiles() {
        let sample = Sample::new(&[4.0, 1.0, 3.0, 2.0]).unwrap();
        assert_eq!((sample.min(), sample.median(), sample.max(), sample.mean()), (1.0, 2.5, 4.0, 2.5));
        assert!((sample.stddev() - (5.0f64 / 3.0).sqrt()).abs() < 1e-12);
        assert_eq!((sample.quantile(0.0), sample.quantile(0.5), sample.quantile(2.0)), (1.0, 2.5, 4.0));
        assert_eq!(sample.quantile(0.25), 1.75);
        assert_eq!(Sample::new(&[7.0]).unwrap().stddev(), 0.0);
        assert_eq!(Sample::new(&[-1.0, 1.0]).unwrap().cv(), None);
    }

    #[test]
    fn median_in_place_equals_the_sorted_one() {
        for n in 0..12usize {
            let mut values: Vec<f64> = (0..n).map(|i| ((i * 7 + 3) % 11) as f64).collect();
            let mut sorted = values.clone();
            sorted.sort_unstable_by(f64::total_cmp);
            assert_eq!(median_in_place(&mut values), median_of_sorted(&sorted), "n = {n}");
        }
    }
}
