//! Slices, and shares of the best.

use stats::compleat::Grade;
use stats::effect::Effect;
use stats::judge::Thresholds;
use stats::rng::SplitMix;
use stats::sequential::{Plan, SequentialTest, State};
use stats::shares::StackResult;
use stats::slices::{BLOCKS, Slice, SliceComparison, SliceValidity, compare, differences, trust};
use stats::{Sense, Verdict};

use crate::noise::{Noise, at_least, at_most, normal, pairs, rounds, series, share};

/// 400 pairs of slices in noise with memory and stalls, B costing `cost` times as much, more by `ageing` at the end.
/// A part `carried` of what B costs more is paid in the turn of A.
fn slices(rng: &mut SplitMix, cost: f64, ageing: f64, carried: f64) -> Vec<Slice> {
    let y = series(rng, Noise::Memory(0.9), 800, 0.30);
    let mut all = Vec::new();
    for (pair, two) in y.chunks_exact(2).enumerate() {
        let more = (cost - 1.0) + ageing * pair as f64 / 400.0;
        let first = rng.percent(50);
        for (i, y) in two.iter().enumerate() {
            let candidate = (i == 0) == first;
            let stall = if rng.below(1_000) < 3 { 2.0 } else { 0.0 };
            let own = if candidate { 1.0 + more * (1.0 - carried) } else { 1.0 + more * carried };
            let seconds = 0.02 * (own * y.exp() * (0.05 * normal(rng)).exp() + stall);
            all.push(Slice { candidate, operations: 50, seconds });
        }
    }
    all
}

fn judged(slices: &[Slice]) -> SliceComparison {
    compare(slices, BLOCKS, &Thresholds::default()).unwrap()
}

#[test]
fn slices_without_a_difference() {
    at_most(0.05, "slices A/A in 20 blocks: better or worse", rounds(500), 1_800, |rng| {
        matches!(judged(&slices(rng, 1.0, 0.0, 0.0)).finding.verdict, Verdict::Better | Verdict::Worse)
    });
    at_most(0.02, "slices A/A in 20 blocks: called ageing", rounds(500), 1_801, |rng| {
        judged(&slices(rng, 1.0, 0.0, 0.0)).drift.is_some()
    });
    share("slices A/A in 20 blocks: same", rounds(500), 1_802, |rng| {
        judged(&slices(rng, 1.0, 0.0, 0.0)).finding.verdict == Verdict::Same
    });
}

#[test]
fn slices_find_a_difference_and_ageing() {
    at_least(0.80, "slices, B costs 10 % more: worse", rounds(300), 1_810, |rng| {
        judged(&slices(rng, 1.1, 0.0, 0.0)).finding.verdict == Verdict::Worse
    });
    at_least(0.80, "slices, B ages by 40 %: reported", rounds(300), 1_811, |rng| {
        judged(&slices(rng, 1.0, 0.4, 0.0)).drift.is_some()
    });
}

#[test]
fn slices_that_pay_for_each_other_are_refused() {
    let trusted = |rng: &mut SplitMix, carried: f64| {
        let by_slices = differences(&slices(rng, 1.1, 0.0, carried), BLOCKS).unwrap();
        let whole = pairs(rng, Noise::Normal, 40, 0.04, -(1.1f64.ln()));
        matches!(trust(&by_slices, &whole).unwrap(), SliceValidity::Trusted { .. })
    };
    at_most(0.05, "planted 10 %, half of it carried over: trusted", rounds(300), 1_820, |rng| {
        trusted(rng, 0.5)
    });
    share("planted 10 %, nothing carried over: trusted", rounds(300), 1_821, |rng| trusted(rng, 0.0));
}

/// What builds of the same stack are supposed to differ by, and blocks of one build.
const BUILD_SD: f64 = 0.03;
const BLOCK_SD: f64 = 0.02;
/// Builds of a comparison, and blocks of each.
const BUILDS: usize = 12;
const KEPT: usize = 4;

/// `ln(B/A)` of the blocks of a build, the truth being `effect`.
fn build(rng: &mut SplitMix, effect: f64) -> Vec<f64> {
    let own = BUILD_SD * normal(rng);
    (0..KEPT).map(|_| effect + own + BLOCK_SD * normal(rng)).collect()
}

/// Builds judged in sequence, as `ab` judges slices; the same within 5 %.
fn by_builds(ab: &SequentialTest, rng: &mut SplitMix, effect: f64) -> Verdict {
    let mut ab = ab.clone();
    for _ in 0..BUILDS {
        let blocks = build(rng, effect);
        let mean = blocks.iter().sum::<f64>() / KEPT as f64;
        if let State::Decided(verdict) = ab.push(mean).unwrap() {
            return verdict;
        }
    }
    panic!("the last look decides");
}

#[test]
fn builds_are_judged_and_not_the_slices_of_one() {
    let plan = Plan { blocks_max: BUILDS, target: 0.05, ..Plan::default() };
    let ab = SequentialTest::new(plan, Sense::HigherIsBetter, 0).unwrap();
    let differs = |verdict: Verdict| matches!(verdict, Verdict::Better | Verdict::Worse);
    at_most(
        0.05,
        "slices of 12 builds that differ by 3 %, A/A: better or worse",
        rounds(2_000),
        1_850,
        |rng| differs(by_builds(&ab, rng, 0.0)),
    );
    at_least(0.90, "slices of 12 builds, A/A: same within 5 %", rounds(2_000), 1_851, |rng| {
        by_builds(&ab, rng, 0.0) == Verdict::Same
    });
    at_least(0.95, "slices of 12 builds, 10 % more: better", rounds(2_000), 1_852, |rng| {
        by_builds(&ab, rng, 1.1f64.ln()) == Verdict::Better
    });
    share("as many slices of one build, A/A: better or worse", rounds(2_000), 1_853, |rng| {
        let own = BUILD_SD * normal(rng);
        let blocks: Vec<f64> = (0..BUILDS).map(|_| own + BLOCK_SD * normal(rng)).collect();
        let effect = Effect::of_differences(&blocks).unwrap();
        differs(stats::judge::judge(&effect, Sense::HigherIsBetter, &Thresholds::default()).verdict)
    });
}

/// Stacks of which the first has `share` of the others, each in 10 blocks of its own noise.
fn standing(rng: &mut SplitMix, stacks: usize, truth: f64, sd: f64) -> StackResult {
    let noise = |rng: &mut SplitMix| (0..10).map(|_| sd * normal(rng)).collect::<Vec<_>>();
    let own = noise(rng);
    let effect = |_| {
        let other = noise(rng);
        let d: Vec<f64> = own.iter().zip(&other).map(|(x, y)| truth.ln() + x - y).collect();
        Effect::of_differences(&d).unwrap()
    };
    StackResult::against(&(1..stacks).map(effect).collect::<Vec<_>>())
}

#[test]
fn equal_stacks_are_not_called_less_than_good() {
    for (stacks, sd) in [(4, 0.16), (8, 0.35)] {
        let what = format!("{stacks} equal stacks, sd {sd}: one called middle or bad");
        at_most(0.05, &what, rounds(1_000), 1_830, |rng| {
            matches!(standing(rng, stacks, 1.0, sd).grade(0.05), Some(Grade::Middle | Grade::Bad))
        });
        // The same by shares of the best median.
        share("  by shares of the best median: not good", rounds(1_000), 1_830, |rng| {
            let mut medians = || {
                let mut y: Vec<f64> = (0..10).map(|_| sd * normal(rng)).collect();
                y.sort_unstable_by(f64::total_cmp);
                Some(y[4].midpoint(y[5]).exp())
            };
            let medians: Vec<_> = (0..stacks).map(|_| medians()).collect();
            stats::compleat::shares_of_best(&medians, Sense::HigherIsBetter)[0].is_some_and(|s| s < 0.85)
        });
    }
    at_most(0.05, "share 0.85 of the best, 4 stacks: good", rounds(1_000), 1_840, |rng| {
        standing(rng, 4, 0.85, 0.08).grade(0.05) == Some(Grade::Good)
    });
    at_most(0.05, "share 0.30 of the best, 4 stacks: bad", rounds(1_000), 1_841, |rng| {
        standing(rng, 4, 0.30, 0.08).grade(0.05) == Some(Grade::Bad)
    });
    share("share 1.00, 4 stacks, sd 0.08: good", rounds(1_000), 1_842, |rng| {
        standing(rng, 4, 1.0, 0.08).grade(0.05) == Some(Grade::Good)
    });
}
