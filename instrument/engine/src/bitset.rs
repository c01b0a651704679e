//! A set of file indices that many threads change and search without locks.
//!
//! A tree of 64-bit words: a bit in an upper word says that the word below it may hold members. The leaf words are
//! the truth; upper words are hints that are repaired after every change, so a search may see a stale hint for a
//! moment. A search that finds nothing is therefore confirmed by a scan of the leaves. The changes are sequentially
//! consistent: an inserter (leaf, then hint) and a remover (hint, then a look at the leaf) must not both miss the other.

use std::sync::atomic::{AtomicU64, Ordering::*};

/// A concurrent set of integers below a fixed bound.
#[derive(Debug)]
pub struct BitSet {
    /// Level 0 holds the members; each further level has one bit for each word below.
    levels: Vec<Vec<AtomicU64>>,
    bound: u64,
}

impl BitSet {
    /// The empty set of integers below `bound`.
    pub fn empty(bound: u64) -> BitSet {
        let mut levels = Vec::new();
        let mut words = bound.div_ceil(64).max(1);
        loop {
            levels.push((0..words).map(|_| AtomicU64::new(0)).collect::<Vec<_>>());
            if words == 1 {
                return BitSet { levels, bound };
            }
            words = words.div_ceil(64);
        }
    }

    /// The set of all integers below `bound`.
    pub fn full(bound: u64) -> BitSet {
        let set = BitSet::empty(bound);
        let mut below = bound;
        for level in &set.levels {
            for (index, word) in level.iter().enumerate() {
                let left = below.saturating_sub(index as u64 * 64);
                word.store(if left >= 64 { u64::MAX } else { (1 << left) - 1 }, Relaxed);
            }
            below = below.div_ceil(64);
        }
        set
    }

    /// Whether `index` is a member.
    pub fn contains(&self, index: u64) -> bool {
        index < self.bound && self.levels[0][(index / 64) as usize].load(Acquire) >> (index % 64) & 1 == 1
    }

    /// Adds `index`; true when it was not a member.
    pub fn insert(&self, index: u64) -> bool {
        debug_assert!(index < self.bound);
        let mut position = index;
        let mut fresh = false;
        for (height, level) in self.levels.iter().enumerate() {
            let bit = 1 << (position % 64);
            let before = level[(position / 64) as usize].fetch_or(bit, SeqCst);
            if height == 0 {
                fresh = before & bit == 0;
            } else if before & bit != 0 {
                break;
            }
            position /= 64;
        }
        fresh
    }

    /// Removes `index`; true when it was a member: of several threads that try, exactly one is told so.
    pub fn remove(&self, index: u64) -> bool {
        if index >= self.bound {
            return false;
        }
        let bit = 1 << (index % 64);
        let word = &self.levels[0][(index / 64) as usize];
        let before = word.fetch_and(!bit, SeqCst);
        if before & bit != 0 && before & !bit == 0 {
            self.lower_hints(index / 64);
        }
        before & bit != 0
    }

    /// Clears the hints above an emptied word, and puts them back if the word filled up again meanwhile.
    fn lower_hints(&self, mut position: u64) {
        for height in 1..self.levels.len() {
            let bit = 1 << (position % 64);
            let word = &self.levels[height][(position / 64) as usize];
            let left = word.fetch_and(!bit, SeqCst) & !bit;
            if self.levels[height - 1][position as usize].load(SeqCst) != 0 {
                let mut above = position;
                for level in &self.levels[height..] {
                    level[(above / 64) as usize].fetch_or(1 << (above % 64), SeqCst);
                    above /= 64;
                }
                return;
            }
            if left != 0 {
                return;
            }
            position /= 64;
        }
    }

    /// The smallest member >= `start`, or else the smallest member at all.
    #[inline]
    pub fn next_wrapping(&self, start: u64) -> Option<u64> {
        let start = if start < self.bound { start } else { 0 };
        self.next_from(start)
            .or_else(|| if start > 0 { self.next_from(0) } else { None })
            .or_else(|| self.scan())
    }

    /// The smallest member in `start..end`; for short ranges, since it looks at every word.
    #[inline]
    pub fn next_in(&self, start: u64, end: u64) -> Option<u64> {
        let end = end.min(self.bound);
        let mut at = start;
        while at < end {
            let word = self.levels[0][(at / 64) as usize].load(Acquire) >> (at % 64);
            if word != 0 {
                let found = at + u64::from(word.trailing_zeros());
                return (found < end).then_some(found);
            }
            at = (at / 64 + 1) * 64;
        }
        None
    }

    /// The smallest member >= `start`, by the hints.
    #[inline]
    fn next_from(&self, start: u64) -> Option<u64> {
        let mut height = 0;
        let mut position = start;
        loop {
            let level = &self.levels[height];
            let word_index = (position / 64) as usize;
            if word_index >= level.len() {
                return None;
            }
            let word = level[word_index].load(Acquire) & (u64::MAX << (position % 64));
            if word != 0 {
                let found = word_index as u64 * 64 + u64::from(word.trailing_zeros());
                if height == 0 {
                    return Some(found);
                }
                height -= 1;
                position = found * 64;
            } else {
                height += 1;
                if height == self.levels.len() {
                    return None;
                }
                position = position / 64 + 1;
            }
        }
    }

    /// The truth, word by word.
    fn scan(&self) -> Option<u64> {
        if self.levels.len() == 1 {
            return None;
        }
        self.levels[0].iter().enumerate().find_map(|(index, word)| {
            let word = word.load(Acquire);
            (word != 0).then(|| index as u64 * 64 + u64::from(word.trailing_zeros()))
        })
    }

    /// Bytes of memory that the set holds.
    pub fn memory_bytes(&self) -> usize {
        self.levels.iter().map(|level| level.len() * size_of::<AtomicU64>()).sum()
    }

    /// Number of members.
    pub fn count(&self) -> u64 {
        self.levels[0].iter().map(|word| u64::from(word.load(Relaxed).count_ones())).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn full_holds_exactly_its_bound() {
        for bound in [0, 1, 63, 64, 65, 4095, 4096, 4097, 300_000] {
            let set = BitSet::full(bound);
            assert_eq!(set.count(), bound);
            assert_eq!(set.next_wrapping(0), (bound > 0).then_some(0));
            assert_eq!(set.next_wrapping(bound.saturating_sub(1)), bound.checked_sub(1));
        }
    }

    proptest! {
        #[test]
        fn behaves_as_an_ordered_set(bound in 1u64..10_000, steps in prop::collection::vec((0u8..3, any::<u64>()), 0..300)) {
            let set = BitSet::empty(bound);
            let mut model = BTreeSet::new();
            for (step, at) in steps {
                let at = at % bound;
                match step {
                    0 => prop_assert_eq!(set.insert(at), model.insert(at)),
                    1 => prop_assert_eq!(set.remove(at), model.remove(&at)),
                    _ => {
                        let expected = model.range(at..).next().or_else(|| model.first()).copied();
                        prop_assert_eq!(set.next_wrapping(at), expected);
                        let end = at + bound % 100;
                        prop_assert_eq!(set.next_in(at, end), model.range(at..end).next().copied());
                    }
                }
                prop_assert_eq!(set.contains(at), model.contains(&at));
            }
            prop_assert_eq!(set.count(), model.len() as u64);
        }
    }

    /// Threads pass the members around between two sets; nothing may be lost or doubled, and a search must not
    /// miss members for good because of a hint that another thread cleared.
    #[test]
    fn members_survive_concurrent_moves() {
        const MEMBERS: u64 = 700;
        let sets = [BitSet::full(MEMBERS), BitSet::empty(MEMBERS)];
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let sets = &sets;
                scope.spawn(move || {
                    for round in 0..20_000u64 {
                        let (from, to) = if (round + thread) % 2 == 0 { (0, 1) } else { (1, 0) };
                        if let Some(index) = sets[from].next_wrapping(round * 37 % MEMBERS)
                            && sets[from].remove(index)
                        {
                            assert!(sets[to].insert(index));
                        }
                    }
                });
            }
        });
        assert_eq!(sets[0].count() + sets[1].count(), MEMBERS);
        for set in &sets {
            let mut seen = 0;
            let mut at = 0;
            while let Some(found) = set.next_from(at) {
                seen += 1;
                at = found + 1;
            }
            assert_eq!(seen, set.count(), "a hint is missing");
        }
    }
}
