//! PostgreSQL's protocol, by crate `postgres`.

use std::error::Error;

pub(super) use postgres::Statement;
use postgres::error::Severity;
use postgres::types::private::BytesMut;
use postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};
use postgres::{Client, Config, NoTls, SimpleQueryMessage};

use super::error::DbError;
use super::value::{Address, DATABASE, Row, Value};

/// A connection.
pub(super) struct Postgres(Client);

impl std::fmt::Debug for Postgres {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Postgres")
    }
}

impl Postgres {
    pub(super) fn open(address: &Address, system: bool) -> Result<Postgres, DbError> {
        let config = match address {
            Address::Socket(folder) => {
                let mut config = Config::new();
                config.host_path(folder).user(DATABASE).dbname(if system { "postgres" } else { DATABASE });
                config
            }
            Address::Url(url) => url
                .expose()
                .parse()
                .map_err(|error| DbError::Refused(format!("--address {url}: {}", told(&error))))?,
        };
        config.connect(NoTls).map(Postgres).map_err(|error| match sorted(error) {
            DbError::Gone(text) => DbError::Refused(format!(
                "{text}; is a server running there, and does it listen? (--address postgres://user:password@host:port/database)"
            )),
            other => other,
        })
    }

    pub(super) fn plain(&mut self, text: &str) -> Result<(), DbError> {
        self.0.batch_execute(text).map_err(sorted)
    }

    pub(super) fn ask(&mut self, text: &str) -> Result<Vec<Row>, DbError> {
        let mut rows = Vec::new();
        for message in self.0.simple_query(text).map_err(sorted)? {
            if let SimpleQueryMessage::Row(row) = message {
                let one = |at| row.get(at).map_or(Value::Null, |text: &str| Value::Text(text.to_string()));
                rows.push((0..row.len()).map(one).collect());
            }
        }
        Ok(rows)
    }

    pub(super) fn prepare(&mut self, text: &str) -> Result<Statement, DbError> {
        self.0.prepare(text).map_err(sorted)
    }

    pub(super) fn run(&mut self, statement: &Statement, values: &[Value]) -> Result<u64, DbError> {
        self.0.execute(statement, &references(values)).map_err(sorted)
    }

    pub(super) fn rows(&mut self, statement: &Statement, values: &[Value]) -> Result<Vec<Row>, DbError> {
        let rows = self.0.query(statement, &references(values)).map_err(sorted)?;
        let one = |row: &postgres::Row| (0..row.len()).map(|at| row.try_get(at).map_err(sorted)).collect();
        rows.iter().map(one).collect()
    }

    pub(super) fn fetch(&mut self, statement: &Statement, values: &[Value]) -> Result<usize, DbError> {
        Ok(self.0.query(statement, &references(values)).map_err(sorted)?.len())
    }
}

fn references(values: &[Value]) -> Vec<&(dyn ToSql + Sync)> {
    values.iter().map(|value| value as &(dyn ToSql + Sync)).collect()
}

impl ToSql for Value {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self {
            Value::Null => Ok(IsNull::Yes),
            Value::Int(number) if *ty == Type::INT2 => i16::try_from(*number)?.to_sql(ty, out),
            Value::Int(number) if *ty == Type::INT4 => i32::try_from(*number)?.to_sql(ty, out),
            Value::Int(number) => number.to_sql(ty, out),
            Value::Text(text) => text.as_str().to_sql(ty, out),
        }
    }

    fn accepts(ty: &Type) -> bool {
        [Type::INT2, Type::INT4, Type::INT8].contains(ty) || <&str as ToSql>::accepts(ty)
    }

    to_sql_checked!();
}

impl<'a> FromSql<'a> for Value {
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Result<Value, Box<dyn Error + Sync + Send>> {
        Ok(match *ty {
            Type::INT2 => Value::Int(i16::from_sql(ty, raw)?.into()),
            Type::INT4 => Value::Int(i32::from_sql(ty, raw)?.into()),
            Type::INT8 => Value::Int(i64::from_sql(ty, raw)?),
            // microseconds since 2000 on the wire, also 64 bits
            Type::TIMESTAMP => Value::Int(i64::from_sql(&Type::INT8, raw)?),
            _ => Value::Text(String::from_sql(ty, raw)?),
        })
    }

    fn from_sql_null(_: &Type) -> Result<Value, Box<dyn Error + Sync + Send>> {
        Ok(Value::Null)
    }

    fn accepts(ty: &Type) -> bool {
        [Type::INT2, Type::INT4, Type::INT8, Type::TIMESTAMP].contains(ty) || <String as FromSql>::accepts(ty)
    }
}

/// An error with its causes: the driver's own text is only `db error`.
fn told(error: &postgres::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(one) = cause {
        text += &format!(": {one}");
        cause = one.source();
    }
    text
}

/// Codes of PostgreSQL's appendix A.
fn sorted(error: postgres::Error) -> DbError {
    let text = told(&error);
    let Some(code) = error.code() else {
        return if error.is_closed() || error.source().is_some_and(|cause| cause.is::<std::io::Error>()) {
            DbError::Gone(text)
        } else {
            DbError::Other(text)
        };
    };
    match code.code() {
        // serialization_failure, deadlock_detected
        "40001" | "40P01" => DbError::Conflict(text),
        // unique_violation
        "23505" => DbError::Duplicate(text),
        "42P01" => DbError::NoTable(text),
        "42P07" => DbError::TableExists(text),
        // admin_shutdown, crash_shutdown, cannot_connect_now
        "57P01" | "57P02" | "57P03" => DbError::Gone(text),
        "53100" => DbError::Full(text),
        "53300" => DbError::Refused(format!("{text}; raise max_connections, or use fewer --terminals")),
        "28P01" | "28000" => DbError::Refused(format!(
            "{text}; give user and password in the address (--address postgres://user:password@host:port/database)"
        )),
        "3D000" => DbError::Refused(format!("{text}; make it (CREATE DATABASE), or name another one")),
        // the session has ended, and what became of its transaction nobody knows: a PANIC over a failed flush of the log
        // is told to the client whose commit it was, which may be there after recovery
        _ if ends_session(&error) => DbError::Gone(text),
        _ => DbError::Other(text),
    }
}

fn ends_session(error: &postgres::Error) -> bool {
    let severity = error.as_db_error().and_then(|told| told.parsed_severity());
    matches!(severity, Some(Severity::Fatal | Severity::Panic))
}
