//! The functions behind the hooks, resolved once in the constructor.
//!
//! Looking them up lazily deadlocks with allocators that read files while they start; before the constructor
//! has run, and when a function is missing, the hooks make the system call themselves.

use core::ffi::CStr;
use core::sync::atomic::{AtomicPtr, Ordering::Relaxed};

/// A function that may be there.
pub struct Original {
    name: &'static CStr,
    found: AtomicPtr<libc::c_void>,
}

impl Original {
    /// A function by its name.
    pub const fn new(name: &'static CStr) -> Original {
        Original { name, found: AtomicPtr::new(core::ptr::null_mut()) }
    }

    /// Looks it up behind this library.
    pub fn resolve(&self) {
        // SAFETY: the name is a C string.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.found.store(found, Relaxed);
    }

    /// Looks up one that no system call can stand for, should another library's constructor come before ours.
    #[inline]
    pub fn resolve_early(&self) {
        if self.get().is_null() {
            self.resolve();
        }
    }

    /// The function; null before [`Original::resolve`] and when there is none.
    #[inline]
    pub fn get(&self) -> *mut libc::c_void {
        self.found.load(Relaxed)
    }
}
