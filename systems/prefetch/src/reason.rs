//! Why a file is prefetched, or why not.

numbered! {
    /// The latest decision about a file.
    enum Reason,
    /// One clause for `explain`.
    text: {
        /// Too few reads, or no order in them.
        #[default]
        NoPattern = "no pattern in the reads",
        /// A stream is prefetched.
        Prefetching = "prefetching ahead of a confirmed stream",
        /// The whole file is being fetched: its misses had cost as much.
        FetchingAll = "fetching the whole file: misses had cost as much",
        /// The whole file was fetched.
        FetchedAll = "fetched the whole file: misses had cost as much",
        /// Forward, and the kernel's own read-ahead covers latency x bandwidth.
        KernelHasIt = "forward, and the kernel's read-ahead suffices",
        /// The reads hit the page cache.
        Cached = "reads hit the page cache",
        /// The program reads in short runs: prefetching past them was waste.
        ShortRuns = "short runs: prefetching past them was waste",
        /// Too much of what was prefetched was never read.
        Wasteful = "too much of what was prefetched was never read",
        /// The memory budget is used up.
        NoMemory = "the memory budget is used up",
        /// The file does not fit the budget, or its misses have not cost enough yet.
        Paying = "misses without a pattern, not yet as dear as fetching all",
        /// Only counted: the mode issues nothing.
        Observing = "would prefetch (observing only)",
        /// More depth brought no more bandwidth: the device is the limit.
        Saturated = "more depth brought no more bandwidth",
        /// Read once from start to end by big reads: nothing to gain.
        Finished = "read once, nothing left to gain",
        /// Compared with the reads before: no faster, or single reads took longer.
        NoGain = "tried: no faster, or single reads took longer",
        /// Not fetched whole: it is being written.
        Written = "the file is being written: writers would wait for what is fetched",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_texts_are_distinct() {
        for (number, reason) in Reason::ALL.iter().copied().enumerate() {
            assert_eq!(reason as usize, number);
            assert_eq!(Reason::from_number(number as u64), reason);
            assert!(Reason::ALL.iter().all(|other| *other == reason || other.text() != reason.text()));
        }
    }
}
