//! Load curves: from which offered rate on a system no longer keeps up.
//!
//! An open loop offers a rate, step by step. Below the capacity the achieved rate equals the offered one; above it the
//! achieved rate stays where it is, and the queue grows as long as the step lasts. Three figures follow:
//!
//! | figure | is |
//! |---|---|
//! | plateau | the mean achieved rate of the steps that failed |
//! | knee | the `c` for which `min(offered, c)` fits the achieved rates best (least squares) |
//! | capacity under a limit | the highest rate up to which a quantile of the latency is below a limit |
//!
//! The knee is read off *achieved against offered*, never off the latency: a knee of a latency curve moves with the highest
//! rate that was measured (its axes are normalised by it), and a latency above the capacity measures the length of the step.
//! For the same reason only the steps up to the second one that fails are used: what was measured beyond has no influence.

use crate::histogram::Histogram;
use crate::interval::{Estimate, Interval};
use crate::rng::SplitMix;
use crate::{normal, student};

/// A step that achieves surely less than this share of what was offered fails.
pub const SHARE_MIN: f64 = 0.99;
/// So many failing steps are used, and so many end a sweep: one can be chance, a third one tells nothing new.
pub const FAILING_MAX: usize = 2;
/// Seconds, of all trials of a step together, below which nothing is said about it.
pub const SECONDS_MIN: usize = 3;
/// Resamples of the interval: its ends then err by about a tenth of a standard deviation.
const RESAMPLES: usize = 1_000;
/// Seed of the resampling: the same data give the same interval.
const SEED: u64 = 0x5eed_c0de;

/// One offered rate and what came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Operations a second that were offered; above 0.
    pub offered: f64,
    /// For each trial the operations of each whole second.
    pub trials: Vec<Vec<f64>>,
}

/// What became of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepOutcome {
    /// The offered rate was achieved, or it is not sure that it was not.
    Up,
    /// It was not: the 95 % upper bound of achieved over offered lies below [`SHARE_MIN`].
    Behind,
    /// Too few seconds to say.
    Unknown,
}

/// The figures of a curve. What could not be found is `None`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Knee {
    /// Mean achieved rate of the failing steps.
    pub plateau: Option<Estimate>,
    /// Where the achieved rate leaves the offered one.
    pub knee: Option<Estimate>,
}

impl Step {
    fn seconds(&self) -> impl Iterator<Item = f64> + '_ {
        self.trials.iter().flatten().copied()
    }

    /// Mean achieved rate, in operations a second; `None` without a whole second.
    pub fn achieved(&self) -> Option<f64> {
        mean(self.seconds())
    }

    /// Whether the system kept up.
    pub fn outcome(&self) -> StepOutcome {
        let n = self.seconds().count();
        let Some(achieved) = self.achieved().filter(|_| n >= SECONDS_MIN && self.offered > 0.0) else {
            return StepOutcome::Unknown;
        };
        let squares: f64 = self.seconds().map(|second| (second - achieved).powi(2)).sum();
        let error = (squares / (n - 1) as f64 / n as f64).sqrt();
        let upper = achieved + student::quantile(0.95, (n - 1) as f64) * error;
        if upper / self.offered < SHARE_MIN { StepOutcome::Behind } else { StepOutcome::Up }
    }
}

/// The knee and the plateau of a curve, with 95 % intervals. The steps may come in any order.
///
/// The interval is a bootstrap over the seconds of each step in blocks (neighbouring seconds are alike; Kuensch, "The
/// jackknife and the bootstrap for general stationary observations", 1989), over whole trials where a step has three or
/// more, stretched for the small number of independent pieces.
pub fn knee(steps: &[Step]) -> Knee {
    let mut used: Vec<&Step> = steps.iter().filter(|step| step.outcome() != StepOutcome::Unknown).collect();
    used.sort_by(|a, b| a.offered.total_cmp(&b.offered));
    let mut failing = 0;
    used.retain(|step| {
        let wanted = failing < FAILING_MAX;
        failing += usize::from(step.outcome() == StepOutcome::Behind);
        wanted
    });
    if failing == 0 {
        return Knee::default();
    }
    let behind: Vec<bool> = used.iter().map(|step| step.outcome() == StepOutcome::Behind).collect();
    let of = |achieved: &[f64]| -> (f64, f64) {
        let points: Vec<(f64, f64)> =
            used.iter().zip(achieved).map(|(step, achieved)| (step.offered, *achieved)).collect();
        let late = achieved.iter().zip(&behind).filter(|(_, behind)| **behind).map(|(value, _)| *value);
        (fit(&points), mean(late).unwrap_or(0.0))
    };
    let measured: Vec<f64> = used.iter().map(|step| step.achieved().unwrap_or(0.0)).collect();
    let (knee, plateau) = of(&measured);
    let mut rng = SplitMix::new(SEED);
    let (mut knees, mut plateaus) = (Vec::new(), Vec::new());
    for _ in 0..RESAMPLES {
        let drawn: Vec<f64> = used.iter().map(|step| resampled(step, &mut rng)).collect();
        let (knee, plateau) = of(&drawn);
        knees.push(knee);
        plateaus.push(plateau);
    }
    // a failing step is a stack of its own, so that it counts as one piece at least
    let pieces: usize =
        used.iter().zip(&behind).filter(|(_, behind)| **behind).map(|(step, _)| pieces(step)).sum();
    let stretch = stretch(pieces);
    Knee { plateau: Some(estimate(plateau, plateaus, stretch)), knee: Some(estimate(knee, knees, stretch)) }
}

/// Independent pieces of a step: its trials when they are resampled, else blocks of seconds.
fn pieces(step: &Step) -> usize {
    if resamples_trials(step) {
        return step.trials.len();
    }
    step.trials.iter().map(|trial| trial.len().div_ceil(block(trial.len()))).sum()
}

/// What a percentile interval of `n` pieces lacks: Student's t instead of the normal quantile, and `n - 1` for `n`.
fn stretch(n: usize) -> f64 {
    let n = n.max(2) as f64;
    student::quantile(0.975, n - 1.0) / normal::quantile(0.975) * (n / (n - 1.0)).sqrt()
}

fn resamples_trials(step: &Step) -> bool {
    step.trials.len() >= 3
}

/// Length of a block of `n` seconds: the cube root is of the right order (Kuensch 1989).
fn block(n: usize) -> usize {
    ((n as f64).cbrt().round() as usize).max(1)
}

/// The mean of a resampled step.
fn resampled(step: &Step, rng: &mut SplitMix) -> f64 {
    let (mut sum, mut n) = (0.0, 0usize);
    for at in 0..step.trials.len() {
        let trial = if resamples_trials(step) {
            &step.trials[rng.below(step.trials.len())]
        } else {
            &step.trials[at]
        };
        let (length, mut missing) = (block(trial.len()), trial.len());
        while missing > 0 {
            let from = rng.below(trial.len());
            let take = length.min(missing);
            // round the corner, so that every second is as likely as every other one
            sum += (0..take).map(|k| trial[(from + k) % trial.len()]).sum::<f64>();
            missing -= take;
        }
        n += trial.len();
    }
    if n == 0 { 0.0 } else { sum / n as f64 }
}

/// The `c` of `min(offered, c)` with the least squares. Points by offered rate.
///
/// With the first `k` points below `c`, the best `c` is the mean achieved rate of the others, as far as it lies between
/// the points; the best of all `k` is the answer.
fn fit(points: &[(f64, f64)]) -> f64 {
    let mut best = (f64::INFINITY, 0.0);
    for k in 0..points.len() {
        let low = if k == 0 { 0.0 } else { points[k - 1].0 };
        let Some(level) = mean(points[k..].iter().map(|(_, achieved)| *achieved)) else { continue };
        let c = level.clamp(low, points[k].0);
        let misfit: f64 = points.iter().map(|(offered, achieved)| (achieved - offered.min(c)).powi(2)).sum();
        if misfit < best.0 {
            best = (misfit, c);
        }
    }
    best.1
}

fn estimate(value: f64, mut drawn: Vec<f64>, stretch: f64) -> Estimate {
    drawn.sort_unstable_by(f64::total_cmp);
    let end = |p: f64| {
        let rank = (p * (drawn.len() - 1) as f64).round() as usize;
        value + (drawn[rank] - value) * stretch
    };
    let (low, high) = (end(0.025).min(value).max(0.0), end(0.975).max(value));
    Estimate { value, interval: Interval { low, high, level: 0.95, coverage: 0.95 } }
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, n) = values.fold((0.0, 0u64), |(sum, n), value| (sum + value, n + 1));
    (n > 0).then(|| sum / n as f64)
}

/// A one-sided 95 % upper bound of quantile `q` (0 to 1) by order statistics (normal approximation of the binomial): the
/// value of a rank so high that the true quantile lies below it in 95 of 100 cases. `None` when there are too few values
/// for such a rank. Values are taken as independent.
pub fn quantile_upper(values: &Histogram, q: f64) -> Option<u64> {
    let n = values.count() as f64;
    if n < 1.0 {
        return None;
    }
    let rank = q + normal::quantile(0.95) * (q * (1.0 - q) / n).sqrt() + 1.0 / n;
    (rank <= 1.0).then(|| values.quantile(rank)).flatten()
}

/// The highest rate that holds a limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct HighestRate {
    /// The highest offered rate that held it, as did all below.
    pub at: Option<f64>,
    /// The lowest one that did not, or of which it is not sure.
    pub not_at: Option<f64>,
}

/// Up to which offered rate quantile `q` of the latency is `limit_ns` or less, in every trial of every step up to it, at a
/// one-sided 95 %. A step: its rate, whether the system kept up, a histogram for each trial.
pub fn held<'h>(
    steps: impl IntoIterator<Item = (f64, StepOutcome, Vec<&'h Histogram>)>,
    q: f64,
    limit_ns: u64,
) -> HighestRate {
    let mut steps: Vec<_> = steps.into_iter().collect();
    steps.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut held = HighestRate::default();
    for (offered, kept, trials) in steps {
        let within = |trial: &&Histogram| quantile_upper(trial, q).is_some_and(|upper| upper <= limit_ns);
        if kept == StepOutcome::Behind || trials.is_empty() || !trials.iter().all(within) {
            held.not_at = Some(offered);
            break;
        }
        held.at = Some(offered);
    }
    held
}

#[cfg(test)]
mod tests;
