//! `ab`: looked at again and again.

use stats::rng::SplitMix;
use stats::sequential::{Order, Plan, SequentialTest, State, block_difference};
use stats::symmetric;
use stats::{Sense, Verdict};

use crate::noise::{Noise, at_least, at_most, rounds, series, share};

const NOISES: [Noise; 5] = [Noise::Normal, Noise::T3, Noise::Wild(5), Noise::Memory(0.5), Noise::Drift];

fn plan(blocks_max: usize) -> SequentialTest {
    SequentialTest::new(Plan { blocks_max, ..Plan::default() }, Sense::HigherIsBetter, 0).unwrap()
}

/// The difference of a block in the order drawn: four trials from `y`, B being `effect` better.
fn block(order: Order, y: &[f64], effect: f64) -> f64 {
    let (outer, inner) = ([y[0].exp(), y[3].exp()], [y[1].exp(), y[2].exp()]);
    let (a, b) = if order == Order::Abba { (outer, inner) } else { (inner, outer) };
    block_difference(&a, &b).unwrap() + effect
}

/// Plays a comparison to its end. `sd` is that of a block's difference: of its four trials each the same.
fn play(
    ab: &SequentialTest,
    rng: &mut SplitMix,
    noise: Noise,
    sd: f64,
    effect: f64,
) -> (SequentialTest, Verdict) {
    let mut ab = ab.clone();
    let last = ab.looks().last().map_or(0, |look| look.n);
    let y = series(rng, noise, 4 * last, sd);
    for four in y.chunks_exact(4) {
        let order = if rng.percent(50) { Order::Abba } else { Order::Baab };
        if let State::Decided(verdict) = ab.push(block(order, four, effect)).unwrap() {
            return (ab, verdict);
        }
    }
    panic!("the last look decides");
}

fn differs(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Better | Verdict::Worse)
}

#[test]
fn s11_no_difference() {
    for blocks in [20, 40, 110, 400] {
        let ab = plan(blocks);
        for noise in NOISES {
            let what = format!("ab A/A {noise:?}, at most {blocks} blocks: better or worse");
            at_most(0.05, &what, rounds(2_000), 1_300 + blocks as u64, |rng| {
                differs(play(&ab, rng, noise, 0.05, 0.0).1)
            });
        }
    }
}

#[test]
fn s12_a_difference_is_found() {
    for (ratio, blocks, least) in [(0.5, 40, 0.80), (0.36, 110, 0.90)] {
        let ab = plan(blocks);
        let mut used = 0;
        let rounds = rounds(2_000);
        let what = format!("ab difference {ratio} sigma, at most {blocks} blocks: better");
        at_least(least, &what, rounds, 1_400 + blocks as u64, |rng| {
            let (ab, verdict) = play(&ab, rng, Noise::Normal, 0.05, ratio * 0.05);
            used += ab.n();
            verdict == Verdict::Better
        });
        println!("  mean blocks used {:.1}", used as f64 / rounds as f64);
    }
    let ab = plan(110);
    for wild in [1, 5] {
        let what = format!("ab difference 0.36 sigma, {wild} % of trials wild, at most 110 blocks: better");
        share(&what, rounds(500), 1_450, |rng| {
            play(&ab, rng, Noise::Wild(wild), 0.05, 0.36 * 0.05).1 == Verdict::Better
        });
    }
}

#[test]
fn a_difference_as_large_as_the_target_is_not_the_same() {
    let ab = plan(110);
    for noise in NOISES {
        let what = format!("ab truth at the target, {noise:?}, sigma 2 %: same");
        at_most(0.05, &what, rounds(1_000), 1_500, |rng| {
            play(&ab, rng, noise, 0.02, 1.01f64.ln()).1 == Verdict::Same
        });
    }
}

/// The 90 % interval for *same*, beside the 95 % interval that decides better and worse.
#[test]
fn same_is_found_earlier_by_the_narrower_interval() {
    let ab = plan(110);
    // A target of nothing never says the same, so that each look can be judged by its interval instead.
    let never = Plan { blocks_max: 110, target: 0.0, ..Plan::default() };
    let never = SequentialTest::new(never, Sense::HigherIsBetter, 0).unwrap();
    let (mut used, mut wide_used, mut wide) = (0, 0, 0);
    let rounds = rounds(500);
    let what = "ab A/A, sigma 3 %, target 1 %, at most 110 blocks: same";
    let same = share(what, rounds, 1_510, |rng| {
        let (ab, verdict) = play(&ab, &mut rng.clone(), Noise::Normal, 0.03, 0.0);
        used += ab.n();
        let (n, found) = by_the_wide_interval(&never, rng);
        wide_used += n;
        wide += usize::from(found);
        verdict == Verdict::Same
    });
    println!("  mean blocks used {:.1}", used as f64 / rounds as f64);
    println!(
        "  by the 95 % interval: {:.1} %, mean blocks used {:.1}",
        100.0 * wide as f64 / rounds as f64,
        wide_used as f64 / rounds as f64
    );
    assert!(same * rounds as f64 > wide as f64);
}

/// The same data judged as the same only when the 95 % interval lies inside the target.
fn by_the_wide_interval(never: &SequentialTest, rng: &mut SplitMix) -> (usize, bool) {
    let mut ab = never.clone();
    let y = series(rng, Noise::Normal, 440, 0.03);
    for four in y.chunks_exact(4) {
        let order = if rng.percent(50) { Order::Abba } else { Order::Baab };
        let state = ab.push(block(order, four, 0.0)).unwrap();
        let inside = |i: stats::Interval| i.low >= 1.0 / 1.01 && i.high <= 1.01;
        if ab.looks().iter().any(|look| look.n == ab.n()) && ab.interval().is_some_and(inside) {
            return (ab.n(), true);
        }
        if matches!(state, State::Decided(_)) {
            return (ab.n(), false);
        }
    }
    (110, false)
}

#[test]
fn the_repeated_interval_covers_when_it_stopped() {
    let ab = plan(64);
    for (noise, effect) in [(Noise::Normal, 0.02), (Noise::T3, 0.02), (Noise::Wild(5), 0.0)] {
        let what = format!("ab {noise:?}, truth {effect}: the interval at the end misses");
        at_most(0.05, &what, rounds(1_000), 1_520, |rng| {
            let (ab, _) = play(&ab, rng, noise, 0.05, effect);
            ab.interval().is_some_and(|interval| !interval.contains(effect.exp()))
        });
    }
}

#[test]
fn without_a_budget_nobody_grows_rich_on_nothing() {
    for noise in NOISES {
        let what = format!("e-process A/A {noise:?}, after any of 200 blocks: better or worse");
        at_most(0.05, &what, rounds(1_000), 1_550, |rng| {
            let y = series(rng, noise, 800, 0.05);
            let order = |rng: &mut SplitMix| if rng.percent(50) { Order::Abba } else { Order::Baab };
            let d: Vec<f64> = y.chunks_exact(4).map(|four| block(order(rng), four, 0.0)).collect();
            // The wealth counts at its highest, so one question after the last block asks after each.
            symmetric::log_wealth(&d, 0.0).unwrap() >= 20f64.ln()
        });
    }
    at_least(0.70, "e-process, 0.36 sigma, 110 blocks: better", rounds(1_000), 1_560, |rng| {
        let y = series(rng, Noise::Normal, 440, 0.05);
        let d: Vec<f64> = y.chunks_exact(4).map(|four| block(Order::Abba, four, 0.018)).collect();
        symmetric::decide(&d, Sense::HigherIsBetter, 0.05).unwrap() == Some(Verdict::Better)
    });
    at_most(0.05, "e-process interval after 60 blocks misses", rounds(200), 1_570, |rng| {
        let y = series(rng, Noise::T3, 240, 0.05);
        let d: Vec<f64> = y.chunks_exact(4).map(|four| block(Order::Abba, four, 0.018)).collect();
        symmetric::interval(&d, 0.05).unwrap().is_some_and(|i| !i.contains(0.018f64.exp()))
    });
}
