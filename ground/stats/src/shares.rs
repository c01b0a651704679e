//! How near a stack comes to the best one, with error rates: good, bad, none below 30 %, most at 85 %, compleat.
//!
//! A share of the best *median* is biased: the best of several equal stacks is partly the luckiest, so equal ones
//! look worse than they are. Here a stack is compared with *every* other one within blocks. It is at 85 % of the best exactly
//! if it is at 85 % of each, so "good" needs no adjustment for choosing the best (intersection-union), and "bad" needs
//! Holm's, since any one of the others can show it. The thresholds are those of [`crate::compleat`].

use serde::{Deserialize, Serialize};

use crate::compleat::{BAD, Compleat, GOOD, Grade};
use crate::effect::{Effect, FEWEST};
use crate::judge::ratio;
use crate::many::{intersection_union, partial_conjunction};

/// One stack on one workload, against all others. Each p-value is small where its sentence holds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StackResult {
    /// Estimated share of the best, at most 1: the smallest of the ratios to the others.
    pub share: f64,
    /// "85 % of the best or more."
    pub p_good: f64,
    /// "Less than 85 % of the best."
    pub p_not_good: f64,
    /// "Less than 30 % of the best."
    pub p_bad: f64,
    /// "30 % of the best or more."
    pub p_not_bad: f64,
}

impl StackResult {
    /// From the effects `ln(this/other)` against each other stack, turned so that higher is better. Without others, or
    /// with one of fewer than 3 blocks, nothing is shown: all p-values are 1.
    pub fn against(others: &[Effect]) -> StackResult {
        let estimate = others.iter().map(Effect::estimate).fold(0.0, f64::min);
        let share = ratio(estimate);
        if others.is_empty() || others.iter().any(|effect| effect.n() < FEWEST) {
            return StackResult { share, p_good: 1.0, p_not_good: 1.0, p_bad: 1.0, p_not_bad: 1.0 };
        }
        let all_above = |theta: f64| intersection_union(&each(others, |effect| effect.p_above(theta)));
        let any_below = |theta: f64| partial_conjunction(&each(others, |effect| effect.p_below(theta)), 1);
        StackResult {
            share,
            p_good: all_above(GOOD.ln()),
            p_not_good: any_below(GOOD.ln()),
            p_bad: any_below(BAD.ln()),
            p_not_bad: all_above(BAD.ln()),
        }
    }

    /// The grade, if it is shown: `Middle` needs both of its ends shown. `None`: cannot tell.
    pub fn grade(&self, alpha: f64) -> Option<Grade> {
        if self.p_good <= alpha {
            return Some(Grade::Good);
        }
        if self.p_bad <= alpha {
            return Some(Grade::Bad);
        }
        (self.p_not_good.max(self.p_not_bad) <= alpha).then_some(Grade::Middle)
    }
}

fn each(effects: &[Effect], p: impl Fn(&Effect) -> f64) -> Vec<f64> {
    effects.iter().map(p).collect()
}

/// A sentence about several cells, tested both ways.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// Small where the claim holds.
    pub p_holds: f64,
    /// Small where it does not.
    pub p_fails: f64,
}

impl Claim {
    /// Supported, refuted, or `None`: cannot tell.
    pub fn verdict(&self, alpha: f64) -> Option<bool> {
        if self.p_holds <= alpha { Some(true) } else { (self.p_fails <= alpha).then_some(false) }
    }
}

/// "On no workload below 30 % of the best": every cell must show it; any cell can refute it.
pub fn none_below(cells: &[StackResult]) -> Claim {
    let of = |p: fn(&StackResult) -> f64| cells.iter().map(p).collect::<Vec<_>>();
    Claim {
        p_holds: intersection_union(&of(|c| c.p_not_bad)),
        p_fails: partial_conjunction(&of(|c| c.p_bad), 1),
    }
}

/// "On at least `u` of these workloads at 85 % of the best". Refuted when more than `m - u` of the `m` are shown to be
/// below.
pub fn at_least_good(cells: &[StackResult], u: usize) -> Claim {
    let of = |p: fn(&StackResult) -> f64| cells.iter().map(p).collect::<Vec<_>>();
    let below = (cells.len() + 1).saturating_sub(u);
    Claim {
        p_holds: partial_conjunction(&of(|c| c.p_good), u),
        p_fails: if u == 0 { 1.0 } else { partial_conjunction(&of(|c| c.p_not_good), below) },
    }
}

/// "No workload is bad, and more than half are good." It holds when both sentences do, and fails when one does, at twice the
/// p-value, since there are two ways to fail.
pub fn compleat_claim(cells: &[StackResult]) -> Claim {
    let (none, most) = (none_below(cells), at_least_good(cells, cells.len() / 2 + 1));
    let p_fails = (2.0 * none.p_fails.min(most.p_fails)).min(1.0);
    Claim { p_holds: none.p_holds.max(most.p_holds), p_fails }
}

/// Whether a stack is compleat: [`compleat_claim`] at `alpha`.
pub fn compleat(cells: &[StackResult], alpha: f64) -> Compleat {
    match compleat_claim(cells).verdict(alpha).filter(|_| !cells.is_empty()) {
        Some(true) => Compleat::Yes,
        Some(false) => Compleat::No,
        None => Compleat::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten blocks around a ratio, a little off each.
    fn around(ratio: f64) -> Effect {
        let d: Vec<f64> = (0..10).map(|i| ratio.ln() + 0.004 * (f64::from(i) - 4.5)).collect();
        Effect::of_differences(&d).unwrap()
    }

    fn standing(ratios: &[f64]) -> StackResult {
        StackResult::against(&ratios.iter().map(|r| around(*r)).collect::<Vec<_>>())
    }

    #[test]
    fn grades_follow_the_worst_comparison() {
        assert_eq!(standing(&[1.0, 1.2, 0.95]).grade(0.05), Some(Grade::Good));
        assert_eq!(standing(&[1.0, 0.5]).grade(0.05), Some(Grade::Middle));
        assert_eq!(standing(&[0.9, 0.2]).grade(0.05), Some(Grade::Bad));
        assert_eq!(standing(&[0.85]).grade(0.05), None, "on the threshold nothing is shown");
        assert!((standing(&[0.9, 0.5]).share - 0.5).abs() < 1e-9 && standing(&[2.0]).share == 1.0);
    }

    #[test]
    fn nothing_is_shown_by_nothing() {
        let none = StackResult::against(&[]);
        assert_eq!((none.grade(0.05), none.share), (None, 1.0));
        let two = Effect::of_differences(&[0.0, 0.0]).unwrap();
        assert_eq!(StackResult::against(&[around(1.0), two]).grade(0.05), None);
        assert_eq!(compleat(&[], 0.05), Compleat::Unknown);
        assert_eq!(none_below(&[]).verdict(0.05), None);
    }

    #[test]
    fn claims_are_supported_refuted_or_open() {
        let (good, middle, bad, open) =
            (standing(&[1.0]), standing(&[0.5]), standing(&[0.1]), standing(&[0.85]));
        assert_eq!(none_below(&[good, middle]).verdict(0.05), Some(true));
        assert_eq!(none_below(&[good, bad]).verdict(0.05), Some(false));
        assert_eq!(at_least_good(&[good, good, middle], 2).verdict(0.05), Some(true));
        assert_eq!(at_least_good(&[good, middle, middle], 2).verdict(0.05), Some(false));
        assert_eq!(at_least_good(&[good, open, middle], 2).verdict(0.05), None);
        assert_eq!(at_least_good(&[bad], 0).verdict(0.05), Some(true));
        assert_eq!(compleat(&[good, good, middle], 0.05), Compleat::Yes);
        assert_eq!(compleat(&[good, good, bad], 0.05), Compleat::No);
        assert_eq!(compleat(&[good, middle], 0.05), Compleat::No, "half is not most");
        assert_eq!(compleat(&[good, open], 0.05), Compleat::Unknown);
    }
}
