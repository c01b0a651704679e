//! Which blocks of a file were visited: a bit for each, and above it a bit for each full word, so that the next free block is
//! found in a few steps even when nearly all are taken.

/// Blocks visited.
#[derive(Debug, Clone)]
pub(super) struct BlockMap {
    blocks: u64,
    /// The lowest level has a bit for each block; those above for each full word below.
    levels: Vec<Vec<u64>>,
}

impl BlockMap {
    /// No block is visited.
    pub(super) fn new(blocks: u64) -> BlockMap {
        let mut levels = Vec::new();
        let mut bits = blocks.max(1);
        loop {
            let words = bits.div_ceil(64);
            levels.push(vec![0u64; words as usize]);
            if words == 1 {
                break;
            }
            bits = words;
        }
        let mut map = BlockMap { blocks, levels };
        map.clear();
        map
    }

    /// Forgets all visits.
    pub(super) fn clear(&mut self) {
        let mut bits = self.blocks;
        for level in &mut self.levels {
            level.fill(0);
            // what lies past the end is never free
            if let (Some(last), rest) = (level.last_mut(), bits % 64)
                && rest > 0
            {
                *last = !0 << rest;
            }
            bits = bits.div_ceil(64);
        }
        if self.blocks == 0 {
            self.levels[0][0] = !0;
        }
    }

    /// Whether a block was visited, or is none.
    pub(super) fn is_taken(&self, block: u64) -> bool {
        block >= self.blocks || self.levels[0][(block / 64) as usize] >> (block % 64) & 1 == 1
    }

    /// Marks up to `count` blocks from `block` on; ends before the first that was marked, or past the end. Returns how many.
    pub(super) fn take(&mut self, block: u64, count: u64) -> u64 {
        let mut taken = 0;
        while taken < count && !self.is_taken(block + taken) {
            self.mark(block + taken);
            taken += 1;
        }
        taken
    }

    fn mark(&mut self, mut bit: u64) {
        for level in &mut self.levels {
            let word = &mut level[(bit / 64) as usize];
            *word |= 1 << (bit % 64);
            if *word != !0 {
                return;
            }
            bit /= 64;
        }
    }

    /// The next free block behind `block`, then from the beginning.
    pub(super) fn next_free(&self, block: u64) -> Option<u64> {
        self.free_from(0, block + 1).or_else(|| self.free_from(0, 0))
    }

    /// The first bit at or behind `from` of a level that is not set.
    fn free_from(&self, level: usize, from: u64) -> Option<u64> {
        let words = self.levels.get(level)?;
        let (at, bit) = ((from / 64) as usize, from % 64);
        let free = !words.get(at)? & (!0 << bit);
        if free != 0 {
            return Some(at as u64 * 64 + u64::from(free.trailing_zeros()));
        }
        let word = self.free_from(level + 1, at as u64 + 1)?;
        let free = !words.get(word as usize)?;
        (free != 0).then(|| word * 64 + u64::from(free.trailing_zeros()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against a list of flags, with random operations.
    #[test]
    fn the_map_agrees_with_a_list_of_flags() {
        for blocks in [1u64, 3, 63, 64, 65, 4096, 4097, 70_001] {
            let mut random = super::super::random::Random::new(blocks as u32);
            let (mut map, mut flags) = (BlockMap::new(blocks), vec![false; blocks as usize]);
            for _ in 0..3 * blocks.min(5000) {
                let at = u64::from(random.bits()) % blocks;
                assert_eq!(map.is_taken(at), flags[at as usize]);
                let behind = (at as usize + 1..blocks as usize).chain(0..blocks as usize);
                let expected = behind.clone().find(|at| !flags[*at]).map(|at| at as u64);
                assert_eq!(map.next_free(at), expected, "blocks {blocks}, behind {at}");
                let count = u64::from(random.bits()) % 9 + 1;
                let free = (at..blocks.min(at + count)).take_while(|at| !flags[*at as usize]).count() as u64;
                assert_eq!(map.take(at, count), free);
                flags[at as usize..(at + free) as usize].fill(true);
            }
            map.clear();
            assert_eq!((0..blocks).find(|at| map.is_taken(*at)), None);
        }
    }
}
