//! What a daemon is asked over its socket: one JSON line there, one back.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use host::ProcessId;
use serde::{Deserialize, Serialize};
use ssd::Fault;

use crate::record::RecordStatus;
use crate::status::SsdStatus;
use crate::transport::Transport;
use crate::versions::CutReport;

/// A question.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Request {
    Status,
    /// Cut the power and save the durable image there (absolute, must not exist).
    PowerCut(Utf8PathBuf),
    /// Answer reads at once, to measure the transport.
    Bypass(bool),
    /// Let answers leave early by so many nanoseconds.
    Lead(u64),
    /// Write what was recorded so far to the recording, behind this mark if there is one.
    Record {
        mark: Option<String>,
    },
    /// Fail these requests, counted from now on, and no others.
    Fail(Vec<Fault>),
    /// Stay when the owner is gone.
    Keep,
    /// Take the device down.
    Detach,
}

/// An answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reply {
    Done,
    Status(Box<SsdStatus>),
    PowerCut(CutReport),
    /// None: nothing is being recorded.
    Record(Option<RecordStatus>),
    /// What could not be taken away, one line each.
    Detached(Vec<String>),
    Busy,
    Error(String),
}

/// What the daemon has made, in its directory while it lives, and on its standard output when it is ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SsdState {
    /// Name.
    pub name: String,
    /// The daemon.
    pub daemon: ProcessId,
    /// The boot in which it runs: its number and start time say nothing in another one.
    #[serde(default)]
    pub boot_id: String,
    /// The block device.
    pub device: Utf8PathBuf,
    /// Where the FUSE file system is mounted, if there is one.
    pub mount: Utf8PathBuf,
    /// Number of the FUSE connection below /sys/fs/fuse/connections; none on ublk.
    #[serde(default)]
    pub connection: Option<u32>,
    /// The way from the kernel to the daemon.
    #[serde(default)]
    pub transport: Transport,
    /// Profile, regime and size, for people.
    pub what: String,
    /// What a reader of the figures must know, such as memory that could not be locked.
    pub notes: Vec<String>,
}

/// The daemon's first line.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Started {
    Ready(SsdState),
    Failed(String),
}

/// Asks and waits for the answer.
pub(crate) fn ask(socket: &Utf8Path, question: &Request, patience: Duration) -> io::Result<Reply> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    send(&mut stream, question)?;
    receive(&stream)
}

pub(crate) fn send<T: Serialize>(to: &mut impl Write, value: &T) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    to.write_all(&line)?;
    to.flush()
}

pub(crate) fn receive<T: for<'a> Deserialize<'a>>(from: impl io::Read) -> io::Result<T> {
    let mut line = String::new();
    BufReader::new(from).read_line(&mut line)?;
    if line.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(serde_json::from_str(&line)?)
}
