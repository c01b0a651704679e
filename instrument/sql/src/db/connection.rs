//! A connection, whichever driver speaks with the server.

use super::error::DbError;
use super::value::{Address, Row, Value};
#[cfg(not(feature = "clients"))]
use super::{absent as maria, absent as postgres};
#[cfg(feature = "clients")]
use super::{maria, postgres};
use crate::engine::Engine;

/// A statement that the server has prepared for one connection.
#[derive(Debug, Clone)]
pub struct Statement(Prepared);

#[derive(Debug, Clone)]
enum Prepared {
    Maria(maria::Statement),
    Postgres(postgres::Statement),
}

/// A connection. A statement belongs to the connection that prepared it.
#[derive(Debug)]
pub struct Connection {
    engine: Engine,
    wire: Wire,
}

#[derive(Debug)]
enum Wire {
    Maria(Box<maria::Maria>),
    Postgres(Box<postgres::Postgres>),
}

impl Connection {
    /// Connects to the database that the address names; a private server's is `loadline`, or the system's own with
    /// `system`.
    ///
    /// # Errors
    /// [`DbError::Refused`] with a remedy for a wrong password, a refused connection, a database that is not there.
    pub fn open(engine: Engine, address: &Address, system: bool) -> Result<Connection, DbError> {
        let wire = if engine.is_mysql() {
            Wire::Maria(Box::new(maria::Maria::open(address, system)?))
        } else {
            Wire::Postgres(Box::new(postgres::Postgres::open(address, system)?))
        };
        Ok(Connection { engine, wire })
    }

    /// The engine that its tables are stored by.
    pub fn engine(&self) -> Engine {
        self.engine
    }

    /// Runs statements without parameters and results, as they are written.
    ///
    /// # Errors
    /// What the server answers.
    pub fn plain(&mut self, text: &str) -> Result<(), DbError> {
        match &mut self.wire {
            Wire::Maria(one) => one.plain(text),
            Wire::Postgres(one) => one.plain(text),
        }
    }

    /// Runs a statement without parameters, in the engine's dialect, and gives its rows. All values are texts.
    ///
    /// # Errors
    /// What the server answers.
    pub fn ask(&mut self, text: &str) -> Result<Vec<Row>, DbError> {
        let text = self.engine.dialect(text);
        match &mut self.wire {
            Wire::Maria(one) => one.ask(&text),
            Wire::Postgres(one) => one.ask(&text),
        }
    }

    /// Prepares a statement (see [`Engine`] for the words in braces).
    ///
    /// # Errors
    /// What the server answers.
    pub fn prepare(&mut self, text: &str) -> Result<Statement, DbError> {
        let text = self.engine.dialect(text);
        Ok(Statement(match &mut self.wire {
            Wire::Maria(one) => Prepared::Maria(one.prepare(&text)?),
            Wire::Postgres(one) => Prepared::Postgres(one.prepare(&text)?),
        }))
    }

    /// Runs a prepared statement that gives no rows; how many rows it has changed.
    ///
    /// # Errors
    /// What the server answers.
    pub fn run(&mut self, statement: &Statement, values: &[Value]) -> Result<u64, DbError> {
        match (&mut self.wire, &statement.0) {
            (Wire::Maria(one), Prepared::Maria(statement)) => one.run(statement, values),
            (Wire::Postgres(one), Prepared::Postgres(statement)) => one.run(statement, values),
            _ => Err(DbError::foreign()),
        }
    }

    /// Runs a prepared query.
    ///
    /// # Errors
    /// What the server answers.
    pub fn rows(&mut self, statement: &Statement, values: &[Value]) -> Result<Vec<Row>, DbError> {
        match (&mut self.wire, &statement.0) {
            (Wire::Maria(one), Prepared::Maria(statement)) => one.rows(statement, values),
            (Wire::Postgres(one), Prepared::Postgres(statement)) => one.rows(statement, values),
            _ => Err(DbError::foreign()),
        }
    }

    /// Runs a prepared query whose rows are only fetched, not looked at; how many there were.
    ///
    /// # Errors
    /// What the server answers.
    pub fn fetch(&mut self, statement: &Statement, values: &[Value]) -> Result<usize, DbError> {
        match (&mut self.wire, &statement.0) {
            (Wire::Maria(one), Prepared::Maria(statement)) => one.fetch(statement, values),
            (Wire::Postgres(one), Prepared::Postgres(statement)) => one.fetch(statement, values),
            _ => Err(DbError::foreign()),
        }
    }

    /// The first row of a prepared query; none when it gives none.
    ///
    /// # Errors
    /// What the server answers.
    pub fn first(&mut self, statement: &Statement, values: &[Value]) -> Result<Option<Row>, DbError> {
        Ok(self.rows(statement, values)?.into_iter().next())
    }

    /// Begins a transaction.
    ///
    /// # Errors
    /// What the server answers.
    pub fn begin(&mut self) -> Result<(), DbError> {
        self.plain("BEGIN")
    }

    /// Commits. When the connection breaks meanwhile ([`DbError::Gone`]), nobody knows whether it was.
    ///
    /// # Errors
    /// What the server answers.
    pub fn commit(&mut self) -> Result<(), DbError> {
        self.plain("COMMIT")
    }

    /// Rolls back.
    ///
    /// # Errors
    /// What the server answers.
    pub fn roll_back(&mut self) -> Result<(), DbError> {
        self.plain("ROLLBACK")
    }
}
