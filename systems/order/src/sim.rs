//! The public face: build a simulation, put programs on it, let time pass, cut the power, read what happened.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use ssd::oracle::{Property, Violation};
use ssd::{Nanos, Token};
use stats::rng::SplitMix;

use crate::commit::SUPERBLOCK;
use crate::exec::Machine;
use crate::files::FileId;
use crate::lawful;
use crate::ledger::Finding;
use crate::phases::Phases;
use crate::program::{self, Program};
use crate::protocol;
use crate::queues::BlockStats;
use crate::setup::Setup;
use crate::tally::Tally;
use crate::trace::Trace;
use crate::world::{JOURNAL_PID, World};

/// Process id of the first program, as in the shipped traces.
pub const FIRST_PID: u32 = 2736;

/// What is wrong with a run or an image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Broken promises of the device or of the host's tags: P1-P10.
    pub violations: Vec<Violation>,
    /// What recovery would not find: the protocol asked for too little.
    pub findings: Vec<Finding>,
}

impl Verdict {
    /// Nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.violations.is_empty() && self.findings.is_empty()
    }
}

/// Figures of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// Virtual time.
    pub now: Nanos,
    /// The programs.
    pub tally: Tally,
    /// The block layer.
    pub block: BlockStats,
    /// The device.
    pub device: ssd::Stats,
    /// Transactions committed.
    pub commits: u64,
    /// Placements on another core.
    pub migrations: u64,
    /// Share of the cores' time that was spent.
    pub busy: f64,
    /// Steps of virtual time.
    pub steps: u64,
    /// Where the journal thread's time went.
    pub phases: Phases,
}

/// A simulated machine with one device. The same setup, programs and seeds give the same bytes. Programs may borrow
/// what lives for `'p`.
///
/// ```
/// use order::{Op, Protocol, Setup, Simulation, Sync};
/// let mut sim = Simulation::new(Setup::testbed(Protocol::OpExt4, ssd::Profile::named("980pro")?, 1))?;
/// let dir = sim.dir(0).ok_or("no room")?;
/// let file = sim.file(dir, 4, None).ok_or("no room")?;
/// let mut script = [Op::Create(file), Op::Append { file, pages: 1 }, Op::Sync(file, Sync::Fsync)].into_iter();
/// sim.spawn("fio", move |_| script.next().unwrap_or(Op::End));
/// sim.run(1_000_000_000);
/// let ms = sim.report().tally.durable.mean().ok_or("no sync")? / 1e6;
/// assert!((1.5..2.5).contains(&ms), "{ms}");
/// assert!(sim.verdict().is_clean());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Simulation<'p> {
    machine: Rc<Machine<'p>>,
    tally: Rc<RefCell<Tally>>,
    next_pid: u32,
    pids: BTreeSet<u32>,
    kernel_tasks: usize,
}

impl<'p> Simulation<'p> {
    /// A machine with its journal threads, and no program yet.
    ///
    /// # Errors
    /// [`ssd::error::ConfigError`] for a bad profile or a disk that is too large.
    pub fn new(setup: Setup) -> Result<Simulation<'p>, ssd::error::ConfigError> {
        let protocol = setup.protocol;
        let machine = Machine::new(World::new(setup)?);
        protocol::start(&machine, protocol);
        let kernel_tasks = machine.with(|w| w.who.len()) - 1;
        Ok(Simulation {
            machine,
            tally: Rc::default(),
            next_pid: FIRST_PID,
            pids: BTreeSet::new(),
            kernel_tasks,
        })
    }

    /// A directory in a block group; None if its inodes are used up.
    pub fn dir(&mut self, group: u32) -> Option<FileId> {
        self.machine.with(|w| w.files.add(group, None, 0, Some(0)))
    }

    /// A file of at most `pages_max` pages in a directory's group, with `pages` of them written, or only a name to
    /// create. None if the group is full.
    pub fn file(&mut self, dir: FileId, pages_max: u32, pages: Option<u32>) -> Option<FileId> {
        self.machine.with(|w| {
            let group = w.files.file(dir).group;
            w.files.add(group, Some(dir), pages_max.max(1), pages)
        })
    }

    /// Starts a program as a thread of its own.
    pub fn spawn(&mut self, name: &'static str, program: impl Program + 'p) {
        let pid = self.next_pid;
        self.next_pid += 1;
        self.spawn_as(name, pid, program);
    }

    /// The same with a process id, which is its stream.
    pub fn spawn_as(&mut self, name: &'static str, pid: u32, program: impl Program + 'p) {
        let tally = self.tally.clone();
        self.pids.insert(pid);
        self.machine.start(name, pid, false, |me| program::run(me, Box::new(program), tally));
    }

    /// Lets time pass to `until` (ns); false if nothing is left to happen by itself.
    pub fn run(&mut self, until: Nanos) -> bool {
        let more = self.machine.run(until);
        if more {
            self.machine.with(|w| w.now = w.now.max(until));
        } else {
            self.check_rest();
        }
        more
    }

    /// P8: when all is quiet, every program has ended and no stream waits.
    fn check_rest(&mut self) {
        let stuck = self.machine.alive().saturating_sub(self.kernel_tasks);
        let pids = std::mem::take(&mut self.pids);
        self.machine.with(|w| {
            let waiting = w.block.device.ssd.waiting_streams();
            if stuck > 0 {
                let detail = format!("{stuck} programs wait for ever; streams wait: {waiting:?}");
                w.block.device.breach(Property::Liveness, detail);
            } else if let Some(s) = waiting.iter().find(|s| s.3 > 0 || pids.contains(&s.0)) {
                w.block.device.breach(Property::Liveness, format!("stream {} waits for ever: {s:?}", s.0));
            }
        });
    }

    /// Breaches of P1-P10 that were seen so far, without looking at an image.
    pub fn verdict(&self) -> Verdict {
        self.machine.with(|w| Verdict { violations: w.block.device.breaches.clone(), findings: Vec::new() })
    }

    fn judge(&self, image: &[Token]) -> Verdict {
        self.machine.with(|w| {
            let mut violations = w.block.device.breaches.clone();
            if let Some(oracle) = &w.block.device.oracle {
                violations.extend(oracle.check(image));
            }
            let files = &w.files;
            let metas = files.metas.iter().map(|m| m.lba);
            Verdict { violations, findings: w.ledger.check(image, SUPERBLOCK, metas) }
        })
    }

    /// Judges what the device's flash holds now, without disturbing anything.
    pub fn audit(&self) -> Verdict {
        let image = self.machine.with(|w| w.block.device.ssd.durable_image());
        self.judge(&image)
    }

    /// Cuts the power now and judges the image that is left. Ends the simulation.
    pub fn power_cut(self) -> Verdict {
        let now = self.machine.with(|w| w.now);
        let image = self.machine.with(|w| {
            let device = &mut w.block.device;
            let mut lost = Vec::new();
            device.advance(now, &mut lost);
            device.ssd.power_cut().image
        });
        self.judge(&image)
    }

    /// Judges one image that a power cut now might lawfully leave, chosen by `seed`. None if the run is not watched.
    pub fn lawful_image(&self, seed: u64) -> Option<Verdict> {
        let image = self.machine.with(|w| {
            let device = &w.block.device;
            let ordered = device.regime.is_ordered();
            device.oracle.as_ref().map(|o| lawful::sample(o, ordered, &mut SplitMix::new(seed)))
        })?;
        Some(self.judge(&image))
    }

    /// The commands so far, if they are traced.
    pub fn trace(&self) -> Trace {
        self.machine.with(|w| w.block.trace.clone())
    }

    /// Figures so far.
    pub fn report(&self) -> Report {
        let tally = self.tally.borrow().clone();
        self.machine.with(|w| Report {
            now: w.now,
            tally,
            block: w.block.stats,
            device: w.block.device.ssd.stats(),
            commits: w.journals.iter().map(|j| u64::from(j.running.tid - 1)).sum(),
            migrations: w.cpu.migrations,
            busy: w.cpu.busy_ns as f64 / (w.now.max(1) as f64 * f64::from(w.setup.cores)),
            steps: w.steps,
            phases: w.phases,
        })
    }

    /// Forgets the counts so far (not the trace): what follows is measured.
    pub fn reset_tally(&mut self) {
        *self.tally.borrow_mut() = Tally::default();
    }
}

impl Drop for Simulation<'_> {
    fn drop(&mut self) {
        self.machine.stop();
    }
}

/// The stream of the journal thread.
pub const JOURNAL_STREAM: u32 = JOURNAL_PID;
