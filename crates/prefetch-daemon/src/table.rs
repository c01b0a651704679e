//! The files that are followed: their streams, bounded in number, let go when there is nothing to gain. Pure: what
//! stands for the open file is the caller's.

use prefetch::area::DEVICES;
use prefetch::{Budget, Device, FileState, PAGE, Read, Request, Tuning};

use crate::assemble::{Access, AccessKind};
use crate::moment::Key;
use crate::touch::Touches;

/// Files followed at a time; the least recently used makes room.
pub const FILES_MAX: usize = 32;
/// Accesses after which a file is let go that was only read forward and never prefetched: the kernel reads ahead.
const FORWARD_MAX: u32 = 512;
/// Accesses after which it is weighed whether following a file is worth what its events cost.
const WINDOW: u32 = 2048;
/// A file that waited less than this part of such a window's time, and read less than this part of its bytes out of
/// what was prefetched, is let go.
const GAIN_PART: u64 = 16;
/// Windows with waiting but without gain after which a file is let go.
const BARREN_MAX: u32 = 16;
/// A file without accesses is let go after so long.
pub const IDLE_NS: u64 = 2_000_000_000;
/// Contiguous accesses that each began to read by themselves: the kernel does not read ahead here.
const ALONE_MAX: u8 = 8;

/// A file that is followed.
#[derive(Debug)]
pub struct Followed<H> {
    /// Which one.
    pub key: Key,
    /// What the caller keeps for it.
    pub handle: H,
    /// Its streams.
    pub state: Box<FileState>,
    /// Its device, an index into the table's.
    pub device: usize,
    /// A step of fetching it is under way.
    pub fetching: bool,
    touches: Touches,
    used_ns: u64,
    window: Window,
    alone: u8,
    generation: u64,
}

/// What following a file has brought lately.
#[derive(Debug, Clone, Copy, Default)]
struct Window {
    accesses: u32,
    since_ns: u64,
    blocked_ns: u64,
    useful: u64,
    bytes: u64,
    barren: u32,
    quiet: bool,
    /// Accesses that went on where the thread's one before ended.
    contiguous: u32,
    issued: u64,
}

/// A followed file, valid until it is let go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket {
    at: usize,
    generation: u64,
}

/// Why a file was let go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LetGo {
    /// Another needed the place, or it was closed.
    Replaced,
    /// Nothing was to be gained.
    Quiet,
    /// Not used any more.
    Idle,
}

/// The followed files and what they share.
#[derive(Debug)]
pub struct Table<H> {
    files: Vec<Option<Followed<H>>>,
    /// What was measured of devices.
    pub devices: [Device; DEVICES],
    /// Their numbers (`st_dev`), 0 is free.
    pub numbers: [u64; DEVICES],
    /// What may be prefetched and unread.
    pub budget: Budget,
    tuning: Tuning,
    generation: u64,
    has_quiet: bool,
}

impl<H> Table<H> {
    /// Without files.
    pub fn new(tuning: Tuning) -> Table<H> {
        Table {
            files: (0..FILES_MAX).map(|_| None).collect(),
            devices: [const { Device::new() }; DEVICES],
            numbers: [0; DEVICES],
            budget: Budget::new(),
            tuning,
            generation: 0,
            has_quiet: false,
        }
    }

    /// The limits of the policy.
    pub fn tuning(&self) -> &Tuning {
        &self.tuning
    }

    /// The index of a device; the last one when there are too many.
    pub fn device_index(&mut self, number: u64) -> usize {
        let known = self.numbers.iter().position(|known| *known == number || *known == 0);
        let at = known.unwrap_or(DEVICES - 1);
        if let Some(slot) = self.numbers.get_mut(at).filter(|slot| **slot == 0) {
            *slot = number;
        }
        at
    }

    /// Follows a file from now on. The file that had to make room, if any.
    pub fn follow(
        &mut self,
        key: Key,
        size: u64,
        device: usize,
        now_ns: u64,
        handle: H,
    ) -> (Ticket, Option<Followed<H>>) {
        let free = self.files.iter().position(Option::is_none);
        let oldest = || {
            let used =
                |at: &usize| self.files.get(*at).and_then(Option::as_ref).map_or(0, |file| file.used_ns);
            (0..self.files.len()).min_by_key(used).unwrap_or(0)
        };
        let at = free.unwrap_or_else(oldest);
        let before = self.take(at);
        self.generation += 1;
        let followed = Followed {
            key,
            handle,
            state: Box::new(FileState::new(size)),
            device: device.min(DEVICES - 1),
            fetching: false,
            touches: Touches::default(),
            used_ns: now_ns,
            window: Window { since_ns: now_ns, ..Window::default() },
            alone: 0,
            generation: self.generation,
        };
        if let Some(slot) = self.files.get_mut(at) {
            *slot = Some(followed);
        }
        (Ticket { at, generation: self.generation }, before)
    }

    fn take(&mut self, at: usize) -> Option<Followed<H>> {
        let mut file = self.files.get_mut(at)?.take()?;
        file.state.close(&self.devices[file.device], &self.budget);
        Some(file)
    }

    /// Whether a file is followed.
    pub fn find(&self, key: Key) -> Option<Ticket> {
        let at = self.files.iter().position(|file| file.as_ref().is_some_and(|file| file.key == key))?;
        Some(Ticket { at, generation: self.files.get(at)?.as_ref()?.generation })
    }

    /// The file of a ticket, if it is still followed.
    pub fn get(&mut self, ticket: Ticket) -> Option<(&mut Followed<H>, &Device, &Budget)> {
        let file = self.files.get_mut(ticket.at)?.as_mut()?;
        (file.generation == ticket.generation).then_some(())?;
        let device = self.devices.get(file.device)?;
        Some((file, device, &self.budget))
    }

    /// How many files are followed.
    pub fn len(&self) -> usize {
        self.files.iter().flatten().count()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All tickets.
    pub fn tickets(&self) -> Vec<Ticket> {
        let all = self.files.iter().enumerate();
        all.filter_map(|(at, file)| Some(Ticket { at, generation: file.as_ref()?.generation })).collect()
    }

    /// Tells the core of an access. The file's ticket when there is something to claim.
    pub fn access(&mut self, access: &Access) -> Option<Ticket> {
        let ticket = self.find(access.key)?;
        let tuning = self.tuning;
        let (file, device, budget) = self.get(ticket)?;
        file.used_ns = access.at_ns;
        let pages = (access.first, access.last.saturating_add(1));
        let (from, to) = match access.kind {
            AccessKind::Read => pages,
            // The kernel leaves out the page of a window where it wants to be asked to read further ahead.
            AccessKind::Fault if access.waited_ns == 0 && file.touches.is_touched(access.tid, pages) => {
                return None;
            }
            AccessKind::Fault => {
                file.touches.exact(access.tid, pages);
                pages
            }
            AccessKind::Window => file.touches.window(access.tid, pages)?,
            AccessKind::Again => file.touches.again(access.tid, pages)?,
        };
        let offset = from.saturating_mul(PAGE);
        // A read may ask for more than there is.
        let end = to.saturating_mul(PAGE).min(file.state.size.next_multiple_of(PAGE));
        let len = end.checked_sub(offset).filter(|len| *len > 0)?;
        let read = Read { offset, len, elapsed_ns: Some(access.waited_ns), now_ns: access.at_ns };
        // Else it waited for the rest of what was asked for before: that is no latency.
        file.state.joined = access.kind == AccessKind::Read && !access.missed && !access.contiguous;
        file.state.reader = access.tid as u32;
        file.notice_alone(access, &read, device);
        file.window.contiguous += u32::from(access.contiguous);
        if access.asked_ns > 0 && device.streams() == 0 {
            // The only thing that tells the latency to one who comes to a stream that the kernel follows already.
            device.learn_miss(access.asked_ns, device.readahead_bytes());
        }
        let size = file.state.size;
        let effect = file.state.on_read(&read, device, budget, &tuning);
        // The core takes whole pages for bytes: the size is known better.
        file.state.size = size;
        let quiet = file.weigh(access.at_ns);
        self.has_quiet |= quiet;
        effect.wake.then_some(ticket)
    }

    /// The next range to prefetch, asked for at `now_ns`; `None` also while all streams must wait for their turn.
    pub fn claim(&mut self, ticket: Ticket, now_ns: u64) -> Option<Request> {
        let (file, device, budget) = self.get(ticket)?;
        let request = file.state.claim_at(now_ns, device, budget)?;
        file.touches.issued(request);
        Some(request)
    }

    /// When the first stream of a file that wants something has its turn, ns; `None` without one.
    pub fn next_claim_ns(&mut self, ticket: Ticket) -> Option<u64> {
        let (file, device, _) = self.get(ticket)?;
        file.state.next_claim_ns(device)
    }

    /// The next step of fetching the whole file; none while one is under way.
    pub fn claim_fetch(&mut self, ticket: Ticket) -> Option<Request> {
        let (file, device, budget) = self.get(ticket)?;
        if file.fetching {
            return None;
        }
        let request = file.state.claim_fetch(device, budget)?;
        file.fetching = true;
        Some(request)
    }

    /// Lets go of one file.
    pub fn release(&mut self, ticket: Ticket) -> Option<Followed<H>> {
        self.get(ticket)?;
        self.take(ticket.at)
    }

    /// Whether some file is to be let go at once: its events cost more than they bring.
    pub fn has_quiet(&self) -> bool {
        self.has_quiet
    }

    /// Lets go of the files that are idle or brought nothing.
    pub fn sweep(&mut self, now_ns: u64) -> Vec<(Followed<H>, LetGo)> {
        self.has_quiet = false;
        let mut gone = Vec::new();
        for at in 0..self.files.len() {
            let Some(file) = self.files.get(at).and_then(Option::as_ref) else { continue };
            let why = if file.window.quiet {
                LetGo::Quiet
            } else if now_ns.saturating_sub(file.used_ns) > IDLE_NS && !file.fetching {
                LetGo::Idle
            } else {
                continue;
            };
            gone.extend(self.take(at).map(|file| (file, why)));
        }
        gone
    }

    /// The tracepoint filter that lets only the followed files pass; `None` without any.
    pub fn filter(&self) -> Option<String> {
        let terms: Vec<String> = self
            .files
            .iter()
            .flatten()
            .map(|file| format!("(i_ino == {} && s_dev == {})", file.key.inode, file.key.dev))
            .collect();
        (!terms.is_empty()).then(|| terms.join(" || "))
    }
}

impl<H> Followed<H> {
    /// Whether the file's events cost more than they bring: neither does the program wait, nor does it read what was
    /// prefetched; or it waits, and nothing has helped for a long time.
    fn weigh(&mut self, now_ns: u64) -> bool {
        self.window.accesses += 1;
        let (before, c) = (self.window, &self.state.counters);
        if before.accesses == FORWARD_MAX {
            // Whether prefetching gains is tried within a few MiB; what was not prefetched by now is the kernel's.
            let forward = before.contiguous >= FORWARD_MAX - FORWARD_MAX / 8;
            self.window.quiet = forward && c.issued == before.issued;
            return self.window.quiet;
        }
        if before.accesses < WINDOW {
            return false;
        }
        let gain = (c.useful - before.useful).saturating_mul(GAIN_PART) >= c.bytes - before.bytes;
        let waited = (c.blocked_ns - before.blocked_ns).saturating_mul(GAIN_PART);
        let barren = if gain { 0 } else { before.barren + 1 };
        let waits = waited >= now_ns.saturating_sub(before.since_ns);
        let quiet = !gain && (!waits || barren >= BARREN_MAX);
        let (blocked_ns, useful, bytes) = (c.blocked_ns, c.useful, c.bytes);
        let issued = c.issued;
        let (accesses, contiguous, since_ns) = (0, 0, now_ns);
        self.window =
            Window { accesses, contiguous, since_ns, blocked_ns, useful, bytes, issued, barren, quiet };
        quiet
    }

    /// Contiguous accesses that each had to begin reading: the program has turned the kernel's read-ahead off, which
    /// nothing else would tell. What they wait is the device's latency.
    fn notice_alone(&mut self, access: &Access, read: &Read, device: &Device) {
        let alone = access.missed || access.kind == AccessKind::Fault;
        if !access.contiguous || !alone || !read.is_slow() {
            self.alone = 0;
            return;
        }
        device.learn_miss(access.waited_ns, read.len);
        self.alone = self.alone.saturating_add(1);
        if self.alone == ALONE_MAX {
            self.state.on_hint(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn key(inode: u64) -> Key {
        Key { dev: 7 << 20, inode }
    }

    fn table() -> Table<()> {
        Table::new(Tuning::default())
    }

    /// A thread that reads 64 KiB every 320 KiB, missing until the prefetcher is ahead.
    fn stride(table: &mut Table<()>, kind: AccessKind) -> (u64, u64) {
        let size = 256 << 20;
        let device = table.device_index(77);
        table.follow(key(1), size, device, 0, ());
        let mut prefetched = std::collections::HashSet::new();
        let (mut misses, mut now_ns) = (0, 0);
        let accesses = size / (320 << 10);
        for at in 0..accesses {
            let first = at * 80;
            let (hit, pages) = (prefetched.contains(&first), 16);
            let waited_ns = if hit { 0 } else { MS };
            misses += u64::from(!hit);
            now_ns += waited_ns + 100_000;
            // A mapping that misses touches one page, then finds the window around it.
            let parts = match (kind, hit) {
                (AccessKind::Read, _) => vec![(first, first + pages - 1, kind, waited_ns)],
                (_, true) => vec![(first, first + 15, AccessKind::Window, 0)],
                (_, false) => vec![
                    (first, first, AccessKind::Fault, waited_ns),
                    (first, first + 15, AccessKind::Window, 0),
                ],
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
                if let Some(ticket) = table.access(&access) {
                    while let Some(request) = table.claim(ticket, now_ns) {
                        prefetched.extend(request.offset / PAGE..(request.offset + request.len) / PAGE);
                    }
                }
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

    /// Strides of `streams` readers with 64 KiB of every 320; what was prefetched keeps each read waiting a fifth of a
    /// miss. The claims that were refused though something was wanted.
    fn late_strides(table: &mut Table<()>, streams: u64) -> u32 {
        let device = table.device_index(77);
        let ticket = table.follow(key(1), 1 << 30, device, 0, ()).0;
        let mut prefetched = std::collections::HashSet::new();
        let (mut now_ns, mut held) = (0, 0);
        for at in 0..200 {
            for stream in 0..streams {
                let first = (stream << 16) + at * 80;
                let hit = prefetched.contains(&first);
                now_ns += if hit { MS / 5 } else { MS };
                if table.access(&read(first, now_ns, if hit { MS / 5 } else { MS }, !hit)).is_none() {
                    continue;
                }
                while let Some(request) = table.claim(ticket, now_ns) {
                    prefetched.extend(request.offset / PAGE..(request.offset + request.len) / PAGE);
                }
                held += u32::from(table.next_claim_ns(ticket).is_some_and(|turn_ns| turn_ns > now_ns));
            }
        }
        held
    }

    #[test]
    fn reads_that_wait_for_what_was_asked_for_count_but_tell_no_latency() {
        let mut table = table();
        late_strides(&mut table, 1);
        let ticket = table.find(key(1)).unwrap();
        let (file, device, _) = table.get(ticket).unwrap();
        let counters = file.state.counters;
        assert_eq!((counters.timed, counters.reads), (200, 200));
        assert!(counters.late > 150, "{counters:?}");
        assert!(device.latency_ns() > MS / 5 * 4, "{}", device.latency_ns());
    }

    /// Misses among 4,000 reads of 64 KiB by four threads of one file, at the blocks that a rule gives for the number of
    /// a read: thread and block.
    fn shared(mut rule: impl FnMut(u64) -> (u64, u64)) -> u64 {
        let mut table = table();
        let device = table.device_index(77);
        let ticket = table.follow(key(1), 1 << 30, device, 0, ()).0;
        let mut prefetched = std::collections::HashSet::new();
        let (mut now_ns, mut misses) = (0, 0);
        for at in 0..4000 {
            let (thread, block) = rule(at);
            let hit = prefetched.contains(&(block * 16));
            misses += u64::from(!hit);
            // Four at a time.
            now_ns += if hit { MS / 50 } else { MS / 4 };
            let access = read(block * 16, now_ns, if hit { 0 } else { MS }, !hit);
            if table.access(&Access { tid: 100 + thread as i32, ..access }).is_none() {
                continue;
            }
            for _ in 0..8 {
                let turn_ns = table.next_claim_ns(ticket).unwrap_or(0);
                while let Some(request) = table.claim(ticket, now_ns.max(turn_ns)) {
                    prefetched.extend(request.offset / PAGE..(request.offset + request.len) / PAGE);
                }
            }
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
            assert!(misses < 100, "seed {seed}: {misses} misses");
        }
    }

    #[test]
    fn streams_take_turns() {
        assert!(late_strides(&mut table(), 4) > 20);
        assert_eq!(late_strides(&mut table(), 1), 0);
    }

    #[test]
    fn a_stride_of_touches_is_prefetched() {
        let mut table = table();
        let (misses, accesses) = stride(&mut table, AccessKind::Window);
        assert!(misses < 30 && accesses > 800, "{misses} of {accesses}");
        let ticket = table.find(key(1)).unwrap();
        let counters = table.get(ticket).unwrap().0.state.counters;
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
            assert_eq!(table.access(&access), None);
        }
        assert!(table.has_quiet());
        let gone = table.sweep(1000);
        assert_eq!(
            gone.iter().map(|(file, why)| (file.key, *why)).collect::<Vec<_>>(),
            [(key(1), LetGo::Quiet)]
        );
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
            table.access(&Access {
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
            });
        }
        let state = &table.get(ticket).unwrap().0.state;
        assert_eq!((state.counters.reads, state.counters.bytes, state.size), (2, 12_288 + 4096, 10_000));
    }

    #[test]
    fn forward_misses_without_read_ahead_are_noticed() {
        let mut table = table();
        let (ticket, _) = table.follow(key(1), 1 << 30, 0, 0, ());
        for page in 0..10 {
            let kind = AccessKind::Fault;
            table.access(&Access {
                key: key(1),
                tid: 1,
                first: page,
                last: page,
                waited_ns: MS,
                at_ns: page * MS,
                kind,
                missed: true,
                contiguous: page > 0,
                asked_ns: 0,
            });
        }
        assert!(table.get(ticket).unwrap().0.state.random_hint);
    }

    /// Forward reads of one thread; the first wait is for what the kernel had asked for 3 ms before.
    fn forward(table: &mut Table<()>, accesses: u64, asked_ns: u64) -> Option<u64> {
        (0..accesses).find(|at| {
            let waited_ns = if at % 2 == 0 { MS } else { 0 };
            let asked_ns = if at % 2 == 0 { asked_ns } else { 0 };
            let (first, last, at_ns) = (at * 16, at * 16 + 15, (at + 1) * MS);
            let (kind, missed, contiguous) = (AccessKind::Read, false, *at > 0);
            let access = Access {
                key: key(1),
                tid: 1,
                first,
                last,
                waited_ns,
                at_ns,
                kind,
                missed,
                contiguous,
                asked_ns,
            };
            table.access(&access);
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
            table.access(&Access {
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
            });
            table.has_quiet()
        });
        assert_eq!(accesses, Some(u64::from(WINDOW * BARREN_MAX) - 1));
        let mut table = self::table();
        stride(&mut table, AccessKind::Read);
        assert!(!table.has_quiet());
    }
}
