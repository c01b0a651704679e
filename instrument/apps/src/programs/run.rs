//! Finding and running a program.

use std::ffi::OsStr;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use stats::Direction;

use crate::{AppError, Bench};

/// Bytes of standard error that an error shows.
const MESSAGE_BYTES: usize = 400;

/// A program to run, without input, in the C locale.
#[derive(Debug)]
pub(crate) struct Program {
    command: Command,
}

/// Finds a program; without it, tells the Debian package that holds it.
pub(crate) fn program(name: &str, package: &str) -> Result<Program, AppError> {
    let path = find(name).ok_or_else(|| AppError::Unavailable {
        reason: format!("the program `{name}` is not found"),
        remedy: format!("install it (scripts/setup.sh {package}, or apt install {package})"),
    })?;
    let command = Command::new(path);
    Ok(Program::of(command))
}

/// git as a stranger would have it: no configuration of this machine or user.
pub(crate) fn git_program() -> Result<Program, AppError> {
    let git = program("git", "git")?.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    Ok(git.args(["-c", "safe.directory=*", "-c", "advice.detachedHead=false"]))
}

fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let sbin = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    // as a shell finds it: what cannot be executed is passed by
    let runs =
        |file: &PathBuf| file.is_file() && rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok();
    std::env::split_paths(&path).chain(sbin).map(|folder| folder.join(name)).find(runs)
}

impl Program {
    /// A command that somebody else has made; it gets no input and the C locale, and ends with a trial that is killed:
    /// it would hold the file system.
    pub(crate) fn of(mut command: Command) -> Program {
        command.env("LC_ALL", "C").stdin(Stdio::null());
        host::process::end_with_parent(&mut command);
        Program { command }
    }

    pub(crate) fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.command.arg(arg);
        self
    }

    pub(crate) fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.command.args(args);
        self
    }

    pub(crate) fn in_folder(mut self, folder: &Path) -> Self {
        self.command.current_dir(folder);
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Standard output goes to this file.
    pub(crate) fn into_file(mut self, path: &Path) -> Result<Self, AppError> {
        self.command.stdout(std::fs::File::create(path).map_err(crate::error::at(path))?);
        Ok(self)
    }

    /// Standard input comes from this file.
    pub(crate) fn fed_by(mut self, path: &Path) -> Result<Self, AppError> {
        self.command.stdin(std::fs::File::open(path).map_err(crate::error::at(path))?);
        Ok(self)
    }

    /// The command, for who wants to start it.
    pub(crate) fn command(self) -> Command {
        self.command
    }

    /// Runs it to its end.
    pub(crate) fn output(mut self) -> Result<Output, AppError> {
        let shown = shown(&self.command);
        let failed = |status: String, message: String| AppError::Program { command: shown, status, message };
        let output = match self.command.output() {
            Ok(output) => output,
            Err(error) => return Err(failed("it did not start".into(), error.to_string())),
        };
        if output.status.success() {
            return Ok(output);
        }
        let status = match (output.status.code(), output.status.signal()) {
            (Some(code), _) => format!("exit code {code}"),
            (None, signal) => format!("signal {}", signal.unwrap_or(0)),
        };
        // some scripts tell their errors on standard output
        let told = if output.stderr.trim_ascii().is_empty() { &output.stdout } else { &output.stderr };
        let text = String::from_utf8_lossy(told);
        let from = text.char_indices().rev().nth(MESSAGE_BYTES).map_or(0, |(at, _)| at);
        Err(failed(status, text[from..].trim().to_string()))
    }
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Runs a program as one operation of a section; its wall seconds are the figure `column`, and with the closing
/// sync on `sync` those of `column-synced`.
pub(crate) fn time(
    bench: &mut Bench<'_>,
    column: &'static str,
    direction: Direction,
    sync: Option<&Path>,
    program: Program,
) -> Result<Output, AppError> {
    bench.check()?;
    let section = bench.open(column, "program", direction);
    let mut tally = section.tally();
    let output = program.output()?;
    tally.op(0);
    let took = bench.close(section, &tally, sync)?;
    bench.metric(column, "s", took.seconds);
    if sync.is_some() {
        bench.metric(format!("{column}-synced"), "s", took.synced_seconds);
    }
    Ok(output)
}

/// Copies a tree to a name that does not exist yet.
pub(crate) fn copy_tree(from: &Path, to: &Path) -> Result<(), AppError> {
    program("cp", "coreutils")?.arg("-r").arg(from).arg(to).output().map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_missing_or_fails_is_told_as_such() {
        let missing = program("loadline-no-such-program", "nothing").unwrap_err();
        assert!(matches!(missing, AppError::Unavailable { .. }), "{missing}");
        let failed =
            program("sh", "dash").unwrap().args(["-c", "echo why >&2; exit 3"]).output().unwrap_err();
        assert!(matches!(&failed, AppError::Program { status, message, .. }
            if status == "exit code 3" && message == "why"));
    }
}
