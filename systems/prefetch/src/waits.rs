//! Waits judged several at a time: a few of them may be a busy CPU's, or for what was on its way already.

use crate::shared::New;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The latest `N` of a quantity, and what most of them agree on. All methods may race: a lost update costs a sample.
#[derive(Debug)]
pub struct Recent<const N: usize> {
    noted: [AtomicU64; N],
    count: AtomicU64,
}

impl<const N: usize> New for Recent<N> {
    const NEW: Recent<N> = Recent { noted: New::NEW, count: New::NEW };
}

impl<const N: usize> Recent<N> {
    /// Notes one.
    pub fn note(&self, value: u64) {
        let count = self.count.fetch_add(1, Relaxed) as usize;
        if let Some(slot) = self.noted.get(count % N) {
            slot.store(value, Relaxed);
        }
    }

    /// Forgets all.
    pub fn clear(&self) {
        self.count.store(0, Relaxed);
    }

    /// How many are known, at most `N`.
    pub(crate) fn len(&self) -> usize {
        usize::try_from(self.count.load(Relaxed)).unwrap_or(N).min(N)
    }

    /// The least first, then `u64::MAX`.
    fn sorted(&self) -> ([u64; N], usize) {
        let (mut values, len) = ([u64::MAX; N], self.len());
        values.iter_mut().zip(&self.noted).take(len).for_each(|(value, noted)| *value = noted.load(Relaxed));
        values.sort_unstable();
        (values, len)
    }

    /// So many parts of all of them are less, the rest is as much or more; 0 of none.
    pub fn rank(&self, part: usize, of: usize) -> u64 {
        let (values, len) = self.sorted();
        if len == 0 { 0 } else { values.get(len * part / of).copied().unwrap_or(0) }
    }

    /// The second highest, of one or two the highest; 0 of none.
    pub fn second_highest(&self) -> u64 {
        let (values, len) = self.sorted();
        let from_top = if len < 3 { 1 } else { 2 };
        len.checked_sub(from_top).and_then(|at| values.get(at)).copied().unwrap_or(0)
    }

    /// Once there are `N`: of all but the longest, a hiccup perhaps, the one in which half of their time was spent.
    pub fn full_weighty(&self) -> Option<u64> {
        let (values, len) = self.sorted();
        let rest = values.get(..N - 1).filter(|_| len == N)?;
        let half = rest.iter().fold(0u64, |sum, value| sum.saturating_add(*value)) / 2;
        let mut sum = 0u64;
        rest.iter().copied().rev().find(|value| {
            sum = sum.saturating_add(*value);
            sum > half
        })
    }

    /// The mean of the middle half; 0 of none.
    pub fn middle(&self) -> u64 {
        let (values, len) = self.sorted();
        let middle = values.get(len / 4..len - len / 4).unwrap_or_default();
        let sum = middle.iter().fold(0u64, |sum, value| sum.saturating_add(*value));
        sum / (middle.len() as u64).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_decide_and_one_of_them_alone_does_not() {
        let recent = Recent::<8>::NEW;
        assert_eq!((recent.rank(1, 3), recent.middle(), recent.full_weighty()), (0, 0, None));
        recent.note(7);
        assert_eq!((recent.rank(1, 3), recent.middle()), (7, 7));
        for value in [1, 6, 1000, 8, 9, 7, 6] {
            recent.note(value);
        }
        // 1 6 6 7 7 8 9 1000
        assert_eq!((recent.rank(1, 3), recent.full_weighty(), recent.middle()), (6, Some(7), 7));
        (0..8).for_each(|_| recent.note(50));
        assert_eq!((recent.rank(1, 3), recent.middle()), (50, 50));
        recent.clear();
        assert_eq!(recent.len(), 0);
    }

    /// Against a model that keeps everything.
    #[test]
    fn it_is_what_sorting_the_last_ones_says() {
        let mut random = 20_261_122u64;
        let recent = Recent::<16>::NEW;
        let mut all = Vec::new();
        for _ in 0..2000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let value = random >> 33 >> (random % 29);
            recent.note(value);
            all.push(value);
            let mut last = all[all.len().saturating_sub(16)..].to_vec();
            last.sort_unstable();
            assert_eq!(recent.rank(1, 3), last[last.len() / 3]);
            let middle = &last[last.len() / 4..last.len() - last.len() / 4];
            assert_eq!(recent.middle(), middle.iter().sum::<u64>() / middle.len() as u64);
        }
    }
}
