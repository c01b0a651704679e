//! The user's checker: a command that says by its exit code whether a state is what it must be.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use camino::Utf8Path;

use super::child::{Ended, Running};
use super::{LAST_MARK, MARKS_LIST, MARKS_PASSED, shell};
use crate::error::CrashError;
use crate::oracle::{Breach, Kind};

/// Exit codes of a shell that could not start a command: what it was to start may be what a power cut has destroyed.
const NOT_STARTED: [i32; 2] = [126, 127];

/// Who judges states.
#[derive(Clone, Debug)]
pub struct Checker {
    /// A command for the shell; `{dir}` stands for the directory.
    pub command: String,
    /// How long it may take for a state: who takes longer hangs, and that is a violation too.
    pub limit: Duration,
}

/// What a checker is shown.
#[derive(Debug)]
pub(crate) struct Scene<'a> {
    /// The mounted state.
    pub(crate) dir: &'a Utf8Path,
    /// Marks that had been passed when the power failed.
    pub(crate) passed: &'a [String],
    /// A file for their names.
    pub(crate) list: &'a Utf8Path,
}

/// What came of looking at a state.
#[derive(Clone, Debug, Default)]
pub(crate) struct Looked {
    pub(crate) breach: Option<Breach>,
    /// The end of what the checker printed, if it found something.
    pub(crate) output: String,
    /// It was ended before it could say anything.
    pub(crate) interrupted: bool,
}

impl Checker {
    /// Judges a state.
    pub(crate) fn look(&self, scene: &Scene<'_>, stop: &AtomicBool) -> Result<Looked, CrashError> {
        let lines: String = scene.passed.iter().map(|name| format!("{name}\n")).collect();
        std::fs::write(scene.list, lines).map_err(CrashError::io(format!("write {}", scene.list)))?;
        let mut command = shell(&self.command, scene.dir);
        command.env(LAST_MARK, scene.passed.last().map_or("", String::as_str));
        command.env(MARKS_PASSED, scene.passed.len().to_string()).env(MARKS_LIST, scene.list);
        let running = Running::start(command).map_err(CrashError::io("run sh"))?;
        let (ended, output) = running.wait(Some(self.limit), stop, None)?;
        match ended {
            Ended::Exited(status) if status.success() => Ok(Looked::default()),
            Ended::Exited(status) => Ok(rejected(status, output)),
            Ended::Stopped => Ok(Looked { interrupted: true, ..Looked::default() }),
            Ended::TooLong => {
                let detail = format!("--check: hung, not done after {:.1} s", self.limit.as_secs_f64());
                Ok(Looked { breach: Some(Breach::new(Kind::Hung, detail)), output, interrupted: false })
            }
        }
    }
}

fn rejected(status: ExitStatus, output: String) -> Looked {
    let last = output.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default().trim();
    let how = match (status.code(), status.signal()) {
        (Some(code), _) if NOT_STARTED.contains(&code) => {
            format!("exit code {code}, with which a shell says that it could not start a command")
        }
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => status.to_string(),
    };
    let detail = if last.is_empty() { format!("--check: {how}") } else { format!("--check: {how}: {last}") };
    Looked { breach: Some(Breach::new(Kind::Rejected, detail)), output, interrupted: false }
}
