//! What flowops wait on: events, semaphores and broadcast blocks, shared by all processes of a workload.
//!
//! Everything stands on [`Event`], a counter that moves on when something has changed. A waiter reads it, looks
//! whether it can go on, and if not waits until the counter has moved from what it read, so no wake-up is lost. How a
//! thread waits is the target's business: a futex on a real one, the executor on a simulated one.

use std::sync::atomic::{AtomicI64, AtomicU32, Ordering::*};

use crate::control::Control;
use crate::target::Target;

/// A counter that moves on whenever waiters should look again.
#[derive(Debug, Default)]
pub struct Event(pub(crate) AtomicU32);

impl Event {
    /// The present count.
    pub fn seen(&self) -> u32 {
        self.0.load(Acquire)
    }

    /// Moves on and wakes every waiter.
    pub fn notify(&self) {
        self.0.fetch_add(1, AcqRel);
        // Only a bad address could make it fail, and this one is a reference.
        let _ = rustix::thread::futex::wake(&self.0, rustix::thread::futex::Flags::PRIVATE, i32::MAX as u32);
    }

    /// Blocks the thread until the counter has moved from `seen`, at the longest for `nanoseconds`.
    pub fn block(&self, seen: u32, nanoseconds: u64) {
        let timeout = rustix::time::Timespec {
            tv_sec: (nanoseconds / 1_000_000_000) as i64,
            tv_nsec: (nanoseconds % 1_000_000_000) as _,
        };
        // EAGAIN, EINTR and ETIMEDOUT all mean: look again.
        let _ =
            rustix::thread::futex::wait(&self.0, rustix::thread::futex::Flags::PRIVATE, seen, Some(&timeout));
    }
}

/// The semaphore of one `semblock` instance, with its high-water twin.
#[derive(Debug)]
pub struct Semaphore {
    value: AtomicI64,
    highwater: AtomicI64,
    event: Event,
}

impl Semaphore {
    /// An empty semaphore whose high-water mark allows `highwater` posts ahead.
    pub fn new(highwater: u64) -> Semaphore {
        let highwater = i64::try_from(highwater).unwrap_or(i64::MAX);
        Semaphore { value: AtomicI64::new(0), highwater: AtomicI64::new(highwater), event: Event::default() }
    }

    /// `sempost`: adds `count`; when `blocking`, first takes `count` from the high-water mark. False: stopped.
    pub async fn post<T: Target>(&self, target: &T, control: &Control, count: i64, blocking: bool) -> bool {
        if blocking && !take(&self.highwater, &self.event, target, control, count).await {
            return false;
        }
        self.value.fetch_add(count, AcqRel);
        self.event.notify();
        true
    }

    /// `semblock`: gives `count` back to the high-water mark, then takes `count`. False: stopped.
    pub async fn block<T: Target>(&self, target: &T, control: &Control, count: i64) -> bool {
        self.highwater.fetch_add(count, AcqRel);
        self.event.notify();
        take(&self.value, &self.event, target, control, count).await
    }
}

async fn take<T: Target>(from: &AtomicI64, event: &Event, target: &T, control: &Control, count: i64) -> bool {
    loop {
        let seen = event.seen();
        if from.fetch_update(AcqRel, Acquire, |value| (value >= count).then(|| value - count)).is_ok() {
            return true;
        }
        if control.stopped() {
            return false;
        }
        target.wait(event, seen).await;
    }
}
