//! The file of a recording.
//!
//! | part | bytes |
//! |---|---|
//! | first line | `loadline recording 1`, a line feed |
//! | second line | the [`Header`] as JSON on one line, a line feed |
//! | items | a byte that says what follows ([`Item`]), then numbers as LEB128, texts as a length and bytes |
//! | last item | [`Item::End`] with the [`Summary`]; a file without it was cut |
//!
//! An operation's begin is stored as the (signed) difference to the begin of the operation before it in the file. Operations
//! stand in the order in which they ended, those of one thread thus in their own order. Threads and paths are numbered from 0
//! in the order of their items, which stand before their first use; so do handles, by successful [`Call::Open`]s and
//! [`Item::Inherited`].

use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};

use crate::call::{Call, Operation};

/// The first line of every recording.
pub const MAGIC: &str = "loadline recording 1\n";
/// The longest text in a file, bytes: a path of Linux is shorter.
const TEXT_BYTES_MAX: u64 = 1 << 16;

/// The items' first bytes. An operation's is 16 plus its kind's place in [`Call::ALL`].
const THREAD: u8 = 1;
const PATH: u8 = 2;
const FOUND: u8 = 3;
const INHERITED: u8 = 4;
const LOST: u8 = 5;
const END: u8 = 6;
const OPERATION: u8 = 16;

/// What is known when a recording begins.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Header {
    /// The command, or empty when running processes were recorded.
    pub command: Vec<String>,
    /// Its working directory.
    pub directory: String,
    /// Begin, in seconds since 1970.
    pub began_unix_seconds: u64,
    /// Only files below these directories are recorded; empty: all of real file systems.
    pub under: Vec<String>,
    /// Names were replaced by hashes.
    pub anonymous: bool,
    /// The kernel's release.
    pub kernel: String,
}

/// What is known when a recording has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Summary {
    /// Its length in nanoseconds.
    pub length_ns: u64,
    /// Operations in the file.
    pub operations: u64,
    /// Calls that the kernel's buffer had no room for.
    pub lost: u64,
    /// Calls on files that cannot be recorded: io_uring's and libaio's requests.
    pub unseen_requests: u64,
}

/// What a path was when it was first seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// There was nothing: the program made it, or it never was.
    Absent,
    /// A regular file of so many bytes.
    File(u64),
    /// A directory.
    Directory,
    /// A symbolic link; to what stands in the item after it, a path, where it could be read.
    Link,
}

/// What a file holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// A thread, its process, and the name of the program that it ran when it was first seen.
    Thread {
        /// Its number in the system.
        tid: u32,
        /// That of its process.
        pid: u32,
        /// The program's name (`comm`).
        name: String,
    },
    /// An absolute path without `.`, `..` or doubled slashes.
    Path(Vec<u8>),
    /// What a path was before the program's first call on it. A further item of a path says that the file was larger than the one
    /// before said, as a read has shown.
    Found {
        /// The path's number.
        path: u32,
        /// What was there.
        kind: FileKind,
    },
    /// A file that was open before the recording: the next handle.
    Inherited {
        /// The path's number.
        path: u32,
        /// Flags of open(2).
        flags: u32,
    },
    /// A call.
    Operation(Operation),
    /// Here so many calls are missing.
    Lost(u64),
    /// The recording was ended in order.
    End(Summary),
}

/// Why a recording cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// It is something else.
    #[error("no recording of loadline: it does not begin with `loadline recording 1`")]
    Other,
    /// Its header cannot be read.
    #[error("the header of the recording cannot be read: {0}")]
    Header(String),
    /// It ends too early.
    #[error("the recording was cut at byte {byte}: it ends without its summary")]
    Cut {
        /// Where, from 0.
        byte: u64,
    },
    /// An item makes no sense.
    #[error("the recording is damaged at byte {byte}: {what}")]
    Damaged {
        /// Where the item begins, from 0.
        byte: u64,
        /// Why.
        what: String,
    },
    /// It cannot be read at all.
    #[error("cannot read the recording at byte {byte}: {source}")]
    Io {
        /// Where, from 0.
        byte: u64,
        /// Why.
        source: io::Error,
    },
}

/// Writes a recording.
#[derive(Debug)]
pub struct Writer<W: Write> {
    to: W,
    begin_ns: u64,
    operations: u64,
    item: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Begins a recording.
    ///
    /// # Errors
    /// What writing says.
    pub fn new(mut to: W, header: &Header) -> io::Result<Self> {
        to.write_all(MAGIC.as_bytes())?;
        serde_json::to_writer(&mut to, header)?;
        to.write_all(b"\n")?;
        Ok(Writer { to, begin_ns: 0, operations: 0, item: Vec::with_capacity(64) })
    }

    /// Operations so far.
    pub fn operations(&self) -> u64 {
        self.operations
    }

    /// Adds an item. [`Item::End`] is added by [`Writer::finish`].
    ///
    /// # Errors
    /// What writing says.
    pub fn push(&mut self, item: &Item) -> io::Result<()> {
        let mut bytes = std::mem::take(&mut self.item);
        bytes.clear();
        self.encode(item, &mut bytes)?;
        let written = self.to.write_all(&bytes);
        self.item = bytes;
        written
    }

    fn encode(&mut self, item: &Item, bytes: &mut Vec<u8>) -> io::Result<()> {
        match item {
            Item::Thread { tid, pid, name } => {
                bytes.push(THREAD);
                numbers(bytes, &[u64::from(*tid), u64::from(*pid)])?;
                text(bytes, name.as_bytes())
            }
            Item::Path(path) => {
                bytes.push(PATH);
                text(bytes, path)
            }
            Item::Found { path, kind } => {
                bytes.push(FOUND);
                let (kind, size) = match kind {
                    FileKind::Absent => (0, 0),
                    FileKind::File(size) => (1, *size),
                    FileKind::Directory => (2, 0),
                    FileKind::Link => (3, 0),
                };
                numbers(bytes, &[u64::from(*path), kind, size])
            }
            Item::Inherited { path, flags } => {
                bytes.push(INHERITED);
                numbers(bytes, &[u64::from(*path), u64::from(*flags)])
            }
            Item::Operation(operation) => self.encode_operation(operation, bytes),
            Item::Lost(count) => {
                bytes.push(LOST);
                numbers(bytes, &[*count])
            }
            Item::End(summary) => {
                bytes.push(END);
                let Summary { length_ns, operations, lost, unseen_requests } = *summary;
                numbers(bytes, &[length_ns, operations, lost, unseen_requests])
            }
        }
    }

    fn encode_operation(&mut self, operation: &Operation, bytes: &mut Vec<u8>) -> io::Result<()> {
        bytes.push(OPERATION + operation.call as u8);
        let step = operation.begin_ns.wrapping_sub(self.begin_ns) as i64;
        self.begin_ns = operation.begin_ns;
        self.operations += 1;
        numbers(bytes, &[u64::from(operation.thread)])?;
        leb128::write::signed(bytes, step)?;
        numbers(bytes, &[operation.took_ns])?;
        leb128::write::signed(bytes, operation.result)?;
        let or_none = |number: Option<u32>| number.map_or(0, |number| u64::from(number) + 1);
        let Operation { path, to, handle, offset, bytes: length, flags, .. } = *operation;
        let names = [or_none(path), or_none(to), or_none(handle)];
        numbers(bytes, &names)?;
        numbers(bytes, &[offset, length, u64::from(flags)])
    }

    /// Ends the recording; what was written into. `operations` of the summary is what was pushed.
    ///
    /// # Errors
    /// What writing says.
    pub fn finish(mut self, summary: Summary) -> io::Result<W> {
        let operations = self.operations;
        self.push(&Item::End(Summary { operations, ..summary }))?;
        self.to.flush()?;
        Ok(self.to)
    }
}

fn numbers(bytes: &mut Vec<u8>, numbers: &[u64]) -> io::Result<()> {
    numbers.iter().try_for_each(|number| leb128::write::unsigned(bytes, *number).map(drop))
}

fn text(bytes: &mut Vec<u8>, text: &[u8]) -> io::Result<()> {
    numbers(bytes, &[text.len() as u64])?;
    bytes.extend_from_slice(text);
    Ok(())
}

/// Reads a recording item by item; memory does not grow with its length. It ends after [`Item::End`] or the first error. Numbers
/// of threads, paths and handles are checked: an operation that it hands over names only what it has handed over before.
#[derive(Debug)]
pub struct Reader<R: Read> {
    from: Counted<R>,
    header: Header,
    begin_ns: u64,
    threads: u64,
    paths: u64,
    handles: u64,
    operations: u64,
    over: bool,
}

impl<R: Read> Reader<R> {
    /// Reads the header. `from` should be buffered.
    ///
    /// # Errors
    /// [`RecordingError`].
    pub fn new(from: R) -> Result<Self, RecordingError> {
        let mut from = Counted { from, byte: 0 };
        let mut magic = [0; MAGIC.len()];
        from.read_exact(&mut magic).map_err(|_| RecordingError::Other)?;
        if magic != MAGIC.as_bytes() {
            return Err(RecordingError::Other);
        }
        let mut line = Vec::new();
        loop {
            let byte = from.byte().map_err(|error| from.error(from.byte, error))?;
            match byte {
                b'\n' => break,
                _ if line.len() as u64 > TEXT_BYTES_MAX * 16 => {
                    return Err(RecordingError::Header("it is longer than 1 MiB".into()));
                }
                byte => line.push(byte),
            }
        }
        let header =
            serde_json::from_slice(&line).map_err(|error| RecordingError::Header(error.to_string()))?;
        Ok(Reader { from, header, begin_ns: 0, threads: 0, paths: 0, handles: 0, operations: 0, over: false })
    }

    /// The header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    fn item(&mut self) -> Result<Item, RecordingError> {
        let at = self.from.byte;
        let kind = self.from.byte().map_err(|error| self.from.error(at, error))?;
        let item = match kind {
            THREAD => {
                self.threads += 1;
                Item::Thread {
                    tid: self.short(at)?,
                    pid: self.short(at)?,
                    name: String::from_utf8_lossy(&self.text(at)?).into_owned(),
                }
            }
            PATH => {
                self.paths += 1;
                Item::Path(self.text(at)?)
            }
            FOUND => {
                let path = self.known(at, self.paths, "path")?;
                let (kind, size) = (self.number(at)?, self.number(at)?);
                let kind = match kind {
                    0 => FileKind::Absent,
                    1 => FileKind::File(size),
                    2 => FileKind::Directory,
                    3 => FileKind::Link,
                    other => return Err(damaged(at, format!("a kind of file {other}"))),
                };
                Item::Found { path, kind }
            }
            INHERITED => {
                self.handles += 1;
                Item::Inherited { path: self.known(at, self.paths, "path")?, flags: self.short(at)? }
            }
            LOST => Item::Lost(self.number(at)?),
            END => {
                let mut next = || self.number(at);
                let summary = Summary {
                    length_ns: next()?,
                    operations: next()?,
                    lost: next()?,
                    unseen_requests: next()?,
                };
                if summary.operations != self.operations {
                    let what = format!("{} operations, {} were there", summary.operations, self.operations);
                    return Err(damaged(at, what));
                }
                Item::End(summary)
            }
            kind => {
                let call = usize::from(kind).checked_sub(usize::from(OPERATION));
                let Some(call) = call.and_then(|at| Call::ALL.get(at)) else {
                    return Err(damaged(at, format!("an item of kind {kind}")));
                };
                Item::Operation(self.operation(at, *call)?)
            }
        };
        Ok(item)
    }

    fn operation(&mut self, at: u64, call: Call) -> Result<Operation, RecordingError> {
        let thread = self.known(at, self.threads, "thread")?;
        let begin_ns = self.begin_ns.wrapping_add(self.signed(at)? as u64);
        let (took_ns, result) = (self.number(at)?, self.signed(at)?);
        let path = self.known_or_none(at, self.paths, "path")?;
        let to = self.known_or_none(at, self.paths, "path")?;
        let makes_handle = call == Call::Open && result >= 0;
        self.handles += u64::from(makes_handle);
        let handle = self.known_or_none(at, self.handles, "handle")?;
        if makes_handle && handle.map(u64::from) != Some(self.handles - 1) {
            return Err(damaged(at, format!("an open has handle {handle:?}, not {}", self.handles - 1)));
        }
        let (offset, bytes, flags) = (self.number(at)?, self.number(at)?, self.short(at)?);
        self.begin_ns = begin_ns;
        self.operations += 1;
        Ok(Operation { thread, call, begin_ns, took_ns, result, path, to, handle, offset, bytes, flags })
    }

    fn number(&mut self, at: u64) -> Result<u64, RecordingError> {
        leb128::read::unsigned(&mut self.from).map_err(|error| self.bad_number(at, error))
    }

    fn signed(&mut self, at: u64) -> Result<i64, RecordingError> {
        leb128::read::signed(&mut self.from).map_err(|error| self.bad_number(at, error))
    }

    fn bad_number(&self, at: u64, error: leb128::read::Error) -> RecordingError {
        match error {
            leb128::read::Error::IoError(error) => self.from.error(at, error),
            leb128::read::Error::Overflow => damaged(at, "a number of more than 64 bits".into()),
        }
    }

    fn short(&mut self, at: u64) -> Result<u32, RecordingError> {
        let number = self.number(at)?;
        u32::try_from(number).map_err(|_| damaged(at, format!("{number} is no number of 32 bits")))
    }

    fn known(&mut self, at: u64, below: u64, what: &str) -> Result<u32, RecordingError> {
        let number = self.short(at)?;
        if u64::from(number) < below {
            return Ok(number);
        }
        Err(damaged(at, format!("{what} {number}, there are {below} before it")))
    }

    fn known_or_none(&mut self, at: u64, below: u64, what: &str) -> Result<Option<u32>, RecordingError> {
        match self.number(at)? {
            0 => Ok(None),
            number if number <= below && number <= u64::from(u32::MAX) => Ok(Some((number - 1) as u32)),
            number => Err(damaged(at, format!("{what} {}, there are {below} before it", number - 1))),
        }
    }

    fn text(&mut self, at: u64) -> Result<Vec<u8>, RecordingError> {
        let length = self.number(at)?;
        if length > TEXT_BYTES_MAX {
            return Err(damaged(at, format!("a text of {length} bytes")));
        }
        let mut text = vec![0; length as usize];
        self.from.read_exact(&mut text).map_err(|error| self.from.error(at, error))?;
        Ok(text)
    }
}

/// The summary of a recording by its last bytes, of which 64 are enough; `None` for one that was cut. Whether what is before them is
/// whole, only [`Reader`] can tell.
pub fn summary_at_end(tail: &[u8]) -> Option<Summary> {
    // each number ends with its only byte below 128, and in front of the four there is the item's first
    let mut ends = tail.iter().enumerate().rev().filter(|(_, byte)| **byte < 0x80).map(|(at, _)| at);
    if ends.next()? + 1 != tail.len() {
        return None;
    }
    let begin = ends.nth(3).filter(|at| tail[*at] == END)?;
    let mut numbers = &tail[begin + 1..];
    let mut next = || leb128::read::unsigned(&mut numbers).ok();
    Some(Summary { length_ns: next()?, operations: next()?, lost: next()?, unseen_requests: next()? })
}

fn damaged(byte: u64, what: String) -> RecordingError {
    RecordingError::Damaged { byte, what }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = Result<Item, RecordingError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let item = self.item();
        self.over = matches!(item, Ok(Item::End(_)) | Err(_));
        Some(item)
    }
}

/// Counts what was read.
#[derive(Debug)]
struct Counted<R> {
    from: R,
    byte: u64,
}

impl<R: Read> Counted<R> {
    fn byte(&mut self) -> io::Result<u8> {
        let mut byte = [0];
        self.read_exact(&mut byte)?;
        Ok(byte[0])
    }

    /// An error in an item that begins at a byte.
    fn error(&self, _at: u64, source: io::Error) -> RecordingError {
        match source.kind() {
            io::ErrorKind::UnexpectedEof => RecordingError::Cut { byte: self.byte },
            _ => RecordingError::Io { byte: self.byte, source },
        }
    }
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(to)?;
        self.byte += count as u64;
        Ok(count)
    }
}

#[cfg(test)]
mod tests;
