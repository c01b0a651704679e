//! Keeping the daemon out of the way of its own file system: one that has to wait for memory which only a write to
//! its own files can free waits for ever.

pub(crate) use host::daemon::{leave_cgroup, lock_memory as lock};

/// `PR_SET_IO_FLUSHER` of linux/prctl.h (5.6).
const SET_IO_FLUSHER: i32 = 57;

/// Heaps of the allocator. Each keeps what was freed in it, and by default there are eight for each processor: with so
/// many threads that hand their data to others they grow to several times what is in use.
#[cfg(target_env = "gnu")]
const HEAPS_MAX: i32 = 2;

/// Limits the allocator's heaps; only before threads were started.
pub(crate) fn limit_heaps() {
    #[cfg(target_env = "gnu")]
    // SAFETY: this request takes numbers and touches no memory of ours.
    let _ = unsafe { libc::mallopt(libc::M_ARENA_MAX, HEAPS_MAX) };
}

/// Marks this process as one that I/O depends on: its allocations do not wait for I/O.
pub(crate) fn flush_io() {
    // SAFETY: this request takes numbers and touches no memory of ours.
    let _ = unsafe { libc::prctl(SET_IO_FLUSHER, 1usize, 0usize, 0usize, 0usize) };
}
