//! How much all streams of a device may have on its way: a window steered by the queueing delay they cause.
//!
//! A prefetch is timed from its request to the read that waits for it. While that is about the device's latency,
//! the window grows: by half of itself in a latency at first, then slowly. When it is longer, the device's queue
//! holds more than it can serve, a read of somebody else would wait as long, and the window shrinks by the excess.
//! (The rule of TCP Vegas: Brakmo and Peterson, "TCP Vegas: End to end congestion avoidance", 1995, section 3.)

use crate::model::scale;
use crate::tuning::T;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

shared! {
    /// The window. All methods may race: a lost update costs a sample.
    pub struct Window {
        bytes: AtomicU64,
        /// The wait before this one, ns: a single long one may be a busy CPU's.
        before_ns: AtomicU64,
        /// Queueing was seen: from now on it grows slowly.
        settled: AtomicBool,
    }
}

impl Window {
    /// Its size, bytes, on a device of so much latency.
    pub fn bytes(&self, latency_ns: u64) -> u64 {
        match self.bytes.load(Relaxed) {
            0 => self.first(latency_ns),
            known => known,
        }
    }

    /// Its size before anything was timed, bytes.
    pub fn first(&self, latency_ns: u64) -> u64 {
        (latency_ns / 4).clamp(2 * T::RAMP_BYTES, 2 * T::DEPTH_BYTES)
    }

    /// Whether queueing was seen.
    pub fn is_settled(&self) -> bool {
        self.settled.load(Relaxed)
    }

    /// The longest that a prefetch may take before it counts as queued, ns: a third more than `idle_ns`, what it takes on an
    /// idle device. Since streams take turns, a read waits for its own request only, which was made long before.
    pub fn patience_ns(&self, idle_ns: u64) -> u64 {
        idle_ns.saturating_add(idle_ns / 3).saturating_add(2 * T::WAKE_NS)
    }

    /// A read waited for what had been asked for `waited_ns` before it arrived; one of `streams` that say so in each
    /// latency, while they were `ahead` bytes ahead; with `ample` bytes on the way it is large enough. Waits over `patience_ns` are queueing. Whether the device was
    /// found saturated.
    ///
    /// Rule: The queue.
    pub fn learn(
        &self,
        waited_ns: u64,
        (latency_ns, patience_ns): (u64, u64),
        streams: u64,
        (ahead, ample): (u64, u64),
    ) -> bool {
        let streams = streams.max(1);
        let now = self.bytes(latency_ns);
        let waited_ns = match self.before_ns.swap(waited_ns, Relaxed) {
            0 => waited_ns,
            before => waited_ns.min(before),
        };
        let queued = waited_ns > patience_ns;
        let next = if queued {
            self.settled.store(true, Relaxed);
            let excess = scale(now, waited_ns - patience_ns, waited_ns);
            now - excess.min(now / 2) / (streams / 2).max(1)
        } else if ahead < now / 2 || now > ample {
            // Something else than the window is the limit.
            now
        } else if self.settled.load(Relaxed) {
            now + now / 16 / streams
        } else {
            now + now / 2 / streams
        };
        self.bytes.store(next.clamp(T::REQUEST_BYTES, 2 * T::DEPTH_BYTES), Relaxed);
        queued
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A device of 1 ms and 1 GB/s in which one stream always has the whole window.
    fn served(window: &Window, rounds: usize) -> u64 {
        for _ in 0..rounds {
            let waited = MS + window.bytes(MS).saturating_sub(1 << 20);
            let patience = window.patience_ns(MS);
            window.learn(waited, (MS, patience), 1, (window.bytes(MS), u64::MAX));
        }
        window.bytes(MS)
    }

    #[test]
    fn it_grows_to_latency_times_bandwidth_and_half_of_it_beyond() {
        let window = Window::new();
        assert_eq!(window.bytes(MS), 256 << 10);
        for rounds in [10, 100, 1000] {
            let bytes = served(&window, rounds);
            assert!((900 << 10..1700 << 10).contains(&bytes), "{bytes} after {rounds}");
        }
    }

    #[test]
    fn a_far_device_begins_with_more() {
        assert_eq!(Window::new().bytes(20 * MS), 5_000_000);
    }

    #[test]
    fn a_single_long_wait_is_no_queue() {
        let window = Window::new();
        served(&window, 20);
        let before = window.bytes(MS);
        assert!(!window.learn(80 * MS, (MS, 2 * MS), 1, (1 << 20, u64::MAX)));
        assert!(window.bytes(MS) >= before);
        assert!(window.learn(80 * MS, (MS, 2 * MS), 1, (1 << 20, u64::MAX)));
        assert!(window.bytes(MS) <= before * 3 / 4);
    }

    #[test]
    fn it_never_leaves_its_range() {
        let window = Window::new();
        (0..200).for_each(|_| _ = window.learn(u64::MAX, (1, 2), 1, (1 << 20, u64::MAX)));
        assert_eq!(window.bytes(MS), 64 << 10);
        (0..2000).for_each(|_| _ = window.learn(1, (MS, 2 * MS), 3, (1 << 30, u64::MAX)));
        assert_eq!(window.bytes(MS), 64 << 20);
        assert!(window.patience_ns(u64::MAX) == u64::MAX);
    }
}
