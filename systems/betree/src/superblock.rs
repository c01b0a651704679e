//! The two superblocks: the root of everything on storage.
//!
//! Units 0 and 1 hold two copies of one, units 2 and 3 of the other; a checkpoint overwrites the older. The valid
//! one with the higher generation counts, so a torn write leaves the previous checkpoint in force. The second
//! copy is there because damage to the only copy of the newer one would bring back the older state unnoticed.

use crate::block::{BlockId, Segment};
use crate::error::{Doing, Error, Result};
use crate::place::{PieceList, StoredPiece};
use crate::storage::{AlignedBuf, Storage, UNIT};
use crate::store::NodeSizes;
use crate::table::read_segments;
use crate::wire::{COUNT_MAX, Decoded, Malformed, Reader, put_bytes, put_int, put_u64};

/// The first seven bytes, and the version of the format as the eighth.
const MAGIC: [u8; 8] = *b"\"BEtree4";
/// Versions that are understood; what is written is of the newest.
const VERSIONS: std::ops::RangeInclusive<u8> = b'1'..=b'4';
/// The first version whose superblock says up to which batch all was durable.
const DURABLE_SINCE: u8 = b'4';
/// In versions before this one the table is in one piece, of which the superblock has the fields.
const LISTED_FROM: u8 = b'4';
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
    pub shape: NodeSizes,
    /// Where the translation table is.
    pub table: PieceList,
    /// The root node, and the hints about it that a parent would keep: level, weight, width.
    pub root: (BlockId, u8, u32, u32),
    /// Number of the last message that the root includes.
    pub msn: u64,
    /// Position of the first log frame to replay, see [`crate::log`].
    pub log_pos: u64,
    /// Its sequence number.
    pub log_seq: u64,
    /// Number of the last batch that was durable when this was written, with the log: an opening must find as much. What is older
    /// than format 4 says no more than `msn`.
    pub durable: u64,
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
        for n in [self.units, self.log_units, root, level as u64, weight as u64, width as u64] {
            put_int(&mut out, n);
        }
        for n in [self.msn, self.log_pos, self.log_seq, self.durable] {
            put_int(&mut out, n);
        }
        out.push(self.table.depth);
        put_bytes(&mut out, &self.table.bytes);
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
        let shape = NodeSizes {
            leaf_bytes: size()?,
            basement_bytes: size()?,
            buffer_bytes: size()?,
            fanout: size()?,
        };
        let (units, log_units) = (r.int()?, r.int()?);
        let listed = magic[7] >= LISTED_FROM;
        let len = if listed { 0 } else { r.int()? };
        let level = |n: u64| u8::try_from(n).map_err(|_| Malformed("level too large"));
        let root = (r.int()?, level(r.int()?)?, r.int32()?, r.int32()?);
        let (msn, log_pos, log_seq) = (r.int()?, r.int()?, r.int()?);
        let durable = if magic[7] < DURABLE_SINCE { msn } else { r.int()? };
        let table = if listed {
            PieceList { depth: r.u8()?, bytes: r.bytes()?.to_vec() }
        } else {
            let (crc, first, copy) = (r.u32()?, read_segments(&mut r)?, read_segments(&mut r)?);
            PieceList::of(&[StoredPiece { len, crc, first, copy }])
        };
        let superblock = Superblock {
            uuid,
            generation,
            life,
            units,
            log_units,
            shape,
            table,
            root,
            msn,
            log_pos,
            log_seq,
            durable,
        };
        superblock.check()?;
        Ok(superblock)
    }

    /// What holds for every superblock that a store has written, so that nothing computed from it overflows.
    fn check(&self) -> Decoded<()> {
        let first = self.log_units.checked_add(LOG_START).filter(|first| *first < self.units);
        let bytes = self.units.checked_mul(UNIT as u64);
        let (Some(first), Some(_)) = (first, bytes) else {
            return Err(Malformed("sizes of log and storage that contradict each other"));
        };
        let inside = |s: Segment| {
            let end = s.start.checked_add(s.units.into());
            s.start >= first && end.is_some_and(|end| end <= self.units)
        };
        if !self.table.pieces()?.iter().flat_map(StoredPiece::segments).all(inside) {
            return Err(Malformed("a table outside the storage"));
        }
        let counts = [self.generation, self.life, self.msn, self.log_pos, self.log_seq, self.durable];
        let unlikely = counts.iter().any(|n| *n > COUNT_MAX) || self.root.0 > COUNT_MAX;
        if unlikely || self.log_units == 0 || !self.log_pos.is_multiple_of(UNIT as u64) {
            return Err(Malformed("a number out of range"));
        }
        Ok(())
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

    /// Writes over the older of the two. Not durable before a flush.
    pub fn write(&self, storage: &dyn Storage) -> Result<()> {
        let one = self.encode()?;
        let mut buf = AlignedBuf::zeroed(COPIES * UNIT);
        buf.chunks_mut(UNIT).for_each(|copy| copy.copy_from_slice(&one));
        storage.write_at(&buf, self.generation % 2 * buf.len() as u64).doing("writing a superblock")
    }

    /// The superblock in force, and whether all copies are whole: if not, one that is newer may be lost. A copy that cannot be read
    /// counts as damaged: three are left.
    pub fn read(storage: &dyn Storage) -> Result<(Self, bool)> {
        let len = storage.len().doing("measuring the storage")?;
        if len < LOG_START * UNIT as u64 {
            return Err(Error::NotAStore(format!("{len} bytes are too few")));
        }
        let mut found: Option<Superblock> = None;
        let mut damaged: Option<Error> = None;
        for slot in 0..LOG_START {
            match read_copy(storage, slot) {
                Ok(s) if found.as_ref().is_none_or(|f| f.generation < s.generation) => found = Some(s),
                Ok(_) => {}
                Err(e) => _ = damaged.get_or_insert(e),
            }
        }
        let whole = damaged.is_none();
        let none = || damaged.unwrap_or_else(|| Error::NotAStore("there is no superblock".into()));
        found.map(|superblock| (superblock, whole)).ok_or_else(none)
    }

    /// Number of valid copies of the superblock of checkpoint `generation`.
    pub fn copies(storage: &dyn Storage, generation: u64) -> usize {
        let first = generation % 2 * COPIES as u64;
        let valid = |unit: &u64| read_copy(storage, *unit).is_ok_and(|s| s.generation == generation);
        (first..first + COPIES as u64).filter(valid).count()
    }

    /// Removes both, so that nothing can be opened until a checkpoint has been written.
    pub fn erase(storage: &dyn Storage) -> Result<()> {
        storage.write_at(&AlignedBuf::zeroed(LOG_START as usize * UNIT), 0).doing("erasing superblocks")?;
        storage.flush().doing("flushing")
    }
}

/// The copy in a unit.
fn read_copy(storage: &dyn Storage, unit: u64) -> Result<Superblock> {
    let mut buf = AlignedBuf::zeroed(UNIT);
    storage.read_at(&mut buf, unit * UNIT as u64).doing("reading a superblock")?;
    Superblock::decode(&buf).map_err(|m| Error::NotAStore(format!("superblock in unit {unit}: {}", m.0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::LIST_BYTES_MAX;
    use crate::storage::{FaultPlan, SimStorage};

    /// A table in one piece, with copies that begin at these units.
    fn at(starts: &[u64]) -> PieceList {
        let place = |n: usize| starts.get(n).map(|start| Segment { start: *start, units: 3 });
        let place = |n| place(n).into_iter().collect();
        PieceList::of(&[StoredPiece { len: 9000, crc: 1, first: place(0), copy: place(1) }])
    }

    fn sample(generation: u64) -> Superblock {
        Superblock {
            uuid: 5,
            generation,
            life: 3,
            units: 1000,
            log_units: 100,
            shape: NodeSizes { leaf_bytes: 1, basement_bytes: 2, buffer_bytes: 3, fanout: 4 },
            table: PieceList { depth: 1, ..at(&[200, 300]) },
            root: (12, 3, 400, 5),
            msn: 99,
            log_pos: 8192,
            log_seq: 17,
            durable: 120,
        }
    }

    #[test]
    fn the_newest_valid_one_counts() {
        let s = SimStorage::new(16 * UNIT as u64);
        assert!(matches!(Superblock::read(&s), Err(Error::NotAStore(_))));
        sample(1).write(&s).expect("write");
        sample(2).write(&s).expect("write");
        assert_eq!(Superblock::read(&s).expect("read").0, sample(2));
        assert_eq!(Superblock::copies(&s, 2), 2);
        s.corrupt(20, &[1, 2, 3]);
        assert_eq!(Superblock::read(&s).expect("read").0, sample(2), "the second copy serves");
        assert_eq!(Superblock::copies(&s, 2), 1);
        s.corrupt(UNIT as u64 + 20, &[1, 2, 3]);
        assert_eq!(Superblock::read(&s).expect("read").0, sample(1), "falls back when the newest is torn");
        Superblock::erase(&s).expect("erase");
        assert!(Superblock::read(&s).is_err());
    }

    #[test]
    fn a_copy_that_cannot_be_read_leaves_the_others() {
        let s = SimStorage::new(16 * UNIT as u64);
        sample(1).write(&s).expect("write");
        sample(2).write(&s).expect("write");
        assert_eq!(Superblock::read(&s).expect("read"), (sample(2), true));
        for unit in 0..LOG_START {
            s.set_faults(FaultPlan { read_error_at: Some(unit), ..FaultPlan::default() });
            assert_eq!(Superblock::read(&s).expect("three are left"), (sample(2), false), "unit {unit}");
        }
        s.set_faults(FaultPlan { read_error_at: Some(1), ..FaultPlan::default() });
        assert_eq!(Superblock::copies(&s, 2), 1);
    }

    #[test]
    fn numbers_that_no_store_has_written_are_refused() {
        let wild = |change: &dyn Fn(&mut Superblock)| {
            let mut superblock = sample(2);
            change(&mut superblock);
            Superblock::decode(&superblock.encode().expect("encode")).expect_err("decoded").0
        };
        for start in [0, 103, 998, 1 << 40] {
            assert!(wild(&|s| s.table = at(&[start])).contains("outside"), "{start}");
            assert!(wild(&|s| s.table = at(&[200, start])).contains("outside"), "{start}");
        }
        for start in [u64::MAX / UNIT as u64, u64::MAX - 1, u64::MAX] {
            assert!(wild(&|s| s.table = at(&[start])).contains("beyond"), "{start}");
            assert!(wild(&|s| s.table = at(&[200, start])).contains("beyond"), "{start}");
        }
        for units in [0, 104, u64::MAX] {
            assert!(wild(&|s| s.units = units).contains("contradict"), "{units}");
        }
        for units in [996, u64::MAX - 2, u64::MAX] {
            assert!(wild(&|s| s.log_units = units).contains("contradict"), "{units}");
        }
        for field in [0, 1, 2, 3, 4, 5] {
            let change = |s: &mut Superblock| {
                let fields = [
                    &mut s.generation,
                    &mut s.life,
                    &mut s.msn,
                    &mut s.log_pos,
                    &mut s.log_seq,
                    &mut s.durable,
                ];
                *fields.into_iter().nth(field).expect("a field") = u64::MAX;
            };
            assert!(wild(&change).contains("out of range"), "{field}");
        }
        assert!(wild(&|s| s.log_pos += 1).contains("out of range"));
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
    fn numbers_that_no_store_has_are_refused() {
        let read = |sb: &Superblock| Superblock::decode(&sb.encode().expect("encode"));
        assert!(read(&sample(1)).is_ok());
        for wild in [
            Superblock { generation: u64::MAX, ..sample(1) },
            Superblock { life: u64::MAX, ..sample(1) },
            Superblock { msn: u64::MAX, ..sample(1) },
            Superblock { log_seq: u64::MAX, ..sample(1) },
            Superblock { log_pos: u64::MAX, ..sample(1) },
            Superblock { log_pos: 1, ..sample(1) },
            Superblock { log_units: 0, ..sample(1) },
            Superblock { log_units: u64::MAX, ..sample(1) },
            Superblock { log_units: 998, ..sample(1) },
            Superblock { units: u64::MAX, ..sample(1) },
            Superblock { root: (u64::MAX, 3, 400, 5), ..sample(1) },
            Superblock { table: at(&[u64::MAX]), ..sample(1) },
            // Its units fit 64 bits, its bytes do not.
            Superblock { table: at(&[u64::MAX / UNIT as u64]), ..sample(1) },
            Superblock { table: PieceList { depth: 0, bytes: vec![7; 70] }, ..sample(1) },
        ] {
            assert!(read(&wild).is_err(), "{wild:?}");
        }
    }

    #[test]
    fn the_longest_list_of_pieces_fits() {
        let table = PieceList { depth: u8::MAX, bytes: vec![0; LIST_BYTES_MAX] };
        let most = usize::MAX;
        let shape = NodeSizes { leaf_bytes: most, basement_bytes: most, buffer_bytes: most, fanout: most };
        let root = (u64::MAX, u8::MAX, u32::MAX, u32::MAX);
        let [units, log_units, msn, log_pos, log_seq, durable] = [u64::MAX; 6];
        let sample = sample(u64::MAX);
        let big =
            Superblock { table, shape, root, units, log_units, msn, log_pos, log_seq, durable, ..sample };
        big.encode().expect("all of it fits");
    }
}
