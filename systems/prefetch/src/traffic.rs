//! What a device is busy with for the program, and what it delivers: rates of reads, in windows of time.

use crate::model::{Demand, rate};
use crate::tuning::T;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

shared! {
    /// Counts bytes, window by window. All methods may race: a lost update costs a sample.
    struct Meter {
        bytes: AtomicU64,
        start_ns: AtomicU64,
    }
}

impl Meter {
    /// Bytes came. The rate of the window, bytes/s, once it has lasted `length_ns`; none of one that lasted over `most_ns`.
    fn note(&self, now_ns: u64, bytes: u64, length_ns: u64, most_ns: u64) -> Option<u64> {
        let total = self.bytes.fetch_add(bytes, Relaxed) + bytes;
        let start = self.start_ns.load(Relaxed);
        let elapsed = now_ns.saturating_sub(start);
        if start != 0 && elapsed < length_ns {
            return None;
        }
        self.bytes.store(0, Relaxed);
        self.start_ns.store(now_ns, Relaxed);
        (start != 0 && elapsed <= most_ns).then(|| rate(total, elapsed))
    }
}

shared! {
    /// What the program has a device deliver by itself: the reads of streams that miss.
    pub struct Traffic {
        meter: Meter,
        rate: AtomicU64,
        grows: AtomicBool,
        peak: AtomicU64,
    }
}

impl Traffic {
    /// Notes a read, on a device of so much latency.
    pub fn note(&self, now_ns: u64, bytes: u64, latency_ns: u64) {
        let length_ns = T::RATE_NS.max(latency_ns.saturating_mul(2));
        let Some(rate) = self.meter.note(now_ns, bytes, length_ns, u64::MAX) else { return };
        let peak = self.peak.load(Relaxed);
        self.peak.store((peak - peak.saturating_sub(rate) / T::SAMPLE).max(rate), Relaxed);
        let before = self.rate.swap(rate, Relaxed);
        self.grows.store(before > 0 && rate / 3 >= before / 2, Relaxed);
    }

    /// What it is.
    pub fn demand(&self) -> Demand {
        Demand {
            rate: self.rate.load(Relaxed),
            // A window in which threads computed does not make a device idle.
            peak: self.peak.load(Relaxed),
            grows: self.grows.load(Relaxed),
            is_noted: self.meter.start_ns.load(Relaxed) != 0,
        }
    }
}

shared! {
    /// Rates of a device. The highest is a lower bound until the device was seen to be full.
    pub struct Delivery {
        meter: Meter,
        /// The highest rate seen, slowly forgotten, bytes/s.
        highest: AtomicU64,
        /// The rate that more depth did not raise, bytes/s; 0 when never reached.
        saturated: AtomicU64,
    }
}

impl Delivery {
    /// Bytes came from a device of so much latency: the fastest window of 20 ms counts.
    pub fn note(&self, now_ns: u64, bytes: u64, latency_ns: u64) {
        let length_ns = T::LIVE_NS.max(latency_ns.saturating_mul(2)).min(10 * T::LIVE_NS);
        let Some(rate) = self.meter.note(now_ns, bytes, length_ns, 20 * length_ns) else { return };
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

    /// The highest rate seen, bytes/s; 0 when unknown. A lower bound.
    pub fn highest(&self) -> u64 {
        self.highest.load(Relaxed)
    }

    /// The rate that more depth did not raise, bytes/s; 0 when never reached.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_tells_the_rate_when_it_is_over() {
        let traffic = Traffic::new();
        assert!(!traffic.demand().is_noted);
        // One read of 100 KiB in each 100 us: 1 GB/s.
        (1..=20u64).for_each(|read| traffic.note(read * 100_000, 102_400, 0));
        assert!(traffic.demand().is_noted && traffic.demand().rate == 0, "the window is not over");
        traffic.note(2_100_000, 102_400, 0);
        assert!((1_000_000_000..1_100_000_000).contains(&traffic.demand().rate), "{}", traffic.demand().rate);
        // Twice of it: it grows; then no more. A far device has a longer window.
        (1..=20u64).for_each(|read| traffic.note(2_100_000 + read * 100_000, 204_800, 0));
        assert!(traffic.demand().grows && traffic.demand().rate > 2_000_000_000);
        (1..=20u64).for_each(|read| traffic.note(4_100_000 + read * 100_000, 204_800, 0));
        assert!(!traffic.demand().grows);
        traffic.note(6_100_000 + 2_000_000, 1, 20_000_000);
        assert!(traffic.demand().rate > 2_000_000_000, "not over");
    }
}
