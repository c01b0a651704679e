//! A byte buffer that begins at a multiple of the unit, as direct I/O demands.

use super::{UNIT, round_up};
use std::ops::{Deref, DerefMut};

/// Zero-filled bytes at an address that is a multiple of [`UNIT`].
///
/// The alignment comes from over-allocating and skipping, which needs no unsafe code; the vector is never
/// resized afterwards, so the address holds.
pub struct AlignedBuf {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl AlignedBuf {
    /// A zeroed buffer of `len` bytes, rounded up to whole units.
    pub fn zeroed(len: usize) -> Self {
        let len = round_up(len);
        let bytes = vec![0u8; len + UNIT];
        let start = bytes.as_ptr().align_offset(UNIT);
        assert!(start <= UNIT, "allocation cannot be aligned");
        AlignedBuf { bytes, start, len }
    }

    /// Bytes that it has room for.
    pub(super) fn capacity(&self) -> usize {
        self.bytes.len() - UNIT
    }

    /// Makes it `len` bytes long, rounded up to whole units, with any content. Panics beyond the capacity.
    pub(super) fn set_len(&mut self, len: usize) {
        assert!(round_up(len) <= self.capacity(), "longer than the buffer");
        self.len = round_up(len);
    }

    /// A buffer that begins with `data` and is zero-filled to whole units.
    pub fn from_slice(data: &[u8]) -> Self {
        let mut buf = AlignedBuf::zeroed(data.len());
        buf[..data.len()].copy_from_slice(data);
        buf
    }
}

impl Deref for AlignedBuf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.len]
    }
}

impl DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_aligned_and_padded() {
        for len in [0, 1, 4095, 4096, 4097, 1 << 20] {
            let buf = AlignedBuf::zeroed(len);
            assert_eq!(buf.len(), round_up(len));
            assert_eq!(buf.as_ptr() as usize % UNIT, 0);
        }
        let buf = AlignedBuf::from_slice(b"abc");
        assert_eq!((&buf[..4], buf.len()), (&b"abc\0"[..], UNIT));
    }
}
