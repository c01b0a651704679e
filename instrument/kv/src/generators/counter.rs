//! The numbers of inserted records, and up to where all of them are there.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Hands out numbers, and knows up to which one all have been acknowledged: whoever reads no higher number never asks
/// for a record that is not there. A number whose insert failed is never acknowledged (YCSB acknowledges it).
#[derive(Debug)]
pub struct Counter {
    next: AtomicU64,
    /// All numbers below it are there.
    limit: AtomicU64,
    ahead: Mutex<BTreeSet<u64>>,
}

impl Counter {
    /// The first number to hand out; all below it are there.
    pub fn new(first: u64) -> Counter {
        Counter { next: first.into(), limit: first.into(), ahead: Mutex::default() }
    }

    /// The next number.
    pub fn take(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// The record of this number is there.
    pub fn acknowledge(&self, number: u64) {
        let mut ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        ahead.insert(number);
        let mut limit = self.limit.load(Ordering::Relaxed);
        while ahead.remove(&limit) {
            limit += 1;
        }
        self.limit.store(limit, Ordering::Release);
    }

    /// The first number that may not be there: all below it are.
    #[inline]
    pub fn limit(&self) -> u64 {
        self.limit.load(Ordering::Acquire)
    }

    /// How many numbers were handed out, whatever became of them.
    pub fn next(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_acknowledged_without_a_hole_counts() {
        let counter = Counter::new(10);
        let taken: Vec<u64> = (0..4).map(|_| counter.take()).collect();
        assert_eq!((taken, counter.limit()), (vec![10, 11, 12, 13], 10));
        counter.acknowledge(12);
        counter.acknowledge(11);
        assert_eq!(counter.limit(), 10, "record 10 is not there yet");
        counter.acknowledge(10);
        assert_eq!((counter.limit(), counter.next()), (13, 14));
    }

    #[test]
    fn many_threads_leave_no_hole() {
        let counter = Counter::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|_| counter.acknowledge(counter.take())));
            }
        });
        assert_eq!(counter.limit(), 4000);
    }
}
