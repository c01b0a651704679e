//! ext4: where its fixed structures are (kernel documentation, "ext4 Data Structures and Algorithms"), and
//! jbd2's blocks by their magic number.

use super::numbers::{be, le};
use crate::recording::BLOCK;

const JBD2_MAGIC: [u8; 4] = [0xc0, 0x3b, 0x39, 0x98];
const EXTENT_MAGIC: u64 = 0xf30a;
/// Number of the journal's inode.
const JOURNAL: u64 = 8;

/// Where things are.
pub(super) struct Layout {
    descriptors: u64,
    block_bitmaps: Vec<u64>,
    inode_bitmaps: Vec<u64>,
    inode_tables: Vec<u64>,
    inode_table_blocks: u64,
    /// First block and number of blocks.
    journal: Vec<(u64, u64)>,
}

impl Layout {
    /// Reads it from the base image; none unless blocks have 4096 bytes.
    pub(super) fn read<'b>(block: &dyn Fn(u64) -> &'b [u8]) -> Option<Layout> {
        let sb = block(0).get(1024..2048)?;
        if le(sb, 56, 2) != 0xef53 || le(sb, 24, 4) != 2 {
            return None;
        }
        let (blocks, per_group, inodes) = (le(sb, 4, 4), le(sb, 32, 4), le(sb, 40, 4));
        let inode_bytes = le(sb, 88, 2).max(128);
        let wide = le(sb, 96, 4) & 0x80 != 0;
        let descriptor_bytes = if wide { le(sb, 254, 2).max(32) } else { 32 };
        let groups = blocks.div_ceil(per_group.max(1));
        let mut layout = Layout {
            descriptors: (groups * descriptor_bytes).div_ceil(BLOCK as u64),
            block_bitmaps: Vec::new(),
            inode_bitmaps: Vec::new(),
            inode_tables: Vec::new(),
            inode_table_blocks: (inodes * inode_bytes).div_ceil(BLOCK as u64),
            journal: Vec::new(),
        };
        for group in 0..groups {
            let at = group * descriptor_bytes;
            let of = block(1 + at / BLOCK as u64);
            let at = (at % BLOCK as u64) as usize;
            layout.block_bitmaps.push(le(of, at, 4));
            layout.inode_bitmaps.push(le(of, at + 4, 4));
            layout.inode_tables.push(le(of, at + 8, 4));
        }
        let at = (JOURNAL - 1) * inode_bytes;
        let of = block(layout.inode_tables.first()? + at / BLOCK as u64);
        layout.journal = extents(of.get((at % BLOCK as u64) as usize + 40..)?);
        Some(layout)
    }

    fn in_journal(&self, lba: u64) -> bool {
        self.journal.iter().any(|(start, blocks)| (*start..start + blocks).contains(&lba))
    }
}

/// The extents in an inode, if they all fit there.
fn extents(tree: &[u8]) -> Vec<(u64, u64)> {
    if le(tree, 0, 2) != EXTENT_MAGIC || le(tree, 6, 2) != 0 {
        return Vec::new();
    }
    let extent =
        |i: usize| (le(tree, 12 * i + 8, 4) | le(tree, 12 * i + 6, 2) << 32, le(tree, 12 * i + 4, 2));
    (1..=le(tree, 2, 2).min(4) as usize).map(extent).collect()
}

pub(super) fn what(layout: Option<&Layout>, lba: u64, bytes: &[u8]) -> String {
    if bytes.starts_with(&JBD2_MAGIC) {
        let commit = be(bytes, 8, 4);
        return match be(bytes, 4, 4) {
            1 => format!("journal: descriptor of transaction {commit}"),
            2 => format!("journal: commit record of transaction {commit}"),
            3 | 4 => "journal: its superblock".into(),
            5 => format!("journal: revoke record of transaction {commit}"),
            _ => "journal: unknown block".into(),
        };
    }
    let Some(layout) = layout else { return "metadata".into() };
    let table = layout.inode_tables.iter().position(|t| (*t..t + layout.inode_table_blocks).contains(&lba));
    if lba == 0 {
        "superblock".into()
    } else if lba <= layout.descriptors {
        "group descriptors".into()
    } else if layout.in_journal(lba) {
        "journal: logged metadata".into()
    } else if layout.block_bitmaps.contains(&lba) {
        "block bitmap".into()
    } else if layout.inode_bitmaps.contains(&lba) {
        "inode bitmap".into()
    } else if let Some(group) = table {
        format!("inode table of group {group}")
    } else {
        "directory or extent block".into()
    }
}
