//! A worker on this machine: its process and the pipes to it. One poll(2) hears all of them.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Signal, pidfd_send_signal};
use serde::Serialize;

use crate::protocol::{self, Message};

/// Standard error beyond this many bytes is dropped.
const RAW_BYTES_MAX: usize = 1 << 20;
/// A line longer than this is no message.
const LINE_BYTES_MAX: usize = 256 << 20;
/// Most bytes that are read of a pipe before others have their turn: no pipe holds more unless it is told to, so of one whose
/// writer has ended nothing is left.
const TURN_BYTES: usize = 1 << 20;

/// A worker's process, and the pipes to it.
#[derive(Debug)]
pub(super) struct WorkerProcess {
    /// A pidfd.
    process: OwnedFd,
    /// Its standard input, what it has not taken yet.
    to: File,
    unsent: Vec<u8>,
    out: OutputStream,
    err: Option<OutputStream>,
    has_ended: bool,
}

/// What is heard of a worker's process.
#[derive(Debug)]
pub(super) enum ProcessEvent {
    /// It says something.
    Said(Message),
    /// It has ended; what it said before came before.
    Ended,
}

/// One of its outputs, and what was read of it.
#[derive(Debug)]
struct OutputStream {
    /// None at its end.
    from: Option<File>,
    read: Vec<u8>,
}

impl OutputStream {
    fn new(from: OwnedFd) -> std::io::Result<OutputStream> {
        Ok(OutputStream { from: Some(without_waiting(from)?), read: Vec::new() })
    }

    /// Reads what there is, into `read`; what that does not keep is dropped.
    fn fill(&mut self, mut keep: impl FnMut(&mut Vec<u8>, &[u8])) {
        let mut buffer = [0_u8; 16 << 10];
        let mut turn = 0;
        while let Some(from) = self.from.as_mut().filter(|_| turn < TURN_BYTES) {
            match from.read(&mut buffer) {
                Ok(got @ 1..) => {
                    turn += got;
                    keep(&mut self.read, &buffer[..got]);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Ok(0) | Err(_) => self.from = None,
            }
        }
    }
}

fn without_waiting(fd: OwnedFd) -> std::io::Result<File> {
    fcntl_setfl(&fd, fcntl_getfl(&fd)? | OFlags::NONBLOCK)?;
    Ok(fd.into())
}

impl WorkerProcess {
    /// A process, this side of its standard input, output and, if that is wanted, error.
    pub(super) fn new(
        process: OwnedFd,
        to: OwnedFd,
        out: OwnedFd,
        err: Option<OwnedFd>,
    ) -> std::io::Result<WorkerProcess> {
        let (to, out, err) =
            (without_waiting(to)?, OutputStream::new(out)?, err.map(OutputStream::new).transpose()?);
        Ok(WorkerProcess { process, to, unsent: Vec::new(), out, err, has_ended: false })
    }

    /// Says a line; what its pipe does not hold goes while it is heard. One that has ended shows by its end.
    pub(super) fn send(&mut self, what: &impl Serialize) {
        // what we say ourselves is always JSON
        self.unsent.extend(protocol::line(what).unwrap_or_default());
        self.flush();
    }

    fn flush(&mut self) {
        while !self.unsent.is_empty() {
            match self.to.write(&self.unsent) {
                Ok(sent @ 1..) => drop(self.unsent.drain(..sent)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Ok(0) | Err(_) => self.unsent.clear(),
            }
        }
    }

    /// Sends a signal, unless it has ended.
    pub(super) fn signal(&self, signal: Signal) {
        // one that ends at this moment needs none
        let _ = pidfd_send_signal(&self.process, signal);
    }

    /// What it wrote to standard error.
    pub(super) fn raw_output(&mut self) -> String {
        let read = self.err.as_mut().map(|err| std::mem::take(&mut err.read));
        String::from_utf8_lossy(&read.unwrap_or_default()).into_owned()
    }

    fn read(&mut self) -> Vec<Message> {
        if let Some(err) = &mut self.err {
            // it is read beyond the limit, so that the worker never blocks on a full pipe
            err.fill(|kept, got| {
                let room = RAW_BYTES_MAX.saturating_sub(kept.len()).min(got.len());
                kept.extend_from_slice(&got[..room]);
            });
        }
        let mut messages = Vec::new();
        self.out.fill(|line, got| {
            for piece in got.split_inclusive(|byte| *byte == b'\n') {
                line.extend_from_slice(piece);
                if line.ends_with(b"\n") {
                    // anything but a message was printed by a command of the workload
                    messages.extend(serde_json::from_slice::<Message>(line).ok());
                }
                if line.ends_with(b"\n") || line.len() > LINE_BYTES_MAX {
                    line.clear();
                }
            }
        });
        messages
    }

    fn descriptors(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        let sources = std::iter::once(&self.out).chain(&self.err);
        let from =
            sources.filter_map(|source| source.from.as_ref()).map(|from| (from.as_fd(), PollFlags::IN));
        let to = (!self.unsent.is_empty()).then(|| (self.to.as_fd(), PollFlags::OUT));
        from.chain(to).chain([(self.process.as_fd(), PollFlags::IN)])
    }
}

/// Waits until a process says something or ends, at most for `patience`. Each says its end once.
///
/// # Errors
/// poll(2) failed.
pub(super) fn poll_processes(
    peers: &mut [Option<WorkerProcess>],
    patience: Duration,
) -> std::io::Result<Vec<(usize, ProcessEvent)>> {
    let living = |(at, peer): (usize, &Option<WorkerProcess>)| {
        peer.as_ref().is_some_and(|peer| !peer.has_ended).then_some(at)
    };
    let living: Vec<usize> = peers.iter().enumerate().filter_map(living).collect();
    let descriptors = living.iter().filter_map(|at| peers[*at].as_ref()).flat_map(WorkerProcess::descriptors);
    let mut polled: Vec<PollFd<'_>> =
        descriptors.map(|(fd, flags)| PollFd::from_borrowed_fd(fd, flags)).collect();
    let limit = Timespec { tv_sec: patience.as_secs() as i64, tv_nsec: i64::from(patience.subsec_nanos()) };
    match poll(&mut polled, Some(&limit)) {
        Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(Vec::new()),
        Ok(_) => {}
        Err(error) => return Err(error.into()),
    }
    drop(polled);
    let mut signs = Vec::new();
    for at in living {
        let Some(peer) = &mut peers[at] else { continue };
        peer.flush();
        // asked first: what it said before it ended is then there to be read
        peer.has_ended = has_ended(&peer.process);
        signs.extend(peer.read().into_iter().map(|message| (at, ProcessEvent::Said(message))));
        if peer.has_ended {
            signs.push((at, ProcessEvent::Ended));
        }
    }
    Ok(signs)
}

fn has_ended(process: &OwnedFd) -> bool {
    let mut one = [PollFd::new(process, PollFlags::IN)];
    matches!(poll(&mut one, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(1..))
}
