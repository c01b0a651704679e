//! Values: random bytes as YCSB makes them, YCSB's `dataintegrity`, and values that say which record and version they
//! are of.

use workload::rng::{Rng, mix};
use xxhash_rust::xxh3::xxh3_64;

/// Bytes of random text of which values are slices: so many that two values are rarely alike.
const POOL_BYTES: usize = 1 << 20;
/// Number of the field among all of the database, version, checksum: 8 bytes each, least significant first.
pub const HEADER_BYTES: usize = 24;

/// Values of fields that are written together: neighbours, from a first one on. Used again, it allocates nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldValues {
    first: usize,
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl FieldValues {
    /// Empties it; what is added next is the value of field `first`.
    pub fn begin(&mut self, first: usize) {
        self.first = first;
        self.bytes.clear();
        self.ends.clear();
    }

    /// Adds the value of the next field: what `write` appends.
    pub fn add(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.bytes);
        self.ends.push(self.bytes.len());
    }

    /// How many fields it has.
    pub fn fields(&self) -> usize {
        self.ends.len()
    }

    /// The first of them.
    pub fn first(&self) -> usize {
        self.first
    }

    /// All values, one after the other.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The value of a field; none: it is not written.
    #[inline]
    pub fn get(&self, field: usize) -> Option<&[u8]> {
        let at = field.checked_sub(self.first)?;
        let end = *self.ends.get(at)?;
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        Some(&self.bytes[start..end])
    }

    /// Fields and their values.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &[u8])> {
        (self.first..self.first + self.ends.len()).filter_map(|field| Some((field, self.get(field)?)))
    }
}

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
        let at = Pool::place(rng);
        &self.0[at..at + length]
    }

    /// A place at random for values that together are no longer than the longest.
    #[inline]
    pub fn place(rng: &mut Rng) -> usize {
        rng.below(POOL_BYTES as u64) as usize
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
pub fn integrity(key: &[u8], field: &[u8], length: usize) -> Vec<u8> {
    let mut text = [key, b":", field].concat();
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
pub fn java_hash(hash: i32, text: &[u8]) -> i32 {
    text.iter().fold(hash, |hash, byte| hash.wrapping_mul(31).wrapping_add(i32::from(*byte)))
}

/// Appends the value of a version of the field with this number, of at least [`HEADER_BYTES`].
pub fn derive(number: u64, version: u64, length: usize, values: &mut Vec<u8>) {
    let start = values.len();
    values.extend_from_slice(&number.to_le_bytes());
    values.extend_from_slice(&version.to_le_bytes());
    values.extend_from_slice(&[0; 8]);
    let mut state = mix(number ^ mix(version));
    while values.len() - start < length {
        state = mix(state.wrapping_add(0x9e37_79b9_7f4a_7c15));
        values.extend_from_slice(&state.to_le_bytes());
    }
    values.truncate(start + length.max(HEADER_BYTES));
    let value = &mut values[start..];
    let sum = xxh3_64(&value[HEADER_BYTES..]) ^ mix(number) ^ version;
    value[16..HEADER_BYTES].copy_from_slice(&sum.to_le_bytes());
}

/// The number of the field that a value says it is of; none: it is too short.
pub fn number_of(value: &[u8]) -> Option<u64> {
    value.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

/// The version of the field with this number that a value holds.
///
/// # Errors
/// It is not a value of this field: what it is instead, with the number that `name` makes readable.
pub fn version_of(number: u64, value: &[u8], name: impl Fn(u64) -> String) -> Result<u64, String> {
    if value.len() < HEADER_BYTES {
        return Err(format!("it has {} bytes, less than any value written", value.len()));
    }
    let word = |at: usize| u64::from_le_bytes(value[at..at + 8].try_into().unwrap_or_default());
    let (found, version, sum) = (word(0), word(8), word(16));
    if sum != xxh3_64(&value[HEADER_BYTES..]) ^ mix(found) ^ version {
        return Err("its checksum is wrong".into());
    }
    if found != number {
        return Err(format!("it is the value of {}, version {version}", name(found)));
    }
    let mut whole = Vec::new();
    derive(number, version, value.len(), &mut whole);
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
        let text = integrity(b"user6284781860667377211", b"field0", 41);
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
        let name = |number: u64| format!("record {number}");
        for length in [24, 25, 31, 100, 1000] {
            let mut value = Vec::new();
            derive(7, 3, length, &mut value);
            assert_eq!((value.len(), version_of(7, &value, name)), (length, Ok(3)));
            assert!(version_of(8, &value, name).unwrap_err().contains("record 7"));
            for at in [0, 9, 17, length - 1] {
                let mut torn = value.clone();
                torn[at] ^= 1;
                assert!(version_of(7, &torn, name).is_err(), "byte {at} of {length}");
            }
            assert!(version_of(7, &value[..length - 1], name).is_err());
        }
        assert!(version_of(7, b"short", name).unwrap_err().contains("5 bytes"));
    }

    #[test]
    fn values_written_together_are_found_by_their_fields() {
        let mut written = FieldValues::default();
        written.begin(3);
        written.add(|bytes| bytes.extend_from_slice(b"abc"));
        written.add(|_| {});
        written.add(|bytes| bytes.extend_from_slice(b"de"));
        let all: Vec<_> = written.iter().collect();
        assert_eq!(all, [(3, &b"abc"[..]), (4, b""), (5, b"de")]);
        assert_eq!((written.get(2), written.get(5), written.get(6)), (None, Some(&b"de"[..]), None));
        assert_eq!((written.bytes(), written.fields()), (&b"abcde"[..], 3));
    }
}
