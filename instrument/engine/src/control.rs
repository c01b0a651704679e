//! Stopping a run from outside, and looking at it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};

use crate::diary::{Diaries, ThreadDiary};
use crate::slices::{Slice, Slices};

/// A handle on a run: give it to the run, keep it, stop the run from any thread or signal handler.
#[derive(Debug, Default)]
pub struct Control {
    /// Threads end after their present operation.
    stop: AtomicBool,
    /// The user's wish, as against the run's own end.
    interrupted: AtomicBool,
    /// Threads that wait for another thread's flowop just now.
    waiting: AtomicU64,
    /// Lanes that do no operation of the run's number unless another lane does something.
    idle: AtomicU64,
    /// Grants, when the run goes in slices.
    slices: Option<Slices>,
    /// When each thread did what, if somebody wants to know.
    diaries: Option<Diaries>,
}

impl Control {
    /// A handle on a run that has not begun.
    pub fn new() -> Control {
        Control::default()
    }

    /// A handle on a run that goes in slices.
    pub fn in_slices() -> Control {
        Control { slices: Some(Slices::new()), ..Control::default() }
    }

    /// A handle on a run that is granted times ([`Control::turn`]). Its length is the sum of them.
    pub fn in_turns() -> Control {
        Control { slices: Some(Slices::timed()), ..Control::default() }
    }

    /// A handle on a run that writes down when each thread did what.
    pub fn with_diaries() -> Control {
        Control { diaries: Some(Diaries::default()), ..Control::default() }
    }

    /// When each thread did what, once the run has ended; nothing unless made by [`Control::with_diaries`].
    pub fn diaries(&self) -> Vec<ThreadDiary> {
        self.diaries.as_ref().map_or_else(Vec::new, Diaries::take)
    }

    pub(crate) fn wanted_diaries(&self) -> Option<&Diaries> {
        self.diaries.as_ref()
    }

    pub(crate) fn slices(&self) -> Option<&Slices> {
        self.slices.as_ref()
    }

    /// Of a run in slices: waits until every lane is there and waits; false: the run is over before, or goes as a whole.
    pub fn ready_for_slices(&self) -> bool {
        self.slices.as_ref().is_some_and(|slices| self.until_done(slices))
    }

    /// Of a run in slices: grants `operations` and waits until they are done. One caller at a time, after
    /// [`Control::ready_for_slices`].
    pub fn slice(&self, operations: u64) -> Slice {
        let Some(slices) = self.slices.as_ref().filter(|_| !self.stopped()) else { return Slice::Over };
        let begin_ns = slices.grant(operations);
        if self.until_done(slices) {
            Slice::Done { begin_ns, end_ns: slices.ended_ns() }
        } else {
            Slice::Over
        }
    }

    /// Of a run in turns: grants so many nanoseconds and waits until every lane has ended its operation of then. One caller at a
    /// time, after [`Control::ready_for_slices`]. The last turn of a run does not come back: the run ends.
    pub fn turn(&self, nanoseconds: u64) -> Slice {
        let Some(slices) = self.slices.as_ref().filter(|_| !self.stopped()) else { return Slice::Over };
        let begin_ns = slices.grant_time(nanoseconds);
        if self.until_done(slices) {
            Slice::Done { begin_ns, end_ns: slices.ended_ns() }
        } else {
            Slice::Over
        }
    }

    fn until_done(&self, slices: &Slices) -> bool {
        loop {
            let seen = slices.ended_seen();
            if self.stopped() {
                return false;
            }
            if slices.is_done(self.waiting_threads()) {
                return true;
            }
            slices.wait(seen);
        }
    }

    /// Asks the run to end now and to report what it has. Safe to call from a signal handler.
    pub fn interrupt(&self) {
        self.interrupted.store(true, Release);
        self.stop.store(true, Release);
    }

    /// Whether [`Control::interrupt`] was called.
    pub fn interrupted(&self) -> bool {
        self.interrupted.load(Acquire)
    }

    /// The run ends itself: time up, done or failed.
    pub(crate) fn finish(&self) {
        self.stop.store(true, Release);
    }

    /// Whether threads should end.
    #[inline(always)]
    pub fn stopped(&self) -> bool {
        self.stop.load(Relaxed)
    }

    /// Does `wait`, in which the thread can only be freed by another thread's flowop.
    pub(crate) fn waiting(&self, wait: impl FnOnce()) {
        self.waiting.fetch_add(1, AcqRel);
        wait();
        self.waiting.fetch_sub(1, AcqRel);
    }

    /// Does `wait`, in which a lane can only be freed by another lane's flowop.
    pub(crate) async fn idle<R>(&self, wait: impl Future<Output = R>) -> R {
        self.count_idle(true);
        let result = wait.await;
        self.count_idle(false);
        result
    }

    /// One more lane is idle, or one is no longer.
    pub(crate) fn count_idle(&self, is_idle: bool) {
        if is_idle {
            self.idle.fetch_add(1, AcqRel)
        } else {
            self.idle.fetch_sub(1, AcqRel)
        };
    }

    pub(crate) fn idle_lanes(&self) -> u64 {
        self.idle.load(Acquire)
    }

    pub(crate) fn waiting_threads(&self) -> u64 {
        self.waiting.load(Acquire)
    }
}
