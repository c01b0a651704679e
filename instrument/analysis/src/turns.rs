//! Two systems in turns until it is decided (`loadline ab`): what the trials so far say.
//!
//! A block is four trials, A B B A or B A A B by lot ([`study::plan::order`]). The rule is the group-sequential one of
//! [`stats::sequential`]. Of slices the unit is not the block but the *build*: both stacks made anew, then compared for a few
//! blocks. Two builds of one stack are not alike, and what a build has, all its slices have; so the builds count, however
//! long each is looked at, and the coin of the order makes the sign of a build's difference a fair one. Everything is worked out from the stored trials, so that a report years later, a resumed run
//! and the run itself say the same.

use std::collections::BTreeMap;

use stats::sequential::{BLOCKS_MAX, Plan, SequentialTest, State, block_difference};
use stats::slices::{BuildSpread, Drift, drift};
use stats::spending::FIRST_LOOK;
use stats::{Doubt, Interval, Sense, Thresholds, Verdict};

use crate::tail::ShortTail;

use study::results::{MetricName, Run, Trial};
use study::turns::{InterleavedDesign, TRIALS_OF_BLOCK};
use study::{Settings, Study};

/// From what so many blocks took it is planned how many the budget allows: fewer than the first look has, so that the plan
/// stands before anything is looked at.
const COSTED_BLOCKS: usize = 4;

/// What the blocks so far say of B against A.
#[derive(Debug, Clone, PartialEq)]
pub struct InterimComparison {
    /// Labels of A and B: stack, and the variables that are its own.
    pub names: [String; 2],
    /// By what it is decided.
    pub metric: MetricName,
    /// The answer; `None`: more blocks are to come.
    pub verdict: Option<Verdict>,
    /// Blocks that are whole; of slices: builds.
    pub blocks: usize,
    /// Blocks (builds) at the next look.
    pub next_look: Option<usize>,
    /// Blocks (builds) that the budget allows.
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
    /// Of slices: blocks for which both stacks are kept; `None` of whole trials.
    pub kept_blocks: Option<usize>,
    /// Of slices: how much the same two stacks differ when they are built anew.
    pub builds: Option<BuildSpread>,
    /// Of slices: how the ratio changes while the stacks age, to be told instead of one number.
    pub drift: Option<Drift>,
}

/// What a stored run says; `None` when it is no comparison in turns.
pub fn of_run(run: &Run) -> Option<InterimComparison> {
    so_far(run, &Study::from_stored(&run.study).ok()?.study)
}

/// What a run with these settings says so far. Only a budget that is used up, or a plan that is done, ends it without a
/// decision: an interrupted run has none.
pub fn so_far(run: &Run, settings: &Settings) -> Option<InterimComparison> {
    let turns = settings.turns.as_ref()?;
    let name = |id: u32| run.cell(id).map_or_else(String::new, |cell| named(run, cell));
    let planned = (run.planned_trials / TRIALS_OF_BLOCK) as usize;
    let blocks = blocks(run, turns.metric);
    if turns.slices.is_none() {
        let mut found = judge([name(0), name(1)], turns, (settings.seed, planned), blocks)?;
        // more blocks of such trials would not help
        let short_tail = ShortTail::of_cells(turns.metric, [(run, 0), (run, 1)]);
        if let Some(short) = short_tail.filter(|_| found.blocks > 0) {
            (found.verdict, found.next_look) = (Some(short.verdict()), None);
        }
        return Some(found);
    }
    in_builds([name(0), name(1)], turns, (settings.seed, planned), blocks)
}

/// As [`judge`], of slices: by builds. `planned` counts blocks.
fn in_builds(
    names: [String; 2],
    turns: &InterleavedDesign,
    (seed, planned): (u64, usize),
    blocks: Vec<Block>,
) -> Option<InterimComparison> {
    // before builds were counted, all blocks were of one
    let whole = turns.kept_blocks.map_or(blocks.len(), |blocks| blocks as usize).max(1);
    let is_any = !blocks.is_empty();
    let builds = builds(blocks, whole);
    let joined = builds.iter().map(BuildBlocks::joined);
    let mut found = judge(names, turns, (seed, planned / whole), joined)?;
    if turns.kept_blocks.is_none() && is_any {
        let why = Doubt::TooFewTrials { have: 1, need: FIRST_LOOK };
        found.verdict = Some(Verdict::CannotTell { why });
    }
    let differences: Vec<Vec<f64>> = builds.iter().map(BuildBlocks::differences).collect();
    found.kept_blocks = Some(whole);
    found.builds = stats::slices::builds(&differences);
    found.drift = within_builds(&differences);
    Some(found)
}

/// The blocks of one build of both stacks.
struct BuildBlocks(Vec<Block>);

/// Builds all of whose blocks are there. What others cost counts for the build after them.
fn builds(blocks: Vec<Block>, whole: usize) -> Vec<BuildBlocks> {
    let mut builds: BTreeMap<u32, Vec<Block>> = BTreeMap::new();
    for block in blocks {
        builds.entry(block.number / whole as u32).or_default().push(block);
    }
    let mut lost = 0.0;
    let mut found = Vec::new();
    for mut blocks in builds.into_values() {
        if blocks.len() < whole {
            lost += blocks.iter().map(|block| block.seconds).sum::<f64>();
        } else {
            blocks[0].seconds += std::mem::take(&mut lost);
            found.push(BuildBlocks(blocks));
        }
    }
    found
}

impl BuildBlocks {
    /// As one block. The rate of a side is that of all its slices together: they hold equal numbers of operations, so
    /// it is their harmonic mean. Logarithms of short slices have tails that no rule likes.
    fn joined(&self) -> Block {
        let rate = |side: usize| {
            let values = self.0.iter().flat_map(|block| &block.values[side]);
            let (n, times) = values.fold((0.0, 0.0), |(n, times), value| (n + 1.0, times + value.recip()));
            vec![n / times]
        };
        Block {
            number: self.0[0].number,
            values: [rate(0), rate(1)],
            seconds: self.0.iter().map(|block| block.seconds).sum(),
        }
    }

    /// `ln(B/A)` of its blocks.
    fn differences(&self) -> Vec<f64> {
        let of = |block: &Block| block_difference(&block.values[0], &block.values[1]).ok();
        self.0.iter().filter_map(of).collect()
    }
}

/// How the ratio changes from the first to the last block of a build, in the mean of all builds.
fn within_builds(builds: &[Vec<f64>]) -> Option<Drift> {
    let places = builds.iter().map(Vec::len).min()?;
    let mean = |place| builds.iter().map(|build| build[place]).sum::<f64>() / builds.len() as f64;
    drift(&(0..places).map(mean).collect::<Vec<_>>(), Thresholds::default().floor.ln_1p())
}

/// What blocks say so far. The plan is at most `planned` blocks; `seed` is not that of the order, which is the caller's.
pub fn judge(
    names: [String; 2],
    turns: &InterleavedDesign,
    (seed, planned): (u64, usize),
    blocks: impl IntoIterator<Item = Block>,
) -> Option<InterimComparison> {
    let metric = turns.metric;
    let sense = if metric.higher_is_better() { Sense::HigherIsBetter } else { Sense::LowerIsBetter };
    let one_look = turns.one_look;
    let plan = Plan { blocks_max: planned, target: turns.target.0, one_look, ..Plan::default() };
    let mut ab = SequentialTest::new(plan, sense, seed).ok()?;
    let (mut spent, mut all, mut blocks_max) = (0.0, [Vec::new(), Vec::new()], planned);
    let mut verdict = None;
    for block in blocks {
        spent += block.seconds;
        let Ok(difference) = block_difference(&block.values[0], &block.values[1]) else { continue };
        for (all, values) in all.iter_mut().zip(&block.values) {
            all.extend_from_slice(values);
        }
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
    Some(InterimComparison {
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
        would_have_seen: ab.detectable_difference(),
        target: turns.target.0,
        means: [mean(&all[0]), mean(&all[1])],
        seconds: spent,
        kept_blocks: None,
        builds: None,
        drift: None,
    })
}

/// The stack, and the variables where A and B have different ones.
fn named(run: &Run, cell: &study::results::Cell) -> String {
    let own = |other: &study::results::Cell| other.parameters != cell.parameters;
    if !run.cells.iter().any(own) {
        return cell.stack.clone();
    }
    let words: Vec<String> =
        cell.parameters.iter().map(|one| format!("{}={}", one.name, one.value)).collect();
    if words.is_empty() { cell.stack.clone() } else { format!("{} {}", cell.stack, words.join(" ")) }
}

/// Four trials, two of each side; or a build of slices, whose sides have one value each.
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    /// Its place in the plan, from 0.
    pub number: u32,
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
            found.push(Block { number: block, values, seconds });
            seconds = 0.0;
        }
    }
    found
}

#[cfg(test)]
mod tests;
