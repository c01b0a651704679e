//! Limits of the process (ulimit), met: a message that says so instead of a bare signal.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rustix::process::{Resource, getrlimit};

/// Least address space (`ulimit -v`) with which this program, its libraries and its threads' stacks begin. Below the size of the
/// program itself, the kernel ends it with SIGSEGV before it begins (execve(2)), and nothing of it can say so.
const ADDRESS_SPACE_MIN: u64 = 128 << 20;

/// From now on a write beyond the largest size of a file (`ulimit -f`) fails with EFBIG, which whoever writes reports; by
/// default SIGXFSZ kills. And who ends for want of memory names the limit.
///
/// # Errors
/// The address space is too small to begin with.
pub fn say_what_is_met() -> Result<(), String> {
    // a handler, not ignoring: programs that are started have the default again
    let _ = signal_hook::flag::register(libc::SIGXFSZ, Arc::new(AtomicBool::new(false)));
    let Some(bytes) = getrlimit(Resource::As).current else { return Ok(()) };
    let limit = format!("the address space is limited to {} MiB (ulimit -v)", bytes >> 20);
    if bytes < ADDRESS_SPACE_MIN {
        return Err(format!(
            "{limit}, and {} MiB are the least that is needed; raise it",
            ADDRESS_SPACE_MIN >> 20
        ));
    }
    // Making a backtrace takes memory, and where that is wanting under the lock of backtraces the process hangs for ever.
    // SAFETY: nothing else runs as yet: this is the first thing that the program does.
    unsafe { std::env::set_var("RUST_BACKTRACE", "0") };
    let words: &'static str =
        String::leak(format!("loadline: ended for want of memory? {limit}; raise it\n"));
    let tell = move || {
        // by number: the lock of `std::io::stderr` may be held
        let _ = rustix::io::write(rustix::stdio::stderr(), words.as_bytes());
    };
    // a thread that the kernel refuses for want of memory is a panic
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        usual(info);
        tell();
    }));
    // SAFETY: all that is done is one write(2) of what is there already.
    let _ = unsafe { signal_hook::low_level::register(libc::SIGABRT, tell) };
    Ok(())
}
