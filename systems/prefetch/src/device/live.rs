//! The streams that prefetch from a device, and which of them are still read.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::tuning::T;

shared! {
    /// Streams by epochs of some 20 ms: one that was not read in this epoch nor in the one before is not counted.
    pub struct Live {
        /// Streams that prefetch, whether they are read or not.
        begun: AtomicU64,
        epoch: AtomicU64 = AtomicU64::new(1),
        epoch_start_ns: AtomicU64,
        /// Streams read in this epoch, and in the one before.
        now: AtomicU64,
        before: AtomicU64,
    }
}

impl Live {
    pub fn begin(&self) {
        self.begun.fetch_add(1, Relaxed);
    }

    /// One ends; there are never fewer than none.
    pub fn end(&self) {
        let _ = self.begun.fetch_update(Relaxed, Relaxed, |streams| streams.checked_sub(1));
    }

    /// Time passes on a device of so much latency: an epoch may be over.
    pub fn note_time(&self, now_ns: u64, latency_ns: u64) {
        let elapsed = now_ns.saturating_sub(self.epoch_start_ns.load(Relaxed));
        let length = T::LIVE_NS.max(latency_ns.saturating_mul(4)).min(10 * T::LIVE_NS);
        if elapsed >= length {
            let live = self.now.swap(0, Relaxed);
            self.before.store(if elapsed < 2 * length { live } else { 0 }, Relaxed);
            self.epoch.fetch_add(1, Relaxed);
            self.epoch_start_ns.store(now_ns, Relaxed);
        }
    }

    /// A stream was read that remembers the epoch of its latest read.
    pub fn note_read(&self, epoch: &mut u64) {
        let current = self.epoch.load(Relaxed);
        if *epoch != current {
            *epoch = current;
            self.now.fetch_add(1, Relaxed);
        }
    }

    /// Those that prefetch and were read lately.
    pub fn count(&self) -> u64 {
        self.now.load(Relaxed).max(self.before.load(Relaxed)).min(self.begun.load(Relaxed))
    }
}
