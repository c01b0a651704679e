//! Does a candidate harm? Pairs of runs, a baseline and a candidate one after the other, judged.
//!
//! Gain: median wall time of the baseline over that of the candidate. p99: of all operations of all rounds of a side
//! together. Both get a BCa bootstrap interval of 90 % over rounds (a round, both its runs, is drawn as a whole), so
//! that each limit is tested at 5 %. The limits: gain 0.97; p99 at most 1.1 times, or 0.1 ms above, that of the
//! baseline.
//!
//! - harmless: the interval is within the limit as a whole, of three rounds at least.
//! - harms: it is outside as a whole, and so many of the single rounds are that chance alone would do it in 5 % (sign
//!   test): five rounds on a noisy machine have too narrow an interval of p99.
//! - untold: anything else.
//!
//! Rounds are added to what is untold, and once to what harms, which must then do so again. The tests do not know of
//! that: the rate of false alarms is to be measured (baseline against itself), not computed.

use crate::bootstrap::{Resampling, one_sample};
use crate::interval::{Estimate, binomial_cumulative};
use crate::sample::median_in_place;
use crate::{Histogram, Sample, SampleError};

/// Confidence of the intervals.
pub const LEVEL: f64 = 0.9;
/// How they are drawn.
pub const RESAMPLING: Resampling = Resampling { resamples: 1000, seed: 0x10ad_11fe };
/// Rounds that are added before it is judged again.
pub const STEP: usize = 3;
/// The least gain.
const GAIN: f64 = 0.97;
/// From here on it is called faster.
const FASTER: f64 = 1.0 / GAIN;
/// An interval of fewer rounds is too narrow to say anything.
const LEAST_ROUNDS: usize = 3;
/// The most that p99 may grow: this factor or this time, whichever is more.
const P99_FACTOR: f64 = 1.1;
const P99_NS: f64 = 100_000.0;
/// The sign test's level.
const SIGN: f64 = 0.05;

/// Something of both sides of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pair<T> {
    /// Of what is compared with.
    pub baseline: T,
    /// Of what is judged.
    pub candidate: T,
}

impl<T> Pair<T> {
    /// The same of both sides.
    pub fn map<'a, U>(&'a self, of: impl Fn(&'a T) -> U) -> Pair<U> {
        Pair { baseline: of(&self.baseline), candidate: of(&self.candidate) }
    }
}

/// What is said of a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Within the limits.
    Harmless,
    /// Outside.
    Harms,
    /// More rounds are needed.
    Untold,
}

impl Verdict {
    /// That of two limits which must both be kept.
    pub fn and(self, other: Verdict) -> Verdict {
        match (self, other) {
            (Verdict::Harms, _) | (_, Verdict::Harms) => Verdict::Harms,
            (Verdict::Harmless, Verdict::Harmless) => Verdict::Harmless,
            _ => Verdict::Untold,
        }
    }

    /// Whether no more rounds are needed; `before`: the verdict before the last rounds were added. Harm is believed
    /// when it is still there after more rounds.
    pub fn is_final(self, before: Option<Verdict>) -> bool {
        self == Verdict::Harmless || self == Verdict::Harms && before == Some(Verdict::Harms)
    }
}

/// How fast a candidate is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Speed {
    /// Median wall times, in the unit that was given.
    pub medians: Pair<f64>,
    /// That of the baseline over that of the candidate.
    pub gain: Estimate,
    /// Single rounds whose own gain is too small are more than chance makes.
    confirmed: bool,
    rounds: usize,
}

impl Speed {
    /// From wall times of at least one round, above 0.
    ///
    /// # Errors
    /// No round, or a time that makes no ratio.
    pub fn of(walls: &[Pair<f64>]) -> Result<Speed, SampleError> {
        let median = |side: fn(&Pair<f64>) -> f64, picked: &[f64]| {
            let mut values: Vec<f64> = picked.iter().map(|&round| side(&walls[round as usize])).collect();
            median_in_place(&mut values)
        };
        let medians = |picked: &[f64]| Pair {
            baseline: median(|pair| pair.baseline, picked),
            candidate: median(|pair| pair.candidate, picked),
        };
        let gain = |picked: &[f64]| {
            let both = medians(picked);
            both.baseline / both.candidate
        };
        Ok(Speed {
            gain: estimate(walls.len(), gain)?,
            medians: medians(&numbers(walls.len())),
            confirmed: is_no_chance(walls.len(), |round| gain(round) < GAIN),
            rounds: walls.len(),
        })
    }

    /// Whether it is slow enough to harm.
    pub fn verdict(&self) -> Verdict {
        let limits = (self.gain.interval.low >= GAIN, self.gain.interval.high < GAIN);
        verdict(limits, self.confirmed, self.rounds)
    }

    /// Whether it gains 3 % at least.
    pub fn is_faster(&self) -> bool {
        self.rounds >= LEAST_ROUNDS && self.gain.interval.low >= FASTER
    }
}

/// How long a candidate's slowest hundredth of operations takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tail {
    /// p99 of all rounds together, ns.
    pub p99_ns: Pair<f64>,
    /// That of the candidate over that of the baseline.
    pub ratio: Estimate,
    /// That of the candidate over the most that is allowed.
    over: Estimate,
    /// Single rounds whose own p99 is too long are more than chance makes.
    confirmed: bool,
    rounds: usize,
}

impl Tail {
    /// From the times of all operations (ns) of at least one round.
    ///
    /// # Errors
    /// No round.
    pub fn of(times: &[Pair<&Histogram>]) -> Result<Tail, SampleError> {
        let both = |picked: &[f64]| {
            let mut pooled = Pair { baseline: Histogram::new(), candidate: Histogram::new() };
            for pair in picked.iter().map(|&round| &times[round as usize]) {
                pooled.baseline.merge(pair.baseline);
                pooled.candidate.merge(pair.candidate);
            }
            pooled.map(|times| times.quantile(0.99).unwrap_or(0).max(1) as f64)
        };
        let ratio = |picked: &[f64]| {
            let p99 = both(picked);
            p99.candidate / p99.baseline
        };
        let over = |picked: &[f64]| {
            let p99 = both(picked);
            p99.candidate / (p99.baseline * P99_FACTOR).max(p99.baseline + P99_NS)
        };
        Ok(Tail {
            ratio: estimate(times.len(), ratio)?,
            over: estimate(times.len(), over)?,
            p99_ns: both(&numbers(times.len())),
            confirmed: is_no_chance(times.len(), |round| over(round) > 1.0),
            rounds: times.len(),
        })
    }

    /// Whether it is long enough to harm.
    pub fn verdict(&self) -> Verdict {
        let limits = (self.over.interval.high <= 1.0, self.over.interval.low > 1.0);
        verdict(limits, self.confirmed, self.rounds)
    }
}

/// `within`, `outside`: where the interval is as a whole.
fn verdict((within, outside): (bool, bool), confirmed: bool, rounds: usize) -> Verdict {
    match (within, outside) {
        (_, true) if confirmed => Verdict::Harms,
        (true, _) if rounds >= LEAST_ROUNDS => Verdict::Harmless,
        _ => Verdict::Untold,
    }
}

/// What is drawn are the numbers of rounds.
fn numbers(rounds: usize) -> Vec<f64> {
    (0..rounds).map(|round| round as f64).collect()
}

fn estimate(rounds: usize, statistic: impl Fn(&[f64]) -> f64) -> Result<Estimate, SampleError> {
    one_sample(&Sample::new(&numbers(rounds))?, |picked| statistic(picked), LEVEL, RESAMPLING)
}

/// Sign test: whether a fair coin shows in 5 % at most as many heads as there are bad rounds.
fn is_no_chance(rounds: usize, is_bad: impl Fn(&[f64]) -> bool) -> bool {
    let bad = (0..rounds).filter(|&round| is_bad(&[round as f64])).count();
    by_chance(bad, rounds) <= SIGN
}

/// How often a fair coin shows so many heads or more.
fn by_chance(heads: usize, n: usize) -> f64 {
    binomial_cumulative(n, 0.5)[n - heads]
}

#[cfg(test)]
mod tests {
    use super::*;

    const OFF: [f64; 7] = [0.0, 0.5, -0.7, 1.0, -1.0, 0.2, -0.3];

    /// Seven rounds in which the baseline takes 100 and the candidate `wall`, both plus what a round adds.
    fn walls(wall: f64, noise: f64) -> Vec<Pair<f64>> {
        let shifted = OFF.iter().zip(OFF.iter().rev());
        shifted.map(|(a, b)| Pair { baseline: 100.0 + a * noise, candidate: wall + b * noise }).collect()
    }

    fn times(p99_us: u64) -> Histogram {
        let mut times = Histogram::new();
        times.record_n(10_000, 95);
        times.record_n(p99_us * 1000, 5);
        times
    }

    fn tail(rounds: &[Pair<Histogram>]) -> Tail {
        Tail::of(&rounds.iter().map(|pair| pair.map(|times| times)).collect::<Vec<_>>()).unwrap()
    }

    fn both(wall: f64, [alone, helped]: [u64; 2], noise: f64) -> Verdict {
        let rounds = vec![Pair { baseline: times(alone), candidate: times(helped) }; OFF.len()];
        Speed::of(&walls(wall, noise)).unwrap().verdict().and(tail(&rounds).verdict())
    }

    #[test]
    fn quiet_cells_are_told_and_noisy_ones_not() {
        assert_eq!(both(100.0, [1000, 1000], 0.5), Verdict::Harmless);
        assert_eq!(both(50.0, [1000, 500], 5.0), Verdict::Harmless);
        assert_eq!(both(110.0, [1000, 1000], 1.0), Verdict::Harms);
        assert_eq!(both(100.0, [1000, 1000], 20.0), Verdict::Untold);
        assert_eq!(both(103.0, [1000, 1000], 2.0), Verdict::Untold);
    }

    #[test]
    fn a_gain_is_told_when_the_rounds_agree() {
        let told = |wall, noise| {
            let speed = Speed::of(&walls(wall, noise)).unwrap();
            (speed.verdict(), speed.is_faster())
        };
        assert_eq!(told(50.0, 3.0), (Verdict::Harmless, true));
        assert_eq!(told(100.0, 0.5), (Verdict::Harmless, false));
        assert_eq!(told(110.0, 1.0), (Verdict::Harms, false));
        assert_eq!(told(100.0, 20.0), (Verdict::Untold, false));
        let speed = Speed::of(&walls(50.0, 3.0)).unwrap();
        assert!((1.9..2.1).contains(&speed.gain.value), "{speed:?}");
        let two = Speed::of(&walls(50.0, 0.0)[..2]).unwrap();
        assert_eq!((two.verdict(), two.is_faster()), (Verdict::Untold, false));
        assert_eq!(Speed::of(&[]), Err(SampleError::Empty));
    }

    #[test]
    fn a_coin_shows_five_heads_of_five_once_in_32() {
        for (heads, n, chance) in
            [(5, 5, 1.0 / 32.0), (4, 5, 6.0 / 32.0), (0, 7, 1.0), (12, 15, 576.0 / 32768.0)]
        {
            assert!((by_chance(heads, n) - chance).abs() < 1e-12, "{heads} of {n}");
        }
    }

    #[test]
    fn a_failure_needs_most_of_the_single_rounds() {
        // Each tenth operation of 3 rounds of 8 is slow: some of these are in nearly every draw of 8.
        let with = |slow: bool| {
            let mut candidate = times(1000);
            candidate.record_n(9_000_000, if slow { 10 } else { 0 });
            Pair { baseline: times(1000), candidate }
        };
        let tail = tail(&(0..8).map(|i| with(i % 3 == 0)).collect::<Vec<_>>());
        assert!(tail.over.interval.low > 1.0, "{tail:?}");
        assert_eq!(tail.verdict(), Verdict::Untold);
    }

    #[test]
    fn p99_fails_beyond_both_the_factor_and_the_time() {
        assert_eq!(both(100.0, [1000, 1150], 0.5), Verdict::Harms);
        assert_eq!(both(100.0, [100, 190], 0.5), Verdict::Harmless);
        assert_eq!(both(100.0, [100, 220], 0.5), Verdict::Harms);
        assert_eq!(both(100.0, [20_000, 21_500], 0.5), Verdict::Harmless);
        // A gain in wall time does not pay for it.
        assert_eq!(both(50.0, [1000, 1200], 0.5), Verdict::Harms);
    }

    #[test]
    fn p99_is_that_of_all_operations_together() {
        let mut rounds = vec![Pair { baseline: times(1000), candidate: times(1000) }; OFF.len()];
        // A slow round of 7 has 5 of 700 operations.
        rounds[3].candidate = times(9000);
        let tail = tail(&rounds);
        assert!((tail.ratio.value - 1.0).abs() < 0.02, "{tail:?}");
        assert!(tail.ratio.interval.high > 5.0, "{tail:?}");
        assert_eq!(tail.verdict(), Verdict::Untold);
    }

    #[test]
    fn harm_is_final_when_it_is_seen_twice() {
        assert!(Verdict::Harmless.is_final(None));
        assert!(!Verdict::Harms.is_final(None) && !Verdict::Harms.is_final(Some(Verdict::Untold)));
        assert!(Verdict::Harms.is_final(Some(Verdict::Harms)));
        assert!(!Verdict::Untold.is_final(Some(Verdict::Untold)));
    }
}
