//! Two monotonic clocks: how far apart, how surely, how fast they part.
//!
//! One side asks for the other's time. The answer was given at some moment between question and arrival; taken as the middle,
//! it is wrong by at most half the round trip (Cristian, 1989). Of many rounds the fastest one bounds best.

use rustix::thread::{CpuSet, clock_nanosleep_absolute, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, Timespec, clock_gettime};

/// Rounds of an estimate: on a quiet link the fastest of 40 is within a few microseconds of the best of 300.
pub const ROUNDS: u32 = 40;

/// Most nanoseconds between two clocks, 73 years: sums and differences of two offsets and a time stay within 64 bits.
const APART_MAX_NS: u64 = i64::MAX as u64 / 4;

/// A monotonic clock: the system's, or for tests one that is wrong by a known amount.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Clock {
    /// Nanoseconds that it is ahead of the system's.
    ahead_ns: i64,
    /// Parts in a million that it runs faster.
    faster_ppm: f64,
}

impl Clock {
    /// The system's clock (`CLOCK_MONOTONIC`).
    pub fn system() -> Clock {
        Clock::default()
    }

    /// A clock that is `ahead_ns` ahead and `faster_ppm` parts in a million too fast.
    pub fn skewed(ahead_ns: i64, faster_ppm: f64) -> Clock {
        Clock { ahead_ns, faster_ppm }
    }

    /// Its time now, in nanoseconds.
    pub fn now_ns(&self) -> i64 {
        self.at(system_ns())
    }

    /// Its time at a moment of the system's clock.
    pub fn at(&self, system_ns: i64) -> i64 {
        system_ns + self.ahead_ns + (system_ns as f64 * self.faster_ppm / 1e6) as i64
    }
}

fn system_ns() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.saturating_mul(1_000_000_000).saturating_add(now.tv_nsec)
}

/// Sleeps until a moment of the system's monotonic clock; gives how late it woke up, in nanoseconds. Sleeping to a moment is
/// better than spinning when ranks share cores.
pub fn sleep_until_ns(at_ns: i64) -> i64 {
    let until =
        Timespec { tv_sec: at_ns.div_euclid(1_000_000_000), tv_nsec: at_ns.rem_euclid(1_000_000_000) };
    // a signal ends the sleep early
    while clock_nanosleep_absolute(ClockId::Monotonic, &until) == Err(rustix::io::Errno::INTR) {}
    system_ns() - at_ns
}

/// The same on one of the cores that this thread may use, the one number `nth` of them, and then on all of them again. Ranks
/// of one host that sleep to one moment wake up where they fell asleep: of two on one core the second would begin up to
/// 2 ms later, when the scheduler moves it. With fewer cores than `nth` it sleeps on any.
pub fn sleep_on_core_until_ns(at_ns: i64, nth: usize) -> i64 {
    let Some(all) = pin_to_core(nth) else { return sleep_until_ns(at_ns) };
    let late_ns = sleep_until_ns(at_ns);
    // what this thread may use it may use again
    let _ = sched_setaffinity(None, &all);
    late_ns
}

/// Moves this thread to one core; gives those that it could use before.
fn pin_to_core(nth: usize) -> Option<CpuSet> {
    let all = sched_getaffinity(None).ok()?;
    let core = (0..CpuSet::MAX_CPU).filter(|core| all.is_set(*core)).nth(nth)?;
    let mut own = CpuSet::new();
    own.set(core);
    sched_setaffinity(None, &own).ok()?;
    Some(all)
}

/// How far another clock is ahead of this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Offset {
    /// Nanoseconds that the other clock is ahead.
    pub ns: i64,
    /// The offset is wrong by at most so much.
    pub bound_ns: i64,
    /// When it was estimated, on this clock.
    pub at_ns: i64,
}

impl Offset {
    /// The better of what rounds of (question sent, the other's time, answer here) say; `None` without a sound one. No two
    /// clocks that count from a start are further apart than 73 years.
    pub fn of_rounds(rounds: impl IntoIterator<Item = (i64, i64, i64)>) -> Option<Offset> {
        let sound = rounds.into_iter().filter(|(sent, other, came)| {
            came >= sent && other.checked_sub(*sent).is_some_and(|apart| apart.unsigned_abs() <= APART_MAX_NS)
        });
        let (sent, other, came) = sound.min_by_key(|(sent, _, came)| came - sent)?;
        let trip = came - sent;
        Some(Offset { ns: other - (sent + trip / 2), bound_ns: trip / 2 + 1, at_ns: sent + trip / 2 })
    }

    /// The other's time at a moment of this clock.
    pub fn there(&self, here_ns: i64) -> i64 {
        here_ns + self.ns
    }

    /// The moment of this clock at a time of the other's.
    pub fn to_local(&self, there_ns: i64) -> i64 {
        there_ns - self.ns
    }

    /// Parts in a million that the other clock is faster, by an estimate and a later one, and how wrong that can be.
    pub fn drift_ppm(&self, later: &Offset) -> Option<(f64, f64)> {
        let elapsed = later.at_ns - self.at_ns;
        let ppm = |ns: i64| ns as f64 / elapsed as f64 * 1e6;
        (elapsed > 0).then(|| (ppm(later.ns - self.ns), ppm(later.bound_ns + self.bound_ns)))
    }

    /// The offset at a moment between an estimate and a later one, on the line through both.
    pub fn between(&self, later: &Offset, at_ns: i64) -> Offset {
        let elapsed = (later.at_ns - self.at_ns).max(1);
        let share = ((at_ns - self.at_ns) as f64 / elapsed as f64).clamp(0.0, 1.0);
        let ns = self.ns + ((later.ns - self.ns) as f64 * share) as i64;
        Offset { ns, bound_ns: self.bound_ns.max(later.bound_ns), at_ns }
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    /// Whatever the way there and back takes, the truth lies within the bound.
    #[test]
    fn the_truth_lies_within_the_bound() {
        for seed in 0..500 {
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
            let ahead = rng.random_range(-10_000_000_000_i64..10_000_000_000);
            let mut now = rng.random_range(0..1_000_000_000_000_i64);
            let rounds: Vec<(i64, i64, i64)> = (0..rng.random_range(1..20))
                .map(|_| {
                    let there = now + rng.random_range(1..5_000_000);
                    let back = there + rng.random_range(1..5_000_000);
                    let round = (now, there + ahead, back);
                    now = back + rng.random_range(0..1000);
                    round
                })
                .collect();
            let offset = Offset::of_rounds(rounds).unwrap();
            assert!((offset.ns - ahead).abs() <= offset.bound_ns, "seed {seed}: {ahead} {offset:?}");
        }
        assert_eq!(Offset::of_rounds([(5, 0, 4)]), None);
    }

    #[test]
    fn a_time_that_no_clock_shows_is_no_round() {
        for wild in [i64::MIN, i64::MAX] {
            assert_eq!(Offset::of_rounds([(1000, wild, 1010)]), None);
            assert_eq!(Offset::of_rounds([(0, wild, 1), (1000, 1005, 1010)]).unwrap().ns, 0);
        }
    }

    #[test]
    fn a_fast_clock_is_found() {
        for ppm in [-500.0, -3.0, 0.0, 40.0, 500.0] {
            let clock = Clock::skewed(7_000_000, ppm);
            let estimate = |at: i64| Offset::of_rounds([(at, clock.at(at + 1000), at + 2000)]).unwrap();
            let (first, last) = (estimate(0), estimate(60_000_000_000));
            let (found, error) = first.drift_ppm(&last).unwrap();
            assert!((found - ppm).abs() <= error && error < 0.1, "{ppm}: {found} +- {error}");
            let middle = first.between(&last, 30_000_000_000);
            let truth = clock.at(30_000_000_000) - 30_000_000_000;
            assert!((middle.ns - truth).abs() <= middle.bound_ns, "{middle:?} {truth}");
        }
    }

    #[test]
    fn sleeping_ends_after_its_moment() {
        let at = Clock::system().now_ns() + 2_000_000;
        assert!(sleep_until_ns(at) >= 0);
        let cores = || sched_getaffinity(None).unwrap();
        let before = cores();
        for nth in [0, before.count() as usize - 1, before.count() as usize] {
            assert!(sleep_on_core_until_ns(Clock::system().now_ns() + 2_000_000, nth) >= 0);
            assert_eq!(cores(), before, "core {nth}");
        }
    }
}
