//! The MySQL protocol, by crate `mysql`.

pub(super) use mysql::Statement;
use mysql::prelude::Queryable;
use mysql::{Conn, Opts, OptsBuilder, Params};

use super::error::DbError;
use super::value::{Address, DATABASE, Row, Value};

/// Statements that one connection may have prepared at once: those of TPC-C are some 45, those of a mix of sysbench's
/// ten for each table.
const STATEMENTS_MAX: usize = 4096;

/// What a connection to a server of our own says first: its tables are in latin1 (all that is written is ASCII), and the
/// driver's utf8mb4 would have the server convert every text both ways. sysbench's client library says latin1 too.
const SAME_CHARACTERS: &str = "SET NAMES latin1";

/// A connection.
#[derive(Debug)]
pub(super) struct Wire(Conn);

impl Wire {
    pub(super) fn open(address: &Address, system: bool) -> Result<Wire, DbError> {
        let options = match address {
            Address::Socket(path) => OptsBuilder::new()
                .socket(Some(path.as_str()))
                .user(Some("root"))
                .init(vec![SAME_CHARACTERS])
                .db_name((!system).then_some(DATABASE)),
            Address::Url(url) => {
                let wrong = |error| DbError::Refused(format!("--address {url}: {error}"));
                OptsBuilder::from_opts(Opts::from_url(url).map_err(wrong)?)
            }
        };
        let conn = Conn::new(options.stmt_cache_size(STATEMENTS_MAX)).map_err(sorted)?;
        Ok(Wire(conn))
    }

    pub(super) fn plain(&mut self, text: &str) -> Result<(), DbError> {
        self.0.query_drop(text).map_err(sorted)
    }

    pub(super) fn ask(&mut self, text: &str) -> Result<Vec<Row>, DbError> {
        let rows: Vec<mysql::Row> = self.0.query(text).map_err(sorted)?;
        Ok(rows.into_iter().map(row).collect())
    }

    pub(super) fn prepare(&mut self, text: &str) -> Result<Statement, DbError> {
        self.0.prep(text).map_err(sorted)
    }

    pub(super) fn run(&mut self, statement: &Statement, values: &[Value]) -> Result<u64, DbError> {
        let result = self.0.exec_iter(statement, parameters(values)).map_err(sorted)?;
        Ok(result.affected_rows())
    }

    pub(super) fn rows(&mut self, statement: &Statement, values: &[Value]) -> Result<Vec<Row>, DbError> {
        let result = self.0.exec_iter(statement, parameters(values)).map_err(sorted)?;
        result.map(|one| one.map(row).map_err(sorted)).collect()
    }

    pub(super) fn fetch(&mut self, statement: &Statement, values: &[Value]) -> Result<usize, DbError> {
        let mut result = self.0.exec_iter(statement, parameters(values)).map_err(sorted)?;
        result.try_fold(0, |count, one| one.map(|_| count + 1).map_err(sorted))
    }
}

fn parameters(values: &[Value]) -> Params {
    if values.is_empty() {
        return Params::Empty;
    }
    let one = |value: &Value| match value {
        Value::Null => mysql::Value::NULL,
        Value::Int(number) => mysql::Value::Int(*number),
        Value::Text(text) => mysql::Value::Bytes(text.as_bytes().to_vec()),
    };
    Params::Positional(values.iter().map(one).collect())
}

fn row(row: mysql::Row) -> Row {
    let one = |value: mysql::Value| match value {
        mysql::Value::NULL => Value::Null,
        mysql::Value::Int(number) => Value::Int(number),
        mysql::Value::UInt(number) => i64::try_from(number).map_or(Value::Null, Value::Int),
        mysql::Value::Bytes(bytes) => Value::Text(
            String::from_utf8(bytes)
                .unwrap_or_else(|wrong| String::from_utf8_lossy(wrong.as_bytes()).into_owned()),
        ),
        // floating numbers, dates: their text
        other => Value::Text(other.as_sql(true).trim_matches('\'').to_string()),
    };
    row.unwrap().into_iter().map(one).collect()
}

/// Codes of MariaDB's error message reference.
fn sorted(error: mysql::Error) -> DbError {
    use mysql::Error;
    let text = error.to_string();
    match error {
        Error::MySqlError(server) => match server.code {
            // ER_LOCK_DEADLOCK, ER_LOCK_WAIT_TIMEOUT, ER_CHECKREAD
            1213 | 1205 | 1020 => DbError::Conflict(text),
            // ER_DUP_ENTRY
            1062 => DbError::Duplicate(text),
            // ER_SERVER_SHUTDOWN, ER_CONNECTION_KILLED, ER_NORMAL_SHUTDOWN
            1053 | 1927 | 1077 => DbError::Gone(text),
            // ER_DISK_FULL, ER_RECORD_FILE_FULL
            1021 | 1114 => DbError::Full(text),
            // ER_GET_ERRNO, ER_ERROR_ON_WRITE with ENOSPC in it
            1030 | 1026 | 3 if text.contains("28") => DbError::Full(text),
            1044 | 1045 | 1698 => DbError::Refused(format!(
                "{text}; give user and password in the address (--address mysql://user:password@host:port/database)"
            )),
            1049 => DbError::Refused(format!("{text}; make it (CREATE DATABASE), or name another one")),
            1040 | 1203 => {
                DbError::Refused(format!("{text}; raise max_connections, or use fewer --terminals"))
            }
            _ => DbError::Other(text),
        },
        Error::IoError(_) | Error::CodecError(_) => DbError::Gone(text),
        Error::DriverError(driver) => match driver {
            mysql::DriverError::CouldNotConnect(_) => DbError::Refused(format!(
                "{text}; is a server running there, and does it listen? (--address mysql://user:password@host:port/database)"
            )),
            _ => DbError::Gone(text),
        },
        _ => DbError::Other(text),
    }
}
