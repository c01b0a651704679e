//! What written blocks hold, and whether they still do. The header is fio's: what is written here fio can check, and the other
//! way round.
//!
//! Each block that was written is remembered until it is read back: by its place, and by the seed that its header holds. So a
//! block of an earlier write is found even where its checksum is right.

use std::collections::{BTreeMap, VecDeque};

use md5::{Digest, Md5};
use workload::Stream;
use workload::stream::{Check, Verify};

use super::random::{Random, SeedUse, Seeds};

/// The first two bytes of a header.
const MAGIC: u16 = 0xacca;
/// Bytes of a header, the checksum of the data left out.
const HEADER_BYTES: usize = 40;
/// Where the header's own checksum lies in it: its last field.
const CHECKSUM_AT: usize = 36;

/// A block that was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    pub file: usize,
    pub offset: u64,
    pub bytes: usize,
    /// Number of the write.
    number: u16,
    seed: u64,
}

/// Fills and checks blocks of a stream.
#[derive(Debug)]
pub(super) struct Checker<'r> {
    spec: &'r Verify,
    /// What is written is remembered until it is read back.
    reads_back: bool,
    stream: u16,
    seeds: Random,
    writes: u64,
    /// In the order of writes, in which they are read back.
    listed: Option<VecDeque<Piece>>,
    /// By file and offset: a later write goes before those that it overlaps. Without the list they are read back in this order.
    sorted: Option<BTreeMap<(usize, u64), Piece>>,
}

/// The number by which fio's headers tell what the checksum is.
fn code(method: Check) -> u16 {
    match method {
        Check::Header => 1,
        Check::Md5 => 2,
        Check::Crc32c => 5,
        Check::Pattern => 18,
        Check::Nothing => 19,
    }
}

/// Bytes before the data of a block.
fn head(method: Check) -> usize {
    match method {
        Check::Header => HEADER_BYTES,
        Check::Md5 => HEADER_BYTES + 16,
        Check::Crc32c => HEADER_BYTES + 4,
        Check::Pattern | Check::Nothing => 0,
    }
}

/// The checksum of data, as a header holds it. fio's CRC-32C is not inverted at the end.
fn checksum(method: Check, data: &[u8]) -> Vec<u8> {
    match method {
        Check::Md5 => Md5::digest(data).to_vec(),
        Check::Crc32c => (!crc32c::crc32c(data)).to_le_bytes().to_vec(),
        Check::Header | Check::Pattern | Check::Nothing => Vec::new(),
    }
}

impl<'r> Checker<'r> {
    /// For a stream that wants it; `anew`: it begins anew, within a pass, with blocks that were all visited.
    pub(super) fn new(spec: &'r Stream, seeds: &Seeds, reads_back: bool, anew: bool) -> Option<Checker<'r>> {
        let listed = spec.order.random && spec.order.visit_once;
        let sorted = !listed || anew;
        spec.verify.as_ref().map(|verify| Checker {
            spec: verify,
            reads_back,
            stream: spec.number as u16,
            seeds: seeds.random(SeedUse::Verify),
            writes: 0,
            listed: listed.then(VecDeque::new),
            sorted: sorted.then(BTreeMap::new),
        })
    }

    /// Makes a block what a write to that place is to hold, and remembers it if it is to be read back.
    pub(super) fn fill(&mut self, file: usize, offset: u64, block: &mut [u8]) {
        let seed = u64::from(self.seeds.bits()).wrapping_mul(u64::from(self.seeds.bits()));
        let piece = Piece { file, offset, bytes: block.len(), number: self.writes as u16, seed };
        self.writes += 1;
        if self.spec.method != Check::Nothing {
            if self.spec.pattern.is_empty() {
                scatter(seed, block);
            } else {
                block
                    .iter_mut()
                    .zip(self.spec.pattern.iter().cycle())
                    .for_each(|(byte, wanted)| *byte = *wanted);
            }
            let each = self.each(block.len());
            for (number, part) in block.chunks_mut(each).enumerate() {
                self.label(part, &piece, offset + (number * each) as u64);
            }
        }
        if self.reads_back {
            self.remember(piece);
        }
    }

    /// How many bytes of a block have a header.
    fn each(&self, bytes: usize) -> usize {
        match self.spec.interval as usize {
            0 => bytes.max(1),
            interval if interval <= bytes => interval,
            _ => bytes.max(1),
        }
    }

    fn label(&self, part: &mut [u8], piece: &Piece, offset: u64) {
        let method = self.spec.method;
        let head = head(method);
        if head == 0 || part.len() <= head {
            return;
        }
        let sum = checksum(method, &part[head..]);
        let bytes = part.len() as u32;
        part[..2].copy_from_slice(&MAGIC.to_le_bytes());
        part[2..4].copy_from_slice(&code(method).to_le_bytes());
        part[4..8].copy_from_slice(&bytes.to_le_bytes());
        part[8..16].copy_from_slice(&piece.seed.to_le_bytes());
        part[16..24].copy_from_slice(&offset.to_le_bytes());
        // when it was written is nobody's concern
        part[24..32].fill(0);
        part[32..34].copy_from_slice(&self.stream.to_le_bytes());
        part[34..36].copy_from_slice(&piece.number.to_le_bytes());
        let own = !crc32c::crc32c(&part[..CHECKSUM_AT]);
        part[CHECKSUM_AT..HEADER_BYTES].copy_from_slice(&own.to_le_bytes());
        part[HEADER_BYTES..head].copy_from_slice(&sum);
    }

    fn remember(&mut self, piece: Piece) {
        if let Some(listed) = &mut self.listed {
            listed.push_back(piece);
        }
        let Some(sorted) = &mut self.sorted else { return };
        let end = piece.offset + piece.bytes as u64;
        let overlapped: Vec<(usize, u64)> = sorted
            .range(..(piece.file, end))
            .rev()
            .take_while(|((file, at), other)| *file == piece.file && at + other.bytes as u64 > piece.offset)
            .map(|(key, _)| *key)
            .collect();
        overlapped.iter().for_each(|key| _ = sorted.remove(key));
        sorted.insert((piece.file, piece.offset), piece);
    }

    /// How many blocks wait to be read back.
    pub(super) fn waiting(&self) -> u64 {
        let listed = || self.listed.as_ref().map_or(0, VecDeque::len);
        self.sorted.as_ref().map_or_else(listed, BTreeMap::len) as u64
    }

    /// The next block to be read back.
    pub(super) fn next(&mut self) -> Option<Piece> {
        let Some(listed) = &mut self.listed else {
            return self.sorted.as_mut()?.pop_first().map(|(_, piece)| piece);
        };
        loop {
            let piece = listed.pop_front()?;
            let Some(sorted) = &mut self.sorted else { return Some(piece) };
            // it may be overwritten
            if sorted.get(&(piece.file, piece.offset)) == Some(&piece) {
                return sorted.remove(&(piece.file, piece.offset));
            }
        }
    }

    /// Whether a block still holds what was written; without a piece, what any earlier run may have written there.
    pub(super) fn check(&self, piece: Option<&Piece>, offset: u64, block: &[u8]) -> Result<(), String> {
        let each = self.each(block.len());
        for (number, part) in block.chunks(each).enumerate() {
            let begin = offset + (number * each) as u64;
            self.check_part(piece, begin, part, number * each)
                .map_err(|wrong| format!("verify failed at offset {begin}, {} bytes: {wrong}", part.len()))?;
        }
        Ok(())
    }

    fn check_part(
        &self,
        piece: Option<&Piece>,
        offset: u64,
        part: &[u8],
        begin: usize,
    ) -> Result<(), String> {
        let method = self.spec.method;
        let head = head(method);
        if head > 0 && part.len() > head {
            let word = |at: usize| u32::from_le_bytes([part[at], part[at + 1], part[at + 2], part[at + 3]]);
            let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
            let field = |name: &str, found: u64, expected: u64| match found == expected {
                true => Ok(()),
                false => Err(format!("its header has {name} {found:#x}, expected {expected:#x}")),
            };
            field("the magic number", u64::from(word(0) & 0xffff), u64::from(MAGIC))?;
            field("the length", u64::from(word(4)), part.len() as u64)?;
            field("the offset", long(16), offset)?;
            if let Some(piece) = piece {
                field("the number of a write", u64::from(word(32) >> 16), u64::from(piece.number))?;
                field("the seed of a write", long(8), piece.seed)?;
            }
            field(
                "the checksum",
                u64::from(word(CHECKSUM_AT)),
                u64::from(!crc32c::crc32c(&part[..CHECKSUM_AT])),
            )?;
            let (found, expected) = (&part[HEADER_BYTES..head], checksum(method, &part[head..]));
            if *found != expected[..] {
                let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
                return Err(format!(
                    "its data have {:?} {}, expected {}",
                    method,
                    hex(&expected),
                    hex(found)
                ));
            }
        }
        if self.spec.pattern.is_empty() || method == Check::Nothing {
            return Ok(());
        }
        let wanted = self.spec.pattern.iter().cycle().skip((begin + head) % self.spec.pattern.len());
        match part[head.min(part.len())..].iter().zip(wanted).position(|(byte, wanted)| byte != wanted) {
            None => Ok(()),
            Some(at) => {
                let expected = self.spec.pattern[(begin + head + at) % self.spec.pattern.len()];
                Err(format!("byte {} is {:02x}, expected {expected:02x}", head + at, part[head + at]))
            }
        }
    }
}

/// Random bytes that follow from a seed.
fn scatter(seed: u64, block: &mut [u8]) {
    let mut state = seed | 1;
    for word in block.chunks_mut(8) {
        // Marsaglia's xorshift with 64 bits
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        word.copy_from_slice(&state.to_le_bytes()[..word.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checker(spec: &Verify, sorted: bool) -> Checker<'_> {
        both(spec, !sorted, sorted)
    }

    fn both(spec: &Verify, listed: bool, sorted: bool) -> Checker<'_> {
        Checker {
            spec,
            reads_back: true,
            stream: 1,
            seeds: Random::new(7),
            writes: 0,
            listed: listed.then(VecDeque::new),
            sorted: sorted.then(BTreeMap::new),
        }
    }

    fn spec(method: Check, pattern: &[u8], interval: u64) -> Verify {
        Verify { method, pattern: pattern.to_vec(), interval, read_back: true, backlog: 0, batch: 0 }
    }

    #[test]
    fn each_changed_byte_is_found_and_named() {
        for method in [Check::Md5, Check::Crc32c, Check::Pattern] {
            for interval in [0, 512] {
                let spec = spec(method, if method == Check::Pattern { b"abc" } else { b"" }, interval);
                let mut checker = checker(&spec, false);
                let mut block = vec![0; 4096];
                checker.fill(0, 8192, &mut block);
                let piece = checker.next().unwrap();
                assert_eq!(checker.check(Some(&piece), 8192, &block), Ok(()));
                for at in (0..4096)
                    .step_by(61)
                    .filter(|at| method == Check::Pattern || !(24..34).contains(&(at % 512)))
                {
                    block[at] ^= 4;
                    let wrong = checker.check(Some(&piece), 8192, &block).expect_err("a byte is other");
                    let begin = 8192 + if interval == 0 { 0 } else { at as u64 / 512 * 512 };
                    assert!(wrong.starts_with(&format!("verify failed at offset {begin},")), "{wrong}");
                    assert!(wrong.contains("expected"), "{wrong}");
                    block[at] ^= 4;
                }
            }
        }
    }

    #[test]
    fn a_block_of_an_earlier_write_is_found() {
        let spec = spec(Check::Crc32c, b"", 0);
        let mut checker = checker(&spec, true);
        let (mut old, mut new) = (vec![0; 512], vec![0; 512]);
        checker.fill(0, 0, &mut old);
        checker.fill(0, 0, &mut new);
        assert_eq!(checker.waiting(), 1, "the later write goes before the earlier one");
        let piece = checker.next().unwrap();
        assert_eq!(checker.check(Some(&piece), 0, &new), Ok(()));
        assert!(checker.check(Some(&piece), 0, &old).unwrap_err().contains("number of a write"));
        // nobody knows what an earlier run has written there
        assert_eq!(checker.check(None, 0, &old), Ok(()));
        assert!(checker.check(None, 512, &old).unwrap_err().contains("the offset 0x0, expected 0x200"));
    }

    #[test]
    fn what_is_overlapped_is_not_read_back() {
        let spec = spec(Check::Crc32c, b"", 0);
        for (listed, expected) in [
            (false, [(0, 2048), (0, 4096), (0, 8192), (1, 0)]),
            (true, [(0, 8192), (0, 4096), (0, 2048), (1, 0)]),
        ] {
            let mut checker = both(&spec, listed, true);
            let mut block = vec![0; 4096];
            for (offset, bytes) in [(0, 4096), (8192, 4096), (4096, 1024), (2048, 1024)] {
                checker.fill(0, offset, &mut block[..bytes]);
            }
            checker.fill(1, 0, &mut block);
            assert_eq!(checker.waiting(), 4);
            let left: Vec<(usize, u64)> =
                std::iter::from_fn(|| checker.next()).map(|one| (one.file, one.offset)).collect();
            assert_eq!((&left[..], checker.waiting()), (&expected[..], 0));
        }
    }
}
