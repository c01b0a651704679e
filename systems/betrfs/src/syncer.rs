//! Syncs that many wait for: one thread syncs once for all, so that those who take requests stay free. Whoever has seen a
//! flush end answers all that it served.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;

use fusewire::wire::written_bytes;
use fusewire::{Answered, Later, Reply};

use crate::fs::Fs;

/// So many syncs are made by the thread that took the request, which is quicker for each.
const INLINE_MAX: usize = 2;

/// What is answered when a sync is done.
#[derive(Clone, Copy)]
enum Answer {
    Nothing,
    Written(u32),
}

struct Due {
    /// The store's batch that must be durable before it is given.
    batch: u64,
    reply: Later,
    answer: Answer,
}

#[derive(Default)]
struct Waiting {
    replies: Vec<Due>,
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
        let run = shared.clone();
        // Without a thread every sync is inline.
        let thread = std::thread::Builder::new().name("betrfs-sync".into()).spawn(move || run.run()).ok();
        Syncer { shared, thread }
    }

    /// Makes everything so far durable, then answers.
    pub fn sync(&self, reply: Reply<'_>) -> Answered {
        match self.shared.fs.ask_sync() {
            Ok(batch) => self.sync_to(batch, Answer::Nothing, reply),
            Err(e) => reply.error(e.errno()),
        }
    }

    /// Answers a write of `bytes` when everything so far is durable.
    pub fn sync_written(&self, bytes: u32, reply: Reply<'_>) -> Answered {
        match self.shared.fs.ask_sync() {
            Ok(batch) => self.sync_to(batch, Answer::Written(bytes), reply),
            Err(e) => reply.error(e.errno()),
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
                shared.waiting().replies.push(Due { batch, reply, answer });
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
