//! What was asked of a device and is not served yet, as far as its bandwidth tells: whose turn it is.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::model::ns_of;

shared! {
    /// The queue before a device. All methods may race: a lost update costs a turn.
    pub(super) struct Queue {
        /// When all that was asked for is served, ns.
        free_ns: AtomicU64,
        /// When the requests began that were made while it was busy with the ones before, the first among them, ns.
        burst_ns: AtomicU64,
        /// Their bytes.
        burst: AtomicU64,
        /// When the latest was made, ns.
        asked_ns: AtomicU64,
    }
}

impl Queue {
    pub(super) fn free_ns(&self) -> u64 {
        self.free_ns.load(Relaxed)
    }

    /// We ask for so many bytes of a device that delivers so many a second.
    pub(super) fn ask(&self, now_ns: u64, bytes: u64, rate: u64) {
        if self.free_ns() <= now_ns {
            self.burst_ns.store(now_ns, Relaxed);
            self.burst.store(0, Relaxed);
        }
        self.burst.fetch_add(bytes, Relaxed);
        self.asked_ns.store(now_ns, Relaxed);
        self.serve(now_ns, bytes, rate);
    }

    /// It has to deliver so many bytes more, to whomever.
    pub(super) fn serve(&self, now_ns: u64, bytes: u64, rate: u64) {
        let free_ns = self.free_ns().max(now_ns).saturating_add(ns_of(bytes, rate));
        self.free_ns.store(free_ns, Relaxed);
    }

    /// When the requests before a read that began at a time were made, ns, and their bytes. `None` where some came after.
    pub(super) fn before(&self, begin_ns: u64) -> Option<(u64, u64)> {
        let known = (self.burst_ns.load(Relaxed), self.burst.load(Relaxed));
        (known.1 > 0 && self.asked_ns.load(Relaxed) <= begin_ns).then_some(known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_while_it_is_busy_is_one_burst() {
        let queue = Queue::new();
        assert_eq!(queue.before(u64::MAX), None);
        queue.ask(1_000, 500, 1_000_000_000);
        queue.ask(1_100, 500, 1_000_000_000);
        assert_eq!((queue.free_ns(), queue.before(1_100)), (2_000, Some((1_000, 1_000))));
        assert_eq!(queue.before(1_099), None, "one came after that read");
        queue.serve(1_100, 100, 1_000_000_000);
        queue.ask(2_101, 7, 1_000_000_000);
        assert_eq!((queue.free_ns(), queue.before(3_000)), (2_108, Some((2_101, 7))));
    }
}
