//! What every engine in the process can do.

use crate::KvError;
use crate::client::RequestedFields;
use crate::record::Names;
use crate::values::FieldValues;

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
}

/// What one thread does with an open engine.
pub trait Session: Send {
    /// Reads a record and shows the fields that are asked for; false: there is none.
    ///
    /// # Errors
    /// What the engine says.
    fn read(&mut self, key: &[u8], asked: RequestedFields, show: Show<'_>) -> Result<bool, KvError>;

    /// Writes a new record.
    ///
    /// # Errors
    /// What the engine says.
    fn insert(&mut self, key: &[u8], fields: &FieldValues) -> Result<(), KvError>;

    /// Writes some fields of a record that is there; how many calls of the engine it took. None: there is no such record.
    ///
    /// # Errors
    /// What the engine says.
    fn update(&mut self, key: &[u8], fields: &FieldValues) -> Result<Option<u64>, KvError>;

    /// Writes many records as fast as the engine can: each is there afterwards, but perhaps not yet on the device.
    ///
    /// # Errors
    /// What the engine says.
    fn load(&mut self, records: &[(Vec<u8>, FieldValues)]) -> Result<(), KvError>;

    /// Shows the fields that are asked for of up to `most` records, in the order of the keys, from `key` on.
    ///
    /// # Errors
    /// What the engine says.
    fn scan(
        &mut self,
        key: &[u8],
        most: u64,
        asked: RequestedFields,
        show: ShowScanned<'_>,
    ) -> Result<(), KvError>;
}

/// Sees the keys of records, fields and their values.
pub type ShowScanned<'a> = &'a mut dyn FnMut(&[u8], usize, &[u8]);

/// Sees fields and their values.
pub type Show<'a> = &'a mut dyn FnMut(usize, &[u8]);

/// What one thread does with an engine that stores one value under a key.
pub(super) trait Values: Send {
    /// Reads a value and shows it; false: there is none.
    fn get(&mut self, key: &[u8], show: &mut dyn FnMut(&[u8])) -> Result<bool, KvError>;

    /// Writes a value, whether or not there was one.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), KvError>;

    /// Writes many values as fast as the engine can: each is there afterwards, but perhaps not yet on the device.
    fn load(&mut self, values: &[(Vec<u8>, Vec<u8>)]) -> Result<(), KvError>;

    /// Shows up to `most` keys and values, in the order of the keys, from `key` on.
    fn scan(&mut self, key: &[u8], most: u64, show: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), KvError>;
}

/// Records in an engine that stores one value under a key, as YCSB's RocksDB binding has them there: an update reads the
/// record, puts its fields into it and writes it again.
#[derive(Debug)]
pub(super) struct SerializedSession<'a, V> {
    values: V,
    names: &'a Names,
    old: Vec<u8>,
    new: Vec<u8>,
}

impl<'a, V: Values> SerializedSession<'a, V> {
    pub(super) fn new(values: V, names: &'a Names) -> SerializedSession<'a, V> {
        SerializedSession { values, names, old: Vec::new(), new: Vec::new() }
    }
}

fn wrong(key: &[u8]) -> impl Fn(String) -> KvError {
    move |why| KvError::Wrong(format!("the record {} is wrong: {why}", String::from_utf8_lossy(key)))
}

impl<V: Values> Session for SerializedSession<'_, V> {
    fn read(&mut self, key: &[u8], asked: RequestedFields, show: Show<'_>) -> Result<bool, KvError> {
        let (names, mut whole) = (self.names, Ok(()));
        let found = self.values.get(key, &mut |value| {
            whole = names.fields(value, |field, bytes| {
                if asked.has(field) {
                    show(field, bytes);
                }
            });
        })?;
        whole.map_err(wrong(key))?;
        Ok(found)
    }

    fn insert(&mut self, key: &[u8], fields: &FieldValues) -> Result<(), KvError> {
        self.names.serialise(fields, &mut self.new);
        self.values.put(key, &self.new)
    }

    fn update(&mut self, key: &[u8], fields: &FieldValues) -> Result<Option<u64>, KvError> {
        if self.names.is_value() {
            return self.insert(key, fields).map(|()| Some(1));
        }
        let SerializedSession { values, names, old, new } = self;
        let found = values.get(key, &mut |value| {
            old.clear();
            old.extend_from_slice(value);
        })?;
        if !found {
            return Ok(None);
        }
        names.merge(old, fields, new).map_err(wrong(key))?;
        values.put(key, new)?;
        Ok(Some(2))
    }

    fn load(&mut self, records: &[(Vec<u8>, FieldValues)]) -> Result<(), KvError> {
        let serialised = records.iter().map(|(key, fields)| {
            let mut value = Vec::new();
            self.names.serialise(fields, &mut value);
            (key.clone(), value)
        });
        let serialised: Vec<_> = serialised.collect();
        self.values.load(&serialised)
    }

    fn scan(
        &mut self,
        key: &[u8],
        most: u64,
        asked: RequestedFields,
        show: ShowScanned<'_>,
    ) -> Result<(), KvError> {
        let (names, mut whole) = (self.names, Ok(()));
        self.values.scan(key, most, &mut |key, value| {
            let shown = names.fields(value, |field, bytes| {
                if asked.has(field) {
                    show(key, field, bytes);
                }
            });
            if let (Err(why), Ok(())) = (shown, &whole) {
                whole = Err(wrong(key)(why));
            }
        })?;
        whole
    }
}

/// An open engine; each thread has its own session.
pub trait Embedded: Send + Sync {
    /// A session for one thread, for records with fields of these names, those that it was opened with.
    ///
    /// # Errors
    /// What the engine says.
    fn session<'a>(&'a self, names: &'a Names) -> Result<Box<dyn Session + 'a>, KvError>;

    /// Brings what was written to rest: nothing in memory that must still be written, no compaction waiting.
    ///
    /// # Errors
    /// What the engine says.
    fn settle(&self, stopped: &dyn Fn() -> bool) -> Result<(), KvError>;

    /// Its version and the settings that decide.
    fn settings(&self) -> Vec<(String, String)>;
}
