//! A load as a whole: its database is made and filled, then used and checked.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use camino::{Utf8Path, Utf8PathBuf};
use serve::UsedSeconds;
pub use serve::{LoadSite, Moment};
use stats::metric::{Metric, names};
use stats::{Ended, Outcome};

use crate::db::{Address, Connection, DbError};
use crate::drive::{self, AnyTerminal, Caller, Kind, Pace};
use crate::engine::Engine;
use crate::random::Random;
use crate::server::{self, Flush, Server, Settings};
use crate::sysbench::Oltp;
use crate::tpcc::{self, Constants, Ledger, Person};
use crate::{SqlError, settle};

/// Name of the data directory on the stack.
const DATA: &str = "database";
/// Connections beside those of the terminals: for checks, and those that an engine keeps for itself.
const CONNECTIONS_MORE: u32 = 20;
/// Transactions that a note shows by 5 seconds, at most: two hours.
const FIVES_MAX: usize = 1440;

/// What runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// A mix of sysbench.
    Oltp(Oltp),
    /// TPC-C.
    Tpcc {
        /// The size of the database.
        size: tpcc::Size,
        /// Whether terminals key and think.
        waits: bool,
    },
}

/// A load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// What runs.
    pub what: What,
    /// What stores the rows.
    pub engine: Engine,
    /// Terminals, each with a connection.
    pub terminals: u32,
    /// See [`Settings::cache_bytes`].
    pub cache_bytes: u64,
    /// See [`Settings::log_bytes`].
    pub log_bytes: u64,
    /// See [`Settings::flush`].
    pub flush: Flush,
    /// A server that runs already, instead of a private one.
    pub address: Option<workload::Address>,
}

/// A server in use.
#[derive(Debug)]
enum Host {
    Private(Box<Server>),
    Given(Engine, Address),
}

impl Host {
    fn connect(&self) -> Result<Connection, DbError> {
        match self {
            Host::Private(server) => server.connect(),
            Host::Given(engine, address) => {
                let mut connection = Connection::open(*engine, address, false)?;
                let isolation = match engine.is_mysql() {
                    true => "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
                    false => "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED",
                };
                connection.plain(isolation)?;
                Ok(connection)
            }
        }
    }

    fn judge(&mut self, what: &str, error: DbError) -> SqlError {
        match self {
            Host::Private(server) => server.judge(what, error),
            Host::Given(..) => SqlError::Database { what: what.into(), error },
        }
    }

    fn stop(self) -> Result<(), SqlError> {
        match self {
            Host::Private(server) => server.stop(),
            Host::Given(..) => Ok(()),
        }
    }
}

impl What {
    /// The kinds of transactions.
    pub fn kinds(&self) -> Vec<Kind> {
        match self {
            What::Oltp(oltp) => oltp.mix.kinds().to_vec(),
            What::Tpcc { .. } => tpcc::KINDS.to_vec(),
        }
    }

    /// Names of its tables.
    pub fn tables(&self) -> Vec<String> {
        match self {
            What::Oltp(oltp) => oltp.table_names(),
            What::Tpcc { .. } => tpcc::TABLES.map(String::from).to_vec(),
        }
    }
}

impl Job {
    /// The settings of its private server.
    pub fn settings(&self, flush: Flush) -> Settings {
        Settings {
            engine: self.engine,
            cache_bytes: self.cache_bytes,
            log_bytes: self.log_bytes,
            flush,
            connections: self.terminals + CONNECTIONS_MORE,
        }
    }

    /// Whether this machine has what it needs.
    ///
    /// # Errors
    /// [`SqlError::Unavailable`].
    pub fn check(&self) -> Result<(), SqlError> {
        match self.address {
            Some(_) => Ok(()),
            None => server::check(&self.settings(self.flush)),
        }
    }

    /// The data directory below the root of a stack.
    pub fn data(root: &Utf8Path) -> Utf8PathBuf {
        root.join(DATA)
    }

    fn host(&self, flush: Flush, place: &LoadSite<'_>) -> Result<Host, SqlError> {
        if let Some(url) = &self.address {
            return Ok(Host::Given(self.engine, Address::Url(url.clone())));
        }
        let data = Job::data(place.root);
        let server = Server::start(&self.settings(flush), &data, place.temporary, place.journal)?;
        Ok(Host::Private(Box::new(server)))
    }

    /// Makes the database and fills it, and leaves it written out and at rest. A private server commits lazily
    /// meanwhile.
    ///
    /// # Errors
    /// What failed; the tables are there already at a given address.
    pub fn fill(&self, place: &LoadSite<'_>) -> Result<(), SqlError> {
        if self.address.is_none() {
            (place.tell)("making the data directory");
            server::create(&self.settings(self.flush), &Job::data(place.root))?;
        }
        let mut host = self.host(Flush::EachSecond, place)?;
        self.must_be_absent(&mut host)?;
        let filled = self.fill_at(&mut host, place);
        // a table that was there after all is not ours, and others may not be either
        let are_ours = !matches!(&filled, Err(SqlError::Database { error: DbError::TableExists(_), .. }));
        if filled.is_err() && are_ours {
            // the first error is the one that is told
            let _ = self.take_away(&host);
        }
        filled?;
        host.stop()
    }

    /// Whether a server at an address has no tables of these names: what is there is not overwritten.
    fn must_be_absent(&self, host: &mut Host) -> Result<(), SqlError> {
        let connected = host.connect();
        let mut connection = connected.map_err(|error| host.judge("connecting", error))?;
        let tables = self.address.as_ref().map(|_| self.what.tables());
        for table in tables.into_iter().flatten() {
            match connection.ask(&format!("SELECT COUNT(*) FROM {table}")) {
                Err(DbError::NoTable(_)) => {}
                Ok(_) => {
                    return Err(SqlError::Parameter(format!(
                        "the database holds a table `{table}` already, which loadline does not overwrite; name an empty database"
                    )));
                }
                // it may be there, and somebody's
                Err(error) => {
                    return Err(host.judge(&format!("looking whether there is a table {table}"), error));
                }
            }
        }
        Ok(())
    }

    /// Takes away what was written at an address.
    fn take_away(&self, host: &Host) -> Result<(), SqlError> {
        if self.address.is_none() {
            return Ok(());
        }
        let mut connection = host.connect().map_err(SqlError::doing("connecting"))?;
        self.what.tables().iter().try_for_each(|table| {
            let dropped = connection.plain(&format!("DROP TABLE IF EXISTS {table}"));
            dropped.map_err(SqlError::doing("dropping tables"))
        })
    }

    fn fill_at(&self, host: &mut Host, place: &LoadSite<'_>) -> Result<(), SqlError> {
        if let What::Tpcc { .. } = &self.what {
            // a table of sysbench is made when it is filled
            tpcc::create(&mut host.connect().map_err(SqlError::doing("connecting"))?)?;
        }
        (place.tell)("filling tables");
        self.fill_tables(host, place)?;
        (place.tell)("waiting until the engine is at rest");
        let mut connection = host.connect().map_err(SqlError::doing("connecting"))?;
        settle::settle(&mut connection, &self.what.tables(), self.address.is_none(), place.stopped)
    }

    /// Fills tables, as many at once as there are processors.
    fn fill_tables(&self, host: &mut Host, place: &LoadSite<'_>) -> Result<(), SqlError> {
        let parts = match &self.what {
            What::Oltp(oltp) => oltp.tables as usize,
            What::Tpcc { size, .. } => 1 + size.warehouses as usize,
        };
        let workers = std::thread::available_parallelism().map_or(1, usize::from).min(parts);
        let (next, failed) = (AtomicUsize::new(0), Mutex::new(None));
        let (seed, stopped) = (place.seed, place.stopped);
        let host_ref: &Host = host;
        std::thread::scope(|scope| {
            for _ in 0..workers {
                scope.spawn(|| {
                    let filled = self.fill_parts(host_ref, seed, parts, &next, stopped);
                    if let Err(error) = filled {
                        // the others end as well
                        next.store(parts, Ordering::Relaxed);
                        failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                    }
                });
            }
        });
        match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(SqlError::Database { what, error }) => return Err(host.judge(&what, error)),
            Some(error) => return Err(error),
            None => {}
        }
        match &self.what {
            What::Oltp(_) => Ok(()),
            What::Tpcc { .. } => {
                let mut connection = host.connect().map_err(SqlError::doing("connecting"))?;
                tpcc::index(&mut connection)
            }
        }
    }

    fn fill_parts(
        &self,
        host: &Host,
        seed: u64,
        parts: usize,
        next: &AtomicUsize,
        stopped: &dyn Fn() -> bool,
    ) -> Result<(), SqlError> {
        let mut connection = host.connect().map_err(SqlError::doing("connecting"))?;
        loop {
            let part = next.fetch_add(1, Ordering::Relaxed);
            if part >= parts {
                return Ok(());
            }
            match &self.what {
                What::Oltp(oltp) => oltp.fill(part as i64 + 1, &mut connection, seed, stopped)?,
                What::Tpcc { size, .. } if part == 0 => tpcc::items(size, &mut connection, seed, stopped)?,
                What::Tpcc { size, .. } => {
                    tpcc::warehouse(size, part as i64, &mut connection, seed, stopped)?
                }
            }
        }
    }

    /// The terminals of a run.
    ///
    /// # Errors
    /// A connection is refused.
    fn terminals(
        &self,
        connect: &dyn Fn() -> Result<Connection, DbError>,
        seeds: Seeds,
        ledger: Option<&Arc<Ledger>>,
    ) -> Result<Vec<AnyTerminal<'static>>, DbError> {
        let one = |number: u32| -> Result<AnyTerminal<'static>, DbError> {
            let connection = connect()?;
            match &self.what {
                What::Oltp(oltp) => {
                    let random = Random::of_terminal(seeds.of_run, number);
                    Ok(Box::new(oltp.terminal(connection, random)?))
                }
                What::Tpcc { size, waits } => {
                    let person = Person {
                        number,
                        size: *size,
                        constants: Constants::of(seeds.of_run),
                        seed: seeds.of_run,
                        run: seeds.run,
                        waits: *waits,
                        ledger: ledger.cloned(),
                    };
                    Ok(Box::new(person.at(connection)?))
                }
            }
        };
        (0..self.terminals).map(one).collect()
    }

    /// Runs the load on a database that is filled, and checks it afterwards unless it was interrupted.
    ///
    /// # Errors
    /// What failed: a server that has died is told with the end of its log, a violated condition by its number.
    pub fn measure(&self, pace: &Pace, place: &LoadSite<'_>) -> Result<Outcome, SqlError> {
        let mut host = self.host(self.flush, place)?;
        let measured = self.measure_at(&mut host, pace, place);
        let taken_away = self.take_away(&host);
        let outcome = measured?;
        taken_away?;
        // who waits for an end does not wait for that of a private server
        if outcome.ended != Ended::Interrupted {
            host.stop()?;
        }
        Ok(outcome)
    }

    fn measure_at(&self, host: &mut Host, pace: &Pace, place: &LoadSite<'_>) -> Result<Outcome, SqlError> {
        let mut connection = host.connect().map_err(SqlError::doing("connecting"))?;
        let told = server::read_back(&mut connection)?;
        let seeds = Seeds { of_run: place.seed, run: 0 };
        let made = self.terminals(&|| host.connect(), seeds, None);
        let terminals = made.map_err(|error| host.judge("connecting terminals", error))?;
        (place.tell)("running transactions");
        let used = UsedSeconds::default();
        let moment = |moment| {
            used.at(moment, cpu_seconds(host));
            (place.moment)(moment);
        };
        let caller = Caller { moment: &moment, ..place.caller() };
        let driven = drive::drive(&self.what.kinds(), terminals, pace, caller);
        if let Some(error) = driven.failed {
            return Err(host.judge("running transactions", error));
        }
        let mut outcome = driven.outcome;
        let server_seconds =
            used.seconds().map(|value| Metric::machine(names::SERVER_CPU_SECONDS, "s", value));
        outcome.metrics.extend(server_seconds);
        let settings: Vec<String> = told.iter().map(|(name, value)| format!("{name}={value}")).collect();
        outcome.notes.push(format!("{}: {}", self.engine, settings.join(", ")));
        // nor for checks
        if let (What::Tpcc { .. }, true) = (&self.what, outcome.ended != Ended::Interrupted) {
            (place.tell)("checking consistency");
            self.tell_tpcc(&mut outcome, &mut connection)?;
        }
        Ok(outcome)
    }

    fn tell_tpcc(&self, outcome: &mut Outcome, connection: &mut Connection) -> Result<(), SqlError> {
        let conditions = tpcc::conditions(connection)?;
        if let Some(broken) = conditions.iter().find(|condition| condition.violations > 0) {
            return Err(SqlError::Inconsistent(format!(
                "consistency condition {} of TPC-C ({}) is violated {} times",
                broken.number, broken.rule, broken.violations
            )));
        }
        let numbers: Vec<String> = conditions.iter().map(|condition| condition.number.to_string()).collect();
        outcome
            .notes
            .push(format!("consistency conditions {} of TPC-C hold after the run", numbers.join(", ")));
        let seconds = outcome.measured_seconds.max(f64::MIN_POSITIVE);
        let orders = &outcome.ops[tpcc::NEW_ORDER];
        let per_minute = orders.ops as f64 * 60.0 / seconds;
        let mut fives = vec![
            ("all transactions", drive::by_five_seconds(&outcome.io_ops_by_second())),
            ("New-Order", drive::by_five_seconds(&orders.ops_per_second)),
        ];
        outcome.metrics.push(Metric::rate(names::NEW_ORDERS_PER_MINUTE, "1/min", per_minute));
        for (name, numbers) in &mut fives {
            numbers.truncate(FIVES_MAX);
            if !numbers.is_empty() {
                let shown: Vec<String> = numbers.iter().map(u64::to_string).collect();
                outcome.notes.push(format!("{name} in each 5 s: {}", shown.join(" ")));
            }
        }
        Ok(())
    }

    /// Terminals at a private server; with a ledger they write down in it what is acknowledged to them.
    ///
    /// # Errors
    /// A connection is refused.
    pub fn seat(
        &self,
        server: &Server,
        seeds: Seeds,
        ledger: Option<&Arc<Ledger>>,
    ) -> Result<Vec<AnyTerminal<'static>>, DbError> {
        self.terminals(&|| server.connect(), seeds, ledger)
    }
}

/// Seeds of a run on a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seeds {
    /// The seed that the database was filled with.
    pub of_run: u64,
    /// Number of the run on it, from 0.
    pub run: u32,
}

/// Processor seconds that a private server has used so far.
fn cpu_seconds(host: &Host) -> Option<f64> {
    match host {
        Host::Private(server) => server.cpu_seconds(),
        Host::Given(..) => None,
    }
}
