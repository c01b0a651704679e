//! Where a value is counted: the arithmetic of blocks and buckets.

/// Counters in a block: block 0 holds 0..64, block 1 holds 64..128, block `b` the octave `2^(b+5)`.
pub(super) const SUBS: usize = 64;
/// Blocks that cover all of `u64`.
pub(super) const BLOCKS: usize = 59;
/// Buckets altogether; an index is `block * SUBS + sub`.
pub(super) const BUCKETS: usize = BLOCKS * SUBS;

/// One bucket that holds something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    /// Smallest value counted here.
    pub low: u64,
    /// First value above the bucket; for the very last bucket `u64::MAX`, which it includes.
    pub high_exclusive: u64,
    /// Values counted, at least 1.
    pub count: u64,
}

impl Bucket {
    /// The value that stands for the bucket; errs by at most 1/128.
    pub fn midpoint(&self) -> u64 {
        self.low + self.high_exclusive.saturating_sub(self.low).saturating_sub(1) / 2
    }
}

/// Block and place in the block of a value.
#[inline]
pub(super) const fn locate(value: u64) -> (usize, usize) {
    // With the low six bits set every value below 64 falls into block 0.
    let block = 58 - (value | 63).leading_zeros();
    let shift = block.saturating_sub(1);
    (block as usize, (value >> shift) as usize & (SUBS - 1))
}

/// Smallest and largest value of bucket `index`, both inclusive; `index < BUCKETS`.
pub(super) const fn bounds(index: usize) -> (u64, u64) {
    let (block, sub) = (index / SUBS, (index % SUBS) as u64);
    if block == 0 {
        return (sub, sub);
    }
    let shift = block as u32 - 1;
    let low = (sub + SUBS as u64) << shift;
    (low, low + ((1u64 << shift) - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_tile_the_whole_range_without_gap_or_overlap() {
        let mut next = 0u64;
        for index in 0..BUCKETS {
            let (low, high) = bounds(index);
            assert_eq!(low, next, "bucket {index}");
            for value in [low, low + (high - low) / 2, high] {
                let (block, sub) = locate(value);
                assert_eq!(block * SUBS + sub, index, "value {value}");
            }
            next = high.wrapping_add(1);
        }
        assert_eq!(next, 0, "the last bucket ends at u64::MAX");
    }

    #[test]
    fn a_midpoint_errs_by_at_most_one_part_in_128() {
        for index in 0..BUCKETS {
            let (low, high) = bounds(index);
            let mid = Bucket { low, high_exclusive: high.saturating_add(1), count: 1 }.midpoint();
            let worst = (mid - low).max(high - mid);
            assert!(u128::from(worst) * 128 <= u128::from(low), "{low}..={high}: {worst}");
        }
    }

    #[test]
    fn values_below_128_are_exact() {
        for value in 0..128u64 {
            let (block, sub) = locate(value);
            assert_eq!(bounds(block * SUBS + sub), (value, value));
        }
    }
}
