//! The latency of a device, from everything that was seen to wait for it.
//!
//! Each wait comes with what it is evidence of. A full miss alone shows the latency and what the program's own queue
//! adds; a wait that may have been for the rest of the kernel's read-ahead only shows at most that; a miss beside own
//! prefetches, and a prefetch's arrival, show at least that. What one wait says may be an interruption's doing (longer,
//! or a hit that looks like a wait), so that nothing is taken from one wait once there are three of a kind.

use crate::tuning::Tuning;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::waits::{Recent, Waits};

/// What a wait is evidence of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// A read that asked for its pages itself, on a device that no prefetch kept busy.
    Miss,
    /// The same while prefetches were under way: it may have waited for them.
    Beside,
    /// A read that may have waited for the rest only of what had been asked for before.
    Partial,
    /// A long read: several requests, of which some may have been asked for before.
    Long,
    /// From the request of a prefetch to the end of the read that waited for it.
    Arrival,
}

/// How well the latency is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confidence {
    /// Nothing was seen.
    Unknown,
    /// From waits that may have been shorter, or from fewer than three full misses.
    Guessed,
    /// From at least three full misses, lately.
    Measured,
}

/// The latency of one device. All methods may race: a lost update costs a sample.
#[derive(Debug)]
pub struct Latency {
    tuning: &'static Tuning,
    /// What all evidence together says, ns.
    ns: AtomicU64,
    /// Full misses alone, less their transfer.
    misses: Recent<16>,
    /// The same with their transfer.
    elapsed: Recent<16>,
    /// Full misses beside prefetches since the last one alone.
    beside: Recent<8>,
    partial: Waits,
    /// What was learned from partial waits and long reads, ns.
    guess_ns: AtomicU64,
    /// Eights of partial waits since the last full miss.
    stale: AtomicU64,
    arrivals: Recent<8>,
    /// The shortest that six of eight arrivals in a row exceeded, ns.
    floor_ns: AtomicU64,
    typical_ns: AtomicU64,
    mean_ns: AtomicU64,
    /// Misses that the mean is of, at most the square of [`Tuning::sample`].
    mean_count: AtomicU64,
    /// Short waits since all were known.
    unweighed: AtomicU64,
}

impl Latency {
    /// Nothing was seen yet.
    pub const fn new(tuning: &'static Tuning) -> Latency {
        Latency {
            tuning,
            ns: AtomicU64::new(0),
            misses: Recent::new(),
            elapsed: Recent::new(),
            beside: Recent::new(),
            partial: Waits::new(),
            guess_ns: AtomicU64::new(0),
            stale: AtomicU64::new(0),
            arrivals: Recent::new(),
            floor_ns: AtomicU64::new(0),
            typical_ns: AtomicU64::new(0),
            mean_ns: AtomicU64::new(0),
            mean_count: AtomicU64::new(0),
            unweighed: AtomicU64::new(0),
        }
    }

    /// Latency of a small read on an idle device, ns; 0 when unknown.
    pub fn ns(&self) -> u64 {
        self.ns.load(Relaxed)
    }

    /// How well that is known.
    pub fn confidence(&self) -> Confidence {
        match (self.ns(), self.misses.len()) {
            (0, _) => Confidence::Unknown,
            (_, 0..3) => Confidence::Guessed,
            _ => Confidence::Measured,
        }
    }

    /// How long a miss took lately while nothing was prefetched, the program's own queue and the transfer included, ns; the
    /// latency before that was seen.
    pub fn typical_ns(&self) -> u64 {
        match self.typical_ns.load(Relaxed) {
            0 => self.ns(),
            typical => typical,
        }
    }

    /// The mean of many such misses, of which longer ones count as twice the typical one, ns. Of few it would be a matter of
    /// chance, and of those right after a fetch too long.
    pub fn mean_ns(&self) -> u64 {
        match self.mean_ns.load(Relaxed) {
            0 => self.typical_ns(),
            mean => mean,
        }
    }

    /// Notes a wait of `elapsed_ns`, of which its own bytes took `transfer_ns`.
    pub fn note(&self, seen: Seen, elapsed_ns: u64, transfer_ns: u64) {
        let sample = elapsed_ns.saturating_sub(transfer_ns).max(1_000);
        match seen {
            Seen::Miss => {
                self.misses.note(sample);
                self.elapsed.note(elapsed_ns);
                self.beside.clear();
                self.stale.store(0, Relaxed);
                self.add_to_mean(elapsed_ns);
                if self.may_wait(elapsed_ns) {
                    return;
                }
                // One or two may be hits beside a busy processor: what was guessed stands until there are three.
                if self.elapsed.len() >= 3 || self.typical_ns.load(Relaxed) == 0 {
                    self.typical_ns.store(self.elapsed.middle(), Relaxed);
                }
            }
            Seen::Beside if self.ns() == 0 => self.guess_ns.store(sample, Relaxed),
            Seen::Beside => {
                self.beside.note(sample);
                if self.may_wait(elapsed_ns) {
                    return;
                }
            }
            Seen::Long if !self.misses.is_empty() => return,
            Seen::Long | Seen::Partial => {
                if seen == Seen::Long && self.ns() == 0 {
                    self.guess_ns.store(sample, Relaxed);
                }
                self.note_partial(sample);
            }
            // The way to the device and the transfer are short beside what is decided by this.
            Seen::Arrival => self.note_arrival(elapsed_ns),
        }
        self.judge();
    }

    fn add_to_mean(&self, elapsed_ns: u64) {
        let capped = match self.typical_ns() {
            0 => elapsed_ns,
            typical => elapsed_ns.min(typical.saturating_mul(2)),
        };
        let count = (self.mean_count.load(Relaxed) + 1).min(self.tuning.sample.pow(2));
        self.mean_count.store(count, Relaxed);
        let known = self.mean_ns.load(Relaxed);
        self.mean_ns.store(known - known / count + capped / count, Relaxed);
    }

    /// Whether what is known may be weighed anew with a later miss: to sort it takes a microsecond, of a short wait a
    /// hundredth.
    fn may_wait(&self, elapsed_ns: u64) -> bool {
        elapsed_ns < self.tuning.brief_ns()
            && self.misses.is_full()
            && !self.unweighed.fetch_add(1, Relaxed).is_multiple_of(4)
    }

    /// Of eight waits the longest, a hiccup perhaps, is left out, and what half of the others' time was spent in is taken
    /// for a miss: few of them may have waited from the beginning, but those took the time.
    fn note_partial(&self, sample: u64) {
        let Some([waits @ .., _]) = self.partial.note(sample) else { return };
        let mut left = waits.iter().fold(0u64, |sum, wait| sum.saturating_add(*wait)) / 2;
        let long = waits.iter().rev().find(|wait| match left.checked_sub(**wait) {
            Some(rest) => {
                left = rest;
                false
            }
            None => true,
        });
        let sample = long.copied().unwrap_or(sample);
        // One or two misses may be anything.
        if self.misses.len() < 3 {
            let known = self.guess_ns.load(Relaxed);
            let next = if sample > known { sample } else { known - (known - sample) / 4 };
            self.guess_ns.store(next, Relaxed);
            self.typical_ns.store(next, Relaxed);
            return;
        }
        // Full misses are believed until there were none for long.
        let stale = self.stale.fetch_add(1, Relaxed);
        let known = if stale == 0 { self.ns() } else { self.guess_ns.load(Relaxed) };
        let next = if sample < known {
            known - (known - sample) / 4
        } else {
            known + (sample.min(known.saturating_mul(2)) - known) / 16
        };
        self.guess_ns.store(next, Relaxed);
        if stale >= self.tuning.sample {
            self.misses.clear();
            self.elapsed.clear();
            self.mean_count.store(0, Relaxed);
            self.stale.store(0, Relaxed);
        }
    }

    fn note_arrival(&self, sample: u64) {
        self.arrivals.note(sample);
        if self.arrivals.full_median().is_some() {
            let third = self.arrivals.third();
            let known = self.floor_ns.load(Relaxed);
            self.floor_ns.store(if known == 0 { third } else { third.min(known) }, Relaxed);
        }
    }

    /// What all evidence together says.
    ///
    /// Rule: Latency.
    fn judge(&self) {
        let guess = self.guess_ns.load(Relaxed);
        let mut ns = match self.misses.len() {
            0 => guess,
            // One of two may be anything: what was guessed before has a say.
            1 | 2 if guess > 0 => self.misses.third_with(guess),
            _ => self.misses.third(),
        };
        // Misses beside prefetches may be longer than a latency, but not shorter: not half of eight. Of what arrives, the
        // kernel may have asked for a part before: not all but one of eight.
        for most in [self.beside.full_median(), self.arrivals.full_most()].into_iter().flatten() {
            ns = ns.min(most);
        }
        // Where no prefetch ever arrives in four times of it, what was seen were hits beside a busy processor.
        let floor = self.floor_ns.load(Relaxed);
        if ns > 0 && ns < floor / 4 {
            ns = floor;
        }
        self.ns.store(ns, Relaxed);
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
                let latency = Latency::new(&Tuning::STANDARD);
                for wait in 0..40 {
                    latency.note(Seen::Miss, if wait == at { odd } else { MS + wait }, 0);
                    if wait >= 2 {
                        assert!(near(latency.ns(), MS), "{odd} at {at}: {} after {wait}", latency.ns());
                        assert!(near(latency.typical_ns(), MS) || wait < 4, "{}", latency.typical_ns());
                        assert_eq!(latency.confidence(), Confidence::Measured);
                    }
                }
            }
        }
    }

    #[test]
    fn misses_that_wait_for_what_a_fetch_left_are_not_the_mean() {
        let latency = Latency::new(&Tuning::STANDARD);
        (0..300).for_each(|_| latency.note(Seen::Miss, MS, 0));
        (0..16).for_each(|_| latency.note(Seen::Miss, MS + MS / 2, 0));
        assert!(latency.mean_ns() < MS + MS / 20, "{}", latency.mean_ns());
        assert!(latency.typical_ns() > MS + MS / 4, "{}", latency.typical_ns());
        // A hiccup counts as twice the usual.
        latency.note(Seen::Miss, 1_000 * MS, 0);
        assert!(latency.mean_ns() < MS + MS / 10, "{}", latency.mean_ns());
    }

    #[test]
    fn of_short_misses_one_in_four_is_weighed() {
        let latency = Latency::new(&Tuning::STANDARD);
        (0..16).for_each(|_| latency.note(Seen::Miss, 100_000, 0));
        let changes = |count: u64| {
            let mut known = latency.ns();
            let mut changes = 0;
            for wait in 0..count {
                latency.note(Seen::Miss, 200_000 + wait, 0);
                changes += u64::from(core::mem::replace(&mut known, latency.ns()) != latency.ns());
            }
            changes
        };
        assert!(changes(64) <= 16);
        assert!((200_000..201_000).contains(&latency.ns()), "{}", latency.ns());
    }

    #[test]
    fn what_was_guessed_has_a_say_until_three_misses() {
        let latency = Latency::new(&Tuning::STANDARD);
        assert_eq!((latency.ns(), latency.confidence()), (0, Confidence::Unknown));
        (0..8).for_each(|_| latency.note(Seen::Partial, MS, 0));
        assert_eq!((latency.ns(), latency.confidence()), (MS, Confidence::Guessed));
        // a hit beside a busy processor, then misses
        latency.note(Seen::Miss, 20_000, 0);
        latency.note(Seen::Miss, MS, 0);
        assert_eq!(latency.ns(), MS);
    }

    /// A database opens its files with many threads: reads queue, and some wait for the rest of a read-ahead.
    #[test]
    fn an_opening_phase_is_forgotten() {
        for (seen, wait) in [(Seen::Miss, 6 * MS), (Seen::Miss, 40_000), (Seen::Partial, 9 * MS)] {
            let opened = || {
                let latency = Latency::new(&Tuning::STANDARD);
                (0..300).for_each(|_| latency.note(seen, wait, 0));
                latency
            };
            // by single misses
            let latency = opened();
            (0..16).for_each(|_| latency.note(Seen::Miss, MS, 0));
            assert_eq!(latency.ns(), MS, "{seen:?}");
            // by forward reads alone
            let latency = opened();
            (0..400).for_each(|at| latency.note(Seen::Partial, if at % 3 == 0 { MS } else { 90_000 }, 0));
            assert!(near(latency.ns(), MS), "{seen:?}: {}", latency.ns());
            // beside prefetches only
            let latency = opened();
            (0..16).for_each(|at| latency.note(Seen::Arrival, MS + at * 10_000, 0));
            assert!((MS..MS + MS / 4).contains(&latency.ns()), "{seen:?}: {}", latency.ns());
        }
    }

    #[test]
    fn queueing_behind_prefetches_is_no_latency() {
        let latency = Latency::new(&Tuning::STANDARD);
        (0..16).for_each(|_| latency.note(Seen::Miss, MS, 0));
        (0..100).for_each(|_| {
            latency.note(Seen::Beside, 7 * MS, 0);
            latency.note(Seen::Arrival, 3 * MS, 0);
        });
        assert_eq!((latency.ns(), latency.typical_ns()), (MS, MS));
    }

    /// Against devices of a known latency, with everything that reads suffer mixed in.
    #[test]
    fn it_finds_the_latency_among_queues_hits_and_rests() {
        let mut random = 1u64;
        let mut below = |limit: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % limit.max(1)
        };
        for round in 0..500 {
            let truth = 50_000 << below(11);
            let latency = Latency::new(&Tuning::STANDARD);
            // The first ones in any mixture, of which no miss may come.
            let misses = below(3);
            // Rests say half of a latency where they are most of the waits.
            let most = if misses == 0 { truth / 4..truth * 2 } else { truth - truth / 3..truth + truth / 2 };
            for wait in 0..600 {
                let full = truth + below(truth / 10);
                let kind = below(2 + misses);
                let (seen, ns) = match kind {
                    0 => (Seen::Partial, if below(3) == 0 { full } else { below(truth) }),
                    1 => (Seen::Arrival, full + below(truth / 4)),
                    2 => (Seen::Miss, full),
                    _ => (Seen::Beside, full + below(4 * truth)),
                };
                // One of 32 is a hit on a busy CPU, one a wait for it.
                let ns = match below(32) {
                    0 => 13_000 + below(40_000),
                    // Two of eight rests that waited for a CPU would be believed until full misses come.
                    1 if misses > 0 => ns + below(20 * MS),
                    _ => ns,
                };
                latency.note(seen, ns, 0);
                let ns = latency.ns();
                assert!(
                    wait < 100 || most.contains(&ns),
                    "round {round}: {ns} of {truth} after {wait}, {misses} kinds of misses"
                );
            }
        }
    }
}
