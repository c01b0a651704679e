//! Key-value loads: YCSB's core workloads and db_bench's patterns on RocksDB, SQLite, LMDB, Redis and Redis Cluster.
//!
//! | module | holds |
//! |---|---|
//! | [`properties`] | YCSB's property files |
//! | [`workload`] | the core workload that they say |
//! | [`generators`] | which record comes next |
//! | [`keys`], [`values`] | what is stored; values that say what they are |
//! | [`record`] | the fields of a record, and how they lie in one value |
//! | [`versions`] | what must be found |
//! | [`client`] | one client: operations, values, checks; no I/O |
//! | [`engine`] | the engines by name |
//! | [`embedded`] | engines in the process |
//! | [`patterns`] | db_bench's patterns on RocksDB |
//! | [`redis`] | Redis and Redis Cluster |
//! | [`job`] | a load as a whole: loaded, run, checked |
//! | [`error`] | what can go wrong |

pub mod client;
pub mod embedded;
pub mod engine;
pub mod error;
pub mod generators;
pub mod job;
pub mod keys;
pub mod patterns;
pub mod properties;
pub mod record;
pub mod redis;
pub mod values;
pub mod versions;
pub mod workload;

pub use engine::Engine;
pub use error::KvError;
pub use job::{Job, PatternJob};
pub use workload::Workload;
