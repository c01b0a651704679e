//! The two superblocks: the root of everything on storage.
//!
//! Units 0 and 1 hold two copies of one, units 2 and 3 of the other; a checkpoint overwrites the older. The valid
//! one with the higher generation counts, so a torn write leaves the previous checkpoint in force. The second
//! copy is there because damage to the only copy of the newer one would bring back the older state unnoticed.

use crate::block::{BlockId, Segment};
use crate::error::{Doing, Error, Result};
use crate::storage::{AlignedBuf, Storage, UNIT};
use crate::store::Shape;
use crate::table::{put_segments, read_segments};
use crate::wire::{Decoded, Malformed, Reader, put_int, put_u32, put_u64};

/// The first seven bytes, and the version of the format as the eighth.
const MAGIC: [u8; 8] = *b"\"BEtree3";
/// Versions that are understood; what is written is of the newest.
const VERSIONS: std::ops::RangeInclusive<u8> = b'1'..=b'3';
/// Most segments a copy of the table may be in, so that a superblock fits its unit.
pub const TABLE_SEGMENTS_MAX: usize = 150;
/// First unit of the log.
pub const LOG_START: u64 = 4;
const COPIES: usize = 2;

/// One superblock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Random number of the store.
    pub uuid: u64,
    /// Number of the checkpoint.
    pub generation: u64,
    /// Number of times the store has been opened; log frames of other lives do not count.
    pub life: u64,
    /// Units of the whole storage.
    pub units: u64,
    /// Units of the log, which starts at [`LOG_START`]. The rest of the storage is for blocks.
    pub log_units: u64,
    /// Node sizes.
    pub shape: Shape,
    /// Where the translation table is.
    pub table: Vec<Segment>,
    /// Where its second copy is; empty if there was no space to spare for one.
    pub table_copy: Vec<Segment>,
    /// Its length in bytes.
    pub table_len: u64,
    /// Its CRC-32C.
    pub table_crc: u32,
    /// The root node, and the hints about it that a parent would keep: level, weight, width.
    pub root: (BlockId, u8, u32, u32),
    /// Number of the last message that the root includes.
    pub msn: u64,
    /// Position of the first log frame to replay, see [`crate::log`].
    pub log_pos: u64,
    /// Its sequence number.
    pub log_seq: u64,
}

impl Superblock {
    fn encode(&self) -> Result<AlignedBuf> {
        let mut out = Vec::new();
        out.extend_from_slice(&MAGIC);
        for n in [self.uuid, self.generation, self.life] {
            put_u64(&mut out, n);
        }
        let s = &self.shape;
        for n in [s.leaf_bytes, s.basement_bytes, s.buffer_bytes, s.fanout] {
            put_int(&mut out, n as u64);
        }
        let (root, level, weight, width) = self.root;
        for n in [self.units, self.log_units, self.table_len, root, level as u64, weight as u64, width as u64]
        {
            put_int(&mut out, n);
        }
        for n in [self.msn, self.log_pos, self.log_seq] {
            put_int(&mut out, n);
        }
        put_u32(&mut out, self.table_crc);
        put_segments(&mut out, &self.table);
        put_segments(&mut out, &self.table_copy);
        if out.len() > UNIT - 4 {
            return Err(Error::NoSpace);
        }
        let mut buf = AlignedBuf::from_slice(&out);
        let crc = crc32c::crc32c(&buf[..UNIT - 4]);
        buf[UNIT - 4..].copy_from_slice(&crc.to_le_bytes());
        Ok(buf)
    }

    /// Decodes one unit.
    pub fn decode(bytes: &[u8]) -> Decoded<Self> {
        let (body, crc) = bytes.split_at(UNIT - 4);
        if crc != crc32c::crc32c(body).to_le_bytes() {
            return Err(Malformed("checksum mismatch"));
        }
        let mut r = Reader::new(body);
        let magic = r.take(MAGIC.len())?;
        if magic[..7] != MAGIC[..7] {
            return Err(Malformed("unknown format"));
        }
        if !VERSIONS.contains(&magic[7]) {
            return Err(Malformed("a version of the format that this program does not know"));
        }
        let (uuid, generation, life) = (r.u64()?, r.u64()?, r.u64()?);
        let mut size = || r.int().map(|n| n as usize);
        let shape =
            Shape { leaf_bytes: size()?, basement_bytes: size()?, buffer_bytes: size()?, fanout: size()? };
        let (units, log_units, table_len) = (r.int()?, r.int()?, r.int()?);
        let level = |n: u64| u8::try_from(n).map_err(|_| Malformed("level too large"));
        let root = (r.int()?, level(r.int()?)?, r.int32()?, r.int32()?);
        let (msn, log_pos, log_seq, table_crc) = (r.int()?, r.int()?, r.int()?, r.u32()?);
        let (table, table_copy) = (read_segments(&mut r)?, read_segments(&mut r)?);
        Ok(Superblock {
            uuid,
            generation,
            life,
            units,
            log_units,
            shape,
            table,
            table_copy,
            table_len,
            table_crc,
            root,
            msn,
            log_pos,
            log_seq,
        })
    }

    /// Like [`Superblock::write`] and durable, but one copy after the other, so that what it overwrites stays readable
    /// until the new one is: for a repair whose only good superblock is the one being replaced.
    pub fn write_in_turn(&self, storage: &dyn Storage) -> Result<()> {
        let one = self.encode()?;
        for copy in 0..COPIES as u64 {
            let unit = self.generation % 2 * COPIES as u64 + copy;
            storage.write_at(&one, unit * UNIT as u64).doing("writing a superblock")?;
            storage.flush().doing("flushing a superblock")?;
        }
        Ok(())
    }

    /// The encoded translation table, from the first copy that matches its checksum.
    pub fn read_table(&self, storage: &dyn Storage) -> Result<Vec<u8>> {
        let first = self.read_table_copy(storage, &self.table);
        match first {
            Err(e) if !self.table_copy.is_empty() => {
                self.read_table_copy(storage, &self.table_copy).map_err(|_| e)
            }
            first => first,
        }
    }

    /// One copy of the encoded translation table.
    pub fn read_table_copy(&self, storage: &dyn Storage, place: &[Segment]) -> Result<Vec<u8>> {
        let first = place.first().map_or(0, |s| s.start) * UNIT as u64;
        let corrupt = |why: &str| Error::corrupt("translation table", first, why);
        let fits = |s: &Segment| s.start.checked_add(s.units as u64).is_some_and(|end| end <= self.units);
        let size: usize = place.iter().map(|s| s.units as usize * UNIT).sum();
        if !place.iter().all(fits) || self.table_len > size as u64 {
            return Err(corrupt("it lies outside the storage"));
        }
        let mut buf = AlignedBuf::zeroed(size);
        let mut at = 0;
        for s in place {
            let n = s.units as usize * UNIT;
            let off = s.start * UNIT as u64;
            storage.read_at(&mut buf[at..at + n], off).doing("reading the translation table")?;
            at += n;
        }
        let bytes = &buf[..self.table_len as usize];
        if crc32c::crc32c(bytes) != self.table_crc {
            return Err(corrupt("checksum mismatch"));
        }
        Ok(bytes.to_vec())
    }

    /// All segments that copies of the table take.
    pub fn table_segments(&self) -> Vec<Segment> {
        [&self.table[..], &self.table_copy[..]].concat()
    }

    /// Writes over the older of the two. Not durable before a flush.
    pub fn write(&self, storage: &dyn Storage) -> Result<()> {
        let one = self.encode()?;
        let mut buf = AlignedBuf::zeroed(COPIES * UNIT);
        buf.chunks_mut(UNIT).for_each(|copy| copy.copy_from_slice(&one));
        storage.write_at(&buf, self.generation % 2 * buf.len() as u64).doing("writing a superblock")
    }

    /// The superblock in force.
    pub fn read(storage: &dyn Storage) -> Result<Self> {
        let len = storage.len().doing("measuring the storage")?;
        if len < LOG_START * UNIT as u64 {
            return Err(Error::NotAStore(format!("{len} bytes are too few")));
        }
        let mut found: Option<Superblock> = None;
        let mut why = String::new();
        for slot in 0..LOG_START {
            let mut buf = AlignedBuf::zeroed(UNIT);
            storage.read_at(&mut buf, slot * UNIT as u64).doing("reading a superblock")?;
            match Superblock::decode(&buf) {
                Ok(s) if found.as_ref().is_none_or(|f| f.generation < s.generation) => found = Some(s),
                Ok(_) => {}
                Err(m) if why.is_empty() => why = format!("superblock in unit {slot}: {}", m.0),
                Err(_) => {}
            }
        }
        found.ok_or(Error::NotAStore(why))
    }

    /// Number of valid copies of the superblock of checkpoint `generation`.
    pub fn copies(storage: &dyn Storage, generation: u64) -> Result<usize> {
        let mut buf = AlignedBuf::zeroed(COPIES * UNIT);
        storage.read_at(&mut buf, generation % 2 * (COPIES * UNIT) as u64).doing("reading a superblock")?;
        let valid = |copy: &&[u8]| Superblock::decode(copy).is_ok_and(|s| s.generation == generation);
        Ok(buf.chunks(UNIT).filter(valid).count())
    }

    /// Removes both, so that nothing can be opened until a checkpoint has been written.
    pub fn erase(storage: &dyn Storage) -> Result<()> {
        storage.write_at(&AlignedBuf::zeroed(LOG_START as usize * UNIT), 0).doing("erasing superblocks")?;
        storage.flush().doing("flushing")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::SimStorage;

    fn sample(generation: u64) -> Superblock {
        Superblock {
            uuid: 5,
            generation,
            life: 3,
            units: 1000,
            log_units: 100,
            shape: Shape { leaf_bytes: 1, basement_bytes: 2, buffer_bytes: 3, fanout: 4 },
            table: vec![Segment { start: 700, units: 3 }; 4],
            table_copy: vec![Segment { start: 800, units: 12 }],
            table_len: 9000,
            table_crc: 77,
            root: (12, 3, 400, 5),
            msn: 99,
            log_pos: 8192,
            log_seq: 17,
        }
    }

    #[test]
    fn the_newest_valid_one_counts() {
        let s = SimStorage::new(16 * UNIT as u64);
        assert!(matches!(Superblock::read(&s), Err(Error::NotAStore(_))));
        sample(1).write(&s).expect("write");
        sample(2).write(&s).expect("write");
        assert_eq!(Superblock::read(&s).expect("read"), sample(2));
        assert_eq!(Superblock::copies(&s, 2).expect("read"), 2);
        s.corrupt(20, &[1, 2, 3]);
        assert_eq!(Superblock::read(&s).expect("read"), sample(2), "the second copy serves");
        assert_eq!(Superblock::copies(&s, 2).expect("read"), 1);
        s.corrupt(UNIT as u64 + 20, &[1, 2, 3]);
        assert_eq!(Superblock::read(&s).expect("read"), sample(1), "falls back when the newest is torn");
        Superblock::erase(&s).expect("erase");
        assert!(Superblock::read(&s).is_err());
    }

    #[test]
    fn another_version_is_refused_by_name() {
        let s = SimStorage::new(16 * UNIT as u64);
        let mut unit = sample(2).encode().expect("encode");
        unit[7] = b'9';
        let crc = crc32c::crc32c(&unit[..UNIT - 4]);
        unit[UNIT - 4..].copy_from_slice(&crc.to_le_bytes());
        s.corrupt(0, &unit);
        let error = Superblock::read(&s).expect_err("an unknown version").to_string();
        assert!(error.contains("version of the format"), "{error}");
    }

    #[test]
    fn the_largest_table_list_fits() {
        let far = Segment { start: u64::MAX >> 12, units: 1 << 20 };
        let most = vec![far; TABLE_SEGMENTS_MAX];
        let big = Superblock { table: most.clone(), table_copy: most, ..sample(u64::MAX) };
        assert!(big.encode().is_ok());
    }
}
