//! The clock of real targets: nanoseconds of `CLOCK_MONOTONIC`, read from the time-stamp counter where that is safe.
//!
//! A flowop costs one clock read (the end of one is the start of the next), and `clock_gettime` is 25-40 ns of the
//! 300 ns that a small cached read takes. Where the kernel itself trusts the counter (its clock source is `tsc`),
//! reading it directly takes about 10 ns.

use std::sync::OnceLock;
use std::time::Duration;

/// A monotonic clock, calibrated once for the process.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    base_ticks: u64,
    base_ns: u64,
    /// Nanoseconds for each tick, times 2^32; 0: read the kernel's clock.
    scale: u64,
}

impl Clock {
    /// The clock of this process; the first call takes about 20 ms where the counter is used.
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
        std::thread::sleep(Duration::from_millis(20));
        let (end_ns, end_ticks) = paired();
        let ticks = end_ticks.saturating_sub(start_ticks);
        if ticks == 0 || end_ns <= start_ns {
            return Clock::kernel();
        }
        let scale = ((u128::from(end_ns - start_ns)) << 32) / u128::from(ticks);
        match u64::try_from(scale) {
            Ok(scale) if scale > 0 => Clock { base_ticks: start_ticks, base_ns: start_ns, scale },
            _ => Clock::kernel(),
        }
    }
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
