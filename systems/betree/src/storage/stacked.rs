//! Storage as it is for a store stacked on another file system: each flush commits twice.

use super::Storage;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Turns every flush into [`Storage::flush_stacked`], and counts them.
pub(crate) struct Stacked {
    pub below: Arc<dyn Storage>,
    pub flushes: Arc<AtomicU64>,
}

impl Storage for Stacked {
    fn len(&self) -> io::Result<u64> {
        self.below.len()
    }

    fn read_at(&self, buf: &mut [u8], off: u64) -> io::Result<()> {
        self.below.read_at(buf, off)
    }

    fn read_many(&self, reads: &mut [(u64, &mut [u8])]) -> io::Result<()> {
        self.below.read_many(reads)
    }

    fn write_at(&self, buf: &[u8], off: u64) -> io::Result<()> {
        self.below.write_at(buf, off)
    }

    fn write_many(&self, writes: &[(u64, &[u8])]) -> io::Result<()> {
        self.below.write_many(writes)
    }

    fn flush(&self) -> io::Result<()> {
        self.flushes.fetch_add(1, Ordering::Relaxed);
        self.below.flush_stacked()
    }

    fn discard(&self, off: u64, len: u64) -> io::Result<()> {
        self.below.discard(off, len)
    }
}
