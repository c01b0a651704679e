//! Transfer buffers that are used again: fresh ones cost page faults and zeroing.

use super::AlignedBuf;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Smallest size class, as a power of two.
const CLASS_MIN: u32 = 14;
/// Size classes: 16 KiB to 64 MiB.
const CLASSES: usize = 13;

struct Shared {
    free: [Mutex<Vec<AlignedBuf>>; CLASSES],
    /// Bytes that each class may keep.
    keep_bytes: usize,
    made: AtomicU64,
    reused: AtomicU64,
}

/// A pool; clones share it.
#[derive(Clone)]
pub(crate) struct BufPool(Arc<Shared>);

/// A buffer that returns to its pool when dropped.
pub(crate) struct PooledBuf {
    buf: Option<AlignedBuf>,
    pool: Option<BufPool>,
}

fn class_of(len: usize) -> Option<usize> {
    let class = len.max(1).next_power_of_two().trailing_zeros().max(CLASS_MIN) - CLASS_MIN;
    ((class as usize) < CLASSES).then_some(class as usize)
}

impl BufPool {
    /// A pool that keeps at most `keep_bytes` of each size class; 0 keeps nothing.
    pub fn new(keep_bytes: usize) -> Self {
        let free = std::array::from_fn(|_| Mutex::default());
        BufPool(Arc::new(Shared { free, keep_bytes, made: AtomicU64::new(0), reused: AtomicU64::new(0) }))
    }

    /// A buffer of `len` bytes, rounded up to whole units, with any content.
    pub fn take(&self, len: usize) -> PooledBuf {
        let class = if self.0.keep_bytes > 0 { class_of(len) } else { None };
        let Some(class) = class else {
            self.0.made.fetch_add(1, Ordering::Relaxed);
            return PooledBuf { buf: Some(AlignedBuf::zeroed(len)), pool: None };
        };
        let found = self.0.free[class].lock().unwrap_or_else(|e| e.into_inner()).pop();
        let counter = if found.is_some() { &self.0.reused } else { &self.0.made };
        counter.fetch_add(1, Ordering::Relaxed);
        let mut buf = found.unwrap_or_else(|| AlignedBuf::zeroed(1 << (class as u32 + CLASS_MIN)));
        buf.set_len(len);
        PooledBuf { buf: Some(buf), pool: Some(self.clone()) }
    }

    /// A buffer that holds the `parts` one after the other and then zeros to a whole unit.
    pub fn filled(&self, parts: &[&[u8]]) -> PooledBuf {
        let mut buf = self.take(parts.iter().map(|p| p.len()).sum());
        let mut at = 0;
        for part in parts {
            buf[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        buf[at..].fill(0);
        buf
    }

    /// Bytes of buffers that wait to be used again.
    pub fn bytes(&self) -> usize {
        let classes = self.0.free.iter().enumerate();
        let kept =
            classes.map(|(i, c)| c.lock().unwrap_or_else(|e| e.into_inner()).len() << (i as u32 + CLASS_MIN));
        kept.sum()
    }

    /// Buffers allocated, and buffers used again.
    pub fn counts(&self) -> (u64, u64) {
        (self.0.made.load(Ordering::Relaxed), self.0.reused.load(Ordering::Relaxed))
    }
}

impl Drop for PooledBuf {
    fn drop(&mut self) {
        let (Some(buf), Some(pool)) = (self.buf.take(), self.pool.take()) else { return };
        let capacity = buf.capacity();
        let Some(class) = class_of(capacity) else { return };
        let mut free = pool.0.free[class].lock().unwrap_or_else(|e| e.into_inner());
        if free.len() * capacity < pool.0.keep_bytes {
            free.push(buf);
        }
    }
}

impl Deref for PooledBuf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.buf.as_deref().unwrap_or_default()
    }
}

impl DerefMut for PooledBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.buf.as_deref_mut().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::UNIT;

    #[test]
    fn buffers_come_back_and_are_zero_behind_what_is_filled_in() {
        let pool = BufPool::new(1 << 20);
        let mut first = pool.take(100_000);
        first.fill(0xAA);
        let place = first.as_ptr();
        drop(first);
        let again = pool.filled(&[b"abc", &[1; 70_000]]);
        assert_eq!((again.as_ptr(), again.len()), (place, 18 * UNIT));
        assert_eq!((&again[..4], again[70_003]), (&b"abc\x01"[..], 0));
        assert!(again[70_003..].iter().all(|b| *b == 0));
        let other = pool.take(100_000);
        assert_ne!(other.as_ptr(), place, "in use");
        assert_eq!(pool.counts(), (2, 1));
        let none = BufPool::new(0);
        drop(none.take(5000));
        drop(none.take(5000));
        assert_eq!(none.counts(), (2, 0));
    }

    #[test]
    fn a_pool_keeps_no_more_than_it_may() {
        let pool = BufPool::new(64 << 10);
        let many: Vec<_> = (0..10).map(|_| pool.take(32 << 10)).collect();
        drop(many);
        let again: Vec<_> = (0..10).map(|_| pool.take(32 << 10)).collect();
        assert_eq!(pool.counts(), (18, 2));
        assert!(pool.take(1 << 30).len() == 1 << 30, "larger than any class");
        drop(again);
    }
}
