//! How a cell is judged.
//!
//! Gain: median wall time without the library over that with it. p99: of all reads of all rounds of an arm together.
//! Both get a BCa bootstrap interval of 90 % over rounds (a round, both its runs, is drawn as a whole), so that each
//! limit is tested at 5 %. The limits: gain 0.97; p99 at most 1.1 times, or 0.1 ms above, that without.
//!
//! - `ok`: both intervals are within the limits as a whole.
//! - `FAILS`: one interval is outside of its limit as a whole, and so many of the single rounds are that chance alone
//!   would do it in 5 % (sign test): five rounds on a noisy machine have too narrow an interval of p99.
//! - `untold`: anything else.
//!
//! Rounds are added to untold cells, and once to a cell that fails, which must then fail again. The tests do not know
//! of that: the rate of false alarms is measured (`--control`), not computed.

use stats::bootstrap::{Resampling, one_sample};
use stats::{Estimate, Histogram, Sample, SampleError};

use crate::run::{Round, Run};

/// Confidence of the intervals.
pub const LEVEL: f64 = 0.9;
/// How they are drawn.
pub const RESAMPLING: Resampling = Resampling { resamples: 1000, seed: 0x10ad_11fe };
/// The least gain.
pub(crate) const GAIN: f64 = 0.97;
/// The most that p99 may grow: this factor or this time, whichever is more.
const P99_FACTOR: f64 = 1.1;
const P99_NS: f64 = 100_000.0;

/// The sign test's level.
pub(crate) const SIGN: f64 = 0.05;

/// What is said of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Within the limits.
    Ok,
    /// Outside.
    Fails,
    /// More rounds are needed.
    Untold,
}

/// The figures of a cell.
#[derive(Debug, Clone, Copy)]
pub struct Judged {
    /// Median wall time alone over that with the library.
    pub gain: Estimate,
    /// p99 with the library over that alone.
    pub p99: Estimate,
    /// p99 with the library over the most that is allowed.
    over: Estimate,
    /// Single rounds whose own gain is too small, and whose own p99 is too long, are more than chance makes.
    confirmed: [bool; 2],
}

fn median(rounds: &[Round], picked: &[f64], run: fn(&Round) -> &Run) -> f64 {
    let mut walls: Vec<f64> = picked.iter().map(|&i| run(&rounds[i as usize]).wall_ns).collect();
    walls.sort_unstable_by(f64::total_cmp);
    let middle = walls.len() / 2;
    if walls.len() % 2 == 1 { walls[middle] } else { (walls[middle - 1] + walls[middle]) / 2.0 }
}

fn pooled_p99(rounds: &[Round], picked: &[f64], run: fn(&Round) -> &Run) -> f64 {
    let mut all = Histogram::new();
    for &i in picked {
        all.merge(&run(&rounds[i as usize]).reads);
    }
    all.quantile(0.99).unwrap_or(0).max(1) as f64
}

/// Medians of both arms, ns.
pub(crate) fn walls(rounds: &[Round]) -> (f64, f64) {
    let all: Vec<f64> = (0..rounds.len()).map(|i| i as f64).collect();
    (median(rounds, &all, |r| &r.alone), median(rounds, &all, |r| &r.helped))
}

/// p99 of both arms, ns.
pub(crate) fn p99s(rounds: &[Round]) -> (f64, f64) {
    let all: Vec<f64> = (0..rounds.len()).map(|i| i as f64).collect();
    (pooled_p99(rounds, &all, |r| &r.alone), pooled_p99(rounds, &all, |r| &r.helped))
}

/// The chance that of `n` tosses of a coin at least `heads` show heads.
pub(crate) fn by_chance(heads: usize, n: usize) -> f64 {
    let mut ways = 1.0;
    let mut sum = 0.0;
    for k in 0..=n {
        if k >= heads {
            sum += ways;
        }
        ways *= (n - k) as f64 / (k + 1) as f64;
    }
    sum / 2f64.powi(n as i32)
}

impl Judged {
    /// Of at least one round.
    pub(crate) fn of(rounds: &[Round]) -> Result<Judged, SampleError> {
        // What is drawn are the numbers of rounds.
        let numbers: Vec<f64> = (0..rounds.len()).map(|i| i as f64).collect();
        let numbers = Sample::new(&numbers)?;
        let p99 = |picked: &[f64]| {
            (pooled_p99(rounds, picked, |r| &r.alone), pooled_p99(rounds, picked, |r| &r.helped))
        };
        let gain =
            |picked: &mut [f64]| median(rounds, picked, |r| &r.alone) / median(rounds, picked, |r| &r.helped);
        let ratio = |picked: &mut [f64]| {
            let (alone, helped) = p99(picked);
            helped / alone
        };
        let over = |picked: &mut [f64]| {
            let (alone, helped) = p99(picked);
            helped / (alone * P99_FACTOR).max(alone + P99_NS)
        };
        let single = || (0..rounds.len()).map(|i| [i as f64]);
        let slower = single().filter(|i| gain(&mut i.clone()) < GAIN).count();
        let later = single().filter(|i| over(&mut i.clone()) > 1.0).count();
        Ok(Judged {
            gain: one_sample(&numbers, gain, LEVEL, RESAMPLING)?,
            p99: one_sample(&numbers, ratio, LEVEL, RESAMPLING)?,
            over: one_sample(&numbers, over, LEVEL, RESAMPLING)?,
            confirmed: [slower, later].map(|count| by_chance(count, rounds.len()) <= SIGN),
        })
    }

    /// Of both limits.
    pub fn verdict(&self) -> Verdict {
        let (gain, over) = (self.gain.interval, self.over.interval);
        let [slower, later] = self.confirmed;
        if gain.high < GAIN && slower || over.low > 1.0 && later {
            Verdict::Fails
        } else if gain.low >= GAIN && over.high <= 1.0 {
            Verdict::Ok
        } else {
            Verdict::Untold
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(wall_ns: f64, p99_us: u64) -> Run {
        let mut reads = Histogram::new();
        reads.record_n(10_000, 95);
        reads.record_n(p99_us * 1000, 5);
        Run { wall_ns, reads, peak_bytes: 0 }
    }

    /// Rounds in which the first arm takes 100 and the second `wall`, both plus what a round adds.
    fn rounds(wall: f64, p99_us: [u64; 2], noise: f64) -> Vec<Round> {
        let off = [0.0, 0.5, -0.7, 1.0, -1.0, 0.2, -0.3];
        let shifted = off.iter().zip(off.iter().rev());
        shifted
            .map(|(a, b)| Round {
                alone: run(100.0 + a * noise, p99_us[0]),
                helped: run(wall + b * noise, p99_us[1]),
            })
            .collect()
    }

    fn verdict(wall: f64, p99_us: [u64; 2], noise: f64) -> Verdict {
        Judged::of(&rounds(wall, p99_us, noise)).unwrap().verdict()
    }

    #[test]
    fn quiet_cells_are_told_and_noisy_ones_not() {
        assert_eq!(verdict(100.0, [1000, 1000], 0.5), Verdict::Ok);
        assert_eq!(verdict(50.0, [1000, 500], 5.0), Verdict::Ok);
        assert_eq!(verdict(110.0, [1000, 1000], 1.0), Verdict::Fails);
        assert_eq!(verdict(100.0, [1000, 1000], 20.0), Verdict::Untold);
        assert_eq!(verdict(103.0, [1000, 1000], 2.0), Verdict::Untold);
    }

    #[test]
    fn a_coin_shows_five_heads_of_five_once_in_32() {
        assert_eq!(by_chance(5, 5), 1.0 / 32.0);
        assert_eq!(by_chance(4, 5), 6.0 / 32.0);
        assert_eq!(by_chance(0, 7), 1.0);
        assert!((by_chance(12, 15) - 576.0 / 32768.0).abs() < 1e-12);
    }

    #[test]
    fn a_failure_needs_most_of_the_single_rounds() {
        // Each tenth read of 3 rounds of 8 is slow: some of these are in nearly every draw of 8.
        let with = |slow: bool| {
            let mut helped = run(100.0, 1000);
            helped.reads.record_n(9_000_000, if slow { 10 } else { 0 });
            Round { alone: run(100.0, 1000), helped }
        };
        let rounds: Vec<Round> = (0..8).map(|i| with(i % 3 == 0)).collect();
        let judged = Judged::of(&rounds).unwrap();
        assert!(judged.over.interval.low > 1.0, "{judged:?}");
        assert_eq!(judged.verdict(), Verdict::Untold);
    }

    #[test]
    fn p99_fails_beyond_both_the_factor_and_the_time() {
        assert_eq!(verdict(100.0, [1000, 1150], 0.5), Verdict::Fails);
        assert_eq!(verdict(100.0, [100, 190], 0.5), Verdict::Ok);
        assert_eq!(verdict(100.0, [100, 220], 0.5), Verdict::Fails);
        assert_eq!(verdict(100.0, [20_000, 21_500], 0.5), Verdict::Ok);
        // A gain in wall time does not pay for it.
        assert_eq!(verdict(50.0, [1000, 1200], 0.5), Verdict::Fails);
    }

    #[test]
    fn p99_is_that_of_all_reads_together() {
        let mut rounds = rounds(100.0, [1000, 1000], 0.5);
        // A slow round of 7 has 5 of 700 reads.
        rounds[3].helped = run(100.0, 9000);
        let judged = Judged::of(&rounds).unwrap();
        assert!((judged.p99.value - 1.0).abs() < 0.02, "{judged:?}");
        assert!(judged.p99.interval.high > 5.0, "{judged:?}");
        assert_eq!(judged.verdict(), Verdict::Untold);
    }
}
