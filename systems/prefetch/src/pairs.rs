//! What a device delivers at most, from the program's own misses: packet pairs.
//!
//! Two misses that wait in one queue are served one after the other, so that the second one comes as much later as its
//! bytes take on the device (Keshav, "A control-theoretic approach to flow control", SIGCOMM 1991: packet pair). That
//! tells the bandwidth before anything was prefetched, and costs the program nothing. A gap may be too
//! long (the device was idle in between, or the second thread was woken late) or too short (the first one was): what a
//! quarter of the latest exceeds counts. The highest ones are of threads that were woken late, and told up to sixteen times
//! the bandwidth of a device of 1 GB/s.

use crate::model::rate;
use crate::tuning::T;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use crate::waits::Recent;

shared! {
    /// Pairs of misses of one device. All methods may race: a lost update costs a sample.
    pub struct Pairs {
        /// When the latest miss ended, ns.
        end_ns: AtomicU64,
        /// Whether two misses were such a pair: then nothing else is asked, since single waits are less sure.
        paired: AtomicBool,
        /// The length of the latest miss, bytes, and the shortest that one of this length took, ns.
        len: AtomicU64,
        idle_ns: AtomicU64,
        rates: Recent<16>,
        rate: AtomicU64,
    }
}

impl Pairs {
    /// Notes that some miss ended, of which nothing else is known.
    pub fn pass(&self, now_ns: u64) {
        self.end_ns.store(now_ns, Relaxed);
    }

    /// Notes a full miss that ended at `now_ns` after `elapsed_ns`.
    ///
    /// Rule: Packet pairs.
    pub fn note(&self, now_ns: u64, elapsed_ns: u64, bytes: u64) {
        let before_ns = self.end_ns.swap(now_ns, Relaxed);
        let idle_ns = self.idle_ns(bytes, elapsed_ns);
        let queued = elapsed_ns >= idle_ns.saturating_add(idle_ns / T::RESOLUTION);
        let together = before_ns != 0 && now_ns > before_ns && now_ns.saturating_sub(elapsed_ns) < before_ns;
        // What its bytes take must stand out of the latency's own variation.
        let resolved = bytes.saturating_mul(T::RESOLUTION) >= idle_ns;
        if queued && together && resolved {
            if !self.paired.swap(true, Relaxed) {
                self.rates.clear();
                self.rate.store(0, Relaxed);
            }
            self.learn(bytes, now_ns - before_ns);
        }
    }

    /// Notes a full miss, on a device of so much latency, that began after we had asked for other bytes at a time, ns: what
    /// it took longer than such a miss takes is what was left of these. Hits, and rests of what was asked for, may pass for
    /// misses: what takes less than the latency by over an eighth is none. Once believed, a rate that is too low makes steps
    /// of fetching so short that nothing tells better.
    pub fn collide(
        &self,
        now_ns: u64,
        elapsed_ns: u64,
        len: u64,
        (asked_ns, bytes): (u64, u64),
        latency_ns: u64,
    ) {
        self.pass(now_ns);
        let idle_ns = match self.idle_ns(len, elapsed_ns) {
            short if short < latency_ns - latency_ns / 8 => latency_ns,
            idle => idle,
        };
        let begin_ns = now_ns.saturating_sub(elapsed_ns);
        let queued = elapsed_ns > idle_ns.saturating_add(idle_ns / (T::RESOLUTION / 2));
        let meets = queued && begin_ns < asked_ns.saturating_add(idle_ns);
        if meets && !self.paired.load(Relaxed) {
            self.learn(bytes, (now_ns - idle_ns).saturating_sub(asked_ns));
        }
    }

    /// The shortest time that a miss of this length took, ns, since one of another length.
    fn idle_ns(&self, bytes: u64, elapsed_ns: u64) -> u64 {
        if self.len.swap(bytes, Relaxed) != bytes {
            self.idle_ns.store(elapsed_ns, Relaxed);
        }
        self.idle_ns.fetch_min(elapsed_ns, Relaxed).min(elapsed_ns)
    }

    /// The bandwidth, as far as misses behind our own requests are all that told it, bytes/s; else 0.
    pub fn rate_behind_ours(&self) -> u64 {
        if self.paired.load(Relaxed) { 0 } else { self.rate() }
    }

    /// So many bytes took so long.
    fn learn(&self, bytes: u64, ns: u64) {
        self.rates.note(rate(bytes, ns));
        let known = self.rate.load(Relaxed);
        let rate = match self.paired.load(Relaxed) {
            true => self.rates.rank(3, 4),
            // A wait behind our own requests can only be too long.
            false => self.rates.second_highest().max(known - known / T::SAMPLE.pow(2)),
        };
        self.rate.store(rate, Relaxed);
    }

    /// The bandwidth, bytes/s; 0 while no two misses were seen in one queue.
    pub fn rate(&self) -> u64 {
        self.rate.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn misses_in_one_queue_tell_the_bandwidth() {
        let pairs = Pairs::new();
        // Four threads begin together on a device of 1 ms and 250 MB/s: a read of 250 kB takes 1 ms of it.
        (2..=5u64).for_each(|at| pairs.note(at * MS, at * MS, 250_000));
        assert_eq!(pairs.rate(), 250_000_000);
    }

    #[test]
    fn a_miss_right_after_a_request_of_ours_tells_the_bandwidth() {
        let pairs = Pairs::new();
        // 64 kB asked for at 10 ms, at 100 MB/s, and 0.1 ms later a miss of 1 ms: it waits for what is left of 0.64 ms.
        pairs.collide(5 * MS, MS, 4096, (u64::MAX, 64_000), 0);
        pairs.collide(11 * MS + 640_000, MS + 540_000, 4096, (10 * MS, 64_000), 0);
        assert_eq!(pairs.rate(), 100_000_000);
        // Nobody waited, or what was asked for is long there.
        let idle = Pairs::new();
        idle.collide(5 * MS, MS, 4096, (0, 64_000), 0);
        idle.collide(11 * MS, MS, 4096, (10 * MS, 64_000), 0);
        idle.collide(60 * MS, 2 * MS, 4096, (10 * MS, 64_000), 0);
        // A hit passed for a miss.
        idle.collide(80 * MS, 74_000, 4096, (79 * MS, 64_000), MS);
        idle.collide(91 * MS + 6_000, MS, 4096, (90 * MS, 64_000), MS);
        assert_eq!(idle.rate(), 0);
    }

    #[test]
    fn reads_one_after_another_tell_nothing() {
        let pairs = Pairs::new();
        (1..100u64).for_each(|at| pairs.note(at * 2 * MS, MS, 65_536));
        assert_eq!(pairs.rate(), 0);
        // Spread evenly, without waiting for each other: the device may be as fast as it likes.
        let spread = Pairs::new();
        (10..100u64).for_each(|at| spread.note(at * MS / 4, MS, 65_536));
        assert_eq!(spread.rate(), 0);
    }

    #[test]
    fn one_thread_that_is_woken_late_raises_nothing() {
        let pairs = Pairs::new();
        let mut now_ns = 0;
        for at in 0..64u64 {
            // The eighth of each eight comes right after the one before.
            now_ns += if at == 40 { MS / 100 } else { MS };
            pairs.note(now_ns, if at == 0 { 2 * MS } else { 4 * MS }, 100_000);
        }
        assert_eq!(pairs.rate(), 100_000_000);
    }
}
