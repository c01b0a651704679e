//! Whether prefetching forward streams of a device brings anything beside the kernel's own read-ahead.
//!
//! A stream that is prefetched tells whether it gained. Three without gain, and none with one in between, decide for the
//! device: a single one may merely have lost its share to the others. After a while they are tried again.

use crate::experiment::{Experiment, Terms, Verdict};
use crate::tuning::T;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Streams without gain that decide for a device: of three one may be an accident.
const VOTES: u64 = 3;

/// The rate of a stream's reads without prefetching, to compare the rate with it. Zeroes are nothing measured.
#[derive(Debug, Clone, Copy, Default)]
pub struct Base {
    /// When the stream began, ns.
    begun_ns: u64,
    /// Its rate before it was prefetched, bytes/s; 0 once the comparison is done.
    rate: u64,
    /// Bytes of the run when the measurement began, or when it was first prefetched.
    bytes: u64,
    /// The time of that, ns.
    ns: u64,
}

impl Base {
    /// Of a stream that began at a time.
    pub fn begin(begun_ns: u64) -> Base {
        Base { begun_ns, ..Base::default() }
    }

    /// The rate before prefetching began, bytes/s; 0 once the comparison is done.
    pub fn rate(&self) -> u64 {
        self.rate
    }

    /// Prefetching begins after so many bytes of the run.
    pub fn settle(&mut self, run_bytes: u64, now_ns: u64) {
        self.rate = self.alone(run_bytes, now_ns);
        (self.bytes, self.ns) = (run_bytes, now_ns);
    }

    /// Its rate without prefetching, bytes/s.
    pub fn alone(&self, run_bytes: u64, now_ns: u64) -> u64 {
        let since_ns = if self.ns == 0 { self.begun_ns } else { self.ns };
        let alone_ns = now_ns.saturating_sub(since_ns).max(1);
        let alone_bytes = run_bytes - self.bytes;
        u64::try_from(u128::from(alone_bytes) * 1_000_000_000 / u128::from(alone_ns)).unwrap_or(u64::MAX)
    }

    /// Whether the rate of a forward stream is known that is not prefetched: over `window` bytes and `least_ns`, after
    /// as many bytes in which the kernel's read-ahead grew.
    pub fn is_known(&mut self, run_bytes: u64, window: u64, least_ns: u64, now_ns: u64) -> bool {
        if self.ns == 0 && run_bytes >= window {
            self.bytes = run_bytes;
            self.ns = now_ns;
        }
        let long = now_ns.saturating_sub(self.ns) >= least_ns;
        self.ns != 0 && long && run_bytes - self.bytes >= window
    }

    /// Whether prefetching has brought nothing: the rate since it began, past a ramp, against the rate before.
    /// `None` while it is too early to tell, and after it was told.
    pub fn is_barren(&mut self, run_bytes: u64, now_ns: u64) -> Option<bool> {
        let trial = self.bytes.saturating_mul(4).clamp(2 << 20, 16 << 20);
        let bytes = run_bytes - self.bytes;
        if self.rate == 0 || bytes < trial {
            return None;
        }
        let elapsed = now_ns.saturating_sub(self.ns).max(1);
        let rate = (u128::from(bytes) * 1_000_000_000 / u128::from(elapsed)) as u64;
        let base = core::mem::take(&mut self.rate);
        Some(rate < base + base / 32)
    }
}

shared! {
    /// What forward streams told. All methods may race: a lost update costs a vote.
    pub struct Forward {
        /// Some streams without gain end it for a while, in reads that are left to the kernel.
        streams: Experiment = Experiment::new(Terms {
            losses: VOTES,
            // The latency may have been learned wrong: a single stream that is left alone for that is a pity.
            least: T.rest_reads as u64 / 8,
            most: T.rest_reads as u64,
        }),
        /// Reads that were left to the kernel since.
        left: AtomicU64,
        /// Whether prefetching one brought something.
        gains: AtomicBool,
        /// When the latest one began, ns; 0 before the first.
        tried_ns: AtomicU64,
    }
}

impl Forward {
    /// None was tried yet.

    /// Learns whether prefetching a stream brought anything.
    ///
    /// Rule: Forward.
    pub fn learn(&self, barren: bool) {
        if !barren {
            self.gains.store(true, Relaxed);
        }
        self.streams.learn(if barren { Verdict::Loss } else { Verdict::Gain }, self.left.load(Relaxed));
    }

    /// A stream begins to be prefetched.
    pub fn begin(&self, now_ns: u64) {
        self.tried_ns.store(now_ns, Relaxed);
    }

    /// Whether another stream shows at present whether prefetching brings anything, on a device of so much latency. It has
    /// time for that, but not for ever: it may end before.
    pub fn is_tried(&self, now_ns: u64, latency_ns: u64) -> bool {
        let time_ns = (25 * T.rate_ns).max(latency_ns.saturating_mul(20));
        let tried_ns = self.tried_ns.load(Relaxed);
        tried_ns != 0 && now_ns < tried_ns.saturating_add(time_ns) && !self.gains.load(Relaxed)
    }

    /// Whether streams are barren at present.
    pub fn is_barren(&self) -> bool {
        self.streams.rests(self.left.load(Relaxed))
    }

    /// A read of a stream was left to the kernel for that: after a while they are tried again.
    pub fn rest(&self) {
        self.left.fetch_add(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_barren_streams_decide_and_are_tried_again_later() {
        let forward = Forward::new();
        forward.learn(true);
        forward.learn(true);
        assert!(!forward.is_barren());
        forward.learn(false);
        (0..3).for_each(|_| forward.learn(true));
        assert!(forward.is_barren());
        for rest in [512, 1024, 2048, 4096, 4096] {
            let left = |_: &u32| {
                let barren = forward.is_barren();
                forward.rest();
                barren
            };
            let reads = (0..10_000).take_while(left).count();
            assert_eq!(reads, rest);
            assert!(!forward.is_barren());
            (0..3).for_each(|_| forward.learn(true));
        }
    }

    #[test]
    fn one_stream_is_tried_before_the_others() {
        let forward = Forward::new();
        assert!(!forward.is_tried(1, 0));
        forward.begin(1_000_000);
        assert!(forward.is_tried(2_000_000, 0) && forward.is_tried(50_000_000, 0));
        // It ended, or nobody knows.
        assert!(!forward.is_tried(60_000_000, 0));
        assert!(forward.is_tried(60_000_000, 20_000_000), "a far device takes longer to tell");
        forward.begin(60_000_000);
        forward.learn(false);
        assert!(!forward.is_tried(60_000_001, 0));
    }
}
