//! How far each thread of a replay is, and waiting for that.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::Timespec;
use rustix::io::Errno;
use rustix::thread::futex::{self, Flags};

/// Looks at a counter so often before it sleeps: a microsecond or two, as long as a call that is answered from memory.
const SPINS: u32 = 100;

/// One thread, on a cache line of its own.
#[derive(Debug)]
#[repr(align(64))]
struct Lane {
    /// The number of the operation that it does or will do next: all before it are done. `u64::MAX`: all are.
    next: AtomicU64,
    /// Who sleeps until it goes on.
    waiters: AtomicU32,
    /// Changes when sleepers are to look again.
    turn: AtomicU32,
    is_started: AtomicBool,
}

/// All threads.
#[derive(Debug)]
pub(super) struct Progress {
    lanes: Vec<Lane>,
    /// 1: the replay ends now.
    halted: AtomicU32,
}

impl Progress {
    /// Threads with the numbers of their first operations.
    pub(super) fn new(first: impl Iterator<Item = u64>) -> Progress {
        let lane = |next| Lane {
            next: AtomicU64::new(next),
            waiters: AtomicU32::new(0),
            turn: AtomicU32::new(0),
            is_started: AtomicBool::new(false),
        };
        Progress { lanes: first.map(lane).collect(), halted: AtomicU32::new(0) }
    }

    /// How many threads there are.
    pub(super) fn len(&self) -> usize {
        self.lanes.len()
    }

    /// A thread begins: true for the first who says so.
    pub(super) fn start(&self, thread: u32) -> bool {
        !self.lanes[thread as usize].is_started.swap(true, Ordering::AcqRel)
    }

    /// A thread has done what was before its operation `next`.
    pub(super) fn advance(&self, thread: u32, next: u64) {
        let lane = &self.lanes[thread as usize];
        // in one order with a waiter's two: it sees this, or this sees it
        lane.next.store(next, Ordering::SeqCst);
        if lane.waiters.load(Ordering::SeqCst) > 0 {
            lane.turn.fetch_add(1, Ordering::SeqCst);
            wake(&lane.turn);
        }
    }

    /// Waits until a thread has ended its operation `number`; `start` hears of a thread that has not begun. False: the replay is over.
    pub(super) fn wait(&self, thread: u32, number: u64, start: &dyn Fn(u32)) -> bool {
        let lane = &self.lanes[thread as usize];
        for _ in 0..SPINS {
            if lane.next.load(Ordering::SeqCst) > number {
                return true;
            }
            std::hint::spin_loop();
        }
        if !lane.is_started.load(Ordering::Acquire) {
            start(thread);
        }
        lane.waiters.fetch_add(1, Ordering::SeqCst);
        let done = loop {
            let turn = lane.turn.load(Ordering::SeqCst);
            if lane.next.load(Ordering::SeqCst) > number {
                break true;
            }
            if self.is_halted() {
                break false;
            }
            // it returns at once when the turn is over, and now and then for no reason
            let _ = futex::wait(&lane.turn, Flags::PRIVATE, turn, None);
        };
        lane.waiters.fetch_sub(1, Ordering::SeqCst);
        done
    }

    /// Waits until all threads have ended their operations up to `number`. False: the replay is over.
    pub(super) fn wait_all(&self, number: u64, start: &dyn Fn(u32)) -> bool {
        (0..self.lanes.len() as u32).all(|thread| self.wait(thread, number, start))
    }

    /// Sleeps until a moment. False: the replay is over.
    pub(super) fn sleep_until(&self, due: Instant) -> bool {
        while !self.is_halted() {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            match futex::wait(&self.halted, Flags::PRIVATE, 0, Some(&timespec(left))) {
                Ok(()) | Err(Errno::TIMEDOUT | Errno::AGAIN | Errno::INTR) => {}
                // nothing else is said of a number of our own; without a futex the time has to pass all the same
                Err(_) => std::thread::sleep(left),
            }
        }
        false
    }

    /// Ends the replay: whoever waits returns.
    pub(super) fn halt(&self) {
        self.halted.store(1, Ordering::SeqCst);
        wake(&self.halted);
        for lane in &self.lanes {
            lane.turn.fetch_add(1, Ordering::SeqCst);
            wake(&lane.turn);
        }
    }

    /// Whether the replay is over.
    #[inline]
    pub(super) fn is_halted(&self) -> bool {
        self.halted.load(Ordering::SeqCst) != 0
    }
}

fn wake(word: &AtomicU32) {
    // it fails for no number that is there
    let _ = futex::wake(word, Flags::PRIVATE, i32::MAX as u32);
}

fn timespec(left: Duration) -> Timespec {
    Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_is_woken() {
        for _ in 0..2_000 {
            let progress = Progress::new([1, 2].into_iter());
            std::thread::scope(|scope| {
                let waits = scope.spawn(|| progress.wait(0, 1, &|_| {}) && progress.wait_all(2, &|_| {}));
                progress.advance(0, u64::MAX);
                progress.advance(1, u64::MAX);
                assert!(waits.join().unwrap());
            });
        }
    }

    #[test]
    fn the_end_wakes_all() {
        let progress = Progress::new([1, 2].into_iter());
        let far = Instant::now() + Duration::from_secs(600);
        let asked = AtomicU32::new(9);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| progress.wait(1, 2, &|thread| asked.store(thread, Ordering::SeqCst)));
            let sleeps = scope.spawn(|| progress.sleep_until(far));
            // it has asked for the thread that has not begun, and waits or is about to
            while asked.load(Ordering::SeqCst) == 9 {
                std::thread::yield_now();
            }
            progress.halt();
            assert!(!waits.join().unwrap() && !sleeps.join().unwrap());
            assert_eq!(asked.load(Ordering::SeqCst), 1);
        });
        assert!(progress.start(0) && !progress.start(0));
    }
}
