//! A lone client stays on its processor.
//!
//! One that asks for one thing after the other takes turns with the thread that answers, on one processor. But the
//! kernel looks for an idle processor for whom it wakes, and at the moment of an answer the client's own is busy: with
//! the thread that answers. So the client is woken on another one, where its caches are cold and which may have to be
//! brought out of a halt (an exit to the hypervisor, in a guest). A processor that runs nothing but threads of the class
//! `SCHED_IDLE` counts as idle (`sched_idle_cpu` of the kernel's fair class), so beside such a thread the client stays.
//!
//! A thread of that class hardly runs where another program computes. So it is in the class only while one client asks
//! quickly, one thing after the other, and another thread looks whether it is held up. That one is of the real-time class,
//! so that nothing of the fair class holds it up.

use std::cell::Cell;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// So many requests in a row are looked at as one: some 1 ms of a program that does little but ask.
const ROW: u32 = 64;
/// A row of one client in this time is quick: a request each 0.1 ms. What stays seldom is not worth the calls.
const QUICK: Duration = Duration::from_micros(6400);
/// How often somebody looks at threads that stand back: the longest that one of them is held up without being noticed.
const PERIOD: Duration = Duration::from_millis(2);
/// A thread that has answered fewer requests in a period, and could run, was held up: undisturbed it answers a hundred.
const FEW: u64 = 8;
/// A thread without a request for so many periods (50 ms) need not be watched.
const QUIET_PERIODS: u32 = 25;
/// After it was held up, a thread stays in its own class for so long, then for twice as long each time.
const REST: Duration = Duration::from_millis(100);
/// The longest rest.
const REST_MAX: Duration = Duration::from_secs(10);
/// Bytes of the watching thread's stack: it calls nothing but the system.
const STACK_BYTES: usize = 64 << 10;
/// Lowest priority of the real-time class: before all of the others.
const PRIORITY: i32 = 1;

/// The threads of a connection that may stand back for their clients.
#[derive(Debug, Default)]
pub(crate) struct Lone {
    seats: Mutex<Vec<Arc<Seat>>>,
    /// A thread watches, and can.
    watched: AtomicBool,
    /// One is started, or ends.
    starts: AtomicBool,
    /// The system gives no such thread: nobody tries again.
    refused: AtomicBool,
    stop: AtomicBool,
}

/// A thread that answers, as the watching one sees it.
#[derive(Debug)]
struct Seat {
    thread: libc::pid_t,
    /// Requests that it has taken.
    taken: AtomicU64,
    /// It is of the class `SCHED_IDLE`.
    back: AtomicBool,
    stand: Mutex<Stand>,
}

/// Guards what class a thread is of.
#[derive(Debug)]
struct Stand {
    /// The thread has ended, its number may be another's.
    gone: bool,
    since: Instant,
    rests_until: Option<Instant>,
    next_rest: Duration,
    /// What it had taken at the last look, and for how many looks that is so.
    taken: u64,
    quiet: u32,
}

/// What a look at a thread found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    Busy,
    Quiet,
    HeldUp,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Puts a thread (0: this one) into a scheduling class.
fn set_class(thread: libc::pid_t, class: i32, priority: i32) -> io::Result<()> {
    let how = libc::sched_param { sched_priority: priority };
    // SAFETY: it changes nothing but how a thread is scheduled, and reads one struct.
    match unsafe { libc::sched_setscheduler(thread, class, &how) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether a thread of this process could run, and does not wait for anything. Unknown is taken for yes.
fn could_run(thread: libc::pid_t) -> bool {
    let stat = std::fs::read(format!("/proc/self/task/{thread}/stat")).unwrap_or_default();
    // Number, name in parentheses, state.
    let name_end = stat.iter().rposition(|byte| *byte == b')');
    name_end.and_then(|end| stat.get(end + 2)).is_none_or(|state| *state == b'R')
}

impl Seat {
    fn new(thread: libc::pid_t) -> Seat {
        let stand = Stand {
            gone: false,
            since: Instant::now(),
            rests_until: None,
            next_rest: REST,
            taken: 0,
            quiet: 0,
        };
        Seat { thread, taken: AtomicU64::new(0), back: AtomicBool::new(false), stand: Mutex::new(stand) }
    }

    /// Puts this thread back, if somebody watches.
    fn stand_back(&self, watched: &AtomicBool) {
        let mut stand = lock(&self.stand);
        let now = Instant::now();
        let rests = stand.rests_until.is_some_and(|until| now < until);
        if rests || !watched.load(Ordering::Acquire) || set_class(0, libc::SCHED_IDLE, 0).is_err() {
            return;
        }
        (stand.since, stand.quiet, stand.taken) = (now, 0, self.taken.load(Ordering::Relaxed));
        self.back.store(true, Ordering::Relaxed);
    }

    /// Brings the thread back to the front.
    fn come_forward(&self, stand: &Stand) {
        if !stand.gone && self.back.swap(false, Ordering::Relaxed) {
            let _ = set_class(self.thread, libc::SCHED_OTHER, 0);
        }
    }

    /// Looks whether the thread, which stands back, is held up.
    fn look(&self, stand: &mut Stand) -> Look {
        let taken = self.taken.load(Ordering::Relaxed);
        let new = taken.wrapping_sub(stand.taken);
        stand.taken = taken;
        stand.quiet = if new == 0 { stand.quiet + 1 } else { 0 };
        if new < FEW && could_run(self.thread) {
            Look::HeldUp
        } else if stand.quiet >= QUIET_PERIODS {
            Look::Quiet
        } else {
            Look::Busy
        }
    }

    /// Looks at the thread, and brings it to the front if it has to be. Whether it stands back.
    fn watch(&self) -> bool {
        if !self.back.load(Ordering::Relaxed) {
            return false;
        }
        let mut stand = lock(&self.stand);
        match self.look(&mut stand) {
            Look::Busy => return true,
            Look::Quiet => {}
            Look::HeldUp => {
                let now = Instant::now();
                // What went well for long enough is forgiven.
                if now - stand.since > 4 * stand.next_rest {
                    stand.next_rest = REST;
                }
                stand.rests_until = Some(now + stand.next_rest);
                stand.next_rest = (2 * stand.next_rest).min(REST_MAX);
            }
        }
        self.come_forward(&stand);
        false
    }
}

impl Lone {
    /// Watches until nobody stands back for a while.
    fn watch(&self) {
        if set_class(0, libc::SCHED_FIFO, PRIORITY).is_err() {
            self.refused.store(true, Ordering::Relaxed);
        } else {
            self.watched.store(true, Ordering::Release);
            let mut idle = 0;
            while idle < QUIET_PERIODS && !self.stop.load(Ordering::Relaxed) {
                std::thread::sleep(PERIOD);
                let back = lock(&self.seats).iter().filter(|seat| seat.watch()).count();
                idle = if back == 0 { idle + 1 } else { 0 };
            }
            self.watched.store(false, Ordering::Release);
            // Who saw that it is watched before this holds its stand until it stands back.
            for seat in lock(&self.seats).iter() {
                seat.come_forward(&lock(&seat.stand));
            }
        }
        self.starts.store(false, Ordering::Release);
    }

    /// Starts the watching thread.
    fn start(self: &Arc<Lone>) {
        let refused = self.refused.load(Ordering::Relaxed) || self.stop.load(Ordering::Relaxed);
        if refused || self.starts.swap(true, Ordering::AcqRel) {
            return;
        }
        let lone = self.clone();
        let named = std::thread::Builder::new().name("fuse-lone".into());
        if named.stack_size(STACK_BYTES).spawn(move || lone.watch()).is_err() {
            self.refused.store(true, Ordering::Relaxed);
        }
    }

    /// A place for this thread, which answers requests. A connection whose threads end takes the watching one with it.
    pub(crate) fn place(self: &Arc<Lone>) -> Place {
        // SAFETY: it has no arguments and cannot fail.
        let seat = Arc::new(Seat::new(unsafe { libc::gettid() }));
        lock(&self.seats).push(seat.clone());
        Place {
            lone: self.clone(),
            seat,
            client: Cell::new(0),
            row: Cell::new(0),
            since: Cell::new(Instant::now()),
        }
    }
}

/// A thread's own side.
#[derive(Debug)]
pub(crate) struct Place {
    lone: Arc<Lone>,
    seat: Arc<Seat>,
    /// Who asked last.
    client: Cell<u32>,
    /// Requests of that one since the row began.
    row: Cell<u32>,
    since: Cell<Instant>,
}

impl Place {
    /// To be called for each request that the thread takes, with the thread of the kernel's that made it (0: the kernel
    /// itself).
    pub(crate) fn takes(&self, client: u32) {
        // Nobody else writes it.
        self.seat.taken.store(self.seat.taken.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        if client == 0 {
            return;
        }
        if client != self.client.replace(client) {
            self.row.set(0);
            if self.seat.back.load(Ordering::Relaxed) {
                self.seat.come_forward(&lock(&self.seat.stand));
            }
        } else if self.is_quick_row() && !self.seat.back.load(Ordering::Relaxed) {
            if self.lone.watched.load(Ordering::Relaxed) {
                self.seat.stand_back(&self.lone.watched);
            } else {
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

impl Drop for Place {
    fn drop(&mut self) {
        let mut stand = lock(&self.seat.stand);
        self.seat.come_forward(&stand);
        stand.gone = true;
        drop(stand);
        let mut seats = lock(&self.lone.seats);
        seats.retain(|seat| !Arc::ptr_eq(seat, &self.seat));
        if seats.is_empty() {
            self.lone.stop.store(true, Ordering::Relaxed);
        }
    }
}
