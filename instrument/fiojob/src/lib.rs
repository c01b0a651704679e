//! fio's job files: text to a workload. An option that is not known, or that the engine cannot do as fio does it, is an
//! error that says where it stands and what to do; nothing is passed over silently.
//!
//! | module | holds |
//! |---|---|
//! | `text` | sections and options with their lines; `[global]` |
//! | `number` | fio's numbers: suffixes, times, percents |
//! | `options` | the options that are known, and what they mean for a job |
//! | `lower` | jobs to a workload |
//!
//! The grammar is that of fio's HOWTO (3.33).

mod lower;
mod number;
mod options;
mod text;

use workload::IoMode;

/// A job file that was understood.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// What to run.
    pub workload: workload::Workload,
    /// How reads and writes are issued.
    pub io: IoMode,
    /// What differs from fio, a sentence each.
    pub notes: Vec<String>,
    /// The options of the jobs as they were worked out.
    pub variables: Vec<(String, String)>,
}

/// What is wrong with a job file, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobError {
    /// The line, from 1; 0: not in the file (`--set`).
    pub line: usize,
    /// What is wrong, and what to do.
    pub message: String,
}

impl JobError {
    fn new(line: usize, message: impl Into<String>) -> JobError {
        JobError { line, message: message.into() }
    }

    /// With the name of the file.
    pub fn render(&self, file: &str) -> String {
        match self.line {
            0 => format!("{file}: --set: {}", self.message),
            line => format!("{file}:{line}: {}", self.message),
        }
    }
}

impl std::fmt::Display for JobError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.render("job file"))
    }
}

impl std::error::Error for JobError {}

/// Reads a job file. `set` are options for all jobs that go before the file's own (`--set bs=64k`); `job` among them
/// chooses one section by name. `name` is the workload's.
///
/// # Errors
/// The first mistake, with its line.
pub fn load(text: &str, name: &str, set: &[(String, String)]) -> Result<Loaded, JobError> {
    lower::lower(&text::jobs(text, set)?, name)
}
