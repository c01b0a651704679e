//! Self-describing data: every sector says to which file, place and version it belongs.

/// Bytes of the smallest piece of data.
pub(crate) const SECTOR: usize = 512;

const MAGIC: &[u8; 8] = b"LLCRASH1";
const POISON_MAGIC: &[u8; 8] = b"LLSTALE!";
const SUM_AT: usize = SECTOR - 4;

/// What a sector is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Sector {
    /// Only zeroes.
    Zero,
    /// Written by the workload.
    Data {
        /// Number of the file.
        file: u32,
        /// Number of the write.
        version: u32,
        /// Its place in the file, in sectors.
        place: u32,
    },
    /// What lay in free space before the workload began.
    Stale,
    /// Nothing that was ever written.
    Garbage,
}

fn fill(sector: &mut [u8], magic: &[u8; 8], fields: [u32; 3]) {
    sector[..8].copy_from_slice(magic);
    let mut word = 0x9e37_79b9u32;
    for (i, field) in fields.into_iter().enumerate() {
        sector[8 + 4 * i..12 + 4 * i].copy_from_slice(&field.to_le_bytes());
        word = (word ^ field).wrapping_mul(0x85eb_ca6b).rotate_left(13);
    }
    for piece in sector[20..SUM_AT].chunks_exact_mut(4) {
        word = word.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        piece.copy_from_slice(&word.to_le_bytes());
    }
    let sum = crc32c::crc32c(&sector[..SUM_AT]);
    sector[SUM_AT..].copy_from_slice(&sum.to_le_bytes());
}

/// The data of `sectors` sectors of a file from `place` on.
pub(crate) fn data(file: u32, version: u32, place: u32, sectors: u32) -> Vec<u8> {
    let mut bytes = vec![0; sectors as usize * SECTOR];
    for (sector, place) in bytes.chunks_exact_mut(SECTOR).zip(place..) {
        fill(sector, MAGIC, [file, version, place]);
    }
    bytes
}

/// What free space holds at this address.
pub(crate) fn poison(lba: u64, block: &mut [u8]) {
    for (i, sector) in block.chunks_exact_mut(SECTOR).enumerate() {
        fill(sector, POISON_MAGIC, [lba as u32, (lba >> 32) as u32, i as u32]);
    }
}

/// Says what a sector is.
pub(crate) fn read(sector: &[u8]) -> Sector {
    if sector.iter().all(|byte| *byte == 0) {
        return Sector::Zero;
    }
    let word = |at: usize| {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(&sector[at..at + 4]);
        u32::from_le_bytes(bytes)
    };
    if sector.len() != SECTOR || word(SUM_AT) != crc32c::crc32c(&sector[..SUM_AT]) {
        return Sector::Garbage;
    }
    match &sector[..8] {
        magic if magic == MAGIC => Sector::Data { file: word(8), version: word(12), place: word(16) },
        magic if magic == POISON_MAGIC => Sector::Stale,
        _ => Sector::Garbage,
    }
}

/// Whether a block begins like data of the workload.
pub(crate) fn is_data(block: &[u8]) -> bool {
    block.starts_with(MAGIC)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sectors_tell_what_they_are() {
        let bytes = data(3, 9, 17, 2);
        assert_eq!(read(&bytes[..SECTOR]), Sector::Data { file: 3, version: 9, place: 17 });
        assert_eq!(read(&bytes[SECTOR..]), Sector::Data { file: 3, version: 9, place: 18 });
        assert_eq!(read(&[0; SECTOR]), Sector::Zero);
        let mut block = [0; 4096];
        poison(1 << 40, &mut block);
        assert!(block.chunks(SECTOR).all(|s| read(s) == Sector::Stale) && !is_data(&block));
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let whole = data(1, 2, 3, 1);
        for bit in 0..SECTOR * 8 {
            let mut torn = whole.clone();
            torn[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read(&torn), Sector::Garbage, "bit {bit}");
        }
    }
}
