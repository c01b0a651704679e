//! Where daemons say what goes wrong: standard error, which is a terminal or a file; a file of its own, if one was named; the
//! system's log, if one listens; and the kernel's log, where that is allowed, beside what the kernel says of the device.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::net::UnixDatagram;
use std::panic;
use std::path::Path;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

/// Where syslog(3) sends messages.
const SYSTEM_LOG: &str = "/dev/log";
/// A message is one write(2).
const KERNEL_LOG: &str = "/dev/kmsg";
/// `LOG_DAEMON | LOG_ERR` of syslog(3).
const PRIORITY: u32 = 3 << 3 | 3;
/// Bytes of a message: the kernel takes 1024, with the priority before it.
const MESSAGE_BYTES_MAX: usize = 960;

/// Who speaks, and the file that was named.
struct Log {
    name: String,
    file: Option<File>,
}

static LOG: OnceLock<Log> = OnceLock::new();

/// Gives this process a name in the logs, and a file of its own for them. From now on a panic of any thread is said there and
/// ends the process: otherwise whoever waits for what that thread was to do would wait for ever, and unwinding would free
/// memory that the kernel still writes to. Of several calls the first counts.
///
/// # Errors
/// The file cannot be opened for appending.
pub fn begin(name: &str, file: Option<&Path>) -> io::Result<()> {
    let file = file.map(|path| File::options().append(true).create(true).open(path)).transpose()?;
    let _ = LOG.set(Log { name: name.to_owned(), file });
    panic::set_hook(Box::new(|panicked| {
        error(format_args!("{panicked}; the daemon ends"));
        std::process::abort();
    }));
    Ok(())
}

/// Says that something went wrong, wherever it is heard. In the named file a line begins with the seconds since 1970.
pub fn error(what: impl fmt::Display) {
    let (name, file) = LOG.get().map_or(("loadline", None), |log| (&log.name, log.file.as_ref()));
    let line = message(name, &what.to_string());
    let tagged = format!("<{PRIORITY}>{line}");
    // Where it cannot be said there is nobody to tell.
    let _ = writeln!(io::stderr(), "{line}");
    if let Some(mut file) = file {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let _ = file.write_all(format!("{now} {line}\n").as_bytes());
    }
    if let Ok(mut kernel) = File::options().write(true).open(KERNEL_LOG) {
        let _ = kernel.write_all(tagged.as_bytes());
    }
    if let Ok(socket) = UnixDatagram::unbound() {
        // One that is full must not hold up the daemon.
        let _ = socket.set_nonblocking(true).and_then(|()| socket.send_to(tagged.as_bytes(), SYSTEM_LOG));
    }
}

/// A line of the log.
fn message(name: &str, text: &str) -> String {
    let mut line = format!("{name}[{}]: {}", std::process::id(), text.trim_end().replace('\n', " "));
    let mut end = line.len().min(MESSAGE_BYTES_MAX);
    while !line.is_char_boundary(end) {
        end -= 1;
    }
    line.truncate(end);
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_line_that_the_kernel_takes() {
        let line = message("betrfs", "panicked at a.rs:1:2:\nwhat\n");
        assert_eq!(line, format!("betrfs[{}]: panicked at a.rs:1:2: what", std::process::id()));
        let long = message("x", &"ä".repeat(5000));
        assert!((MESSAGE_BYTES_MAX - 1..=MESSAGE_BYTES_MAX).contains(&long.len()));
    }
}
