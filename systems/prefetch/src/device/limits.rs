//! What the kernel allows: its read-ahead of a device, and how much one call prefetches.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What stands for both until the shell has told them, bytes: Linux's default.
const UNTOLD: u64 = 128 << 10;

shared! {
    pub struct Limits {
        readahead: AtomicU64,
        call: AtomicU64,
    }
}

impl Limits {
    pub fn set(&self, readahead_bytes: u64, call_bytes: u64) {
        self.readahead.store(readahead_bytes, Relaxed);
        self.call.store(call_bytes, Relaxed);
    }

    pub fn are_told(&self) -> bool {
        self.call.load(Relaxed) != 0
    }

    pub fn readahead_bytes(&self) -> u64 {
        bytes(&self.readahead, 1 << 30)
    }

    pub fn call_bytes(&self) -> u64 {
        bytes(&self.call, 8 << 20)
    }
}

/// A limit that no system exceeds by sense, whatever the shell told, bytes.
fn bytes(told: &AtomicU64, most: u64) -> u64 {
    match told.load(Relaxed) {
        0 => UNTOLD,
        told => told.clamp(crate::PAGE, most),
    }
}
