//! Loads on plain files: multi_read, shared access, mmap, folder compression.

use std::path::{Path, PathBuf};

use super::ballast::Ballast;
use super::config::Config;
use super::measure::{Measured, provide, read_ahead_kib};
use super::task::{Pattern, Task};
use super::{compress, mapped, mixed, number_of, read, take_columns};
use crate::error::at;
use crate::{AppError, Bench, Load, LoadSite, Parameters};

/// Files of the private reads: the artifact's 16, one a thread.
const PRIVATE_FILES: u64 = 16;
/// Bytes of a read (artifact).
const BLOCK: u64 = 64 << 10;
/// Bytes of a random read of a private file (artifact).
const PRIVATE_RANDOM_BLOCK: u64 = 2 << 20;
/// Bytes of an operation where writers and readers share a file (artifact).
const MIXED_BLOCK: u64 = 4 << 10;
/// Bytes that are copied out of a mapping at once (artifact).
const MAPPED_BLOCK: u64 = 16 << 10;
/// Writers of the shared file (artifact).
const WRITERS: usize = 4;

/// Columns of [`ReadPrivate`].
pub const PRIVATE_COLUMNS: [&str; 8] =
    ["pvt-seq", "pvt-rand", "pvt-stride", "pvt-reverse", "stride-2", "stride-4", "stride-8", "stride-16"];
/// Columns of [`ReadShared`].
pub const SHARED_COLUMNS: [&str; 10] = [
    "shared-seq",
    "shared-rand",
    "shared-stride",
    "shared-reverse",
    "readers-1",
    "readers-4",
    "readers-8",
    "readers-16",
    "mmap-seq",
    "mmap-rand",
];
/// Columns of [`Compress`]: the number says which part of the data fits into memory.
pub const COMPRESS_COLUMNS: [&str; 4] = ["compress-6", "compress-4", "compress-2", "compress-1"];

fn pattern_of(column: &str) -> Pattern {
    match column {
        _ if column.ends_with("seq") => Pattern::Sequential,
        _ if column.ends_with("rand") => Pattern::Random,
        _ if column.ends_with("reverse") => Pattern::Reverse,
        _ => Pattern::Stride,
    }
}

/// What every one of these loads has.
#[derive(Debug)]
struct Common {
    config: Config,
    columns: Vec<&'static str>,
    bytes: u64,
    threads: usize,
}

impl Common {
    fn take(parameters: &mut Parameters, known: &[&'static str]) -> Result<Common, AppError> {
        Ok(Common {
            config: Config::take(parameters)?,
            columns: take_columns(parameters, known)?,
            bytes: parameters.bytes("bytes", 64 << 20, 1 << 20..=1 << 50)?,
            threads: parameters.number("threads", 4, 1..=256)? as usize,
        })
    }

    fn phases(&self) -> u32 {
        self.columns.len() as u32 + 1
    }

    /// One second of device a column, as a rule, and the making of the data.
    fn seconds_guess(&self) -> f64 {
        self.bytes as f64 / 300e6 + self.columns.len() as f64 * (0.35 + self.bytes as f64 / 700e6)
    }

    fn column(&self, phase: u32) -> Option<&'static str> {
        self.columns.get(phase.checked_sub(1)? as usize).copied()
    }
}

/// A remark on the device, once.
pub(super) fn note_read_ahead(place: LoadSite<'_>, bench: &mut Bench<'_>) {
    if let Some(kib) = read_ahead_kib(place.root) {
        bench.note(format!("the kernel reads up to {kib} KiB ahead on the device"));
    }
}

/// Files of their own for each thread; the sensitivity to threads.
#[derive(Debug)]
pub struct ReadPrivate(Common);

impl ReadPrivate {
    /// Parameters `config`, `columns`, `bytes` (of all files) and `threads`.
    ///
    /// # Errors
    /// A value that cannot be.
    pub fn new(parameters: &mut Parameters) -> Result<ReadPrivate, AppError> {
        Common::take(parameters, &PRIVATE_COLUMNS).map(ReadPrivate)
    }
}

fn private_files(root: &Path) -> Vec<PathBuf> {
    (0..PRIVATE_FILES).map(|number| root.join(format!("private-{number:02}"))).collect()
}

impl Load for ReadPrivate {
    fn phases(&self) -> u32 {
        self.0.phases()
    }

    fn seconds_guess(&self) -> f64 {
        self.0.seconds_guess()
    }

    fn provide(&self, home: &Path, _tell: &mut dyn FnMut(&str)) -> Result<(), AppError> {
        provide(self.0.config, home)
    }

    fn run(&self, phase: u32, place: LoadSite<'_>, bench: &mut Bench<'_>) -> Result<(), AppError> {
        let files = private_files(place.root);
        let Some(column) = self.0.column(phase) else {
            note_read_ahead(place, bench);
            return files
                .iter()
                .zip(place.seed..)
                .try_for_each(|(file, seed)| read::make(file, self.0.bytes / PRIVATE_FILES, seed));
        };
        let sweep = column.starts_with("stride-");
        let task = read::Read {
            files,
            pattern: pattern_of(column),
            threads: if sweep { number_of(column) as usize } else { self.0.threads },
            block: if column == "pvt-rand" { PRIVATE_RANDOM_BLOCK } else { BLOCK },
            hint: column == "pvt-seq" && self.0.config == Config::AppOnly,
            seed: place.seed,
        };
        let measured = Measured { config: self.0.config, place, column };
        measured.task(bench, &Task::Read(task), "MB/s").map(drop)
    }
}

/// One file for all threads: reads, writers and readers, mmap.
#[derive(Debug)]
pub struct ReadShared {
    common: Common,
    milliseconds: u64,
}

impl ReadShared {
    /// Parameters `config`, `columns`, `bytes`, `threads`, and `milliseconds` of each `readers-` column.
    ///
    /// # Errors
    /// A value that cannot be.
    pub fn new(parameters: &mut Parameters) -> Result<ReadShared, AppError> {
        Ok(ReadShared {
            common: Common::take(parameters, &SHARED_COLUMNS)?,
            milliseconds: parameters.number("milliseconds", 1000, 10..=3_600_000)?,
        })
    }

    fn task(&self, column: &'static str, file: PathBuf, seed: u64) -> Task {
        let (pattern, threads) = (pattern_of(column), self.common.threads);
        if column.starts_with("readers-") {
            let (readers, seconds) = (number_of(column) as usize, self.milliseconds as f64 / 1e3);
            return Task::Mixed(mixed::Mixed {
                file,
                writers: WRITERS,
                readers,
                block: MIXED_BLOCK,
                seconds,
                seed,
            });
        }
        if column.starts_with("mmap-") {
            // The artifact's OSonly is a program of its own, which tells its order.
            let advise = self.common.config == Config::OsOnly;
            return Task::Mapped(mapped::Mapped {
                file,
                pattern,
                threads,
                block: MAPPED_BLOCK,
                advise,
                seed,
            });
        }
        Task::Read(read::Read { files: vec![file], pattern, threads, block: BLOCK, hint: false, seed })
    }
}

impl Load for ReadShared {
    fn phases(&self) -> u32 {
        self.common.phases()
    }

    fn seconds_guess(&self) -> f64 {
        let mixed = self.common.columns.iter().filter(|column| column.starts_with("readers-")).count();
        self.common.seconds_guess() + mixed as f64 * self.milliseconds as f64 / 1e3
    }

    fn provide(&self, home: &Path, _tell: &mut dyn FnMut(&str)) -> Result<(), AppError> {
        provide(self.common.config, home)
    }

    fn run(&self, phase: u32, place: LoadSite<'_>, bench: &mut Bench<'_>) -> Result<(), AppError> {
        let file = place.root.join("shared");
        let Some(column) = self.common.column(phase) else {
            note_read_ahead(place, bench);
            return read::make(&file, self.common.bytes, place.seed);
        };
        let measured = Measured { config: self.common.config, place, column };
        let done = measured.task(bench, &self.task(column, file, place.seed), "MB/s")?;
        if let Some(readers) = column.strip_prefix("readers-") {
            let wall = bench.last(&format!("{column}/wall_seconds"));
            let megabytes = done.writes.bytes as f64 / 1e6;
            let writers = format!("writers-{readers}");
            let us = |share| done.writes.service.quantile(share).map_or(f64::NAN, |ns| ns as f64 / 1e3);
            bench.metric(writers.clone(), "MB/s", megabytes / wall);
            bench.metric(format!("{writers}/timed"), "MB/s", megabytes / done.timed_seconds);
            bench.metric(format!("{writers}/wall_seconds"), "s", wall);
            bench.metric(format!("{writers}/p50_us"), "us", us(0.5));
            bench.metric(format!("{writers}/p99_us"), "us", us(0.99));
        }
        Ok(())
    }
}

/// Folders compressed by several threads, memory for a part of the data only.
#[derive(Debug)]
pub struct Compress {
    common: Common,
    file_bytes: u64,
    memory_bytes: u64,
}

impl Compress {
    /// Parameters `config`, `columns`, `bytes` (of all files), `threads` (a folder each), `file_bytes` and
    /// `memory_bytes`, the memory limit that the load runs under (0: none, and then no column is measured with less).
    ///
    /// # Errors
    /// A value that cannot be.
    pub fn new(parameters: &mut Parameters) -> Result<Compress, AppError> {
        Ok(Compress {
            common: Common::take(parameters, &COMPRESS_COLUMNS)?,
            file_bytes: parameters.bytes("file_bytes", 4 << 20, 4096..=1 << 32)?,
            memory_bytes: parameters.bytes("memory_bytes", 0, 0..=1 << 50)?,
        })
    }

    fn folders(&self, root: &Path) -> Vec<PathBuf> {
        (0..self.common.threads).map(|number| root.join(format!("folder-{number:02}"))).collect()
    }
}

impl Load for Compress {
    fn phases(&self) -> u32 {
        self.common.phases()
    }

    fn seconds_guess(&self) -> f64 {
        self.common.seconds_guess()
    }

    fn provide(&self, home: &Path, _tell: &mut dyn FnMut(&str)) -> Result<(), AppError> {
        provide(self.common.config, home)
    }

    fn run(&self, phase: u32, place: LoadSite<'_>, bench: &mut Bench<'_>) -> Result<(), AppError> {
        let folders = self.folders(place.root);
        let Some(column) = self.common.column(phase) else {
            note_read_ahead(place, bench);
            let files = (self.common.bytes / self.file_bytes / folders.len() as u64).max(1);
            for (folder, seed) in folders.iter().zip(place.seed..) {
                std::fs::create_dir(folder).map_err(at(folder))?;
                for number in 0..files {
                    compress::make(
                        &folder.join(format!("{number:04}")),
                        self.file_bytes,
                        seed * 1000 + number,
                    )?;
                }
            }
            return Ok(());
        };
        let heap = folders.len() as u64 * self.file_bytes * 5 / 2;
        let ballast = Ballast::leave(self.memory_bytes, self.common.bytes / number_of(column), heap);
        bench.metric(format!("{column}/ballast_bytes"), "bytes", ballast.bytes() as f64);
        let measured = Measured { config: self.common.config, place, column };
        let task = Task::Compress(compress::Compress { folders });
        measured.task(bench, &task, "MB/s").map(drop)
    }
}
