//! The journal's file: a header line, then `add`, `made` and `done` lines, each on disk before the call returns.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use camino::Utf8PathBuf;
use serde::{Deserialize, Serialize};

use crate::folder::{Folder, Log};
use crate::identity::{CreatedFile, FileId};
use host::wait::wait_until;

use crate::tree::random_word;
use crate::{JournalError, Resource};
use host::ProcessId;

/// Version of the format. A reader refuses files with a higher one. 2 has `made` lines, and its owner holds a lock.
const VERSION: u32 = 2;
/// The first version that tells which file an image is.
const TELLS_FILES: u32 = 2;
/// Ending of a journal's name.
pub(crate) const EXTENSION: &str = "journal";
/// Ending of the name of a journal that has no header yet; a dot begins it.
const UNFINISHED: &str = ".new";
/// How often a doctor may take away what it takes for a dead run's unfinished journal.
const CREATE_TRIES: u32 = 3;
/// How long somebody else may look at a journal that is to be taken over.
const LOCK_PATIENCE: Duration = Duration::from_millis(100);

/// The first line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Header {
    pub loadline_journal: u32,
    pub run_id: String,
    pub owner: ProcessId,
    pub boot_id: String,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Line {
    #[serde(skip_serializing_if = "Option::is_none")]
    add: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource: Option<Resource>,
    #[serde(skip_serializing_if = "Option::is_none")]
    made: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<FileId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    done: Option<u64>,
}

/// An open journal file, locked as long as it is.
#[derive(Debug)]
pub(crate) struct JournalFile {
    folder: Arc<dyn Folder>,
    name: String,
    log: Box<dyn Log>,
    /// Length up to the end of the last whole line.
    len: u64,
    next: u64,
    /// A line was cut off and could not be taken back: another one behind it would be lost with it.
    broken: bool,
}

/// Something recorded and not yet struck.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub resource: Resource,
    /// Which file it is, for an image.
    pub made: CreatedFile,
}

/// What a journal file says.
#[derive(Debug)]
pub(crate) struct Contents {
    pub header: Header,
    /// Added and not done.
    pub open: BTreeMap<u64, Entry>,
    /// Lines that could not be read, other than one cut off at the end.
    pub unreadable_lines: Vec<usize>,
    /// Length up to the end of the last whole line.
    whole_len: u64,
    next: u64,
}

impl JournalFile {
    /// Makes the file with its header; it appears under its name only when the header is on disk and the lock is held.
    pub(crate) fn create(
        folder: &Arc<dyn Folder>,
        run_id: &str,
        owner: ProcessId,
        boot_id: String,
    ) -> Result<Self, JournalError> {
        let header = Header { loadline_journal: VERSION, run_id: run_id.to_string(), owner, boot_id };
        let mut result = Err(io::ErrorKind::WouldBlock.into());
        let mut path = folder.path().to_owned();
        for _ in 0..CREATE_TRIES {
            let word = format!("{run_id}-{}-{}", header.owner.pid, random_word());
            let (name, unfinished) = (format!("{word}.{EXTENSION}"), format!(".{word}{UNFINISHED}"));
            path = folder.path().join(&name);
            result = Self::make(folder, &header, &name, &unfinished);
            match &result {
                // swept away between making and locking it
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                _ => break,
            }
        }
        result.map_err(|source| JournalError::Io { path, source })
    }

    fn make(folder: &Arc<dyn Folder>, header: &Header, name: &str, unfinished: &str) -> io::Result<Self> {
        let mut log = folder.create(unfinished)?;
        let mut text = serde_json::to_string(header)?;
        text.push('\n');
        let made = lock(&mut *log)
            .and_then(|()| write_all(&mut *log, text.as_bytes()))
            .and_then(|()| log.sync())
            .and_then(|()| folder.rename(unfinished, name));
        // not before the name is on disk: what is made next must not outlive it
        let made = made.and_then(|()| folder.sync());
        if let Err(error) = made {
            // nothing is in it; what cannot be removed now is swept later
            let _ = folder.remove(unfinished);
            let _ = folder.remove(name);
            return Err(error);
        }
        let (folder, len) = (folder.clone(), text.len() as u64);
        Ok(Self { folder, name: name.to_owned(), log, len, next: 1, broken: false })
    }

    /// Opens the journal of a dead run for undoing: locked against another doctor and a run that lives after all, a
    /// cut-off last line removed. `None` when another process holds the lock or the file has gone meanwhile.
    pub(crate) fn take_over(
        folder: &Arc<dyn Folder>,
        name: &str,
    ) -> Result<Option<(Self, Contents)>, JournalError> {
        let path = folder.path().join(name);
        let error = |source| JournalError::Io { path: path.clone(), source };
        let mut log = match folder.open(name) {
            Ok(log) => log,
            Err(source) if source.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(error(source)),
        };
        let mut locked = Ok(false);
        wait_until(LOCK_PATIENCE, || {
            locked = log.try_lock(false);
            !matches!(locked, Ok(false))
        });
        // whoever held the lock before may have finished and removed the file
        if !locked.map_err(error)? || !log.is_linked() {
            return Ok(None);
        }
        let contents = Contents::read(&*log).map_err(error)?;
        log.set_len(contents.whole_len).map_err(error)?;
        let (folder, name, len) = (folder.clone(), name.to_owned(), contents.whole_len);
        Ok(Some((Self { folder, name, log, len, next: contents.next, broken: false }, contents)))
    }

    pub(crate) fn path(&self) -> Utf8PathBuf {
        self.folder.path().join(&self.name)
    }

    /// Writes that `resource` is about to be made.
    pub(crate) fn add(&mut self, resource: &Resource) -> Result<u64, JournalError> {
        let id = self.next;
        self.append(&Line { add: Some(id), resource: Some(resource.clone()), ..Line::default() })?;
        self.next += 1;
        Ok(id)
    }

    /// Writes which file it became.
    pub(crate) fn made(&mut self, id: u64, file: FileId) -> Result<(), JournalError> {
        self.append(&Line { made: Some(id), file: Some(file), ..Line::default() })
    }

    /// Writes that the resource is gone.
    pub(crate) fn done(&mut self, id: u64) -> Result<(), JournalError> {
        self.append(&Line { done: Some(id), ..Line::default() })
    }

    /// Removes the file; that it has gone already is fine.
    pub(crate) fn remove(&self) -> Result<(), JournalError> {
        match self.folder.remove(&self.name) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(JournalError::Io { path: self.path(), source })
            }
            _ => Ok(()),
        }
    }

    /// Writes a line wholly or not at all: what an error leaves of it is cut off again.
    fn append(&mut self, line: &Line) -> Result<(), JournalError> {
        if self.broken {
            return Err(JournalError::Broken { path: self.path() });
        }
        let error = |source| JournalError::Io { path: self.folder.path().join(&self.name), source };
        let mut text = serde_json::to_string(line).map_err(|failed| error(failed.into()))?;
        text.push('\n');
        let written = write_all(&mut *self.log, text.as_bytes()).and_then(|()| self.log.sync());
        let Err(failed) = written.map_err(error) else {
            self.len += text.len() as u64;
            return Ok(());
        };
        let cut = self.log.set_len(self.len).and_then(|()| self.log.sync());
        self.broken = cut.is_err();
        Err(failed)
    }
}

/// Where there are no locks the process number alone tells whether the owner lives.
fn lock(log: &mut dyn Log) -> io::Result<()> {
    match log.try_lock(false) {
        Ok(true) => Ok(()),
        Ok(false) => Err(io::ErrorKind::WouldBlock.into()),
        Err(error) => {
            tracing::warn!(%error, "the journal cannot be locked: in another container this run looks dead");
            Ok(())
        }
    }
}

fn write_all(log: &mut dyn Log, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match log.append(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Removes the unfinished journals of dead runs, for which nothing was made yet; how many.
pub(crate) fn sweep(folder: &dyn Folder) -> io::Result<usize> {
    let mut swept = 0;
    for name in folder.names()? {
        if !name.starts_with('.') || !name.ends_with(UNFINISHED) {
            continue;
        }
        // one that is not ours, or cannot be opened, stays
        let Ok(mut log) = folder.open(&name) else { continue };
        if matches!(log.try_lock(false), Ok(true)) && log.is_linked() {
            folder.remove(&name)?;
            swept += 1;
        }
    }
    Ok(swept)
}

impl Contents {
    /// Reads a journal file.
    pub(crate) fn read(log: &dyn Log) -> io::Result<Self> {
        Self::parse(&log.read()?).map_err(|why| io::Error::new(io::ErrorKind::InvalidData, why))
    }

    pub(crate) fn parse(text: &[u8]) -> Result<Self, String> {
        let whole_len = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let mut lines = text[..whole_len].split(|byte| *byte == b'\n');
        let header = lines.next().unwrap_or_default();
        let header: Header =
            serde_json::from_slice(header).map_err(|error| format!("not a journal: {error}"))?;
        if header.loadline_journal > VERSION {
            let version = header.loadline_journal;
            return Err(format!("written by a newer loadline (format {version}); use that one"));
        }
        let unmade =
            if header.loadline_journal < TELLS_FILES { CreatedFile::Untold } else { CreatedFile::NotYet };
        let mut open = BTreeMap::new();
        let mut unreadable_lines = Vec::new();
        let mut next = 1;
        for (at, line) in lines.enumerate().filter(|(_, line)| !line.is_empty()) {
            match serde_json::from_slice(line) {
                Ok(Line { add: Some(id), resource: Some(resource), made: None, file: None, done: None }) => {
                    open.insert(id, Entry { resource, made: unmade });
                    next = next.max(id.saturating_add(1));
                }
                Ok(Line { add: None, resource: None, made: Some(id), file: Some(file), done: None }) => {
                    if let Some(entry) = open.get_mut(&id) {
                        entry.made = CreatedFile::File(file);
                    }
                }
                Ok(Line { add: None, resource: None, made: None, file: None, done: Some(id) }) => {
                    open.remove(&id);
                }
                _ => unreadable_lines.push(at + 2),
            }
        }
        Ok(Self { header, open, unreadable_lines, whole_len: whole_len as u64, next })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str =
        r#"{"loadline_journal":1,"run_id":"r","owner":{"pid":5,"start_ticks":6},"boot_id":"b"}"#;

    #[test]
    fn a_cut_off_last_line_is_ignored_and_a_bad_one_is_named() {
        let text = format!(
            "{HEADER}\n{}\nnonsense\n{}\n{}\n{{\"add\":9,\"reso",
            r#"{"add":1,"resource":{"kind":"directory","path":"/a"}}"#,
            r#"{"add":2,"resource":{"kind":"directory","path":"/b"}}"#,
            r#"{"done":1}"#,
        );
        let contents = Contents::parse(text.as_bytes()).unwrap();
        assert_eq!(contents.unreadable_lines, [3]);
        assert_eq!(contents.open.len(), 1);
        assert_eq!(contents.open[&2].resource, Resource::Directory { path: "/b".into() });
        assert_eq!(contents.next, 3);
        assert_eq!(contents.whole_len as usize, text.rfind('\n').unwrap() + 1);
    }

    #[test]
    fn a_newer_format_and_a_foreign_file_are_refused() {
        let newer = HEADER.replace(":1,", ":3,") + "\n";
        assert!(Contents::parse(newer.as_bytes()).unwrap_err().contains("newer loadline"));
        assert!(Contents::parse(b"hello\n").unwrap_err().contains("not a journal"));
        assert!(Contents::parse(b"").unwrap_err().contains("not a journal"));
    }
}
