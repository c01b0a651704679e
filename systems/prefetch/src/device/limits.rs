//! What the kernel allows: its read-ahead of a device, and how much one call prefetches.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use crate::PAGE;

shared! {
    /// Both are Linux's default until the shell has told them.
    pub struct Limits {
        readahead: AtomicU64 = AtomicU64::new(128 << 10),
        call: AtomicU64 = AtomicU64::new(128 << 10),
        told: AtomicBool,
    }
}

impl Limits {
    /// Tells both, bytes; no system exceeds the bounds by sense. What is 0 stays as it was.
    pub fn set(&self, readahead_bytes: u64, call_bytes: u64) {
        self.told.store(true, Relaxed);
        for (limit, bytes, most) in
            [(&self.readahead, readahead_bytes, 1 << 30), (&self.call, call_bytes, 8 << 20)]
        {
            if bytes > 0 {
                limit.store(bytes.clamp(PAGE, most), Relaxed);
            }
        }
    }

    /// Whether they were told.
    pub fn are_told(&self) -> bool {
        self.told.load(Relaxed)
    }

    /// The kernel's read-ahead window, bytes.
    pub fn readahead_bytes(&self) -> u64 {
        self.readahead.load(Relaxed)
    }

    /// The most that one call prefetches, bytes.
    pub fn call_bytes(&self) -> u64 {
        self.call.load(Relaxed)
    }
}
