//! Extents in memory: stretches of their bytes that were written or read a moment ago.
//!
//! They hang on their block, whose number is never used for another one. So what takes a freed place on storage is another
//! block with nothing in memory yet, and what is freed goes with the block.

use crate::meter::{Evictable, Meter};
use crate::storage::PooledBuf;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// Stretches of one extent, those that left memory included. More come only from reads that overlap in many ways.
const STRETCHES_MAX: usize = 64;
/// Bytes of memory of a stretch besides its content, about.
const OVERHEAD: usize = 160;

/// Bytes in memory that somebody uses, whether they stay there or not.
#[derive(Clone, Default)]
pub(crate) struct BorrowedBytes {
    buf: Arc<PooledBuf>,
    off: usize,
    len: usize,
}

impl BorrowedBytes {
    /// `len` bytes of `buf` from `off` on; None if it has less.
    pub fn of(buf: Arc<PooledBuf>, off: usize, len: usize) -> Option<BorrowedBytes> {
        (off.checked_add(len)? <= buf.len()).then_some(BorrowedBytes { buf, off, len })
    }

    /// `len` of these bytes from `off` on; None if there are fewer.
    pub fn part(&self, off: usize, len: usize) -> Option<BorrowedBytes> {
        let fits = off.checked_add(len)? <= self.len;
        fits.then(|| BorrowedBytes { buf: self.buf.clone(), off: self.off + off, len })
    }
}

impl Deref for BorrowedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.buf[self.off..self.off + self.len]
    }
}

/// A stretch of an extent, which comes and goes as a whole.
pub(crate) struct CachedRange {
    off: usize,
    len: usize,
    memory: usize,
    hot: AtomicBool,
    content: Mutex<Content>,
    meter: Arc<Meter>,
}

enum Content {
    Here(Arc<PooledBuf>),
    /// It left when so many bytes had been evicted.
    Gone(usize),
}

impl CachedRange {
    fn content(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn covers(&self, off: usize, len: usize) -> bool {
        self.off <= off && off + len <= self.off + self.len
    }

    fn gone_at(&self) -> Option<usize> {
        match *self.content() {
            Content::Gone(at) => Some(at),
            Content::Here(_) => None,
        }
    }
}

impl Evictable for CachedRange {
    fn take_hot(&self) -> bool {
        self.hot.swap(false, Ordering::Relaxed)
    }

    fn is_ghost(&self) -> bool {
        false
    }

    fn size(&self) -> usize {
        self.memory
    }

    fn evict(&self) {
        let mut content = self.content();
        if matches!(*content, Content::Here(_)) {
            let gone = std::mem::replace(&mut *content, Content::Gone(self.meter.evicted()));
            drop(content);
            self.meter.remove(self.memory);
            drop(gone);
        }
    }
}

impl Drop for CachedRange {
    fn drop(&mut self) {
        if matches!(*self.content(), Content::Here(_)) {
            self.meter.remove(self.memory);
        }
    }
}

/// What of an extent is in memory.
#[derive(Default)]
pub(crate) struct ExtentCache(Mutex<Vec<Arc<CachedRange>>>);

impl ExtentCache {
    fn lock(&self) -> MutexGuard<'_, Vec<Arc<CachedRange>>> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Bytes `[off, off + len)` if they are here; `hot` notes that they were of use.
    pub fn get(&self, off: usize, len: usize, hot: bool) -> Option<BorrowedBytes> {
        let stretches = self.lock();
        stretches.iter().filter(|s| s.covers(off, len)).find_map(|s| {
            let Content::Here(buf) = &*s.content() else { return None };
            if hot {
                s.hot.store(true, Ordering::Relaxed);
            }
            BorrowedBytes::of(buf.clone(), off - s.off, len)
        })
    }

    /// Keeps `len` bytes of the extent from `off` on, which `buf` begins with. Returns the stretch, for the cache, and, if all of
    /// it was here before, how many bytes have been evicted since it went.
    pub fn put(
        &self,
        off: usize,
        len: usize,
        buf: Arc<PooledBuf>,
        meter: &Arc<Meter>,
    ) -> (Arc<CachedRange>, Option<usize>) {
        let memory = buf.memory() + OVERHEAD;
        meter.add(memory);
        let (hot, content) = (AtomicBool::new(false), Mutex::new(Content::Here(buf)));
        let new = Arc::new(CachedRange { off, len, memory, hot, content, meter: meter.clone() });
        let mut stretches = self.lock();
        let before = stretches.iter().filter(|s| s.covers(off, len)).filter_map(|s| s.gone_at()).max();
        let (mut gone, mut left): (Vec<_>, Vec<_>) =
            stretches.drain(..).partition(|s| new.covers(s.off, s.len));
        if left.len() >= STRETCHES_MAX {
            let (husks, here) = left.into_iter().partition(|s| s.gone_at().is_some());
            left = here;
            gone.extend::<Vec<_>>(husks);
        }
        if left.len() >= STRETCHES_MAX {
            gone.push(left.remove(0));
        }
        left.push(new.clone());
        *stretches = left;
        drop(stretches);
        // Their memory goes back outside the lock.
        drop(gone);
        (new, before.map(|at| meter.evicted().wrapping_sub(at)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::{BufPool, UNIT};

    /// The bytes of an extent from `off` on, told apart by where they are.
    fn bytes(off: usize, len: usize) -> Vec<u8> {
        (off..off + len).map(|i| (i % 251) as u8).collect()
    }

    fn put(
        held: &ExtentCache,
        meter: &Arc<Meter>,
        off: usize,
        len: usize,
    ) -> (Arc<CachedRange>, Option<usize>) {
        let buf = BufPool::new(0).filled(&[&bytes(off, len)]);
        held.put(off, len, Arc::new(buf), meter)
    }

    #[test]
    fn what_is_put_is_found_until_it_is_evicted_or_the_block_goes() {
        let (held, meter) = (ExtentCache::default(), Arc::new(Meter::default()));
        assert!(held.get(0, 1, true).is_none());
        let (first, before) = put(&held, &meter, UNIT, 2 * UNIT);
        assert_eq!(before, None);
        assert_eq!(*held.get(UNIT + 5, 100, false).expect("within"), bytes(UNIT + 5, 100));
        assert!(!first.take_hot(), "not a use");
        assert_eq!(*held.get(UNIT, 2 * UNIT, true).expect("all"), bytes(UNIT, 2 * UNIT));
        assert!(first.take_hot());
        for (off, len) in [(UNIT - 1, 2), (3 * UNIT - 1, 2), (0, 4 * UNIT), (3 * UNIT, 1)] {
            assert!(held.get(off, len, true).is_none(), "{off} {len}");
        }
        let lent = held.get(UNIT, 10, true).expect("there");
        assert_eq!(meter.resident(), first.size());
        first.evict();
        first.evict();
        assert_eq!(meter.resident(), 0, "taken out once");
        assert!(held.get(UNIT, 10, true).is_none());
        assert_eq!(*lent, bytes(UNIT, 10), "whoever has it keeps it");
        let (second, before) = put(&held, &meter, UNIT, 2 * UNIT);
        assert_eq!(before, Some(0), "it was here before");
        assert_eq!(meter.resident(), second.size());
        drop((held, first, second));
        assert_eq!(meter.resident(), 0);
    }

    #[test]
    fn stretches_that_are_covered_go_and_there_are_never_many() {
        let (held, meter) = (ExtentCache::default(), Arc::new(Meter::default()));
        for i in 0..1000 {
            let (one, _) = put(&held, &meter, i % 77 * UNIT, (1 + i % 5) * UNIT);
            if i % 3 == 0 {
                one.evict();
            }
            assert!(held.lock().len() <= STRETCHES_MAX);
            let here: usize = held.lock().iter().filter(|s| s.gone_at().is_none()).map(|s| s.size()).sum();
            assert_eq!(meter.resident(), here);
        }
        put(&held, &meter, 0, 100 * UNIT);
        assert_eq!(held.lock().len(), 1);
        assert_eq!(*held.get(7, 50 * UNIT, true).expect("all"), bytes(7, 50 * UNIT));
    }
}
