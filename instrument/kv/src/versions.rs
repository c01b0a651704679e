//! What must be found when a record is read: the versions that were written, as far as they are known.
//!
//! Versions of a record are numbered in the order in which their writes began, whatever fields they write; the load writes
//! version 0. A write of some fields that was alone from its beginning to its end makes every earlier version of these
//! fields wrong. Of writes that overlapped nothing is said: an engine that reads a record, changes a field and writes it
//! again, as YCSB's RocksDB does, may put the other one's field back.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Parts of the table that are locked apart.
const PARTS: usize = 256;

#[derive(Debug, Clone, Default)]
struct State {
    /// The newest version whose write has begun.
    newest: u64,
    /// For each field the oldest version that may be found; as long as the last field that was written.
    floors: Vec<u64>,
    /// Writes that have begun and not ended.
    running: u32,
    /// Some of them overlapped.
    overlapped: bool,
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
            state.overlapped |= state.running > 0;
            state.running += 1;
            state.newest += 1;
            Write { record, version: state.newest }
        })
    }

    /// It was acknowledged, and wrote these fields. One that fails is never ended: whether it happened is not known.
    pub fn end(&self, write: Write, fields: Range<usize>) {
        self.with(write.record, |state| {
            state.running -= 1;
            if !state.overlapped {
                if state.floors.len() < fields.end {
                    state.floors.resize(fields.end, 0);
                }
                state.floors[fields].fill(write.version);
            }
            state.overlapped &= state.running > 0;
        });
    }

    /// The oldest versions that a read which begins now may find, by field; of fields beyond the last one: 0.
    pub fn floors(&self, record: u64, floors: &mut Vec<u64>) {
        floors.clear();
        self.with(record, |state| floors.extend_from_slice(&state.floors));
    }

    /// Judges what a read has found in a field that began when `floor` was the oldest version.
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

    fn floors(versions: &Versions) -> Vec<u64> {
        let mut floors = vec![7];
        versions.floors(5, &mut floors);
        floors
    }

    #[test]
    fn a_lost_update_is_seen_and_overlapping_ones_are_not_accused() {
        let versions = Versions::default();
        assert!(floors(&versions).is_empty());
        let first = versions.begin(5);
        assert_eq!(versions.judge(5, 0, 0), Ok(()), "it may not have happened yet");
        assert_eq!(versions.judge(5, 0, 1), Ok(()));
        versions.end(first, 2..3);
        assert_eq!(floors(&versions), [0, 0, 1], "of its field alone");
        assert!(versions.judge(5, 1, 0).unwrap_err().contains("version 1 was acknowledged"));
        assert!(versions.judge(5, 1, 2).unwrap_err().contains("only 1"));
        // 2 and 3 overlap, of whatever fields: an engine that writes whole records again may lose either
        let (second, third) = (versions.begin(5), versions.begin(5));
        versions.end(third, 0..1);
        assert_eq!(floors(&versions), [0, 0, 1]);
        // 4 overlaps the second one only
        let fourth = versions.begin(5);
        versions.end(second, 1..2);
        versions.end(fourth, 1..2);
        assert_eq!(floors(&versions), [0, 0, 1]);
        let fifth = versions.begin(5);
        versions.end(fifth, 0..3);
        assert_eq!(floors(&versions), [5, 5, 5]);
    }
}
