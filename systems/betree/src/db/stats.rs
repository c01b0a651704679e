//! Figures about an open store, and where they come from.

use super::inner::Inner;
use std::sync::atomic::{AtomicU64, Ordering};

/// Figures about an open store.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Capacity of the storage in bytes.
    pub capacity_bytes: u64,
    /// Bytes not in use.
    pub free_bytes: u64,
    /// Bytes that only deletes and checkpoints may use.
    pub reserve_bytes: u64,
    /// Bytes that have been promised, see [`Db::promise`](crate::Db::promise).
    pub promised_bytes: u64,
    /// Nodes and extents on storage.
    pub nodes: usize,
    /// Extents on storage.
    pub extents: usize,
    /// Height of the tree: 0 for a single leaf.
    pub height: u8,
    /// Number of the last batch.
    pub last_msn: u64,
    /// Number of the last batch known to be durable.
    pub durable_msn: u64,
    /// Number of the last batch that the tree includes.
    pub applied_msn: u64,
    /// Bytes of node parts and extents in memory.
    pub cached_bytes: usize,
    /// Bytes of new nodes not written yet.
    pub unwritten_bytes: usize,
    /// Bytes in the memtable and the frozen ones.
    pub memtable_bytes: usize,
    /// Bytes of memory accounted for, about: node parts, extents, memtables, extents on their way, transfer buffers, log records.
    pub memory_bytes: usize,
    /// Part of the log in use, in thousandths.
    pub log_fill: u64,
    /// Since opening: checkpoints, log flushes for syncs, nodes and their bytes written, bytes of extents
    /// written, requests and bytes read, buffers flushed to a child, subtrees dropped by a range delete.
    pub checkpoints: u64,
    /// See [`Stats::checkpoints`].
    pub log_syncs: u64,
    /// See [`Stats::checkpoints`].
    pub nodes_written: u64,
    /// See [`Stats::checkpoints`].
    pub node_bytes_written: u64,
    /// See [`Stats::checkpoints`].
    pub extent_bytes_written: u64,
    /// Bytes since opening of what checkpoints wrote of the translation table, in all copies.
    pub table_bytes_written: u64,
    /// Bytes of messages since opening that were written to extents to wait in inner nodes.
    pub spilled_bytes: u64,
    /// Of the log's records, bytes for which a record stands that refers to what was spilled.
    pub bound_bytes: u64,
    /// See [`Stats::checkpoints`].
    pub reads: u64,
    /// See [`Stats::checkpoints`].
    pub bytes_read: u64,
    /// Bytes of extents since opening that were wanted and in memory.
    pub extent_bytes_at_hand: u64,
    /// See [`Stats::checkpoints`].
    pub flushes_down: u64,
    /// See [`Stats::checkpoints`].
    pub subtrees_dropped: u64,
    /// Bytes of records handed to the log since opening.
    pub log_bytes: u64,
    /// Bytes that frames have taken of the log's ring since the store was made, lap after lap.
    pub log_position_bytes: u64,
    /// Length of that ring.
    pub log_ring_bytes: u64,
    /// Parts of nodes and of extents that left memory since opening because the cache was full.
    pub evictions: u64,
    /// Transfer buffers allocated since opening.
    pub buffers_made: u64,
    /// Transfer buffers used again since opening; 0 without the step `malloc`.
    pub buffers_reused: u64,
    /// Flushes since opening that also committed the metadata of a file system below: without the step `sfl`.
    pub stacked_flushes: u64,
    /// Range deletes since opening that became deletes of single keys: without the step `range`.
    pub ranges_expanded: u64,
    /// The deletes of single keys that they became.
    pub keys_expanded: u64,
    /// Bytes of values since opening that were logged although they are in an extent: without the step `cond-log`.
    pub logged_twice_bytes: u64,
    /// Entries that point queries brought up to date since opening besides those asked for: without the step
    /// `query-path`.
    pub entries_applied: u64,
}

impl Inner {
    pub(super) fn stats(&self) -> Stats {
        let (view, active, active_memory, last_msn) = {
            let front = self.read_front();
            (front.view.clone(), front.active.weight(), front.active.memory(), front.last_msn)
        };
        let c = &self.store.counters;
        let n = |a: &AtomicU64| a.load(Ordering::Relaxed);
        let (nodes, extents) = self.store.table.counts();
        let unit = crate::storage::UNIT as u64;
        let (buffers_made, buffers_reused) = self.store.pool.counts();
        let (log_position_bytes, log_ring_bytes) = self.log.position();
        Stats {
            capacity_bytes: self.units * unit,
            free_bytes: self.store.table.free_units() * unit,
            reserve_bytes: self.reserve_bytes(),
            promised_bytes: self.promised_bytes(),
            nodes,
            extents,
            height: view.root.level(),
            last_msn,
            durable_msn: self.log.durable(),
            applied_msn: view.applied,
            cached_bytes: self.store.meter.resident(),
            unwritten_bytes: self.store.meter.unwritten(),
            memtable_bytes: active + view.frozen.iter().map(|f| f.weight).sum::<usize>(),
            memory_bytes: self.store.meter.resident()
                + active_memory
                + view.frozen.iter().map(|f| f.memory).sum::<usize>()
                + self.store.flight.bytes()
                + self.store.pool.bytes()
                + self.log.memory(),
            log_fill: self.log.fill(),
            checkpoints: n(&self.checkpoints),
            log_syncs: self.log.syncs(),
            nodes_written: n(&c.nodes_written),
            node_bytes_written: n(&c.node_bytes_written),
            extent_bytes_written: n(&c.extent_bytes_written),
            table_bytes_written: n(&c.table_bytes_written),
            spilled_bytes: n(&c.spilled_bytes),
            bound_bytes: n(&c.bound_bytes),
            reads: n(&c.reads),
            bytes_read: n(&c.bytes_read),
            extent_bytes_at_hand: n(&c.extent_bytes_at_hand),
            flushes_down: n(&c.flushes_down),
            subtrees_dropped: n(&c.subtrees_dropped),
            log_bytes: self.log.bytes(),
            log_position_bytes,
            log_ring_bytes,
            evictions: self.store.cache.evictions(),
            buffers_made,
            buffers_reused,
            stacked_flushes: n(&c.stacked_flushes),
            ranges_expanded: n(&c.ranges_expanded),
            keys_expanded: n(&c.keys_expanded),
            logged_twice_bytes: n(&c.logged_twice_bytes),
            entries_applied: n(&c.entries_applied),
        }
    }
}
