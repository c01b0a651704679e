//! The one source of randomness: xoshiro256++ streams named by what they are for.
//!
//! A stream is named by a [`StreamId`]. Its four words are the initial state of the generator after an
//! invertible mixing, hence two different identities never start from the same state: no two threads share a
//! sequence, and the same seed gives the same operations on every machine. (That two sequences of 2^50 numbers
//! overlap somewhere has a probability below 2^-150; xoshiro256++ has a period of 2^256 - 1. Blackman and
//! Vigna, "Scrambled linear pseudorandom number generators", ACM TOMS 47(4), 2021.)

use std::convert::Infallible;

use rand::rand_core::TryRng;
use rand::{Rng as _, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// What a stream is used for; different purposes never share a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// Random offsets, buffer positions and append sizes of a thread.
    Operations,
    /// Values of the random variable with this index.
    Draw {
        /// Index into `Workload::draws`.
        index: u32,
        /// The variable's own seed.
        seed: u64,
    },
    /// Depths, widths and file sizes of a fileset; the number tells the fileset and the quantity.
    Fileset(u64),
    /// Which files exist at the start, and the order of their creation.
    Existence(u64),
    /// Contents of the buffers.
    Data,
    /// Anything else; the number keeps users apart.
    Other(u64),
}

impl Purpose {
    /// Tag, number and detail; injective.
    fn words(self) -> (u64, u64) {
        match self {
            Purpose::Operations => (1, 0),
            Purpose::Draw { index, seed } => (2 | u64::from(index) << 32, seed),
            Purpose::Fileset(number) => (3, number),
            Purpose::Existence(number) => (4, number),
            Purpose::Data => (5, 0),
            Purpose::Other(number) => (6, number),
        }
    }
}

/// Names a stream of random numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StreamId {
    /// The run's seed.
    pub seed: u64,
    /// Number of the process instance, counted over all processes.
    pub process: u32,
    /// Number of the thread instance within its process.
    pub thread: u32,
    /// What for.
    pub purpose: Purpose,
}

impl StreamId {
    /// A stream that belongs to the run and not to a thread.
    pub fn of_run(seed: u64, purpose: Purpose) -> Self {
        StreamId { seed, process: u32::MAX, thread: u32::MAX, purpose }
    }

    /// The generator at the start of this stream.
    pub fn rng(self) -> Rng {
        let (tag, detail) = self.purpose.words();
        let owner = u64::from(self.process) << 32 | u64::from(self.thread);
        let mut state = [self.seed, owner, tag, detail];
        // Each step changes one word by a function of another one, so the whole is invertible: distinct
        // identities give distinct states. Three rounds carry every input bit into every word.
        for round in 0..3u64 {
            for word in 0..4 {
                let salt = (round * 4 + word as u64 + 1).wrapping_mul(GOLDEN);
                state[(word + 1) % 4] ^= mix(state[word].wrapping_add(salt));
            }
        }
        let mut bytes = [0; 32];
        for (chunk, word) in bytes.chunks_exact_mut(8).zip(state) {
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        Rng(Xoshiro256PlusPlus::from_seed(bytes))
    }
}

/// 2^64 divided by the golden ratio, odd: Weyl increment of SplitMix64.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finalizer of SplitMix64: a bijection of 64 bits in which every input bit changes every output bit with a
/// probability near one half (Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
/// OOPSLA 2014; constants of variant 13 by D. Stafford).
#[inline]
pub fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// A 64-bit number for a name, the same on every machine; for [`Purpose::Fileset`] and its like.
pub fn hash_name(name: &str) -> u64 {
    name.bytes().fold(GOLDEN, |hash, byte| mix(hash ^ u64::from(byte)).wrapping_add(GOLDEN))
}

/// A stream of random numbers: xoshiro256++.
///
/// It is a generator of the `rand` crates too, so that `rand_distr` works with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rng(Xoshiro256PlusPlus);

impl Rng {
    /// 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A whole number in `0..limit`, each equally likely; 0 when `limit` is 0.
    ///
    /// Lemire, "Fast random integer generation in an interval", ACM TOMACS 29(1), 2019: one multiplication,
    /// and a division only with probability `limit` / 2^64.
    #[inline]
    pub fn below(&mut self, limit: u64) -> u64 {
        let mut product = u128::from(self.bits()) * u128::from(limit);
        if (product as u64) < limit {
            product = self.below_rejecting(product, limit);
        }
        (product >> 64) as u64
    }

    #[cold]
    fn below_rejecting(&mut self, mut product: u128, limit: u64) -> u128 {
        let threshold = limit.wrapping_neg() % limit;
        while (product as u64) < threshold {
            product = u128::from(self.bits()) * u128::from(limit);
        }
        product
    }

    /// A multiple of 2^-53 in `[0, 1)`.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Fills a buffer with random bytes.
    pub fn fill(&mut self, buffer: &mut [u8]) {
        self.0.fill_bytes(buffer);
    }
}

impl TryRng for Rng {
    type Error = Infallible;

    #[inline]
    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(self.0.next_u32())
    }

    #[inline]
    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.0.next_u64())
    }

    #[inline]
    fn try_fill_bytes(&mut self, buffer: &mut [u8]) -> Result<(), Infallible> {
        self.0.fill_bytes(buffer);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn id(seed: u64, process: u32, thread: u32, purpose: Purpose) -> StreamId {
        StreamId { seed, process, thread, purpose }
    }

    #[test]
    fn the_first_numbers_of_a_stream_never_change() {
        let mut rng = id(1, 2, 3, Purpose::Operations).rng();
        let first = [rng.bits(), rng.bits(), rng.bits()];
        assert_eq!(first, GOLDEN_BITS, "a change here makes every published seed give other operations");
    }

    /// From an independent implementation of mixing and generator.
    const GOLDEN_BITS: [u64; 3] = [0x1208ef53b695758c, 0x0385e71dfc20fb62, 0x57d21daa3b040fd7];

    #[test]
    fn every_identity_has_its_own_sequence() {
        let mut seen = HashSet::new();
        let mut count = 0;
        for seed in 0..4 {
            for process in [0, 1, 2, u32::MAX] {
                for thread in [0, 1, 2, 3, u32::MAX] {
                    for purpose in [
                        Purpose::Operations,
                        Purpose::Data,
                        Purpose::Draw { index: 0, seed: 0 },
                        Purpose::Draw { index: 1, seed: 0 },
                        Purpose::Draw { index: 0, seed: 1 },
                        Purpose::Fileset(0),
                        Purpose::Existence(0),
                        Purpose::Other(0),
                    ] {
                        let mut rng = id(seed, process, thread, purpose).rng();
                        seen.insert((rng.bits(), rng.bits()));
                        count += 1;
                    }
                }
            }
        }
        assert_eq!(seen.len(), count);
    }

    #[test]
    fn neighbouring_threads_differ_in_half_of_the_bits() {
        let mut differing = 0;
        for thread in 0..1000 {
            let mut left = id(7, 0, thread, Purpose::Operations).rng();
            let mut right = id(7, 0, thread + 1, Purpose::Operations).rng();
            differing += (left.bits() ^ right.bits()).count_ones();
        }
        let share = f64::from(differing) / 64_000.0;
        assert!((0.49..0.51).contains(&share), "{share}");
    }

    #[test]
    fn below_is_uniform_and_in_range() {
        let mut rng = id(3, 0, 0, Purpose::Operations).rng();
        let mut counts = [0u32; 7];
        for _ in 0..70_000 {
            counts[rng.below(7) as usize] += 1;
        }
        // Standard deviation of a cell: 92.6.
        assert!(counts.iter().all(|&count| count.abs_diff(10_000) < 500), "{counts:?}");
        assert_eq!(rng.below(0), 0);
        assert_eq!(rng.below(1), 0);
        for limit in [2, 3, 1 << 63, (1 << 63) + 1, u64::MAX] {
            for _ in 0..100 {
                assert!(rng.below(limit) < limit);
            }
        }
    }

    #[test]
    fn below_rejects_so_that_large_limits_are_unbiased() {
        // With a limit of 3 * 2^62 a plain multiplication would give every number that is 0 modulo 3
        // twice as often as the others.
        let mut rng = id(4, 0, 0, Purpose::Operations).rng();
        let limit = 3u64 << 62;
        let mut residues = [0u32; 3];
        for _ in 0..30_000 {
            residues[(rng.below(limit) % 3) as usize] += 1;
        }
        assert!(residues.iter().all(|&count| count.abs_diff(10_000) < 500), "{residues:?}");
    }

    #[test]
    fn unit_has_the_moments_of_the_uniform_distribution() {
        let mut rng = id(5, 0, 0, Purpose::Operations).rng();
        let (mut sum, mut squares) = (0.0, 0.0);
        for _ in 0..100_000 {
            let value = rng.unit();
            assert!((0.0..1.0).contains(&value));
            sum += value;
            squares += value * value;
        }
        assert!((sum / 1e5 - 0.5).abs() < 0.005);
        assert!((squares / 1e5 - 1.0 / 3.0).abs() < 0.005);
    }
}
