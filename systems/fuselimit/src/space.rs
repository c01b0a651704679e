//! How much memory all files together may hold, and blocks of it that are ready.
//!
//! A page that a process touches first is cleared by the kernel, which takes as long as some of the requests. So blocks are
//! touched before anybody asks, and those of removed files are kept.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

/// Bytes of a block: few allocations for a large write, and less than what the allocator maps by itself.
pub(crate) const BLOCK: usize = 64 << 10;
/// Bytes that are ready at the mount, at most; it takes about half a second.
const READY_MAX: u64 = 1 << 30;

/// Bytes, with a limit.
#[derive(Debug)]
pub(crate) struct Space {
    most: u64,
    used: AtomicU64,
    /// Empty blocks, which are not among `used`.
    ready: Mutex<Vec<Vec<u8>>>,
    /// Bytes of those.
    kept: AtomicU64,
}

impl Space {
    /// Of `most` bytes, of which a quarter is touched now.
    pub fn new(most: u64) -> Space {
        let blocks = (most / 4).min(READY_MAX) / BLOCK as u64;
        let space = Space { most, used: AtomicU64::new(0), ready: Mutex::default(), kept: AtomicU64::new(0) };
        (0..blocks).for_each(|_| space.keep(vec![1; BLOCK]));
        space
    }

    fn ready(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.ready.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn keep(&self, mut block: Vec<u8>) {
        block.clear();
        self.kept.fetch_add(BLOCK as u64, Ordering::Relaxed);
        self.ready().push(block);
    }

    fn kept_block(&self) -> Option<Vec<u8>> {
        let block = self.ready().pop()?;
        self.kept.fetch_sub(BLOCK as u64, Ordering::Relaxed);
        Some(block)
    }

    /// Takes `bytes`. What is ready makes room, if it must.
    ///
    /// # Errors
    /// ENOSPC if there is less.
    pub fn take(&self, bytes: u64) -> Result<(), i32> {
        let used = self.used.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        if used > self.most {
            self.give(bytes);
            return Err(libc::ENOSPC);
        }
        while used.saturating_add(self.kept.load(Ordering::Relaxed)) > self.most
            && self.kept_block().is_some()
        {}
        Ok(())
    }

    /// An empty block, for which [`BLOCK`] bytes were taken.
    pub fn block(&self) -> Vec<u8> {
        self.kept_block().unwrap_or_else(|| Vec::with_capacity(BLOCK))
    }

    /// Gives `bytes` back.
    pub fn give(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Gives a block back, of whatever size.
    pub fn give_block(&self, block: Vec<u8>) {
        self.give(block.capacity() as u64);
        if block.capacity() == BLOCK {
            self.keep(block);
        }
    }

    /// Bytes of all.
    pub fn most(&self) -> u64 {
        self.most
    }

    /// Bytes left.
    pub fn left(&self) -> u64 {
        self.most.saturating_sub(self.used.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ready_and_what_is_used_stay_within_the_limit() {
        let space = Space::new(16 * BLOCK as u64);
        let held = || space.used.load(Ordering::Relaxed) + space.kept.load(Ordering::Relaxed);
        assert_eq!(held(), 4 * BLOCK as u64);
        for _ in 0..16 {
            space.take(BLOCK as u64).expect("room");
            space.give_block(space.block());
            space.take(BLOCK as u64).expect("room");
            assert!(held() <= space.most(), "{space:?}");
        }
        assert_eq!((space.take(1), space.left()), (Err(libc::ENOSPC), 0));
        assert!(space.ready().is_empty());
    }
}
