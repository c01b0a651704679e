//! A link of a stated delay and rate, as a process between a client and its server: what the kernel's netem would be, where there
//! is none. The client is at standard input and output, the server is a program that is started behind it. Each piece
//! arrives when its last byte would have passed a wire of that rate, and then took the delay; both ways have the whole rate.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::FromRawFd;
use std::process::{Command, Stdio};
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use camino::Utf8Path;
use host::CommandLine;

/// The hidden argument that makes `loadline` a link: `link DELAY_NS BYTES_PER_SECOND PROGRAM ARGUMENT...`; a rate of 0 is none.
pub const ARGUMENT: &str = "link";

/// The most that is read at once: smaller than what a client of SFTP has under way, so that a rate spreads it.
const PIECE_BYTES: usize = 32 << 10;
/// Pieces on the wire at most, 128 MiB: a GB/s for a tenth of a second. Then the sender waits, as for a window.
const PIECES: usize = 4096;

/// What a link is like, each way.
#[derive(Debug, Clone, Copy)]
struct Shape {
    delay: Duration,
    bytes_per_second: Option<f64>,
}

impl Shape {
    /// How long so many bytes take to be sent.
    fn sending(self, bytes: usize) -> Duration {
        self.bytes_per_second.map_or(Duration::ZERO, |rate| Duration::from_secs_f64(bytes as f64 / rate))
    }
}

/// The line that starts `server` behind a link; `program` is loadline.
pub(crate) fn command(program: &Utf8Path, network: &spec::Network, server: &str) -> CommandLine {
    let delay = network.delay.as_nanos().to_string();
    let rate = network.bytes_per_second.unwrap_or(0).to_string();
    CommandLine::new(program.as_str(), [ARGUMENT, &delay, &rate, server].map(str::to_string))
}

/// The link's process, when this is one: its exit code.
pub fn main() -> Option<u8> {
    let mut words = std::env::args().skip(1);
    if words.next().as_deref() != Some(ARGUMENT) {
        return None;
    }
    let words: Vec<String> = words.collect();
    Some(match run(&words) {
        Ok(()) => 0,
        Err(error) => {
            host::note!("loadline: the link: {error}");
            1
        }
    })
}

fn run(words: &[String]) -> io::Result<()> {
    let [delay, rate, program, arguments @ ..] = words else {
        return Err(io::Error::other("this is for loadline's own use"));
    };
    let number =
        |text: &str| text.parse::<u64>().map_err(|_| io::Error::other(format!("`{text}` is no number")));
    let (delay, rate) = (Duration::from_nanos(number(delay)?), number(rate)?);
    let shape = Shape { delay, bytes_per_second: (rate > 0).then_some(rate as f64) };
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
    host::process::end_with_parent(&mut command);
    let mut server = command.spawn()?;
    let (Some(to_server), Some(from_server)) = (server.stdin.take(), server.stdout.take()) else {
        return Err(io::Error::other("no pipes"));
    };
    // SAFETY: nobody else in this process uses standard input and output; each is owned once.
    let (from_client, to_client) = unsafe { (File::from_raw_fd(0), File::from_raw_fd(1)) };
    std::thread::scope(|scope| {
        let back = scope.spawn(move || carry(from_server, to_client, shape));
        let there = carry(from_client, to_server, shape);
        // a client that has gone is the end of a mount, not an error
        let _ = back.join();
        there
    })?;
    server.wait().map(|_| ())
}

/// Carries what is read from `from` to `to`, until the one ends or the other does not take it.
fn carry(mut from: impl Read, to: impl Write + Send, shape: Shape) -> io::Result<()> {
    let (wire, arriving) = sync_channel::<(Instant, Vec<u8>)>(PIECES);
    // the wire ends with the reading: then the writer ends
    std::thread::scope(move |scope| {
        scope.spawn(move || {
            let mut to = to;
            // a sleep of 100 us would else take 50 us more
            // SAFETY: a plain system call that concerns this thread's timers only.
            unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
            for (due, bytes) in arriving {
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
                if to.write_all(&bytes).is_err() {
                    return;
                }
            }
        });
        let mut buffer = vec![0; PIECE_BYTES];
        let mut free = Instant::now();
        loop {
            let got = match from.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(got) => got,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            free = free.max(Instant::now()) + shape.sending(got);
            if wire.send((free + shape.delay, buffer[..got].to_vec())).is_err() {
                return Ok(());
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes arrive whole and in order, and not before a wire of that shape would have carried them.
    #[test]
    fn nothing_arrives_before_its_time() {
        let sent: Vec<u8> = (0..100_000u32).map(|at| (at % 251) as u8).collect();
        let shape = Shape { delay: Duration::from_millis(5), bytes_per_second: Some(10e6) };
        let (from, to) = io::pipe().unwrap();
        let begin = Instant::now();
        let arrived = std::thread::scope(|scope| {
            let reader = scope.spawn(move || {
                let (mut from, mut got) = (from, Vec::new());
                from.read_to_end(&mut got).unwrap();
                (got, begin.elapsed())
            });
            carry(&sent[..], to, shape).unwrap();
            reader.join().unwrap()
        });
        assert_eq!(arrived.0, sent);
        assert!(arrived.1 >= Duration::from_millis(15), "{:?}", arrived.1);
    }
}
