//! What can be chosen when a store is created or opened.

use crate::codec::Compression;
use crate::error::{Error, Result};
use crate::steps::Features;
use crate::storage::UNIT;
use crate::store::{CachedExtents, NodeSizes};
use std::time::Duration;

/// Options of a store. The node sizes and the log's size are fixed at creation; opening ignores them.
#[derive(Clone, Debug)]
pub struct Options {
    /// A leaf above this many bytes splits. Default 1 MiB.
    pub leaf_bytes: usize,
    /// Bytes of a leaf that are read together for a point query. Default 64 KiB.
    pub basement_bytes: usize,
    /// An inner node with more bytes of messages than this flushes some down. Default 2 MiB.
    pub buffer_bytes: usize,
    /// Most children of an inner node. Default 16, at least 4.
    pub fanout: usize,
    /// Size of the log in bytes; 0, the default, takes a sixteenth of the storage, at most 1 GiB.
    pub log_bytes: u64,
    /// The memtable is applied to the tree when it has this many bytes. Default 32 MiB; never more than a
    /// 128th of the storage, and much less when space is short, so that applying it fits the free space. About four
    /// times as much may be in use: one that fills, two that wait, and what the tree makes of one.
    pub memtable_bytes: usize,
    /// Bytes of nodes and extents kept in memory. Default 256 MiB. A quarter of it may be nodes not written yet.
    pub cache_bytes: usize,
    /// Which extents stay in memory within these bytes. Default those that were just written or read.
    pub cached_extents: CachedExtents,
    /// Compression of nodes. Default none. Extents are never compressed.
    pub compression: Compression,
    /// Values of at least this many bytes, and batches whose values of 2 KiB and more add up to it, go to extents
    /// outside the tree and are not written to the log. So do values of 2 KiB and more of a batch that is
    /// larger than an eighth of the log. Default 64 KiB.
    pub extent_bytes: usize,
    /// Longest time between checkpoints. Default 60 s. Half a log also starts one.
    pub checkpoint_interval: Duration,
    /// Longest time an unsynced write stays out of the log, if given. Default 1 s.
    pub sync_interval: Option<Duration>,
    /// Run flushing, checkpoints and read-ahead in threads of their own. Without, writers do all of it inline, in
    /// a way that depends on nothing but the calls made: for tests. Default true.
    pub background: bool,
    /// Tell the storage about freed space after each checkpoint. Default false.
    pub discard: bool,
    /// Open also a store whose log has lost batches that were acknowledged as durable, without them and whatever came after them;
    /// see [`crate::Db::lost`]. Default false: such a store is refused with [`Error::Lost`].
    pub recover: bool,
    /// Which of BetrFS's optimisations are in force, for measuring what each is worth. Default all.
    pub steps: Features,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            leaf_bytes: 1 << 20,
            basement_bytes: 64 << 10,
            buffer_bytes: 2 << 20,
            fanout: 16,
            log_bytes: 0,
            memtable_bytes: 32 << 20,
            cache_bytes: 256 << 20,
            cached_extents: CachedExtents::All,
            compression: Compression::None,
            extent_bytes: 64 << 10,
            checkpoint_interval: Duration::from_secs(60),
            sync_interval: Some(Duration::from_secs(1)),
            background: true,
            discard: false,
            recover: false,
            steps: Features::ALL,
        }
    }
}

impl Options {
    /// Small nodes and no threads: for tests that want tall trees and the same run every time.
    pub fn tiny() -> Self {
        Options {
            leaf_bytes: 4096,
            basement_bytes: 1024,
            buffer_bytes: 4096,
            fanout: 6,
            log_bytes: 64 * UNIT as u64,
            memtable_bytes: 4096,
            cache_bytes: 64 << 10,
            extent_bytes: 8192,
            sync_interval: None,
            background: false,
            ..Options::default()
        }
    }

    pub(super) fn shape(&self) -> NodeSizes {
        NodeSizes {
            leaf_bytes: self.leaf_bytes,
            basement_bytes: self.basement_bytes,
            buffer_bytes: self.buffer_bytes,
            fanout: self.fanout,
        }
    }

    /// Units of the log on a storage of `units`.
    pub(super) fn log_units(&self, units: u64) -> u64 {
        let unit = UNIT as u64;
        match self.log_bytes {
            0 => (units / 16).clamp(16, (1 << 30) / unit),
            n => n.div_ceil(unit),
        }
    }

    pub(super) fn check(&self, units: u64) -> Result<()> {
        let bad = |what: &str| Err(Error::Invalid(what.into()));
        if self.fanout < 4 || self.fanout > 4096 {
            return bad("fanout must be from 4 to 4096");
        }
        if self.basement_bytes < 256
            || self.leaf_bytes < self.basement_bytes.saturating_mul(2)
            || self.leaf_bytes > 64 << 20
        {
            return bad(
                "basements need at least 256 bytes, leaves at least two basements and at most 64 MiB",
            );
        }
        if self.buffer_bytes < 1024 || self.buffer_bytes > 64 << 20 {
            return bad("buffer_bytes must be from 1 KiB to 64 MiB");
        }
        if let Compression::Zstd(level) = self.compression
            && !(1..=19).contains(&level)
        {
            return bad("zstd levels go from 1 to 19");
        }
        if self.log_units(units) < 16 {
            return bad("the log needs at least 64 KiB");
        }
        if units < self.log_units(units) + 64 {
            return bad("the storage is too small for the log and anything else");
        }
        Ok(())
    }
}
