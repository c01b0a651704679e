//! Syncs that many wait for: one thread syncs once for all, so that those who take requests stay free. Whoever has seen a
//! flush end answers all that it served.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;

use fusewire::wire::written_bytes;
use fusewire::{AbortOnPanic, Answered, DeferredReply, Reply};

use crate::error::Error;
use crate::fs::Fs;

/// So many syncs are made by the thread that took the request, which is quicker for each.
const INLINE_MAX: usize = 2;

/// What is answered when a sync is done.
#[derive(Clone, Copy)]
enum Answer {
    Nothing,
    Written(u32),
}

struct SyncDeadline {
    /// The store's batch that must be durable before it is given.
    batch: u64,
    reply: DeferredReply,
    answer: Answer,
}

#[derive(Default)]
struct Waiting {
    replies: Vec<SyncDeadline>,
    stop: bool,
}

impl Answer {
    fn now(self, reply: Reply<'_>) -> Answered {
        match self {
            Answer::Nothing => reply.ok(),
            Answer::Written(bytes) => reply.written(bytes),
        }
    }

    fn bytes(self) -> Vec<u8> {
        match self {
            Answer::Nothing => Vec::new(),
            Answer::Written(bytes) => written_bytes(bytes).into(),
        }
    }
}

struct Shared {
    fs: Arc<Fs>,
    waiting: Mutex<Waiting>,
    more: Condvar,
    inline: AtomicUsize,
}

/// The thread, and who waits for it.
pub(crate) struct Syncer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// The error number of a sync that failed. Never `EROFS`, by which `fsync` says of what cannot be synced at all: programs take it for
/// no failure (MySQL of directories).
pub(crate) fn sync_errno(error: &Error) -> i32 {
    match error {
        Error::ReadOnly(_) => libc::EIO,
        other => other.errno(),
    }
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Syncs up to `batch`, and gives every reply that became due by that.
    fn sync_to(&self, batch: u64) -> Result<(), i32> {
        let synced = self.fs.sync_to(batch);
        // After a failure none of them can be kept.
        let durable = *synced.as_ref().unwrap_or(&u64::MAX);
        let result = synced.map(|_| ()).map_err(|e| sync_errno(&e));
        let due: Vec<_> = self.waiting().replies.extract_if(.., |due| due.batch <= durable).collect();
        due.into_iter().for_each(|due| due.reply.answer(result.map(|()| due.answer.bytes())));
        result
    }

    fn run(&self) {
        let mut waiting = self.waiting();
        loop {
            if let Some(first) = waiting.replies.iter().map(|due| due.batch).min() {
                drop(waiting);
                let _ = self.sync_to(first);
                waiting = self.waiting();
            } else if waiting.stop {
                return;
            } else {
                waiting = self.more.wait(waiting).unwrap_or_else(|e| e.into_inner());
            }
        }
    }
}

impl Syncer {
    pub fn new(fs: Arc<Fs>) -> Syncer {
        let shared =
            Shared { fs, waiting: Mutex::default(), more: Condvar::new(), inline: AtomicUsize::new(0) };
        let shared = Arc::new(shared);
        let shared_run = shared.clone();
        let run = move || {
            let _guard = AbortOnPanic::new();
            shared_run.run();
        };
        // Without a thread every sync is inline.
        let thread = std::thread::Builder::new().name("betrfs-sync".into()).spawn(run).ok();
        Syncer { shared, thread }
    }

    /// Makes everything so far durable, then answers; with an error if anything of `ino` is not.
    pub fn sync(&self, ino: u64, reply: Reply<'_>) -> Answered {
        match self.shared.fs.ask_sync_of(ino) {
            Ok(batch) => self.sync_to(batch, Answer::Nothing, reply),
            Err(e) => reply.error(sync_errno(&e)),
        }
    }

    /// Answers a write of `bytes` to `ino` when everything so far is durable; with an error if anything of that is not.
    pub fn sync_written(&self, ino: u64, bytes: u32, reply: Reply<'_>) -> Answered {
        match self.shared.fs.ask_sync_of(ino) {
            Ok(batch) => self.sync_to(batch, Answer::Written(bytes), reply),
            Err(e) => reply.error(sync_errno(&e)),
        }
    }

    fn sync_to(&self, batch: u64, answer: Answer, reply: Reply<'_>) -> Answered {
        let shared = &self.shared;
        let inline = shared.inline.fetch_add(1, Ordering::AcqRel) < INLINE_MAX || self.thread.is_none();
        let synced = inline.then(|| shared.sync_to(batch));
        shared.inline.fetch_sub(1, Ordering::AcqRel);
        match synced {
            Some(Ok(())) => answer.now(reply),
            Some(Err(errno)) => reply.error(errno),
            None => {
                let (answered, reply) = reply.later();
                shared.waiting().replies.push(SyncDeadline { batch, reply, answer });
                shared.more.notify_one();
                answered
            }
        }
    }
}

impl Drop for Syncer {
    fn drop(&mut self) {
        self.shared.waiting().stop = true;
        self.shared.more.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::Options;
    use betree::SimStorage;
    use betree::storage::FaultPlan;

    #[test]
    fn a_sync_over_a_failed_device_never_says_read_only() {
        let storage = SimStorage::new(64 << 20);
        let options = Options::with_store(betree::Options::tiny());
        Fs::format(storage.clone(), &options).expect("format");
        let fs = Arc::new(Fs::open(storage.clone(), &options).expect("open"));
        let syncer = Syncer::new(fs.clone());
        fs.set_xattr(1, b"user.a", b"value", false, false).expect("a change");
        storage.set_faults(FaultPlan { flush_error_at: Some(0), ..FaultPlan::default() });
        for sync in ["that meets the failure", "after it"] {
            let asked = fs.ask_sync_of(1).map_err(|e| sync_errno(&e));
            assert_eq!(
                asked.and_then(|batch| syncer.shared.sync_to(batch)),
                Err(libc::EIO),
                "the sync {sync}"
            );
        }
    }
}
