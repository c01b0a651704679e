//! The loads by name.

use std::path::Path;

use kv::patterns::Pattern;
use sql::sysbench::Mix;
use stats::Outcome;

use crate::key_values::{KeyValues, Patterns};
use crate::span::{self, PhaseTotals, Span};
use crate::{AppError, Bench, Hooks, Load, LoadSite, Parameters};
use crate::{databases, imap, key_values, micro, parallel, prefetch, programs, recorded};

/// A load with its name.
#[derive(Debug)]
pub struct App {
    name: &'static str,
    load: Box<dyn Load>,
}

/// The loads whose options are those of the programs of these names.
const IOR: &str = "ior";
const MDTEST: &str = "mdtest";
const IO500: &str = "io500";

/// The load that runs fio itself.
pub const FIO: &str = "fio";

/// Makes a load of its parameters.
type Make = fn(&mut Parameters) -> Result<Box<dyn Load>, AppError>;

/// Every load.
const LOADS: [(&str, Make); 46] = [
    (IOR, |parameters| Ok(Box::new(parallel::Ior::new(parameters)?))),
    (IO500, |parameters| Ok(Box::new(parallel::Io500::new(parameters)?))),
    (MDTEST, |parameters| Ok(Box::new(parallel::Mdtest::new(parameters)?))),
    ("large-file", |parameters| Ok(Box::new(micro::LargeFile::new(parameters)?))),
    ("random-write", |parameters| Ok(Box::new(micro::RandomWrite::new(parameters)?))),
    ("tokubench", |parameters| Ok(Box::new(micro::TokuBench::new(parameters)?))),
    ("tree", |parameters| Ok(Box::new(micro::Tree::new(parameters)?))),
    ("git", |parameters| Ok(Box::new(programs::Git::new(parameters)?))),
    ("tar", |parameters| Ok(Box::new(programs::Tar::new(parameters)?))),
    ("rsync", |parameters| Ok(Box::new(programs::Rsync::new(parameters)?))),
    ("compile", |parameters| Ok(Box::new(programs::Compile::new(parameters)?))),
    ("dbench", |parameters| Ok(Box::new(programs::Dbench::new(parameters)?))),
    (FIO, |parameters| Ok(Box::new(programs::Fio::new(parameters)?))),
    ("sysbench", |parameters| Ok(Box::new(programs::Sysbench::new(parameters)?))),
    ("imap", |parameters| Ok(Box::new(imap::Imap::new(parameters)?))),
    (recorded::NAME, |parameters| Ok(Box::new(recorded::Recorded::new(parameters)?))),
    ("read-private", |parameters| Ok(Box::new(prefetch::ReadPrivate::new(parameters)?))),
    ("read-shared", |parameters| Ok(Box::new(prefetch::ReadShared::new(parameters)?))),
    ("compress", |parameters| Ok(Box::new(prefetch::Compress::new(parameters)?))),
    ("db-bench", |parameters| Ok(Box::new(prefetch::DbBench::new(parameters)?))),
    ("ycsb", |parameters| Ok(Box::new(prefetch::Ycsb::new(parameters)?))),
    ("ycsb-a", |parameters| Ok(Box::new(KeyValues::ycsb(Some('a'), parameters)?))),
    ("ycsb-b", |parameters| Ok(Box::new(KeyValues::ycsb(Some('b'), parameters)?))),
    ("ycsb-c", |parameters| Ok(Box::new(KeyValues::ycsb(Some('c'), parameters)?))),
    ("ycsb-d", |parameters| Ok(Box::new(KeyValues::ycsb(Some('d'), parameters)?))),
    ("ycsb-e", |parameters| Ok(Box::new(KeyValues::ycsb(Some('e'), parameters)?))),
    ("ycsb-f", |parameters| Ok(Box::new(KeyValues::ycsb(Some('f'), parameters)?))),
    (key_values::CORE, |parameters| Ok(Box::new(KeyValues::ycsb(None, parameters)?))),
    ("fillseq", |parameters| Ok(Box::new(Patterns::new(Pattern::FillSeq, parameters)?))),
    ("fillrandom", |parameters| Ok(Box::new(Patterns::new(Pattern::FillRandom, parameters)?))),
    ("overwrite", |parameters| Ok(Box::new(Patterns::new(Pattern::Overwrite, parameters)?))),
    ("readrandom", |parameters| Ok(Box::new(Patterns::new(Pattern::ReadRandom, parameters)?))),
    ("multireadrandom", |parameters| Ok(Box::new(Patterns::new(Pattern::MultiReadRandom, parameters)?))),
    ("readseq", |parameters| Ok(Box::new(Patterns::new(Pattern::ReadSeq, parameters)?))),
    ("readreverse", |parameters| Ok(Box::new(Patterns::new(Pattern::ReadReverse, parameters)?))),
    ("readwhilewriting", |parameters| Ok(Box::new(Patterns::new(Pattern::ReadWhileWriting, parameters)?))),
    ("readwhilescanning", |parameters| Ok(Box::new(Patterns::new(Pattern::ReadWhileScanning, parameters)?))),
    ("tpcc", |parameters| Ok(Box::new(databases::Sql::tpcc(parameters)?))),
    ("oltp-insert", |parameters| Ok(Box::new(databases::Sql::oltp(Mix::Insert, parameters)?))),
    ("oltp-read-only", |parameters| Ok(Box::new(databases::Sql::oltp(Mix::ReadOnly, parameters)?))),
    ("oltp-write-only", |parameters| Ok(Box::new(databases::Sql::oltp(Mix::WriteOnly, parameters)?))),
    ("oltp-read-write", |parameters| Ok(Box::new(databases::Sql::oltp(Mix::ReadWrite, parameters)?))),
    ("oltp-point-select", |parameters| Ok(Box::new(databases::Sql::oltp(Mix::PointSelect, parameters)?))),
    ("oltp-update-index", |parameters| Ok(Box::new(databases::Sql::oltp(Mix::UpdateIndex, parameters)?))),
    ("oltp-update-non-index", |parameters| {
        Ok(Box::new(databases::Sql::oltp(Mix::UpdateNonIndex, parameters)?))
    }),
    ("oltp-delete", |parameters| Ok(Box::new(databases::Sql::oltp(Mix::Delete, parameters)?))),
];

impl App {
    /// The load of this name with these parameters; of two values of one parameter the later counts.
    ///
    /// # Errors
    /// A load or a parameter that is not known, a value that cannot be read.
    pub fn new(name: &str, variables: &[(String, String)]) -> Result<App, AppError> {
        let found = LOADS.iter().find(|(known, _)| *known == name);
        let (name, make) = found
            .ok_or_else(|| AppError::Unknown { name: name.to_string(), known: App::names().collect() })?;
        let mut parameters = Parameters::new(name, variables);
        let load = make(&mut parameters)?;
        parameters.end()?;
        Ok(App { name, load })
    }

    /// The load's name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// See [`Load::phases`].
    pub fn phases(&self) -> u32 {
        self.load.phases()
    }

    /// Whether a load has this name.
    pub fn is_known(name: &str) -> bool {
        App::names().any(|known| known == name)
    }

    /// The names of all loads.
    pub fn names() -> impl Iterator<Item = &'static str> {
        LOADS.iter().map(|(known, _)| *known)
    }

    /// See [`Load::takes_time`].
    pub fn takes_time(&self) -> bool {
        self.load.takes_time()
    }

    /// See [`Load::seconds_guess`].
    pub fn seconds_guess(&self) -> f64 {
        self.load.seconds_guess()
    }

    /// See [`Load::programs`].
    pub fn programs(&self) -> &'static [&'static str] {
        self.load.programs()
    }

    /// See [`Load::waits_at_gate`].
    pub fn waits_at_gate(&self) -> bool {
        self.load.waits_at_gate()
    }

    /// See [`Load::reads_host_files`].
    pub fn reads_host_files(&self) -> bool {
        self.load.reads_host_files()
    }

    /// See [`Load::server_memory_bytes`].
    pub fn server_memory_bytes(&self) -> Option<u64> {
        self.load.server_memory_bytes()
    }

    /// Names of the loads that do.
    pub fn that_wait_at_gate() -> Vec<&'static str> {
        let known = LOADS.iter().filter(|(name, make)| {
            make(&mut Parameters::new(name, &[])).is_ok_and(|load| load.waits_at_gate())
        });
        known.map(|(name, _)| *name).collect()
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
    pub fn run(&self, phase: u32, place: LoadSite<'_>, hooks: Hooks<'_>) -> Result<Outcome, AppError> {
        let mut bench = Bench::new(hooks);
        self.load.run(phase, place, &mut bench)?;
        let spans = bench.spans_alone();
        let mut outcome = bench.outcome();
        if let Some(spans) = spans {
            self.conclude(&[spans], 0, &mut outcome);
        }
        Ok(outcome)
    }

    /// Puts into the joined outcome of all tasks what they did together, by their spans on one clock that is known to
    /// `bound_ns`.
    pub fn conclude(&self, tasks: &[Vec<Span>], bound_ns: i64, outcome: &mut Outcome) {
        let joint = PhaseTotals::of(tasks, bound_ns);
        span::conclude(tasks, &joint, outcome);
        self.load.conclude(&joint, outcome);
    }

    /// See [`Load::takes_ranks`].
    pub fn takes_ranks(&self) -> bool {
        self.load.takes_ranks()
    }

    /// Whether a load has options of its own, as a text: those of the program whose patterns it has.
    pub fn has_options(name: &str) -> bool {
        [IOR, MDTEST, IO500].contains(&name)
    }
}

/// Joins what the phases of a trial measured, in their order.
pub fn join(phases: impl IntoIterator<Item = Outcome>) -> Option<Outcome> {
    phases.into_iter().reduce(|mut all, one| {
        all.measured_seconds += one.measured_seconds;
        all.warmup_seconds += one.warmup_seconds;
        all.ops.extend(one.ops);
        all.metrics.extend(one.metrics);
        all.notes.extend(one.notes.into_iter().filter(|note| !all.notes.contains(note)).collect::<Vec<_>>());
        all.ended = one.ended;
        all
    })
}
