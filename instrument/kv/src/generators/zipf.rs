//! Zipf's distribution: Gray's approximation with YCSB's constants, and the exact one.

use rand_distr::Distribution as _;
use workload::rng::Rng;

use crate::KvError;

use super::draw::Draw;

/// YCSB's exponent.
pub const THETA: f64 = 0.99;

/// Sum of i^-theta for i from `from` + 1 to `to`, added to `sum` in that order, as YCSB does it: rounding is the same.
fn zeta(from: u64, to: u64, theta: f64, sum: f64) -> f64 {
    (from..to).fold(sum, |sum, i| sum + 1.0 / ((i + 1) as f64).powf(theta))
}

/// Gray et al., "Quickly Generating Billion-Record Synthetic Databases" (SIGMOD 1994), section 3, as YCSB has it. Ranks
/// from 2 on are an approximation: with 1,000 items rank 2 comes in 5.1 % of draws instead of 4.4 %.
#[derive(Debug, Clone)]
pub struct YcsbZipf {
    items: u64,
    counted: u64,
    theta: f64,
    zeta2: f64,
    zetan: f64,
    alpha: f64,
    eta: f64,
}

impl YcsbZipf {
    /// Ranks from 0 to `items` - 1. Takes time in proportion to `items`: about 0.1 s for 5 million.
    pub fn new(items: u64) -> YcsbZipf {
        YcsbZipf::with_zeta(items, zeta(0, items, THETA, 0.0))
    }

    /// The same with a sum that is known.
    pub fn with_zeta(items: u64, zetan: f64) -> YcsbZipf {
        let mut gray = YcsbZipf {
            items,
            counted: items,
            theta: THETA,
            zeta2: zeta(0, 2, THETA, 0.0),
            zetan,
            alpha: 1.0 / (1.0 - THETA),
            eta: 0.0,
        };
        gray.eta = gray.eta();
        gray
    }

    /// From the number of items at the beginning, also when they have become more: so does YCSB.
    fn eta(&self) -> f64 {
        (1.0 - (2.0 / self.items as f64).powf(1.0 - self.theta)) / (1.0 - self.zeta2 / self.zetan)
    }

    /// The rank, from 0, that YCSB yields for this uniform number.
    #[inline]
    pub fn rank(&self, unit: f64) -> u64 {
        self.rank_of(unit, self.items)
    }

    fn rank_of(&self, unit: f64, items: u64) -> u64 {
        let scaled = unit * self.zetan;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < 1.0 + 0.5f64.powf(self.theta) {
            return 1;
        }
        (items as f64 * (self.eta * unit - self.eta + 1.0).powf(self.alpha)) as u64
    }

    /// The rank among `items` items, which may have become more since the last draw.
    pub fn rank_among(&mut self, unit: f64, items: u64) -> u64 {
        if items > self.counted {
            self.zetan = zeta(self.counted, items, self.theta, self.zetan);
            self.counted = items;
            self.eta = self.eta();
        }
        self.rank_of(unit, items)
    }

    /// Probability of a rank under this approximation.
    pub fn probability(&self, rank: u64) -> f64 {
        let (n, power) = (self.items as f64, 1.0 - self.theta);
        match rank {
            0 => 1.0 / self.zetan,
            1 => 0.5f64.powf(self.theta) / self.zetan,
            k => (((k as f64 + 1.0) / n).powf(power) - (k as f64 / n).powf(power)) / self.eta,
        }
    }

    #[cfg(test)]
    pub(crate) fn constants(&self) -> (f64, f64, f64, f64) {
        (self.zeta2, self.zetan, self.alpha, self.eta)
    }
}

/// Rejection-inversion (Hörmann and Derflinger, "Rejection-inversion to generate variates from monotone discrete
/// distributions", ACM TOMACS 6(3), 1996): exact, in constant time and space.
#[derive(Debug, Clone)]
pub struct RejectionZipf(rand_distr::Zipf<f64>);

impl RejectionZipf {
    /// Ranks from 0 to `items` - 1 with P(rank) in proportion to (rank + 1)^-theta.
    ///
    /// # Errors
    /// No items, or an exponent below 0.
    pub fn new(items: u64, theta: f64) -> Result<RejectionZipf, KvError> {
        let made = rand_distr::Zipf::new(items as f64, theta);
        made.map(RejectionZipf)
            .map_err(|error| KvError::Parameter(format!("zipf over {items} records: {error}")))
    }

    /// A rank.
    #[inline]
    pub fn rank(&self, rng: &mut Rng) -> u64 {
        self.0.sample(rng) as u64 - 1
    }
}

/// A draw of Gray's approximation.
#[inline]
pub(super) fn gray(draw: &mut impl Draw, gray: &YcsbZipf) -> u64 {
    gray.rank(draw.unit())
}

#[cfg(test)]
mod tests {
    use workload::rng::{Purpose, StreamId};

    use super::*;

    /// Chi-square of counts against probabilities; degrees of freedom are the cells less one.
    fn chi_square(counts: &[u64], probability: impl Fn(u64) -> f64) -> f64 {
        let draws: u64 = counts.iter().sum();
        let of = |(rank, count): (usize, &u64)| {
            let expected = draws as f64 * probability(rank as u64);
            (*count as f64 - expected).powi(2) / expected
        };
        counts.iter().enumerate().map(of).sum()
    }

    /// The value that chi-square exceeds with a probability of 0.001 (Wilson and Hilferty 1931).
    fn limit(degrees: f64) -> f64 {
        let part = 2.0 / (9.0 * degrees);
        degrees * (1.0 - part + 3.090 * part.sqrt()).powi(3)
    }

    const ITEMS: u64 = 1000;
    const DRAWS: u64 = 2_000_000;

    fn zipf(rank: u64) -> f64 {
        ((rank + 1) as f64).powf(-THETA) / zeta(0, ITEMS, THETA, 0.0)
    }

    fn rng(seed: u64) -> Rng {
        StreamId::of_run(seed, Purpose::Operations).rng()
    }

    #[test]
    fn the_exact_form_passes_chi_square_and_ycsbs_form_does_not() {
        let exact = RejectionZipf::new(ITEMS, THETA).unwrap();
        let gray = YcsbZipf::new(ITEMS);
        let (mut of_exact, mut of_gray) = (vec![0; ITEMS as usize], vec![0; ITEMS as usize]);
        let mut rng = rng(11);
        for _ in 0..DRAWS {
            of_exact[exact.rank(&mut rng) as usize] += 1;
            of_gray[gray.rank(rng.unit()) as usize] += 1;
        }
        let limit = limit((ITEMS - 1) as f64);
        let found = chi_square(&of_exact, zipf);
        assert!(found < limit, "chi-square {found:.0}, limit {limit:.0}");
        // YCSB's form follows its own law, and not Zipf's
        let own = chi_square(&of_gray, |rank| gray.probability(rank));
        assert!(own < limit, "chi-square {own:.0} against its own law, limit {limit:.0}");
        let against_zipf = chi_square(&of_gray, zipf);
        assert!(against_zipf > 2.0 * limit, "chi-square {against_zipf:.0}");
    }

    #[test]
    fn small_domains_are_exact_too() {
        for items in [1, 2, 3, 10] {
            let exact = RejectionZipf::new(items, THETA).unwrap();
            let (mut counts, mut rng) = (vec![0; items as usize], rng(items));
            (0..100_000).for_each(|_| counts[exact.rank(&mut rng) as usize] += 1);
            let sum = zeta(0, items, THETA, 0.0);
            let found = chi_square(&counts, |rank| ((rank + 1) as f64).powf(-THETA) / sum);
            assert!(found < limit((items - 1).max(1) as f64), "{items}: {found}");
        }
        assert!(RejectionZipf::new(0, THETA).is_err());
    }

    #[test]
    fn constants_are_those_of_ycsb() {
        let (zeta2, zetan, alpha, _) = YcsbZipf::new(1000).constants();
        assert_eq!((zeta2, zetan, alpha), (1.5034777750283594, 7.728953217284729, 99.99999999999991));
        assert_eq!(zeta(0, 1_000_000, THETA, 0.0), 15.391849746037371);
    }

    #[test]
    fn a_growing_domain_sums_on() {
        let mut grown = YcsbZipf::new(100);
        grown.rank_among(0.5, 300);
        assert_eq!(grown.zetan, zeta(0, 300, THETA, 0.0));
    }
}
