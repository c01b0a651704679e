//! The lossless stored form: only the buckets that hold something.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use thiserror::Error;

use super::Histogram;
use super::bucket::{BUCKETS, SUBS, bounds, locate};

/// `sum` is split because many formats end at 64 bits: the sum is `sum_carry * 2^64 + sum`.
#[derive(Serialize, Deserialize)]
struct Wire {
    min: u64,
    max: u64,
    sum: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    sum_carry: u64,
    /// `[bucket index, count]`, ascending; the index is the number of buckets below.
    buckets: Vec<(u16, u64)>,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// Why a stored histogram is not one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum WireError {
    /// An index beyond the last bucket.
    #[error("histogram: bucket {0} does not exist (the last one is {last})", last = BUCKETS - 1)]
    NoSuchBucket(u16),
    /// Indices must ascend.
    #[error("histogram: bucket {0} is out of order or occurs twice")]
    OutOfOrder(u16),
    /// Only filled buckets are stored.
    #[error("histogram: bucket {0} is stored with a count of 0")]
    EmptyBucket(u16),
    /// The counts do not fit in 64 bits.
    #[error("histogram: the counts add up to more than 2^64 - 1")]
    TooMany,
    /// `min` or `max` lies outside the bucket it must lie in.
    #[error("histogram: min {min} or max {max} lies outside the outermost buckets")]
    Extremes {
        /// Stored minimum.
        min: u64,
        /// Stored maximum.
        max: u64,
    },
    /// No values in these buckets can have this sum.
    #[error("histogram: the sum {0} is impossible for these counts")]
    Sum(u128),
}

impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Wire {
            min: self.min().unwrap_or(0),
            max: self.max,
            sum: self.sum as u64,
            sum_carry: (self.sum >> 64) as u64,
            buckets: self.indexed().map(|(index, count)| (index as u16, count)).collect(),
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Wire::deserialize(deserializer)?.open().map_err(D::Error::custom)
    }
}

impl Wire {
    fn open(self) -> Result<Histogram, WireError> {
        let sum = u128::from(self.sum_carry) << 64 | u128::from(self.sum);
        let mut histogram = Histogram::new();
        let (mut lowest, mut highest) = (0u128, 0u128);
        let mut last = None;
        for &(stored, count) in &self.buckets {
            let index = usize::from(stored);
            if index >= BUCKETS {
                return Err(WireError::NoSuchBucket(stored));
            }
            if last.is_some_and(|last| index <= last) {
                return Err(WireError::OutOfOrder(stored));
            }
            if count == 0 {
                return Err(WireError::EmptyBucket(stored));
            }
            last = Some(index);
            histogram.count = histogram.count.checked_add(count).ok_or(WireError::TooMany)?;
            histogram.block_mut(index / SUBS)[index % SUBS] = count;
            let (low, high) = bounds(index);
            lowest += u128::from(low) * u128::from(count);
            highest += u128::from(high) * u128::from(count);
        }
        if !(lowest..=highest).contains(&sum) {
            return Err(WireError::Sum(sum));
        }
        let (Some(first), Some(last)) = (self.buckets.first(), last) else {
            let blank = self.min == 0 && self.max == 0;
            let wrong = WireError::Extremes { min: self.min, max: self.max };
            return if blank { Ok(histogram) } else { Err(wrong) };
        };
        let index_of = |value| {
            let (block, sub) = locate(value);
            block * SUBS + sub
        };
        if index_of(self.min) != usize::from(first.0) || index_of(self.max) != last || self.min > self.max {
            return Err(WireError::Extremes { min: self.min, max: self.max });
        }
        (histogram.sum, histogram.min, histogram.max) = (sum, self.min, self.max);
        Ok(histogram)
    }
}
