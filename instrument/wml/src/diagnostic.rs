//! Errors and warnings, where they are, and how they are shown.

use annotate_snippets::{AnnotationKind, Group, Level as Title, Renderer, Snippet};
use std::fmt;

/// A range of bytes of the script's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

impl Span {
    /// From `start` to `end`.
    pub fn new(start: usize, end: usize) -> Self {
        Span { start, end: end.max(start) }
    }

    /// The number of its first line in `text`, which is what was loaded; lines count from 1.
    pub fn line(self, text: &[u8]) -> usize {
        1 + text[..self.start.min(text.len())].iter().filter(|&&byte| byte == b'\n').count()
    }

    /// The smallest span over both.
    pub fn to(self, other: Span) -> Span {
        Span { start: self.start.min(other.start), end: self.end.max(other.end) }
    }
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// It runs, but perhaps not as meant.
    Warning,
    /// It cannot run.
    Error,
}

/// One error or warning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// How bad it is.
    pub level: Level,
    /// What is wrong, in one sentence.
    pub message: String,
    /// Where in the text; none for what comes from outside of it (`--set`).
    pub span: Option<Span>,
    /// What stands at the span, in a few words; may be empty.
    pub label: String,
    /// What would be right.
    pub help: Option<String>,
}

impl Diagnostic {
    /// An error at a place.
    pub fn error(span: Span, message: impl Into<String>) -> Self {
        Diagnostic {
            level: Level::Error,
            message: message.into(),
            span: Some(span),
            label: String::new(),
            help: None,
        }
    }

    /// A warning at a place.
    pub fn warning(span: Span, message: impl Into<String>) -> Self {
        Diagnostic { level: Level::Warning, ..Diagnostic::error(span, message) }
    }

    /// With a label at the span.
    pub fn label(self, label: impl Into<String>) -> Self {
        Diagnostic { label: label.into(), ..self }
    }

    /// With advice.
    pub fn help(self, help: impl Into<String>) -> Self {
        Diagnostic { help: Some(help.into()), ..self }
    }
}

/// Errors and warnings in the order in which they were found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Diagnostics(pub(crate) Vec<Diagnostic>);

/// Warnings beyond this many are dropped; errors beyond it end the reading.
pub(crate) const MAX_DIAGNOSTICS: usize = 50;

impl Diagnostics {
    /// Nothing to report?
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of errors and warnings.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Is there an error among them?
    pub fn has_errors(&self) -> bool {
        self.0.iter().any(|found| found.level == Level::Error)
    }

    /// The errors and warnings in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.0.iter()
    }

    /// Adds one, unless there are too many already or the same stands there.
    pub(crate) fn push(&mut self, diagnostic: Diagnostic) {
        let same_level = self.0.iter().filter(|found| found.level == diagnostic.level).count();
        if same_level < MAX_DIAGNOSTICS && !self.0.contains(&diagnostic) {
            self.0.push(diagnostic);
        }
    }

    /// Are there as many errors as are worth showing?
    pub(crate) fn full(&self) -> bool {
        self.0.iter().filter(|found| found.level == Level::Error).count() >= MAX_DIAGNOSTICS
    }

    /// The report for people: each with the line it is about and a pointer to the place, like a compiler's.
    /// `text` is what was loaded.
    pub fn render(&self, file_name: &str, text: &[u8], color: bool) -> String {
        let renderer = if color { Renderer::styled() } else { Renderer::plain() };
        let mut out = String::new();
        for diagnostic in &self.0 {
            out.push_str(&render_one(&renderer, diagnostic, file_name, text));
            out.push_str("\n\n");
        }
        out.truncate(out.trim_end().len());
        if !out.is_empty() {
            out.push('\n');
        }
        out
    }
}

impl<'a> IntoIterator for &'a Diagnostics {
    type Item = &'a Diagnostic;
    type IntoIter = std::slice::Iter<'a, Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, found) in self.0.iter().enumerate() {
            let separator = if index > 0 { "; " } else { "" };
            write!(out, "{separator}{}", found.message)?;
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostics {}

/// Bytes shown on each side of a span on its line.
const WINDOW: usize = 400;

/// The lines around a span, cut to a window, as text of the same length byte for byte (what cannot be shown
/// becomes `?`), with the span inside it and the number of its first line.
fn excerpt(text: &[u8], span: Span) -> (String, std::ops::Range<usize>, usize) {
    let start = span.start.min(text.len());
    let end = span.end.clamp(start, text.len()).min(start + WINDOW);
    let line_start = text[..start].iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    let from = line_start.max(start.saturating_sub(WINDOW));
    let line_end = text[end..].iter().position(|&byte| byte == b'\n').map_or(text.len(), |at| end + at);
    let to = line_end.min(end + WINDOW);
    let line = Span::new(from, from).line(text);
    let shown: Vec<u8> = text[from..to]
        .iter()
        .map(|&byte| match byte {
            b'\n' => byte,
            b'\t' | b'\r' => b' ',
            0x20..0x7f => byte,
            _ => b'?',
        })
        .collect();
    (String::from_utf8_lossy(&shown).into_owned(), start - from..end - from, line)
}

fn render_one(renderer: &Renderer, diagnostic: &Diagnostic, file_name: &str, text: &[u8]) -> String {
    let title = match diagnostic.level {
        Level::Warning => Title::WARNING,
        Level::Error => Title::ERROR,
    };
    let mut group = Group::with_title(title.primary_title(diagnostic.message.as_str()));
    if let Some(span) = diagnostic.span {
        let (source, range, line) = excerpt(text, span);
        let mut annotation = AnnotationKind::Primary.span(range);
        if !diagnostic.label.is_empty() {
            annotation = annotation.label(diagnostic.label.clone());
        }
        group =
            group.element(Snippet::source(source).line_start(line).path(file_name).annotation(annotation));
    }
    if let Some(help) = &diagnostic.help {
        group = group.element(Title::HELP.message(help.as_str()));
    }
    renderer.render(&[group])
}
