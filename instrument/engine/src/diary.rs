//! What each thread did and when, for those who put it beside what the kernel tells of the same time.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};

/// An operation that took less asked nobody outside of the kernel: a round trip to another thread takes several times as
/// long.
pub const SHORT_NS: u64 = 1_000;
/// Entries of all threads together, 24 bytes each: what comes later is not written down.
const ENTRIES_MAX: usize = 8 << 20;
/// Entries that a thread asks for at once.
const ENTRIES_STEP: usize = 4096;

/// One execution of a flowop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The flowop, as an index of the outcome's `ops`.
    pub line: usize,
    /// When it began, in nanoseconds of `CLOCK_MONOTONIC`.
    pub start_ns: u64,
    /// When it ended.
    pub end_ns: u64,
}

/// The diary of one thread.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ThreadDiary {
    /// The thread's number, as tracepoints have it.
    pub tid: u32,
    /// In order of time, without those shorter than [`SHORT_NS`].
    pub entries: Vec<Entry>,
}

/// The diaries of a run.
#[derive(Debug, Default)]
pub(crate) struct Diaries {
    done: Mutex<Vec<ThreadDiary>>,
    granted: AtomicUsize,
}

impl Diaries {
    fn done(&self) -> MutexGuard<'_, Vec<ThreadDiary>> {
        self.done.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The diaries of the threads that have ended.
    pub(crate) fn take(&self) -> Vec<ThreadDiary> {
        std::mem::take(&mut self.done())
    }

    /// A pen for the calling thread.
    pub(crate) fn pen(&self) -> DiaryWriter<'_> {
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        DiaryWriter { diaries: self, diary: ThreadDiary { tid, entries: Vec::new() }, left: 0 }
    }
}

/// What a thread writes with; what it wrote is handed over when it is dropped.
#[derive(Debug)]
pub struct DiaryWriter<'r> {
    diaries: &'r Diaries,
    diary: ThreadDiary,
    left: usize,
}

impl DiaryWriter<'_> {
    /// Writes one execution down.
    pub(crate) fn write(&mut self, line: usize, start_ns: u64, end_ns: u64) {
        if end_ns.saturating_sub(start_ns) < SHORT_NS {
            return;
        }
        if self.left == 0 {
            if self.diaries.granted.fetch_add(ENTRIES_STEP, Relaxed) >= ENTRIES_MAX {
                return;
            }
            self.left = ENTRIES_STEP;
        }
        self.left -= 1;
        self.diary.entries.push(Entry { line, start_ns, end_ns });
    }
}

impl Drop for DiaryWriter<'_> {
    fn drop(&mut self) {
        self.diaries.done().push(std::mem::take(&mut self.diary));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_there_when_the_thread_has_ended() {
        let diaries = Diaries::default();
        let mut pen = diaries.pen();
        pen.write(3, 5_000, 5_000 + SHORT_NS - 1);
        pen.write(4, 10_000, 10_000 + SHORT_NS);
        assert_eq!(diaries.take(), []);
        drop(pen);
        let entry = Entry { line: 4, start_ns: 10_000, end_ns: 10_000 + SHORT_NS };
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        assert_eq!(diaries.take(), [ThreadDiary { tid, entries: vec![entry] }]);
        assert_eq!(diaries.take(), []);
    }

    #[test]
    fn memory_is_bounded() {
        let diaries = Diaries::default();
        diaries.granted.store(ENTRIES_MAX - 1, Relaxed);
        let mut pen = diaries.pen();
        (0..3 * ENTRIES_STEP as u64).for_each(|at| pen.write(0, at * 10_000, at * 10_000 + 5_000));
        drop(pen);
        assert_eq!(diaries.take()[0].entries.len(), ENTRIES_STEP);
    }
}
