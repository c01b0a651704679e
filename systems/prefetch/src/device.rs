//! What streams of a device share: how long a miss takes, what it delivers, how many of them there are, and whether asking
//! ahead has gained anything lately.

use core::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::Read;
use crate::tuning::{CHUNK, EPOCH_NS, GAINS, NAP_MAX, RATE, ROW, SAMPLE, WINDOW_MAX};

/// Harm as it is judged: p99 over 1.1 times as long, unless the run is a tenth faster. One part in so many.
const HARMLESS: i64 = 10;
/// Reads that gains and means go back (16 to 256).
const LATEST: u64 = 64;

/// The evidence about a device. All threads write it without waiting; what is lost between two of them is made up for
/// by the next read.
#[derive(Debug, Default)]
pub struct Device {
    latency_ns: AtomicU64,
    /// How long a chunk takes to be delivered, ns; 0 while that was not seen.
    chunk_ns: AtomicU64,
    began_ns: AtomicU64,
    epoch: AtomicU32,
    live: AtomicU32,
    live_before: AtomicU32,
    /// Reads that must wait until the next test.
    untested: AtomicU32,
    /// How long a miss takes while nothing was asked for, and how far from that most are, ns.
    usual_ns: AtomicU64,
    spread_ns: AtomicU64,
    /// When something was asked for last, ns.
    asked_ns: AtomicU64,
    /// When a read that waited ended last, ns.
    slow_ns: AtomicU64,
    /// What asking ahead has gained lately, less what it has cost, ns.
    balance_ns: AtomicI64,
    /// Misses until something is asked for again, and how many it will be the next time.
    paused: AtomicU32,
    pause: AtomicU32,
}

impl Device {
    /// Nothing known.
    pub const fn new() -> Device {
        Device {
            latency_ns: AtomicU64::new(0),
            chunk_ns: AtomicU64::new(0),
            began_ns: AtomicU64::new(0),
            epoch: AtomicU32::new(1),
            live: AtomicU32::new(0),
            live_before: AtomicU32::new(0),
            untested: AtomicU32::new(0),
            usual_ns: AtomicU64::new(0),
            spread_ns: AtomicU64::new(0),
            asked_ns: AtomicU64::new(0),
            slow_ns: AtomicU64::new(0),
            balance_ns: AtomicI64::new(0),
            paused: AtomicU32::new(0),
            pause: AtomicU32::new(0),
        }
    }

    /// How long a miss takes that nobody had asked for, ns.
    pub fn latency_ns(&self) -> u64 {
        self.latency_ns.load(Relaxed)
    }

    /// What it delivers, bytes/s, as seen or assumed.
    pub fn rate(&self) -> u64 {
        match self.chunk_ns.load(Relaxed) {
            0 => RATE,
            ns => CHUNK * 1_000_000_000 / ns,
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

    /// A read waited for what had been asked for together with what the read before it waited for: since that one ended, its
    /// bytes came.
    pub(crate) fn learn_rate(&self, read: &Read) {
        let ns = read.now_ns.saturating_sub(self.slow_ns.load(Relaxed));
        if ns > read.elapsed_ns.saturating_add(read.elapsed_ns / 4) {
            return;
        }
        let known = self.chunk_ns.load(Relaxed);
        self.chunk_ns
            .store(near_shortest(known, (ns.saturating_mul(CHUNK) / read.len.max(1)).max(1)), Relaxed);
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

    /// What was gained lately by asking, ns.
    pub(crate) fn credit_ns(&self) -> u64 {
        self.balance_ns.load(Relaxed).max(0) as u64
    }

    /// Whether nothing is asked for, because it gained nothing.
    pub(crate) fn is_paused(&self) -> bool {
        self.paused.load(Relaxed) > 0
    }

    /// Accounts for a read that waited, or would have: how much less than a miss usually takes, or more. Within a tenth is
    /// neither: so it is while a window still grows.
    pub(crate) fn settle(&self, read: &Read, covered: bool, asked: u64) {
        let usual = self.usual_ns.load(Relaxed);
        let began = read.now_ns.saturating_sub(read.elapsed_ns);
        let beside = began < self.asked_ns.load(Relaxed).saturating_add(usual);
        if asked > 0 {
            self.asked_ns.store(read.now_ns, Relaxed);
        }
        if read.is_slow() {
            self.slow_ns.store(read.now_ns, Relaxed);
        } else if !covered {
            return;
        }
        let alone = !covered && !beside || usual == 0;
        if alone {
            self.learn_usual(read.elapsed_ns);
        }
        let paused = self.paused.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok();
        if alone || paused {
            return;
        }
        let (usual, elapsed) = (usual as i64, read.elapsed_ns as i64);
        // A reader that was stopped, or had no processor, says no more than one that waited twice as long.
        let gained = (usual - elapsed).max(-usual);
        let neither = read.is_slow() && gained.abs().saturating_mul(HARMLESS) <= usual;
        let change = if neither { 0 } else { gained - usual / HARMLESS };
        let before = self.balance_ns.load(Relaxed);
        let balance = (before - before / LATEST as i64 + change).min(GAINS as i64 * usual);
        if balance >= -(usual / 4 + SAMPLE as i64 * self.spread_ns.load(Relaxed) as i64) {
            self.balance_ns.store(balance, Relaxed);
            return;
        }
        let pause = self.pause.load(Relaxed).max(SAMPLE * SAMPLE);
        self.pause.store((pause * 4).min(SAMPLE * NAP_MAX), Relaxed);
        self.paused.store(pause, Relaxed);
        self.balance_ns.store(0, Relaxed);
    }

    /// A miss waited for nothing of ours: means over the latest.
    fn learn_usual(&self, ns: u64) {
        let known = self.usual_ns.load(Relaxed);
        let ns = if known == 0 { ns } else { ns.min(4 * known) };
        let mean = |known: u64, ns: u64| known - known / LATEST + ns / LATEST;
        let usual = if known == 0 { ns } else { mean(known, ns) };
        self.usual_ns.store(usual, Relaxed);
        self.spread_ns.store(mean(self.spread_ns.load(Relaxed), ns.abs_diff(usual)), Relaxed);
    }

    /// Whether a stream that misses may be prefetched: two of its reads are no more than its share, so that the device
    /// is idle for a good part of the time; or its turn has come to find out. A test of long reads is dearer.
    pub(crate) fn may_begin(&self, len: u64, observing: bool) -> bool {
        if self.is_paused() {
            return false;
        }
        let gains = 2 * self.credit_ns() > self.usual_ns.load(Relaxed);
        if (gains || self.chunk_ns.load(Relaxed) > 0 || observing) && self.share() >= 2 * len {
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
