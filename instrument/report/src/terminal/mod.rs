//! Tables for people: the compleat table, the summary of a run, comparisons, claims.
//!
//! | module | holds |
//! |---|---|
//! | [`compleat`](mod@compleat) | stacks as rows, loads as columns, shares of the best |
//! | [`summary`](mod@summary) | the whole run: head, tables, notices, verdicts |
//! | [`comparison`](mod@comparison) | two runs side by side; the claims of a study |
//! | `table` | columns that fit the width, or are split into blocks that do |
//!
//! ASCII only. Colour is never the only sign: marks say the same.

pub mod comparison;
pub mod compleat;
mod evaluation;
pub mod summary;
pub(crate) mod table;

pub use comparison::{claims, comparison};
pub use compleat::compleat;
pub use summary::summary;

/// How to write to a terminal. The caller knows whether it is one, and what `NO_COLOR` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Use ANSI colours.
    pub color: bool,
    /// Columns of the terminal; below 60 it is taken as 60.
    pub width: usize,
}

impl Default for Style {
    /// Plain text for 80 columns.
    fn default() -> Self {
        Style { color: false, width: 80 }
    }
}

/// Roles of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Paint {
    /// As it is.
    #[default]
    Plain,
    /// Headings and answers.
    Strong,
    /// What may be skipped.
    Faint,
    /// Good.
    Good,
    /// Bad.
    Bad,
    /// To be noted.
    Warn,
}

impl Style {
    pub(crate) fn width(self) -> usize {
        self.width.max(60)
    }

    pub(crate) fn paint(self, paint: Paint, text: &str) -> String {
        let code = match paint {
            Paint::Plain => return text.to_string(),
            Paint::Strong => "1",
            Paint::Faint => "2",
            Paint::Good => "32",
            Paint::Bad => "31",
            Paint::Warn => "33",
        };
        if self.color && !text.trim().is_empty() {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_string()
        }
    }

    pub(crate) fn heading(self, text: &str) -> String {
        format!("\n{}\n", self.paint(Paint::Strong, &self.paragraph(text, 2)))
    }

    /// A paragraph broken into lines; those after the first are indented.
    pub(crate) fn paragraph(self, text: &str, indent: usize) -> String {
        fill(text, self.width(), indent)
    }

    /// The same below something that takes `indent` columns, the first line too.
    pub(crate) fn indented(self, text: &str, indent: usize) -> String {
        fill(text, self.width() - indent, 0).replace('\n', &format!("\n{:indent$}", ""))
    }
}

/// Breaks a text into lines of at most `width` columns; lines after the first are indented.
fn fill(text: &str, width: usize, indent: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    // A percent sign stays with its number.
    let text = text.replace(" %", "\u{a0}%");
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let margin = if lines.is_empty() { 0 } else { indent };
        if !line.is_empty() && margin + line.chars().count() + 1 + word.chars().count() > width {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    lines.join(&format!("\n{:indent$}", "")).replace('\u{a0}', " ")
}
