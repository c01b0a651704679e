//! What the shells ask of the kernel, as a trait, and how they ask for a range.

use prefetch::budget::Memory;
use prefetch::{PAGE, Request, Tuning};

/// Pages of a range, as cachestat(2) counts them, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Residency {
    /// In the page cache.
    pub cached: u64,
    /// Were in the page cache once and were evicted.
    pub evicted: u64,
    /// Cached ones that are dirty or being written back.
    pub written: u64,
}

/// The kernel does not tell, or does not do it: errno.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused(pub i32);

/// The kernel's side of prefetching. `fd` is the program's own descriptor: it is never opened, duplicated or
/// closed here, since closing any descriptor of a file drops the process's POSIX locks on it.
pub trait Os {
    /// Asks for one range; at most what one call prefetches is done.
    fn prefetch(&self, fd: i32, offset: u64, len: u64) -> Result<(), Refused>;
    /// What is cached of a range (cachestat, Linux 6.5).
    fn residency(&self, fd: i32, offset: u64, len: u64) -> Result<Residency, Refused>;
    /// Waits until the page at `offset` is there.
    fn wait_for(&self, fd: i32, offset: u64) -> Result<(), Refused>;
    /// Whether the page at `offset` is there, without waiting (preadv2 with RWF_NOWAIT).
    fn is_ready(&self, fd: i32, offset: u64) -> Result<bool, Refused>;
    /// The state of memory.
    fn memory(&self) -> Memory;
    /// A monotonic clock, ns.
    fn now_ns(&self) -> u64;
}

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Done {
    /// Bytes that were cached already, as far as was asked.
    pub cached: u64,
    /// Bytes of them that are dirty or being written back.
    pub written: u64,
    /// Whether the kernel refused.
    pub refused: bool,
    /// What is cached of the range was asked and nothing was told: how long it takes to arrive teaches nothing.
    pub blind: bool,
}

/// What is known of a range before it is asked for. Of a file that the program neither owns nor may write the kernel
/// refuses cachestat (EPERM; before Linux 6.5 of any, ENOSYS): its first and last page then stand for all where it
/// matters, which is where `ask` says so.
fn look(os: &impl Os, fd: i32, request: Request, ask: bool) -> Done {
    let nothing = Done::default();
    if !ask && request.len < 2 * Tuning::RAMP_BYTES {
        return nothing;
    }
    if let Ok(residency) = os.residency(fd, request.offset, request.len) {
        let cached = residency.cached.min(request.len);
        return Done { cached, written: residency.written, ..nothing };
    }
    if !ask {
        return nothing;
    }
    // Of a page that is not there the kernel begins to read: the first, so that it is what is asked for next.
    let last = request.offset.saturating_add(request.len).saturating_sub(1);
    match (os.is_ready(fd, request.offset), os.is_ready(fd, last)) {
        (Ok(true), Ok(true)) => Done { cached: request.len, ..nothing },
        (Ok(false), Ok(false)) => nothing,
        (Ok(_), Ok(_)) => Done { cached: PAGE.min(request.len), ..nothing },
        _ => Done { blind: true, ..nothing },
    }
}

/// Asks for a range in pieces of at most `call_bytes`, unless it is there. `ask` asks about short ranges too.
pub fn issue(os: &impl Os, fd: i32, request: Request, call_bytes: u64, ask: bool) -> Done {
    let mut done = look(os, fd, request, ask);
    if done.cached == request.len {
        return done;
    }
    let end = request.offset.saturating_add(request.len);
    let mut at = request.offset;
    while at < end {
        let len = call_bytes.max(PAGE).min(end - at);
        if os.prefetch(fd, at, len).is_err() {
            done.refused = true;
            break;
        }
        at += len;
    }
    done
}

impl Done {
    /// Bytes of a request that say nothing of the device: those that were cached, at least a page where that is not
    /// known, all where nothing was done.
    pub fn untold(&self, request: Request) -> u64 {
        match (self.refused, self.blind) {
            (true, _) => request.len,
            (_, true) => PAGE.min(request.len),
            _ => self.cached,
        }
    }

    /// Whether somebody is writing in a range of so many bytes: a 32nd of it is dirty or being written.
    pub fn meets_writers(&self, len: u64) -> bool {
        self.written > 0 && self.written >= len / 32
    }
}

/// One step of fetching a file: asks for the range and waits for its last page. The time it took, ns.
pub fn fetch(os: &impl Os, fd: i32, request: Request, call_bytes: u64, size: u64) -> (Done, u64) {
    let begin = os.now_ns();
    let done = issue(os, fd, request, call_bytes, true);
    if !done.refused && done.cached < request.len {
        let last = request.offset.saturating_add(request.len).min(size).saturating_sub(1);
        // Without this wait the queue would hold the whole file, and every other read would wait behind it.
        let _ = os.wait_for(fd, last);
    }
    (done, os.now_ns().saturating_sub(begin))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel for tests: one file of pages, a limit a call, refusals on demand.
    #[derive(Debug, Default)]
    struct FakeOs {
        /// Pages that are cached.
        cached: std::cell::RefCell<std::collections::BTreeSet<u64>>,
        /// Calls made: (offset, len).
        calls: std::cell::RefCell<Vec<(u64, u64)>>,
        /// The most one call does, bytes; 0 is no limit.
        call_bytes_max: u64,
        /// cachestat is refused with this errno.
        refuse_residency: Option<i32>,
        /// RWF_NOWAIT is refused with this errno.
        refuse_ready: Option<i32>,
        /// readahead is refused with this errno.
        refuse_prefetch: Option<i32>,
        /// What [`Os::memory`] answers.
        memory: Memory,
        clock: std::cell::Cell<u64>,
    }

    impl Os for FakeOs {
        fn prefetch(&self, _fd: i32, offset: u64, len: u64) -> Result<(), Refused> {
            self.clock.set(self.clock.get() + 1_000);
            self.calls.borrow_mut().push((offset, len));
            if let Some(errno) = self.refuse_prefetch {
                return Err(Refused(errno));
            }
            let len = if self.call_bytes_max == 0 { len } else { len.min(self.call_bytes_max) };
            self.cached.borrow_mut().extend(offset / PAGE..(offset + len).div_ceil(PAGE));
            Ok(())
        }

        fn residency(&self, _fd: i32, offset: u64, len: u64) -> Result<Residency, Refused> {
            if let Some(errno) = self.refuse_residency {
                return Err(Refused(errno));
            }
            let pages = offset / PAGE..(offset + len).div_ceil(PAGE);
            let cached = self.cached.borrow().range(pages).count() as u64 * PAGE;
            Ok(Residency { cached, evicted: 0, written: 0 })
        }

        fn wait_for(&self, _fd: i32, offset: u64) -> Result<(), Refused> {
            self.clock.set(self.clock.get() + 1_000_000);
            self.cached.borrow_mut().insert(offset / PAGE);
            Ok(())
        }

        fn is_ready(&self, _fd: i32, offset: u64) -> Result<bool, Refused> {
            match self.refuse_ready {
                Some(errno) => Err(Refused(errno)),
                None => Ok(self.cached.borrow().contains(&(offset / PAGE))),
            }
        }

        fn memory(&self) -> Memory {
            self.memory
        }

        fn now_ns(&self) -> u64 {
            self.clock.get()
        }
    }

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_capped_kernel_still_gets_the_whole_range() {
        let os = FakeOs { call_bytes_max: 128 << 10, ..FakeOs::default() };
        issue(&os, 3, Request { offset: 0, len: MIB }, 128 << 10, false);
        assert_eq!(os.residency(3, 0, MIB).unwrap().cached, MIB);
        assert_eq!(os.calls.borrow().len(), 8);
    }

    #[test]
    fn what_is_cached_is_not_asked_for() {
        let os = FakeOs::default();
        issue(&os, 3, Request { offset: 0, len: MIB }, MIB, false);
        let again = issue(&os, 3, Request { offset: 0, len: MIB }, MIB, false);
        assert_eq!(again, Done { cached: MIB, ..Done::default() });
        assert_eq!(os.calls.borrow().len(), 1);
    }

    #[test]
    fn without_cachestat_streams_ask_for_everything() {
        let os = FakeOs { refuse_residency: Some(1), ..FakeOs::default() };
        for _ in 0..2 {
            assert_eq!(issue(&os, 3, Request { offset: 0, len: MIB }, MIB, false), Done::default());
        }
        assert_eq!(os.calls.borrow().len(), 2);
    }

    #[test]
    fn without_cachestat_the_first_and_last_page_stand_for_a_step() {
        // EPERM of a file, ENOSYS of a kernel, EOPNOTSUPP of a file system.
        for errno in [1, 38, 95] {
            let os = FakeOs { refuse_residency: Some(errno), ..FakeOs::default() };
            let request = Request { offset: MIB, len: MIB };
            let step = || fetch(&os, 3, request, MIB, 16 * MIB).0;
            let cold = step();
            assert_eq!((cold, cold.untold(request)), (Done::default(), 0));
            let again = step();
            assert_eq!((again.cached, os.calls.borrow().len()), (MIB, 1), "it is not taken for quick");
            os.cached.borrow_mut().remove(&256);
            assert_eq!(step().untold(request), PAGE, "a part was there");
        }
    }

    #[test]
    fn a_step_of_which_nothing_is_told_teaches_nothing() {
        let os = FakeOs { refuse_residency: Some(1), refuse_ready: Some(95), ..FakeOs::default() };
        let request = Request { offset: 0, len: MIB };
        let (done, _) = fetch(&os, 3, request, MIB, 16 * MIB);
        assert!(done.blind && !done.refused && done.cached == 0);
        assert_eq!(done.untold(request), PAGE);
    }

    #[test]
    fn a_refusing_kernel_is_asked_once() {
        let os = FakeOs { refuse_prefetch: Some(22), ..FakeOs::default() };
        assert!(issue(&os, 3, Request { offset: 0, len: MIB }, 64 << 10, false).refused);
        assert_eq!(os.calls.borrow().len(), 1);
    }

    #[test]
    fn a_step_waits_for_its_last_page_inside_the_file() {
        let os = FakeOs::default();
        let (_, elapsed_ns) = fetch(&os, 3, Request { offset: 0, len: 8192 }, MIB, 5000);
        assert!(elapsed_ns >= 1_000_000);
        assert!(os.is_ready(3, 4999).unwrap());
        let (done, elapsed_ns) = fetch(&os, 3, Request { offset: 0, len: 8192 }, MIB, 5000);
        assert_eq!((done.cached, elapsed_ns), (8192, 0));
    }
}
