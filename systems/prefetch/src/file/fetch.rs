//! Fetching the file, or the parts of it that were missed in.

use super::{Fetched, FileState, Look, Request};
use crate::course::Shape;
use crate::reason::Reason;
use crate::stream::Stream;
use crate::tuning::T;
use crate::{Budget, Device, Mode};

impl FileState {
    /// Weighs what misses without a pattern have cost against fetching their part of the file.
    pub(super) fn rent(&mut self, stream: &Stream, look: &Look) {
        let Look { ref read, covered, fetched, device, budget, mode } = *look;
        if mode == Mode::FetchAll && !self.fetching && !self.rent.is_complete() {
            self.rent.want_all();
            self.begin_fetch(device, budget, mode);
            return;
        }
        let ordered = stream.course.is_confirmed() && self.reason != Reason::ShortRuns;
        if !mode.rents() || covered || fetched || ordered || !read.is_slow() {
            return;
        }
        let elapsed_ns = read.elapsed_ns.unwrap_or(0);
        self.rent.on_miss(read.offset, self.size, elapsed_ns, read.now_ns);
        // A forward read may wait for the rest of the kernel's read-ahead only: that says nothing of the queue.
        if stream.course.shape != Shape::Forward {
            if self.fetching {
                self.rent.on_wait(elapsed_ns, device);
            } else {
                device.note_wait_beside(elapsed_ns);
            }
        }
        if self.fetching || self.rent.is_complete() || self.rent.misses() < T::MISSES {
            return;
        }
        self.reason = Reason::Paying;
        if elapsed_ns < T::BRIEF_NS && !self.rent.misses().is_multiple_of(8) {
            return;
        }
        if self.rent.is_worth(self.size, device) {
            self.begin_fetch(device, budget, mode);
        }
    }

    pub(super) fn begin_fetch(&mut self, device: &Device, budget: &Budget, mode: Mode) {
        // Where it fills half of what there is, it would push out what the program has read itself.
        let room = if mode == Mode::FetchAll { 1 } else { 2 };
        if !budget.fits(self.rent.wanted_bytes(self.size).saturating_mul(room)) {
            self.reason = Reason::NoMemory;
            // A worker that wakes looks at memory first; the next miss tries again.
            self.wants_worker = !budget.is_told();
            return;
        }
        if mode == Mode::Observe {
            self.rent.fetch_nothing();
            self.reason = Reason::Observing;
            return;
        }
        if !device.fetching.begin() {
            return;
        }
        self.fetching = true;
        self.wants_worker = true;
        self.reason = Reason::FetchingAll;
    }

    /// The next step of fetching the whole file, asked for at `now_ns`; [`FileState::fetched`] must follow it, for steps in
    /// their order.
    pub fn claim_fetch(&mut self, now_ns: u64, device: &Device, budget: &Budget) -> Option<Request> {
        if !self.fetching {
            return None;
        }
        let Some((offset, len)) = self.rent.claim(self.size, device) else {
            let all = self.rent.is_complete();
            self.end_fetch(if all { Reason::FetchedAll } else { Reason::Paying }, device);
            return None;
        };
        if !budget.take(len) {
            self.rent.stop();
            self.end_fetch(Reason::NoMemory, device);
            return None;
        }
        device.queue.ask(now_ns, len, &device.model());
        self.fetch_owed += len;
        self.counters.issued += len;
        Some(Request::covering(offset, len))
    }

    /// How many steps of [`FileState::claim_fetch`] may be under way at a time, at least one.
    pub fn fetch_width(&self) -> usize {
        self.rent.width()
    }

    /// When the next step is due after one that was asked for at a time, ns: those that are asked for together arrive
    /// together, and each read of the program that comes then waits for all of them.
    pub fn next_fetch_ns(&self, asked_ns: u64, device: &Device) -> u64 {
        let gap_ns = match self.rent.width() as u64 {
            0 | 1 => 0,
            width => device.latency_ns() * 3 / 4 / width,
        };
        asked_ns.saturating_add(gap_ns)
    }

    /// Tells of a step that is done. Stops when going on would not pay.
    pub fn fetched(&mut self, step: &Fetched, device: &Device, mode: Mode) {
        self.counters.redundant += step.cached;
        self.rent.measure(step, device);
        if self.fetching && mode != Mode::FetchAll && !self.rent.on_step(self.size, step, device) {
            self.end_fetch(Reason::Paying, device);
        }
    }

    /// Somebody is writing what a step was to fetch.
    pub fn fetch_meets_writers(&mut self, device: &Device, mode: Mode) {
        if self.fetching && mode != Mode::FetchAll {
            self.rent.stop_for_writers();
            self.end_fetch(Reason::Written, device);
        }
    }

    pub(super) fn end_fetch(&mut self, reason: Reason, device: &Device) {
        if core::mem::take(&mut self.fetching) {
            device.fetching.end();
        }
        self.reason = reason;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Memory;
    use crate::file::Read;

    #[test]
    fn a_fetch_is_begun_with_a_wake_and_seldom_wakes_again() {
        let (device, budget) = (Device::new(), Budget::new());
        budget.tell(&Memory { available: 8 << 30, ..Memory::default() });
        let mut file = FileState::new(64 << 20);
        let read = |file: &mut FileState, at: u64| {
            let offset = at * 7919 * 4096 % (64 << 20);
            let read = Read { offset, len: 4096, elapsed_ns: Some(1_000_000), now_ns: (at + 1) * 1_000_000 };
            file.on_read(&read, &device, &budget, Mode::Auto).wake
        };
        let begun = (0..10_000).find(|at| {
            let woken = read(&mut file, *at);
            assert_eq!(woken, file.is_fetching(), "read {at}");
            woken
        });
        let begun = begun.expect("misses all over the file buy it");
        let woken = (begun + 1..=begun + 640).filter(|at| read(&mut file, *at)).count();
        assert_eq!(woken, 10);
    }
}
