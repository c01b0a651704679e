//! How far ahead of a file's streams one may go, by how long the ones before were and what became of what was prefetched.

/// Ended runs whose lengths are remembered.
const RUNS: usize = 8;
/// The least that a limit comes down to, bytes: one read-ahead of Linux.
const LEAST: u64 = 128 << 10;

/// What ended streams taught. Zeroes are nothing.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Reach {
    runs: [u64; RUNS],
    runs_len: u32,
    /// How far ahead a stream may be, bytes: less after waste and evictions; 0 before the first stream.
    limit: u64,
    /// Bytes read out of what was prefetched since the limit last changed.
    regained: u64,
}

impl Reach {
    /// How far ahead a stream may be, bytes; 0 before the first.
    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    /// A stream is prefetched; the first may be so far ahead.
    pub(super) fn begin(&mut self, most: u64) {
        if self.limit == 0 {
            self.limit = most;
        }
    }

    /// A run ended after so many bytes.
    pub(super) fn note_run(&mut self, bytes: u64) {
        if let Some(run) = self.runs.get_mut(self.runs_len as usize % RUNS) {
            *run = bytes;
        }
        self.runs_len = self.runs_len.wrapping_add(1);
    }

    /// The length that three quarters of the last runs did not exceed, bytes; unlimited before the first ended.
    pub(super) fn usual_run(&self) -> u64 {
        let len = (self.runs_len as usize).min(RUNS);
        if len == 0 {
            return u64::MAX;
        }
        let mut sorted = self.runs;
        if let Some(known) = sorted.get_mut(..len) {
            known.sort_unstable();
        }
        sorted.get(len * 3 / 4).copied().unwrap_or(u64::MAX)
    }

    /// So much of what was prefetched was read. Streams that ended early must not hold one back that goes on.
    pub(super) fn regain(&mut self, bytes: u64) {
        self.regained = self.regained.saturating_add(bytes);
        if self.regained / 4 >= self.limit && self.limit > 0 {
            self.limit = self.limit.saturating_mul(2);
            self.regained = 0;
        }
    }

    /// A stream is prefetched no more, of which so much was read and so much was not.
    pub(super) fn settle(&mut self, useful: u64, wasted: u64) {
        match wasted > useful / 2 {
            true => self.shrink(),
            false => self.limit = self.limit.saturating_add(1 << 20),
        }
    }

    /// What was prefetched was waste, or was evicted.
    pub(super) fn shrink(&mut self) {
        self.regained = 0;
        self.limit = (self.limit / 2).max(LEAST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waste_halves_the_limit_and_use_brings_it_back() {
        let mut reach = Reach::default();
        reach.begin(32 << 20);
        reach.settle(1 << 20, 1 << 20);
        assert_eq!(reach.limit(), 16 << 20);
        (0..64).for_each(|_| reach.regain(1 << 20));
        assert_eq!(reach.limit(), 32 << 20);
        (0..20).for_each(|_| reach.shrink());
        assert_eq!(reach.limit(), LEAST);
    }

    #[test]
    fn the_usual_run_is_what_three_quarters_did_not_exceed() {
        let mut reach = Reach::default();
        assert_eq!(reach.usual_run(), u64::MAX);
        [9, 1, 2, 3, 4, 5, 6, 7, 8].iter().for_each(|bytes| reach.note_run(*bytes));
        assert_eq!(reach.usual_run(), 7, "the oldest is forgotten");
    }
}
