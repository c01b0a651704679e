//! What a flush means: which ones stand in for the FUA flag of a write, which ones only order.
//!
//! Loop devices know no FUA. The block layer makes a write with the flag into the write and a flush after it, and
//! one with PREFLUSH and FUA into flush, write, flush. By their order alone such a flush cannot be told from that
//! of a program that overwrites a block and calls fdatasync, again and again. So the writes that file systems send
//! with FUA are recognised by what they hold.
//!
//! On a device that keeps order, the first flush of a commit of jbd2 is an epoch boundary: it is there to bring log
//! and data before the commit record, which such a device does by itself. It is recognised by the log blocks before it.

use ssd::Nanos;

use crate::image::BLOCK;

/// `JBD2_MAGIC_NUMBER` of the kernel's include/linux/jbd2.h; then the type of the block: commit, superblock v1, v2.
const JBD2_MAGIC: u32 = 0xC03B_3998;
const JBD2_TYPES: [u32; 3] = [2, 3, 4];
/// `XLOG_HEADER_MAGIC_NUM` of the kernel's fs/xfs/libxfs/xfs_log_format.h, at the start of every log record.
const XFS_LOG_MAGIC: u32 = 0xFEED_BABE;
/// `BTRFS_MAGIC`, at byte 64 of a superblock; its own address is at byte 48. Only the first copy is sent with FUA.
const BTRFS_MAGIC: &[u8; 8] = b"_BHRfS_M";
const BTRFS_SUPER_OFFSET: u64 = 65_536;

/// A kind of write that file systems send with FUA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Commit {
    /// ext4's journal: commit block or superblock.
    Jbd2,
    /// XFS's log. The first records of a long checkpoint carry no FUA.
    XfsLog,
    /// The superblock of btrfs.
    BtrfsSuper,
}

/// What this write is, if it is one that carries FUA.
pub(crate) fn commit(data: &[u8]) -> Option<Commit> {
    let word = |at: usize| data.get(at..at + 4).map(|b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]));
    if word(0) == Some(XFS_LOG_MAGIC) {
        return Some(Commit::XfsLog);
    }
    if data.len() != BLOCK {
        return None;
    }
    if word(0) == Some(JBD2_MAGIC) && word(4).is_some_and(|kind| JBD2_TYPES.contains(&kind)) {
        return Some(Commit::Jbd2);
    }
    let first = data[48..56] == BTRFS_SUPER_OFFSET.to_le_bytes();
    (first && data[64..72] == *BTRFS_MAGIC).then_some(Commit::BtrfsSuper)
}

/// Types of jbd2's blocks that begin a transaction in the log: descriptor, revocation; and the one that ends it.
const JBD2_LOG: [u32; 2] = [1, 5];
const JBD2_COMMIT: u32 = 2;

/// What a write does to jbd2's log: `Some(true)` leaves a transaction open, `Some(false)` ends it.
pub(crate) fn leaves_open(data: &[u8]) -> Option<bool> {
    let kind = |block: &[u8]| {
        let word = |at: usize| u32::from_be_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]]);
        (word(0) == JBD2_MAGIC).then(|| word(4))
    };
    // descriptor and metadata may have become one request, so any block may be the one
    data.chunks_exact(BLOCK).filter_map(kind).fold(None, |open, kind| match kind {
        kind if JBD2_LOG.contains(&kind) => Some(true),
        JBD2_COMMIT => Some(false),
        _ => open,
    })
}

/// Whether jbd2 has a transaction in its log that lacks the commit record.
#[derive(Debug, Default)]
pub(crate) struct OpenCommit(bool);

impl OpenCommit {
    /// A write has completed; see [`leaves_open`].
    pub(crate) fn completed(&mut self, leaves_open: bool) {
        self.0 = leaves_open;
    }

    /// A flush is submitted: whether it is the one between log and commit record. Of two flushes the first is.
    pub(crate) fn flush(&mut self) -> bool {
        std::mem::take(&mut self.0)
    }
}

/// Writes with FUA that have completed and whose flush has not come.
#[derive(Debug, Default)]
pub(crate) struct Awaiting {
    /// When the first of them was submitted.
    since: Option<Nanos>,
    logs: u32,
    others: u32,
}

impl Awaiting {
    /// A write has completed that was submitted at `since`.
    pub(crate) fn completed(&mut self, commit: Commit, since: Nanos) {
        self.since = Some(self.since.map_or(since, |other| other.min(since)));
        match commit {
            Commit::XfsLog => self.logs += 1,
            _ => self.others += 1,
        }
    }

    /// A flush is submitted: if it stands in for FUA, when the write was submitted. Several records of XFS at once
    /// are a long checkpoint; the flush belongs to its last record, which is still to come.
    pub(crate) fn flush(&mut self) -> Option<Nanos> {
        let Awaiting { since, logs, others } = std::mem::take(self);
        since.filter(|_| others > 0 || logs == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(parts: &[(usize, &[u8])]) -> Vec<u8> {
        let mut block = vec![0; BLOCK];
        for (at, bytes) in parts {
            block[*at..at + bytes.len()].copy_from_slice(bytes);
        }
        block
    }

    #[test]
    fn commit_records_are_known_by_their_contents() {
        let jbd2 = |kind: u8| block(&[(0, &[0xc0, 0x3b, 0x39, 0x98, 0, 0, 0, kind])]);
        // 1 descriptor, 5 revocation: written without FUA
        let kinds: Vec<u8> = (0..=6).filter(|kind| commit(&jbd2(*kind)) == Some(Commit::Jbd2)).collect();
        assert_eq!(kinds, [2, 3, 4]);
        assert_eq!(commit(&[jbd2(2), jbd2(2)].concat()), None, "a commit record is one block");
        let super_block = |at: u64| block(&[(48, &at.to_le_bytes()), (64, b"_BHRfS_M")]);
        assert_eq!(commit(&super_block(65_536)), Some(Commit::BtrfsSuper));
        assert_eq!(commit(&super_block(64 << 20)), None, "the second copy");
        let log = block(&[(0, &[0xfe, 0xed, 0xba, 0xbe])]);
        assert_eq!(commit(&log), Some(Commit::XfsLog));
        assert_eq!(commit(&[log, vec![9; 32_768]].concat()), Some(Commit::XfsLog));
        assert_eq!(commit(&block(&[])), None);
        assert_eq!(commit(&[]), None);
    }

    #[test]
    fn the_log_is_open_from_descriptor_to_commit() {
        let jbd2 = |kind: u8| block(&[(0, &[0xc0, 0x3b, 0x39, 0x98, 0, 0, 0, kind])]);
        let data = block(&[(0, b"data")]);
        assert_eq!(
            [1, 2, 3, 4, 5].map(|kind| leaves_open(&jbd2(kind))),
            [Some(true), Some(false), None, None, Some(true)]
        );
        assert_eq!(leaves_open(&[data.clone(), jbd2(5), jbd2(1), data.clone()].concat()), Some(true));
        assert_eq!((leaves_open(&data), leaves_open(&[])), (None, None));
        let mut open = OpenCommit::default();
        assert!(!open.flush());
        open.completed(true);
        assert_eq!([open.flush(), open.flush()], [true, false], "once");
        open.completed(true);
        open.completed(false);
        assert!(!open.flush(), "the commit record is there");
    }

    #[test]
    fn a_flush_answers_for_what_completed_before_it() {
        let mut awaiting = Awaiting::default();
        assert_eq!(awaiting.flush(), None);
        awaiting.completed(Commit::Jbd2, 7);
        awaiting.completed(Commit::BtrfsSuper, 5);
        assert_eq!([awaiting.flush(), awaiting.flush()], [Some(5), None], "once");
        awaiting.completed(Commit::XfsLog, 9);
        assert_eq!(awaiting.flush(), Some(9));
        awaiting.completed(Commit::XfsLog, 10);
        awaiting.completed(Commit::XfsLog, 11);
        assert_eq!(awaiting.flush(), None, "the flush before the last record of a checkpoint");
    }
}
