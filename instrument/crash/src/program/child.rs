//! A process with the end of its output, a limit of time, and an end on demand.

use std::io::{self, PipeReader, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use crate::error::CrashError;

/// How often the wish to end is looked at.
const TICK: Duration = Duration::from_millis(50);
/// The end of the output that is kept.
const OUTPUT_MAX: usize = 4000;

/// Most pieces of the output that are read before something else is looked at: as much as a pipe can hold.
const PIECES_MAX: usize = 256;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// By itself.
    Exited(ExitStatus),
    /// Killed: it took too long.
    TooLong,
    /// Killed: nobody wants it any more.
    Stopped,
}

/// What is served while a process runs.
pub(super) trait Beside {
    /// What is waited for.
    fn descriptors(&self) -> Vec<BorrowedFd<'_>>;
    /// Serves what is there, and waits for nothing.
    fn serve(&mut self) -> Result<(), CrashError>;
}

/// A process in a group of its own. Whoever is left of the group is killed when the process ends: he would keep the file system
/// from being unmounted.
#[derive(Debug)]
pub(super) struct Running {
    child: Child,
    /// Readable when it has ended.
    ended: OwnedFd,
    output: Output,
    /// Nobody else has its number until it is waited for.
    waited: bool,
}

impl Running {
    /// Starts it, without input; standard output and error are one.
    pub(super) fn start(mut command: Command) -> io::Result<Running> {
        let (reader, writer) = io::pipe()?;
        rustix::io::ioctl_fionbio(&reader, true)?;
        command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer).process_group(0);
        host::process::end_with_parent(&mut command);
        let mut child = command.spawn()?;
        let pid = Pid::from_child(&child);
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(ended) => {
                let output = Output { reader: Some(reader), kept: Vec::new() };
                Ok(Running { child, ended, output, waited: false })
            }
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(error.into())
            }
        }
    }

    /// Waits for its end, or brings it about; how it ended, and the end of its output.
    pub(super) fn wait(
        mut self,
        limit: Option<Duration>,
        stop: &AtomicBool,
        mut beside: Option<&mut dyn Beside>,
    ) -> Result<(Ended, String), CrashError> {
        let until = limit.map(|limit| Instant::now() + limit);
        let ended = loop {
            if stop.load(Ordering::Relaxed) {
                break Ended::Stopped;
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                break Ended::TooLong;
            }
            let exited = self.poll(left.map_or(TICK, |left| left.min(TICK)), beside.as_deref())?;
            if let Some(beside) = beside.as_deref_mut() {
                beside.serve()?;
            }
            self.output.read().map_err(CrashError::io("read a program's output"))?;
            if exited {
                break Ended::Exited(self.end().map_err(CrashError::io("wait for a program"))?);
            }
        };
        Ok((ended, self.output.text()))
    }

    /// Waits a little for something to do; whether the process has ended.
    fn poll(&self, patience: Duration, beside: Option<&dyn Beside>) -> Result<bool, CrashError> {
        let others = beside.map_or(Vec::new(), |beside| beside.descriptors());
        let reader = self.output.reader.as_ref().map(AsFd::as_fd);
        let mut fds: Vec<PollFd<'_>> = std::iter::once(self.ended.as_fd())
            .chain(reader)
            .chain(others)
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        let patience = Timespec::try_from(patience).unwrap_or_default();
        match poll(&mut fds, Some(&patience)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(!fds[0].revents().is_empty()),
            Err(error) => Err(CrashError::io("wait for a program")(error.into())),
        }
    }

    /// Ends the group.
    fn end(&mut self) -> io::Result<ExitStatus> {
        if !self.waited {
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
            self.waited = true;
        }
        self.child.wait()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// The end of what a process prints.
#[derive(Debug)]
struct Output {
    /// None when all who could write have closed it.
    reader: Option<PipeReader>,
    kept: Vec<u8>,
}

impl Output {
    /// Reads what is there, but no more than a pipe can hold: some print for ever.
    fn read(&mut self) -> io::Result<()> {
        let mut piece = [0; 4096];
        for _ in 0..PIECES_MAX {
            let Some(reader) = &mut self.reader else { return Ok(()) };
            match reader.read(&mut piece) {
                Ok(0) => self.reader = None,
                Ok(length) => self.keep(&piece[..length]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn keep(&mut self, bytes: &[u8]) {
        self.kept.extend_from_slice(bytes);
        let surplus = self.kept.len().saturating_sub(OUTPUT_MAX);
        self.kept.drain(..surplus);
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.kept).into_owned()
    }
}
