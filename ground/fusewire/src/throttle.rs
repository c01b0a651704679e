//! How many threads wait for requests on `/dev/fuse`. The kernel wakes one that waits for each request, though another is about to
//! look for the next: while all requests are answered from memory, few threads answer more of them than many. So the
//! others rest as long as no request may have to wait for the device.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};

use rustix::event::{PollFd, PollFlags, poll};

use crate::device::NOW;

/// So many quick requests in a row let a thread rest.
const QUICK_RUN: usize = 16;

#[derive(Debug, Default)]
struct ThrottleState {
    resting: usize,
    /// So many of them are called back and have not come yet.
    called: usize,
    ended: bool,
}

/// The threads that take requests from one connection.
#[derive(Debug)]
pub struct WorkerThrottle {
    fuse: OwnedFd,
    threads: usize,
    least: usize,
    /// Threads that take requests.
    awake: AtomicUsize,
    /// Quick requests since the last that was not.
    quick: AtomicUsize,
    /// Quick requests served, and how many when somebody looked last.
    served: AtomicUsize,
    seen: AtomicUsize,
    rest: Mutex<ThrottleState>,
    back: Condvar,
}

impl WorkerThrottle {
    /// `threads` take requests from `fuse`; `least` of them never rest.
    pub fn new(fuse: OwnedFd, threads: usize, least: usize) -> WorkerThrottle {
        WorkerThrottle {
            fuse,
            threads,
            least: least.max(1),
            awake: AtomicUsize::new(threads),
            quick: AtomicUsize::new(0),
            served: AtomicUsize::new(0),
            seen: AtomicUsize::new(usize::MAX),
            rest: Mutex::default(),
            back: Condvar::new(),
        }
    }

    fn rest(&self) -> MutexGuard<'_, ThrottleState> {
        self.rest.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// To be called before something that may wait for the device: another thread takes requests meanwhile.
    pub fn slow(&self) {
        self.quick.store(0, Ordering::Relaxed);
        if self.awake.load(Ordering::Relaxed) < self.threads {
            let mut rest = self.rest();
            // One that is coming is enough.
            if rest.called == 0 {
                self.call(&mut rest, 1);
            }
        }
    }

    /// To be called now and then: if requests wait though none was served since the last look, all threads take
    /// requests; if the connection is gone, nobody rests any more.
    pub fn look(&self) {
        let mut fuse = [PollFd::new(&self.fuse, PollFlags::IN)];
        let waiting = poll(&mut fuse, Some(&NOW)).is_ok_and(|ready| ready > 0);
        let served = self.served.load(Ordering::Relaxed);
        let stuck = self.seen.swap(served, Ordering::Relaxed) == served;
        if waiting && fuse[0].revents().intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL) {
            self.end();
        } else if waiting && stuck {
            self.call(&mut self.rest(), usize::MAX);
        }
    }

    /// From now on nobody rests.
    pub fn end(&self) {
        let mut rest = self.rest();
        rest.ended = true;
        self.call(&mut rest, usize::MAX);
    }

    /// Calls back up to `most` who rest.
    fn call(&self, rest: &mut ThrottleState, most: usize) {
        let called = rest.resting.min(most);
        rest.resting -= called;
        rest.called += called;
        match called {
            0 => {}
            1 => self.back.notify_one(),
            _ => self.back.notify_all(),
        }
    }

    /// To be called when a request that hardly ever waits has been answered. True if the thread rested.
    pub fn done(&self) -> bool {
        self.served.fetch_add(1, Ordering::Relaxed);
        if self.awake.load(Ordering::Relaxed) <= self.least {
            return false;
        }
        if self.quick.fetch_add(1, Ordering::Relaxed) < QUICK_RUN {
            return false;
        }
        let mut rest = self.rest();
        if rest.ended || self.awake.load(Ordering::Relaxed) <= self.least {
            return false;
        }
        self.awake.fetch_sub(1, Ordering::Relaxed);
        rest.resting += 1;
        while rest.called == 0 {
            rest = self.back.wait(rest).unwrap_or_else(|e| e.into_inner());
        }
        rest.called -= 1;
        // Only now: while nobody has come, the one who called must not go.
        self.awake.fetch_add(1, Ordering::Relaxed);
        true
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

    /// Serves quick requests until all threads but one (which nobody is here) rest; returns them.
    fn rested(fuse: OwnedFd, threads: usize) -> (Arc<WorkerThrottle>, Vec<std::thread::JoinHandle<()>>) {
        let duty = Arc::new(WorkerThrottle::new(fuse, threads, 1));
        let serve = |duty: Arc<WorkerThrottle>| std::thread::spawn(move || while !duty.done() {});
        let running: Vec<_> = (1..threads).map(|_| serve(duty.clone())).collect();
        while duty.rest().resting < threads - 1 {
            std::thread::yield_now();
        }
        (duty, running)
    }

    fn wait_for(duty: &WorkerThrottle, awake: usize) {
        while duty.awake.load(Ordering::Relaxed) != awake {
            std::thread::yield_now();
        }
    }

    #[test]
    fn all_but_one_rest_and_one_comes_back_for_each_that_is_slow() {
        let (ours, _theirs) = pair();
        let (duty, running) = rested(ours, 4);
        assert_eq!(duty.rest().resting, 3);
        for awake in 2..=4 {
            duty.slow();
            wait_for(&duty, awake);
            assert_eq!(duty.rest().resting, 4 - awake);
        }
        duty.slow();
        duty.end();
        running.into_iter().for_each(|thread| thread.join().expect("a thread"));
    }

    #[test]
    fn requests_that_nobody_takes_and_the_end_call_all_back() {
        let (ours, theirs) = pair();
        let (duty, running) = rested(ours, 3);
        duty.look();
        assert_eq!(duty.awake.load(Ordering::Relaxed), 1, "nothing waits");
        rustix::io::write(&theirs, b"request").expect("write");
        duty.served.fetch_add(1, Ordering::Relaxed);
        duty.look();
        assert_eq!(duty.awake.load(Ordering::Relaxed), 1, "requests are being served");
        duty.look();
        wait_for(&duty, 3);
        drop(theirs);
        duty.look();
        assert!(duty.rest().ended);
        running.into_iter().for_each(|thread| thread.join().expect("a thread"));
    }
}
