//! How a trial comes to its end: what workers came to, or an error on the way, as a status.

use stack::StackError;
use stats::{Ended, Outcome};
use study::results::Status;

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
                _ => nothing_measured(&outcome),
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

/// Why a trial whose measured interval holds no operation is not a result, and what to do: a rate of 0 would be a figure of the
/// settings, not of the stack. `None` when there was an operation, when the load tells figures alone, and after an interrupt.
fn nothing_measured(outcome: &Outcome) -> Option<String> {
    let Outcome { ops, warmup_seconds, measured_seconds, ended, .. } = outcome;
    if ops.is_empty() || ops.iter().any(|op| op.ops > 0) || *ended == Ended::Interrupted {
        return None;
    }
    let (starved, errors) = ops.iter().fold((0, 0), |sum, op| (sum.0 + op.starved, sum.1 + op.errors));
    Some(if *warmup_seconds > 0.0 && matches!(ended, Ended::Done | Ended::OpsReached) {
        format!(
            "nothing was measured: the load was done before its warm-up of {warmup_seconds} s was over; give it more to do \
             (in a job file of fio: io_size, or time_based with runtime), or a shorter warm-up (--warmup, ramp_time)"
        )
    } else if starved > 0 {
        format!(
            "nothing was measured: no operation found a file, {starved} were skipped; give the filesets more entries, or \
             another prealloc"
        )
    } else if errors > 0 {
        format!("nothing was measured: all {errors} operations failed")
    } else {
        format!(
            "nothing was measured: no operation ended in {measured_seconds} s; measure longer (--for), or offer more (--rate)"
        )
    })
}

#[cfg(test)]
mod tests {
    use stats::metric::Metric;
    use stats::{Direction, OpClass, OpOutcome};

    use super::*;

    fn outcome(ops: u64, ended: Ended) -> Outcome {
        let op = OpOutcome { ops, ..OpOutcome::new("a", "read", OpClass::Io, Direction::Read) };
        Outcome {
            measured_seconds: 2.0,
            warmup_seconds: 3.0,
            ended,
            ops: vec![op],
            metrics: vec![Metric::process("cpu_user_seconds", "s", 1.0)],
            notes: Vec::new(),
        }
    }

    #[test]
    fn a_measured_interval_without_an_operation_is_a_failure_that_says_what_to_do() {
        let conclude = |outcome: Outcome| {
            let result = WorkersOutcome { result: Ok(outcome), stopped: None, raw_output: String::new() };
            super::conclude(result, 5.0, &mut Report::empty(Status::Interrupted))
        };
        let says = |outcome: Outcome| match conclude(outcome) {
            Status::Failed { message } => message,
            other => panic!("{other:?}"),
        };
        for (ended, part) in [
            (Ended::Done, "warm-up of 3 s"),
            (Ended::OpsReached, "--warmup"),
            (Ended::TimeUp, "no operation ended in 2 s; measure longer"),
        ] {
            let message = says(outcome(0, ended));
            assert!(message.contains(part), "{message}");
        }
        let mut starved = outcome(0, Ended::TimeUp);
        starved.ops[0].starved = 7;
        assert!(says(starved).contains("7 were skipped"));
        let mut wrong = outcome(0, Ended::TimeUp);
        wrong.ops[0].errors = 9;
        assert!(says(wrong).contains("all 9 operations failed"));
        assert_eq!(conclude(outcome(1, Ended::Done)), Status::Done);
        assert_eq!(conclude(outcome(0, Ended::Interrupted)), Status::Interrupted);
        let figures = Outcome { ops: Vec::new(), ..outcome(0, Ended::Done) };
        assert_eq!(conclude(figures), Status::Done, "a load of figures alone has no operations");
    }

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
