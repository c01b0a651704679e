//! Places in directories of which the name is remembered.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard};

/// Places kept, of all directories together: some 5 MiB, with the longest names 23 MiB.
const MARKS_MAX: usize = 1 << 16;

/// A directory, and a place in it.
type PositionKey = (u64, u64);

#[derive(Debug, Default)]
struct Inner {
    names: HashMap<PositionKey, Box<[u8]>>,
    /// The oldest first.
    queue: VecDeque<PositionKey>,
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
}
