//! Loads that are not WML: micro patterns with fixed sizes, and real programs on a directory.
//!
//! They are the workloads of "BetrFS: A Compleat File System for Commodity SSDs" (Jiao et al., EuroSys 2022) that
//! Filebench's language does not express, and those of "CrossPrefetch" (ASPLOS 2024). A load is a [`script::Script`]: a text that begins with `#!loadline-app`.
//! It runs in *phases*; whoever runs it makes the file system cold between them.
//!
//! | module | holds |
//! |---|---|
//! | [`script`] | the text that names a load and its parameters |
//! | [`bench`](mod@bench) | timing: sections, operations, results |
//! | [`micro`] | large file, random writes, TokuBench, find / grep / rm |
//! | [`programs`] | git, tar, rsync; running a program |
//! | [`prefetch`](mod@prefetch) | readers, RocksDB, compression, each under a configuration of who reads ahead |
//! | [`imap`] | clients against a private Dovecot |
//! | [`source`] | the source tree, its archive and its history, made once and kept |
//! | [`error`] | what can go wrong |

use std::path::Path;

use stats::Outcome;

pub mod bench;
pub mod error;
pub mod imap;
pub mod micro;
pub mod prefetch;
pub mod programs;
pub mod script;
pub mod source;

pub use bench::{Bench, Hooks};
pub use error::AppError;
pub use script::Script;

/// Where a load runs.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// Directory on the file system under test.
    pub root: &'a Path,
    /// Directory for what is made once and kept (sources), elsewhere.
    pub home: &'a Path,
    /// Seed of every random choice.
    pub seed: u64,
}

/// A load that runs on a directory.
pub trait Load: std::fmt::Debug + Send {
    /// Number of phases; between two of them the file system is to be made cold.
    fn phases(&self) -> u32;

    /// Seconds that all phases take, roughly.
    fn seconds_guess(&self) -> f64;

    /// Programs of the system that it starts, by name, beside those that make a source tree once (apt-get, bash, tar).
    /// Which they are is ours to choose: no parameter names one.
    fn programs(&self) -> &'static [&'static str] {
        &[]
    }

    /// Makes what the load needs beside the file system, once; cheap when it is there. `tell` hears what is done.
    ///
    /// # Errors
    /// [`AppError::Unavailable`] when this machine lacks something.
    fn provide(&self, home: &Path, tell: &mut dyn FnMut(&str)) -> Result<(), AppError> {
        let _ = (home, tell);
        Ok(())
    }

    /// Runs one phase, from 0.
    ///
    /// # Errors
    /// What failed; nothing measured counts then.
    fn run(&self, phase: u32, place: Place<'_>, bench: &mut Bench<'_>) -> Result<(), AppError>;
}

/// A load with its name.
#[derive(Debug)]
pub struct App {
    name: String,
    load: Box<dyn Load>,
}

impl App {
    /// Reads a script; `None` when the text is none of ours (WML). `set` goes before what the script says.
    ///
    /// # Errors
    /// A load or a parameter that is not known, a value that cannot be read.
    pub fn parse(text: &str, set: &[(String, String)]) -> Result<Option<App>, AppError> {
        let Some(mut script) = Script::parse(text)? else { return Ok(None) };
        set.iter().for_each(|(name, value)| script.put(name, value));
        let name = script.name().to_string();
        let load: Box<dyn Load> = match name.as_str() {
            "large-file" => Box::new(micro::LargeFile::new(&mut script)?),
            "random-write" => Box::new(micro::RandomWrite::new(&mut script)?),
            "tokubench" => Box::new(micro::TokuBench::new(&mut script)?),
            "tree" => Box::new(micro::Tree::new(&mut script)?),
            "git" => Box::new(programs::Git::new(&mut script)?),
            "tar" => Box::new(programs::Tar::new(&mut script)?),
            "rsync" => Box::new(programs::Rsync::new(&mut script)?),
            "imap" => Box::new(imap::Imap::new(&mut script)?),
            "read-private" => Box::new(prefetch::ReadPrivate::new(&mut script)?),
            "read-shared" => Box::new(prefetch::ReadShared::new(&mut script)?),
            "compress" => Box::new(prefetch::Compress::new(&mut script)?),
            "db-bench" => Box::new(prefetch::DbBench::new(&mut script)?),
            "ycsb" => Box::new(prefetch::Ycsb::new(&mut script)?),
            _ => return Err(AppError::Script(format!("`{name}` is not a load; {KNOWN}"))),
        };
        script.end()?;
        Ok(Some(App { name, load }))
    }

    /// The load's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// See [`Load::phases`].
    pub fn phases(&self) -> u32 {
        self.load.phases()
    }

    /// See [`Load::seconds_guess`].
    pub fn seconds_guess(&self) -> f64 {
        self.load.seconds_guess()
    }

    /// See [`Load::programs`].
    pub fn programs(&self) -> &'static [&'static str] {
        self.load.programs()
    }

    /// See [`Load::provide`].
    ///
    /// # Errors
    /// As [`Load::provide`].
    pub fn provide(&self, home: &Path, tell: &mut dyn FnMut(&str)) -> Result<(), AppError> {
        self.load.provide(home, tell)
    }

    /// Runs one phase and returns what it measured.
    ///
    /// # Errors
    /// As [`Load::run`].
    pub fn run(&self, phase: u32, place: Place<'_>, hooks: Hooks<'_>) -> Result<Outcome, AppError> {
        let mut bench = Bench::new(hooks);
        self.load.run(phase, place, &mut bench)?;
        Ok(bench.outcome())
    }
}

const KNOWN: &str = "known are large-file, random-write, tokubench, tree, git, tar, rsync, imap, read-private, \
     read-shared, compress, db-bench, ycsb";

/// Joins what the phases of a trial measured, in their order.
pub fn join(phases: impl IntoIterator<Item = Outcome>) -> Option<Outcome> {
    phases.into_iter().reduce(|mut all, one| {
        all.measured_seconds += one.measured_seconds;
        all.ops.extend(one.ops);
        all.metrics.extend(one.metrics);
        all.notes.extend(one.notes.into_iter().filter(|note| !all.notes.contains(note)).collect::<Vec<_>>());
        all.ended = one.ended;
        all
    })
}
