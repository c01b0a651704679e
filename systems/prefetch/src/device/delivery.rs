//! What a device delivers: the rates that were seen, and the one that more depth did not raise.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::model::rate;
use crate::tuning::T;

shared! {
    /// Rates of a device. The highest is a lower bound until the device was seen to be full.
    pub struct Delivery {
        /// The highest rate seen, slowly forgotten, bytes/s.
        highest: AtomicU64,
        /// The rate that more depth did not raise, bytes/s; 0 when never reached.
        saturated: AtomicU64,
        window_bytes: AtomicU64,
        window_start_ns: AtomicU64,
    }
}

impl Delivery {
    /// Bytes came from a device of so much latency: the fastest window of 20 ms counts.
    pub fn note(&self, now_ns: u64, bytes: u64, latency_ns: u64) {
        let total = self.window_bytes.fetch_add(bytes, Relaxed) + bytes;
        let start = self.window_start_ns.load(Relaxed);
        let elapsed = now_ns.saturating_sub(start);
        let length = T::LIVE_NS.max(latency_ns.saturating_mul(2)).min(10 * T::LIVE_NS);
        if start == 0 || elapsed > 20 * length {
            self.restart_window(now_ns);
        } else if elapsed >= length {
            self.learn(rate(total, elapsed));
            self.restart_window(now_ns);
        }
    }

    fn restart_window(&self, now_ns: u64) {
        self.window_bytes.store(0, Relaxed);
        self.window_start_ns.store(now_ns, Relaxed);
    }

    /// It surely delivered at a rate, bytes/s.
    fn learn(&self, rate: u64) {
        let known = self.highest.load(Relaxed);
        self.highest.store(rate.max(known - known / 50), Relaxed);
    }

    /// Deeper queues did not raise a rate, bytes/s.
    pub fn learn_full(&self, rate: u64) {
        let known = self.saturated.load(Relaxed);
        let next = if known == 0 { rate } else { known - known / 4 + rate / 4 };
        self.saturated.store(next, Relaxed);
        self.highest.store(rate.max(1), Relaxed);
    }

    pub fn highest(&self) -> u64 {
        self.highest.load(Relaxed)
    }

    pub fn saturated(&self) -> u64 {
        self.saturated.load(Relaxed)
    }

    /// The highest rate, or what is assumed of a device until it was seen to be full, bytes/s.
    pub fn full(&self) -> u64 {
        match self.saturated() {
            0 => T::BANDWIDTH.max(self.highest()),
            rate => rate.max(self.highest()).max(1),
        }
    }
}
