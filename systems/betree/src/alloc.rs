//! Free space: which units are free, and contiguous runs of them.

use crate::block::Segment;
use std::collections::{BTreeMap, BTreeSet};

/// The free units, kept as maximal runs by address and by length.
#[derive(Debug, Default)]
pub struct FreeMap {
    by_start: BTreeMap<u64, u64>,
    by_len: BTreeSet<(u64, u64)>,
    units: u64,
}

impl FreeMap {
    /// All of `[start, end)` is free.
    pub fn new(start: u64, end: u64) -> Self {
        let mut map = FreeMap::default();
        if start < end {
            map.add(start, end - start);
        }
        map
    }

    /// Free units in all.
    pub fn units(&self) -> u64 {
        self.units
    }

    /// The free runs `(start, units)` in address order.
    pub fn runs(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.by_start.iter().map(|(s, l)| (*s, *l))
    }

    fn add(&mut self, start: u64, len: u64) {
        self.by_start.insert(start, len);
        self.by_len.insert((len, start));
        self.units += len;
    }

    fn remove(&mut self, start: u64, len: u64) {
        self.by_start.remove(&start);
        self.by_len.remove(&(len, start));
        self.units -= len;
    }

    /// Takes `units` units: one run from the smallest hole that fits, else the largest holes together, so that
    /// an allocation fails only if there are too few free units, however scattered.
    pub fn allocate(&mut self, units: u64) -> Option<Vec<Segment>> {
        if units == 0 || units > self.units {
            return None;
        }
        let mut out = Vec::new();
        let mut want = units;
        while want > 0 {
            let fitting = self.by_len.range((want, 0)..).next().copied();
            let (len, start) = fitting.or_else(|| self.by_len.last().copied())?;
            let take = want.min(len).min(u32::MAX as u64);
            self.remove(start, len);
            if take < len {
                self.add(start + take, len - take);
            }
            out.push(Segment { start, units: take as u32 });
            want -= take;
        }
        Some(out)
    }

    /// Takes exactly these units; false, and no change, if one of them is not free.
    pub fn take(&mut self, s: Segment) -> bool {
        // It may come from storage, and be anything.
        let Some(end) = s.start.checked_add(s.units.into()) else { return false };
        let start = s.start;
        let Some((hole, len)) = self.by_start.range(..=start).next_back().map(|(a, b)| (*a, *b)) else {
            return false;
        };
        if s.units == 0 || hole + len < end {
            return false;
        }
        self.remove(hole, len);
        if hole < start {
            self.add(hole, start - hole);
        }
        if end < hole + len {
            self.add(end, hole + len - end);
        }
        true
    }

    /// Gives units back; false, and no change, if one of them is free already.
    pub fn free(&mut self, s: Segment) -> bool {
        let (mut start, mut end) = (s.start, s.start + s.units as u64);
        let before = self.by_start.range(..end).next_back().map(|(a, b)| (*a, *b));
        if let Some((hole, len)) = before {
            if hole + len > start {
                return false;
            }
            if hole + len == start {
                self.remove(hole, len);
                start = hole;
            }
        }
        if let Some(len) = self.by_start.get(&end).copied() {
            self.remove(end, len);
            end += len;
        }
        self.add(start, end - start);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn segments_that_end_behind_all_numbers_are_not_free() {
        let mut map = FreeMap::new(0, u64::MAX);
        assert!(!map.take(Segment { start: u64::MAX, units: 1 }));
        assert!(!map.take(Segment { start: u64::MAX - 1, units: u32::MAX }));
        assert_eq!(map.units(), u64::MAX);
    }

    proptest! {
        #[test]
        fn agrees_with_a_bitmap(steps in prop::collection::vec((any::<bool>(), 0usize..64, 1u64..12), 1..80)) {
            let mut map = FreeMap::new(4, 68);
            let mut used = [false; 68];
            used[..4].fill(true);
            let mut held: Vec<Segment> = Vec::new();
            for (allocate, pick, units) in steps {
                if allocate {
                    let free = used.iter().filter(|u| !**u).count() as u64;
                    let got = map.allocate(units);
                    prop_assert_eq!(got.is_some(), units <= free);
                    for s in got.into_iter().flatten() {
                        for u in s.start..s.start + s.units as u64 {
                            prop_assert!(!used[u as usize], "unit {} given twice", u);
                            used[u as usize] = true;
                        }
                        held.push(s);
                    }
                } else if !held.is_empty() {
                    let s = held.swap_remove(pick % held.len());
                    prop_assert!(map.free(s));
                    prop_assert!(!map.free(s), "double free accepted");
                    prop_assert!(map.take(s) && !map.take(s) && map.free(s));
                    (s.start..s.start + s.units as u64).for_each(|u| used[u as usize] = false);
                }
                prop_assert_eq!(map.units(), used.iter().filter(|u| !**u).count() as u64);
                let runs: Vec<_> = map.runs().collect();
                prop_assert!(runs.windows(2).all(|w| w[0].0 + w[0].1 < w[1].0), "runs not merged");
                prop_assert!(runs.iter().all(|(s, l)| (*s..s + l).all(|u| !used[u as usize])));
            }
        }
    }
}
