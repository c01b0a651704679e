//! What a device is busy with for the program: the rate of reads of streams that miss, in short windows.

use crate::model::{Demand, rate};
use crate::tuning::T;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

shared! {
    /// The rate of the latest window. All methods may race: a lost update costs a sample.
    pub struct Traffic {
        bytes: AtomicU64,
        start_ns: AtomicU64,
        rate: AtomicU64,
        grows: AtomicBool,
        peak: AtomicU64,
    }
}

impl Traffic {
    /// Notes a read, on a device of so much latency.
    pub fn note(&self, now_ns: u64, bytes: u64, latency_ns: u64) {
        let total = self.bytes.fetch_add(bytes, Relaxed) + bytes;
        let start = self.start_ns.load(Relaxed);
        let elapsed = now_ns.saturating_sub(start);
        if start != 0 && elapsed < T::RATE_NS.max(latency_ns.saturating_mul(2)) {
            return;
        }
        let rate = if start == 0 { 0 } else { rate(total, elapsed) };
        let peak = self.peak.load(Relaxed);
        let faded = peak - peak.saturating_sub(rate) / T::SAMPLE;
        self.peak.store(faded.max(rate), Relaxed);
        let before = self.rate.swap(rate, Relaxed);
        self.grows.store(before > 0 && rate / 3 >= before / 2, Relaxed);
        self.bytes.store(0, Relaxed);
        self.start_ns.store(now_ns, Relaxed);
    }

    /// What it is.
    pub fn demand(&self) -> Demand {
        Demand {
            rate: self.rate.load(Relaxed),
            // A window in which threads computed does not make a device idle.
            peak: self.peak.load(Relaxed),
            grows: self.grows.load(Relaxed),
            is_noted: self.start_ns.load(Relaxed) != 0,
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
