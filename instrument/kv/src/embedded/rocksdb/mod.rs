//! RocksDB through the C interface of a librocksdb that the machine has (rocksdb/c.h), loaded when it is needed: nothing
//! is linked, building needs no package, and a machine without the library lacks this engine only. (Crate `rocksdb` builds
//! 25 processor minutes of C++, or needs the development package to build against.)
//!
//! | module | holds |
//! |---|---|
//! | `library` | the functions, how the library is found |
//! | `cursor` | a writer of single values, an iterator |

#[cfg(test)]
mod conformance;
mod cursor;
mod library;

use std::ffi::{CStr, CString, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

pub use cursor::{Iterator, Writer};
use library::{Api, Handle, library};

use super::session::{Embedded, SerializedSession, Session, Settings, Values};
use crate::KvError;
use crate::record::Names;

/// `rocksdb_no_compression`.
const NO_COMPRESSION: c_int = 0;
/// Bits of the Bloom filter for each key, for loads that say nothing else.
const BLOOM_BITS: f64 = 10.0;
/// Longest wait for compactions.
const COMPACTION_PATIENCE: Duration = Duration::from_secs(600);
/// How often they are asked for.
const ASK_EVERY: Duration = Duration::from_millis(50);

/// Whether the library is there; cheap.
///
/// # Errors
/// It is not.
pub fn available() -> Result<(), KvError> {
    library().and_then(|(library, _)| Api::load(library)).map(drop)
}

/// Options that loads set; all others are the library's defaults, without compression.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// Bytes of the block cache; none: the library's own default, 8 MiB.
    pub cache_bytes: Option<u64>,
    /// Bits of the Bloom filter for each key; 0: no filter.
    pub bloom_bits: f64,
    /// `target_file_size_base`; none: the library's own default, 64 MiB.
    pub file_bytes: Option<u64>,
    /// A write is on the device before it is acknowledged.
    pub sync: bool,
    /// As db_bench has them: pipelined writes, a compaction debt of 128 GiB.
    pub as_db_bench: bool,
}

impl Options {
    pub(super) fn of(settings: &Settings) -> Options {
        Options {
            cache_bytes: Some(settings.cache_bytes),
            bloom_bits: BLOOM_BITS,
            file_bytes: None,
            sync: settings.sync,
            as_db_bench: false,
        }
    }
}

/// An open database.
pub struct Db {
    api: Api,
    db: Handle,
    read: Handle,
    write: Handle,
    load: Handle,
    options: Options,
    name: &'static CStr,
}

// SAFETY: a rocksdb_t and its options may be used by several threads at once (rocksdb/c.h, rocksdb/db.h).
unsafe impl Sync for Db {}
// SAFETY: no handle belongs to the thread that made it.
unsafe impl Send for Db {}

impl std::fmt::Debug for Db {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Db({:?})", self.options)
    }
}

impl Drop for Db {
    fn drop(&mut self) {
        // SAFETY: the handles are open, and `&mut self` says that nobody uses them.
        unsafe {
            if !self.db.is_null() {
                (self.api.close)(self.db);
            }
            (self.api.readoptions_destroy)(self.read);
            (self.api.writeoptions_destroy)(self.write);
            (self.api.writeoptions_destroy)(self.load);
        }
    }
}

impl Db {
    /// Opens a database, makes it if it is missing.
    ///
    /// # Errors
    /// No library, or what RocksDB says.
    pub fn open(path: &Path, options: &Options) -> Result<Db, KvError> {
        let (library, name) = library()?;
        let api = Api::load(library)?;
        let path = CString::new(path.as_os_str().as_bytes())
            .map_err(|error| KvError::Parameter(error.to_string()))?;
        let mut error = std::ptr::null_mut();
        // SAFETY: every handle comes from the library and is used as rocksdb/c.h says; the table factory takes the filter
        // policy over and shares the cache, the database copies its options.
        let db = unsafe {
            let made = (api.options_create)();
            (api.options_set_create_if_missing)(made, 1);
            (api.options_set_compression)(made, NO_COMPRESSION);
            #[cfg(test)]
            conformance::count_all(library, made);
            if let Some(bytes) = options.file_bytes {
                (api.options_set_target_file_size_base)(made, bytes);
            }
            if options.as_db_bench {
                (api.options_set_enable_pipelined_write)(made, 1);
                (api.options_set_hard_pending_compaction_bytes_limit)(made, 128 << 30);
            }
            let table = (api.block_based_options_create)();
            if options.bloom_bits > 0.0 {
                let bloom = (api.filterpolicy_create_bloom)(options.bloom_bits);
                (api.block_based_options_set_filter_policy)(table, bloom);
            }
            if let Some(bytes) = options.cache_bytes {
                let cache = (api.cache_create_lru)(usize::try_from(bytes).unwrap_or(usize::MAX));
                (api.block_based_options_set_block_cache)(table, cache);
                (api.cache_destroy)(cache);
            }
            (api.options_set_block_based_table_factory)(made, table);
            (api.block_based_options_destroy)(table);
            let db = (api.open)(made, path.as_ptr(), &mut error);
            (api.options_destroy)(made);
            db
        };
        // SAFETY: each makes a set of options, which lives as long as the database.
        let (read, write, load) =
            unsafe { ((api.readoptions_create)(), (api.writeoptions_create)(), (api.writeoptions_create)()) };
        // SAFETY: options that were just made.
        unsafe { (api.writeoptions_set_sync)(write, options.sync.into()) };
        let db = Db { api, db, read, write, load, options: *options, name };
        db.api.check(error)?;
        Ok(db)
    }

    /// Stores a value.
    ///
    /// # Errors
    /// What RocksDB says.
    #[inline]
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<(), KvError> {
        self.api.count_nothing();
        let mut error = std::ptr::null_mut();
        // SAFETY: open handles, and slices that live through the call.
        unsafe {
            let (key, length) = (key.as_ptr(), key.len());
            (self.api.put)(self.db, self.write, key, length, value.as_ptr(), value.len(), &mut error);
        }
        self.api.check(error)
    }

    /// Stores single values with one batch, used again: what db_bench does. The library's own put makes a batch each time.
    pub fn writer(&self) -> Writer<'_> {
        // SAFETY: open handles; the batch borrows the database and goes before it.
        unsafe { Writer::new(&self.api, self.db, self.write) }
    }

    /// Stores values, all or none, not yet on the device.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn put_all(&self, records: &[(Vec<u8>, Vec<u8>)]) -> Result<(), KvError> {
        self.api.count_nothing();
        let mut error = std::ptr::null_mut();
        // SAFETY: a batch that lives through the calls, which copy what they are given; open handles.
        unsafe {
            let batch = (self.api.writebatch_create)();
            for (key, value) in records {
                (self.api.writebatch_put)(batch, key.as_ptr(), key.len(), value.as_ptr(), value.len());
            }
            (self.api.write)(self.db, self.load, batch, &mut error);
            (self.api.writebatch_clear)(batch);
            (self.api.writebatch_destroy)(batch);
        }
        self.api.check(error)
    }

    /// Reads a value without a copy and shows it; false: the key is not there.
    ///
    /// # Errors
    /// What RocksDB says.
    #[inline]
    pub fn get(&self, key: &[u8], show: impl FnOnce(&[u8])) -> Result<bool, KvError> {
        self.api.count_nothing();
        let mut error = std::ptr::null_mut();
        // SAFETY: open handles, and a slice that lives through the call; the value stays until its slice is destroyed.
        let found = unsafe {
            let slice = (self.api.get_pinned)(self.db, self.read, key.as_ptr(), key.len(), &mut error);
            if slice.is_null() {
                false
            } else {
                let mut length = 0;
                let value = (self.api.pinnableslice_value)(slice, &mut length);
                show(std::slice::from_raw_parts(value, length));
                (self.api.pinnableslice_destroy)(slice);
                true
            }
        };
        self.api.check(error)?;
        Ok(found)
    }

    /// Reads the values of many keys at once; how many were there, and their bytes.
    ///
    /// # Errors
    /// What RocksDB says of the first key that failed.
    pub fn multi_get(&self, keys: &[Vec<u8>]) -> Result<(u64, u64), KvError> {
        self.api.count_nothing();
        let pointers: Vec<*const u8> = keys.iter().map(|key| key.as_ptr()).collect();
        let lengths: Vec<usize> = keys.iter().map(Vec::len).collect();
        let mut values = vec![std::ptr::null_mut(); keys.len()];
        let mut value_lengths = vec![0; keys.len()];
        let mut errors = vec![std::ptr::null_mut(); keys.len()];
        // SAFETY: open handles and five arrays of this length; values are freed as the library asks.
        let (found, bytes) = unsafe {
            (self.api.multi_get)(
                self.db,
                self.read,
                keys.len(),
                pointers.as_ptr(),
                lengths.as_ptr(),
                values.as_mut_ptr(),
                value_lengths.as_mut_ptr(),
                errors.as_mut_ptr(),
            );
            let mut sum = (0, 0);
            for (value, length) in values.iter().zip(&value_lengths) {
                if !value.is_null() {
                    sum = (sum.0 + 1, sum.1 + *length as u64);
                    (self.api.free)(value.cast());
                }
            }
            sum
        };
        // each is freed, the first one told
        let mut results =
            errors.into_iter().map(|error| self.api.check(error)).collect::<Vec<_>>().into_iter();
        results.find(Result::is_err).unwrap_or(Ok(()))?;
        Ok((found, bytes))
    }

    /// An iterator; it must be placed before it is used.
    pub fn iterator(&self) -> Iterator<'_> {
        self.api.count_nothing();
        // SAFETY: open handles; the iterator borrows the database and goes before it.
        unsafe { Iterator::new(&self.api, self.db, self.read) }
    }

    /// Writes out what lies in memory.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn flush(&self) -> Result<(), KvError> {
        let mut error = std::ptr::null_mut();
        // SAFETY: open handles; the options are destroyed after their only use.
        unsafe {
            let options = (self.api.flushoptions_create)();
            (self.api.flush)(self.db, options, &mut error);
            (self.api.flushoptions_destroy)(options);
        }
        self.api.check(error)
    }

    /// Compacts all of it.
    pub fn compact(&self) {
        // SAFETY: an open handle; no ends mean everything.
        unsafe { (self.api.compact_range)(self.db, std::ptr::null(), 0, std::ptr::null(), 0) };
    }

    /// A property of the database as text.
    pub fn property(&self, name: &CStr) -> Option<String> {
        // SAFETY: an open handle and a C string; the library gives one of its own, which is ours to free.
        unsafe {
            let value = (self.api.property_value)(self.db, name.as_ptr());
            if value.is_null() {
                return None;
            }
            let text = CStr::from_ptr(value).to_string_lossy().into_owned();
            (self.api.free)(value.cast());
            Some(text)
        }
    }

    /// Waits until no compaction is pending or runs.
    ///
    /// # Errors
    /// It takes longer than 600 s; interrupted.
    pub fn wait_for_compactions(&self, stopped: &dyn Fn() -> bool) -> Result<(), KvError> {
        let start = Instant::now();
        let names = [
            c"rocksdb.compaction-pending",
            c"rocksdb.num-running-compactions",
            c"rocksdb.num-running-flushes",
        ];
        while names.iter().any(|name| self.property(name).is_some_and(|value| value != "0")) {
            if stopped() {
                return Err(KvError::Interrupted);
            }
            if start.elapsed() > COMPACTION_PATIENCE {
                let waited = COMPACTION_PATIENCE.as_secs();
                return Err(KvError::Engine(format!("RocksDB still compacts after {waited} s")));
            }
            std::thread::sleep(ASK_EVERY);
        }
        Ok(())
    }
}

impl Embedded for Db {
    fn session<'a>(&'a self, names: &'a Names) -> Result<Box<dyn Session + 'a>, KvError> {
        Ok(Box::new(SerializedSession::new(Shared(self), names)))
    }

    fn settle(&self, stopped: &dyn Fn() -> bool) -> Result<(), KvError> {
        self.flush()?;
        self.wait_for_compactions(stopped)
    }

    fn settings(&self) -> Vec<(String, String)> {
        let capacity = self.property(c"rocksdb.block-cache-capacity").unwrap_or_default();
        vec![
            ("version".into(), self.name.to_string_lossy().replace("librocksdb.so.", "")),
            ("sync".into(), self.options.sync.to_string()),
            ("block_cache".into(), capacity),
            ("bloom_bits".into(), self.options.bloom_bits.to_string()),
            ("compression".into(), "none".into()),
        ]
    }
}

struct Shared<'a>(&'a Db);

impl Values for Shared<'_> {
    fn get(&mut self, key: &[u8], show: &mut dyn FnMut(&[u8])) -> Result<bool, KvError> {
        self.0.get(key, show)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), KvError> {
        self.0.put(key, value)
    }

    fn load(&mut self, records: &[(Vec<u8>, Vec<u8>)]) -> Result<(), KvError> {
        self.0.put_all(records)
    }

    fn scan(&mut self, key: &[u8], most: u64, show: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), KvError> {
        let mut iterator = self.0.iterator();
        iterator.seek(key);
        for _ in 0..most {
            let Some((key, value)) = iterator.entry() else { break };
            show(key, value);
            iterator.next();
        }
        iterator.check()
    }
}
