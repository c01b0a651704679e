//! Answers that other threads give, on their way to the thread that has the entries.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::uring;

/// Answers from other threads, for the one that has the entries.
#[derive(Debug)]
pub(crate) struct Mailbox {
    pub(crate) answers: uring::Mailbox<Result<Vec<u8>, i32>>,
    /// The place for answers that wait for other requests, of all threads of the queue.
    pub(crate) parking: Arc<DeferredReplies>,
}

impl Mailbox {
    /// An empty one.
    pub(crate) fn new(parking: Arc<DeferredReplies>) -> io::Result<Mailbox> {
        Ok(Mailbox { answers: uring::Mailbox::new()?, parking })
    }
}

/// How many answers of a queue wait for other requests: never so many that these find no entry.
#[derive(Debug)]
pub(crate) struct DeferredReplies {
    parked: AtomicUsize,
    most: usize,
}

impl DeferredReplies {
    /// Room for `most`.
    pub(crate) fn new(most: usize) -> DeferredReplies {
        DeferredReplies { parked: AtomicUsize::new(0), most }
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
pub(crate) type PostedReply = (u16, Result<Vec<u8>, i32>);
