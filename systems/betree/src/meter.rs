//! How much memory is in use, and what of it can be given back.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of parts of nodes and of extents in memory, about.
#[derive(Debug, Default)]
pub struct Meter {
    resident: AtomicUsize,
    evicted: AtomicUsize,
    pub(crate) dirty: AtomicUsize,
    pub(crate) unwritten: AtomicUsize,
}

impl Meter {
    /// Bytes in memory.
    pub fn resident(&self) -> usize {
        self.resident.load(Ordering::Relaxed)
    }

    /// Bytes evicted since the store was opened, wrapping around: a clock for how long ago something was.
    pub fn evicted(&self) -> usize {
        self.evicted.load(Ordering::Relaxed)
    }

    /// So many bytes were evicted.
    pub fn note_evicted(&self, bytes: usize) {
        self.evicted.fetch_add(bytes, Ordering::Relaxed);
    }

    /// So many bytes more are in memory.
    pub fn add(&self, bytes: usize) {
        self.resident.fetch_add(bytes, Ordering::Relaxed);
    }

    /// So many bytes are no longer in memory.
    pub fn remove(&self, bytes: usize) {
        self.resident.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Bytes in memory that are not on storage yet.
    #[cfg(test)]
    pub fn dirty(&self) -> usize {
        self.dirty.load(Ordering::Relaxed)
    }

    /// Bytes that writing all new nodes would take, about: whole nodes, unchanged parts included.
    pub fn unwritten(&self) -> usize {
        self.unwritten.load(Ordering::Relaxed)
    }
}

/// What the cache can drop from memory.
pub trait Evictable: Send + Sync {
    /// Used since the last call?
    fn take_hot(&self) -> bool;
    /// Was evicted before, and loaded again since?
    fn is_ghost(&self) -> bool;
    /// Size in memory in bytes.
    fn size(&self) -> usize;
    /// Drops the content if it is on storage.
    fn evict(&self);
}
