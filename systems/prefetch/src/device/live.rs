//! Who reads from a device: the streams that prefetch from it, and the strays beside them.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::tuning::T;

shared! {
    /// What was counted in this epoch, and in the one before.
    struct Lately {
        now: AtomicU64,
        before: AtomicU64,
    }
}

impl Lately {
    fn add(&self) {
        self.now.fetch_add(1, Relaxed);
    }

    /// An epoch is over; what was long ago counts no more.
    fn turn(&self, is_recent: bool) {
        let now = self.now.swap(0, Relaxed);
        self.before.store(if is_recent { now } else { 0 }, Relaxed);
    }

    fn each(&self) -> (u64, u64) {
        (self.now.load(Relaxed), self.before.load(Relaxed))
    }
}

shared! {
    /// Readers by epochs of some 20 ms: one that was not seen in this epoch nor in the one before is not counted.
    pub struct Live {
        /// Streams that prefetch, whether they are read or not.
        begun: AtomicU64,
        epoch: AtomicU64 = AtomicU64::new(1),
        epoch_start_ns: AtomicU64,
        /// Streams that were read.
        streams: Lately,
        /// Reads, and those of them that missed what no stream foresaw.
        reads: Lately,
        strays: Lately,
        /// Strays that were late, since there are many.
        late: AtomicU64,
    }
}

impl Live {
    pub fn begin(&self) {
        self.begun.fetch_add(1, Relaxed);
    }

    /// One ends; there are never fewer than none.
    pub fn end(&self) {
        let _ = self.begun.fetch_update(Relaxed, Relaxed, |streams| streams.checked_sub(1));
    }

    /// Time passes on a device of so much latency: an epoch may be over.
    pub fn note_time(&self, now_ns: u64, latency_ns: u64) {
        let elapsed = now_ns.saturating_sub(self.epoch_start_ns.load(Relaxed));
        let length = T::LIVE_NS.max(latency_ns.saturating_mul(4)).min(10 * T::LIVE_NS);
        if elapsed >= length {
            let all = [&self.streams, &self.reads, &self.strays];
            all.iter().for_each(|lately| lately.turn(elapsed < 2 * length));
            self.epoch.fetch_add(1, Relaxed);
            self.epoch_start_ns.store(now_ns, Relaxed);
        }
    }

    /// A stream was read that remembers the epoch of its latest read.
    pub fn note_read(&self, epoch: &mut u64) {
        let current = self.epoch.load(Relaxed);
        if *epoch != current {
            *epoch = current;
            self.streams.add();
        }
    }

    /// A read ended. A stray is a miss that no stream foresaw; it is late where it waited for more than one short request of
    /// ours beyond what it takes anyway.
    pub fn note_any(&self, is_stray: bool, is_late: bool) {
        self.reads.add();
        if is_stray {
            self.strays.add();
        }
        if !self.are_many() {
            self.late.store(0, Relaxed);
        } else if is_stray && is_late {
            self.late.fetch_add(1, Relaxed);
        }
    }

    /// Whether enough reads stray beside the streams for the slowest hundredth of all reads to be of these.
    fn are_many(&self) -> bool {
        let sum = |(now, before)| now + before;
        let strays = sum(self.strays.each());
        self.count() > 0 && strays > 0 && strays.saturating_mul(T::RESOLUTION) >= sum(self.reads.each())
    }

    /// Whether others read beside the streams what nobody foresaw, and were seen to wait for what is prefetched, from which
    /// they gain nothing. One that waits may be a beginning or an accident. Once several did, it is so until they read no
    /// more: that they wait no longer is what is done about it.
    ///
    /// Rule: Strays.
    pub fn has_strays(&self) -> bool {
        self.late.load(Relaxed) >= T::SAMPLE / 2 && self.are_many()
    }

    /// Those that prefetch and were read lately.
    pub fn count(&self) -> u64 {
        let (now, before) = self.streams.each();
        now.max(before).min(self.begun.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Somebody prefetches, and reads.
    fn live() -> Live {
        let live = Live::new();
        live.begin();
        live.note_read(&mut 0);
        live
    }

    #[test]
    fn several_late_strays_are_needed_and_no_more_once_there_were_so_many() {
        let live = live();
        (1..T::SAMPLE / 2).for_each(|_| live.note_any(true, true));
        (0..4).for_each(|_| live.note_any(true, false));
        assert!(!live.has_strays());
        live.note_any(true, true);
        assert!(live.has_strays());
        (0..99).for_each(|_| live.note_any(true, false));
        assert!(live.has_strays(), "they wait no longer, for that is why");
        (0..200 * T::RESOLUTION).for_each(|_| live.note_any(false, true));
        assert!(!live.has_strays(), "fewer than one of {}", T::RESOLUTION);
        live.note_any(true, true);
        (0..3).for_each(|_| live.note_any(true, false));
        assert!(!live.has_strays(), "what was before is forgotten");
    }

    #[test]
    fn strays_of_long_ago_count_no_more_nor_do_those_beside_no_stream() {
        let stray = |live: &Live| (0..T::SAMPLE).for_each(|_| live.note_any(true, true));
        let live = live();
        stray(&live);
        live.note_time(T::LIVE_NS, 0);
        assert!(live.has_strays(), "in the epoch before");
        live.note_read(&mut 0);
        live.note_time(2 * T::LIVE_NS, 0);
        assert!(!live.has_strays());
        stray(&live);
        assert!(live.has_strays());
        live.end();
        assert!(!live.has_strays(), "nobody prefetches");
    }
}
