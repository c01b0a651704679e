//! Which parts stay in memory: two queues with second chances, in the manner of S3-FIFO (SOSP 2023).
//!
//! What is loaded enters a small queue and leaves memory soon unless it is used again, so one scan cannot push
//! out what is used often. What was used twice, or was evicted and is back, moves to the main queue.

use crate::node::{Evictable, Meter};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

#[derive(Default)]
struct Queues {
    small: VecDeque<Weak<dyn Evictable>>,
    small_bytes: usize,
    main: VecDeque<Weak<dyn Evictable>>,
}

/// The cache's book-keeping; the contents are in the nodes.
pub struct Cache {
    budget: usize,
    meter: Arc<Meter>,
    queues: Mutex<Queues>,
    evictions: AtomicU64,
}

impl Cache {
    /// Keeps `meter`'s resident bytes at about `budget`.
    pub fn new(budget: usize, meter: Arc<Meter>) -> Self {
        Cache { budget, meter, queues: Mutex::default(), evictions: AtomicU64::new(0) }
    }

    /// Something clean is in memory now. `keep` prefers it (inner nodes' buffers) over what a scan loads.
    pub fn insert(&self, item: &Arc<impl Evictable + 'static>, keep: bool) {
        let item: Arc<dyn Evictable> = item.clone();
        let mut q = self.queues.lock().unwrap_or_else(|e| e.into_inner());
        if keep || item.is_ghost() {
            q.main.push_back(Arc::downgrade(&item));
        } else {
            q.small_bytes += item.size();
            q.small.push_back(Arc::downgrade(&item));
        }
    }

    /// Evicts until the budget is kept or nothing clean is left.
    pub fn trim(&self) {
        if self.meter.resident() <= self.budget {
            return;
        }
        let mut turns = {
            let q = self.queues.lock().unwrap_or_else(|e| e.into_inner());
            2 * (q.small.len() + q.main.len())
        };
        while self.meter.resident() > self.budget && turns > 0 {
            turns -= 1;
            // The victim is dropped outside the lock: it may be the last reference to a node.
            let Some(victim) = self.next_victim() else { continue };
            victim.evict();
            self.evictions.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Parts evicted so far.
    pub fn evictions(&self) -> u64 {
        self.evictions.load(Ordering::Relaxed)
    }

    /// Takes the head of a queue; gives it back only if it is to be evicted.
    fn next_victim(&self) -> Option<Arc<dyn Evictable>> {
        let mut q = self.queues.lock().unwrap_or_else(|e| e.into_inner());
        let from_small = q.small_bytes > self.budget / 10 || q.main.is_empty();
        if from_small && !q.small.is_empty() {
            let item = q.small.pop_front()?.upgrade();
            let size = item.as_ref().map_or(0, |i| i.size());
            q.small_bytes = if q.small.is_empty() { 0 } else { q.small_bytes.saturating_sub(size) };
            let item = item?;
            if item.take_hot() {
                q.main.push_back(Arc::downgrade(&item));
                return None;
            }
            return Some(item);
        }
        let item = q.main.pop_front()?.upgrade()?;
        if item.take_hot() {
            q.main.push_back(Arc::downgrade(&item));
            return None;
        }
        Some(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::{BlockInfo, BlockKind, BlockRef, Reaper};
    use crate::codec::Basement;
    use crate::message::Op;
    use crate::node::{Home, Part};

    fn part(meter: &Arc<Meter>) -> Arc<Part<Basement>> {
        let info = BlockInfo {
            kind: BlockKind::Leaf,
            segments: vec![],
            len: 0,
            head_len: 0,
            sums: vec![],
            out: vec![],
        };
        let part = Part::dirty(Basement::new(vec![(b"k"[..].into(), Op::put(&[0; 951]))]), meter);
        let block = BlockRef::new(1, Arc::new(info), Arc::new(Reaper::default()));
        part.settle(Home { block, off: 0, stored: 0, raw: 0, codec: 0, crc: 0, extents: [][..].into() });
        part.take_hot();
        part
    }

    #[test]
    fn a_scan_does_not_push_out_what_is_used() {
        let meter = Arc::new(Meter::default());
        let cache = Cache::new(20_000, meter.clone());
        let used: Vec<_> = (0..10).map(|_| part(&meter)).collect();
        used.iter().for_each(|p| cache.insert(p, false));
        let mut scanned = Vec::new();
        for _ in 0..200 {
            used.iter().for_each(|p| assert!(p.peek().is_some(), "a used part was evicted"));
            let one = part(&meter);
            cache.insert(&one, false);
            scanned.push(one);
            cache.trim();
            assert!(meter.resident() <= 20_000);
        }
        assert!(scanned[..150].iter().all(|p| p.lock().body.is_none()), "scanned parts stayed");
    }

    #[test]
    fn dirty_parts_are_never_dropped() {
        let meter = Arc::new(Meter::default());
        let cache = Cache::new(10, meter.clone());
        let dirty = Part::dirty(Basement::new(vec![(b"k"[..].into(), Op::put(b"v"))]), &meter);
        cache.insert(&dirty, false);
        dirty.take_hot();
        cache.trim();
        cache.trim();
        assert!(dirty.peek().is_some());
        drop(dirty);
        assert_eq!((meter.resident(), meter.dirty()), (0, 0));
    }
}
