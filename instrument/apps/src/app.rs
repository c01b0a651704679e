//! The loads by name: reading a script makes one of them.

use std::path::Path;

use stats::Outcome;

use crate::{AppError, Bench, Hooks, Load, Place, Script};
use crate::{imap, micro, prefetch, programs};

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
