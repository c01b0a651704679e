//! Which parts of nodes and which extents stay in memory: queues with second chances, in the manner of S3-FIFO (SOSP 2023).
//!
//! What is loaded enters a small queue and leaves memory soon unless it is used again, so one scan cannot push
//! out what is used often. What was used meanwhile, or was evicted and is back before long, moves to the main queue.
//!
//! Extents have a small queue of their own: a file that is written or read once takes the memory that nothing else uses, and a
//! tenth of the budget. It pushes out neither the main queue nor what nodes have just loaded.

use crate::extent_cache::CachedRange;
use crate::meter::{Evictable, Meter};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

/// The small queues may take this part of the budget each, whatever else is wanted.
const SMALL_PART: usize = 10;
/// No stretch of an extent is larger than this part of the budget.
const STRETCH_PART: usize = 4;
/// A queue is searched for what is gone when it has twice as many entries as it had then, and so many more.
const PURGE_SLACK: usize = 256;

/// Who goes next, and the bytes of each as they were when it came.
#[derive(Default)]
struct Queue {
    items: VecDeque<(Weak<dyn Evictable>, usize)>,
    bytes: usize,
    /// Entries that were left when it was last searched.
    purged: usize,
}

impl Queue {
    fn push(&mut self, item: &Arc<dyn Evictable>) {
        if self.items.len() >= 2 * self.purged + PURGE_SLACK {
            // A name of what is gone keeps its memory, if little of it.
            self.items.retain(|(item, _)| item.strong_count() > 0);
            self.bytes = self.items.iter().map(|(_, bytes)| bytes).sum();
            self.purged = self.items.len();
        }
        self.bytes += item.size();
        self.items.push_back((Arc::downgrade(item), item.size()));
    }

    fn pop(&mut self) -> Option<Arc<dyn Evictable>> {
        let (item, bytes) = self.items.pop_front()?;
        self.bytes -= bytes;
        item.upgrade()
    }
}

#[derive(Default)]
struct Queues {
    /// Parts of nodes that were just loaded or written.
    parts: Queue,
    /// The same of extents.
    extents: Queue,
    main: Queue,
}

/// The cache's book-keeping; the contents are in the nodes and with the blocks of extents.
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

    fn lock(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Something clean is in memory now. `keep` prefers it (inner nodes' buffers) over what a scan loads.
    pub fn insert(&self, item: &Arc<impl Evictable + 'static>, keep: bool) {
        let item: Arc<dyn Evictable> = item.clone();
        let main = keep || item.is_ghost();
        let mut q = self.lock();
        if main { q.main.push(&item) } else { q.parts.push(&item) }
    }

    /// A stretch of an extent is in memory now; `evicted` bytes have been evicted since it was before. After more than there is
    /// room for it is as if it had never been.
    pub(crate) fn insert_extent(&self, stretch: &Arc<CachedRange>, evicted: Option<usize>) {
        let item: Arc<dyn Evictable> = stretch.clone();
        let back = evicted.is_some_and(|bytes| bytes <= self.budget);
        let mut q = self.lock();
        if back { q.main.push(&item) } else { q.extents.push(&item) }
    }

    /// The largest stretch of an extent that is worth its memory.
    /// The largest stretch of an extent that is worth its memory.
    pub fn stretch_bytes_max(&self) -> usize {
        self.budget / STRETCH_PART
    }

    /// Evicts until the budget is kept or nothing clean is left.
    pub fn trim(&self) {
        if self.meter.resident() <= self.budget {
            return;
        }
        let mut turns = {
            let q = self.lock();
            2 * (q.parts.items.len() + q.extents.items.len() + q.main.items.len())
        };
        while self.meter.resident() > self.budget && turns > 0 {
            turns -= 1;
            // The victim is dropped outside the lock: it may be the last reference to a node.
            let Some(victim) = self.next_victim() else { continue };
            victim.evict();
            self.meter.note_evicted(victim.size());
            self.evictions.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Parts of nodes and stretches of extents evicted so far.
    pub fn evictions(&self) -> u64 {
        self.evictions.load(Ordering::Relaxed)
    }

    /// Takes the head of a queue; gives it back only if it is to be evicted.
    fn next_victim(&self) -> Option<Arc<dyn Evictable>> {
        let mut q = self.lock();
        let Queues { parts, extents, main } = &mut *q;
        let small = self.budget / SMALL_PART;
        let from = if extents.bytes > small {
            extents
        } else if parts.bytes > small {
            parts
        } else if !main.items.is_empty() {
            let item = main.pop()?;
            if item.take_hot() {
                main.push(&item);
                return None;
            }
            return Some(item);
        } else if !extents.items.is_empty() {
            extents
        } else {
            parts
        };
        let item = from.pop()?;
        if item.take_hot() {
            main.push(&item);
            return None;
        }
        Some(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::{BlockInfo, BlockKind, BlockRef, ReferenceReaper};
    use crate::codec::Basement;
    use crate::extent_cache::ExtentCache;
    use crate::message::Op;
    use crate::node::{Part, PartAddress};
    use crate::storage::BufPool;

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
        let block = BlockRef::new(1, Arc::new(info), Arc::new(ReferenceReaper::default()));
        part.settle(PartAddress {
            block,
            off: 0,
            stored: 0,
            raw: 0,
            codec: 0,
            crc: 0,
            extents: [][..].into(),
        });
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

    /// A stretch of 1 MiB.
    fn stretch(cache: &Cache, meter: &Arc<Meter>, held: &ExtentCache) {
        let buf = BufPool::new(0).take_snug(1 << 20);
        let (stretch, evicted) = held.put(0, 1 << 20, Arc::new(buf), meter);
        cache.insert_extent(&stretch, evicted);
        cache.trim();
    }

    #[test]
    fn a_pass_over_a_large_file_costs_nodes_a_tenth_and_takes_what_nobody_uses() {
        let meter = Arc::new(Meter::default());
        let cache = Cache::new(20 << 20, meter.clone());
        let nodes: Vec<_> = (0..100).map(|_| part(&meter)).collect();
        nodes.iter().for_each(|p| cache.insert(p, false));
        let mut file: Vec<ExtentCache> = Vec::new();
        for pass in 0..3 {
            file.resize_with(100, ExtentCache::default);
            for held in &file {
                stretch(&cache, &meter, held);
                assert!(meter.resident() <= 20 << 20, "pass {pass}");
            }
            let left = file.iter().filter(|h| h.get(0, 1, false).is_some()).count();
            assert!((17..20).contains(&left), "pass {pass}: {left} MiB of 20");
            assert!(file[81..].iter().all(|h| h.get(0, 1, false).is_some()), "the last ones");
            // Nobody has touched these since.
            assert!(nodes.iter().all(|p| p.lock().body.is_some()), "pass {pass}");
            file = if pass == 0 { Vec::new() } else { file };
        }
    }

    #[test]
    fn an_extent_that_is_used_stays_and_one_that_comes_back_soon_too() {
        let meter = Arc::new(Meter::default());
        let cache = Cache::new(20 << 20, meter.clone());
        let (used, back, late) = (ExtentCache::default(), ExtentCache::default(), ExtentCache::default());
        let file: Vec<ExtentCache> = std::iter::repeat_with(ExtentCache::default).take(100).collect();
        let here = |held: &ExtentCache| held.get(0, 1, false).is_some();
        for held in [&used, &back, &late] {
            stretch(&cache, &meter, held);
        }
        for held in &file[..30] {
            assert!(used.get(0, 1, true).is_some());
            stretch(&cache, &meter, held);
        }
        assert!(here(&used) && !here(&back) && !here(&late));
        stretch(&cache, &meter, &back);
        for held in &file[30..] {
            assert!(used.get(0, 1, true).is_some());
            stretch(&cache, &meter, held);
        }
        assert!(here(&used) && here(&back));
        stretch(&cache, &meter, &late);
        assert!(cache.lock().main.items.len() == 2, "it has been away for too long");
    }

    #[test]
    fn queues_do_not_grow_with_what_is_gone() {
        let meter = Arc::new(Meter::default());
        let cache = Cache::new(1 << 30, meter.clone());
        for _ in 0..100 * PURGE_SLACK {
            let gone = part(&meter);
            cache.insert(&gone, false);
            cache.insert(&gone, true);
        }
        assert_eq!(meter.resident(), 0);
        let q = cache.lock();
        assert!(q.parts.items.len() <= PURGE_SLACK && q.main.items.len() <= PURGE_SLACK);
        assert!(q.parts.bytes <= PURGE_SLACK * 2000);
    }
}
