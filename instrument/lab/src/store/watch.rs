//! Looking on: a store that is only read, and what has changed in it since the last look.
//!
//! A run that goes on stores each trial as it ends, and nothing in between; so nothing finer can be seen here. The process
//! that measures does nothing for whoever looks on: readers of a WAL never wait for its writer, nor it for them.

use std::collections::HashMap;
use std::path::Path;

use jiff::Timestamp;
use rusqlite::{Connection, OpenFlags, params};
use study::results::Run;

use super::error::StoreError;
use super::{BUSY_PATIENCE, DATABASE, Store, head, index, owner, schema, time};

/// What is known of a run without reading its record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunListing {
    /// The run's id.
    pub id: String,
    /// What its user calls it.
    pub name: Option<String>,
    /// The study's title.
    pub title: String,
    /// Hash of the study.
    pub study_hash: String,
    /// When it began.
    pub started: Timestamp,
    /// When it was completed.
    pub finished: Option<Timestamp>,
    /// Trials of the plan.
    pub trials_planned: u64,
    /// A living process extends it.
    pub is_extended: bool,
}

/// The newest trial of a cell and index, without its record.
#[derive(Debug, Clone, PartialEq)]
pub struct TrialSummary {
    /// Its cell.
    pub cell: u32,
    /// Which trial of its cell, from 0.
    pub index: u32,
    /// How it ended, as [`study::results::Status::word`] says.
    pub status: String,
    /// When it began.
    pub started: Timestamp,
    /// Wall time of the whole trial in seconds.
    pub seconds: f64,
    /// Its throughput, when it has an outcome.
    pub ops_per_second: Option<f64>,
}

/// The URI of a database that nobody changes (sqlite.org/uri.html).
fn uri(file: &Path) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/-_.~".contains(byte);
    let escaped = file.as_os_str().as_encoded_bytes().iter().map(|byte| match plain(byte) {
        true => char::from(*byte).to_string(),
        false => format!("%{byte:02X}"),
    });
    format!("file:{}?immutable=1", escaped.collect::<String>())
}

impl Store {
    /// Opens the store of a folder for reading; nothing is made, and nothing is brought up to date.
    ///
    /// # Errors
    /// There is no store, it cannot be read, or another version of loadline has written it.
    pub fn open_to_read(home: &Path) -> Result<Store, StoreError> {
        let file = home.join(DATABASE);
        if !file.is_file() {
            let source = std::io::Error::new(
                std::io::ErrorKind::NotFound,
                "no runs are stored there yet; `loadline run` stores one, `--home FOLDER` names another place",
            );
            return Err(StoreError::Folder { path: home.to_path_buf(), source });
        }
        let folder = |source| StoreError::Folder { path: home.to_path_buf(), source };
        let file = home.canonicalize().map_err(folder)?.join(DATABASE);
        index::allocate_whole_pages();
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let connection = Connection::open_with_flags(&file, flags)?;
        connection.busy_timeout(BUSY_PATIENCE)?;
        schema::expect(&connection)?;
        Ok(Store { connection, home: home.to_path_buf() })
    }

    /// As [`Store::open_to_read`], for a full disk: alone, with the index of the WAL in this process's own memory; or, on a
    /// read-only one, without any.
    pub(super) fn open_alone(home: &Path) -> Result<Store, StoreError> {
        let folder = |source| StoreError::Folder { path: home.to_path_buf(), source };
        let file = home.canonicalize().map_err(folder)?.join(DATABASE);
        let common = OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let alone = || -> Result<Connection, StoreError> {
            let flags = common | OpenFlags::SQLITE_OPEN_READ_WRITE;
            let connection = Connection::open_with_flags(&file, flags)?;
            connection.pragma_update(None, "locking_mode", "exclusive")?;
            schema::expect(&connection)?;
            Ok(connection)
        };
        // what a log holds is not in the file yet
        let log_is_empty =
            std::fs::metadata(home.join(format!("{DATABASE}-wal"))).map_or(true, |log| log.len() == 0);
        let unchanging = || -> Result<Connection, StoreError> {
            let flags = common | OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
            let connection = Connection::open_with_flags(uri(&file), flags)?;
            schema::expect(&connection)?;
            Ok(connection)
        };
        let connection = match alone() {
            Err(_) if log_is_empty => unchanging()?,
            opened => opened?,
        };
        Ok(Store { connection, home: home.to_path_buf() })
    }

    /// A number that changes when another connection has changed the store (SQLite's `PRAGMA data_version`). It is taken from
    /// the index of the WAL in shared memory: asking costs no reading of a file.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn data_version(&self) -> Result<i64, StoreError> {
        Ok(self.connection.pragma_query_value(None, "data_version", |row| row.get(0))?)
    }

    /// All runs in the order in which they were begun, without reading a record.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn listed(&self) -> Result<Vec<RunListing>, StoreError> {
        let mut statement = self.connection.prepare_cached(
            "SELECT id, name, finished, trials_planned, owner, title, study_hash, started FROM runs ORDER BY rowid",
        )?;
        let rows = statement.query_map([], |row| {
            let owner: Option<String> = row.get(4)?;
            Ok(RunListing {
                id: row.get(0)?,
                name: row.get(1)?,
                finished: row.get::<_, Option<String>>(2)?.map(time),
                trials_planned: row.get::<_, i64>(3)?.unsigned_abs(),
                is_extended: owner.as_deref().is_some_and(owner::is_alive),
                title: row.get(5)?,
                study_hash: row.get(6)?,
                started: time(row.get(7)?),
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The last row of the table of trials; 0 when it has none.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn last_row(&self) -> Result<i64, StoreError> {
        let row =
            self.connection.query_row("SELECT coalesce(max(row), 0) FROM trials", [], |row| row.get(0))?;
        Ok(row)
    }

    /// Runs that got trials behind a row of the table of trials.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn extended_since(&self, row: i64) -> Result<Vec<String>, StoreError> {
        let mut statement =
            self.connection.prepare_cached("SELECT DISTINCT run FROM trials WHERE row > ?1")?;
        let runs = statement.query_map([row], |row| row.get(0))?;
        Ok(runs.collect::<Result<_, _>>()?)
    }

    /// Trials with a result of every run that has one.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn all_trials_done(&self) -> Result<HashMap<String, u64>, StoreError> {
        let mut statement = self.connection.prepare_cached(
            "SELECT run, count(*) FROM (SELECT DISTINCT run, cell, trial FROM trials WHERE status = 'done') GROUP BY run",
        )?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?.unsigned_abs())))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Trials of a run with a result.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn trials_done(&self, run: &str) -> Result<u64, StoreError> {
        let mut statement = self.connection.prepare_cached(
            "SELECT count(DISTINCT cell || '/' || trial) FROM trials WHERE run = ?1 AND status = 'done'",
        )?;
        Ok(statement.query_row([run], |row| row.get::<_, i64>(0))?.unsigned_abs())
    }

    /// A run without its trials.
    ///
    /// # Errors
    /// No such run, or a damaged record.
    pub fn head(&self, id: &str) -> Result<Run, StoreError> {
        head(&self.connection, id)
    }

    /// The trials of a run in the order in which they ended, without reading a record.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn briefs(&self, run: &str) -> Result<Vec<TrialSummary>, StoreError> {
        let mut statement = self.connection.prepare_cached(
            "SELECT cell, trial, status, started, seconds, ops_per_second FROM trials
             WHERE row IN (SELECT max(row) FROM trials WHERE run = ?1 GROUP BY cell, trial) ORDER BY row",
        )?;
        let rows = statement.query_map(params![run], |row| {
            Ok(TrialSummary {
                cell: row.get(0)?,
                index: row.get(1)?,
                status: row.get(2)?,
                started: time(row.get(3)?),
                seconds: row.get(4)?,
                ops_per_second: row.get(5)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Whether a living process extends a run.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn is_extended(&self, run: &str) -> Result<bool, StoreError> {
        let mut statement = self.connection.prepare_cached("SELECT owner FROM runs WHERE id = ?1")?;
        let mut rows = statement.query([run])?;
        let owner: Option<String> = rows.next()?.map(|row| row.get(0)).transpose()?.flatten();
        Ok(owner.as_deref().is_some_and(owner::is_alive))
    }
}
