//! A guest as the worker of a supervisor: while it boots, and with what it is asked to do.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use camino::Utf8Path;
use guest::{GuestError, Machine};

use crate::protocol::{Instruction, Message};
use crate::trial::executor::{Executor, Failure, StopReason, Worker, WorkerEvent, WorkerOutcome};
use crate::trial::supervisor::{Observer, Supervision, execute};

/// How long a guest may take to end what it was told to end.
const GRACE: Duration = Duration::from_secs(60);

/// What is wanted of a guest.
#[derive(Debug, Clone)]
pub(super) enum Task<'t> {
    /// To boot.
    Boot,
    /// To do this.
    Do(Instruction),
    /// To go on to its end: a deterministic one, which says nothing and leaves its answer in this file.
    Finish(&'t Utf8Path),
}

impl Task<'_> {
    fn verb(&self) -> &'static str {
        match self {
            Task::Boot => "boot",
            Task::Do(_) => "answer",
            Task::Finish(_) => "end",
        }
    }
}

struct Guest<'m> {
    machine: &'m mut Machine,
    task: Task<'m>,
    /// It was given up.
    is_gone: bool,
    error: &'m mut Option<GuestError>,
}

impl Guest<'_> {
    fn next(&mut self, patience: Duration) -> Result<Option<Message>, GuestError> {
        let Task::Finish(file) = self.task else { return self.machine.receive(patience) };
        if !self.machine.has_ended() {
            std::thread::sleep(patience);
            return Ok(None);
        }
        let bytes = guest::machine::result(self.machine, file)?;
        serde_json::from_slice(&bytes).map(Some).map_err(|error| GuestError::Damaged(error.to_string()))
    }
}

impl WorkerOutcome for Message {}

impl Executor for Guest<'_> {
    type Result = Message;

    fn size(&self) -> usize {
        1
    }

    fn name(&self, _worker: usize) -> String {
        "the guest".into()
    }

    fn spawn(&mut self, worker: usize) -> Result<(), Failure> {
        if let Task::Do(instruction) = self.task.clone() {
            self.send(worker, &instruction);
        }
        Ok(())
    }

    fn poll_events(&mut self, patience: Duration) -> Result<Vec<(usize, WorkerEvent<Message>)>, Failure> {
        let heard = match self.next(if self.is_gone { Duration::ZERO } else { patience }) {
            _ if self.is_gone => vec![WorkerEvent::Ended(String::new())],
            Ok(Some(Message::Error { message })) => {
                vec![
                    WorkerEvent::Told(Err(format!("in the guest: {message}"))),
                    WorkerEvent::Ended(String::new()),
                ]
            }
            Ok(Some(answer @ (Message::Booted | Message::Report { .. } | Message::Exited { .. }))) => {
                vec![WorkerEvent::Told(Ok(answer)), WorkerEvent::Ended(String::new())]
            }
            Ok(said) => said.into_iter().map(WorkerEvent::Said).collect(),
            Err(error) => {
                *self.error = Some(error);
                vec![WorkerEvent::Ended(String::new())]
            }
        };
        Ok(heard.into_iter().map(|heard| (0, heard)).collect())
    }

    fn send(&mut self, _worker: usize, what: &Instruction) {
        if let Err(error) = self.machine.send(what) {
            (*self.error, self.is_gone) = (Some(error), true);
        }
    }

    fn stop(&mut self, reason: StopReason) {
        match &self.task {
            Task::Do(_) if reason == StopReason::Interrupted => self.send(0, &Instruction::Stop),
            // it has nothing to tell, or has not told it in time
            _ => self.kill(),
        }
    }

    /// It ends with its machine, which whoever asked it drops.
    fn kill(&mut self) {
        self.is_gone = true;
    }

    fn collect(&mut self, workers: Vec<Worker<Message>>) -> Result<Message, Failure> {
        let told = workers.into_iter().find_map(|worker| worker.result);
        Ok(told.ok_or("it was not asked".to_string())??)
    }
}

/// Has a guest do something, for so long at most; what it answers. `observer` hears what happens meanwhile.
///
/// # Errors
/// It ended, did not answer in time, or the user interrupts and it has nothing to tell. It is in no state to be asked again.
pub(super) fn ask(
    machine: &mut Machine,
    task: Task<'_>,
    patience: Duration,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
) -> Result<Message, GuestError> {
    let (verb, mut error) = (task.verb(), None);
    let deadline = Some(Instant::now() + patience);
    let guest = Guest { machine, task, is_gone: false, error: &mut error };
    let departure =
        execute(guest, &mut Supervision { stop, deadline, grace: GRACE, straggling: None, observer });
    if let Some(error) = error {
        return Err(error);
    }
    match departure {
        Ok(departure) => match (departure.result, departure.stopped) {
            (Ok(answer), _) => Ok(answer),
            (Err(_), Some(StopReason::Interrupted)) => Err(machine.ended("interrupted")),
            (Err(_), Some(_)) => {
                let seconds = patience.as_secs_f64();
                Err(machine.ended(&format!("the guest did not {verb} within {seconds:.0} s")))
            }
            (Err(message), None) => Err(GuestError::Device(message)),
        },
        Err(Failure::Message(why) | Failure::Unavailable { reason: why, .. }) => Err(GuestError::Device(why)),
    }
}
