//! What stands for both protocols in a build without them: a connection that there never is.

use super::error::DbError;
use super::value::{Address, Row, Value};

/// Of no prepared statement.
#[derive(Debug, Clone)]
pub(super) enum Statement {}

/// Of no connection.
#[derive(Debug)]
pub(super) enum Wire {}

/// Of no MySQL server.
pub(super) type Maria = Wire;
/// Of no PostgreSQL server.
pub(super) type Postgres = Wire;

impl Wire {
    pub(super) fn open(_: &Address, _: bool) -> Result<Wire, DbError> {
        Err(DbError::Refused(format!("{}; {}", crate::NO_CLIENTS.0, crate::NO_CLIENTS.1)))
    }

    pub(super) fn plain(&mut self, _: &str) -> Result<(), DbError> {
        match *self {}
    }

    pub(super) fn ask(&mut self, _: &str) -> Result<Vec<Row>, DbError> {
        match *self {}
    }

    pub(super) fn prepare(&mut self, _: &str) -> Result<Statement, DbError> {
        match *self {}
    }

    pub(super) fn run(&mut self, _: &Statement, _: &[Value]) -> Result<u64, DbError> {
        match *self {}
    }

    pub(super) fn rows(&mut self, _: &Statement, _: &[Value]) -> Result<Vec<Row>, DbError> {
        match *self {}
    }

    pub(super) fn fetch(&mut self, _: &Statement, _: &[Value]) -> Result<usize, DbError> {
        match *self {}
    }
}
