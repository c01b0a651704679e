use super::*;

/// The shares of the capacity that `loadline sweep` offers, or some of them.
const LADDER: [f64; 14] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.2];
const CAPACITY: f64 = 10_000.0;

/// How a simulated system behaves.
#[derive(Clone, Copy)]
struct System {
    /// Standard deviation of a second's capacity, relative.
    noise: f64,
    /// How much of a second's deviation stays in the next one.
    memory: f64,
    /// Standard deviation of a trial's capacity, relative.
    of_trial: f64,
    /// Share of the capacity that is lost for each share offered above it.
    collapse: f64,
}

const STEADY: System = System { noise: 0.02, memory: 0.0, of_trial: 0.0, collapse: 0.0 };

fn step(system: System, offered: f64, trials: usize, seconds: usize, rng: &mut SplitMix) -> Step {
    let over = (offered / CAPACITY - 1.0).max(0.0);
    let mut trial = || {
        let level = CAPACITY * (1.0 + system.of_trial * rng.normal()) * (1.0 - system.collapse * over);
        let (mut off, mut queue) = (rng.normal(), 0.0);
        let mut second = || {
            off = system.memory * off + (1.0 - system.memory.powi(2)).sqrt() * rng.normal();
            let can = level * (1.0 + system.noise * off);
            let done = (offered + queue).min(can);
            queue += offered - done;
            done
        };
        (0..seconds).map(|_| second()).collect()
    };
    Step { offered, trials: (0..trials).map(|_| trial()).collect() }
}

fn curve(system: System, shares: &[f64], trials: usize, seconds: usize, rng: &mut SplitMix) -> Vec<Step> {
    shares.iter().map(|share| step(system, share * CAPACITY, trials, seconds, rng)).collect()
}

/// Of how many curves the interval of the knee holds the capacity, and how wide it is (relative, mean).
fn coverage(system: System, trials: usize, seconds: usize, seed: u64) -> (usize, f64) {
    let mut rng = SplitMix::new(seed);
    let (mut inside, mut width) = (0, 0.0);
    for _ in 0..200 {
        let found = knee(&curve(system, &LADDER, trials, seconds, &mut rng)).knee.unwrap();
        inside += usize::from(found.interval.contains(CAPACITY));
        width += found.interval.half_width() / CAPACITY / 200.0;
    }
    (inside, width)
}

#[test]
fn a_clean_curve_has_its_knee_at_the_capacity() {
    let clean = System { noise: 0.0, ..STEADY };
    let found = knee(&curve(clean, &LADDER, 1, 10, &mut SplitMix::new(1)));
    let (knee, plateau) = (found.knee.unwrap(), found.plateau.unwrap());
    assert!((knee.value - CAPACITY).abs() < 1e-6 && (plateau.value - CAPACITY).abs() < 1e-6, "{knee:?}");
    assert!(knee.interval.half_width() < 1e-6);
}

#[test]
fn the_interval_holds_the_capacity_about_as_often_as_it_says() {
    let alike = System { memory: 0.6, ..STEADY };
    let trials = System { of_trial: 0.02, ..STEADY };
    for (name, system, n, seconds, least) in [
        ("10 s", STEADY, 1, 10, 180),
        ("30 s", STEADY, 1, 30, 180),
        ("seconds alike, 30 s", alike, 1, 30, 165),
        ("trials differ, 3 x 10 s", trials, 3, 10, 175),
    ] {
        let (inside, width) = coverage(system, n, seconds, 7);
        println!("{name}: {inside} of 200, +- {:.2} %", width * 100.0);
        assert!(inside >= least, "{name}: {inside} of 200");
        assert!(width < 0.05, "{name}: +- {width}");
    }
}

/// What was measured far above the knee has no influence, whatever the system does there.
#[test]
fn the_interval_does_not_move_with_the_highest_rate() {
    let collapsing = System { collapse: 0.3, ..STEADY };
    for seed in 0..50 {
        let mut rng = SplitMix::new(seed);
        let mut steps = curve(collapsing, &LADDER, 1, 10, &mut rng);
        let before = knee(&steps);
        steps.extend(curve(collapsing, &[1.5, 2.0, 3.0], 1, 10, &mut rng));
        assert_eq!(knee(&steps), before);
        steps.reverse();
        assert_eq!(knee(&steps), before, "the order of the steps does not matter");
    }
}

/// Ladders of different heights, each measured anew, agree within their intervals.
#[test]
fn ladders_of_any_height_agree() {
    let mut rng = SplitMix::new(3);
    let mut apart = 0;
    for _ in 0..100 {
        let low = knee(&curve(STEADY, &LADDER, 1, 10, &mut rng)).knee.unwrap();
        let high: Vec<f64> = LADDER.iter().copied().chain([1.5, 2.0, 4.0]).collect();
        let high = knee(&curve(STEADY, &high, 1, 10, &mut rng)).knee.unwrap();
        apart += usize::from(low.interval.high < high.interval.low || high.interval.high < low.interval.low);
    }
    assert!(apart <= 5, "{apart} of 100 pairs lie apart");
}

#[test]
fn without_a_failing_step_there_is_no_knee() {
    let below = curve(STEADY, &[0.1, 0.5, 0.8], 1, 10, &mut SplitMix::new(1));
    assert_eq!(knee(&below), Knee::default());
    assert_eq!(knee(&[]), Knee::default());
    let short = Step { offered: 100.0, trials: vec![vec![10.0, 10.0]] };
    assert_eq!((short.outcome(), knee(&[short])), (StepOutcome::Unknown, Knee::default()));
}

#[test]
fn a_step_that_keeps_up_seldom_fails() {
    let mut rng = SplitMix::new(5);
    let fails = |share: f64, rng: &mut SplitMix| {
        (0..500)
            .filter(|_| step(STEADY, share * CAPACITY, 1, 10, rng).outcome() == StepOutcome::Behind)
            .count()
    };
    let (at_90, at_110) = (fails(0.9, &mut rng), fails(1.1, &mut rng));
    assert!(at_90 <= 2 && at_110 >= 498, "{at_90} and {at_110} of 500");
}

#[test]
fn the_bound_of_a_quantile_lies_above_it_in_95_of_100_cases() {
    let mut rng = SplitMix::new(9);
    let mut above = 0;
    for _ in 0..1_000 {
        let drawn: Histogram = (0..2_000).map(|_| (rng.unit() * 1e6) as u64).collect();
        above += usize::from(quantile_upper(&drawn, 0.99).unwrap() >= 990_000);
    }
    assert!((930..=990).contains(&above), "{above} of 1000");
    let few: Histogram = (0..100).collect();
    assert_eq!(quantile_upper(&few, 0.99), None, "100 values say nothing about so high a quantile");
    assert_eq!(quantile_upper(&Histogram::new(), 0.5), None);
}

#[test]
fn a_limit_is_held_up_to_the_first_rate_that_breaks_it() {
    let fast: Histogram = (0..1_000).map(|n| 1_000 + n).collect();
    let slow: Histogram = (0..1_000).map(|n| 9_000 + n).collect();
    let steps = || {
        [
            (300.0, StepOutcome::Up, vec![&fast]),
            (100.0, StepOutcome::Up, vec![&fast, &fast]),
            (200.0, StepOutcome::Up, vec![&fast, &slow]),
            (400.0, StepOutcome::Behind, vec![&fast]),
        ]
    };
    assert_eq!(held(steps(), 0.9, 5_000), HighestRate { at: Some(100.0), not_at: Some(200.0) });
    assert_eq!(held(steps(), 0.9, 50_000), HighestRate { at: Some(300.0), not_at: Some(400.0) });
    assert_eq!(held(steps(), 0.9, 10), HighestRate { at: None, not_at: Some(100.0) });
}
