//! RocksDB through the C interface of a librocksdb that the machine has (rocksdb/c.h), loaded when it is needed:
//! nothing is linked, and a machine without it lacks only the YCSB columns.

use std::ffi::{CStr, CString, c_char, c_int, c_uchar, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::AppError;

/// Names that the library has in distributions; the first is that of the development package.
const NAMES: [&CStr; 5] = [
    c"librocksdb.so",
    c"librocksdb.so.7.8",
    c"librocksdb.so.8.9",
    c"librocksdb.so.9.10",
    c"librocksdb.so.10",
];
/// Bits of the Bloom filter for each key (the artifact's).
const BLOOM_BITS: f64 = 10.0;
/// `rocksdb_no_compression`.
const NO_COMPRESSION: c_int = 0;

type Handle = *mut c_void;

/// Declares the functions that are used, with their types in rocksdb/c.h.
macro_rules! api {
    ($($name:ident: fn($($arg:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions of the library.
        struct Api {
            $($name: unsafe extern "C" fn($($arg),*) $(-> $result)?,)*
        }

        impl Api {
            fn load(library: Handle) -> Result<Api, AppError> {
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
    options_set_create_if_missing: fn(Handle, c_uchar);
    options_set_compression: fn(Handle, c_int);
    options_set_target_file_size_base: fn(Handle, u64);
    options_set_block_based_table_factory: fn(Handle, Handle);
    block_based_options_create: fn() -> Handle;
    block_based_options_set_filter_policy: fn(Handle, Handle);
    filterpolicy_create_bloom: fn(f64) -> Handle;
    open: fn(Handle, *const c_char, *mut *mut c_char) -> Handle;
    close: fn(Handle);
    writeoptions_create: fn() -> Handle;
    readoptions_create: fn() -> Handle;
    flushoptions_create: fn() -> Handle;
    flush: fn(Handle, Handle, *mut *mut c_char);
    put: fn(Handle, Handle, *const u8, usize, *const u8, usize, *mut *mut c_char);
    get: fn(Handle, Handle, *const u8, usize, *mut usize, *mut *mut c_char) -> *mut c_char;
    free: fn(Handle);
    create_iterator: fn(Handle, Handle) -> Handle;
    iter_seek: fn(Handle, *const u8, usize);
    iter_valid: fn(Handle) -> c_uchar;
    iter_next: fn(Handle);
    iter_value: fn(Handle, *mut usize) -> *const u8;
    iter_destroy: fn(Handle);
}

fn library() -> Result<Handle, AppError> {
    for name in NAMES {
        // SAFETY: loads a library by name; its constructors are those of librocksdb.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
        if !handle.is_null() {
            return Ok(handle);
        }
    }
    Err(AppError::Unavailable {
        reason: "librocksdb is not found".into(),
        remedy: "install it (apt install rocksdb-tools)".into(),
    })
}

fn symbol(library: Handle, name: &str) -> Result<Handle, AppError> {
    let text = CString::new(name).map_err(|error| AppError::Protocol(error.to_string()))?;
    // SAFETY: a handle of dlopen and a C string.
    let symbol = unsafe { libc::dlsym(library, text.as_ptr()) };
    if symbol.is_null() {
        return Err(AppError::Unavailable {
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
pub fn available() -> Result<(), AppError> {
    library().and_then(Api::load).map(drop)
}

/// An open database.
pub struct Db {
    api: Api,
    db: Handle,
    read: Handle,
    write: Handle,
}

// SAFETY: a rocksdb_t and its options may be used by several threads at once (rocksdb/c.h, rocksdb/db.h).
unsafe impl Sync for Db {}

impl std::fmt::Debug for Db {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Db")
    }
}

impl Drop for Db {
    fn drop(&mut self) {
        // SAFETY: the handle is open, and `&mut self` says that nobody uses it.
        unsafe { (self.api.close)(self.db) };
    }
}

impl Db {
    /// Opens a database, makes it if it is missing. Its few options stay allocated until the process ends.
    ///
    /// # Errors
    /// No library, or what RocksDB says.
    pub fn open(path: &Path) -> Result<Db, AppError> {
        let api = Api::load(library()?)?;
        let path = CString::new(path.as_os_str().as_bytes())
            .map_err(|error| AppError::Protocol(error.to_string()))?;
        let mut error = std::ptr::null_mut();
        // SAFETY: every handle comes from the library and is used as rocksdb/c.h says; the table factory takes the
        // filter policy over.
        let (db, read, write) = unsafe {
            let options = (api.options_create)();
            (api.options_set_create_if_missing)(options, 1);
            (api.options_set_compression)(options, NO_COMPRESSION);
            (api.options_set_target_file_size_base)(options, 32 << 20);
            let table = (api.block_based_options_create)();
            (api.block_based_options_set_filter_policy)(table, (api.filterpolicy_create_bloom)(BLOOM_BITS));
            (api.options_set_block_based_table_factory)(options, table);
            let db = (api.open)(options, path.as_ptr(), &mut error);
            (db, (api.readoptions_create)(), (api.writeoptions_create)())
        };
        let db = Db { api, db, read, write };
        if let Err(error) = db.check(error) {
            std::mem::forget(db);
            return Err(error);
        }
        Ok(db)
    }

    /// Stores a value.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<(), AppError> {
        let mut error = std::ptr::null_mut();
        // SAFETY: open handles, and slices that live through the call.
        unsafe {
            let (key, length) = (key.as_ptr(), key.len());
            (self.api.put)(self.db, self.write, key, length, value.as_ptr(), value.len(), &mut error);
        }
        self.check(error)
    }

    /// Bytes of a value; `None` when the key is not there.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn get(&self, key: &[u8]) -> Result<Option<u64>, AppError> {
        let (mut error, mut length) = (std::ptr::null_mut(), 0);
        // SAFETY: open handles, and a slice that lives through the call; the value is freed as the library asks.
        let found = unsafe {
            let value = (self.api.get)(self.db, self.read, key.as_ptr(), key.len(), &mut length, &mut error);
            let found = !value.is_null();
            if found {
                (self.api.free)(value.cast());
            }
            found
        };
        self.check(error)?;
        Ok(found.then_some(length as u64))
    }

    /// Reads up to `most` values from `key` on; their bytes.
    pub fn scan(&self, key: &[u8], most: u64) -> u64 {
        // SAFETY: the iterator is used by this thread only, and destroyed before the database.
        unsafe {
            let iterator = (self.api.create_iterator)(self.db, self.read);
            (self.api.iter_seek)(iterator, key.as_ptr(), key.len());
            let (mut bytes, mut length) = (0, 0);
            for _ in 0..most {
                if (self.api.iter_valid)(iterator) == 0 {
                    break;
                }
                (self.api.iter_value)(iterator, &mut length);
                bytes += length as u64;
                (self.api.iter_next)(iterator);
            }
            (self.api.iter_destroy)(iterator);
            bytes
        }
    }

    /// Writes out what lies in memory.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn flush(&self) -> Result<(), AppError> {
        let mut error = std::ptr::null_mut();
        // SAFETY: open handles.
        unsafe { (self.api.flush)(self.db, (self.api.flushoptions_create)(), &mut error) };
        self.check(error)
    }

    fn check(&self, error: *mut c_char) -> Result<(), AppError> {
        if error.is_null() {
            return Ok(());
        }
        // SAFETY: the library gave a C string, which is ours to free.
        let text = unsafe {
            let text = CStr::from_ptr(error).to_string_lossy().into_owned();
            (self.api.free)(error.cast());
            text
        };
        Err(AppError::Protocol(format!("RocksDB: {text}")))
    }
}
