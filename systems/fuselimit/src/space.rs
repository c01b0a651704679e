//! How much memory all files together may hold.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes, with a limit.
#[derive(Debug)]
pub(crate) struct Space {
    most: u64,
    used: AtomicU64,
}

impl Space {
    pub fn new(most: u64) -> Space {
        Space { most, used: AtomicU64::new(0) }
    }

    /// Takes `bytes`.
    ///
    /// # Errors
    /// ENOSPC if there is less.
    pub fn take(&self, bytes: u64) -> Result<(), i32> {
        let used = self.used.fetch_add(bytes, Ordering::Relaxed);
        if used.saturating_add(bytes) > self.most {
            self.give(bytes);
            return Err(libc::ENOSPC);
        }
        Ok(())
    }

    /// Gives `bytes` back.
    pub fn give(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
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
