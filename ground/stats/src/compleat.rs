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

/// Shares of the best per stack: `medians[workload][stack]` becomes `[stack][workload]`, the rows that
/// [`is_compleat`] takes. `senses[workload]`; a missing one means higher is better, a missing median
/// means not available.
pub fn shares_by_stack(medians: &[Vec<Option<f64>>], senses: &[Sense]) -> Vec<Vec<Option<f64>>> {
    let stacks = medians.iter().map(Vec::len).max().unwrap_or(0);
    let sense_of = |workload: usize| senses.get(workload).copied().unwrap_or(Sense::HigherIsBetter);
    let columns: Vec<Vec<Option<f64>>> =
        medians.iter().enumerate().map(|(w, row)| shares_of_best(row, sense_of(w))).collect();
    (0..stacks).map(|s| columns.iter().map(|column| column.get(s).copied().flatten()).collect()).collect()
}

/// Judges one stack's shares over all workloads: compleat if none is bad and more than half are good.
/// Missing results make it [`Compleat::Unknown`] unless no value of theirs could change the answer.
pub fn is_compleat(shares: &[Option<f64>]) -> Compleat {
    let count = |wanted: Grade| shares.iter().flatten().filter(|s| grade(**s) == wanted).count();
    let missing = shares.iter().filter(|s| s.is_none()).count();
    let most = |good: usize| 2 * good > shares.len();
    let good = count(Grade::Good);
    if count(Grade::Bad) > 0 || !most(good + missing) {
        return if shares.is_empty() { Compleat::Unknown } else { Compleat::No };
    }
    if missing == 0 { Compleat::Yes } else { Compleat::Unknown }
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

    #[test]
    fn a_matrix_is_turned_into_rows_of_stacks() {
        let medians = vec![vec![Some(10.0), Some(5.0)], vec![Some(4.0), Some(2.0)], vec![Some(1.0)]];
        let senses = [Sense::HigherIsBetter, Sense::LowerIsBetter];
        let rows = shares_by_stack(&medians, &senses);
        assert_eq!(rows, [[Some(1.0), Some(0.5), Some(1.0)], [Some(0.5), Some(1.0), None]]);
        assert!(shares_by_stack(&[], &[]).is_empty());
    }

    #[test]
    fn compleat_needs_most_good_and_none_bad() {
        let judge = |shares: &[f64]| is_compleat(&shares.iter().map(|s| Some(*s)).collect::<Vec<_>>());
        assert_eq!(judge(&[1.0, 0.9, 0.5]), Compleat::Yes);
        assert_eq!(judge(&[1.0, 0.9, 0.29]), Compleat::No);
        assert_eq!(judge(&[1.0, 0.5]), Compleat::No, "half is not most");
        assert_eq!(judge(&[]), Compleat::Unknown);
    }

    #[test]
    fn missing_results_leave_it_open_only_while_they_matter() {
        assert_eq!(is_compleat(&[Some(1.0), Some(0.9), None]), Compleat::Unknown, "it may be bad");
        assert_eq!(is_compleat(&[Some(0.2), None, None]), Compleat::No);
        assert_eq!(is_compleat(&[Some(0.5), Some(0.5), Some(0.9), None]), Compleat::No, "2 of 4 at most");
        assert_eq!(is_compleat(&[None, None]), Compleat::Unknown);
    }
}
