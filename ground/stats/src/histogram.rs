//! A log-linear histogram of `u64` values (nanoseconds, bytes), made to be written from a hot loop.
//!
//! Layout: values below 128 have a counter each; above, every octave `[2^k, 2^(k+1))` is cut into 64
//! equal buckets, so a bucket's midpoint errs by at most 1/128 (0.79 %) of any value in it. Octave
//! boundaries are bucket boundaries, hence power-of-two counts and the export to HDR are exact.
//! The scheme is that of HdrHistogram (Gil Tene, hdrhistogram.org) with 64 sub-buckets, as in fio's
//! `stat.h`; an octave's counters (512 bytes) are allocated when the first value falls into it.

use std::fmt;

mod bucket;
mod hdr;
mod wire;

pub use bucket::Bucket;
pub use hdr::HdrError;
pub use wire::WireError;

use bucket::{BLOCKS, BUCKETS, SUBS, bounds, locate};

/// Buckets in a quarter of an octave.
const QUARTER: usize = SUBS / 4;

type Block = Box<[u64; SUBS]>;

/// Counts of values in log-linear buckets, with exact count, sum, minimum and maximum.
///
/// About 0.5 KiB when empty, 0.5 KiB more per octave in use (1 us to 100 ms is 17 octaves). Counts
/// saturate at `u64::MAX` instead of wrapping.
#[derive(Clone)]
pub struct Histogram {
    blocks: [Option<Block>; BLOCKS],
    count: u64,
    sum: u128,
    // `u64::MAX` and 0 while empty, so that recording needs no test for the first value.
    min: u64,
    max: u64,
}

impl Histogram {
    /// An empty histogram; allocates nothing.
    pub const fn new() -> Self {
        Histogram { blocks: [const { None }; BLOCKS], count: 0, sum: 0, min: u64::MAX, max: 0 }
    }

    /// Counts one value. Allocates only when the value is the first of its octave.
    #[inline]
    pub fn record(&mut self, value: u64) {
        let (block, sub) = locate(value);
        match &mut self.blocks[block] {
            Some(counters) => counters[sub] = counters[sub].saturating_add(1),
            empty => first_touch(empty)[sub] = 1,
        }
        self.count = self.count.saturating_add(1);
        // Cannot wrap before the count saturates: count * u64::MAX < 2^128.
        self.sum = self.sum.wrapping_add(u128::from(value));
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// Counts `n` equal values.
    pub fn record_n(&mut self, value: u64, n: u64) {
        if n == 0 {
            return;
        }
        let (block, sub) = locate(value);
        let counter = &mut self.block_mut(block)[sub];
        *counter = counter.saturating_add(n);
        self.count = self.count.saturating_add(n);
        self.sum = self.sum.saturating_add(u128::from(value) * u128::from(n));
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// Adds everything that `other` counted: the same as having recorded its values here.
    pub fn merge(&mut self, other: &Histogram) {
        for (index, theirs) in other.blocks.iter().enumerate() {
            let Some(theirs) = theirs else { continue };
            for (mine, theirs) in self.block_mut(index).iter_mut().zip(theirs.iter()) {
                *mine = mine.saturating_add(*theirs);
            }
        }
        self.count = self.count.saturating_add(other.count);
        self.sum = self.sum.saturating_add(other.sum);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Forgets every value but keeps the memory: for the end of a warm-up.
    pub fn clear(&mut self) {
        for block in self.blocks.iter_mut().flatten() {
            block.fill(0);
        }
        (self.count, self.sum, self.min, self.max) = (0, 0, u64::MAX, 0);
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Exact sum of the values.
    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// Exact smallest value; `None` when empty.
    pub fn min(&self) -> Option<u64> {
        (self.count > 0).then_some(self.min)
    }

    /// Exact largest value; `None` when empty.
    pub fn max(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max)
    }

    /// Arithmetic mean (from the exact sum); `None` when empty.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// Standard deviation of the population, from the buckets' midpoints; `None` when empty.
    pub fn stddev(&self) -> Option<f64> {
        let mean = self.mean()?;
        let squares: f64 = self
            .iter()
            .map(|bucket| {
                let off = self.clamp(bucket.midpoint()) as f64 - mean;
                off * off * bucket.count as f64
            })
            .sum();
        Some((squares / self.count as f64).sqrt())
    }

    /// The value at quantile `q`: the smallest value such that at least `q` of all values are not
    /// larger (inverse of the empirical distribution; type 1 of Hyndman & Fan, "Sample Quantiles in
    /// Statistical Packages", The American Statistician 50(4), 1996).
    ///
    /// Errs by at most 1/128 of the value; the first and the last rank are exact. `q` outside 0..=1 is
    /// clamped. `None` when empty or when `q` is not a number.
    pub fn quantile(&self, q: f64) -> Option<u64> {
        if self.count == 0 || q.is_nan() {
            return None;
        }
        let rank = rank_of(q.clamp(0.0, 1.0), self.count);
        if rank == 1 {
            return Some(self.min);
        }
        if rank == self.count {
            return Some(self.max);
        }
        let mut seen = 0u64;
        for bucket in self.iter() {
            seen = seen.saturating_add(bucket.count);
            if seen >= rank {
                return Some(self.clamp(bucket.midpoint()));
            }
        }
        Some(self.max)
    }

    /// The buckets that hold something, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = Bucket> {
        self.indexed().map(|(index, count)| {
            let (low, high) = bounds(index);
            Bucket { low, high_exclusive: high.saturating_add(1), count }
        })
    }

    /// Filebench's `lathist`: entry 0 counts the zeros, entry `i` the values with
    /// `2^(i-1) <= v < 2^i`. The last entry (63) also takes everything above.
    pub fn power_of_two_counts(&self) -> [u64; 64] {
        let mut counts = [0u64; 64];
        for bucket in self.iter() {
            let bits = (u64::BITS - bucket.low.leading_zeros()) as usize;
            let entry = &mut counts[bits.min(63)];
            *entry = entry.saturating_add(bucket.count);
        }
        counts
    }

    /// Points `(v, F(v))` of the cumulative distribution, `F(v)` being the share of values `<= v`, at
    /// most `max_points` of them, in ascending order. `v` is a bucket's largest possible value (the
    /// last one is the exact maximum), so that `F(v)` is exact. Thinned evenly over the buckets, which
    /// is even on a logarithmic axis and keeps the tail; the last point `(max, 1)` always stays.
    pub fn cdf_points(&self, max_points: usize) -> Vec<(u64, f64)> {
        let mut seen = 0u64;
        let mut points = Vec::new();
        for (index, count) in self.indexed() {
            seen = seen.saturating_add(count);
            points.push((bounds(index).1.min(self.max), seen as f64 / self.count as f64));
        }
        let have = points.len();
        if have <= max_points {
            return points;
        }
        (1..=max_points).map(|i| points[i * have / max_points - 1]).collect()
    }

    /// `(bucket index, count)` of the buckets that hold something.
    fn indexed(&self) -> impl Iterator<Item = (usize, u64)> {
        let blocks = self.blocks.iter().enumerate();
        let filled = blocks.filter_map(|(index, block)| Some((index, block.as_deref()?)));
        filled.flat_map(|(index, counters)| {
            let first = index * SUBS;
            let counts = counters.iter().enumerate().map(move |(sub, count)| (first + sub, *count));
            counts.filter(|(_, count)| *count > 0)
        })
    }

    /// Number of a quarter of an octave (block * 4 + quarter) and its count, where that is not 0, ascending.
    pub(crate) fn quarters(&self) -> Vec<(u8, u64)> {
        let blocks = self.blocks.iter().enumerate();
        let filled = blocks.filter_map(|(index, block)| Some((index, block.as_deref()?)));
        let quarters = filled.flat_map(|(index, counters)| {
            let sums = counters
                .chunks_exact(QUARTER)
                .map(|part| part.iter().fold(0_u64, |sum, n| sum.saturating_add(*n)));
            // 59 blocks of 4: below 256
            sums.enumerate().map(move |(at, sum)| ((index * (SUBS / QUARTER) + at) as u8, sum))
        });
        quarters.filter(|(_, sum)| *sum > 0).collect()
    }

    /// Smallest and largest value of such a quarter; what is beyond the last one counts as the last one.
    pub(crate) fn quarter(number: u8) -> (u64, u64) {
        let first = (usize::from(number) * QUARTER).min(BUCKETS - QUARTER);
        (bounds(first).0, bounds(first + QUARTER - 1).1)
    }

    fn block_mut(&mut self, index: usize) -> &mut [u64; SUBS] {
        let slot = &mut self.blocks[index];
        match slot {
            Some(counters) => counters,
            empty => first_touch(empty),
        }
    }

    /// A midpoint may lie outside what was recorded; the exact extremes bound it.
    fn clamp(&self, value: u64) -> u64 {
        value.clamp(self.min, self.max)
    }
}

#[cold]
#[inline(never)]
fn first_touch(slot: &mut Option<Block>) -> &mut [u64; SUBS] {
    slot.insert(Box::new([0; SUBS]))
}

/// `ceil(q * n)`, at least 1, forgiving the rounding of products such as `0.07 * 100`.
fn rank_of(q: f64, n: u64) -> u64 {
    let exact = q * n as f64;
    let nearest = exact.round();
    let close = (exact - nearest).abs() <= exact * 4.0 * f64::EPSILON;
    let rank = if close { nearest } else { exact.ceil() };
    (rank as u64).clamp(1, n)
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl PartialEq for Histogram {
    fn eq(&self, other: &Self) -> bool {
        self.count == other.count
            && self.sum == other.sum
            && self.min == other.min
            && self.max == other.max
            && self.indexed().eq(other.indexed())
    }
}

impl Eq for Histogram {}

impl Extend<u64> for Histogram {
    fn extend<I: IntoIterator<Item = u64>>(&mut self, values: I) {
        values.into_iter().for_each(|value| self.record(value));
    }
}

impl FromIterator<u64> for Histogram {
    fn from_iter<I: IntoIterator<Item = u64>>(values: I) -> Self {
        let mut histogram = Histogram::new();
        histogram.extend(values);
        histogram
    }
}

/// A summary, not thousands of counters.
impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Histogram")
            .field("count", &self.count)
            .field("sum", &self.sum)
            .field("min", &self.min())
            .field("p50", &self.quantile(0.5))
            .field("p99", &self.quantile(0.99))
            .field("max", &self.max())
            .finish_non_exhaustive()
    }
}
