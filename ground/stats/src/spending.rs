//! Boundaries of a test that is looked at several times.
//!
//! Lan & DeMets, "Discrete Sequential Boundaries for Clinical Trials", Biometrika 70(3), 1983: by the share `t` of the
//! planned blocks, `alpha t^rho` of the error may have been spent, with `rho` = 1.5 (Kim & DeMets, Biometrika 74(1),
//! 1987): between Pocock, who spends early, and O'Brien & Fleming, who spend late. The statistic is a sum over
//! blocks; scaled, it behaves as Brownian motion at time `n` (number of blocks). The chance of crossing at a look and
//! not before comes from carrying the density of those that have not crossed from look to look (Armitage, McPherson &
//! Rowe, J. Royal Statistical Society A 132(2), 1969).

use std::f64::consts::PI;

use crate::normal;

/// Power of the spending function.
pub const POWER: f64 = 1.5;
/// First look, in blocks: fewer cannot cross any boundary in use.
pub const FIRST_LOOK: usize = 8;
/// Ratio of the blocks at one look to those at the look before.
pub const LOOK_RATIO: f64 = 1.3;
/// A look so close before the last one is left out.
const LAST_RATIO: f64 = 1.15;
/// Intervals of the grid on which the density is carried; even, for Simpson's rule.
const GRID: usize = 240;
/// A boundary so far out is never crossed.
const NEVER: f64 = 8.0;

/// A look at the data.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Look {
    /// After so many blocks.
    pub n: usize,
    /// The absolute normal score at which it is decided.
    pub z: f64,
}

/// After how many blocks to look when at most `blocks_max` are planned: 8, then 1.3 times as many, the last at the end.
pub fn looks(blocks_max: usize) -> Vec<usize> {
    let last = blocks_max.max(FIRST_LOOK);
    let next = |n: &usize| Some((*n as f64 * LOOK_RATIO).round() as usize);
    let mut looks: Vec<usize> = std::iter::successors(Some(FIRST_LOOK), next)
        .take_while(|n| *n as f64 * LAST_RATIO < last as f64)
        .collect();
    looks.push(last);
    looks
}

/// The boundaries for looks after `at` blocks each (ascending), two-sided error `alpha` in all. Looks in `past` are kept as
/// they were; their boundaries may come from another plan, and what they spent is counted. The last look spends
/// what is left.
pub fn boundaries(past: &[Look], at: &[usize], alpha: f64) -> Vec<Look> {
    let mut walk = Walk::new();
    past.iter().for_each(|look| walk.pass(*look));
    let last = at.last().copied().unwrap_or(FIRST_LOOK).max(1) as f64;
    let mut all = past.to_vec();
    for &n in at {
        let allowed = alpha * (n as f64 / last).min(1.0).powf(POWER);
        let look = Look { n, z: walk.boundary(n, allowed - walk.spent) };
        walk.pass(look);
        all.push(look);
    }
    all
}

/// Brownian motion at the last look, among those paths that have not crossed.
struct Walk {
    n: usize,
    spent: f64,
    /// Place, and density times weight of Simpson's rule.
    masses: Vec<(f64, f64)>,
}

impl Walk {
    fn new() -> Self {
        Walk { n: 0, spent: 0.0, masses: vec![(0.0, 1.0)] }
    }

    /// Chance of lying beyond `z` at look `n`, not having crossed before.
    fn crossing_probability(&self, n: usize, z: f64) -> f64 {
        let (end, step) = (z * (n as f64).sqrt(), self.step(n));
        // The masses lie symmetrically, so both sides are twice one side; what lies further off than 9 does not cross.
        let near =
            self.masses.iter().map(|(place, mass)| ((place - end) / step, mass)).filter(|m| m.0 > -9.0);
        near.map(|(score, mass)| 2.0 * mass * normal::cdf(score)).sum()
    }

    /// The `z` at look `n` that spends `allowed`, by bisection.
    fn boundary(&self, n: usize, allowed: f64) -> f64 {
        let (mut low, mut high) = (0.0, NEVER);
        if allowed <= self.crossing_probability(n, high) {
            return NEVER;
        }
        for _ in 0..40 {
            let middle = f64::midpoint(low, high);
            if self.crossing_probability(n, middle) > allowed { low = middle } else { high = middle }
        }
        high
    }

    /// Takes the walk to the look, without those that cross there.
    fn pass(&mut self, look: Look) {
        self.spent += self.crossing_probability(look.n, look.z);
        let (end, step) = (look.z * (look.n as f64).sqrt(), self.step(look.n));
        let width = 2.0 * end / GRID as f64;
        let density = |place: f64| {
            let from = |(before, mass): &(f64, f64)| mass * (-0.5 * ((place - before) / step).powi(2)).exp();
            self.masses.iter().map(from).sum::<f64>() / (step * (2.0 * PI).sqrt())
        };
        let simpson = |i: usize| match i {
            0 | GRID => width / 3.0,
            _ if i % 2 == 1 => 4.0 * width / 3.0,
            _ => 2.0 * width / 3.0,
        };
        self.masses = (0..=GRID)
            .map(|i| {
                let place = -end + i as f64 * width;
                (place, density(place) * simpson(i))
            })
            .collect();
        self.n = look.n;
    }

    fn step(&self, n: usize) -> f64 {
        (n.saturating_sub(self.n).max(1) as f64).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(blocks_max: usize, alpha: f64) -> Vec<Look> {
        boundaries(&[], &looks(blocks_max), alpha)
    }

    #[test]
    fn looks_grow_by_a_third_and_end_at_the_budget() {
        assert_eq!(looks(110), [8, 10, 13, 17, 22, 29, 38, 49, 64, 83, 110]);
        assert_eq!(looks(40), [8, 10, 13, 17, 22, 29, 40]);
        assert_eq!((looks(0), looks(9)), (vec![8], vec![9]));
    }

    #[test]
    fn one_look_is_the_fixed_test() {
        assert!((plan(8, 0.05)[0].z - 1.959_964).abs() < 1e-5);
        assert!((plan(8, 0.10)[0].z - 1.644_854).abs() < 1e-5);
    }

    #[test]
    fn the_whole_error_is_spent_and_no_more() {
        for blocks in [20, 40, 110, 400] {
            let mut walk = Walk::new();
            for look in plan(blocks, 0.05) {
                walk.pass(look);
                let allowed = 0.05 * (look.n as f64 / blocks as f64).powf(POWER);
                assert!((walk.spent - allowed).abs() < 1e-6, "{blocks}: {look:?} {}", walk.spent);
            }
            let left: f64 = walk.masses.iter().map(|m| m.1).sum();
            assert!((left - 0.95).abs() < 1e-4, "{blocks}: {left}");
        }
    }

    #[test]
    fn a_longer_plan_keeps_the_looks_already_made() {
        let first = plan(40, 0.05);
        let later = boundaries(&first[..3], &[17, 22, 29, 38, 49, 64], 0.05);
        assert_eq!(later[..3], first[..3]);
        assert!(later[3].z > first[3].z, "the plan is longer, so less may have been spent");
        let mut walk = Walk::new();
        later.iter().for_each(|look| walk.pass(*look));
        assert!((walk.spent - 0.05).abs() < 1e-6);
    }
}
