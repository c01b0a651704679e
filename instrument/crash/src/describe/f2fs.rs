//! F2FS: its areas, and the footer of a node (Linux, include/linux/f2fs_fs.h).

use super::numbers::le;
use crate::recording::BLOCK;

const MAGIC: u64 = 0xF2F5_2010;
/// Where the superblock lies in the first block.
const SUPER: usize = 1024;
/// Bytes of a node's footer: node, inode, flags, version of the checkpoint, next node that was written.
const FOOTER: usize = 24;
/// Bits of the flags: written by an fsync; with the name that leads to it.
const FSYNC: u64 = 1 << 1;
const DENTRY: u64 = 1 << 2;

/// Where its areas begin, in blocks.
pub(super) struct Layout {
    checkpoints: u64,
    segments: u64,
    nodes: u64,
    summaries: u64,
    main: u64,
    blocks: u64,
}

impl Layout {
    /// From the first block.
    pub(super) fn read(first: &[u8]) -> Option<Layout> {
        let at = |place: usize, bytes: usize| le(first, SUPER + place, bytes);
        (at(0, 4) == MAGIC).then(|| Layout {
            checkpoints: at(76, 4),
            segments: at(80, 4),
            nodes: at(84, 4),
            summaries: at(88, 4),
            main: at(92, 4),
            blocks: at(36, 8),
        })
    }
}

pub(super) fn what(layout: Option<&Layout>, lba: u64, bytes: &[u8]) -> String {
    let Some(layout) = layout else { return "metadata".into() };
    if lba >= layout.main {
        return node(layout, bytes).unwrap_or_else(|| "metadata: names or file data".into());
    }
    let areas = [
        (layout.summaries, "segment summary"),
        (layout.nodes, "node address table"),
        (layout.segments, "segment information table"),
        (layout.checkpoints, "checkpoint pack"),
    ];
    areas.iter().find(|(from, _)| lba >= *from).map_or("superblock", |(_, name)| name).to_string()
}

/// The node in a block of the main area; the table that knows which blocks are nodes is not looked at.
fn node(layout: &Layout, bytes: &[u8]) -> Option<String> {
    let at = |place: usize, length: usize| le(bytes, BLOCK - FOOTER + place, length);
    let (node, inode, flags, next) = (at(0, 4), at(4, 4), at(8, 4), at(20, 4));
    let plausible = (1..layout.blocks).contains(&node)
        && (1..layout.blocks).contains(&inode)
        && (layout.main..layout.blocks).contains(&next);
    plausible.then(|| {
        let kind = if node == inode { "inode".to_string() } else { format!("node {node} of inode") };
        let fsync = if flags & FSYNC != 0 { ", by an fsync" } else { "" };
        let name = if flags & DENTRY != 0 { ", with its name" } else { "" };
        format!("{kind} {inode}{fsync}{name}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_and_nodes_are_told() {
        let mut first = vec![0; BLOCK];
        let mut put = |place: usize, value: u32| {
            first[SUPER + place..SUPER + place + 4].copy_from_slice(&value.to_le_bytes());
        };
        // as mkfs.f2fs 1.15 makes them for 128 MiB
        [(0, 0xF2F5_2010), (36, 32768), (76, 512), (80, 1536), (84, 2560), (88, 3584), (92, 4096)]
            .iter()
            .for_each(|(place, value)| put(*place, *value));
        let layout = Layout::read(&first).unwrap();
        let mut block = vec![0; BLOCK];
        for (place, value) in [(0, 7u32), (4, 5), (8, FSYNC as u32), (20, 4100)] {
            block[BLOCK - FOOTER + place..][..4].copy_from_slice(&value.to_le_bytes());
        }
        for (lba, expected) in [
            (0, "superblock"),
            (512, "checkpoint pack"),
            (1600, "segment information table"),
            (2560, "node address table"),
            (4095, "segment summary"),
            (4096, "node 7 of inode 5, by an fsync"),
        ] {
            assert_eq!(what(Some(&layout), lba, &block), expected);
        }
        block[BLOCK - 4..].fill(0xff);
        assert_eq!(what(Some(&layout), 5000, &block), "metadata: names or file data");
        assert!(Layout::read(&block).is_none());
    }
}
