//! Colours, widths, exit codes.

use std::io::IsTerminal;
use std::process::ExitCode;

use ::report::terminal::Style;

use crate::options::{Color, Options};

/// How the command ended (the codes stand in the help).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Done.
    Done,
    /// It ran, but a trial, claim or comparison failed.
    Failed,
    /// The input was wrong.
    BadInput,
    /// This machine cannot.
    CannotHere,
    /// A verdict cannot be told.
    CannotTell,
    /// Interrupted; partial results are kept.
    Interrupted,
    /// A program that was to be started cannot be executed: as a shell says it.
    NotExecutable,
    /// There is no such program: as a shell says it.
    NoProgram,
}

impl Exit {
    /// The code of `compare` and `judge`: 0, 1 or 4.
    pub fn of_code(code: u8) -> Exit {
        match code {
            0 => Exit::Done,
            4 => Exit::CannotTell,
            _ => Exit::Failed,
        }
    }

    /// The code for an error.
    pub fn of_error(error: &anyhow::Error) -> Exit {
        error.downcast_ref::<ExitError>().map_or(Exit::Failed, |coded| coded.exit)
    }

    /// The number.
    pub fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::BadInput => 2,
            Exit::CannotHere => 3,
            Exit::CannotTell => 4,
            Exit::Interrupted => lab::stop::INTERRUPTED,
            Exit::NotExecutable => 126,
            Exit::NoProgram => 127,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}

/// An error with an exit code of its own.
#[derive(Debug)]
struct ExitError {
    exit: Exit,
    message: String,
}

impl std::fmt::Display for ExitError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ExitError {}

/// Something in the input is wrong.
pub fn bad_input(message: impl std::fmt::Display) -> anyhow::Error {
    ExitError { exit: Exit::BadInput, message: message.to_string() }.into()
}

/// This machine cannot: the message says what, and what would help.
pub fn unavailable_error(message: impl std::fmt::Display) -> anyhow::Error {
    ExitError { exit: Exit::CannotHere, message: message.to_string() }.into()
}

/// An error that kept a verdict from being reached is not to be taken for the verdict that something failed.
pub fn no_verdict(error: anyhow::Error) -> anyhow::Error {
    if error.is::<ExitError>() || is_broken_pipe(&error) {
        return error;
    }
    ExitError { exit: Exit::CannotTell, message: format!("{error:#}") }.into()
}

/// A program cannot be started: the exit code is the one that a shell ends with then.
pub fn cannot_start(program: &str, error: &std::io::Error) -> anyhow::Error {
    let exit = match error.kind() {
        std::io::ErrorKind::NotFound => Exit::NoProgram,
        _ => Exit::NotExecutable,
    };
    ExitError { exit, message: format!("cannot run {program}: {error}") }.into()
}

/// How to write to standard output.
pub fn style(options: &Options) -> Style {
    let on_terminal = std::io::stdout().is_terminal();
    let width = terminal_size::terminal_size().map_or(100, |(width, _)| usize::from(width.0));
    Style { color: colored(options.color, on_terminal), width: if on_terminal { width } else { 100 } }
}

/// Whether standard error takes colours.
pub fn color_on_stderr(options: &Options) -> bool {
    colored(options.color, std::io::stderr().is_terminal())
}

fn colored(when: Color, on_terminal: bool) -> bool {
    match when {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => on_terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
    }
}

/// Starts the log on standard error.
pub fn start_log(verbose: bool) {
    use tracing_subscriber::filter::{LevelFilter, Targets};
    use tracing_subscriber::layer::SubscriberExt;
    use tracing_subscriber::util::SubscriberInitExt;
    let default = if verbose { LevelFilter::INFO } else { LevelFilter::WARN };
    // levels by target: filters by fields would bring an engine for regular expressions
    let wanted = std::env::var("LOADLINE_LOG").ok().and_then(|words| words.parse::<Targets>().ok());
    let filter = wanted.unwrap_or_else(|| Targets::new().with_default(default));
    // its own errors it would say by `eprintln!`, which panics when nobody reads
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).log_internal_errors(false);
    let _ = tracing_subscriber::registry().with(lines).with(filter).try_init();
}

/// Prints to standard output; a reader that went away (`| head`) is an error that `main` takes as the end.
pub fn print(text: &str) -> anyhow::Result<()> {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        out.write_all(b"\n")?;
    }
    Ok(out.flush()?)
}

/// Whether an error is that of a reader that went away.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}
