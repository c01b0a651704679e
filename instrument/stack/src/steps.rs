//! What the steps of building and mounting share: running a program, and how errors are told.

use std::io;

use camino::Utf8Path;
use host::runner::{CommandLine, CommandOutput, Runner};

use crate::error::StackError;

pub(crate) fn run(runner: &dyn Runner, command: &CommandLine) -> Result<CommandOutput, StackError> {
    runner.run(command).map_err(|source| StackError::Spawn { command: command.to_string(), source })
}

pub(crate) fn status(output: &CommandOutput) -> String {
    output.code.map_or("ended by a signal".to_string(), |code| format!("exit code {code}"))
}

pub(crate) fn io_error(path: &Utf8Path) -> impl FnOnce(io::Error) -> StackError {
    let path = path.to_owned();
    move |source| StackError::Io { path, source }
}
