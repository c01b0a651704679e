//! Ctrl-C and its kin: the first one ends what runs in good order, the second one at once; both undo what was made.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use journal::Journal;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Exit code of a program that was interrupted: 128 and the number of SIGINT, as shells have it.
pub const INTERRUPTED: u8 = 130;

/// Signals that come within this time are one wish: timeout(1) signals its child and then its group, and a terminal that
/// closes is told by the shell and by the kernel. Nobody presses Ctrl-C twice as fast.
const ONE_WISH: Duration = Duration::from_millis(100);

/// What the user wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopRequest {
    /// End with partial results.
    End,
    /// End at once.
    EndNow,
}

/// Listens to SIGINT, SIGTERM and SIGHUP from now on. The first makes the flag true; the second, unless it belongs to the
/// first, undoes `journal` and ends this process with [`INTERRUPTED`]. `hear` is told of each before anything else is
/// done.
///
/// # Errors
/// The system gives no handler or thread.
pub fn on_signals(journal: Arc<Journal>, hear: fn(StopRequest)) -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let seen = stop.clone();
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        let mut first: Option<Instant> = None;
        for _ in signals.forever() {
            if let Some(first) = first {
                if first.elapsed() < ONE_WISH {
                    continue;
                }
                hear(StopRequest::EndNow);
                journal.undo();
                std::process::exit(i32::from(INTERRUPTED));
            }
            first = Some(Instant::now());
            seen.store(true, Ordering::Release);
            hear(StopRequest::End);
        }
    })?;
    Ok(stop)
}
