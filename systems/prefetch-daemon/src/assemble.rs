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
    /// Its first page was not there: the kernel had to begin reading for it. Not told of faults.
    pub missed: bool,
    /// It began where the thread's access before it ended.
    pub contiguous: bool,
    /// How long before its end the kernel had begun to read the pages it waited for, ahead of the stream, ns; 0 when that
    /// is not known.
    pub asked_ns: u64,
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
    /// The window of a fault that had to wait and was tried again, when the kernel had read no others around it: of
    /// what it brought, only the page that the fault told of was certainly touched.
    Again,
}

#[derive(Debug, Clone, Copy, Default)]
struct Thread {
    pending: Option<Access>,
    /// When the kernel began to read for it, of which file, and whether for want of a page.
    begun: Option<(Key, u64, bool)>,
    blocked_ns: Option<u64>,
    /// Pages that its reads of a file usually ask for.
    usual: Option<(Key, u64)>,
    /// The pending fault had the kernel read pages around it.
    around: bool,
    /// Where its latest access ended.
    end: Option<(Key, u64)>,
    /// Where and when the kernel last began to read ahead for it, and the time before.
    aheads: [Option<(Key, u64, u64)>; 2],
    touched: bool,
}

/// Puts together what the threads of the watched programs did.
#[derive(Debug, Default)]
pub struct Assembler {
    threads: HashMap<i32, Thread>,
    /// The kernel tells when it reads around a fault.
    tells_around: bool,
    /// Threads with events since the last [`Assembler::settle`].
    touched: Vec<i32>,
}

impl Assembler {
    /// `tells_around`: there will be [`What::Around`] events.
    pub fn new(tells_around: bool) -> Assembler {
        Assembler { tells_around, ..Assembler::default() }
    }

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
            What::Missed { key, index, .. } | What::Ahead { key, index } => {
                let is_read = |p: Access| p.kind == AccessKind::Read && !(p.first..=p.last).contains(&index);
                if thread.pending.is_some_and(is_read) {
                    // It belongs to the next read: the one before is complete.
                    thread.flush(at_ns, each);
                }
                let missed = matches!(moment.what, What::Missed { .. });
                if !missed {
                    thread.aheads = [Some((key, index, at_ns)), thread.aheads[0]];
                }
                thread.begun.get_or_insert((key, at_ns, missed));
            }
            What::Blocked => {
                thread.blocked_ns.get_or_insert(at_ns);
            }
            What::Read { key, first, last } => thread.read(moment, key, (first, last), each),
            What::Around { key } => thread.around |= thread.pending.is_some_and(|pending| pending.key == key),
            What::Mapped { key, first, last } => {
                let again = |p: Access| {
                    p.kind == AccessKind::Fault && p.key == key && (first..=last).contains(&p.first)
                };
                let again = thread.pending.is_some_and(again) && !thread.around && self.tells_around;
                thread.flush(at_ns, each);
                thread.clear();
                let end = thread.end;
                let kind = if again { AccessKind::Again } else { AccessKind::Window };
                let window = thread.access(moment, key, (first, last), kind);
                if again {
                    thread.end = end;
                }
                each(window);
            }
            What::Fault { key, index } => {
                thread.flush(at_ns, each);
                thread.clear();
                thread.pending = Some(thread.access(moment, key, (index, index), AccessKind::Fault));
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
        self.begun = None;
        self.blocked_ns = None;
        self.around = false;
    }

    fn access(&mut self, moment: &Moment, key: Key, (first, last): (u64, u64), kind: AccessKind) -> Access {
        let contiguous = self.end == Some((key, first));
        self.end = Some((key, last.saturating_add(1)));
        let (tid, at_ns) = (moment.tid, moment.at_ns);
        Access { key, tid, first, last, waited_ns: 0, at_ns, kind, missed: false, contiguous, asked_ns: 0 }
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
        let at_ns = moment.at_ns;
        if self.pending.is_some_and(|pending| pending.kind == AccessKind::Fault) {
            self.flush(at_ns, each);
        }
        let begun = self.begun.take().filter(|(of, _, _)| *of == key);
        let missed = begun.is_some_and(|(_, _, missed)| missed);
        let blocked = self.blocked_ns.take();
        let since = blocked.map(|blocked| begun.map_or(blocked, |(_, begun, _)| begun.min(blocked)));
        let waited_ns = since.map_or(0, |since| at_ns.saturating_sub(since));
        let asked_ns = if waited_ns > 0 { self.asked_ns(key, (first, last), at_ns) } else { 0 };
        if let Some(pending) = self.pending.as_mut()
            && (pending.key, pending.last) == (key, last)
            && first > pending.first
        {
            pending.waited_ns += waited_ns;
            pending.at_ns = at_ns;
            pending.missed |= missed;
            pending.asked_ns = pending.asked_ns.max(asked_ns);
            return;
        }
        self.flush(at_ns, each);
        let first = self.beginning(key, (first, last), waited_ns > 0);
        let access = self.access(moment, key, (first, last), AccessKind::Read);
        self.pending = Some(Access { waited_ns, missed, asked_ns, ..access });
    }

    /// How long ago the kernel had begun to read these pages ahead. It marks the first page of what it reads ahead, and
    /// when that is reached it begins with the next of the same length: the pages behind the latest mark were begun at the
    /// mark before.
    fn asked_ns(&self, key: Key, (first, last): (u64, u64), at_ns: u64) -> u64 {
        let [Some((of, mark, _)), Some((of_before, before, began_ns))] = self.aheads else { return 0 };
        let length = mark.saturating_sub(before);
        let within = last >= mark && first < mark.saturating_add(length);
        if (of, of_before) == (key, key) && within { at_ns.saturating_sub(began_ns) } else { 0 }
    }

    /// Where a read began. When some of its pages are ready and the next is still on its way, the kernel tells only
    /// of the latter (filemap_get_pages returns what it has before its tracepoint): such a read is taken to be as
    /// long as the thread's others.
    fn beginning(&mut self, key: Key, (first, last): (u64, u64), waited: bool) -> u64 {
        let pages = last - first + 1;
        let usual = self.usual.filter(|(of, _)| *of == key).map_or(0, |(_, usual)| usual);
        if waited && pages < usual {
            return (last + 1).saturating_sub(usual);
        }
        self.usual = Some((key, pages));
        first
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
    fn a_miss_without_a_wait_took_no_time_and_reading_ahead_is_no_miss() {
        let missed = What::Missed { key: KEY, index: 16, pages: 16 };
        let all = run(&[(10, 9, missed), (20, 9, read(0, 15))]);
        assert_eq!((all[0].waited_ns, all[0].missed), (0, true));
        let all = run(&[
            (10, 9, What::Ahead { key: KEY, index: 16 }),
            (12, 9, What::Blocked),
            (20, 9, read(16, 31)),
        ]);
        assert_eq!((all[0].waited_ns, all[0].missed), (10, false));
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
        let seen: Vec<_> = all.iter().map(|a| (a.kind, a.first, a.waited_ns, a.contiguous)).collect();
        assert_eq!(
            seen,
            [
                (AccessKind::Fault, 3, 890, false),
                (AccessKind::Window, 0, 0, false),
                (AccessKind::Fault, 16, 0, true)
            ]
        );
    }

    #[test]
    fn a_fault_tried_again_is_one_touch_unless_the_kernel_read_around_it() {
        let events = |around: Option<(u64, i32, What)>| {
            let mut events = vec![(10, 9, What::Fault { key: KEY, index: 3 })];
            events.extend(around);
            events.push((12, 9, What::Blocked));
            events.push((900, 9, What::Mapped { key: KEY, first: 0, last: 15 }));
            events.push((950, 9, What::Mapped { key: KEY, first: 16, last: 31 }));
            events
        };
        let windows = |tells: bool, events: &[(u64, i32, What)]| {
            let mut assembler = Assembler::new(tells);
            let mut windows = 0;
            for (at_ns, tid, what) in events {
                let moment = Moment { at_ns: *at_ns, tid: *tid, what: *what };
                assembler.on(&moment, &mut |access| windows += u32::from(access.kind == AccessKind::Window));
            }
            windows
        };
        assert_eq!(windows(true, &events(None)), 1);
        assert_eq!(windows(true, &events(Some((11, 9, What::Around { key: KEY })))), 2);
        assert_eq!(windows(false, &events(None)), 2);
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
    fn a_wait_for_what_was_read_ahead_tells_when_that_was_begun() {
        let ahead = |index| What::Ahead { key: KEY, index };
        let all = run(&[
            (10, 9, ahead(32)),
            (11, 9, read(32, 47)),
            (20, 9, read(48, 63)),
            (30, 9, ahead(64)),
            (31, 9, What::Blocked),
            (1010, 9, read(64, 79)),
            (1020, 9, What::Blocked),
            (1110, 9, read(80, 95)),
            (1120, 9, ahead(96)),
            (1121, 9, read(96, 111)),
            (1130, 9, What::Blocked),
            (1300, 9, read(500, 515)),
        ]);
        let asked: Vec<_> = all.iter().map(|a| (a.first, a.asked_ns)).collect();
        // what lies from 64 on was begun at the mark of 32; nothing is known of a place elsewhere
        assert_eq!(asked, [(32, 0), (48, 0), (64, 1000), (80, 1100), (96, 0), (500, 0)]);
    }

    #[test]
    fn threads_are_told_apart() {
        let all =
            run(&[(1, 1, read(0, 15)), (2, 2, read(8, 15)), (3, 2, What::Blocked), (9, 1, read(16, 31))]);
        // Thread 2 is still blocked.
        assert_eq!(all.iter().map(|a| (a.tid, a.first)).collect::<Vec<_>>(), [(1, 0), (1, 16)]);
    }

    #[test]
    fn a_read_whose_beginning_was_ready_is_as_long_as_the_others() {
        let all = run(&[
            (1, 9, read(0, 15)),
            (2, 9, What::Blocked),
            (900, 9, read(24, 31)),
            (950, 9, read(40, 47)),
            (960, 9, What::Blocked),
            (990, 9, read(52, 55)),
        ]);
        let ranges: Vec<_> = all.iter().map(|a| (a.first, a.last)).collect();
        assert_eq!(ranges, [(0, 15), (16, 31), (40, 47), (48, 55)]);
    }
}
