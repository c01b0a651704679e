//! The constructor: environment, deny list, kill switch, fork.

use core::ffi::CStr;
#[cfg(debug_assertions)]
use core::sync::atomic::Ordering::Relaxed;

use prefetch::Mode;
use prefetch_os::memory::{field, number, slurp};
use prefetch_os::sys;

use crate::{calls, gate, report, stdio, table};

/// Programs that are left alone: they change credentials, namespaces or filters, or trace.
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
    if is_privileged() || is_restricted() || is_denied() {
        return;
    }
    table::set_mode(mode);
    if let Some(directory) = variable(c"LOADLINE_PREFETCH_DIR") {
        report::set_directory(directory);
    }
    if let Some(mib) = variable(c"LOADLINE_PREFETCH_MIB").and_then(number) {
        table::set_budget(mib.saturating_mul(1 << 20));
    }
    #[cfg(debug_assertions)]
    table::AWAKE.store(variable(c"LOADLINE_PREFETCH_AWAKE").is_some(), Relaxed);
    #[cfg(debug_assertions)]
    if let Some(at) = variable(c"LOADLINE_PREFETCH_PANIC").and_then(number) {
        table::PANIC_AT.store(at, Relaxed);
    }
    // Caught at the edge, and said on the statistics page: the program's standard error is not ours.
    std::panic::set_hook(Box::new(|_| {}));
    // SAFETY: the handler stays loaded as long as the process lives.
    if unsafe { libc::pthread_atfork(None, None, Some(in_child)) } != 0 {
        return;
    }
    let state = match mode {
        Mode::AppOnly => gate::OFF,
        Mode::OsOnly => gate::HINTS,
        _ => gate::ON,
    };
    gate::open(state);
}

/// After a fork, in the child: only words are set.
extern "C" fn in_child() {
    table::forked();
    gate::forked();
    report::forked();
}

fn is_denied() -> bool {
    let mut link = [0; 512];
    let Ok(path) = sys::readlink(c"/proc/self/exe", &mut link) else { return true };
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    DENIED.contains(&name)
}

/// Whether the program has more rights than who started it.
fn is_privileged() -> bool {
    // SAFETY: no pointers.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// Under a system call filter a call of ours might end the program, as may the clock where the processor's counter is
/// forbidden. The filter is asked for by calls that the loader has just made: asking by prctl(2) might be one too many.
fn is_restricted() -> bool {
    let mut status = [0; 4096];
    let filtered = field(slurp(c"/proc/self/status", &mut status), b"Seccomp:") != Some(0);
    if filtered && variable(c"LOADLINE_PREFETCH_SECCOMP") != Some(b"1") {
        return true;
    }
    let mut counter = libc::PR_TSC_ENABLE;
    // SAFETY: the word is valid for writing.
    let told = unsafe {
        sys::call(libc::SYS_prctl, [libc::PR_GET_TSC as usize, (&raw mut counter) as usize, 0, 0, 0, 0])
    };
    told.is_ok() && counter != libc::PR_TSC_ENABLE
}

/// Options of AddressSanitizer, which asks for them by this name before it has looked whether its library was loaded first:
/// ours is, and all its calls go on to the sanitizer's.
///
/// # Safety
/// None is needed: it has no arguments.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __asan_default_options() -> *const core::ffi::c_char {
    c"verify_asan_link_order=0".as_ptr()
}
