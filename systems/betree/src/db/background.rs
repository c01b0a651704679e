//! Threads that keep writers from doing the tree's work: flushing, checkpoints, log syncs, read-ahead.

use super::inner::{Inner, Signals};
use super::run::SharedRead;
use crate::error::{Doing, Error, Result};
use crate::key::KeyRange;
use crate::node::{NodeRef, Slot};
use crate::sync::MutexGuard;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Scans that may wait for read-ahead; more are not worth it.
const PREFETCH_QUEUE: usize = 16;
/// Longest sleep of the thread that writes the log.
const LOG_NAP: Duration = Duration::from_millis(200);
/// Longest time until work for which there was no space is tried again, if none is freed before.
const SPACE_PATIENCE: Duration = Duration::from_secs(1);
/// The same between two looks at what is free.
const SPACE_NAP: Duration = Duration::from_millis(20);

/// What a scan will want next.
enum Request {
    /// The first leaf of a range. It must not keep a tree that nobody reads any more, and so its space.
    Leaf(Weak<Slot>, KeyRange),
    /// Part of an extent.
    Run(Arc<SharedRead>),
}

/// A handle through which scans ask for read-ahead.
#[derive(Clone)]
pub(super) struct Prefetch(SyncSender<Request>);

impl Prefetch {
    /// Has the first leaf of `range` loaded, unless the thread is busy enough.
    pub fn ask(&self, root: &NodeRef, range: KeyRange) {
        let _ = self.0.try_send(Request::Leaf(Arc::downgrade(root), range));
    }

    /// Has part of an extent read, unless the threads are busy enough.
    pub fn ask_run(&self, run: &Arc<SharedRead>) {
        let _ = self.0.try_send(Request::Run(run.clone()));
    }
}

/// The running threads; dropping stops and joins them.
pub(super) struct Background {
    inner: Arc<Inner>,
    prefetch: Option<Prefetch>,
    threads: Vec<JoinHandle<()>>,
    /// Those that write extents, which the others may need to the end.
    senders: Vec<JoinHandle<()>>,
}

impl Background {
    /// Starts all threads; if one cannot be had, none stays. One that panics fails the store.
    pub fn start(inner: &Arc<Inner>) -> Result<Self> {
        let (requests, receiver) = sync_channel(PREFETCH_QUEUE);
        let receiver = Arc::new(Mutex::new(receiver));
        let other = receiver.clone();
        let spawn = |name: &str, work: Box<dyn FnOnce(&Inner) + Send>| {
            let inner = inner.clone();
            std::thread::Builder::new().name(name.into()).spawn(move || inner.guarded(work))
        };
        let threads = [
            spawn("betree-flush", Box::new(flusher)),
            spawn("betree-write", Box::new(writer)),
            spawn("betree-checkpoint", Box::new(checkpointer)),
            spawn("betree-log", Box::new(syncer)),
            spawn("betree-prefetch", Box::new(move |inner| prefetcher(inner, &receiver))),
            spawn("betree-prefetch", Box::new(move |inner| prefetcher(inner, &other))),
        ];
        let write = || spawn("betree-extents", Box::new(|i| i.store.write_flight()));
        let senders = [write(), write()];
        let prefetch = Some(Prefetch(requests));
        let mut started =
            Background { inner: inner.clone(), prefetch, threads: Vec::new(), senders: Vec::new() };
        for thread in senders {
            started.senders.push(thread.doing("starting a thread")?);
        }
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
        self.inner.log.wake();
        // Cursors may still hold senders; the thread also looks at the stop signal.
        self.prefetch.take();
        for t in self.threads.drain(..) {
            let _ = t.join();
        }
        self.inner.store.flight.close();
        for t in self.senders.drain(..) {
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

    /// The same of work that is done again when there is space for it.
    fn note_space(&self, done: Result<()>) {
        match done {
            Err(Error::NoSpace) => {
                self.starved_at.store(self.store.table.freed_units(), Ordering::Relaxed);
                self.starved.fetch_add(1, Ordering::Relaxed);
                self.progress.notify_all();
                self.wait_for_space();
            }
            done => self.note(done),
        }
    }

    /// Sleeps until space has been freed, at most [`SPACE_PATIENCE`].
    fn wait_for_space(&self) {
        let (freed, began) = (self.store.table.freed_units(), Instant::now());
        while !self.stopping() && self.store.table.freed_units() == freed && began.elapsed() < SPACE_PATIENCE
        {
            self.idle(SPACE_NAP);
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
                if inner.store.short.load(Ordering::Relaxed) && inner.frees_much() {
                    inner.note_space(inner.checkpoint());
                } else if inner.log.fill() >= 500 || inner.is_tight() || inner.frees_much() {
                    inner.request_checkpoint();
                }
            }
            Ok(false) => inner.idle(Duration::from_millis(50)),
            Err(e) => inner.note_space(Err(e)),
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
            inner.note_space(inner.checkpoint());
            last = Instant::now();
        } else {
            inner.idle(Duration::from_millis(200));
        }
    }
}

/// Writes log records when there are many, and bounds the time that an unsynced write is at risk.
fn syncer(inner: &Inner) {
    let mut last = Instant::now();
    let nap = inner.options.sync_interval.map_or(LOG_NAP, |interval| interval.min(LOG_NAP));
    while !inner.stopping() && inner.failure.get().is_none() {
        if let Some(interval) = inner.options.sync_interval {
            // A held record must not wait for another nap when it is nearly as old as that.
            let age = interval.saturating_sub(nap);
            if last.elapsed() >= interval || inner.log.holds_for(age) {
                inner.note(inner.log.secure(age));
                last = Instant::now();
            }
        }
        if inner.log.wait(nap) {
            inner.note(inner.log.commit_ready());
        }
    }
}

/// Loads what scans will want next.
fn prefetcher(inner: &Inner, requests: &Mutex<Receiver<Request>>) {
    while !inner.stopping() {
        let next = {
            let requests = requests.lock().unwrap_or_else(|e| e.into_inner());
            requests.recv_timeout(Duration::from_millis(50))
        };
        match next {
            // The scan itself will meet the error again and report it.
            Ok(Request::Leaf(root, range)) => {
                if let Some(root) = root.upgrade() {
                    _ = inner.store.chunk(&root, &range, true);
                }
            }
            Ok(Request::Run(run)) => run.fetch(&inner.store),
            Err(_) => {}
        }
    }
}
