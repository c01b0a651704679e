//! One connection to a server, whichever driver speaks with it.
//!
//! | module | holds |
//! |---|---|
//! | `connection` | connection, statement |
//! | `value` | values, rows, addresses |
//! | `error` | what a server answers, sorted by what a client can do |
//! | `maria` | a MySQL server's connection |
//! | `packets` | the commands and answers of a load in the MySQL protocol |
//! | `postgres` | PostgreSQL's |
//! | `absent` | what stands for both in a build without them |
//! | `fuzzing` | for fuzz targets: an answer read from bytes |

#[cfg(not(feature = "clients"))]
mod absent;
mod connection;
mod error;
#[cfg(feature = "clients")]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(feature = "clients")]
mod maria;
#[cfg(feature = "clients")]
mod packets;
#[cfg(feature = "clients")]
mod postgres;
mod value;

pub use connection::{Connection, Statement};
pub use error::DbError;
pub(crate) use value::DATABASE;
pub use value::{Address, Row, Value};
