//! Outliers: to be shown beside a result, never dropped from it.

use crate::sample::{Sample, SampleError, median_in_place};

/// Absolute score from which a value is flagged (Iglewicz & Hoaglin's recommendation).
pub const THRESHOLD: f64 = 3.5;

/// The modified Z-score of each value, in the given order:
/// `0.6745 (x - median) / MAD` (Iglewicz & Hoaglin, "How to Detect and Handle Outliers", ASQC Basic
/// References in Quality Control 16, 1993). 0.6745 is the normal distribution's upper
/// quartile, so that the score is in standard deviations.
///
/// When more than half of the values are equal the MAD is 0, and the mean absolute deviation times
/// `sqrt(pi / 2)` stands in for the standard deviation. All scores of a constant sample are 0.
///
/// # Errors
/// When there is no value, or one is not finite.
pub fn modified_z_scores(values: &[f64]) -> Result<Vec<f64>, SampleError> {
    let median = Sample::new(values)?.median();
    let off: Vec<f64> = values.iter().map(|v| v - median).collect();
    let mad = median_in_place(&mut off.iter().map(|d| d.abs()).collect::<Vec<f64>>());
    let mean = off.iter().map(|d| d.abs()).sum::<f64>() / off.len() as f64;
    let deviation = if mad > 0.0 { mad / 0.6745 } else { mean * std::f64::consts::FRAC_PI_2.sqrt() };
    Ok(off.iter().map(|d| if deviation > 0.0 { d / deviation } else { 0.0 }).collect())
}

/// Positions (in the given order) of the values whose score exceeds [`THRESHOLD`].
///
/// # Errors
/// When there is no value, or one is not finite.
pub fn flagged(values: &[f64]) -> Result<Vec<usize>, SampleError> {
    let scores = modified_z_scores(values)?;
    Ok((0..values.len()).filter(|&i| scores[i].abs() > THRESHOLD).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::SplitMix;

    #[test]
    fn scores_by_hand() {
        // Median 3, absolute deviations 2 1 0 1 97, MAD 1.
        let scores = modified_z_scores(&[1.0, 2.0, 3.0, 4.0, 100.0]).unwrap();
        for (score, off) in scores.iter().zip([-2.0, -1.0, 0.0, 1.0, 97.0]) {
            assert!((score - 0.6745 * off).abs() < 1e-12);
        }
        assert_eq!(flagged(&[1.0, 2.0, 3.0, 4.0, 100.0]).unwrap(), [4]);
    }

    #[test]
    fn the_order_of_trials_is_kept() {
        assert_eq!(flagged(&[50.0, 10.0, 11.0, 10.5, 9.5, -40.0, 10.2]).unwrap(), [0, 5]);
    }

    #[test]
    fn mostly_equal_values_still_show_the_odd_one() {
        let mut values = [10.0; 12];
        assert_eq!(flagged(&values).unwrap(), [0usize; 0]);
        values[7] = 11.0;
        assert_eq!(flagged(&values).unwrap(), [7]);
        assert!(modified_z_scores(&[]).is_err());
        assert_eq!(modified_z_scores(&[5.0]).unwrap(), [0.0]);
    }

    #[test]
    fn few_normal_values_are_flagged() {
        let mut rng = SplitMix::new(31);
        let values: Vec<f64> = (0..20_000).map(|_| rng.normal()).collect();
        // Two-sided tail beyond 3.5 standard deviations: 0.047 %, about 9 of 20,000.
        let flagged = flagged(&values).unwrap().len();
        assert!((2..25).contains(&flagged), "{flagged}");
    }
}
