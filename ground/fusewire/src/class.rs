//! Scheduling classes of threads, and small threads that watch over others.

use std::io;

/// Lowest priority of the real-time class: before all of the others. (A nice value counts among threads of one session only.)
const REAL_TIME_PRIORITY: i32 = 1;
/// Bytes of such a thread's stack: it calls nothing but the system.
const STACK_BYTES: usize = 64 << 10;

/// A scheduling class.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Class {
    /// Runs where nothing else does.
    Idle,
    /// That of most threads.
    Other,
    /// Before all of the others.
    RealTime,
}

/// Puts a thread (0: this one) into a class.
pub(crate) fn set(thread: libc::pid_t, class: Class) -> io::Result<()> {
    let (policy, priority): (_, libc::c_int) = match class {
        Class::Idle => (libc::SCHED_IDLE, 0),
        Class::Other => (libc::SCHED_OTHER, 0),
        Class::RealTime => (libc::SCHED_FIFO, REAL_TIME_PRIORITY),
    };
    // The system call itself, whose `sched_param` is this one number: musl's function refuses always.
    // SAFETY: it changes nothing but how a thread is scheduled, and reads one number.
    match unsafe { libc::syscall(libc::SYS_sched_setscheduler, thread, policy, &raw const priority) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Starts a thread that does little.
pub(crate) fn start_small(name: String, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name(name).stack_size(STACK_BYTES).spawn(run).map(drop)
}
