//! Small threads that watch over others.

use std::io;

/// Bytes of such a thread's stack: it calls nothing but the system.
const STACK_BYTES: usize = 64 << 10;

/// Starts a thread that does little.
pub(crate) fn start(name: String, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name(name).stack_size(STACK_BYTES).spawn(run).map(drop)
}
