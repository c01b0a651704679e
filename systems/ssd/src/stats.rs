//! Counters of a device since it was made.

use serde::Serialize;

/// Counters; blocks are 4 KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stats {
    /// Commands fetched from the submission queues.
    pub commands: u64,
    /// Blocks read by the host.
    pub host_read_blocks: u64,
    /// Of these, found in the write cache.
    pub cache_hit_blocks: u64,
    /// Of these, never written or discarded.
    pub unmapped_read_blocks: u64,
    /// Blocks written by the host.
    pub host_write_blocks: u64,
    /// Of these, overwritten in the cache before they reached flash.
    pub coalesced_blocks: u64,
    /// Blocks discarded or zeroed by the host.
    pub trimmed_blocks: u64,
    /// FLUSH commands.
    pub flushes: u64,
    /// Of these, in place of the FUA flag of a write.
    pub fua_flushes: u64,
    /// FUA writes.
    pub fua_writes: u64,
    /// Writes that waited for cache space.
    pub stalled_writes: u64,
    /// Pages read for the host.
    pub page_reads: u64,
    /// Unit programs of host data.
    pub host_programs: u64,
    /// Unit programs of garbage collection and folding.
    pub gc_programs: u64,
    /// Blocks they moved.
    pub moved_blocks: u64,
    /// Flash blocks' worth of slots programmed, padding included.
    pub programmed_slots: u64,
    /// Erases.
    pub erases: u64,
    /// Journal pages programmed.
    pub journal_pages: u64,
    /// Map segment pages programmed.
    pub segment_pages: u64,
    /// Most blocks that ever waited on flash for earlier epochs.
    pub waiting_blocks_max: u64,
    /// Most commands that were ever between submission and completion.
    pub in_flight_max: u64,
    /// Power cuts.
    pub power_cuts: u64,
}

impl Stats {
    /// Slots programmed per block the host wrote; 1 with neither padding, collection nor coalescing.
    /// None before the first write. Map pages are not in it; they are counted apart.
    pub fn write_amplification(&self) -> Option<f64> {
        (self.host_write_blocks > 0).then(|| self.programmed_slots as f64 / self.host_write_blocks as f64)
    }
}
