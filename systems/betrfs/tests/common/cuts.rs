//! Power cuts: what is found afterwards is the state after some operation, none older than the last sync.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::AddAssign;

use betree::SimStorage;
use betree::storage::{FaultPlan, UNIT};
use betrfs::{Fs, Options};

use super::{Model, World, dump, options, threaded};

/// Where the log begins, behind the superblocks: `docs/betrfs-format.md`.
const LOG_START: u64 = 4 * UNIT as u64;

/// A device is full when so many operations have been refused.
pub const REFUSED_AT_FIRST: u64 = 20;

/// What the storage and the store are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Small nodes, a checkpoint every few dozen operations.
    Plain,
    /// A small log, filled by writers faster than checkpoints empty it, with the store's threads.
    FullLog,
    /// A device that is full most of the time.
    FullDevice,
    /// Freed space is discarded and reads as garbage from then on.
    Discard,
    /// With the store's threads. In kinds with threads a seed repeats the operations, not the whole run.
    Threads,
    /// Small writes anywhere in large files, hardly any of them synced, so that the store binds its log late.
    Scattered,
    /// The same with the store's threads.
    ScatteredThreads,
    /// The same without threads, on a device that is full most of the time, so that the store drains what it spilled.
    ScatteredFull,
}

impl Kind {
    /// All kinds, in turn.
    pub fn of(seed: u64) -> Kind {
        match seed % 10 {
            0 => Kind::Plain,
            1 | 5 => Kind::FullLog,
            2 | 8 => Kind::FullDevice,
            3 => Kind::Discard,
            4 => Kind::ScatteredFull,
            6 => Kind::ScatteredThreads,
            7 => Kind::Scattered,
            _ => Kind::Threads,
        }
    }

    /// As it is written here.
    pub fn name(self) -> String {
        format!("{self:?}")
    }

    fn is_full(self) -> bool {
        matches!(self, Kind::FullDevice | Kind::ScatteredFull)
    }

    fn is_scattered(self) -> bool {
        matches!(self, Kind::Scattered | Kind::ScatteredThreads | Kind::ScatteredFull)
    }

    /// Writes and flushes of the storage after which the power fails at the latest.
    fn writes_max(self) -> u64 {
        if self.is_scattered() { 400 } else { 150 }
    }

    /// Operations that are tried until then, and how many for each sync.
    fn operations_max(self) -> (u64, u64) {
        if self.is_scattered() { (1000, 200) } else { (200, 15) }
    }

    fn bytes(self) -> u64 {
        match self {
            Kind::FullDevice => 3 << 19,
            Kind::ScatteredFull => 3 << 20,
            // With less free nothing is collected.
            Kind::Threads => 100 << 20,
            _ => 8 << 20,
        }
    }

    fn options(self) -> Options {
        let mut options = match self {
            Kind::Threads | Kind::FullLog | Kind::ScatteredThreads => threaded(),
            _ => options(),
        };
        match self {
            Kind::FullLog => {
                // Data goes through the log, which then fills sooner than the checkpointer wakes up.
                options.store.log_bytes = 256 << 10;
                options.store.memtable_bytes = 64 << 10;
                options.store.extent_bytes = 32 << 10;
            }
            Kind::FullDevice => options.store.log_bytes = 128 << 10,
            Kind::Discard => options.store.discard = true,
            Kind::Scattered | Kind::ScatteredThreads | Kind::ScatteredFull => {
                // Some blocks in a leaf, and memtables with writes to many leaves.
                options.store.leaf_bytes = 16 << 10;
                options.store.basement_bytes = 4 << 10;
                options.store.buffer_bytes = 8 << 10;
                options.store.memtable_bytes = 16 << 10;
            }
            _ => {}
        }
        options
    }
}

/// What was met.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Storage images found after a cut, checked, opened and compared.
    pub states: u64,
    /// Of these, after a cut in the middle of a recovery.
    pub in_recovery: u64,
    /// Of these, after a second cut in the recovery of a recovery, or a third.
    pub in_a_row: u64,
    /// Cuts with unflushed writes to the log, to a superblock, to nodes, extents and table.
    pub log_tails: u64,
    /// See `log_tails`.
    pub superblocks: u64,
    /// See `log_tails`.
    pub blocks: u64,
    /// Cuts with the log so full that a large record has to wait (a tenth and twice the record must stay free).
    pub full_logs: u64,
    /// Operations refused because the device was full.
    pub refused: u64,
    /// Operations begun.
    pub operations: u64,
    /// Operations that survived although they were not synced.
    pub unsynced_survived: u64,
    /// Bytes that the log was spared, see `betree::Stats::bound_bytes`.
    pub bound_bytes: u64,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, o: Tally) {
        self.states += o.states;
        self.in_recovery += o.in_recovery;
        self.in_a_row += o.in_a_row;
        self.log_tails += o.log_tails;
        self.superblocks += o.superblocks;
        self.blocks += o.blocks;
        self.full_logs += o.full_logs;
        self.refused += o.refused;
        self.operations += o.operations;
        self.unsynced_survived += o.unsynced_survived;
        self.bound_bytes += o.bound_bytes;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} states: {} in recoveries, {} in a row; cuts with unflushed log {}, superblock {}, blocks {}, with a \
             full log {}; {} operations, {} refused for space, {} not synced but found; \
             {} KiB spared in the log",
            self.states,
            self.in_recovery,
            self.in_a_row,
            self.log_tails,
            self.superblocks,
            self.blocks,
            self.full_logs,
            self.operations,
            self.refused,
            self.unsynced_survived,
            self.bound_bytes >> 10
        )
    }
}

/// One file system that loses power again and again.
pub struct Trial {
    seed: u64,
    kind: Kind,
    options: Options,
    world: World,
    storage: SimStorage,
    tally: Tally,
}

impl Trial {
    pub fn new(seed: u64, kind: Kind) -> Trial {
        let (options, storage) = (kind.options(), SimStorage::new(kind.bytes()));
        Fs::format(storage.clone(), &options).expect("format");
        let mut world = World::new(seed);
        world.full = kind.is_full();
        let mut trial = Trial { seed, kind, options, world, storage, tally: Tally::default() };
        if kind.is_full() {
            trial.fill();
        }
        trial
    }

    /// `rounds` times: operations until the power fails, `images` of what may be left, and cuts while recovering.
    pub fn run(mut self, rounds: u64, images: u64) -> Tally {
        (0..rounds).for_each(|round| self.round(round, images));
        self.tally.refused = self.world.refused;
        self.tally
    }

    /// Operates until there is no space.
    fn fill(&mut self) {
        let fs = Fs::open(self.storage.clone(), &self.options).expect("open to fill");
        for _ in 0..3000 {
            self.operate(&fs, false);
            if self.world.refused > REFUSED_AT_FIRST {
                break;
            }
        }
        assert!(self.world.refused > 0, "seed {}: the device does not get full", self.seed);
        self.world.held.clear();
        fs.close().expect("close the full device");
    }

    fn operate(&mut self, fs: &Fs, dying: bool) -> bool {
        if self.kind.is_scattered() { self.world.scatter(fs, dying) } else { self.world.step(fs, dying) }
    }

    /// Where the power goes off: anywhere, or in a write of a superblock or of the log.
    fn plan(&mut self) -> FaultPlan {
        let random = &mut self.world.random;
        match random.below(6) {
            0 => {
                FaultPlan { power_off_within: Some((0..LOG_START, random.below(6))), ..FaultPlan::default() }
            }
            1 => {
                let log = LOG_START..LOG_START + self.options.store.log_bytes;
                FaultPlan { power_off_within: Some((log, random.below(30))), ..FaultPlan::default() }
            }
            _ => FaultPlan {
                power_off_after: Some(1 + random.below(self.kind.writes_max())),
                ..FaultPlan::default()
            },
        }
    }

    fn round(&mut self, round: u64, images: u64) {
        let at = format!("seed {} ({:?}) round {round}", self.seed, self.kind);
        let fs = Fs::open(self.storage.clone(), &self.options).expect(&at);
        let plan = self.plan();
        self.storage.set_faults(plan);
        let states = self.until_cut(&fs);
        let mut dumps = Dumps::of(&states);
        self.look(&fs);
        drop(fs);
        let mut storage = self.storage.clone();
        let mut found = None;
        for image in 0..images {
            storage = self.storage.power_cut(self.world.random.below(1 << 50));
            found = Some(self.judge(&storage, &mut dumps, &format!("{at} image {image}")));
        }
        // Power fails again while recovering, and again.
        for again in 0..self.world.random.below(4) {
            let cut = self.world.random.below(if again == 0 { 8 } else { 24 });
            storage.set_faults(FaultPlan { power_off_after: Some(cut), ..FaultPlan::default() });
            drop(Fs::open(storage.clone(), &self.options));
            storage = storage.power_cut(self.world.random.below(1 << 50));
            found = Some(self.judge(&storage, &mut dumps, &format!("{at} recovery {again}")));
            self.tally.in_recovery += 1;
            self.tally.in_a_row += u64::from(again > 0);
        }
        let found = found.unwrap_or(0);
        self.tally.unsynced_survived += found as u64;
        self.world.model = states[found].clone();
        self.world.held.clear();
        self.world.burst = None;
        self.storage = storage;
    }

    /// Operates until the power fails; returns the models that may be found, the last synced first.
    fn until_cut(&mut self, fs: &Fs) -> Vec<Model> {
        let mut states = vec![self.world.model.clone()];
        let (most, each_sync) = self.kind.operations_max();
        for _ in 0..most {
            self.tally.operations += 1;
            let dead = self.operate(fs, true);
            states.push(self.world.model.clone());
            if dead {
                break;
            }
            if self.world.random.below(each_sync) == 0 {
                match fs.sync() {
                    Ok(()) => drop(states.drain(..states.len() - 1)),
                    Err(_) => break,
                }
            }
        }
        states
    }

    /// Notes what the cut hits.
    fn look(&mut self, fs: &Fs) {
        let log_end = LOG_START + self.options.store.log_bytes;
        let pending = self.storage.unflushed();
        let any = |from: u64, to: u64| u64::from(pending.iter().any(|(off, _)| (from..to).contains(off)));
        self.tally.superblocks += any(0, LOG_START);
        self.tally.log_tails += any(LOG_START, log_end);
        self.tally.blocks += any(log_end, u64::MAX);
        let stats = fs.store().stats();
        self.tally.full_logs += u64::from(stats.log_fill >= 700);
        self.tally.bound_bytes += stats.bound_bytes;
    }

    /// Checks and opens a copy of `storage`; returns which of the states it is in.
    fn judge(&mut self, storage: &SimStorage, dumps: &mut Dumps<'_>, at: &str) -> usize {
        self.tally.states += 1;
        let copy = storage.copy();
        let report = betrfs::check(copy.clone(), false).expect(at);
        assert!(report.is_clean(), "{at}: {report}");
        let fs = Fs::open(copy, &self.options).unwrap_or_else(|e| panic!("{at}: {e}"));
        let found = dump(&fs);
        dumps.position(&found).unwrap_or_else(|| {
            let count = dumps.models.len();
            let mut differing = |number: usize| {
                let lines = |text: &str| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
                let (known, found) = (lines(dumps.get(number)), lines(&found));
                let lost = known.difference(&found).map(|line| format!("- {line}"));
                lost.chain(found.difference(&known).map(|line| format!("+ {line}"))).collect::<Vec<_>>()
            };
            let (nearest, lines) = (0..count)
                .map(&mut differing)
                .enumerate()
                .min_by_key(|(_, lines)| lines.len())
                .expect("the state of the last sync");
            panic!(
                "{at}: found none of {count} states, the last synced first; from number {nearest} it differs by\n{}",
                lines.join("\n")
            )
        })
    }
}

/// What can be seen of each of some states, found when it is asked for: most are not, and they are hundreds.
struct Dumps<'a> {
    models: &'a [Model],
    texts: Vec<Option<String>>,
}

impl Dumps<'_> {
    fn of(models: &[Model]) -> Dumps<'_> {
        Dumps { models, texts: vec![None; models.len()] }
    }

    fn get(&mut self, number: usize) -> &str {
        self.texts[number].get_or_insert_with(|| self.models[number].dump())
    }

    /// The last state that looks like this.
    fn position(&mut self, found: &str) -> Option<usize> {
        (0..self.models.len()).rev().find(|number| self.get(*number) == found)
    }
}
