//! A user's own program as the workload, and his own checker as the judge.
//!
//! Only the program's author knows what a state must hold: that a key whose write was acknowledged is there, or that a log's records are
//! whole. So the program says what it has made durable, by marks that stand in the device's recording, and his checker judges
//! each state that a power cut may leave, told which marks had been passed.
//!
//! `child` is a process with a limit, `marks` takes the marks, `checker` judges.

mod checker;
mod child;
mod marks;

use std::process::Command;
use std::sync::atomic::AtomicBool;

use camino::{Utf8Path, Utf8PathBuf};

use crate::error::CrashError;
pub use checker::Checker;
pub(crate) use checker::{Looked, Scene};
use child::{Ended, Running};
use marks::Marks;

/// The directory of the stack, for the program, the setup and the checker.
pub const DIR: &str = "LOADLINE_DIR";
/// For the program: a pipe that takes a mark a line. Nobody answers; the mark stands in the recording a little later.
pub const MARKS_PIPE: &str = "LOADLINE_MARKS";
/// For the program: a socket that takes a mark a line and answers `ok` when it is in the recording; `loadline mark` uses it.
pub const MARKS_SOCKET: &str = "LOADLINE_MARKS_SOCKET";
/// For the program: loadline itself, so that `"$LOADLINE" mark NAME` needs no PATH.
pub const LOADLINE: &str = "LOADLINE";
/// For the checker: the last mark that was passed before the power failed; empty before the first.
pub const LAST_MARK: &str = "LOADLINE_MARK";
/// For the checker: how many marks had been passed.
pub const MARKS_PASSED: &str = "LOADLINE_MARKS_PASSED";
/// For the checker: a file with these marks, one a line.
pub const MARKS_LIST: &str = "LOADLINE_MARKS_LIST";

/// What stands for the directory in a program's words and in a command for the shell.
pub(crate) const PLACEHOLDER: &str = "{dir}";
/// Characters of a path that mean nothing to a shell, beside letters and digits.
const PLAIN: &str = "/._-+:@%=,";

/// A user's program.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// The program and its arguments; `{dir}` stands for the stack's directory.
    pub words: Vec<String>,
    /// A command for the shell that prepares the directory before the recording begins.
    pub setup: Option<String>,
    /// Who judges the states; without one only the file system is judged.
    pub checker: Option<Checker>,
    /// The program `loadline`, for marks.
    pub loadline: Option<Utf8PathBuf>,
}

impl Program {
    /// What it is called.
    pub(crate) fn name(&self) -> String {
        self.words.join(" ")
    }

    /// Prepares the directory `root`.
    pub(crate) fn set_up(&self, root: &Utf8Path, stop: &AtomicBool) -> Result<(), CrashError> {
        let Some(setup) = &self.setup else { return Ok(()) };
        let running = Running::start(shell(setup, root)).map_err(CrashError::io("run sh"))?;
        let (ended, output) = running.wait(None, stop, None)?;
        succeeded("--setup", &ended, &output, |what| CrashError::BesideProgram { what })
    }

    /// Runs it in the directory `root`; the marks that it has passed. `note` puts the mark of this number into the recording,
    /// `place` is a private directory for pipe and socket.
    pub(crate) fn run(
        &self,
        (root, place): (&Utf8Path, &Utf8Path),
        stop: &AtomicBool,
        note: &mut dyn FnMut(usize) -> Result<(), CrashError>,
    ) -> Result<Vec<String>, CrashError> {
        let mut marks = Marks::listen(place, note)?;
        let replaced: Vec<String> =
            self.words.iter().map(|word| word.replace(PLACEHOLDER, root.as_str())).collect();
        let Some((program, arguments)) = replaced.split_first() else {
            return Err(CrashError::BesideProgram { what: "no program is named".into() });
        };
        let mut command = Command::new(program);
        command.args(arguments).current_dir(root).env(DIR, root);
        command.env(MARKS_PIPE, marks.pipe()).env(MARKS_SOCKET, marks.socket());
        if let Some(loadline) = &self.loadline {
            command.env(LOADLINE, loadline);
        }
        let cannot = |error| CrashError::BesideProgram { what: format!("cannot run {program}: {error}") };
        let running = Running::start(command).map_err(cannot)?;
        let (ended, output) = running.wait(None, stop, Some(&mut marks))?;
        succeeded(program, &ended, &output, |what| CrashError::Program { what })?;
        marks.finish()
    }

    /// Has the checker judge what the program left, without any power cut: who rejects that would reject every state, and not for
    /// want of a sync.
    pub(crate) fn check_uncut(
        &self,
        (root, place): (&Utf8Path, &Utf8Path),
        passed: &[String],
        stop: &AtomicBool,
    ) -> Result<(), CrashError> {
        let Some(checker) = &self.checker else { return Ok(()) };
        let list = place.join("uncut.marks");
        let looked = checker.look(&Scene { dir: root, passed, list: &list }, stop)?;
        if looked.interrupted {
            return Err(CrashError::Interrupted);
        }
        match looked.breach {
            None => Ok(()),
            Some(breach) => Err(CrashError::BesideProgram {
                what: format!(
                    "the checker rejects what the program has left, without any power cut: {}{}",
                    breach.detail,
                    quoted(&looked.output)
                ),
            }),
        }
    }
}

/// A command for the shell, with its directory.
fn shell(text: &str, dir: &Utf8Path) -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", &text.replace(PLACEHOLDER, &word(dir.as_str()))]);
    command.current_dir(dir).env(DIR, dir);
    command
}

/// A text as one word of a shell.
pub(crate) fn word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || PLAIN.contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

fn succeeded(
    what: &str,
    ended: &Ended,
    output: &str,
    failed: impl FnOnce(String) -> CrashError,
) -> Result<(), CrashError> {
    match ended {
        Ended::Exited(status) if status.success() => Ok(()),
        Ended::Exited(status) => Err(failed(format!("{what} failed: {status}{}", quoted(output)))),
        // it has no limit
        Ended::TooLong | Ended::Stopped => Err(CrashError::Interrupted),
    }
}

/// Output behind a message.
fn quoted(output: &str) -> String {
    let lines: String = output.trim_end().lines().map(|line| format!("\n  | {line}")).collect();
    if lines.is_empty() { "; it printed nothing".into() } else { lines }
}

#[cfg(test)]
mod tests;
