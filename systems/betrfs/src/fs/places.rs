//! Hints: where inodes are that are not in memory.

use std::collections::{HashMap, HashSet};

/// Hints kept for files and directories that lie where they were made: some 8 MiB.
pub(super) const HINTS_MAX: usize = 1 << 18;
/// Bytes of directories' homes kept for them.
pub(super) const HOMES_MAX: usize = 16 << 20;
/// Where the inodes' names were, when all were read last.
#[derive(Debug, Default)]
pub(super) struct Places {
    pub homes: Vec<Box<[u8]>>,
    pub home_bytes: usize,
    /// Inode number to the home, in `homes`, of a directory that has an entry of it.
    pub dirs: HashMap<u64, u32>,
    /// Numbers below this had been given out.
    pub next_ino: u64,
    /// There was no room for some.
    pub partial: bool,
    /// Numbers without a name.
    pub gone: HashSet<u64>,
    /// How many files without a name had been given one.
    pub named_late: u64,
}

impl Places {
    pub fn home(&self, ino: u64) -> Option<&[u8]> {
        self.dirs.get(&ino).map(|at| &*self.homes[*at as usize])
    }

    /// Whether it is known that no name leads to `ino`.
    pub fn is_gone(&self, ino: u64) -> bool {
        let unseen = ino < self.next_ino && !self.partial && !self.dirs.contains_key(&ino);
        unseen || self.gone.contains(&ino)
    }

    /// Notes that the directory at `home` has an entry of `ino`. `last`: where the home of the call before is.
    pub fn note(&mut self, ino: u64, home: &[u8], last: &mut Option<u32>) {
        let at = last.filter(|at| *self.homes[*at as usize] == *home).unwrap_or_else(|| {
            self.homes.push(home.into());
            self.home_bytes += home.len();
            self.homes.len() as u32 - 1
        });
        *last = Some(at);
        self.dirs.insert(ino, at);
    }
}
