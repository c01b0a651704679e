//! Power cuts and full devices for as long as wanted: `cargo run --release -p loadline-betree --example soak -- [STATES]
//! [SEED] [THREADS]`.
//!
//! Judges STATES (default 10,000) states after simulated power cuts: each must be the state after some batch, none older
//! than the last sync, and verify. Trials of all kinds take turns: cuts anywhere, torn superblocks, torn log tails, full
//! log, full device, power failing again during recovery, held records. A failure names its seed; running with it repeats it. Then
//! a store on a simulated device is filled to the brim and half emptied ten times.

#[path = "../src/db/tests/model.rs"]
#[expect(dead_code, reason = "the tests use more of it")]
mod model;
#[path = "../src/db/tests/trial.rs"]
mod trial;

/// Where the shared modules look for the store's types.
mod key {
    pub use betree::KeyRange;
}
mod storage {
    pub use betree::storage::{FaultPlan, SimStorage};
}

use betree::{Db, Error, FsckOptions, KeyRange, Options, Severity, WriteBatch, fsck};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use trial::{KINDS, Trial};

const ROUNDS: u64 = 20;
const OUTCOMES: u64 = 5;

fn crashes(states: u64, first: u64, threads: u64) {
    let (next, judged) = (AtomicU64::new(first), AtomicU64::new(0));
    let (spilled, bound) = (AtomicU64::new(0), AtomicU64::new(0));
    let kinds: Mutex<BTreeMap<String, u64>> = Mutex::default();
    let work = || {
        while judged.load(Ordering::Relaxed) < states {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            let kind = KINDS[seed as usize % KINDS.len()];
            let mut trial = Trial::new(seed, kind, Options::tiny());
            (0..ROUNDS).for_each(|round| trial.round(round, OUTCOMES));
            spilled.fetch_add(trial.spilled, Ordering::Relaxed);
            bound.fetch_add(trial.bound, Ordering::Relaxed);
            let all = judged.fetch_add(trial.judged, Ordering::Relaxed) + trial.judged;
            *kinds.lock().expect("no panic").entry(format!("{:?}", trial.kind)).or_default() += trial.judged;
            if seed.is_multiple_of(20) {
                println!("seed {}: {all} states judged", trial.seed);
            }
        }
    };
    std::thread::scope(|s| (0..threads).for_each(|_| _ = s.spawn(work)));
    let last = next.load(Ordering::Relaxed) - 1;
    println!("seeds {first} to {last}: {} states judged, none wrong", judged.load(Ordering::Relaxed));
    println!("of these {:?}", kinds.into_inner().expect("no panic"));
    let (spilled, bound) = (spilled.into_inner() >> 10, bound.into_inner() >> 10);
    println!("{spilled} KiB of messages were spilled, which spared the log {bound} KiB");
}

/// Fills, deletes half, ten times, with threads in the background.
fn full_device(mib: u64) -> betree::Result<()> {
    let storage = storage::SimStorage::new(mib << 20);
    let db = Db::create(storage.clone(), Options { cache_bytes: 16 << 20, ..Options::default() })?;
    let (mut keys, mut next, mut refused) = (BTreeMap::new(), 0u32, 0);
    for round in 0..10 {
        loop {
            let key = next.wrapping_mul(2_654_435_761).to_be_bytes();
            let len = [100, 4096, 70_000][next as usize % 3];
            match db.put(&key, &vec![next as u8; len]) {
                Ok(_) => _ = keys.insert(key, (next as u8, len)),
                Err(Error::NoSpace) => break,
                Err(e) => return Err(e),
            }
            next += 1;
        }
        refused += 1;
        let (full, free) = (keys.len(), db.stats().free_bytes >> 20);
        for key in keys.keys().copied().step_by(2).collect::<Vec<_>>() {
            db.delete(&key)?;
            keys.remove(&key);
        }
        db.checkpoint()?;
        println!("round {round}: {full} keys with {free} MiB free when full, {} after", keys.len());
        let mut left = keys.iter();
        for item in db.scan(&KeyRange::all()) {
            let (key, value) = item?;
            let (k, (byte, len)) = left.next().expect("a deleted key is back");
            assert!(key == k && value.len() == *len && value.iter().all(|b| b == byte), "round {round}");
        }
        assert!(left.next().is_none(), "round {round}: a key is missing");
        assert_eq!(db.verify()?.problems, Vec::<String>::new());
    }
    db.close()?;
    let report = fsck(storage, FsckOptions::default())?;
    assert!(report.worst().is_none_or(|s| s < Severity::Warning), "{report}");
    println!("full {refused} times, no error but NoSpace, fsck clean");
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let mut number = |usual: u64| args.next().map_or(Ok(usual), |n| n.parse());
    let (states, seed, threads) = (number(10_000)?, number(1)?, number(1)?);
    println!("from seed {seed}");
    crashes(states, seed, threads);
    full_device(256)?;
    Ok(())
}
