//! What the kernel holds of a file that it must forget, since a request changed what it does not see change.
//!
//! * A write by a stranger takes the set-user-ID bit away here. The kernel goes on with the mode that it knows, also
//!   when it runs the file, until it is told to ask again.
//! * After an asynchronous direct write the kernel leaves the page cache as it is, and after one through a handle that
//!   bypasses the cache what a reader brings in meanwhile. Both would be read for ever.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;

use fusewire::wire::written_bytes;
use fusewire::{Answered, Later, Notifier, Reply};

/// A write whose answer waits until its range has left the page cache. It has been given if there is none.
struct Stale {
    ino: u64,
    off: u64,
    bytes: usize,
    reply: Option<Later>,
}

#[derive(Default)]
struct Waiting {
    writes: VecDeque<Stale>,
    stop: bool,
}

struct Shared {
    notifier: Notifier,
    waiting: Mutex<Waiting>,
    more: Condvar,
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Lets the kernel drop pages. It waits for reads of them, which other threads answer.
    fn drop_pages(&self, ino: u64, off: u64, bytes: usize) {
        // The kernel takes a length of zero for "up to the end". An inode that it does not know has no pages.
        if let (Ok(off), Ok(bytes @ 1..)) = (i64::try_from(off), i64::try_from(bytes)) {
            let _ = self.notifier.invalidate_inode(ino, off, bytes);
        }
    }

    fn run(&self) {
        let mut waiting = self.waiting();
        loop {
            if let Some(write) = waiting.writes.pop_front() {
                drop(waiting);
                self.drop_pages(write.ino, write.off, write.bytes);
                if let Some(reply) = write.reply {
                    reply.answer(Ok(written_bytes(write.bytes as u32).into()));
                }
                waiting = self.waiting();
            } else if waiting.stop {
                return;
            } else {
                waiting = self.more.wait(waiting).unwrap_or_else(|e| e.into_inner());
            }
        }
    }
}

/// Tells the kernel, and the thread that may wait for it.
pub(crate) struct Coherence {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Coherence {
    /// Starts the thread.
    pub fn start(notifier: Notifier) -> Coherence {
        let shared = Arc::new(Shared { notifier, waiting: Mutex::default(), more: Condvar::new() });
        let run = shared.clone();
        let thread =
            std::thread::Builder::new().name("betrfs-coherence".into()).spawn(move || run.run()).ok();
        Coherence { shared, thread }
    }

    /// The mode of `ino` is no longer what the kernel thinks. Waits for nothing: attributes have no lock there.
    pub fn forget_mode(&self, ino: u64) {
        let _ = self.shared.notifier.invalidate_inode(ino, -1, 0);
    }

    /// Answers a write of `bytes` at `off` when no page of before is left.
    pub fn written(&self, ino: u64, off: u64, bytes: usize, reply: Reply<'_>) -> Answered {
        if self.thread.is_none() {
            // A system without a thread to spare: an older page is better than a wait for oneself.
            return reply.written(bytes as u32);
        }
        // The kernel drops a page when those who read it have their answers: these must find somebody to give them. With
        // too many such writes at once an older page for a moment is better than a wait for ever.
        let (answered, reply) = match reply.park() {
            Ok((answered, later)) => (answered, Some(later)),
            Err(reply) => (reply.written(bytes as u32), None),
        };
        self.shared.waiting().writes.push_back(Stale { ino, off, bytes, reply });
        self.shared.more.notify_one();
        answered
    }
}

impl Drop for Coherence {
    fn drop(&mut self) {
        self.shared.waiting().stop = true;
        self.shared.more.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
