//! Runs a program under strace.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// Runs a program (its arguments, variables and directory) under strace; what each thread asked of the kernel, by the thread's
/// number: a whole call on each line, descriptors with their paths, of texts the first 256 bytes. `watched` are system calls with
/// commas between, as `-e trace=` takes them; `logs` is an own directory for what strace writes.
///
/// # Errors
/// The program failed: what it said.
///
/// # Panics
/// strace is not there, or its logs cannot be read.
pub fn strace(command: &Command, watched: &str, logs: &Path) -> Result<BTreeMap<u64, String>, String> {
    let prefix = logs.join("calls");
    let mut traced = Command::new("strace");
    traced.args(["-ff", "-qq", "-v", "-y", "-s", "256", "-e"]).arg(format!("trace={watched}")).arg("-o");
    traced.arg(&prefix).arg("--");
    traced.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => traced.env(name, value),
            None => traced.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        traced.current_dir(folder);
    }
    let output = traced.output().expect("strace runs");
    let mut threads = BTreeMap::new();
    for entry in std::fs::read_dir(logs).expect("the logs are there") {
        let path = entry.expect("a log").path();
        if path.file_stem() != prefix.file_name() {
            continue;
        }
        let number = path.extension().and_then(|number| number.to_str()?.parse::<u64>().ok());
        let Some(number) = number else { continue };
        threads.insert(number, String::from_utf8_lossy(&std::fs::read(&path).expect("a log")).into_owned());
        std::fs::remove_file(&path).expect("the log was ours");
    }
    if !output.status.success() {
        let said = [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
        return Err(said.concat());
    }
    Ok(threads)
}
