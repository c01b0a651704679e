//! Numbers in a block.

/// The little-endian number at `at`; 0 where the bytes end before it does.
pub(super) fn le(bytes: &[u8], at: usize, length: usize) -> u64 {
    bytes.get(at..at + length).unwrap_or_default().iter().rev().fold(0, |n, byte| n << 8 | u64::from(*byte))
}

/// The big-endian number at `at`; 0 where the bytes end before it does.
pub(super) fn be(bytes: &[u8], at: usize, length: usize) -> u64 {
    bytes.get(at..at + length).unwrap_or_default().iter().fold(0, |n, byte| n << 8 | u64::from(*byte))
}
