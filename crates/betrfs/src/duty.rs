//! How many threads wait for requests. The kernel wakes one that waits for each request, though another is about to
//! look for the next: while all requests are answered from memory, few threads answer more of them than many. So the
//! others rest as long as no request may have to wait for the device.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// So many quick requests in a row let a thread rest.
const QUICK_RUN: usize = 64;
const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

#[derive(Debug, Default)]
struct Rest {
    resting: usize,
    /// How often all were called back.
    calls: u64,
    ended: bool,
}

/// The threads that take requests from one connection.
#[derive(Debug)]
pub(crate) struct Duty {
    fuse: OwnedFd,
    least: usize,
    /// Threads that take requests.
    awake: AtomicUsize,
    /// Quick requests since the last that was not.
    quick: AtomicUsize,
    rest: Mutex<Rest>,
    back: Condvar,
}

/// Lets the thread rest, if it may, when it is dropped: when its request has been answered.
#[derive(Debug)]
pub(crate) struct Quick<'a>(&'a Duty);

impl Duty {
    /// `threads` take requests from `fuse`; `least` of them never rest.
    pub fn new(fuse: OwnedFd, threads: usize, least: usize) -> Duty {
        Duty {
            fuse,
            least: least.max(1),
            awake: AtomicUsize::new(threads),
            quick: AtomicUsize::new(0),
            rest: Mutex::default(),
            back: Condvar::new(),
        }
    }

    fn rest(&self) -> MutexGuard<'_, Rest> {
        self.rest.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// To be held while a request is served that hardly ever waits.
    pub fn quick(&self) -> Quick<'_> {
        Quick(self)
    }

    /// To be called before something that may wait for the device: all threads take requests again.
    pub fn slow(&self) {
        self.quick.store(0, Ordering::Relaxed);
        self.call(false);
    }

    /// To be called now and then: if requests wait, for whatever reason, all threads take some; if the connection is
    /// gone, nobody rests any more.
    pub fn look(&self) {
        let mut fuse = [PollFd::new(&self.fuse, PollFlags::IN)];
        if poll(&mut fuse, Some(&NOW)).is_ok_and(|ready| ready > 0) {
            let gone = fuse[0].revents().intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL);
            self.call(gone);
        }
    }

    /// Calls back all who rest; if `ended`, for good.
    pub fn call(&self, ended: bool) {
        if !ended && self.rest().resting == 0 {
            return;
        }
        let mut rest = self.rest();
        rest.calls += 1;
        rest.ended |= ended;
        self.awake.fetch_add(std::mem::take(&mut rest.resting), Ordering::Relaxed);
        self.back.notify_all();
    }

    fn done(&self) {
        if self.awake.load(Ordering::Relaxed) <= self.least {
            return;
        }
        if self.quick.fetch_add(1, Ordering::Relaxed) < QUICK_RUN {
            return;
        }
        let mut rest = self.rest();
        if rest.ended || self.awake.load(Ordering::Relaxed) <= self.least {
            return;
        }
        self.awake.fetch_sub(1, Ordering::Relaxed);
        rest.resting += 1;
        let before = rest.calls;
        while rest.calls == before {
            rest = self.back.wait(rest).unwrap_or_else(|e| e.into_inner());
        }
    }
}

impl Drop for Quick<'_> {
    fn drop(&mut self) {
        self.0.done();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn pair() -> (OwnedFd, OwnedFd) {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().expect("a pair of sockets");
        (ours.into(), theirs.into())
    }

    /// Serves quick requests with `threads` until only `least` are awake; returns the duty and the threads.
    fn rested(fuse: OwnedFd, threads: usize) -> (Arc<Duty>, Vec<std::thread::JoinHandle<()>>) {
        let duty = Arc::new(Duty::new(fuse, threads, 1));
        let serve =
            |duty: Arc<Duty>| std::thread::spawn(move || (0..QUICK_RUN * 2).for_each(|_| drop(duty.quick())));
        let running: Vec<_> = (0..threads).map(|_| serve(duty.clone())).collect();
        while duty.awake.load(Ordering::Relaxed) > 1 {
            std::thread::yield_now();
        }
        (duty, running)
    }

    #[test]
    fn all_but_one_rest_until_something_is_slow() {
        let (ours, _theirs) = pair();
        let (duty, running) = rested(ours, 4);
        assert_eq!(duty.rest().resting, 3);
        duty.slow();
        assert_eq!((duty.rest().resting, duty.awake.load(Ordering::Relaxed)), (0, 4));
        duty.call(true);
        running.into_iter().for_each(|thread| thread.join().expect("a thread"));
    }

    #[test]
    fn requests_that_wait_and_the_end_call_all_back() {
        let (ours, theirs) = pair();
        let (duty, running) = rested(ours, 3);
        duty.look();
        assert_eq!(duty.rest().resting, 2, "nothing waits");
        rustix::io::write(&theirs, b"request").expect("write");
        duty.look();
        assert!(!duty.rest().ended);
        drop(theirs);
        duty.look();
        assert!(duty.rest().ended);
        running.into_iter().for_each(|thread| thread.join().expect("a thread"));
    }
}
