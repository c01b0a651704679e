//! Primitive encodings: little-endian integers, LEB128 lengths, byte strings; and the checked reader.

use crate::key::{End, Key, KeyRange};

/// Why bytes could not be decoded.
#[derive(Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

/// Result of decoding.
pub type Decoded<T> = std::result::Result<T, Malformed>;

/// Nothing that is counted gets so far: beyond it a number is damage.
pub const COUNT_MAX: u64 = 1 << 62;

/// Appends an unsigned integer in LEB128.
pub fn put_int(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

/// Appends the length of all `parts` together, and them.
pub fn put_parts(out: &mut Vec<u8>, parts: &[&[u8]]) {
    put_int(out, parts.iter().map(|p| p.len() as u64).sum());
    parts.iter().for_each(|p| out.extend_from_slice(p));
}

/// Appends a length and the bytes.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_int(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends a four-byte integer.
pub fn put_u32(out: &mut Vec<u8>, n: u32) {
    out.extend_from_slice(&n.to_le_bytes());
}

/// Appends an eight-byte integer.
pub fn put_u64(out: &mut Vec<u8>, n: u64) {
    out.extend_from_slice(&n.to_le_bytes());
}

/// Appends the end of a range.
pub fn put_end(out: &mut Vec<u8>, end: &End) {
    match end {
        End::Open => out.push(0),
        End::At(key) => {
            out.push(1);
            put_bytes(out, key);
        }
    }
}

/// Appends a range.
pub fn put_range(out: &mut Vec<u8>, range: &KeyRange) {
    put_bytes(out, &range.lo);
    put_end(out, &range.hi);
}

/// Reads from a slice; every method fails instead of going past its end.
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads `bytes` from their start.
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes }
    }

    /// Bytes not read yet.
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// The next `n` bytes.
    pub fn take(&mut self, n: usize) -> Decoded<&'a [u8]> {
        let (head, tail) = self.rest.split_at_checked(n).ok_or(Malformed("ends too early"))?;
        self.rest = tail;
        Ok(head)
    }

    /// The next byte, which stays to be read.
    pub fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    /// True if what is left begins with `bytes`.
    pub fn starts_with(&self, bytes: &[u8]) -> bool {
        self.rest.starts_with(bytes)
    }

    /// One byte.
    pub fn u8(&mut self) -> Decoded<u8> {
        Ok(self.take(1)?[0])
    }

    /// A four-byte integer.
    pub fn u32(&mut self) -> Decoded<u32> {
        self.take(4)?.try_into().map(u32::from_le_bytes).map_err(|_| Malformed("ends too early"))
    }

    /// An eight-byte integer.
    pub fn u64(&mut self) -> Decoded<u64> {
        self.take(8)?.try_into().map(u64::from_le_bytes).map_err(|_| Malformed("ends too early"))
    }

    /// A LEB128 integer.
    pub fn int(&mut self) -> Decoded<u64> {
        let mut n = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            n |= ((byte & 0x7F) as u64) << shift;
            if byte < 0x80 {
                return Ok(n);
            }
        }
        Err(Malformed("integer too long"))
    }

    /// A LEB128 integer that must fit 32 bits.
    pub fn int32(&mut self) -> Decoded<u32> {
        self.int()?.try_into().map_err(|_| Malformed("integer too large"))
    }

    /// A count of items that take at least one byte each, so that a bad count cannot ask for much memory.
    pub fn count(&mut self) -> Decoded<usize> {
        let n = self.int()?;
        if n > self.rest.len() as u64 { Err(Malformed("count too large")) } else { Ok(n as usize) }
    }

    /// A byte string.
    pub fn bytes(&mut self) -> Decoded<&'a [u8]> {
        let n = self.count()?;
        self.take(n)
    }

    /// A key.
    pub fn key(&mut self) -> Decoded<Key> {
        Ok(self.bytes()?.into())
    }

    /// The end of a range.
    pub fn end(&mut self) -> Decoded<End> {
        match self.u8()? {
            0 => Ok(End::Open),
            1 => Ok(End::At(self.key()?)),
            _ => Err(Malformed("unknown range end")),
        }
    }

    /// A range.
    pub fn range(&mut self) -> Decoded<KeyRange> {
        Ok(KeyRange { lo: self.key()?, hi: self.end()? })
    }

    /// Fails unless everything has been read.
    pub fn finish(self) -> Decoded<()> {
        if self.rest.is_empty() { Ok(()) } else { Err(Malformed("trailing bytes")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(n in any::<u64>(), bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut out = Vec::new();
            put_int(&mut out, n);
            put_bytes(&mut out, &bytes);
            put_u64(&mut out, n);
            put_range(&mut out, &KeyRange::prefix(&bytes));
            let mut r = Reader::new(&out);
            prop_assert_eq!(r.int(), Ok(n));
            prop_assert_eq!(r.bytes(), Ok(&bytes[..]));
            prop_assert_eq!(r.u64(), Ok(n));
            prop_assert_eq!(r.range(), Ok(KeyRange::prefix(&bytes)));
            prop_assert_eq!(r.finish(), Ok(()));
            for cut in 0..out.len() {
                let mut r = Reader::new(&out[..cut]);
                let whole = (|| -> Decoded<()> {
                    r.int()?;
                    r.bytes()?;
                    r.u64()?;
                    r.range()?;
                    Ok(())
                })();
                prop_assert!(whole.is_err());
            }
        }
    }
}
