//! Where a program says what it has made durable: a pipe, and a socket that answers.
//!
//! A mark may stand later in the recording than where it was said, never earlier. So no state is judged by a mark that the program
//! had not reached, and one that was said by the socket is exact: its program waits for the answer.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::{UnixListener, UnixStream};

use camino::{Utf8Path, Utf8PathBuf};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::child::Beside;
use crate::error::CrashError;

/// Longest name of a mark, in characters: what is longer is cut.
const NAME_MAX: usize = 200;
/// Most bytes of a line.
const LINE_MAX: usize = 4096;
/// Most pieces of such a length that are read before something else is served: as much as a pipe can hold.
const PIECES_MAX: usize = 256;
/// Most programs that talk at a time.
const TALKS_MAX: usize = 256;
/// Most marks of a program.
const MARKS_MAX: usize = 1_000_000;

/// Puts the mark of this number into the recording.
type Note<'a> = &'a mut dyn FnMut(usize) -> Result<(), CrashError>;

/// Pipe, socket, and the marks so far.
pub(super) struct Marks<'a> {
    place: Utf8PathBuf,
    pipe: Lines<File>,
    listener: UnixListener,
    talks: Vec<Lines<UnixStream>>,
    names: Vec<String>,
    note: Note<'a>,
}

impl<'a> Marks<'a> {
    /// Makes pipe and socket in a private directory.
    pub(super) fn listen(place: &Utf8Path, note: Note<'a>) -> Result<Marks<'a>, CrashError> {
        let (pipe, socket) = (place.join("marks"), place.join("marks.sock"));
        let made = mknodat(CWD, pipe.as_str(), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0);
        made.map_err(|error| CrashError::io(format!("make {pipe}"))(error.into()))?;
        // open for writing too: so it has no end, and nobody waits to open it
        let opened = File::options().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(&pipe);
        let opened = opened.map_err(CrashError::io(format!("open {pipe}")))?;
        let too_long = "; a shorter --work-dir may help: the path of a socket has 107 bytes at most";
        let listening = UnixListener::bind(&socket).and_then(|listener| {
            listener.set_nonblocking(true)?;
            Ok(listener)
        });
        let hint = if socket.as_str().len() > 107 { too_long } else { "" };
        let listener = listening.map_err(CrashError::io(format!("listen at {socket}{hint}")))?;
        let (place, pipe) = (place.to_owned(), Lines::new(opened));
        Ok(Marks { place, pipe, listener, talks: Vec::new(), names: Vec::new(), note })
    }

    pub(super) fn pipe(&self) -> Utf8PathBuf {
        self.place.join("marks")
    }

    pub(super) fn socket(&self) -> Utf8PathBuf {
        self.place.join("marks.sock")
    }

    /// The marks in order, when the program has ended: also those that it has left in the pipe, the last one perhaps without the
    /// end of its line.
    pub(super) fn finish(mut self) -> Result<Vec<String>, CrashError> {
        self.serve()?;
        if let Some(rest) = self.pipe.rest() {
            let _ = self.pass(&rest)?;
        }
        Ok(std::mem::take(&mut self.names))
    }

    /// Passes a mark; what is wrong with its name.
    fn pass(&mut self, line: &str) -> Result<Result<(), &'static str>, CrashError> {
        let name: String = line.trim().chars().filter(|c| !c.is_control()).take(NAME_MAX).collect();
        if name.is_empty() {
            return Ok(Err("a mark needs a name"));
        }
        if self.names.len() >= MARKS_MAX {
            return Ok(Err("too many marks"));
        }
        (self.note)(self.names.len())?;
        self.names.push(name);
        Ok(Ok(()))
    }

    /// Bytes of the pipe that are no mark yet.
    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        self.pipe.buffer.len()
    }

    fn welcome(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            if self.talks.len() < TALKS_MAX && stream.set_nonblocking(true).is_ok() {
                self.talks.push(Lines::new(stream));
            }
        }
    }

    /// Serves one who talks; whether he may say more.
    fn answer(&mut self, talk: &mut Lines<UnixStream>) -> Result<bool, CrashError> {
        let is_open = talk.read();
        for line in talk.lines() {
            let answer = match self.pass(&line)? {
                Ok(()) => "ok\n".to_owned(),
                Err(why) => format!("no: {why}\n"),
            };
            if talk.source.write_all(answer.as_bytes()).is_err() {
                return Ok(false);
            }
        }
        Ok(is_open)
    }
}

impl Beside for Marks<'_> {
    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let talks = self.talks.iter().map(|talk| talk.source.as_fd());
        [self.pipe.source.as_fd(), self.listener.as_fd()].into_iter().chain(talks).collect()
    }

    fn serve(&mut self) -> Result<(), CrashError> {
        // what is in the pipe was said before what is said now
        self.pipe.read();
        for line in self.pipe.lines() {
            let _ = self.pass(&line)?;
        }
        self.welcome();
        for mut talk in std::mem::take(&mut self.talks) {
            if self.answer(&mut talk)? {
                self.talks.push(talk);
            }
        }
        Ok(())
    }
}

/// Lines of something that does not block.
struct Lines<S> {
    source: S,
    buffer: Vec<u8>,
}

impl<S: Read> Lines<S> {
    fn new(source: S) -> Lines<S> {
        Lines { source, buffer: Vec::new() }
    }

    /// Reads what is there, but no more than is served at a time; whether there may be more one day. Of a line without an end only the
    /// beginning is kept, which is enough for a name.
    fn read(&mut self) -> bool {
        let mut piece = [0; LINE_MAX];
        for _ in 0..PIECES_MAX {
            match self.source.read(&mut piece) {
                Ok(0) => return false,
                Ok(length) => {
                    self.buffer.extend_from_slice(&piece[..length]);
                    let line = self.line_start();
                    self.buffer.truncate(line.saturating_add(LINE_MAX));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        // a line without an end
        self.buffer.len() - self.line_start() < LINE_MAX
    }

    /// Where the line begins that has no end yet.
    fn line_start(&self) -> usize {
        self.buffer.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1)
    }

    /// The lines that have an end.
    fn lines(&mut self) -> Vec<String> {
        let whole: Vec<u8> = self.buffer.drain(..self.line_start()).collect();
        let lines = whole.split_inclusive(|byte| *byte == b'\n');
        lines.map(|line| String::from_utf8_lossy(line).into_owned()).collect()
    }

    /// What stands behind the last end of a line.
    fn rest(&mut self) -> Option<String> {
        let rest = std::mem::take(&mut self.buffer);
        (!rest.is_empty()).then(|| String::from_utf8_lossy(&rest).into_owned())
    }
}
