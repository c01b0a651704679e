//! Scheduling classes of threads.

use std::io;

/// Lowest priority of the real-time class: before all of the others. (A nice value counts among threads of one session only.)
const REAL_TIME_PRIORITY: i32 = 1;

/// A scheduling class.
#[derive(Clone, Copy, Debug)]
pub enum Class {
    /// Runs where nothing else does.
    Idle,
    /// That of most threads.
    Other,
    /// Before all of the others, and so do threads that it starts; of several each for a while. Needs CAP_SYS_NICE.
    RealTime,
    /// The same, but threads and processes that it starts are of the class of most.
    RealTimeAlone,
}

/// Puts a thread (0: this one) into a class.
///
/// # Errors
/// The kernel's: no such thread, or not allowed.
pub fn set(thread: i32, class: Class) -> io::Result<()> {
    let (policy, priority): (_, libc::c_int) = match class {
        Class::Idle => (libc::SCHED_IDLE, 0),
        Class::Other => (libc::SCHED_OTHER, 0),
        Class::RealTime => (libc::SCHED_RR, REAL_TIME_PRIORITY),
        Class::RealTimeAlone => (libc::SCHED_RR | libc::SCHED_RESET_ON_FORK, REAL_TIME_PRIORITY),
    };
    // The system call itself, whose `sched_param` is this one number: musl's function refuses always.
    // SAFETY: it changes nothing but how a thread is scheduled, and reads one number.
    match unsafe { libc::syscall(libc::SYS_sched_setscheduler, thread, policy, &raw const priority) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
