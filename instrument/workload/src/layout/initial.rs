//! Which entries exist at the start.

use crate::rng::Rng;
use crate::shuffle::Shuffle;

/// The entries that exist at the start: the first ones of a random permutation of all entries.
///
/// Holds no list, so it costs no memory and several threads can share the creation by ranks.
#[derive(Debug, Clone)]
pub struct Initial {
    shuffle: Shuffle,
    count: u32,
}

impl Initial {
    pub(super) fn new(entries: u32, percent: u8, rng: Rng) -> Self {
        let percent = u64::from(percent.min(100));
        let count = ((u64::from(entries) * percent + 50) / 100) as u32;
        Initial { shuffle: Shuffle::new(entries, rng), count }
    }

    /// How many entries exist at the start.
    pub fn count(&self) -> usize {
        self.count as usize
    }

    /// Whether this entry exists at the start.
    pub fn contains(&self, entry: usize) -> bool {
        self.count == self.shuffle.len() && entry < self.count()
            || entry < self.shuffle.len() as usize && self.shuffle.rank_of(entry as u32) < self.count
    }

    /// The entry that is made as number `rank`; `rank` has to be below [`Initial::count`].
    pub fn at(&self, rank: usize) -> usize {
        assert!(rank < self.count(), "rank {rank} of {}", self.count);
        self.shuffle.at(rank as u32) as usize
    }

    /// The existing entries in the order in which they are made: a random one, as in Filebench.
    pub fn order(&self) -> impl ExactSizeIterator<Item = usize> + '_ {
        (0..self.count()).map(|rank| self.shuffle.at(rank as u32) as usize)
    }

    /// One bit for each entry, in words of 64, the lowest bit first; set if the entry exists.
    pub fn bitset(&self) -> Vec<u64> {
        let entries = self.shuffle.len() as usize;
        let mut words = vec![0u64; entries.div_ceil(64)];
        if self.count() == entries {
            words.fill(u64::MAX);
            if let (Some(last), 1..) = (words.last_mut(), entries % 64) {
                *last = (1 << (entries % 64)) - 1;
            }
        } else {
            for entry in self.order() {
                words[entry / 64] |= 1 << (entry % 64);
            }
        }
        words
    }
}
