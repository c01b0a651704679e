//! Syncs that many wait for: one thread syncs once for all, so that those who take requests stay free.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;

use fuser::{Errno, ReplyEmpty};

use crate::fs::Fs;

/// So many syncs are made by the thread that took the request, which is quicker for each.
const INLINE_MAX: usize = 2;

#[derive(Default)]
struct Waiting {
    replies: Vec<ReplyEmpty>,
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
                replies.into_iter().for_each(|reply| answer(synced, reply));
                waiting = self.waiting();
            } else if waiting.stop {
                return;
            } else {
                waiting = self.more.wait(waiting).unwrap_or_else(|e| e.into_inner());
            }
        }
    }
}

fn answer(synced: Result<(), i32>, reply: ReplyEmpty) {
    match synced {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(Errno::from_i32(errno)),
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
    pub fn sync(&self, reply: ReplyEmpty) {
        let shared = &self.shared;
        if shared.inline.fetch_add(1, Ordering::AcqRel) < INLINE_MAX || self.thread.is_none() {
            answer(shared.fs.sync().map_err(|e| e.errno()), reply);
            shared.inline.fetch_sub(1, Ordering::AcqRel);
            return;
        }
        shared.inline.fetch_sub(1, Ordering::AcqRel);
        shared.waiting().replies.push(reply);
        shared.more.notify_one();
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
