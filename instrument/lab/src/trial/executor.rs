//! What executes the workers of a trial: processes, containers, ranks or a guest, as their supervisor sees them.

use std::time::{Duration, Instant};

use apps::span::Span;
use stats::{Ended, Outcome};

use crate::protocol::{Instruction, Message, Release};

/// Why a trial came to nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// This machine cannot do it.
    Unavailable {
        /// Why not.
        reason: String,
        /// What would help.
        remedy: String,
    },
    /// It went wrong: what, and where.
    Message(String),
}

impl From<String> for Failure {
    fn from(message: String) -> Failure {
        Failure::Message(message)
    }
}

/// Why workers are told to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// The user interrupted.
    Interrupted,
    /// Their time was up.
    TimedOut,
    /// One of them failed.
    Failed,
    /// They are not needed any more: servers whose clients have ended, a load that goes in slices.
    Done,
}

/// What is heard of a worker.
#[derive(Debug)]
pub enum WorkerEvent<T> {
    /// It says something.
    Said(Message),
    /// What came of it, or why nothing did.
    Told(Result<T, String>),
    /// It has ended; how, for the end of a sentence: ` (exit code 3)`, or nothing.
    Ended(String),
}

impl From<Message> for WorkerEvent<Outcome> {
    fn from(message: Message) -> Self {
        match message {
            Message::Outcome { outcome } => WorkerEvent::Told(Ok(*outcome)),
            Message::Error { message } => WorkerEvent::Told(Err(message)),
            Message::Ended { how } => WorkerEvent::Ended(how),
            other => WorkerEvent::Said(other),
        }
    }
}

/// What a worker comes to.
pub trait WorkerOutcome {
    /// Why it is a failure all the same.
    fn failure(&self) -> Option<&str> {
        None
    }
}

impl WorkerOutcome for Outcome {
    fn failure(&self) -> Option<&str> {
        match &self.ended {
            Ended::Failed { message } => Some(message),
            _ => None,
        }
    }
}

/// What is known of a worker.
#[derive(Debug)]
pub struct Worker<T> {
    pub(super) has_started: bool,
    pub(super) has_ended: bool,
    /// What it brought to the gate where it waits, and whether it wants to go on at one moment of all clocks.
    pub(super) at_gate: Option<(u64, bool)>,
    /// When it passed the gate first, and how late that was, in nanoseconds of its clock.
    pub passed: Option<(i64, i64)>,
    /// What it did in each phase, by its clock.
    pub spans: Vec<Span>,
    /// What came of it.
    pub result: Option<Result<T, String>>,
}

impl<T> Default for Worker<T> {
    fn default() -> Self {
        let (passed, spans, result) = (None, Vec::new(), None);
        Worker { has_started: false, has_ended: false, at_gate: None, passed, spans, result }
    }
}

/// What was heard, each with the number of the worker that said it.
pub type Messages<R> = Vec<(usize, WorkerEvent<R>)>;

/// Executes the workers of a trial. Dropped, it ends what still runs.
pub trait Executor {
    /// What a worker comes to.
    type Result: WorkerOutcome;

    /// Number of workers.
    fn size(&self) -> usize;

    /// A worker, for messages: `container 3`.
    fn name(&self, worker: usize) -> String;

    /// Whether a worker serves the others: it measures nothing, and is told to end when they have.
    fn serves(&self, _worker: usize) -> bool {
        false
    }

    /// Starts a worker, which gets ready and comes to the gate.
    ///
    /// # Errors
    /// It cannot be started.
    fn spawn(&mut self, worker: usize) -> Result<(), Failure>;

    /// What workers say within `patience`, each in its order; each tells its end once, and nothing after it.
    ///
    /// # Errors
    /// Nobody can be heard any more.
    fn poll_events(&mut self, patience: Duration) -> Result<Messages<Self::Result>, Failure>;

    /// Tells a worker something. One that has died shows by its end.
    fn send(&mut self, worker: usize, what: &Instruction);

    /// Lets workers go on that wait at the gate: at one moment when that is wanted, else at once. How far ahead the moment is.
    fn release(&mut self, workers: &[usize], release: Release) -> Duration {
        let proceed = Instruction::Proceed(release);
        workers.iter().for_each(|worker| self.send(*worker, &proceed));
        Duration::ZERO
    }

    /// Asks all workers that live to end and to tell what they have.
    fn stop(&mut self, reason: StopReason);

    /// Ends them without asking.
    fn kill(&mut self);

    /// One result of what all have told, servers included. Called once, when all have ended.
    ///
    /// # Errors
    /// None came to a result.
    fn collect(&mut self, workers: Vec<Worker<Self::Result>>) -> Result<Self::Result, Failure>;

    /// The clock that patience is measured by.
    fn now(&self) -> Instant {
        Instant::now()
    }
}
