//! The clock of real targets: nanoseconds of `CLOCK_MONOTONIC`, read from the time-stamp counter where that is safe.
//!
//! A flowop costs one clock read (the end of one is the start of the next), and `clock_gettime` is 25-40 ns of the
//! 300 ns that a small cached read takes. Where the kernel itself trusts the counter (its clock source is `tsc`),
//! reading it directly takes about 10 ns.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The shortest time in which the counter's speed is found: both ends are read to about 50 ns, so within 5 in a million.
const CALIBRATION_NS: u64 = 20_000_000;

/// A speed that another process of this machine has found, nanoseconds for each tick times 2^32; 0: none.
static GIVEN: AtomicU64 = AtomicU64::new(0);

/// A monotonic clock, calibrated once for the process.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    base_ticks: u64,
    base_ns: u64,
    /// Nanoseconds for each tick, times 2^32; 0: read the kernel's clock.
    scale: u64,
}

impl Clock {
    /// The clock of this process; the first call takes about 20 ms where the counter is used and nobody has given its
    /// speed ([`Clock::adopt`]).
    pub fn get() -> Clock {
        static CLOCK: OnceLock<Clock> = OnceLock::new();
        *CLOCK.get_or_init(Clock::calibrate)
    }

    /// A clock that always asks the kernel.
    pub fn kernel() -> Clock {
        Clock { base_ticks: 0, base_ns: 0, scale: 0 }
    }

    /// Nanoseconds since an arbitrary start.
    #[inline(always)]
    pub fn now(&self) -> u64 {
        if self.scale == 0 {
            return kernel_ns();
        }
        let ticks = counter().wrapping_sub(self.base_ticks);
        self.base_ns + ((u128::from(ticks) * u128::from(self.scale)) >> 32) as u64
    }

    fn calibrate() -> Clock {
        if !counter_is_trusted() {
            return Clock::kernel();
        }
        let (start_ns, start_ticks) = paired();
        let given = GIVEN.load(Ordering::Relaxed);
        if given > 0 {
            return Clock { base_ticks: start_ticks, base_ns: start_ns, scale: given };
        }
        std::thread::sleep(Duration::from_nanos(CALIBRATION_NS));
        match scale_since((start_ns, start_ticks)) {
            Some(scale) => Clock { base_ticks: start_ticks, base_ns: start_ns, scale },
            None => Clock::kernel(),
        }
    }

    /// The counter's speed as far as this process knows it, for processes that it starts: their trials need not begin
    /// with 20 ms of calibration. Nothing at the first call, from which it is measured, and soon after it; nothing where
    /// the counter is not used.
    pub fn speed() -> Option<u64> {
        static SINCE: OnceLock<Option<(u64, u64)>> = OnceLock::new();
        let since = (*SINCE.get_or_init(|| counter_is_trusted().then(paired)))?;
        (kernel_ns().saturating_sub(since.0) >= CALIBRATION_NS).then(|| scale_since(since))?
    }

    /// Takes the speed that the parent has found: to be called before the first [`Clock::get`]. A speed that no processor
    /// has is not taken.
    pub fn adopt(speed: u64) {
        // 0.1 to 100 GHz
        let (fastest, slowest) = (1u64 << 32, 10u64 << 32);
        if (fastest / 100..=slowest).contains(&speed) {
            GIVEN.store(speed, Ordering::Relaxed);
        }
    }
}

/// Nanoseconds for each tick, times 2^32, since the kernel's clock and the counter were read together.
fn scale_since((start_ns, start_ticks): (u64, u64)) -> Option<u64> {
    let (end_ns, end_ticks) = paired();
    let ticks = end_ticks.saturating_sub(start_ticks);
    if ticks == 0 || end_ns <= start_ns {
        return None;
    }
    let scale = ((u128::from(end_ns - start_ns)) << 32) / u128::from(ticks);
    u64::try_from(scale).ok().filter(|scale| *scale > 0)
}

/// The kernel's clock and the counter at (nearly) the same moment: the closest of several tries, since a
/// pre-emption between the two reads would spoil the calibration.
fn paired() -> (u64, u64) {
    let mut best = (u64::MAX, 0, 0);
    for _ in 0..32 {
        let before = counter();
        let ns = kernel_ns();
        let after = counter();
        let width = after.saturating_sub(before);
        if width < best.0 {
            best = (width, ns, before + width / 2);
        }
    }
    (best.1, best.2)
}

fn kernel_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn counter_is_trusted() -> bool {
    cfg!(target_arch = "x86_64")
        && std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource")
            .is_ok_and(|source| source.trim() == "tsc")
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn counter() -> u64 {
    // SAFETY: RDTSC is available on every x86_64 processor and has no memory effects.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
fn counter() -> u64 {
    kernel_ns()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_follows_the_kernels() {
        let clock = Clock::get();
        let (clock_start, kernel_start) = (clock.now(), kernel_ns());
        while kernel_ns() - kernel_start < 50_000_000 {
            std::hint::spin_loop();
        }
        let (clock_took, kernel_took) = (clock.now() - clock_start, kernel_ns() - kernel_start);
        let ratio = clock_took as f64 / kernel_took as f64;
        assert!((0.99..1.01).contains(&ratio), "clock {clock_took} ns, kernel {kernel_took} ns");
    }

    #[test]
    fn a_speed_that_was_found_is_that_of_the_calibration() {
        let _ = Clock::speed();
        let began = kernel_ns();
        while kernel_ns() - began < 2 * CALIBRATION_NS {
            std::hint::spin_loop();
        }
        if !counter_is_trusted() {
            assert_eq!(Clock::speed(), None, "the kernel's clock has no speed");
            return;
        }
        let ratio = Clock::speed().unwrap() as f64 / Clock::get().scale as f64;
        assert!((0.99..1.01).contains(&ratio), "{ratio}");
    }

    #[test]
    fn a_speed_that_no_processor_has_is_not_taken() {
        for speed in [0, 1, u64::MAX] {
            Clock::adopt(speed);
            assert_eq!(GIVEN.load(Ordering::Relaxed), 0, "{speed}");
        }
    }

    #[test]
    fn the_clock_never_goes_back() {
        let clock = Clock::get();
        let mut last = clock.now();
        for _ in 0..100_000 {
            let now = clock.now();
            assert!(now >= last);
            last = now;
        }
    }
}
