//! What a script is read with, and what comes of it.

use crate::diagnostic::{Diagnostics, Span};

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
