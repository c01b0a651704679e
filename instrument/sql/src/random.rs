//! Random numbers of loads: ranges with both ends, texts, sysbench's `special` distribution.

use workload::rng::{Purpose, Rng, StreamId};

/// A stream of random numbers.
#[derive(Debug, Clone)]
pub struct Random(Rng);

impl Random {
    /// The stream of one terminal in a run.
    pub fn of_terminal(seed: u64, terminal: u32) -> Random {
        Random(StreamId { seed, process: 0, thread: terminal, purpose: Purpose::Operations }.rng())
    }

    /// The stream of what is made once; `number` keeps its users apart.
    pub fn of_data(seed: u64, number: u64) -> Random {
        Random(StreamId::of_run(seed, Purpose::Other(number)).rng())
    }

    /// A whole number from `low` to `high`, both included.
    pub fn within(&mut self, low: i64, high: i64) -> i64 {
        low + self.0.below(high.abs_diff(low) + 1) as i64
    }

    /// True in `percent` of 100 cases.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.0.below(100) < percent
    }

    /// A number in [0, 1).
    pub fn unit(&mut self) -> f64 {
        self.0.unit()
    }

    /// Letters and digits, so many as a number from `low` to `high` says.
    pub fn letters(&mut self, low: usize, high: usize) -> String {
        const LETTERS: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
        let length = self.within(low as i64, high as i64) as usize;
        (0..length).map(|_| char::from(LETTERS[self.0.below(62) as usize])).collect()
    }

    /// `length` digits.
    pub fn digits(&mut self, length: usize) -> String {
        (0..length).map(|_| self.digit()).collect()
    }

    fn digit(&mut self) -> char {
        char::from(b'0' + self.0.below(10) as u8)
    }

    /// Groups of 11 digits, joined by dashes: the texts of sysbench's tables.
    pub fn groups(&mut self, groups: usize) -> String {
        (0..groups).map(|_| self.digits(GROUP_DIGITS)).collect::<Vec<_>>().join("-")
    }

    /// Every order is as likely as every other one.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.0.below(i as u64 + 1) as usize);
        }
    }
}

/// Digits of a group in the texts of sysbench's tables.
const GROUP_DIGITS: usize = 11;

/// How sysbench draws row numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Distribution {
    /// Each as likely as each other: the default since 1.1.
    Uniform,
    /// Most draws in the middle: the default of 1.0.
    Special,
}

/// Draws of `special` whose share falls into the middle (option `rand-spec-res`), as a share.
const SPECIAL_SHARE: f64 = 0.75;
/// How large that middle is (`rand-spec-pct`), as a share of the range.
const SPECIAL_MIDDLE: f64 = 0.01;
/// Uniform numbers whose mean the other draws are (`rand-spec-iter`).
const SPECIAL_MEAN_OF: u32 = 12;

impl Distribution {
    /// Draws from `low` to `high`.
    ///
    /// `special` after sysbench 1.0.20 (`sb_rand.c`): one uniform number u decides. Below 1/4, the draw is the mean of
    /// 12 further uniform numbers over the range. Else u itself is stretched over a window of 1 % of the range around
    /// the middle; since u is then at least 1/4, the lowest quarter of the window is never drawn. That is kept: it is
    /// the distribution that published figures were measured with.
    pub fn draw(self, random: &mut Random, low: i64, high: i64) -> i64 {
        match self {
            Distribution::Uniform => random.within(low, high),
            Distribution::Special => {
                let range = (high - low) as f64;
                let u = random.unit();
                if u < 1.0 - SPECIAL_SHARE {
                    let sum: f64 = (0..SPECIAL_MEAN_OF).map(|_| random.unit()).sum();
                    return low + (sum * range / f64::from(SPECIAL_MEAN_OF)) as i64;
                }
                let middle = range * SPECIAL_MIDDLE;
                low + (u * (middle + 1.0) + range / 2.0 - middle / 2.0) as i64
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_draws_three_quarters_in_three_quarters_of_a_hundredth() {
        let mut random = Random::of_data(1, 0);
        let (draws, rows) = (100_000, 100_000);
        let mut middle = 0;
        for _ in 0..draws {
            let drawn = Distribution::Special.draw(&mut random, 1, rows);
            assert!((1..=rows).contains(&drawn));
            // the window of 1 % begins at 49,500; its first quarter stays empty
            if (49_750..=50_501).contains(&drawn) {
                middle += 1;
            }
        }
        let share = f64::from(middle) / f64::from(draws);
        // 75 %, and what the bell of the others has there: density of a mean of 12 in its middle, 1.38 / 0.4 x 0.0075
        // x 0.25
        assert!((0.75..0.77).contains(&share), "{share}");
    }

    #[test]
    fn uniform_draws_reach_both_ends() {
        let mut random = Random::of_terminal(1, 3);
        let drawn: std::collections::BTreeSet<i64> =
            (0..1000).map(|_| Distribution::Uniform.draw(&mut random, 5, 9)).collect();
        assert_eq!(drawn.into_iter().collect::<Vec<_>>(), [5, 6, 7, 8, 9]);
    }

    #[test]
    fn texts_have_the_lengths_of_sysbench() {
        let mut random = Random::of_data(7, 1);
        assert_eq!((random.groups(10).len(), random.groups(5).len()), (119, 59));
        let text = random.letters(3, 5);
        assert!((3..=5).contains(&text.len()) && text.chars().all(|c| c.is_ascii_alphanumeric()));
    }
}
