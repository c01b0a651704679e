//! SQL loads: private MariaDB and PostgreSQL servers, sysbench's OLTP mixes, TPC-C with its consistency conditions.
//!
//! | module | holds |
//! |---|---|
//! | [`engine`] | the engines by name, their dialects |
//! | [`db`] | a connection to a server, whichever driver speaks with it |
//! | [`server`] | private servers: made, started, ended, killed |
//! | [`error`] | what can go wrong |

pub mod db;
pub mod engine;
pub mod error;
pub mod server;

pub use engine::Engine;
pub use error::SqlError;
pub use server::{Flush, Server, Settings};
