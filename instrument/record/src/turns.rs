//! Two systems in turns until it is decided (`loadline ab`): what the trials so far say.
//!
//! A block is four trials, A B B A or B A A B by lot ([`crate::plan::order`]). The rule is the group-sequential one of
//! [`stats::sequential`]. Everything is worked out from the stored trials, so that a report years later, a resumed run
//! and the run itself say the same.

use std::collections::BTreeMap;

use stats::sequential::{Ab, BLOCKS_MAX, Plan, State, block_difference};
use stats::slices::{Drift, drift};
use stats::spending::FIRST_LOOK;
use stats::{Interval, Sense, Thresholds, Verdict};

use crate::results::{MetricName, Run, Trial};
use crate::study::turns::{TRIALS_OF_BLOCK, Turns};
use crate::study::{Settings, Study};

/// From what so many blocks took it is planned how many the budget allows: fewer than the first look has, so that the plan
/// stands before anything is looked at.
const COSTED_BLOCKS: usize = 4;

/// What the blocks so far say of B against A.
#[derive(Debug, Clone, PartialEq)]
pub struct SoFar {
    /// Labels of A and B: stack, and the variables that are its own.
    pub names: [String; 2],
    /// By what it is decided.
    pub metric: MetricName,
    /// The answer; `None`: more blocks are to come.
    pub verdict: Option<Verdict>,
    /// Blocks that are whole.
    pub blocks: usize,
    /// Blocks at the next look.
    pub next_look: Option<usize>,
    /// Blocks that the budget allows.
    pub blocks_max: usize,
    /// Estimate of B/A.
    pub ratio: f64,
    /// Of the ratio, at 95 %, valid at every look; `None` before a look that could say something.
    pub interval: Option<Interval>,
    /// The smallest relative difference that would have been seen four times of five.
    pub would_have_seen: Option<f64>,
    /// The difference below which it is the same.
    pub target: f64,
    /// Mean of the values of A and of B, in the metric's unit.
    pub means: [f64; 2],
    /// Seconds that the trials took.
    pub seconds: f64,
    /// The trials are slices of loads that go on.
    pub in_slices: bool,
    /// Of slices: how the ratio changes while the stacks age, to be told instead of one number.
    pub drift: Option<Drift>,
}

/// What a stored run says; `None` when it is no comparison in turns.
pub fn of_run(run: &Run) -> Option<SoFar> {
    so_far(run, &Study::from_stored(&run.study).ok()?.study)
}

/// What a run with these settings says so far. Only a budget that is used up, or a plan that is done, ends it without a
/// decision: an interrupted run has none.
pub fn so_far(run: &Run, settings: &Settings) -> Option<SoFar> {
    let turns = settings.turns.as_ref()?;
    let name = |id: u32| run.cell(id).map_or_else(String::new, |cell| named(run, cell));
    let planned = (run.planned_trials / TRIALS_OF_BLOCK) as usize;
    judge([name(0), name(1)], turns, (settings.seed, planned), blocks(run, turns.metric))
}

/// What blocks say so far. The plan is at most `planned` blocks; `seed` is not that of the order, which is the caller's.
pub fn judge(
    names: [String; 2],
    turns: &Turns,
    (seed, planned): (u64, usize),
    blocks: impl IntoIterator<Item = Block>,
) -> Option<SoFar> {
    let metric = turns.metric;
    let sense = if metric.higher_is_better() { Sense::HigherIsBetter } else { Sense::LowerIsBetter };
    let plan = Plan { blocks_max: planned, target: turns.target.0, ..Plan::default() };
    let mut ab = Ab::new(plan, sense, seed).ok()?;
    let (mut spent, mut all, mut blocks_max) = (0.0, [Vec::new(), Vec::new()], planned);
    let mut differences = Vec::new();
    let mut verdict = None;
    for block in blocks {
        spent += block.seconds;
        let Ok(difference) = block_difference(&block.values[0], &block.values[1]) else { continue };
        for (all, values) in all.iter_mut().zip(&block.values) {
            all.extend_from_slice(values);
        }
        differences.push(difference);
        let mut state = ab.push(difference).ok()?;
        if ab.n() == COSTED_BLOCKS {
            blocks_max = (turns.budget.0 / (spent / COSTED_BLOCKS as f64)) as usize;
            blocks_max = blocks_max.clamp(FIRST_LOOK, BLOCKS_MAX).min(planned.max(FIRST_LOOK));
            ab.replan(blocks_max);
            state = ab.state();
        }
        if spent >= turns.budget.0 && ab.n() >= FIRST_LOOK && matches!(state, State::GoOn { .. }) {
            state = ab.finish();
        }
        if let State::Decided(found) = state {
            verdict = Some(found);
            break;
        }
    }
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let ages =
        turns.slices.is_some().then(|| drift(&differences, Thresholds::default().floor.ln_1p())).flatten();
    Some(SoFar {
        names,
        metric,
        verdict,
        blocks: ab.n(),
        next_look: match ab.state() {
            State::GoOn { next_look } => Some(next_look),
            State::Decided(_) => None,
        },
        blocks_max,
        ratio: ab.ratio(),
        interval: ab.interval(),
        would_have_seen: ab.would_have_seen(),
        target: turns.target.0,
        means: [mean(&all[0]), mean(&all[1])],
        seconds: spent,
        in_slices: turns.slices.is_some(),
        drift: ages,
    })
}

/// The stack, and the variables where A and B have different ones.
fn named(run: &Run, cell: &crate::results::Cell) -> String {
    let own = |other: &crate::results::Cell| other.parameters != cell.parameters;
    if !run.cells.iter().any(own) {
        return cell.stack.clone();
    }
    let words: Vec<String> =
        cell.parameters.iter().map(|one| format!("{}={}", one.name, one.value)).collect();
    if words.is_empty() { cell.stack.clone() } else { format!("{} {}", cell.stack, words.join(" ")) }
}

/// Four trials, two of each side.
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    /// Of A and of B, above 0.
    pub values: [Vec<f64>; 2],
    /// Seconds that they took, all included.
    pub seconds: f64,
}

/// The blocks whose four trials have a value, in the order of their numbers. What failed trials cost counts for the block
/// after them.
fn blocks(run: &Run, metric: MetricName) -> Vec<Block> {
    let last = run.trials.iter().map(|trial| trial.index).max();
    let mut found = Vec::new();
    let mut seconds = 0.0;
    let mut at: BTreeMap<(u32, u32), &Trial> = BTreeMap::new();
    for trial in &run.trials {
        at.insert(
            (trial.index / TRIALS_OF_BLOCK, trial.cell * TRIALS_OF_BLOCK + trial.index % TRIALS_OF_BLOCK),
            trial,
        );
    }
    for block in 0..last.map_or(0, |last| last / TRIALS_OF_BLOCK + 1) {
        let mut values = [Vec::new(), Vec::new()];
        for (_, trial) in at.range((block, 0)..(block + 1, 0)) {
            seconds += trial.seconds;
            let value = trial.status.is_done().then_some(trial.outcome.as_ref()).flatten();
            if let Some(value) = value.and_then(|outcome| metric.of(outcome)).filter(|value| *value > 0.0)
                && let Some(values) = values.get_mut(trial.cell as usize)
            {
                values.push(value);
            }
        }
        if values.iter().all(|values| values.len() == TRIALS_OF_BLOCK as usize) {
            found.push(Block { values, seconds });
            seconds = 0.0;
        }
    }
    found
}

#[cfg(test)]
mod tests;
