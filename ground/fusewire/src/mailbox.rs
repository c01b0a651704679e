//! Answers that other threads give, on their way to the thread that has the entries.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Answers from other threads, for the one that has the entries.
#[derive(Debug)]
pub(crate) struct Mailbox {
    inside: Mutex<Inside>,
    /// Something was posted since the thread looked.
    pub(crate) posted: AtomicBool,
    /// The thread may keep another request unanswered that waits for later ones.
    pub(crate) may_park: AtomicBool,
    /// Written to wake the thread.
    pub(crate) bell: OwnedFd,
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
    pub(crate) fn new(bell: OwnedFd) -> Mailbox {
        let (posted, may_park) = (AtomicBool::new(false), AtomicBool::new(true));
        Mailbox { inside: Mutex::default(), posted, may_park, bell }
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
