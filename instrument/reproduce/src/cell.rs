//! Why a cell has no value.

use record::results::{Run, Status};

/// Why a cell has no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Absent {
    /// It has not run yet.
    NotRun,
    /// It cannot run here.
    Unavailable {
        /// Why.
        reason: String,
        /// What would help.
        remedy: String,
    },
    /// It failed.
    Failed(String),
}

impl Absent {
    /// A word in place of a value.
    pub fn word(&self) -> &'static str {
        match self {
            Absent::NotRun => "-",
            Absent::Unavailable { .. } => "n/a",
            Absent::Failed(_) => "failed",
        }
    }

    /// Why the cell `cell` of a run has no value: what came of its latest trial.
    pub fn of(run: &Run, cell: u32) -> Absent {
        match run.trials_of(cell).last().map(|trial| &trial.status) {
            Some(Status::Unavailable { reason, remedy }) => {
                Absent::Unavailable { reason: reason.clone(), remedy: remedy.clone() }
            }
            Some(Status::Failed { message }) => Absent::Failed(message.clone()),
            Some(Status::TimedOut { after_seconds }) => {
                Absent::Failed(format!("it took longer than {after_seconds} s"))
            }
            Some(Status::Done) => Absent::Failed("it measured nothing".into()),
            Some(Status::Interrupted) | None => Absent::NotRun,
        }
    }
}
