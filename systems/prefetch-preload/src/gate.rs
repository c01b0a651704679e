//! Whether the library may make system calls of its own: it goes through here before each of them.
//!
//! A filter (seccomp) may kill who makes a call that it does not know, whichever thread puts it on. So before the program
//! puts one on, the gate is closed for good, and who is behind it is waited for.

use core::sync::atomic::{
    AtomicI32, AtomicU8,
    Ordering::{Relaxed, SeqCst},
};

use prefetch_os::sys;

use crate::pass;

/// Nothing is watched: before the constructor, after a panic, in programs that are left alone.
pub const OFF: u8 = 0;
/// Reads are watched.
pub const ON: u8 = 1;
/// The program's hints are dropped, nothing else.
pub const HINTS: u8 = 2;

/// Between two looks at what is waited for, ns.
const LOOK_NS: u64 = 100_000;
/// Looks: a second in all. Who left by longjmp from a signal handler never comes back, and a program must not hang.
const LOOKS: u32 = 10_000;

static STATE: AtomicU8 = AtomicU8::new(OFF);
/// Threads behind the gate.
static INSIDE: AtomicI32 = AtomicI32::new(0);

/// What the hooks do.
#[inline]
pub fn state() -> u8 {
    STATE.load(Relaxed)
}

/// Opens the gate, in the constructor.
pub fn open(state: u8) {
    STATE.store(state, SeqCst);
}

/// Ends all watching in this process: nothing waits.
pub fn shut() {
    STATE.store(OFF, SeqCst);
}

/// The program is about to forbid calls: none of the library's own is made from now on, in any thread.
pub fn close() {
    if STATE.swap(OFF, SeqCst) == OFF {
        return;
    }
    let own = i32::from(pass::is_inside());
    wait_until(|| INSIDE.load(SeqCst) <= own);
}

/// Waits until something holds, a second at most.
pub fn wait_until(holds: impl Fn() -> bool) {
    for _ in 0..LOOKS {
        if holds() {
            return;
        }
        sys::sleep_ns(LOOK_NS);
    }
}

/// In the child of a fork there is this thread only.
pub fn forked() {
    INSIDE.store(i32::from(pass::is_inside()), SeqCst);
}

/// Does something that makes system calls, where that is allowed; in a signal handler that met the library, it is not.
pub fn pass_through(work: impl FnOnce()) {
    if state() != ON || pass::is_inside() {
        return;
    }
    pass::set_inside(true);
    INSIDE.fetch_add(1, SeqCst);
    if STATE.load(SeqCst) == ON && std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).is_err() {
        // The program goes on as if there were no library.
        shut();
        crate::report::panicked();
    }
    INSIDE.fetch_sub(1, SeqCst);
    pass::set_inside(false);
}
