//! The parts of a file: which were missed in, which were fetched, and where the fetch is.

use crate::PAGE;

/// A file in 64 regions. Zeroes are a file in which nothing was missed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Regions {
    /// Regions that were missed in.
    touched: u64,
    /// Regions that were fetched.
    fetched: u64,
    /// Whether a region is being fetched.
    running: bool,
    /// The region being fetched.
    region: u8,
    /// Up to where in the file, bytes.
    next: u64,
}

impl Regions {
    fn bytes(size: u64) -> u64 {
        size.div_ceil(64).next_multiple_of(PAGE).max(PAGE)
    }

    fn at(offset: u64, size: u64) -> u64 {
        (offset / Regions::bytes(size)).min(63)
    }

    /// Whether an offset has been fetched.
    pub(super) fn covers(&self, offset: u64, size: u64) -> bool {
        let region = Regions::at(offset, size);
        self.fetched >> region & 1 == 1 || (region == u64::from(self.region) && offset < self.next)
    }

    /// There was a miss. Misses in three quarters of the regions are misses everywhere.
    pub(super) fn touch(&mut self, offset: u64, size: u64) {
        self.touched |= 1 << Regions::at(offset, size);
        if self.touched.count_ones() >= 48 {
            self.touch_all();
        }
    }

    pub(super) fn touch_all(&mut self) {
        self.touched = u64::MAX;
    }

    /// Bytes of the regions that were missed in and not fetched.
    pub(super) fn wanted_bytes(&self, size: u64) -> u64 {
        let regions = u64::from((self.touched & !self.fetched).count_ones());
        (regions * Regions::bytes(size)).min(size)
    }

    /// Takes the next range to fetch, at most so many bytes: offset and length. `None` when nothing is wanted.
    pub(super) fn claim(&mut self, size: u64, step_bytes: u64) -> Option<(u64, u64)> {
        let region_bytes = Regions::bytes(size);
        for _ in 0..65 {
            let end = (u64::from(self.region) + 1).saturating_mul(region_bytes).min(size);
            if self.running && self.next < end {
                let range = (self.next, step_bytes.min(end - self.next));
                self.next += range.1;
                return Some(range);
            }
            if self.running {
                self.fetched |= 1 << self.region;
            }
            let wanted = self.touched & !self.fetched;
            self.running = wanted != 0;
            if wanted == 0 {
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

    pub(super) fn stop(&mut self) {
        self.running = false;
    }

    /// Counts all that is wanted as fetched.
    pub(super) fn skip_all(&mut self) {
        self.fetched |= self.touched;
        self.running = false;
    }

    pub(super) fn are_complete(&self) -> bool {
        self.fetched == u64::MAX
    }
}
