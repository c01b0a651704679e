//! The constructor: environment, deny list, kill switch, fork.

use core::ffi::CStr;
#[cfg(debug_assertions)]
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};

use prefetch::Mode;
use prefetch_os::memory::number;
use prefetch_os::sys;

use crate::table::{self, BUDGET, EPOCH};
use crate::{calls, report, stdio, watch, worker};

/// Panics at this read: for the tests.
#[cfg(debug_assertions)]
pub static PANIC_AT: AtomicU64 = AtomicU64::new(0);

/// Programs that are left alone: they change credentials, namespaces or filters, count their threads, or trace.
const DENIED: [&[u8]; 29] = [
    b"sshd",
    b"su",
    b"sudo",
    b"login",
    b"doas",
    b"pkexec",
    b"newgrp",
    b"passwd",
    b"bwrap",
    b"runc",
    b"crun",
    b"unshare",
    b"nsenter",
    b"systemd",
    b"systemd-nspawn",
    b"dbus-daemon",
    b"polkitd",
    b"gdb",
    b"strace",
    b"ltrace",
    b"rr",
    b"criu",
    b"perf",
    b"firejail",
    b"loadline",
    b"valgrind",
    // Their sandboxes count threads.
    b"chrome",
    b"chromium",
    b"electron",
];

#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = construct;

fn variable(name: &CStr) -> Option<&'static [u8]> {
    // SAFETY: the name is a C string; the environment is not changed before main.
    unsafe {
        let value = libc::getenv(name.as_ptr());
        (!value.is_null()).then(|| CStr::from_ptr(value).to_bytes())
    }
}

extern "C" fn construct() {
    calls::resolve();
    stdio::resolve();
    let word = variable(c"LOADLINE_PREFETCH").unwrap_or(b"auto");
    // The kill switch, and any word that is not known, leave the program alone.
    let Some(mode) = Mode::parse(word) else { return };
    if is_denied() || is_filtered() {
        return;
    }
    table::set_mode(mode);
    if let Some(directory) = variable(c"LOADLINE_PREFETCH_DIR") {
        report::set_directory(directory);
    }
    if let Some(mib) = variable(c"LOADLINE_PREFETCH_MIB").and_then(number) {
        BUDGET.set_user_max(mib.saturating_mul(1 << 20));
    }
    #[cfg(debug_assertions)]
    if let Some(at) = variable(c"LOADLINE_PREFETCH_PANIC").and_then(number) {
        PANIC_AT.store(at, Relaxed);
    }
    #[cfg(debug_assertions)]
    table::KEPT_AWAKE.store(variable(c"LOADLINE_PREFETCH_AWAKE").is_some(), Relaxed);
    #[cfg(debug_assertions)]
    if let Some(ns) = variable(c"LOADLINE_PREFETCH_DEAR").and_then(number) {
        crate::cost::INJECTED_NS.store(ns, Relaxed);
    }
    // Caught at the edge, and said on the statistics page: the program's standard error is not ours.
    std::panic::set_hook(Box::new(|_| {}));
    // SAFETY: the handler stays loaded as long as the process lives.
    if unsafe { libc::pthread_atfork(None, None, Some(in_child)) } != 0 {
        return;
    }
    let state = match mode {
        Mode::AppOnly => watch::OFF,
        Mode::OsOnly => watch::HINTS,
        _ => watch::ON,
    };
    watch::STATE.store(state, Relaxed);
}

/// After a fork, in the child: only words are set.
extern "C" fn in_child() {
    EPOCH.fetch_add(1, SeqCst);
    worker::forked();
    report::forked();
}

fn is_denied() -> bool {
    let mut link = [0; 512];
    let Ok(path) = sys::readlink(c"/proc/self/exe", &mut link) else { return true };
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    DENIED.contains(&name)
}

/// Under a system call filter a call of ours might end the program.
fn is_filtered() -> bool {
    // SAFETY: no pointers.
    let mode = unsafe { sys::call(libc::SYS_prctl, [libc::PR_GET_SECCOMP as usize, 0, 0, 0, 0, 0]) };
    !matches!(mode, Ok(0) | Err(libc::EINVAL)) && variable(c"LOADLINE_PREFETCH_SECCOMP") != Some(b"1")
}

/// The program is about to put itself under a filter: nothing of ours may run any more.
pub fn end() {
    if watch::STATE.swap(watch::OFF, SeqCst) != watch::OFF {
        worker::stop();
    }
}
