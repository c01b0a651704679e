//! What the supervisor of a trial and its workers say to each other: a [`Request`] and then [`Instruction`]s on a worker's
//! standard input, [`Message`]s on its standard output, a line of JSON each. Ranks on other hosts send the same lines through
//! their connection, and guests through a serial port. Both sides are one program, so nothing here is kept between versions.

use std::io::Write;

use apps::span::Span;
use engine::options::{Event, RunOptions};
use probe::Counters;
use serde::{Deserialize, Serialize};
use spec::StackSpec;
use stats::Outcome;
use study::plan::Slot;
use study::results::Cell;

use crate::load::LoadSpec;
use crate::runner::{Progress, Report};

/// The hidden argument that makes `loadline` a worker.
pub const ARGUMENT: &str = "trial";

/// What a worker is asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// Process number of the supervisor, with which the worker dies. `None` within a container, where it ends with its input.
    pub parent: Option<u32>,
    /// What to run.
    pub load: LoadSpec,
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
    pub erase: Option<camino::Utf8PathBuf>,
    /// The load is one part of several at once: it is silent while it runs.
    pub one_of_many: bool,
    /// The load goes in slices: it comes to the gate after each, and goes on for as much as the next [`Release`] says.
    pub slices: Option<SliceUnit>,
    /// The load is one task of many, which meet at the gate while they run.
    pub roll: Option<apps::ranks::RankInfo>,
    /// Speed of the processor's counter ([`engine::clock::Clock::speed`]), set by the process of the same machine that
    /// sends this.
    pub counter_speed: Option<u64>,
}

impl Request {
    /// A load that runs alone on a directory.
    pub fn new(
        load: LoadSpec,
        home: &std::path::Path,
        root: &std::path::Path,
        options: RunOptions,
    ) -> Request {
        Request {
            parent: Some(std::process::id()),
            load,
            phase: 0,
            home: home.to_path_buf(),
            in_process: None,
            root: root.to_path_buf(),
            options,
            erase: None,
            one_of_many: false,
            slices: None,
            roll: None,
            counter_speed: None,
        }
    }
}

/// What the length of a slice is told in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SliceUnit {
    /// [`Release::operations`], until the supervisor ends the load.
    Operations,
    /// [`Release::nanoseconds`], until they add up to the length of the load.
    Time,
}

/// What a worker says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "say")]
pub enum Message {
    /// Something happens in the run.
    Event {
        /// What.
        event: Event,
    },
    /// It waits at the gate, until a [`Release`]: files and threads are there, a slice is done, or tasks meet.
    AtGate {
        /// What it brings: a task's count; nanoseconds of the slice that is done, what it owed written out.
        value: u64,
        /// It wants to go on at one moment of all clocks, not at once.
        aligned: bool,
    },
    /// It has passed the gate for the first time.
    Passed {
        /// Nanoseconds of its monotonic clock.
        at_ns: i64,
        /// How long after the moment it was told.
        late_ns: i64,
    },
    /// It wants the machine's counters, for a section of an application; answered by [`Instruction::Counters`].
    Sample,
    /// What a task did in a phase.
    Span {
        /// That.
        span: Span,
    },
    /// Standard error of a worker on another host.
    RawOutput {
        /// The text.
        text: String,
    },
    /// What was measured.
    Outcome {
        /// The outcome.
        outcome: Box<Outcome>,
    },
    /// The run could not be made.
    Error {
        /// Why.
        message: String,
    },
    /// A guest has booted.
    Booted,
    /// Something happens in the trial of a guest.
    Progress {
        /// What.
        progress: Progress,
    },
    /// What a trial in a guest came to.
    Report {
        /// All of it.
        report: Box<Report>,
    },
    /// A command in a guest printed a line.
    Printed {
        /// The line.
        line: String,
        /// It is one of its errors.
        error: bool,
    },
    /// A command in a guest has ended.
    Exited {
        /// Its exit code; `None`: a signal ended it.
        code: Option<i32>,
    },
    /// A worker on another host has ended: how, for the end of a sentence.
    Ended {
        /// Such as ` (exit code 3)`.
        how: String,
    },
}

/// What a worker, or a guest, is told while it runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Instruction {
    /// To go on from the gate.
    Proceed(Release),
    /// The machine's counters, as asked for.
    Counters {
        /// At this moment.
        counters: Box<Counters>,
    },
    /// A guest: to run a trial.
    Trial {
        /// Which.
        job: Box<GuestJob>,
    },
    /// A guest: to carry out a command of this program on a stack of its own making.
    Command {
        /// Its arguments.
        words: Vec<String>,
        /// The stack, whose file system the kernel is to know.
        stack: Box<StackSpec>,
    },
    /// A guest: to end the trial or the command that runs, with what it has found.
    Stop,
    /// A guest: to switch itself off.
    End,
}

/// A trial for a guest: a [`crate::runner::Job`] as a value. What is run is resolved again in the guest, whose memory and
/// processors are others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GuestJob {
    /// The run that it belongs to.
    pub run: String,
    /// The study as TOML.
    pub study: String,
    /// Its cell.
    pub cell: Cell,
    /// The trial's place in the plan.
    pub slot: Slot,
    /// The stack, as it is built within the guest.
    pub stack: StackSpec,
    /// Operations a second to offer.
    pub rate: Option<f64>,
}

/// How to go on from the gate.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Release {
    /// All are to go on at one moment, which their executor chooses.
    #[serde(skip)]
    pub aligned: bool,
    /// When, in nanoseconds of the worker's monotonic clock; 0: at once.
    pub at_ns: i64,
    /// What each task has brought.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<u64>,
    /// I/O operations of the next slice.
    #[serde(default)]
    pub operations: u64,
    /// Length of the next slice in nanoseconds.
    #[serde(default)]
    pub nanoseconds: u64,
}

/// A line of JSON.
pub(crate) fn line(what: &impl Serialize) -> std::io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(what)?;
    line.push(b'\n');
    Ok(line)
}

/// The worker says something.
pub(crate) fn send_message(message: &Message) {
    let Ok(line) = line(message) else { return };
    let mut out = std::io::stdout().lock();
    // when nobody listens, the supervisor has died, and this process ends with it
    let _ = out.write_all(&line).and_then(|()| out.flush());
}
