//! Threads that keep writers from doing the tree's work: flushing, checkpoints, log syncs, read-ahead.

use super::Inner;
use crate::error::{Doing, Error, Result};
use crate::key::KeyRange;
use crate::node::NodeRef;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Scans that may wait for read-ahead; more are not worth it.
const PREFETCH_QUEUE: usize = 16;

/// What the threads are asked to do; guarded by `Inner::signals`, announced through `Inner::progress`.
#[derive(Default)]
pub(super) struct Signals {
    stop: bool,
    checkpoint: bool,
}

/// A handle through which scans ask for read-ahead.
#[derive(Clone)]
pub(super) struct Prefetch(SyncSender<(NodeRef, KeyRange)>);

impl Prefetch {
    /// Has the first leaf of `range` loaded, unless the thread is busy enough.
    pub fn ask(&self, root: &NodeRef, range: KeyRange) {
        let _ = self.0.try_send((root.clone(), range));
    }
}

/// The running threads; dropping stops and joins them.
pub(super) struct Background {
    inner: Arc<Inner>,
    prefetch: Option<Prefetch>,
    threads: Vec<JoinHandle<()>>,
}

impl Background {
    /// Starts all threads; if one cannot be had, none stays.
    pub fn start(inner: &Arc<Inner>) -> Result<Self> {
        let (sender, receiver) = sync_channel(PREFETCH_QUEUE);
        let spawn = |name: &str, work: Box<dyn FnOnce(&Inner) + Send>| {
            let inner = inner.clone();
            std::thread::Builder::new().name(name.into()).spawn(move || work(&inner))
        };
        let threads = [
            spawn("betree-flush", Box::new(flusher)),
            spawn("betree-write", Box::new(writer)),
            spawn("betree-checkpoint", Box::new(checkpointer)),
            spawn("betree-log", Box::new(syncer)),
            spawn("betree-prefetch", Box::new(move |inner| prefetcher(inner, &receiver))),
        ];
        let mut started =
            Background { inner: inner.clone(), prefetch: Some(Prefetch(sender)), threads: Vec::new() };
        for thread in threads {
            started.threads.push(thread.doing("starting a thread")?);
        }
        Ok(started)
    }

    pub fn prefetcher(&self) -> Option<Prefetch> {
        self.prefetch.clone()
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.inner.signals().stop = true;
        self.inner.progress.notify_all();
        // Cursors may still hold senders; the thread also looks at the stop signal.
        self.prefetch.take();
        for t in self.threads.drain(..) {
            let _ = t.join();
        }
    }
}

impl Inner {
    pub(super) fn signals(&self) -> MutexGuard<'_, Signals> {
        self.signals.lock().unwrap_or_else(|e| e.into_inner())
    }

    pub(super) fn request_checkpoint(&self) {
        self.signals().checkpoint = true;
        self.progress.notify_all();
    }

    fn stopping(&self) -> bool {
        self.signals().stop
    }

    /// Notes a failure of background work: writers learn of it, readers go on.
    fn note(&self, done: Result<()>) {
        if let Err(e) = done {
            self.fail(e);
        }
    }

    /// Sleeps until something changes, at most `time`.
    fn idle(&self, time: Duration) {
        let signals = self.signals();
        if !signals.stop {
            let _ = self.progress.wait_timeout(signals, time);
        }
    }
}

/// Applies frozen memtables, oldest first.
fn flusher(inner: &Inner) {
    while !inner.stopping() && inner.failure.get().is_none() {
        match inner.apply_oldest() {
            Ok(true) => {
                if inner.log.fill() >= 500 || inner.is_tight() {
                    inner.request_checkpoint();
                }
            }
            Ok(false) => inner.idle(Duration::from_millis(50)),
            Err(e) => inner.note(Err(e)),
        }
    }
}

/// Writes new nodes when there are many, while the next memtable is being applied.
fn writer(inner: &Inner) {
    while !inner.stopping() && inner.failure.get().is_none() {
        let keep = inner.unwritten_max();
        let much = inner.store.meter.unwritten() > keep + keep / 4;
        match if much { inner.store.write_dirty(keep) } else { Ok(()) } {
            Ok(()) if much => inner.progress.notify_all(),
            // Without space the nodes stay in memory; a checkpoint frees some first.
            Ok(()) | Err(Error::NoSpace) => inner.idle(Duration::from_millis(20)),
            Err(e) => inner.note(Err(e)),
        }
    }
}

/// Takes a checkpoint when asked, when the log is half full, and at least every interval.
fn checkpointer(inner: &Inner) {
    let mut last = Instant::now();
    while !inner.stopping() && inner.failure.get().is_none() {
        let asked = std::mem::take(&mut inner.signals().checkpoint);
        let due = last.elapsed() >= inner.options.checkpoint_interval;
        if asked || due || inner.log.fill() >= 500 {
            inner.note(inner.checkpoint());
            last = Instant::now();
        } else {
            inner.idle(Duration::from_millis(200));
        }
    }
}

/// Bounds the time that an unsynced write is at risk.
fn syncer(inner: &Inner) {
    let Some(interval) = inner.options.sync_interval else { return };
    let mut last = Instant::now();
    while !inner.stopping() && inner.failure.get().is_none() {
        if last.elapsed() >= interval {
            inner.note(inner.log.commit(true));
            last = Instant::now();
        }
        inner.idle(interval.min(Duration::from_millis(200)));
    }
}

/// Loads leaves that scans will want next.
fn prefetcher(inner: &Inner, requests: &Receiver<(NodeRef, KeyRange)>) {
    while !inner.stopping() {
        if let Ok((root, range)) = requests.recv_timeout(Duration::from_millis(50)) {
            // The scan itself will meet the error again and report it.
            let _ = inner.store.chunk(&root, &range, true);
        }
    }
}
