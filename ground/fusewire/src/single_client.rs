//! A lone client stays on its processor.
//!
//! One that asks for one thing after the other takes turns with the thread that answers, on one processor. But the
//! kernel looks for an idle processor for whom it wakes, and at the moment of an answer the client's own is busy: with
//! the thread that answers. So the client is woken on another one, where its caches are cold and which may have to be
//! brought out of a halt (an exit to the hypervisor, in a guest). A processor that runs nothing but threads of the class
//! `SCHED_IDLE` counts as idle (`sched_idle_cpu` of the kernel's fair class), so beside such a thread the client stays.
//!
//! A thread of that class hardly runs where another program computes. So it stands back, as this is called here, only
//! while one client asks quickly, one thing after the other, and another thread watches whether it is held up. That one
//! is of the real-time class, so that nothing holds it up itself; it alone changes classes, since a thread that stands back
//! must hold no lock which it waits for.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use host::class::{self, Class};

use crate::small;

/// So many requests in a row are looked at as one: some 1 ms of a program that does little but ask.
const ROW: u32 = 64;
/// A row of one client in this time is quick: a request each 0.1 ms. What stays seldom is not worth the calls.
const QUICK: Duration = Duration::from_micros(6400);
/// How often somebody looks at threads that stand back: the longest that one of them is held up before that is seen.
const PERIOD: Duration = Duration::from_millis(2);
/// A thread that has answered fewer requests in a period, and could run, was held up: undisturbed it answers a hundred.
const FEW: u64 = 8;
/// A thread without a request for so many periods (50 ms) need not be watched.
const QUIET_PERIODS: u32 = 25;
/// After it was held up, a thread stays in its own class for so long, then for twice as long each time.
const REST: Duration = Duration::from_millis(100);
/// The longest rest.
const REST_MAX: Duration = Duration::from_secs(10);

/// The threads of a connection that may stand back for their clients.
#[derive(Debug, Default)]
pub(crate) struct SingleClientScheduler {
    /// Each of them, and what is known of it by who watches. Whoever stands back never locks this: who watches would wait for a thread
    /// that hardly runs.
    stands: Mutex<Vec<ThreadState>>,
    /// Those that have not left.
    places: AtomicUsize,
    /// A thread watches, or is about to.
    watched: AtomicBool,
    /// The system gives no such thread: nobody tries again.
    refused: AtomicBool,
    stop: AtomicBool,
}

/// What a thread that answers tells of itself; nobody else writes it.
#[derive(Debug, Default)]
struct ThreadReport {
    /// Requests that it has taken.
    taken: AtomicU64,
    /// Quick rows of one client among them.
    rows: AtomicU64,
    /// How often another client asked than the one before.
    others: AtomicU64,
    /// It takes no more, and may end at any moment.
    left: AtomicBool,
}

/// A look at what is told.
#[derive(Clone, Copy, Debug, Default)]
struct Observation {
    taken: u64,
    rows: u64,
    others: u64,
}

/// A thread that answers, as the one that watches knows it.
#[derive(Debug)]
struct ThreadState {
    thread: libc::pid_t,
    told: Arc<ThreadReport>,
    before: Observation,
    /// Since when it stands back.
    back: Option<Instant>,
    rests_until: Option<Instant>,
    next_rest: Duration,
    /// Periods without a request.
    quiet: u32,
}

/// What is done with a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Stay,
    Back,
    Forward,
}

/// Whether a thread of this process could run, and does not wait for anything. Unknown is taken for yes.
fn could_run(thread: libc::pid_t) -> bool {
    let stat = std::fs::read(format!("/proc/self/task/{thread}/stat")).unwrap_or_default();
    // Number, name in parentheses, state.
    let name_end = stat.iter().rposition(|byte| *byte == b')');
    name_end.and_then(|end| stat.get(end + 2)).is_none_or(|state| *state == b'R')
}

impl ThreadReport {
    fn look(&self) -> Observation {
        let [taken, rows, others] =
            [&self.taken, &self.rows, &self.others].map(|n| n.load(Ordering::Relaxed));
        Observation { taken, rows, others }
    }
}

/// Counts what nobody else counts.
fn count(number: &AtomicU64) {
    number.store(number.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

impl ThreadState {
    fn new(thread: libc::pid_t) -> ThreadState {
        let (told, before) = (Arc::default(), Observation::default());
        ThreadState { thread, told, before, back: None, rests_until: None, next_rest: REST, quiet: 0 }
    }

    /// What is to be done after a period.
    fn step(&mut self, now: Instant, could_run: impl Fn(libc::pid_t) -> bool) -> Step {
        let counts = self.told.look();
        let before = std::mem::replace(&mut self.before, counts);
        let taken = counts.taken - before.taken;
        self.quiet = if taken == 0 { self.quiet + 1 } else { 0 };
        let alone = counts.others == before.others;
        let Some(since) = self.back else {
            let rests = self.rests_until.is_some_and(|until| now < until);
            return if counts.rows > before.rows && alone && !rests { Step::Back } else { Step::Stay };
        };
        if taken < FEW && could_run(self.thread) {
            // What went well for long enough is forgiven.
            let next = if now - since > 4 * self.next_rest { REST } else { self.next_rest };
            self.rests_until = Some(now + next);
            self.next_rest = (2 * next).min(REST_MAX);
            return Step::Forward;
        }
        if alone && self.quiet < QUIET_PERIODS { Step::Stay } else { Step::Forward }
    }

    /// Does that. Whether it stands back now.
    fn go(&mut self, step: Step, now: Instant) -> bool {
        match step {
            Step::Stay => {}
            Step::Back if class::set(self.thread, Class::Idle).is_ok() => {
                // Who leaves says so first, and then goes to its own class.
                if self.told.left.load(Ordering::SeqCst) {
                    let _ = class::set(self.thread, Class::Other);
                } else {
                    self.back = Some(now);
                }
            }
            Step::Back => {}
            Step::Forward => {
                // Who may put it there may bring it back; a thread that has ended needs nothing.
                let _ = class::set(self.thread, Class::Other);
                self.back = None;
            }
        }
        self.back.is_some()
    }
}

impl SingleClientScheduler {
    fn stands(&self) -> MutexGuard<'_, Vec<ThreadState>> {
        self.stands.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Watches until nobody stands back for a while.
    fn watch(&self) {
        if class::set(0, Class::RealTime).is_err() {
            self.refused.store(true, Ordering::Relaxed);
        }
        let mut idle = 0;
        let goes_on = |idle| idle < QUIET_PERIODS && !self.stop.load(Ordering::Relaxed);
        while goes_on(idle) && !self.refused.load(Ordering::Relaxed) {
            std::thread::sleep(PERIOD);
            let now = Instant::now();
            let stand = |stand: &mut ThreadState| {
                let step = stand.step(now, could_run);
                stand.go(step, now)
            };
            let mut stands = self.stands();
            // Its number may be another thread's by now.
            stands.retain(|stand| !stand.told.left.load(Ordering::SeqCst));
            let back = stands.iter_mut().map(stand).filter(|back| *back).count();
            drop(stands);
            idle = if back == 0 { idle + 1 } else { 0 };
        }
        let stays =
            |stand: &&mut ThreadState| stand.back.is_some() && !stand.told.left.load(Ordering::SeqCst);
        for stand in self.stands().iter_mut().filter(stays) {
            stand.go(Step::Forward, Instant::now());
        }
        self.watched.store(false, Ordering::Release);
    }

    /// Starts the watching thread, if there is none.
    fn start(self: &Arc<SingleClientScheduler>) {
        let refused = self.refused.load(Ordering::Relaxed) || self.stop.load(Ordering::Relaxed);
        if refused || self.watched.swap(true, Ordering::AcqRel) {
            return;
        }
        let lone = self.clone();
        if small::start("fuse-lone".into(), move || lone.watch()).is_err() {
            self.refused.store(true, Ordering::Relaxed);
        }
    }

    /// A place for this thread, which answers requests.
    pub(crate) fn place(self: &Arc<SingleClientScheduler>) -> WorkerSlot {
        // SAFETY: it has no arguments and cannot fail.
        let stand = ThreadState::new(unsafe { libc::gettid() });
        let told = stand.told.clone();
        self.stands().push(stand);
        self.places.fetch_add(1, Ordering::AcqRel);
        WorkerSlot {
            lone: self.clone(),
            told,
            client: Cell::new(0),
            row: Cell::new(0),
            since: Cell::new(Instant::now()),
        }
    }
}

/// A thread's own side.
#[derive(Debug)]
pub(crate) struct WorkerSlot {
    lone: Arc<SingleClientScheduler>,
    told: Arc<ThreadReport>,
    /// Who asked last.
    client: Cell<u32>,
    /// Requests of that one since the row began.
    row: Cell<u32>,
    since: Cell<Instant>,
}

impl WorkerSlot {
    /// To be called for each request that the thread takes, with the thread of the kernel's that made it (0: the kernel
    /// itself).
    pub(crate) fn takes(&self, client: u32) {
        count(&self.told.taken);
        if client == 0 {
            return;
        }
        if client != self.client.replace(client) {
            self.row.set(0);
            count(&self.told.others);
        } else if self.is_quick_row() {
            count(&self.told.rows);
            if !self.lone.watched.load(Ordering::Relaxed) {
                self.lone.start();
            }
        }
    }

    /// Counts a request of the same client; true at the last one of a row that was quick.
    fn is_quick_row(&self) -> bool {
        let row = self.row.get();
        self.row.set((row + 1) % ROW);
        match row {
            0 => self.since.set(Instant::now()),
            row if row == ROW - 1 => return self.since.get().elapsed() < QUICK,
            _ => {}
        }
        false
    }
}

impl Drop for WorkerSlot {
    fn drop(&mut self) {
        // While it stands back it would hardly come to its end, for which others wait.
        self.told.left.store(true, Ordering::SeqCst);
        let _ = class::set(0, Class::Other);
        // The last one takes the watching thread with it.
        if self.lone.places.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.lone.stop.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use needs::needs;

    use super::*;

    /// Whether a row is quick that began so long before its second request.
    fn quick(place: &WorkerSlot, ago: Duration) -> bool {
        (0..ROW).any(|request| {
            if request == 1 {
                place.since.set(Instant::now().checked_sub(ago).expect("a machine that is up for a second"));
            }
            place.is_quick_row()
        })
    }

    #[test]
    fn a_row_is_quick_or_is_not() {
        let place = Arc::new(SingleClientScheduler::default()).place();
        assert!(!quick(&place, 2 * QUICK));
        // A busy machine may hold up this thread in one row, not in all.
        while !quick(&place, Duration::ZERO) {}
    }

    #[test]
    fn two_clients_in_turns_and_the_kernel_itself_make_no_row() {
        let place = Arc::new(SingleClientScheduler::default()).place();
        for request in 0..10 * ROW {
            place.takes(1 + request % 2);
            place.takes(0);
        }
        let told = place.told.look();
        assert_eq!((told.taken, told.rows, told.others), (u64::from(20 * ROW), 0, u64::from(10 * ROW)));
    }

    /// A thread that has taken so much more, of one client or not.
    fn after(stand: &mut ThreadState, (taken, rows, others): (u64, u64, u64)) {
        stand.told.taken.fetch_add(taken, Ordering::Relaxed);
        stand.told.rows.fetch_add(rows, Ordering::Relaxed);
        stand.told.others.fetch_add(others, Ordering::Relaxed);
    }

    #[test]
    fn who_has_one_quick_client_stands_back_until_there_is_another_or_none() {
        let mut stand = ThreadState::new(0);
        let now = Instant::now();
        let next = |stand: &mut ThreadState, told, could_run: bool| {
            after(stand, told);
            let step = stand.step(now, |_| could_run);
            stand.back = match step {
                Step::Stay => stand.back,
                Step::Back => Some(now),
                Step::Forward => None,
            };
            step
        };
        assert_eq!(next(&mut stand, (100, 0, 0), false), Step::Stay, "slow");
        assert_eq!(next(&mut stand, (100, 1, 1), false), Step::Stay, "more than one client");
        assert_eq!(next(&mut stand, (100, 1, 0), true), Step::Back);
        assert_eq!(next(&mut stand, (FEW, 0, 0), true), Step::Stay, "it comes to run");
        assert_eq!(next(&mut stand, (0, 0, 0), false), Step::Stay, "the client does something else");
        assert_eq!(next(&mut stand, (100, 1, 1), false), Step::Forward);
        assert_eq!(next(&mut stand, (100, 1, 0), false), Step::Back);
        for _ in 1..QUIET_PERIODS {
            assert_eq!(next(&mut stand, (0, 0, 0), false), Step::Stay);
        }
        assert_eq!(next(&mut stand, (0, 0, 0), false), Step::Forward);
    }

    #[test]
    fn who_was_held_up_rests_and_each_time_for_twice_as_long() {
        let mut stand = ThreadState::new(0);
        let mut now = Instant::now();
        let mut rest = REST;
        for _ in 0..12 {
            stand.back = Some(now);
            after(&mut stand, (FEW - 1, 0, 0));
            assert_eq!(stand.step(now, |_| true), Step::Forward);
            stand.back = None;
            now += rest - Duration::from_nanos(1);
            after(&mut stand, (100, 1, 0));
            assert_eq!(stand.step(now, |_| false), Step::Stay, "it rests");
            now += Duration::from_nanos(1);
            after(&mut stand, (100, 1, 0));
            assert_eq!(stand.step(now, |_| false), Step::Back);
            rest = (2 * rest).min(REST_MAX);
        }
        stand.back = Some(now);
        now += 5 * REST_MAX;
        assert_eq!(stand.step(now, |_| true), Step::Forward);
        assert_eq!(stand.rests_until, Some(now + REST), "forgiven");
    }

    /// The class of this thread.
    fn own_class() -> i32 {
        // SAFETY: it only reads. musl has no function for it.
        let class = unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) };
        class.try_into().expect("a class")
    }

    #[test]
    fn a_thread_comes_back_to_its_own_class_when_it_is_held_up() {
        needs!(Root);
        let lone = Arc::new(SingleClientScheduler::default());
        let place = lone.place();
        // Even root may get no real-time threads, in a group of processes that has no time for them.
        let may_watch =
            std::thread::spawn(|| class::set(0, Class::RealTime).is_ok()).join().expect("a thread");
        if !may_watch {
            while !lone.refused.load(Ordering::Relaxed) {
                place.takes(7);
            }
            drop(place);
            while lone.watched.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            assert_eq!(own_class(), libc::SCHED_OTHER, "nobody watches, and it stands back");
            return;
        }
        let was_held_up = || lone.stands()[0].rests_until.is_some();
        // On a busy machine it may be back before it could see.
        while own_class() != libc::SCHED_IDLE && !was_held_up() {
            assert!(!lone.refused.load(Ordering::Relaxed));
            place.takes(7);
        }
        // It could run and takes nothing: that is how one looks that is held up.
        while own_class() != libc::SCHED_OTHER {
            std::hint::spin_loop();
        }
        assert!(was_held_up());
        drop(place);
        while lone.watched.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
    }

    /// Else it would end in the idle class, where it hardly runs on a busy machine, with all who wait for its end.
    #[test]
    fn who_leaves_while_it_stands_back_leaves_in_its_own_class() {
        needs!(Root);
        let lone = Arc::new(SingleClientScheduler::default());
        let place = lone.place();
        // SAFETY: it has no arguments and cannot fail.
        let me = unsafe { libc::gettid() };
        let stand_back = |lone: &SingleClientScheduler| {
            let mut stands = lone.stands();
            let stand = stands.iter_mut().find(|stand| stand.thread == me).expect("a place");
            stand.back = None;
            stand.go(Step::Back, Instant::now())
        };
        assert!(stand_back(&lone) && own_class() == libc::SCHED_IDLE);
        // Who watches may hold the lock meanwhile.
        let watches = lone.stands();
        drop(place);
        drop(watches);
        assert_eq!(own_class(), libc::SCHED_OTHER);
        // It may have been about to be put back.
        assert!(!stand_back(&lone) && own_class() == libc::SCHED_OTHER);
        assert!(lone.stop.load(Ordering::Relaxed), "nobody is left to be watched");
    }

    #[test]
    fn who_waits_for_something_could_not_run() {
        // SAFETY: it has no arguments and cannot fail.
        let me = unsafe { libc::gettid() };
        assert!(could_run(me));
        assert!(could_run(0), "there is no such thread");
        let (tell, told) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let waits = std::thread::spawn(move || {
            // SAFETY: as above.
            let _ = tell.send(unsafe { libc::gettid() });
            let _ = ended.recv();
        });
        let thread = told.recv().expect("its number");
        while could_run(thread) {
            std::thread::yield_now();
        }
        drop(end);
        waits.join().expect("a thread");
    }
}
