//! The allocator's heap: giving memory back that was freed in it.

/// Gives free memory of the heap back to the system. Takes milliseconds if there is much of it.
///
/// glibc's allocator keeps what is freed below something still in use, and nothing else may ever need memory in pieces
/// of that size.
pub(crate) fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: this only touches memory that nobody uses.
    let _ = unsafe { libc::malloc_trim(0) };
}
