//! What of a file is reserved: areas, and which of their blocks are unwritten.

use std::ops::Range;

use super::bitmap::Bitmap;

/// What of a file is reserved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reserved {
    /// Areas, ascending, with a gap between each two; their unwritten blocks are set.
    areas: Vec<Bitmap>,
    /// How many these are.
    unwritten: u64,
}

impl Reserved {
    /// Blocks that are reserved and have no data: for each the store has promised space.
    pub(in crate::fs) fn unwritten(&self) -> u64 {
        self.unwritten
    }

    /// Nothing is reserved.
    pub(super) fn is_empty(&self) -> bool {
        self.areas.is_empty()
    }

    /// First block and end of each area.
    pub(super) fn areas(&self) -> impl ExactSizeIterator<Item = (u64, u64)> {
        self.areas.iter().map(|area| (area.first, area.end))
    }

    /// Blocks of all areas.
    pub(super) fn blocks(&self) -> u64 {
        self.areas().map(|(first, end)| end - first).sum()
    }

    fn count_again(&mut self) {
        self.unwritten = self.areas.iter().map(Bitmap::count).sum();
    }

    /// Whether a block is reserved and has no data.
    pub(in crate::fs) fn is_unwritten(&self, block: u64) -> bool {
        self.areas.iter().any(|area| area.has(block))
    }

    /// How many of the blocks `[first, end)` are reserved and have no data.
    pub(super) fn unwritten_in(&self, first: u64, end: u64) -> u64 {
        let of = |area: &Bitmap| area.within(first, end).filter(|block| area.has(*block)).count() as u64;
        self.areas.iter().map(of).sum()
    }

    /// True if all of these blocks are reserved.
    pub(super) fn covers(&self, first: u64, end: u64) -> bool {
        self.areas.iter().any(|area| area.first <= first && end <= area.end)
    }

    /// Whether a block is reserved, and the first one behind it of which that is not so.
    pub(in crate::fs) fn run(&self, block: u64) -> (bool, u64) {
        match self.areas.iter().find(|area| block < area.end) {
            Some(area) if area.first <= block => (true, area.end),
            Some(area) => (false, area.first),
            None => (false, u64::MAX),
        }
    }

    /// Those of the blocks `[first, end)` that are not reserved.
    pub(super) fn gaps(&self, first: u64, end: u64) -> Vec<Range<u64>> {
        let mut gaps = Vec::new();
        let mut from = first;
        for area in self.areas.iter().filter(|area| first < area.end && area.first < end) {
            gaps.push(from..area.first.max(from));
            from = area.end;
        }
        gaps.push(from..end.max(from));
        gaps.retain(|gap| !gap.is_empty());
        gaps
    }

    /// These blocks are written.
    pub(super) fn write(&mut self, first: u64, end: u64) {
        self.unwritten -= self.unwritten_in(first, end);
        for area in &mut self.areas {
            area.within(first, end).for_each(|block| area.set(block, false));
        }
    }

    /// These blocks are reserved; of those that were not before, the unwritten ones are set.
    pub(super) fn reserve(&mut self, blocks: &Bitmap) {
        let (first, end) = (blocks.first, blocks.end);
        let (touching, mut others): (Vec<Bitmap>, Vec<Bitmap>) =
            self.areas.drain(..).partition(|area| area.first <= end && first <= area.end);
        let lowest = touching.iter().map(|area| area.first).fold(first, u64::min);
        let highest = touching.iter().map(|area| area.end).fold(end, u64::max);
        let mut area = blocks.resized(lowest, highest);
        for old in touching {
            (old.first..old.end).for_each(|block| area.set(block, old.has(block)));
        }
        others.push(area);
        others.sort_by_key(|area| area.first);
        self.areas = others;
        self.count_again();
    }

    /// These blocks are no longer reserved.
    pub(super) fn unreserve(&mut self, first: u64, end: u64) {
        if first >= end {
            return;
        }
        let parts = self.areas.drain(..).flat_map(|area| {
            let (low, high) = ((area.first, area.end.min(first)), (area.first.max(end), area.end));
            [low, high].map(|(first, end)| (first < end).then(|| area.resized(first, end)))
        });
        self.areas = parts.collect::<Vec<_>>().into_iter().flatten().collect();
        self.count_again();
    }
}

#[cfg(test)]
mod tests {
    use super::super::format::{decode, encode};
    use super::*;

    /// Against a list with two flags for each block.
    #[test]
    fn areas_are_those_of_a_list_of_blocks() {
        const BLOCKS: u64 = 200;
        for seed in 0..200u64 {
            let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
            let mut below = |n: u64| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                (random >> 8) % n
            };
            let mut reserved = Reserved::default();
            let mut model = [(false, false); BLOCKS as usize];
            for step in 0..60 {
                let (a, b) = (below(BLOCKS), below(BLOCKS));
                let kind = below(3);
                let (first, end) = (a.min(b), a.max(b) + if kind == 0 { 1 } else { below(2) });
                let range = first as usize..end as usize;
                let gaps: Vec<u64> = reserved.gaps(first, end).into_iter().flatten().collect();
                let expected: Vec<u64> = (first..end).filter(|block| !model[*block as usize].0).collect();
                assert_eq!(gaps, expected, "seed {seed} step {step}");
                match kind {
                    0 => {
                        let mut blocks = Bitmap::new(first, end);
                        (first..end).for_each(|block| blocks.set(block, below(3) != 0));
                        for block in range.clone() {
                            if !model[block].0 {
                                model[block] = (true, blocks.has(block as u64));
                            }
                        }
                        reserved.reserve(&blocks);
                    }
                    1 => {
                        let expected = model[range.clone()].iter().filter(|m| m.1).count() as u64;
                        assert_eq!(reserved.unwritten_in(first, end), expected, "seed {seed} step {step}");
                        model[range.clone()].iter_mut().for_each(|m| m.1 = false);
                        reserved.write(first, end);
                    }
                    _ => {
                        model[range.clone()].fill((false, false));
                        reserved.unreserve(first, end);
                    }
                }
                let unwritten = model.iter().filter(|m| m.1).count() as u64;
                assert_eq!(reserved.unwritten(), unwritten, "seed {seed} step {step}");
                let all = model[range].iter().all(|m| m.0);
                assert_eq!(
                    reserved.covers(first, end) || first == end,
                    all,
                    "seed {seed} step {step}: {first}..{end}"
                );
                let there = decode(&encode(&reserved, unwritten)).expect("decode");
                assert_eq!(there, (unwritten, reserved.areas().collect()), "seed {seed} step {step}");
            }
        }
    }
}
