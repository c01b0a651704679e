//! Terminals, as crate `serve` drives them, with the errors of databases.

use crate::db::DbError;

pub use serve::drive::{Caller, Failure, Kind, Pace, Terminal, TransactionEnd, by_five_seconds, drive};

/// A terminal of any load.
pub type AnyTerminal<'a> = Box<dyn Terminal<Error = DbError> + 'a>;
/// What all terminals did.
pub type Driven = serve::drive::DriveOutcome<DbError>;

impl Failure for DbError {
    fn is_conflict(&self) -> bool {
        matches!(self, DbError::Conflict(_))
    }

    fn panicked() -> DbError {
        DbError::Other("a terminal panicked".into())
    }
}
