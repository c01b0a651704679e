//! Places in directories of which the name is remembered.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard};

/// Places kept, of all directories together: some 5 MiB, with the longest names 23 MiB.
const MARKS_MAX: usize = 1 << 16;

/// Places kept of reads from the store, of all directories together, 8 bytes each.
const READ_MAX: usize = 1 << 20;
/// A read counts for so many places besides: its longest name and what the heap adds.
const READ_WEIGHT: usize = 48;

/// A directory, and a place in it.
type PositionKey = (u64, u64);

#[derive(Debug, Default)]
struct Inner {
    names: HashMap<PositionKey, Box<[u8]>>,
    /// The oldest first.
    queue: VecDeque<PositionKey>,
    /// The oldest first.
    reads: VecDeque<DirectoryRead>,
    /// The weight of all of them.
    read: usize,
}

/// What a read of a directory has shown.
#[derive(Debug)]
struct DirectoryRead {
    dir: u64,
    /// The name that it began behind.
    behind: Option<Box<[u8]>>,
    places: Vec<u64>,
}

impl DirectoryRead {
    fn weight(&self) -> usize {
        self.places.len() + READ_WEIGHT
    }
}

/// Where readers ended, and the names that were removed from directories that were read: without these nobody knows any more
/// where a place was. The oldest go when there are too many.
#[derive(Debug, Default)]
pub(super) struct DirectoryPositions(Mutex<Inner>);

impl DirectoryPositions {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Remembers that `place` in the directory `dir` is behind `name`.
    pub fn note(&self, dir: u64, place: u64, name: &[u8]) {
        let mut inner = self.inner();
        if inner.names.insert((dir, place), name.into()).is_some() {
            return;
        }
        inner.queue.push_back((dir, place));
        if inner.queue.len() > MARKS_MAX
            && let Some(oldest) = inner.queue.pop_front()
        {
            inner.names.remove(&oldest);
        }
    }

    /// Remembers that a read of the directory `dir` from behind a name, or the beginning, has shown names with these places.
    pub fn note_read(&self, dir: u64, behind: Option<Box<[u8]>>, mut places: Vec<u64>) {
        // The last one is noted with its name.
        places.pop();
        places.truncate(READ_MAX - READ_WEIGHT);
        if places.is_empty() {
            return;
        }
        let read = DirectoryRead { dir, behind, places };
        let mut inner = self.inner();
        inner.read += read.weight();
        inner.reads.push_back(read);
        while inner.read > READ_MAX
            && let Some(oldest) = inner.reads.pop_front()
        {
            inner.read -= oldest.weight();
        }
    }

    /// The name behind which the last read began that has shown a place, if one has.
    pub fn read_with(&self, dir: u64, place: u64) -> Option<Option<Box<[u8]>>> {
        let inner = self.inner();
        let shown = inner.reads.iter().rev().find(|read| read.dir == dir && read.places.contains(&place));
        shown.map(|read| read.behind.clone())
    }

    /// The name before a place.
    pub fn name(&self, dir: u64, place: u64) -> Option<Box<[u8]>> {
        self.inner().names.get(&(dir, place)).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_places_are_kept_within_a_bound() {
        let marks = DirectoryPositions::default();
        let all = MARKS_MAX as u64 + 100;
        (0..all).for_each(|place| marks.note(1, place, &place.to_le_bytes()));
        (0..50).for_each(|_| marks.note(1, all - 1, &(all - 1).to_le_bytes()));
        assert_eq!((marks.name(1, 99), marks.name(2, all - 1)), (None, None));
        for place in 100..all {
            assert_eq!(marks.name(1, place).as_deref(), Some(&place.to_le_bytes()[..]));
        }
        let inner = marks.inner();
        assert_eq!((inner.names.len(), inner.queue.len()), (MARKS_MAX, MARKS_MAX));
    }

    #[test]
    fn the_newest_reads_are_kept_within_a_bound() {
        let marks = DirectoryPositions::default();
        let name = |read: u64| Some(read.to_le_bytes().into());
        let reads = 2 * (READ_MAX / (READ_WEIGHT + 9)) as u64;
        for read in 0..reads {
            marks.note_read(1, name(read), (read * 10..read * 10 + 10).collect());
        }
        let last = reads * 10 - 1;
        assert_eq!(marks.read_with(1, last - 1), Some(name(reads - 1)));
        assert_eq!(
            [(1, last), (2, last - 1), (1, 5)].map(|(dir, place)| marks.read_with(dir, place)),
            [const { None }; 3]
        );
        marks.note_read(1, None, (0..2 * READ_MAX as u64).collect());
        let inner = marks.inner();
        assert!(inner.reads.len() == 1 && inner.read <= READ_MAX, "{} reads", inner.reads.len());
    }
}
