//! btrfs: superblocks and the headers of tree nodes (btrfs documentation, "On-disk format").

use super::numbers::le;
use crate::recording::BLOCK;

const SUPER_MAGIC: &[u8] = b"_BHRfS_M";

/// The superblock or tree node that begins here.
pub(super) fn node(lba: u64, bytes: &[u8]) -> Option<String> {
    if bytes.get(0x40..0x48) == Some(SUPER_MAGIC) {
        return Some(format!("superblock of generation {}", le(bytes, 0x48, 8)));
    }
    // a node's header holds its own address in the address space of chunks, which is a multiple of 4096,
    // and a level below 8
    let (address, generation, level) = (le(bytes, 0x30, 8), le(bytes, 0x50, 8), le(bytes, 0x64, 1));
    let plausible = address > 0 && address.is_multiple_of(BLOCK as u64) && level < 8 && generation < 1 << 32;
    let (_, name) = OWNERS.iter().find(|(owner, _)| *owner == le(bytes, 0x58, 8))?;
    (plausible && lba > 0).then(|| format!("{name} tree, level {level}, generation {generation}"))
}

const OWNERS: [(u64, &str); 12] = [
    (1, "root"),
    (2, "extent"),
    (3, "chunk"),
    (4, "device"),
    (5, "file"),
    (6, "root directory"),
    (7, "checksum"),
    (9, "UUID"),
    (10, "free-space"),
    (11, "block-group"),
    (u64::MAX - 5, "log"),
    (u64::MAX - 8, "relocation"),
];

pub(super) fn what(lba: u64, bytes: &[u8]) -> String {
    node(lba, bytes).unwrap_or_else(|| "metadata".into())
}
