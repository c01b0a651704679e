//! Schedules of a writer, a syncer and a checkpointer over a storage that loses something once and says so once, to whoever flushes
//! next: nothing that was acknowledged is lost, and no superblock refers to what was lost.
//!
//! The crate is compiled once more here, over locks whose schedules `shuttle` chooses. `BETREE_SCHEDULES` says how many are
//! explored, `BETREE_SEED` where they begin; a failure prints its schedule. Faults that are planted show that such a failure
//! would be found.

#![allow(
    dead_code,
    unused,
    missing_docs,
    reason = "the crate's modules, of which the tests of libtest are left out"
)]

mod sync {
    pub(crate) use shuttle::sync::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

    /// Each look at a lock is a choice of the scheduler: one is enough.
    pub(crate) const LOCK_TRIES: u32 = 1;

    /// There is no time here: whoever waits is woken or stuck.
    pub(crate) const TIMED_WAITS: bool = false;
}

macro_rules! modules {
    ($($path:literal $name:ident)*) => { $(#[path = $path] pub mod $name;)* };
}

modules! {
    "../src/alloc.rs" alloc
    "../src/batch.rs" batch
    "../src/block.rs" block
    "../src/buffer.rs" buffer
    "../src/bytes.rs" bytes
    "../src/cache.rs" cache
    "../src/codec.rs" codec
    "../src/db/mod.rs" db
    "../src/dump.rs" dump
    "../src/edits.rs" edits
    "../src/error.rs" error
    "../src/extent_queue.rs" extent_queue
    "../src/fsck/mod.rs" fsck
    "../src/header.rs" header
    "../src/heap.rs" heap
    "../src/extent_cache.rs" extent_cache
    "../src/key.rs" key
    "../src/log/mod.rs" log
    "../src/mapping.rs" mapping
    "../src/memtable.rs" memtable
    "../src/message.rs" message
    "../src/meter.rs" meter
    "../src/node.rs" node
    "../src/place.rs" place
    "../src/ranges.rs" ranges
    "../src/steps.rs" steps
    "../src/storage/mod.rs" storage
    "../src/store/mod.rs" store
    "../src/superblock.rs" superblock
    "../src/table/mod.rs" table
    "../src/tree/mod.rs" tree
    "../src/wire.rs" wire
}

pub use batch::WriteBatch;
pub use codec::Compression;
pub use db::{CachedExtents, Cursor, Db, Options, Stats, VerifyReport};
pub use dump::{Dump, dump};
pub use error::{Error, FailedOperation, LostBatches, Result, StopReason};
pub use fsck::{Finding, FsckOptions, FsckReport, LossKind, LostKeys, Severity, fsck};
pub use key::{End, Key, KeyRange};
pub use steps::Features;
pub use storage::{FileStorage, SimStorage, Storage, UringStorage};

use needs::Case;
use shuttle::rand::Rng;
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::sync::atomic::{AtomicU64, Ordering};
use std::collections::BTreeMap;
use std::io;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use storage::latch::planted::{FAULT, Fault};
use storage::{FaultPlan, UNIT};

/// Schedules that every run explores.
const SCHEDULES: usize = 600;
/// Schedules within which a planted fault must be found.
const UNTIL_FOUND: usize = 20_000;
/// Points at which the preempting scheduler takes another thread than the one with the highest priority.
const PREEMPTIONS: usize = 3;
/// Turns of other threads that fit into a flush before what it does, and after that: it takes long, so flushes overlap often.
const FLUSH_TURNS: usize = 8;
/// Batches of the writer.
const BATCHES: u64 = 4;
const UNITS: u64 = 128;

/// A simulated device at which threads can be overtaken: before a write, and before and after a flush below.
struct Overtaken {
    below: SimStorage,
    turns: AtomicU64,
}

impl Overtaken {
    fn new(below: SimStorage) -> Overtaken {
        Overtaken { below, turns: AtomicU64::new(0) }
    }

    /// The scheduler may go on with another thread here.
    fn turn(&self) {
        self.turns.fetch_add(1, Ordering::SeqCst);
    }
}

impl Storage for Overtaken {
    fn len(&self) -> io::Result<u64> {
        self.below.len()
    }

    fn read_at(&self, buf: &mut [u8], off: u64) -> io::Result<()> {
        self.below.read_at(buf, off)
    }

    fn write_at(&self, buf: &[u8], off: u64) -> io::Result<()> {
        self.turn();
        self.below.write_at(buf, off)
    }

    fn flush(&self) -> io::Result<()> {
        (0..FLUSH_TURNS).for_each(|_| self.turn());
        let done = self.below.flush();
        (0..FLUSH_TURNS).for_each(|_| self.turn());
        done
    }

    fn discard(&self, off: u64, len: u64) -> io::Result<()> {
        self.below.discard(off, len)
    }
}

fn options() -> Options {
    Options { log_bytes: 16 * UNIT as u64, ..Options::tiny() }
}

/// What batch `n` of the writer puts. Every second one is large enough for an extent.
fn change(n: u64) -> ([u8; 2], Vec<u8>) {
    let len = if n.is_multiple_of(2) { 9000 } else { 60 };
    ([b'k', (n % 3) as u8], vec![n as u8; len])
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// The state after `n` batches.
fn model(n: u64) -> Model {
    (1..=n).map(change).map(|(key, value)| (key.to_vec(), value)).collect()
}

/// A store with a checkpoint and nothing in its log: batch 1 has been written.
fn sample() -> Vec<u8> {
    let image = Arc::new(Mutex::new(Vec::new()));
    let made = image.clone();
    let make = move || {
        let storage = SimStorage::new(UNITS * UNIT as u64);
        let db = Db::create(storage.clone(), options()).expect("create");
        let (key, value) = change(1);
        db.put(&key, &value).expect("put");
        db.close().expect("close");
        *made.lock().expect("no panic") = storage.image();
    };
    shuttle::Runner::new(RandomScheduler::new_from_seed(0, 1), config()).run(make);
    std::mem::take(&mut *image.lock().expect("no panic"))
}

fn config() -> shuttle::Config {
    let mut config = shuttle::Config::new();
    config.stack_size = 1 << 20;
    config
}

/// The one failure of a schedule: with a planted fault of the flush one that a flush says, else it would seldom be met.
fn any_fault() -> FaultPlan {
    let kinds = if FAULT.get().is_some() { 1 } else { 4 };
    let mut random = shuttle::rand::thread_rng();
    let (write, flush) = (Some(random.gen_range(0..12)), Some(random.gen_range(0..8)));
    match random.gen_range(0..kinds) {
        0 => FaultPlan { lose_flush_at: flush, ..FaultPlan::default() },
        1 => FaultPlan { write_error_at: write, ..FaultPlan::default() },
        _ => FaultPlan { lose_write_at: write, ..FaultPlan::default() },
    }
}

/// A power cut right after an acknowledgement of batch `acknowledged`: the scheduler has not gone on in between.
struct Cut {
    acknowledged: u64,
    by: &'static str,
    found: SimStorage,
}

/// One schedule. Err says what was lost.
fn run(image: &[u8]) -> std::result::Result<(), String> {
    let storage = SimStorage::from_image(image.to_vec());
    let db = Arc::new(Db::open(Overtaken::new(storage.clone()), options()).expect("open"));
    let plan = any_fault();
    storage.set_faults(plan.clone());
    let cuts: Arc<Mutex<Vec<Cut>>> = Arc::default();
    let acknowledge = {
        let (cuts, storage) = (cuts.clone(), storage.clone());
        move |acknowledged, by| {
            let found = storage.power_cut(0);
            cuts.lock().expect("no panic").push(Cut { acknowledged, by, found });
        }
    };
    let writer = {
        let (db, acknowledge) = (db.clone(), acknowledge.clone());
        shuttle::thread::spawn(move || {
            for n in 2..=BATCHES {
                let (key, value) = change(n);
                match db.put(&key, &value) {
                    Ok(batch) => assert_eq!(batch, n),
                    Err(_) => return,
                }
                if n == 3 && db.sync().is_ok() {
                    acknowledge(n, "the writer's sync");
                }
            }
        })
    };
    let syncer = {
        let (db, acknowledge) = (db.clone(), acknowledge.clone());
        shuttle::thread::spawn(move || {
            for _ in 0..2 {
                let Ok(asked) = db.ask_sync() else { return };
                if let Ok(durable) = db.sync_to(asked) {
                    assert!(durable >= asked);
                    acknowledge(durable, "the syncer");
                }
            }
        })
    };
    let checkpointer = {
        let db = db.clone();
        shuttle::thread::spawn(move || {
            for _ in 0..2 {
                let written = db.last_msn();
                if db.checkpoint().is_ok() {
                    acknowledge(written, "a checkpoint");
                }
            }
        })
    };
    for thread in [writer, syncer, checkpointer] {
        thread.join().expect("no panic");
    }
    drop(db);
    let mut cuts = std::mem::take(&mut *cuts.lock().expect("no panic"));
    // What a failure leaves must be found as well, whatever the power cut takes.
    let acknowledged = cuts.iter().map(|cut| cut.acknowledged).max().unwrap_or(1);
    let seed = shuttle::rand::thread_rng().r#gen();
    cuts.push(Cut { acknowledged, by: "all", found: storage.power_cut(seed) });
    cuts.into_iter().try_for_each(|cut| judge(cut).map_err(|why| format!("{why}; {plan:?}")))
}

fn judge(cut: Cut) -> std::result::Result<(), String> {
    let Cut { acknowledged, by, found } = cut;
    let db = Db::open(found, options()).map_err(|e| format!("{by} acknowledged {acknowledged}: {e}"))?;
    let last = db.last_msn();
    if last < acknowledged {
        return Err(format!("{by} acknowledged {acknowledged}, {last} is there"));
    }
    let read: Result<Model> = db.scan(&KeyRange::all()).collect();
    match read {
        Ok(found) if found == model(last) => Ok(()),
        Ok(_) => Err(format!("{by} acknowledged {acknowledged}: the state after {last} is wrong")),
        Err(e) => Err(format!("{by} acknowledged {acknowledged}: {e}")),
    }
}

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

fn explore(
    scheduler: impl Scheduler + 'static,
    image: &[u8],
    judge: impl Fn(String) + Send + Sync + 'static,
) {
    let image = image.to_vec();
    shuttle::Runner::new(scheduler, config()).run(move || {
        if let Err(why) = run(&image) {
            judge(why);
        }
    });
}

fn nothing_acknowledged_is_lost_in_any_schedule() -> bool {
    let (schedules, seed) = (number("BETREE_SCHEDULES", SCHEDULES as u64) as usize, number("BETREE_SEED", 0));
    println!("{schedules} schedules from seed {seed}");
    let image = sample();
    let preempting = PctScheduler::new_from_seed(seed, PREEMPTIONS, schedules / 2);
    explore(preempting, &image, |why| panic!("{why}"));
    let random = RandomScheduler::new_from_seed(seed, schedules - schedules / 2);
    explore(random, &image, |why| panic!("{why}"));
    true
}

/// With `fault` planted something is lost that was acknowledged, in one of the schedules.
fn is_found(fault: Fault) -> bool {
    const AT_A_TIME: usize = 500;
    let (image, seed) = (sample(), number("BETREE_SEED", 0));
    FAULT.set(Some(fault));
    let found: Arc<Mutex<Option<String>>> = Arc::default();
    let mut explored = 0;
    while explored < UNTIL_FOUND && found.lock().expect("no panic").is_none() {
        let first = found.clone();
        let note = move |why| _ = first.lock().expect("no panic").get_or_insert(why);
        let turn = seed + explored as u64;
        // Whichever finds it sooner.
        if (explored / AT_A_TIME).is_multiple_of(2) {
            explore(PctScheduler::new_from_seed(turn, PREEMPTIONS, AT_A_TIME), &image, note);
        } else {
            explore(RandomScheduler::new_from_seed(turn, AT_A_TIME), &image, note);
        }
        explored += AT_A_TIME;
    }
    FAULT.set(None);
    let found = found.lock().expect("no panic").take();
    println!("{fault:?}, {explored} schedules: {found:?}");
    found.is_some()
}

fn main() -> ExitCode {
    let cases = vec![
        Case::new(
            "nothing_acknowledged_is_lost_in_any_schedule",
            &[],
            nothing_acknowledged_is_lost_in_any_schedule,
        ),
        Case::new("a_flush_that_says_what_its_own_said_is_found", &[], || is_found(Fault::OwnFlushOnly)),
        Case::new("a_flush_that_does_not_wait_for_others_is_found", &[], || is_found(Fault::NoWaiting)),
    ];
    needs::run("loadline-betree", "schedules", cases)
}
