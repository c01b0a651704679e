//! A load as a whole: its records are loaded, then used and checked.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};
use serve::drive::{self, Driven, Pace};
use serve::{Moment, Place};
use stats::{Ended, Outcome};

use crate::client::{self, Shared};
use crate::embedded::terminal::{self, OnSession};
use crate::embedded::{self, Embedded, Settings};
use crate::engine::Engine;
use crate::workload::Workload;
use crate::KvError;

/// Name of the data directory on the stack.
const DATA: &str = "kv";
/// How often progress is told.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// A load.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// What runs.
    pub workload: Workload,
    /// What stores the records.
    pub engine: Engine,
    /// Terminals: threads with a session each; of a server, connections.
    pub terminals: u32,
    /// See [`Settings::cache_bytes`].
    pub cache_bytes: u64,
    /// A write is on the device before it is acknowledged.
    pub sync: bool,
}

impl Job {
    /// Whether this machine has what it needs.
    ///
    /// # Errors
    /// [`KvError::Unavailable`].
    pub fn check(&self) -> Result<(), KvError> {
        embedded::check(self.engine)
    }

    /// The data directory below the root of a stack.
    pub fn data(root: &Utf8Path) -> Utf8PathBuf {
        root.join(DATA)
    }

    fn open(&self, place: &Place<'_>) -> Result<Box<dyn Embedded>, KvError> {
        let settings = Settings {
            cache_bytes: self.cache_bytes,
            sync: self.sync,
            sessions: self.terminals,
            bytes: self.workload.bytes(),
        };
        embedded::open(self.engine, &Job::data(place.root), &settings)
    }

    /// Loads the records, and leaves them written out and at rest.
    ///
    /// # Errors
    /// What failed.
    pub fn fill(&self, place: &Place<'_>) -> Result<(), KvError> {
        let shared = Shared::new(&self.workload, place.seed)?;
        let progress = Progress::new(self.workload.insert_count);
        let db = self.open(place)?;
        progress.watched(place, |progress| {
            terminal::load(&*db, self.engine, &shared, place.stopped, progress)
        })?;
        (place.tell)("waiting until the engine is at rest");
        db.settle(place.stopped)
    }

    /// Runs the load on records that are there, and checks them afterwards if it is to verify.
    ///
    /// # Errors
    /// What failed: a wrong value by its record and key.
    pub fn measure(&self, pace: &Pace, place: &Place<'_>) -> Result<Outcome, KvError> {
        let shared = Shared::new(&self.workload, place.seed)?;
        let db = self.open(place)?;
        let kinds = client::kinds(&self.workload);
        let one = |number| OnSession::new(&*db, &shared, number, self.terminals);
        let terminals = (0..self.terminals).map(one).collect::<Result<Vec<_>, _>>()?;
        (place.tell)("running operations");
        (place.moment)(Moment::Begin);
        let driven = drive::drive(&kinds, terminals, pace, place.stopped);
        (place.moment)(Moment::End);
        let mut outcome = outcome(driven)?;
        outcome.metrics.extend(shared.metrics());
        outcome.notes.push(told(self.engine, &db.settings()));
        if self.workload.verify {
            (place.tell)("reading all records");
            let records = terminal::read_all(&*db, &shared, place.stopped)?;
            outcome.notes.push(format!("all {records} records were read after the run and are right"));
        }
        Ok(outcome)
    }
}

/// The settings of an engine in a line.
fn told(engine: Engine, settings: &[(String, String)]) -> String {
    let settings: Vec<String> = settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
    format!("{engine}: {}", settings.join(", "))
}

/// What was measured, if nothing failed.
fn outcome(driven: Driven<KvError>) -> Result<Outcome, KvError> {
    if let Some(error) = driven.failed {
        return Err(error);
    }
    let mut outcome = driven.outcome;
    if outcome.ended == Ended::Interrupted {
        return Err(KvError::Interrupted);
    }
    // nothing is rolled back or tried again here
    outcome.metrics.clear();
    outcome.ops.iter_mut().for_each(|op| op.kind = "operation".into());
    Ok(outcome)
}

/// Tells how much of a load is done.
struct Progress {
    records: u64,
    done: Mutex<u64>,
}

impl Progress {
    fn new(records: u64) -> Progress {
        Progress { records, done: Mutex::new(0) }
    }

    /// Runs the load on a thread of its own and tells meanwhile, since a teller belongs to one thread.
    fn watched(
        &self,
        place: &Place<'_>,
        load: impl FnOnce(&(dyn Fn(u64) + Sync)) -> Result<(), KvError> + Send,
    ) -> Result<(), KvError> {
        let set = |done: u64| {
            if let Ok(mut last) = self.done.lock() {
                *last = done.max(*last);
            }
        };
        (place.tell)(&format!("loading {} records", self.records));
        std::thread::scope(|scope| {
            let running = scope.spawn(|| load(&set));
            let mut told = Instant::now();
            while !running.is_finished() {
                std::thread::sleep(Duration::from_millis(5));
                if told.elapsed() >= TELL_EVERY {
                    told = Instant::now();
                    let done = self.done.lock().map_or(0, |done| *done);
                    (place.tell)(&format!("loading {} records: {} %", self.records, done * 100 / self.records));
                }
            }
            running.join().unwrap_or_else(|_| Err(KvError::Engine("the load panicked".into())))
        })
    }
}
