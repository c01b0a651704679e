//! SQL loads: private MariaDB and PostgreSQL servers, sysbench's OLTP mixes, TPC-C with its consistency conditions.
//!
//! | module | holds |
//! |---|---|
//! | [`engine`] | the engines by name, their dialects |
//! | [`db`] | a connection to a server, whichever driver speaks with it |
//! | [`server`] | private servers: made, started, ended, killed |
//! | [`drive`] | terminals of databases, driven by crate `serve` |
//! | [`random`] | random numbers, sysbench's distribution |
//! | [`sysbench`] | sysbench's OLTP mixes |
//! | [`tpcc`] | TPC-C: tables, transactions, consistency conditions, ledger |
//! | [`job`] | a load as a whole: filled, run, checked |
//! | `settle` | a filled database at rest |
//! | [`error`] | what can go wrong |

/// Why a build without the feature `clients` runs no SQL load, and what to do.
pub(crate) const NO_CLIENTS: (&str, &str) = (
    "this loadline was built without SQL clients, as `make demo` builds it",
    "build all of it: make build (then target/release/loadline)",
);

pub mod db;
pub mod drive;
pub mod engine;
pub mod error;
pub mod job;
pub mod random;
pub mod server;
mod settle;
pub mod sysbench;
pub mod tpcc;

pub use engine::Engine;
pub use error::SqlError;
pub use job::{Job, What};
pub use server::{Flush, Server, Settings};
