//! How a trial comes to its end: what a process came to, or an error on the way, as a status.

use record::results::Status;
use stack::StackError;
use stats::Ended;

use crate::runner::Report;
use crate::site::SiteError;
use crate::supervise::{Departure, Told};

/// Why a trial came to nothing.
pub(super) enum Failure {
    Unavailable { reason: String, remedy: String },
    Message(String),
}

impl From<SiteError> for Failure {
    fn from(error: SiteError) -> Self {
        match error.unavailable() {
            Some(why) => Failure::Unavailable { reason: why.reason, remedy: why.remedy },
            None => Failure::Message(error.to_string()),
        }
    }
}

impl From<StackError> for Failure {
    fn from(error: StackError) -> Self {
        SiteError::from(error).into()
    }
}

impl From<container::ContainerError> for Failure {
    fn from(error: container::ContainerError) -> Self {
        match error {
            container::ContainerError::Unavailable(why) => {
                Failure::Unavailable { reason: why.reason, remedy: why.remedy }
            }
            other => Failure::Message(other.to_string()),
        }
    }
}

impl From<host::Unavailable> for Failure {
    fn from(why: host::Unavailable) -> Self {
        Failure::Unavailable { reason: why.reason, remedy: why.remedy }
    }
}

impl From<apps::AppError> for Failure {
    fn from(error: apps::AppError) -> Self {
        match error {
            apps::AppError::Unavailable { reason, remedy } => Failure::Unavailable { reason, remedy },
            other => Failure::Message(other.to_string()),
        }
    }
}

/// What a trial came to. After an interrupt an error tells nothing of the stack: the terminal's Ctrl-C reaches mkfs and
/// mount as well, and they end with one.
pub(super) fn status(ended: Result<Status, Failure>, interrupted: bool, report: &mut Report) -> Status {
    match ended {
        Ok(status) => status,
        Err(Failure::Message(message)) if interrupted => {
            report.raw_output.push_str(&format!("when it was interrupted: {message}\n"));
            Status::Interrupted
        }
        Err(Failure::Unavailable { reason, remedy }) => Status::Unavailable { reason, remedy },
        Err(Failure::Message(message)) => Status::Failed { message },
    }
}

/// Turns what a child came to into a status, and keeps its outcome.
pub(super) fn conclude(departure: Departure, timeout_seconds: f64, report: &mut Report) -> Status {
    let failed = match departure.result {
        Ok(outcome) => {
            let failed = match &outcome.ended {
                Ended::Failed { message } => Some(message.clone()),
                _ => None,
            };
            report.outcome = Some(outcome);
            failed
        }
        Err(message) => Some(message),
    };
    match (departure.told, failed) {
        (Some(Told::Interrupted), _) => Status::Interrupted,
        (Some(Told::TimedOut), _) => Status::TimedOut { after_seconds: timeout_seconds },
        (None, Some(message)) => Status::Failed { message },
        // A signal from elsewhere reached the child itself.
        (None, None) if report.outcome.as_ref().is_some_and(|o| o.ended == Ended::Interrupted) => {
            Status::Interrupted
        }
        (None, None) => Status::Done,
    }
}

#[cfg(test)]
mod tests {
    use stats::Outcome;

    use super::*;

    fn departure(result: Result<Ended, &str>, told: Option<Told>) -> Departure {
        let result = result.map_err(str::to_string).map(|ended| Outcome {
            measured_seconds: 1.0,
            warmup_seconds: 0.0,
            ended,
            ops: vec![],
            metrics: vec![],
            notes: vec![],
        });
        Departure { result, told, raw_output: String::new() }
    }

    #[test]
    fn an_error_after_an_interrupt_is_no_failure_of_the_stack() {
        let mut report = Report::empty(Status::Interrupted);
        let killed = || Err(Failure::Message("mkfs.ext4: ended by a signal".into()));
        assert_eq!(status(killed(), true, &mut report), Status::Interrupted);
        assert!(report.raw_output.contains("mkfs.ext4: ended by a signal"), "{}", report.raw_output);
        let failed = Status::Failed { message: "mkfs.ext4: ended by a signal".into() };
        assert_eq!(status(killed(), false, &mut report), failed);
        assert_eq!(status(Ok(Status::Done), true, &mut report), Status::Done);
    }

    #[test]
    fn what_a_child_came_to_becomes_a_status() {
        let failed = |message: &str| Status::Failed { message: message.into() };
        let broke = || Ok(Ended::Failed { message: "EIO".into() });
        for (result, told, status, has_outcome) in [
            (Ok(Ended::TimeUp), None, Status::Done, true),
            (Ok(Ended::Interrupted), Some(Told::Interrupted), Status::Interrupted, true),
            (Ok(Ended::Interrupted), Some(Told::TimedOut), Status::TimedOut { after_seconds: 5.0 }, true),
            (Ok(Ended::Interrupted), None, Status::Interrupted, true),
            (Err("killed"), Some(Told::TimedOut), Status::TimedOut { after_seconds: 5.0 }, false),
            (Err("killed"), None, failed("killed"), false),
            (broke(), None, failed("EIO"), true),
        ] {
            let mut report = Report::empty(Status::Interrupted);
            let concluded = conclude(departure(result.clone(), told), 5.0, &mut report);
            assert_eq!((concluded, report.outcome.is_some()), (status, has_outcome), "{result:?} {told:?}");
        }
    }
}
