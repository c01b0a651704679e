//! One bit for each block of a range.

use std::ops::Range;

/// A bit for each of the blocks `[first, end)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bitmap {
    pub first: u64,
    pub end: u64,
    words: Vec<u64>,
}

#[cfg(test)]
thread_local! {
    /// Words that this thread's bitmaps took, all in all.
    pub(super) static WORDS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

impl Bitmap {
    /// None of these blocks is set.
    pub fn new(first: u64, end: u64) -> Bitmap {
        let words = (end - first).div_ceil(64);
        #[cfg(test)]
        WORDS.set(WORDS.get() + words);
        Bitmap { first, end, words: vec![0; words as usize] }
    }

    fn place(&self, block: u64) -> Option<(usize, u64)> {
        let at = block.checked_sub(self.first).filter(|_| block < self.end)?;
        Some(((at / 64) as usize, 1 << (at % 64)))
    }

    pub fn has(&self, block: u64) -> bool {
        self.place(block).is_some_and(|(word, bit)| self.words[word] & bit != 0)
    }

    /// Sets the bit of a block, or clears it. Of a block outside there is none.
    pub fn set(&mut self, block: u64, value: bool) {
        if let Some((word, bit)) = self.place(block) {
            if value {
                self.words[word] |= bit;
            } else {
                self.words[word] &= !bit;
            }
        }
    }

    /// The blocks that are among these and in `[first, end)`.
    pub fn within(&self, first: u64, end: u64) -> Range<u64> {
        self.first.max(first)..self.end.min(end).max(self.first.max(first))
    }

    /// Blocks that are set.
    pub fn count(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// The same bits for these of the blocks, and none for others.
    pub fn resized(&self, first: u64, end: u64) -> Bitmap {
        let mut bits = Bitmap::new(first, end);
        self.within(first, end).filter(|block| self.has(*block)).for_each(|block| bits.set(block, true));
        bits
    }
}
