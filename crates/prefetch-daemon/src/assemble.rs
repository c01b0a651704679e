//! What threads did, out of single events: reads and touches, with how long they waited. Pure.
//!
//! A read is one or several `get_pages` events with the same last page, each told when its pages are there; a
//! thread that was blocked before had to wait for them. A fault is told before it waits; when it ended is known by
//! the thread's next event, so a program's own work counts as waiting for a page that was missed.

use std::collections::HashMap;

use crate::moment::{Key, Moment, What};

/// Threads that are remembered; beyond, all are forgotten, which costs one read each.
const THREADS_MAX: usize = 16_384;

/// A read or touch of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// The file.
    pub key: Key,
    /// The thread.
    pub tid: i32,
    /// First page.
    pub first: u64,
    /// Last page, inclusive.
    pub last: u64,
    /// How long it waited, ns.
    pub waited_ns: u64,
    /// When it ended, ns.
    pub at_ns: u64,
    /// What kind it was.
    pub kind: AccessKind,
    /// The kernel had to begin reading for it.
    pub missed: bool,
}

/// The kinds of accesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessKind {
    /// A read(2) of some kind.
    Read,
    /// A fault whose page was not ready.
    Fault,
    /// A fault that found pages ready: the touched one is somewhere in this window.
    Window,
}

#[derive(Debug, Clone, Copy, Default)]
struct Thread {
    pending: Option<Access>,
    /// When the kernel began to read for it, and of which file.
    missed: Option<(Key, u64)>,
    blocked_ns: Option<u64>,
    touched: bool,
}

/// Puts together what the threads of the watched programs did.
#[derive(Debug, Default)]
pub struct Assembler {
    threads: HashMap<i32, Thread>,
    /// Threads with events since the last [`Assembler::settle`].
    touched: Vec<i32>,
}

impl Assembler {
    /// Takes one event; of all events in order of time.
    pub fn on(&mut self, moment: &Moment, each: &mut impl FnMut(Access)) {
        let (tid, at_ns) = (moment.tid, moment.at_ns);
        if moment.what == What::Ended {
            if let Some(mut thread) = self.threads.remove(&tid) {
                thread.flush(at_ns, each);
            }
            return;
        }
        if self.threads.len() >= THREADS_MAX {
            self.threads.clear();
        }
        let thread = self.threads.entry(tid).or_default();
        if !thread.touched {
            thread.touched = true;
            self.touched.push(tid);
        }
        match moment.what {
            What::Missed { key, index, .. } => {
                // A miss elsewhere belongs to the next read: the one before is complete.
                if thread
                    .pending
                    .is_some_and(|p| p.kind == AccessKind::Read && !(p.first..=p.last).contains(&index))
                {
                    thread.flush(at_ns, each);
                }
                if let Some(fault) =
                    thread.pending.as_mut().filter(|p| p.kind == AccessKind::Fault && p.key == key)
                {
                    fault.missed = true;
                } else {
                    thread.missed.get_or_insert((key, at_ns));
                }
            }
            What::Blocked => {
                thread.blocked_ns.get_or_insert(at_ns);
            }
            What::Read { key, first, last } => thread.read(moment, key, (first, last), each),
            What::Mapped { key, first, last } => {
                thread.flush(at_ns, each);
                thread.clear();
                let kind = AccessKind::Window;
                each(Access { key, tid, first, last, waited_ns: 0, at_ns, kind, missed: false });
            }
            What::Fault { key, index } => {
                thread.flush(at_ns, each);
                thread.clear();
                let kind = AccessKind::Fault;
                let pending =
                    Access { key, tid, first: index, last: index, waited_ns: 0, at_ns, kind, missed: false };
                thread.pending = Some(pending);
            }
            What::Ended => {}
        }
    }

    /// No more events for now: hands over what is complete. A blocked thread's access is not.
    pub fn settle(&mut self, each: &mut impl FnMut(Access)) {
        for tid in self.touched.drain(..) {
            let Some(thread) = self.threads.get_mut(&tid) else { continue };
            thread.touched = false;
            if thread.blocked_ns.is_none()
                && let Some(pending) = thread.pending.take()
            {
                each(pending);
            }
        }
    }
}

impl Thread {
    fn clear(&mut self) {
        self.missed = None;
        self.blocked_ns = None;
    }

    /// The pending access is complete.
    fn flush(&mut self, now_ns: u64, each: &mut impl FnMut(Access)) {
        let Some(mut pending) = self.pending.take() else { return };
        if pending.kind == AccessKind::Fault && self.blocked_ns.take().is_some() {
            pending.waited_ns = now_ns.saturating_sub(pending.at_ns);
            pending.at_ns = now_ns;
        }
        each(pending);
    }

    fn read(&mut self, moment: &Moment, key: Key, (first, last): (u64, u64), each: &mut impl FnMut(Access)) {
        let (tid, at_ns) = (moment.tid, moment.at_ns);
        if self.pending.is_some_and(|pending| pending.kind == AccessKind::Fault) {
            self.flush(at_ns, each);
        }
        let missed = self.missed.take().filter(|(of, _)| *of == key);
        let began =
            self.blocked_ns.take().map(|blocked| missed.map_or(blocked, |(_, begun)| begun.min(blocked)));
        let waited_ns = began.map_or(0, |began| at_ns.saturating_sub(began));
        if let Some(pending) = self.pending.as_mut()
            && (pending.key, pending.last) == (key, last)
            && first > pending.first
        {
            pending.waited_ns += waited_ns;
            pending.at_ns = at_ns;
            pending.missed |= missed.is_some();
            return;
        }
        self.flush(at_ns, each);
        let kind = AccessKind::Read;
        self.pending =
            Some(Access { key, tid, first, last, waited_ns, at_ns, kind, missed: missed.is_some() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Key = Key { dev: 1, inode: 2 };

    fn run(events: &[(u64, i32, What)]) -> Vec<Access> {
        let mut assembler = Assembler::default();
        let mut all = Vec::new();
        for (at_ns, tid, what) in events {
            assembler.on(&Moment { at_ns: *at_ns, tid: *tid, what: *what }, &mut |access| all.push(access));
        }
        assembler.settle(&mut |access| all.push(access));
        all
    }

    fn read(first: u64, last: u64) -> What {
        What::Read { key: KEY, first, last }
    }

    #[test]
    fn pieces_of_a_read_are_one_read() {
        let all = run(&[(1, 9, read(0, 15)), (2, 9, read(8, 15)), (3, 9, read(16, 31))]);
        let ranges: Vec<_> = all.iter().map(|a| (a.first, a.last, a.waited_ns)).collect();
        assert_eq!(ranges, [(0, 15, 0), (16, 31, 0)]);
    }

    #[test]
    fn a_read_waited_since_the_miss_began() {
        let missed = What::Missed { key: KEY, index: 0, pages: 16 };
        let events = [
            (10, 9, missed),
            (12, 9, What::Blocked),
            (1000, 9, read(0, 15)),
            (1010, 9, What::Blocked),
            (1500, 9, read(4, 15)),
        ];
        let all = run(&events);
        assert_eq!(all.len(), 1);
        assert_eq!((all[0].waited_ns, all[0].at_ns, all[0].missed), (990 + 490, 1500, true));
    }

    #[test]
    fn a_miss_without_a_wait_took_no_time() {
        let missed = What::Missed { key: KEY, index: 16, pages: 16 };
        let all = run(&[(10, 9, missed), (20, 9, read(0, 15))]);
        assert_eq!((all[0].waited_ns, all[0].missed), (0, true));
    }

    #[test]
    fn a_blocked_fault_ends_with_the_next_event() {
        let fault = |index| What::Fault { key: KEY, index };
        let all = run(&[
            (10, 9, fault(3)),
            (11, 9, What::Missed { key: KEY, index: 3, pages: 1 }),
            (12, 9, What::Blocked),
            (900, 9, What::Mapped { key: KEY, first: 0, last: 15 }),
            (950, 9, fault(16)),
        ]);
        let seen: Vec<_> = all.iter().map(|a| (a.kind, a.first, a.waited_ns, a.missed)).collect();
        assert_eq!(
            seen,
            [
                (AccessKind::Fault, 3, 890, true),
                (AccessKind::Window, 0, 0, false),
                (AccessKind::Fault, 16, 0, false)
            ]
        );
    }

    #[test]
    fn a_blocked_access_is_kept_until_it_ends() {
        let mut assembler = Assembler::default();
        let mut all = Vec::new();
        let fault = Moment { at_ns: 1, tid: 9, what: What::Fault { key: KEY, index: 3 } };
        assembler.on(&fault, &mut |access| all.push(access));
        assembler.on(&Moment { at_ns: 2, tid: 9, what: What::Blocked }, &mut |access| all.push(access));
        assembler.settle(&mut |access| all.push(access));
        assert!(all.is_empty());
        assembler.on(&Moment { at_ns: 50, tid: 9, what: What::Ended }, &mut |access| all.push(access));
        assert_eq!(all[0].waited_ns, 49);
    }

    #[test]
    fn threads_are_told_apart() {
        let all =
            run(&[(1, 1, read(0, 15)), (2, 2, read(8, 15)), (3, 2, What::Blocked), (9, 1, read(16, 31))]);
        // Thread 2 is still blocked.
        assert_eq!(all.iter().map(|a| (a.tid, a.first)).collect::<Vec<_>>(), [(1, 0), (1, 16)]);
    }
}
