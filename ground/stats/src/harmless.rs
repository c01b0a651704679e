//! Does a candidate harm? Pairs of runs, a baseline and a candidate one after the other, judged.
//!
//! Gain: median wall time of the baseline over that of the candidate. p99: of all operations of all rounds of a side
//! together. Both get a BCa bootstrap interval of 90 % over rounds (a round, both its runs, is drawn as a whole), so
//! that each limit is tested at 5 %. The limits: gain 0.97; p99 at most 1.1 times that of the baseline, or a gain of 1.1
//! that pays for it ([`CellVerdict`]). What would be said if nothing paid stands beside the verdict and decides nothing.
//!
//! - harmless: the interval is within the limit as a whole, of three rounds at least.
//! - harms: it is outside as a whole, and so many of the single rounds are that chance alone would do it in 5 % (sign
//!   test): five rounds on a noisy machine have too narrow an interval of p99.
//! - untold: anything else.
//!
//! Rounds are added to what is untold, and once to what harms, which must then do so again. The tests do not know of
//! that: the rate of false alarms is to be measured (baseline against itself), not computed.

use crate::bootstrap::{Resampling, one_sample};
use crate::interval::{Estimate, Interval, binomial_cumulative};
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
/// The most that p99 may grow.
const P99_FACTOR: f64 = 1.1;
/// A gain that pays for a longer p99.
const PAYS: f64 = 1.1;
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

/// What both sides took, and their ratio.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figure {
    /// Of all rounds.
    pub sides: Pair<f64>,
    /// With its interval.
    pub ratio: Estimate,
}

impl Figure {
    /// Of a [`gain`] that is told: whether it is 3 % at least.
    pub fn is_faster(&self) -> bool {
        self.ratio.interval.low >= FASTER
    }

    /// Of a [`gain`]: whether the whole interval is below the limit.
    pub fn is_slower(&self) -> bool {
        self.ratio.interval.high < GAIN
    }

    /// Of a [`tail`]: whether the whole interval is beyond the limit.
    pub fn is_later(&self) -> bool {
        self.ratio.interval.low > P99_FACTOR
    }
}

/// Median wall times of at least one round, in the unit that was given; the ratio is that of the baseline over that of
/// the candidate.
///
/// # Errors
/// No round, or a time that makes no ratio.
pub fn gain(walls: &[Pair<f64>]) -> Result<(Figure, Verdict), SampleError> {
    let medians = |picked: &[f64]| {
        let (mut baseline, mut candidate): (Vec<f64>, Vec<f64>) = picked
            .iter()
            .map(|&round| walls[round as usize])
            .map(|pair| (pair.baseline, pair.candidate))
            .unzip();
        Pair { baseline: median_in_place(&mut baseline), candidate: median_in_place(&mut candidate) }
    };
    let ratio = |picked: &[f64]| {
        let both = medians(picked);
        both.baseline / both.candidate
    };
    let found = estimate(walls.len(), ratio)?;
    let verdict = judge(walls.len(), found.interval.low >= GAIN, found.interval.high < GAIN, |round| {
        ratio(round) < GAIN
    });
    Ok((Figure { sides: medians(&numbers(walls.len())), ratio: found }, verdict))
}

/// What is said of p99.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TailVerdict {
    /// p99 of all operations of all rounds, ns; the ratio is that of the candidate over that of the baseline.
    pub figure: Figure,
    /// By the limit.
    pub verdict: Verdict,
}

/// What is said of a candidate by its gain and its p99 together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CellVerdict {
    /// Harm, as a user would say it: slower; or a longer p99, and no tenth faster.
    pub verdict: Verdict,
    /// The same, where nothing pays for a longer p99.
    pub strict: Verdict,
}

impl CellVerdict {
    /// From [`gain`] and [`tail`].
    pub fn of(wall: &Figure, speed: Verdict, tail: &TailVerdict) -> CellVerdict {
        let Interval { low, high, .. } = wall.ratio.interval;
        let p99 = match tail.verdict {
            _ if low >= PAYS => Verdict::Harmless,
            Verdict::Harms if high >= PAYS => Verdict::Untold,
            told => told,
        };
        CellVerdict { verdict: speed.and(p99), strict: speed.and(tail.verdict) }
    }
}

/// p99 of the times of all operations (ns) of at least one round.
///
/// # Errors
/// No round.
pub fn tail(times: &[Pair<&Histogram>]) -> Result<TailVerdict, SampleError> {
    let p99s = |picked: &[f64]| {
        let mut pooled = Pair { baseline: Histogram::new(), candidate: Histogram::new() };
        for pair in picked.iter().map(|&round| &times[round as usize]) {
            pooled.baseline.merge(pair.baseline);
            pooled.candidate.merge(pair.candidate);
        }
        pooled.map(|times| times.quantile(0.99).unwrap_or(0).max(1) as f64)
    };
    let ratio = |picked: &[f64]| {
        let both = p99s(picked);
        both.candidate / both.baseline
    };
    let rounds = times.len();
    let found = estimate(rounds, ratio)?;
    let Interval { low, high, .. } = found.interval;
    let verdict = judge(rounds, high <= P99_FACTOR, low > P99_FACTOR, |round| ratio(round) > P99_FACTOR);
    Ok(TailVerdict { figure: Figure { sides: p99s(&numbers(rounds)), ratio: found }, verdict })
}

/// `within`, `outside`: where the interval is as a whole. Sign test: harm takes so many bad rounds that a fair coin
/// shows as many heads in 5 % at most.
fn judge(rounds: usize, within: bool, outside: bool, is_bad: impl Fn(&[f64]) -> bool) -> Verdict {
    let bad = (0..rounds).filter(|&round| is_bad(&[round as f64])).count();
    if outside && by_chance(bad, rounds) <= SIGN {
        Verdict::Harms
    } else if within && rounds >= LEAST_ROUNDS {
        Verdict::Harmless
    } else {
        Verdict::Untold
    }
}

/// What is drawn are the numbers of rounds.
fn numbers(rounds: usize) -> Vec<f64> {
    (0..rounds).map(|round| round as f64).collect()
}

fn estimate(rounds: usize, statistic: impl Fn(&[f64]) -> f64) -> Result<Estimate, SampleError> {
    one_sample(&Sample::new(&numbers(rounds))?, |picked| statistic(picked), LEVEL, RESAMPLING)
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

    fn tail_of(rounds: &[Pair<Histogram>]) -> TailVerdict {
        tail(&rounds.iter().map(|pair| pair.map(|times| times)).collect::<Vec<_>>()).unwrap()
    }

    fn both(wall: f64, [alone, helped]: [u64; 2], noise: f64) -> Verdict {
        let rounds = vec![Pair { baseline: times(alone), candidate: times(helped) }; OFF.len()];
        let (figure, speed) = gain(&walls(wall, noise)).unwrap();
        CellVerdict::of(&figure, speed, &tail_of(&rounds)).verdict
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
            let (figure, verdict) = gain(&walls(wall, noise)).unwrap();
            (verdict, figure.is_faster())
        };
        assert_eq!(told(50.0, 3.0), (Verdict::Harmless, true));
        assert_eq!(told(100.0, 0.5), (Verdict::Harmless, false));
        assert_eq!(told(110.0, 1.0), (Verdict::Harms, false));
        assert_eq!(told(100.0, 20.0), (Verdict::Untold, false));
        let (figure, _) = gain(&walls(50.0, 3.0)).unwrap();
        assert!((1.9..2.1).contains(&figure.ratio.value), "{figure:?}");
        assert_eq!(gain(&walls(50.0, 0.0)[..2]).unwrap().1, Verdict::Untold);
        assert_eq!(gain(&[]), Err(SampleError::Empty));
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
        let TailVerdict { figure, verdict, .. } =
            tail_of(&(0..8).map(|i| with(i % 3 == 0)).collect::<Vec<_>>());
        assert!(figure.ratio.interval.low > P99_FACTOR, "{figure:?}");
        assert_eq!(verdict, Verdict::Untold);
    }

    #[test]
    fn p99_fails_beyond_the_factor_whatever_the_time() {
        assert_eq!(both(100.0, [1000, 1150], 0.5), Verdict::Harms);
        assert_eq!(both(100.0, [100, 105], 0.5), Verdict::Harmless);
        assert_eq!(both(100.0, [100, 190], 0.5), Verdict::Harms);
        assert_eq!(both(100.0, [20_000, 21_500], 0.5), Verdict::Harmless);
    }

    #[test]
    fn a_gain_of_a_tenth_pays_for_a_longer_p99_and_the_strict_verdict_says_so() {
        for (wall, noise, p99s_us, verdict, strict) in [
            (100.0, 0.5, [1000, 1200], Verdict::Harms, Verdict::Harms),
            (95.0, 0.5, [1000, 1200], Verdict::Harms, Verdict::Harms),
            (50.0, 0.5, [1000, 1200], Verdict::Harmless, Verdict::Harms),
            // Whether it is a tenth cannot be told.
            (91.0, 3.0, [1000, 1200], Verdict::Untold, Verdict::Harms),
            (110.0, 0.5, [1000, 1000], Verdict::Harms, Verdict::Harms),
        ] {
            let rounds = vec![Pair { baseline: times(p99s_us[0]), candidate: times(p99s_us[1]) }; OFF.len()];
            let (figure, speed) = gain(&walls(wall, noise)).unwrap();
            let said = CellVerdict::of(&figure, speed, &tail_of(&rounds));
            assert_eq!(said, CellVerdict { verdict, strict }, "{wall}, {p99s_us:?}: {figure:?}");
        }
    }

    #[test]
    fn p99_is_that_of_all_operations_together() {
        let mut rounds = vec![Pair { baseline: times(1000), candidate: times(1000) }; OFF.len()];
        // A slow round of 7 has 5 of 700 operations.
        rounds[3].candidate = times(9000);
        let TailVerdict { figure, verdict, .. } = tail_of(&rounds);
        assert!((figure.ratio.value - 1.0).abs() < 0.02, "{figure:?}");
        assert!(figure.ratio.interval.high > 5.0, "{figure:?}");
        assert_eq!(verdict, Verdict::Untold);
    }

    #[test]
    fn harm_is_final_when_it_is_seen_twice() {
        assert!(Verdict::Harmless.is_final(None));
        assert!(!Verdict::Harms.is_final(None) && !Verdict::Harms.is_final(Some(Verdict::Untold)));
        assert!(Verdict::Harms.is_final(Some(Verdict::Harms)));
        assert!(!Verdict::Untold.is_final(Some(Verdict::Untold)));
    }
}
