//! Filebench's workload model language (WML): text to a [`workload::Workload`], with spans and diagnostics.
//!
//! Pure: no I/O, no clock, no randomness. The language as it is run here stands in `docs/wml.md`.
//!
//! | module | holds |
//! |---|---|
//! | [`diagnostic`] | spans, errors and warnings, and how they are shown |
//! | [`ast`] | the script as written |
//! | `syntax` | lexer and parser: bytes to [`ast::Script`] |
//! | `tables` | names the language knows: attributes of each entity, functions, units |
//! | `lower` | executes the script in order: variables, entities, flowops to the workload |
//! | `suggest` | "did you mean" |

pub mod ast;
pub mod diagnostic;
mod lower;
mod suggest;
mod syntax;
mod tables;

pub use diagnostic::{Diagnostic, Diagnostics, Level, Span};

/// The machine that a workload is sized for; gives `$ram`, `$cores` and `$free` their values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Machine {
    /// Bytes of memory that the workload may count on.
    pub ram_bytes: u64,
    /// Number of cores, at least 1.
    pub cores: u64,
    /// Bytes free on the target.
    pub free_bytes: u64,
}

/// What a script is read with, besides its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Values of the predefined variables.
    pub machine: Machine,
    /// Variables set from outside (`--set name=value`, the name without `$`), which go before the file's own.
    pub set: Vec<(String, String)>,
    /// The workload's name in reports.
    pub name: String,
}

/// A script that was understood.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// What to run.
    pub workload: workload::Workload,
    /// What the author should know, though it runs.
    pub warnings: Diagnostics,
    /// Final values of the script's variables (names without `$`), in alphabetic order.
    pub variables: Vec<(String, String)>,
    /// What the script starts by `system`, in the order in which it does: one for each [`workload::Step::System`].
    pub programs: Vec<Program>,
}

/// A `system "..."` of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Where it stands; [`Span::line`] gives the line.
    pub span: Span,
    /// The command, its variables filled in.
    pub command: String,
}

/// A command as one line for people: what a terminal would not show, or show as something else (line ends, escape
/// sequences, letters that change the direction of writing), is spelled out, so that nothing of it can hide.
pub fn command_line(command: &str) -> String {
    command
        .chars()
        .flat_map(|letter| match letter {
            '"' | '\'' | '\\' => vec![letter],
            other => other.escape_debug().collect(),
        })
        .collect()
}

/// Reads a script and resolves it into a workload.
///
/// # Errors
///
/// Everything that keeps the script from running, each error with its place; warnings found on the way are
/// among them.
/// Any bytes give diagnostics, never a panic.
pub fn load(text: &[u8], settings: &Settings) -> Result<Loaded, Diagnostics> {
    let (script, diagnostics) = syntax::parse_text(text);
    if diagnostics.has_errors() {
        return Err(diagnostics);
    }
    lower::lower(&script, settings, diagnostics)
}

/// Parses a script without executing it.
///
/// # Errors
///
/// The syntax errors (a bounded number), each with its place.
pub fn parse(text: &[u8]) -> Result<ast::Script, Diagnostics> {
    let (script, diagnostics) = syntax::parse_text(text);
    if diagnostics.has_errors() { Err(diagnostics) } else { Ok(script) }
}
