//! The simulated disk as the files of containers see it: sizes, and what happens when they do not fit.

/// Blocks of the journal: 10 GiB, as the OPIMQ artifact makes it (`mkfs -J size=10240`).
pub const JOURNAL_BLOCKS: u32 = 2_621_440;
/// Bytes of a page and of a block.
pub const PAGE_BYTES: u64 = 4096;
/// Inodes of a block.
pub const INODES_PER_BLOCK: usize = 16;
/// Entries of a directory block, about: 4096 bytes of names of some 30 bytes.
pub const ENTRIES_PER_BLOCK: usize = 100;
/// Most data blocks of all containers: 512 GiB, half of the drive that was published.
pub const BLOCKS_MAX: u64 = 1 << 27;

/// The files do not fit: which, and what would.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DiskFull(pub String);
