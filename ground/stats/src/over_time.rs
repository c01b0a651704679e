//! How latencies were distributed second by second, coarse enough to be kept of every trial.

use serde::{Deserialize, Serialize};

use crate::histogram::Histogram;

/// More steps than this are joined two by two: a trial of two minutes has each second, one of an hour steps of 32 s.
pub const STEPS_MAX: usize = 128;

/// A sparse histogram with four buckets an octave: a bucket's ends lie within a factor of 1.25 of each other (for values from
/// 64 on; below, a bucket holds 16 values).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Coarse(Vec<(u8, u64)>);

impl Coarse {
    /// What a histogram counted.
    pub fn of(histogram: &Histogram) -> Coarse {
        Coarse(histogram.quarters())
    }

    /// Nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// `(smallest value, first value above, count)` of each bucket that holds something, ascending.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> {
        self.0.iter().map(|(bucket, count)| {
            let (low, high) = Histogram::quarter(*bucket);
            (low, high.saturating_add(1), *count)
        })
    }

    /// Adds what another one counted.
    pub fn add(&mut self, other: &Coarse) {
        self.combine(other, u64::saturating_add);
    }

    /// What was counted since `earlier`, of the same histogram.
    fn since(mut self, earlier: &Coarse) -> Coarse {
        self.combine(earlier, u64::saturating_sub);
        self.0.retain(|(_, count)| *count > 0);
        self
    }

    fn combine(&mut self, other: &Coarse, joined: fn(u64, u64) -> u64) {
        for (bucket, count) in &other.0 {
            match self.0.binary_search_by_key(bucket, |one| one.0) {
                Ok(at) => self.0[at].1 = joined(self.0[at].1, *count),
                Err(at) => self.0.insert(at, (*bucket, joined(0, *count))),
            }
        }
    }
}

/// Distributions of latencies in nanoseconds, one for each step of a measured interval from its beginning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OverTime {
    /// Length of a step in seconds, a power of two.
    step_seconds: u32,
    /// The steps; the last one may be shorter.
    steps: Vec<Coarse>,
}

impl Default for OverTime {
    fn default() -> Self {
        OverTime { step_seconds: 1, steps: Vec::new() }
    }
}

impl OverTime {
    /// Length of a step in seconds.
    pub fn step_seconds(&self) -> u32 {
        self.step_seconds.max(1)
    }

    /// The distributions, step by step.
    pub fn steps(&self) -> &[Coarse] {
        &self.steps
    }

    /// Nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.steps.iter().all(Coarse::is_empty)
    }

    /// Adds `what` to the step of a second, from 0; the interval is at least `seconds` long.
    fn put(&mut self, second: usize, what: &Coarse, seconds: usize) {
        while seconds.div_ceil(self.step_seconds() as usize) > STEPS_MAX {
            self.halve();
        }
        let step = self.step_seconds() as usize;
        let needed = seconds.div_ceil(step).max(second / step + 1);
        self.steps.resize(self.steps.len().max(needed), Coarse::default());
        self.steps[second / step].add(what);
    }

    fn halve(&mut self) {
        self.step_seconds = self.step_seconds().saturating_mul(2);
        let pairs = self.steps.chunks(2).map(|pair| {
            let mut sum = pair[0].clone();
            pair.get(1).into_iter().for_each(|other| sum.add(other));
            sum
        });
        self.steps = pairs.collect();
    }

    /// Adds what was measured at the same time, or in another trial.
    pub fn merge(&mut self, other: &OverTime) {
        let mut other = other.clone();
        while self.step_seconds() < other.step_seconds() && self.step_seconds() < 1 << 30 {
            self.halve();
        }
        while other.step_seconds() < self.step_seconds() {
            other.halve();
        }
        self.steps.resize(self.steps.len().max(other.steps.len()), Coarse::default());
        self.steps.iter_mut().zip(&other.steps).for_each(|(mine, theirs)| mine.add(theirs));
        while self.steps.len() > STEPS_MAX {
            self.halve();
        }
    }
}

/// Fills an [`OverTime`] from a histogram that only grows: it is looked at when seconds are over, and recording a value costs
/// nothing more.
#[derive(Debug, Clone, Default)]
pub struct Follower {
    over_time: OverTime,
    seen: Coarse,
    seconds: usize,
}

impl Follower {
    /// The first `seconds` whole seconds are over, and `so_far` is all that was counted in them. What came since the last
    /// time belongs to the first of the seconds that were not over then.
    pub fn close(&mut self, seconds: usize, so_far: &Histogram) {
        if seconds <= self.seconds {
            return;
        }
        let now = Coarse::of(so_far);
        let since = now.clone().since(&self.seen);
        self.over_time.put(self.seconds, &since, seconds);
        (self.seen, self.seconds) = (now, seconds);
    }

    /// Adds what another one has followed.
    pub fn merge(&mut self, other: &Follower) {
        self.over_time.merge(&other.over_time);
    }

    /// What was found; `None` when nothing was counted.
    pub fn finish(self) -> Option<OverTime> {
        (!self.over_time.is_empty()).then_some(self.over_time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn total(over_time: &OverTime) -> u64 {
        over_time.steps().iter().flat_map(Coarse::buckets).map(|(.., count)| count).sum()
    }

    #[test]
    fn each_value_is_counted_in_its_second_and_bucket() {
        let (mut histogram, mut follower) = (Histogram::new(), Follower::default());
        for (second, values) in [&[10_u64, 1_000][..], &[], &[1_000, 70_000_000]].into_iter().enumerate() {
            histogram.extend(values.iter().copied());
            follower.close(second + 1, &histogram);
        }
        let over_time = follower.finish().unwrap();
        let counts: Vec<Vec<(u64, u64, u64)>> =
            over_time.steps().iter().map(|step| step.buckets().collect()).collect();
        assert_eq!((counts.len(), counts[0].len(), counts[1].len(), counts[2].len()), (3, 2, 0, 2));
        for (step, values) in [(0, [10, 1_000]), (2, [1_000, 70_000_000])] {
            for ((low, high, count), value) in counts[step].iter().zip(values) {
                assert!((*low..*high).contains(&value) && *count == 1, "{low} {high} {count}");
                assert!(value < 64 || *high <= low + low / 4, "{low} {high}");
            }
        }
    }

    #[test]
    fn a_long_trial_loses_nothing_but_resolution() {
        let (mut histogram, mut follower) = (Histogram::new(), Follower::default());
        for second in 0..1_000_u64 {
            histogram.record(1 + second * 1_000);
            follower.close(second as usize + 1, &histogram);
        }
        let over_time = follower.finish().unwrap();
        assert_eq!((over_time.step_seconds(), over_time.steps().len(), total(&over_time)), (8, 125, 1_000));
        let one: u64 = over_time.steps()[3].buckets().map(|(.., count)| count).sum();
        assert_eq!(one, 8);
    }

    #[test]
    fn what_ran_together_is_added_step_by_step() {
        let mut long = OverTime::default();
        let one = Coarse::of(&[5_000].into_iter().collect());
        (0..300).for_each(|second| long.put(second, &one, second + 1));
        let mut short = OverTime::default();
        (0..3).for_each(|second| short.put(second, &one, second + 1));
        let mut sum = short.clone();
        sum.merge(&long);
        long.merge(&short);
        assert_eq!(sum, long);
        assert_eq!((sum.step_seconds(), total(&sum)), (4, 303));
        let first: u64 = sum.steps()[0].buckets().map(|(.., count)| count).sum();
        assert_eq!(first, 7);
    }

    #[test]
    fn nothing_counted_is_nothing_stored() {
        let mut follower = Follower::default();
        follower.close(5, &Histogram::new());
        assert_eq!(follower.finish(), None);
    }
}
