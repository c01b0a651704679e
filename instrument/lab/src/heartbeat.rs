//! Whether a trial's process stood still while it ran: stopped (SIGSTOP, a debugger, a frozen cgroup), or with its machine
//! (suspended, a paused virtual machine). Its rate then says nothing of the stack.
//!
//! A thread wakes up again and again; when the clock that runs on over a suspension has gone much further than it slept, the
//! process stood still meanwhile.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use stats::metric::{Metric, names};

/// How often it wakes up: four times a second is no load.
const BEAT: Duration = Duration::from_millis(250);
/// A wake-up that comes so much too late is no busy machine's: the kernel gives a thread that sleeps its turn far sooner.
const LATE: Duration = Duration::from_secs(1);

/// The thread, while it watches.
pub(crate) struct Heartbeat {
    end: Sender<()>,
    thread: JoinHandle<Duration>,
}

impl Heartbeat {
    /// Begins; `None` when there is no thread to be had.
    pub(crate) fn start() -> Option<Heartbeat> {
        let (end, ended) = channel::<()>();
        // From here on, not from when the thread gets its first turn: a stop may come between.
        let mut last = now();
        let beat = move || {
            let mut stood = Duration::ZERO;
            while ended.recv_timeout(BEAT) == Err(RecvTimeoutError::Timeout) {
                let next = now();
                stood += gap(next.saturating_sub(last));
                last = next;
            }
            stood + gap(now().saturating_sub(last))
        };
        let thread = std::thread::Builder::new().name("heartbeat".into()).spawn(beat).ok()?;
        Some(Heartbeat { end, thread })
    }

    /// Ends; how long the process stood still, if it did.
    pub(crate) fn end(self) -> Option<Metric> {
        drop(self.end);
        let stood = self.thread.join().ok().filter(|stood| !stood.is_zero())?;
        Some(Metric::duration(names::STOPPED_SECONDS, stood.as_secs_f64()))
    }
}

/// Time since the machine's start, suspensions included.
fn now() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// How long nothing ran between two wake-ups that lie so far apart.
fn gap(between: Duration) -> Duration {
    match between.saturating_sub(BEAT) {
        late if late >= LATE => late,
        _ => Duration::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_wake_up_is_no_stop_and_a_gap_is_one() {
        assert_eq!(gap(BEAT), Duration::ZERO);
        assert_eq!(gap(Duration::from_millis(1200)), Duration::ZERO);
        assert_eq!(gap(Duration::from_secs(5)), Duration::from_millis(4750));
        let heartbeat = Heartbeat::start().unwrap();
        assert_eq!(heartbeat.end(), None, "nothing stood still");
    }
}
