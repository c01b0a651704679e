//! Values: random bytes as YCSB makes them, YCSB's `dataintegrity`, and values that say which record and version they
//! are of.

use workload::rng::{Rng, mix};
use xxhash_rust::xxh3::xxh3_64;

/// Bytes of random text of which values are slices: so many that two values are rarely alike.
const POOL_BYTES: usize = 1 << 20;
/// Record number, version, checksum: 8 bytes each, least significant first.
pub const HEADER_BYTES: usize = 24;

/// Random text of YCSB's alphabet: 31 random bits in six characters from 0x20 to 0x7F.
#[derive(Debug, Clone)]
pub struct Pool(Vec<u8>);

impl Pool {
    /// Text for values of up to `longest` bytes.
    pub fn new(longest: usize, rng: &mut Rng) -> Pool {
        let mut bytes = Vec::with_capacity(POOL_BYTES + longest + 6);
        while bytes.len() < POOL_BYTES + longest {
            let bits = rng.bits() as u32;
            for (shift, mask) in [(0, 31), (5, 63), (10, 95), (15, 31), (20, 63), (25, 95)] {
                bytes.push(((bits >> shift) & mask) as u8 + b' ');
            }
        }
        Pool(bytes)
    }

    /// A value.
    #[inline]
    pub fn slice(&self, length: usize, rng: &mut Rng) -> &[u8] {
        let at = rng.below(POOL_BYTES as u64) as usize;
        &self.0[at..at + length]
    }

    /// The value after the one that ended at `at`, from the beginning again at the end: as db_bench takes them. A place at
    /// random costs a miss of the processor's cache for each value.
    #[inline]
    pub fn next(&self, at: &mut usize, length: usize) -> &[u8] {
        if *at + length > self.0.len() {
            *at = 0;
        }
        let value = &self.0[*at..*at + length];
        *at += length;
        value
    }
}

/// YCSB's `dataintegrity`: the key, a colon and the field's name, then the hash of all so far, again and again.
pub fn integrity(key: &[u8], field: &str, length: usize) -> Vec<u8> {
    let mut text = [key, b":", field.as_bytes()].concat();
    let mut hash = java_hash(0, &text);
    while text.len() < length {
        let more = format!(":{hash}");
        text.extend_from_slice(more.as_bytes());
        hash = java_hash(hash, more.as_bytes());
    }
    text.truncate(length);
    text
}

/// Java's `String.hashCode`, continued.
fn java_hash(hash: i32, text: &[u8]) -> i32 {
    text.iter().fold(hash, |hash, byte| hash.wrapping_mul(31).wrapping_add(i32::from(*byte)))
}

/// Writes the value of a record's version, which is of at least [`HEADER_BYTES`].
pub fn derive(record: u64, version: u64, length: usize, value: &mut Vec<u8>) {
    value.clear();
    value.extend_from_slice(&record.to_le_bytes());
    value.extend_from_slice(&version.to_le_bytes());
    value.extend_from_slice(&[0; 8]);
    let mut state = mix(record ^ mix(version));
    while value.len() < length {
        state = mix(state.wrapping_add(0x9e37_79b9_7f4a_7c15));
        value.extend_from_slice(&state.to_le_bytes());
    }
    value.truncate(length.max(HEADER_BYTES));
    let sum = xxh3_64(&value[HEADER_BYTES..]) ^ mix(record) ^ version;
    value[16..HEADER_BYTES].copy_from_slice(&sum.to_le_bytes());
}

/// The version of a record that a value holds.
///
/// # Errors
/// It is not a value of this record: what it is instead.
pub fn version_of(record: u64, value: &[u8]) -> Result<u64, String> {
    if value.len() < HEADER_BYTES {
        return Err(format!("it has {} bytes, less than any value written", value.len()));
    }
    let word = |at: usize| u64::from_le_bytes(value[at..at + 8].try_into().unwrap_or_default());
    let (found, version, sum) = (word(0), word(8), word(16));
    if sum != xxh3_64(&value[HEADER_BYTES..]) ^ mix(found) ^ version {
        return Err("its checksum is wrong".into());
    }
    if found != record {
        return Err(format!("it is the value of record {found}, version {version}"));
    }
    let mut whole = Vec::new();
    derive(record, version, value.len(), &mut whole);
    if whole != value {
        return Err(format!("it is not what version {version} was written with"));
    }
    Ok(version)
}

#[cfg(test)]
mod tests {
    use workload::rng::{Purpose, StreamId};

    use super::*;

    #[test]
    fn integrity_is_that_of_ycsb() {
        let text = integrity(b"user6284781860667377211", "field0", 41);
        assert_eq!(text, b"user6284781860667377211:field0:1106546143");
    }

    #[test]
    fn text_is_of_ycsbs_alphabet() {
        let mut rng = StreamId::of_run(1, Purpose::Data).rng();
        let pool = Pool::new(1000, &mut rng);
        let mut at = POOL_BYTES - 500;
        assert_eq!(pool.next(&mut at, 1000), &pool.0[POOL_BYTES - 500..POOL_BYTES + 500]);
        assert_eq!(pool.next(&mut at, 1000), &pool.0[..1000]);
        let value = pool.slice(1000, &mut rng);
        assert!(value.len() == 1000 && value.iter().all(|byte| (0x20..=0x7f).contains(byte)));
    }

    #[test]
    fn values_say_what_they_are_and_any_change_is_seen() {
        let mut value = Vec::new();
        for length in [24, 25, 31, 100, 1000] {
            derive(7, 3, length, &mut value);
            assert_eq!((value.len(), version_of(7, &value)), (length, Ok(3)));
            assert!(version_of(8, &value).unwrap_err().contains("record 7"));
            for at in [0, 9, 17, length - 1] {
                let mut torn = value.clone();
                torn[at] ^= 1;
                assert!(version_of(7, &torn).is_err(), "byte {at} of {length}");
            }
            assert!(version_of(7, &value[..length - 1]).is_err());
        }
        assert!(version_of(7, b"short").unwrap_err().contains("5 bytes"));
    }
}
