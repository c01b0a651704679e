//! Directory order: how far a walker may run ahead of a program that opens one file after another.
//!
//! A program that opens files in the order of their directory (grep -r, tar, rsync, git) is followed by a walker
//! that reads the same directories in the same order. This is its flow control, without any name in it: the
//! shell says when a walked file was opened by the program. What it has asked for and the program has not opened
//! comes out of the memory budget that it shares with everything else that is prefetched.

use crate::budget::{Budget, Owed};
use crate::tuning::T;

/// Opens in directory order that confirm a walk.
pub const CONFIRM: u32 = 3;
/// Bytes a walker is ever allowed ahead.
pub const BYTES_MAX: u64 = 2 * T::DEPTH_BYTES;
/// Of a big file only the beginning is fetched, bytes.
pub const FILE_BYTES_MAX: u64 = 8 * T::RAMP_BYTES;

/// Whether, and why not, a walker goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// Fetch the next file.
    Go,
    /// Far enough ahead: wait for the program.
    Wait,
    /// Everything is in the cache already.
    Cached,
    /// The program opens other files.
    Useless,
}

/// The state of one walk.
#[derive(Debug, Clone, Copy, Default)]
pub struct Walk {
    window: u32,
    ahead_files: u32,
    ahead: Owed,
    walked: u32,
    used: u32,
    cached_row: u32,
    since_use: u32,
}

impl Walk {
    /// A walk that was just confirmed.
    pub fn begin() -> Walk {
        Walk { window: T::SAMPLE as u32, ..Walk::default() }
    }

    /// Takes the bytes of a file out of the budget before they are asked for; `false`: there is no room.
    pub fn take(&mut self, bytes: u64, budget: &Budget) -> bool {
        self.ahead.take(bytes, budget)
    }

    /// The walker has gone past a file; `cached`: all of it was there.
    pub fn on_fetched(&mut self, cached: bool) {
        self.walked += 1;
        self.since_use += 1;
        self.ahead_files += 1;
        self.cached_row = if cached { self.cached_row + 1 } else { 0 };
    }

    /// The program opened a walked file of so many bytes: the window doubles with each window of uses.
    pub fn on_used(&mut self, bytes: u64, budget: &Budget) {
        self.used += 1;
        self.since_use = 0;
        self.ahead_files = self.ahead_files.saturating_sub(1);
        self.ahead.give(bytes, budget);
        if self.ahead_files == 0 {
            self.ahead.give_all(budget);
        }
        self.window = (self.window + 1 + self.window / 16).min(64 * T::SAMPLE as u32);
    }

    /// It is over: what was not opened is nobody's any more.
    pub fn end(&mut self, budget: &Budget) {
        self.ahead.give_all(budget);
        self.ahead_files = 0;
    }

    /// Bytes asked for of files that were not opened yet.
    pub fn ahead_bytes(&self) -> u64 {
        self.ahead.bytes()
    }

    /// Whether to go on, while it and all others that fetch files in their order may have `bytes_max` ahead, and `others`
    /// of them are.
    ///
    /// Rule: Directories.
    pub fn pace(&self, bytes_max: u64, others: u64, budget: &Budget) -> Pace {
        if self.cached_row >= 16 {
            Pace::Cached
        } else if self.since_use >= (T::SAMPLE as u32).pow(2).max(self.window) {
            Pace::Useless
        } else if self.ahead_files >= self.window
            || self.ahead.bytes().saturating_add(others) >= bytes_max
            || !budget.fits(FILE_BYTES_MAX)
        {
            Pace::Wait
        } else {
            Pace::Go
        }
    }

    /// Files walked, files of them that were opened.
    pub fn counts(&self) -> (u32, u32) {
        (self.walked, self.used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Memory;

    const FILE: u64 = 10_000;

    fn fetch(walk: &mut Walk, bytes: u64, budget: &Budget) {
        assert!(walk.take(bytes, budget));
        walk.on_fetched(false);
    }

    #[test]
    fn the_window_opens_with_use() {
        let (mut walk, budget) = (Walk::begin(), Budget::new());
        let mut ahead_most = 0;
        let mut ahead = 0;
        for _ in 0..500 {
            while walk.pace(BYTES_MAX, 0, &budget) == Pace::Go {
                fetch(&mut walk, FILE, &budget);
                ahead += 1;
            }
            assert_eq!(walk.pace(BYTES_MAX, 0, &budget), Pace::Wait);
            ahead_most = ahead_most.max(ahead);
            walk.on_used(FILE, &budget);
            ahead -= 1;
        }
        assert!((200..=64 * T::SAMPLE as u32).contains(&ahead_most), "{ahead_most}");
        assert_eq!(budget.outstanding(), u64::from(ahead) * FILE);
        walk.end(&budget);
        assert_eq!(budget.outstanding(), 0);
    }

    #[test]
    fn a_hot_tree_stops_the_walk_at_once() {
        let (mut walk, budget) = (Walk::begin(), Budget::new());
        (0..16).for_each(|_| walk.on_fetched(true));
        assert_eq!(walk.pace(BYTES_MAX, 0, &budget), Pace::Cached);
    }

    #[test]
    fn a_program_that_opens_nothing_more_costs_one_window() {
        let (mut walk, budget) = (Walk::begin(), Budget::new());
        let mut fetched = 0;
        while walk.pace(BYTES_MAX, 0, &budget) == Pace::Go {
            fetch(&mut walk, FILE, &budget);
            fetched += 1;
        }
        assert_eq!(fetched, T::SAMPLE as u32);
    }

    #[test]
    fn big_files_are_bounded_by_bytes() {
        let (mut walk, budget) = (Walk::begin(), Budget::new());
        budget.tell(&Memory { available: 1 << 30, ..Memory::default() });
        fetch(&mut walk, BYTES_MAX, &budget);
        assert_eq!(walk.pace(BYTES_MAX, 0, &budget), Pace::Wait);
        walk.on_used(BYTES_MAX, &budget);
        assert_eq!(walk.pace(BYTES_MAX, 0, &budget), Pace::Go);
        for _ in 0..(T::SAMPLE as u32).pow(2) {
            fetch(&mut walk, 1, &budget);
            walk.ahead_files -= 1;
        }
        assert_eq!(walk.pace(BYTES_MAX, 0, &budget), Pace::Useless);
    }

    /// A program that compresses: of each file that it reads it writes half, which stays dirty. What it has not read
    /// must stay within what its own writes leave of its memory.
    #[test]
    fn what_the_program_writes_is_not_fetched_over() {
        let (mut walk, budget) = (Walk::begin(), Budget::new());
        let mut other = Owed::NOTHING;
        let mut memory = Memory { available: 8 << 30, limit: Some(100 << 20), ..Memory::default() };
        budget.tell(&memory);
        let (mut waits, mut most) = (0, 0);
        for read in 0..150u64 {
            while walk.pace(BYTES_MAX, 0, &budget) == Pace::Go {
                fetch(&mut walk, FILE_BYTES_MAX, &budget);
                assert!(walk.ahead_bytes() <= budget.total(), "{read}");
            }
            most = most.max(walk.ahead_bytes());
            // Another holder gets nothing while the two of them have more than there is.
            if other.take(1 << 20, &budget) {
                assert!(budget.outstanding() <= budget.total());
                other.give_all(&budget);
            } else {
                waits += 1;
            }
            walk.on_used(FILE_BYTES_MAX, &budget);
            memory.pinned += FILE_BYTES_MAX / 2;
            budget.tell(&memory);
        }
        assert!(most > 30 << 20 && waits > 0, "{most} {waits}");
        assert!(walk.ahead_bytes() <= (100 - 75) << 20, "{}", walk.ahead_bytes());
    }
}
