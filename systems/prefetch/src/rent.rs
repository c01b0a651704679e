//! Ski rental: when misses without a pattern have cost what fetching their part of the file costs, fetch it.
//!
//! A file is divided into 64 regions. A region is worth fetching once it was missed in; the price of all such
//! regions, in what the program leaves of the device, is weighed against the time lost in misses so far, so the
//! device's time is bounded by a small multiple of the better of both choices (Karlin et al., "Competitive snoopy
//! caching", 1988), and a program that stays in a small part of a big file pays for that part only.

mod account;
mod regions;
mod width;

use account::{Credit, Loss};
use regions::Regions;
use width::{Followed, Width};

use crate::device::Device;
use crate::tuning::T;

/// A step of fetching that was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fetched {
    /// Its length, bytes.
    pub bytes: u64,
    /// How much of it had been cached, bytes.
    pub cached: u64,
    /// How long it took, ns.
    pub elapsed_ns: u64,
    /// What it took of processors that others waited for, ns.
    pub taken_ns: u64,
}

impl Fetched {
    /// How much of it had to come from the device, bytes.
    pub fn fresh(&self) -> u64 {
        self.bytes.saturating_sub(self.cached)
    }
}

/// What is fetched of a file, and what the misses have cost. Zeroes are a file without misses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rent {
    regions: Regions,
    loss: Loss,
    credit: Credit,
    width: Width,
    followed: Followed,
}

impl Rent {
    /// Whether an offset has been fetched.
    pub fn covers(&self, offset: u64, size: u64) -> bool {
        self.regions.covers(offset, size)
    }

    /// Notes a miss that no stream explains. Waits of several threads at a time beside a fetch are charged one by one, so
    /// that what they stake is, too.
    pub fn on_miss(&mut self, offset: u64, size: u64, elapsed_ns: u64, now_ns: u64) {
        self.regions.touch(offset, size);
        self.loss.note(elapsed_ns, now_ns);
        self.credit.stake(elapsed_ns);
    }

    /// Notes how long a miss took beside a running fetch, and how long misses take without one: when they wait
    /// behind the fetch, less of it is put before the device.
    pub fn on_wait(&mut self, elapsed_ns: u64, device: &Device) {
        let typical_ns = device.typical_ns();
        self.credit.charge(device.waited_ns(elapsed_ns));
        // As there: longer ones are a busy CPU.
        self.width.on_wait(elapsed_ns.min(2 * typical_ns), typical_ns);
    }

    /// Notes a read that found what had been fetched, which saved a wait of `typical_ns`.
    pub fn on_hit(&mut self, typical_ns: u64) {
        self.credit.earn(typical_ns / 2);
    }

    /// Misses since the last fetch was paid for.
    pub fn misses(&self) -> u32 {
        self.loss.misses()
    }

    /// Bytes of the regions that were missed in and not fetched.
    pub fn wanted_bytes(&self, size: u64) -> u64 {
        self.regions.wanted_bytes(size)
    }

    /// Whether the misses have cost enough.
    ///
    /// Rule: Ski rental.
    pub fn is_worth(&self, size: u64, device: &Device) -> bool {
        let wanted = self.wanted_bytes(size);
        wanted > 0
            && self.loss.misses() >= T::MISSES
            && self.credit.ns() > 0
            && device.fetch_ns(wanted) <= self.loss.weighed_ns().saturating_mul(T::PRICE)
    }

    /// Wants the whole file, whatever was missed.
    pub fn want_all(&mut self) {
        self.regions.touch_all();
        self.width.open();
    }

    /// Takes the next range to fetch: offset and length. `None` when nothing is wanted.
    pub fn claim(&mut self, size: u64, device: &Device) -> Option<(u64, u64)> {
        let range = self.regions.claim(size, device.fetch_step_bytes());
        match range {
            Some(_) => self.followed.begin(),
            None => self.loss.clear(),
        }
        range
    }

    /// Counts all that is wanted as fetched: observing. A file may be too huge to go through it in steps.
    pub fn fetch_nothing(&mut self) {
        self.regions.skip_all();
        self.loss.clear();
    }

    /// How many steps may be under way at a time.
    pub fn width(&self) -> usize {
        self.width.get()
    }

    /// Has a step that is done count for what fetching costs: it took so long, and so many bytes of it were cached.
    pub fn measure(&mut self, step: &Fetched, device: &Device) {
        let Fetched { bytes, cached, elapsed_ns, taken_ns } = *step;
        // Where processors are full the program's threads wait for this one, and in no single read can that be told.
        self.credit.charge_processors(taken_ns);
        // One whose last page was there already ends before the others came.
        if self.followed.end() && cached == 0 {
            device.learn_fetch(bytes, elapsed_ns);
        }
    }

    /// A step of so many bytes is done, of which some were not cached. Puts more before the device as long as nobody
    /// waits for it; `false`: going on would not pay.
    pub fn on_step(&mut self, size: u64, step: &Fetched, device: &Device) -> bool {
        self.width.on_step(step.fresh() > step.bytes / 2, device.fetch_width());
        // One account for all: who reads another file waits for this fetch too.
        self.credit.charge(device.fetching.take_charged());
        let lasts = self.credit.lasts();
        let left = device.fetch_ns(self.wanted_bytes(size));
        let pays = lasts && left <= self.loss.ns().saturating_mul(2 * T::PRICE);
        if !pays {
            self.stop();
        }
        pays
    }

    /// Stops; the next attempt must be paid for anew.
    pub fn stop(&mut self) {
        self.regions.stop();
        self.loss.halve();
        self.width.halve();
        self.followed = Followed::default();
    }

    /// Stops because the file is being written: writers wait for pages that are read, and nobody counts that.
    ///
    /// Rule: Writers.
    pub fn stop_for_writers(&mut self) {
        self.stop();
        self.loss.beware();
    }

    /// Whether everything was fetched.
    pub fn is_complete(&self) -> bool {
        self.regions.are_complete()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u64 = 64 << 20;

    fn step(bytes: u64) -> Fetched {
        Fetched { bytes, ..Fetched::default() }
    }

    #[test]
    fn misses_everywhere_buy_the_whole_file() {
        const SIZE: u64 = 256 << 20;
        let device = Device::new();
        let mut rent = Rent::default();
        let mut misses = 0u64;
        while !rent.is_worth(SIZE, &device) {
            rent.on_miss(misses * 7919 * 4096 % SIZE, SIZE, 1_000_000, (misses + 1) * 1_000_000);
            misses += 1;
        }
        // Half of 268 ms.
        assert!((130..140).contains(&misses), "{misses}");
        let mut bytes = 0;
        while let Some((offset, len)) = rent.claim(SIZE, &device) {
            assert!(offset + len <= SIZE);
            assert!(rent.covers(offset, SIZE));
            bytes += len;
            rent.on_hit(1_000_000);
            assert!(rent.on_step(SIZE, &step(len), &device));
        }
        assert_eq!(bytes, SIZE);
        assert!(rent.is_complete());
    }

    #[test]
    fn a_hot_corner_buys_the_corner() {
        let device = Device::new();
        let mut rent = Rent::default();
        for miss in 0..64 {
            rent.on_miss(miss % 3 * (1 << 20) + 5000, SIZE, 1_000_000, (miss + 1) * 1_000_000);
        }
        assert!(rent.is_worth(SIZE, &device));
        assert_eq!(rent.wanted_bytes(SIZE), 3 << 20);
        let mut bytes = 0;
        while let Some((_, len)) = rent.claim(SIZE, &device) {
            bytes += len;
        }
        assert_eq!(bytes, 3 << 20);
        assert!(!rent.covers(40 << 20, SIZE) && rent.covers(2 << 20, SIZE));
    }

    #[test]
    fn a_dear_device_stops_it() {
        let device = Device::new();
        let mut rent = Rent::default();
        (0..200).for_each(|miss| rent.on_miss(miss * 327_680, SIZE, 1_000_000, (miss + 1) * 1_000_000));
        assert!(rent.claim(SIZE, &device).is_some());
        device.learn_fetch(1 << 20, 100_000_000);
        assert!(rent.on_step(SIZE, &step(1 << 20), &device));
        (0..15).for_each(|_| device.learn_fetch(1 << 20, 100_000_000));
        assert!(!rent.on_step(SIZE, &step(1 << 20), &device));
    }

    #[test]
    fn misses_in_other_files_count_too() {
        let device = Device::new();
        device.learn_miss(1_000_000, 0);
        let mut rent = Rent::default();
        (0..200).for_each(|miss| rent.on_miss(miss * 327_680, SIZE, 1_000_000, (miss + 1) * 1_000_000));
        device.note_wait_beside(9_000_000);
        assert!(rent.claim(SIZE, &device).is_some() && rent.on_step(SIZE, &step(1 << 20), &device));
        assert!(device.fetching.begin());
        (0..200).for_each(|_| device.note_wait_beside(1_100_000));
        assert!(!rent.on_step(SIZE, &step(1 << 20), &device));
    }

    /// Misses of `count` ms; what they add to the credit, ns.
    fn credit_of(rent: &mut Rent, count: u64) -> i64 {
        let (before, begin_ns) = (rent.credit.ns(), rent.loss.until_ns);
        for miss in 1..=count {
            rent.on_miss(miss * 327_680 % SIZE, SIZE, 1 << 20, begin_ns + (miss << 20));
        }
        rent.credit.ns() - before
    }

    #[test]
    fn a_stake_that_is_lost_again_and_again_shrinks_until_hits_return_it() {
        let device = Device::new();
        device.learn_miss(1_000_000, 0);
        let mut rent = Rent::default();
        let full = credit_of(&mut rent, 256);
        for round in 1..8 {
            let taken_ns = u64::try_from(rent.credit.ns()).unwrap() + 1;
            assert!(rent.claim(SIZE, &device).is_some());
            let lost = Fetched { taken_ns, ..step(1 << 20) };
            rent.measure(&lost, &device);
            assert!(!rent.on_step(SIZE, &lost, &device), "round {round}");
            let part = credit_of(&mut rent, 256);
            assert_eq!(part, full >> round.min(4), "round {round}");
        }
        (0..64).for_each(|_| rent.on_hit(1_000_000));
        let lost = Fetched { taken_ns: 1 << 40, ..step(1 << 20) };
        rent.measure(&lost, &device);
        assert!(!rent.on_step(SIZE, &lost, &device));
        assert_eq!(credit_of(&mut rent, 256), full);
    }

    #[test]
    fn threads_that_wait_at_once_lose_less() {
        let mut rent = Rent::default();
        (0..100).for_each(|miss| rent.on_miss(0, SIZE, 1_000_000, 1_000_000 + miss));
        assert_eq!(rent.loss.ns(), (100 * 1_000_000 + 1_000_000) / 2);
        assert_eq!(rent.credit.ns(), (100 * 1_000_000 / T::STAKE) as i64);
    }

    #[test]
    fn a_file_that_is_written_is_dearer_each_time() {
        let device = Device::new();
        let (mut rent, mut now_ns, mut before) = (Rent::default(), 0, 0u64);
        for _ in 0..3 {
            let mut misses = 0;
            while !rent.is_worth(SIZE, &device) {
                now_ns += 1_000_000;
                rent.on_miss(misses * 7919 * 4096 % SIZE, SIZE, 1_000_000, now_ns);
                misses += 1;
                assert!(misses < 10_000);
            }
            // The least number of misses is what the first one waits for.
            assert!(before == u64::from(T::MISSES) || misses > before * 3 / 2, "{misses} after {before}");
            before = misses;
            assert!(rent.claim(SIZE, &device).is_some());
            rent.stop_for_writers();
        }
    }

    #[test]
    fn the_hugest_file_is_observed_at_once() {
        let mut rent = Rent::default();
        rent.want_all();
        rent.fetch_nothing();
        assert!(rent.is_complete() && rent.wanted_bytes(1 << 62) == 0);
    }

    #[test]
    fn odd_sizes_are_covered() {
        let device = Device::new();
        for size in [1u64, 4095, 4096, 262_145, 1_000_003, 64 * 4096 + 1] {
            let mut rent = Rent::default();
            rent.want_all();
            let mut end = 0;
            while let Some((offset, len)) = rent.claim(size, &device) {
                assert_eq!(offset, end, "size {size}");
                end = offset + len;
            }
            assert_eq!(end, size);
        }
    }
}
