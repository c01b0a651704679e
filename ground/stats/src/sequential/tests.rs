//! The comparison step by step; its error rates are in `tests/simulations`.

use super::*;

fn ab(blocks_max: usize) -> SequentialTest {
    SequentialTest::new(Plan { blocks_max, ..Plan::default() }, Sense::HigherIsBetter, 1).unwrap()
}

/// A difference around `center` that is never twice the same.
fn near(center: f64, i: usize) -> f64 {
    center + 0.01 * (((i * 37) % 100) as f64 / 50.0 - 1.0)
}

fn pushed(ab: &mut SequentialTest, blocks: usize, center: f64) -> State {
    for i in 0..blocks {
        ab.push(near(center, i)).unwrap();
    }
    ab.state()
}

#[test]
fn a_clear_difference_stops_early_and_stays_decided() {
    let mut ab = ab(110);
    assert_eq!(pushed(&mut ab, 7, 0.1), State::GoOn { next_look: 8 });
    assert_eq!(pushed(&mut ab, 40, 0.1), State::Decided(Verdict::Better));
    assert_eq!(ab.n(), 17, "the first look whose boundary can be crossed");
    let interval = ab.interval().unwrap();
    assert!(interval.low > 1.0 && interval.contains(ab.ratio()), "{interval:?}");
    assert_eq!(ab.push(-5.0), Ok(State::Decided(Verdict::Better)));
    let mut down = SequentialTest::new(Plan::default(), Sense::LowerIsBetter, 1).unwrap();
    assert_eq!(pushed(&mut down, 40, 0.1), State::Decided(Verdict::Worse));
}

#[test]
fn with_one_look_nothing_ends_it_early() {
    let plan = Plan { blocks_max: 110, one_look: true, ..Plan::default() };
    let mut ab = SequentialTest::new(plan, Sense::HigherIsBetter, 1).unwrap();
    assert_eq!(pushed(&mut ab, 39, 0.1), State::GoOn { next_look: 110 });
    ab.replan(40);
    assert_eq!(ab.state(), State::GoOn { next_look: 40 });
    assert_eq!(pushed(&mut ab, 1, 0.1), State::Decided(Verdict::Better));
    assert!((ab.looks()[0].z - 1.96).abs() < 1e-3, "the fixed test: {:?}", ab.looks());
    let mut short = SequentialTest::new(plan, Sense::HigherIsBetter, 1).unwrap();
    pushed(&mut short, 20, 0.1);
    assert_eq!(short.finish(), State::Decided(Verdict::Better), "the budget was used up before");
}

#[test]
fn quiet_equals_are_the_same_and_loud_ones_cannot_be_told() {
    assert_eq!(pushed(&mut ab(110), 110, 0.0), State::Decided(Verdict::Same));
    let mut loud = ab(20);
    for i in 0..20 {
        loud.push(30.0 * near(0.0, i * i)).unwrap();
    }
    let State::Decided(Verdict::CannotTell { why: Doubt::TooMuchVariance { trials, .. } }) = loud.state()
    else {
        panic!("{:?}", loud.state());
    };
    assert!(trials > 100, "{trials}");
    assert!(
        loud.detectable_difference().is_some_and(|seen| seen > 0.05),
        "{:?}",
        loud.detectable_difference()
    );
}

#[test]
fn the_interval_and_the_verdict_are_one_test() {
    let (mut rng, fresh) = (SplitMix::new(4), ab(29));
    for _ in 0..300 {
        let (mut ab, shift) = (fresh.clone(), 0.03 * rng.unit());
        while matches!(ab.state(), State::GoOn { .. }) {
            ab.push(shift + 0.04 * rng.normal()).unwrap();
            let excludes = ab.interval().is_some_and(|interval| !interval.contains(1.0));
            let differs = matches!(ab.state(), State::Decided(Verdict::Better | Verdict::Worse));
            assert_eq!(excludes, differs);
        }
    }
}

#[test]
fn the_budget_may_end_early_or_be_estimated_anew() {
    let mut few = ab(40);
    pushed(&mut few, 5, 0.1);
    let why = Doubt::TooFewTrials { have: 5, need: 8 };
    assert_eq!(few.finish(), State::Decided(Verdict::CannotTell { why }));
    let mut cut = ab(110);
    assert!(matches!(pushed(&mut cut, 12, 0.1), State::GoOn { .. }));
    assert_eq!(cut.finish(), State::Decided(Verdict::Better), "all the error that is left is spent");
    let mut longer = ab(40);
    pushed(&mut longer, 11, 0.0);
    let before = longer.looks()[..2].to_vec();
    longer.replan(200);
    assert_eq!((longer.looks()[..2].to_vec(), longer.looks().last().map(|l| l.n)), (before, Some(200)));
    longer.replan(0);
    assert_eq!(longer.state(), State::GoOn { next_look: 12 });
}

#[test]
fn coins_are_fair_and_seeded() {
    let orders = |seed: u64| {
        let mut ab = SequentialTest::new(Plan::default(), Sense::HigherIsBetter, seed).unwrap();
        (0..1_000).map(|_| ab.order()).collect::<Vec<_>>()
    };
    assert_eq!(orders(7), orders(7));
    let count = orders(7).iter().filter(|order| **order == Order::Abba).count();
    assert!((440..560).contains(&count), "{count}");
}

#[test]
fn a_block_cancels_a_line_and_refuses_nonsense() {
    let line = [1.0f64, 1.1, 1.21, 1.331];
    let d = block_difference(&[line[0], line[3]], &[line[1], line[2]]).unwrap();
    assert!(d.abs() < 1e-12);
    assert!(block_difference(&[0.0], &[1.0]).is_err() && block_difference(&[], &[1.0]).is_err());
    assert!(ab(10).push(f64::INFINITY).is_err());
    assert_eq!((ab(10).ratio(), ab(10).interval(), ab(10).detectable_difference()), (1.0, None, None));
}

#[test]
fn a_plan_that_means_nothing_is_refused() {
    let with = |alpha, target| {
        let plan = Plan { alpha, target, ..Plan::default() };
        SequentialTest::new(plan, Sense::HigherIsBetter, 1).map(|ab| ab.n()).unwrap_err()
    };
    assert_eq!(with(0.0, 0.01), PlanError::Alpha(0.0));
    assert!(matches!(with(f64::NAN, 0.01), PlanError::Alpha(_)));
    assert_eq!(with(0.05, -1.0).to_string(), "a target of -1 is no relative difference: 0 or more is wanted");
    assert_eq!(serde_json::from_str::<Plan>("{}").unwrap(), Plan::default());
}
