//! Random hosts on a small device, power cuts anywhere, judged by the oracle. Repeats from its seed.

use std::collections::{HashMap, VecDeque};
use std::fmt;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::command::{Command, Completion, Nanos, Op, Status, Tags, Token};
use crate::device::{Config, Ssd};
use crate::mutation::Mutation;
use crate::oracle::{Oracle, Property, Violation};
use crate::profile::{MediaKind, Profile};
use crate::regime::Regime;
use crate::stats::Stats;
use crate::tags::EpochCounters;

/// What to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The contract under test.
    pub regime: Regime,
    /// Commands to submit.
    pub ops: u64,
    /// Of everything random.
    pub seed: u64,
    /// Power-loss protection.
    pub plp: bool,
    /// Rewritable media without blocks.
    pub in_place: bool,
    /// Logical blocks.
    pub blocks: u64,
    /// Streams of application threads; one more is the journal's.
    pub threads: u32,
    /// Chance that a write ends its epoch.
    pub barrier: f64,
    /// Chance of a power cut per step.
    pub cut: f64,
    /// No cut before this many commands.
    pub cut_after: u64,
    /// See [`Config::program_jitter`].
    pub jitter: f64,
    /// Blocks that may wait on flash.
    pub suspended_max: u32,
    /// Only tagged single-block writes and cuts: epochs race ahead.
    pub racing: bool,
    /// A planted bug.
    pub mutation: Option<Mutation>,
}

impl Plan {
    /// The usual mixture.
    pub fn new(regime: Regime, ops: u64, seed: u64) -> Plan {
        Plan {
            regime,
            ops,
            seed,
            plp: false,
            in_place: false,
            blocks: 768,
            threads: 4,
            barrier: 0.35,
            cut: 1.0 / 250.0,
            cut_after: 0,
            jitter: 4.0,
            suspended_max: 512,
            racing: false,
            mutation: None,
        }
    }
}

/// A run without fault.
#[derive(Clone, Debug)]
pub struct Report {
    /// Commands submitted.
    pub ops: u64,
    /// Power cuts.
    pub cuts: u64,
    /// Times everything was let finish and read back.
    pub quiesces: u64,
    /// Counters of the device.
    pub stats: Stats,
}

/// What went wrong, and how to see it again.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The plan, seed included.
    pub plan: Plan,
    /// Commands submitted before.
    pub op: u64,
    /// All breaches found at that point.
    pub violations: Vec<Violation>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let p = &self.plan;
        writeln!(f, "regime {} seed {} after {} commands:", p.regime.name(), p.seed, self.op)?;
        self.violations.iter().take(8).try_for_each(|v| writeln!(f, "  {v}"))
    }
}

impl std::error::Error for Failure {}

/// A device small and quick enough that everything happens often: collection, folding, checkpoints,
/// partial units, stalls.
pub fn small_device(plan: &Plan) -> Config {
    let text = Profile::built_in_text("980pro").unwrap_or_default();
    let mut p = match Profile::parse("980pro", text) {
        Ok(p) => p,
        Err(e) => unreachable!("built-in profile: {e}"),
    };
    let m = &mut p.media;
    (m.channels, m.dies_per_channel, m.planes, m.pages_per_block) = (2, 2, 1, 4);
    (m.slc_bytes, m.fold_idle_ns) = (64 * 4096, 300_000);
    if plan.in_place {
        (m.kind, m.slc_bytes, m.erase_ns) = (MediaKind::Inplace, 0, 0);
    }
    p.host.queues = 8;
    p.cache.bytes = 96 * 4096;
    p.cache.drain_idle_ns = 400_000;
    (p.flush.overhead_ns, p.flush.overlap_ns) = (50_000, 20_000);
    p.flush.fua_overhead_ns = 50_000;
    (p.ftl.journal_entries, p.ftl.journal_pages_max) = (16, 4);
    (p.ftl.suspended_blocks_max, p.ftl.wear_spread_max) = (plan.suspended_max, 6);
    p.ftl.over_provisioning = 0.3;
    p.power.plp = plan.plp;
    Config {
        profile: p,
        capacity_bytes: plan.blocks * 4096,
        regime: plan.regime,
        seed: plan.seed ^ 0x5bd1,
        program_jitter: plan.jitter,
    }
}

/// Runs a plan.
///
/// # Errors
/// [`Failure`] at the first breach of a property.
pub fn soak(plan: &Plan) -> Result<Report, Box<Failure>> {
    Host::new(plan).run()
}

/// The journal thread's stream; the application threads' are chosen so that ids mod 128 collide.
const JOURNAL: u32 = 300;

fn thread_stream(i: u32) -> u32 {
    5 + 64 * i
}

struct Host<'a> {
    plan: &'a Plan,
    rng: Xoshiro256PlusPlus,
    ssd: Ssd,
    oracle: Oracle,
    counters: EpochCounters,
    now: Nanos,
    next_id: u64,
    ops: u64,
    cuts: u64,
    quiesces: u64,
    sent: HashMap<u64, Command>,
    refused: VecDeque<Command>,
    done: Vec<Completion>,
}

impl<'a> Host<'a> {
    fn new(plan: &'a Plan) -> Host<'a> {
        let config = small_device(plan);
        let mut ssd = match Ssd::new(config) {
            Ok(ssd) => ssd,
            Err(e) => unreachable!("the small device is well formed: {e}"),
        };
        if let Some(m) = plan.mutation {
            ssd.plant(m);
        }
        Host {
            plan,
            rng: Xoshiro256PlusPlus::seed_from_u64(plan.seed),
            ssd,
            oracle: Oracle::new(plan.regime, plan.plp, plan.blocks),
            counters: EpochCounters::default(),
            now: 0,
            next_id: 0,
            ops: 0,
            cuts: 0,
            quiesces: 0,
            sent: HashMap::new(),
            refused: VecDeque::new(),
            done: Vec::new(),
        }
    }

    fn run(mut self) -> Result<Report, Box<Failure>> {
        match self.steps() {
            Ok(()) => {
                let stats = self.ssd.stats();
                Ok(Report { ops: self.ops, cuts: self.cuts, quiesces: self.quiesces, stats })
            }
            Err(violations) => Err(Box::new(Failure { plan: self.plan.clone(), op: self.ops, violations })),
        }
    }

    fn steps(&mut self) -> Result<(), Vec<Violation>> {
        while self.ops < self.plan.ops {
            let dice = self.rng.random::<f64>();
            if self.ops >= self.plan.cut_after && dice < self.plan.cut {
                self.cut()?;
            } else if self.plan.cut_after <= self.ops && dice < self.plan.cut * 1.15 {
                self.quiesce()?;
            } else if self.rng.random_bool(if self.plan.racing { 0.85 } else { 0.5 }) {
                self.act()?;
            } else {
                self.pass()?;
            }
        }
        self.quiesce()?;
        self.cut()
    }

    /// Lets time pass to the next event, or a little.
    fn pass(&mut self) -> Result<(), Vec<Violation>> {
        if let Some(c) = self.refused.pop_front() {
            return self.resend(c);
        }
        let to = match self.ssd.next_event() {
            Some(t) if self.rng.random_bool(0.8) => t.max(self.now),
            _ => self.now + self.rng.random_range(0..3_000),
        };
        self.advance(to)
    }

    fn advance(&mut self, to: Nanos) -> Result<(), Vec<Violation>> {
        self.now = to;
        let mut done = std::mem::take(&mut self.done);
        self.ssd.advance(to, &mut done);
        for c in done.drain(..) {
            let command = self.sent.remove(&c.id);
            match (c.status, command) {
                (Status::Ok, _) => self.oracle.completed(c.id, c.tokens.as_deref()).map_err(|v| vec![v])?,
                (Status::SuspensionFull { .. }, Some(command)) => self.refused.push_back(command),
                (status, command) => {
                    let detail = format!("{status:?} for {command:?}");
                    return Err(vec![Violation { property: Property::NoLostPage, detail }]);
                }
            }
        }
        self.done = done;
        Ok(())
    }

    fn resend(&mut self, mut c: Command) -> Result<(), Vec<Violation>> {
        self.next_id += 1;
        self.oracle.resent(c.id, self.next_id);
        c.id = self.next_id;
        self.sent.insert(c.id, c);
        if self.ssd.submit(c, self.now).is_err() {
            self.sent.remove(&c.id);
            self.refused.push_back(c);
        }
        let next = self.ssd.next_event().unwrap_or(self.now);
        self.advance(next.max(self.now))
    }

    fn send(&mut self, mut c: Command) -> Result<(), Vec<Violation>> {
        self.ops += 1;
        if self.plan.regime == Regime::Barrier {
            c.queue = 0;
        }
        self.oracle.submitted(&c).map_err(|v| vec![v])?;
        self.sent.insert(c.id, c);
        self.ssd
            .submit(c, self.now)
            .map_err(|e| vec![Violation { property: Property::Liveness, detail: format!("refused: {e}") }])
    }

    fn act(&mut self) -> Result<(), Vec<Violation>> {
        if self.ssd.in_flight() > 300 {
            return self.pass();
        }
        self.next_id += 1;
        let id = self.next_id;
        let blocks = if self.plan.racing { 1 } else { *self.pick(&[1, 1, 1, 2, 3, 8]) };
        // Half of the traffic goes to an eighth of the device: many versions of few blocks.
        let span = if self.rng.random_bool(0.5) { self.plan.blocks / 8 } else { self.plan.blocks };
        let lba = self.rng.random_range(0..=span - u64::from(blocks));
        let queue = self.rng.random_range(0..self.ssd.queues());
        let token = Token(id * 16);
        let dice = if self.plan.racing { 50 } else { self.rng.random_range(0..100) };
        if dice < 18 {
            return self.send(Command::read_tokens(id, lba, blocks).on_queue(queue));
        }
        if dice < 21 {
            let flush = if id.is_multiple_of(2) { Command::flush(id) } else { Command::flush_for_fua(id, 0) };
            return self.send(flush.on_queue(queue));
        }
        if dice < 26 {
            let stream = self.stream();
            let tags = self.counters.flush(stream);
            let c = if dice == 25 { Command::barrier(id) } else { Command::flush(id) };
            return self.send(c.on_queue(queue).tagged(tags));
        }
        if self.oracle.is_busy(lba, blocks) {
            return self.pass();
        }
        let mut c = match dice {
            26..30 => Command::discard(id, lba, blocks * 3 % 11 + 1),
            30..33 => Command::write_fua(id, lba, blocks, token),
            33..35 => {
                Command { op: Op::WriteZeroes { fua: dice == 33 }, ..Command::discard(id, lba, blocks) }
            }
            _ => Command::write(id, lba, blocks, token),
        };
        c.blocks = c.blocks.min((self.plan.blocks - lba) as u32);
        if self.oracle.is_busy(lba, c.blocks) {
            return self.pass();
        }
        let untagged = self.rng.random_bool(0.25) && !self.plan.racing;
        (c.tags, c.queue) = if untagged { (Tags::default(), queue) } else { self.tags(queue) };
        self.send(c)
    }

    fn pick<'b, T>(&mut self, from: &'b [T]) -> &'b T {
        &from[self.rng.random_range(0..from.len())]
    }

    fn stream(&mut self) -> u32 {
        let i = self.rng.random_range(0..=self.plan.threads);
        if i == self.plan.threads && self.plan.threads > 1 {
            JOURNAL
        } else {
            thread_stream(i % self.plan.threads)
        }
    }

    /// Tags and queue of a write: some threads' writes are dual with the journal.
    fn tags(&mut self, here: u16) -> (Tags, u16) {
        let major = self.stream();
        let dual = major != JOURNAL && self.plan.threads > 1 && self.rng.random_bool(0.3);
        let minor = dual.then_some(JOURNAL);
        let barrier = self.rng.random_bool(self.plan.barrier);
        let queue = self.counters.pin(major, here);
        (self.counters.write(major, minor, barrier), queue)
    }

    /// Ends all streams, lets everything finish, reads everything back (P8, P6).
    fn quiesce(&mut self) -> Result<(), Vec<Violation>> {
        self.quiesces += 1;
        self.settle()?;
        if self.ssd.in_flight() > 0 {
            let detail = format!("{} commands never complete", self.ssd.in_flight());
            return Err(vec![Violation { property: Property::Liveness, detail }]);
        }
        if self.plan.regime == Regime::Streams {
            for s in (0..self.plan.threads).map(thread_stream).chain([JOURNAL]) {
                self.next_id += 1;
                let tags = Tags { major: Some(crate::StreamTag::new(s, 0)), ..Tags::default() };
                let id = self.next_id;
                self.counters.close(s);
                self.send(Command { op: Op::CloseStream, ..Command::flush(id) }.tagged(tags))?;
            }
            self.settle()?;
        }
        for lba in (0..self.plan.blocks).step_by(64) {
            self.next_id += 1;
            let n = (self.plan.blocks - lba).min(64) as u32;
            self.send(Command::read_tokens(self.next_id, lba, n))?;
        }
        self.settle()?;
        let stuck = self.ssd.waiting_streams().iter().any(|(_, _, _, missing)| *missing > 0);
        if self.ssd.in_flight() > 0 || stuck {
            let detail = format!(
                "{} commands never complete, streams wait: {:?}",
                self.ssd.in_flight(),
                self.ssd.waiting_streams()
            );
            return Err(vec![Violation { property: Property::Liveness, detail }]);
        }
        Ok(())
    }

    fn settle(&mut self) -> Result<(), Vec<Violation>> {
        // Far more than any honest device needs; a device that spins must not take the test with it.
        let mut events_left = 200_000u32;
        let mut resends_left = 20_000u32;
        while events_left > 0 && resends_left > 0 {
            if let Some(t) = self.ssd.next_event() {
                events_left -= 1;
                self.advance(t.max(self.now))?;
            } else if let Some(c) = self.refused.pop_front() {
                resends_left -= 1;
                self.resend(c)?;
            } else {
                return Ok(());
            }
        }
        let detail = format!(
            "the device never rests; streams wait: {:?}; {} commands refused, {} in flight",
            self.ssd.waiting_streams(),
            self.refused.len(),
            self.ssd.in_flight()
        );
        Err(vec![Violation { property: Property::Liveness, detail }])
    }

    /// Cuts the power here and now, judges what is left, comes back.
    fn cut(&mut self) -> Result<(), Vec<Violation>> {
        self.cuts += 1;
        let cut = self.ssd.power_cut();
        let wrong = self.oracle.check(&cut.image);
        if !wrong.is_empty() {
            return Err(wrong);
        }
        let lost = |detail| vec![Violation { property: Property::NoLostPage, detail }];
        let recovery = self.ssd.recover(self.now).map_err(|e| lost(e.to_string()))?;
        self.now = self.now.max(recovery.ready_at);
        self.oracle.restart(&cut.image);
        self.counters = EpochCounters::default();
        self.sent.clear();
        self.refused.clear();
        if self.rng.random_bool(0.2) {
            // A second cut before anything else: recovery must have changed nothing.
            let again = self.ssd.power_cut();
            if again.image != cut.image {
                return Err(lost("two power cuts in a row leave different images".to_owned()));
            }
            self.ssd.recover(self.now).map_err(|e| lost(e.to_string()))?;
        }
        Ok(())
    }
}
