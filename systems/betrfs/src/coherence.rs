//! What the kernel holds of a file that differs from what is here, so that one of both must give way.
//!
//! * A write by a stranger takes the set-user-ID bit away here. The kernel goes on with the mode that it knows, also
//!   when it runs the file, until it is told to ask again.
//! * After an asynchronous direct write the kernel leaves the page cache as it is, and after one through a handle that
//!   bypasses the cache what a reader brings in meanwhile. Both would be read for ever.
//! * A page that was stored to through a mapping, or with `-o writeback` written, is data that only the kernel has. Before a
//!   range is called a hole the kernel is told to drop its pages there, which makes it write them first.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::Builder;

use fusewire::wire::written_bytes;
use fusewire::{AbortOnPanic, Answered, DeferredReply, Notifier, Reply};

use crate::error::Result;
use crate::fs::{Fs, SeekResult, Whence};

/// What the threads are called.
const THREAD: &str = "betrfs-coherence";
/// Holes of one file that are looked behind for one answer. Who makes new ones faster than this gets them as data.
const HOLES_MAX: usize = 64;

/// Threads that do errands at once, for as many users. An idle one costs its stack, so but for the first they end.
const THREADS_MAX: usize = 16;
/// Whose errand it is that the file system has for itself.
const NOBODY: u32 = u32::MAX;

/// Something that waits for the kernel, which may wait for requests that others answer.
type Notification = Box<dyn FnOnce(&Notifier) + Send>;

/// Errands of several users, done by several threads: of one user one after the other, in order, so that whoever lets the kernel
/// write gigabytes keeps nobody else waiting.
struct UserQueues<E> {
    waiting: VecDeque<(u32, E)>,
    /// The users of which one is being done.
    users: Vec<u32>,
    /// Threads that wait for one.
    idle: usize,
    /// Threads that there are.
    threads: usize,
    stop: bool,
}

impl<E> UserQueues<E> {
    fn new() -> UserQueues<E> {
        UserQueues { waiting: VecDeque::new(), users: Vec::new(), idle: 0, threads: 0, stop: false }
    }

    /// The first that may be done now. Until [`UserQueues::done`] no other of the same user is.
    fn next(&mut self) -> Option<(u32, E)> {
        let at = self.waiting.iter().position(|(user, _)| !self.users.contains(user))?;
        let next = self.waiting.remove(at)?;
        self.users.push(next.0);
        Some(next)
    }

    fn done(&mut self, user: u32) {
        self.users.retain(|other| *other != user);
    }

    /// True if more may be done now than there are idle threads, and there may be another.
    fn lacks_thread(&self) -> bool {
        let users = self.waiting.iter().map(|(user, _)| *user).filter(|user| !self.users.contains(user));
        self.threads < THREADS_MAX && users.collect::<BTreeSet<u32>>().len() > self.idle
    }
}

/// Bytes of files whose pages the kernel is to drop and for which nobody waits, by user and inode. There is one range for each, however
/// often it is added to: a write that need not wait comes as fast as its user likes.
#[derive(Default)]
struct PendingDrops(Mutex<HashMap<(u32, u64), Range<u64>>>);

impl PendingDrops {
    /// Adds to the range of `of`; true if there was none, and somebody has to [take](PendingDrops::take) it.
    fn add(&self, of: (u32, u64), range: Range<u64>) -> bool {
        let mut pending = self.0.lock().unwrap_or_else(|e| e.into_inner());
        let Some(there) = pending.get_mut(&of) else {
            pending.insert(of, range);
            return true;
        };
        *there = there.start.min(range.start)..there.end.max(range.end);
        false
    }

    /// What was added before. What is added from now on is another range.
    fn take(&self, of: (u32, u64)) -> Range<u64> {
        self.0.lock().unwrap_or_else(|e| e.into_inner()).remove(&of).unwrap_or_default()
    }
}

struct Shared {
    notifier: Notifier,
    errands: Mutex<UserQueues<Notification>>,
    /// An errand has come or is done, or a thread has ended.
    changed: Condvar,
}

/// Lets the kernel drop the pages from `from` up to `to`, or all the rest for [`u64::MAX`]; it writes those that are dirty
/// first. Waits for reads and writes of them, which other threads answer. An inode that the kernel does not know has none.
fn drop_pages(notifier: &Notifier, ino: u64, from: u64, to: u64) {
    // The kernel takes a length of zero for "up to the end".
    let length = if to == u64::MAX { 0 } else { to.saturating_sub(from).max(1) };
    if let (Ok(from), Ok(length)) = (i64::try_from(from), i64::try_from(length)) {
        let _ = notifier.invalidate_inode(ino, from, length);
    }
}

impl Shared {
    fn errands(&self) -> MutexGuard<'_, UserQueues<Notification>> {
        self.errands.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn push(self: &Arc<Self>, user: u32, errand: Notification) {
        let mut errands = self.errands();
        errands.waiting.push_back((user, errand));
        if errands.lacks_thread() {
            errands.threads += 1;
            let run = self.clone();
            // Without it the errand waits for the threads there are.
            if thread().spawn(move || run.run(false)).is_err() {
                errands.threads -= 1;
            }
        }
        drop(errands);
        self.changed.notify_all();
    }

    /// Does errands; the first thread until the end, others while there are some.
    fn run(&self, first: bool) {
        let _guard = AbortOnPanic::new();
        let _leaving = ThreadExitGuard(self);
        let mut errands = self.errands();
        loop {
            if let Some((user, errand)) = errands.next() {
                drop(errands);
                errand(&self.notifier);
                errands = self.errands();
                errands.done(user);
                self.changed.notify_all();
            } else if !first || errands.stop && errands.waiting.is_empty() {
                break;
            } else {
                errands.idle += 1;
                errands = self.changed.wait(errands).unwrap_or_else(|e| e.into_inner());
                errands.idle -= 1;
            }
        }
    }
}

/// A thread that ends.
struct ThreadExitGuard<'a>(&'a Shared);

impl Drop for ThreadExitGuard<'_> {
    fn drop(&mut self) {
        self.0.errands().threads -= 1;
        self.0.changed.notify_all();
    }
}

fn thread() -> Builder {
    Builder::new().name(THREAD.into())
}

/// What a seek finds when the kernel has written all pages of each hole that it meets. Without an end of the holes: None.
fn sought_behind_pages(
    notifier: &Notifier,
    fs: &Fs,
    ino: u64,
    off: u64,
    whence: Whence,
) -> Option<Result<u64>> {
    let mut written = 0..0;
    for _ in 0..HOLES_MAX {
        let SeekResult { at, hole } = match fs.sought(ino, off, whence) {
            Ok(sought) => sought,
            Err(error) => return Some(Err(error)),
        };
        if hole.is_empty() || written.start <= hole.start && hole.end <= written.end {
            return Some(at);
        }
        drop_pages(notifier, ino, hole.start, hole.end);
        written = hole;
    }
    None
}

/// Tells the kernel, and the threads that may wait for it.
pub(crate) struct Coherence {
    shared: Arc<Shared>,
    pending: Arc<PendingDrops>,
    /// There are threads.
    runs: bool,
}

impl Coherence {
    /// Starts the first thread.
    pub fn start(notifier: Notifier) -> Coherence {
        let errands = Mutex::new(UserQueues { threads: 1, ..UserQueues::new() });
        let shared = Arc::new(Shared { notifier, errands, changed: Condvar::new() });
        let run = shared.clone();
        let runs = thread().spawn(move || run.run(true)).is_ok();
        Coherence { shared, pending: Arc::default(), runs }
    }

    /// Attributes of `ino` are no longer what the kernel thinks. Waits for nothing: they have no lock there.
    pub fn forget_attributes(&self, ino: u64) {
        let _ = self.shared.notifier.invalidate_inode(ino, -1, 0);
    }

    /// The size and some data of `ino` are no longer what the kernel thinks. It hears of it later.
    pub fn forget_file(&self, ino: u64) {
        self.drop_later(NOBODY, ino, 0..u64::MAX);
    }

    /// Has the kernel drop these pages, with all others of the file that are asked for by then.
    pub fn drop_later(&self, user: u32, ino: u64, range: Range<u64>) {
        if self.pending.add((user, ino), range) {
            let pending = self.pending.clone();
            let errand = move |notifier: &Notifier| {
                let Range { start, end } = pending.take((user, ino));
                drop_pages(notifier, ino, start, end);
            };
            self.shared.push(user, Box::new(errand));
        }
    }

    /// Answers a write of `bytes` at `off` by `user` when no page of before is left.
    pub fn written(&self, user: u32, (ino, off): (u64, u64), bytes: usize, reply: Reply<'_>) -> Answered {
        if !self.runs {
            // A system without a thread to spare: an older page is better than a wait for oneself.
            return reply.written(bytes as u32);
        }
        // The kernel drops a page when those who read it have their answers: these must find somebody to give them. With
        // too many such writes at once an older page for a moment is better than a wait for ever.
        if bytes == 0 {
            return reply.written(0);
        }
        let end = off.saturating_add(bytes as u64);
        match reply.park() {
            Ok((answered, reply)) => {
                let errand = Box::new(move |notifier: &Notifier| {
                    drop_pages(notifier, ino, off, end);
                    reply.answer(Ok(written_bytes(bytes as u32).into()));
                });
                self.shared.push(user, errand);
                answered
            }
            Err(reply) => {
                let answered = reply.written(bytes as u32);
                self.drop_later(user, ino, off..end);
                answered
            }
        }
    }

    /// Answers a seek by `user` when the kernel has written what it may have in the holes that the answer relies on.
    ///
    /// # Errors
    /// The reply, if it cannot wait: with no thread to spare, or too many that wait already.
    pub fn seek<'a>(
        &self,
        fs: &Arc<Fs>,
        user: u32,
        (ino, off, whence): (u64, u64, Whence),
        reply: Reply<'a>,
    ) -> std::result::Result<Answered, Reply<'a>> {
        if !self.runs {
            return Err(reply);
        }
        // As above: the kernel's writes, too, must find somebody to take them.
        let (answered, reply): (Answered, DeferredReply) = reply.park()?;
        let fs = fs.clone();
        let errand = Box::new(move |notifier: &Notifier| {
            let at = sought_behind_pages(notifier, &fs, ino, off, whence);
            let at = at.unwrap_or_else(|| fs.seek_without_holes(ino, off, whence));
            reply.answer(at.map(|at| at.to_ne_bytes().into()).map_err(|error| error.errno()));
        });
        self.shared.push(user, errand);
        Ok(answered)
    }
}

impl Drop for Coherence {
    fn drop(&mut self) {
        let mut errands = self.shared.errands();
        errands.stop = true;
        self.shared.changed.notify_all();
        // One of the threads may be the last to have it, and waits for no other.
        let own = std::thread::current().name() == Some(THREAD);
        while self.runs && !own && errands.threads > 0 {
            errands = self.shared.changed.wait(errands).unwrap_or_else(|e| e.into_inner());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_that_nobody_waits_for_are_one_for_each_file_and_user() {
        let pending = PendingDrops::default();
        assert!(pending.add((1000, 7), 8192..12288));
        assert!((0..1000).all(|n| !pending.add((1000, 7), 4096 + n..20480)));
        assert!(pending.add((1001, 7), 0..4096) && pending.add((1000, 8), 0..4096));
        assert_eq!(pending.take((1000, 7)), 4096..20480);
        assert!(pending.add((1000, 7), 0..1), "what comes later is another");
    }

    #[test]
    fn an_errand_of_one_user_keeps_no_other_user_waiting() {
        let mut errands = UserQueues::new();
        errands.threads = 1;
        (0..5).for_each(|n| errands.waiting.push_back((1000, n)));
        assert!(errands.lacks_thread());
        assert_eq!(errands.next(), Some((1000, 0)));
        // The others of that user wait for it, and need no thread meanwhile.
        assert!(errands.next().is_none() && !errands.lacks_thread());
        errands.waiting.push_back((1001, 5));
        assert!(errands.lacks_thread());
        assert_eq!(errands.next(), Some((1001, 5)));
        errands.done(1001);
        assert!(errands.next().is_none());
        errands.done(1000);
        assert_eq!(errands.next(), Some((1000, 1)));
        errands.waiting.push_back((1002, 6));
        errands.threads = THREADS_MAX;
        assert!(!errands.lacks_thread());
        errands.threads = 1;
        errands.idle = 1;
        assert!(!errands.lacks_thread(), "there is one that does it");
        errands.waiting.push_back((1003, 7));
        assert!(errands.lacks_thread(), "not both at once");
    }
}
