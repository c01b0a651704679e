//! Is a file system compleat: good at everything, bad at nothing?
//!
//! After Jiao et al., "BetrFS: A Compleat File System for Commodity SSDs" (EuroSys 2022): a
//! result within 15 % of the best file system is good, one below 30 % of the best is bad.

use serde::{Deserialize, Serialize};

use crate::sample::Sense;

/// Share of the best result from which a result is good.
pub const GOOD: f64 = 0.85;
/// Share of the best result below which a result is bad.
pub const BAD: f64 = 0.30;

/// Grade of one result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grade {
    /// At least 85 % of the best.
    Good,
    /// Between.
    Middle,
    /// Below 30 % of the best.
    Bad,
}

/// Whether a stack is compleat on a set of workloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Compleat {
    /// No workload bad, more than half good.
    Yes,
    /// A workload is bad, or half or more cannot be good.
    No,
    /// Missing results could decide either way.
    Unknown,
}

/// Grade of a share of the best.
pub fn grade(share: f64) -> Grade {
    if share >= GOOD {
        Grade::Good
    } else if share < BAD {
        Grade::Bad
    } else {
        Grade::Middle
    }
}

/// Shares of the best, 0..=1, of one workload's medians on several stacks (`None`: not available).
///
/// For latencies and times the share is `best / value`, so that twice the time is a share of 0.5.
/// Values that are negative or not finite count as not available. A result
/// equal to the best has share 1 even if both are 0; where lower is better and the best is 0, all
/// others have share 0.
pub fn shares_of_best(medians: &[Option<f64>], sense: Sense) -> Vec<Option<f64>> {
    let usable = |v: &Option<f64>| v.filter(|v| v.is_finite() && *v >= 0.0);
    let known = medians.iter().filter_map(usable);
    let best = match sense {
        Sense::HigherIsBetter => known.reduce(f64::max),
        Sense::LowerIsBetter => known.reduce(f64::min),
    };
    let Some(best) = best else { return vec![None; medians.len()] };
    let share = |value: f64| match sense {
        _ if value == best => 1.0,
        Sense::HigherIsBetter => value / best,
        Sense::LowerIsBetter => best / value,
    };
    medians.iter().map(|v| usable(v).map(share)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grades_at_the_thresholds() {
        let grades = [1.0, 0.85, 0.849, 0.30, 0.299, 0.0].map(grade);
        use Grade::{Bad, Good, Middle};
        assert_eq!(grades, [Good, Good, Middle, Middle, Bad, Bad]);
    }

    #[test]
    fn shares_follow_the_sense() {
        let medians = [Some(50.0), None, Some(100.0), Some(f64::NAN)];
        assert_eq!(shares_of_best(&medians, Sense::HigherIsBetter), [Some(0.5), None, Some(1.0), None]);
        assert_eq!(shares_of_best(&medians, Sense::LowerIsBetter), [Some(1.0), None, Some(0.5), None]);
        assert_eq!(shares_of_best(&[None], Sense::LowerIsBetter), [None]);
        let zero = [Some(0.0), Some(5.0)];
        assert_eq!(shares_of_best(&zero, Sense::LowerIsBetter), [Some(1.0), Some(0.0)]);
        assert_eq!(shares_of_best(&[Some(0.0); 2], Sense::HigherIsBetter), [Some(1.0); 2]);
    }
}
