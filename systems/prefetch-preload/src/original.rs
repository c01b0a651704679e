//! The functions behind the hooks, resolved once in the constructor, and how hooks are declared.
//!
//! Looking them up lazily deadlocks with allocators that read files while they start; before the constructor
//! has run, and when a function is missing, the hooks make the system call themselves.

use core::ffi::{CStr, c_long};
use core::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use prefetch_os::sys;

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

    /// With a function of the same type that is called before it was looked up, and where there is none.
    pub const fn or(self, instead: *const ()) -> Original {
        Original { name: self.name, found: AtomicPtr::new(instead.cast_mut().cast()) }
    }

    /// Looks it up behind this library.
    pub fn resolve(&self) {
        // SAFETY: the name is a C string.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        if !found.is_null() {
            self.found.store(found, Relaxed);
        }
    }

    /// Looks up one that no system call can stand for, should another library's constructor come before ours.
    #[inline]
    pub fn resolve_early(&self) {
        if self.get().is_null() {
            self.resolve();
        }
    }

    /// The function; null before [`Original::resolve`] and when there is none, unless another one was given.
    #[inline]
    pub fn get(&self) -> *mut libc::c_void {
        self.found.load(Relaxed)
    }
}

/// Makes a system call, setting errno as libc does.
pub fn bare(number: c_long, arguments: &[usize]) -> isize {
    let mut all = [0; 6];
    for (value, to) in arguments.iter().zip(&mut all) {
        *to = *value;
    }
    // SAFETY: the caller of the hook vouches for the arguments.
    match unsafe { sys::call(number, all) } {
        Ok(value) => value as isize,
        Err(errno) => {
            // SAFETY: the address of this thread's errno.
            unsafe { *libc::__errno_location() = errno };
            -1
        }
    }
}

/// Declares the originals and the function that resolves them.
macro_rules! originals {
    ($($name:ident = $symbol:literal $(or $instead:path)?,)*) => {
        $(static $name: Original = Original::new($symbol)$(.or($instead as *const ()))?;)*
        /// Resolves all originals.
        pub fn resolve() {
            $($name.resolve();)*
        }
    };
}

/// Calls a function that was found.
macro_rules! found {
    ($found:expr, fn($($type:ty),*) -> $answer:ty, ($($value:expr),*)) => {
        // SAFETY: dlsym found the function of this name, which has this type, or one of ours with this type stands for it;
        // the caller of the hook vouches for the arguments, as it would to the original.
        unsafe {
            let function: unsafe extern "C-unwind" fn($($type),*) -> $answer = core::mem::transmute($found);
            function($($value),*)
        }
    };
}

/// Calls an original, or, without one, the system call, setting errno as libc does.
macro_rules! through {
    ($original:ident as fn($($type:ty),*) -> $answer:ty, ($($value:expr),*), $number:expr) => {{
        let found = $original.get();
        if found.is_null() {
            crate::original::bare($number, &[$($value as usize),*]) as $answer
        } else {
            found!(found, fn($($type),*) -> $answer, ($($value),*))
        }
    }};
}

/// Calls an original with its own arguments and nothing after: a jump.
macro_rules! jump {
    ($original:ident as fn($($type:ty),*) -> $answer:ty, ($($value:expr),*)) => {{
        let found = $original.get();
        if !found.is_null() {
            return found!(found, fn($($type),*) -> $answer, ($($value),*));
        }
    }};
}

/// Declares a hook: its body is safe to call only as the original is.
macro_rules! hooks {
    ($($(#[doc = $doc:literal])* fn $name:ident($($argument:ident: $type:ty),*) -> $answer:ty $body:block)*) => {
        $(
            $(#[doc = $doc])*
            ///
            /// # Safety
            /// As the function of libc that it stands before.
            #[unsafe(no_mangle)]
            pub unsafe extern "C-unwind" fn $name($($argument: $type),*) -> $answer $body
        )*
    };
}
