//! How many steps of a fetch may be under way at a time.

use crate::tuning::T;

/// Steps at a time: one more after some that nobody waited for, fewer when somebody did. Zeroes are one step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Width {
    /// Steps that may be under way, less one.
    more: u8,
    /// Steps since that changed.
    fine: u8,
}

impl Width {
    pub(super) fn get(&self) -> usize {
        usize::from(self.more) + 1
    }

    pub(super) fn open(&mut self) {
        self.more = 16;
    }

    /// A miss beside the fetch took so long, at most twice what is typical: behind two steps and more. The slowest hundredth
    /// of the reads is not to be made of these.
    pub(super) fn on_wait(&mut self, elapsed_ns: u64, typical_ns: u64) {
        if elapsed_ns > typical_ns + typical_ns / 4 + T::WAKE_NS {
            self.more = self.more.saturating_sub(1);
            self.fine = 0;
        }
    }

    /// A step is done; what was cached (`fresh` is false) says nothing of what the device bears.
    pub(super) fn on_step(&mut self, fresh: bool, most: usize) {
        self.fine = self.fine.saturating_add(u8::from(fresh));
        if usize::from(self.fine) > 2 * self.get() && self.get() < most {
            self.more += 1;
            self.fine = 0;
        }
    }

    pub(super) fn halve(&mut self) {
        self.more /= 2;
    }
}

/// Which of the steps that are under way has its time taken: one at a time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Followed {
    /// Steps that are under way.
    under_way: u8,
    /// Steps until the one ends that is followed, itself among them; 0 without one.
    left: u8,
}

impl Followed {
    /// A step begins.
    pub(super) fn begin(&mut self) {
        self.under_way = self.under_way.saturating_add(1);
        if self.left == 0 {
            self.left = self.under_way;
        }
    }

    /// A step ends; whether it is the followed one.
    pub(super) fn end(&mut self) -> bool {
        self.under_way = self.under_way.saturating_sub(1);
        let followed = self.left == 1;
        self.left = self.left.saturating_sub(1);
        followed
    }
}
