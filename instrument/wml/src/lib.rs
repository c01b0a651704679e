//! Filebench's workload model language (WML): text to a [`workload::Workload`], with spans and diagnostics.
//!
//! Pure: no I/O, no clock, no randomness. The language as it is run here stands in `docs/wml-reference.md`.
//!
//! | module | holds |
//! |---|---|
//! | [`diagnostic`] | spans, errors and warnings, and how they are shown |
//! | [`ast`] | the script as written |
//! | `syntax` | lexer and parser: bytes to [`ast::Script`] |
//! | `tables` | names the language knows: attributes of each entity, functions, units |
//! | `loaded` | what a script is read with and what comes of it: [`Settings`], [`Loaded`] |
//! | `lower` | executes the script in order: variables, entities, flowops to the workload |
//! | `suggest` | "did you mean" |

pub mod ast;
pub mod diagnostic;
mod loaded;
mod lower;
mod suggest;
mod syntax;
mod tables;

pub use diagnostic::{Diagnostic, Diagnostics, Level, Span};
pub use loaded::{Loaded, Machine, Program, Settings, command_line};

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
