//! How long a sync waits for others, so that one flush serves them all.
//!
//! A flush takes a millisecond or more on a device without power-loss protection. Threads that write and sync in turns
//! fall into two groups: one has its flush made while the other one comes too late for it, and each flush serves half
//! of them. So whoever is about to flush looks at how many syncs were under way when the last flush ended, and gives
//! those that are missing a moment to come. What that brings is measured each time: if fewer came than the flush
//! would have been worth meanwhile, the next rounds do without.

use std::time::Duration;

/// Longest wait. It bounds what a sync may lose on a device whose flushes take very long.
const WAIT_MAX: Duration = Duration::from_millis(2);
/// Flushes that take less are not worth a wait: waking a thread up costs about as much.
const FLUSH_MIN: Duration = Duration::from_micros(200);
/// Most rounds that are left out after waits for nothing.
const LEFT_OUT_MAX: u32 = 64;

/// What is known of the syncs lately.
#[derive(Debug)]
pub(super) struct GroupCommit {
    wait_max: Duration,
    /// Syncs that are probably under way.
    expected: u64,
    /// How long a flush takes, smoothed.
    flush: Duration,
    /// Rounds to leave out, now and after the next wait for nothing.
    left_out: u32,
    penalty: u32,
}

/// A wait that is worth it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CommitWait {
    /// It ends early when so many syncs have been asked for.
    pub goal: u64,
    pub time: Duration,
}

impl GroupCommit {
    pub fn new() -> GroupCommit {
        GroupCommit { wait_max: WAIT_MAX, expected: 0, flush: Duration::ZERO, left_out: 0, penalty: 0 }
    }

    /// As if `expected` syncs had been under way, on a device whose flush takes `flush`, and as long as that may be.
    #[cfg(test)]
    pub fn primed(expected: u64, flush: Duration) -> GroupCommit {
        GroupCommit { wait_max: flush, expected, flush, ..GroupCommit::new() }
    }

    /// Whether a flush for the `asked` syncs that have come should wait for more.
    pub fn begin(&mut self, asked: u64) -> Option<CommitWait> {
        // The last eighth may be busy with something else.
        let goal = self.expected - self.expected / 8;
        if asked == 0 || asked >= goal || self.flush < FLUSH_MIN {
            return None;
        }
        if self.left_out > 0 {
            self.left_out -= 1;
            return None;
        }
        // Beyond this even all that are missing would not make up for the wait; and half a flush is what a sync that comes
        // at any moment has to wait anyway.
        let missing = (goal - asked).min(asked) as u32;
        let worth = self.flush.saturating_mul(missing) / asked.clamp(1, u32::MAX.into()) as u32;
        Some(CommitWait { goal, time: worth.min(self.flush / 2).min(self.wait_max) })
    }

    /// A wait of the length `waited` is over: of `after` syncs `before` had come when it began.
    pub fn end(&mut self, before: u64, after: u64, waited: Duration) {
        // Syncs for each unit of time, with the wait and without.
        let more = after.saturating_sub(before) as u128;
        if more * self.flush.as_nanos() >= before as u128 * waited.as_nanos() && more > 0 {
            self.penalty = 0;
        } else {
            self.penalty = (self.penalty * 2).clamp(1, LEFT_OUT_MAX);
            self.left_out = self.penalty;
        }
    }

    /// A flush took `took` and served `served` syncs; `came` have been asked for meanwhile.
    pub fn flushed(&mut self, served: u64, came: u64, took: Duration) {
        self.flush = match self.flush {
            Duration::ZERO => took,
            before => (before * 3 + took) / 4,
        };
        // Some may be late this time only.
        let fading = self.expected.saturating_sub(1 + self.expected / 8);
        self.expected = fading.max(served + came);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLUSH: Duration = Duration::from_micros(1600);

    #[test]
    fn who_syncs_alone_never_waits() {
        let mut gather = GroupCommit::new();
        for _ in 0..100 {
            assert_eq!(gather.begin(1), None);
            gather.flushed(1, 0, FLUSH);
        }
    }

    #[test]
    fn two_groups_become_one() {
        let mut gather = GroupCommit::new();
        gather.flushed(5, 5, FLUSH);
        let wait = gather.begin(5).expect("five are missing");
        assert_eq!((wait.goal, wait.time), (9, FLUSH / 2));
        gather.end(5, 9, FLUSH / 8);
        gather.flushed(9, 1, FLUSH);
        // Enough of them are there at once.
        assert_eq!(gather.begin(9), None);
        // The fewer are missing, the shorter the wait.
        let short = gather.begin(8).expect("one is missing");
        assert_eq!(short.time, FLUSH / 8);
    }

    #[test]
    fn waits_for_nothing_become_rare() {
        let mut gather = GroupCommit::new();
        let mut waits = 0;
        for _ in 0..1000 {
            gather.flushed(1, 1, FLUSH);
            if let Some(wait) = gather.begin(1) {
                waits += 1;
                gather.end(1, 1, wait.time);
            }
        }
        assert!(waits <= 7 + 1000 / LEFT_OUT_MAX, "{waits}");
        // One that was worth it, and they are made again.
        while gather.begin(1).is_none() {
            gather.flushed(1, 1, FLUSH);
        }
        gather.end(1, 2, FLUSH / 8);
        assert!(gather.begin(1).is_some());
    }

    #[test]
    fn many_syncs_that_have_ended_are_forgotten() {
        let mut gather = GroupCommit::new();
        gather.flushed(20, 20, FLUSH);
        for _ in 0..40 {
            gather.flushed(1, 0, FLUSH);
        }
        assert_eq!(gather.begin(1), None);
    }

    #[test]
    fn quick_flushes_are_not_waited_for_and_slow_ones_not_long() {
        let mut gather = GroupCommit::new();
        gather.flushed(5, 5, Duration::from_micros(50));
        assert_eq!(gather.begin(5), None);
        let mut gather = GroupCommit::new();
        gather.flushed(5, 5, Duration::from_secs(1));
        assert_eq!(gather.begin(5).map(|w| w.time), Some(WAIT_MAX));
    }
}
