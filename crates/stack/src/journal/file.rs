//! The journal's file: a header line, then `add` and `done` lines, each on disk before the call returns.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};

use camino::{Utf8Path, Utf8PathBuf};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::{JournalError, Resource, random_word};
use crate::ProcessId;

/// Version of the format. A reader refuses files with a higher one.
const VERSION: u32 = 1;
/// Ending of a journal's name.
pub(super) const EXTENSION: &str = "journal";

/// The first line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Header {
    pub loadline_journal: u32,
    pub run_id: String,
    pub owner: ProcessId,
    pub boot_id: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    #[serde(skip_serializing_if = "Option::is_none")]
    add: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource: Option<Resource>,
    #[serde(skip_serializing_if = "Option::is_none")]
    done: Option<u64>,
}

/// An open journal file.
#[derive(Debug)]
pub(super) struct JournalFile {
    path: Utf8PathBuf,
    file: File,
    next: u64,
}

/// What a journal file says.
#[derive(Debug)]
pub(super) struct Contents {
    pub header: Header,
    /// Added and not done.
    pub open: BTreeMap<u64, Resource>,
    /// Lines that could not be read, other than one cut off at the end.
    pub unreadable_lines: Vec<usize>,
    /// Length up to the end of the last whole line.
    whole_len: u64,
    next: u64,
}

impl JournalFile {
    /// Makes the file with its header; it appears under its name only when the header is on disk.
    pub(super) fn create(
        dir: &Utf8Path,
        run_id: &str,
        owner: ProcessId,
        boot_id: String,
    ) -> Result<Self, JournalError> {
        let name = format!("{run_id}-{}-{}", owner.pid, random_word());
        let path = dir.join(format!("{name}.{EXTENSION}"));
        let temporary = dir.join(format!(".{name}.new"));
        let header = Header { loadline_journal: VERSION, run_id: run_id.to_string(), owner, boot_id };
        let make = || -> io::Result<File> {
            std::fs::create_dir_all(dir)?;
            let mut file = OpenOptions::new().append(true).create_new(true).open(&temporary)?;
            let mut text = serde_json::to_string(&header)?;
            text.push('\n');
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&temporary, &path)?;
            File::open(dir)?.sync_all()?;
            Ok(file)
        };
        let file = make().map_err(|source| JournalError::Io { path: path.clone(), source })?;
        Ok(Self { path, file, next: 1 })
    }

    /// Opens the journal of a dead run for undoing: locked against another doctor, a cut-off last line
    /// removed.
    /// `None` when another process holds the lock or the file has gone meanwhile.
    pub(super) fn take_over(path: &Utf8Path) -> Result<Option<(Self, Contents)>, JournalError> {
        let error = |source| JournalError::Io { path: path.to_owned(), source };
        let file = match OpenOptions::new().append(true).open(path) {
            Ok(file) => file,
            Err(source) if source.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(error(source)),
        };
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Ok(None);
        }
        // whoever held the lock before may have finished and removed the file
        if !path.exists() {
            return Ok(None);
        }
        let contents = Contents::read(path)?;
        file.set_len(contents.whole_len).map_err(error)?;
        let next = contents.next;
        Ok(Some((Self { path: path.to_owned(), file, next }, contents)))
    }

    pub(super) fn path(&self) -> &Utf8Path {
        &self.path
    }

    /// Writes that `resource` is about to be made.
    pub(super) fn add(&mut self, resource: &Resource) -> Result<u64, JournalError> {
        let id = self.next;
        self.append(&Line { add: Some(id), resource: Some(resource.clone()), done: None })?;
        self.next += 1;
        Ok(id)
    }

    /// Writes that the resource is gone.
    pub(super) fn done(&mut self, id: u64) -> Result<(), JournalError> {
        self.append(&Line { add: None, resource: None, done: Some(id) })
    }

    /// Removes the file; that it has gone already is fine.
    pub(super) fn remove(&self) -> Result<(), JournalError> {
        match std::fs::remove_file(&self.path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(JournalError::Io { path: self.path.clone(), source })
            }
            _ => Ok(()),
        }
    }

    fn append(&mut self, line: &Line) -> Result<(), JournalError> {
        let mut write = || -> io::Result<()> {
            let mut text = serde_json::to_string(line)?;
            text.push('\n');
            // one write, so that a crash leaves at most one cut-off line
            self.file.write_all(text.as_bytes())?;
            self.file.sync_data()
        };
        write().map_err(|source| JournalError::Io { path: self.path.clone(), source })
    }
}

impl Contents {
    /// Reads a journal file.
    pub(super) fn read(path: &Utf8Path) -> Result<Self, JournalError> {
        let text =
            std::fs::read(path).map_err(|source| JournalError::Io { path: path.to_owned(), source })?;
        Self::parse(&text).map_err(|why| JournalError::Io {
            path: path.to_owned(),
            source: io::Error::new(io::ErrorKind::InvalidData, why),
        })
    }

    fn parse(text: &[u8]) -> Result<Self, String> {
        let whole_len = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let mut lines = text[..whole_len].split(|byte| *byte == b'\n');
        let header = lines.next().unwrap_or_default();
        let header: Header =
            serde_json::from_slice(header).map_err(|error| format!("not a journal: {error}"))?;
        if header.loadline_journal > VERSION {
            let version = header.loadline_journal;
            return Err(format!("written by a newer loadline (format {version}); use that one"));
        }
        let mut open = BTreeMap::new();
        let mut unreadable_lines = Vec::new();
        let mut next = 1;
        for (at, line) in lines.enumerate().filter(|(_, line)| !line.is_empty()) {
            match serde_json::from_slice(line) {
                Ok(Line { add: Some(id), resource: Some(resource), done: None }) => {
                    open.insert(id, resource);
                    next = next.max(id + 1);
                }
                Ok(Line { add: None, resource: None, done: Some(id) }) => {
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
        assert_eq!(contents.open[&2], Resource::Directory { path: "/b".into() });
        assert_eq!(contents.next, 3);
        assert_eq!(contents.whole_len as usize, text.rfind('\n').unwrap() + 1);
    }

    #[test]
    fn a_newer_format_and_a_foreign_file_are_refused() {
        let newer = HEADER.replace(":1,", ":2,") + "\n";
        assert!(Contents::parse(newer.as_bytes()).unwrap_err().contains("newer loadline"));
        assert!(Contents::parse(b"hello\n").unwrap_err().contains("not a journal"));
        assert!(Contents::parse(b"").unwrap_err().contains("not a journal"));
    }
}
