//! A worker as a child of this process.

use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use journal::Cgroup;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use stats::Outcome;

use super::executor::{Executor, Failure, StopReason, Worker, WorkerEvent};
use super::peer::{self, ProcessEvent, WorkerProcess};
use super::supervisor::DEATH_PATIENCE;
use crate::protocol::{Instruction, Message, Request};

/// The program that becomes a worker, with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Path of the executable.
    pub path: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// How long it may take to tell what it has measured, once it was told to end; then it is killed.
    pub grace: Duration,
    /// Where it puts temporary files; without one where this process does.
    pub temporary: Option<PathBuf>,
}

impl Program {
    /// A program with 10 seconds of grace.
    pub fn new(path: impl Into<PathBuf>, arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(|argument| argument.to_string()).collect();
        Program { path: path.into(), arguments, grace: Duration::from_secs(10), temporary: None }
    }
}

/// The only worker of a load that runs alone. The thread that starts it must live as long as it does: at that thread's end the
/// kernel kills it (PR_SET_PDEATHSIG goes by the thread).
#[derive(Debug)]
pub struct Process {
    program: Program,
    request: Request,
    /// The memory group that it is put into before it gets its request.
    group: Option<Arc<Cgroup>>,
    child: Option<Child>,
    peers: [Option<WorkerProcess>; 1],
}

impl Process {
    /// One that runs this.
    pub fn new(program: &Program, request: Request, group: Option<Arc<Cgroup>>) -> Process {
        Process { program: program.clone(), request, group, child: None, peers: [None] }
    }

    fn start(&mut self) -> Result<(), String> {
        let Program { path, arguments, temporary, .. } = &self.program;
        let mut command = Command::new(path);
        if let Some(folder) = temporary {
            command.env("TMPDIR", folder);
        }
        // A group of its own: the terminal's Ctrl-C reaches the parent only, and killing takes its children along.
        command.args(arguments).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let failed = |error: std::io::Error| format!("{} cannot be started: {error}", path.display());
        let child = self.child.insert(command.spawn().map_err(failed)?);
        let pipe = "the trial's process lacks a pipe";
        let to = child.stdin.take().map(OwnedFd::from).ok_or(pipe)?;
        let out = child.stdout.take().map(OwnedFd::from).ok_or(pipe)?;
        let err = child.stderr.take().map(OwnedFd::from);
        let process = pidfd_open(Pid::from_child(child), PidfdFlags::empty());
        let process = process.map_err(|error| failed(error.into()))?;
        if let Some(group) = &self.group {
            group.add_pid(child.id()).map_err(|error| error.to_string())?;
        }
        let peer = self.peers[0].insert(WorkerProcess::new(process, to, out, err).map_err(failed)?);
        self.request.counter_speed = engine::clock::Clock::speed();
        peer.send(&self.request);
        Ok(())
    }
}

impl Executor for Process {
    type Result = Outcome;

    fn size(&self) -> usize {
        1
    }

    fn name(&self, _worker: usize) -> String {
        "the trial's process".into()
    }

    fn spawn(&mut self, _worker: usize) -> Result<(), Failure> {
        Ok(self.start()?)
    }

    fn poll_events(&mut self, patience: Duration) -> Result<Vec<(usize, WorkerEvent<Outcome>)>, Failure> {
        let signs = peer::poll_processes(&mut self.peers, patience).map_err(|error| error.to_string())?;
        let mut heard: Vec<(usize, WorkerEvent<Outcome>)> = Vec::with_capacity(signs.len());
        for (_, sign) in signs {
            match sign {
                ProcessEvent::Said(message) => heard.push((0, message.into())),
                ProcessEvent::Ended => {
                    let how = self.child.take().and_then(reap).map(describe).unwrap_or_default();
                    let text = self.peers[0].as_mut().map(WorkerProcess::raw_output).unwrap_or_default();
                    heard.push((0, WorkerEvent::Said(Message::RawOutput { text })));
                    heard.push((0, WorkerEvent::Ended(how)));
                }
            }
        }
        Ok(heard)
    }

    fn send(&mut self, _worker: usize, what: &Instruction) {
        self.peers[0].iter_mut().for_each(|peer| peer.send(what));
    }

    fn stop(&mut self, reason: StopReason) {
        self.peers[0].iter().for_each(|peer| peer.signal(signal(reason)));
    }

    fn kill(&mut self) {
        if let Some(child) = &mut self.child {
            // it has not been waited for, so that the group's number is still its own
            let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
        }
    }

    fn collect(&mut self, workers: Vec<Worker<Outcome>>) -> Result<Outcome, Failure> {
        let told =
            workers.into_iter().find_map(|worker| worker.result).ok_or("it was not started".to_string())?;
        Ok(told?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        let deadline = Instant::now() + DEATH_PATIENCE;
        while self.child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
            && Instant::now() < deadline
        {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// The signal that asks a worker to end.
pub(super) fn signal(reason: StopReason) -> Signal {
    if reason == StopReason::TimedOut { Signal::TERM } else { Signal::INT }
}

/// The status of a child that has ended. What it left running (a command of the workload in the background) would keep the stack
/// busy: it is killed before the child is reaped, while the group's number is still its own.
fn reap(mut child: Child) -> Option<ExitStatus> {
    let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
    child.wait().ok()
}

/// The exit code of a program that has panicked.
const PANICKED: i32 = 101;

/// The limit of a process' address space, if there is one: a program that meets it gives up.
fn memory_limit() -> String {
    let limit = rustix::process::getrlimit(rustix::process::Resource::As).current;
    limit.map_or(String::new(), |bytes| {
        format!("; the address space is limited to {} MiB (ulimit -v)", bytes >> 20)
    })
}

fn describe(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(9), _) => " (killed by signal 9: by the time-out, or for want of memory)".into(),
        (Some(6), _) => {
            format!(" (killed by signal 6: it gave up, or a library in it did{})", memory_limit())
        }
        (Some(signal), _) if signal == Signal::BUS.as_raw() => {
            format!(
                " (killed by signal {signal}: a page of a mapped file could not be had, since the file is shorter than it was, \
                 or the device is full or failed)"
            )
        }
        (Some(signal), _) => format!(" (killed by signal {signal})"),
        (_, Some(PANICKED)) => {
            format!(
                " (exit code {PANICKED}: it panicked, and its output is kept with the run{})",
                memory_limit()
            )
        }
        (_, code) => format!(" (exit code {})", code.unwrap_or(-1)),
    }
}
