//! `ab`: two candidates in turns until it is decided, with a budget.
//!
//! A block is ABBA or BAAB by a fair coin: a linear drift cancels within it, and if A and B do not differ its sign is a fair
//! coin, whatever tails, memory or drift the noise has. The signed-rank test is looked at after 8, 10, 13, ... blocks
//! against the boundaries of [`crate::spending`]; looking often is paid for. The interval inverts the same test
//! (Jennison & Turnbull, "Interim Analyses: the Repeated Confidence Interval Approach", J. Royal Statistical Society B
//! 51(3), 1989), so it is valid at every look, also at the one where it stopped.
//!
//! - **better, worse**: the repeated 95 % interval excludes 1.
//! - **same**: the repeated 90 % interval lies inside the target: two one-sided tests at 5 %, both over all looks.
//! - **cannot tell**: the budget is used up.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::effect::moments;
use crate::interval::Interval;
use crate::judge::{direction, of_ratio, ratio};
use crate::rng::SplitMix;
use crate::sample::{SampleError, Sense, median_of_sorted};
use crate::signed_rank::{deviation, pairs, signed_rank_sum, walsh_averages};
use crate::spending::{FIRST_LOOK, Look, boundaries, looks};
use crate::verdict::{Doubt, Verdict};

/// Most blocks that a plan may have: the interval takes memory for the square of their number.
pub const BLOCKS_MAX: usize = 5_000;

/// What is planned before the first block.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Plan {
    /// Most blocks that the budget allows (8 ..= 5,000): budget over the cost of a block.
    pub blocks_max: usize,
    /// Chance, over all looks, of better or worse where there is no difference. Default 0.05.
    pub alpha: f64,
    /// A difference smaller than this is the same: 0.01 (default) reads 1 %.
    pub target: f64,
    /// Look once, at the end: nothing that is seen ends it before, so the estimate is not drawn to the side on which it stopped,
    /// and the interval is as narrow as the budget allows. Default: no.
    pub one_look: bool,
}

impl Default for Plan {
    fn default() -> Self {
        Plan { blocks_max: 110, alpha: 0.05, target: 0.01, one_look: false }
    }
}

/// Why a plan cannot be followed.
#[derive(Debug, Clone, Copy, PartialEq, Error)]
pub enum PlanError {
    /// No error rate.
    #[error("an error rate of {0} cannot be kept: more than 0 and less than 0.5 is wanted")]
    Alpha(f64),
    /// No difference.
    #[error("a target of {0} is no relative difference: 0 or more is wanted")]
    Target(f64),
}

/// The order of a block's four trials.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// A, B, B, A.
    Abba,
    /// B, A, A, B.
    Baab,
}

/// Whether to go on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum State {
    /// Another block; the next look is after so many.
    GoOn {
        /// Blocks at the next look.
        next_look: usize,
    },
    /// It is decided.
    Decided(Verdict),
}

/// A comparison in progress.
#[derive(Debug, Clone)]
pub struct SequentialTest {
    plan: Plan,
    sense: Sense,
    coins: SplitMix,
    differences: Vec<f64>,
    /// Boundaries of the test, and those of the two one-sided tests at the same looks.
    differ: Vec<Look>,
    same: Vec<Look>,
    /// Looks made.
    made: usize,
    decided: Option<Verdict>,
}

impl SequentialTest {
    /// Starts a comparison; `seed` throws the coins of [`SequentialTest::order`]. Fewer than 8 or more than 5,000 blocks become 8
    /// and 5,000.
    ///
    /// # Errors
    /// When `alpha` is no error rate or `target` no relative difference.
    pub fn new(plan: Plan, sense: Sense, seed: u64) -> Result<Self, PlanError> {
        if !(plan.alpha > 0.0 && plan.alpha < 0.5) {
            return Err(PlanError::Alpha(plan.alpha));
        }
        if !(plan.target >= 0.0 && plan.target.is_finite()) {
            return Err(PlanError::Target(plan.target));
        }
        let plan = Plan { blocks_max: plan.blocks_max.clamp(FIRST_LOOK, BLOCKS_MAX), ..plan };
        let mut ab = SequentialTest {
            plan,
            sense,
            coins: SplitMix::new(seed),
            differences: Vec::new(),
            differ: Vec::new(),
            same: Vec::new(),
            made: 0,
            decided: None,
        };
        ab.schedule(ab.planned());
        Ok(ab)
    }

    /// The order of the next block's trials, by lot.
    pub fn order(&mut self) -> Order {
        if self.coins.percent(50) { Order::Abba } else { Order::Baab }
    }

    /// Adds a block's `ln(B/A)` ([`block_difference`]) and looks, if it is time to. Once decided, further blocks
    /// change nothing.
    ///
    /// # Errors
    /// When the difference is not finite.
    pub fn push(&mut self, difference: f64) -> Result<State, SampleError> {
        if !difference.is_finite() {
            return Err(SampleError::NotFinite { position: self.differences.len(), value: difference });
        }
        if self.decided.is_none() {
            self.differences.push(difference);
            self.look();
        }
        Ok(self.state())
    }

    /// Whether to go on, without a new block.
    pub fn state(&self) -> State {
        match (self.decided, self.differ.get(self.made)) {
            (Some(verdict), _) => State::Decided(verdict),
            (None, next) => State::GoOn { next_look: next.map_or(self.plan.blocks_max, |look| look.n) },
        }
    }

    /// A new estimate of how many blocks the budget allows. It may depend on what blocks cost, never on what they showed.
    /// Looks already made stand, with what they spent.
    pub fn replan(&mut self, blocks_max: usize) {
        let done = self.differences.len();
        let last = blocks_max.clamp(FIRST_LOOK, BLOCKS_MAX).max(done + 1);
        if self.decided.is_none() && last != self.plan.blocks_max {
            self.plan.blocks_max = last;
            self.schedule(self.planned().into_iter().filter(|n| *n > done).collect());
        }
    }

    /// The budget is used up: the last look is now, with all the error that is left. Not before 8 blocks, nor
    /// because of what the blocks showed.
    pub fn finish(&mut self) -> State {
        let n = self.differences.len();
        if self.decided.is_none() {
            let looked = self.made > 0 && self.differ[self.made - 1].n == n;
            if n < FIRST_LOOK || looked {
                self.decided = Some(self.cannot_tell());
            } else {
                self.plan.blocks_max = n;
                self.schedule(vec![n]);
                self.look();
            }
        }
        self.state()
    }

    /// Blocks so far.
    pub fn n(&self) -> usize {
        self.differences.len()
    }

    /// The Hodges-Lehmann estimate of B/A; 1 before the first block.
    pub fn ratio(&self) -> f64 {
        ratio(median_of_sorted(&walsh_averages(&self.differences)))
    }

    /// The repeated interval of B/A at the last look. `None` before a look whose boundary so few blocks could cross.
    pub fn interval(&self) -> Option<Interval> {
        repeated(&self.differences, *self.last(&self.differ)?, 1.0 - self.plan.alpha).map(of_ratio)
    }

    /// The smallest relative difference that would have been seen four times of five: `h (1 + 0.84 / z)`, with `h` the half
    /// width of the last interval. `None` where there is none.
    pub fn detectable_difference(&self) -> Option<f64> {
        let look = *self.last(&self.differ)?;
        let half = repeated(&self.differences, look, 1.0 - self.plan.alpha)?.half_width();
        Some(ratio(half * (1.0 + 0.84 / look.z)) - 1.0)
    }

    /// Looks made and to come, with their boundaries.
    pub fn looks(&self) -> &[Look] {
        &self.differ
    }

    fn last<'a>(&self, of: &'a [Look]) -> Option<&'a Look> {
        of.get(self.made.checked_sub(1)?)
    }

    /// After how many blocks to look.
    fn planned(&self) -> Vec<usize> {
        if self.plan.one_look { vec![self.plan.blocks_max] } else { looks(self.plan.blocks_max) }
    }

    /// Keeps the looks made, plans those to come.
    fn schedule(&mut self, at: Vec<usize>) {
        self.differ = boundaries(&self.differ[..self.made], &at, self.plan.alpha);
        self.same = boundaries(&self.same[..self.made], &at, 2.0 * self.plan.alpha);
    }

    fn look(&mut self) {
        let Some(look) = self.differ.get(self.made).copied() else { return };
        if look.n != self.differences.len() {
            return;
        }
        let target = self.plan.target.ln_1p();
        let beyond = |theta: f64, z: f64| {
            let score = signed_rank_sum(&self.differences, theta);
            if (score.abs() - 1.0) / deviation(look.n) >= z { score } else { 0.0 }
        };
        let effect = beyond(0.0, look.z);
        let one_sided = self.same[self.made].z;
        self.decided = if effect != 0.0 {
            Some(direction(effect, self.sense))
        } else if beyond(-target, one_sided) > 0.0 && beyond(target, one_sided) < 0.0 {
            Some(Verdict::Same)
        } else {
            None
        };
        self.made += 1;
        if self.decided.is_none() && self.made == self.differ.len() {
            self.decided = Some(self.cannot_tell());
        }
    }

    /// How many blocks would bring the interval down to the target, by the inverse square-root law.
    fn cannot_tell(&self) -> Verdict {
        let have = self.differences.len();
        let too_few = Doubt::TooFewTrials { have, need: FIRST_LOOK };
        if have < FIRST_LOOK {
            return Verdict::CannotTell { why: too_few };
        }
        let (mean, variance) = moments(&self.differences);
        let z = self.differ.last().map_or(2.0, |look| look.z);
        let half = z * (variance / have as f64).sqrt();
        let room = mean.abs().max(self.plan.target.ln_1p() - mean.abs()).max(1e-3);
        let guess = (have as f64 * (half / room).powi(2)).ceil();
        let trials = guess.clamp(have as f64 + 1.0, 1e6) as usize;
        Verdict::CannotTell { why: Doubt::TooMuchVariance { half_width: ratio(half) - 1.0, trials } }
    }
}

/// A block's `ln(B/A)` from its trials: mean of the logarithms of B less that of A, which cancels a linear drift.
///
/// # Errors
/// When a value is not finite or not above 0, or a side has none.
pub fn block_difference(a: &[f64], b: &[f64]) -> Result<f64, SampleError> {
    let mean = |values: &[f64]| crate::history::Summary::of_values(values).map(|summary| summary.mean);
    Ok(mean(b)? - mean(a)?)
}

/// The values that the test at this look does not reject: the Walsh averages without
/// `n(n+1)/4 - 1/2 - z sqrt(n(n+1)(2n+1)/24)` at each end. `None` where the test can reject nothing.
fn repeated(differences: &[f64], look: Look, level: f64) -> Option<Interval> {
    let differences = &differences[..look.n.min(differences.len())];
    let n = differences.len();
    let trim = (pairs(n) as f64 - 1.0 - look.z * deviation(n)) / 2.0;
    if n == 0 || trim < 0.0 {
        return None;
    }
    let (averages, trim) = (walsh_averages(differences), trim.floor() as usize);
    let (low, high) = (averages[trim], averages[averages.len() - 1 - trim]);
    Some(Interval { low, high, level, coverage: level })
}

#[cfg(test)]
mod tests;
