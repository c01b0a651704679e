//! The latency of a device, from what was seen to wait for it.
//!
//! A read that asked for its pages itself shows the latency and what the program's own queue adds. A wait that may have
//! been for the rest only of what had been asked for before shows at most that, and counts until there are misses. What
//! one wait says may be an interruption's doing (longer, or a hit that looks like a wait), so that nothing is taken from
//! one wait once there are three of a kind.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::waits::Recent;

/// No device answers sooner, ns.
const LEAST_NS: u64 = 1_000;

shared! {
    /// The latency of one device.
    pub struct Latency {
        /// What all evidence together says, ns.
        ns: AtomicU64,
        /// Full misses, less their transfer.
        misses: Recent<16>,
        /// The same with their transfer.
        elapsed: Recent<16>,
        partial: Recent<8>,
        typical_ns: AtomicU64,
    }
}

impl Latency {
    /// Latency of a small read on an idle device, ns; 0 when unknown.
    pub fn ns(&self) -> u64 {
        self.ns.load(Relaxed)
    }

    /// How long a miss took lately while nothing was prefetched, the program's own queue and the transfer included, ns; the
    /// latency before that was seen.
    pub fn typical_ns(&self) -> u64 {
        match self.typical_ns.load(Relaxed) {
            0 => self.ns(),
            typical => typical,
        }
    }

    /// A read that asked for its pages itself, on a device that no prefetch kept busy, took so long, of which its own bytes
    /// took `transfer_ns`.
    ///
    /// Rule: Latency.
    pub fn note_miss(&self, elapsed_ns: u64, transfer_ns: u64) {
        self.misses.note(elapsed_ns.saturating_sub(transfer_ns).max(LEAST_NS));
        self.elapsed.note(elapsed_ns);
        self.typical_ns.store(self.elapsed.middle(), Relaxed);
        self.ns.store(self.misses.rank(1, 3), Relaxed);
    }

    /// A read that may have waited for the rest only of what had been asked for before took so long, less its transfer.
    /// Few of them may have waited from the beginning, but those took the time.
    pub fn note_partial(&self, wait_ns: u64) {
        if self.misses.len() >= 3 {
            return;
        }
        self.partial.note(wait_ns.max(LEAST_NS));
        if let Some(guess) = self.partial.full_weighty() {
            self.partial.clear();
            let known = self.ns();
            let next = if guess > known { guess } else { known - (known - guess) / 4 };
            self.ns.store(next, Relaxed);
            self.typical_ns.store(next, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn near(ns: u64, expected: u64) -> bool {
        ns >= expected - expected / 10 && ns <= expected + expected / 10
    }

    #[test]
    fn one_wait_of_three_and_more_decides_nothing() {
        for odd in [12_000, 30_000, 80 * MS, u64::MAX / 2] {
            for at in 0..40 {
                let latency = Latency::new();
                for wait in 0..40 {
                    latency.note_miss(if wait == at { odd } else { MS + wait }, 0);
                    if wait >= 2 {
                        assert!(near(latency.ns(), MS), "{odd} at {at}: {} after {wait}", latency.ns());
                        assert!(near(latency.typical_ns(), MS) || wait < 4, "{}", latency.typical_ns());
                    }
                }
            }
        }
    }

    #[test]
    fn what_may_be_a_rest_counts_until_there_are_misses() {
        let latency = Latency::new();
        (0..7).for_each(|_| latency.note_partial(MS));
        assert_eq!(latency.ns(), 0);
        latency.note_partial(MS);
        assert_eq!((latency.ns(), latency.typical_ns()), (MS, MS));
        (0..3).for_each(|_| latency.note_miss(2 * MS, 0));
        assert_eq!(latency.ns(), 2 * MS);
        (0..80).for_each(|_| latency.note_partial(MS));
        assert_eq!((latency.ns(), latency.typical_ns()), (2 * MS, 2 * MS));
    }

    /// A database opens its files with many threads: reads queue, and some are hits beside a busy processor.
    #[test]
    fn an_opening_phase_is_forgotten() {
        for wait in [6 * MS, 40_000] {
            let latency = Latency::new();
            (0..300).for_each(|_| latency.note_miss(wait, 0));
            (0..16).for_each(|_| latency.note_miss(MS, 0));
            assert_eq!(latency.ns(), MS, "{wait}");
        }
        let latency = Latency::new();
        (0..300).for_each(|_| latency.note_partial(9 * MS));
        (0..400).for_each(|at| latency.note_partial(if at % 3 == 0 { MS } else { MS - MS / 20 }));
        assert!(near(latency.ns(), MS), "{}", latency.ns());
    }
}
