//! What a private server is told: memory, log, durability.

use crate::engine::Engine;

/// When a commit is on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flush {
    /// Before it is acknowledged: `innodb_flush_log_at_trx_commit=1`, `rocksdb_flush_log_at_trx_commit=1`,
    /// `synchronous_commit=on`.
    EachCommit,
    /// Each second; written to the operating system before it is acknowledged (InnoDB): value 2; for PostgreSQL
    /// `synchronous_commit=off`.
    WrittenEachCommit,
    /// Each second: value 0; for PostgreSQL `synchronous_commit=off`.
    EachSecond,
}

impl Flush {
    /// The value that InnoDB and MyRocks have for it.
    pub fn number(self) -> u8 {
        match self {
            Flush::EachCommit => 1,
            Flush::WrittenEachCommit => 2,
            Flush::EachSecond => 0,
        }
    }
}

/// Settings of a private server. All that a comparison depends on is said, never left to a default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// What stores the rows.
    pub engine: Engine,
    /// Bytes of the cache of rows: `innodb_buffer_pool_size`, `rocksdb_block_cache_size`, `shared_buffers`.
    pub cache_bytes: u64,
    /// Bytes of the log: `innodb_log_file_size`, `max_wal_size`; MyRocks bounds its log by its memtables.
    pub log_bytes: u64,
    /// When a commit is on the device.
    pub flush: Flush,
    /// Connections at once, at most.
    pub connections: u32,
}
