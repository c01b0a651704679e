//! What is said between a session and its guests.

use record::results::Cell;
use record::study::Study;
use serde::{Deserialize, Serialize};
use spec::StackSpec;

use crate::runner::{Job, Progress, Report};
use record::plan::Slot;

/// What a guest is asked.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "ask")]
pub(super) enum Ask {
    /// To run a trial.
    Trial {
        /// Which.
        errand: Box<Errand>,
    },
    /// To carry out a command of this program on a stack of its own making.
    Command {
        /// Its arguments.
        words: Vec<String>,
        /// The stack, whose file system the kernel is to know.
        stack: StackSpec,
    },
    /// To end the trial or the command that runs, with what it has found.
    Stop,
    /// To switch itself off.
    End,
}

/// A trial for a guest: a [`Job`] as a value. What is run is resolved again in the guest, whose memory and processors are
/// others.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Errand {
    /// [`Job::run`].
    pub run: String,
    /// The study as TOML.
    pub study: String,
    /// [`Job::cell`].
    pub cell: Cell,
    /// The trial's place in the plan.
    pub slot: Slot,
    /// The stack, as it is built within the guest.
    pub stack: StackSpec,
    /// [`Job::rate`].
    pub rate: Option<f64>,
}

/// What a guest says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "say")]
pub(super) enum Answer {
    /// It has booted.
    Ready,
    /// Something happens in the trial.
    Progress {
        /// What.
        progress: Progress,
    },
    /// The end of the trial.
    Report {
        /// What it came to.
        report: Box<Report>,
    },
    /// A command printed a line.
    Said {
        /// The line.
        line: String,
        /// It is one of its errors.
        error: bool,
    },
    /// A command has ended.
    Ended {
        /// Its exit code; `None`: a signal ended it.
        code: Option<i32>,
    },
    /// The trial or the command could not be begun.
    Error {
        /// Why.
        message: String,
    },
}

impl Errand {
    /// The trial, with the run's name and the study that the guest is told.
    pub(super) fn of(job: &Job<'_>, run: &str, study: &Study) -> Errand {
        Errand {
            run: run.to_string(),
            study: study.to_toml(),
            cell: job.cell.clone(),
            slot: job.slot,
            stack: job.stack.within(),
            rate: job.rate,
        }
    }
}
