//! One latch of failure for all that writes to a storage.
//!
//! The kernel reports a lost write once, to whoever flushes the descriptor next. Log, extents, nodes, table and superblocks share
//! one descriptor, so a lost frame may be reported to a checkpoint's flush, while that of the sync returns 0. Whatever they are
//! to promise therefore depends on every write and flush of the storage, also of other threads: [`Latched`] keeps the first that
//! failed, refuses what comes afterwards, and lets a flush succeed only when all that overlapped it have ended well.
//!
//! A panic is a failure as well, wherever it is met: what it leaves half done may be what was promised.

use super::Storage;
use crate::error::{Error, FailedOperation, StopReason};
use crate::sync::{Condvar, Mutex, MutexGuard};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, LockResult, OnceLock};

/// The first failure, if there was one. It stays.
#[derive(Debug, Default)]
pub(crate) struct FailureLatch(OnceLock<StopReason>);

impl FailureLatch {
    pub fn get(&self) -> Option<&StopReason> {
        self.0.get()
    }

    /// Keeps `reason` unless there is one already.
    pub fn set(&self, reason: StopReason) {
        let _ = self.0.set(reason);
    }

    /// Does `work`. If it panics in the middle of `operation`, that is kept before the panic goes on.
    pub fn guard<T>(&self, operation: FailedOperation, work: impl FnOnce() -> T) -> T {
        catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|carried| {
            self.set(StopReason::panicked(operation, &*carried));
            resume_unwind(carried)
        })
    }

    /// What a lock guards. If its holder panicked, what it guards may be half changed, and nothing may rely on that any more.
    pub fn unpoisoned<G>(&self, locked: LockResult<G>) -> G {
        locked.unwrap_or_else(|poisoned| {
            self.set(StopReason::poisoned());
            poisoned.into_inner()
        })
    }

    /// An error if something has failed.
    pub fn check(&self) -> Result<(), Error> {
        self.get().map_or(Ok(()), |reason| Err(Error::ReadOnly(reason.to_string())))
    }
}

/// Flushes under way, by their numbers.
#[derive(Debug, Default)]
struct Flushes {
    begun: u64,
    running: Vec<u64>,
    /// So many wait for one of them to end. Without any nobody is woken, which would be a system call for each flush.
    waiting: usize,
}

/// A storage with a latch of failure around it.
pub(crate) struct Latched {
    below: Arc<dyn Storage>,
    latch: Arc<FailureLatch>,
    flushes: Mutex<Flushes>,
    /// A flush has ended.
    ended: Condvar,
}

impl Latched {
    pub fn new(below: Arc<dyn Storage>) -> Latched {
        Latched { below, latch: Arc::default(), flushes: Mutex::default(), ended: Condvar::new() }
    }

    pub fn latch(&self) -> &Arc<FailureLatch> {
        &self.latch
    }

    fn flushes(&self) -> MutexGuard<'_, Flushes> {
        self.flushes.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn refuse_after_failure(&self) -> io::Result<()> {
        self.latch.get().map_or(Ok(()), |reason| Err(io::Error::other(reason.clone())))
    }

    fn write(&self, offset: u64, len: usize, write: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        self.refuse_after_failure()?;
        let operation = FailedOperation::Write { offset, len: len as u64 };
        let done = self.latch.guard(operation, write);
        done.inspect_err(|e| self.latch.set(StopReason::of(operation, e)))
    }

    fn begin_flush(&self) -> RunningFlush<'_> {
        let mut flushes = self.flushes();
        let number = flushes.begun;
        flushes.begun += 1;
        flushes.running.push(number);
        RunningFlush { of: self, number }
    }

    /// Waits until every flush that has begun by now has ended: until then one of them may have been told of a write that was
    /// lost before this moment, and has not said so.
    fn wait_for_others(&self) {
        let mut flushes = self.flushes();
        let begun = flushes.begun;
        while flushes.running.iter().any(|number| *number < begun) {
            flushes.waiting += 1;
            flushes = self.ended.wait(flushes).unwrap_or_else(|e| e.into_inner());
            flushes.waiting -= 1;
        }
    }
}

/// A flush under way. Its failure is kept before anybody sees that it has ended.
struct RunningFlush<'a> {
    of: &'a Latched,
    number: u64,
}

impl Drop for RunningFlush<'_> {
    fn drop(&mut self) {
        let mut flushes = self.of.flushes();
        flushes.running.retain(|number| *number != self.number);
        let is_awaited = flushes.waiting > 0;
        drop(flushes);
        if is_awaited {
            self.of.ended.notify_all();
        }
    }
}

impl Storage for Latched {
    fn len(&self) -> io::Result<u64> {
        self.below.len()
    }

    fn read_at(&self, buf: &mut [u8], off: u64) -> io::Result<()> {
        self.below.read_at(buf, off)
    }

    fn read_many(&self, reads: &mut [(u64, &mut [u8])]) -> io::Result<()> {
        self.below.read_many(reads)
    }

    fn write_at(&self, buf: &[u8], off: u64) -> io::Result<()> {
        self.write(off, buf.len(), || self.below.write_at(buf, off))
    }

    fn write_many(&self, writes: &[(u64, &[u8])]) -> io::Result<()> {
        let first = writes.first().map_or(0, |(off, _)| *off);
        let len = writes.iter().map(|(_, buf)| buf.len()).sum();
        self.write(first, len, || self.below.write_many(writes))
    }

    /// Also fails if any other write or flush has failed by the time it returns.
    fn flush(&self) -> io::Result<()> {
        self.refuse_after_failure()?;
        let running = self.begin_flush();
        let done = self.latch.guard(FailedOperation::Flush, || self.below.flush());
        let done = done.inspect_err(|e| self.latch.set(StopReason::of(FailedOperation::Flush, e)));
        #[cfg(test)]
        if let Some(outcome) = planted::ends(&running, &done) {
            return outcome;
        }
        drop(running);
        done?;
        self.wait_for_others();
        self.refuse_after_failure()
    }

    fn discard(&self, off: u64, len: u64) -> io::Result<()> {
        self.below.discard(off, len)
    }
}

/// Faults that the explored schedules must find, or they show nothing.
#[cfg(test)]
pub(crate) mod planted {
    use super::{RunningFlush, io};
    use std::cell::Cell;

    /// What [`Storage::flush`](super::Storage::flush) does wrong.
    #[allow(dead_code, reason = "tests/schedules.rs plants them")]
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Fault {
        /// It says what its own flush said.
        OwnFlushOnly,
        /// It looks at the latch when its own flush has ended, and does not wait for those that overlap it.
        NoWaiting,
    }

    thread_local! {
        pub static FAULT: Cell<Option<Fault>> = const { Cell::new(None) };
    }

    /// What a flush with a fault returns.
    pub(super) fn ends(running: &RunningFlush<'_>, done: &io::Result<()>) -> Option<io::Result<()>> {
        let fault = FAULT.get()?;
        let of = running.of;
        match done {
            Err(_) => None,
            Ok(()) if fault == Fault::NoWaiting => Some(of.refuse_after_failure()),
            Ok(()) => Some(Ok(())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::{FaultPlan, SimStorage, UNIT};
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicU64, Ordering};

    fn latched(storage: &SimStorage) -> Latched {
        Latched::new(Arc::new(storage.clone()))
    }

    #[test]
    fn after_a_failed_write_nothing_is_written_or_flushed() {
        let storage = SimStorage::new(4 * UNIT as u64);
        let latched = latched(&storage);
        storage.set_faults(FaultPlan { write_error_at: Some(1), ..FaultPlan::default() });
        let page = [7; UNIT];
        latched.write_at(&page, 0).expect("write");
        let failed = latched.write_many(&[(UNIT as u64, &page), (0, &page)]).expect_err("EIO");
        assert_eq!(failed.raw_os_error(), Some(libc::EIO));
        let (written, flushed) = (latched.write_at(&page, 0), latched.flush());
        for refused in [written, flushed] {
            let refused = refused.expect_err("refused");
            let reason = StopReason::in_refusal(&refused).expect("a reason");
            let operation = FailedOperation::Write { offset: UNIT as u64, len: 2 * UNIT as u64 };
            assert_eq!((reason.operation, reason.errno), (operation, Some(libc::EIO)));
        }
        assert_eq!(storage.mutations(), 2, "something was passed on");
        latched.read_at(&mut [0; UNIT], 0).expect("reads go on");
    }

    /// The first flush is told of the loss and returns only when the second one has ended below.
    struct TellsFirst {
        begun: AtomicU64,
        second: Barrier,
    }

    impl Storage for TellsFirst {
        fn len(&self) -> io::Result<u64> {
            Ok(UNIT as u64)
        }

        fn read_at(&self, _buf: &mut [u8], _off: u64) -> io::Result<()> {
            Ok(())
        }

        fn write_at(&self, _buf: &[u8], _off: u64) -> io::Result<()> {
            Ok(())
        }

        fn flush(&self) -> io::Result<()> {
            let first = self.begun.fetch_add(1, Ordering::SeqCst) == 0;
            self.second.wait();
            if first { Err(io::Error::from_raw_os_error(libc::EIO)) } else { Ok(()) }
        }

        fn discard(&self, _off: u64, _len: u64) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_flush_that_overlaps_a_failed_one_fails() {
        for _ in 0..200 {
            let below = TellsFirst { begun: AtomicU64::new(0), second: Barrier::new(2) };
            let latched = Latched::new(Arc::new(below));
            let flush = || latched.flush().expect_err("a lost write was passed over");
            std::thread::scope(|s| {
                let other = s.spawn(flush);
                flush();
                other.join().expect("no panic");
            });
        }
    }

    #[test]
    fn a_reason_says_what_where_and_why() {
        let eio = io::Error::from_raw_os_error(libc::EIO);
        let write = StopReason::of(FailedOperation::Write { offset: 8192, len: 4096 }, &eio).to_string();
        assert_eq!(write, format!("write of 4096 bytes at byte 8192 of the storage: {eio}"));
        let flush = StopReason::of(FailedOperation::Flush, &eio).to_string();
        assert_eq!(flush, format!("flush of the storage: {eio}"));
    }
}
