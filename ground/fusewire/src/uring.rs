//! What threads have in common that serve requests of the kernel with an io_uring each, those of FUSE here and those of block
//! devices elsewhere: the ring, and a mailbox for answers that other threads give.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use io_uring::{CompletionQueue, IoUring, SubmissionQueue, Submitter, opcode, squeue, types};
use rustix::event::{EventfdFlags, eventfd};

/// User data of the command that hears a mailbox's bell.
pub const BELL: u64 = u64::MAX;

/// A ring for `commands` commands and the bell's, to be used by this thread alone.
///
/// # Errors
/// The kernel's: none before Linux 6.1 has all that is asked for.
pub fn ring<S: squeue::EntryMarker>(commands: u16) -> io::Result<IoUring<S>> {
    IoUring::<S>::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_taskrun_flag()
        .build(u32::from(commands) + 1)
}

/// Both ends of a thread's ring.
pub struct Io<'a, S: squeue::EntryMarker> {
    submitter: Submitter<'a>,
    /// What the kernel is to take.
    pub submission: SubmissionQueue<'a, S>,
    /// What it has done.
    pub completion: CompletionQueue<'a>,
}

impl<'a, S: squeue::EntryMarker> Io<'a, S> {
    /// Those of `ring`.
    pub fn new(ring: &'a mut IoUring<S>) -> Io<'a, S> {
        let (mut submitter, submission, completion) = ring.split();
        // Spares looking up the descriptor with every call; older kernels cannot.
        let _ = submitter.register_ring_fd();
        Io { submitter, submission, completion }
    }

    /// Submits what was pushed; waits until `least` completions are there.
    ///
    /// # Errors
    /// The kernel's, but for those that go by themselves.
    pub fn enter(&mut self, least: usize) -> io::Result<()> {
        self.submission.sync();
        self.completion.sync();
        let entered = self.submitter.submit_and_wait(least);
        self.submission.sync();
        self.completion.sync();
        match entered {
            Ok(_) => Ok(()),
            Err(e) if matches!(e.raw_os_error(), Some(libc::EINTR | libc::EAGAIN | libc::EBUSY)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Submits what was pushed; whether something is done, or will be as soon as the thread looks.
    pub fn is_pending(&mut self) -> bool {
        if !self.submission.is_empty() && self.enter(0).is_err() {
            // It will fail again where somebody hears of it.
            return true;
        }
        self.completion.sync();
        self.submission.taskrun() || !self.completion.is_empty()
    }
}

/// Answers from other threads, for the one that has the requests, each with the number of the request.
#[derive(Debug)]
pub struct Mailbox<T> {
    inside: Mutex<Inside<T>>,
    /// Something was posted since the thread looked.
    posted: AtomicBool,
    /// Written to wake the thread.
    bell: OwnedFd,
}

#[derive(Debug)]
struct Inside<T> {
    answers: Vec<(u16, T)>,
    /// The thread waits, or will without looking again.
    sleeps: bool,
}

impl<T> Mailbox<T> {
    /// An empty one.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn new() -> io::Result<Mailbox<T>> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let inside = Mutex::new(Inside { answers: Vec::new(), sleeps: false });
        Ok(Mailbox { inside, posted: AtomicBool::new(false), bell })
    }

    fn inside(&self) -> MutexGuard<'_, Inside<T>> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The command that hears the bell, again and again; its user data are [`BELL`].
    pub fn hear(&self) -> squeue::Entry {
        let edge = (libc::EPOLLIN | libc::EPOLLET) as u32;
        opcode::PollAdd::new(types::Fd(self.bell.as_raw_fd()), edge).multi(true).build().user_data(BELL)
    }

    /// Posts the answer to a request, and wakes the thread if it sleeps.
    pub fn post(&self, request: u16, answer: T) {
        let mut inside = self.inside();
        inside.answers.push((request, answer));
        self.posted.store(true, Ordering::Release);
        if std::mem::take(&mut inside.sleeps) {
            drop(inside);
            let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
        }
    }

    /// Whether something was posted since the thread looked.
    pub fn has_post(&self) -> bool {
        self.posted.load(Ordering::Acquire)
    }

    /// What was posted. If nothing was, the thread may sleep.
    pub fn take(&self) -> Vec<(u16, T)> {
        let mut inside = self.inside();
        self.posted.store(false, Ordering::Relaxed);
        inside.sleeps = inside.answers.is_empty();
        std::mem::take(&mut inside.answers)
    }

    /// What was posted for other requests than `busy`.
    pub fn take_but(&self, busy: u16) -> Vec<(u16, T)> {
        let mut inside = self.inside();
        self.posted.store(false, Ordering::Relaxed);
        let (kept, taken) = std::mem::take(&mut inside.answers).into_iter().partition(|one| one.0 == busy);
        inside.answers = kept;
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rings(mailbox: &Mailbox<char>) -> bool {
        rustix::io::read(&mailbox.bell, &mut [0; 8]).is_ok()
    }

    #[test]
    fn the_bell_rings_for_a_thread_that_sleeps_only() {
        let mailbox = Mailbox::new().unwrap();
        mailbox.post(1, 'a');
        assert!(mailbox.has_post() && !rings(&mailbox), "it has not looked yet");
        mailbox.post(2, 'b');
        assert_eq!(mailbox.take_but(1), [(2, 'b')]);
        assert_eq!(mailbox.take(), [(1, 'a')]);
        mailbox.post(3, 'c');
        assert!(!rings(&mailbox), "there was something, so it looks again");
        assert_eq!(mailbox.take(), [(3, 'c')]);
        assert_eq!(mailbox.take(), []);
        mailbox.post(4, 'd');
        assert!(rings(&mailbox));
        mailbox.post(5, 'e');
        assert!(!rings(&mailbox), "it is awake by the first");
    }
}
