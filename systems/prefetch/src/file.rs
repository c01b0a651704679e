//! The streams of a file, its misses, fetching all of it, feedback.

mod account;
mod claim;
mod fetch;
mod reach;
mod steer;
mod streams;

use reach::Reach;
pub use streams::STREAMS;
use streams::Streams;

use crate::course::Shape;
use crate::reason::Reason;
use crate::rent::Rent;
use crate::stream::Stream;
use crate::{Budget, Device, Mode, PAGE};

pub use crate::rent::Fetched;

/// One read of the program.
#[derive(Debug, Clone, Copy)]
pub struct Read {
    /// Where it began, bytes.
    pub offset: u64,
    /// Bytes returned.
    pub len: u64,
    /// How long it took, ns; `None` when it was not timed.
    pub elapsed_ns: Option<u64>,
    /// When it ended, ns.
    pub now_ns: u64,
}

impl Read {
    /// Whether it took longer than copying out of the page cache: 12 us and 0.4 ns a byte.
    pub fn is_slow(&self) -> bool {
        self.elapsed_ns.is_some_and(|elapsed| elapsed > 12_000 + self.len * 2 / 5)
    }
}

/// A read that is being looked at, and what it concerns.
#[derive(Debug, Clone, Copy)]
struct Look<'a> {
    read: Read,
    /// Whether it lies within what was prefetched of its stream, or fetched of the file.
    covered: bool,
    fetched: bool,
    device: &'a Device,
    budget: &'a Budget,
    mode: Mode,
}

/// What the shell should do after a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Effect {
    /// There is something to claim: wake a worker.
    pub wake: bool,
    /// Time the next reads of this file.
    pub time_next: bool,
}

/// A range to prefetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Start, a multiple of a page.
    pub offset: u64,
    /// Length, a multiple of a page.
    pub len: u64,
}

impl Request {
    /// The pages that hold a range.
    fn covering(offset: u64, len: u64) -> Request {
        let start = offset / PAGE * PAGE;
        let end = offset.saturating_add(len).div_ceil(PAGE).saturating_mul(PAGE);
        Request { offset: start, len: end - start }
    }
}

/// Counters of one file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Reads.
    pub reads: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Reads that were timed.
    pub timed: u64,
    /// Timed reads that were slow: misses.
    pub slow: u64,
    /// Time in slow reads, ns.
    pub blocked_ns: u64,
    /// Bytes asked of the kernel.
    pub issued: u64,
    /// Bytes read out of what was prefetched.
    pub useful: u64,
    /// Slow reads of what had been asked for: it was still on its way.
    pub late: u64,
    /// Bytes prefetched and never read.
    pub wasted: u64,
    /// Bytes asked for that were cached already.
    pub redundant: u64,
    /// Bytes evicted before use.
    pub evicted: u64,
    /// Time saved, ns: one latency for each covered fast read (observing: what would have been saved).
    pub saved_ns: u64,
}

/// What is known of one open file. Plain data without pointers: zeroes are a file not looked at yet.
#[derive(Debug, Clone, Copy, Default)]
pub struct FileState {
    /// Its size, bytes.
    pub size: u64,
    /// Counters.
    pub counters: Counters,
    /// The latest decision.
    pub reason: Reason,
    /// The program said FADV_RANDOM: the kernel does not read ahead.
    pub random_hint: bool,
    /// When reads arrived is known roughly only: the shell times its prefetches itself.
    pub coarse: bool,
    /// Set by the shell before it tells of a read: somebody else had asked for the pages, so that what the read
    /// waited is no latency, as far as it waited.
    pub joined: bool,
    /// Set by the shell before it tells of a read: which thread reads; 0 when that is not known.
    pub reader: u32,
    /// Whether all of it is being fetched.
    fetching: bool,
    /// Bytes fetched and counted against the budget until the file is closed.
    fetch_owed: u64,
    rent: Rent,
    streams: Streams,
    reach: Reach,
    /// When its latest read ended, ns.
    now_ns: u64,
    wants_worker: bool,
}

impl FileState {
    /// A file of a size.
    pub fn new(size: u64) -> FileState {
        FileState { size, ..FileState::default() }
    }

    /// Tells of a read; the answer says whether there is something to do.
    pub fn on_read(&mut self, read: &Read, device: &Device, budget: &Budget, mode: Mode) -> Effect {
        if read.len == 0 {
            return Effect::default();
        }
        self.streams.count();
        self.size = self.size.max(read.offset.saturating_add(read.len));
        self.counters.reads += 1;
        self.counters.bytes += read.len;
        self.now_ns = read.now_ns;
        device.note_time(read.now_ns);
        let at = self.stream_of(read, device, budget);
        let Some(mut stream) = self.streams.get(at).copied() else { return Effect::default() };
        let covered = stream.covers(read.offset);
        let fetched = self.rent.covers(read.offset, self.size);
        let mut read = *read;
        if stream.used != self.streams.tick() {
            // How long it took is the processor's doing, or known from the read before.
            if stream.course.has_read(read.offset, read.len) {
                read.elapsed_ns = None;
            }
            stream.advance(read.offset, read.len, self.streams.tick());
        }
        let read = &read;
        stream.reader = self.reader;
        self.streams.note_order(stream.course.is_confirmed());
        let look = Look { read: *read, covered, fetched, device, budget, mode };
        self.account(&mut stream, &look);
        stream.course.count_misfit(read.is_slow());
        if mode.predicts() {
            self.steer(&mut stream, &look);
        }
        if mode == Mode::Observe && stream.is_active() {
            while stream.claim(stream.ahead.depth(), 1 << 20, self.size).is_some() {}
        }
        if stream.is_active() {
            device.stream_reads(&mut stream.epoch, read.now_ns);
        }
        let headroom = stream.is_active() && self.wants_more(&stream, device, &device.model());
        let time_next = stream.wants_time();
        if let Some(slot) = self.streams.get_mut(at) {
            *slot = stream;
        }
        self.rent(&stream, &look);
        let observing = mode == Mode::Observe;
        let wanted = core::mem::take(&mut self.wants_worker);
        // Once a fetch has begun its thread goes on by itself; that it is woken now and then is for a system that refused.
        let fetching = self.fetching && self.streams.tick().is_multiple_of(4 * STREAMS as u32);
        Effect { wake: !observing && (headroom || wanted || fetching), time_next }
    }

    /// Finds or makes the stream of a read; a made one has `used` equal to the tick.
    fn stream_of(&mut self, read: &Read, device: &Device, budget: &Budget) -> usize {
        if let Some(at) = self.streams.best(read.offset, read.len, self.reader) {
            return at;
        }
        for (at, over) in self.streams.over().into_iter().enumerate() {
            if over {
                self.retire(at, device, budget);
            }
        }
        let at = self.streams.victim();
        self.retire(at, device, budget);
        let tick = self.streams.tick();
        if let Some(slot) = self.streams.get_mut(at) {
            let begun_ns = read.now_ns.saturating_sub(read.elapsed_ns.unwrap_or(0));
            *slot = Stream::begin(read.offset, read.len, tick, begun_ns);
        }
        at
    }

    /// Ends a stream: what it had ahead is waste, its length teaches how far the next may go.
    fn retire(&mut self, at: usize, device: &Device, budget: &Budget) {
        let Some(stream) = self.streams.get_mut(at) else { return };
        let mut ended = core::mem::take(stream);
        if !ended.is_used() {
            return;
        }
        if ended.course.run_reads >= 4 && ended.course.is_confirmed() {
            self.reach.note_run(ended.course.run_bytes);
        }
        self.settle(&mut ended, device, budget);
    }

    /// Prefetching of a stream ends, if it was prefetched.
    fn settle(&mut self, ended: &mut Stream, device: &Device, budget: &Budget) {
        if !ended.is_active() {
            return;
        }
        device.live.end();
        let wasted = ended.ahead.end();
        budget.give(wasted);
        self.counters.wasted += wasted;
    }

    /// Feedback on a claimed range: bytes of it that were cached already.
    pub fn redundant(&mut self, bytes: u64, device: &Device, budget: &Budget) {
        self.counters.redundant += bytes;
        if self.counters.redundant < 4 << 20 || self.counters.redundant < self.counters.issued / 10 * 9 {
            return;
        }
        // Nearly all of it is there: stop until reads are slow again.
        for at in 0..STREAMS {
            let Some(stream) = self.streams.get_mut(at) else { continue };
            if stream.is_active() && stream.slow_count() == 0 {
                budget.give(stream.ahead.end());
                device.live.end();
                self.reason = Reason::Cached;
            }
        }
    }

    /// Feedback: bytes ahead of the streams that the kernel evicted before they were read.
    pub fn evicted(&mut self, bytes: u64, budget: &Budget) {
        self.counters.evicted += bytes;
        budget.evicted();
    }

    /// The range that is prefetched and unread, of the stream with most of it: to be asked about.
    pub fn ahead_range(&self) -> Option<Request> {
        let stream = self
            .streams
            .iter()
            .filter(|stream| stream.is_active())
            .max_by_key(|stream| stream.ahead_bytes())?;
        let ahead = stream.ahead_bytes();
        match stream.course.shape {
            Shape::Forward if ahead > 0 => Some(Request::covering(stream.course.end, ahead)),
            Shape::Backward if ahead > 0 => Some(Request::covering(stream.ahead.issued(), ahead)),
            _ => None,
        }
    }

    /// Whether the file, or parts of it, are being fetched.
    pub fn is_fetching(&self) -> bool {
        self.fetching
    }

    /// The program's position jumped in a way that was not seen: all streams are forgotten.
    pub fn forget(&mut self, device: &Device, budget: &Budget) {
        for at in 0..STREAMS {
            self.retire(at, device, budget);
        }
    }

    /// The file is closed. What was fetched stays in the cache and counts no longer.
    pub fn close(&mut self, device: &Device, budget: &Budget) {
        self.forget(device, budget);
        if core::mem::take(&mut self.fetching) {
            device.fetching.end();
        }
        budget.give(core::mem::take(&mut self.fetch_owed));
    }

    /// Names the shape and depth of the stream read last, for `explain`.
    pub fn latest(&self) -> (Shape, u64, bool) {
        let latest = self.streams.iter().max_by_key(|stream| stream.used);
        latest.map_or((Shape::Unknown, 0, false), |stream| {
            (stream.course.shape, stream.ahead.depth(), stream.is_active())
        })
    }
}
