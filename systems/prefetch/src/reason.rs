//! Why a file is prefetched, or why not.

/// The latest decision about a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Reason {
    /// Too few reads, or no order in them.
    #[default]
    NoPattern = 0,
    /// A stream is prefetched.
    Prefetching = 1,
    /// The whole file is being fetched: its misses had cost as much.
    FetchingAll = 2,
    /// The whole file was fetched.
    FetchedAll = 3,
    /// Forward, and the kernel's own read-ahead covers latency x bandwidth.
    KernelHasIt = 4,
    /// The reads hit the page cache.
    Cached = 5,
    /// The program reads in short runs: prefetching past them was waste.
    ShortRuns = 6,
    /// Too much of what was prefetched was never read.
    Wasteful = 7,
    /// The memory budget is used up.
    NoMemory = 8,
    /// The file does not fit the budget, or its misses have not cost enough yet.
    Paying = 9,
    /// Only counted: the mode issues nothing.
    Observing = 10,
    /// More depth brought no more bandwidth: the device is the limit.
    Saturated = 11,
    /// Read once from start to end by big reads: nothing to gain.
    Finished = 12,
    /// Compared with the reads before: no faster, or single reads took longer.
    NoGain = 13,
    /// Not fetched whole: it is being written.
    Written = 14,
}

impl Reason {
    /// All, in the order of their numbers.
    pub const ALL: [Reason; 15] = [
        Reason::NoPattern,
        Reason::Prefetching,
        Reason::FetchingAll,
        Reason::FetchedAll,
        Reason::KernelHasIt,
        Reason::Cached,
        Reason::ShortRuns,
        Reason::Wasteful,
        Reason::NoMemory,
        Reason::Paying,
        Reason::Observing,
        Reason::Saturated,
        Reason::Finished,
        Reason::NoGain,
        Reason::Written,
    ];

    /// From its number; unknown numbers are [`Reason::NoPattern`].
    pub fn from_number(number: u64) -> Reason {
        Reason::ALL.get(number as usize).copied().unwrap_or_default()
    }

    /// One clause for `explain`.
    pub fn text(self) -> &'static str {
        match self {
            Reason::NoPattern => "no pattern in the reads",
            Reason::Prefetching => "prefetching ahead of a confirmed stream",
            Reason::FetchingAll => "fetching the whole file: misses had cost as much",
            Reason::FetchedAll => "fetched the whole file: misses had cost as much",
            Reason::KernelHasIt => "forward, and the kernel's read-ahead suffices",
            Reason::Cached => "reads hit the page cache",
            Reason::ShortRuns => "short runs: prefetching past them was waste",
            Reason::Wasteful => "too much of what was prefetched was never read",
            Reason::NoMemory => "the memory budget is used up",
            Reason::Paying => "misses without a pattern, not yet as dear as fetching all",
            Reason::Observing => "would prefetch (observing only)",
            Reason::Saturated => "more depth brought no more bandwidth",
            Reason::Finished => "read once, nothing left to gain",
            Reason::NoGain => "tried: no faster, or single reads took longer",
            Reason::Written => "the file is being written: writers would wait for what is fetched",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_texts_are_distinct() {
        for (number, reason) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, number);
            assert_eq!(Reason::from_number(number as u64), reason);
            assert!(Reason::ALL.iter().all(|other| *other == reason || other.text() != reason.text()));
        }
    }
}
