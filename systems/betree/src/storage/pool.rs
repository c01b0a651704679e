//! Transfer buffers that are used again: fresh ones cost page faults and zeroing.

use super::AlignedBuf;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Smallest size class, as a power of two.
const CLASS_MIN: u32 = 14;
/// Sizes between two powers of two, the larger one included: what is kept for long wastes a fifth at most.
const STEPS: usize = 4;
/// Size classes: 16 KiB to 64 MiB.
const CLASSES: usize = 12 * STEPS + 1;
/// All classes together keep so many times what one may.
const KEEP_CLASSES: usize = 8;

struct Shared {
    free: [Mutex<Vec<AlignedBuf>>; CLASSES],
    /// Bytes that each class may keep.
    keep_bytes: usize,
    /// Bytes that all keep.
    kept: AtomicUsize,
    made: AtomicU64,
    reused: AtomicU64,
}

/// A pool; clones share it.
#[derive(Clone)]
pub(crate) struct BufPool(Arc<Shared>);

/// A buffer that returns to its pool when dropped.
#[derive(Default)]
pub(crate) struct PooledBuf {
    buf: Option<AlignedBuf>,
    pool: Option<BufPool>,
}

/// The class of buffers that hold `len` bytes, and their size; with `snug` it may lie between two powers of two.
fn class_of(len: usize, snug: bool) -> Option<(usize, usize)> {
    let least = 1usize << CLASS_MIN;
    if len <= least {
        return Some((0, least));
    }
    // `len` is above this power of two, and at most the next.
    let power = (len - 1).ilog2();
    let step = (1usize << power) / STEPS;
    let steps = if snug { len.div_ceil(step) } else { 2 * STEPS };
    let class = (power - CLASS_MIN) as usize * STEPS + steps - STEPS;
    (class < CLASSES).then_some((class, steps * step))
}

impl BufPool {
    /// A pool that keeps at most `keep_bytes` of each size class; 0 keeps nothing.
    pub fn new(keep_bytes: usize) -> Self {
        let free = std::array::from_fn(|_| Mutex::default());
        let (kept, made, reused) = (AtomicUsize::new(0), AtomicU64::new(0), AtomicU64::new(0));
        BufPool(Arc::new(Shared { free, keep_bytes, kept, made, reused }))
    }

    /// A buffer of `len` bytes, rounded up to whole units, with any content.
    pub fn take(&self, len: usize) -> PooledBuf {
        self.take_of(len, class_of(len, false))
    }

    /// The same that is hardly larger than it must be: for what will stay.
    pub fn take_snug(&self, len: usize) -> PooledBuf {
        self.take_of(len, class_of(len, true))
    }

    fn take_of(&self, len: usize, class: Option<(usize, usize)>) -> PooledBuf {
        let Some((class, size)) = class.filter(|_| self.0.keep_bytes > 0) else {
            self.0.made.fetch_add(1, Ordering::Relaxed);
            return PooledBuf { buf: Some(AlignedBuf::zeroed(len)), pool: None };
        };
        let found = self.0.free[class].lock().unwrap_or_else(|e| e.into_inner()).pop();
        let counter = if found.is_some() { &self.0.reused } else { &self.0.made };
        counter.fetch_add(1, Ordering::Relaxed);
        if found.is_some() {
            self.0.kept.fetch_sub(size, Ordering::Relaxed);
        }
        let mut buf = found.unwrap_or_else(|| AlignedBuf::zeroed(size));
        buf.set_len(len);
        PooledBuf { buf: Some(buf), pool: Some(self.clone()) }
    }

    /// A buffer that holds the `parts` one after the other and then zeros to a whole unit.
    pub fn filled(&self, parts: &[&[u8]]) -> PooledBuf {
        fill(self.take(parts.iter().map(|p| p.len()).sum()), parts)
    }

    /// The same that is hardly larger than it must be.
    pub fn filled_snug(&self, parts: &[&[u8]]) -> PooledBuf {
        fill(self.take_snug(parts.iter().map(|p| p.len()).sum()), parts)
    }

    /// Bytes of buffers that wait to be used again.
    pub fn bytes(&self) -> usize {
        self.0.kept.load(Ordering::Relaxed)
    }

    /// Buffers allocated, and buffers used again.
    pub fn counts(&self) -> (u64, u64) {
        (self.0.made.load(Ordering::Relaxed), self.0.reused.load(Ordering::Relaxed))
    }
}

fn fill(mut buf: PooledBuf, parts: &[&[u8]]) -> PooledBuf {
    let mut at = 0;
    for part in parts {
        buf[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    buf[at..].fill(0);
    buf
}

impl PooledBuf {
    /// Bytes of memory that it takes.
    pub fn memory(&self) -> usize {
        self.buf.as_ref().map_or(0, AlignedBuf::capacity)
    }
}

impl Drop for PooledBuf {
    fn drop(&mut self) {
        let (Some(buf), Some(pool)) = (self.buf.take(), self.pool.take()) else { return };
        let capacity = buf.capacity();
        let Some((class, _)) = class_of(capacity, true) else { return };
        let shared = &pool.0;
        let mut free = shared.free[class].lock().unwrap_or_else(|e| e.into_inner());
        let all = shared.kept.load(Ordering::Relaxed) + capacity;
        if free.len() * capacity < shared.keep_bytes && all <= KEEP_CLASSES * shared.keep_bytes {
            shared.kept.fetch_add(capacity, Ordering::Relaxed);
            free.push(buf);
            return;
        }
        drop(free);
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

    #[test]
    fn snug_buffers_waste_a_fifth_at_most_and_all_classes_together_keep_little() {
        let pool = BufPool::new(1 << 20);
        for len in (1..70).map(|i| i * 15_011).chain((14..=26).flat_map(|p| [1usize << p, (1 << p) + 1])) {
            let (rounded, least) = (len.next_multiple_of(UNIT), 1 << CLASS_MIN);
            let buf = pool.take_snug(len);
            assert_eq!(buf.len(), rounded);
            assert!(buf.memory() <= (rounded + rounded / 4).max(least), "{len}: {}", buf.memory());
            let normal = pool.take(len);
            assert!(normal.memory() < 2 * rounded.max(least) && normal.memory() >= rounded);
            drop((buf, normal));
            assert!(pool.bytes() <= KEEP_CLASSES << 20);
        }
        assert!(pool.bytes() > 4 << 20);
        let kept = pool.bytes();
        let one = pool.take_snug(100_000);
        assert_eq!(pool.bytes() + one.memory(), kept, "one of them");
    }
}
