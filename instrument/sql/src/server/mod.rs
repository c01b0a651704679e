//! Private servers: a data directory on the stack, a socket in a private directory, started and ended by loadline.
//!
//! A server is in the journal with its process number and start time as soon as it runs, and the kernel kills it when
//! the thread that started it ends: a killed loadline leaves no server behind. No service of the system is used or
//! touched.
//!
//! | module | holds |
//! |---|---|
//! | `mod` | a server from its start to its end |
//! | `settings` | what it is told: memory, log, durability |
//! | `maria` | how MariaDB is made and started |
//! | `postgres` | how PostgreSQL is |

mod maria;
mod postgres;
mod settings;

use std::sync::Arc;
use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};
use journal::{Journal, PrivateTree};

pub use settings::{Flush, Settings};

use crate::SqlError;
use crate::db::{Address, Connection, DATABASE, DbError, Row};
use serve::process::{self, Processes};

/// Longest wait until a server answers. Recovery of a large log is in it.
const START_PATIENCE: Duration = Duration::from_secs(300);
/// Longest wait until a server has ended by itself; then it is killed.
const STOP_PATIENCE: Duration = Duration::from_secs(180);
/// How often a server that starts is asked.
const ASK_EVERY: Duration = Duration::from_millis(20);
/// Lines of a server's log that an error shows.
const LOG_LINES: usize = 8;
/// Length of the random word in a private directory's name.
const NONCE_LENGTH: usize = 12;
/// The longest name of a socket below it.
const SOCKET_NAME: &str = "/run/.s.PGSQL.5432";
/// Longest path of a Unix socket: `sun_path` of sockaddr_un(7) less the final zero.
const SOCKET_PATH_MAX: usize = 107;

/// A private server that runs. Dropped, it is killed.
#[derive(Debug)]
pub struct Server {
    settings: Settings,
    data: Utf8PathBuf,
    address: Address,
    log: Utf8PathBuf,
    processes: Processes,
    // goes after the processes that use it
    _folder: PrivateTree,
}

/// Whether this machine has what a private server needs.
///
/// # Errors
/// [`SqlError::Unavailable`] with the package that is missing.
pub fn check(settings: &Settings) -> Result<(), SqlError> {
    if cfg!(not(feature = "clients")) {
        let (reason, remedy) = (crate::NO_CLIENTS.0.into(), crate::NO_CLIENTS.1.into());
        return Err(SqlError::Unavailable { reason, remedy });
    }
    if settings.engine.is_mysql() { maria::check(settings.engine) } else { postgres::check() }
}

/// Makes the data directory `data`, which must not exist, with nothing but the system's own tables.
///
/// # Errors
/// [`SqlError::Unavailable`]; the program that makes it failed.
pub fn create(settings: &Settings, data: &Utf8Path) -> Result<(), SqlError> {
    check(settings)?;
    if settings.engine.is_mysql() { maria::create(settings, data) } else { postgres::create(data) }
}

impl Server {
    /// Starts a server on a data directory and waits until it answers and holds the database for our tables. Its
    /// socket and log are in a private directory below `temporary`.
    ///
    /// # Errors
    /// It does not start: with the end of its log.
    pub fn start(
        settings: &Settings,
        data: &Utf8Path,
        temporary: &Utf8Path,
        journal: &Arc<Journal>,
    ) -> Result<Server, SqlError> {
        check(settings)?;
        // a path that is too long for a socket is left for one that everybody has
        let longest = temporary.as_str().len() + "/loadline-".len() + NONCE_LENGTH + SOCKET_NAME.len();
        let temporary = if longest > SOCKET_PATH_MAX { Utf8Path::new("/tmp") } else { temporary };
        let folder = PrivateTree::new(journal, temporary)?;
        let run = folder.path().join("run");
        process::private_folder(&run, &settings.engine.identity())?;
        let log = folder.path().join("log");
        std::fs::write(&log, "").map_err(SqlError::at(&log))?;
        let (command, socket, address) = if settings.engine.is_mysql() {
            maria::command(settings, data, &run, &log)?
        } else {
            postgres::command(settings, data, &run, &log)?
        };
        if socket.as_str().len() > SOCKET_PATH_MAX {
            return Err(SqlError::Parameter(format!(
                "{socket} is too long for a socket ({SOCKET_PATH_MAX} bytes); set TMPDIR to a short directory"
            )));
        }
        let processes = Processes::start(command, &settings.engine.identity(), data, journal)?;
        let mut server = Server {
            settings: settings.clone(),
            data: data.to_owned(),
            address,
            log,
            processes,
            _folder: folder,
        };
        server.wait_until_it_answers()?;
        server.make_database()?;
        Ok(server)
    }

    /// How to reach it.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Its settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// A connection to the database of our tables.
    ///
    /// # Errors
    /// As [`Connection::open`].
    pub fn connect(&self) -> Result<Connection, DbError> {
        Connection::open(self.settings.engine, &self.address, false)
    }

    fn wait_until_it_answers(&mut self) -> Result<(), SqlError> {
        let start = Instant::now();
        loop {
            match Connection::open(self.settings.engine, &self.address, true) {
                Ok(_) => return Ok(()),
                Err(error) => {
                    if let Some(status) = self.processes.ended() {
                        return Err(SqlError::Server(
                            self.explain(&format!("{} ended at once ({status})", self.name())),
                        ));
                    }
                    if start.elapsed() > START_PATIENCE {
                        let waited = START_PATIENCE.as_secs();
                        let text = format!("{} does not answer after {waited} s: {error}", self.name());
                        return Err(SqlError::Server(self.explain(&text)));
                    }
                }
            }
            std::thread::sleep(ASK_EVERY);
        }
    }

    fn make_database(&mut self) -> Result<(), SqlError> {
        let engine = self.settings.engine;
        let mut connection =
            Connection::open(engine, &self.address, true).map_err(SqlError::doing("connecting"))?;
        let made = if engine.is_mysql() {
            connection.plain(&format!(
                "CREATE DATABASE IF NOT EXISTS {DATABASE} CHARACTER SET latin1 COLLATE latin1_bin"
            ))
        } else {
            let known = format!("SELECT datname FROM pg_database WHERE datname = '{DATABASE}'");
            match connection.ask(&known).map_err(SqlError::doing("looking for the database"))?.is_empty() {
                true => connection.plain(&format!("CREATE DATABASE {DATABASE}")),
                false => Ok(()),
            }
        };
        made.map_err(SqlError::doing("making the database"))
    }

    /// What people call it.
    pub fn name(&self) -> &'static str {
        match self.settings.engine {
            crate::Engine::InnoDb => "MariaDB",
            crate::Engine::MyRocks => "MariaDB with MyRocks",
            crate::Engine::Postgres => "PostgreSQL",
        }
    }

    /// How it ended, if it is not running any more.
    pub fn ended(&mut self) -> Option<String> {
        self.processes.ended()
    }

    /// The last lines of the server's log, so many at most.
    fn log_end(&self, most: usize) -> Vec<String> {
        let log = std::fs::read(&self.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().filter(|line| !line.trim().is_empty()).collect();
        lines[lines.len().saturating_sub(most)..].iter().map(|line| line.to_string()).collect()
    }

    /// Adds the last lines of the server's log to a message, and before them what would help.
    pub fn explain(&self, message: &str) -> String {
        let remedy = if self.tells_full_disk() { process::full_disk() } else { String::new() };
        match self.log_end(LOG_LINES).as_slice() {
            [] => message.to_string(),
            last => format!("{message}{remedy}; the end of its log:\n  {}", last.join("\n  ")),
        }
    }

    /// Whether the log tells that the disk is full.
    fn tells_full_disk(&self) -> bool {
        // a server that tries to recover says more after it
        self.log_end(20 * LOG_LINES).iter().any(|line| process::tells_full_disk(line))
    }

    /// What an error of a connection means, now that the server is looked at: one that has died is named, with its log; so
    /// is one that has ended its connections because its disk is full, as PostgreSQL does.
    pub fn judge(&mut self, what: &str, error: DbError) -> SqlError {
        if matches!(error, DbError::Gone(_) | DbError::Refused(_) | DbError::Full(_)) {
            if let Some(status) = self.died_by_now() {
                let died = format!("{} died ({status}) while {what}{}", self.name(), self.processes.remedy());
                return SqlError::Server(self.explain(&died));
            }
            if !matches!(error, DbError::Full(_)) && self.tells_full_disk() {
                // whether the server still runs need not be asked: its log tells what happened
                let (DbError::Gone(text) | DbError::Refused(text) | DbError::Full(text)) = &error else {
                    return SqlError::Database { what: what.to_string(), error };
                };
                return SqlError::Server(self.explain(&format!("{}, {what}: {text}", self.name())));
            }
        }
        SqlError::Database { what: what.to_string(), error }
    }

    /// A server that breaks a connection may be about to end.
    fn died_by_now(&mut self) -> Option<String> {
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(2) {
            if let Some(status) = self.processes.ended() {
                return Some(status);
            }
            std::thread::sleep(ASK_EVERY);
        }
        None
    }

    /// The settings that decide, as the server says that they are.
    ///
    /// # Errors
    /// What the server answers.
    pub fn settings_read_back(&self) -> Result<Vec<(String, String)>, SqlError> {
        let mut connection = self.connect().map_err(SqlError::doing("connecting"))?;
        read_back(&mut connection)
    }

    /// The process number of the server's first process.
    pub fn pid(&self) -> u32 {
        self.processes.pid()
    }

    /// Processor seconds that its processes, and those of them that have ended, have used; none when it has ended.
    pub fn cpu_seconds(&self) -> Option<f64> {
        self.processes.cpu_seconds()
    }

    /// Freezes all its processes, as a power cut would: nothing is acknowledged any more.
    ///
    /// # Errors
    /// A signal could not be sent.
    pub fn freeze(&mut self) -> Result<(), SqlError> {
        Ok(self.processes.freeze()?)
    }

    /// Ends it as its own tools would: what it holds in memory is written.
    ///
    /// # Errors
    /// It had to be killed, or did not end cleanly.
    pub fn stop(mut self) -> Result<(), SqlError> {
        let stopped = self.processes.stop(STOP_PATIENCE);
        stopped.map_err(|how| SqlError::Server(self.explain(&format!("{} {how}", self.name()))))
    }

    /// Kills it (SIGKILL), children included, and waits until nothing of it is left.
    ///
    /// # Errors
    /// A process cannot be killed.
    pub fn kill(mut self) -> Result<(), SqlError> {
        self.kill_now()
    }

    /// As [`Server::kill`]; its log can be read afterwards.
    ///
    /// # Errors
    /// A process cannot be killed.
    pub fn kill_now(&mut self) -> Result<(), SqlError> {
        Ok(self.processes.kill()?)
    }

    /// The data directory.
    pub fn data(&self) -> &Utf8Path {
        &self.data
    }
}

/// The settings that decide, as the server of a connection says that they are; its version comes first.
///
/// # Errors
/// What the server answers.
pub fn read_back(connection: &mut Connection) -> Result<Vec<(String, String)>, SqlError> {
    let what = "reading the settings";
    let engine = connection.engine();
    let version = connection.ask("SELECT version()").map_err(SqlError::doing(what))?;
    let version = version.first().and_then(|row| row.first()).map(|value| value.text().to_string());
    let (query, names) = if engine.is_mysql() { maria::told(engine) } else { postgres::told() };
    let rows: Vec<Row> = connection.ask(&query).map_err(SqlError::doing(what))?;
    let mut told = vec![("version".to_string(), version.unwrap_or_default())];
    for name in names {
        let row =
            rows.iter().find(|row| row.first().is_some_and(|value| value.text().eq_ignore_ascii_case(name)));
        if let Some(value) = row.and_then(|row| row.get(1)) {
            told.push(((*name).to_string(), value.text().to_string()));
        }
    }
    Ok(told)
}
