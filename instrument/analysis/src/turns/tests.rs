use stats::rng::SplitMix;
use study::{InterleavedDesign, Seconds, Share};

use super::*;
use study::Workload;
use study::plan;

fn turns(budget_seconds: f64) -> InterleavedDesign {
    let (a, b) = (BTreeMap::new(), BTreeMap::new());
    InterleavedDesign {
        budget: Seconds(budget_seconds),
        target: Share(0.01),
        metric: MetricName::Throughput,
        one_look: false,
        slices: None,
        kept_blocks: None,
        a,
        b,
    }
}

/// Blocks of 4 s whose B is `ratio` times A, with a noise of about 2 %.
fn blocks(ratio: f64, number: usize) -> Vec<Block> {
    let mut coins = SplitMix::new(7);
    let mut noise = || 1.0 + 0.02 * (f64::from(coins.next_u64() as u32) / f64::from(u32::MAX) - 0.5);
    let mut pair = |value: f64| vec![value * noise(), value * noise()];
    (0..number)
        .map(|at| Block { number: at as u32, values: [pair(1000.0), pair(1000.0 * ratio)], seconds: 4.0 })
        .collect()
}

fn judged(ratio: f64, number: usize, budget: f64) -> InterimComparison {
    judge(["a".into(), "b".into()], &turns(budget), (1, 110), blocks(ratio, number)).unwrap()
}

#[test]
fn it_ends_at_a_look_and_not_before() {
    let early = judged(1.1, 7, 440.0);
    assert_eq!((early.verdict, early.next_look, early.interval), (None, Some(8), None));
    let found = judged(1.1, 60, 440.0);
    assert_eq!(found.verdict, Some(Verdict::Better));
    assert!(found.blocks < 30 && (found.ratio - 1.1).abs() < 0.01, "{found:?}");
    assert_eq!(judged(0.9, 60, 440.0).verdict, Some(Verdict::Worse));
    let same = judged(1.0, 110, 440.0);
    assert_eq!(same.verdict, Some(Verdict::Same), "{same:?}");
}

#[test]
fn the_budget_is_planned_from_what_the_first_blocks_cost() {
    assert_eq!(judged(1.0, 3, 120.0).blocks_max, 110);
    assert_eq!(judged(1.0, 4, 120.0).blocks_max, 30);
    // at least eight, however long they take
    let least = judged(1.0, 8, 1.0);
    assert_eq!((least.blocks_max, least.blocks), (8, 8));
    assert!(least.verdict.is_some());
}

#[test]
fn blocks_that_cost_more_later_end_it_with_the_budget() {
    let mut dear = blocks(1.004, 30);
    dear.iter_mut().skip(10).for_each(|block| block.seconds = 20.0);
    let ended = judge(["a".into(), "b".into()], &turns(120.0), (1, 110), dear).unwrap();
    assert!(ended.verdict.is_some() && ended.blocks < 16, "{ended:?}");
}

#[test]
fn with_one_look_the_budget_is_used_up() {
    let judged = |one_look| {
        let turns = InterleavedDesign { one_look, ..turns(120.0) };
        judge(["a".into(), "b".into()], &turns, (1, 110), blocks(1.1, 60)).unwrap()
    };
    let (early, late) = (judged(false), judged(true));
    assert_eq!((early.verdict, late.verdict), (Some(Verdict::Better), Some(Verdict::Better)));
    assert!(early.blocks < 20 && late.blocks == 30, "{} and {} blocks of 4 s", early.blocks, late.blocks);
}

#[test]
fn latency_is_better_when_it_is_lower() {
    let turns = InterleavedDesign { metric: MetricName::LatencyP99, ..turns(440.0) };
    let found = judge(["a".into(), "b".into()], &turns, (1, 110), blocks(1.1, 60)).unwrap();
    assert_eq!(found.verdict, Some(Verdict::Worse));
}

fn study(stacks: &str, turns: InterleavedDesign, seed: u64) -> Study {
    let load = study::Load::Wml { text: "run 1".into(), origin: None };
    Study {
        stacks: spec::StackSpec::parse_list(stacks).unwrap(),
        study: Settings { trials: 40, seed, turns: Some(turns), ..Settings::default() },
        workloads: vec![Workload::new("load", load)],
        ..Study::default()
    }
}

#[test]
fn a_block_is_abba_or_baab_by_lot() {
    let order = plan::order(&study("ext4,xfs", turns(60.0), 3));
    assert_eq!(order.len(), 80);
    let mut begins = [0, 0];
    for (number, block) in order.chunks(4).enumerate() {
        let cells: Vec<u32> = block.iter().map(|slot| slot.cell).collect();
        assert!(cells == [0, 1, 1, 0] || cells == [1, 0, 0, 1], "{cells:?}");
        assert!(block.iter().all(|slot| slot.index / TRIALS_OF_BLOCK == number as u32));
        begins[cells[0] as usize] += 1;
    }
    assert!(begins.iter().all(|number| *number >= 3), "{begins:?}");
    assert_eq!(order, plan::order(&study("ext4,xfs", turns(60.0), 3)));
    assert_ne!(order, plan::order(&study("ext4,xfs", turns(60.0), 4)));
}

#[test]
fn both_sides_may_be_one_stack() {
    let own = |value: &str| BTreeMap::from([("nthreads".to_string(), value.to_string())]);
    let cells = plan::cells(&study("ext4", InterleavedDesign { a: own("1"), b: own("2"), ..turns(60.0) }, 1));
    assert_eq!(cells.len(), 2);
    assert_eq!(cells[0].stack, cells[1].stack);
    assert_ne!(cells[0].parameters, cells[1].parameters);
    assert_eq!(plan::cells(&study("ext4", turns(60.0), 1)).len(), 2);
}

#[test]
fn settings_survive_the_store() {
    let before = study("ext4,xfs", turns(60.0), 1);
    let after = Study::from_stored(&before.to_toml()).unwrap();
    assert_eq!(after.study.turns, before.study.turns);
}

/// A run in slices with the rates of A and of B in each block, twice each.
fn sliced(kept: Option<u32>, blocks: &[[f64; 2]]) -> InterimComparison {
    let turns = InterleavedDesign { slices: Some(Seconds(0.05)), kept_blocks: kept, ..turns(60.0) };
    let of = |(at, values): (usize, &[f64; 2])| Block {
        number: at as u32,
        values: values.map(|value| vec![value, value]),
        // builds of four blocks take a twentieth of the budget
        seconds: 0.75,
    };
    let blocks = blocks.iter().enumerate().map(of).collect();
    in_builds(["a".into(), "b".into()], &turns, (1, 400), blocks).unwrap()
}

/// Builds of four blocks: in each of them B is off by something of its own, which every block shows.
fn unlike_builds(number: usize) -> Vec<[f64; 2]> {
    let mut coins = SplitMix::new(11);
    let mut chance =
        |width: f64| 1.0 + width * (f64::from(coins.next_u64() as u32) / f64::from(u32::MAX) - 0.5);
    let mut build = || {
        let own = chance(0.1);
        (0..4).map(|_| [1000.0 * chance(0.005), 1000.0 * own * chance(0.005)]).collect::<Vec<_>>()
    };
    (0..number).flat_map(|_| build()).collect()
}

#[test]
fn slices_are_judged_by_builds_and_say_how_those_differ() {
    let blocks = unlike_builds(12);
    let found = sliced(Some(4), &blocks);
    assert_eq!((found.blocks, found.kept_blocks), (12, Some(4)));
    assert!(!matches!(found.verdict, Some(Verdict::Better | Verdict::Worse)), "{found:?}");
    let builds = found.builds.unwrap();
    assert!(builds.sd > 0.015 && builds.of_blocks < 0.005, "{builds:?}");
    // as blocks they look like 48 independent witnesses of a single pair
    let pair = &blocks[..4];
    let alone: Vec<[f64; 2]> = (0..12).flat_map(|_| pair.iter().copied()).collect();
    let one = sliced(None, &alone);
    let why = Doubt::TooFewTrials { have: 1, need: 8 };
    assert_eq!(one.verdict, Some(Verdict::CannotTell { why }), "one build decides nothing: {one:?}");
}

#[test]
fn a_difference_in_every_build_is_found_and_unfinished_builds_wait() {
    let blocks: Vec<[f64; 2]> = unlike_builds(20).iter().map(|[a, b]| [*a, b * 1.2]).collect();
    assert_eq!(sliced(Some(4), &blocks[..31]).blocks, 7);
    let found = sliced(Some(4), &blocks);
    assert_eq!(found.verdict, Some(Verdict::Better), "{found:?}");
    assert!(found.blocks_max == 20 && found.blocks <= 13, "{found:?}");
}

#[test]
fn what_changes_within_builds_is_told() {
    let blocks: Vec<[f64; 2]> = (0..80).map(|at| [1000.0, 1000.0 + 20.0 * f64::from(at % 8)]).collect();
    let drift = sliced(Some(8), &blocks).drift.unwrap();
    assert!(drift.first < 1.01 && drift.last > 1.12, "{drift:?}");
    assert_eq!(sliced(Some(8), &vec![[1000.0, 1001.0]; 80]).drift, None);
}

#[test]
fn twelve_builds_are_planned_and_eight_always_fit() {
    let turns =
        |budget, slice| InterleavedDesign { slices: Some(Seconds(slice)), ..turns(budget) }.in_builds();
    assert_eq!(turns(20.0, 0.05).kept_blocks, Some(4));
    assert_eq!(turns(300.0, 0.1).kept_blocks, Some(31));
    assert_eq!(turns(1.0, 0.1).kept_blocks, Some(1));
    let ours = turns(300.0, 0.1);
    assert_eq!((ours.build_of(0), ours.build_of(61), ours.build_of(62)), (0, 0, 1));
    assert!(ours.trials_max(0.0) >= 2 * 31 * 8);
}
