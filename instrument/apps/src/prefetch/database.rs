//! Loads on RocksDB: db_bench's patterns, their scaling and memory sweep; YCSB.

use std::path::Path;

use super::ballast::Ballast;
use super::config::Config;
use super::files::note_read_ahead;
use super::measure::{Measured, Timed, provide};
use super::task::Task;
use super::{db_bench, files_in, number_of, take_columns, ycsb};
use crate::programs::program;
use crate::{AppError, Bench, Load, LoadSite, Parameters};

/// Columns of [`DbBench`]. `scale-` are multireadrandom by threads, `memory-` with memory for a part of the data.
pub const DB_COLUMNS: [&str; 14] = [
    "readseq",
    "readreverse",
    "readrandom",
    "multireadrandom",
    "readwhilescanning",
    "scale-1",
    "scale-4",
    "scale-8",
    "scale-16",
    "scale-32",
    "memory-6",
    "memory-4",
    "memory-2",
    "memory-1",
];
/// Columns of [`Ycsb`], in the order in which they run: those that insert come last.
pub const YCSB_COLUMNS: [&str; 6] = ["ycsb-a", "ycsb-b", "ycsb-c", "ycsb-f", "ycsb-d", "ycsb-e"];

/// Keys that a sequential benchmark reads for each that a random one does: it is that much faster.
const SEQUENTIAL_READS: u64 = 10;
/// Memory that db_bench takes for itself.
const DB_HEAP_BYTES: u64 = 48 << 20;

/// RocksDB's own benchmark program.
#[derive(Debug)]
pub struct DbBench {
    config: Config,
    columns: Vec<&'static str>,
    keys: u64,
    reads: u64,
    threads: u64,
    memory_bytes: u64,
}

impl DbBench {
    /// Parameters `config`, `columns`, `keys`, `reads` (of each thread), `threads`, `memory_bytes` (as
    /// [`super::Compress::new`]).
    ///
    /// # Errors
    /// A value that cannot be.
    pub fn new(parameters: &mut Parameters) -> Result<DbBench, AppError> {
        Ok(DbBench {
            config: Config::take(parameters)?,
            columns: take_columns(parameters, &DB_COLUMNS)?,
            keys: parameters.number("keys", 20_000, 100..=1 << 40)?,
            reads: parameters.number("reads", 500, 1..=1 << 40)?,
            threads: parameters.number("threads", 4, 1..=256)?,
            memory_bytes: parameters.bytes("memory_bytes", 0, 0..=1 << 50)?,
        })
    }

    fn bytes(&self) -> u64 {
        self.keys * (db_bench::KEY_BYTES + db_bench::VALUE_BYTES)
    }
}

impl Load for DbBench {
    fn phases(&self) -> u32 {
        self.columns.len() as u32 + 1
    }

    fn seconds_guess(&self) -> f64 {
        self.bytes() as f64 / 100e6 + self.columns.len() as f64 * (0.7 + self.reads as f64 / 1000.0)
    }

    fn programs(&self) -> &'static [&'static str] {
        &["db_bench"]
    }

    fn provide(&self, home: &Path, _tell: &mut dyn FnMut(&str)) -> Result<(), AppError> {
        program("db_bench", "rocksdb-tools")?;
        provide(self.config, home)
    }

    fn run(&self, phase: u32, place: LoadSite<'_>, bench: &mut Bench<'_>) -> Result<(), AppError> {
        let database = place.root.join("db");
        let Some(column) = phase.checked_sub(1).and_then(|at| self.columns.get(at as usize)) else {
            note_read_ahead(place, bench);
            let fill = db_bench::command(&database, "fillseq", self.keys, place.seed)?;
            return fill.args(["--disable_wal=1", "--threads=1"]).output().map(drop);
        };
        let (mut benchmark, mut threads, mut ballast) = (*column, self.threads, None);
        if column.starts_with("scale-") {
            (benchmark, threads) = ("multireadrandom", number_of(column));
        } else if column.starts_with("memory-") {
            benchmark = "multireadrandom";
            let cache = self.bytes() / number_of(column);
            ballast = Some(Ballast::leave(self.memory_bytes, cache, DB_HEAP_BYTES));
        }
        let sequential = ["readseq", "readreverse"].contains(&benchmark);
        let reads = if sequential { self.reads * SEQUENTIAL_READS } else { self.reads };
        let command = db_bench::command(&database, benchmark, self.keys, place.seed)?
            .args([format!("--reads={}", reads.min(self.keys)), format!("--threads={threads}")])
            .command();
        let words: Vec<_> =
            std::iter::once(command.get_program()).chain(command.get_args()).map(Into::into).collect();
        let mut files = files_in(&database);
        files.retain(|file| file.extension().is_some_and(|ending| ending == "sst"));
        let measured = Measured { config: self.config, place, column };
        measured.run(bench, &words, &files, |output| {
            let printed = db_bench::parse(benchmark, &String::from_utf8_lossy(output))?;
            Ok(Timed {
                seconds: printed.seconds,
                ops: printed.ops,
                bytes: printed.bytes,
                unit: "MB/s",
                p50_us: printed.p50_us,
                p99_us: printed.p99_us,
                service: stats::Histogram::new(),
            })
        })?;
        drop(ballast);
        Ok(())
    }
}

/// YCSB A to F on RocksDB.
#[derive(Debug)]
pub struct Ycsb {
    config: Config,
    columns: Vec<&'static str>,
    records: u64,
    threads: u64,
    milliseconds: u64,
}

impl Ycsb {
    /// Parameters `config`, `columns`, `records`, `threads`, `milliseconds` of each workload.
    ///
    /// # Errors
    /// A value that cannot be.
    pub fn new(parameters: &mut Parameters) -> Result<Ycsb, AppError> {
        Ok(Ycsb {
            config: Config::take(parameters)?,
            columns: take_columns(parameters, &YCSB_COLUMNS)?,
            records: parameters.number("records", 20_000, 100..=1 << 40)?,
            threads: parameters.number("threads", 4, 1..=256)?,
            milliseconds: parameters.number("milliseconds", 1000, 10..=3_600_000)?,
        })
    }
}

impl Load for Ycsb {
    fn phases(&self) -> u32 {
        self.columns.len() as u32 + 1
    }

    fn seconds_guess(&self) -> f64 {
        let load = (self.records * ycsb::VALUE_BYTES as u64) as f64 / 250e6;
        load + self.columns.len() as f64 * (0.5 + self.milliseconds as f64 / 1e3)
    }

    fn provide(&self, home: &Path, _tell: &mut dyn FnMut(&str)) -> Result<(), AppError> {
        kv::embedded::rocksdb::available()?;
        provide(self.config, home)
    }

    fn run(&self, phase: u32, place: LoadSite<'_>, bench: &mut Bench<'_>) -> Result<(), AppError> {
        let database = place.root.join("db");
        let Some(column) = phase.checked_sub(1).and_then(|at| self.columns.get(at as usize)) else {
            note_read_ahead(place, bench);
            return ycsb::load(&database, self.records, place.seed);
        };
        let task = ycsb::Ycsb {
            database,
            workload: column.chars().last().unwrap_or('c'),
            records: self.records,
            threads: self.threads as usize,
            seconds: self.milliseconds as f64 / 1e3,
            seed: place.seed.wrapping_mul(1000),
        };
        let measured = Measured { config: self.config, place, column };
        measured.task(bench, &Task::Ycsb(task), "op/s").map(drop)
    }
}
