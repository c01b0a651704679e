//! What streams of a device share: how long a miss takes, what it delivers, and how many of them there are.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::tuning::{CHUNK, EPOCH_NS, RATE, ROW, SAMPLE, WINDOW_MAX};

/// The evidence about a device. All threads write it without waiting; what is lost between two of them is made up for
/// by the next read.
#[derive(Debug, Default)]
pub struct Device {
    latency_ns: AtomicU64,
    /// Bytes/s; 0 while none was seen.
    rate: AtomicU64,
    began_ns: AtomicU64,
    epoch: AtomicU32,
    live: AtomicU32,
    live_before: AtomicU32,
    /// Reads that must wait until the next test.
    untested: AtomicU32,
}

impl Device {
    /// Nothing known.
    pub const fn new() -> Device {
        Device {
            latency_ns: AtomicU64::new(0),
            rate: AtomicU64::new(0),
            began_ns: AtomicU64::new(0),
            epoch: AtomicU32::new(1),
            live: AtomicU32::new(0),
            live_before: AtomicU32::new(0),
            untested: AtomicU32::new(0),
        }
    }

    /// How long a miss takes that nobody had asked for, ns.
    pub fn latency_ns(&self) -> u64 {
        self.latency_ns.load(Relaxed)
    }

    /// What it delivers, bytes/s, as seen or assumed.
    pub fn rate(&self) -> u64 {
        match self.rate.load(Relaxed) {
            0 => RATE,
            rate => rate,
        }
    }

    /// Streams that were read in this epoch or the last one.
    pub fn streams(&self) -> u32 {
        self.live.load(Relaxed).max(self.live_before.load(Relaxed))
    }

    /// What it delivers in a time, bytes.
    pub fn bytes_in(&self, ns: u64) -> u64 {
        (u128::from(ns) * u128::from(self.rate()) / 1_000_000_000) as u64
    }

    /// How long it takes to deliver so much, ns.
    pub fn time_of(&self, bytes: u64) -> u64 {
        (u128::from(bytes) * 1_000_000_000 / u128::from(self.rate())) as u64
    }

    /// Latency x rate: what must be on its way to keep the device busy, bytes.
    pub fn bdp(&self) -> u64 {
        self.bytes_in(self.latency_ns())
    }

    /// A read missed what nobody had asked for.
    pub fn learn_miss(&self, ns: u64) {
        self.latency_ns.store(near_shortest(self.latency_ns(), ns), Relaxed);
    }

    /// So many bytes took so long to come behind others. `exact`: somebody waited for them; else they took no longer.
    pub fn learn_rate(&self, bytes: u64, ns: u64, exact: bool) {
        let seen = (bytes.saturating_mul(1_000_000_000) / ns.max(1)).clamp(RATE / 1000, 4 * RATE);
        let known = self.rate.load(Relaxed);
        let next = match known {
            0 if exact => seen,
            0 => seen.max(RATE),
            _ if seen > known => known + (seen - known) / 4,
            _ if exact => known - (known - seen) / 4,
            _ => known,
        };
        self.rate.store(next, Relaxed);
    }

    /// A stream is read: it counts once in each epoch.
    pub(crate) fn join(&self, epoch: &mut u32, now_ns: u64) {
        let began = self.began_ns.load(Relaxed);
        let over = now_ns.saturating_sub(began) >= EPOCH_NS.max(16 * self.latency_ns());
        if over && self.began_ns.compare_exchange(began, now_ns, Relaxed, Relaxed).is_ok() {
            self.live_before.store(self.live.swap(0, Relaxed), Relaxed);
            self.epoch.fetch_add(1, Relaxed);
        }
        let now = self.epoch.load(Relaxed);
        if *epoch != now {
            *epoch = now;
            self.live.fetch_add(1, Relaxed);
        }
    }

    /// How far one of the live streams may be ahead, bytes: one and a half times latency x rate for all of them together.
    pub(crate) fn share(&self) -> u64 {
        (self.bdp() * 3 / 2).min(WINDOW_MAX) / u64::from(self.streams().max(1))
    }

    /// Whether a stream that misses may be prefetched: two of its reads are no more than its share, so that the device
    /// is idle for a good part of the time; or its turn has come to find out. A test of long reads is dearer.
    pub(crate) fn may_begin(&self, len: u64, observing: bool) -> bool {
        if (self.rate.load(Relaxed) > 0 || observing) && self.share() >= 2 * len {
            return true;
        }
        let left = self.untested.load(Relaxed);
        let pause = (u64::from(ROW * SAMPLE) * len / CHUNK).min(u64::from(u32::MAX)) as u32;
        self.untested.store(if left == 0 { pause } else { left - 1 }, Relaxed);
        left == 0
    }
}

/// Near the shortest of late: others wait for somebody else's requests, too, or for a processor; but a single short one may
/// have met a request half-way.
pub(crate) fn near_shortest(known: u64, ns: u64) -> u64 {
    match known {
        0 => ns,
        _ if ns < known => known - (known - ns) / 4,
        _ => known + (ns - known) / 16,
    }
}
