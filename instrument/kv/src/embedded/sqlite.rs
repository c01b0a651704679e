//! SQLite: one table as YCSB's JDBC binding makes it, with a column for each field; a connection for each session,
//! write-ahead log.

use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, Row, ToSql, params};

use super::session::{Embedded, Session, Settings, Show, ShowScanned};
use crate::KvError;
use crate::client::RequestedFields;
use crate::record::Names;
use crate::values::FieldValues;

/// How long a connection waits for another one's write.
const BUSY_PATIENCE: Duration = Duration::from_secs(60);

/// Statements beside those that set one field each.
const STATEMENTS_MORE: usize = 8;
/// Most columns of a table (sqlite.org/limits.html), the key among them.
pub(crate) const COLUMNS_MAX: u64 = 2000;

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
    pub(super) fn open(path: &Utf8Path, settings: &Settings, names: &Names) -> Result<Sqlite, KvError> {
        let sqlite = Sqlite { file: path.join("kv.sqlite"), settings: *settings };
        let connection = sqlite.connect()?;
        let columns: String = columns(names).iter().map(|column| format!(", {column} TEXT")).collect();
        let made = format!("CREATE TABLE IF NOT EXISTS usertable (YCSB_KEY VARCHAR PRIMARY KEY{columns})");
        connection.execute_batch(&made).map_err(failed)?;
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
    fn session<'a>(&'a self, names: &'a Names) -> Result<Box<dyn Session + 'a>, KvError> {
        let (connection, statements) = (self.connect()?, Statements::of(names));
        // each update of one field has a statement of its own
        connection.set_prepared_statement_cache_capacity(names.len() + STATEMENTS_MORE);
        Ok(Box::new(Connected { connection, statements, names }))
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

/// A text of any bytes: YCSB's values are text, those that are verified are not.
struct Text<'a>(&'a [u8]);

impl ToSql for Text<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(ValueRef::Text(self.0)))
    }
}

/// The statements of YCSB's JDBC binding. One that is cached is found by its text.
struct Statements {
    read: String,
    scan: String,
    insert: String,
    /// Writes a record, whether or not there is one.
    replace: String,
    /// Sets one field.
    set: Vec<String>,
    set_all: String,
}

impl Statements {
    fn of(names: &Names) -> Statements {
        let columns = columns(names);
        let places = ",?".repeat(columns.len());
        let values = format!("INTO usertable (YCSB_KEY,{}) VALUES (?{places})", columns.join(","));
        let set = |columns: &[String]| {
            let all: Vec<String> = columns.iter().map(|column| format!("{column}=?")).collect();
            format!("UPDATE usertable SET {} WHERE YCSB_KEY = ?", all.join(", "))
        };
        Statements {
            read: "SELECT * FROM usertable WHERE YCSB_KEY = ?".into(),
            scan: "SELECT * FROM usertable WHERE YCSB_KEY >= ? ORDER BY YCSB_KEY LIMIT ?".into(),
            insert: format!("INSERT {values}"),
            replace: format!("INSERT OR REPLACE {values}"),
            set: columns.iter().map(|column| set(std::slice::from_ref(column))).collect(),
            set_all: set(&columns),
        }
    }
}

/// Names of columns, quoted.
fn columns(names: &Names) -> Vec<String> {
    (0..names.len()).map(|field| format!("\"{}\"", names.name(field).replace('"', "\"\""))).collect()
}

struct Connected<'a> {
    connection: Connection,
    statements: Statements,
    names: &'a Names,
}

/// Executes a statement with these texts; how many rows it changed.
fn execute<'a>(
    connection: &Connection,
    text: &str,
    values: impl Iterator<Item = &'a [u8]>,
) -> Result<usize, KvError> {
    let mut statement = connection.prepare_cached(text).map_err(failed)?;
    for (number, value) in values.enumerate() {
        statement.raw_bind_parameter(number + 1, Text(value)).map_err(failed)?;
    }
    statement.raw_execute().map_err(failed)
}

/// Writes a whole record.
fn write(connection: &Connection, text: &str, key: &[u8], fields: &FieldValues) -> Result<(), KvError> {
    let values = fields.iter().map(|(_, value)| value);
    execute(connection, text, std::iter::once(key).chain(values)).map(drop)
}

/// The text of a column.
fn column<'a>(row: &'a Row<'_>, number: usize) -> Result<&'a [u8], KvError> {
    row.get_ref(number).and_then(|value| Ok(value.as_bytes()?)).map_err(failed)
}

/// Shows the fields of a row that are asked for. All of it is read: the binding selects every column, whatever it is asked for.
fn show_fields(
    row: &Row<'_>,
    names: &Names,
    asked: RequestedFields,
    show: &mut dyn FnMut(usize, &[u8]),
) -> Result<(), KvError> {
    for field in (0..names.len()).filter(|field| asked.has(*field)) {
        show(field, column(row, field + 1)?);
    }
    Ok(())
}

impl Session for Connected<'_> {
    fn read(&mut self, key: &[u8], asked: RequestedFields, show: Show<'_>) -> Result<bool, KvError> {
        let mut statement = self.connection.prepare_cached(&self.statements.read).map_err(failed)?;
        let mut rows = statement.query([Text(key)]).map_err(failed)?;
        let Some(row) = rows.next().map_err(failed)? else { return Ok(false) };
        show_fields(row, self.names, asked, show)?;
        Ok(true)
    }

    fn insert(&mut self, key: &[u8], fields: &FieldValues) -> Result<(), KvError> {
        write(&self.connection, &self.statements.insert, key, fields)
    }

    fn update(&mut self, key: &[u8], fields: &FieldValues) -> Result<Option<u64>, KvError> {
        let Statements { replace, set, set_all, .. } = &self.statements;
        if self.names.is_value() {
            return write(&self.connection, replace, key, fields).map(|()| Some(1));
        }
        let text = if fields.fields() == 1 { set.get(fields.first()).unwrap_or(set_all) } else { set_all };
        let values = fields.iter().map(|(_, value)| value).chain(std::iter::once(key));
        let rows = execute(&self.connection, text, values)?;
        Ok((rows > 0).then_some(1))
    }

    fn load(&mut self, records: &[(Vec<u8>, FieldValues)]) -> Result<(), KvError> {
        let transaction = self
            .connection
            .transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)
            .map_err(failed)?;
        for (key, fields) in records {
            write(&transaction, &self.statements.replace, key, fields)?;
        }
        transaction.commit().map_err(failed)
    }

    fn scan(
        &mut self,
        key: &[u8],
        most: u64,
        asked: RequestedFields,
        show: ShowScanned<'_>,
    ) -> Result<(), KvError> {
        let mut statement = self.connection.prepare_cached(&self.statements.scan).map_err(failed)?;
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let mut rows = statement.query(params![Text(key), most]).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            let key = column(row, 0)?;
            show_fields(row, self.names, asked, &mut |field, value| show(key, field, value))?;
        }
        Ok(())
    }
}
