//! Made-up accesses of whole programs.

use std::cell::RefCell;
use std::collections::HashMap;

use prefetch::{PAGE, Pages};

use super::worth::{BARREN_MAX, FORWARD_MAX, WINDOW};
use super::*;
use crate::assemble::AccessKind;

const MS: u64 = 1_000_000;

fn key(inode: u64) -> Key {
    Key { dev: 7 << 20, inode }
}

fn table() -> Table<()> {
    Table::new(Mode::Auto)
}

/// What was asked for: pages, and when they are there, by a rule for when so many pages asked for at a time are.
struct Asked<'a, F> {
    now_ns: u64,
    there: &'a RefCell<HashMap<u64, u64>>,
    serve: F,
}

impl<F: FnMut(u64, u64) -> u64> Pages for Asked<'_, F> {
    fn ask(&mut self, offset: u64, len: u64) -> bool {
        let pages = offset / PAGE..(offset + len) / PAGE;
        let there_ns = (self.serve)(self.now_ns, pages.end - pages.start);
        pages.for_each(|page| {
            self.there.borrow_mut().entry(page).or_insert(there_ns);
        });
        true
    }

    fn is_cached(&mut self, offset: u64, len: u64) -> Option<bool> {
        Some((offset / PAGE..(offset + len) / PAGE).all(|page| self.there.borrow().contains_key(&page)))
    }

    fn is_ready(&mut self, offset: u64) -> Option<bool> {
        Some(self.there.borrow().get(&(offset / PAGE)).is_some_and(|there_ns| *there_ns <= self.now_ns))
    }
}

/// Tells the table of an access; what is asked for is there at once.
fn tell(table: &mut Table<()>, access: &Access, there: &RefCell<HashMap<u64, u64>>) {
    table.access(access, |(), _| Asked { now_ns: access.at_ns, there, serve: |now_ns, _| now_ns });
}

/// Tells the table of an access, whatever is asked for.
fn only_tell(table: &mut Table<()>, access: &Access) {
    tell(table, access, &RefCell::default());
}

/// A thread that reads 64 KiB every 320 KiB, missing until the prefetcher is ahead.
fn stride(table: &mut Table<()>, kind: AccessKind) -> (u64, u64) {
    let size = 256 << 20;
    let device = table.device_index(77);
    table.follow(key(1), size, device, 0, ());
    let there = RefCell::<HashMap<u64, u64>>::default();
    let (mut misses, mut now_ns) = (0, 0);
    let accesses = size / (320 << 10);
    for at in 0..accesses {
        let first = at * 80;
        let (hit, pages) = (there.borrow().contains_key(&first), 16);
        let waited_ns = if hit { 0 } else { MS };
        misses += u64::from(!hit);
        now_ns += waited_ns + 100_000;
        // A mapping that misses touches one page, then finds the window around it.
        let parts = match (kind, hit) {
            (AccessKind::Read, _) => vec![(first, first + pages - 1, kind, waited_ns)],
            (_, true) => vec![(first, first + 15, AccessKind::Window, 0)],
            (_, false) => {
                vec![(first, first, AccessKind::Fault, waited_ns), (first, first + 15, AccessKind::Window, 0)]
            }
        };
        for (first, last, kind, waited_ns) in parts {
            let access = Access {
                key: key(1),
                tid: 5,
                first,
                last,
                waited_ns,
                at_ns: now_ns,
                kind,
                missed: !hit,
                contiguous: false,
                asked_ns: 0,
            };
            tell(table, &access, &there);
        }
    }
    (misses, accesses)
}

#[test]
fn a_stride_of_reads_is_prefetched() {
    let (misses, accesses) = stride(&mut table(), AccessKind::Read);
    assert!(misses < 30 && accesses > 800, "{misses} of {accesses}");
}

fn read(first: u64, at_ns: u64, waited_ns: u64, missed: bool) -> Access {
    let (last, kind) = (first + 15, AccessKind::Read);
    let (key, tid, contiguous, asked_ns) = (key(1), 5, false, 0);
    Access { key, tid, first, last, waited_ns, at_ns, kind, missed, contiguous, asked_ns }
}

#[test]
fn reads_that_wait_for_what_was_asked_for_count_but_tell_no_latency() {
    /// 64 KiB at 250 MB/s; what is asked for is there a millisecond later.
    const PIECE_NS: u64 = (16 * PAGE) * 4;
    let mut table = table();
    let device = table.device_index(77);
    let ticket = table.follow(key(1), 1 << 30, device, 0, ()).0;
    let there = RefCell::<HashMap<u64, u64>>::default();
    let (mut free_ns, mut now_ns) = (0, 0);
    for number in 0..200 {
        let mut serve = |now_ns: u64, pages: u64| {
            free_ns = now_ns.max(free_ns) + PIECE_NS * pages / 16;
            free_ns + MS
        };
        let known = there.borrow().get(&(number * 80)).copied();
        let there_ns = known.unwrap_or_else(|| serve(now_ns, 16)).max(now_ns + MS / 50);
        let waited_ns = there_ns - now_ns;
        now_ns = there_ns;
        let access = read(number * 80, now_ns, waited_ns, known.is_none());
        table.access(&access, |(), _| Asked { now_ns, there: &there, serve });
    }
    let counters = table.get(ticket).unwrap().counters;
    assert_eq!(counters.reads, 200);
    assert!(counters.late > 100, "{counters:?}");
    let latency_ns = table.devices[device].latency_ns();
    assert!(latency_ns > MS / 5 * 4, "{latency_ns}");
}

/// Misses among 4,000 reads of 64 KiB by four threads of one file, at the blocks that a rule gives for the number of
/// a read: thread and block.
fn shared(mut rule: impl FnMut(u64) -> (u64, u64)) -> u64 {
    let mut table = table();
    let device = table.device_index(77);
    table.follow(key(1), 1 << 30, device, 0, ());
    let there = RefCell::<HashMap<u64, u64>>::default();
    let (mut now_ns, mut misses) = (0, 0);
    for at in 0..4000 {
        let (thread, block) = rule(at);
        let hit = there.borrow().contains_key(&(block * 16));
        misses += u64::from(!hit);
        // Four at a time.
        now_ns += if hit { MS / 50 } else { MS / 4 };
        let access = read(block * 16, now_ns, if hit { 0 } else { MS }, !hit);
        tell(&mut table, &Access { tid: 100 + thread as i32, ..access }, &there);
    }
    misses
}

fn below(seed: &mut u64, limit: u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 33) % limit
}

#[test]
fn interleaved_readers_of_one_file_are_told_apart() {
    for seed in 0..20 {
        let mut random = seed;
        let mut done = [0u64; 4];
        // Some threads run ahead of others by some reads.
        let misses = shared(|_| {
            let least = done.iter().copied().min().unwrap_or(0);
            let thread = loop {
                let thread = below(&mut random, 4) as usize;
                if done[thread] < least + 6 {
                    break thread;
                }
            };
            done[thread] += 1;
            (thread as u64, (done[thread] - 1) * 4 + thread as u64)
        });
        assert!(misses < 100, "seed {seed}: {misses} misses");
    }
}

#[test]
fn threads_that_share_a_stream_do_not_break_it() {
    for seed in 0..20 {
        let mut random = seed;
        let misses = shared(|at| (below(&mut random, 4), 8000 - at));
        assert!(misses < 400, "seed {seed}: {misses} misses");
    }
}

#[test]
fn a_stride_of_touches_is_prefetched() {
    let mut table = table();
    let (misses, accesses) = stride(&mut table, AccessKind::Window);
    assert!(misses < 30 && accesses > 800, "{misses} of {accesses}");
    let ticket = table.find(key(1)).unwrap();
    let counters = table.get(ticket).unwrap().counters;
    assert!(counters.useful > counters.issued / 10 * 8, "{counters:?}");
}

#[test]
fn the_number_of_files_is_bounded_and_the_oldest_goes() {
    let mut table = table();
    for inode in 0..FILES_MAX as u64 {
        assert!(table.follow(key(inode), 1 << 20, 0, inode + 1, ()).1.is_none());
    }
    let (_, gone) = table.follow(key(99), 1 << 20, 0, 1000, ());
    assert_eq!(gone.unwrap().key, key(0));
    assert_eq!((table.len(), table.find(key(0))), (FILES_MAX, None));
    assert_eq!(table.filter().unwrap().matches("||").count(), FILES_MAX - 1);
}

#[test]
fn hits_and_idleness_let_a_file_go_and_its_ticket_expires() {
    let mut table = table();
    let (ticket, _) = table.follow(key(1), 1 << 30, 0, 0, ());
    table.follow(key(2), 1 << 30, 0, 0, ());
    for at in 0..u64::from(WINDOW) {
        assert!(!table.has_quiet());
        let first = at * 7919 % 200_000;
        let kind = AccessKind::Read;
        let access = Access {
            key: key(1),
            tid: 1,
            first,
            last: first,
            waited_ns: 0,
            at_ns: at,
            kind,
            missed: false,
            contiguous: false,
            asked_ns: 0,
        };
        only_tell(&mut table, &access);
    }
    assert!(table.has_quiet());
    let gone = table.sweep(1000);
    assert_eq!(gone.iter().map(|(file, why)| (file.key, *why)).collect::<Vec<_>>(), [(key(1), LetGo::Quiet)]);
    assert!(table.get(ticket).is_none() && table.release(ticket).is_none());
    assert_eq!(table.sweep(3 * IDLE_NS).len(), 1);
    assert!(table.is_empty() && table.filter().is_none());
}

#[test]
fn reads_beyond_the_end_are_cut() {
    let mut table = table();
    let (ticket, _) = table.follow(key(1), 10_000, 0, 0, ());
    for (first, last) in [(0, u64::MAX - 1), (2, 100), (3, 100), (u64::MAX, u64::MAX)] {
        let kind = AccessKind::Read;
        only_tell(
            &mut table,
            &Access {
                key: key(1),
                tid: 1,
                first,
                last,
                waited_ns: 0,
                at_ns: 1,
                kind,
                missed: false,
                contiguous: false,
                asked_ns: 0,
            },
        );
    }
    let file = table.get(ticket).unwrap();
    assert_eq!((file.counters.reads, file.counters.bytes, file.size), (2, 12_288 + 4096, 10_000));
}

#[test]
fn forward_misses_without_read_ahead_are_prefetched() {
    let mut table = table();
    let (ticket, _) = table.follow(key(1), 1 << 30, 0, 0, ());
    for page in 0..20 {
        let kind = AccessKind::Fault;
        only_tell(
            &mut table,
            &Access {
                key: key(1),
                tid: 1,
                first: page,
                last: page,
                waited_ns: MS / 10,
                at_ns: page * MS,
                kind,
                missed: true,
                contiguous: page > 0,
                asked_ns: 0,
            },
        );
    }
    assert!(table.get(ticket).unwrap().counters.issued > 0);
}

/// Forward reads of one thread; the first wait is for what the kernel had asked for 3 ms before.
fn forward(table: &mut Table<()>, accesses: u64, asked_ns: u64) -> Option<u64> {
    (0..accesses).find(|at| {
        let waited_ns = if at % 2 == 0 { MS / 10 } else { 0 };
        let asked_ns = if at % 2 == 0 { asked_ns } else { 0 };
        let (first, last, at_ns) = (at * 16, at * 16 + 15, (at + 1) * MS);
        let (kind, missed, contiguous) = (AccessKind::Read, false, *at > 0);
        let access =
            Access { key: key(1), tid: 1, first, last, waited_ns, at_ns, kind, missed, contiguous, asked_ns };
        only_tell(table, &access);
        table.has_quiet()
    })
}

#[test]
fn a_forward_stream_that_is_left_to_the_kernel_is_let_go_early() {
    let mut table = table();
    table.follow(key(1), 1 << 40, 0, 0, ());
    assert_eq!(forward(&mut table, 4096, 0), Some(u64::from(FORWARD_MAX) - 1));
}

#[test]
fn a_wait_for_the_kernels_reading_ahead_teaches_the_latency() {
    let mut table = table();
    table.follow(key(1), 1 << 40, 0, 0, ());
    forward(&mut table, 8, 3 * MS);
    let latency = table.devices[0].latency_ns();
    assert!(latency > 2 * MS && latency <= 3 * MS, "{latency}");
}

#[test]
fn waiting_without_gain_is_let_go_late_and_gain_keeps() {
    let mut table = table();
    table.follow(key(1), 1 << 40, 0, 0, ());
    let kind = AccessKind::Read;
    // Half of the reads wait, at random places of a file too big to be fetched.
    let accesses = (0u64..1_000_000).find(|at| {
        let first = at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        let missed = at % 2 == 0;
        let waited_ns = if missed { MS } else { 0 };
        let at_ns = at * MS;
        only_tell(
            &mut table,
            &Access {
                key: key(1),
                tid: 1,
                first,
                last: first,
                waited_ns,
                at_ns,
                kind,
                missed,
                contiguous: false,
                asked_ns: 0,
            },
        );
        table.has_quiet()
    });
    assert_eq!(accesses, Some(u64::from(WINDOW * BARREN_MAX) - 1));
    let mut table = self::table();
    stride(&mut table, AccessKind::Read);
    assert!(!table.has_quiet());
}
