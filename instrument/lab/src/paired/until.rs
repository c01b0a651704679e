//! Two commands in blocks of four runs, A B B A or B A A B by lot, until it is decided which is the faster.

use std::process::Command;
use std::time::{Duration, Instant};

use analysis::turns::{Block, InterimComparison, judge};
use stats::rng::SplitMix;
use study::turns::{InterleavedDesign, TRIALS_OF_BLOCK};

use super::PairedError;
use super::compare::{Conditions, last_line};
use super::trial::TrialSetup;

/// How the commands are compared.
#[derive(Debug, Clone, Copy)]
pub struct ComparisonSpec<'a> {
    /// Lines for the shell: A and B.
    pub lines: [&'a str; 2],
    /// Under what each of them runs.
    pub conditions: &'a Conditions,
    /// Budget and target.
    pub turns: &'a InterleavedDesign,
    /// Of the order within blocks.
    pub seed: u64,
}

/// What came of it.
#[derive(Debug)]
pub struct ComparisonOutcome {
    /// What the blocks say; without a verdict when it was interrupted.
    pub so_far: InterimComparison,
    /// All blocks.
    pub blocks: Vec<Block>,
}

/// Runs both commands in turns; once before, to warm up, unless every run is to be cold. `tell` hears of each block.
///
/// # Errors
/// A command cannot be started or fails, or [`PairedError::Interrupted`] before the first block is whole.
pub fn compare_until_decided(
    setting: TrialSetup<'_>,
    contest: ComparisonSpec<'_>,
    tell: &mut dyn FnMut(&InterimComparison),
) -> Result<ComparisonOutcome, PairedError> {
    let ComparisonSpec { lines, conditions, turns, seed } = contest;
    let names = lines.map(str::to_string);
    let planned = (turns.trials_max(0.0) / TRIALS_OF_BLOCK) as usize;
    let said = |blocks: &[Block]| judge(names.clone(), turns, (seed, planned), blocks.iter().cloned());
    if !conditions.cold {
        for side in [0, 1] {
            seconds(setting, conditions, lines, side)?;
        }
    }
    let mut coins = SplitMix::new(seed);
    let mut blocks = Vec::new();
    loop {
        let first = usize::from(coins.percent(50));
        match block(setting, conditions, lines, first) {
            Err(PairedError::Interrupted) if !blocks.is_empty() => {
                let so_far = said(&blocks).ok_or(PairedError::Interrupted)?;
                return Ok(ComparisonOutcome { so_far, blocks });
            }
            block => blocks.push(Block { number: blocks.len() as u32, ..block? }),
        }
        let so_far = said(&blocks)
            .ok_or_else(|| PairedError::Program("a run took no time that could be measured".into()))?;
        tell(&so_far);
        if so_far.verdict.is_some() {
            return Ok(ComparisonOutcome { so_far, blocks });
        }
    }
}

fn block(
    setting: TrialSetup<'_>,
    conditions: &Conditions,
    lines: [&str; 2],
    first: usize,
) -> Result<Block, PairedError> {
    let begin = Instant::now();
    let mut values = [Vec::new(), Vec::new()];
    for side in [first, 1 - first, 1 - first, first] {
        values[side].push(seconds(setting, conditions, lines, side)?);
    }
    Ok(Block { number: 0, values, seconds: begin.elapsed().as_secs_f64() })
}

/// Wall seconds of one run.
fn seconds(
    setting: TrialSetup<'_>,
    conditions: &Conditions,
    lines: [&str; 2],
    side: usize,
) -> Result<f64, PairedError> {
    conditions.apply(setting.stop)?;
    let group = conditions.memory.map(|bytes| setting.group(Some(bytes))).transpose()?;
    let mut shell = Command::new("sh");
    shell.args(["-c", lines[side]]);
    let ran = setting.run(&mut shell, group, Duration::MAX)?;
    if !ran.status.success() {
        let why = last_line(&setting.last_errors()).map_or_else(String::new, |line| format!(": {line}"));
        let name = ["A", "B"][side];
        return Err(PairedError::Program(format!("{name} (`{}`): {}{why}", lines[side], ran.status)));
    }
    Ok(ran.run.wall_seconds)
}
