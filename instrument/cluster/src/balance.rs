//! How equal the ranks were.

/// A straggler is further from the median than this many deviations, estimated from the median of absolute deviations.
const DEVIATIONS: f64 = 3.0;
/// The median of absolute deviations times this is the standard deviation of a normal distribution.
const MAD_TO_SIGMA: f64 = 1.4826;
/// And differs from the median by more than this share: equal ranks must not be stragglers by a hair.
const SHARE_MIN: f64 = 0.05;

/// Figures of the ranks' rates.
#[derive(Debug, Clone, PartialEq)]
pub struct Balance {
    /// The slowest rank's rate divided by that of the fastest.
    pub fairness: f64,
    /// The mean rate divided by the highest one: 1 when all are equal (Cube's load-balance efficiency).
    pub efficiency: f64,
    /// The fastest rank's rate above the mean, as a share.
    pub imbalance: f64,
    /// The median rate.
    pub median: f64,
    /// Ranks that are much slower than the median.
    pub stragglers: Vec<u32>,
}

impl Balance {
    /// Of the rates of ranks 0, 1, ...; `None` without any, or when nobody did anything.
    pub fn of(rates: &[f64]) -> Option<Balance> {
        let highest = rates.iter().copied().fold(0.0, f64::max);
        if rates.is_empty() || highest <= 0.0 {
            return None;
        }
        let lowest = rates.iter().copied().fold(f64::INFINITY, f64::min);
        let mean = rates.iter().sum::<f64>() / rates.len() as f64;
        let middle = median(rates);
        let deviations: Vec<f64> = rates.iter().map(|rate| (rate - middle).abs()).collect();
        let limit = (DEVIATIONS * MAD_TO_SIGMA * median(&deviations)).max(SHARE_MIN * middle);
        let slow = rates.iter().enumerate().filter(|(_, rate)| middle - **rate > limit);
        Some(Balance {
            fairness: lowest / highest,
            efficiency: mean / highest,
            imbalance: highest / mean - 1.0,
            median: middle,
            stragglers: slow.map(|(rank, _)| rank as u32).collect(),
        })
    }
}

/// The median: of an even number of values the mean of the two in the middle; 0 of none.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => 0.0,
        length if length % 2 == 1 => sorted[middle],
        _ => (sorted[middle - 1] + sorted[middle]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_ranks_have_no_straggler() {
        let balance = Balance::of(&[100.0, 101.0, 99.0, 100.5]).unwrap();
        assert!(balance.stragglers.is_empty() && balance.fairness > 0.97, "{balance:?}");
        assert_eq!(Balance::of(&[7.0; 4]).unwrap().efficiency, 1.0);
        assert_eq!((Balance::of(&[]), Balance::of(&[0.0])), (None, None));
    }

    #[test]
    fn the_slow_one_is_named() {
        let balance = Balance::of(&[100.0, 98.0, 40.0, 101.0, 99.0, 100.0]).unwrap();
        assert_eq!(balance.stragglers, [2]);
        // two cannot say who of them is slow by the deviation, but half the rate of the other is far from the middle
        assert_eq!(Balance::of(&[100.0, 0.0, 100.0]).unwrap().stragglers, [1]);
    }
}
