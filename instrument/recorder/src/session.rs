//! A recording from its begin to its end: a command that is started for it, or processes that run already.

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use host::{Host, ProcessId, Unavailable};
use recording::follow::{Follower, Options as FollowOptions};
use recording::raw::{RawCall, RawEvent};
use recording::{Header, Item, Summary, Writer};

use crate::processes::{self, Processes};
use crate::{Capture, RecorderError};

/// How often the ring buffer is read. At a million calls a second a hundredth of it fills in that time; what is looked up of a
/// file is as old as this at most.
const READ_EVERY: Duration = Duration::from_millis(5);
/// A command that was asked to end and does not is killed after this time.
const PATIENCE: Duration = Duration::from_secs(10);

/// Whose calls are recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// A command that is started, with all that it starts.
    Command(Vec<OsString>),
    /// Processes that run, with all that they start from now on.
    Processes(Vec<u32>),
}

/// What is recorded, and for how long.
#[derive(Debug)]
pub struct RecordOptions {
    /// Whose calls.
    pub subject: Subject,
    /// At most so long; `None`: until the command, or the last of the processes, has ended.
    pub length: Option<Duration>,
    /// Only files below these directories (absolute, without links); empty: all of real file systems.
    pub under: Vec<Vec<u8>>,
    /// Names are replaced by hashes.
    pub anonymous: bool,
}

/// How far a recording is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Time since its begin.
    pub elapsed: Duration,
    /// Operations so far.
    pub operations: u64,
    /// Records that were lost.
    pub lost: u64,
}

/// What came of a recording.
#[derive(Debug)]
pub struct Recorded {
    /// Its end.
    pub summary: Summary,
    /// How the command ended; `None` when there was none, or it still runs.
    pub status: Option<ExitStatus>,
    /// Descriptors that calls named and that nothing is known of: files that were opened where nobody looked.
    pub unknown: u64,
    /// Threads that did something.
    pub threads: u64,
    /// Paths that were named.
    pub paths: u64,
    /// Calls of 32-bit programs, which are not recorded.
    pub compat: u64,
    /// Page faults on files that the recording does not know.
    pub dropped_faults: u64,
    /// Whether page faults on mapped files were seen.
    pub sees_faults: bool,
}

/// Records into `to` until the subject has ended, the time is over, or `stop` says so. A command is then asked to end (SIGTERM), and
/// killed when it does not.
///
/// # Errors
/// [`RecorderError`]: nothing was started then, except for [`RecorderError::Write`], which ends the recording.
pub fn record(
    options: &RecordOptions,
    to: impl Write,
    stop: &dyn Fn() -> bool,
    progress: &mut dyn FnMut(Progress),
) -> Result<Recorded, RecorderError> {
    let mut session = Session::new(options, to)?;
    let mut subject = session.start(&options.subject)?;
    let over = |elapsed: Duration| options.length.is_some_and(|length| elapsed >= length) || stop();
    let mut followed = || -> Result<(), RecorderError> {
        loop {
            let ended = subject.has_ended()?;
            session.read()?;
            progress(session.progress());
            if ended || over(session.begun.elapsed()) {
                return Ok(());
            }
            std::thread::sleep(READ_EVERY);
        }
    };
    match followed() {
        Ok(()) => session.end(subject),
        Err(error) => {
            subject.end(&mut || Ok(()))?;
            Err(error)
        }
    }
}

/// Records what `work` and all that it starts do, in a thread of its own; with what it returns. The subject and the length of
/// `options` are not used.
///
/// # Errors
/// As [`record`]. `work` has run when reading or writing fails.
pub fn record_work<T: Send>(
    options: &RecordOptions,
    to: impl Write,
    work: impl FnOnce() -> T + Send,
) -> Result<(Recorded, T), RecorderError> {
    let mut session = Session::new(options, to)?;
    let (ready, begin) = std::sync::mpsc::channel();
    let worked = std::thread::scope(|scope| {
        let worker = scope.spawn(move || {
            let _ = ready.send(processes::own_thread());
            std::thread::park();
            work()
        });
        let added = begin.recv().map_err(|_| RecorderError::Panicked);
        let added = added.and_then(|tid| session.capture.add(tid).map_err(RecorderError::Thread));
        worker.thread().unpark();
        added?;
        while !worker.is_finished() {
            session.read()?;
            std::thread::sleep(READ_EVERY);
        }
        worker.join().map_err(|_| RecorderError::Panicked)
    })?;
    Ok((session.end(Running::Processes(Vec::new()))?, worked))
}

fn header(options: &RecordOptions) -> Result<Header, RecorderError> {
    let directory = std::env::current_dir().map_err(RecorderError::Directory)?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let command = match &options.subject {
        Subject::Command(words) if !options.anonymous => {
            words.iter().map(|word| word.to_string_lossy().into_owned()).collect()
        }
        _ => Vec::new(),
    };
    let public = !options.anonymous;
    Ok(Header {
        command,
        directory: if public { directory.to_string_lossy().into_owned() } else { String::new() },
        began_unix_seconds: processes::unix_ns() / 1_000_000_000,
        under: options.under.iter().filter(|_| public).map(|one| text(one)).collect(),
        anonymous: options.anonymous,
        kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
    })
}

/// A recording that is going on.
struct Session<W: Write> {
    writer: Writer<W>,
    follower: Follower,
    lookup: Processes,
    items: Vec<Item>,
    /// The thread that has started the command: what it makes is recorded, what it does itself is not.
    starter: Option<u32>,
    begun: Instant,
    threads: u64,
    paths: u64,
    capture: Capture,
}

/// Whoever is recorded.
enum Running {
    Child(Child, Option<ExitStatus>),
    Processes(Vec<ProcessId>),
}

impl Running {
    fn has_ended(&mut self) -> Result<bool, RecorderError> {
        match self {
            Running::Child(child, status) => {
                *status = child.try_wait().map_err(RecorderError::Wait)?;
                Ok(status.is_some())
            }
            Running::Processes(all) => {
                let host = Host::system();
                Ok(!all.iter().any(|one| one.is_alive(&host)))
            }
        }
    }

    /// Ends a command that still runs: it is asked to, and killed when it does not; how it ended. Meanwhile `each` is done.
    fn end(
        self,
        each: &mut dyn FnMut() -> Result<(), RecorderError>,
    ) -> Result<Option<ExitStatus>, RecorderError> {
        let mut child = match self {
            Running::Child(child, None) => child,
            Running::Child(_, status) => return Ok(status),
            Running::Processes(_) => return Ok(None),
        };
        processes::terminate(&child);
        let asked = Instant::now();
        loop {
            if let Some(status) = child.try_wait().map_err(RecorderError::Wait)? {
                return Ok(Some(status));
            }
            if each().is_err() || asked.elapsed() > PATIENCE {
                let _ = child.kill();
            }
            std::thread::sleep(READ_EVERY);
        }
    }
}

impl<W: Write> Session<W> {
    fn new(options: &RecordOptions, to: W) -> Result<Self, RecorderError> {
        if !processes::is_in_first_pid_namespace() {
            return Err(RecorderError::Unavailable(Unavailable::new(
                "system calls cannot be recorded here: this is a container with process numbers of its own",
                "run loadline on the host, with --pid",
            )));
        }
        let capture = Capture::new()?;
        let header = header(options)?;
        let begin_ns = processes::monotonic_ns();
        let follow = FollowOptions {
            begin_ns,
            unix_ahead_ns: processes::unix_ns() as i64 - begin_ns as i64,
            under: options.under.clone(),
            anonymous: options
                .anonymous
                .then(processes::secret)
                .transpose()
                .map_err(RecorderError::Secret)?,
        };
        Ok(Session {
            writer: Writer::new(to, &header).map_err(RecorderError::Write)?,
            follower: Follower::new(follow),
            lookup: Processes::default(),
            items: Vec::new(),
            starter: None,
            begun: Instant::now(),
            threads: 0,
            paths: 0,
            capture,
        })
    }

    fn start(&mut self, subject: &Subject) -> Result<Running, RecorderError> {
        match subject {
            Subject::Command(words) => self.start_command(words),
            Subject::Processes(pids) => {
                for pid in pids {
                    self.add_process(*pid)?;
                }
                let host = Host::system();
                Ok(Running::Processes(pids.iter().filter_map(|pid| ProcessId::read(&host, *pid)).collect()))
            }
        }
    }

    /// Starts the command from a thread that is recorded: what it makes is recorded from its first call on.
    fn start_command(&mut self, words: &[OsString]) -> Result<Running, RecorderError> {
        let Some((program, arguments)) = words.split_first() else {
            return Err(RecorderError::Start {
                program: String::new(),
                source: io::ErrorKind::NotFound.into(),
            });
        };
        // the command inherits what we have open
        self.lookup.remember(std::process::id()).map_err(RecorderError::Read)?;
        let capture = &self.capture;
        let spawned = std::thread::scope(|scope| {
            let start = || {
                let starter = processes::own_thread();
                capture.add(starter).map_err(RecorderError::Thread)?;
                let spawned = Command::new(program).args(arguments).spawn();
                let child = spawned.map_err(|source| RecorderError::Start {
                    program: program.to_string_lossy().into_owned(),
                    source,
                })?;
                Ok::<_, RecorderError>((starter, child))
            };
            scope.spawn(start).join()
        });
        let (starter, child) = spawned.map_err(|_| RecorderError::Panicked)??;
        self.starter = Some(starter);
        Ok(Running::Child(child, None))
    }

    /// Adds all threads of a process, also those that are made meanwhile: a thread that was added adds what it makes.
    fn add_process(&mut self, pid: u32) -> Result<(), RecorderError> {
        if processes::sees_other_files(pid) {
            return Err(RecorderError::OtherFiles { pid });
        }
        let mut known = Vec::new();
        loop {
            let threads = processes::threads(pid).map_err(|source| RecorderError::Process { pid, source })?;
            let fresh: Vec<u32> = threads.into_iter().filter(|tid| !known.contains(tid)).collect();
            if fresh.is_empty() {
                // behind the first recorded call: what is closed or opened meanwhile is seen
                return self.lookup.remember(pid).map_err(|source| RecorderError::Process { pid, source });
            }
            for tid in &fresh {
                self.capture.add(*tid).map_err(RecorderError::Thread)?;
            }
            known.extend(fresh);
        }
    }

    /// Takes what has happened since the last time.
    fn read(&mut self) -> Result<(), RecorderError> {
        let (starter, follower, lookup, items) =
            (self.starter, &mut self.follower, &mut self.lookup, &mut self.items);
        let mut result = Ok(());
        let writer = &mut self.writer;
        let (threads, paths) = (&mut self.threads, &mut self.paths);
        let drained = self.capture.drain(|event| {
            if is_of(&event, starter) || result.is_err() {
                return;
            }
            follower.event(event, lookup, items);
            for item in items.drain(..) {
                match item {
                    Item::Thread { .. } => *threads += 1,
                    Item::Path(_) => *paths += 1,
                    _ => {}
                }
                if result.is_ok() {
                    result = writer.push(&item);
                }
            }
        });
        drained.map_err(RecorderError::Read)?;
        result.map_err(RecorderError::Write)
    }

    fn progress(&self) -> Progress {
        Progress {
            elapsed: self.begun.elapsed(),
            operations: self.writer.operations(),
            lost: self.follower.counts().lost,
        }
    }

    /// Ends the command if it still runs, takes what is left, and ends the recording.
    fn end(mut self, subject: Running) -> Result<Recorded, RecorderError> {
        let end_ns = processes::monotonic_ns();
        let status = subject.end(&mut || self.read())?;
        self.read()?;
        let summary = self.follower.summary(end_ns);
        let counts = self.follower.counts();
        self.writer.finish(summary).map_err(RecorderError::Write)?;
        Ok(Recorded {
            summary,
            status,
            unknown: counts.unknown,
            compat: self.capture.compat().map_err(RecorderError::Read)?,
            dropped_faults: counts.dropped_faults,
            threads: self.threads,
            paths: self.paths,
            sees_faults: self.capture.sees_faults,
        })
    }
}

/// Whether a thread did something itself, beside making others.
fn is_of(event: &RawEvent, thread: Option<u32>) -> bool {
    match event {
        RawEvent::Call(RawCall { tid, .. }) | RawEvent::Exit { tid, .. } | RawEvent::Fault { tid, .. } => {
            Some(*tid) == thread
        }
        RawEvent::Fork { .. } | RawEvent::Exec { .. } | RawEvent::Lost(_) => false,
    }
}
