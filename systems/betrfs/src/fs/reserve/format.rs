//! The value of a file's `06` key: how many blocks are unwritten, then first block and number of blocks of each area. All
//! are u64, little-endian.

use super::areas::Reserved;
use crate::error::{Error, Result};
use crate::key::{self, BLOCK};

/// Areas of one file, each reserved as a whole. With more its value would be a burden to each write.
pub(super) const AREAS_MAX: usize = 64;

/// The value for what is reserved, with so many blocks unwritten.
pub(super) fn encode(reserved: &Reserved, unwritten: u64) -> Vec<u8> {
    let areas = reserved.areas().flat_map(|(first, end)| [first, end - first]);
    std::iter::once(unwritten).chain(areas).flat_map(u64::to_le_bytes).collect()
}

/// The numbers in a value: blocks that are unwritten, which are no more than the areas have, and the areas' first blocks and ends.
///
/// # Errors
/// [`Error::Corrupt`] for anything that [`encode`] does not make.
pub(crate) fn decode(value: &[u8]) -> Result<(u64, Vec<(u64, u64)>)> {
    let corrupt = || Error::Corrupt("what is reserved for a file makes no sense".into());
    let (numbers, rest) = value.as_chunks::<8>();
    let numbers: Vec<u64> = numbers.iter().map(|n| u64::from_le_bytes(*n)).collect();
    let (unwritten, areas) = numbers.split_first().filter(|_| rest.is_empty()).ok_or_else(corrupt)?;
    let (areas, odd) = areas.as_chunks::<2>();
    let mut list: Vec<(u64, u64)> = Vec::new();
    for [first, count] in areas {
        let end = first.checked_add(*count).filter(|end| *end <= key::SIZE_MAX / BLOCK as u64 + 1);
        let end = end.filter(|_| list.last().is_none_or(|(_, last)| last < first)).ok_or_else(corrupt)?;
        list.push((*first, end));
    }
    let fits = *unwritten <= blocks_of(&list);
    if odd.is_empty() && list.len() <= AREAS_MAX && fits { Ok((*unwritten, list)) } else { Err(corrupt()) }
}

/// Blocks of areas, given by their first blocks and ends.
pub(super) fn blocks_of(areas: &[(u64, u64)]) -> u64 {
    areas.iter().map(|(first, end)| end - first).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_makes_no_sense_is_refused() {
        let bytes = |numbers: &[u64]| numbers.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<u8>>();
        let good: [&[u64]; 4] = [&[0], &[5, 5, 5], &[7, 5, 5, 11, 2], &[0, 0, (key::SIZE_MAX >> 12) + 1]];
        for numbers in good {
            let (unwritten, areas) = decode(&bytes(numbers)).expect("good");
            assert_eq!((unwritten, areas.len()), (numbers[0], numbers.len() / 2));
        }
        let many: Vec<u64> = std::iter::once(0).chain((0..65).flat_map(|n| [3 * n, 2])).collect();
        let bad: [&[u64]; 9] = [
            &[],
            &[0, 7],
            &[1],
            &[6, 5, 5],
            &[1 << 40, 5, 5],
            &[1 << 63, 0, 1 << 20, 1 << 30, 1 << 20],
            &[7, 5, 5, 8, 1],
            &[0, 0, (key::SIZE_MAX >> 12) + 2],
            &many,
        ];
        for numbers in bad {
            assert!(decode(&bytes(numbers)).is_err(), "{numbers:?}");
        }
        assert!(decode(&[0; 7]).is_err() && decode(&[255; 24]).is_err());
    }
}
