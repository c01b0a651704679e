//! The streams of a file, its misses, fetching all of it, feedback.

use crate::reason::Reason;
use crate::rent::Rent;
use crate::stream::{Shape, Stream};
use crate::trial::Sample;
use crate::tuning::Tuning;
use crate::{Budget, Device, Mode, PAGE};

/// Streams of one open file; threads share it.
pub const STREAMS: usize = 16;
/// Ended runs whose lengths are remembered.
const RUNS: usize = 8;
/// A stream that begins in the first reads of a file that were seen may have begun before.
const READS_NEW: u64 = 16;
/// A stream has ended when it was idle for this many reads of its file, and for four reads of each live stream.
const IDLE_READS: u32 = 8;
/// What a read without order adds to [`FileState::unordered`], of which an ordered one takes one away.
const UNORDERED: u32 = 16;
/// After so much of it threads are told apart no longer, or again.
const UNORDERED_MAX: u32 = 32 * UNORDERED;

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

/// Fetching a whole file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FetchState {
    /// Not (yet) worth it.
    #[default]
    Idle,
    /// Under way.
    Running,
    /// Complete.
    Done,
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
    /// Grows with reads that follow no known order: see [`FileState::knows_readers`].
    unordered: u32,
    /// Fetching all.
    pub fetch: FetchState,
    /// Bytes fetched and counted against the budget until the file is closed.
    fetch_owed: u64,
    rent: Rent,
    tick: u32,
    streams: [Stream; STREAMS],
    runs: [u64; RUNS],
    runs_len: u32,
    /// How far ahead a stream may be, bytes: less after waste and evictions; 0 before the first stream.
    limit: u64,
    /// Bytes read out of what was prefetched since the limit last changed.
    regained: u64,
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
    pub fn on_read(&mut self, read: &Read, device: &Device, budget: &Budget, tuning: &Tuning) -> Effect {
        if read.len == 0 {
            return Effect::default();
        }
        self.tick = self.tick.wrapping_add(1).max(1);
        self.size = self.size.max(read.offset.saturating_add(read.len));
        self.counters.reads += 1;
        self.counters.bytes += read.len;
        self.now_ns = read.now_ns;
        let at = self.stream_of(read, device, budget);
        let Some(mut stream) = self.streams.get(at).copied() else { return Effect::default() };
        let covered = stream.covers(read.offset);
        let fetched = self.rent.covers(read.offset, self.size);
        let mut read = *read;
        if stream.used != self.tick {
            // How long it took is the processor's doing, or known from the read before.
            if stream.has_read(read.offset, read.len) {
                read.elapsed_ns = None;
            }
            stream.advance(read.offset, read.len, self.tick);
        }
        let read = &read;
        stream.reader = self.reader;
        self.note_order(stream.is_confirmed());
        self.account(&mut stream, read, (covered, fetched), device, budget, tuning.mode);
        if tuning.mode.predicts() {
            self.steer(&mut stream, read, covered, device, budget, tuning);
        }
        if tuning.mode == Mode::Observe && stream.active {
            while stream.claim(stream.depth, 1 << 20, self.size).is_some() {}
        }
        if stream.active {
            device.stream_reads(&mut stream.epoch, read.now_ns);
        }
        let headroom = stream.active && self.wants_more(&stream, device);
        let time_next = stream.active || stream.timed < 16 || stream.slow != 0;
        if let Some(slot) = self.streams.get_mut(at) {
            *slot = stream;
        }
        self.rent(read, covered || fetched, &stream, device, budget, tuning);
        let observing = tuning.mode == Mode::Observe;
        let wanted = core::mem::take(&mut self.wants_worker);
        Effect { wake: !observing && (headroom || wanted || self.fetch == FetchState::Running), time_next }
    }

    fn wants_more(&self, stream: &Stream, device: &Device) -> bool {
        if device.trial.holds() {
            return false;
        }
        let ahead_max = self.ahead_max(stream, device);
        let threshold = self.chunk_bytes(stream, device).min(ahead_max / 2).max(PAGE);
        // Streams with pieces claim one at a time; dense ones are left to gather a chunk.
        let threshold = if matches!(stream.shape, Shape::Stride(_)) { stream.piece } else { threshold };
        !stream.is_exhausted(self.size) && stream.ahead() + threshold <= ahead_max.max(2 * threshold)
    }

    /// One request of a stream, bytes: not less than the kernel's, which it replaces.
    fn chunk_bytes(&self, stream: &Stream, device: &Device) -> u64 {
        match stream.shape {
            Shape::Forward if !self.random_hint => {
                device.chunk_bytes().max(device.readahead_bytes().min(device.call_bytes()).min(1 << 20))
            }
            _ => device.chunk_bytes(),
        }
    }

    /// Finds or makes the stream of a read; a made one has `used` equal to the tick.
    fn stream_of(&mut self, read: &Read, device: &Device, budget: &Budget) -> usize {
        let best = self
            .streams
            .iter()
            .enumerate()
            .filter(|(_, stream)| stream.is_used())
            .filter_map(|(at, stream)| Some((stream.fit(read.offset, read.len)?, at)))
            .filter_map(|(fit, at)| Some((self.is_strange(at)?, fit, at)))
            .min();
        if let Some((_, _, at)) = best {
            return at;
        }
        let live =
            self.streams.iter().filter(|s| s.is_used() && self.tick.wrapping_sub(s.used) <= 16).count();
        let patience = IDLE_READS + 4 * live as u32;
        for at in 0..STREAMS {
            let idle = self.streams.get(at).is_some_and(|stream| {
                stream.is_used() && self.tick.wrapping_sub(stream.used) > patience && stream.run_reads > 2
            });
            if idle {
                self.retire(at, device, budget);
            }
        }
        // An unconfirmed stream goes before a confirmed one, the longest unused first.
        let victim = |stream: &Stream| match (stream.is_used(), stream.is_confirmed()) {
            (false, _) => (0, 0),
            (true, confirmed) => (1 + u32::from(confirmed), stream.used),
        };
        let at = (0..STREAMS).min_by_key(|at| self.streams.get(*at).map(victim)).unwrap_or(0);
        self.retire(at, device, budget);
        if let Some(slot) = self.streams.get_mut(at) {
            *slot = Stream::begin(read.offset, read.len, self.tick);
            slot.begun_ns = read.now_ns.saturating_sub(read.elapsed_ns.unwrap_or(0));
        }
        at
    }

    /// Whether threads are told apart: where most reads of a thread go on nowhere, several share a stream.
    fn knows_readers(&self) -> bool {
        self.reader != 0 && (self.unordered / UNORDERED_MAX).is_multiple_of(2)
    }

    /// Whether a stream is of another thread than this read; `None` when that one still reads it.
    fn is_strange(&self, at: usize) -> Option<bool> {
        let stream = self.streams.get(at)?;
        if !self.knows_readers() || stream.reader == self.reader {
            return Some(false);
        }
        let went_on = |other: &Stream| other.reader == stream.reader && other.used > stream.used;
        self.streams.iter().any(went_on).then_some(true)
    }

    fn note_order(&mut self, is_confirmed: bool) {
        self.unordered = match is_confirmed {
            true if self.unordered.is_multiple_of(UNORDERED_MAX) => self.unordered,
            true => self.unordered - 1,
            false => self.unordered.wrapping_add(UNORDERED),
        };
    }

    /// Ends a stream: what it had ahead is waste, its length teaches how far the next may go.
    fn retire(&mut self, at: usize, device: &Device, budget: &Budget) {
        let Some(stream) = self.streams.get_mut(at) else { return };
        let ended = core::mem::take(stream);
        if !ended.is_used() {
            return;
        }
        if ended.run_reads >= 4 && ended.is_confirmed() {
            if let Some(run) = self.runs.get_mut(self.runs_len as usize % RUNS) {
                *run = ended.run_bytes;
            }
            self.runs_len = self.runs_len.wrapping_add(1);
        }
        self.settle(&ended, device, budget);
    }

    fn settle(&mut self, ended: &Stream, device: &Device, budget: &Budget) {
        if !ended.active {
            return;
        }
        device.stream_ends();
        let wasted = ended.owed;
        budget.give(wasted);
        self.counters.wasted += wasted;
        self.limit = if wasted > ended.useful / 2 {
            self.regained = 0;
            (self.limit / 2).max(128 << 10)
        } else {
            self.limit.saturating_add(1 << 20)
        };
    }

    fn account(
        &mut self,
        stream: &mut Stream,
        read: &Read,
        (covered, fetched): (bool, bool),
        device: &Device,
        budget: &Budget,
        mode: Mode,
    ) {
        let slow = read.is_slow();
        if let Some(elapsed) = read.elapsed_ns {
            self.counters.timed += 1;
            stream.note_time(slow);
            if slow {
                self.counters.slow += 1;
                self.counters.blocked_ns += elapsed;
                // Forward reads may wait for the rest of the kernel's own read-ahead only. The first ones of a file may
                // go on where unseen ones were, and what is prefetched for one stream another may meet.
                let partial = match stream.shape {
                    _ if self.streams.iter().any(|stream| stream.active) => true,
                    Shape::Forward => true,
                    Shape::Unknown if stream.run_reads <= 1 => self.counters.reads <= READS_NEW,
                    Shape::Unknown => stream.is_upwards(),
                    Shape::Backward | Shape::Stride(_) => false,
                };
                if !covered && !fetched && !self.coarse && !self.joined {
                    match partial {
                        true => device.learn_partial_miss(elapsed, read.len),
                        false => device.learn_miss(elapsed, read.len),
                    }
                }
            }
            if slow || covered {
                device.learn_delivery(read.now_ns, read.len);
            }
            if stream.slow_count() > 0 {
                device.note_traffic(read.now_ns, read.len);
            }
            self.try_out(stream, read, elapsed, covered, device, mode);
        }
        if covered {
            self.counters.useful += read.len;
            stream.useful += read.len;
            // Streams that ended early must not hold one back that goes on.
            self.regained = self.regained.saturating_add(read.len);
            if self.regained / 4 >= self.limit && self.limit > 0 {
                self.limit = self.limit.saturating_mul(2);
                self.regained = 0;
            }
            let paid = read.len.min(stream.owed);
            stream.owed -= paid;
            budget.give(paid);
            let timed = stream.timed_claim(read.offset, read.len);
            if slow {
                self.counters.late += 1;
                stream.fast_row = 0;
                if let Some((since_ns, ahead)) = timed.filter(|_| !self.coarse) {
                    let ahead = ahead.saturating_mul(device.streams().max(1));
                    device.learn_wait(read.now_ns.saturating_sub(since_ns), ahead);
                }
            } else {
                stream.fast_row = stream.fast_row.saturating_add(1);
            }
        } else if fetched && slow {
            self.rent.on_spoiled();
        } else if fetched {
            // What is read again was useful once.
            let most = if mode == Mode::Observe { u64::MAX } else { self.counters.issued };
            self.counters.useful = (self.counters.useful + read.len).min(most.max(self.counters.useful));
            self.rent.on_hit(device.typical_ns());
        }
        if (covered || fetched) && (mode == Mode::Observe) == slow {
            // Observing, what was slow would have been fast.
            self.counters.saved_ns += device.latency_ns();
        }
    }

    /// Has a read count in the comparison of reads without and with prefetching.
    fn try_out(
        &self,
        stream: &Stream,
        read: &Read,
        elapsed_ns: u64,
        covered: bool,
        device: &Device,
        mode: Mode,
    ) {
        let counts = (stream.active || stream.slow_count() > 0) && !(covered && device.trial.holds());
        if counts && mode != Mode::Observe && !device.is_fetching() {
            let ahead =
                stream.shape == Shape::Backward || (stream.shape == Shape::Forward && self.random_hint);
            let page_ns = device.latency_ns().saturating_mul(read.len.min(PAGE)) / PAGE;
            let alone_ns = if ahead && stream.active { page_ns } else { 0 };
            let sample = Sample { now_ns: read.now_ns, elapsed_ns, bytes: read.len, alone_ns };
            device.trial.count(&sample, device.streams() > 0, device.latency_ns());
        }
    }

    fn steer(
        &mut self,
        stream: &mut Stream,
        read: &Read,
        covered: bool,
        device: &Device,
        budget: &Budget,
        tuning: &Tuning,
    ) {
        if !stream.is_confirmed() {
            self.settle(stream, device, budget);
            stream.active = false;
            stream.owed = 0;
            return;
        }
        if stream.active {
            // The kernel reads ahead of forward streams itself: compare, and give up on all of them together, since
            // a prefetched one would take the bandwidth of the others.
            let comparable =
                stream.shape == Shape::Forward && !self.random_hint && tuning.mode != Mode::Observe;
            if comparable && let Some(barren) = stream.is_barren(read.now_ns) {
                device.learn_forward(barren);
            }
            let barren = comparable && device.has_barren_forward();
            if barren || device.trial.is_bad() {
                self.settle(stream, device, budget);
                stream.active = false;
                stream.owed = 0;
                self.reason = if barren { Reason::Saturated } else { Reason::NoGain };
                return;
            }
            if covered && read.is_slow() {
                self.grow(stream, read, device, tuning);
            }
            return;
        }
        let least_ns = device.latency_ns().saturating_mul(4);
        // Where the kernel's window is a small part of what must be on its way, there is nothing to compare with.
        let far = device.bdp() >= 16 * device.readahead_bytes();
        let (window, least_ns) =
            if far { (0, 0) } else { ((4 * device.readahead_bytes()).min(2 << 20), least_ns) };
        let ramped = stream.shape != Shape::Forward
            || self.random_hint
            || stream.has_base(window, least_ns, read.now_ns);
        match self.objection(stream, ramped, device) {
            Some(reason) => self.reason = reason,
            None => {
                let depth = (device.bdp() * 3 / 2).clamp(tuning.ramp_bytes, tuning.depth_bytes_max);
                stream.activate(depth, read.now_ns);
                device.stream_begins();
                if self.limit == 0 {
                    self.limit = tuning.depth_bytes_max;
                }
                self.reason =
                    if tuning.mode == Mode::Observe { Reason::Observing } else { Reason::Prefetching };
            }
        }
    }

    /// Why a confirmed stream is not prefetched.
    fn objection(&self, stream: &Stream, ramped: bool, device: &Device) -> Option<Reason> {
        // Prefetching is for misses. A forward stream must show them after the kernel had time to ramp up.
        let forward = stream.shape == Shape::Forward;
        if stream.slow_count() < 2 {
            return Some(Reason::Cached);
        }
        if forward && !self.random_hint && (device.kernel_has_it() || !ramped) {
            return Some(Reason::KernelHasIt);
        }
        // Runs of a few windows: the kernel is done before anything is confirmed.
        if forward && !self.random_hint && self.usual_run() <= 8 * device.readahead_bytes() {
            return Some(Reason::ShortRuns);
        }
        let busy = || device.is_busy(stream.rate_alone(self.now_ns)) || device.forward_is_barren();
        if forward && !self.random_hint && busy() {
            return Some(Reason::Saturated);
        }
        if device.trial.is_bad() {
            return Some(Reason::NoGain);
        }
        if self.fetch == FetchState::Done {
            return Some(Reason::FetchedAll);
        }
        let run = self.usual_run();
        if run < u64::MAX && stream.run_bytes >= run - run / 4 && stream.run_bytes <= run + run / 4 {
            return Some(Reason::ShortRuns);
        }
        if self.limit > 0 && self.limit <= 128 << 10 && self.counters.wasted > self.counters.useful {
            return Some(Reason::Wasteful);
        }
        None
    }

    /// The length that three quarters of the last runs did not exceed; unlimited before the first ended.
    fn usual_run(&self) -> u64 {
        let len = (self.runs_len as usize).min(RUNS);
        if len == 0 {
            return u64::MAX;
        }
        let mut sorted = self.runs;
        if let Some(known) = sorted.get_mut(..len) {
            known.sort_unstable();
        }
        sorted.get(len * 3 / 4).copied().unwrap_or(u64::MAX)
    }

    /// A read had to wait for what was asked for: go deeper, unless the last time brought nothing.
    fn grow(&mut self, stream: &mut Stream, read: &Read, device: &Device, tuning: &Tuning) {
        let bytes = stream.run_bytes - stream.grown_bytes;
        if stream.run_bytes < stream.hold_bytes || bytes < stream.depth / 2 {
            return;
        }
        if self.ahead_max(stream, device) < stream.depth {
            // Something else than the depth is the limit: nothing is learned from the rate.
            stream.grown_bytes = stream.run_bytes;
            stream.grown_ns = read.now_ns;
            stream.rate = 0;
            return;
        }
        let elapsed = read.now_ns.saturating_sub(stream.grown_ns).max(1);
        let rate = (u128::from(bytes) * 1_000_000_000 / u128::from(elapsed)) as u64;
        // Little's law: so much in flight would be twice as fast if latency were the limit.
        let deep =
            u128::from(stream.depth) >= u128::from(rate) * u128::from(device.latency_ns()) / 500_000_000;
        if stream.rate != 0 && rate < stream.rate + stream.rate / 10 && deep {
            device.learn_saturated(rate.max(device.bandwidth()));
            stream.hold_bytes = stream.run_bytes + (64 << 20);
        } else {
            stream.depth = (stream.depth * 2).min(tuning.depth_bytes_max);
        }
        stream.rate = rate;
        stream.grown_bytes = stream.run_bytes;
        stream.grown_ns = read.now_ns;
    }

    /// How far a stream may be ahead now: its depth, what it has read so far, the usual run, all limits.
    fn ahead_max(&self, stream: &Stream, device: &Device) -> u64 {
        // A short forward run is mostly read ahead by the kernel already: less is staked on its going on. A stride
        // that was met three times is no accident: more is.
        let stake = match stream.shape {
            Shape::Forward if stream.run_bytes < 4 << 20 => 1,
            Shape::Stride(_) => 4,
            _ => 2,
        };
        let ramp = stream.run_bytes.saturating_mul(stake).max(128 << 10);
        let least = match stream.shape {
            Shape::Forward if !self.random_hint => 2 * device.readahead_bytes(),
            _ => 2 * stream.piece,
        };
        let share = device.ahead_bytes_share(least.clamp(128 << 10, 1 << 20));
        let run = self.usual_run();
        // Up to the usual length, then nothing until the run has clearly outgrown it.
        let run_left = if stream.run_bytes > run.saturating_add(run / 4) {
            u64::MAX
        } else {
            run.saturating_sub(stream.run_bytes)
        };
        stream.depth.min(ramp).min(run_left).min(share).min(self.limit.max(128 << 10))
    }

    /// Weighs what misses without a pattern have cost against fetching their part of the file.
    fn rent(
        &mut self,
        read: &Read,
        covered: bool,
        stream: &Stream,
        device: &Device,
        budget: &Budget,
        tuning: &Tuning,
    ) {
        if tuning.mode == Mode::FetchAll && self.fetch == FetchState::Idle && !self.rent.is_complete() {
            self.rent.want_all();
            self.begin_fetch(device, budget, tuning);
            return;
        }
        let ordered = stream.is_confirmed() && self.reason != Reason::ShortRuns;
        if !tuning.mode.rents() || covered || ordered || !read.is_slow() {
            return;
        }
        let elapsed_ns = read.elapsed_ns.unwrap_or(0);
        self.rent.on_miss(read.offset, self.size, elapsed_ns, read.now_ns);
        // A forward read may wait for the rest of the kernel's read-ahead only: that says nothing of the queue.
        if stream.shape != Shape::Forward {
            if self.fetch == FetchState::Running {
                self.rent.on_wait(elapsed_ns, device.typical_ns());
            } else {
                device.note_wait_beside(elapsed_ns);
            }
        }
        if self.fetch != FetchState::Idle || self.rent.misses() < tuning.fetch_misses_min {
            return;
        }
        self.reason = Reason::Paying;
        if self.rent.is_worth(self.size, device, tuning.fetch_misses_min) {
            self.begin_fetch(device, budget, tuning);
        }
    }

    fn begin_fetch(&mut self, device: &Device, budget: &Budget, tuning: &Tuning) {
        // Where it fills half of what there is, it would push out what the program has read itself.
        let room = if tuning.mode == Mode::FetchAll { 1 } else { 2 };
        if !budget.fits(self.rent.wanted_bytes(self.size).saturating_mul(room)) {
            self.reason = Reason::NoMemory;
            // A worker that wakes looks at memory first; the next miss tries again.
            self.wants_worker = !budget.is_told();
            return;
        }
        if tuning.mode == Mode::Observe {
            self.rent.fetch_nothing();
            self.reason = Reason::Observing;
            return;
        }
        if !device.fetch_begins() {
            return;
        }
        self.fetch = FetchState::Running;
        self.reason = Reason::FetchingAll;
    }

    /// As [`FileState::claim_at`], at the time of the latest read, and whatever was asked for just before.
    pub fn claim(&mut self, device: &Device, budget: &Budget) -> Option<Request> {
        self.claim_before(u64::MAX, self.now_ns, device, budget)
    }

    /// The next range to prefetch for a stream: the one with the least ahead of it first. It is asked for at `now_ns`.
    /// `None` also while all streams that want something must wait for their turn: see [`FileState::next_claim_ns`].
    pub fn claim_at(&mut self, now_ns: u64, device: &Device, budget: &Budget) -> Option<Request> {
        self.claim_before(now_ns, now_ns, device, budget)
    }

    /// When the first stream that wants something has its turn, ns; `None` without one.
    pub fn next_claim_ns(&self, device: &Device) -> Option<u64> {
        let wanting = self.streams.iter().filter(|stream| stream.active && self.wants_more(stream, device));
        wanting.map(|stream| stream.paced_ns).min()
    }

    fn claim_before(
        &mut self,
        turn_ns: u64,
        now_ns: u64,
        device: &Device,
        budget: &Budget,
    ) -> Option<Request> {
        let ready = |s: &Stream| s.active && s.paced_ns <= turn_ns && self.wants_more(s, device);
        let at = (0..STREAMS)
            .filter(|at| self.streams.get(*at).is_some_and(ready))
            .min_by_key(|at| self.streams.get(*at).map(|stream| stream.ahead()))?;
        let ahead_max = self.streams.get(at).map(|stream| self.ahead_max(stream, device))?;
        let (size, chunk) = (self.size, self.chunk_bytes(self.streams.get(at)?, device));
        let stream = self.streams.get_mut(at)?;
        let before = *stream;
        let (offset, len) = stream.claim(ahead_max, chunk, size)?;
        if !budget.take(len) {
            *stream = before;
            self.reason = Reason::NoMemory;
            return None;
        }
        stream.owed += len;
        stream.time_claim(offset, len, now_ns);
        stream.turn_bytes = stream.turn_bytes.saturating_add(len);
        if let Some(turn_ns) = device.turn_ns(stream.turn_bytes) {
            stream.turn_bytes = 0;
            stream.paced_ns = now_ns.saturating_add(turn_ns);
        }
        self.counters.issued += len;
        Some(Request::covering(offset, len))
    }

    /// Whether a claim would find something.
    pub fn has_claim(&self, device: &Device) -> bool {
        self.streams.iter().any(|stream| stream.active && self.wants_more(stream, device))
    }

    /// The next step of fetching the whole file; [`FileState::fetched`] must follow it, for steps in their order.
    pub fn claim_fetch(&mut self, device: &Device, budget: &Budget) -> Option<Request> {
        if self.fetch != FetchState::Running {
            return None;
        }
        let Some((offset, len)) = self.rent.claim(self.size, device) else {
            let all = self.rent.is_complete();
            self.end_fetch(if all { Reason::FetchedAll } else { Reason::Paying }, device);
            return None;
        };
        if !budget.take(len) {
            self.rent.stop();
            self.end_fetch(Reason::NoMemory, device);
            return None;
        }
        self.fetch_owed += len;
        self.counters.issued += len;
        Some(Request::covering(offset, len))
    }

    /// How many steps of [`FileState::claim_fetch`] may be under way at a time, at least one.
    pub fn fetch_width(&self) -> usize {
        self.rent.width()
    }

    /// Tells how long a step took, and how much of it had been cached. Stops when going on would not pay.
    pub fn fetched(&mut self, bytes: u64, cached: u64, elapsed_ns: u64, device: &Device, mode: Mode) {
        self.counters.redundant += cached;
        // On a busy device the latency that was learned may be longer than this step's.
        let transfer = elapsed_ns.saturating_sub(device.latency_ns()).max(elapsed_ns / 16).max(1_000);
        let fresh = bytes.saturating_sub(cached);
        if fresh >= 64 << 10 {
            let rate = (u128::from(fresh) * 1_000_000_000 / u128::from(transfer)) as u64;
            device.learn_fetch(rate);
        }
        let running = self.fetch == FetchState::Running;
        if running && mode != Mode::FetchAll && !self.rent.on_step(self.size, bytes, device) {
            self.end_fetch(Reason::Paying, device);
        }
    }

    fn end_fetch(&mut self, reason: Reason, device: &Device) {
        if self.fetch == FetchState::Running {
            device.fetch_ends();
        }
        self.fetch = if reason == Reason::FetchedAll { FetchState::Done } else { FetchState::Idle };
        self.reason = reason;
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
            if stream.active && stream.slow_count() == 0 {
                stream.active = false;
                budget.give(core::mem::take(&mut stream.owed));
                device.stream_ends();
                self.reason = Reason::Cached;
            }
        }
    }

    /// Feedback: bytes ahead of the streams that the kernel evicted before they were read.
    pub fn evicted(&mut self, bytes: u64, budget: &Budget) {
        self.counters.evicted += bytes;
        self.regained = 0;
        self.limit = (self.limit / 2).max(128 << 10);
        budget.evicted();
    }

    /// The range that is prefetched and unread, of the stream with most of it: to be asked about.
    pub fn ahead_range(&self) -> Option<Request> {
        let stream =
            self.streams.iter().filter(|stream| stream.active).max_by_key(|stream| stream.ahead())?;
        let ahead = stream.ahead();
        match stream.shape {
            Shape::Forward if ahead > 0 => Some(Request::covering(stream.end, ahead)),
            Shape::Backward if ahead > 0 => Some(Request::covering(stream.issued, ahead)),
            _ => None,
        }
    }

    /// Takes a hint of the program.
    pub fn on_hint(&mut self, random: bool) {
        self.random_hint = random;
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
        if self.fetch == FetchState::Running {
            device.fetch_ends();
            self.fetch = FetchState::Idle;
        }
        budget.give(core::mem::take(&mut self.fetch_owed));
    }

    /// Names the shape and depth of the stream read last, for `explain`.
    pub fn latest(&self) -> (Shape, u64, bool) {
        let latest = self.streams.iter().max_by_key(|stream| stream.used);
        latest.map_or((Shape::Unknown, 0, false), |stream| (stream.shape, stream.depth, stream.active))
    }
}
