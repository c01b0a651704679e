//! Files that were missed in, until they are worth following. Pure.

use std::collections::HashMap;

use crate::moment::Key;

/// Files that are remembered; beyond, those without a recent miss are forgotten.
const FILES_MAX: usize = 4096;
/// Misses within [`WINDOW_NS`] that make a file worth following.
const MISSES_MIN: u32 = 6;
/// How long misses count.
const WINDOW_NS: u64 = 1_000_000_000;
/// A file that cannot be opened, or is not worth it, is not asked about again for so long.
const REFUSED_NS: u64 = 10_000_000_000;
/// A file that was followed in vain rests for a second, and needs twice the misses then; each time twice as long and
/// as many, up to this many doublings.
const STRIKES_MAX: u32 = 6;

#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    misses: u32,
    since_ns: u64,
    refused_until_ns: u64,
    strikes: u32,
}

/// Files with misses that are not followed.
#[derive(Debug, Default)]
pub struct Candidates {
    files: HashMap<Key, Entry>,
}

impl Candidates {
    /// Notes a miss. Whether the file should be followed now.
    pub fn on_miss(&mut self, key: Key, now_ns: u64) -> bool {
        if self.files.len() >= FILES_MAX {
            self.files.retain(|_, entry| now_ns.saturating_sub(entry.since_ns) < WINDOW_NS);
            if self.files.len() >= FILES_MAX {
                self.files.clear();
            }
        }
        let entry = self.files.entry(key).or_default();
        if now_ns < entry.refused_until_ns {
            return false;
        }
        if now_ns.saturating_sub(entry.since_ns) > WINDOW_NS {
            (entry.since_ns, entry.misses) = (now_ns, 0);
        }
        entry.misses += 1;
        if entry.misses < MISSES_MIN << entry.strikes {
            return false;
        }
        entry.misses = 0;
        true
    }

    /// The file cannot be followed, or is not worth it.
    pub fn refuse(&mut self, key: Key, now_ns: u64) {
        let entry = self.files.entry(key).or_default();
        entry.refused_until_ns = now_ns + REFUSED_NS;
        entry.since_ns = now_ns;
    }

    /// The file was followed and there was nothing to do.
    pub fn strike(&mut self, key: Key, now_ns: u64) {
        let entry = self.files.entry(key).or_default();
        entry.refused_until_ns = now_ns + (WINDOW_NS << entry.strikes);
        entry.strikes = (entry.strikes + 1).min(STRIKES_MAX);
        entry.since_ns = now_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Key = Key { dev: 1, inode: 2 };
    const MS: u64 = 1_000_000;

    fn misses_until_followed(candidates: &mut Candidates, from_ns: u64, step_ns: u64) -> Option<u64> {
        (1..5000).find(|miss| candidates.on_miss(KEY, from_ns + miss * step_ns))
    }

    #[test]
    fn several_misses_within_a_second_are_needed() {
        let mut candidates = Candidates::default();
        assert_eq!(misses_until_followed(&mut candidates, 0, 10 * MS), Some(6));
        assert_eq!(misses_until_followed(&mut Candidates::default(), 0, 300 * MS), None);
    }

    #[test]
    fn what_was_followed_in_vain_rests_and_needs_more() {
        let mut candidates = Candidates::default();
        candidates.strike(KEY, 0);
        assert_eq!(misses_until_followed(&mut candidates, 0, MS / 10), None);
        assert_eq!(misses_until_followed(&mut candidates, 1_000 * MS, MS), Some(12));
        (0..100).for_each(|_| candidates.strike(KEY, 5));
        assert_eq!(misses_until_followed(&mut candidates, 64_001 * MS, MS / 100), Some(6 << 6));
    }

    #[test]
    fn what_was_refused_rests() {
        let mut candidates = Candidates::default();
        candidates.refuse(KEY, 0);
        assert_eq!(misses_until_followed(&mut candidates, 0, MS), None);
        assert_eq!(misses_until_followed(&mut candidates, 10_001 * MS, MS), Some(6));
    }

    #[test]
    fn memory_is_bounded() {
        let mut candidates = Candidates::default();
        for inode in 0..100_000 {
            candidates.on_miss(Key { dev: 1, inode }, inode);
        }
        assert!(candidates.files.len() <= FILES_MAX);
    }
}
