//! RocksDB through the C interface of a librocksdb that the machine has (rocksdb/c.h), loaded when it is needed: nothing
//! is linked, building needs no package, and a machine without the library lacks this engine only. (Crate `rocksdb` builds
//! 25 processor minutes of C++, or needs the development package to build against.)

use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_int, c_uchar, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use super::session::{Embedded, Session, Settings};
use crate::KvError;

/// Names that the library has in distributions; the first is that of the development package.
const NAMES: [&CStr; 5] = [
    c"librocksdb.so",
    c"librocksdb.so.7.8",
    c"librocksdb.so.8.9",
    c"librocksdb.so.9.10",
    c"librocksdb.so.10",
];
/// `rocksdb_no_compression`.
const NO_COMPRESSION: c_int = 0;
/// `rocksdb_disable`: what the library counts of a thread's calls (by default each comparison of keys) is not counted.
/// Nobody reads it here, and db_bench turns it off as well.
const COUNT_NOTHING: c_int = 1;
/// Bits of the Bloom filter for each key, for loads that say nothing else.
const BLOOM_BITS: f64 = 10.0;
/// Longest wait for compactions.
const COMPACTION_PATIENCE: Duration = Duration::from_secs(600);
/// How often they are asked for.
const ASK_EVERY: Duration = Duration::from_millis(50);

thread_local! {
    /// Whether this thread has said that nothing is to be counted.
    static COUNTS_NOTHING: Cell<bool> = const { Cell::new(false) };
}

type Handle = *mut c_void;
type ErrorText = *mut *mut c_char;

/// Declares the functions that are used, with their types in rocksdb/c.h.
macro_rules! api {
    ($($name:ident: fn($($arg:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions of the library.
        struct Api {
            $($name: unsafe extern "C" fn($($arg),*) $(-> $result)?,)*
        }

        impl Api {
            fn load(library: Handle) -> Result<Api, KvError> {
                Ok(Api {
                    $($name: {
                        let symbol = symbol(library, concat!("rocksdb_", stringify!($name)))?;
                        // SAFETY: the symbol is the function of this name, whose type rocksdb/c.h gives as here.
                        unsafe { std::mem::transmute::<Handle, unsafe extern "C" fn($($arg),*) $(-> $result)?>(symbol) }
                    },)*
                })
            }
        }
    };
}

api! {
    options_create: fn() -> Handle;
    options_destroy: fn(Handle);
    options_set_create_if_missing: fn(Handle, c_uchar);
    options_set_compression: fn(Handle, c_int);
    options_set_target_file_size_base: fn(Handle, u64);
    options_set_enable_pipelined_write: fn(Handle, c_uchar);
    options_set_hard_pending_compaction_bytes_limit: fn(Handle, usize);
    options_set_block_based_table_factory: fn(Handle, Handle);
    block_based_options_create: fn() -> Handle;
    block_based_options_destroy: fn(Handle);
    block_based_options_set_filter_policy: fn(Handle, Handle);
    block_based_options_set_block_cache: fn(Handle, Handle);
    cache_create_lru: fn(usize) -> Handle;
    cache_destroy: fn(Handle);
    filterpolicy_create_bloom: fn(f64) -> Handle;
    open: fn(Handle, *const c_char, ErrorText) -> Handle;
    close: fn(Handle);
    writeoptions_create: fn() -> Handle;
    writeoptions_destroy: fn(Handle);
    writeoptions_set_sync: fn(Handle, c_uchar);
    readoptions_create: fn() -> Handle;
    readoptions_destroy: fn(Handle);
    flushoptions_create: fn() -> Handle;
    flushoptions_destroy: fn(Handle);
    flush: fn(Handle, Handle, ErrorText);
    compact_range: fn(Handle, *const u8, usize, *const u8, usize);
    put: fn(Handle, Handle, *const u8, usize, *const u8, usize, ErrorText);
    write: fn(Handle, Handle, Handle, ErrorText);
    writebatch_create: fn() -> Handle;
    writebatch_destroy: fn(Handle);
    writebatch_clear: fn(Handle);
    writebatch_put: fn(Handle, *const u8, usize, *const u8, usize);
    get_pinned: fn(Handle, Handle, *const u8, usize, ErrorText) -> Handle;
    pinnableslice_value: fn(Handle, *mut usize) -> *const u8;
    pinnableslice_destroy: fn(Handle);
    multi_get: fn(Handle, Handle, usize, *const *const u8, *const usize, *mut *mut c_char, *mut usize, ErrorText);
    property_value: fn(Handle, *const c_char) -> *mut c_char;
    set_perf_level: fn(c_int);
    free: fn(Handle);
    create_iterator: fn(Handle, Handle) -> Handle;
    iter_seek: fn(Handle, *const u8, usize);
    iter_seek_to_first: fn(Handle);
    iter_seek_to_last: fn(Handle);
    iter_valid: fn(Handle) -> c_uchar;
    iter_next: fn(Handle);
    iter_prev: fn(Handle);
    iter_key: fn(Handle, *mut usize) -> *const u8;
    iter_value: fn(Handle, *mut usize) -> *const u8;
    iter_get_error: fn(Handle, ErrorText);
    iter_destroy: fn(Handle);
}

/// The library, and the name by which it was found.
fn library() -> Result<(Handle, &'static CStr), KvError> {
    for name in NAMES {
        // SAFETY: loads a library by name; its constructors are those of librocksdb.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
        if !handle.is_null() {
            return Ok((handle, name));
        }
    }
    Err(KvError::Unavailable {
        reason: "librocksdb is not found".into(),
        remedy: "install it (scripts/setup.sh rocksdb-tools, or apt install rocksdb-tools)".into(),
    })
}

fn symbol(library: Handle, name: &str) -> Result<Handle, KvError> {
    let text = CString::new(name).map_err(|error| KvError::Engine(error.to_string()))?;
    // SAFETY: a handle of dlopen and a C string.
    let symbol = unsafe { libc::dlsym(library, text.as_ptr()) };
    if symbol.is_null() {
        return Err(KvError::Unavailable {
            reason: format!("librocksdb has no `{name}`"),
            remedy: "install another version".into(),
        });
    }
    Ok(symbol)
}

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
        db.check(error)?;
        Ok(db)
    }

    /// Turns off what the library counts of this thread's calls.
    #[inline]
    fn count_nothing(&self) {
        COUNTS_NOTHING.with(|said| {
            if !said.replace(true) {
                // SAFETY: a level that the library has; it is this thread's alone.
                unsafe { (self.api.set_perf_level)(COUNT_NOTHING) };
            }
        });
    }

    /// Stores a value.
    ///
    /// # Errors
    /// What RocksDB says.
    #[inline]
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<(), KvError> {
        self.count_nothing();
        let mut error = std::ptr::null_mut();
        // SAFETY: open handles, and slices that live through the call.
        unsafe {
            let (key, length) = (key.as_ptr(), key.len());
            (self.api.put)(self.db, self.write, key, length, value.as_ptr(), value.len(), &mut error);
        }
        self.check(error)
    }

    /// Stores single values with one batch, used again: what db_bench does. The library's own put makes a batch each time.
    pub fn writer(&self) -> Writer<'_> {
        // SAFETY: it has no arguments; the batch borrows the database and goes before it.
        Writer { db: self, batch: unsafe { (self.api.writebatch_create)() } }
    }

    /// Stores values, all or none, not yet on the device.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn put_all(&self, records: &[(Vec<u8>, Vec<u8>)]) -> Result<(), KvError> {
        self.count_nothing();
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
        self.check(error)
    }

    /// Reads a value without a copy and shows it; false: the key is not there.
    ///
    /// # Errors
    /// What RocksDB says.
    #[inline]
    pub fn get(&self, key: &[u8], show: impl FnOnce(&[u8])) -> Result<bool, KvError> {
        self.count_nothing();
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
        self.check(error)?;
        Ok(found)
    }

    /// Reads the values of many keys at once; how many were there, and their bytes.
    ///
    /// # Errors
    /// What RocksDB says of the first key that failed.
    pub fn multi_get(&self, keys: &[Vec<u8>]) -> Result<(u64, u64), KvError> {
        self.count_nothing();
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
        let mut results = errors.into_iter().map(|error| self.check(error)).collect::<Vec<_>>().into_iter();
        results.find(Result::is_err).unwrap_or(Ok(()))?;
        Ok((found, bytes))
    }

    /// An iterator; it must be placed before it is used.
    pub fn iterator(&self) -> Iterator<'_> {
        self.count_nothing();
        // SAFETY: open handles; the iterator borrows the database and goes before it.
        Iterator { db: self, handle: unsafe { (self.api.create_iterator)(self.db, self.read) } }
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
        self.check(error)
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

    #[inline]
    fn check(&self, error: *mut c_char) -> Result<(), KvError> {
        if error.is_null() {
            return Ok(());
        }
        // SAFETY: the library gave a C string, which is ours to free.
        let text = unsafe {
            let text = CStr::from_ptr(error).to_string_lossy().into_owned();
            (self.api.free)(error.cast());
            text
        };
        Err(KvError::engine("RocksDB", text))
    }
}

/// Stores values, one at a time.
pub struct Writer<'a> {
    db: &'a Db,
    batch: Handle,
}

// SAFETY: a batch may move between threads; `&mut self` says that one uses it at a time.
unsafe impl Send for Writer<'_> {}

impl std::fmt::Debug for Writer<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Writer")
    }
}

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        // SAFETY: a batch that was made and that nobody uses any more.
        unsafe { (self.db.api.writebatch_destroy)(self.batch) };
    }
}

impl Writer<'_> {
    /// Stores a value.
    ///
    /// # Errors
    /// What RocksDB says.
    #[inline]
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), KvError> {
        self.db.count_nothing();
        let mut error = std::ptr::null_mut();
        let api = &self.db.api;
        // SAFETY: an open batch and database, and slices that live through the calls, which copy them.
        unsafe {
            (api.writebatch_clear)(self.batch);
            (api.writebatch_put)(self.batch, key.as_ptr(), key.len(), value.as_ptr(), value.len());
            (api.write)(self.db.db, self.db.write, self.batch, &mut error);
        }
        self.db.check(error)
    }
}

/// A place in the order of the keys.
pub struct Iterator<'a> {
    db: &'a Db,
    handle: Handle,
}

// SAFETY: an iterator may move between threads; `&mut self` says that one uses it at a time.
unsafe impl Send for Iterator<'_> {}

impl std::fmt::Debug for Iterator<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Iterator")
    }
}

impl Drop for Iterator<'_> {
    fn drop(&mut self) {
        // SAFETY: an open iterator of a database that is open.
        unsafe { (self.db.api.iter_destroy)(self.handle) };
    }
}

impl Iterator<'_> {
    /// To the first key.
    pub fn first(&mut self) {
        // SAFETY: an open iterator.
        unsafe { (self.db.api.iter_seek_to_first)(self.handle) };
    }

    /// To the last key.
    pub fn last(&mut self) {
        // SAFETY: an open iterator.
        unsafe { (self.db.api.iter_seek_to_last)(self.handle) };
    }

    /// To the first key that is not before this one.
    pub fn seek(&mut self, key: &[u8]) {
        // SAFETY: an open iterator, and a slice that lives through the call.
        unsafe { (self.db.api.iter_seek)(self.handle, key.as_ptr(), key.len()) };
    }

    /// Whether there is an entry here: none at either end.
    #[inline]
    pub fn valid(&self) -> bool {
        // SAFETY: an open iterator.
        unsafe { (self.db.api.iter_valid)(self.handle) != 0 }
    }

    /// Key and value here; none at either end.
    #[inline]
    pub fn entry(&self) -> Option<(&[u8], &[u8])> {
        if !self.valid() {
            return None;
        }
        // SAFETY: an iterator that is valid; key and value stay until it moves, which needs `&mut self`.
        unsafe {
            let (mut key_length, mut value_length) = (0, 0);
            let key = (self.db.api.iter_key)(self.handle, &mut key_length);
            let value = (self.db.api.iter_value)(self.handle, &mut value_length);
            Some((
                std::slice::from_raw_parts(key, key_length),
                std::slice::from_raw_parts(value, value_length),
            ))
        }
    }

    /// One key further; only where there is an entry.
    #[inline]
    pub fn next(&mut self) {
        if self.valid() {
            // SAFETY: an iterator that is valid.
            unsafe { (self.db.api.iter_next)(self.handle) };
        }
    }

    /// One key back; only where there is an entry.
    #[inline]
    pub fn previous(&mut self) {
        if self.valid() {
            // SAFETY: an iterator that is valid.
            unsafe { (self.db.api.iter_prev)(self.handle) };
        }
    }

    /// Why it has no entry, if that is an error.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn check(&self) -> Result<(), KvError> {
        let mut error = std::ptr::null_mut();
        // SAFETY: an open iterator.
        unsafe { (self.db.api.iter_get_error)(self.handle, &mut error) };
        self.db.check(error)
    }
}

impl Embedded for Db {
    fn session(&self) -> Result<Box<dyn Session + '_>, KvError> {
        Ok(Box::new(Shared(self)))
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

impl Session for Shared<'_> {
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
