//! A set of keys given as disjoint ranges: the range deletes pending in a buffer.

use crate::key::{End, Key, KeyRange};
use std::collections::BTreeMap;
use std::ops::Bound;

/// Disjoint half-open ranges that do not touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeSet {
    ranges: BTreeMap<Key, End>,
}

impl RangeSet {
    /// The set of all keys.
    pub fn everything() -> Self {
        let mut set = RangeSet::default();
        set.insert(&KeyRange::all());
        set
    }

    /// Adds every key of `range`.
    pub fn insert(&mut self, range: &KeyRange) {
        if range.is_empty() {
            return;
        }
        let mut merged = range.clone();
        // Walking down from the last range that starts inside or at the end of the new one.
        loop {
            let top = match &merged.hi {
                End::At(hi) => {
                    self.ranges.range::<[u8], _>((Bound::Unbounded, Bound::Included(&hi[..]))).next_back()
                }
                End::Open => self.ranges.iter().next_back(),
            };
            let Some((lo, hi)) = top else { break };
            if *hi < End::At(merged.lo.clone()) {
                break;
            }
            let lo = lo.clone();
            let hi = self.ranges.remove(&lo).unwrap_or(End::Open);
            merged = KeyRange { lo: lo.min(merged.lo), hi: hi.max(merged.hi) };
        }
        self.ranges.insert(merged.lo, merged.hi);
    }

    /// Takes every key of `range` out.
    pub fn remove(&mut self, range: &KeyRange) {
        if range.is_empty() {
            return;
        }
        let first = self.at_or_before(&range.lo).map(|(lo, _)| lo.clone());
        let from = first.unwrap_or_else(|| range.lo.clone());
        let touched: Vec<(Key, End)> = self
            .ranges
            .range::<Key, _>((Bound::Included(&from), Bound::Unbounded))
            .take_while(|(lo, _)| range.hi.is_after(lo))
            .map(|(lo, hi)| (lo.clone(), hi.clone()))
            .collect();
        for (lo, hi) in touched {
            self.ranges.remove(&lo);
            let left = KeyRange { lo, hi: hi.clone() }
                .intersect(&KeyRange { lo: Key::default(), hi: End::At(range.lo.clone()) });
            let mut rest = vec![left];
            if let End::At(end) = &range.hi {
                rest.push(KeyRange { lo: end.clone(), hi });
            }
            for r in rest.into_iter().filter(|r| !r.is_empty()) {
                self.ranges.insert(r.lo, r.hi);
            }
        }
    }

    /// True if `key` is in the set.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.at_or_before(key).is_some_and(|(_, hi)| hi.is_after(key))
    }

    /// True if every key of `range` is in the set.
    pub fn covers(&self, range: &KeyRange) -> bool {
        range.is_empty() || self.at_or_before(&range.lo).is_some_and(|(_, hi)| *hi >= range.hi)
    }

    /// The part of the set inside `window`.
    pub fn clip(&self, window: &KeyRange) -> RangeSet {
        let first = self.at_or_before(&window.lo).map(|(lo, _)| lo.clone());
        let from = first.as_ref().unwrap_or(&window.lo);
        let mut out = RangeSet::default();
        for (lo, hi) in self.ranges.range::<Key, _>((Bound::Included(from), Bound::Unbounded)) {
            if !window.hi.is_after(lo) {
                break;
            }
            let cut = KeyRange { lo: lo.clone(), hi: hi.clone() }.intersect(window);
            if !cut.is_empty() {
                out.ranges.insert(cut.lo, cut.hi);
            }
        }
        out
    }

    /// The ranges in key order.
    pub fn iter(&self) -> impl Iterator<Item = KeyRange> + '_ {
        self.ranges.iter().map(|(lo, hi)| KeyRange { lo: lo.clone(), hi: hi.clone() })
    }

    /// True if no key is in the set.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Number of ranges.
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    fn at_or_before(&self, key: &[u8]) -> Option<(&Key, &End)> {
        self.ranges.range::<[u8], _>((Bound::Unbounded, Bound::Included(key))).next_back()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range(lo: u8, hi: u8) -> KeyRange {
        if hi >= 60 { KeyRange::from(&[lo]) } else { KeyRange::new(&[lo], &[hi]) }
    }

    proptest! {
        #[test]
        fn agrees_with_a_set_of_keys(
            inserts in prop::collection::vec((0u8..64, 0u8..64, any::<bool>()), 0..16), window in (0u8..64, 0u8..64),
        ) {
            let mut set = RangeSet::default();
            let mut model = [false; 80];
            for (lo, hi, add) in inserts {
                let r = range(lo, hi);
                if add {
                    set.insert(&r);
                } else {
                    set.remove(&r);
                }
                (0..80u8).filter(|k| r.contains(&[*k])).for_each(|k| model[k as usize] = add);
            }
            let window = range(window.0, window.1);
            let clipped = set.clip(&window);
            for k in 0..80u8 {
                prop_assert_eq!(set.contains(&[k]), model[k as usize], "key {}", k);
                prop_assert_eq!(clipped.contains(&[k]), model[k as usize] && window.contains(&[k]), "clip {}", k);
            }
            let all: Vec<KeyRange> = set.iter().collect();
            prop_assert!(all.windows(2).all(|w| w[0].hi < End::At(w[1].lo.clone())), "not disjoint: {:?}", all);
            // A single-byte probe set decides covers() up to the open end.
            let inside: Vec<u8> = (0..80u8).filter(|k| window.contains(&[*k])).collect();
            if set.covers(&window) {
                prop_assert!(inside.iter().all(|k| model[*k as usize]));
            }
            for r in &all {
                prop_assert!(set.covers(r));
            }
        }
    }
}
