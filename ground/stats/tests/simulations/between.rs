//! Between runs.

use stats::Sense;
use stats::Verdict;
use stats::between::{Answer, Run, RunComparison, compare};
use stats::covariate;
use stats::history::{Group, PastRun, Prior, Spread, Summary};
use stats::judge::Thresholds;
use stats::rng::SplitMix;

use crate::noise::{at_least, at_most, normal, rounds, share, unit};

/// Standard deviation of a trial within its run.
const TRIAL: f64 = 0.045;

fn run(rng: &mut SplitMix, level: f64, tau: f64, trials: usize) -> Summary {
    let mean = level + tau * normal(rng);
    let logs: Vec<f64> = (0..trials).map(|_| mean + TRIAL * normal(rng)).collect();
    Summary::of_logs(&logs).unwrap()
}

/// Two runs with the truth `effect` after `history` like ones.
fn compared(rng: &mut SplitMix, tau: f64, history: usize, trials: usize, effect: f64) -> RunComparison {
    let past =
        (0..history).map(|_| PastRun { summary: run(rng, 0.0, tau, trials), age_days: 1.0, flagged: false });
    let spread = Spread::learn(&[Group { own: true, runs: past.collect() }], Prior::VIRTUAL);
    let plain = |summary| Run { plain: summary, anchored: None };
    let (a, b) = (plain(run(rng, 0.0, tau, trials)), plain(run(rng, effect, tau, trials)));
    compare(&a, &b, &spread, Vec::new(), Sense::HigherIsBetter, &Thresholds::default())
}

fn differs(found: &RunComparison) -> bool {
    matches!(found.answer(), Answer::Judged(Verdict::Better | Verdict::Worse, _))
}

#[test]
fn s07_runs_that_differ_as_supposed() {
    for (history, limit) in [(0, 0.03), (4, 0.05), (16, 0.065)] {
        let what = format!("tau 3 %, history of {history}, 6 trials: better or worse");
        at_most(limit, &what, rounds(2_000), 800 + history as u64, |rng| {
            differs(&compared(rng, 0.03, history, 6, 0.0))
        });
        share(&format!("tau 3 %, history of {history}, 6 trials: 10 % found"), rounds(1_000), 850, |rng| {
            differs(&compared(rng, 0.03, history, 6, 1.1f64.ln()))
        });
    }
}

#[test]
fn s08_runs_that_differ_twice_as_much_as_supposed() {
    for history in [0, 4] {
        let what = format!("tau 6 %, history of {history}, 6 trials: better or worse");
        share(&what, rounds(2_000), 900, |rng| differs(&compared(rng, 0.06, history, 6, 0.0)));
    }
    at_most(0.10, "tau 6 %, history of 16, 6 trials: better or worse", rounds(2_000), 900, |rng| {
        differs(&compared(rng, 0.06, 16, 6, 0.0))
    });
}

#[test]
fn s09_more_trials_do_not_make_it_worse() {
    for history in [0, 4, 16] {
        let what = format!("tau 2.9 %, history of {history}, 20 trials: better or worse");
        at_most(0.06, &what, rounds(2_000), 1_000 + history as u64, |rng| {
            differs(&compared(rng, 0.029, history, 20, 0.0))
        });
    }
}

#[test]
fn an_anchor_takes_the_runs_out() {
    // Cell and anchor share the run's and the block's state; each has noise of its own.
    let both = |rng: &mut SplitMix, effect: f64| {
        let mut one = |effect: f64| {
            let run = 0.06 * normal(rng);
            let (mut plain, mut anchored) = (Vec::new(), Vec::new());
            for _ in 0..6 {
                let block = run + 0.04 * normal(rng);
                let (cell, anchor) = (block + effect + 0.03 * normal(rng), block + 0.03 * normal(rng));
                plain.push(cell);
                anchored.push(cell - anchor);
            }
            Run {
                plain: Summary::of_logs(&plain).unwrap(),
                anchored: Some(Summary::of_logs(&anchored).unwrap()),
            }
        };
        let (a, b) = (one(0.0), one(effect));
        let spread = Spread::learn(&[], Prior::VIRTUAL);
        compare(&a, &b, &spread, Vec::new(), Sense::HigherIsBetter, &Thresholds::default())
    };
    at_most(0.05, "anchored, tau 6 %: better or worse", rounds(2_000), 1_100, |rng| differs(&both(rng, 0.0)));
    at_least(0.80, "anchored, tau 6 %: 10 % found", rounds(2_000), 1_101, |rng| {
        differs(&both(rng, 1.1f64.ln()))
    });
}

/// Error after over error before taking the covariate out of a difference of two runs, with `past` runs to learn from.
fn ridge(past: usize, rho: f64, seed: u64) -> f64 {
    let mut rng = SplitMix::new(seed);
    let draw = |rng: &mut SplitMix| {
        let x = normal(rng);
        (x, rho * x + (1.0 - rho * rho).sqrt() * normal(rng))
    };
    let (mut before, mut after) = (0.0, 0.0);
    for _ in 0..rounds(4_000) {
        let history: Vec<(f64, f64)> = (0..past).map(|_| draw(&mut rng)).collect();
        let slope = covariate::slope(&history, 0.0, 1.0);
        let (a, b) = (draw(&mut rng), draw(&mut rng));
        let difference =
            covariate::adjusted(b.1, b.0, 0.0, slope) - covariate::adjusted(a.1, a.0, 0.0, slope);
        before += (b.1 - a.1).powi(2);
        after += difference * difference;
    }
    let ratio = (after / before).sqrt();
    println!("covariate, rho {rho}, {past} past runs: error x{ratio:.3} (seed {seed})");
    ratio
}

#[test]
fn s10_a_covariate_does_no_harm_and_helps_where_it_can() {
    for past in [4, 6, 10, 20] {
        assert!(ridge(past, 0.0, 1_200 + past as u64) <= 1.05);
    }
    assert!(ridge(4, 0.9, 1_250) <= 0.8);
    assert!(ridge(10, 0.9, 1_251) <= 0.6);
}

#[test]
fn the_cpu_left_by_others_explains_a_crowded_machine() {
    // Others leave between 20 and 100 % of the CPU to a run; the load follows it one to one.
    let judged = |rng: &mut SplitMix, slope: f64| {
        let mut one = || {
            let left = (0.2 + 0.8 * unit(rng)).ln();
            let run = left + 0.03 * normal(rng);
            let logs = (0..6).map(|_| covariate::adjusted(run + TRIAL * normal(rng), left, 0.0, slope));
            Run { plain: Summary::of_logs(&logs.collect::<Vec<_>>()).unwrap(), anchored: None }
        };
        let (a, b) = (one(), one());
        let spread = Spread::learn(&[], Prior::VIRTUAL);
        compare(&a, &b, &spread, Vec::new(), Sense::HigherIsBetter, &Thresholds::default())
    };
    let raw = share("crowded runs as they are: better or worse", rounds(1_000), 1_060, |rng| {
        differs(&judged(rng, 0.0))
    });
    at_most(0.05, "crowded runs, CPU left taken out: better or worse", rounds(1_000), 1_060, |rng| {
        differs(&judged(rng, covariate::cpu_slope(1.0, 1.0)))
    });
    assert!(raw > 0.3, "{raw}");
}
