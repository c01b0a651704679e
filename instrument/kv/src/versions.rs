//! What must be found when a record is read: the versions that were written, as far as they are known.
//!
//! Versions of a record are numbered in the order in which their writes began; the load writes version 0. A write that
//! was alone while it ran, when it is acknowledged, makes every earlier version wrong. Of writes that overlapped any may
//! have come last, so nothing is said about them but that none older than both may be found.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Parts of the table that are locked apart.
const PARTS: usize = 256;

#[derive(Debug, Clone, Copy, Default)]
struct State {
    /// The newest version whose write has begun.
    newest: u64,
    /// The oldest version that may be found.
    floor: u64,
    /// Writes that have begun and not ended.
    running: u32,
}

/// The versions of all records.
#[derive(Debug)]
pub struct Versions(Vec<Mutex<HashMap<u64, State>>>);

/// A write that runs.
#[derive(Debug, Clone, Copy)]
pub struct Write {
    record: u64,
    /// The version that it writes.
    pub version: u64,
    alone: bool,
}

impl Default for Versions {
    fn default() -> Versions {
        Versions((0..PARTS).map(|_| Mutex::default()).collect())
    }
}

impl Versions {
    fn with<T>(&self, record: u64, of: impl FnOnce(&mut State) -> T) -> T {
        let mut part =
            self.0[(record % PARTS as u64) as usize].lock().unwrap_or_else(PoisonError::into_inner);
        of(part.entry(record).or_default())
    }

    /// A write of a record begins.
    pub fn begin(&self, record: u64) -> Write {
        self.with(record, |state| {
            let alone = state.running == 0;
            state.running += 1;
            state.newest += 1;
            Write { record, version: state.newest, alone }
        })
    }

    /// It was acknowledged. One that fails is never ended: whether it happened is not known.
    pub fn end(&self, write: Write) {
        self.with(write.record, |state| {
            state.running -= 1;
            if write.alone {
                state.floor = state.floor.max(write.version);
            }
        });
    }

    /// The oldest version that a read which begins now may find.
    pub fn floor(&self, record: u64) -> u64 {
        self.with(record, |state| state.floor)
    }

    /// Judges what a read has found that began when `floor` was the oldest version.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn judge(&self, record: u64, floor: u64, found: u64) -> Result<(), String> {
        let newest = self.with(record, |state| state.newest);
        if found < floor {
            return Err(format!("it is version {found}, and version {floor} was acknowledged before"));
        }
        if found > newest {
            return Err(format!("it is version {found}, and only {newest} were ever written"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_update_is_seen_and_overlapping_ones_are_not_accused() {
        let versions = Versions::default();
        assert_eq!(versions.floor(5), 0);
        let first = versions.begin(5);
        assert_eq!(versions.judge(5, 0, 0), Ok(()), "it may not have happened yet");
        assert_eq!(versions.judge(5, 0, 1), Ok(()));
        versions.end(first);
        let floor = versions.floor(5);
        assert_eq!(floor, 1);
        assert!(versions.judge(5, floor, 0).unwrap_err().contains("version 1 was acknowledged"));
        assert!(versions.judge(5, floor, 2).unwrap_err().contains("only 1"));
        // 2 and 3 overlap: either may be last, version 1 may not
        let (second, third) = (versions.begin(5), versions.begin(5));
        versions.end(third);
        versions.end(second);
        let floor = versions.floor(5);
        assert_eq!(versions.judge(5, floor, 2), Ok(()));
        assert_eq!(versions.judge(5, floor, 3), Ok(()));
        assert!(versions.judge(5, floor, 1).is_err());
    }
}
