//! Keeping the daemon out of the way of its own device: a daemon that has to wait for memory which only a write
//! to its own device can free waits for ever. And keeping others out of its way.

use host::class::{self, Class};
pub(crate) use host::daemon::{leave_cgroup, lock_memory as lock};

/// Lets this thread and those it starts run before ordinary ones, so that answers are not late on a busy
/// machine, or again like any other.
pub(crate) fn urgent(on: bool) -> Result<(), String> {
    class::set(0, if on { Class::RealTime } else { Class::Other }).map_err(|error| {
        format!("answers may be late on a busy machine: real-time priority: {error} (needs CAP_SYS_NICE)")
    })
}

/// Lets sleeps of this thread (and those it starts) end on time instead of up to 50 us late.
pub(crate) fn precise_sleep() {
    // SAFETY: PR_SET_TIMERSLACK takes one number and touches no memory of ours.
    let _ = unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1usize, 0usize, 0usize, 0usize) };
}
