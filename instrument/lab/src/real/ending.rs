//! How a trial comes to its end: what workers came to, or an error on the way, as a status.

use record::results::Status;
use stack::StackError;
use stats::Ended;

use crate::runner::Report;
use crate::stack_factory::StackSetupError;
use crate::trial::executor::{Failure, StopReason};
use crate::trial::supervisor::WorkersOutcome;

impl From<StackSetupError> for Failure {
    fn from(error: StackSetupError) -> Self {
        match error.unavailable() {
            Some(why) => Failure::Unavailable { reason: why.reason, remedy: why.remedy },
            None => Failure::Message(error.to_string()),
        }
    }
}

impl From<StackError> for Failure {
    fn from(error: StackError) -> Self {
        StackSetupError::from(error).into()
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

/// Turns what workers came to into a status, and keeps its outcome.
pub(super) fn conclude(departure: WorkersOutcome, timeout_seconds: f64, report: &mut Report) -> Status {
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
    match (departure.stopped, failed) {
        (Some(StopReason::Interrupted), _) => Status::Interrupted,
        (Some(StopReason::TimedOut), _) => Status::TimedOut { after_seconds: timeout_seconds },
        (_, Some(message)) => Status::Failed { message },
        // A signal from elsewhere reached the worker itself.
        (_, None) if report.outcome.as_ref().is_some_and(|o| o.ended == Ended::Interrupted) => {
            Status::Interrupted
        }
        (_, None) => Status::Done,
    }
}

#[cfg(test)]
mod tests {
    use stats::Outcome;

    use super::*;

    fn departure(result: Result<Ended, &str>, stopped: Option<StopReason>) -> WorkersOutcome {
        let result = result.map_err(str::to_string).map(|ended| Outcome {
            measured_seconds: 1.0,
            warmup_seconds: 0.0,
            ended,
            ops: vec![],
            metrics: vec![],
            notes: vec![],
        });
        WorkersOutcome { result, stopped, raw_output: String::new() }
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
    fn what_workers_came_to_becomes_a_status() {
        let failed = |message: &str| Status::Failed { message: message.into() };
        let broke = || Ok(Ended::Failed { message: "EIO".into() });
        for (result, told, status, has_outcome) in [
            (Ok(Ended::TimeUp), None, Status::Done, true),
            (Ok(Ended::Interrupted), Some(StopReason::Interrupted), Status::Interrupted, true),
            (
                Ok(Ended::Interrupted),
                Some(StopReason::TimedOut),
                Status::TimedOut { after_seconds: 5.0 },
                true,
            ),
            (Ok(Ended::Interrupted), None, Status::Interrupted, true),
            (Err("killed"), Some(StopReason::TimedOut), Status::TimedOut { after_seconds: 5.0 }, false),
            (Err("killed"), None, failed("killed"), false),
            (broke(), None, failed("EIO"), true),
        ] {
            let mut report = Report::empty(Status::Interrupted);
            let concluded = conclude(departure(result.clone(), told), 5.0, &mut report);
            assert_eq!((concluded, report.outcome.is_some()), (status, has_outcome), "{result:?} {told:?}");
        }
    }
}
