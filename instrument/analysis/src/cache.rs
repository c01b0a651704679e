//! What the page cache did for each file of a traced workload, as plain data. Crate `probe` fills it in.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The page cache's work for one file, in pages of 4 KiB.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileAccount {
    /// Asked for by reads and faults.
    pub wanted: u64,
    /// Of these, in the cache when they were asked for.
    pub hits: u64,
    /// Of the hits, brought by read-ahead and asked for the first time: read-ahead was in time.
    pub ahead_hits: u64,
    /// Not in the cache when they were asked for.
    pub misses: u64,
    /// Times the kernel began to read.
    pub windows: u64,
    /// Pages these were planned to bring.
    pub window_pages: u64,
    /// The largest one.
    pub window_pages_max: u64,
    /// Pages that reading brought.
    pub read_in: u64,
    /// Of these, gone without ever having been asked for.
    pub wasted: u64,
    /// Of these, still there at the end and not asked for yet.
    pub unused: u64,
}

impl FileAccount {
    /// Share of the wanted pages that were hits.
    pub fn hit_share(&self) -> Option<f64> {
        (self.wanted > 0).then(|| self.hits as f64 / self.wanted as f64)
    }

    /// Mean size of a read-ahead window in pages.
    pub fn window_pages_mean(&self) -> Option<f64> {
        (self.windows > 0).then(|| self.window_pages as f64 / self.windows as f64)
    }

    /// Share of the pages read in that nobody asked for, wasted ones and those unused to the end.
    pub fn waste_share(&self) -> Option<f64> {
        (self.read_in > 0).then(|| (self.wasted + self.unused) as f64 / self.read_in as f64)
    }

    fn add(&mut self, other: &FileAccount) {
        self.wanted += other.wanted;
        self.hits += other.hits;
        self.ahead_hits += other.ahead_hits;
        self.misses += other.misses;
        self.windows += other.windows;
        self.window_pages += other.window_pages;
        self.window_pages_max = self.window_pages_max.max(other.window_pages_max);
        self.read_in += other.read_in;
        self.wasted += other.wasted;
        self.unused += other.unused;
    }
}

/// All files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// By inode.
    pub files: BTreeMap<u64, FileAccount>,
}

impl Account {
    /// The sum over all files; the largest window is the largest of all.
    pub fn total(&self) -> FileAccount {
        let mut total = FileAccount::default();
        self.files.values().for_each(|file| total.add(file));
        total
    }
}

/// A traced workload.
#[derive(Debug, Clone)]
pub struct Recording {
    /// File by file.
    pub account: Account,
    /// The names of the files below the path, as they are at the end.
    pub names: HashMap<u64, PathBuf>,
    /// Pages of 4 KiB that the cache holds of each accounted file at the end, by inode, where cachestat(2) tells.
    pub cached: HashMap<u64, u64>,
    /// Events the kernel lost.
    pub lost: u64,
    /// The recording was full before the work ended.
    pub ended_early: bool,
}
