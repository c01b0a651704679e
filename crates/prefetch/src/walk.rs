//! Directory order: how far a walker may run ahead of a program that opens one file after another.
//!
//! A program that opens files in the order of their directory (grep -r, tar, rsync, git) is followed by a walker
//! that reads the same directories in the same order. This is its flow control, without any name in it: the
//! shell says when a walked file was opened by the program.

/// Opens in directory order that confirm a walk.
pub const CONFIRM: u32 = 3;
/// Files a walker is first allowed ahead.
const WINDOW_FIRST: u32 = 16;
/// Files a walker is ever allowed ahead.
const WINDOW_MAX: u32 = 1024;
/// Bytes a walker is ever allowed ahead.
const BYTES_MAX: u64 = 64 << 20;
/// Walked files without one that was opened: the program does something else.
const PATIENCE: u32 = 256;

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
    ahead_bytes: u64,
    walked: u32,
    used: u32,
    cached_row: u32,
    since_use: u32,
}

impl Walk {
    /// A walk that was just confirmed.
    pub fn begin() -> Walk {
        Walk { window: WINDOW_FIRST, ..Walk::default() }
    }

    /// The walker has asked for a file of so many bytes; `cached`: all of it was there.
    pub fn on_fetched(&mut self, bytes: u64, cached: bool) {
        self.walked += 1;
        self.since_use += 1;
        self.ahead_files += 1;
        self.ahead_bytes += bytes;
        self.cached_row = if cached { self.cached_row + 1 } else { 0 };
    }

    /// The program opened a walked file of so many bytes: the window doubles with each window of uses.
    pub fn on_used(&mut self, bytes: u64) {
        self.used += 1;
        self.since_use = 0;
        self.ahead_files = self.ahead_files.saturating_sub(1);
        self.ahead_bytes = self.ahead_bytes.saturating_sub(bytes);
        self.window = (self.window + 1 + self.window / 16).min(WINDOW_MAX);
    }

    /// The program has passed files that it did not open: they are waste, the window shrinks.
    pub fn on_passed(&mut self, files: u32, bytes: u64) {
        self.ahead_files = self.ahead_files.saturating_sub(files);
        self.ahead_bytes = self.ahead_bytes.saturating_sub(bytes);
        self.window = (self.window - self.window / 4).max(WINDOW_FIRST);
    }

    /// Whether to go on.
    pub fn pace(&self) -> Pace {
        if self.cached_row >= 16 {
            Pace::Cached
        } else if self.since_use >= PATIENCE.max(self.window) {
            Pace::Useless
        } else if self.ahead_files >= self.window || self.ahead_bytes >= BYTES_MAX {
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

    #[test]
    fn the_window_opens_with_use() {
        let mut walk = Walk::begin();
        let mut ahead_most = 0;
        let mut ahead = 0;
        for _ in 0..500 {
            while walk.pace() == Pace::Go {
                walk.on_fetched(10_000, false);
                ahead += 1;
            }
            assert_eq!(walk.pace(), Pace::Wait);
            ahead_most = ahead_most.max(ahead);
            walk.on_used(10_000);
            ahead -= 1;
        }
        assert!((200..=WINDOW_MAX).contains(&ahead_most), "{ahead_most}");
    }

    #[test]
    fn a_hot_tree_stops_the_walk_at_once() {
        let mut walk = Walk::begin();
        (0..16).for_each(|_| walk.on_fetched(10_000, true));
        assert_eq!(walk.pace(), Pace::Cached);
    }

    #[test]
    fn a_program_that_opens_nothing_more_costs_one_window() {
        let mut walk = Walk::begin();
        let mut fetched = 0;
        while walk.pace() == Pace::Go {
            walk.on_fetched(10_000, false);
            fetched += 1;
        }
        assert_eq!(fetched, WINDOW_FIRST);
    }

    #[test]
    fn big_files_are_bounded_by_bytes() {
        let mut walk = Walk::begin();
        walk.on_fetched(BYTES_MAX, false);
        assert_eq!(walk.pace(), Pace::Wait);
        walk.on_used(BYTES_MAX);
        assert_eq!(walk.pace(), Pace::Go);
        for _ in 0..PATIENCE {
            walk.on_fetched(1, false);
            walk.on_passed(1, 1);
        }
        assert_eq!(walk.pace(), Pace::Useless);
    }
}
