//! Key-value loads: YCSB's core workloads on RocksDB, SQLite, LMDB, Redis and Redis Cluster (crate `kv`).

use std::path::Path;

use kv::embedded::rocksdb;
use kv::patterns::{Bench as KvBench, Pattern};
use kv::properties::Properties;
use kv::redis::AppendPolicy;
use kv::redis::resp::Login;
use kv::workload::{PROPERTIES, TERMINALS_MAX, builtin};
use kv::{Engine, Job, KvError, PatternJob, Workload};
use serve::drive::Pace;

use crate::{AppError, Bench, Load, LoadSite, Parameters, served};

/// Name of the load that property files become.
pub const CORE: &str = "ycsb-core";
/// Measured seconds when nobody says how many, nor how many operations.
const SECONDS: f64 = 30.0;
/// Longest run of a number of operations.
const SECONDS_MAX: f64 = 24.0 * 3600.0;
/// Terminals when nobody says how many.
const TERMINALS: u64 = 4;
/// Bytes of the engine's own cache when nobody says how many.
const CACHE_BYTES: u64 = 64 << 20;
/// Records that are loaded in a second, roughly.
const LOADED_A_SECOND: f64 = 50_000.0;
/// Keys that patterns are filled with in a second, roughly.
const FILLED_A_SECOND: f64 = 300_000.0;

impl From<KvError> for AppError {
    fn from(error: KvError) -> AppError {
        match error {
            KvError::Unavailable { reason, remedy } => AppError::Unavailable { reason, remedy },
            KvError::Parameter(text) => AppError::Parameter(text),
            KvError::Interrupted => AppError::Interrupted,
            KvError::Io { path, source } => AppError::Io { path: path.into(), source },
            other => AppError::Protocol(other.to_string()),
        }
    }
}

/// The parameter of a property: names of parameters have no dots.
pub fn parameter(property: &str) -> String {
    property.replace('.', "_")
}

/// A key-value load: the first phase loads the records, the second one runs operations on them.
#[derive(Debug)]
pub struct KeyValues {
    job: Job,
}

impl KeyValues {
    /// A core workload: that of a letter, or what properties say. Parameters: every property of YCSB's (a dot becomes
    /// `_`), `engine` (rocksdb, sqlite, lmdb, redis, redis-cluster; default rocksdb), `terminals` (1 to 10,000; default
    /// `threadcount`, or 4), `cache` (bytes, default 64M), `flush` (0: written before it is acknowledged; 1: on the
    /// device; of Redis also `second` and `none`; default 0), `verify` (1: every value is checked; default 0), `pipeline`
    /// (of Redis, 1 to 1000, default 1), `client_threads` (of Redis, 1 to 64, default 1), `address` (of a Redis that runs;
    /// default a private one).
    ///
    /// # Errors
    /// A value that cannot be.
    pub fn ycsb(letter: Option<char>, parameters: &mut Parameters) -> Result<KeyValues, AppError> {
        let mut properties = letter.and_then(builtin).unwrap_or_default();
        take_properties(parameters, &mut properties);
        let verify = parameters.number("verify", 0, 0..=1)? == 1;
        // what a list of all loads makes without parameters
        if letter.is_none() && properties == Properties::default() {
            properties.set("recordcount", "1000");
        }
        let workload = Workload::of(&properties, verify)?;
        let address = Some(parameters.word("address", "")).filter(|address| !address.is_empty());
        let address = address.as_deref().map(Login::parse).transpose()?;
        if address.is_some() {
            parameters.refuse(&["cache", "flush"], served::NOT_OURS)?;
        }
        let default = if address.is_some() { Engine::Redis } else { Engine::RocksDb };
        let engine: Engine =
            parameters.word("engine", default.name()).parse().map_err(AppError::Parameter)?;
        let flush = match parameters.word("flush", "0").as_str() {
            "0" => AppendPolicy::Written,
            "1" => AppendPolicy::Always,
            "second" => AppendPolicy::EachSecond,
            "none" => AppendPolicy::None,
            other => {
                return Err(AppError::Parameter(format!(
                    "flush = {other} is none of 0 (written before it is acknowledged), 1 (on the device), second, none \
                     (Redis only)"
                )));
            }
        };
        let threads = workload.threads.unwrap_or(TERMINALS);
        let job = Job {
            engine,
            terminals: parameters.number("terminals", threads, 1..=TERMINALS_MAX)? as u32,
            cache_bytes: parameters.bytes("cache", CACHE_BYTES, 1 << 20..=1 << 44)?,
            flush,
            pipeline: parameters.number("pipeline", 1, 1..=1000)? as u32,
            threads: parameters.number("client_threads", 1, 1..=64)? as u32,
            address,
            workload,
        };
        match job.check() {
            // that is said when it is provided
            Ok(()) | Err(KvError::Unavailable { .. }) => Ok(KeyValues { job }),
            Err(error) => Err(error.into()),
        }
    }
}

fn take_properties(parameters: &mut Parameters, properties: &mut Properties) {
    for (name, _) in PROPERTIES {
        let value = parameters.word(&parameter(name), "");
        if !value.is_empty() {
            properties.set(name, &value);
        }
    }
}

impl Load for KeyValues {
    fn phases(&self) -> u32 {
        2
    }

    fn seconds_guess(&self) -> f64 {
        SECONDS + self.job.workload.insert_count as f64 / LOADED_A_SECOND
    }

    fn takes_time(&self) -> bool {
        true
    }

    fn programs(&self) -> &'static [&'static str] {
        match (&self.job.address, self.job.engine.is_embedded()) {
            (None, false) => &["redis-server"],
            _ => &[],
        }
    }

    fn provide(&self, _home: &Path, _tell: &mut dyn FnMut(&str)) -> Result<(), AppError> {
        Ok(self.job.check()?)
    }

    fn run(&self, phase: u32, place: LoadSite<'_>, bench: &mut Bench<'_>) -> Result<(), AppError> {
        let workload = &self.job.workload;
        let default = if workload.operations > 0 { SECONDS_MAX } else { SECONDS };
        let pace = Pace {
            warmup_seconds: place.pace.warmup_seconds.unwrap_or(0.0),
            seconds: place.pace.seconds.or(workload.seconds).unwrap_or(default),
            rate: place.pace.rate.or(workload.rate),
        };
        served::run("kv", place, bench, |at| match phase {
            0 => self.job.fill(at).map(|()| None),
            _ => self.job.measure(&pace, at).map(Some),
        })
    }
}

/// One of db_bench's patterns: the first phase fills and compacts the database, the second one runs the pattern.
#[derive(Debug)]
pub struct Patterns {
    job: PatternJob,
}

impl Patterns {
    /// Parameters, with db_bench's names and defaults: `num` (keys, 1 to 10^10, default 1,000,000), `value_size` (1 to 1M,
    /// default 100), `reads` (operations of each thread; 0, the default: one pass, or as many as there is time for),
    /// `batch_size` (of multireadrandom, 1 to 10,000, default 32), `terminals` (threads, 1 to 1000, default 1), `cache`
    /// (bytes of the block cache, default 8M), `flush` (1: each write is on the device; default 0).
    ///
    /// # Errors
    /// A value that cannot be.
    pub fn new(pattern: Pattern, parameters: &mut Parameters) -> Result<Patterns, AppError> {
        let engine = parameters.word("engine", "rocksdb");
        if engine != "rocksdb" {
            return Err(AppError::Parameter(format!(
                "{} is a pattern on rocksdb, not on {engine}",
                pattern.name()
            )));
        }
        let bench = KvBench {
            pattern,
            keys: parameters.number("num", 1_000_000, 1..=10_000_000_000)?,
            value_bytes: parameters.bytes("value_size", 100, 1..=1 << 20)? as usize,
            batch: parameters.number("batch_size", 32, 1..=10_000)?,
            ops: parameters.number("reads", 0, 0..=1 << 60)?,
        };
        Ok(Patterns {
            job: PatternJob {
                bench,
                threads: parameters.number("terminals", 1, 1..=1000)? as u32,
                cache_bytes: Some(parameters.bytes("cache", 8 << 20, 1 << 20..=1 << 44)?),
                sync: parameters.number("flush", 0, 0..=1)? == 1,
            },
        })
    }
}

impl Load for Patterns {
    fn phases(&self) -> u32 {
        2
    }

    fn seconds_guess(&self) -> f64 {
        SECONDS + self.job.bench.keys as f64 / FILLED_A_SECOND
    }

    fn takes_time(&self) -> bool {
        true
    }

    fn provide(&self, _home: &Path, _tell: &mut dyn FnMut(&str)) -> Result<(), AppError> {
        Ok(rocksdb::available()?)
    }

    fn run(&self, phase: u32, place: LoadSite<'_>, bench: &mut Bench<'_>) -> Result<(), AppError> {
        let ends = self.job.bench.ops > 0 || self.job.bench.pattern.is_one_pass();
        let pace = Pace {
            warmup_seconds: place.pace.warmup_seconds.unwrap_or(0.0),
            seconds: place.pace.seconds.unwrap_or(if ends { SECONDS_MAX } else { SECONDS }),
            rate: place.pace.rate,
        };
        served::run("kv", place, bench, |at| match phase {
            0 => self.job.fill(at).map(|()| None),
            _ => self.job.measure(&pace, at).map(Some),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(letter: Option<char>, set: &[(&str, &str)]) -> Result<KeyValues, AppError> {
        let set: Vec<(String, String)> =
            set.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        let mut parameters = Parameters::new("ycsb", &set);
        let made = KeyValues::ycsb(letter, &mut parameters)?;
        parameters.end()?;
        Ok(made)
    }

    #[test]
    fn parameters_are_taken_and_their_mistakes_are_told() {
        let job = made(Some('a'), &[("engine", "lmdb"), ("recordcount", "7"), ("exponential_frac", "0.5")]);
        let job = job.unwrap().job;
        assert_eq!((job.engine, job.workload.records, job.terminals), (Engine::Lmdb, 7, 4));
        let job = made(None, &[("recordcount", "9"), ("threadcount", "3"), ("target", "50")]).unwrap().job;
        assert_eq!((job.terminals, job.workload.rate, job.workload.shares.read), (3, Some(50.0), 0.95));
        let job = made(Some('c'), &[("address", "redis://:x@h")]).unwrap().job;
        assert_eq!(job.engine, Engine::Redis);
        for (wrong, told) in [
            (("engine", "innodb"), "rocksdb, sqlite, lmdb, redis, redis-cluster"),
            (("flush", "2"), "on the device"),
            (("flush", "none"), "rocksdb has flush = 0 and flush = 1 only"),
            (("recordcount", "0"), "at least 1"),
            (("pipeline", "0"), "1 to 1000"),
            (("threadcount", "20000"), "threadcount = 20000 is not between 1 and 10000"),
            (("address", "mysql://x"), "redis://user:password@host:port"),
            (("readpropotion", "1"), "no parameter `readpropotion`"),
        ] {
            let error = made(Some('a'), &[wrong]).unwrap_err().to_string();
            assert!(error.contains(told), "{error}");
        }
        for private in [("flush", "1"), ("cache", "1G")] {
            let error = made(Some('a'), &[("address", "redis://h"), private]).unwrap_err().to_string();
            assert!(error.contains(private.0) && error.contains("has its own settings"), "{error}");
        }
        let both = made(Some('a'), &[("engine", "sqlite"), ("address", "redis://h")]);
        assert!(both.unwrap_err().to_string().contains("it has no address"));
    }
}
