//! One store under random batches and power cuts, judged by the specification of VeriBetrFS (OSDI 2020): what is found
//! after a cut is the state after some batch, and none older than the last sync.
//!
//! Also part of `examples/soak.rs`, so it names things as that crate root does.

use super::model::{Model, World, contents};
use crate::storage::{FaultPlan, SimStorage};
use crate::{Db, Error, FsckOptions, Options, Severity, WriteBatch, fsck};
use std::collections::VecDeque;

const UNIT: u64 = 4096;

/// What a trial is hard on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Cuts anywhere.
    Plain,
    /// Cuts among the writes of a checkpoint, so that superblocks and tables are torn.
    Superblock,
    /// Cuts among writes of log frames, and the frame written last damaged afterwards, if it was not durable.
    LogTail,
    /// A log so small that it is always full.
    FullLog,
    /// A storage so small that it is nearly always full.
    FullDevice,
    /// Power fails several times more while recovering.
    Recovery,
    /// Cuts among scattered writes of which hardly any is synced, so that the log's records are held.
    Held,
}

/// All kinds.
pub const KINDS: [Kind; 7] = [
    Kind::Plain,
    Kind::Superblock,
    Kind::LogTail,
    Kind::FullLog,
    Kind::FullDevice,
    Kind::Recovery,
    Kind::Held,
];

/// A trial.
pub struct Trial {
    pub seed: u64,
    pub kind: Kind,
    world: World,
    storage: SimStorage,
    options: Options,
    /// States that may be found, by batch number; the first is the last one known to be durable.
    states: VecDeque<(u64, Model)>,
    /// Cut states judged so far.
    pub judged: u64,
    /// Bytes of messages that were written to extents, see `Stats::spilled_bytes`.
    pub spilled: u64,
    /// And those that spared the log as much, see `Stats::bound_bytes`.
    pub bound: u64,
}

impl Trial {
    /// A trial on an empty store.
    pub fn new(seed: u64, kind: Kind, options: Options) -> Self {
        let units = if kind == Kind::FullDevice { 500 } else { 3072 };
        let log_units = if kind == Kind::FullLog { 16 } else { 64 };
        let log_bytes = log_units * UNIT;
        let options = Options { discard: seed.is_multiple_of(3), log_bytes, ..options };
        let storage = SimStorage::new(units * UNIT);
        Db::create(storage.clone(), options.clone()).expect("create").close().expect("close");
        let states = VecDeque::from([(0, Model::new())]);
        Trial {
            seed,
            kind,
            world: World::new(seed),
            storage,
            options,
            states,
            judged: 0,
            spilled: 0,
            bound: 0,
        }
    }

    fn batch(&mut self) -> WriteBatch {
        if self.kind == Kind::Held { self.world.scattered() } else { self.world.batch() }
    }

    fn durable(&mut self, msn: u64) {
        while self.states.front().is_some_and(|s| s.0 < msn) {
            self.states.pop_front();
        }
    }

    /// Writes until the power fails.
    fn run_until_cut(&mut self, db: &Db, round: u64) {
        let turns = match self.kind {
            Kind::LogTail => 4,
            Kind::Held => 1500,
            _ => 12,
        };
        loop {
            let before = self.world.model.clone();
            let batch = self.batch();
            let next = db.last_msn() + 1;
            self.states.push_back((next, self.world.model.clone()));
            match db.write(batch) {
                Ok(_) => {}
                Err(Error::NoSpace | Error::Invalid(_)) => {
                    self.states.pop_back();
                    self.world.model = before;
                    // On a store that is full for good, room is made by deleting.
                    if self.world.below(8) == 0 && !self.delete_all(db) {
                        return;
                    }
                    continue;
                }
                Err(_) => return,
            }
            let done = match self.world.below(turns) {
                0..3 => db.sync(),
                3 => db.checkpoint(),
                _ => continue,
            };
            match done {
                Ok(()) => self.durable(next),
                Err(Error::NoSpace) => panic!("seed {} round {round}: no space for a checkpoint", self.seed),
                Err(_) => return,
            }
        }
    }

    /// Deletes a directory; false if the power failed.
    fn delete_all(&mut self, db: &Db) -> bool {
        let dir = [b'a' + self.world.below(5) as u8, b'/'];
        self.world.model.retain(|k, _| !k.starts_with(&dir));
        self.states.push_back((db.last_msn() + 1, self.world.model.clone()));
        match db.delete_range(&crate::KeyRange::prefix(&dir)) {
            Ok(_) => true,
            Err(Error::NoSpace) => panic!("seed {}: no space for a delete", self.seed),
            Err(_) => false,
        }
    }

    /// One cut: writes, power failure, several possible outcomes of it judged, and on with the last.
    pub fn round(&mut self, round: u64, outcomes: u64) {
        let what = format!("seed {} {:?} round {round}", self.seed, self.kind);
        let db = Db::open(self.storage.clone(), self.options.clone()).expect(&what);
        let writes = match self.kind {
            Kind::Superblock => {
                (0..self.world.below(30)).for_each(|_| self.write_one(&db));
                self.world.below(24)
            }
            Kind::Held => 1 + self.world.below(500),
            _ => 1 + self.world.below(120),
        };
        self.storage.set_faults(FaultPlan { power_off_after: Some(writes), ..FaultPlan::default() });
        let superblock = self.kind == Kind::Superblock;
        if !superblock || db.checkpoint().map(|()| self.durable(db.last_msn())).is_ok() {
            self.run_until_cut(&db, round);
        }
        self.spilled += db.stats().spilled_bytes;
        self.bound += db.stats().bound_bytes;
        drop(db);
        for _ in 1..outcomes {
            let found = self.storage.power_cut(self.world.below(u64::MAX));
            self.judge(found, &what);
        }
        self.storage = self.storage.power_cut(self.world.below(u64::MAX));
        if self.kind == Kind::LogTail {
            self.storage = self.tear_tail(&what);
        }
        let again = self.world.below(if self.kind == Kind::Recovery { 6 } else { 3 });
        for _ in 0..again {
            let writes = self.world.below(12);
            self.storage.set_faults(FaultPlan { power_off_after: Some(writes), ..FaultPlan::default() });
            drop(Db::open(self.storage.clone(), self.options.clone()));
            self.storage = self.storage.power_cut(self.world.below(u64::MAX));
        }
        let (msn, state) = self.judge(self.storage.copy(), &what);
        self.world.model = state.clone();
        self.states = VecDeque::from([(msn, state)]);
    }

    fn write_one(&mut self, db: &Db) {
        let before = self.world.model.clone();
        let batch = self.world.batch();
        match db.write(batch) {
            Ok(msn) => self.states.push_back((msn, self.world.model.clone())),
            Err(_) => self.world.model = before,
        }
    }

    /// Damages log units behind the durable state, as far as that leaves it whole.
    fn tear_tail(&mut self, what: &str) -> SimStorage {
        let image = self.storage.image();
        let report = fsck(SimStorage::from_image(image.clone()), FsckOptions::default()).expect(what);
        let durable = self.states.front().map_or(0, |s| s.0);
        let torn = SimStorage::from_image(image.clone());
        let unit = 4 + self.world.below(self.options.log_bytes / UNIT);
        torn.corrupt(unit * UNIT + self.world.below(UNIT - 64), &[0x5A; 64]);
        let after = fsck(torn.copy(), FsckOptions::default()).expect(what);
        assert!(after.last_msn <= report.last_msn, "{what}: damage added batches");
        if after.last_msn >= durable { torn } else { SimStorage::from_image(image) }
    }

    /// Checks what a recovery makes of an image; returns the batch and state found.
    fn judge(&mut self, found: SimStorage, what: &str) -> (u64, Model) {
        self.judged += 1;
        if self.judged.is_multiple_of(4) {
            let report = fsck(found.clone(), FsckOptions::default()).expect(what);
            assert!(report.worst() != Some(Severity::Error), "{what}: {report}");
        }
        let db = Db::open(found, self.options.clone()).expect(what);
        let msn = db.last_msn();
        let known: Vec<u64> = self.states.iter().map(|s| s.0).collect();
        let Some(i) = known.iter().position(|n| *n == msn) else {
            panic!("{what}, batch {msn}: not a state between the last sync and the cut {known:?}");
        };
        let state = self.states[i].1.clone();
        assert!(
            contents(&db) == state,
            "{what}, batch {msn}: contents differ from the state after that batch"
        );
        let report = db.verify().expect(what);
        assert_eq!(report.problems, Vec::<String>::new(), "{what}");
        (msn, state)
    }
}
