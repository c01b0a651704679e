//! The end of a process of which a thread that serves has panicked, also where no log was begun.

use std::cell::Cell;
use std::sync::Once;

thread_local! {
    static ENDS_THE_PROCESS: Cell<bool> = const { Cell::new(false) };
}

static HOOK: Once = Once::new();

/// Ends the process if its thread panics while it lives. Whoever asks that thread would wait for ever otherwise, unwinding frees
/// memory that the kernel still writes to, and what the thread has changed by half would be written on.
///
/// The panic's hook ends it, before a lock is given back and another thread sees what is changed by half. Where somebody
/// has set another hook since, unwinding ends it.
pub struct AbortOnPanic(());

impl AbortOnPanic {
    /// Guards the thread that calls it.
    #[expect(clippy::new_without_default, reason = "it does something to the thread")]
    pub fn new() -> AbortOnPanic {
        HOOK.call_once(|| {
            let usual = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panicked| {
                usual(panicked);
                if ENDS_THE_PROCESS.get() {
                    std::process::abort();
                }
            }));
        });
        ENDS_THE_PROCESS.set(true);
        AbortOnPanic(())
    }
}

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
        ENDS_THE_PROCESS.set(false);
    }
}
