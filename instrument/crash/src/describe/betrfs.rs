//! betrfs: superblocks, log frames and tree nodes (docs/betrfs-format.md).

use super::numbers::le;
use crate::recording::BLOCK;

const SUPER_MAGIC: &[u8] = b"\"BEtree";
const NODE_MAGIC: &[u8] = b"BeNd";
const LOG_MAGIC: &[u8] = b"BLOG";
/// Blocks of the superblocks.
const SUPERS: u64 = 4;

/// Where the log lies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    log_blocks: u64,
}

/// A number of seven bits per byte, low ones first; and where the next begins.
fn int(bytes: &[u8], at: usize) -> Option<(u64, usize)> {
    let mut value = 0;
    for (i, byte) in bytes.get(at..)?.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f).checked_shl(7 * i as u32)?;
        if byte & 0x80 == 0 {
            return Some((value, at + i + 1));
        }
    }
    None
}

impl Layout {
    /// From a superblock.
    pub(super) fn read(bytes: &[u8]) -> Option<Layout> {
        bytes.starts_with(SUPER_MAGIC).then_some(())?;
        // behind magic, store, generation and life: leaf, basement, buffers, fanout, units, log units
        let mut at = 32;
        for _ in 0..5 {
            (_, at) = int(bytes, at)?;
        }
        int(bytes, at).map(|(log_blocks, _)| Layout { log_blocks })
    }
}

pub(super) fn what(layout: Option<&Layout>, lba: u64, bytes: &[u8]) -> String {
    if bytes.starts_with(SUPER_MAGIC) {
        return format!("superblock of generation {}", le(bytes, 16, 8));
    }
    if bytes.starts_with(LOG_MAGIC) {
        let (sequence, first, last) = (le(bytes, 24, 8), le(bytes, 32, 8), le(bytes, 40, 8));
        return format!("log: frame {sequence}, batches {first} to {last}");
    }
    if bytes.starts_with(NODE_MAGIC) {
        return "tree node".into();
    }
    match layout {
        Some(layout) if (SUPERS..SUPERS + layout.log_blocks).contains(&lba) => "log: inside a frame".into(),
        _ if lba < SUPERS => format!("superblock's place, {BLOCK} bytes of something else"),
        _ => "tree: part of a node, an extent or the table".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_told_by_magic_and_place() {
        let mut superblock = [0u8; BLOCK];
        superblock[..8].copy_from_slice(b"\"BEtree1");
        superblock[16] = 9;
        // leaf 1 MiB, basement 64 KiB, buffers 2 MiB, fanout 16, units 16384, log units 1024
        let ints =
            [0x80, 0x80, 0x40, 0x80, 0x80, 0x04, 0x80, 0x80, 0x80, 0x01, 16, 0x80, 0x80, 0x01, 0x80, 0x08];
        superblock[32..32 + ints.len()].copy_from_slice(&ints);
        let layout = Layout::read(&superblock);
        assert_eq!(layout.map(|layout| layout.log_blocks), Some(1024));
        let what = |lba, bytes: &[u8]| what(layout.as_ref(), lba, bytes);
        assert_eq!(what(2, &superblock), "superblock of generation 9");
        let mut frame = [0u8; BLOCK];
        frame[..4].copy_from_slice(LOG_MAGIC);
        (frame[24], frame[32], frame[40]) = (5, 70, 71);
        assert_eq!(what(4, &frame), "log: frame 5, batches 70 to 71");
        assert_eq!(what(1027, &[1; BLOCK]), "log: inside a frame");
        assert_eq!(what(1028, b"BeNd\x01"), "tree node");
        assert!(what(1028, &[1; BLOCK]).starts_with("tree: part"));
        assert!(Layout::read(&[0x80; BLOCK]).is_none() && int(&[0x80; 12], 0).is_none());
    }
}
