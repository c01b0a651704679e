//! What misses have cost, and what may be staked on fetching.

use crate::tuning::T;

/// What misses cost since the last fetch was paid for. Zeroes are none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Loss {
    ns: u64,
    /// When the latest miss ended, ns.
    pub(super) until_ns: u64,
    misses: u32,
    /// How often somebody else was writing what was fetched: each time twice as much must have been lost before the next.
    wary: u8,
}

impl Loss {
    /// A miss. What misses of several threads at a time cost is between the time of one of them and the sum: the mean is
    /// taken.
    pub(super) fn note(&mut self, elapsed_ns: u64, now_ns: u64) {
        let lost = elapsed_ns.min(now_ns.saturating_sub(self.until_ns));
        self.ns = self.ns.saturating_add(lost / 2 + elapsed_ns / 2);
        self.until_ns = self.until_ns.max(now_ns);
        self.misses = self.misses.saturating_add(1);
    }

    pub(super) fn ns(&self) -> u64 {
        self.ns
    }

    pub(super) fn misses(&self) -> u32 {
        self.misses
    }

    /// What counts of it where writers were met, ns.
    pub(super) fn weighed_ns(&self) -> u64 {
        self.ns >> self.wary
    }

    /// A fetch was paid for.
    pub(super) fn clear(&mut self) {
        (self.ns, self.misses) = (0, 0);
    }

    /// A fetch was given up: the next must be paid for anew, half of it by what was lost before.
    pub(super) fn halve(&mut self) {
        (self.ns, self.misses) = (self.ns / 2, 0);
    }

    /// A fetch met writers.
    pub(super) fn beware(&mut self) {
        self.ns = 0;
        self.wary = (self.wary + 1).min(16);
    }
}

/// What may be lost by fetching: a part of what misses cost and what hits saved, less what fetching made others wait.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Credit {
    ns: i64,
    /// What hits gave of it since the credit was last used up, less what misses gave, ns.
    returned_ns: i64,
    /// How often in a row it was used up without that hits had given most of it: each time the stake is halved.
    losses: u8,
}

impl Credit {
    /// A miss cost so much: a part of it may be staked.
    pub(super) fn stake(&mut self, elapsed_ns: u64) {
        let stake_ns = elapsed_ns / (T::STAKE << self.losses);
        self.ns = self.ns.saturating_add_unsigned(stake_ns);
        self.returned_ns = self.returned_ns.saturating_sub_unsigned(stake_ns);
    }

    /// A hit saved so much.
    pub(super) fn earn(&mut self, saved_ns: u64) {
        self.ns = self.ns.saturating_add_unsigned(saved_ns);
        self.returned_ns = self.returned_ns.saturating_add_unsigned(saved_ns);
    }

    /// Somebody waited for the fetch, less than nothing where he waited less than on average.
    pub(super) fn charge(&mut self, waited_ns: i64) {
        self.ns = self.ns.saturating_sub(waited_ns);
    }

    /// It took processors that others waited for.
    pub(super) fn charge_processors(&mut self, taken_ns: u64) {
        self.ns = self.ns.saturating_sub_unsigned(taken_ns);
    }

    pub(super) fn ns(&self) -> i64 {
        self.ns
    }

    /// Whether it is not used up; where it is, remembers whether hits had given most of it.
    pub(super) fn lasts(&mut self) -> bool {
        if self.ns < 0 {
            self.losses = if self.returned_ns > 0 { 0 } else { (self.losses + 1).min(4) };
            self.returned_ns = 0;
        }
        self.ns >= 0
    }
}
