//! The MySQL protocol: crate `mysql`, and the commands of a load in `packets`.

use std::collections::HashMap;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Arc;

pub(super) use mysql::Statement;
use mysql::prelude::Queryable;
use mysql::{Column, Conn, Opts, OptsBuilder};

use super::error::DbError;
use super::packets::{Given, Packets, Taker};
use super::value::{Address, DATABASE, Row, Value};

/// Statements that one connection may have prepared at once: those of TPC-C are some 45, those of a mix of sysbench's
/// ten for each table.
const STATEMENTS_MAX: usize = 4096;

/// What a connection to a server of our own says first: its tables are in latin1 (all that is written is ASCII), and the
/// driver's utf8mb4 would have the server convert every text both ways. sysbench's client library says latin1 too.
const SAME_CHARACTERS: &str = "SET NAMES latin1";

/// A connection: the driver opens it, logs in, prepares and closes; what a load does again and again goes past it.
#[derive(Debug)]
pub(super) struct Maria {
    conn: Conn,
    packets: Packets,
    /// Of each statement the columns of its rows as they were told last.
    columns: HashMap<u32, Arc<[Column]>>,
}

impl Maria {
    pub(super) fn open(address: &Address, system: bool) -> Result<Maria, DbError> {
        let options = match address {
            Address::Socket(path) => OptsBuilder::new()
                .socket(Some(path.as_str()))
                .user(Some("root"))
                .init(vec![SAME_CHARACTERS])
                .db_name((!system).then_some(DATABASE)),
            Address::Url(url) => {
                let wrong =
                    |error: &dyn std::fmt::Display| DbError::Refused(format!("--address {url}: {error}"));
                let opts = Opts::from_url(url.expose()).map_err(|error| wrong(&error))?;
                if opts.get_compress().is_some() {
                    return Err(wrong(&"loadline does not compress what it sends: leave out `compress`"));
                }
                OptsBuilder::from_opts(opts)
            }
        };
        let conn = Conn::new(options.stmt_cache_size(STATEMENTS_MAX)).map_err(sorted)?;
        Ok(Maria { conn, packets: Packets::default(), columns: HashMap::new() })
    }

    pub(super) fn plain(&mut self, text: &str) -> Result<(), DbError> {
        self.packets.query(socket(&self.conn), text).map(drop).map_err(sorted)
    }

    pub(super) fn ask(&mut self, text: &str) -> Result<Vec<Row>, DbError> {
        let rows: Vec<mysql::Row> = self.conn.query(text).map_err(sorted)?;
        Ok(rows.into_iter().map(row).collect())
    }

    pub(super) fn prepare(&mut self, text: &str) -> Result<Statement, DbError> {
        self.conn.prep(text).map_err(sorted)
    }

    fn execute(
        &mut self,
        statement: &Statement,
        values: &[Value],
        take: Option<Taker<'_>>,
    ) -> Result<Given, DbError> {
        let wanted = usize::from(statement.num_params());
        if wanted != values.len() {
            let given = values.len();
            return Err(DbError::Other(format!("a statement of {wanted} parameters is given {given}")));
        }
        let columns = self.columns.entry(statement.id()).or_insert_with(|| statement.columns());
        let given = self.packets.execute(socket(&self.conn), statement.id(), values, columns, take);
        given.map_err(sorted)
    }

    pub(super) fn run(&mut self, statement: &Statement, values: &[Value]) -> Result<u64, DbError> {
        Ok(self.execute(statement, values, None)?.changed)
    }

    pub(super) fn rows(&mut self, statement: &Statement, values: &[Value]) -> Result<Vec<Row>, DbError> {
        let mut rows = Vec::new();
        self.execute(statement, values, Some(&mut |one| rows.push(row(one))))?;
        Ok(rows)
    }

    pub(super) fn fetch(&mut self, statement: &Statement, values: &[Value]) -> Result<usize, DbError> {
        Ok(self.execute(statement, values, None)?.rows)
    }
}

/// The driver's own socket. Between two commands it holds nothing that the driver has not read.
fn socket(conn: &Conn) -> BorrowedFd<'_> {
    // SAFETY: the connection owns the descriptor, and closes it no sooner than it is dropped; it is borrowed that long
    unsafe { BorrowedFd::borrow_raw(conn.as_raw_fd()) }
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
    // without the driver's own brackets around it
    let text = match &error {
        Error::MySqlError(server) => server.to_string(),
        Error::DriverError(driver) => driver.to_string(),
        other => other.to_string(),
    };
    match error {
        Error::MySqlError(server) => match server.code {
            // ER_LOCK_DEADLOCK, ER_LOCK_WAIT_TIMEOUT, ER_CHECKREAD
            1213 | 1205 | 1020 => DbError::Conflict(text),
            // ER_DUP_ENTRY
            1062 => DbError::Duplicate(text),
            1146 => DbError::NoTable(text),
            1050 => DbError::TableExists(text),
            // ER_SERVER_SHUTDOWN, ER_CONNECTION_KILLED, ER_NORMAL_SHUTDOWN
            1053 | 1927 | 1077 => DbError::Gone(text),
            // ER_DISK_FULL, ER_RECORD_FILE_FULL
            1021 | 1114 => DbError::Full(text),
            // ER_GET_ERRNO, ER_ERROR_ON_WRITE with ENOSPC in it
            1030 | 1026 | 3 if text.contains("28") => DbError::Full(text),
            1044 => DbError::Refused(format!(
                "{text}; let this user use it (GRANT ALL ON the database), or name another database or user in the address"
            )),
            // ER_UNKNOWN_STORAGE_ENGINE
            1286 => DbError::Refused(format!(
                "{text}; the server has no such engine: give it its plugin (of MyRocks: mariadb-plugin-rocksdb, INSTALL \
                 SONAME 'ha_rocksdb'), or take another --engine"
            )),
            1045 | 1698 => DbError::Refused(format!(
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_say_what_to_do() {
        for (code, remedy) in
            [(1044, "GRANT ALL"), (1045, "user and password"), (1049, "CREATE DATABASE"), (1286, "--engine")]
        {
            let told = mysql::MySqlError { state: "HY000".into(), message: "no".into(), code };
            let error = sorted(mysql::Error::MySqlError(told));
            assert!(matches!(&error, DbError::Refused(text) if text.contains(remedy)), "{code}: {error}");
        }
    }
}
