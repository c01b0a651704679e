//! What a recording holds, for people.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use recording::format::FileKind;
use recording::{Call, Header, Item, Summary};

use super::source::Source;
use crate::AppError;

/// What a recording holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Survey {
    /// What was known when it began.
    pub header: Header,
    /// What was known when it ended.
    pub summary: Summary,
    /// Threads.
    pub threads: u64,
    /// The processes that they were of.
    pub processes: u64,
    /// Operations, by the place of their kind in [`Call::ALL`].
    pub operations: [u64; Call::ALL.len()],
    /// What they moved in bytes, likewise.
    pub bytes: [u64; Call::ALL.len()],
    /// How many of all failed.
    pub failed: u64,
    /// Distinct paths.
    pub paths: u64,
    /// Files that were there before.
    pub files: u64,
    /// Their bytes together.
    pub file_bytes: u64,
    /// Directories that were there before.
    pub directories: u64,
}

impl Survey {
    /// Reads a recording to its end.
    ///
    /// # Errors
    /// A file that cannot be read, is no recording, was cut or is damaged, with the byte.
    pub fn of(path: &Path) -> Result<Survey, AppError> {
        let mut source = Source::open(path)?;
        let mut survey = Survey::empty(source.header().clone());
        let mut processes = HashSet::new();
        let mut sizes: HashMap<u32, u64> = HashMap::new();
        while let Some((_, item)) = source.next()? {
            match item {
                Item::Thread { pid, .. } => {
                    survey.threads += 1;
                    processes.insert(pid);
                }
                Item::Path(_) => survey.paths += 1,
                Item::Found { path, kind: FileKind::File(bytes) } => {
                    // a further item says that it was larger
                    sizes.insert(path, bytes);
                }
                Item::Found { kind: FileKind::Directory, .. } => survey.directories += 1,
                Item::Found { .. } | Item::Inherited { .. } | Item::Lost(_) => {}
                Item::Operation(operation) => survey.operation(operation.call, operation.result),
                Item::End(summary) => survey.summary = summary,
            }
        }
        survey.processes = processes.len() as u64;
        survey.files = sizes.len() as u64;
        survey.file_bytes = sizes.values().fold(0, |sum, bytes| sum.saturating_add(*bytes));
        Ok(survey)
    }

    fn empty(header: Header) -> Survey {
        Survey {
            header,
            summary: Summary::default(),
            threads: 0,
            processes: 0,
            operations: [0; Call::ALL.len()],
            bytes: [0; Call::ALL.len()],
            failed: 0,
            paths: 0,
            files: 0,
            file_bytes: 0,
            directories: 0,
        }
    }

    fn operation(&mut self, call: Call, result: i64) {
        self.operations[call as usize] += 1;
        self.failed += u64::from(result < 0);
        if matches!(call, Call::Read | Call::Write | Call::Fault) {
            let bytes = &mut self.bytes[call as usize];
            *bytes = bytes.saturating_add(u64::try_from(result).unwrap_or(0));
        }
    }
}

impl std::fmt::Display for Survey {
    /// A few lines, each with two spaces in front of it.
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let command = if self.header.command.is_empty() {
            "processes that ran already".to_string()
        } else {
            self.header.command.join(" ")
        };
        let all: u64 = self.operations.iter().sum();
        writeln!(to, "  a recording of {command}")?;
        writeln!(
            to,
            "  {:.3} s, {} threads of {} processes, {all} operations, {} of which failed",
            self.summary.length_ns as f64 / 1e9,
            self.threads,
            self.processes,
            self.failed
        )?;
        let calls = Call::ALL.into_iter().zip(self.operations).zip(self.bytes);
        for ((call, count), bytes) in calls.filter(|((_, count), _)| *count > 0) {
            let of = if bytes > 0 { format!(" of {}", units::format_bytes(bytes)) } else { String::new() };
            writeln!(to, "  {count} {}{of}", call.name())?;
        }
        writeln!(
            to,
            "  {} paths; before it there were {} files of {} together and {} directories",
            self.paths,
            self.files,
            units::format_bytes(self.file_bytes),
            self.directories
        )?;
        if self.summary.lost > 0 {
            writeln!(
                to,
                "  {} calls are missing: the kernel's buffer had no room for them",
                self.summary.lost
            )?;
        }
        if self.summary.unseen_requests > 0 {
            writeln!(
                to,
                "  {} requests to io_uring and libaio, and calls of msync, are not recorded",
                self.summary.unseen_requests
            )?;
        }
        if self.header.anonymous {
            writeln!(to, "  names are hashes")?;
        }
        Ok(())
    }
}
