//! A load as a whole: its records are loaded, then used and checked.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};
use serve::drive::{self, Caller, DriveOutcome, Pace};
use serve::{LoadSite, UsedSeconds};
use stats::metric::{Metric, names};
use stats::{Ended, OpClass, Outcome};

use crate::KvError;
use crate::client::{self, Shared};
use crate::embedded::sqlite::COLUMNS_MAX;
use crate::embedded::terminal::{self, SessionTerminal};
use crate::embedded::{self, Embedded, Settings, rocksdb};
use crate::engine::Engine;
use crate::patterns::{self, Bench};
use crate::record::Names;
use crate::redis::mux::{self, Layout};
use crate::redis::resp::Login;
use crate::redis::ring::Ring;
use crate::redis::{AppendPolicy, Servers, fill, server};
use crate::workload::Workload;

/// Name of the data directory on the stack.
const DATA: &str = "kv";
/// A disk with less room than this is full.
const FULL_BYTES: u64 = 1 << 20;
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
    /// When a write is on the device. Engines in the process have `Written` and `Always`.
    pub flush: AppendPolicy,
    /// Operations that each connection to Redis has under way at once.
    pub pipeline: u32,
    /// Threads that serve the connections to Redis.
    pub threads: u32,
    /// A Redis that runs already, instead of a private one.
    pub address: Option<Login>,
}

impl Job {
    /// Whether its values fit together, and this machine has what it needs.
    ///
    /// # Errors
    /// [`KvError::Parameter`], [`KvError::Unavailable`].
    pub fn check(&self) -> Result<(), KvError> {
        if !self.engine.is_embedded() {
            return if self.address.is_some() { Ok(()) } else { server::check() };
        }
        if self.address.is_some() {
            return Err(KvError::Parameter(format!(
                "{} runs in the process: it has no address",
                self.engine
            )));
        }
        if !matches!(self.flush, AppendPolicy::Written | AppendPolicy::Always) {
            return Err(KvError::Parameter(format!("{} has flush = 0 and flush = 1 only", self.engine)));
        }
        let columns = Names::of(&self.workload).len() as u64 + 1;
        if self.engine == Engine::Sqlite && columns > COLUMNS_MAX {
            return Err(KvError::Parameter(format!(
                "fieldcount = {}: a table of SQLite has up to {COLUMNS_MAX} columns, the key among them",
                self.workload.fields
            )));
        }
        embedded::check(self.engine)
    }

    /// Refuses a stack that cannot hold the records: RocksDB as Debian builds it, with assertions, ends the process when its
    /// disk is full.
    fn fits(&self, place: &LoadSite<'_>) -> Result<(), KvError> {
        room(place.root, self.workload.bytes())
    }

    fn layout(&self) -> Layout {
        Layout {
            terminals: self.terminals,
            pipeline: self.pipeline,
            threads: self.threads,
            cluster: self.engine == Engine::RedisCluster,
        }
    }

    /// The server of a load on Redis: a private one on the data of the stack, or the one at the address.
    fn serve(&self, log: AppendPolicy, place: &LoadSite<'_>) -> Result<Serving, KvError> {
        if let Some(login) = &self.address {
            return Ok(Serving { login: login.clone(), servers: None });
        }
        let data = Job::data(place.root);
        let cluster = self.engine == Engine::RedisCluster;
        let connections = self.terminals;
        let servers = Servers::start(cluster, log, connections, &data, place.temporary, place.journal)?;
        Ok(Serving { login: servers.first(), servers: Some(servers) })
    }

    /// The data directory below the root of a stack.
    pub fn data(root: &Utf8Path) -> Utf8PathBuf {
        root.join(DATA)
    }

    fn open(&self, place: &LoadSite<'_>) -> Result<Box<dyn Embedded>, KvError> {
        let settings = Settings {
            cache_bytes: self.cache_bytes,
            sync: self.flush == AppendPolicy::Always,
            sessions: self.terminals,
        };
        embedded::open(self.engine, &Job::data(place.root), &settings, &Names::of(&self.workload))
    }

    /// Loads the records, and leaves them written out and at rest.
    ///
    /// # Errors
    /// What failed.
    pub fn fill(&self, place: &LoadSite<'_>) -> Result<(), KvError> {
        self.check()?;
        if self.address.is_none() {
            self.fits(place)?;
        }
        if !self.engine.is_embedded() {
            return self.fill_redis(place);
        }
        let shared = Shared::new(&self.workload, place.seed)?;
        let progress = Progress::new(self.workload.insert_count);
        let (db, stopped) = (self.open(place)?, place.stopped);
        let loaded =
            progress.watched(place, |progress| terminal::load(&*db, self.engine, &shared, stopped, progress));
        loaded.map_err(|error| judge(place.root, error))?;
        (place.tell)("waiting until the engine is at rest");
        db.settle(stopped).map_err(|error| judge(place.root, error))
    }

    /// Runs the load on records that are there, and checks them afterwards if it is to verify and was not interrupted.
    ///
    /// # Errors
    /// What failed: a wrong value by its record and key.
    pub fn measure(&self, pace: &Pace, place: &LoadSite<'_>) -> Result<Outcome, KvError> {
        self.check()?;
        if !self.engine.is_embedded() {
            return self.measure_redis(pace, place);
        }
        let shared = Shared::new(&self.workload, place.seed)?;
        let db = self.open(place)?;
        let kinds = client::kinds(&self.workload);
        let one = |number| SessionTerminal::new(&*db, &shared, number, self.terminals);
        let terminals = (0..self.terminals).map(one).collect::<Result<Vec<_>, _>>()?;
        (place.tell)("running operations");
        let driven = drive::drive(&kinds, terminals, pace, place.caller());
        let mut outcome = outcome(driven).map_err(|error| judge(place.root, error))?;
        outcome.metrics.extend(shared.metrics());
        outcome.notes.push(told(self.engine, &db.settings()));
        if self.workload.verify && outcome.ended != Ended::Interrupted {
            (place.tell)("reading all records");
            let records = terminal::read_all(&*db, &shared, place.stopped)?;
            outcome.notes.push(all_right(records));
        }
        Ok(outcome)
    }
}

/// Bytes that are free in a directory.
fn free_bytes(root: &Utf8Path) -> Result<u64, KvError> {
    let stat = rustix::fs::statvfs(root.as_std_path()).map_err(|error| KvError::at(root)(error.into()))?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// What an engine's error means where no room is left: LMDB says that a write which the disk cut short is an I/O error.
fn judge(root: &Utf8Path, error: KvError) -> KvError {
    match error {
        KvError::Engine(text) if free_bytes(root).is_ok_and(|free| free < FULL_BYTES) => KvError::Full(text),
        other => other,
    }
}

/// Refuses a directory without so much room.
fn room(root: &Utf8Path, bytes: u64) -> Result<(), KvError> {
    let free = free_bytes(root)?;
    if bytes <= free {
        return Ok(());
    }
    Err(KvError::Full(format!(
        "the records take about {} MiB, and {root} has room for {} MiB",
        bytes >> 20,
        free >> 20
    )))
}

/// One of db_bench's patterns on RocksDB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PatternJob {
    /// The pattern and its sizes.
    pub bench: Bench,
    /// Threads that are counted.
    pub threads: u32,
    /// Bytes of the block cache; none: the library's default, 8 MiB.
    pub cache_bytes: Option<u64>,
    /// A write is on the device before it is acknowledged.
    pub sync: bool,
}

impl PatternJob {
    /// Opens its database at a place, with the options that db_bench has.
    ///
    /// # Errors
    /// No library, or what RocksDB says.
    pub fn open(&self, root: &Utf8Path, seed: u64) -> Result<patterns::Shared, KvError> {
        let data = Job::data(root);
        std::fs::create_dir_all(&data).map_err(KvError::at(&data))?;
        let options = rocksdb::Options {
            cache_bytes: self.cache_bytes,
            bloom_bits: 0.0,
            file_bytes: None,
            sync: self.sync,
            as_db_bench: true,
        };
        let db = rocksdb::Db::open(data.as_std_path(), &options)?;
        Ok(patterns::Shared::new(db, &self.bench, self.threads, seed))
    }

    /// Fills the database with all keys, compacts it, and leaves it at rest; nothing for a pattern that begins with an
    /// empty one.
    ///
    /// # Errors
    /// What failed.
    pub fn fill(&self, place: &LoadSite<'_>) -> Result<(), KvError> {
        room(
            place.root,
            self.bench.keys.saturating_mul((patterns::KEY_BYTES + self.bench.value_bytes) as u64),
        )?;
        let shared = self.open(place.root, place.seed)?;
        if self.bench.pattern.is_fresh() {
            return Ok(());
        }
        let progress = Progress::new(self.bench.keys);
        let stopped = place.stopped;
        progress.watched(place, |progress| shared.fill(stopped, progress))?;
        (place.tell)("compacting");
        shared.db().flush()?;
        shared.db().compact();
        shared.db().settle(place.stopped)
    }

    /// Runs the pattern.
    ///
    /// # Errors
    /// What failed.
    pub fn measure(&self, pace: &Pace, place: &LoadSite<'_>) -> Result<Outcome, KvError> {
        let shared = self.open(place.root, place.seed)?;
        (place.tell)(self.bench.pattern.name());
        let kinds = self.bench.pattern.kinds();
        let driven = drive::drive(&kinds, shared.threads(self.threads), pace, place.caller());
        let mut outcome = outcome(driven)?;
        // what runs beside the pattern is no part of the total
        outcome.ops.iter_mut().skip(1).for_each(|op| op.class = OpClass::Other);
        outcome.metrics.extend(shared.metrics());
        outcome.notes.push(told(Engine::RocksDb, &shared.db().settings()));
        Ok(outcome)
    }
}

/// A Redis in use.
struct Serving {
    login: Login,
    servers: Option<Servers>,
}

impl Serving {
    fn judge(&mut self, what: &str, error: KvError) -> KvError {
        match &mut self.servers {
            Some(servers) => servers.judge(what, error),
            None => error,
        }
    }

    fn settings(&self, layout: &Layout) -> Result<Vec<(String, String)>, KvError> {
        match &self.servers {
            Some(servers) => servers.settings(),
            None => server::settings(&self.login, layout.cluster.then_some(0)),
        }
    }

    fn cpu_seconds(&self) -> Option<f64> {
        self.servers.as_ref().and_then(Servers::cpu_seconds)
    }

    fn stop(self) -> Result<(), KvError> {
        self.servers.map_or(Ok(()), Servers::stop)
    }
}

impl Job {
    fn fill_redis(&self, place: &LoadSite<'_>) -> Result<(), KvError> {
        let shared = Shared::new(&self.workload, place.seed)?;
        let progress = Progress::new(self.workload.insert_count);
        let mut serving = self.serve(AppendPolicy::None, place)?;
        let cluster = self.layout().cluster;
        let login = serving.login.clone();
        let given = self.address.is_some();
        let stopped = place.stopped;
        let loaded = progress.watched(place, |progress| {
            let mut ring = Ring::connect(&login, cluster)?;
            if !given {
                return fill::load(&mut ring, &shared, stopped, progress);
            }
            fill::must_be_empty(&mut ring)?;
            let loaded = fill::load(&mut ring, &shared, stopped, progress);
            if loaded.is_err() {
                // the first error is the one that is told
                let _ = fill::take_away(&login, cluster, &shared);
            }
            loaded
        });
        loaded.map_err(|error| serving.judge("loading records", error))?;
        if let Some(servers) = &mut serving.servers {
            (place.tell)("saving the data");
            servers.save()?;
        }
        serving.stop()
    }

    fn measure_redis(&self, pace: &Pace, place: &LoadSite<'_>) -> Result<Outcome, KvError> {
        let shared = Shared::new(&self.workload, place.seed)?;
        let mut serving = self.serve(self.flush, place)?;
        let measured = self.measure_at(&mut serving, &shared, pace, place);
        let taken_away = match &self.address {
            Some(login) => fill::take_away(login, self.layout().cluster, &shared),
            None => Ok(()),
        };
        let outcome = measured?;
        taken_away?;
        serving.stop()?;
        Ok(outcome)
    }

    fn measure_at(
        &self,
        serving: &mut Serving,
        shared: &Arc<Shared>,
        pace: &Pace,
        place: &LoadSite<'_>,
    ) -> Result<Outcome, KvError> {
        let layout = self.layout();
        let redirections = Arc::new(AtomicU64::new(0));
        let made = mux::parts(&serving.login, &layout, shared, &redirections);
        let parts = made.map_err(|error| serving.judge("connecting terminals", error))?;
        let kinds = client::kinds(&self.workload);
        (place.tell)("running operations");
        let used = UsedSeconds::default();
        let moment = |moment| {
            used.at(moment, serving.cpu_seconds());
            (place.moment)(moment);
        };
        let caller = Caller { moment: &moment, ..place.caller() };
        let run = |part: mux::ThreadTerminals, clock: &drive::Clock<'_>| part.run(clock, kinds.len());
        let driven = drive::drive_with(&kinds, parts, pace, caller, run);
        let mut outcome = outcome(driven).map_err(|error| serving.judge("running operations", error))?;
        outcome.metrics.extend(shared.metrics());
        outcome
            .metrics
            .extend(used.seconds().map(|value| Metric::machine(names::SERVER_CPU_SECONDS, "s", value)));
        if layout.cluster {
            let followed = redirections.load(Ordering::Relaxed) as f64;
            outcome.metrics.push(Metric::process(names::REDIRECTIONS, "1", followed));
        }
        outcome.notes.push(told(self.engine, &serving.settings(&layout)?));
        if self.workload.verify && outcome.ended != Ended::Interrupted {
            (place.tell)("reading all records");
            let mut ring = Ring::connect(&serving.login, layout.cluster)?;
            outcome.notes.push(all_right(fill::read_all(&mut ring, shared, place.stopped)?));
        }
        Ok(outcome)
    }
}

fn all_right(records: u64) -> String {
    format!("all {records} records were read after the run and are right")
}

/// The settings of an engine in a line.
fn told(engine: Engine, settings: &[(String, String)]) -> String {
    let settings: Vec<String> = settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
    format!("{engine}: {}", settings.join(", "))
}

/// What was measured, if nothing failed; until the interruption, if there was one.
fn outcome(driven: DriveOutcome<KvError>) -> Result<Outcome, KvError> {
    if let Some(error) = driven.failed {
        return Err(error);
    }
    let mut outcome = driven.outcome;
    // nothing is rolled back or tried again here
    outcome.metrics.retain(|metric| ![names::RETRIES, names::ROLLED_BACK].contains(&metric.name.as_str()));
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
        place: &LoadSite<'_>,
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
                    (place.tell)(&format!(
                        "loading {} records: {} %",
                        self.records,
                        done * 100 / self.records
                    ));
                }
            }
            running.join().unwrap_or_else(|_| Err(KvError::Engine("the load panicked".into())))
        })
    }
}
