//! Waits judged several at a time: a few of them may be a busy CPU's, or for what was on its way already.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Waits that are judged together.
pub const WAITS: usize = 8;

/// The waits since the last eight. All methods may race: a lost update costs a sample.
#[derive(Debug, Default)]
pub struct Waits {
    noted: [AtomicU64; WAITS],
    count: AtomicU64,
}

impl Waits {
    /// None yet.
    pub const fn new() -> Waits {
        Waits { noted: [const { AtomicU64::new(0) }; WAITS], count: AtomicU64::new(0) }
    }

    /// Notes a wait, ns; with every eighth the eight of them, the shortest first.
    pub fn note(&self, wait_ns: u64) -> Option<[u64; WAITS]> {
        let count = self.count.fetch_add(1, Relaxed) as usize;
        if let Some(slot) = self.noted.get(count % WAITS) {
            slot.store(wait_ns, Relaxed);
        }
        if count % WAITS < WAITS - 1 {
            return None;
        }
        let mut waits = [0; WAITS];
        waits.iter_mut().zip(&self.noted).for_each(|(wait, noted)| *wait = noted.load(Relaxed));
        waits.sort_unstable();
        Some(waits)
    }
}

/// The latest `N` of a quantity, and what most of them agree on. All methods may race: a lost update costs a sample.
#[derive(Debug)]
pub struct Recent<const N: usize> {
    noted: [AtomicU64; N],
    count: AtomicU64,
}

impl<const N: usize> Default for Recent<N> {
    fn default() -> Recent<N> {
        Recent::new()
    }
}

impl<const N: usize> Recent<N> {
    /// None yet.
    pub const fn new() -> Recent<N> {
        Recent { noted: [const { AtomicU64::new(0) }; N], count: AtomicU64::new(0) }
    }

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
    pub fn len(&self) -> usize {
        usize::try_from(self.count.load(Relaxed)).unwrap_or(N).min(N)
    }

    /// Whether `N` are known.
    pub fn is_full(&self) -> bool {
        self.len() == N
    }

    /// Whether none is known.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The least first, then `u64::MAX`.
    fn sorted(&self) -> ([u64; N], usize) {
        let (mut values, len) = ([u64::MAX; N], self.len());
        values.iter_mut().zip(&self.noted).take(len).for_each(|(value, noted)| *value = noted.load(Relaxed));
        values.sort_unstable();
        (values, len)
    }

    /// A third of them is less, two thirds are more; 0 of none. Of three and more a single one decides nothing.
    pub fn third(&self) -> u64 {
        let (values, len) = self.sorted();
        if len == 0 { 0 } else { values.get(len / 3).copied().unwrap_or(0) }
    }

    /// The second highest, of one or two the highest; 0 of none.
    pub fn second_highest(&self) -> u64 {
        let (values, len) = self.sorted();
        let from_top = if len < 3 { 1 } else { 2 };
        len.checked_sub(from_top).and_then(|at| values.get(at)).copied().unwrap_or(0)
    }

    /// Half of them are less, of two one; 0 of none.
    pub fn median(&self) -> u64 {
        let (values, len) = self.sorted();
        if len == 0 { 0 } else { values.get(len / 2).copied().unwrap_or(0) }
    }

    /// [`Recent::third`] with one more among them, which must not be full.
    pub fn third_with(&self, value: u64) -> u64 {
        let (mut values, len) = self.sorted();
        if let Some(last) = values.last_mut().filter(|_| len < N) {
            *last = value;
        }
        values.sort_unstable();
        values.get((len + 1) / 3).copied().unwrap_or(value)
    }

    /// [`Recent::median`] once there are `N`.
    pub fn full_median(&self) -> Option<u64> {
        (self.len() == N).then(|| self.median())
    }

    /// All but one of `N` are less, once there are `N`.
    pub fn full_most(&self) -> Option<u64> {
        let (values, len) = self.sorted();
        values.iter().rev().nth(1).copied().filter(|_| len == N)
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
    fn every_eighth_wait_brings_the_eight_in_order() {
        let waits = Waits::new();
        let told: Vec<_> = (0..20).filter_map(|at| waits.note(100 - at)).collect();
        assert_eq!(told, [[93, 94, 95, 96, 97, 98, 99, 100], [85, 86, 87, 88, 89, 90, 91, 92]]);
    }

    #[test]
    fn the_latest_decide_and_one_of_them_alone_does_not() {
        let recent = Recent::<8>::new();
        assert_eq!((recent.third(), recent.middle(), recent.full_median()), (0, 0, None));
        recent.note(7);
        assert_eq!((recent.third(), recent.middle(), recent.third_with(5)), (7, 7, 5));
        for value in [1, 6, 1000, 8, 9, 7, 6] {
            recent.note(value);
        }
        // 1 6 6 7 7 8 9 1000
        assert_eq!((recent.third(), recent.full_median(), recent.middle()), (6, Some(7), 7));
        (0..8).for_each(|_| recent.note(50));
        assert_eq!((recent.third(), recent.middle()), (50, 50));
        recent.clear();
        assert!(recent.is_empty());
    }

    /// Against a model that keeps everything.
    #[test]
    fn it_is_what_sorting_the_last_ones_says() {
        let mut random = 20_261_122u64;
        let recent = Recent::<16>::new();
        let mut all = Vec::new();
        for _ in 0..2000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let value = random >> 33 >> (random % 29);
            recent.note(value);
            all.push(value);
            let mut last = all[all.len().saturating_sub(16)..].to_vec();
            last.sort_unstable();
            assert_eq!(recent.third(), last[last.len() / 3]);
            assert_eq!(recent.full_most(), last.get(14).copied().filter(|_| last.len() == 16));
            assert_eq!(recent.median(), last[last.len() / 2]);
            let middle = &last[last.len() / 4..last.len() - last.len() / 4];
            assert_eq!(recent.middle(), middle.iter().sum::<u64>() / middle.len() as u64);
        }
    }
}
