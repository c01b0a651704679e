//! Tables of the store and their versions.
//!
//! `record` columns hold zstd-compressed JSON of [`study::results`], which is all that loadline itself reads
//! back; histograms in it are in their lossless form. The other columns and the table `ops` repeat some of it
//! for SQL by hand and for HdrHistogram's tools (V2 encoding, base64).

use std::time::{Duration, Instant};

use rusqlite::{Connection, TransactionBehavior};

use super::error::StoreError;

/// Entry `n` brings a store of version `n` to version `n + 1`. Entries are never changed once released.
const MIGRATIONS: [&str; 2] = [
    "
    CREATE TABLE runs (
        id TEXT PRIMARY KEY,
        title TEXT NOT NULL,
        started TEXT NOT NULL,
        finished TEXT,
        study_hash TEXT NOT NULL,
        trials_planned INTEGER NOT NULL,
        owner TEXT,
        record BLOB NOT NULL
    );
    CREATE TABLE trials (
        row INTEGER PRIMARY KEY,
        run TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
        cell INTEGER NOT NULL,
        trial INTEGER NOT NULL,
        status TEXT NOT NULL,
        started TEXT NOT NULL,
        seconds REAL NOT NULL,
        ops_per_second REAL,
        record BLOB NOT NULL,
        raw_output BLOB NOT NULL
    );
    CREATE INDEX trials_of_run ON trials (run, cell, trial);
    CREATE TABLE ops (
        trial_row INTEGER NOT NULL REFERENCES trials (row) ON DELETE CASCADE,
        name TEXT NOT NULL,
        kind TEXT NOT NULL,
        ops INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        errors INTEGER NOT NULL,
        service_hdr TEXT,
        intended_hdr TEXT
    );
    CREATE INDEX ops_of_trial ON ops (trial_row);
",
    "
    ALTER TABLE runs ADD COLUMN name TEXT;
    CREATE INDEX runs_by_name ON runs (name);
",
];

/// What lists and comparisons of many runs read, without the pages of the records. No version of its own: an older loadline
/// keeps it up to date without knowing it, and a store that is only read does without it.
const SHORT: (&str, &str) = (
    "trials_in_short",
    "CREATE INDEX IF NOT EXISTS trials_in_short ON trials (run, cell, trial, status, ops_per_second)",
);

/// The newest version.
pub const VERSION: u32 = MIGRATIONS.len() as u32;

/// Brings a connection into WAL mode and its database to the newest version.
pub fn prepare(connection: &mut Connection) -> Result<(), StoreError> {
    switch_to_wal(connection)?;
    // A power cut loses no trial that was reported as stored; one fsync for each trial costs nothing that
    // counts.
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    if version(connection)? == VERSION && has_index(connection, SHORT.0)? {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Read again: another process may have done it while this one waited for the lock.
    let found = version(&transaction)?;
    if found > VERSION {
        return Err(StoreError::TooNew { found, known: VERSION });
    }
    for migration in &MIGRATIONS[found as usize..] {
        transaction.execute_batch(migration)?;
    }
    transaction.execute_batch(SHORT.1)?;
    transaction.pragma_update(None, "user_version", VERSION)?;
    transaction.commit()?;
    Ok(())
}

/// Holds the database of a connection that only reads against the newest version.
pub fn expect(connection: &Connection) -> Result<(), StoreError> {
    match version(connection)? {
        VERSION => Ok(()),
        found if found > VERSION => Err(StoreError::TooNew { found, known: VERSION }),
        found => Err(StoreError::TooOld { found, known: VERSION }),
    }
}

fn has_index(connection: &Connection, name: &str) -> Result<bool, StoreError> {
    let found = "SELECT count(*) FROM sqlite_master WHERE type = 'index' AND name = ?1";
    Ok(connection.query_row(found, [name], |row| row.get::<_, i64>(0))? > 0)
}

fn version(connection: &Connection) -> Result<u32, StoreError> {
    Ok(connection.pragma_query_value(None, "user_version", |row| row.get(0))?)
}

/// The switch to WAL does not honour the busy time-out (SQLite documentation, sqlite3_busy_handler), so that
/// two processes that make a store at the same moment need their own patience.
fn switch_to_wal(connection: &Connection) -> Result<(), StoreError> {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let switched = connection.pragma_update(None, "journal_mode", "wal");
        match switched {
            Err(error) if is_busy(&error) && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(10));
            }
            other => return Ok(other?),
        }
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    matches!(code, Some(rusqlite::ErrorCode::DatabaseBusy | rusqlite::ErrorCode::DatabaseLocked))
}
