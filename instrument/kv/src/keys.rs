//! The keys of records, as YCSB makes them.

/// Offset basis and prime of FNV-1a with 64 bits (Fowler, Noll, Vo; RFC 9923).
const FNV_BASIS: u64 = 0xCBF2_9CE4_8422_2325;
const FNV_PRIME: u64 = 1_099_511_628_211;

/// YCSB's hash of a number: FNV-1a over its eight bytes, the least significant first, without the sign of the result.
#[inline]
pub fn fnv(number: u64) -> u64 {
    let hash = number
        .to_le_bytes()
        .iter()
        .fold(FNV_BASIS, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME));
    (hash as i64).unsigned_abs()
}

/// How the keys of records are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyFormat {
    /// The number in the key is the record's hash, so that neighbours are scattered.
    pub hashed: bool,
    /// Least number of digits.
    pub digits: usize,
}

/// What all keys begin with.
pub const PREFIX: &[u8; 4] = b"user";

impl KeyFormat {
    /// Writes the key of a record into `key`, whose old contents go.
    #[inline]
    pub fn write(&self, record: u64, key: &mut Vec<u8>) {
        let mut number = if self.hashed { fnv(record) } else { record };
        let mut digits = [b'0'; 20];
        let mut at = digits.len();
        loop {
            at -= 1;
            digits[at] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                break;
            }
        }
        key.clear();
        key.extend_from_slice(PREFIX);
        let written = digits.len() - at;
        key.resize(PREFIX.len() + self.digits.saturating_sub(written), b'0');
        key.extend_from_slice(&digits[at..]);
    }

    /// The key of a record.
    pub fn key(&self, record: u64) -> Vec<u8> {
        let mut key = Vec::new();
        self.write(record, &mut key);
        key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_ycsb() {
        for (number, hash) in [
            (0, 6284781860667377211),
            (1, 8517097267634966620),
            (2, 1820151046732198393),
            (3, 4052466453699787802),
            (4, 3232700585171816769),
            (5, 1000385178204227360),
            (255, 8064062821143829734),
            (256, 2056600594528442646),
            (999, 2071219101098386137),
            (1000, 5952875239596136740),
            (1 << 32, 634246865027890484),
            (9999999999, 3605131173811637474),
            (u64::MAX, 8289690350564177859),
        ] {
            assert_eq!(fnv(number), hash, "{number}");
        }
    }

    #[test]
    fn keys_are_those_of_ycsb() {
        let hashed = KeyFormat { hashed: true, digits: 1 };
        assert_eq!(hashed.key(0), b"user6284781860667377211");
        // workload A's first draw at seed 42 is record 263
        assert_eq!(hashed.key(263), b"user1236834726000471613");
        assert_eq!(KeyFormat { hashed: false, digits: 8 }.key(1), b"user00000001");
        assert_eq!(KeyFormat { hashed: false, digits: 1 }.key(0), b"user0");
    }
}
