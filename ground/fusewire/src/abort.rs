//! The end of a process of which a thread that serves has panicked, also where no log was begun.

/// Ends the process if its thread panics while it lives. Whoever asks that thread would wait for ever otherwise, unwinding frees
/// memory that the kernel still writes to, and what the thread has changed by half would be written on.
pub(crate) struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}
