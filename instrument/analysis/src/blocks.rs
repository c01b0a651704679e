//! The trials of a cell as statistics take them: block, moment, value.
//!
//! Trial *n* of every cell belongs to block *n*: those of one workload and parameter set were run back to back, so that
//! slow changes of the machine hit all of them alike ([`study::plan::order`]).

use stats::blocked::Trial;
use stats::{Effect, Outcome, SampleError, Sense};

use study::results::Run;

/// The trials of a cell that are done and have a value above 0, by index.
pub fn of_cell(run: &Run, cell: u32, value: impl Fn(&Outcome) -> Option<f64>) -> Vec<Trial> {
    let mut done: Vec<&study::results::Trial> =
        run.trials_of(cell).filter(|trial| trial.status.is_done()).collect();
    done.sort_by_key(|trial| trial.index);
    let of = |trial: &study::results::Trial| {
        let value = value(trial.outcome.as_ref()?).filter(|value| value.is_finite() && *value > 0.0)?;
        // in seconds of the epoch: only distances count
        let began = trial.started.as_millisecond() as f64 / 1e3;
        Some(Trial { block: u64::from(trial.index), began, value })
    };
    done.into_iter().filter_map(of).collect()
}

/// The values alone.
pub fn values(trials: &[Trial]) -> Vec<f64> {
    trials.iter().map(|trial| trial.value).collect()
}

/// How much better `ours` is than `theirs`, whatever the sense: above 0 is better.
///
/// # Errors
/// A side without values.
pub fn gain(theirs: &[Trial], ours: &[Trial], sense: Sense) -> Result<Effect, SampleError> {
    match sense {
        Sense::HigherIsBetter => stats::blocked::effect(theirs, ours),
        Sense::LowerIsBetter => stats::blocked::effect(ours, theirs),
    }
}
