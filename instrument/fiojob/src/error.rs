//! What is wrong with a job file, and where.

/// A mistake in a job file, and where it stands.
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

/// All mistakes of a job file, by line; there is at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobErrors(pub Vec<JobError>);

impl JobErrors {
    /// Of these, once each.
    pub(crate) fn new(mut mistakes: Vec<JobError>) -> JobErrors {
        mistakes.sort_by_key(|mistake| mistake.line);
        // an option of [global] is read again for each section
        mistakes.dedup();
        JobErrors(mistakes)
    }

    /// With the name of the file, a line each.
    pub fn render(&self, file: &str) -> String {
        self.0.iter().map(|mistake| mistake.render(file)).collect::<Vec<_>>().join("\n")
    }
}

impl std::fmt::Display for JobErrors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.render("job file"))
    }
}

impl std::error::Error for JobErrors {}

impl From<JobError> for JobErrors {
    fn from(mistake: JobError) -> JobErrors {
        JobErrors(vec![mistake])
    }
}
