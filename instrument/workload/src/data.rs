//! What written bytes look like: seeded, incompressible and never twice the same, unless asked otherwise.
//!
//! A buffer (the pool, owned and aligned by the caller) is filled once. Each write then takes the next window of
//! it and gets a unique stamp of 16 bytes into every block of 4096, which costs nanoseconds instead of a refill.
//! Storage that deduplicates blocks of 4 KiB or more finds nothing; storage that compresses finds what the spec
//! says, as long as it looks at less than the pool at a time: use [`pool_bytes`].

use thiserror::Error;

use crate::rng::{Purpose, Rng, StreamId, mix};

/// The unit of stamps, of compressible parts and of duplicates, in bytes.
pub const BLOCK_BYTES: usize = 4096;
/// Bytes of a unique stamp at the start of each block.
pub const STAMP_BYTES: usize = 16;

/// The smallest sensible pool: twice the unit that btrfs compresses (128 KiB), the largest of the common ones.
pub const POOL_BYTES_MIN: usize = 256 << 10;

/// How compressible and how repetitive the data is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DataSpec {
    /// Share of each block that is a repeated pattern, in percent, 0 to 100; a compressor saves about as much.
    pub compress_percent: u8,
    /// Share of the blocks that are identical to one of the pool's blocks, in percent, 0 to 100. All threads of a
    /// run with pools of one size share these blocks, so a deduplicating store keeps `pool / 4096` of them.
    pub duplicate_percent: u8,
}

/// A spec that makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{what} is {percent}, but has to be between 0 and 100")]
pub struct DataError {
    /// Which knob.
    pub what: &'static str,
    /// Its value.
    pub percent: u8,
}

/// Bytes of a pool for writes of up to this size: a multiple of [`BLOCK_BYTES`].
pub fn pool_bytes(write_bytes_max: usize) -> usize {
    write_bytes_max.max(POOL_BYTES_MIN).checked_next_multiple_of(BLOCK_BYTES).unwrap_or(write_bytes_max)
}

/// Makes the written data of one thread.
#[derive(Debug, Clone)]
pub struct DataPool {
    spec: DataSpec,
    /// Contents, the same for all threads of a run.
    seed: u64,
    /// The stamp of duplicates.
    common_stamp: [u8; STAMP_BYTES],
    owner: u64,
    stamped: u64,
    choices: Rng,
    next_start: usize,
}

impl DataPool {
    /// Data of one thread; `process` and `thread` count instances, see [`StreamId`].
    pub fn new(spec: DataSpec, seed: u64, process: u32, thread: u32) -> Result<Self, DataError> {
        let knobs =
            [("compress_percent", spec.compress_percent), ("duplicate_percent", spec.duplicate_percent)];
        if let Some((what, percent)) = knobs.into_iter().find(|&(_, percent)| percent > 100) {
            return Err(DataError { what, percent });
        }
        let mut common_stamp = [0; STAMP_BYTES];
        let mut contents = contents(seed);
        contents.fill(&mut common_stamp);
        Ok(DataPool {
            spec,
            seed,
            common_stamp,
            owner: (u64::from(process) << 32) | u64::from(thread),
            stamped: 0,
            choices: StreamId { seed, process, thread, purpose: Purpose::Data }.rng(),
            next_start: 0,
        })
    }

    /// Fills a pool; the contents depend on the seed and on the spec, not on the thread.
    pub fn fill(&self, pool: &mut [u8]) {
        let mut contents = contents(self.seed);
        let mut head = [0; STAMP_BYTES];
        contents.fill(&mut head);
        let pattern = contents.bits().to_le_bytes();
        for block in pool.chunks_mut(BLOCK_BYTES) {
            let random = block.len() - block.len() * usize::from(self.spec.compress_percent) / 100;
            let (random, repeated) = block.split_at_mut(random);
            contents.fill(random);
            for piece in repeated.chunks_mut(pattern.len()) {
                piece.copy_from_slice(&pattern[..piece.len()]);
            }
            stamp_with(block, &self.common_stamp);
        }
    }

    /// Makes the blocks of a buffer unique, in place: each 4096 bytes from its start, and a last part of them.
    /// Parts of less than 16 bytes get the first bytes of a stamp, which then may repeat.
    ///
    /// For duplicates to be exact, buffers have to start at multiples of 4096 in the pool.
    #[inline]
    pub fn stamp(&mut self, buffer: &mut [u8]) {
        for block in buffer.chunks_mut(BLOCK_BYTES) {
            if self.spec.duplicate_percent != 0
                && self.choices.below(100) < u64::from(self.spec.duplicate_percent)
            {
                stamp_with(block, &self.common_stamp);
            } else {
                let stamp = self.unique_stamp();
                stamp_with(block, &stamp);
            }
        }
    }

    /// The next window of the pool, stamped: `len` bytes, or the whole pool if that is less. Windows start at
    /// multiples of 4096 and go round the pool.
    #[inline]
    pub fn next<'a>(&mut self, pool: &'a mut [u8], len: usize) -> &'a mut [u8] {
        let len = len.min(pool.len());
        if self.next_start > pool.len() - len {
            self.next_start = 0;
        }
        let window = &mut pool[self.next_start..self.next_start + len];
        self.next_start += len.next_multiple_of(BLOCK_BYTES);
        self.stamp(window);
        window
    }

    /// Bijective in (owner, count), so no stamp comes twice in a run.
    #[inline]
    fn unique_stamp(&mut self) -> [u8; STAMP_BYTES] {
        self.stamped += 1;
        let count = self.stamped;
        let mut stamp = [0; STAMP_BYTES];
        stamp[..8].copy_from_slice(&mix(self.owner.wrapping_add(mix(count))).to_le_bytes());
        stamp[8..].copy_from_slice(&mix(count ^ self.seed).to_le_bytes());
        stamp
    }
}

fn contents(seed: u64) -> Rng {
    StreamId::of_run(seed, Purpose::Data).rng()
}

#[inline]
fn stamp_with(block: &mut [u8], stamp: &[u8; STAMP_BYTES]) {
    match block.first_chunk_mut::<STAMP_BYTES>() {
        Some(head) => *head = *stamp,
        None => block.copy_from_slice(&stamp[..block.len()]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn pool(compress_percent: u8, duplicate_percent: u8, thread: u32) -> DataPool {
        let spec = DataSpec { compress_percent, duplicate_percent };
        DataPool::new(spec, 11, 0, thread).unwrap_or_else(|error| panic!("{error}"))
    }

    /// What `writes` writes of `len` bytes put onto the storage.
    fn written(data: &mut DataPool, len: usize, writes: usize) -> Vec<u8> {
        let mut memory = vec![0; pool_bytes(len)];
        data.fill(&mut memory);
        (0..writes).flat_map(|_| data.next(&mut memory, len).to_vec()).collect()
    }

    /// Percent that zstd saves on units of 128 KiB.
    fn saved_percent(bytes: &[u8]) -> f64 {
        let compressed: usize = bytes
            .chunks(128 << 10)
            .map(|unit| zstd::bulk::compress(unit, 3).map_or(unit.len(), |c| c.len()))
            .sum();
        100.0 - 100.0 * compressed as f64 / bytes.len() as f64
    }

    #[test]
    fn a_compressor_saves_what_the_spec_says() {
        for len in [4096, 16 << 10, 1 << 20] {
            for percent in [0, 10, 25, 50, 75, 90, 100] {
                let bytes = written(&mut pool(percent, 0, 0), len, (1 << 20) / len);
                let saved = saved_percent(&bytes);
                assert!((saved - f64::from(percent)).abs() < 5.0, "{percent} % of {len}: {saved}");
            }
        }
    }

    #[test]
    fn random_bytes_have_eight_bits_of_entropy() {
        let bytes = written(&mut pool(0, 0, 0), 64 << 10, 16);
        let mut counts = [0u32; 256];
        bytes.iter().for_each(|&byte| counts[usize::from(byte)] += 1);
        let share = |count: u32| f64::from(count) / bytes.len() as f64;
        let entropy: f64 = counts.iter().map(|&count| -share(count) * share(count).log2()).sum();
        assert!(entropy > 7.99, "{entropy}");
    }

    #[test]
    fn no_block_comes_twice_in_all_threads() {
        let mut seen = HashSet::new();
        for thread in 0..4 {
            let bytes = written(&mut pool(50, 0, thread), 4096, 500);
            for block in bytes.chunks(BLOCK_BYTES) {
                assert!(seen.insert(block.to_vec()));
            }
        }
    }

    #[test]
    fn unaligned_writes_differ_too() {
        let mut data = pool(100, 0, 0);
        let mut memory = vec![0; pool_bytes(0)];
        data.fill(&mut memory);
        let windows: HashSet<Vec<u8>> = (0..1000).map(|_| data.next(&mut memory, 100).to_vec()).collect();
        assert_eq!(windows.len(), 1000);
    }

    #[test]
    fn the_asked_share_of_blocks_is_duplicate() {
        for percent in [0, 20, 70, 100] {
            let mut distinct = HashSet::new();
            for thread in 0..2 {
                let bytes = written(&mut pool(0, percent, thread), 16 << 10, 1000);
                distinct.extend(bytes.chunks(BLOCK_BYTES).map(<[u8]>::to_vec));
            }
            let blocks = 8000.0;
            let common = (pool_bytes(16 << 10) / BLOCK_BYTES) as f64;
            let expected =
                blocks * (1.0 - f64::from(percent) / 100.0) + if percent == 0 { 0.0 } else { common };
            // Standard deviation at most 45.
            assert!((distinct.len() as f64 - expected).abs() < 250.0, "{percent}: {}", distinct.len());
        }
    }

    #[test]
    fn the_same_thread_writes_the_same_bytes_again() {
        assert_eq!(written(&mut pool(30, 30, 5), 5000, 100), written(&mut pool(30, 30, 5), 5000, 100));
        assert_ne!(written(&mut pool(30, 30, 5), 5000, 100), written(&mut pool(30, 30, 6), 5000, 100));
    }

    #[test]
    fn any_length_is_fine() {
        let mut data = pool(33, 50, 0);
        for size in [0, 1, 15, 16, 17, 4095, 4096, 4097, 10_000] {
            let mut memory = vec![0; size];
            data.fill(&mut memory);
            for len in [0, 1, 8, 4096, 5000, 20_000, usize::MAX] {
                assert_eq!(data.next(&mut memory, len).len(), len.min(size));
            }
        }
        assert_eq!(pool_bytes(usize::MAX), usize::MAX);
        assert_eq!(pool_bytes((1 << 20) + 1) % BLOCK_BYTES, 0);
    }

    #[test]
    fn percents_beyond_100_are_errors() {
        let error =
            DataPool::new(DataSpec { compress_percent: 101, duplicate_percent: 0 }, 0, 0, 0).unwrap_err();
        assert_eq!(error.to_string(), "compress_percent is 101, but has to be between 0 and 100");
        let error =
            DataPool::new(DataSpec { compress_percent: 0, duplicate_percent: 255 }, 0, 0, 0).unwrap_err();
        assert_eq!(error.what, "duplicate_percent");
    }
}
