//! The device as a state machine: commands in, time in, completions out.

mod background;
mod durable;
mod host;
mod power;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::cache::NIL;
use crate::command::{Command, Completion, Nanos, Op, Status, Token};
use crate::error::{ConfigError, SubmitError};
use crate::ftl::Ftl;
use crate::geometry::Geometry;
use crate::journal::Snapshot;
use crate::mutation::Mutation;
use crate::profile::Profile;
use crate::regime::Regime;
use crate::stats::Stats;
use crate::timing::Timelines;

pub use power::{PowerCut, Recovery};

/// What to build.
#[derive(Clone, Debug)]
pub struct Config {
    /// The device.
    pub profile: Profile,
    /// Its logical capacity, a multiple of 4096; the flash is scaled to it, caches are not.
    pub capacity_bytes: u64,
    /// Its ordering contract.
    pub regime: Regime,
    /// Seed of everything random: which operations just survive a power cut, and the jitter.
    pub seed: u64,
    /// Spread of program times: each takes its time x (1 ..= 1 + jitter). 0 is the profile's own time;
    /// tests use more to see programs end in many orders.
    pub program_jitter: f64,
}

impl Config {
    /// A device of the profile's own contract (`flush`), without jitter.
    pub fn new(profile: Profile, capacity_bytes: u64) -> Config {
        Config { profile, capacity_bytes, regime: Regime::Flush, seed: 0, program_jitter: 0.0 }
    }

    /// The same with another regime.
    pub fn regime(mut self, regime: Regime) -> Config {
        self.regime = regime;
        self
    }
}

/// What is due at a time. The order of variants decides among events of the same nanosecond only after
/// their order of creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Complete(u32),
    Program(u32),
    Erase(u32),
    Page,
    Segment,
    Idle,
    NextFlush,
}

/// A command between fetch and completion.
#[derive(Clone, Debug)]
struct InFlight {
    id: u64,
    status: Status,
    tokens: Option<Box<[Token]>>,
    /// Blocks of a FUA write that are not yet durable up to the journal.
    fua_left: u32,
    /// When the host side of a FUA write is done.
    host_done: Nanos,
}

/// A FLUSH being served; the device serves one at a time.
#[derive(Clone, Debug)]
struct FlushJob {
    command: u32,
    /// Tickets below these must be back.
    untagged: u64,
    tagged: u64,
    /// Epochs of this stream before this one must be mapped.
    stream: Option<(u32, u64)>,
    /// Once drained: the journal position to wait for.
    journal: Option<u64>,
    start: Nanos,
    /// Added to the end of the drain.
    overhead: Nanos,
    /// The last part of that, in which the next one is served.
    overlap: Nanos,
}

/// An emulated SSD. The caller owns the clock: every `now` is at least the one before.
///
/// ```
/// use ssd::{Command, Config, Profile, Ssd, Token};
/// let mut ssd = Ssd::new(Config::new(Profile::named("980pro")?, 1 << 30))?;
/// ssd.submit(Command::write(1, 0, 1, Token(7)), 0)?;
/// let mut done = Vec::new();
/// while let Some(t) = ssd.next_event() {
///     ssd.advance(t, &mut done);
/// }
/// assert_eq!(done[0].id, 1);
/// assert!(done[0].at < 20_000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Ssd {
    profile: Profile,
    regime: Regime,
    ftl: Ftl,
    lines: Timelines,
    now: Nanos,
    powered: bool,
    queues: Vec<VecDeque<(Nanos, Command)>>,
    queued: u32,
    /// Queues that hold a command, in round-robin order.
    active: VecDeque<u16>,
    /// When the controller can take the next command.
    controller_free: Nanos,
    events: BinaryHeap<Reverse<(Nanos, u64, Event)>>,
    event_number: u64,
    inflight: Vec<InFlight>,
    inflight_free: Vec<u32>,
    pending: u32,
    /// Writes that wait for cache space, in order of arrival.
    stalled: VecDeque<Command>,
    flushes: VecDeque<FlushJob>,
    /// The front flush is between the end of its drain and the start of the next one.
    flush_ending: bool,
    /// (journal position, FUA command) in order.
    journal_waiters: VecDeque<(u64, u32)>,
    segment: Option<Snapshot>,
    erasing: Vec<u32>,
    /// Programs under way on each die.
    outstanding: Vec<u8>,
    next_die: u32,
    gc_wanted: Vec<u32>,
    folding: bool,
    force_drain: bool,
    idle_armed: bool,
    last_write: Nanos,
    last_activity: Nanos,
    barrier_epoch: u64,
    slc_blocks_max: u32,
    jitter: f64,
    rng: Xoshiro256PlusPlus,
    stats: Stats,
    dump: Vec<(u32, Token)>,
}

impl Ssd {
    /// A new, empty device with its power on.
    ///
    /// # Errors
    /// [`ConfigError`] for a bad capacity or profile.
    pub fn new(config: Config) -> Result<Ssd, ConfigError> {
        config.profile.validate()?;
        let geo = Geometry::new(&config.profile, config.capacity_bytes)?;
        let lines = Timelines::new(&config.profile, &geo);
        let queues = if config.regime == Regime::Barrier { 1 } else { config.profile.host.queues };
        let block_bytes = u64::from(geo.block_slots) * crate::command::BLOCK_BYTES;
        Ok(Ssd {
            regime: config.regime,
            lines,
            now: 0,
            powered: true,
            queues: vec![VecDeque::new(); usize::from(queues)],
            queued: 0,
            active: VecDeque::new(),
            controller_free: 0,
            events: BinaryHeap::new(),
            event_number: 0,
            inflight: Vec::new(),
            inflight_free: Vec::new(),
            pending: 0,
            stalled: VecDeque::new(),
            flushes: VecDeque::new(),
            flush_ending: false,
            journal_waiters: VecDeque::new(),
            segment: None,
            erasing: Vec::new(),
            outstanding: vec![0; geo.dies as usize],
            next_die: 0,
            gc_wanted: Vec::new(),
            folding: false,
            force_drain: false,
            idle_armed: false,
            last_write: 0,
            last_activity: 0,
            barrier_epoch: 0,
            slc_blocks_max: (config.profile.media.slc_bytes / block_bytes) as u32,
            jitter: config.program_jitter,
            rng: Xoshiro256PlusPlus::seed_from_u64(config.seed),
            stats: Stats::default(),
            dump: Vec::new(),
            ftl: Ftl::new(&config.profile, geo),
            profile: config.profile,
        })
    }

    /// The flash array's shape.
    pub fn geometry(&self) -> &Geometry {
        &self.ftl.flash.geo
    }

    /// The profile it was built from.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Its ordering contract.
    pub fn regime(&self) -> Regime {
        self.regime
    }

    /// Logical blocks.
    pub fn capacity_blocks(&self) -> u64 {
        u64::from(self.ftl.flash.geo.logical)
    }

    /// Submission queues (one in the `barrier` regime).
    pub fn queues(&self) -> u16 {
        self.queues.len() as u16
    }

    /// Commands submitted and not yet completed.
    pub fn in_flight(&self) -> u32 {
        self.pending + self.queued + self.stalled.len() as u32
    }

    /// Counters so far.
    pub fn stats(&self) -> Stats {
        let f = &self.ftl;
        Stats {
            coalesced_blocks: f.coalesced,
            moved_blocks: f.moved,
            journal_pages: f.journal.pages_written,
            segment_pages: f.journal.segments_written,
            ..self.stats
        }
    }

    /// Lowest and highest erase count over all dies.
    pub fn wear(&self) -> (u32, u32) {
        (0..self.ftl.flash.geo.dies).fold((u32::MAX, 0), |(lo, hi), d| {
            let (l, h) = self.ftl.flash.wear(d);
            (lo.min(l), hi.max(h))
        })
    }

    /// Streams whose oldest epoch is not yet in the map: (stream, epoch, its barrier has come, blocks that
    /// are missing). A stream that stays here without events to come waits for its host.
    pub fn waiting_streams(&self) -> Vec<(u32, u32, bool, u32)> {
        self.ftl.order.waiting()
    }

    /// Plants a known bug (tests of the checks only).
    #[doc(hidden)]
    pub fn plant(&mut self, mutation: Mutation) {
        self.ftl.plant(mutation);
    }

    /// Puts a command in its submission queue at `now`.
    ///
    /// # Errors
    /// [`SubmitError`]; the device is unchanged then.
    pub fn submit(&mut self, command: Command, now: Nanos) -> Result<(), SubmitError> {
        self.check(&command, now)?;
        self.now = now;
        let queue = &mut self.queues[usize::from(command.queue)];
        if queue.is_empty() {
            self.active.push_back(command.queue);
        }
        queue.push_back((now, command));
        self.queued += 1;
        self.stats.in_flight_max = self.stats.in_flight_max.max(u64::from(self.in_flight()));
        Ok(())
    }

    fn check(&self, c: &Command, now: Nanos) -> Result<(), SubmitError> {
        if !self.powered {
            return Err(SubmitError::PowerOff);
        }
        if now < self.now {
            return Err(SubmitError::TimeReversed { now, at: self.now });
        }
        let queues = self.queues.len() as u16;
        let Some(queue) = self.queues.get(usize::from(c.queue)) else {
            return Err(SubmitError::NoQueue { queue: c.queue, queues });
        };
        let depth = self.profile.host.queue_depth;
        if queue.len() >= depth as usize {
            return Err(SubmitError::QueueFull { queue: c.queue, depth });
        }
        match (c.tags.major, c.tags.minor) {
            (None, Some(_)) => return Err(SubmitError::BadTags),
            (Some(a), Some(b)) if a.stream == b.stream => return Err(SubmitError::BadTags),
            (None, None) if c.op == Op::CloseStream => return Err(SubmitError::NoStream),
            _ => {}
        }
        if matches!(c.op, Op::Flush | Op::FlushForFua { .. } | Op::Barrier | Op::CloseStream) {
            return Ok(());
        }
        let capacity = self.capacity_blocks();
        let end = c.lba.saturating_add(u64::from(c.blocks));
        if c.blocks == 0 {
            return Err(SubmitError::Empty);
        }
        if end > capacity {
            return Err(SubmitError::OutOfRange { lba: c.lba, end, capacity });
        }
        Ok(())
    }

    /// When the device next does something by itself; None if it rests until the next command.
    pub fn next_event(&self) -> Option<Nanos> {
        let event = self.events.peek().map(|Reverse((t, _, _))| *t);
        match (event, self.fetch_time()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Does everything due up to `now`; completions are appended to `done` in order of time.
    pub fn advance(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        loop {
            let event = self.events.peek().map_or(Nanos::MAX, |Reverse((t, _, _))| *t);
            let fetch = self.fetch_time().unwrap_or(Nanos::MAX);
            let t = event.min(fetch);
            if t > now || t == Nanos::MAX {
                break;
            }
            self.now = self.now.max(t);
            if fetch < event {
                self.fetch(t);
            } else if let Some(Reverse((_, _, event))) = self.events.pop() {
                self.handle(event, t, done);
            }
        }
        self.now = self.now.max(now);
    }

    fn schedule(&mut self, time: Nanos, event: Event) {
        self.event_number += 1;
        self.events.push(Reverse((time, self.event_number, event)));
    }

    fn handle(&mut self, event: Event, t: Nanos, done: &mut Vec<Completion>) {
        match event {
            Event::Complete(i) => {
                self.complete(i, t, done);
                return;
            }
            Event::Program(p) => self.program_ended(p, t),
            Event::Erase(block) => {
                self.erasing.retain(|b| *b != block);
                self.erase_ended(block);
            }
            Event::Page => self.ftl.journal.finish_page(),
            Event::Segment => {
                if let Some(s) = self.segment.take() {
                    self.ftl.journal.finish_segment(s);
                }
            }
            Event::Idle => self.idle(t),
            Event::NextFlush => {
                self.flush_ending = false;
                self.flushes.pop_front();
            }
        }
        self.pump(t);
    }

    fn complete(&mut self, i: u32, t: Nanos, done: &mut Vec<Completion>) {
        let c = &mut self.inflight[i as usize];
        done.push(Completion { id: c.id, at: t, status: c.status, tokens: c.tokens.take() });
        self.inflight_free.push(i);
        self.pending -= 1;
        self.last_activity = t;
        if self.pending == 0 {
            self.arm_idle();
        }
    }

    fn begin(&mut self, id: u64) -> u32 {
        let new = InFlight { id, status: Status::Ok, tokens: None, fua_left: 0, host_done: 0 };
        self.pending += 1;
        match self.inflight_free.pop() {
            Some(i) => {
                self.inflight[i as usize] = new;
                i
            }
            None => {
                self.inflight.push(new);
                self.inflight.len() as u32 - 1
            }
        }
    }
}

/// No FUA command to tell.
const NO_FUA: u32 = NIL;
