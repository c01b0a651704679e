//! The functions of librocksdb (rocksdb/c.h), and how the library is found.

use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_int, c_uchar, c_void};

use crate::KvError;

/// Names that the library has in distributions; the first is that of the development package.
const NAMES: [&CStr; 5] = [
    c"librocksdb.so",
    c"librocksdb.so.7.8",
    c"librocksdb.so.8.9",
    c"librocksdb.so.9.10",
    c"librocksdb.so.10",
];
/// `rocksdb_disable`: what the library counts of a thread's calls (by default each comparison of keys) is not counted.
/// Nobody reads it here, and db_bench turns it off as well.
const COUNT_NOTHING: c_int = 1;
thread_local! {
    /// Whether this thread has said that nothing is to be counted.
    static COUNTS_NOTHING: Cell<bool> = const { Cell::new(false) };
}

pub type Handle = *mut c_void;
pub type ErrorText = *mut *mut c_char;

/// Declares the functions that are used, with their types in rocksdb/c.h.
macro_rules! api {
    ($($name:ident: fn($($arg:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions of the library.
        pub struct Api {
            $(pub $name: unsafe extern "C" fn($($arg),*) $(-> $result)?,)*
        }

        impl Api {
            pub fn load(library: Handle) -> Result<Api, KvError> {
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

impl Api {
    /// Turns off what the library counts of this thread's calls.
    #[inline]
    pub fn count_nothing(&self) {
        COUNTS_NOTHING.with(|said| {
            if !said.replace(true) {
                // SAFETY: a level that the library has; it is this thread's alone.
                unsafe { (self.set_perf_level)(COUNT_NOTHING) };
            }
        });
    }

    /// What a call has said went wrong.
    ///
    /// # Errors
    /// It said something.
    #[inline]
    pub fn check(&self, error: *mut c_char) -> Result<(), KvError> {
        if error.is_null() {
            return Ok(());
        }
        // SAFETY: the library gave a C string, which is ours to free.
        let text = unsafe {
            let text = CStr::from_ptr(error).to_string_lossy().into_owned();
            (self.free)(error.cast());
            text
        };
        Err(KvError::engine("RocksDB", text))
    }
}

/// The library, and the name by which it was found.
pub fn library() -> Result<(Handle, &'static CStr), KvError> {
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

pub fn symbol(library: Handle, name: &str) -> Result<Handle, KvError> {
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
