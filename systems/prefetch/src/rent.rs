//! Ski rental: when misses without a pattern have cost what fetching their part of the file costs, fetch it.
//!
//! A file is divided into 64 regions. A region is worth fetching once it was missed in; the price of all such
//! regions, in what the program leaves of the device, is weighed against the time lost in misses so far, so the
//! device's time is bounded by a small multiple of the better of both choices (Karlin et al., "Competitive snoopy
//! caching", 1988), and a program that stays in a small part of a big file pays for that part only.

use crate::PAGE;
use crate::device::Device;
use crate::tuning::Tuning;

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
    /// Regions that were missed in.
    touched: u64,
    /// Regions that were fetched.
    fetched: u64,
    /// Whether a region is being fetched.
    running: bool,
    /// The region being fetched.
    region: u8,
    /// Steps that may be under way at a time, less one.
    width: u8,
    /// Steps since the width changed.
    fine: u8,
    /// Steps that are under way.
    under_way: u8,
    /// Steps until the one ends that is followed, itself among them; 0 without one.
    follow: u8,
    /// Bytes that came since it began.
    follow_bytes: u64,
    /// Up to where in the file, bytes.
    next: u64,
    lost_ns: u64,
    lost_until_ns: u64,
    lost_misses: u32,
    /// How often somebody else was writing what was fetched: each time twice as much must have been lost before the next.
    wary: u8,
    spoiled: u32,
    hits: u32,
    /// A part of what misses cost and what hits saved, less what fetching made the misses wait, ns.
    credit_ns: i64,
    /// What hits gave of it since the credit was last used up, less what misses gave, ns.
    returned_ns: i64,
    /// How often in a row it was used up without that hits had given most of it: each time the stake is halved.
    losses: u8,
    /// How long misses take beside the fetch, the latest ones counting most, ns; 0 before the first.
    wait_ns: u64,
    /// Bytes fetched since the program's latest read of the file.
    idle_bytes: u64,
}

impl Rent {
    fn region_bytes(size: u64) -> u64 {
        size.div_ceil(64).next_multiple_of(PAGE).max(PAGE)
    }

    fn region_of(offset: u64, size: u64) -> u64 {
        (offset / Rent::region_bytes(size)).min(63)
    }

    /// Whether an offset has been fetched.
    pub fn covers(&self, offset: u64, size: u64) -> bool {
        let region = Rent::region_of(offset, size);
        self.fetched >> region & 1 == 1 || (region == u64::from(self.region) && offset < self.next)
    }

    /// Notes a miss that no stream explains. What misses of several threads at a time cost is between the time of one of
    /// them and the sum: the mean is taken. Their waits beside a fetch are charged one by one, so that they are here too.
    pub fn on_miss(&mut self, offset: u64, size: u64, elapsed_ns: u64, now_ns: u64, tuning: &Tuning) {
        self.touched |= 1 << Rent::region_of(offset, size);
        if self.touched.count_ones() >= 48 {
            self.touched = u64::MAX;
        }
        let lost = elapsed_ns.min(now_ns.saturating_sub(self.lost_until_ns));
        self.lost_ns = self.lost_ns.saturating_add(lost / 2 + elapsed_ns / 2);
        let stake_ns = elapsed_ns / (tuning.stake << self.losses);
        self.credit_ns = self.credit_ns.saturating_add_unsigned(stake_ns);
        self.returned_ns = self.returned_ns.saturating_sub_unsigned(stake_ns);
        self.lost_until_ns = self.lost_until_ns.max(now_ns);
        self.lost_misses = self.lost_misses.saturating_add(1);
        self.idle_bytes = 0;
    }

    /// Notes how long a miss took beside a running fetch, and how long misses take without one: when they wait
    /// behind the fetch, less of it is put before the device.
    pub fn on_wait(&mut self, elapsed_ns: u64, device: &Device) {
        let typical_ns = device.typical_ns();
        self.credit_ns = self.credit_ns.saturating_sub(device.waited_ns(elapsed_ns));
        // As there: longer ones are a busy CPU.
        let elapsed_ns = elapsed_ns.min(2 * typical_ns);
        self.wait_ns = match self.wait_ns {
            0 => typical_ns - typical_ns / 8 + elapsed_ns / 8,
            known => known - known / 8 + elapsed_ns / 8,
        };
        if self.wait_ns > typical_ns + typical_ns / 8 + 20_000 {
            self.width -= self.width.div_ceil(4);
            self.fine = 0;
            self.wait_ns = 0;
        } else if elapsed_ns > typical_ns + typical_ns / 4 + 50_000 {
            // Behind two steps and more: the slowest hundredth of the reads is not to be made of these.
            self.width = self.width.saturating_sub(1);
            self.fine = 0;
        }
    }

    /// Notes a read that found what had been fetched, which saved a wait of `typical_ns`.
    pub fn on_hit(&mut self, typical_ns: u64) {
        self.hits = self.hits.saturating_add(1);
        self.credit_ns = self.credit_ns.saturating_add_unsigned(typical_ns / 2);
        self.returned_ns = self.returned_ns.saturating_add_unsigned(typical_ns / 2);
        self.idle_bytes = 0;
    }

    /// Notes a read of a fetched region that had to wait: some are early, many were evicted.
    pub fn on_spoiled(&mut self) {
        self.spoiled = self.spoiled.saturating_add(1);
        self.idle_bytes = 0;
    }

    /// Whether what is fetched does not stay.
    fn is_spoiled(&self, tuning: &Tuning) -> bool {
        u64::from(self.spoiled) > tuning.sample + u64::from(self.hits) / 8
    }

    /// Misses since the last fetch was paid for.
    pub fn misses(&self) -> u32 {
        self.lost_misses
    }

    /// Bytes of the regions that were missed in and not fetched.
    pub fn wanted_bytes(&self, size: u64) -> u64 {
        let regions = u64::from((self.touched & !self.fetched).count_ones());
        (regions * Rent::region_bytes(size)).min(size)
    }

    /// Whether the misses have cost enough.
    ///
    /// Rule: Ski rental.
    pub fn is_worth(&self, size: u64, device: &Device) -> bool {
        let wanted = self.wanted_bytes(size);
        wanted > 0
            && self.lost_misses >= device.tuning().misses
            && self.credit_ns > 0
            && !self.is_spoiled(device.tuning())
            && device.fetch_ns(wanted) <= (self.lost_ns >> self.wary).saturating_mul(device.tuning().price)
    }

    /// Wants the whole file, whatever was missed.
    pub fn want_all(&mut self) {
        self.touched = u64::MAX;
        self.width = 16;
    }

    /// Takes the next range to fetch: offset and length. `None` when nothing is wanted.
    pub fn claim(&mut self, size: u64, device: &Device) -> Option<(u64, u64)> {
        let region_bytes = Rent::region_bytes(size);
        for _ in 0..65 {
            let end = (u64::from(self.region) + 1).saturating_mul(region_bytes).min(size);
            if self.running && self.next < end {
                let range = (self.next, device.fetch_step_bytes().min(end - self.next));
                self.next += range.1;
                self.under_way = self.under_way.saturating_add(1);
                if self.follow == 0 {
                    self.follow = self.under_way;
                    self.follow_bytes = 0;
                }
                return Some(range);
            }
            if self.running {
                self.fetched |= 1 << self.region;
            }
            let wanted = self.touched & !self.fetched;
            self.running = wanted != 0;
            if wanted == 0 {
                self.lost_ns = 0;
                self.lost_misses = 0;
                return None;
            }
            // Upwards from where it was, then from the beginning.
            let above = wanted & (u64::MAX << self.region);
            let region = if above != 0 { above } else { wanted }.trailing_zeros() as u8;
            // Where it stopped it goes on.
            if region != self.region || self.next >= end {
                self.next = u64::from(region) * region_bytes;
            }
            self.region = region;
        }
        None
    }

    /// Counts all that is wanted as fetched: observing. A file may be too huge to go through it in steps.
    pub fn fetch_nothing(&mut self) {
        self.fetched |= self.touched;
        self.running = false;
        self.lost_ns = 0;
        self.lost_misses = 0;
    }

    /// How many steps may be under way at a time.
    pub fn width(&self) -> usize {
        usize::from(self.width) + 1
    }

    /// Has a step that is done count for what fetching costs: it took so long, and so many bytes of it were cached.
    pub fn measure(&mut self, step: &Fetched, device: &Device) {
        let Fetched { bytes, cached, elapsed_ns, taken_ns } = *step;
        // Where processors are full the program's threads wait for this one, and in no single read can that be told.
        self.credit_ns = self.credit_ns.saturating_sub_unsigned(taken_ns);
        device.note_step(elapsed_ns);
        self.under_way = self.under_way.saturating_sub(1);
        self.follow_bytes = self.follow_bytes.saturating_add(step.fresh());
        if self.follow != 1 {
            self.follow = self.follow.saturating_sub(1);
            return;
        }
        self.follow = 0;
        // One whose last page was there already ends before the others came.
        if cached == 0 {
            device.learn_fetch(self.follow_bytes, bytes, elapsed_ns);
        }
    }

    /// A step of so many bytes is done, of which some were not cached. Puts more before the device as long as nobody
    /// waits for it; `false`: going on would not pay.
    pub fn on_step(&mut self, size: u64, step: &Fetched, device: &Device) -> bool {
        let bytes = step.bytes;
        self.idle_bytes = self.idle_bytes.saturating_add(bytes);
        // What was there already says nothing of what the device bears.
        self.fine = self.fine.saturating_add(u8::from(step.fresh() > bytes / 2));
        if usize::from(self.fine) > 2 * self.width() && self.width() < device.fetch_width() {
            self.width += 1;
            self.fine = 0;
        }
        // One account for all: who reads another file waits for this fetch too.
        self.credit_ns = self.credit_ns.saturating_sub(device.take_wait_beside());
        if self.credit_ns < 0 {
            self.losses = if self.returned_ns > 0 { 0 } else { (self.losses + 1).min(4) };
            self.returned_ns = 0;
        }
        let left = device.fetch_ns(self.wanted_bytes(size));
        let pays = left <= self.lost_ns.saturating_mul(2 * device.tuning().price)
            && self.idle_bytes < device.tuning().depth_bytes;
        let pays = pays && self.credit_ns >= 0 && !self.is_spoiled(device.tuning());
        if !pays {
            self.stop();
        }
        pays
    }

    /// Stops; the next attempt must be paid for anew.
    pub fn stop(&mut self) {
        self.running = false;
        self.lost_ns /= 2;
        self.lost_misses = 0;
        self.width /= 2;
        (self.under_way, self.follow) = (0, 0);
        self.wait_ns = 0;
        self.idle_bytes = 0;
    }

    /// Stops because the file is being written: writers wait for pages that are read, and nobody counts that.
    ///
    /// Rule: Writers.
    pub fn stop_for_writers(&mut self) {
        self.stop();
        self.lost_ns = 0;
        self.wary = (self.wary + 1).min(16);
    }

    /// Whether everything was fetched.
    pub fn is_complete(&self) -> bool {
        self.fetched == u64::MAX
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
            rent.on_miss(
                misses * 7919 * 4096 % SIZE,
                SIZE,
                1_000_000,
                (misses + 1) * 1_000_000,
                &Tuning::STANDARD,
            );
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
            rent.on_miss(
                miss % 3 * (1 << 20) + 5000,
                SIZE,
                1_000_000,
                (miss + 1) * 1_000_000,
                &Tuning::STANDARD,
            );
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
        (0..200).for_each(|miss| {
            rent.on_miss(miss * 327_680, SIZE, 1_000_000, (miss + 1) * 1_000_000, &Tuning::STANDARD)
        });
        assert!(rent.claim(SIZE, &device).is_some());
        device.learn_fetch(1 << 20, 1 << 20, 100_000_000);
        assert!(rent.on_step(SIZE, &step(1 << 20), &device));
        (0..15).for_each(|_| device.learn_fetch(1 << 20, 1 << 20, 100_000_000));
        assert!(!rent.on_step(SIZE, &step(1 << 20), &device));
    }

    #[test]
    fn misses_in_other_files_count_too() {
        let device = Device::new();
        device.learn_miss(1_000_000, 0);
        let mut rent = Rent::default();
        (0..200).for_each(|miss| {
            rent.on_miss(miss * 327_680, SIZE, 1_000_000, (miss + 1) * 1_000_000, &Tuning::STANDARD)
        });
        device.note_wait_beside(9_000_000);
        assert!(rent.claim(SIZE, &device).is_some() && rent.on_step(SIZE, &step(1 << 20), &device));
        assert!(device.fetch_begins());
        (0..200).for_each(|_| device.note_wait_beside(1_100_000));
        assert!(!rent.on_step(SIZE, &step(1 << 20), &device));
    }

    /// Misses of `count` ms; what they add to the credit, ns.
    fn credit_of(rent: &mut Rent, count: u64) -> i64 {
        let (before, begin_ns) = (rent.credit_ns, rent.lost_until_ns);
        for miss in 1..=count {
            rent.on_miss(miss * 327_680 % SIZE, SIZE, 1 << 20, begin_ns + (miss << 20), &Tuning::STANDARD);
        }
        rent.credit_ns - before
    }

    #[test]
    fn a_stake_that_is_lost_again_and_again_shrinks_until_hits_return_it() {
        let device = Device::new();
        device.learn_miss(1_000_000, 0);
        let mut rent = Rent::default();
        let full = credit_of(&mut rent, 256);
        for round in 1..8 {
            let taken_ns = u64::try_from(rent.credit_ns).unwrap() + 1;
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
        (0..100).for_each(|miss| rent.on_miss(0, SIZE, 1_000_000, 1_000_000 + miss, &Tuning::STANDARD));
        assert_eq!(rent.lost_ns, (100 * 1_000_000 + 1_000_000) / 2);
        assert_eq!(rent.credit_ns, (100 * 1_000_000 / Tuning::STANDARD.stake) as i64);
    }

    #[test]
    fn a_file_that_is_written_is_dearer_each_time() {
        const ONE: Tuning = Tuning { misses: 1, ..Tuning::STANDARD };
        let device = Device::with(&ONE);
        let (mut rent, mut now_ns, mut before) = (Rent::default(), 0, 0u64);
        for _ in 0..3 {
            let mut misses = 0;
            while !rent.is_worth(SIZE, &device) {
                now_ns += 1_000_000;
                rent.on_miss(misses * 7919 * 4096 % SIZE, SIZE, 1_000_000, now_ns, &Tuning::STANDARD);
                misses += 1;
                assert!(misses < 10_000);
            }
            assert!(misses > before * 3 / 2, "{misses} after {before}");
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
