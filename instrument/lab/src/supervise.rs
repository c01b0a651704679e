//! The parent's side of a trial's process: starts it, hears it, ends it in time.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid};
use stats::Outcome;

use crate::protocol::{Begin, Message, Request};

/// How often the clock and the user's wish are looked at.
const TICK: Duration = Duration::from_millis(50);
/// How long a killed child may stay: one that sleeps in the kernel does not die.
const DEATH_PATIENCE: Duration = Duration::from_secs(20);
/// How long output is awaited after the end of a child whose own children hold the pipe.
const DRAIN_PATIENCE: Duration = Duration::from_secs(2);
/// The same for messages, in ticks without one: on a busy machine this thread, or the one that reads them, may be held up
/// for longer than any time, and what the child has said is not lost for that.
const DRAIN_TICKS: u32 = (DRAIN_PATIENCE.as_millis() / TICK.as_millis()) as u32;
/// Standard error beyond this many bytes is dropped.
const RAW_BYTES_MAX: usize = 1 << 20;
/// A line on standard output longer than this is cut, and is then no message.
const LINE_BYTES_MAX: u64 = 256 << 20;

/// How the message about a child begins that ended without a word.
const NO_RESULT: &str = "the trial's process ended without a result";

/// The program that becomes the child, with its arguments.
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

/// How a child came to its end.
#[derive(Debug, Clone, PartialEq)]
pub struct Departure {
    /// The outcome, or why there is none.
    pub result: Result<Outcome, String>,
    /// What made it end, if it was not itself.
    pub told: Option<Told>,
    /// What it wrote to standard error.
    pub raw_output: String,
}

impl Departure {
    /// Whether it ended without a word.
    pub(crate) fn is_without_a_word(&self) -> bool {
        self.result.as_ref().is_err_and(|message| message.starts_with(NO_RESULT))
    }
}

/// Why a child was told to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// The user interrupted.
    Interrupted,
    /// Its time was up.
    TimedOut,
}

/// Runs a child to its end. The calling thread must live as long as the child: at its end the kernel kills
/// the child (PR_SET_PDEATHSIG goes by the thread that made it). `admit` gets its process number before the
/// request is sent (to limit its memory).
pub fn supervise(
    program: &Program,
    request: &Request,
    deadline: Option<Instant>,
    stop: &AtomicBool,
    admit: impl FnOnce(u32) -> Result<(), String>,
    hear: &mut dyn FnMut(Message),
) -> Departure {
    supervise_gated(program, request, deadline, stop, admit, hear, &mut |_| None)
}

/// As [`supervise`]. When the child waits or meets others, `gate` says when it goes on; without an answer it ends.
pub(crate) fn supervise_gated(
    program: &Program,
    request: &Request,
    deadline: Option<Instant>,
    stop: &AtomicBool,
    admit: impl FnOnce(u32) -> Result<(), String>,
    hear: &mut dyn FnMut(Message),
    gate: &mut dyn FnMut(&Message) -> Option<Begin>,
) -> Departure {
    let failed = |message: String| Departure { result: Err(message), told: None, raw_output: String::new() };
    let mut child = match start(program) {
        Ok(child) => child,
        Err(error) => return failed(format!("{} cannot be started: {error}", program.path.display())),
    };
    let lines = read_lines(&mut child);
    let raw_output = read_raw(&mut child);
    let sent = admit(child.id()).and_then(|()| send(&mut child, request));
    let grace = program.grace;
    let mut watch =
        Watch { child, stop, deadline, grace, told: None, killed: None, outcome: None, error: None };
    let mut stdin = match sent {
        Ok(stdin) => Some(stdin).filter(|_| request.waits),
        Err(message) => {
            watch.kill();
            watch.error = Some(message);
            None
        }
    };
    let mut hear = |message: Message| match (message, stdin.take()) {
        (message @ (Message::Waiting | Message::Meet { .. }), Some(mut kept)) => {
            if let Some(Ok(mut line)) = gate(&message).map(|begin| serde_json::to_vec(&begin)) {
                line.push(b'\n');
                // one that has died shows by its end
                let _ = kept.write_all(&line);
                stdin = Some(kept);
            }
        }
        (message, kept) => {
            stdin = kept;
            hear(message);
        }
    };
    let exit = watch.until_end(&lines, &mut hear);
    let result = watch.result(exit);
    let told = watch.told.map(|(told, _)| told);
    // A thread whose pipe is held by a process that cannot be killed would be awaited for ever.
    let raw_output = if exit.is_some() { join_in_time(raw_output) } else { String::new() };
    Departure { result, told, raw_output }
}

/// A child that is spoken to while it runs.
pub(crate) struct Kept {
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<Message>,
    raw_output: Option<JoinHandle<String>>,
    grace: Duration,
}

impl Kept {
    /// Starts a child and gives it its request. The calling thread must live as long as the child; `admit` as for
    /// [`supervise`].
    ///
    /// # Errors
    /// It cannot be started, limited or spoken to.
    pub(crate) fn start(
        program: &Program,
        request: &Request,
        admit: impl FnOnce(u32) -> Result<(), String>,
    ) -> Result<Kept, String> {
        let started = start(program);
        let mut child =
            started.map_err(|error| format!("{} cannot be started: {error}", program.path.display()))?;
        let (lines, raw_output) = (read_lines(&mut child), read_raw(&mut child));
        let stdin = child.stdin.take().ok_or("the trial's process has no standard input");
        let admitted = admit(child.id()).and_then(|()| Ok(stdin?));
        match admitted {
            Ok(stdin) => {
                let mut kept = Kept { child, stdin, lines, raw_output, grace: program.grace };
                match kept.tell(request) {
                    Ok(()) => Ok(kept),
                    Err(message) => Err(kept.end().result.err().unwrap_or(message)),
                }
            }
            Err(message) => {
                let _ = child.kill().and_then(|()| child.wait());
                Err(message)
            }
        }
    }

    /// Says a line.
    ///
    /// # Errors
    /// It does not listen.
    pub(crate) fn tell(&mut self, what: &impl serde::Serialize) -> Result<(), String> {
        let mut line = serde_json::to_vec(what).map_err(|error| error.to_string())?;
        line.push(b'\n');
        let told = self.stdin.write_all(&line).and_then(|()| self.stdin.flush());
        told.map_err(|error| format!("the trial's process does not listen: {error}"))
    }

    /// What it says next, within so long; `Err(true)`: nothing more, since it has closed its output.
    pub(crate) fn hear(&self, patience: Duration) -> Result<Message, bool> {
        self.lines.recv_timeout(patience).map_err(|error| error == RecvTimeoutError::Disconnected)
    }

    /// Ends its input, upon which it ends, and hears the rest; kills it when it does not.
    pub(crate) fn end(self) -> Departure {
        let Kept { child, stdin, lines, raw_output, grace } = self;
        drop(stdin);
        let never = AtomicBool::new(false);
        let deadline = Some(Instant::now() + grace);
        let mut watch = Watch {
            child,
            stop: &never,
            deadline,
            grace,
            told: None,
            killed: None,
            outcome: None,
            error: None,
        };
        let exit = watch.until_end(&lines, &mut |_| {});
        let result = watch.result(exit);
        let raw_output = if exit.is_some() { join_in_time(raw_output) } else { String::new() };
        Departure { result, told: None, raw_output }
    }
}

fn start(program: &Program) -> std::io::Result<Child> {
    let mut command = Command::new(&program.path);
    if let Some(folder) = &program.temporary {
        command.env("TMPDIR", folder);
    }
    command
        .args(&program.arguments)
        // A group of its own: the terminal's Ctrl-C reaches the parent only, and killing takes its children
        // along.
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
}

fn send(child: &mut Child, request: &Request) -> Result<ChildStdin, String> {
    let request = Request { counter_speed: engine::clock::Clock::speed(), ..request.clone() };
    let mut line = serde_json::to_vec(&request).map_err(|error| error.to_string())?;
    line.push(b'\n');
    let mut stdin = child.stdin.take().ok_or("the trial's process has no standard input")?;
    let sent = stdin.write_all(&line);
    sent.map_err(|error| format!("the trial's process does not take its request: {error}"))?;
    Ok(stdin)
}

fn read_lines(child: &mut Child) -> Receiver<Message> {
    let (sender, receiver) = channel();
    if let Some(stdout) = child.stdout.take() {
        std::thread::spawn(move || {
            let mut reader = BufReader::new(stdout);
            let mut line = Vec::new();
            while matches!((&mut reader).take(LINE_BYTES_MAX).read_until(b'\n', &mut line), Ok(1..)) {
                // Anything but a message was printed by a command of the workload.
                if let Ok(message) = serde_json::from_slice(&line)
                    && sender.send(message).is_err()
                {
                    break;
                }
                line.clear();
            }
        });
    }
    receiver
}

fn read_raw(child: &mut Child) -> Option<JoinHandle<String>> {
    let mut stderr = child.stderr.take()?;
    Some(std::thread::spawn(move || {
        let mut kept = Vec::new();
        let mut buffer = [0_u8; 8192];
        // Reading goes on beyond the limit, so that the child never blocks on a full pipe.
        while let Ok(got @ 1..) = stderr.read(&mut buffer) {
            let room = RAW_BYTES_MAX.saturating_sub(kept.len()).min(got);
            kept.extend_from_slice(&buffer[..room]);
        }
        String::from_utf8_lossy(&kept).into_owned()
    }))
}

fn join_in_time(thread: Option<JoinHandle<String>>) -> String {
    let Some(thread) = thread else { return String::new() };
    let deadline = Instant::now() + DRAIN_PATIENCE;
    while !thread.is_finished() {
        if Instant::now() >= deadline {
            return String::new();
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    thread.join().unwrap_or_default()
}

struct Watch<'a> {
    child: Child,
    stop: &'a AtomicBool,
    deadline: Option<Instant>,
    grace: Duration,
    told: Option<(Told, Instant)>,
    killed: Option<Instant>,
    outcome: Option<Outcome>,
    error: Option<String>,
}

impl Watch<'_> {
    /// Hears the child until it has ended; `None` when it cannot be killed.
    fn until_end(&mut self, lines: &Receiver<Message>, hear: &mut dyn FnMut(Message)) -> Option<ExitStatus> {
        let mut open = true;
        let mut exited: Option<ExitStatus> = None;
        let mut silent = 0;
        loop {
            if open {
                match lines.recv_timeout(TICK) {
                    Ok(message) => {
                        silent = 0;
                        self.take(message, hear);
                    }
                    Err(RecvTimeoutError::Timeout) => silent += u32::from(exited.is_some()),
                    Err(RecvTimeoutError::Disconnected) => open = false,
                }
            } else if exited.is_none() {
                std::thread::sleep(Duration::from_millis(1));
            }
            if exited.is_none() {
                exited = self.reap();
            }
            match exited {
                Some(status) if !open || silent >= DRAIN_TICKS => return Some(status),
                Some(_) => {}
                None if self.killed.is_some_and(|since| since.elapsed() > DEATH_PATIENCE) => return None,
                None => self.press(),
            }
        }
    }

    fn take(&mut self, message: Message, hear: &mut dyn FnMut(Message)) {
        match message {
            Message::Outcome { outcome } => self.outcome = Some(*outcome),
            Message::Error { message } => self.error = Some(message),
            other => hear(other),
        }
    }

    /// Tells the child to end when the user wishes so or its time is up; kills it when it does not.
    fn press(&mut self) {
        match self.told {
            None if self.stop.load(Ordering::Acquire) => self.tell(Told::Interrupted, Signal::INT),
            None if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) => {
                self.tell(Told::TimedOut, Signal::TERM);
            }
            Some((_, since)) if since.elapsed() > self.grace => self.kill(),
            _ => {}
        }
    }

    fn tell(&mut self, why: Told, signal: Signal) {
        self.told = Some((why, Instant::now()));
        // It may have ended at this moment, which is what is wanted.
        let _ = self.pid().map(|pid| kill_process(pid, signal));
    }

    fn kill(&mut self) {
        if self.killed.is_none() {
            self.killed = Some(Instant::now());
            let _ = self.pid().map(|pid| kill_process_group(pid, Signal::KILL));
            let _ = self.child.kill();
        }
    }

    /// The child's status once it has ended. What it left running (a command of the workload in the
    /// background) would keep the stack busy: it is killed before the child is reaped, while the group's
    /// number is still its own.
    fn reap(&mut self) -> Option<ExitStatus> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let pid = self.pid()?;
        waitid(WaitId::Pid(pid), options).ok().flatten()?;
        let _ = kill_process_group(pid, Signal::KILL);
        self.child.wait().ok()
    }

    fn pid(&self) -> Option<Pid> {
        Pid::from_raw(i32::try_from(self.child.id()).ok()?)
    }

    fn result(&mut self, exit: Option<ExitStatus>) -> Result<Outcome, String> {
        match (self.outcome.take(), self.error.take(), exit) {
            (_, Some(message), _) => Err(message),
            (Some(outcome), ..) => Ok(outcome),
            (.., None) => {
                Err(format!("process {} cannot be killed; it sleeps in the kernel", self.child.id()))
            }
            (.., Some(status)) => Err(format!("{NO_RESULT} ({})", describe(status))),
        }
    }
}

fn describe(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(9), _) => "killed by signal 9: by the time-out, or for want of memory".into(),
        (Some(6), _) => "killed by signal 6: it gave up, or a library in it did".into(),
        (Some(signal), _) => format!("killed by signal {signal}"),
        (_, code) => format!("exit code {}", code.unwrap_or(-1)),
    }
}
