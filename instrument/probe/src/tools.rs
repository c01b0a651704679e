//! Versions of the programs that build stacks.

use std::collections::HashMap;
use std::process::{Command, Stdio};
use std::sync::{Mutex, OnceLock};

use study::environment::Tool;

/// Asks each program for its version; programs that are not there are left out. Each is asked once a process.
pub fn versions(programs: &[&str]) -> Vec<Tool> {
    programs
        .iter()
        .filter_map(|name| Some(Tool { name: (*name).to_string(), version: version_of(name)? }))
        .collect()
}

fn version_of(program: &str) -> Option<String> {
    static KNOWN: OnceLock<Mutex<HashMap<String, Option<String>>>> = OnceLock::new();
    let mut known = KNOWN.get_or_init(Mutex::default).lock().ok()?;
    known.entry(program.to_string()).or_insert_with(|| ask(program)).clone()
}

fn ask(program: &str) -> Option<String> {
    // Only the makers of file systems understand -V and nothing else; the rest of util-linux takes both.
    let flag = if program.starts_with("mkfs.") { "-V" } else { "--version" };
    let output = Command::new(program).arg(flag).stdin(Stdio::null()).output().ok()?;
    let both = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&both);
    let first = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    Some(first.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_programs_are_left_out() {
        assert_eq!(versions(&["a-program-that-nobody-has"]), []);
    }

    #[test]
    fn a_program_that_is_there_tells_its_version() {
        let tools = versions(&["ls"]);
        assert!(tools.iter().all(|tool| tool.name == "ls" && !tool.version.is_empty()));
    }
}
