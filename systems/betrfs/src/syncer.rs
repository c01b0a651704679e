//! Syncs that many wait for: one thread syncs once for all, so that those who take requests stay free. Whoever has seen a
//! flush end answers all that it served.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;

use fusewire::{Answered, Later, Reply};

use crate::fs::Fs;

/// So many syncs are made by the thread that took the request, which is quicker for each.
const INLINE_MAX: usize = 2;

#[derive(Default)]
struct Waiting {
    /// Each with the store's batch that must be durable before it is given.
    replies: Vec<(u64, Later)>,
    stop: bool,
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

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Syncs up to `batch`, and gives every reply that became due by that.
    fn sync_to(&self, batch: u64) -> Result<(), i32> {
        let synced = self.fs.sync_to(batch);
        // After a failure none of them can be kept.
        let durable = *synced.as_ref().unwrap_or(&u64::MAX);
        let result = synced.map(|_| ()).map_err(|e| e.errno());
        let due: Vec<_> = self.waiting().replies.extract_if(.., |(batch, _)| *batch <= durable).collect();
        due.into_iter().for_each(|(_, reply)| reply.answer(result.map(|()| Vec::new())));
        result
    }

    fn run(&self) {
        let mut waiting = self.waiting();
        loop {
            if let Some(first) = waiting.replies.iter().map(|(batch, _)| *batch).min() {
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
        let run = shared.clone();
        // Without a thread every sync is inline.
        let thread = std::thread::Builder::new().name("betrfs-sync".into()).spawn(move || run.run()).ok();
        Syncer { shared, thread }
    }

    /// Makes everything so far durable, then answers.
    pub fn sync(&self, reply: Reply<'_>) -> Answered {
        let shared = &self.shared;
        let batch = match shared.fs.ask_sync() {
            Ok(batch) => batch,
            Err(e) => return reply.error(e.errno()),
        };
        let inline = shared.inline.fetch_add(1, Ordering::AcqRel) < INLINE_MAX || self.thread.is_none();
        let synced = inline.then(|| shared.sync_to(batch));
        shared.inline.fetch_sub(1, Ordering::AcqRel);
        match synced {
            Some(Ok(())) => reply.ok(),
            Some(Err(errno)) => reply.error(errno),
            None => {
                let (answered, later) = reply.later();
                shared.waiting().replies.push((batch, later));
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
