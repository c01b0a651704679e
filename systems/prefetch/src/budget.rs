//! How much may be prefetched and unread: headroom, pressure, evictions.

use crate::model::scale;
use crate::tuning::T;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// What the shell read of the machine's and the cgroup's memory, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Memory {
    /// MemAvailable of the machine.
    pub available: u64,
    /// Limit of the cgroup, or of the one above it that has the least headroom; `None` without one.
    pub limit: Option<u64>,
    /// What the cgroup uses that reclaim cannot drop cheaply: usage less clean file cache.
    pub pinned: u64,
    /// PSI memory `some avg10`, hundredths of a percent.
    pub pressure_centi: u64,
    /// How often the cgroup had no memory left (`oom` of memory.events).
    pub ooms: u64,
}

impl Memory {
    /// What prefetching may occupy at most: 80 % of the cgroup's headroom and half of what is available.
    pub fn room(&self) -> u64 {
        let machine = self.available / 2;
        match self.limit {
            Some(limit) => machine.min(limit.saturating_sub(self.pinned) / 5 * 4),
            None => machine,
        }
    }
}

shared! {
    /// Bytes that may be prefetched and not read yet, shared by all files of a process.
    pub struct Budget {
        room: AtomicU64 = AtomicU64::new(2 * T::DEPTH_BYTES),
        /// The room at the last look, without what it is expected to lose until the next one.
        looked: AtomicU64,
        /// Multiplicative decrease after evictions and pressure, in 1/256.
        factor: AtomicU64 = AtomicU64::new(256),
        outstanding: AtomicU64,
        user_max: AtomicU64 = AtomicU64::new(u64::MAX),
        ooms: AtomicU64,
        told: AtomicBool,
    }
}

impl Budget {
    /// Limits it further, bytes.
    pub fn set_user_max(&self, bytes: u64) {
        self.user_max.store(bytes, Relaxed);
    }

    /// Tells the state of memory; to be called a few times a second. Pressure over 10 % halves, calm restores 1/16. Where
    /// the cgroup had no memory left since the last look, next to nothing remains: what is being read cannot be reclaimed.
    /// What the room has lost since the last look (the program writes, say) it is taken to lose once more until the next.
    ///
    /// Rule: Budget.
    pub fn tell(&self, memory: &Memory) {
        let room = memory.room();
        let lost = self.looked.swap(room, Relaxed).saturating_sub(room);
        self.room.store(room.saturating_sub(lost), Relaxed);
        let known = self.told.swap(true, Relaxed);
        if memory.ooms > self.ooms.swap(memory.ooms, Relaxed) && known {
            self.factor.store(1, Relaxed);
        } else if memory.pressure_centi > 1_000 {
            self.halve();
        } else {
            let factor = self.factor.load(Relaxed);
            self.factor.store((factor + 16).min(256), Relaxed);
        }
    }

    /// Whether the state of memory is known.
    pub fn is_told(&self) -> bool {
        self.told.load(Relaxed)
    }

    /// Pages that were prefetched have been evicted before use.
    pub fn evicted(&self) {
        self.halve();
    }

    fn halve(&self) {
        let factor = self.factor.load(Relaxed);
        self.factor.store((factor / 2).max(1), Relaxed);
    }

    /// All that may be outstanding, bytes.
    pub fn total(&self) -> u64 {
        let room = self.room.load(Relaxed).min(self.user_max.load(Relaxed));
        scale(room, self.factor.load(Relaxed), 256)
    }

    /// Bytes outstanding.
    pub fn outstanding(&self) -> u64 {
        self.outstanding.load(Relaxed)
    }

    /// Takes bytes, or says that there is no room.
    pub fn take(&self, bytes: u64) -> bool {
        let total = self.total();
        let taken = self
            .outstanding
            .fetch_update(Relaxed, Relaxed, |now| now.checked_add(bytes).filter(|next| *next <= total));
        taken.is_ok()
    }

    /// Gives bytes back: they were read, or given up.
    pub fn give(&self, bytes: u64) {
        let _ = self.outstanding.fetch_update(Relaxed, Relaxed, |now| Some(now.saturating_sub(bytes)));
    }

    /// Whether a whole file of this size fits beside what is outstanding.
    pub fn fits(&self, bytes: u64) -> bool {
        bytes <= self.total().saturating_sub(self.outstanding())
    }
}

/// What one holder has taken of a budget and not given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Owed(u64);

impl Owed {
    /// Nothing.
    pub const NOTHING: Owed = Owed(0);

    /// Bytes.
    pub fn bytes(self) -> u64 {
        self.0
    }

    /// Takes bytes, or says that there is no room: while all holders together have more than there is, nobody gets any.
    pub fn take(&mut self, bytes: u64, budget: &Budget) -> bool {
        let taken = budget.take(bytes);
        if taken {
            self.0 += bytes;
        }
        taken
    }

    /// Gives bytes back, never more than were taken.
    pub fn give(&mut self, bytes: u64, budget: &Budget) {
        let paid = bytes.min(self.0);
        self.0 -= paid;
        budget.give(paid);
    }

    /// Gives everything back.
    pub fn give_all(&mut self, budget: &Budget) {
        self.give(self.0, budget);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cgroup_bounds_the_room() {
        let machine = Memory { available: 8 << 30, ..Memory::default() };
        assert_eq!(machine.room(), 4 << 30);
        let limited = Memory { limit: Some(512 << 20), pinned: 112 << 20, ..machine };
        assert_eq!(limited.room(), (400 << 20) / 5 * 4);
        assert_eq!(Memory { pinned: 600 << 20, ..limited }.room(), 0);
    }

    #[test]
    fn outstanding_never_exceeds_the_total() {
        let budget = Budget::new();
        budget.tell(&Memory { available: 20 << 20, ..Memory::default() });
        assert!(budget.take(10 << 20));
        assert!(!budget.take(1));
        budget.give(4 << 20);
        assert!(budget.take(4 << 20));
        budget.give(u64::MAX);
        assert_eq!(budget.outstanding(), 0);
    }

    #[test]
    fn evictions_halve_and_calm_restores_slowly() {
        let budget = Budget::new();
        let calm = Memory { available: 2 << 30, ..Memory::default() };
        budget.tell(&calm);
        let full = budget.total();
        budget.evicted();
        budget.evicted();
        assert_eq!(budget.total(), full / 4);
        budget.tell(&calm);
        assert!(budget.total() < full / 2);
        (0..20).for_each(|_| budget.tell(&calm));
        assert_eq!(budget.total(), full);
        budget.tell(&Memory { pressure_centi: 2_000, ..calm });
        assert_eq!(budget.total(), full / 2);
    }

    #[test]
    fn a_cgroup_without_memory_gets_next_to_nothing_for_a_while() {
        let budget = Budget::new();
        let before = Memory { available: 2 << 30, ooms: 3, ..Memory::default() };
        budget.tell(&before);
        assert_eq!(budget.total(), 1 << 30, "what was before this process says nothing");
        budget.tell(&Memory { ooms: 4, ..before });
        assert_eq!(budget.total(), 4 << 20);
        (0..16).for_each(|_| budget.tell(&Memory { ooms: 4, ..before }));
        assert_eq!(budget.total(), 1 << 30);
    }

    #[test]
    fn what_a_program_writes_is_expected_to_go_on() {
        let budget = Budget::new();
        let limit = Memory { available: 8 << 30, limit: Some(200 << 20), ..Memory::default() };
        budget.tell(&limit);
        assert_eq!(budget.total(), 160 << 20);
        budget.tell(&Memory { pinned: 50 << 20, ..limit });
        assert_eq!(budget.total(), 80 << 20, "120 now, 80 when it is looked at again");
        budget.tell(&Memory { pinned: 50 << 20, ..limit });
        assert_eq!(budget.total(), 120 << 20);
    }

    #[test]
    fn a_holder_gives_back_what_it_took_and_no_more() {
        let budget = Budget::new();
        budget.tell(&Memory { available: 20 << 20, ..Memory::default() });
        let (mut one, mut other) = (Owed::NOTHING, Owed::NOTHING);
        assert!(one.take(6 << 20, &budget) && other.take(4 << 20, &budget) && !other.take(1, &budget));
        one.give(50 << 20, &budget);
        assert_eq!((one.bytes(), budget.outstanding()), (0, 4 << 20));
        other.give_all(&budget);
        assert_eq!(budget.outstanding(), 0);
    }

    #[test]
    fn the_user_may_ask_for_less() {
        let budget = Budget::new();
        budget.set_user_max(1 << 20);
        assert!(!budget.fits(2 << 20));
        assert!(budget.fits(1 << 20));
    }
}
