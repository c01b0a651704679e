//! How much a machine's runs differ from each other although nothing was changed: learned from its history.
//!
//! Model: `y = mu + run + trial`, on the logarithmic scale. The variance of a run's mean is `tau^2 + s^2 / n`: more trials
//! shrink the second part only. `tau` is pooled over groups of like runs and shrunk towards a prior:
//!
//! ```text
//! SS    = max(0, sum over groups g of w_g [ sum_r (y_r - mean_g)^2 - (k_g - 1) mean_r s_r^2 ])
//! nu    = nu0 + sum_g w_g (k_g - 1)
//! tau^2 = (nu0 tau0^2 + SS) / nu
//! ```
//!
//! The scaled inverse chi-square prior and its pooling: Smyth, "Linear Models and Empirical Bayes Methods", Statistical
//! Applications in Genetics 3(1), 2004; Gelman, "Prior Distributions for Variance Parameters", Bayesian Analysis
//! 1(3), 2006. Repetition at the level of runs: Kalibera & Jones, "Rigorous Benchmarking in Reasonable Time", ISMM 2013.

use serde::{Deserialize, Serialize};

use crate::change;
use crate::effect::{check, moments};
use crate::sample::SampleError;

/// Most recent runs of a group that count.
pub const RUNS_MAX: usize = 50;
/// Runs older than this do not count, in days.
pub const AGE_MAX: f64 = 90.0;
/// Weight of other workloads on the machine, until the own group has [`OWN_ENOUGH`] runs; then 0.
pub const OTHERS_WEIGHT: f64 = 0.5;
/// Runs of the own group from which other workloads are not asked any more.
pub const OWN_ENOUGH: usize = 5;

/// A run's trials of one cell, on the logarithmic scale.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Mean of `ln(value)`, or of the differences from an anchor.
    pub mean: f64,
    /// Variance of one trial within the run, `s^2`.
    pub variance: f64,
    /// Trials.
    pub n: usize,
}

impl Summary {
    /// Of logarithms.
    ///
    /// # Errors
    /// When there is none, or one is not finite.
    pub fn of_logs(logs: &[f64]) -> Result<Summary, SampleError> {
        let n = check(logs)?;
        let (mean, variance) = moments(logs);
        Ok(Summary { mean, variance, n })
    }

    /// Of values above 0.
    ///
    /// # Errors
    /// When there is none, or one is not finite or not above 0.
    pub fn of_values(values: &[f64]) -> Result<Summary, SampleError> {
        check(values)?;
        match values.iter().find(|v| **v <= 0.0) {
            Some(bad) => Err(SampleError::NotPositive(*bad)),
            None => Summary::of_logs(&values.iter().map(|v| v.ln()).collect::<Vec<_>>()),
        }
    }

    /// Variance of the mean from the trials alone.
    pub fn of_mean(&self) -> f64 {
        self.variance / self.n.max(1) as f64
    }
}

/// A run of the past.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PastRun {
    /// Its trials.
    pub summary: Summary,
    /// Days before now.
    pub age_days: f64,
    /// The machine was disturbed ([`crate::machine::disturbed`]): the run says nothing of quiet ones.
    pub flagged: bool,
}

/// Like runs, oldest first: same machine, boot class, workload, parameters, stack and seconds a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Group {
    /// Whether it is the workload to be judged, or another one on the same machine.
    pub own: bool,
    /// The runs.
    pub runs: Vec<PastRun>,
}

/// What is supposed of a machine without history. The figures are judgement, not measurement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Prior {
    /// Standard deviation between runs.
    pub tau: f64,
    /// What the supposition is worth, in degrees of freedom.
    pub degrees: f64,
}

impl Prior {
    /// A virtual machine: 3 %.
    pub const VIRTUAL: Prior = Prior { tau: 0.03, degrees: 4.0 };
    /// Bare metal: 1.5 %.
    pub const BARE_METAL: Prior = Prior { tau: 0.015, degrees: 4.0 };
    /// Runs on different boots: 5 %.
    pub const ACROSS_BOOTS: Prior = Prior { tau: 0.05, degrees: 4.0 };
}

/// The spread between runs of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Standard deviation between runs, on the logarithmic scale.
    pub tau: f64,
    /// Degrees of freedom of `tau^2`.
    pub degrees: f64,
    /// Past runs that it rests on.
    pub runs: usize,
}

impl Spread {
    /// No spread between runs: for values that an anchor has freed of it.
    pub const NONE: Spread = Spread { tau: 0.0, degrees: 1.0, runs: 0 };

    /// Learns the spread. A group of ten or more runs is split where its level changed ([`change::points`], seeded), so
    /// that an improvement of the past is not taken for noise.
    pub fn learn(groups: &[Group], prior: Prior) -> Spread {
        let recent: Vec<(bool, Vec<Summary>)> = groups.iter().map(|g| (g.own, recent(g))).collect();
        let own: usize = recent.iter().filter(|g| g.0).map(|g| g.1.len()).sum();
        let (mut squares, mut degrees, mut runs) = (0.0, 0.0, 0);
        for (is_own, group) in &recent {
            let weight = match is_own {
                true => 1.0,
                false if own < OWN_ENOUGH => OTHERS_WEIGHT,
                false => continue,
            };
            for level in levels(group) {
                let (sum, more) = excess(level);
                squares += weight * sum;
                degrees += weight * more;
                runs += if more > 0.0 { level.len() } else { 0 };
            }
        }
        let nu = prior.degrees + degrees;
        let variance = (prior.degrees * prior.tau * prior.tau + squares.max(0.0)) / nu;
        Spread { tau: variance.sqrt(), degrees: nu, runs }
    }
}

/// The runs of a group that count, oldest first.
fn recent(group: &Group) -> Vec<Summary> {
    let usable = |run: &&PastRun| !run.flagged && run.age_days <= AGE_MAX && run.summary.mean.is_finite();
    let runs: Vec<Summary> = group.runs.iter().filter(usable).map(|run| run.summary).collect();
    runs[runs.len().saturating_sub(RUNS_MAX)..].to_vec()
}

/// The group, cut at its change points.
fn levels(group: &[Summary]) -> Vec<&[Summary]> {
    let series: Vec<f64> = group.iter().map(|run| run.mean).collect();
    let found = change::points(&series, &[], change::SEED).unwrap_or_default();
    let cuts = found.iter().filter(|c| c.standing == change::ChangeStatus::Reported).map(|c| c.at);
    let ends: Vec<usize> = std::iter::once(0).chain(cuts).chain([group.len()]).collect();
    ends.windows(2).map(|ends| &group[ends[0]..ends[1]]).collect()
}

/// Squares beyond what the trials explain, and their degrees of freedom; nothing from a single run.
fn excess(runs: &[Summary]) -> (f64, f64) {
    if runs.len() < 2 {
        return (0.0, 0.0);
    }
    let means: Vec<f64> = runs.iter().map(|run| run.mean).collect();
    let degrees = (runs.len() - 1) as f64;
    let explained = runs.iter().map(Summary::of_mean).sum::<f64>() / runs.len() as f64;
    (degrees * (moments(&means).1 - explained), degrees)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(own: bool, means: &[f64]) -> Group {
        let past = |mean: &f64| PastRun {
            summary: Summary { mean: *mean, variance: 0.0, n: 5 },
            age_days: 1.0,
            flagged: false,
        };
        Group { own, runs: means.iter().map(past).collect() }
    }

    #[test]
    fn prior_alone_and_formula_by_hand() {
        let prior = Prior::VIRTUAL;
        assert_eq!(Spread::learn(&[], prior), Spread { tau: 0.03, degrees: 4.0, runs: 0 });
        assert_eq!(Spread::learn(&[group(true, &[0.1])], prior).degrees, 4.0, "one run says nothing");
        let two = Spread::learn(&[group(true, &[0.0, 0.1])], prior);
        assert!((two.tau.powi(2) - (4.0 * 0.0009 + 0.005) / 5.0).abs() < 1e-12 && two.degrees == 5.0);
    }

    #[test]
    fn noise_of_the_trials_is_not_the_machines() {
        let mut noisy = group(true, &[0.0, 0.02, -0.02, 0.01]);
        noisy.runs.iter_mut().for_each(|run| run.summary.variance = 0.05);
        let spread = Spread::learn(&[noisy], Prior::VIRTUAL);
        assert!((spread.tau.powi(2) - 4.0 * 0.0009 / 7.0).abs() < 1e-12, "{spread:?}");
    }

    #[test]
    fn others_count_half_until_the_own_runs_suffice() {
        let others = group(false, &[0.0, 0.1, 0.2]);
        assert_eq!(Spread::learn(std::slice::from_ref(&others), Prior::VIRTUAL).degrees, 5.0);
        let own = group(true, &[0.0; 5]);
        assert_eq!(Spread::learn(&[others, own], Prior::VIRTUAL).degrees, 8.0);
    }

    #[test]
    fn old_flagged_and_changed_runs_do_not_widen_it() {
        let mut mixed = group(true, &[0.0, 0.5, 0.0, 0.9, 0.0]);
        (mixed.runs[1].flagged, mixed.runs[3].age_days) = (true, 91.0);
        assert_eq!(Spread::learn(&[mixed], Prior::VIRTUAL).runs, 3);
        let wobble = |i: usize| 0.01 * ((i * 7 % 5) as f64 - 2.0);
        let stepped: Vec<f64> = (0..24).map(|i| wobble(i) + if i < 12 { 0.0 } else { 0.3 }).collect();
        let spread = Spread::learn(&[group(true, &stepped)], Prior::VIRTUAL);
        assert!(spread.tau < 0.025 && spread.degrees == 26.0, "{spread:?}");
    }

    #[test]
    fn summaries_of_bad_values_are_errors() {
        assert_eq!(Summary::of_values(&[1.0, -1.0]), Err(SampleError::NotPositive(-1.0)));
        assert_eq!(Summary::of_values(&[]), Err(SampleError::Empty));
        let summary = Summary::of_values(&[1.0, std::f64::consts::E]).unwrap();
        assert_eq!((summary.mean, summary.variance, summary.of_mean()), (0.5, 0.5, 0.25));
    }
}
