//! Where the translation table is: in pieces, the whole of some checkpoint and then the changes of each one since.
//!
//! A piece is written once, in two copies if there is space to spare, wherever units are free. The superblock lists the
//! pieces. A list that it has no room for, because free space was in very small pieces, lies in a piece of its own, and the
//! superblock has the list that names only this one; and so on.

use crate::block::Segment;
use crate::error::{Doing, Error, Result};
use crate::storage::{AlignedBuf, Storage, UNIT, round_up};
use crate::store::units_for;
use crate::table::{Table, put_segments, read_segments};
use crate::wire::{Decoded, Malformed, Reader, put_int, put_u32};

/// Bytes of a list for which a superblock has room beside its other fields.
pub const LIST_BYTES_MAX: usize = 3600;
/// Lists that name lists, at most: each names some hundred times as much as the one above it.
const DEPTH_MAX: u8 = 8;
/// Changes that may follow a whole table. An opening reads them all; and with a checkpoint a minute the whole is written
/// about once an hour.
const CHANGES_MAX: usize = 64;
/// Bytes that are read at once: enough for any device's full rate.
const READ_BYTES: usize = 1 << 20;

/// Bytes on storage with their checksum, once or twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredPiece {
    /// Length in bytes.
    pub len: u64,
    /// CRC-32C.
    pub crc: u32,
    /// Where they are.
    pub first: Vec<Segment>,
    /// Where they are a second time; empty if there was no space to spare.
    pub copy: Vec<Segment>,
}

impl StoredPiece {
    /// Writes `bytes` into free space of `table`, twice if that is to spare and there. Nothing is flushed.
    ///
    /// # Errors
    /// [`Error::NoSpace`], the storage's; nothing is taken then.
    pub fn write(storage: &dyn Storage, table: &Table, bytes: &[u8], spare: bool) -> Result<StoredPiece> {
        let buf = AlignedBuf::from_slice(bytes);
        let units = units_for(buf.len());
        let first = table.allocate(units).ok_or(Error::NoSpace)?;
        let copy = if spare { table.allocate(units) } else { None };
        let piece = StoredPiece {
            len: bytes.len() as u64,
            crc: crc32c::crc32c(bytes),
            first,
            copy: copy.unwrap_or_default(),
        };
        let written =
            write_at(storage, &piece.first, &buf).and_then(|()| write_at(storage, &piece.copy, &buf));
        if let Err(e) = written {
            table.give_back(&piece.segments());
            return Err(e);
        }
        Ok(piece)
    }

    /// The bytes, from the first copy that matches the checksum, on storage of `units`.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if none does, the storage's.
    pub fn read(&self, storage: &dyn Storage, units: u64) -> Result<Vec<u8>> {
        match self.read_copy(storage, units, &self.first) {
            Err(e) if !self.copy.is_empty() => self.read_copy(storage, units, &self.copy).map_err(|_| e),
            read => read,
        }
    }

    /// The same from one of the copies.
    ///
    /// # Errors
    /// As [`StoredPiece::read`].
    pub fn read_copy(&self, storage: &dyn Storage, units: u64, place: &[Segment]) -> Result<Vec<u8>> {
        let first = place.first().map_or(0, |s| s.start).saturating_mul(UNIT as u64);
        let corrupt = |why: &str| Error::corrupt("translation table", first, why);
        let units = units.min(storage.len().doing("measuring the storage")? / UNIT as u64);
        let fits = |s: &Segment| s.start.checked_add(s.units.into()).is_some_and(|end| end <= units);
        // None of it lies twice in one place, so it is no longer than the storage.
        let taken: u64 = place.iter().map(|s| u64::from(s.units)).sum();
        if !place.iter().all(fits) || taken > units || self.len > taken * UNIT as u64 {
            return Err(corrupt("it lies outside the storage"));
        }
        // Piece by piece, so that it takes no more memory than there are data: a list may claim all of a file that is one hole.
        let len = self.len as usize;
        let (mut bytes, mut chunk) = (Vec::new(), AlignedBuf::zeroed(READ_BYTES.min(len)));
        for s in place {
            let end = (s.start + u64::from(s.units)) * UNIT as u64;
            let mut at = s.start * UNIT as u64;
            while at < end && bytes.len() < len {
                let left = len - bytes.len();
                let n = chunk.len().min((end - at) as usize).min(round_up(left));
                storage.read_at(&mut chunk[..n], at).doing("reading the translation table")?;
                let more = &chunk[..n.min(left)];
                // No table has one: a block has a number and a place, and none is listed twice.
                if more.chunks_exact(UNIT).any(|unit| unit.iter().all(|byte| *byte == 0)) {
                    return Err(Error::corrupt("translation table", at, "a part of it was never written"));
                }
                bytes.extend_from_slice(more);
                at += n as u64;
            }
        }
        if crc32c::crc32c(&bytes) != self.crc {
            return Err(corrupt("checksum mismatch"));
        }
        Ok(bytes)
    }

    /// The segments of both copies.
    pub fn segments(&self) -> Vec<Segment> {
        [&self.first[..], &self.copy[..]].concat()
    }

    /// Appends what says where it is.
    fn put(&self, out: &mut Vec<u8>) {
        put_int(out, self.len);
        put_u32(out, self.crc);
        put_segments(out, &self.first);
        put_segments(out, &self.copy);
    }

    fn decode(r: &mut Reader<'_>) -> Decoded<StoredPiece> {
        Ok(StoredPiece { len: r.int()?, crc: r.u32()?, first: read_segments(r)?, copy: read_segments(r)? })
    }
}

fn write_at(storage: &dyn Storage, place: &[Segment], buf: &[u8]) -> Result<()> {
    let mut rest = buf;
    let writes = place.iter().map(|s| {
        let (head, tail) = rest.split_at(s.units as usize * UNIT);
        rest = tail;
        (s.start * UNIT as u64, head)
    });
    let writes: Vec<(u64, &[u8])> = writes.collect();
    storage.write_many(&writes).doing("writing the translation table")
}

/// Where pieces are, as it stands in a superblock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PieceList {
    /// With 0 the bytes name the pieces of the table; with more, pieces of which each holds part of the list of the next
    /// smaller depth.
    pub depth: u8,
    /// Encoded pieces: their count, then each.
    pub bytes: Vec<u8>,
}

impl PieceList {
    /// A list of these pieces.
    pub fn of(pieces: &[StoredPiece]) -> PieceList {
        let mut bytes = Vec::new();
        put_int(&mut bytes, pieces.len() as u64);
        pieces.iter().for_each(|piece| piece.put(&mut bytes));
        PieceList { depth: 0, bytes }
    }

    /// The pieces that it names itself.
    pub fn pieces(&self) -> Decoded<Vec<StoredPiece>> {
        let mut r = Reader::new(&self.bytes);
        let pieces = (0..r.count()?).map(|_| StoredPiece::decode(&mut r)).collect::<Decoded<_>>()?;
        r.finish()?;
        Ok(pieces)
    }

    /// Reads the lists that it names, if any, from storage of `units`.
    ///
    /// # Errors
    /// [`Error::Corrupt`], the storage's.
    pub fn resolve(&self, storage: &dyn Storage, units: u64) -> Result<TableLocation> {
        let corrupt = |m: Malformed| Error::corrupt("list of the translation table", 0, m.0);
        if self.depth > DEPTH_MAX {
            return Err(corrupt(Malformed("lists of lists are nested too deeply")));
        }
        let mut place = TableLocation { pieces: self.pieces().map_err(corrupt)?, lists: Vec::new() };
        let units = units.min(storage.len().doing("measuring the storage")? / UNIT as u64);
        place.check_size(units)?;
        for depth in (0..self.depth).rev() {
            let mut bytes = Vec::new();
            for piece in &place.pieces {
                bytes.extend(piece.read(storage, units)?);
            }
            let below = PieceList { depth, bytes }.pieces().map_err(corrupt)?;
            place.lists.append(&mut std::mem::replace(&mut place.pieces, below));
            place.check_size(units)?;
        }
        Ok(place)
    }
}

/// Where a table is, with all that leads there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableLocation {
    /// The whole table, then changes in their order.
    pub pieces: Vec<StoredPiece>,
    /// Lists that no superblock had room for.
    pub lists: Vec<StoredPiece>,
}

impl TableLocation {
    /// What a superblock says of these pieces. Lists it has no room for are written into free space of `table`.
    ///
    /// # Errors
    /// [`Error::NoSpace`], the storage's; nothing is taken then.
    pub fn write(
        pieces: Vec<StoredPiece>,
        storage: &dyn Storage,
        table: &Table,
        spare: bool,
    ) -> Result<(TableLocation, PieceList)> {
        let mut list = PieceList::of(&pieces);
        let mut place = TableLocation { pieces, lists: Vec::new() };
        while list.bytes.len() > LIST_BYTES_MAX {
            match StoredPiece::write(storage, table, &list.bytes, spare) {
                Ok(piece) => {
                    list = PieceList { depth: list.depth + 1, ..PieceList::of(std::slice::from_ref(&piece)) };
                    place.lists.push(piece);
                }
                Err(e) => {
                    place.lists.iter().for_each(|piece| table.give_back(&piece.segments()));
                    return Err(e);
                }
            }
        }
        Ok((place, list))
    }

    /// True if changes of `bytes` may follow what is there: until all changes take as much space as the whole.
    pub fn takes_changes(&self, bytes: usize) -> bool {
        let Some((whole, changes)) = self.pieces.split_first() else { return false };
        let units = |piece: &StoredPiece| units_for(piece.len as usize);
        let all = changes.iter().map(units).sum::<u64>() + units_for(bytes);
        changes.len() < CHANGES_MAX && all <= units(whole)
    }

    /// The table's pieces, read from storage of `units`.
    ///
    /// # Errors
    /// [`Error::Corrupt`], the storage's.
    pub fn read(&self, storage: &dyn Storage, units: u64) -> Result<Vec<Vec<u8>>> {
        self.pieces.iter().map(|piece| piece.read(storage, units)).collect()
    }

    /// Pieces do not overlap, so all of them are no longer than the storage: nothing takes more memory, whatever a list says.
    fn check_size(&self, units: u64) -> Result<()> {
        let taken: u64 = self.segments().iter().map(|s| u64::from(s.units)).sum();
        if taken > units {
            return Err(Error::corrupt("translation table", self.offset(), "more than the storage holds"));
        }
        Ok(())
    }

    /// First byte of the table on storage, for messages.
    pub fn offset(&self) -> u64 {
        let first = self.pieces.first().and_then(|piece| piece.first.first());
        first.map_or(0, |s| s.start.saturating_mul(UNIT as u64))
    }

    /// All segments that it takes.
    pub fn segments(&self) -> Vec<Segment> {
        self.pieces.iter().chain(&self.lists).flat_map(StoredPiece::segments).collect()
    }

    /// Gives back what it takes and `next` does not.
    pub fn give_back_beside(&self, next: &TableLocation, table: &Table) {
        for piece in self.pieces.iter().chain(&self.lists) {
            if !next.pieces.contains(piece) && !next.lists.contains(piece) {
                table.give_back(&piece.segments());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::SimStorage;

    /// A table of which every other unit is free.
    fn fragmented(units: u64) -> Table {
        let table = Table::new(0, units, false);
        (0..units).step_by(2).for_each(|start| assert!(table.take(&[Segment { start, units: 1 }])));
        table
    }

    #[test]
    fn pieces_in_single_units_are_found_again_however_many() {
        let storage = SimStorage::new(8000 * UNIT as u64);
        for (units, depth, spare) in [(10, 0, true), (500, 1, true), (3000, 1, false)] {
            let table = fragmented(8000);
            let free = table.free_units();
            let bytes: Vec<u8> = (0..units * UNIT - 7).map(|n| (n / 5 % 251) as u8).collect();
            let piece = StoredPiece::write(&storage, &table, &bytes, spare).expect("write");
            assert_eq!(piece.first.len(), units);
            let (place, list) =
                TableLocation::write(vec![piece.clone(), piece], &storage, &table, spare).expect("lists");
            assert_eq!(list.depth, depth, "{units} units");
            assert!(list.bytes.len() <= LIST_BYTES_MAX);
            let found = list.resolve(&storage, 8000).expect("resolve");
            assert_eq!(found, place);
            assert!(found.read(&storage, 8000).expect("read").iter().all(|read| *read == bytes));
            // One copy of each is enough, if there are two.
            let lost: Vec<Segment> =
                place.pieces[..1].iter().chain(&place.lists).map(|p| p.first[0]).collect();
            lost.iter().for_each(|s| storage.corrupt(s.start * UNIT as u64, &[0xAA; 9]));
            let again = list.resolve(&storage, 8000).and_then(|place| place.read(&storage, 8000));
            assert_eq!(again.is_ok(), spare, "{units} units");
            place.pieces[..1].iter().chain(&place.lists).for_each(|p| table.give_back(&p.segments()));
            assert_eq!(table.free_units(), free);
        }
    }

    #[test]
    fn without_space_for_a_list_nothing_is_taken() {
        let storage = SimStorage::new(4000 * UNIT as u64);
        let table = fragmented(4000);
        let piece = StoredPiece::write(&storage, &table, &vec![1; 2000 * UNIT], false).expect("write");
        assert_eq!(table.free_units(), 0);
        assert!(matches!(
            TableLocation::write(vec![piece.clone()], &storage, &table, true),
            Err(Error::NoSpace)
        ));
        assert!(matches!(StoredPiece::write(&storage, &table, &[1], true), Err(Error::NoSpace)));
        table.give_back(&piece.segments());
        assert_eq!(table.free_units(), 2000);
    }

    #[test]
    fn changes_are_taken_until_they_are_as_long_as_the_whole() {
        let piece =
            |units: u64| StoredPiece { len: units * UNIT as u64, crc: 0, first: vec![], copy: vec![] };
        let place = |pieces: Vec<StoredPiece>| TableLocation { pieces, lists: Vec::new() };
        assert!(!place(vec![]).takes_changes(1));
        assert!(place(vec![piece(10), piece(4), piece(5)]).takes_changes(UNIT));
        assert!(!place(vec![piece(10), piece(4), piece(5)]).takes_changes(UNIT + 1));
        let many = |changes: usize| [vec![piece(1000)], vec![piece(1); changes]].concat();
        assert!(place(many(CHANGES_MAX - 1)).takes_changes(1));
        assert!(!place(many(CHANGES_MAX)).takes_changes(1));
    }

    #[test]
    fn a_list_that_makes_no_sense_is_refused() {
        let storage = SimStorage::new(100 * UNIT as u64);
        let good = StoredPiece {
            len: 5000,
            crc: 1,
            first: vec![Segment { start: 7, units: 2 }],
            copy: vec![Segment { start: 98, units: 2 }],
        };
        let list = PieceList::of(std::slice::from_ref(&good));
        assert_eq!(list.resolve(&storage, 100).expect("resolve").pieces, vec![good.clone()]);
        for cut in 0..list.bytes.len() {
            let short = PieceList { depth: 0, bytes: list.bytes[..cut].to_vec() };
            assert!(short.resolve(&storage, 100).is_err(), "{cut} bytes");
        }
        assert!(PieceList { depth: 200, ..list.clone() }.resolve(&storage, 100).is_err());
        assert!(PieceList { depth: 1, ..list }.resolve(&storage, 100).is_err(), "its checksum is another");
        for far in [Segment { start: u64::MAX, units: 2 }, Segment { start: 99, units: 2 }] {
            let outside = StoredPiece { first: vec![far], copy: vec![], ..good.clone() };
            assert!(outside.read(&storage, 100).is_err());
        }
    }

    #[test]
    fn a_table_of_more_than_the_storage_takes_no_memory() {
        let storage = SimStorage::new(16 * UNIT as u64);
        let far = u64::MAX / UNIT as u64;
        let piece = |first: Vec<Segment>| StoredPiece { len: 5000, crc: 0, first, copy: vec![] };
        for place in [vec![Segment { start: 8, units: u32::MAX }], vec![Segment { start: 8, units: 8 }; 3]] {
            let piece = piece(place);
            let error = piece.read(&storage, far).expect_err("outside").to_string();
            assert!(error.contains("outside the storage"), "{error}");
            let error = PieceList::of(&[piece]).resolve(&storage, far).expect_err("too much").to_string();
            assert!(error.contains("more than the storage"), "{error}");
        }
        let twice = vec![piece(vec![Segment { start: 4, units: 9 }]); 2];
        assert!(PieceList::of(&twice).resolve(&storage, far).is_err());
    }

    /// A file of a terabyte that is one hole.
    #[derive(Default)]
    struct Hole(std::sync::atomic::AtomicU64);

    impl Storage for Hole {
        fn len(&self) -> std::io::Result<u64> {
            Ok(1 << 40)
        }

        fn read_at(&self, buf: &mut [u8], _off: u64) -> std::io::Result<()> {
            buf.fill(0);
            self.0.fetch_add(buf.len() as u64, std::sync::atomic::Ordering::Relaxed);
            Ok(())
        }

        fn write_at(&self, _buf: &[u8], _off: u64) -> std::io::Result<()> {
            Ok(())
        }

        fn flush(&self) -> std::io::Result<()> {
            Ok(())
        }

        fn discard(&self, _off: u64, _len: u64) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_table_that_is_a_hole_takes_no_memory() {
        const UNITS: u32 = 1 << 16;
        let hole = Hole::default();
        let first = vec![Segment { start: 8, units: UNITS }];
        let crc = crc32c::crc32c(&vec![0; UNITS as usize * UNIT]);
        let piece = StoredPiece { len: u64::from(UNITS) * UNIT as u64, crc, first, copy: vec![] };
        let error = piece.read(&hole, 1 << 28).expect_err("a hole").to_string();
        assert!(error.contains("never written"), "{error}");
        let read = hole.0.into_inner();
        assert!(read <= READ_BYTES as u64, "{read} bytes");
    }

    #[test]
    fn lists_that_name_themselves_often_are_refused() {
        let storage = SimStorage::new(100 * UNIT as u64);
        let mut list = PieceList::of(&vec![StoredPiece { len: 1, crc: 0, first: vec![], copy: vec![] }; 90]);
        for depth in 1..=DEPTH_MAX {
            let mut bytes = list.bytes.clone();
            bytes.resize(bytes.len().next_multiple_of(UNIT), 0);
            let start = u64::from(depth) * 10;
            let units = (bytes.len() / UNIT) as u32;
            storage.write_at(&AlignedBuf::from_slice(&bytes), start * UNIT as u64).expect("write");
            let (len, crc) = (list.bytes.len() as u64, crc32c::crc32c(&list.bytes));
            let piece = StoredPiece { len, crc, first: vec![Segment { start, units }], copy: vec![] };
            list = PieceList { depth, ..PieceList::of(&vec![piece; 90]) };
        }
        assert!(list.resolve(&storage, 100).is_err());
    }
}
