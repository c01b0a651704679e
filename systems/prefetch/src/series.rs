//! Numbered files opened one after another: recognises them, and says how far ahead they may be fetched.
//!
//! [`Opens`] sees the names that a program opens, and how much it read of each; [`Chase`] is the flow control of
//! whoever fetches the files that come next. Neither knows of paths, descriptors or time.

use crate::experiment::{Experiment, Terms, Verdict};
use crate::names::{NAME_MAX, successor};
use crate::tuning::T;

/// Series that are told apart.
pub const SERIES: usize = 4;
/// Opens that each followed from the two before: so many confirm a series.
pub const CONFIRM: u32 = 1;
/// Files of it that were read through: the least before anything is fetched.
pub const THROUGH: u32 = 2;
/// Files that are ever fetched ahead of a series.
pub const AHEAD_MAX: usize = 64;

/// A file name of at most [`NAME_MAX`] bytes. Plain data: zeroes are an empty name.
#[derive(Debug, Clone, Copy)]
pub struct Name {
    bytes: [u8; NAME_MAX],
    len: u8,
}

impl Name {
    /// No name.
    pub const EMPTY: Name = Name { bytes: [0; NAME_MAX], len: 0 };

    /// Of its bytes; `None` when they are too many.
    pub fn new(name: &[u8]) -> Option<Name> {
        let mut bytes = [0; NAME_MAX];
        bytes.get_mut(..name.len())?.copy_from_slice(name);
        Some(Name { bytes, len: name.len() as u8 })
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }

    /// The name that follows this one after `before`.
    pub fn next(&self, before: &Name) -> Option<Name> {
        let mut bytes = [0; NAME_MAX];
        let len = successor(before.bytes(), self.bytes(), &mut bytes)?;
        Some(Name { bytes, len: len as u8 })
    }
}

/// Names of one directory, each following from the two before. Plain data: zeroes are a free place.
#[derive(Debug, Clone, Copy)]
pub struct Series {
    key: u64,
    before: Name,
    last: Name,
    row: u32,
    through: u32,
    index: u64,
    used: u64,
}

impl Series {
    const FREE: Series =
        Series { key: 0, before: Name::EMPTY, last: Name::EMPTY, row: 0, through: 0, index: 0, used: 0 };

    /// Whether the next files should be fetched.
    pub fn is_confirmed(&self) -> bool {
        self.row >= CONFIRM && self.through >= THROUGH
    }

    /// The names opened last, the latest second.
    pub fn latest(&self) -> (Name, Name) {
        (self.before, self.last)
    }

    /// How many files were opened in order.
    pub fn index(&self) -> u64 {
        self.index
    }
}

/// What an open means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opened {
    /// Its series.
    pub at: usize,
    /// Whether it was the name that was to come next.
    pub follows: bool,
    /// Whether this place belonged to another series before.
    pub fresh: bool,
}

/// The series of a process.
#[derive(Debug, Clone, Copy)]
pub struct Opens {
    series: [Series; SERIES],
    clock: u64,
}

impl Default for Opens {
    fn default() -> Opens {
        Opens::new()
    }
}

impl Opens {
    /// Nothing was opened yet.
    pub const fn new() -> Opens {
        Opens { series: [Series::FREE; SERIES], clock: 0 }
    }

    /// One of the series.
    pub fn series(&self, at: usize) -> Option<&Series> {
        self.series.get(at)
    }

    /// Whether more than one of them is being read: two files in order each, among the latest opens.
    pub fn are_several(&self) -> bool {
        let since = self.clock.saturating_sub(4 * SERIES as u64);
        let live = |series: &&Series| series.used > since && series.index > 0;
        self.series.iter().filter(live).count() > 1
    }

    /// A file was opened; `key` is its directory. `None` for names that cannot be numbered.
    pub fn on_open(&mut self, key: u64, name: &[u8]) -> Option<Opened> {
        if !name.iter().any(u8::is_ascii_digit) {
            return None;
        }
        let name = Name::new(name)?;
        self.clock += 1;
        let clock = self.clock;
        let mine = |series: &&mut Series| series.used > 0 && series.key == key;
        // The one that it follows, the one that it is the second or third name of, else a new one.
        for (at, series) in self.series.iter_mut().enumerate().filter(|(_, series)| mine(series)) {
            let same = series.last.bytes() == name.bytes();
            let follows =
                !same && series.last.next(&series.before).is_some_and(|next| next.bytes() == name.bytes());
            if !same && !follows {
                continue;
            }
            series.used = clock;
            if follows {
                (series.before, series.last) = (series.last, name);
                series.row = series.row.saturating_add(1);
                series.index += 1;
            }
            return Some(Opened { at, follows: follows && series.row >= CONFIRM, fresh: false });
        }
        for (at, series) in self.series.iter_mut().enumerate().filter(|(_, series)| mine(series)) {
            if series.row == 0 && name.next(&series.last).is_some() {
                *series = Series {
                    before: series.last,
                    last: name,
                    index: series.index + 1,
                    used: clock,
                    ..*series
                };
                return Some(Opened { at, follows: false, fresh: true });
            }
        }
        let (at, series) = self.series.iter_mut().enumerate().min_by_key(|(_, series)| series.used)?;
        *series = Series { key, last: name, used: clock, ..Series::FREE };
        Some(Opened { at, follows: false, fresh: true })
    }

    /// The latest file of a series was left, after so many bytes of its size were read.
    pub fn on_left(&mut self, at: usize, read_bytes: u64, size: u64) {
        if let Some(series) = self.series.get_mut(at) {
            let through = size > 0 && read_bytes >= size - size / 4;
            series.through = if through { series.through.saturating_add(1) } else { 0 };
        }
    }
}

/// Whether, and why not, the next file is fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// Fetch it.
    Go,
    /// Far enough ahead.
    Wait,
    /// The files are in the cache already, or there is none of the next name.
    Pause,
}

/// How far the next files are fetched: the window opens with each fetched file that is opened.
#[derive(Debug)]
pub struct Chase {
    /// The name fetched last and the one before.
    names: (Name, Name),
    /// Index of the file fetched last.
    fetched: u64,
    /// Index up to which opens were taken over.
    settled: u64,
    window: u64,
    bytes: [u64; AHEAD_MAX],
    ahead_bytes: u64,
    /// Of these the file that is being read.
    reading_bytes: u64,
    cached_row: u32,
    /// Where all is cached it rests for some files.
    rests: Experiment,
}

impl Chase {
    /// Nothing is fetched yet.
    pub const fn new() -> Chase {
        Chase {
            names: (Name::EMPTY, Name::EMPTY),
            fetched: 0,
            settled: 0,
            window: 1,
            bytes: [0; AHEAD_MAX],
            ahead_bytes: 0,
            reading_bytes: 0,
            cached_row: 0,
            rests: Experiment::new(Terms { losses: 8, least: 32, most: 1 << 16 }),
        }
    }

    /// Bytes fetched of files that were not opened yet.
    pub fn ahead_bytes(&self) -> u64 {
        self.ahead_bytes
    }

    /// Takes over what was opened. Files of those that had been fetched, and the bytes of those that were left since: the
    /// one opened last is being read, and is somebody's memory until then.
    pub fn catch_up(&mut self, series: &Series) -> (u64, u64) {
        let index = series.index();
        let (mut files, mut opened, mut left) = (0, 0, 0);
        if index < self.settled {
            // Another series took the place of this one.
            left = self.ahead_bytes + self.reading_bytes;
            *self = Chase::new();
        }
        while self.settled < index {
            left += core::mem::take(&mut self.reading_bytes);
            self.settled += 1;
            if self.settled > self.fetched {
                self.settled = index;
                break;
            }
            if let Some(place) = self.bytes.get_mut(self.settled as usize % AHEAD_MAX) {
                files += u64::from(*place > 0);
                self.reading_bytes = core::mem::take(place);
                opened += self.reading_bytes;
            }
        }
        self.ahead_bytes = self.ahead_bytes.saturating_sub(opened);
        (0..files).for_each(|_| self.window = (self.window + 1 + self.window / 4).min(AHEAD_MAX as u64 - 1));
        if self.fetched <= index {
            self.fetched = index;
            self.names = series.latest();
            self.ahead_bytes = 0;
            self.bytes = [0; AHEAD_MAX];
        }
        (files, left)
    }

    /// Whether files were fetched that were not opened yet: the next one to be opened was asked for the longest ago.
    pub fn is_ahead(&self) -> bool {
        self.fetched > self.settled
    }

    /// The index before which there is nothing to do.
    pub fn resume(&self) -> u64 {
        self.rests.until()
    }

    /// The most of one file that is fetched, and of all files of all series together, on a device of so much latency x bandwidth.
    pub fn bytes_max(bdp: u64) -> u64 {
        bdp.saturating_mul(2).clamp(T::DEPTH_BYTES / 4, 2 * T::DEPTH_BYTES)
    }

    /// Whether to go on, while `others` bytes are fetched and not opened of other series: the device is the same, and
    /// what stands in its queue for one is what the others wait for. Each may be one file ahead.
    pub fn pace(&self, bytes_max: u64, others: u64) -> Pace {
        let ahead = self.fetched.saturating_sub(self.settled);
        if self.rests.rests(self.settled) {
            Pace::Pause
        } else if ahead >= self.window || ahead > 0 && self.ahead_bytes.saturating_add(others) >= bytes_max {
            Pace::Wait
        } else {
            Pace::Go
        }
    }

    /// The name of the next file to fetch.
    pub fn next(&self) -> Option<Name> {
        self.names.1.next(&self.names.0)
    }

    /// The next file was asked for: so many bytes of it, 0 when all of it was cached.
    pub fn on_fetched(&mut self, name: Name, bytes: u64) {
        self.names = (self.names.1, name);
        self.fetched += 1;
        if let Some(place) = self.bytes.get_mut(self.fetched as usize % AHEAD_MAX) {
            *place = bytes;
        }
        self.ahead_bytes += bytes;
        if bytes > 0 {
            self.cached_row = 0;
            self.rests.learn(Verdict::Gain, self.fetched);
        } else {
            self.cached_row += 1;
            if self.cached_row >= 8 {
                self.pause();
            }
        }
    }

    /// Looks again after some more files, twice as many each time.
    pub fn pause(&mut self) {
        self.rests.rest(self.fetched);
        self.cached_row = 7;
        self.window = 1;
    }
}

impl Default for Chase {
    fn default() -> Chase {
        Chase::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shard(n: u64) -> String {
        format!("part-{n:05}.bin")
    }

    /// Opens and reads shards; what is confirmed after each.
    fn run(opens: &mut Opens, names: &[String], through: bool) -> Vec<bool> {
        let mut confirmed = Vec::new();
        for name in names {
            let opened = opens.on_open(7, name.as_bytes()).unwrap();
            confirmed.push(opened.follows && opens.series(opened.at).unwrap().is_confirmed());
            opens.on_left(opened.at, if through { 100 } else { 10 }, 100);
        }
        confirmed
    }

    #[test]
    fn three_files_in_order_read_through_confirm() {
        let names: Vec<_> = (17..22).map(shard).collect();
        assert_eq!(run(&mut Opens::new(), &names, true), [false, false, true, true, true]);
        assert_eq!(run(&mut Opens::new(), &names, false), [false; 5]);
        let backwards: Vec<_> = (17..22).rev().map(shard).collect();
        assert!(run(&mut Opens::new(), &backwards, true)[2]);
    }

    #[test]
    fn other_files_between_do_not_end_a_series() {
        let mut opens = Opens::new();
        run(&mut opens, &(0..4).map(shard).collect::<Vec<_>>(), true);
        assert_eq!(opens.on_open(7, b"manifest"), None);
        let index = opens.on_open(7, b"index-9").unwrap();
        let other = opens.on_open(8, shard(4).as_bytes()).unwrap();
        assert!(!index.follows && !other.follows && index.at != other.at);
        assert!(opens.on_open(7, shard(4).as_bytes()).unwrap().follows);
    }

    #[test]
    fn series_are_several_while_they_are_read_in_turns() {
        let mut opens = Opens::new();
        let names: Vec<_> = (0..40).map(shard).collect();
        for name in &names[..2] {
            opens.on_open(7, name.as_bytes());
            assert!(!opens.are_several());
            opens.on_open(8, name.as_bytes());
        }
        assert!(opens.are_several());
        run(&mut opens, &names[2..], true);
        assert!(!opens.are_several());
    }

    #[test]
    fn a_file_opened_twice_counts_once() {
        let mut opens = Opens::new();
        let names: Vec<_> = (0..3).map(shard).collect();
        run(&mut opens, &names, true);
        let again = opens.on_open(7, shard(2).as_bytes()).unwrap();
        assert!(!again.follows && !again.fresh);
        assert_eq!(opens.series(again.at).unwrap().index(), 2);
    }

    #[test]
    fn random_numbers_confirm_nothing() {
        let names: Vec<_> = [5, 100, 3, 77, 42, 9, 61, 8].map(shard).to_vec();
        assert!(!run(&mut Opens::new(), &names, true).contains(&true));
    }

    /// Follows a program through files of a size: the most bytes ahead, and how many were there in time.
    fn chase(files: u64, bytes: u64, cached: bool) -> (u64, u64, u64) {
        let (mut opens, mut chase) = (Opens::new(), Chase::new());
        let (mut most, mut hits, mut asked) = (0, 0, 0);
        for n in 0..files {
            let opened = opens.on_open(1, shard(n).as_bytes()).unwrap();
            opens.on_left(opened.at, bytes, bytes);
            let series = *opens.series(opened.at).unwrap();
            if !opened.follows {
                continue;
            }
            hits += chase.catch_up(&series).0;
            while chase.pace(Chase::bytes_max(0), 0) == Pace::Go {
                let name = chase.next().unwrap();
                assert_eq!(name.bytes(), shard(chase.fetched + 1).as_bytes());
                chase.on_fetched(name, if cached { 0 } else { bytes });
                asked += 1;
            }
            most = most.max(chase.ahead_bytes());
        }
        (most, hits, asked)
    }

    #[test]
    fn the_window_opens_with_use_and_is_bounded() {
        let (most, hits, asked) = chase(200, 1 << 20, false);
        assert!((8 << 20..10 << 20).contains(&most), "{most}");
        assert!(hits >= 196 && asked <= 206, "{hits} {asked}");
        let (most, hits, _) = chase(1000, 4096, false);
        assert!(most <= 64 * 4096 && hits > 990, "{most} {hits}");
    }

    /// Four threads go through a folder each, file by file: what is ahead of all of them is bounded, not of each.
    #[test]
    fn series_share_what_they_may_be_ahead() {
        const FILE: u64 = 4 << 20;
        let (mut opens, mut chases) = (Opens::new(), [const { Chase::new() }; SERIES]);
        let (mut most, mut hits) = (0, 0);
        let mut owed = 0;
        for n in 0..40 {
            for key in 1..=SERIES as u64 {
                let opened = opens.on_open(key, shard(n).as_bytes()).unwrap();
                opens.on_left(opened.at, FILE, FILE);
                let series = *opens.series(opened.at).unwrap();
                if !opened.follows {
                    continue;
                }
                let (files, left) = chases[opened.at].catch_up(&series);
                hits += files;
                owed -= left;
                let all = |chases: &[Chase]| chases.iter().map(Chase::ahead_bytes).sum::<u64>();
                loop {
                    let others = all(&chases) - chases[opened.at].ahead_bytes();
                    let chase = &mut chases[opened.at];
                    if chase.pace(Chase::bytes_max(9 << 20), others) != Pace::Go {
                        break;
                    }
                    chase.on_fetched(chase.next().unwrap(), FILE);
                    owed += FILE;
                }
                most = most.max(all(&chases));
                assert!(owed <= all(&chases) + SERIES as u64 * FILE, "{owed}");
            }
        }
        assert!((16 << 20..=24 << 20).contains(&most), "{most}");
        assert!(hits >= 36 * SERIES as u64, "{hits}");
    }

    #[test]
    fn cached_files_are_looked_at_rarely() {
        let (most, _, asked) = chase(10_000, 1 << 20, true);
        assert!(most == 0 && asked < 32, "{asked}");
    }

    proptest! {
        #[test]
        fn any_opens_keep_the_bytes_ahead_bounded(steps in prop::collection::vec((0u64..3, 0u64..40, 0u64..4 << 20), 1..300)) {
            let (mut opens, mut chases) = (Opens::new(), [const { Chase::new() }; SERIES]);
            for (key, number, bytes) in steps {
                let Some(opened) = opens.on_open(key, shard(number).as_bytes()) else { continue };
                opens.on_left(opened.at, bytes, 4 << 20);
                if opened.fresh {
                    chases[opened.at] = Chase::new();
                }
                let series = *opens.series(opened.at).unwrap();
                let chase = &mut chases[opened.at];
                chase.catch_up(&series);
                while chase.pace(8 << 20, 0) == Pace::Go {
                    let Some(name) = chase.next() else { break };
                    chase.on_fetched(name, bytes);
                }
                prop_assert!(chase.ahead_bytes() <= 12 << 20);
            }
        }
    }
}
