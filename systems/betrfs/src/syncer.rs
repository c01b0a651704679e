//! Syncs that many wait for: one thread syncs once for all, so that those who take requests stay free.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;

use fusewire::{Answered, Later, Reply};

use crate::fs::Fs;

/// So many syncs are made by the thread that took the request, which is quicker for each.
const INLINE_MAX: usize = 2;

#[derive(Default)]
struct Waiting {
    replies: Vec<Later>,
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

    fn run(&self) {
        let mut waiting = self.waiting();
        loop {
            let replies = std::mem::take(&mut waiting.replies);
            if !replies.is_empty() {
                drop(waiting);
                let synced = self.fs.sync().map_err(|e| e.errno());
                replies.into_iter().for_each(|reply| reply.answer(synced.map(|()| Vec::new())));
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
        let inline = shared.inline.fetch_add(1, Ordering::AcqRel) < INLINE_MAX || self.thread.is_none();
        let synced = inline.then(|| shared.fs.sync());
        shared.inline.fetch_sub(1, Ordering::AcqRel);
        match synced {
            Some(Ok(())) => reply.ok(),
            Some(Err(e)) => reply.error(e.errno()),
            None => {
                let (answered, later) = reply.later();
                shared.waiting().replies.push(later);
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
