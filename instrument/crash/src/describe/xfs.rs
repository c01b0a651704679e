//! xfs: structures by their magic numbers (XFS Algorithms & Data Structures, "On-disk format"), the log by
//! its place.

use super::numbers::be;

const MAGICS: [(&[u8], &str); 17] = [
    (b"XFSB", "superblock"),
    (b"XAGF", "free-space header (AGF)"),
    (b"XAGI", "inode header (AGI)"),
    (b"XAFL", "free list (AGFL)"),
    (b"AB3B", "free-space tree by block"),
    (b"AB3C", "free-space tree by size"),
    (b"IAB3", "inode tree"),
    (b"FIB3", "free-inode tree"),
    (b"R3FC", "reference-count tree"),
    (b"RMB3", "reverse-mapping tree"),
    (b"BMA3", "extent tree of a file"),
    (b"IN", "inodes"),
    (b"XDB3", "directory block"),
    (b"XDD3", "directory block"),
    (b"XDF3", "directory free index"),
    (b"XSLM", "symbolic link"),
    (b"\xfe\xed\xba\xbe", "log: record header"),
];

/// Where the log is: first block and number of blocks.
pub(super) struct Layout {
    log: (u64, u64),
}

impl Layout {
    pub(super) fn read(sb: &[u8]) -> Option<Layout> {
        if !sb.starts_with(b"XFSB") || be(sb, 4, 4) != 4096 {
            return None;
        }
        let (start, blocks) = (be(sb, 48, 8), be(sb, 96, 4));
        let (group_blocks, group_log) = (be(sb, 84, 4), be(sb, 124, 1).min(63));
        let within = start & ((1 << group_log) - 1);
        Some(Layout { log: ((start >> group_log) * group_blocks + within, blocks) })
    }
}

pub(super) fn what(layout: Option<&Layout>, lba: u64, bytes: &[u8]) -> String {
    if let Some((_, name)) = MAGICS.iter().find(|(magic, _)| bytes.starts_with(magic)) {
        return (*name).into();
    }
    match layout {
        Some(Layout { log: (start, blocks) }) if (*start..start + blocks).contains(&lba) => {
            "log: contents of a record".into()
        }
        _ => "metadata".into(),
    }
}
