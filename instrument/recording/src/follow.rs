//! Makes the items of a recording of system calls as the kernel ran them.
//!
//! A system call names a file by a descriptor, and where it reads by a position that the kernel keeps. [`Follower`] keeps the
//! same tables as the kernel (descriptors of each process, positions that `dup` and `fork` share, working directories), so that
//! each operation has an absolute path or a handle, and an explicit offset. What was there before the first event it asks a
//! [`Lookup`], lazily: what a recorder sees of the system is always a little later than the event that it handles.
//!
//! What a reader of the recording should know:
//!
//! - Paths are lexical: `link/..` is where `link` stands, and two names of one file are two paths, with one size.
//! - [`Item::Found`] says what was there before the first call on a path, by what that call returned where that tells it, else
//!   by what is there when the event is handled. The size of a file that the first call truncates is thus 0, that of one that it
//!   removes is 0, and what a rename replaces without an earlier call on it is [`FileKind::Absent`]. Names below a renamed
//!   directory were absent before that rename; where one was not seen before it, its old name gets an item too.
//! - A call that moved a position has the offset at which it began. Where `sendfile`, `splice` or `copy_file_range` were given a
//!   pointer to an offset, which nobody reads, the offset is where the handle's previous such call ended, from 0.
//! - An appending write has the offset at which its file ended by the calls so far.
//! - Descriptors that no event told of (sockets, pipes, files passed between processes) are looked up at their first use.
//! - What io_uring and libaio do, and `msync`, is only counted.
//! - A symbolic link's [`Item::Found`] is always followed by a path, an empty one where nobody knows to what it points; a path
//!   that stands in the recording already is then there once more, with a number that nothing else uses.
//! - A process that runs another program has a new thread number from then on, under the new name.
//! - The events of a thread or process begin with [`RawEvent::Fork`], or with any other if it was there before; a maker that had
//!   no event yet is taken to be recorded too.

mod calls;
mod names;
mod process;
mod request;
mod scope;
mod table;

use std::collections::HashMap;

use crate::call::Operation;
use crate::format::{FileKind, Item, Summary};
use crate::raw::{RawCall, RawEvent};
use names::{Names, State};
use scope::Scope;
use table::{Open, OpenNumber, Process};

/// Times of birth are by a clock that advances with the timer's interrupt, which comes every 10 ms at the latest, and later where a
/// busy host keeps a virtual processor from running. A file that others made so short a time before the program opened it with
/// `O_CREAT` is taken for the program's own.
const COARSE_CLOCK_NS: i128 = 100_000_000;
/// A page that is read in for a mapping, bytes.
const PAGE_BYTES: u64 = 4096;

/// What a recording is to hold.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The recording's begin, in nanoseconds of CLOCK_MONOTONIC.
    pub begin_ns: u64,
    /// What CLOCK_REALTIME is ahead of CLOCK_MONOTONIC, in nanoseconds.
    pub unix_ahead_ns: i64,
    /// Only files below these absolute directories; empty: all but those of the kernel's own file systems.
    pub under: Vec<Vec<u8>>,
    /// Replaces names below `under` (or all) by hashes with this key, which nobody should know.
    pub anonymous: Option<[u64; 2]>,
}

/// What is at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// Nothing, or nothing that can be seen.
    Absent,
    /// A regular file.
    File {
        /// Its size in bytes.
        size: u64,
        /// Its birth in nanoseconds since 1970, where the file system knows it.
        born_unix_ns: Option<u64>,
        /// Its file system's device, as in [`RawEvent::Fault`].
        device: u64,
        /// Its inode number.
        inode: u64,
    },
    /// A directory.
    Directory,
    /// A symbolic link with this text.
    Link(Vec<u8>),
    /// A device, socket or pipe: nothing to record.
    Other,
}

/// A file that is open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenFile {
    /// Its absolute path.
    pub path: Vec<u8>,
    /// Flags of open(2); `O_CLOEXEC` is the descriptor's.
    pub flags: u32,
    /// Where the next read or write happens.
    pub position: u64,
    /// What it is: a file or a directory.
    pub seen: Seen,
}

/// What a descriptor is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Descriptor {
    /// An open file or directory.
    File(OpenFile),
    /// A socket or pipe, or a file that has no name any more: nothing to record.
    Other,
    /// There is none, or its process is over: calls on it are counted as unknown.
    Gone,
}

/// What the system says about files and processes, asked when something is seen for the first time. It answers as of now, which
/// is later than the event.
pub trait Lookup {
    /// A descriptor of a process as it was when the recording began, before any event; `None`: nobody looked then.
    fn at_begin(&mut self, pid: u32, fd: i32) -> Option<Descriptor>;
    /// A descriptor that no event told of, as it is now.
    fn descriptor(&mut self, pid: u32, fd: i32) -> Descriptor;
    /// A process's working directory when the recording began; `None`: nobody looked then.
    fn directory_at_begin(&mut self, pid: u32) -> Option<Vec<u8>>;
    /// A process's working directory, as it is now.
    fn directory(&mut self, pid: u32) -> Option<Vec<u8>>;
    /// What is at an absolute path; a link is not followed.
    fn found(&mut self, path: &[u8]) -> Seen;
    /// The name of a thread (`comm`).
    fn name(&mut self, pid: u32, tid: u32) -> Option<String>;
    /// Threads of a process that is seen without its begin.
    fn threads(&mut self, pid: u32) -> Vec<u32>;
}

/// Makes items of events. Its memory grows with live descriptors, processes and files, and with paths in the recording, not
/// with the number of calls.
#[derive(Debug)]
pub struct Follower {
    begin_ns: u64,
    unix_ahead_ns: i64,
    scope: Scope,
    names: Names,
    processes: HashMap<u32, Process>,
    origins: u64,
    threads: HashMap<u32, u32>,
    next_thread: u32,
    opens: HashMap<OpenNumber, Open>,
    next_open: OpenNumber,
    next_handle: u32,
    counts: Counts,
}

/// What was counted while following.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Operations handed out.
    pub operations: u64,
    /// Events that were lost before they came here.
    pub lost: u64,
    /// Requests of io_uring and libaio, and calls of `msync` that wait: what they do cannot be seen.
    pub unseen_requests: u64,
    /// Times that a call named a descriptor or directory that nobody knew, so that the call is missing.
    pub unknown: u64,
    /// Faults on files that are not in the recording.
    pub dropped_faults: u64,
}

/// Where events come from and items go.
struct Around<'a> {
    lookup: &'a mut dyn Lookup,
    out: &'a mut Vec<Item>,
}

/// Who calls, when, and with which result.
#[derive(Debug, Clone, Copy)]
struct Moment {
    pid: u32,
    tid: u32,
    begin_ns: u64,
    end_ns: u64,
    result: i64,
    /// So far the call has moved the position.
    moved: u64,
    /// So much it has written.
    wrote: u64,
}

impl Moment {
    /// Of an event that is no call.
    fn at(pid: u32, tid: u32, at_ns: u64) -> Self {
        Moment { pid, tid, begin_ns: at_ns, end_ns: at_ns, result: 0, moved: 0, wrote: 0 }
    }

    fn of(raw: &RawCall) -> Self {
        let RawCall { pid, tid, begin_ns, end_ns, result, .. } = *raw;
        Moment { pid, tid, begin_ns, end_ns, result, moved: 0, wrote: 0 }
    }

    fn succeeded(&self) -> bool {
        self.result >= 0
    }

    fn failed_with(&self, errno: i32) -> bool {
        self.result == -i64::from(errno)
    }

    /// Bytes that a transfer moved.
    fn bytes(&self) -> u64 {
        u64::try_from(self.result).unwrap_or(0)
    }

    /// The descriptor that a call made.
    fn descriptor(&self) -> Option<i32> {
        i32::try_from(self.result).ok().filter(|fd| *fd >= 0)
    }
}

/// What a call tells of a path on which it is the first.
#[derive(Debug, Clone)]
enum Before<'a> {
    /// Nothing was there.
    Absent,
    /// Nothing was there, or a link to nothing.
    AbsentOrLink,
    /// It was there if its birth is before the call.
    Born,
    /// It was there and is no more.
    Was(FileKind),
    /// It is at this path now.
    MovedTo(&'a [u8]),
    /// It is there; this if nobody can see it any more.
    Is(FileKind),
    /// It was this.
    Seen(&'a Seen),
    /// Nothing.
    Unsure,
}

impl Follower {
    /// A follower before the first event.
    pub fn new(options: Options) -> Self {
        Follower {
            begin_ns: options.begin_ns,
            unix_ahead_ns: options.unix_ahead_ns,
            scope: Scope::new(&options.under, options.anonymous),
            names: Names::default(),
            processes: HashMap::new(),
            origins: 0,
            threads: HashMap::new(),
            next_thread: 0,
            opens: HashMap::new(),
            next_open: 0,
            next_handle: 0,
            counts: Counts::default(),
        }
    }

    /// Takes the next event and adds the items that follow from it: none, or several.
    pub fn event(&mut self, event: RawEvent, lookup: &mut dyn Lookup, out: &mut Vec<Item>) {
        let mut around = Around { lookup, out };
        let around = &mut around;
        match event {
            RawEvent::Call(raw) => self.call(&raw, around),
            RawEvent::Fork { parent_pid, tid, pid, at_ns } => {
                self.fork(parent_pid, &Moment::at(pid, tid, at_ns), around);
            }
            RawEvent::Exec { pid, name, at_ns } => self.exec(&Moment::at(pid, pid, at_ns), name, around),
            RawEvent::Exit { pid, tid, at_ns } => self.exit(&Moment::at(pid, tid, at_ns), around),
            RawEvent::Fault { pid, tid, at_ns, device, inode, offset } => {
                self.fault(&Moment::at(pid, tid, at_ns), (device, inode), offset, around);
            }
            RawEvent::Lost(count) => {
                self.counts.lost = self.counts.lost.saturating_add(count);
                around.out.push(Item::Lost(count));
            }
        }
    }

    /// What was counted so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The recording's last item, when it ends then, in nanoseconds of CLOCK_MONOTONIC.
    pub fn summary(&self, end_ns: u64) -> Summary {
        let Counts { operations, lost, unseen_requests, .. } = self.counts;
        Summary { length_ns: end_ns.saturating_sub(self.begin_ns), operations, lost, unseen_requests }
    }

    /// Hands out an operation: what it says of thread and time is filled in.
    fn emit(&mut self, moment: &Moment, operation: Operation, around: &mut Around) {
        let thread = self.thread(moment, around);
        self.counts.operations += 1;
        around.out.push(Item::Operation(Operation {
            thread,
            begin_ns: moment.begin_ns.saturating_sub(self.begin_ns),
            took_ns: moment.end_ns.saturating_sub(moment.begin_ns),
            ..operation
        }));
    }

    /// The caller's number; its item stands before its first operation.
    fn thread(&mut self, moment: &Moment, around: &mut Around) -> u32 {
        if let Some(number) = self.threads.get(&moment.tid) {
            return *number;
        }
        let Moment { pid, tid, .. } = *moment;
        let of_process = self.processes.get(&pid).and_then(|process| process.name.clone());
        let name = match of_process {
            Some(name) if tid == pid => name,
            of_process => around.lookup.name(pid, tid).or(of_process).unwrap_or_default(),
        };
        let number = self.next_thread;
        self.next_thread = number.saturating_add(1);
        self.threads.insert(tid, number);
        around.out.push(Item::Thread { tid, pid, name });
        number
    }

    /// A path's number; its item stands before its first use.
    fn number(&mut self, path: &[u8], around: &mut Around) -> u32 {
        let (number, new) = self.names.number(path);
        if new {
            around.out.push(Item::Path(self.scope.name(path)));
        }
        number
    }

    /// The number of a path on which there is a call, after the item that says what was there; `None` when it is not recorded.
    fn see(&mut self, moment: &Moment, path: &[u8], before: &Before<'_>, around: &mut Around) -> Option<u32> {
        if !self.scope.records(path) {
            return None;
        }
        if let Some(number) = self.names.found(path) {
            return Some(number);
        }
        let mut found = State::Absent;
        // A state without the item came with the rename of a directory above: before that there was nothing.
        if self.names.state(path) == State::Unknown {
            let state = self.first_state(moment, path, before, around)?;
            self.names.set(path, state.clone());
            match self.names.origin(path).filter(|_| state != State::Absent) {
                Some(origin) => self.push_origin(&origin, &state, around),
                None => found = state,
            }
        }
        Some(self.push_found(path, &found, around))
    }

    /// Says that it was under another path what a renamed directory brought.
    fn push_origin(&mut self, origin: &[u8], state: &State, around: &mut Around) {
        if self.scope.records(origin) && self.names.found(origin).is_none() {
            self.names.set(origin, State::Absent);
            self.push_found(origin, state, around);
        }
    }

    /// The item that says what was at a path; after a link's follows the path to which it points, an empty one where that is
    /// unknown. The path's number.
    fn push_found(&mut self, path: &[u8], state: &State, around: &mut Around) -> u32 {
        let number = self.number(path, around);
        self.names.set_found(path);
        let kind = match state {
            State::Unknown | State::Absent => FileKind::Absent,
            State::File(file) => FileKind::File(self.names.size(Some(*file))),
            State::Directory { .. } => FileKind::Directory,
            State::Link(_) => FileKind::Link,
        };
        around.out.push(Item::Found { path: number, kind });
        if let State::Link(target) = state {
            let name = target.as_ref().map(|target| self.scope.name(target)).unwrap_or_default();
            if !target.as_ref().is_some_and(|target| self.names.number(target).1) {
                self.names.number_again();
            }
            around.out.push(Item::Path(name));
        }
        number
    }

    /// What was at a path before the first call on it; `None` for what is not recorded.
    fn first_state(
        &mut self,
        moment: &Moment,
        path: &[u8],
        before: &Before<'_>,
        around: &mut Around,
    ) -> Option<State> {
        let asks = matches!(before, Before::AbsentOrLink | Before::Born | Before::Unsure);
        let surely_absent = asks && self.names.surely_absent(path);
        let (seen, otherwise) = match before {
            _ if surely_absent => return Some(State::Absent),
            Before::Absent => return Some(State::Absent),
            Before::Was(kind) => return Some(self.state_of_kind(*kind)),
            Before::Seen(seen) => return self.state_of(path, seen),
            Before::AbsentOrLink => match around.lookup.found(path) {
                link @ Seen::Link(_) => (link, FileKind::Absent),
                _ => return Some(State::Absent),
            },
            Before::Born => match around.lookup.found(path) {
                Seen::File { born_unix_ns: Some(born), .. } if self.is_born_after(born, moment) => {
                    return Some(State::Absent);
                }
                seen => (seen, FileKind::Absent),
            },
            Before::MovedTo(now) => (around.lookup.found(now), FileKind::File(0)),
            Before::Is(kind) => (around.lookup.found(path), *kind),
            Before::Unsure => (around.lookup.found(path), FileKind::Absent),
        };
        if seen != Seen::Absent {
            return self.state_of(path, &seen);
        }
        let state = self.state_of_kind(otherwise);
        if let State::File(file) = state {
            self.names.set_guessed(file);
        }
        Some(state)
    }

    fn is_born_after(&self, born_unix_ns: u64, moment: &Moment) -> bool {
        let begin = i128::from(moment.begin_ns) + i128::from(self.unix_ahead_ns);
        i128::from(born_unix_ns) >= begin - COARSE_CLOCK_NS
    }

    fn state_of_kind(&mut self, kind: FileKind) -> State {
        match kind {
            FileKind::Absent => State::Absent,
            FileKind::File(size) => State::File(self.names.file(size, None)),
            FileKind::Directory => State::Directory { made: false, was: None },
            FileKind::Link => State::Link(None),
        }
    }

    fn state_of(&mut self, path: &[u8], seen: &Seen) -> Option<State> {
        match seen {
            Seen::Absent => Some(State::Absent),
            Seen::File { size, device, inode, .. } => {
                Some(State::File(self.names.file(*size, Some((*device, *inode)))))
            }
            Seen::Directory => Some(State::Directory { made: false, was: None }),
            Seen::Link(text) => {
                let target = scope::absolute(scope::parent(path).unwrap_or(b"/"), text);
                Some(State::Link(target.map(Into::into)))
            }
            Seen::Other => None,
        }
    }
}

#[cfg(test)]
mod tests;
