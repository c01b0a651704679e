//! What is wrong with a study, where, and what would be right.

use std::ops::Range;

use thiserror::Error;

use super::Settings;
use super::nearest::did_you_mean;

/// Why a study cannot be run.
#[derive(Debug, Error)]
pub enum StudyError {
    /// A file could not be read.
    #[error("{path}: {source}")]
    Read {
        /// The file.
        path: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// There is no such file, neither on disk nor among those that loadline has with it.
    #[error("{path}: there is no such file; {}", suggest_keys(path))]
    Missing {
        /// The file.
        path: String,
    },
    /// The study's text is wrong at a place.
    #[error("{0}")]
    Text(Box<TextError>),
    /// A workload does not parse; the message is the whole report.
    #[error("{report}")]
    Workload {
        /// The workload's label.
        workload: String,
        /// Diagnostics as WML renders them.
        report: String,
    },
    /// A word of the command line is wrong.
    #[error("{0}")]
    Argument(String),
}

/// Something wrong at a place in a study's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextError {
    /// The study's file name.
    pub file: String,
    /// Line, from 1; 0 when the place is unknown.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The line's text.
    pub excerpt: String,
    /// Characters of the line that are meant.
    pub width: usize,
    /// What is wrong.
    pub message: String,
    /// What would be right.
    pub help: Option<String>,
}

impl TextError {
    pub(super) fn new(
        file: &str,
        text: &str,
        span: Option<Range<usize>>,
        message: impl Into<String>,
    ) -> Self {
        let mut error = TextError {
            file: file.to_string(),
            line: 0,
            column: 0,
            excerpt: String::new(),
            width: 0,
            message: message.into(),
            help: None,
        };
        if let Some(span) = span.filter(|span| span.start <= text.len() && text.is_char_boundary(span.start))
        {
            let line_start = text[..span.start].rfind('\n').map_or(0, |at| at + 1);
            let line = text[line_start..].lines().next().unwrap_or_default();
            let before = text[line_start..span.start].chars().count();
            let spanned = text.get(span).unwrap_or_default().lines().next().unwrap_or_default();
            error.line = text[..line_start].matches('\n').count() + 1;
            error.column = before + 1;
            error.excerpt = line.replace('\t', " ");
            error.width = spanned.chars().count().min(line.chars().count().saturating_sub(before)).max(1);
        }
        error
    }

    pub(super) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    pub(super) fn of_toml(file: &str, text: &str, error: &toml::de::Error) -> Self {
        let message = error.message();
        let (message, help) = match unknown_key(message) {
            Some((key, known)) => {
                let meant = did_you_mean(key, known.iter().copied())
                    .or_else(|| is_setting(key).then(|| format!("`{key}` belongs under [study]; ")));
                let list = format!("{}known here: {}", meant.unwrap_or_default(), known.join(", "));
                (format!("unknown key `{key}`"), Some(list))
            }
            None => (message.trim_end().replace('\n', " "), None),
        };
        TextError { help, ..TextError::new(file, text, error.span(), message) }
    }
}

/// Whether a key belongs under `[study]`: its deserialiser complains of something else, or of nothing.
fn is_setting(key: &str) -> bool {
    let complaint = toml::from_str::<Settings>(&format!("{key} = 1")).err();
    complaint.is_none_or(|error| unknown_key(error.message()).is_none())
}

/// Takes serde's message for an unknown field or variant apart.
fn unknown_key(message: &str) -> Option<(&str, Vec<&str>)> {
    let rest = message.strip_prefix("unknown field ")?;
    let (key, known) = rest.split_once(", expected ")?;
    let known = known.split('`').skip(1).step_by(2).collect();
    Some((key.trim_matches('`'), known))
}

/// What a name that no file has may have meant.
fn suggest_keys(path: &str) -> String {
    let path = std::path::Path::new(path);
    if path.extension().is_some_and(|extension| extension == "toml") {
        return "`loadline new study` writes one to begin with".to_string();
    }
    let known = crate::files::workload_names();
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    match units::nearest(&stem, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`, which loadline has with it?"),
        None => format!("loadline has with it {}; `loadline run --help` names other loads", known.join(", ")),
    }
}

impl std::fmt::Display for TextError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.line == 0 {
            write!(f, "{}: {}", self.file, self.message)?;
        } else {
            let number = self.line.to_string();
            let margin = " ".repeat(number.len());
            let blank = " ".repeat(self.column - 1);
            writeln!(f, "{}:{}:{}: {}", self.file, self.line, self.column, self.message)?;
            writeln!(f, " {number} | {}", self.excerpt)?;
            write!(f, " {margin} | {blank}{}", "^".repeat(self.width))?;
        }
        match &self.help {
            Some(help) => write!(f, "\n  help: {help}"),
            None => Ok(()),
        }
    }
}

impl From<TextError> for StudyError {
    fn from(error: TextError) -> Self {
        StudyError::Text(Box::new(error))
    }
}
