//! Running WML text in a private directory.

use engine::{Control, Event, RunOptions};
use stats::outcome::{OpOutcome, Outcome};
use workload::Workload;

/// Parses WML; panics with its diagnostics.
pub fn parse(text: &str) -> Workload {
    let settings = wml::Settings {
        machine: wml::Machine { ram_bytes: 4 << 30, cores: 2, free_bytes: 4 << 30 },
        set: Vec::new(),
        name: "test".into(),
    };
    match wml::load(text.as_bytes(), &settings) {
        Ok(loaded) => loaded.workload,
        Err(errors) => panic!("{}", errors.render("test.f", text.as_bytes(), false)),
    }
}

/// A private directory on a tmpfs where there is one, so that thousands of operations take no time.
pub fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a temporary directory")
}

/// Runs and returns the outcome with the lines that were printed.
pub fn run_in(directory: &std::path::Path, text: &str, options: &RunOptions) -> (Outcome, Vec<String>) {
    let mut lines = Vec::new();
    let mut keep = |event| {
        if let Event::Line { text } = event {
            lines.push(text);
        }
    };
    let outcome = engine::run(&parse(text), directory, options, &Control::new(), &mut keep).expect("the run");
    (outcome, lines)
}

/// Runs in a directory of its own.
pub fn run(text: &str, options: &RunOptions) -> Outcome {
    run_in(directory().path(), text, options).0
}

/// Ends after this many I/O operations.
pub fn ops(ops: u64) -> RunOptions {
    RunOptions { ops: Some(ops), ..RunOptions::default() }
}

/// Ends after this time.
pub fn seconds(seconds: f64) -> RunOptions {
    RunOptions { seconds: Some(seconds), ..RunOptions::default() }
}

/// The flowop of that name.
pub fn op<'o>(outcome: &'o Outcome, name: &str) -> &'o OpOutcome {
    outcome
        .ops
        .iter()
        .find(|op| op.name == name)
        .unwrap_or_else(|| panic!("no flowop {name} in {outcome:#?}"))
}
