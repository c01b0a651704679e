//! What was asked of a device and is not served yet, as far as its bandwidth tells: whose turn it is.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::model::{Model, ns_of};
use crate::tuning::T;

shared! {
    /// The queue before a device. All methods may race: a lost update costs a turn.
    pub struct Queue {
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
    pub fn free_ns(&self) -> u64 {
        self.free_ns.load(Relaxed)
    }

    /// We ask for so many bytes of a device of which so much is believed.
    pub fn ask(&self, now_ns: u64, bytes: u64, model: &Model) {
        if self.free_ns() <= now_ns {
            self.burst_ns.store(now_ns, Relaxed);
            self.burst.store(0, Relaxed);
        }
        self.burst.fetch_add(bytes, Relaxed);
        self.asked_ns.store(now_ns, Relaxed);
        // A little less than it can deliver, else what is queued once stays queued.
        self.serve(now_ns, bytes + bytes / 31, model);
    }

    /// It has to deliver so many bytes more, to whomever. Nobody waits for longer than streams count as read: what is
    /// believed may be wrong, and without a request from time to time nothing would tell.
    pub fn serve(&self, now_ns: u64, bytes: u64, model: &Model) {
        let free_ns = self.free_ns().max(now_ns).saturating_add(ns_of(bytes, model.bandwidth));
        let most_ns = now_ns.saturating_add(model.latency_ns.max(T::LIVE_NS));
        self.free_ns.store(free_ns.min(most_ns), Relaxed);
    }

    /// When the requests before a read that began at a time were made, ns, and their bytes. `None` where some came after.
    pub fn before(&self, begin_ns: u64) -> Option<(u64, u64)> {
        let known = (self.burst_ns.load(Relaxed), self.burst.load(Relaxed));
        (known.1 > 0 && self.asked_ns.load(Relaxed) <= begin_ns).then_some(known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_while_it_is_busy_is_one_burst() {
        let device = crate::Device::new();
        (0..3).for_each(|_| device.learn_miss(100_000, 4096));
        let model = Model { bandwidth: 1_000_000_000, ..device.model() };
        let queue = Queue::new();
        assert_eq!(queue.before(u64::MAX), None);
        queue.ask(1_000, 310, &model);
        queue.ask(1_100, 310, &model);
        assert_eq!((queue.free_ns(), queue.before(1_100)), (1_640, Some((1_000, 620))));
        assert_eq!(queue.before(1_099), None, "one came after that read");
        queue.serve(1_100, 100, &model);
        queue.ask(1_741, 7, &model);
        assert_eq!((queue.free_ns(), queue.before(3_000)), (1_748, Some((1_741, 7))));
        queue.ask(3_000, 1 << 40, &model);
        assert_eq!(queue.free_ns(), 3_000 + T::LIVE_NS, "believed or not");
    }
}
