//! Within a run.

use stats::effect::Effect;
use stats::judge::{Finding, Thresholds, judge};
use stats::rng::SplitMix;
use stats::signed_rank::{Null, pairs as walsh_pairs};
use stats::{Sense, Verdict};

use crate::noise::{Noise, at_least, at_most, pairs, rounds, share};

const NOISES: [Noise; 5] = [Noise::Normal, Noise::T3, Noise::Wild(10), Noise::TwoModes, Noise::Memory(0.5)];

fn found(differences: &[f64]) -> Finding {
    let effect = Effect::of_differences(differences).unwrap();
    judge(&effect, Sense::HigherIsBetter, &Thresholds::default())
}

fn differs(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Better | Verdict::Worse)
}

#[test]
fn s01_no_difference_in_few_blocks() {
    for noise in NOISES {
        for n in 3..=7 {
            let what = format!("A/A {noise:?}, {n} blocks: better or worse");
            at_most(0.055, &what, rounds(2_000), 100 + n as u64, |rng| {
                differs(found(&pairs(rng, noise, n, 0.05, 0.0)).verdict)
            });
        }
    }
}

#[test]
fn s02_no_difference_in_many_blocks() {
    for noise in NOISES {
        for n in [8, 10, 12, 20] {
            let what = format!("A/A {noise:?}, {n} blocks: better or worse");
            at_most(0.05, &what, rounds(2_000), 200 + n as u64, |rng| {
                differs(found(&pairs(rng, noise, n, 0.05, 0.0)).verdict)
            });
        }
    }
}

/// Two equal directories of one tmpfs, and of one emulated drive, whose trials are taken in turns: a block scatters by so much.
const IN_TURNS: [f64; 2] = [0.024, 0.007];

#[test]
fn s02b_a_difference_of_the_floor_or_less_is_seldom_called() {
    let floor = Thresholds::default().floor.ln_1p();
    for sigma in IN_TURNS {
        for n in [5, 6, 8, 12] {
            let what = |of: &str| format!("{of}, sigma {:.1} %, {n} blocks: better or worse", sigma * 100.0);
            at_most(0.03, &what("A/A"), rounds(2_000), 220 + n as u64, |rng| {
                differs(found(&pairs(rng, Noise::Normal, n, sigma, 0.0)).verdict)
            });
            at_most(0.055, &what("truth at the floor"), rounds(2_000), 240 + n as u64, |rng| {
                differs(found(&pairs(rng, Noise::Normal, n, sigma, floor)).verdict)
            });
        }
    }
}

#[test]
fn s03_coverage_of_the_walsh_intervals() {
    // n, k and coverage at 95 %, k and coverage at 90 %.
    let table = [
        (6, 1, 96.88, 3, 90.62),
        (7, 3, 95.31, 4, 92.19),
        (8, 4, 96.09, 6, 92.19),
        (9, 6, 96.09, 9, 90.23),
        (10, 9, 95.12, 11, 91.60),
        (11, 11, 95.80, 14, 91.70),
        (12, 14, 95.75, 18, 90.77),
        (13, 18, 95.21, 22, 90.58),
        (14, 22, 95.06, 26, 90.94),
        (15, 26, 95.21, 31, 90.54),
        (16, 30, 95.57, 36, 90.66),
        (17, 35, 95.52, 42, 90.16),
        (18, 41, 95.17, 48, 90.13),
        (19, 47, 95.06, 54, 90.45),
        (20, 53, 95.16, 61, 90.27),
    ];
    for (n, k95, cover95, k90, cover90) in table {
        let null = Null::new(n);
        for (level, k, cover) in [(0.95, k95, cover95), (0.90, k90, cover90)] {
            let (got, coverage) = null.ends(level);
            assert_eq!(got, k, "n = {n}, {level}");
            assert!((100.0 * coverage - cover).abs() < 0.006, "n = {n}, {level}: {coverage}");
        }
    }
    assert_eq!(Null::new(5).ends(0.90), (1, 0.9375));
}

#[test]
fn s03_coverage_by_every_pattern_of_signs() {
    for n in 1..=12usize {
        let null = Null::new(n);
        let mut at_most = vec![0u32; walsh_pairs(n) + 1];
        for signs in 0u32..1 << n {
            let sum: usize = (0..n).filter(|i| signs >> i & 1 == 1).map(|i| i + 1).sum();
            at_most[sum..].iter_mut().for_each(|count| *count += 1);
        }
        for (w, count) in at_most.iter().enumerate() {
            let exact = f64::from(*count) / f64::from(1u32 << n);
            assert!((null.at_most(w) - exact).abs() < 1e-12, "n = {n}, w = {w}");
        }
    }
    println!("signed-rank law equals all 2^n patterns of signs for n = 1..12");
}

#[test]
fn s04_ten_percent_is_found() {
    let truth = 1.10f64.ln();
    for (n, least) in [(5, 0.8), (8, 0.95)] {
        let what = format!("truth 1.10, sigma 5 %, {n} blocks: better");
        at_least(least, &what, rounds(2_000), 400 + n as u64, |rng| {
            found(&pairs(rng, Noise::Normal, n, 0.05, truth)).verdict == Verdict::Better
        });
        let what = format!("truth 1.10, sigma 5 %, {n} blocks: same");
        at_most(0.001, &what, rounds(2_000), 410 + n as u64, |rng| {
            found(&pairs(rng, Noise::Normal, n, 0.05, truth)).verdict == Verdict::Same
        });
    }
}

#[test]
fn s05_a_difference_as_large_as_the_margin_is_not_the_same() {
    let truth = 1.05f64.ln();
    for noise in NOISES {
        // A floor that no effect reaches: nothing is called better first.
        let never = Thresholds { floor: f64::INFINITY, ..Thresholds::default() };
        for (n, sd) in [(3, 0.01), (5, 0.02), (8, 0.02), (12, 0.03), (20, 0.05)] {
            let what = format!("truth at the margin, {noise:?}, sigma {sd}, {n} blocks: same");
            let limit = if n < 8 { 0.055 } else { 0.05 };
            at_most(limit, &what, rounds(2_000), 500 + n as u64, |rng| {
                let effect = Effect::of_differences(&pairs(rng, noise, n, sd, truth)).unwrap();
                judge(&effect, Sense::HigherIsBetter, &never).verdict == Verdict::Same
            });
        }
    }
}

#[test]
fn s06_one_wrong_block_of_twelve() {
    let one_wrong = |rng: &mut SplitMix| {
        let mut d = pairs(rng, Noise::Normal, 12, 0.03, 1.10f64.ln());
        d[rng.below(12)] += if rng.percent(50) { 10f64.ln() } else { -(10f64.ln()) };
        found(&d).verdict
    };
    at_least(0.99, "one block of 12 wrong by x10, truth 1.10: better", rounds(2_000), 600, |rng| {
        one_wrong(rng) == Verdict::Better
    });
    let wrong = share("one block of 12 wrong by x10, truth 1.10: worse", rounds(2_000), 601, |rng| {
        one_wrong(rng) == Verdict::Worse
    });
    assert_eq!(wrong, 0.0);
}

/// Why no prior stands on the scatter of the differences: one that supposes half of it, with 4 degrees of freedom.
#[test]
fn a_prior_from_a_quieter_hour_would_make_false_verdicts() {
    // Means of 5 with the pooled variance: t with 4 + 4 degrees of freedom, 97.5 %.
    let quantile = 2.306_004;
    let wrong = share("5 blocks, prior of half the scatter: better or worse", rounds(2_000), 710, |rng| {
        let d = pairs(rng, Noise::Normal, 5, 0.05, 0.0);
        let mean = d.iter().sum::<f64>() / 5.0;
        let squares: f64 = d.iter().map(|d| (d - mean).powi(2)).sum();
        let variance = (4.0 * 0.025f64.powi(2) + squares) / 8.0;
        mean.abs() > quantile * (variance / 5.0).sqrt()
    });
    assert!(wrong > 0.08, "{wrong}");
}
