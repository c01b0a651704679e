//! Stores that have been full for long: free space in small pieces, and a table that is in pieces too.

use super::model::{Model, World, contents};
use super::*;
use crate::block::Segment;

/// Rounds of filling and deleting with each store. `BETREE_SEEDS=0..50` makes a thousand.
const ROUNDS_EACH: u64 = 20;

/// Puts keys of a random range until the store is full.
fn fill(db: &Db, world: &mut World, model: &mut Model, size: usize, what: &str) -> usize {
    for n in 0.. {
        let key = (world.below(1 << 40) as u32).to_be_bytes();
        let value = vec![key[3]; size / 2 + world.below(size as u64) as usize];
        match db.put(&key, &value) {
            Ok(_) => _ = model.insert(key.to_vec(), value),
            Err(Error::NoSpace) => return n,
            Err(e) => panic!("{what}: after {n} puts: {e}"),
        }
    }
    unreachable!("a store is never full")
}

/// A random store, filled and half emptied again and again, opened now and then.
fn age(seed: u64, background: bool) {
    let mut world = World::new(seed);
    let units = [100, 160, 300, 700, 1500][world.below(5) as usize];
    let log_bytes = [16, 24][world.below(2) as usize] * UNIT as u64;
    let discard = world.below(2) == 0;
    let options = Options { log_bytes, discard, background, ..Options::tiny() };
    let storage = sim(units);
    let mut db = Db::create(storage.clone(), options.clone()).expect("create");
    let mut model = Model::new();
    for round in 0..ROUNDS_EACH {
        let size = [10, 300, 3000, 5000, 20_000][world.below(5) as usize];
        let what = format!("seed {seed} round {round}: {units} units, values of {size} bytes");
        fill(&db, &mut world, &mut model, size, &what);
        match world.below(4) {
            0 => db.sync().unwrap_or_else(|e| panic!("{what}: sync: {e}")),
            1 => db.checkpoint().unwrap_or_else(|e| panic!("{what}: checkpoint: {e}")),
            2 => {
                drop(db);
                db = Db::open(storage.clone(), options.clone()).unwrap_or_else(|e| panic!("{what}: {e}"));
            }
            _ => {}
        }
        let odd = world.below(2) as usize;
        let half: Vec<_> = model.keys().skip(odd).step_by(2).cloned().collect();
        for key in half {
            db.delete(&key).unwrap_or_else(|e| panic!("{what}: delete: {e}"));
            model.remove(&key);
        }
        if round % 7 == 6 {
            db.delete_range(&KeyRange::all()).unwrap_or_else(|e| panic!("{what}: delete all: {e}"));
            model.clear();
            db.checkpoint().unwrap_or_else(|e| panic!("{what}: checkpoint: {e}"));
            let again = fill(&db, &mut world, &mut model, 3000, &what);
            let least = units as usize * UNIT / 3000 / 5;
            assert!(again >= least, "{what}: only {again} values fit an empty store, not {least}");
        }
        if round % 4 == 3 {
            assert!(contents(&db) == model, "{what}");
            assert_sound(&db);
        }
    }
    db.close().unwrap_or_else(|e| panic!("seed {seed}: close: {e}"));
    let report = crate::fsck(storage, crate::FsckOptions::default()).expect("fsck");
    assert!(report.is_clean(), "seed {seed}: {report}");
}

#[test]
fn a_full_aged_store_of_any_size_can_be_opened_deleted_from_and_used_again() {
    for seed in seeds(6) {
        println!("seed {seed}");
        age(seed, false);
    }
}

#[test]
fn threads_in_the_background_keep_an_aged_store_going() {
    for seed in seeds(3) {
        println!("seed {seed}");
        age(seed, true);
    }
}

/// Takes every other unit that is free.
fn fragment(db: &Db) -> Vec<Segment> {
    let table = &db.inner.store.table;
    let mut taken = table.allocate(table.free_units()).expect("all that is free");
    let free: Vec<u64> =
        taken.iter().flat_map(|s| s.start..s.start + u64::from(s.units)).step_by(2).collect();
    let free: std::collections::BTreeSet<u64> = free.into_iter().collect();
    let each = taken.drain(..).flat_map(|s| s.start..s.start + u64::from(s.units)).collect::<Vec<_>>();
    let one = |start: u64| Segment { start, units: 1 };
    table.give_back(&free.iter().map(|unit| one(*unit)).collect::<Vec<_>>());
    each.into_iter().filter(|unit| !free.contains(unit)).map(one).collect()
}

/// Blocks enough for a table of more units than a superblock has room to name, and no two free units side by side.
#[test]
fn a_table_in_more_pieces_than_a_superblock_names_can_be_written() {
    const VALUES: u32 = 32_000;
    let options = Options { extent_bytes: 2048, leaf_bytes: 64 << 10, ..Options::tiny() };
    let storage = sim(46_000);
    let db = Db::create(storage.clone(), options.clone()).expect("create");
    for n in 0..VALUES {
        db.put(&n.to_be_bytes(), &[n as u8; 2100]).expect("put");
    }
    db.checkpoint().expect("checkpoint");
    let taken = fragment(&db);
    for round in 0..3u32 {
        db.put(&round.to_be_bytes(), b"changed").expect("put");
        db.checkpoint().expect("a checkpoint in small pieces");
    }
    db.inner.store.table.give_back(&taken);
    assert_sound(&db);
    drop(db);
    let db = Db::open(storage.clone(), options).expect("open");
    assert_eq!(db.get(&1u32.to_be_bytes()).expect("get").as_deref(), Some(&b"changed"[..]));
    assert!(db.stats().extents >= VALUES as usize - 3);
    db.close().expect("close");
    let report = crate::fsck(storage, crate::FsckOptions::default()).expect("fsck");
    assert_eq!(report.findings, vec![], "{report}");
}

/// Scans keep the space of what they see, so that deletes on a full store, which rewrite nodes, find none in the end. They are refused
/// then; when the scans are gone they are not.
#[test]
fn space_that_scans_kept_is_found_again() {
    let options = Options { background: true, ..Options::tiny() };
    let storage = sim(300);
    let db = Db::create(storage.clone(), options.clone()).expect("create");
    let (mut world, mut model) = (World::new(3), Model::new());
    fill(&db, &mut world, &mut model, 300, "fill");
    let (mut scans, mut refused) = (Vec::new(), 0);
    for round in 0..60 {
        scans.push(db.scan(&KeyRange::all()));
        let some: Vec<_> = model.keys().skip(round % 7).step_by(40).cloned().collect();
        for key in some {
            match db.delete(&key) {
                Ok(_) => _ = model.remove(&key),
                Err(Error::NoSpace) => refused += 1,
                Err(e) => panic!("round {round}: {e}"),
            }
        }
        match db.checkpoint() {
            Ok(()) => {}
            Err(Error::NoSpace) => refused += 1,
            Err(e) => panic!("round {round}: {e}"),
        }
    }
    assert!(refused > 0, "the scans have kept too little: this shows nothing");
    assert!(contents(&db) == model);
    drop(scans);
    db.delete_range(&KeyRange::all()).expect("delete");
    db.checkpoint().expect("checkpoint");
    db.put(b"key", b"value").expect("put");
    assert_sound(&db);
    db.close().expect("close");
    let db = Db::open(storage, options).expect("open");
    assert_eq!(contents(&db).len(), 1);
}

/// A storage that counts what is written and flushed.
struct Counting {
    below: SimStorage,
    written: std::sync::Arc<std::sync::atomic::AtomicU64>,
}

impl crate::Storage for Counting {
    fn len(&self) -> std::io::Result<u64> {
        self.below.len()
    }
    fn read_at(&self, buf: &mut [u8], off: u64) -> std::io::Result<()> {
        self.below.read_at(buf, off)
    }
    fn write_at(&self, buf: &[u8], off: u64) -> std::io::Result<()> {
        self.written.fetch_add(buf.len() as u64, std::sync::atomic::Ordering::SeqCst);
        self.below.write_at(buf, off)
    }
    fn flush(&self) -> std::io::Result<()> {
        self.below.flush()
    }
    fn discard(&self, off: u64, len: u64) -> std::io::Result<()> {
        self.below.discard(off, len)
    }
}

#[test]
fn checkpoints_of_a_store_without_changes_write_nothing() {
    let written = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let storage = Counting { below: sim(8192), written: written.clone() };
    let db = Db::create(storage, Options::tiny()).expect("create");
    let bytes = || written.load(std::sync::atomic::Ordering::SeqCst);
    for n in 0..6000u32 {
        db.put(&n.to_be_bytes(), &[7; 900]).expect("put");
    }
    db.checkpoint().expect("checkpoint");
    let before = bytes();
    for _ in 0..5 {
        db.checkpoint().expect("checkpoint");
    }
    assert_eq!(bytes(), before);
    // A change costs what it changes, not the table.
    let whole = db.stats().table_bytes_written;
    db.put(&9u32.to_be_bytes(), &[8; 900]).expect("put");
    db.checkpoint().expect("checkpoint");
    let table = db.stats().table_bytes_written - whole;
    assert_eq!(table, 2 * UNIT as u64, "one unit, twice");
    let pieces = &db.inner.checkpoint.lock().expect("nobody failed").place.pieces;
    assert!(pieces.len() > 1 && pieces[0].len > 2 * UNIT as u64, "the table is too short to show anything");
}

/// Whatever is written between them, checkpoints made of changes are opened again, and the chain of changes is bounded.
#[test]
fn checkpoints_of_changes_are_opened_again_and_do_not_go_on_for_ever() {
    for seed in seeds(4) {
        println!("seed {seed}");
        let storage = sim(8192);
        let options = Options { fanout: 16, ..Options::tiny() };
        let mut db = Db::create(storage.clone(), options.clone()).expect("create");
        let mut world = World::new(seed);
        let (mut longest, mut whole) = (0, 0);
        for n in 0..4000u32 {
            db.put(&[&b"a/"[..], &n.to_be_bytes()].concat(), &[n as u8; 600]).expect("put");
            world.model.insert([&b"a/"[..], &n.to_be_bytes()].concat(), vec![n as u8; 600]);
        }
        for round in 0..150 {
            world.write(&db);
            db.checkpoint().expect("checkpoint");
            let pieces = db.inner.checkpoint.lock().expect("nobody failed").place.pieces.len();
            assert!(pieces <= 65, "{pieces} pieces");
            longest = longest.max(pieces);
            whole += usize::from(pieces == 1);
            if round % 10 == 9 {
                assert_sound(&db);
                drop(db);
                let report = crate::fsck(storage.clone(), crate::FsckOptions::default()).expect("fsck");
                assert_eq!(report.findings, vec![], "seed {seed} round {round}: {report}");
                db = Db::open(storage.clone(), options.clone()).expect("open");
                assert!(contents(&db) == world.model, "seed {seed} round {round}");
            }
        }
        assert!(longest > 3 && whole > 1, "seed {seed}: {longest} pieces at most, {whole} times one");
    }
}
