//! What a trial's parent and child say to each other: one JSON request on standard input, JSON lines on
//! standard output, of which the last is the outcome or the error.

use std::io::Write;

use engine::options::{Event, RunOptions};
use serde::{Deserialize, Serialize};
use stats::Outcome;

/// The hidden argument that makes `loadline` a trial's child.
pub const ARGUMENT: &str = "trial";

/// What the parent asks for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// Process number of the parent: when it is not our parent any more, it has died already.
    pub parent: u32,
    /// What to run.
    pub load: Issue,
    /// Which phase of an application to run.
    pub phase: u32,
    /// The home of results, where an application keeps what it makes once.
    pub home: std::path::PathBuf,
    /// Options to open the betrfs file system on `root` with, which is then a block device.
    pub in_process: Option<String>,
    /// Directory to run on.
    pub root: std::path::PathBuf,
    /// Options of the run.
    pub options: RunOptions,
    /// What the user has named with `--erase`: the only block device that the load may write to.
    #[serde(default)]
    pub erase: Option<camino::Utf8PathBuf>,
    /// Kernel name of the target's block device, for its counters.
    pub device: Option<String>,
    /// Kernel name of the disk below it.
    pub disk: Option<String>,
    /// Name of the emulated SSD among those of the home, for its counters.
    #[serde(default)]
    pub ssd: Option<String>,
    /// The load goes in slices: after [`Message::Waiting`] it does what each [`Grant`] says, until standard input ends.
    #[serde(default)]
    pub in_slices: bool,
    /// After [`Message::Waiting`] the load begins at the moment that [`Begin`] on standard input says.
    #[serde(default)]
    pub waits: bool,
    /// The load is one task of many: it meets the others by [`Message::Meet`].
    #[serde(default)]
    pub roll: Option<apps::ranks::Roll>,
    /// Speed of the processor's counter ([`engine::clock::Clock::speed`]), set by the process of the same machine that
    /// sends this.
    #[serde(default)]
    pub counter_speed: Option<u64>,
}

/// A line on the standard input of a load in slices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// I/O operations to do now.
    pub operations: u64,
}

/// The line on the standard input of a load that waits, or that meets others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begin {
    /// Nanoseconds of the system's monotonic clock; a moment that is over already: at once.
    pub at_ns: i64,
    /// What each task has brought to the meeting.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<u64>,
}

/// What is run: nothing is left to be read or resolved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Issue {
    /// The model of a script in Filebench's language.
    Wml {
        /// The model.
        model: Box<workload::Workload>,
    },
    /// An application of crate `apps`.
    App {
        /// Its name.
        name: String,
        /// Its parameters.
        variables: Vec<(String, String)>,
    },
    /// A simulation.
    Simulated {
        /// All of it.
        job: Box<simulate::Job>,
    },
}

/// What the child says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "say")]
pub enum Message {
    /// Something happens in the run.
    Event {
        /// What.
        event: Event,
    },
    /// A load in slices is ready for its first grant, or one that waits for its begin.
    Waiting,
    /// A task is where all tasks meet.
    Meet {
        /// What it brings.
        value: u64,
        /// It wants to go on at one moment of all clocks, not at once.
        aligned: bool,
    },
    /// What a task did in a phase.
    Span {
        /// That.
        span: apps::span::Span,
    },
    /// A load that waited begins.
    Began {
        /// Nanoseconds of the system's monotonic clock.
        at_ns: i64,
        /// How long after the moment it was told.
        late_ns: i64,
    },
    /// A grant is done.
    Slice {
        /// From its begin to the end of its last operation, what it owes written out.
        seconds: f64,
    },
    /// The end: what was measured.
    Outcome {
        /// The outcome.
        outcome: Box<Outcome>,
    },
    /// The end: the run could not be made.
    Error {
        /// Why.
        message: String,
    },
}

/// The child says something.
pub(crate) fn say(message: &Message) {
    let Ok(mut line) = serde_json::to_vec(message) else { return };
    line.push(b'\n');
    let mut out = std::io::stdout().lock();
    // When nobody listens, the parent has died and the kernel ends this process.
    let _ = out.write_all(&line).and_then(|()| out.flush());
}
