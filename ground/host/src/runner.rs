//! Running external programs (mkfs, mount, blkid) behind a seam where tests inject failures.

use std::fmt;
use std::io::{self, Read};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde::Serialize;

/// A program and its arguments. `Display` gives the line one could paste into a shell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CommandLine {
    /// Name or path of the program.
    pub program: String,
    /// The arguments, without the program's name.
    pub args: Vec<String>,
}

impl CommandLine {
    /// A command line of `program` and `args`.
    pub fn new<S: Into<String>>(program: impl Into<String>, args: impl IntoIterator<Item = S>) -> Self {
        Self { program: program.into(), args: args.into_iter().map(Into::into).collect() }
    }
}

impl fmt::Display for CommandLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", shell_word(&self.program))?;
        self.args.iter().try_for_each(|arg| write!(f, " {}", shell_word(arg)))
    }
}

fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%^".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_string()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// What a program left behind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CommandOutput {
    /// Exit code; absent when a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// Wall-clock time in milliseconds.
    pub elapsed_ms: u64,
}

impl CommandOutput {
    /// Whether it ended with code 0.
    pub fn success(&self) -> bool {
        self.code == Some(0)
    }

    /// Standard error, or standard output when that is empty, without blank ends.
    pub fn message(&self) -> &str {
        let stderr = self.stderr.trim();
        if stderr.is_empty() { self.stdout.trim() } else { stderr }
    }
}

/// Runs programs to their end.
pub trait Runner: Send + Sync {
    /// Runs `command` to its end and gathers what it printed. An error means that it could not be started, or
    /// did not end in time; a program that failed is an output with another code than 0.
    fn run(&self, command: &CommandLine) -> io::Result<CommandOutput>;
}

/// Runs programs on this machine, in the C locale, without input, for a limited time.
#[derive(Debug, Clone)]
pub struct SystemRunner {
    /// A program that runs longer is killed.
    pub time_limit: Duration,
}

impl Default for SystemRunner {
    /// Fifteen minutes: mkfs without lazy initialisation writes every inode table of a large disk.
    fn default() -> Self {
        Self { time_limit: Duration::from_secs(15 * 60) }
    }
}

impl Runner for SystemRunner {
    fn run(&self, command: &CommandLine) -> io::Result<CommandOutput> {
        tracing::debug!(%command, "run");
        let start = Instant::now();
        let Some(program) = crate::Host::system().find_program(&command.program) else {
            let message = format!("program `{}` is not found", command.program);
            return Err(io::Error::new(io::ErrorKind::NotFound, message));
        };
        let mut prepared = Command::new(program);
        crate::process::end_with_parent(&mut prepared);
        let mut child = prepared
            .args(&command.args)
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let stdout = collect(child.stdout.take());
        let stderr = collect(child.stderr.take());
        let code = wait(&mut child, start, self.time_limit, command)?;
        let text = |reader: std::thread::JoinHandle<Vec<u8>>| {
            String::from_utf8_lossy(&reader.join().unwrap_or_default()).into_owned()
        };
        let (stdout, stderr) = (text(stdout), text(stderr));
        Ok(CommandOutput { code, stdout, stderr, elapsed_ms: start.elapsed().as_millis() as u64 })
    }
}

/// Reads a pipe to its end in a thread of its own, so that a talkative program never blocks on a full pipe.
fn collect(pipe: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // what was read before an error is still worth showing
            let _ = pipe.read_to_end(&mut bytes);
        }
        bytes
    })
}

fn wait(
    child: &mut Child,
    start: Instant,
    limit: Duration,
    command: &CommandLine,
) -> io::Result<Option<i32>> {
    let mut pause = Duration::from_micros(200);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.code());
        }
        if start.elapsed() >= limit {
            // a process that sleeps in the kernel may outlive this: it is not waited for
            child.kill()?;
            let message = format!("`{command}` did not end within {} s and was killed", limit.as_secs());
            return Err(io::Error::new(io::ErrorKind::TimedOut, message));
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_code_and_streams_are_kept_apart() {
        let script = "echo out; echo err >&2; exit 3";
        let output = SystemRunner::default().run(&CommandLine::new("sh", ["-c", script])).unwrap();
        assert_eq!(
            (output.code, output.stdout.as_str(), output.stderr.as_str()),
            (Some(3), "out\n", "err\n")
        );
        assert_eq!(output.message(), "err");
    }

    #[test]
    fn a_program_that_prints_more_than_a_pipe_holds_ends() {
        let script = "head -c 1000000 /dev/zero";
        let output = SystemRunner::default().run(&CommandLine::new("sh", ["-c", script])).unwrap();
        assert_eq!(output.stdout.len(), 1_000_000);
    }

    #[test]
    fn a_program_that_hangs_is_killed() {
        let runner = SystemRunner { time_limit: Duration::from_millis(50) };
        let error = runner.run(&CommandLine::new("sleep", ["600"])).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn a_missing_program_is_an_error() {
        let command = CommandLine::new("loadline-no-such-program", Vec::<String>::new());
        assert_eq!(SystemRunner::default().run(&command).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn lines_can_be_pasted_into_a_shell() {
        let command = CommandLine::new("mount", ["-o", "a=b c", "it's", ""]);
        assert_eq!(command.to_string(), "mount -o 'a=b c' 'it'\\''s' ''");
    }
}
