//! YCSB A to F (Cooper et al., SoCC 2010) on RocksDB, with a Zipf distribution over the records themselves.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kv::embedded::rocksdb::{Db, Options};
use kv::generators::Counter;
use kv::generators::zipf::YcsbZipf;
use kv::keys::fnv;
use rand::{Rng, RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};

use super::shared::{Done, Side, run_threads};
use crate::AppError;

/// Bytes of a value (the artifact's; YCSB's own are 1,000).
pub const VALUE_BYTES: usize = 4096;
/// As the artifact opens its database: a Bloom filter of 10 bits a key, files of 32 MiB, no compression.
const OPTIONS: Options = Options {
    cache_bytes: None,
    bloom_bits: 10.0,
    file_bytes: Some(32 << 20),
    sync: false,
    as_db_bench: false,
};
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
        let db = Db::open(&self.database, &OPTIONS)?;
        let zipf = YcsbZipf::new(self.records.max(2));
        let counter = Counter::new(self.records);
        let seeds: Vec<u64> = (0..self.threads as u64).map(|thread| self.seed.wrapping_add(thread)).collect();
        let (timed_seconds, main) = run_threads(seeds, |_, seed| {
            self.thread(&db, &zipf, &counter, Xoshiro256PlusPlus::seed_from_u64(seed))
        })?;
        Ok(Done { timed_seconds, main, writes: Side::default() })
    }

    fn thread(
        &self,
        db: &Db,
        zipf: &YcsbZipf,
        counter: &Counter,
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
                // the latest records that are there are the most wanted
                counter.limit() - 1 - draw(zipf, &mut rng).min(self.records - 1)
            } else {
                fnv(draw(zipf, &mut rng)) % self.records
            };
            let bytes = match op {
                Op::Read => read(db, record)?,
                Op::Update => db.put(&key(record), &value).map(|()| VALUE_BYTES as u64)?,
                Op::Insert => {
                    let new = counter.take();
                    db.put(&key(new), &value)?;
                    counter.acknowledge(new);
                    VALUE_BYTES as u64
                }
                Op::Scan => scan(db, record, rng.random_range(1..=SCAN_MAX))?,
                Op::Modify => {
                    let read = read(db, record)?;
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
    let db = Db::open(database, &OPTIONS)?;
    let mut value = vec![0; VALUE_BYTES];
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    rng.fill_bytes(&mut value);
    for record in 0..records {
        rng.fill_bytes(&mut value[..64]);
        db.put(&key(record), &value)?;
    }
    Ok(db.flush()?)
}

/// A rank from 0; 0 is the most popular.
fn draw(zipf: &YcsbZipf, rng: &mut Xoshiro256PlusPlus) -> u64 {
    zipf.rank(rng.random())
}

/// Reads a record that must be there; its bytes.
fn read(db: &Db, record: u64) -> Result<u64, AppError> {
    let (key, mut bytes) = (key(record), 0);
    if db.get(&key, |value| bytes = value.len() as u64)? {
        return Ok(bytes);
    }
    Err(kv::client::missing(record, &key).into())
}

/// Reads up to `most` records from one on; their bytes.
fn scan(db: &Db, record: u64, most: u64) -> Result<u64, AppError> {
    let mut iterator = db.iterator();
    iterator.seek(&key(record));
    let mut bytes = 0;
    for _ in 0..most {
        let Some((_, value)) = iterator.entry() else { break };
        bytes += value.len() as u64;
        iterator.next();
    }
    iterator.check()?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        {
            let db = Db::open(&database, &OPTIONS).unwrap();
            assert_eq!(read(&db, 499).unwrap(), VALUE_BYTES as u64);
            let missing = read(&db, 500).unwrap_err().to_string();
            assert!(missing.contains("record 500") && missing.contains("is not there"), "{missing}");
        }
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
