//! Threads that do again what recorded threads did.
//!
//! A recorded thread begins when its first operation is due; at maximal speed, as soon as there is room among those that run, in
//! the order of their first operations. An operation that waits for a thread that has not begun has it begun at once, room or
//! not: else all that run could wait for it. The one of all operations under way with the smallest number thus always goes on.

use std::collections::VecDeque;
use std::fs::File;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, Scope};
use std::time::{Duration, Instant};

use stats::{Ended, Outcome};

use super::calls::{Scratch, Target};
use super::progress::Progress;
use super::segments::{Step, ThreadReader};
use super::split::{RecordedThread, Split};
use super::tally::{Tally, Times, can_be_repeated};
use crate::AppError;

/// Threads that run at once at maximal speed, unless others wait for more.
const AT_ONCE_MAX: usize = 256;
/// A thread is made so long before its first operation is due: some ten times what making it takes.
const LEAD: Duration = Duration::from_millis(2);
/// How often it is asked whether the user wants the load to end.
const LOOK: Duration = Duration::from_millis(50);
/// Stack of a thread: what it calls is shallow, and its buffers are elsewhere.
const STACK_BYTES: usize = 256 << 10;

/// A replay under way.
struct Replay<'a> {
    target: &'a Target<'a>,
    pieces: &'a File,
    threads: &'a [RecordedThread],
    progress: Progress,
    schedule: Mutex<ThreadSchedule>,
    /// Something of the schedule has changed.
    changed: Condvar,
    start: Instant,
    /// Recorded nanoseconds since this; how many times as fast. `None`: as fast as possible.
    pace: Option<f64>,
    begin_ns: u64,
}

/// Which recorded threads run, which are to, and what came of those that have ended.
struct ThreadSchedule {
    running: usize,
    /// Threads that somebody waits for, and that have not begun.
    wanted: VecDeque<u32>,
    total: Tally,
    failed: Option<AppError>,
}

/// Replays at a speed; `None` is as fast as possible.
///
/// # Errors
/// Threads that cannot be made, operations that cannot be read back. What single operations return is no error.
pub(super) fn replay(
    split: &Split,
    target: &Target<'_>,
    pace: Option<f64>,
    stopped: &(dyn Fn() -> bool + Sync),
) -> Result<Outcome, AppError> {
    let start = Instant::now();
    let replay = Replay {
        target,
        pieces: &split.pieces,
        threads: &split.threads,
        progress: Progress::new(split.threads.iter().map(|thread| thread.first_number)),
        schedule: Mutex::new(ThreadSchedule {
            running: 0,
            wanted: VecDeque::new(),
            total: Tally::new(start),
            failed: None,
        }),
        changed: Condvar::new(),
        start,
        pace,
        begin_ns: split.begin_ns,
    };
    let is_whole = std::thread::scope(|scope| replay.direct(scope, stopped));
    let schedule = replay.schedule.into_inner().unwrap_or_else(PoisonError::into_inner);
    match schedule.failed {
        Some(error) => Err(error),
        None => Ok(schedule.total.outcome(if is_whole { Ended::Done } else { Ended::Interrupted })),
    }
}

impl Replay<'_> {
    fn schedule(&self) -> MutexGuard<'_, ThreadSchedule> {
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has threads begin until all are done; false when it ended before.
    fn direct<'s>(&'s self, scope: &'s Scope<'s, '_>, stopped: &(dyn Fn() -> bool + Sync)) -> bool {
        let mut order: Vec<u32> = (0..self.threads.len() as u32).collect();
        order.retain(|thread| self.thread(*thread).first_number != u64::MAX);
        order.sort_by_key(|thread| self.order(*thread));
        let mut next = order.into_iter().peekable();
        let mut schedule = self.schedule();
        loop {
            if schedule.failed.is_some() || stopped() {
                self.progress.halt();
                return false;
            }
            while let Some(thread) = schedule.wanted.pop_front() {
                self.begin(scope, thread, &mut schedule);
            }
            let now = Instant::now();
            while let Some(thread) = next.next_if(|thread| self.may_begin(*thread, now, schedule.running)) {
                self.begin(scope, thread, &mut schedule);
            }
            let wait = match next.peek() {
                None if schedule.running == 0 => return schedule.failed.is_none(),
                Some(thread) => self.due(self.thread(*thread).first_begin_ns).map_or(LOOK, |due| {
                    (due - LEAD.min(due - self.start)).saturating_duration_since(now).min(LOOK)
                }),
                None => LOOK,
            };
            // what it is woken for is looked at above; a moment that has come at the next round
            let waited = self.changed.wait_timeout(schedule, wait.max(Duration::from_micros(50)));
            schedule = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn thread(&self, thread: u32) -> RecordedThread {
        self.threads[thread as usize]
    }

    fn order(&self, thread: u32) -> (u64, u64) {
        let RecordedThread { first_number, first_begin_ns, .. } = self.thread(thread);
        if self.pace.is_some() { (first_begin_ns, first_number) } else { (first_number, 0) }
    }

    fn may_begin(&self, thread: u32, now: Instant, running: usize) -> bool {
        match self.due(self.thread(thread).first_begin_ns) {
            Some(due) => due <= now + LEAD,
            None => running < AT_ONCE_MAX,
        }
    }

    /// When something is due that began in the recording after so many nanoseconds.
    fn due(&self, begin_ns: u64) -> Option<Instant> {
        let speed = self.pace?;
        let after = begin_ns.saturating_sub(self.begin_ns) as f64 / speed;
        self.start.checked_add(Duration::from_nanos(after as u64))
    }

    fn begin<'s>(&'s self, scope: &'s Scope<'s, '_>, thread: u32, schedule: &mut ThreadSchedule) {
        if !self.progress.start(thread) {
            return;
        }
        let made = Builder::new()
            .name(format!("replay {thread}"))
            .stack_size(STACK_BYTES)
            .spawn_scoped(scope, move || self.run(thread));
        match made {
            Ok(_) => schedule.running += 1,
            Err(error) => {
                let what = format!("a thread of the replay, beside {} others: {error}", schedule.running);
                schedule.failed.get_or_insert(AppError::Protocol(what));
            }
        }
    }

    fn run(&self, thread: u32) {
        // the kernel's default lets timers come 50 us late, to wake several at once
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZero::new(1));
        let mut tally = Tally::new(self.start);
        let ended = self.operations(thread, &mut tally);
        // whoever waits for it must not wait any longer, however it ended
        self.progress.advance(thread, u64::MAX);
        let mut schedule = self.schedule();
        schedule.total.merge(tally);
        schedule.running -= 1;
        if let Err(error) = ended {
            schedule.failed.get_or_insert(error);
        }
        drop(schedule);
        self.changed.notify_one();
    }

    /// Does a thread's operations in their order.
    fn operations(&self, thread: u32, tally: &mut Tally) -> Result<(), AppError> {
        let chain = self.thread(thread).chain;
        let mut steps = ThreadReader::new(self.pieces, chain, self.progress.len());
        let mut edges = super::touches::Edges::default();
        let mut scratch = Scratch::new();
        let read_back = |error| crate::error::at(&std::env::temp_dir())(error);
        while let Some(step) = steps.next(&mut edges).map_err(read_back)? {
            self.progress.advance(thread, step.number);
            let due = self.due(step.begin_ns);
            let may_go = due.is_none_or(|due| self.progress.sleep_until(due)) && self.wait(&edges);
            if !may_go || self.progress.is_halted() {
                return Ok(());
            }
            self.one(&step, due, tally, &mut scratch);
        }
        Ok(())
    }

    fn wait(&self, edges: &super::touches::Edges) -> bool {
        let want = |thread| {
            self.schedule().wanted.push_back(thread);
            self.changed.notify_one();
        };
        (edges.of_all == 0 || self.progress.wait_all(edges.of_all, &want))
            && edges.of_threads.iter().all(|(thread, number)| self.progress.wait(*thread, *number, &want))
    }

    fn one(&self, step: &Step, due: Option<Instant>, tally: &mut Tally, scratch: &mut Scratch) {
        if !can_be_repeated(step) {
            tally.skip();
            return;
        }
        scratch.prepare(step);
        let begin = Instant::now();
        let result = self.target.issue(step, scratch);
        tally.count(step, result, Times { due, begin, end: Instant::now() });
    }
}
