//! Power cuts at every point: what is found afterwards is the state after some batch, and none older than the
//! last sync (the specification of VeriBetrFS, OSDI 2020).

use super::model::{Model, World, contents};
use super::*;
use crate::storage::FaultPlan;
use std::collections::VecDeque;

struct Trial {
    seed: u64,
    world: World,
    storage: SimStorage,
    options: Options,
    /// States that may be found, by batch number; the first is the last one known to be durable.
    states: VecDeque<(u64, Model)>,
}

impl Trial {
    fn new(seed: u64, options: Options) -> Self {
        let options = Options { discard: seed.is_multiple_of(3), ..options };
        let storage = sim(3072);
        Db::create(storage.clone(), options.clone()).expect("create").close().expect("close");
        let states = VecDeque::from([(0, Model::new())]);
        Trial { seed, world: World::new(seed), storage, options, states }
    }

    fn durable(&mut self, msn: u64) {
        while self.states.front().is_some_and(|s| s.0 < msn) {
            self.states.pop_front();
        }
    }

    /// Writes until the power fails.
    fn run_until_cut(&mut self, db: &Db) {
        loop {
            let batch = self.world.batch();
            let next = db.last_msn() + 1;
            self.states.push_back((next, self.world.model.clone()));
            if db.write(batch).is_err() {
                return;
            }
            let done = match self.world.below(12) {
                0..3 => db.sync(),
                3 => db.checkpoint(),
                _ => continue,
            };
            match done {
                Ok(()) => self.durable(next),
                Err(_) => return,
            }
        }
    }

    fn round(&mut self, round: u64) {
        let at = |what: &str| format!("seed {} round {round}: {what}", self.seed);
        let failed = at("open");
        let db = Db::open(self.storage.clone(), self.options.clone()).expect(&failed);
        self.check_recovered(&db, round);
        let writes = 1 + self.world.below(120);
        self.storage.set_faults(FaultPlan { power_off_after: Some(writes), ..FaultPlan::default() });
        self.run_until_cut(&db);
        drop(db);
        self.storage = self.storage.power_cut(self.world.below(u64::MAX));
        // Power fails again, once or twice, while recovering.
        for _ in 0..self.world.below(3) {
            let writes = self.world.below(12);
            self.storage.set_faults(FaultPlan { power_off_after: Some(writes), ..FaultPlan::default() });
            drop(Db::open(self.storage.clone(), self.options.clone()));
            self.storage = self.storage.power_cut(self.world.below(u64::MAX));
        }
    }

    fn check_recovered(&mut self, db: &Db, round: u64) {
        let msn = db.last_msn();
        let what = format!("seed {} round {round}, batch {msn}", self.seed);
        let known: Vec<u64> = self.states.iter().map(|s| s.0).collect();
        let Some(i) = known.iter().position(|n| *n == msn) else {
            panic!("{what}: not a state between the last sync and the cut {known:?}");
        };
        let state = self.states[i].1.clone();
        assert!(contents(db) == state, "{what}: contents differ from the state after that batch");
        let report = db.verify().expect(&what);
        assert_eq!(report.problems, Vec::<String>::new(), "{what}");
        self.world.model = state.clone();
        self.states = VecDeque::from([(msn, state)]);
    }
}

#[test]
fn a_cut_anywhere_leaves_a_prefix_not_older_than_the_last_sync() {
    for seed in seeds(24) {
        println!("seed {seed}");
        let mut trial = Trial::new(seed, Options::tiny());
        (0..12).for_each(|round| trial.round(round));
    }
}

#[test]
fn cuts_are_survived_without_each_of_the_steps() {
    for (i, name) in crate::Steps::NAMES.iter().enumerate() {
        println!("without {name}");
        let mut steps = crate::Steps::ALL;
        assert!(steps.set(name, false));
        let mut trial = Trial::new(1000 + i as u64, Options { steps, ..Options::tiny() });
        (0..8).for_each(|round| trial.round(round));
    }
}

#[test]
fn a_cut_at_each_write_of_a_checkpoint_loses_nothing_synced() {
    let mut world = World::new(3);
    let storage = sim(3072);
    let db = Db::create(storage.clone(), Options::tiny()).expect("create");
    (0..60).for_each(|_| world.write(&db));
    db.checkpoint().expect("checkpoint");
    (0..20).for_each(|_| world.write(&db));
    db.sync().expect("sync");
    let (expected, last) = (contents(&db), db.last_msn());
    drop(db);
    let image = storage.image();
    for cut in 0.. {
        let storage = SimStorage::from_image(image.clone());
        storage.set_faults(FaultPlan { power_off_after: Some(cut), ..FaultPlan::default() });
        let opened = Db::open(storage.clone(), Options::tiny());
        let finished = opened.is_ok();
        drop(opened);
        for seed in 0..6 {
            let again = Db::open(storage.power_cut(seed), Options::tiny()).expect("open");
            assert_eq!(again.last_msn(), last, "cut {cut} seed {seed}");
            assert!(contents(&again) == expected, "cut {cut} seed {seed}");
        }
        if finished {
            assert!(cut > 4, "recovery wrote next to nothing");
            break;
        }
    }
}

#[test]
fn creation_interrupted_anywhere_leaves_no_store_or_an_empty_one() {
    for cut in 0..12 {
        // An old store must not shine through either.
        let storage = sim(1024);
        let db = Db::create(storage.clone(), Options::tiny()).expect("create");
        db.put(b"old", b"1").expect("put");
        db.close().expect("close");
        storage.set_faults(FaultPlan { power_off_after: Some(cut), ..FaultPlan::default() });
        let created = Db::create(storage.clone(), Options::tiny()).is_ok();
        for seed in 0..8 {
            match Db::open(storage.power_cut(seed), Options::tiny()) {
                Ok(db) if db.get(b"old").expect("get").is_some() => {
                    assert!(cut <= 1, "the old store is back after cut {cut}");
                }
                Ok(db) => assert_eq!(contents(&db).len(), 0),
                Err(e) => assert!(matches!(e, Error::NotAStore(_)) && !created, "{e}"),
            }
        }
    }
}

#[test]
fn a_log_record_never_survives_without_the_extent_it_binds() {
    for cut in 0..4 {
        let storage = sim(1024);
        let db = Db::create(storage.clone(), Options::tiny()).expect("create");
        db.put(b"big", &[7; 20_000]).expect("put");
        storage.set_faults(FaultPlan { power_off_after: Some(cut), ..FaultPlan::default() });
        let synced = db.sync().is_ok();
        for seed in 0..40 {
            let found = Db::open(storage.power_cut(seed), Options::tiny()).expect("open").get(b"big");
            match found.expect("a bound extent is whole") {
                Some(value) => assert!(value == [7; 20_000]),
                None => assert!(!synced, "cut {cut} seed {seed}: lost after a sync"),
            }
        }
    }
}
