//! fio's iologs (`write_iolog`), version 2 and 3: text to a trace.
//!
//! The first line names the version. Each other line is an action: `FILE add|open|close`, `FILE ACTION OFFSET BYTES`; in version 3
//! behind the microseconds since the begin, in version 2 `wait` takes so many microseconds from the last `wait` on.

use std::collections::HashMap;

use workload::Trace;
use workload::stream::OPERATIONS;
use workload::trace::{Action, Record, TRACE_BYTES_MAX, TraceBuilder};

use crate::error::JobError;

/// What the first line of an iolog begins with; the version and [`LAST_WORD`] follow.
const FIRST_WORDS: &str = "fio version ";
const LAST_WORD: &str = "iolog";
/// Waits below so many microseconds are left out, as fio's HOWTO says of its own.
const WAIT_US_MIN: u64 = 100;
/// The largest read or write.
const TRANSFER_BYTES_MAX: u64 = 1 << 30;
/// Most files of an iolog: each has a tree of its own below the stack's directory.
const FILES_MAX: usize = 16_384;
/// Longest name of a file, and of a part of it, in bytes: with what lies above it, the kernel takes 4,096, and 255.
const NAME_BYTES_MAX: usize = 3072;
const PART_BYTES_MAX: usize = 255;
/// Mistakes that are told; of a file that is no iolog behind its first line every line is one.
const MISTAKES_MAX: usize = 20;
/// Letters of a word that a message shows.
const SHOWN_LETTERS: usize = 40;

/// How records are changed when they are read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Shape {
    /// All go to this file (`replay_redirect`).
    pub redirect: Option<String>,
    /// Offsets are divided by it; 0: they stay (`replay_scale`).
    pub scale: u64,
    /// Offsets are rounded down to multiples of it, a power of two; 0: they stay (`replay_align`).
    pub align: u64,
    /// Operations that are left out, by their places in [`OPERATIONS`] (`replay_skip`).
    pub skip: [bool; OPERATIONS.len()],
}

/// A file of an iolog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedFile {
    /// Its name below the stack's directory: without a leading `/`, without `.`.
    pub name: String,
    /// Where its last transfer ends, in bytes.
    pub size: u64,
    /// Something reads it.
    pub is_read: bool,
}

/// An iolog that was understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Iolog {
    /// Its files; records name them by their places.
    pub files: Vec<LoggedFile>,
    /// Its records.
    pub trace: Trace,
    /// What to know of it, a sentence each.
    pub notes: Vec<String>,
}

/// Whether a text is an iolog, of whatever version: by its first line.
pub fn is_iolog(text: &str) -> bool {
    version(text).is_some()
}

fn version(text: &str) -> Option<&str> {
    text.lines().next()?.strip_prefix(FIRST_WORDS)?.trim_end().strip_suffix(LAST_WORD).map(str::trim)
}

/// Reads an iolog.
///
/// # Errors
/// All mistakes with their lines, the first 20 of many.
pub fn parse(text: &str, shape: &Shape) -> Result<Iolog, Vec<JobError>> {
    let is_timed = match version(text) {
        Some("3") => true,
        Some("2") => false,
        Some(other) => {
            let message = format!("version {} of iologs is not known; 2 and 3 are", shown(other));
            return Err(vec![JobError::new(1, message)]);
        }
        None => return Err(vec![JobError::new(1, "no iolog: its first line is not `fio version 3 iolog`")]),
    };
    let mut reader = Reader::new(shape, is_timed);
    let mut mistakes = Vec::new();
    let mut left_out = 0_u64;
    for (at, line) in text.lines().enumerate().skip(1) {
        let Err(message) = reader.line(line) else { continue };
        match mistakes.len() {
            0..MISTAKES_MAX => mistakes.push(JobError::new(at + 1, message)),
            _ => left_out += 1,
        }
        if reader.builder.is_full() {
            break;
        }
    }
    let is_cut = !text.ends_with('\n');
    if let Some(last) = mistakes.last_mut()
        && is_cut
        && left_out == 0
        && last.line == text.lines().count()
    {
        last.message += "; the log ends within this line: if it was cut off, delete the line";
    }
    if left_out > 0 {
        mistakes.push(JobError::new(text.lines().count(), format!("{left_out} more mistakes until here")));
    }
    let mut log = reader.finish(&mut mistakes);
    if !mistakes.is_empty() {
        return Err(mistakes);
    }
    if is_cut {
        log.notes
            .push("the last line has no end: if the log was cut off, its last number may be, too".into());
    }
    Ok(log)
}

/// Where a file of the log is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Added,
    Open,
}

struct Reader<'a> {
    shape: &'a Shape,
    /// Lines begin with a time.
    is_timed: bool,
    builder: TraceBuilder,
    files: Vec<LoggedFile>,
    states: Vec<State>,
    /// Places of files by the names of the log.
    places: HashMap<String, usize>,
    /// Places of files by their names below the stack's directory.
    below: HashMap<String, usize>,
    /// The first time of the log, in microseconds.
    first_us: Option<u64>,
    /// Microseconds since the begin, of the last line or of all waits.
    now_us: u64,
    /// A wait is over: what comes next is due then.
    waited: bool,
    went_back: u64,
}

type Told<T> = Result<T, String>;

impl<'a> Reader<'a> {
    fn new(shape: &'a Shape, is_timed: bool) -> Reader<'a> {
        Reader {
            shape,
            is_timed,
            builder: TraceBuilder::default(),
            files: Vec::new(),
            states: Vec::new(),
            places: HashMap::new(),
            below: HashMap::new(),
            first_us: None,
            now_us: 0,
            waited: false,
            went_back: 0,
        }
    }

    fn line(&mut self, line: &str) -> Told<()> {
        let mut words = line.split_ascii_whitespace();
        let Some(first) = words.next() else { return Ok(()) };
        if line.starts_with(FIRST_WORDS) && version(line).is_some() {
            return Err("a second log begins here, since fio appends: give each log a file of its own".into());
        }
        let (time, name) = match self.is_timed {
            true => (Some(first), words.next()),
            false => (None, Some(first)),
        };
        let (Some(name), Some(action)) = (name, words.next()) else {
            return Err(format!("`{}` is no action: write {}", shown(line), self.form("open")));
        };
        let numbers = [words.next(), words.next()];
        if let Some(more) = words.next() {
            return Err(format!(
                "`{}` is one word too many: names have no blanks, and a line is {}",
                shown(more),
                self.form("read OFFSET BYTES")
            ));
        }
        let action = match (action, numbers) {
            ("add" | "open" | "close", [Some(_), _]) => {
                return Err(format!("`{action}` has no numbers: write {}", self.form(action)));
            }
            ("add", _) => None,
            ("open", _) => Some(Action::Open),
            ("close", _) => Some(Action::Close),
            ("wait", _) if self.is_timed => {
                return Err("version 3 has no `wait`: the times of its lines say when".into());
            }
            ("wait", [Some(wait), _]) => return self.wait(wait),
            ("wait", _) => {
                return Err("a number of microseconds is missing: write `FILE wait MICROSECONDS 0`".into());
            }
            ("read", _) => Some(Action::Read),
            ("write", _) => Some(Action::Write),
            ("sync", _) => Some(Action::Fsync),
            ("datasync", _) => Some(Action::Fdatasync),
            ("trim", _) => Some(Action::Trim),
            (other, _) => {
                return Err(format!(
                    "`{}` is none of add, open, close, read, write, sync, datasync, trim{}",
                    shown(other),
                    if self.is_timed { "" } else { ", wait" }
                ));
            }
        };
        if let Some(time) = time {
            self.time(time)?;
        }
        let Some(action) = action else { return self.add(name).map(drop) };
        if action.operation().is_none() {
            return self.open_or_close(name, action);
        }
        let [Some(offset), Some(bytes)] = numbers else {
            return Err(format!(
                "an offset and a number of bytes are missing: write {}",
                self.form("ACTION OFFSET BYTES")
            ));
        };
        self.operation(name, action, number("an offset", offset)?, number("a number of bytes", bytes)?)
    }

    /// What a line looks like.
    fn form(&self, action: &str) -> String {
        format!("`{}FILE {action}`", if self.is_timed { "MICROSECONDS " } else { "" })
    }

    fn time(&mut self, word: &str) -> Told<()> {
        let time = number("a time in microseconds", word)?;
        let since = time.saturating_sub(*self.first_us.get_or_insert(time));
        if since.checked_mul(1000).is_none() {
            return Err(format!("{time} microseconds are too long"));
        }
        self.went_back += u64::from(since < self.now_us);
        self.now_us = since.max(self.now_us);
        Ok(())
    }

    fn wait(&mut self, word: &str) -> Told<()> {
        let wait = number("a wait in microseconds", word)?;
        if wait < WAIT_US_MIN {
            return Ok(());
        }
        let sum = self.now_us.checked_add(wait).filter(|sum| sum.checked_mul(1000).is_some());
        self.now_us = sum.ok_or_else(|| format!("{wait} microseconds are too long"))?;
        self.waited = true;
        Ok(())
    }

    /// When the record of the line that is read is due.
    fn due_ns(&mut self) -> Option<u64> {
        let due = self.is_timed || std::mem::take(&mut self.waited);
        due.then_some(self.now_us * 1000)
    }

    fn add(&mut self, name: &str) -> Told<usize> {
        let name = self.shape.redirect.as_deref().unwrap_or(name);
        if let Some(place) = self.places.get(name) {
            return Ok(*place);
        }
        let below = below(name)?;
        let place = match self.below.get(&below) {
            Some(place) => *place,
            None if self.files.len() >= FILES_MAX => {
                return Err(format!("more than {FILES_MAX} files: cut the log into several"));
            }
            None => {
                self.below.insert(below.clone(), self.files.len());
                self.files.push(LoggedFile { name: below, size: 0, is_read: false });
                self.states.push(State::Added);
                self.files.len() - 1
            }
        };
        self.places.insert(name.to_string(), place);
        Ok(place)
    }

    fn place(&self, name: &str) -> Told<usize> {
        let known = self.shape.redirect.as_deref().unwrap_or(name);
        self.places
            .get(known)
            .copied()
            .ok_or_else(|| format!("`{0}` was not added: write {1} before", shown(name), self.form("add")))
    }

    fn open_or_close(&mut self, name: &str, action: Action) -> Told<()> {
        let place = self.place(name)?;
        let wanted = if action == Action::Open { State::Added } else { State::Open };
        if self.states[place] != wanted {
            // files that became one are opened once; it stays open until the end
            if self.shape.redirect.is_some() {
                return Ok(());
            }
            let is = if action == Action::Open { "open already" } else { "not open" };
            return Err(format!("`{}` is {is}", shown(name)));
        }
        if self.shape.redirect.is_some() && action == Action::Close {
            return Ok(());
        }
        self.states[place] = if action == Action::Open { State::Open } else { State::Added };
        let due_ns = self.due_ns();
        self.builder.push(Record { action, due_ns, file: place as u32, offset: 0, bytes: 0 });
        self.is_small_enough()
    }

    fn operation(&mut self, name: &str, action: Action, offset: u64, bytes: u64) -> Told<()> {
        let place = self.place(name)?;
        if self.states[place] != State::Open {
            return Err(format!("`{}` is not open: write {} before", shown(name), self.form("open")));
        }
        let syncs = matches!(action, Action::Fsync | Action::Fdatasync);
        let most = if action == Action::Trim { u64::from(u32::MAX) } else { TRANSFER_BYTES_MAX };
        if !syncs && !(1..=most).contains(&bytes) {
            return Err(format!("{bytes} bytes: from 1 to {most} are possible"));
        }
        if action.operation().is_some_and(|operation| self.shape.skip[operation]) {
            return Ok(());
        }
        let mut offset = offset.checked_div(self.shape.scale).unwrap_or(offset);
        if self.shape.align > 0 {
            offset &= !(self.shape.align - 1);
        }
        let (offset, bytes) = if syncs { (0, 0) } else { (offset, bytes) };
        let end = offset.checked_add(bytes).filter(|end| i64::try_from(*end).is_ok());
        let end = end.ok_or_else(|| format!("offset {offset} is behind the end of any file"))?;
        let file = &mut self.files[place];
        file.size = file.size.max(end);
        file.is_read |= action == Action::Read;
        let due_ns = self.due_ns();
        self.builder.push(Record { action, due_ns, file: place as u32, offset, bytes: bytes as u32 });
        self.is_small_enough()
    }

    fn is_small_enough(&self) -> Told<()> {
        match self.builder.is_full() {
            true => Err(format!(
                "too many records: those before this line take {TRACE_BYTES_MAX} bytes; cut the log into several"
            )),
            false => Ok(()),
        }
    }

    fn finish(self, mistakes: &mut Vec<JobError>) -> Iolog {
        let trace = self.builder.finish(self.now_us * 1000);
        if mistakes.is_empty() && trace.operation_count() == 0 {
            mistakes.push(JobError::new(1, "nothing is read, written, synced or trimmed in it"));
        }
        // `a` and `a/b` cannot be files both; in this order they are beside each other
        let mut names: Vec<Vec<&str>> =
            self.files.iter().map(|file| file.name.split('/').collect()).collect();
        names.sort_unstable();
        for pair in names.windows(2) {
            if pair[1].starts_with(&pair[0]) {
                let (outer, inner) = (pair[0].join("/"), pair[1].join("/"));
                let message = format!(
                    "`{}` is a file, and the directory of `{}`: rename one of them in the log",
                    shown(&outer),
                    shown(&inner)
                );
                mistakes.push(JobError::new(1, message));
            }
        }
        let mut notes = Vec::new();
        if self.went_back > 0 {
            notes.push(format!(
                "the times of {} lines are before that of an earlier line: these are due with it",
                self.went_back
            ));
        }
        Iolog { files: self.files, trace, notes }
    }
}

/// A name of the log as one below the stack's directory.
fn below(name: &str) -> Told<String> {
    let parts: Vec<&str> = name.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    let wrong = |why: &str| Err(format!("`{}`: {why}; rename it in the log", shown(name)));
    if parts.is_empty() {
        return wrong("no name of a file");
    }
    if parts.contains(&"..") {
        return wrong("`..` could lead out of the stack's directory");
    }
    if name.contains('\0') {
        return wrong("a zero byte");
    }
    // two such names would look the same
    if name.contains(char::REPLACEMENT_CHARACTER) {
        return wrong("a name that is not UTF-8");
    }
    if name.len() > NAME_BYTES_MAX || parts.iter().any(|part| part.len() > PART_BYTES_MAX) {
        return wrong("too long a name");
    }
    Ok(parts.join("/"))
}

fn number(what: &str, word: &str) -> Told<u64> {
    word.parse().map_err(|_| format!("`{}` is not {what}", shown(word)))
}

/// A word as a message shows it.
fn shown(word: &str) -> String {
    let mut letters = word.chars();
    let begin: String = letters.by_ref().take(SHOWN_LETTERS).flat_map(char::escape_default).collect();
    if letters.next().is_some() { begin + "..." } else { begin }
}

#[cfg(test)]
mod tests;
