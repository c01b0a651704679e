//! A load that runs in slices: lanes do a granted number of operations, then wait for the next grant.
//!
//! Two kept stacks can so take turns of a few milliseconds, each with its files, caches and lanes as they were. A slice is
//! over when every lane has come to the end of the grant (or waits for another lane, which then cannot go on either).
//!
//! A grant is a number of operations, or a time ([`crate::Control::in_turns`]). Of times, a lane's own clock stands still while it
//! waits: what it records, its warm-up and its deadline are as if it had never waited.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};

use crate::event::Event;

/// How often somebody who waits for the end of a slice looks by itself.
const LOOK_NS: u64 = 20_000_000;

/// Grants of a run in slices. [`crate::Control::in_slices`] makes them.
#[derive(Debug, Default)]
pub struct Slices {
    /// Grants are times.
    timed: bool,
    /// Of times: when the present turn ends, on the clock of [`crate::clock`].
    until_ns: AtomicU64,
    /// Operations granted that no lane has claimed.
    left: AtomicU64,
    /// Moves on with each grant: what lanes wait for.
    granted: Event,
    /// Lanes of the run; 0 before it begins.
    lanes: AtomicUsize,
    /// Lanes that wait for a grant. A lane leaves before it claims, so that nothing is left unclaimed and everybody parked
    /// only when the grant is done.
    parked: AtomicUsize,
    /// When the last of them came to its end, on the clock of [`crate::clock`].
    last_ns: AtomicU64,
    /// Moves on whenever a lane parks.
    ended: Event,
}

/// What came of a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slice {
    /// It is done: when it began and when its last operation ended, in nanoseconds of the monotonic clock.
    Done {
        /// Begin.
        begin_ns: u64,
        /// End.
        end_ns: u64,
    },
    /// The run is over.
    Over,
}

impl Slices {
    /// Nothing granted yet.
    pub fn new() -> Slices {
        Slices::default()
    }

    /// Grants of times.
    pub(crate) fn timed() -> Slices {
        Slices { timed: true, ..Slices::default() }
    }

    /// Whether grants are times.
    #[inline(always)]
    pub(crate) fn is_timed(&self) -> bool {
        self.timed
    }

    /// Grants so many nanoseconds from now; the time now.
    pub(crate) fn grant_time(&self, nanoseconds: u64) -> u64 {
        let begin_ns = crate::clock::Clock::get().now();
        self.last_ns.store(begin_ns, Release);
        self.until_ns.store(begin_ns.saturating_add(nanoseconds), Release);
        self.granted.notify();
        begin_ns
    }

    /// When the present turn ends; 0 before the first.
    pub(crate) fn until_ns(&self) -> u64 {
        self.until_ns.load(Acquire)
    }

    /// Grants `operations`; the time now.
    pub(crate) fn grant(&self, operations: u64) -> u64 {
        let begin_ns = crate::clock::Clock::get().now();
        self.last_ns.store(begin_ns, Release);
        self.left.fetch_add(operations, AcqRel);
        self.granted.notify();
        begin_ns
    }

    /// When the last lane came to the end of the grant.
    pub(crate) fn ended_ns(&self) -> u64 {
        self.last_ns.load(Acquire)
    }

    /// The count of what is to be looked at again.
    pub(crate) fn ended_seen(&self) -> u32 {
        self.ended.seen()
    }

    /// Waits until something has ended since `seen`, or for a while.
    pub(crate) fn wait(&self, seen: u32) {
        self.ended.block(seen, LOOK_NS);
    }

    /// Whether the grant is done, when `waiting` threads wait for another one's flowop or for a grant.
    pub(crate) fn is_done(&self, waiting: u64) -> bool {
        let (lanes, parked) = (self.lanes.load(Acquire), self.parked.load(Acquire));
        if self.timed {
            // who has been granted time parks when it is over, and not before
            return lanes > 0 && parked >= lanes && crate::clock::Clock::get().now() >= self.until_ns();
        }
        // who waits for a grant is among the waiting, or just about to be
        let stuck = (waiting as usize).saturating_sub(parked);
        lanes > 0 && self.left.load(Acquire) == 0 && parked > 0 && parked + stuck >= lanes
    }

    /// So many lanes are about to begin.
    pub(crate) fn begin(&self, lanes: usize) {
        self.lanes.store(lanes, Release);
    }

    /// What lanes claim from.
    pub(crate) fn left(&self) -> &AtomicU64 {
        &self.left
    }

    /// What a parked lane waits for.
    pub(crate) fn granted(&self) -> &Event {
        &self.granted
    }

    /// A lane has come to the end of the grant at `now`, or has found nothing to claim (0).
    pub(crate) fn park(&self, now: u64) {
        self.last_ns.fetch_max(now, AcqRel);
        self.parked.fetch_add(1, AcqRel);
        self.ended.notify();
    }

    /// A lane has ended for good.
    pub(crate) fn depart(&self) {
        self.lanes.fetch_sub(1, AcqRel);
        self.ended.notify();
    }

    /// A parked lane looks for a grant.
    pub(crate) fn leave(&self) {
        self.parked.fetch_sub(1, AcqRel);
    }
}
