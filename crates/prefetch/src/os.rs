//! What the shell asks of the kernel, as a trait, and a fake of it.

use crate::budget::Memory;
use crate::file::Request;

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

/// Ranges at least this long are asked about before they are asked for: 0.3 us against 3.7 us a cached MiB.
const ASK_BYTES: u64 = 256 << 10;

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Done {
    /// Bytes that were cached already, as far as was asked.
    pub cached: u64,
    /// Bytes of them that are dirty or being written back.
    pub written: u64,
    /// Whether the kernel refused.
    pub refused: bool,
}

/// Asks for a range in pieces of at most `call_bytes`, unless it is there. `ask` asks about short ranges too.
pub fn issue(os: &impl Os, fd: i32, request: Request, call_bytes: u64, ask: bool) -> Done {
    let mut done = Done::default();
    if (ask || request.len >= ASK_BYTES)
        && let Ok(residency) = os.residency(fd, request.offset, request.len)
    {
        done.cached = residency.cached.min(request.len);
        done.written = residency.written;
        if done.cached == request.len {
            return done;
        }
    }
    let end = request.offset.saturating_add(request.len);
    let mut at = request.offset;
    while at < end {
        let len = call_bytes.max(crate::PAGE).min(end - at);
        if os.prefetch(fd, at, len).is_err() {
            done.refused = true;
            break;
        }
        at += len;
    }
    done
}

impl Done {
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

/// A kernel for tests: one file of pages, a limit a call, refusals on demand.
#[derive(Debug, Default)]
pub struct FakeOs {
    /// Pages that are cached.
    pub cached: std::cell::RefCell<std::collections::BTreeSet<u64>>,
    /// Calls made: (offset, len).
    pub calls: std::cell::RefCell<Vec<(u64, u64)>>,
    /// The most one call does, bytes; 0 is no limit.
    pub call_bytes_max: u64,
    /// cachestat is refused with this errno.
    pub refuse_residency: Option<i32>,
    /// readahead is refused with this errno.
    pub refuse_prefetch: Option<i32>,
    /// What [`Os::memory`] answers.
    pub memory: Memory,
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
        self.cached.borrow_mut().extend(offset / crate::PAGE..(offset + len).div_ceil(crate::PAGE));
        Ok(())
    }

    fn residency(&self, _fd: i32, offset: u64, len: u64) -> Result<Residency, Refused> {
        if let Some(errno) = self.refuse_residency {
            return Err(Refused(errno));
        }
        let pages = offset / crate::PAGE..(offset + len).div_ceil(crate::PAGE);
        let cached = self.cached.borrow().range(pages).count() as u64 * crate::PAGE;
        Ok(Residency { cached, evicted: 0, written: 0 })
    }

    fn wait_for(&self, _fd: i32, offset: u64) -> Result<(), Refused> {
        self.clock.set(self.clock.get() + 1_000_000);
        self.cached.borrow_mut().insert(offset / crate::PAGE);
        Ok(())
    }

    fn is_ready(&self, _fd: i32, offset: u64) -> Result<bool, Refused> {
        Ok(self.cached.borrow().contains(&(offset / crate::PAGE)))
    }

    fn memory(&self) -> Memory {
        self.memory
    }

    fn now_ns(&self) -> u64 {
        self.clock.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(again, Done { cached: MIB, written: 0, refused: false });
        assert_eq!(os.calls.borrow().len(), 1);
    }

    #[test]
    fn without_cachestat_everything_is_asked_for() {
        let os = FakeOs { refuse_residency: Some(1), ..FakeOs::default() };
        for _ in 0..2 {
            assert_eq!(issue(&os, 3, Request { offset: 0, len: MIB }, MIB, true), Done::default());
        }
        assert_eq!(os.calls.borrow().len(), 2);
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
