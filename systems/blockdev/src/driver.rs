//! Real time: whoever holds the lock drives the model; a timer thread answers what is due later.
//!
//! A request passes system calls, a loop worker and FUSE before it gets here, and its answer passes them
//! again. That transport is part of the latency a program sees, so answers leave earlier than the model says
//! by the transport's measured time (`lead`): on a device slower than the transport, only what exceeds it is
//! waited for.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ssd::{Faults, Nanos, PowerCut};

use crate::engine::{Engine, Finished, Outcome, Request};
use crate::versions::Versions;
use crate::wake_lock::WakeLock;

/// A sleeping thread wakes up this late at times; the rest is spun.
const SPIN_NS: u64 = 30_000;
/// Longest sleep of the timer thread.
const NAP: Duration = Duration::from_secs(1);

/// Somebody who waits for an outcome.
pub(crate) trait Waiter: Send {
    fn answer(self, outcome: Outcome);
}

/// Counters of the emulation itself.
#[derive(Debug, Default)]
struct Lateness {
    answers: u64,
    late_ns_sum: u64,
    late_ns_max: u64,
}

#[derive(Debug)]
struct State<R> {
    engine: Engine<R>,
    /// When the timer thread wakes up by itself; 0 = it is awake.
    timer_wakes: Nanos,
    lateness: Lateness,
    wakeful: Option<WakeLock>,
    stopped: bool,
}

/// The device in real time.
#[derive(Debug)]
pub(crate) struct Driver<R> {
    state: Mutex<State<R>>,
    wake: Condvar,
    origin: Instant,
    /// Device nanoseconds pass `scale` times slower than real ones.
    scale: f64,
    lead_ns: AtomicU64,
    next_due: AtomicU64,
    /// Reads are answered at once, past the model, to measure the transport.
    bypass: AtomicBool,
}

/// What `Driver::with` shows beside the engine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DriverFacts {
    pub(crate) answers: u64,
    pub(crate) late_ns_mean: u64,
    pub(crate) late_ns_max: u64,
    pub(crate) lead_ns: u64,
}

impl<R: Waiter> Driver<R> {
    pub(crate) fn new(engine: Engine<R>, scale: f64, wakeful: Option<WakeLock>) -> Driver<R> {
        let lateness = Lateness::default();
        let state = State { engine, timer_wakes: 0, lateness, wakeful, stopped: false };
        Driver {
            state: Mutex::new(state),
            wake: Condvar::new(),
            origin: Instant::now(),
            scale,
            lead_ns: AtomicU64::new(0),
            next_due: AtomicU64::new(u64::MAX),
            bypass: AtomicBool::new(false),
        }
    }

    /// Sets the real time that answers leave early by.
    pub(crate) fn set_lead(&self, ns: u64) {
        self.lead_ns.store(ns, Ordering::Relaxed);
    }

    pub(crate) fn set_bypass(&self, on: bool) {
        self.bypass.store(on, Ordering::Relaxed);
    }

    /// Has these requests fail, counted from now on, and no others.
    pub(crate) fn set_faults(&self, faults: Faults) {
        self.lock().engine.set_faults(faults);
    }

    /// The device's time up to which answers may leave now.
    fn answerable(&self) -> Nanos {
        let real = self.origin.elapsed().as_nanos() as u64 + self.lead_ns.load(Ordering::Relaxed);
        self.device(real)
    }

    fn device(&self, real: u64) -> Nanos {
        if self.scale == 1.0 { real } else { (real as f64 / self.scale) as u64 }
    }

    fn real(&self, device: Nanos) -> u64 {
        if self.scale == 1.0 { device } else { (device as f64 * self.scale) as u64 }
    }

    fn lock(&self) -> MutexGuard<'_, State<R>> {
        // a panic elsewhere must not turn the device into a hang
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a request in; `reply` is answered by this thread or the timer's.
    pub(crate) fn submit(&self, request: Request<'_>, reply: R) {
        self.submit_until(request, reply, false, || false);
    }

    /// The same; `eager` to answer what is due soon even if other requests wait. As soon as it is `wanted` elsewhere,
    /// this thread leaves the answer to the timer's.
    pub(crate) fn submit_until(
        &self,
        request: Request<'_>,
        reply: R,
        eager: bool,
        wanted: impl Fn() -> bool,
    ) {
        let mut done = Vec::new();
        let spin = {
            let mut state = self.lock();
            let now = self.origin.elapsed().as_nanos() as u64;
            if let Some(wakeful) = &mut state.wakeful {
                wakeful.touch(now);
            }
            let arrival = self.device(now);
            if self.bypass.load(Ordering::Relaxed)
                && let Request::Read { lba, blocks } = request
            {
                let mut data = vec![0; blocks as usize * crate::image::BLOCK];
                let outcome = match state.engine.peek(lba, &mut data) {
                    Ok(()) => Outcome::Data(data),
                    Err(error) => Outcome::Failed(error),
                };
                drop(state);
                reply.answer(outcome);
                return;
            }
            state.engine.submit(arrival, request, reply);
            let now = self.advance(&mut state, &mut done);
            let due = self.publish(&state);
            let mine = state.engine.depth().0 == 1 || eager;
            let spin = mine && due != u64::MAX && self.real(due.saturating_sub(now)) <= SPIN_NS;
            if !spin && due < state.timer_wakes {
                self.wake.notify_one();
            }
            spin
        };
        answer(done);
        if spin {
            self.spin(wanted);
        }
    }

    /// Answers the only request there is, without the detour over the timer thread.
    fn spin(&self, wanted: impl Fn() -> bool) {
        let mut done = Vec::new();
        loop {
            let wanted = self.spin_until_due(&wanted);
            let mut state = self.lock();
            let now = self.advance(&mut state, &mut done);
            let due = self.publish(&state);
            let go_on = !wanted
                && done.is_empty()
                && due != u64::MAX
                && self.real(due.saturating_sub(now)) <= SPIN_NS;
            if go_on {
                continue;
            }
            if due < state.timer_wakes {
                self.wake.notify_one();
            }
            drop(state);
            return answer(done);
        }
    }

    /// Spins until something is due, or (true) this thread is `wanted`. Another thread may have answered meanwhile, so that nothing is, or
    /// nothing soon: then it returns as well.
    fn spin_until_due(&self, wanted: impl Fn() -> bool) -> bool {
        loop {
            let due = self.next_due.load(Ordering::Relaxed);
            let now = self.answerable();
            if due <= now || due == u64::MAX || self.real(due - now) > SPIN_NS {
                return false;
            }
            if wanted() {
                return true;
            }
            std::hint::spin_loop();
        }
    }

    fn advance(&self, state: &mut State<R>, done: &mut Vec<Finished<R>>) -> Nanos {
        let now = self.answerable();
        let before = done.len();
        state.engine.advance(now, done);
        for finished in &done[before..] {
            let late = self.real(now - finished.at.max(finished.submitted).min(now));
            let lateness = &mut state.lateness;
            lateness.answers += 1;
            lateness.late_ns_sum += late;
            lateness.late_ns_max = lateness.late_ns_max.max(late);
        }
        now
    }

    fn publish(&self, state: &State<R>) -> Nanos {
        let due = state.engine.due().unwrap_or(u64::MAX);
        self.next_due.store(due, Ordering::Relaxed);
        due
    }

    /// The timer thread: returns after `stop`.
    pub(crate) fn run_timer(&self) {
        let mut done = Vec::new();
        let mut state = self.lock();
        loop {
            let now = self.advance(&mut state, &mut done);
            let due = self.publish(&state);
            if state.stopped {
                drop(state);
                return answer(done);
            }
            if !done.is_empty() {
                state.timer_wakes = 0;
                drop(state);
                answer(std::mem::take(&mut done));
                state = self.lock();
                continue;
            }
            let wait = if due == u64::MAX { u64::MAX } else { self.real(due.saturating_sub(now)) };
            if wait > SPIN_NS {
                if let Some(wakeful) = &mut state.wakeful {
                    wakeful.rest(self.origin.elapsed().as_nanos() as u64);
                }
                let nap = if wait == u64::MAX { NAP } else { Duration::from_nanos(wait - SPIN_NS).min(NAP) };
                state.timer_wakes = due;
                state = self.wake.wait_timeout(state, nap).unwrap_or_else(PoisonError::into_inner).0;
                state.timer_wakes = 0;
            } else {
                state.timer_wakes = 0;
                drop(state);
                self.spin_until_due(|| false);
                state = self.lock();
            }
        }
    }

    /// Ends the timer thread.
    pub(crate) fn stop(&self) {
        self.lock().stopped = true;
        self.wake.notify_all();
    }

    /// Shows the engine, brought up to the present.
    pub(crate) fn with<T>(&self, look: impl FnOnce(&Engine<R>, DriverFacts) -> T) -> T {
        let mut done = Vec::new();
        let mut state = self.lock();
        self.advance(&mut state, &mut done);
        let l = &state.lateness;
        let facts = DriverFacts {
            answers: l.answers,
            late_ns_mean: l.late_ns_sum.checked_div(l.answers).unwrap_or(0),
            late_ns_max: l.late_ns_max,
            lead_ns: self.lead_ns.load(Ordering::Relaxed),
        };
        let seen = look(&state.engine, facts);
        drop(state);
        answer(done);
        seen
    }

    /// Cuts the power: every waiting and every later request fails. None if it was cut before.
    pub(crate) fn power_cut(&self) -> Option<(PowerCut, Versions)> {
        let mut done = Vec::new();
        let mut state = self.lock();
        self.advance(&mut state, &mut done);
        let cut = state.engine.power_cut();
        self.publish(&state);
        drop(state);
        answer(done);
        let (cut, versions, waiting) = cut?;
        for reply in waiting {
            reply.answer(Outcome::Failed(libc::EIO));
        }
        Some((cut, versions))
    }
}

fn answer<R: Waiter>(done: Vec<Finished<R>>) {
    for finished in done {
        finished.reply.answer(finished.outcome);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::{Receiver, Sender, channel};

    use ssd::{Config, Profile, Ssd};

    use super::*;
    use crate::image::{Image, Memory};

    struct StatusReport(Sender<bool>);

    impl Waiter for StatusReport {
        fn answer(self, outcome: Outcome) {
            let _ = self.0.send(!matches!(outcome, Outcome::Failed(_)));
        }
    }

    fn driver(profile: &str, time_scale: f64) -> Arc<Driver<StatusReport>> {
        let bytes = 16 << 20;
        let ssd = Ssd::new(Config::new(Profile::named(profile).unwrap(), bytes)).unwrap();
        let versions = Versions::new(Image::Ram(Memory::new(bytes).unwrap()), bytes / 4096, false);
        Arc::new(Driver::new(Engine::new(ssd, versions), time_scale, None))
    }

    fn ended(answers: &Receiver<bool>) -> bool {
        answers.recv_timeout(Duration::from_secs(300)).expect("an answer: the driver hangs")
    }

    /// Hosts of depth one on several threads, so that one thread's request is answered by another's.
    #[test]
    fn every_request_is_answered_whoever_drives_the_model() {
        for profile in ["980pro", "optane", "ideal"] {
            let driver = driver(profile, 1.0);
            let timer = driver.clone();
            let timer = std::thread::spawn(move || timer.run_timer());
            driver.set_lead(5000);
            let (done, all) = channel();
            for thread in 0..4u64 {
                let (driver, done) = (driver.clone(), done.clone());
                std::thread::spawn(move || {
                    let (tell, answers) = channel();
                    for i in 0..500 {
                        let lba = (i * 7 + thread) % 4096;
                        let request = match i % 5 {
                            0 => Request::Read { lba, blocks: 1 },
                            _ => Request::Write { lba, data: &[1; 4096], fua: false },
                        };
                        // as /dev/fuse and as rings do, one of which has more to do at times
                        if thread % 2 == 0 {
                            driver.submit(request, StatusReport(tell.clone()));
                        } else {
                            driver.submit_until(request, StatusReport(tell.clone()), true, || i % 3 == 0);
                        }
                        driver.with(|engine, _| assert!(engine.depth().0 <= 4));
                        assert!(ended(&answers));
                    }
                    driver.submit(Request::Flush, StatusReport(tell));
                    let _ = done.send(ended(&answers));
                });
            }
            assert!((0..4).all(|_| ended(&all)), "{profile}");
            driver.with(|engine, facts| assert_eq!((engine.depth().0, facts.answers), (0, 4 * 501)));
            driver.stop();
            timer.join().unwrap();
        }
    }

    #[test]
    fn a_power_cut_fails_who_waits_and_who_comes_later() {
        // So slow that nothing is answered before the cut, however busy the machine is.
        let driver = driver("hdd", 100_000.0);
        let (tell, answers) = channel();
        driver.submit(Request::Write { lba: 9, data: &[1; 4096], fua: false }, StatusReport(tell.clone()));
        driver.submit(Request::Flush, StatusReport(tell.clone()));
        assert!(driver.power_cut().is_some() && driver.power_cut().is_none());
        driver.submit(Request::Read { lba: 9, blocks: 1 }, StatusReport(tell));
        let flushed_and_read: Vec<bool> = (0..3).map(|_| ended(&answers)).collect();
        assert_eq!(flushed_and_read[1..], [false, false]);
    }
}
