//! Whether fetching numbered files in their order pays: the rate at which the program reads them through, with it and
//! without.
//!
//! Threads that go through a folder each may keep the device busy by themselves: there is nothing to gain then, and what
//! is fetched for one makes the others wait. All series of a process are judged together, since they share the device.

use crate::experiment::{Experiment, Terms, Verdict};
use crate::model::rate;
use crate::tuning::T;

/// The comparison.
#[derive(Debug)]
pub struct Order {
    fetching: bool,
    since_ns: u64,
    files: u32,
    bytes: u64,
    /// When the first files of several had been left, ns, and their bytes.
    begun: (u64, u64),
    /// Files to be left before this measurement begins.
    skip: u32,
    /// Files after which it ends.
    need: u32,
    /// Rates without and with, bytes/s; 0 while unknown.
    without: u64,
    with: u64,
    /// Where it gains nothing it rests for some files.
    rests: Experiment,
}

impl Default for Order {
    fn default() -> Order {
        Order::new()
    }
}

impl Order {
    /// Nothing was read yet.
    pub const fn new() -> Order {
        Order {
            fetching: false,
            since_ns: 0,
            files: 0,
            bytes: 0,
            begun: (0, 0),
            skip: 0,
            need: 2,
            without: 0,
            with: 0,
            rests: Experiment::new(Terms { losses: 1, least: 2 * T::SAMPLE, most: T::REST_READS as u64 }),
        }
    }

    /// A numbered file was opened.
    pub fn on_open(&mut self, now_ns: u64) {
        if self.since_ns == 0 {
            self.since_ns = now_ns;
        }
    }

    /// One was left after so many bytes were read.
    pub fn on_left(&mut self, bytes: u64, now_ns: u64) {
        if self.skip > 0 {
            self.skip -= 1;
            if self.skip == 0 {
                self.measure(now_ns, self.need);
            }
            return;
        }
        self.files = self.files.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes);
        // Where several series are read at a time, the rate is that of eight files after the first four: those were all
        // begun together, while nothing was computed, and the rate was lower.
        if self.files == 4 {
            self.begun = (now_ns, self.bytes);
        }
    }

    /// Whether to fetch what comes next, on a device of so many bytes/s; `several`: more than one series is being read.
    /// Those are left alone where they keep the device busy for half of the time, as forward streams are.
    ///
    /// Rule: Numbered files.
    pub fn wants(&mut self, now_ns: u64, several: bool, full_rate: u64) -> bool {
        let later = several && !self.fetching;
        let least = if later { 4 + 8 } else { 2 };
        let (since_ns, bytes, files) = match later {
            true => (self.begun.0, self.bytes.saturating_sub(self.begun.1), self.files.saturating_sub(4)),
            false => (self.since_ns, self.bytes, self.files),
        };
        let elapsed_ns = now_ns.saturating_sub(since_ns).max(1);
        let due = self.skip == 0 && self.files >= self.need.max(least);
        if !due || self.fetching && elapsed_ns < 5 * T::RATE_NS {
            return self.fetching;
        }
        let per_second = |bytes| rate(bytes, elapsed_ns);
        // Opening a file costs as much as some bytes: of small files that is most of it.
        let rate = per_second(bytes.saturating_add(T::REQUEST_BYTES * u64::from(files)));
        if self.fetching {
            self.with = rate;
            if rate >= self.without / 20 * 21 {
                // Half as much again settles it for longer.
                let clear = rate / 3 >= self.without / 2;
                let need =
                    if clear { self.need.saturating_mul(2).min(T::REST_READS) } else { T::SAMPLE as u32 };
                self.measure(now_ns, need);
            } else {
                self.fetching = false;
                let mean = (self.bytes / u64::from(self.files.max(1))).max(1);
                // What may have been fetched must be used up before the rate without it can be measured.
                self.skip = (T::DEPTH_BYTES / 2 / mean).clamp(4, 64) as u32;
                self.need = T::SAMPLE as u32 / 2;
            }
        } else if several && per_second(bytes) >= full_rate / 2 || self.with > 0 && self.with < rate {
            let rest = self.rests.rest(0) as u32;
            self.with = 0;
            self.measure(now_ns, rest);
        } else {
            if self.with > 0 && self.with / 20 >= rate / 16 {
                self.rests.learn(Verdict::Gain, 0);
            }
            self.fetching = true;
            self.without = rate;
            self.measure(now_ns, T::SAMPLE as u32);
        }
        self.fetching
    }

    /// Whether what was fetched before it was held back is still being used up.
    pub fn is_settling(&self) -> bool {
        self.skip > 0
    }

    fn measure(&mut self, now_ns: u64, need: u32) {
        self.since_ns = now_ns;
        self.files = 0;
        self.bytes = 0;
        self.need = need;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Reads files of a MiB, each in so many ns alone and with fetching: how many of them while it was fetched.
    fn read(order: &mut Order, files: u32, several: bool, alone_ns: u64, with_ns: u64) -> u32 {
        let mut now_ns = order.since_ns.max(1);
        let mut fetched = 0;
        for _ in 0..files {
            order.on_open(now_ns);
            let with = order.wants(now_ns, several, 1_000_000_000);
            fetched += u32::from(with);
            now_ns += if with { with_ns } else { alone_ns };
            order.on_left(MIB, now_ns);
        }
        fetched
    }

    #[test]
    fn what_gains_goes_on() {
        let fetched = read(&mut Order::new(), 1000, false, 3_000_000, 1_000_000);
        assert_eq!(fetched, 998, "all but the two that confirm");
    }

    #[test]
    fn what_loses_rests_longer_each_time() {
        let fetched = read(&mut Order::new(), 2000, false, 3_000_000, 3_300_000);
        assert!((16..150).contains(&fetched), "{fetched}");
        let again = read(&mut Order::new(), 4000, false, 3_000_000, 3_300_000);
        assert!(again < fetched + 40, "{fetched} {again}");
    }

    #[test]
    fn several_that_keep_the_device_busy_are_left_alone() {
        assert_eq!(read(&mut Order::new(), 1000, true, 1_400_000, 1_000_000), 0);
        // One reader leaves it idle whenever it computes.
        assert!(read(&mut Order::new(), 1000, false, 1_400_000, 1_000_000) > 900);
        assert!(read(&mut Order::new(), 1000, true, 3_000_000, 1_000_000) > 980);
    }

    #[test]
    fn the_first_files_of_several_do_not_count() {
        let mut order = Order::new();
        order.on_open(1_000_000);
        // All four wait for each other, then the device never rests.
        for n in 0..64u64 {
            let now_ns = 1_000_000 + if n < 4 { 20_000_000 } else { 20_000_000 + n * 1_500_000 };
            order.on_left(MIB, now_ns);
            assert!(!order.wants(now_ns, true, 1_000_000_000), "{n}");
        }
    }

    #[test]
    fn a_rate_that_fell_by_itself_costs_one_comparison() {
        let mut order = Order::new();
        read(&mut order, 500, false, 3_000_000, 1_000_000);
        let fetched = read(&mut order, 4000, false, 9_000_000, 4_000_000);
        assert!(fetched > 3900, "{fetched}");
    }

    #[test]
    fn no_time_and_no_bytes_are_no_panic() {
        let mut order = Order::new();
        for _ in 0..100 {
            order.on_left(0, 0);
            order.wants(0, true, 0);
        }
        order.on_left(u64::MAX, u64::MAX);
        order.on_left(u64::MAX, u64::MAX);
        order.wants(u64::MAX, true, u64::MAX);
    }
}
