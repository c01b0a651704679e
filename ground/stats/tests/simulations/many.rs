//! Many verdicts in a report, and the history of many runs.

use stats::change::{self, ChangeStatus};
use stats::effect::Effect;
use stats::family::judge_together;
use stats::judge::Thresholds;
use stats::rng::SplitMix;
use stats::{Sense, Verdict};

use crate::noise::{Noise, at_least, at_most, normal, rounds, series, share};

/// Twenty cells with a common baseline, `real` of them 10 % better: how many were called different, and how many of
/// these rightly.
fn report(rng: &mut SplitMix, blocks: usize, real: usize) -> (usize, usize) {
    let noise =
        |rng: &mut SplitMix| (0..blocks).map(|_| 0.05 / 2f64.sqrt() * normal(rng)).collect::<Vec<_>>();
    let base = noise(rng);
    let cell = |i: usize| {
        let effect = if i < real { 1.1f64.ln() } else { 0.0 };
        let d: Vec<f64> = noise(rng).iter().zip(&base).map(|(y, base)| y - base + effect).collect();
        (Effect::of_differences(&d).unwrap(), Sense::HigherIsBetter)
    };
    let cells: Vec<_> = (0..20).map(cell).collect();
    let judged = judge_together(&cells, &Thresholds::default());
    let called = |i: &usize| matches!(judged[*i].finding.verdict, Verdict::Better | Verdict::Worse);
    ((0..20).filter(called).count(), (0..real).filter(called).count())
}

#[test]
fn s13_twenty_cells_without_a_difference() {
    for blocks in [5, 8, 10] {
        at_most(0.06, &format!("20 null cells, {blocks} blocks: any"), rounds(2_000), 1_600, |rng| {
            report(rng, blocks, 0).0 > 0
        });
    }
}

#[test]
fn a_fifth_real_among_twenty_is_found_and_few_others() {
    for (blocks, power) in [(5, 0.3), (6, 0.5), (8, 0.4), (10, 0.85)] {
        let mut rng = SplitMix::new(1_650);
        let (mut found, mut false_share) = (0, 0.0);
        let rounds = rounds(500);
        for _ in 0..rounds {
            let (called, right) = report(&mut rng, blocks, 5);
            found += right;
            false_share += (called - right) as f64 / called.max(1) as f64;
        }
        let (found, fdr) = (found as f64 / (5 * rounds) as f64, false_share / rounds as f64);
        println!(
            "5 of 20 cells real, {blocks} blocks: found {:.1} %, false among called {:.1} %",
            100.0 * found,
            100.0 * fdr
        );
        assert!(found >= power && fdr <= 0.055, "{blocks} blocks: {found} {fdr}");
    }
}

fn changed(points: &[f64]) -> bool {
    change::points(points, &[], change::SEED).unwrap().iter().any(|c| c.standing == ChangeStatus::Reported)
}

#[test]
fn s14_change_points() {
    for n in [10, 20, 50, 100] {
        for noise in [Noise::Normal, Noise::T3] {
            let what = format!("{n} independent points, {noise:?}: any change");
            at_most(0.03, &what, rounds(2_000), 1_700 + n as u64, |rng| {
                changed(&series(rng, noise, n, 0.05))
            });
        }
    }
    for n in [20, 100] {
        let what = format!("{n} points, AR 0.3: any change");
        at_most(0.15, &what, rounds(2_000), 1_750 + n as u64, |rng| {
            changed(&series(rng, Noise::Memory(0.3), n, 0.05))
        });
    }
    for (sds, n, last, least) in [(3.0, 30, 5, 0.88), (2.0, 30, 5, 0.5), (3.0, 20, 3, 0.5)] {
        let what = format!("{sds} sd, {n} points, last {last}: found to +-1");
        at_least(least, &what, rounds(2_000), 1_790, |rng| {
            let mut points = series(rng, Noise::Normal, n, 0.05);
            points[n - last..].iter_mut().for_each(|y| *y += sds * 0.05);
            let found = change::points(&points, &[], change::SEED).unwrap();
            found.iter().any(|c| c.standing != ChangeStatus::Spike && c.at.abs_diff(n - last) <= 1)
        });
    }
    share("3 sd for 8 of 40 points, then back: both found to +-1", rounds(400), 1_795, |rng| {
        let mut points = series(rng, Noise::Normal, 40, 0.05);
        points[16..24].iter_mut().for_each(|y| *y += 0.15);
        let found = change::points(&points, &[], change::SEED).unwrap();
        [16usize, 24].iter().all(|at| found.iter().any(|c| c.at.abs_diff(*at) <= 1))
    });
}
