//! One pass over a recording: each thread's operations with what they wait for, and the files that have to be there before.
//!
//! Memory grows with the threads, distinct paths and files that are open at once, not with the length of the recording: a piece
//! of 2 KiB for each thread, some 300 bytes for each path. The file of pieces has some 20 bytes for each operation.

use std::collections::{HashMap, VecDeque};
use std::fs::File;

use recording::format::FileKind;
use recording::{Call, Item, Operation, Summary};

use super::paths::{Paths, ROOT};
use super::segments::{Chain, Pieces, Step, ThreadWriter};
use super::source::Source;
use super::touches::{Edges, Mark, Touches};
use crate::AppError;
use crate::error::at;

/// The most that one call moves: the kernel's `MAX_RW_COUNT`.
pub(super) const TRANSFER_BYTES_MAX: u64 = 0x7fff_f000;
/// A begin later than this, in nanoseconds, is damage: a year.
const BEGIN_NS_MAX: u64 = 365 * 24 * 3600 * 1_000_000_000;
/// So many places for descriptors are taken before one is used again, so that nobody waits for whoever had it before.
const SLOTS_FRESH: usize = 1 << 16;
/// Closed files whose paths are still known: what was mapped is read after its descriptor is closed.
const CLOSED_MAX: usize = 1 << 16;

/// A recorded thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RecordedThread {
    /// The number of its first operation.
    pub first_number: u64,
    /// Its begin, in nanoseconds since the recording's.
    pub first_begin_ns: u64,
    /// Where its operations are.
    pub chain: Chain,
}

/// What has to be there before the replay, by the order of paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Made {
    /// A directory.
    Directory,
    /// A file of so many bytes, whose data is read or overwritten, or else need not be there.
    File {
        /// Its length.
        bytes: u64,
        /// Whether somebody meets what it holds.
        is_filled: bool,
    },
    /// A symbolic link to a path.
    Link(u32),
}

/// A file that was open before the recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct InheritedFile {
    /// Its place among the descriptors.
    pub slot: u32,
    /// Its path.
    pub path: u32,
    /// Those of open(2).
    pub flags: u32,
}

/// A recording that is ready to be replayed.
#[derive(Debug)]
pub(super) struct Split {
    /// All names.
    pub paths: Paths,
    /// What to make, parents before what is in them.
    pub made: Vec<(u32, Made)>,
    /// What to open.
    pub inherited: Vec<InheritedFile>,
    /// Threads that do something.
    pub threads: Vec<RecordedThread>,
    /// The file with their operations.
    pub pieces: File,
    /// Places for descriptors.
    pub slots: usize,
    /// The longest write in bytes.
    pub write_bytes_max: u64,
    /// When the first operation began, in nanoseconds since the recording's begin.
    pub begin_ns: u64,
    /// What the recorder said at the end.
    pub summary: Summary,
    /// Names were replaced by hashes.
    pub is_anonymous: bool,
}

/// What is known of a path.
#[derive(Debug, Default)]
struct PathState {
    touches: Touches,
    found: Option<FileKind>,
    /// What a link leads to.
    target: Option<u32>,
    /// The file that has this name now.
    file: Option<u32>,
    /// What was found is read or overwritten.
    is_filled: bool,
    /// The recording speaks of it, not only of something below.
    is_named: bool,
}

/// What a file holds, by whatever name.
#[derive(Debug, Default)]
struct FileState {
    touches: Touches,
    /// Names and handles.
    uses: u32,
    /// The path at which it was found, and how long it was.
    found: Option<(u32, u64)>,
}

#[derive(Debug, Default)]
struct Files {
    all: Vec<FileState>,
    free: Vec<u32>,
}

impl Files {
    /// A file that nobody has named yet.
    fn make(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.all.push(FileState::default());
            (self.all.len() - 1) as u32
        })
    }

    fn hold(&mut self, file: u32) {
        self.all[file as usize].uses += 1;
    }

    /// A name or handle is gone; a file without any is.
    fn release(&mut self, file: u32) {
        let state = &mut self.all[file as usize];
        state.uses = state.uses.saturating_sub(1);
        if state.uses == 0 {
            *state = FileState::default();
            self.free.push(file);
        }
    }
}

/// An open file.
#[derive(Debug)]
struct HandleState {
    slot: u32,
    path: u32,
    file: u32,
    touches: Touches,
}

#[derive(Debug, Default)]
struct ThreadState {
    writer: ThreadWriter,
    first: Option<(u64, u64)>,
    /// For each other thread, the number up to which this one has waited for it.
    known: HashMap<u32, u64>,
    known_of_all: u64,
}

/// The number of a text that is no path of a file.
const NO_PATH: u32 = u32::MAX;

/// The pass.
struct Splitter {
    paths: Paths,
    /// By the recording's numbers.
    numbers: Vec<u32>,
    /// Texts among them that are no path of a file: what links made by the program lead to.
    texts: HashMap<u32, Vec<u8>>,
    /// By our own.
    states: Vec<PathState>,
    files: Files,
    handles: HashMap<u32, HandleState>,
    handle_count: u32,
    closed: HashMap<u32, u32>,
    closed_order: VecDeque<u32>,
    slots: u32,
    /// Places that are free again: by whose closing, and its number.
    free_slots: VecDeque<(u32, u32, u64)>,
    inherited: Vec<InheritedFile>,
    threads: Vec<ThreadState>,
    pieces: Pieces,
    count: u64,
    begin_ns: Option<u64>,
    write_bytes_max: u64,
    edges: Edges,
}

/// Reads a recording once. `check` is asked now and then whether to go on.
///
/// # Errors
/// A recording that cannot be read, was cut or is damaged, with the byte; no room for temporary files.
pub(super) fn split(
    source: &mut Source,
    check: &dyn Fn() -> Result<(), AppError>,
) -> Result<Split, AppError> {
    let mut splitter = Splitter::new()?;
    let mut link = None;
    let mut summary = None;
    let mut items = 0u64;
    while let Some((byte, item)) = source.next()? {
        items += 1;
        if items.is_multiple_of(1 << 14) {
            check()?;
        }
        let link_before = link.take();
        let wrong = match item {
            Item::Thread { .. } => {
                splitter.threads.push(ThreadState::default());
                None
            }
            Item::Path(text) => {
                splitter.path(&text, link_before);
                None
            }
            Item::Found { path, kind } => {
                let path = splitter.number(path);
                link = Some(path).filter(|path| kind == FileKind::Link && *path != NO_PATH);
                splitter.found(path, kind);
                None
            }
            Item::Inherited { path, flags } => {
                splitter.inherit(path, flags);
                None
            }
            Item::Operation(operation) => splitter.operation(&operation)?,
            Item::Lost(_) => None,
            Item::End(end) => {
                summary = Some(end);
                None
            }
        };
        if let Some(what) = wrong {
            return Err(source.damaged(byte, what));
        }
    }
    // the reader's last item is its summary, or an error
    splitter.finish(summary.unwrap_or_default(), source.header().anonymous)
}

fn temporary(error: std::io::Error) -> AppError {
    at(&std::env::temp_dir())(error)
}

impl Splitter {
    fn new() -> Result<Splitter, AppError> {
        Ok(Splitter {
            paths: Paths::new(),
            numbers: Vec::new(),
            texts: HashMap::new(),
            states: vec![PathState::default()],
            files: Files::default(),
            handles: HashMap::new(),
            handle_count: 0,
            closed: HashMap::new(),
            closed_order: VecDeque::new(),
            slots: 0,
            free_slots: VecDeque::new(),
            inherited: Vec::new(),
            threads: Vec::new(),
            pieces: Pieces::new().map_err(temporary)?,
            count: 0,
            begin_ns: None,
            write_bytes_max: 0,
            edges: Edges::default(),
        })
    }

    fn number(&self, path: u32) -> u32 {
        self.numbers.get(path as usize).copied().unwrap_or(ROOT)
    }

    /// A path, or what the link leads to that was told of just before. What is no path is an error only where it is used: it may be
    /// the text of a link.
    fn path(&mut self, text: &[u8], link: Option<u32>) {
        let number = match link {
            Some(link) => self.paths.target_of(link, text),
            None => self.paths.add(text).unwrap_or(NO_PATH),
        };
        if number == NO_PATH {
            self.texts.insert(self.numbers.len() as u32, text.to_vec());
        }
        self.states.resize_with(self.paths.len(), PathState::default);
        if let Some(link) = link {
            self.states[link as usize].target = Some(number);
        }
        self.numbers.push(number);
    }

    /// What a link leads to that the program makes.
    fn linked(&mut self, link: u32, text: u32) -> u32 {
        let Some(text) = self.texts.get(&text) else { return self.number(text) };
        let target = self.paths.target_of(link, text);
        self.states.resize_with(self.paths.len(), PathState::default);
        target
    }

    fn found(&mut self, path: u32, kind: FileKind) {
        let Some(state) = self.states.get_mut(path as usize) else { return };
        state.is_named = true;
        match (state.found, kind) {
            (None, _) => {}
            // a read has shown that it was larger
            (Some(FileKind::File(before)), FileKind::File(bytes)) if bytes > before => {
                let file = state.file.and_then(|file| self.files.all.get_mut(file as usize));
                if let Some(found) = file.and_then(|file| file.found.as_mut()).filter(|found| found.0 == path)
                {
                    found.1 = bytes;
                }
                return;
            }
            (Some(_), _) => return,
        }
        state.found = Some(kind);
        if let FileKind::File(bytes) = kind {
            let file = self.file_of(path);
            self.files.all[file as usize].found = Some((path, bytes));
        }
    }

    /// The file that has this name; one that is not known yet when there is none.
    fn file_of(&mut self, path: u32) -> u32 {
        if let Some(file) = self.states[path as usize].file {
            return file;
        }
        let file = self.files.make();
        self.name_file(path, Some(file));
        file
    }

    /// A path names another file now.
    fn name_file(&mut self, path: u32, file: Option<u32>) {
        if let Some(file) = file {
            self.files.hold(file);
        }
        let before = std::mem::replace(&mut self.states[path as usize].file, file);
        if let Some(before) = before {
            self.files.release(before);
        }
    }

    fn inherit(&mut self, path: u32, flags: u32) {
        let path = Some(self.number(path)).filter(|path| *path != NO_PATH).unwrap_or(ROOT);
        self.states[path as usize].is_named = true;
        let slot = self.fresh_slot();
        self.inherited.push(InheritedFile { slot, path, flags });
        let file = self.file_of(path);
        self.open_handle(slot, path, file);
    }

    fn fresh_slot(&mut self) -> u32 {
        self.slots += 1;
        self.slots - 1
    }

    /// A place for a descriptor: a fresh one, or the one that has been free for the longest.
    fn slot(&mut self) -> u32 {
        if (self.slots as usize) < SLOTS_FRESH {
            return self.fresh_slot();
        }
        let Some((slot, thread, number)) = self.free_slots.pop_front() else { return self.fresh_slot() };
        self.edges.add(thread, number);
        slot
    }

    fn open_handle(&mut self, slot: u32, path: u32, file: u32) {
        self.files.hold(file);
        let state = HandleState { slot, path, file, touches: Touches::default() };
        self.handles.insert(self.handle_count, state);
        self.handle_count += 1;
    }

    fn close_handle(&mut self, handle: u32, by: Mark) {
        let Some(state) = self.handles.remove(&handle) else { return };
        self.files.release(state.file);
        self.free_slots.push_back((state.slot, by.thread, by.number));
        self.closed.insert(handle, state.path);
        self.closed_order.push_back(handle);
        if self.closed_order.len() > CLOSED_MAX
            && let Some(oldest) = self.closed_order.pop_front()
        {
            self.closed.remove(&oldest);
        }
    }

    /// Adds an operation to its thread; says what is wrong with it.
    fn operation(&mut self, operation: &Operation) -> Result<Option<String>, AppError> {
        if operation.begin_ns > BEGIN_NS_MAX {
            return Ok(Some(format!("an operation begins after {} ns", operation.begin_ns)));
        }
        let paths = [operation.path, operation.to].map(|path| path.map(|path| self.number(path)));
        if paths.contains(&Some(NO_PATH)) && operation.call != Call::Symlink {
            return Ok(Some("an operation on a path that is not absolute, or has `.` or `..` in it".into()));
        }
        let moves = matches!(operation.call, Call::Read | Call::Write | Call::Fault);
        if moves && operation.result > TRANSFER_BYTES_MAX as i64 {
            return Ok(Some(format!("a transfer of {} bytes", operation.result)));
        }
        self.count += 1;
        self.begin_ns = Some(self.begin_ns.map_or(operation.begin_ns, |first| first.min(operation.begin_ns)));
        let mark = Mark::new(operation.thread, self.count, operation.begin_ns, operation.end_ns());
        self.edges.clear();
        let [path, mut to] = paths.map(|path| path.filter(|path| *path != NO_PATH));
        if let (Call::Symlink, Some(link), Some(text)) = (operation.call, path, operation.to) {
            to = Some(self.linked(link, text));
        }
        let mut step = Step {
            number: self.count,
            call: operation.call,
            begin_ns: operation.begin_ns,
            result: operation.result,
            path,
            to,
            slot: None,
            offset: operation.offset,
            bytes: if moves { operation.bytes.min(TRANSFER_BYTES_MAX) } else { operation.bytes },
            flags: operation.flags,
        };
        // where a link leads to need not be there
        let to_named = to.filter(|_| operation.call != Call::Symlink);
        for path in [path, to_named].into_iter().flatten() {
            self.states[path as usize].is_named = true;
        }
        match (operation.call, operation.handle) {
            (Call::Open, _) => self.open(&mut step, mark),
            (_, Some(handle)) => self.by_handle(&mut step, handle, mark),
            (_, None) => self.by_name(&step, mark),
        }
        if step.call == Call::Write {
            self.write_bytes_max = self.write_bytes_max.max(step.bytes);
        }
        self.push(operation.thread, &step)?;
        Ok(None)
    }

    /// Gives it to its thread, with what that one has not waited for already.
    fn push(&mut self, thread: u32, step: &Step) -> Result<(), AppError> {
        let Some(state) = self.threads.get_mut(thread as usize) else { return Ok(()) };
        state.first.get_or_insert((step.number, step.begin_ns));
        let edges = &mut self.edges;
        if edges.of_all <= state.known_of_all {
            edges.of_all = 0;
        }
        state.known_of_all = state.known_of_all.max(edges.of_all);
        let of_all = state.known_of_all;
        edges.of_threads.retain(|(other, number)| {
            let known = state.known.entry(*other).or_default();
            let is_new = *other != thread && *number > (*known).max(of_all);
            *known = (*known).max(*number);
            is_new
        });
        state.writer.push(step, edges, &mut self.pieces).map_err(temporary)
    }

    /// Passes by the directories above, and uses or changes the name.
    fn touch_name(&mut self, path: u32, mark: Mark, changes: bool) {
        for directory in self.paths.above(path) {
            self.states[directory as usize].touches.passed(mark, &mut self.edges);
        }
        let touches = &mut self.states[path as usize].touches;
        match changes {
            true => touches.changed(mark, &mut self.edges),
            false => touches.used(mark, &mut self.edges),
        }
    }

    fn touch_file(&mut self, file: u32, mark: Mark, changes: bool) {
        let touches = &mut self.files.all[file as usize].touches;
        match changes {
            true => touches.changed(mark, &mut self.edges),
            false => touches.used(mark, &mut self.edges),
        }
    }

    fn open(&mut self, step: &mut Step, mark: Mark) {
        let path = step.path.unwrap_or(ROOT);
        let has = |flags: i32| step.flags as i32 & flags == flags;
        let succeeded = step.result >= 0;
        let is_unnamed = has(libc::O_TMPFILE);
        self.touch_name(path, mark, succeeded && has(libc::O_CREAT) && !is_unnamed);
        if !succeeded {
            return;
        }
        let file = if is_unnamed { self.files.make() } else { self.file_of(path) };
        if has(libc::O_TRUNC) {
            self.touch_file(file, mark, true);
        }
        let slot = self.slot();
        self.open_handle(slot, path, file);
        step.slot = Some(slot);
        if let Some(state) = self.handles.get_mut(&(self.handle_count - 1)) {
            state.touches.changed(mark, &mut self.edges);
        }
    }

    fn by_handle(&mut self, step: &mut Step, handle: u32, mark: Mark) {
        let Some(state) = self.handles.get_mut(&handle) else {
            // what is mapped is read after it was closed
            step.path = self.closed.get(&handle).copied();
            if let Some(path) = step.path {
                self.touch_name(path, mark, false);
                let file = self.states[path as usize].file;
                file.into_iter().for_each(|file| self.meets_data(step, file));
            }
            return;
        };
        step.slot = Some(state.slot);
        step.path = None;
        let file = state.file;
        if step.call == Call::Close {
            state.touches.changed(mark, &mut self.edges);
            self.close_handle(handle, mark);
            return;
        }
        state.touches.used(mark, &mut self.edges);
        let changes = matches!(step.call, Call::Write | Call::Truncate | Call::Allocate);
        self.touch_file(file, mark, changes && step.result >= 0);
        self.meets_data(step, file);
    }

    /// Notes that what a file held before is read or overwritten.
    fn meets_data(&mut self, step: &Step, file: u32) {
        if let Some((path, bytes)) = self.files.all[file as usize].found
            && matches!(step.call, Call::Read | Call::Write | Call::Fault)
            && step.result > 0
            && step.offset < bytes
        {
            self.states[path as usize].is_filled = true;
        }
    }

    fn by_name(&mut self, step: &Step, mark: Mark) {
        let succeeded = step.result >= 0;
        let (Some(path), to) = (step.path, step.to) else {
            // an open file gets a name, or one comes from outside
            if let (Call::Link | Call::Rename, Some(to)) = (step.call, step.to) {
                self.touch_name(to, mark, succeeded);
            }
            return;
        };
        match step.call {
            Call::Rename => {
                self.touch_name(path, mark, succeeded);
                let Some(to) = to else { return };
                self.touch_name(to, mark, succeeded);
                if succeeded {
                    self.rename(path, to, step.flags);
                }
            }
            Call::Link => {
                self.touch_name(path, mark, false);
                let Some(to) = to else { return };
                self.touch_name(to, mark, succeeded);
                if succeeded {
                    let file = self.file_of(path);
                    self.name_file(to, Some(file));
                }
            }
            Call::Unlink => {
                self.touch_name(path, mark, succeeded);
                if succeeded {
                    self.name_file(path, None);
                }
            }
            Call::Symlink | Call::MakeDirectory | Call::RemoveDirectory => {
                self.touch_name(path, mark, succeeded);
            }
            Call::Truncate => {
                self.touch_name(path, mark, false);
                let file = self.file_of(path);
                self.touch_file(file, mark, succeeded);
            }
            _ => self.touch_name(path, mark, false),
        }
    }

    fn rename(&mut self, path: u32, to: u32, flags: u32) {
        let (file, other) = (self.states[path as usize].file, self.states[to as usize].file);
        let swaps = flags & libc::RENAME_EXCHANGE != 0;
        // held, so that neither goes while it has no name
        for file in [file, other].into_iter().flatten() {
            self.files.hold(file);
        }
        self.name_file(to, file);
        self.name_file(path, other.filter(|_| swaps));
        for file in [file, other].into_iter().flatten() {
            self.files.release(file);
        }
    }

    fn finish(mut self, summary: Summary, is_anonymous: bool) -> Result<Split, AppError> {
        let made = self.made();
        let mut threads = Vec::new();
        for state in std::mem::take(&mut self.threads) {
            let chain = state.writer.end(&mut self.pieces).map_err(temporary)?;
            // one that does nothing stays, for its number
            let (first_number, first_begin_ns) = state.first.unwrap_or((u64::MAX, u64::MAX));
            threads.push(RecordedThread { first_number, first_begin_ns, chain });
        }
        self.paths.seal();
        Ok(Split {
            paths: self.paths,
            made,
            inherited: self.inherited,
            threads,
            pieces: self.pieces.into_file(),
            slots: self.slots as usize,
            write_bytes_max: self.write_bytes_max,
            begin_ns: self.begin_ns.unwrap_or(0),
            summary,
            is_anonymous,
        })
    }

    /// What has to be there: what was found, what was open, and the directories above every path that the program did not make
    /// itself.
    fn made(&mut self) -> Vec<(u32, Made)> {
        for inherited in &self.inherited {
            let state = &mut self.states[inherited.path as usize];
            let is_directory = inherited.flags as i32 & libc::O_DIRECTORY != 0;
            if matches!(state.found, None | Some(FileKind::Absent)) && inherited.path != ROOT {
                state.found = Some(if is_directory { FileKind::Directory } else { FileKind::File(0) });
            }
        }
        let is_made = self.needed();
        let made = |number: usize, state: &PathState| match state.found {
            Some(FileKind::File(bytes)) => Made::File { bytes, is_filled: state.is_filled },
            Some(FileKind::Link) => Made::Link(state.target.unwrap_or(number as u32)),
            Some(FileKind::Directory | FileKind::Absent) | None => Made::Directory,
        };
        let all = self.states.iter().enumerate().skip(1).filter(|(number, _)| is_made[*number]);
        let mut all: Vec<(u32, Made)> =
            all.map(|(number, state)| (number as u32, made(number, state))).collect();
        // what is behind a link comes after it, and where it leads to before it; parents have smaller numbers
        let links_above = |path: u32| self.paths.above(path).filter(|above| self.is_link(*above)).count();
        all.sort_by_cached_key(|(path, made)| (links_above(*path), matches!(made, Made::Link(_)), *path));
        all
    }

    fn is_link(&self, path: u32) -> bool {
        self.states[path as usize].found == Some(FileKind::Link)
    }

    /// Whether each path has to be there.
    fn needed(&self) -> Vec<bool> {
        let mut is_needed = vec![false; self.states.len()];
        // links that something is below
        let mut passed = Vec::new();
        for (number, state) in self.states.iter().enumerate() {
            let is_there = matches!(state.found, Some(kind) if kind != FileKind::Absent);
            if !state.is_named && !is_there {
                continue;
            }
            is_needed[number] |= is_there;
            let mut above: Vec<u32> = self.paths.above(number as u32).collect();
            if !is_there {
                // what the program makes itself begins with the topmost that was absent
                let absent = |path: &u32| self.states[*path as usize].found == Some(FileKind::Absent);
                let from = above.iter().rposition(absent).map_or(0, |topmost| topmost + 1);
                above.drain(..from);
            }
            self.need(&above, &mut is_needed, &mut passed);
        }
        // each link leads to a directory, which may be below another link
        let mut is_followed = vec![false; self.states.len()];
        while let Some(link) = passed.pop() {
            if std::mem::replace(&mut is_followed[link as usize], true) {
                continue;
            }
            let Some(target) = self.states[link as usize].target else { continue };
            let with_above: Vec<u32> = std::iter::once(target).chain(self.paths.above(target)).collect();
            self.need(&with_above, &mut is_needed, &mut passed);
        }
        is_needed
    }

    fn need(&self, paths: &[u32], is_needed: &mut [bool], passed: &mut Vec<u32>) {
        for path in paths {
            is_needed[*path as usize] = true;
            // once is enough, and its targets are followed once anyhow
            if self.is_link(*path) && passed.last() != Some(path) {
                passed.push(*path);
            }
        }
    }
}
