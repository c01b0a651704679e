//! What is used many times on an open database: a writer of single values, an iterator.

use super::library::{Api, Handle};
use crate::KvError;

/// Stores values, one at a time.
pub struct Writer<'a> {
    api: &'a Api,
    db: Handle,
    options: Handle,
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
        unsafe { (self.api.writebatch_destroy)(self.batch) };
    }
}

impl<'a> Writer<'a> {
    /// # Safety
    /// A database and options of the library's that are open as long as what `api` is borrowed from.
    pub(super) unsafe fn new(api: &'a Api, db: Handle, options: Handle) -> Writer<'a> {
        // SAFETY: it has no arguments.
        Writer { api, db, options, batch: unsafe { (api.writebatch_create)() } }
    }

    /// Stores a value.
    ///
    /// # Errors
    /// What RocksDB says.
    #[inline]
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), KvError> {
        self.api.count_nothing();
        let mut error = std::ptr::null_mut();
        let api = self.api;
        // SAFETY: an open batch and database, and slices that live through the calls, which copy them.
        unsafe {
            (api.writebatch_clear)(self.batch);
            (api.writebatch_put)(self.batch, key.as_ptr(), key.len(), value.as_ptr(), value.len());
            (api.write)(self.db, self.options, self.batch, &mut error);
        }
        self.api.check(error)
    }
}

/// A place in the order of the keys.
pub struct Iterator<'a> {
    api: &'a Api,
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
        unsafe { (self.api.iter_destroy)(self.handle) };
    }
}

impl<'a> Iterator<'a> {
    /// # Safety
    /// A database and options of the library's that are open as long as what `api` is borrowed from.
    pub(super) unsafe fn new(api: &'a Api, db: Handle, options: Handle) -> Iterator<'a> {
        // SAFETY: open handles, as the caller says.
        Iterator { api, handle: unsafe { (api.create_iterator)(db, options) } }
    }

    /// To the first key.
    pub fn first(&mut self) {
        // SAFETY: an open iterator.
        unsafe { (self.api.iter_seek_to_first)(self.handle) };
    }

    /// To the last key.
    pub fn last(&mut self) {
        // SAFETY: an open iterator.
        unsafe { (self.api.iter_seek_to_last)(self.handle) };
    }

    /// To the first key that is not before this one.
    pub fn seek(&mut self, key: &[u8]) {
        // SAFETY: an open iterator, and a slice that lives through the call.
        unsafe { (self.api.iter_seek)(self.handle, key.as_ptr(), key.len()) };
    }

    /// Whether there is an entry here: none at either end.
    #[inline]
    pub fn valid(&self) -> bool {
        // SAFETY: an open iterator.
        unsafe { (self.api.iter_valid)(self.handle) != 0 }
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
            let key = (self.api.iter_key)(self.handle, &mut key_length);
            let value = (self.api.iter_value)(self.handle, &mut value_length);
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
            unsafe { (self.api.iter_next)(self.handle) };
        }
    }

    /// One key back; only where there is an entry.
    #[inline]
    pub fn previous(&mut self) {
        if self.valid() {
            // SAFETY: an iterator that is valid.
            unsafe { (self.api.iter_prev)(self.handle) };
        }
    }

    /// Why it has no entry, if that is an error.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn check(&self) -> Result<(), KvError> {
        let mut error = std::ptr::null_mut();
        // SAFETY: an open iterator.
        unsafe { (self.api.iter_get_error)(self.handle, &mut error) };
        self.api.check(error)
    }
}
