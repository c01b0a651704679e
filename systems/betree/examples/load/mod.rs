//! What the examples have in common: blocks of a file, and numbers drawn at random.

/// Bytes of a block.
pub const BLOCK: u64 = 4096;

/// xorshift64*: the offsets only need to be spread.
pub struct Random(pub u64);

impl Random {
    /// A number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) % n
    }
}

/// The key of a block: a full path, a zero, and the number of the block.
pub fn key(block: u64) -> Vec<u8> {
    let mut key = b"Dsrv/data/large-file\0".to_vec();
    key.extend(block.to_be_bytes());
    key
}
