//! All that a small file holds, in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Bytes that all of them may have together, and have.
#[derive(Debug)]
pub(crate) struct Budget {
    most: usize,
    kept: AtomicUsize,
}

impl Budget {
    pub fn new(most: usize) -> Budget {
        Budget { most, kept: AtomicUsize::new(0) }
    }

    pub fn most(&self) -> usize {
        self.most
    }

    /// Bytes that are kept.
    pub fn kept(&self) -> usize {
        self.kept.load(Ordering::Relaxed)
    }

    pub fn has_room(&self, bytes: usize) -> bool {
        self.kept() + bytes <= self.most
    }

    fn take(&self, bytes: usize) -> bool {
        let fits = |kept: usize| (kept + bytes <= self.most).then_some(kept + bytes);
        self.kept.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok()
    }

    fn give_back(&self, bytes: usize) {
        self.kept.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// The bytes of a file from its beginning to its end. What its memory takes is counted until it goes.
#[derive(Debug)]
pub(crate) struct Content {
    bytes: Vec<u8>,
    /// Bytes that are counted in `budget`.
    counted: usize,
    /// Somebody read it since its turn came.
    used: AtomicBool,
    budget: Arc<Budget>,
}

impl Content {
    /// That of an empty file.
    pub fn empty(budget: &Arc<Budget>) -> Content {
        Content { bytes: Vec::new(), counted: 0, used: AtomicBool::new(false), budget: budget.clone() }
    }

    /// Bytes of memory that a write which ends at `end` takes besides. One that grows again and again is not copied each time.
    pub fn lacks(&self, end: usize) -> usize {
        let there = self.bytes.capacity();
        if end <= there { 0 } else { end.max(there + there / 2) - there }
    }

    /// Lays `data` over what lies at `off`; what is missing before it is a hole. False, and nothing else, without room for
    /// it in the budget.
    pub fn write(&mut self, off: usize, data: &[u8]) -> bool {
        let end = off + data.len();
        let lacks = self.lacks(end);
        if lacks > 0 {
            if !self.budget.take(lacks) {
                return false;
            }
            self.bytes.reserve_exact(self.bytes.capacity() + lacks - self.bytes.len());
            self.counted += lacks;
        }
        if off > self.bytes.len() {
            self.bytes.resize(off, 0);
        }
        let over = data.len().min(self.bytes.len() - off);
        self.bytes[off..off + over].copy_from_slice(&data[..over]);
        self.bytes.extend_from_slice(&data[over..]);
        true
    }

    /// Whether somebody read it since this was asked last.
    pub fn was_used(&self) -> bool {
        self.used.swap(false, Ordering::Relaxed)
    }

    /// Copies what lies at `off`, all of which there is, into `out`.
    pub fn read(&self, off: u64, out: &mut [u8]) {
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
        let off = off as usize;
        out.copy_from_slice(&self.bytes[off..off + out.len()]);
    }

    /// Bytes of the file.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }
}

impl Drop for Content {
    fn drop(&mut self) {
        self.budget.give_back(self.counted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_content_is_what_was_written_and_counts_what_it_takes() {
        const SEEDS: u64 = 20;
        for seed in 0..SEEDS {
            let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
            let mut below = |n: usize| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                random as usize % n
            };
            let budget = Arc::new(Budget::new(3000));
            let (mut content, mut model) = (Content::empty(&budget), Vec::new());
            for step in 0..200 {
                let (off, len) = match below(3) {
                    0 => (model.len(), below(100)),
                    1 => (below(model.len() + 1), below(300)),
                    _ => (below(3500), below(20)),
                };
                let data = vec![step as u8 + 1; len];
                let (kept, lacks) = (budget.kept(), content.lacks(off + len));
                let room = kept + lacks <= 3000;
                assert_eq!(content.write(off, &data), room, "seed {seed} step {step}");
                if room {
                    model.resize(model.len().max(off), 0);
                    model.resize(model.len().max(off + len), 0);
                    model[off..off + len].copy_from_slice(&data);
                }
                assert_eq!(content.len(), model.len(), "seed {seed} step {step}");
                let mut out = vec![0; model.len()];
                content.read(0, &mut out);
                assert_eq!(out, model, "seed {seed} step {step}");
                assert!(budget.kept() >= content.bytes.capacity(), "seed {seed} step {step}");
                assert!(budget.kept() <= 3000, "seed {seed} step {step}");
            }
            drop(content);
            assert_eq!(budget.kept(), 0);
        }
    }
}
