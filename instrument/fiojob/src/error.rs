//! What is wrong with a job file, and where.

/// What is wrong with a job file, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobError {
    /// The line, from 1; 0: not in the file (`--set`).
    pub line: usize,
    /// What is wrong, and what to do.
    pub message: String,
}

impl JobError {
    pub(crate) fn new(line: usize, message: impl Into<String>) -> JobError {
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
