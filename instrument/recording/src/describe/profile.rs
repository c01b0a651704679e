//! A recording in figures.

use std::collections::BTreeMap;

use serde::Serialize;

use super::seen::{FileSeen, Seen};
use super::sizes::{Quantiles, Sizes, ratio};
use crate::call::Call;

/// Calls of one kind.
#[derive(Debug, Clone, Default, Serialize)]
pub struct CallStats {
    /// Those that did what they were to do; reads of no bytes are counted apart.
    pub count: u64,
    /// Those that failed.
    pub failed: u64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// Service times in nanoseconds.
    pub times: Quantiles,
}

/// The regular files that the program did something to.
#[derive(Debug, Clone, Default, Serialize)]
pub struct FilesStats {
    /// Names.
    pub count: u64,
    /// Those that were there at the start.
    pub existing: u64,
    /// Times that a file was made.
    pub created: u64,
    /// Times that a file was removed.
    pub deleted: u64,
    /// Sizes at the start of those that were there.
    pub initial_sizes: Sizes,
    /// The largest size that each had.
    pub largest_sizes: Sizes,
    /// Files by the number of directories above them.
    pub depths: BTreeMap<usize, u64>,
    /// Opens of each file.
    pub opens: Quantiles,
    /// Share of all opens that the most opened tenth of the files has; 0.1 when all are opened alike.
    pub hottest_tenth: f64,
}

/// A recording in figures, from one pass over its items. Memory grows with files, threads and what is open at a time.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Profile {
    /// Length in nanoseconds.
    pub length_ns: u64,
    /// Calls that the recorder lost.
    pub lost: u64,
    /// Requests of io_uring and libaio, which it does not see.
    pub unseen_requests: u64,
    /// Calls by kind.
    pub calls: BTreeMap<Call, CallStats>,
    /// Bytes of each read that moved some.
    pub read_sizes: Sizes,
    /// Bytes of each write.
    pub write_sizes: Sizes,
    /// Reads that go on where the read before of this opening ended, or begin at 0.
    pub sequential_reads: u64,
    /// Other reads.
    pub random_reads: u64,
    /// Reads at the end of a file, which move nothing. They are in no mix.
    pub empty_reads: u64,
    /// Writes that go on where the write before ended, over what is there.
    pub sequential_writes: u64,
    /// Writes at the end of the file.
    pub appends: u64,
    /// Other writes.
    pub random_writes: u64,
    /// Writes to the opening since it was synced before, of each fsync and fdatasync.
    pub writes_before_sync: Quantiles,
    /// Files.
    pub files: FilesStats,
    /// Different pages of 4 KiB that were read or written, about.
    pub pages: u64,
    /// Pages touched between two touches of the same page, from a sample.
    pub reuse_pages: Quantiles,
    /// Openings that read the whole file in one row.
    pub whole_reads: u64,
    /// Openings that wrote the whole file in one row.
    pub whole_writes: u64,
    /// Opens and closes with nothing between.
    pub empty_openings: u64,
    /// Openings that are no part of a step: the file stays open while much is done.
    pub kept_openings: u64,
    /// From the end of a call to the begin of the thread's next one, nanoseconds.
    pub think_times: Quantiles,
    /// What a personality cannot say, with counts.
    pub unsaid: BTreeMap<&'static str, u64>,
    #[serde(skip)]
    pub(crate) seen: Seen,
}

impl Profile {
    pub(crate) fn unsaid(&mut self, what: &'static str) {
        *self.unsaid.entry(what).or_default() += 1;
    }

    /// Calls of one kind that succeeded and moved something, if they are to move something.
    pub fn count(&self, call: Call) -> u64 {
        self.calls.get(&call).map_or(0, |stats| stats.count)
    }

    /// Calls of all kinds.
    pub fn total(&self) -> u64 {
        self.calls.values().map(|stats| stats.count).sum()
    }

    /// Share of a kind among all calls.
    pub fn share(&self, call: Call) -> f64 {
        ratio(self.count(call), self.total())
    }

    /// Bytes read and written.
    pub fn bytes(&self) -> u64 {
        self.calls.values().fold(0, |sum, stats| sum.saturating_add(stats.bytes))
    }

    /// Length in seconds, at least a microsecond.
    pub fn seconds(&self) -> f64 {
        (self.length_ns as f64 / 1e9).max(1e-6)
    }

    pub(crate) fn summarise_files(&mut self, files: &[FileSeen]) {
        let mut stats = FilesStats::default();
        let mut opens: Vec<u64> = Vec::new();
        for file in files.iter().filter(|file| file.touched && !file.is_directory) {
            stats.count += 1;
            stats.created += file.created;
            stats.deleted += file.deleted;
            if let Some(size) = file.initial {
                stats.existing += 1;
                stats.initial_sizes.add(size);
            }
            stats.largest_sizes.add(file.largest);
            *stats.depths.entry(file.depth).or_default() += 1;
            stats.opens.add(file.opens);
            opens.push(file.opens);
        }
        stats.hottest_tenth = hottest(&mut opens, 0.1);
        self.files = stats;
    }
}

/// Share of the sum that the largest numbers have, so many of them.
pub(crate) fn hottest(numbers: &mut [u64], share: f64) -> f64 {
    numbers.sort_unstable_by(|a, b| b.cmp(a));
    let first = ((numbers.len() as f64 * share).ceil() as usize).min(numbers.len());
    ratio(numbers[..first].iter().sum(), numbers.iter().sum())
}
