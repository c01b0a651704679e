//! Numbers and sections for terminals.

use record::results::Answer;

use crate::judged::{Judged, word};

/// A number in four digits or fewer where that says enough.
pub fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.1 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

/// Text in a colour of ECMA-48 (`32`: green), if colours are wanted.
pub fn paint(text: &str, code: &str, color: bool) -> String {
    if color { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
}

/// Adds a heading with indented lines; nothing when there are no lines.
pub fn section(text: &mut String, title: &str, lines: Vec<String>) {
    if lines.is_empty() {
        return;
    }
    text.push_str(&format!("\n{title}\n"));
    lines.iter().for_each(|line| text.push_str(&format!("  {line}\n")));
}

/// A line for each claim.
pub fn claims(judged: &[Judged], color: bool) -> Vec<String> {
    let line = |one: &Judged| {
        let code = match one.answer {
            Answer::Reproduced => "32",
            Answer::NotReproduced => "31",
            Answer::CannotTell => "33",
        };
        let word = paint(word(one.answer), code, color);
        format!("{word}: {} - {} ({})", one.claim, one.reason, one.source)
    };
    judged.iter().map(line).collect()
}
