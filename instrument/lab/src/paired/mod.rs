//! Two variants of a program in turns, a baseline and a candidate, until a rule tells them apart. What differs between
//! them (an environment, a command) is the caller's.
//!
//! | module | holds |
//! |---|---|
//! | this one | the order of the runs, and when it is enough |
//! | [`trial`] | one program, timed: wall and CPU time, what it printed, how it ended |
//! | [`compare`](mod@compare) | a program of the user's, under the same conditions in both variants |
//! | [`until`](mod@until) | two commands of the user's, until it is decided |
//! | [`plan`], [`matrix`] | does the prefetching library harm: patterns on devices, cell after cell |
//! | [`held_out`] | patterns and devices drawn from a seed, which nobody has seen |
//! | [`simulated`] | the same cells in virtual time: the policy on a simulated device and page cache |

pub mod compare;
pub mod held_out;
pub mod matrix;
pub mod plan;
pub mod simulated;
pub mod trial;
pub mod until;

use std::time::{Duration, Instant};

use stats::SampleError;
use stats::harmless::{Pair, STEP, Verdict};

/// Why nothing can be measured any more.
#[derive(Debug, thiserror::Error)]
pub enum PairedError {
    /// What was asked for is wrong.
    #[error("{0}")]
    Input(String),
    /// This machine, or this user, cannot do it.
    #[error("{0}")]
    CannotHere(String),
    /// A signal asked for the end.
    #[error("interrupted")]
    Interrupted,
    /// A file or directory, or a program that cannot be run.
    #[error("{what}: {why}")]
    File {
        /// What was done to which file.
        what: String,
        /// Why it failed.
        why: std::io::Error,
    },
    /// A program.
    #[error("{0}")]
    Program(String),
    /// A run did not end in the time that it had.
    #[error("a run did not end in {} s", .0.as_secs())]
    TooLong(Duration),
    /// A load, or the library for it.
    #[error(transparent)]
    Load(#[from] apps::AppError),
    /// A private directory.
    #[error(transparent)]
    Journal(#[from] journal::JournalError),
    /// Rounds from which no figure can be made.
    #[error("what was measured cannot be judged: {0}")]
    Figures(#[from] SampleError),
}

/// Says which file an I/O error is about.
pub(crate) fn with_path<P: AsRef<std::path::Path>>(
    verb: &str,
    path: P,
) -> impl FnOnce(std::io::Error) -> PairedError {
    move |why| PairedError::File { what: format!("cannot {verb} {}", path.as_ref().display()), why }
}

/// One of the two variants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// What is compared with.
    Baseline,
    /// What is judged.
    Candidate,
}

/// A run that begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunStart {
    /// Number of the round, from 1; 0: a run that warms up.
    pub round: usize,
    /// How many there will be as far as is known.
    pub of: usize,
    /// Which variant runs.
    pub side: Side,
}

/// How much may be done until the verdict is final.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    /// Rounds at first; at least one.
    pub rounds: usize,
    /// And at most.
    pub rounds_max: usize,
    /// No more rounds that would take longer than so long in all.
    pub time: Duration,
}

/// What came of it.
#[derive(Debug)]
pub struct PairedSeries<T, J> {
    /// All pairs, at least one.
    pub rounds: Vec<Pair<T>>,
    /// What was judged from them.
    pub judged: J,
    /// Of that.
    pub verdict: Verdict,
    /// Whether it ended for [`PairedError::Interrupted`], which loses the round that it met.
    pub interrupted: bool,
}

/// Runs a baseline and a candidate in turns, judged after `effort.rounds`, and again after every [`STEP`] more.
///
/// # Errors
/// The first of `run`, but for an interruption when there is a round already; [`PairedError::Figures`].
pub fn in_turns<T, J>(
    effort: Budget,
    mut run: impl FnMut(RunStart) -> Result<T, PairedError>,
    judge: impl Fn(&[Pair<T>]) -> Result<(J, Verdict), SampleError>,
) -> Result<PairedSeries<T, J>, PairedError> {
    let begin = Instant::now();
    let mut wanted = effort.rounds.max(1);
    let (mut rounds, mut before) = (Vec::new(), None);
    loop {
        let interrupted = run_in_turns(wanted, &mut rounds, &mut run)?;
        let (judged, verdict) = judge(&rounds)?;
        let each = begin.elapsed() / rounds.len() as u32;
        let room = begin.elapsed() + each * STEP as u32 <= effort.time;
        if interrupted || verdict.is_final(before) || wanted >= effort.rounds_max || !room {
            return Ok(PairedSeries { rounds, judged, verdict, interrupted });
        }
        before = Some(verdict);
        wanted = (wanted + STEP).min(effort.rounds_max);
    }
}

/// Whether it was interrupted. Who goes first changes, so that a drift of the machine favours nobody.
fn run_in_turns<T>(
    wanted: usize,
    rounds: &mut Vec<Pair<T>>,
    run: &mut impl FnMut(RunStart) -> Result<T, PairedError>,
) -> Result<bool, PairedError> {
    while rounds.len() < wanted {
        let mut next = |side| run(RunStart { round: rounds.len() + 1, of: wanted, side });
        let pair = if rounds.len().is_multiple_of(2) {
            next(Side::Baseline).and_then(|baseline| Ok(Pair { baseline, candidate: next(Side::Candidate)? }))
        } else {
            next(Side::Candidate)
                .and_then(|candidate| Ok(Pair { baseline: next(Side::Baseline)?, candidate }))
        };
        match pair {
            Err(PairedError::Interrupted) if !rounds.is_empty() => return Ok(true),
            pair => rounds.push(pair?),
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EFFORT: Budget = Budget { rounds: 2, rounds_max: 7, time: Duration::MAX };

    /// Numbers of rounds, and the turns that were taken; `verdicts` are given one after the other.
    fn series(effort: Budget, verdicts: &[Verdict]) -> (usize, Vec<RunStart>) {
        let mut turns = Vec::new();
        let asked = std::cell::Cell::new(0);
        let run = |turn| {
            turns.push(turn);
            Ok(())
        };
        let judge = |_: &[Pair<()>]| {
            asked.set(asked.get() + 1);
            Ok(((), verdicts[asked.get() - 1]))
        };
        let rounds = in_turns(effort, run, judge).expect("no run fails").rounds.len();
        assert_eq!(asked.get(), verdicts.len(), "asked as often as there are verdicts");
        (rounds, turns)
    }

    #[test]
    fn who_goes_first_changes() {
        let (_, turns) = series(EFFORT, &[Verdict::Harmless]);
        let turn = |round, side| RunStart { round, of: 2, side };
        assert_eq!(
            turns,
            [
                turn(1, Side::Baseline),
                turn(1, Side::Candidate),
                turn(2, Side::Candidate),
                turn(2, Side::Baseline)
            ]
        );
    }

    #[test]
    fn rounds_are_added_until_the_verdict_is_final_or_it_is_enough() {
        let rounds = |effort, verdicts: &[Verdict]| series(effort, verdicts).0;
        use Verdict::{Harmless, Harms, Untold};
        assert_eq!(rounds(EFFORT, &[Harmless]), 2);
        assert_eq!(rounds(EFFORT, &[Harms, Harms]), 5);
        assert_eq!(rounds(EFFORT, &[Harms, Untold, Harms]), 7);
        assert_eq!(rounds(EFFORT, &[Untold, Harmless]), 5);
        assert_eq!(rounds(Budget { time: Duration::ZERO, ..EFFORT }, &[Untold]), 2);
        assert_eq!(rounds(Budget { rounds: 0, rounds_max: 0, ..EFFORT }, &[Harms]), 1);
    }

    #[test]
    fn an_interruption_keeps_the_rounds_that_are_whole() {
        let interrupted_at = |number: usize| {
            let mut runs = 0;
            let run = |_| {
                runs += 1;
                if runs == number { Err(PairedError::Interrupted) } else { Ok(()) }
            };
            in_turns(EFFORT, run, |_| Ok(((), Verdict::Harmless)))
        };
        for number in [1, 2] {
            assert!(matches!(interrupted_at(number), Err(PairedError::Interrupted)));
        }
        let series = interrupted_at(4).unwrap();
        assert!(series.interrupted && series.rounds.len() == 1, "{series:?}");
    }
}
