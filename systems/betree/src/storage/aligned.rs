//! A byte buffer that begins at a multiple of the unit, as direct I/O demands.

use super::{UNIT, round_up};
use crate::mapping::{MAPPED_MIN, Mapping};
use std::ops::{Deref, DerefMut};

/// Zero-filled bytes at an address that is a multiple of [`UNIT`].
pub struct AlignedBuf {
    memory: Memory,
    len: usize,
}

enum Memory {
    /// Aligned by having more and skipping some, which needs no unsafe code; the vector is never resized afterwards, so the
    /// address holds.
    Heap { bytes: Vec<u8>, start: usize },
    /// Begins at a page, and a unit is one.
    Mapped(Mapping),
}

impl AlignedBuf {
    /// A zeroed buffer of `len` bytes, rounded up to whole units.
    pub fn zeroed(len: usize) -> Self {
        let len = round_up(len);
        if len >= MAPPED_MIN
            && let Some(mapping) = Mapping::new(len)
        {
            return AlignedBuf { memory: Memory::Mapped(mapping), len };
        }
        let bytes = vec![0u8; len + UNIT];
        let start = bytes.as_ptr().align_offset(UNIT);
        assert!(start <= UNIT, "allocation cannot be aligned");
        AlignedBuf { memory: Memory::Heap { bytes, start }, len }
    }

    /// Bytes that it has room for.
    pub(super) fn capacity(&self) -> usize {
        match &self.memory {
            Memory::Heap { bytes, .. } => bytes.len() - UNIT,
            Memory::Mapped(mapping) => mapping.size(),
        }
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
        match &self.memory {
            Memory::Heap { bytes, start } => &bytes[*start..*start + self.len],
            // SAFETY: `len` never exceeds the mapping, whose bytes are all initialised (zeros at first), and which is
            // written to only through `&mut self`.
            Memory::Mapped(m) => unsafe { std::slice::from_raw_parts(m.start().as_ptr(), self.len) },
        }
    }
}

impl DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.memory {
            Memory::Heap { bytes, start } => &mut bytes[*start..*start + self.len],
            // SAFETY: as above; `&mut self` makes this the only reference to it.
            Memory::Mapped(m) => unsafe { std::slice::from_raw_parts_mut(m.start().as_ptr(), self.len) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_aligned_and_padded() {
        for len in [0, 1, 4095, 4096, 4097, MAPPED_MIN - 1, MAPPED_MIN, 1 << 20, (1 << 20) + 1] {
            let mut buf = AlignedBuf::zeroed(len);
            assert_eq!(buf.len(), round_up(len));
            assert_eq!(buf.as_ptr() as usize % UNIT, 0);
            assert!(buf.len() <= buf.capacity() && buf.iter().all(|b| *b == 0));
            buf.fill(0xAA);
            assert!(buf.iter().all(|b| *b == 0xAA));
        }
        let buf = AlignedBuf::from_slice(b"abc");
        assert_eq!((&buf[..4], buf.len()), (&b"abc\0"[..], UNIT));
    }
}
