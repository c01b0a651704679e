//! What every engine in the process can do.

use crate::KvError;

/// Settings of an engine. All that a comparison depends on is said, never left to a default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Bytes of the engine's own cache: RocksDB's block cache, SQLite's page cache of all connections together. LMDB has
    /// none: it reads through the page cache.
    pub cache_bytes: u64,
    /// A write is on the device before it is acknowledged.
    pub sync: bool,
    /// Threads that use it.
    pub sessions: u32,
    /// Bytes of records that are expected.
    pub bytes: u64,
}

/// What one thread does with an open engine.
pub trait Session: Send {
    /// Reads a value and shows it; false: there is none.
    ///
    /// # Errors
    /// What the engine says.
    fn get(&mut self, key: &[u8], show: &mut dyn FnMut(&[u8])) -> Result<bool, KvError>;

    /// Writes a value, whether or not there was one.
    ///
    /// # Errors
    /// What the engine says.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), KvError>;

    /// Writes many values as fast as the engine can: each is there afterwards, but perhaps not yet on the device.
    ///
    /// # Errors
    /// What the engine says.
    fn load(&mut self, records: &[(Vec<u8>, Vec<u8>)]) -> Result<(), KvError>;

    /// Shows up to `most` keys and values, in the order of the keys, from `key` on.
    ///
    /// # Errors
    /// What the engine says.
    fn scan(&mut self, key: &[u8], most: u64, show: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), KvError>;
}

/// An open engine; each thread has its own session.
pub trait Embedded: Send + Sync {
    /// A session for one thread.
    ///
    /// # Errors
    /// What the engine says.
    fn session(&self) -> Result<Box<dyn Session + '_>, KvError>;

    /// Brings what was written to rest: nothing in memory that must still be written, no compaction waiting.
    ///
    /// # Errors
    /// What the engine says.
    fn settle(&self, stopped: &dyn Fn() -> bool) -> Result<(), KvError>;

    /// Its version and the settings that decide.
    fn settings(&self) -> Vec<(String, String)>;
}
