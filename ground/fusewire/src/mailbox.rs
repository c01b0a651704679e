//! Answers that other threads give, on their way to the thread that has the entries.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Answers from other threads, for the one that has the entries.
#[derive(Debug)]
pub(crate) struct Mailbox {
    inside: Mutex<Inside>,
    /// Something was posted since the thread looked.
    pub(crate) posted: AtomicBool,
    /// The place for answers that wait for other requests, of all threads of the queue.
    pub(crate) parking: Arc<Parking>,
    /// Written to wake the thread.
    pub(crate) bell: OwnedFd,
}

/// How many answers of a queue wait for other requests: never so many that these find no entry.
#[derive(Debug)]
pub(crate) struct Parking {
    parked: AtomicUsize,
    most: usize,
}

impl Parking {
    /// Room for `most`.
    pub(crate) fn new(most: usize) -> Parking {
        Parking { parked: AtomicUsize::new(0), most }
    }

    /// Takes a place; false if there is none.
    pub(crate) fn enter(&self) -> bool {
        let more = |parked: usize| (parked < self.most).then_some(parked + 1);
        self.parked.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// Gives a place back.
    pub(crate) fn leave(&self) {
        self.parked.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An answer, and the entry whose request it is for.
pub(crate) type Posted = (u16, Result<Vec<u8>, i32>);

#[derive(Debug, Default)]
struct Inside {
    answers: Vec<Posted>,
    /// The thread waits, or will without looking again.
    sleeps: bool,
}

impl Mailbox {
    /// An empty one; `bell` wakes its thread.
    pub(crate) fn new(bell: OwnedFd, parking: Arc<Parking>) -> Mailbox {
        Mailbox { inside: Mutex::default(), posted: AtomicBool::new(false), parking, bell }
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn post(&self, entry: u16, result: Result<Vec<u8>, i32>) {
        let mut inside = self.inside();
        inside.answers.push((entry, result));
        self.posted.store(true, Ordering::Release);
        if std::mem::take(&mut inside.sleeps) {
            drop(inside);
            let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
        }
    }

    /// What was posted. If nothing was, the thread may sleep.
    pub(crate) fn take(&self) -> Vec<Posted> {
        let mut inside = self.inside();
        self.posted.store(false, Ordering::Relaxed);
        inside.sleeps = inside.answers.is_empty();
        std::mem::take(&mut inside.answers)
    }

    /// What was posted for other entries than `busy`.
    pub(crate) fn take_but(&self, busy: u16) -> Vec<Posted> {
        let mut inside = self.inside();
        self.posted.store(false, Ordering::Relaxed);
        let (kept, taken) = std::mem::take(&mut inside.answers).into_iter().partition(|one| one.0 == busy);
        inside.answers = kept;
        taken
    }
}
