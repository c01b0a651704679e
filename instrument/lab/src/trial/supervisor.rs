//! The supervisor of a trial: one gate, one stop, one end, whatever executes the workers.
//!
//! Workers are started, get ready and wait at the gate. When all wait there, it opens. A wish of the user, the deadline, a
//! worker that fails, dies or hangs: each asks all to end, with what they have measured; who does not do so in time is
//! killed. Nobody waits at the gate any more then. The first reason is the one that is told.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use probe::Counters;

use super::executor::{Executor, Failure, StopReason, Worker, WorkerEvent, WorkerOutcome};
use crate::protocol::{Instruction, Message, Release};

/// How often the clock and the user's wish are looked at.
const TICK: Duration = Duration::from_millis(50);
/// How long a killed worker may stay: one that sleeps in the kernel does not die.
pub(super) const DEATH_PATIENCE: Duration = Duration::from_secs(20);

/// How a message about a worker goes on that ended without a word.
pub(crate) const NO_RESULT: &str = "ended without a result";

/// What ends workers that do not end by themselves, and who looks on.
pub struct Supervision<'a> {
    /// The user's wish.
    pub stop: &'a AtomicBool,
    /// When they are told to end.
    pub deadline: Option<Instant>,
    /// How long they may take to tell what they have measured, once they were told to end.
    pub grace: Duration,
    /// How long the last may take after the first has told its result.
    pub straggling: Option<Duration>,
    /// Who looks on.
    pub observer: &'a mut dyn Observer,
}

/// Who looks on while workers run.
pub trait Observer {
    /// A worker says something.
    fn on_message(&mut self, _message: &Message) {}

    /// All are ready; the gate opens for the first time when this returns.
    ///
    /// # Errors
    /// It may not open.
    fn opens(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    /// The gate has been open for so long, and not all have told their results.
    fn running(&mut self, _elapsed: Duration) {}

    /// The last one has told its result.
    fn measured(&mut self) {}

    /// The machine's counters, for a section of a load that is alone.
    fn sample(&mut self) -> Counters {
        Counters::default()
    }
}

/// Sees nothing.
pub(crate) struct NoObserver;

impl Observer for NoObserver {}

/// What workers came to together.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkersOutcome<T = stats::Outcome> {
    /// What was measured, or why nothing was.
    pub result: Result<T, String>,
    /// What made them end, if it was not themselves: [`StopReason::Interrupted`] or [`StopReason::TimedOut`].
    pub stopped: Option<StopReason>,
    /// What they wrote to standard error.
    pub raw_output: String,
}

impl<T> WorkersOutcome<T> {
    /// Whether one ended without a word.
    pub(crate) fn is_without_a_word(&self) -> bool {
        self.result.as_ref().is_err_and(|message| message.contains(NO_RESULT))
    }
}

struct Ending {
    reason: StopReason,
    since: Instant,
    killed: Option<Instant>,
}

/// Supervises the workers of an executor.
pub(crate) struct Supervisor<E: Executor> {
    executor: E,
    workers: Vec<Worker<E::Result>>,
    ending: Option<Ending>,
    /// What is said of the first one that failed.
    failure: Option<String>,
    /// When the gate opened first.
    opened: Option<Instant>,
    /// When the first one told its result.
    first_told: Option<Instant>,
    is_measured: bool,
    raw_output: String,
}

/// Runs all workers of an executor to their ends.
///
/// # Errors
/// The executor cannot do its part. What workers come to is in the departure.
pub fn execute<E: Executor>(
    executor: E,
    by: &mut Supervision<'_>,
) -> Result<WorkersOutcome<E::Result>, Failure> {
    let mut supervisor = Supervisor::new(executor);
    supervisor.spawn(by)?;
    while let Some(release) = supervisor.until_gate(by)? {
        supervisor.open(release, by)?;
    }
    supervisor.depart()
}

impl<E: Executor> Supervisor<E> {
    pub(crate) fn new(executor: E) -> Self {
        let workers = (0..executor.size()).map(|_| Worker::default()).collect();
        let (ending, failure, opened, first_told) = (None, None, None, None);
        let (is_measured, raw_output) = (false, String::new());
        Supervisor { executor, workers, ending, failure, opened, first_told, is_measured, raw_output }
    }

    /// Starts all, as long as none of them fails and nobody wants an end.
    pub(crate) fn spawn(&mut self, by: &mut Supervision<'_>) -> Result<(), Failure> {
        for at in 0..self.workers.len() {
            if at > 0 {
                self.poll_events(Duration::ZERO, by)?;
            }
            if self.ending.is_some() {
                break;
            }
            self.executor.spawn(at)?;
            self.workers[at].has_started = true;
        }
        Ok(())
    }

    /// Hears all until they wait at the gate: what they bring. `None`: they have ended.
    pub(crate) fn until_gate(&mut self, by: &mut Supervision<'_>) -> Result<Option<Release>, Failure> {
        loop {
            if self.living().is_empty() {
                return Ok(None);
            }
            if let Some(release) = self.at_gate() {
                return Ok(Some(release));
            }
            self.poll_events(TICK, by)?;
        }
    }

    /// What all bring to the gate, when all wait there.
    pub(crate) fn at_gate(&self) -> Option<Release> {
        let all: Option<Vec<(u64, bool)>> = self.workers.iter().map(|worker| worker.at_gate).collect();
        let all = all.filter(|_| self.ending.is_none())?;
        let aligned = all.iter().any(|(_, aligned)| *aligned);
        let values = all.into_iter().map(|(value, _)| value).collect();
        Some(Release { aligned, values, ..Release::default() })
    }

    /// Opens the gate for all that wait.
    pub(crate) fn open(&mut self, release: Release, by: &mut Supervision<'_>) -> Result<(), Failure> {
        if self.opened.is_none() {
            by.observer.opens()?;
        }
        let ahead = self.release_workers(release);
        self.opened.get_or_insert(self.executor.now() + ahead);
        Ok(())
    }

    /// What is heard within `patience`, and what follows from it.
    pub(crate) fn poll_events(
        &mut self,
        patience: Duration,
        by: &mut Supervision<'_>,
    ) -> Result<(), Failure> {
        for (at, heard) in self.executor.poll_events(patience)? {
            self.take(at, heard, by.observer);
        }
        let now = self.executor.now();
        if let Some(elapsed) = self.opened.and_then(|opened| now.checked_duration_since(opened)) {
            if self.measuring().any(|(_, worker)| worker.result.is_none()) {
                by.observer.running(elapsed);
            } else if !std::mem::replace(&mut self.is_measured, true) {
                by.observer.measured();
            }
        }
        self.press(now, by);
        Ok(())
    }

    /// Tells those that live to end, since they are not needed any more, and hears them until they have.
    pub(crate) fn dismiss(&mut self, by: &mut Supervision<'_>) -> Result<WorkersOutcome<E::Result>, Failure> {
        if self.ending.is_none() {
            self.end(StopReason::Done);
        }
        while !self.living().is_empty() {
            self.poll_events(TICK, by)?;
        }
        self.depart()
    }

    /// What came of all, when they have ended.
    pub(crate) fn depart(&mut self) -> Result<WorkersOutcome<E::Result>, Failure> {
        let told = self.ending.as_ref().map(|ending| ending.reason);
        let stopped = told.filter(|reason| matches!(reason, StopReason::Interrupted | StopReason::TimedOut));
        let of_one = match &mut self.workers[..] {
            [alone] => alone.result.take_if(|result| result.is_err()).and_then(Result::err),
            _ => None,
        };
        let result = match of_one.or(self.failure.take()) {
            Some(message) => Err(message),
            None => match self.executor.collect(std::mem::take(&mut self.workers)) {
                Err(Failure::Message(message)) => Err(message),
                collected => Ok(collected?),
            },
        };
        Ok(WorkersOutcome { result, stopped, raw_output: std::mem::take(&mut self.raw_output) })
    }

    fn living(&self) -> Vec<usize> {
        let lives = |worker: &Worker<E::Result>| worker.has_started && !worker.has_ended;
        (0..self.workers.len()).filter(|at| lives(&self.workers[*at])).collect()
    }

    /// All but servers.
    fn measuring(&self) -> impl Iterator<Item = (usize, &Worker<E::Result>)> + '_ {
        self.workers.iter().enumerate().filter(|(at, _)| !self.executor.serves(*at))
    }

    /// Lets those go on that wait at the gate; how far ahead the moment is.
    fn release_workers(&mut self, release: Release) -> Duration {
        let workers = self.workers.iter_mut().enumerate();
        let waiting: Vec<usize> =
            workers.filter_map(|(at, worker)| worker.at_gate.take().map(|_| at)).collect();
        self.executor.release(&waiting, release)
    }

    fn take(&mut self, at: usize, heard: WorkerEvent<E::Result>, observer: &mut dyn Observer) {
        let worker = &mut self.workers[at];
        match heard {
            WorkerEvent::Said(message) => {
                observer.on_message(&message);
                match message {
                    Message::AtGate { value, aligned } => {
                        worker.at_gate = Some((value, aligned));
                        if self.ending.is_some() {
                            self.release_workers(Release::default());
                        }
                    }
                    Message::Passed { at_ns, late_ns } => worker.passed = Some((at_ns, late_ns)),
                    Message::Span { span } => worker.spans.push(span),
                    Message::RawOutput { text } => self.raw_output.push_str(&text),
                    Message::Sample => {
                        let counters = Box::new(observer.sample());
                        self.executor.send(at, &Instruction::Counters { counters });
                    }
                    _ => {}
                }
            }
            WorkerEvent::Told(result) => {
                let failed = match &result {
                    Ok(result) => result.failure().map(str::to_string),
                    Err(message) => Some(message.clone()),
                };
                worker.result = Some(result);
                if !self.executor.serves(at) {
                    self.first_told.get_or_insert(self.executor.now());
                }
                // what one that is alone has measured until it failed is kept
                if let Some(message) = failed.filter(|_| self.workers.len() > 1) {
                    self.fail(at, &format!(": {message}"));
                }
            }
            WorkerEvent::Ended(how) => {
                (worker.has_ended, worker.at_gate) = (true, None);
                if worker.result.is_none() {
                    let what = format!(" {NO_RESULT}{how}");
                    worker.result = Some(Err(format!("{}{what}", self.executor.name(at))));
                    self.fail(at, &what);
                }
            }
        }
    }

    /// One has failed: all are to end, if nobody has told them yet.
    fn fail(&mut self, at: usize, what: &str) {
        if self.ending.is_none() && self.failure.is_none() {
            let others = if self.workers.len() > 1 { "; the others were ended" } else { "" };
            self.failure = Some(format!("{}{what}{others}", self.executor.name(at)));
        }
    }

    /// Tells all to end when there is a reason to; kills them when they do not.
    fn press(&mut self, now: Instant, by: &Supervision<'_>) {
        let Some(ending) = &mut self.ending else {
            if let Some(reason) = self.reason(now, by) {
                self.end(reason);
            }
            return;
        };
        match ending.killed {
            None if now.duration_since(ending.since) > by.grace => {
                ending.killed = Some(now);
                self.executor.kill();
            }
            Some(killed) if now.duration_since(killed) > DEATH_PATIENCE => {
                for at in self.living() {
                    let name = self.executor.name(at);
                    let why = || Err(format!("{name} cannot be killed; it sleeps in the kernel"));
                    self.workers[at].has_ended = true;
                    self.workers[at].result.get_or_insert_with(why);
                }
            }
            _ => {}
        }
    }

    /// Why all are to end now.
    fn reason(&mut self, now: Instant, by: &Supervision<'_>) -> Option<StopReason> {
        let all_told = self.measuring().all(|(_, worker)| worker.result.is_some());
        let straggles = self.first_told.zip(by.straggling).filter(|(first, most)| now - *first > *most);
        let some_wait = self.workers.iter().any(|worker| worker.at_gate.is_some());
        let has_left = self.measuring().find(|(_, worker)| worker.has_ended).map(|(at, _)| at);
        let last = self.measuring().find(|(_, worker)| worker.result.is_none()).map(|(at, _)| at);
        if let (Some(at), true) = (has_left, some_wait && !all_told) {
            self.fail(at, " ended while others wait for it at the gate");
        } else if let (Some(at), Some((_, most))) = (last, straggles) {
            self.fail(at, &format!(" hangs: not done {} s after the first", most.as_secs()));
        }
        // a worker that has told its result ends by itself, a server does not
        let serve_nobody = all_told && self.living().iter().any(|at| self.executor.serves(*at));
        if self.failure.is_some() {
            Some(StopReason::Failed)
        } else if by.stop.load(Ordering::Acquire) {
            Some(StopReason::Interrupted)
        } else if by.deadline.is_some_and(|deadline| now >= deadline) {
            Some(StopReason::TimedOut)
        } else {
            serve_nobody.then_some(StopReason::Done)
        }
    }

    fn end(&mut self, reason: StopReason) {
        self.ending = Some(Ending { reason, since: self.executor.now(), killed: None });
        self.executor.stop(reason);
        self.release_workers(Release::default());
    }
}
