//! `mark`: what a program under `crash` says it has made durable.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

use clap::Args;
use crash::program::MARKS_SOCKET;

use crate::console::{Exit, bad_input};

/// Options of `mark`.
#[derive(Debug, Args)]
#[command(after_help = "\
It returns when the mark is in the recording: what the program does afterwards comes after it (docs/crash.md).

Examples:
  loadline mark saved
  loadline mark \"committed 17\"")]
pub struct Mark {
    /// The mark, such as `committed 17`
    #[arg(value_name = "NAME")]
    pub name: String,
}

/// Tells the recorder, and waits until it has written it down.
pub fn mark(arguments: &Mark) -> anyhow::Result<Exit> {
    let Some(socket) = std::env::var_os(MARKS_SOCKET) else {
        return Err(bad_input(format!(
            "{MARKS_SOCKET} is not set: marks are for programs that run under `loadline crash ... -- PROGRAM`"
        )));
    };
    let name: String = arguments.name.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let asked = UnixStream::connect(&socket).and_then(|mut stream| {
        stream.write_all(format!("{name}\n").as_bytes())?;
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer)?;
        Ok(answer)
    });
    let answer = asked.map_err(|error| anyhow::anyhow!("mark {name}: {}: {error}", socket.display()))?;
    match answer.trim() {
        "ok" => Ok(Exit::Done),
        "" => anyhow::bail!("mark {name}: the recorder has gone"),
        other => Err(bad_input(format!("mark {name}: {}", other.trim_start_matches("no: ")))),
    }
}
