//! A counter on which everything that waits stands.
//!
//! A waiter reads it, looks whether it can go on, and if not waits until the counter has moved from what it read, so
//! no wake-up is lost. How a thread waits is the target's business: a futex on a real one, the executor on a simulated
//! one.

use std::sync::atomic::{AtomicU32, Ordering::*};

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

/// Notifies when it is dropped: by the end of what has it, whichever way that ends.
pub struct NotifyAtEnd<'e>(pub &'e Event);

impl Drop for NotifyAtEnd<'_> {
    fn drop(&mut self) {
        self.0.notify();
    }
}
