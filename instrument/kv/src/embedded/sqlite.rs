//! SQLite: one table, a connection for each session, write-ahead log.

use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use rusqlite::{Connection, OptionalExtension, params};

use super::session::{Embedded, Session, Settings};
use crate::KvError;

/// How long a connection waits for another one's write.
const BUSY_PATIENCE: Duration = Duration::from_secs(60);

/// An open database.
#[derive(Debug)]
pub(super) struct Sqlite {
    file: Utf8PathBuf,
    settings: Settings,
}

fn failed(error: rusqlite::Error) -> KvError {
    KvError::engine("SQLite", error)
}

impl Sqlite {
    pub(super) fn open(path: &Utf8Path, settings: &Settings) -> Result<Sqlite, KvError> {
        let sqlite = Sqlite { file: path.join("kv.sqlite"), settings: *settings };
        let connection = sqlite.connect()?;
        let made = "CREATE TABLE IF NOT EXISTS kv (k BLOB PRIMARY KEY, v BLOB NOT NULL) WITHOUT ROWID";
        connection.execute_batch(made).map_err(failed)?;
        Ok(sqlite)
    }

    fn connect(&self) -> Result<Connection, KvError> {
        let connection = Connection::open(&self.file).map_err(failed)?;
        connection.busy_timeout(BUSY_PATIENCE).map_err(failed)?;
        // with a write-ahead log NORMAL syncs at checkpoints only, FULL at each commit (sqlite.org/pragma.html)
        let synchronous = if self.settings.sync { "FULL" } else { "NORMAL" };
        let kib = self.settings.cache_bytes / 1024 / u64::from(self.settings.sessions.max(1));
        let pragmas = format!(
            "PRAGMA journal_mode=WAL; PRAGMA synchronous={synchronous}; PRAGMA cache_size=-{};",
            kib.max(64)
        );
        connection.execute_batch(&pragmas).map_err(failed)?;
        Ok(connection)
    }
}

impl Embedded for Sqlite {
    fn session(&self) -> Result<Box<dyn Session + '_>, KvError> {
        Ok(Box::new(Connected(self.connect()?)))
    }

    fn settle(&self, _stopped: &dyn Fn() -> bool) -> Result<(), KvError> {
        let connection = self.connect()?;
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).map_err(failed)
    }

    fn settings(&self) -> Vec<(String, String)> {
        let mut told = vec![("version".to_string(), rusqlite::version().to_string())];
        let Ok(connection) = self.connect() else { return told };
        for name in ["journal_mode", "synchronous", "cache_size", "page_size"] {
            let value =
                connection.pragma_query_value(None, name, |row| row.get::<_, rusqlite::types::Value>(0));
            let value = value.map(|value| match value {
                rusqlite::types::Value::Text(text) => text,
                rusqlite::types::Value::Integer(number) => number.to_string(),
                other => format!("{other:?}"),
            });
            told.extend(value.ok().map(|value| (name.to_string(), value)));
        }
        told
    }
}

struct Connected(Connection);

const PUT: &str = "INSERT OR REPLACE INTO kv (k, v) VALUES (?1, ?2)";

impl Session for Connected {
    fn get(&mut self, key: &[u8], show: &mut dyn FnMut(&[u8])) -> Result<bool, KvError> {
        let mut statement = self.0.prepare_cached("SELECT v FROM kv WHERE k = ?1").map_err(failed)?;
        let found = statement
            .query_row([key], |row| {
                show(row.get_ref(0)?.as_blob()?);
                Ok(())
            })
            .optional();
        found.map(|found| found.is_some()).map_err(failed)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), KvError> {
        let mut statement = self.0.prepare_cached(PUT).map_err(failed)?;
        statement.execute(params![key, value]).map(drop).map_err(failed)
    }

    fn load(&mut self, records: &[(Vec<u8>, Vec<u8>)]) -> Result<(), KvError> {
        let transaction =
            self.0.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).map_err(failed)?;
        {
            let mut statement = transaction.prepare_cached(PUT).map_err(failed)?;
            for (key, value) in records {
                statement.execute(params![key, value]).map_err(failed)?;
            }
        }
        transaction.commit().map_err(failed)
    }

    fn scan(&mut self, key: &[u8], most: u64, show: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), KvError> {
        let text = "SELECT k, v FROM kv WHERE k >= ?1 ORDER BY k LIMIT ?2";
        let mut statement = self.0.prepare_cached(text).map_err(failed)?;
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let mut rows = statement.query(params![key, most]).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            let blob = |at: usize| row.get_ref(at)?.as_blob().map_err(rusqlite::Error::from);
            show(blob(0).map_err(failed)?, blob(1).map_err(failed)?);
        }
        Ok(())
    }
}
