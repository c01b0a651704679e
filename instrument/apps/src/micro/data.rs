//! Buffers of random bytes, made before the clock runs and used round-robin.

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Bytes of one sequential write and read: the artifact's 40 KiB.
pub const BLOCK_BYTES: usize = 40_960;

/// Incompressible buffers; the data repeats after the last one.
#[derive(Debug)]
pub struct Buffers {
    bytes: Vec<u8>,
}

impl Buffers {
    /// `count` buffers of [`BLOCK_BYTES`].
    pub fn new(count: u64, seed: u64) -> Buffers {
        let mut bytes = vec![0; BLOCK_BYTES * usize::try_from(count.max(1)).unwrap_or(1)];
        Xoshiro256PlusPlus::seed_from_u64(seed).fill_bytes(&mut bytes);
        Buffers { bytes }
    }

    /// The buffer of block `index`.
    pub fn block(&self, index: u64) -> &[u8] {
        let count = self.bytes.len() / BLOCK_BYTES;
        let at = (index % count as u64) as usize * BLOCK_BYTES;
        &self.bytes[at..at + BLOCK_BYTES]
    }
}
