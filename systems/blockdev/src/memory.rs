//! Keeping the daemon out of the way of its own device: a daemon that has to wait for memory which only a write
//! to its own device can free waits for ever. And keeping others out of its way.

pub(crate) use host::daemon::{leave_cgroup, lock_memory as lock};

/// Lets this thread and those it starts run before ordinary ones, so that answers are not late on a busy
/// machine, or again like any other.
pub(crate) fn urgent(on: bool) -> Result<(), String> {
    let (policy, sched_priority) = if on { (libc::SCHED_RR, 1) } else { (libc::SCHED_OTHER, 0) };
    // The system call itself, whose `sched_param` is this one number: musl's function refuses always, since the kernel's sets
    // a thread and POSIX's a process.
    let how: libc::c_int = sched_priority;
    // SAFETY: thread 0 is this one, and `how` is what the kernel only reads.
    if unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const how) } == 0 {
        return Ok(());
    }
    let error = std::io::Error::last_os_error();
    Err(format!("answers may be late on a busy machine: real-time priority: {error} (needs CAP_SYS_NICE)"))
}

/// Lets sleeps of this thread (and those it starts) end on time instead of up to 50 us late.
pub(crate) fn precise_sleep() {
    // SAFETY: PR_SET_TIMERSLACK takes one number and touches no memory of ours.
    let _ = unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1usize, 0usize, 0usize, 0usize) };
}
