//! YCSB A to F (Cooper et al., SoCC 2010) on RocksDB.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rand::{Rng, RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};

use super::rocks::Db;
use super::shared::{Done, Side, together};
use crate::AppError;

/// Bytes of a value (the artifact's; YCSB's own are 1,000).
pub const VALUE_BYTES: usize = 4096;
/// Constant of the Zipf distribution (YCSB's).
const THETA: f64 = 0.99;
/// Longest scan of workload E (YCSB's).
const SCAN_MAX: u64 = 100;

/// A workload of YCSB for some seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ycsb {
    /// The database.
    pub database: PathBuf,
    /// `a` to `f`.
    pub workload: char,
    /// Records that were loaded.
    pub records: u64,
    /// Threads.
    pub threads: usize,
    /// How long.
    pub seconds: f64,
    /// Seed of keys and operations.
    pub seed: u64,
}

/// An operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Op {
    Read,
    Update,
    Insert,
    Scan,
    Modify,
}

impl Ycsb {
    /// Opens the database, then runs operations; the time begins after the opening.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn run(&self) -> Result<Done, AppError> {
        let db = Db::open(&self.database)?;
        let zipf = Zipf::new(self.records);
        let records = AtomicU64::new(self.records);
        let seeds: Vec<u64> = (0..self.threads as u64).map(|thread| self.seed.wrapping_add(thread)).collect();
        let (timed_seconds, main) = together(seeds, |_, seed| {
            self.thread(&db, &zipf, &records, Xoshiro256PlusPlus::seed_from_u64(seed))
        })?;
        Ok(Done { timed_seconds, main, writes: Side::default() })
    }

    fn thread(
        &self,
        db: &Db,
        zipf: &Zipf,
        records: &AtomicU64,
        mut rng: Xoshiro256PlusPlus,
    ) -> Result<Side, AppError> {
        let mut value = vec![0; VALUE_BYTES];
        rng.fill_bytes(&mut value);
        let end = Instant::now() + Duration::from_secs_f64(self.seconds);
        let mut side = Side::default();
        loop {
            let start = Instant::now();
            if start >= end {
                return Ok(side);
            }
            let op = choose(self.workload, rng.random_range(0..100));
            let record = if self.workload == 'd' {
                // the latest records are the most wanted
                records.load(Ordering::Relaxed) - 1 - zipf.draw(&mut rng)
            } else {
                scatter(zipf.draw(&mut rng)) % self.records
            };
            let bytes = match op {
                Op::Read => db.get(&key(record))?.unwrap_or(0),
                Op::Update => db.put(&key(record), &value).map(|()| VALUE_BYTES as u64)?,
                Op::Insert => {
                    let new = records.fetch_add(1, Ordering::Relaxed);
                    db.put(&key(new), &value).map(|()| VALUE_BYTES as u64)?
                }
                Op::Scan => db.scan(&key(record), rng.random_range(1..=SCAN_MAX)),
                Op::Modify => {
                    let read = db.get(&key(record))?.unwrap_or(0);
                    db.put(&key(record), &value).map(|()| read + VALUE_BYTES as u64)?
                }
            };
            side.count(start, bytes);
        }
    }
}

/// The operation of a workload for a number below 100.
fn choose(workload: char, percent: u32) -> Op {
    let (share, main, other) = match workload {
        'a' => (50, Op::Read, Op::Update),
        'b' => (95, Op::Read, Op::Update),
        'd' => (95, Op::Read, Op::Insert),
        'e' => (95, Op::Scan, Op::Insert),
        'f' => (50, Op::Read, Op::Modify),
        _ => (100, Op::Read, Op::Read),
    };
    if percent < share { main } else { other }
}

/// A key of 20 bytes (the artifact's length); keys are ordered as their records.
fn key(record: u64) -> [u8; 20] {
    let mut key = *b"user0000000000000000";
    let mut rest = record;
    for digit in key[4..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

/// Loads records in the order of their keys.
pub(super) fn load(database: &Path, records: u64, seed: u64) -> Result<(), AppError> {
    let db = Db::open(database)?;
    let mut value = vec![0; VALUE_BYTES];
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    rng.fill_bytes(&mut value);
    for record in 0..records {
        rng.fill_bytes(&mut value[..64]);
        db.put(&key(record), &value)?;
    }
    db.flush()
}

/// FNV-1a over the eight bytes of a number: scatters popular ranks over the records, as YCSB does.
fn scatter(number: u64) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325u64;
    number
        .to_le_bytes()
        .iter()
        .fold(start, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

/// Zipf ranks after Gray et al., "Quickly Generating Billion-Record Synthetic Databases", SIGMOD 1994, section 3.
#[derive(Debug)]
struct Zipf {
    items: f64,
    zeta: f64,
    alpha: f64,
    eta: f64,
}

impl Zipf {
    fn new(items: u64) -> Zipf {
        let items = items.max(2);
        let zeta: f64 = (1..=items).map(|rank| (rank as f64).powf(-THETA)).sum();
        let zeta2 = 1.0 + 0.5f64.powf(THETA);
        let eta = (1.0 - (2.0 / items as f64).powf(1.0 - THETA)) / (1.0 - zeta2 / zeta);
        Zipf { items: items as f64, zeta, alpha: 1.0 / (1.0 - THETA), eta }
    }

    /// A rank from 0; 0 is the most popular.
    fn draw(&self, rng: &mut Xoshiro256PlusPlus) -> u64 {
        let uniform: f64 = rng.random();
        let scaled = uniform * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < 1.0 + 0.5f64.powf(THETA) {
            return 1;
        }
        let rank = self.items * (self.eta * uniform - self.eta + 1.0).powf(self.alpha);
        (rank as u64).min(self.items as u64 - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_follow_zipf() {
        let zipf = Zipf::new(1000);
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
        let mut seen = vec![0u32; 1000];
        (0..100_000).for_each(|_| seen[zipf.draw(&mut rng) as usize] += 1);
        let expected = |rank: usize| 100_000.0 * (rank as f64 + 1.0).powf(-THETA) / zipf.zeta;
        for rank in [0, 1, 10, 100] {
            let share = f64::from(seen[rank]) / expected(rank);
            assert!((0.7..1.4).contains(&share), "rank {rank}: {share}");
        }
        assert!(seen[999] > 0);
    }

    #[test]
    fn workloads_mix_as_ycsb_says() {
        let reads = |workload| (0..100).filter(|at| choose(workload, *at) == Op::Read).count();
        assert_eq!(['a', 'b', 'c', 'd', 'e', 'f'].map(reads), [50, 95, 100, 95, 0, 50]);
        assert_eq!(choose('e', 99), Op::Insert);
        assert_eq!(&key(120), b"user0000000000000120");
        assert!(key(9) < key(10));
    }

    #[test]
    fn every_workload_runs_where_rocksdb_is() {
        needs::needs!(RocksDb);
        let home = tempfile::tempdir().unwrap();
        let database = home.path().join("db");
        load(&database, 500, 1).unwrap();
        for workload in 'a'..='f' {
            let task = Ycsb {
                database: database.clone(),
                workload,
                records: 500,
                threads: 2,
                seconds: 0.05,
                seed: 3,
            };
            let done = task.run().unwrap();
            assert!(done.main.ops > 10 && done.main.bytes >= done.main.ops * 1000, "{workload}: {done:?}");
        }
    }
}
