use crate::study::{Seconds, Share, Turns};
use stats::rng::SplitMix;

use super::*;
use crate::plan;
use crate::study::Workload;

fn turns(budget_seconds: f64) -> Turns {
    let (a, b) = (BTreeMap::new(), BTreeMap::new());
    Turns {
        budget: Seconds(budget_seconds),
        target: Share(0.01),
        metric: MetricName::Throughput,
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

fn judged(ratio: f64, number: usize, budget: f64) -> SoFar {
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
fn latency_is_better_when_it_is_lower() {
    let turns = Turns { metric: MetricName::LatencyP99, ..turns(440.0) };
    let found = judge(["a".into(), "b".into()], &turns, (1, 110), blocks(1.1, 60)).unwrap();
    assert_eq!(found.verdict, Some(Verdict::Worse));
}

fn study(stacks: &str, turns: Turns, seed: u64) -> Study {
    let load = crate::study::Load::Wml { text: "run 1".into(), origin: None };
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
    let cells = plan::cells(&study("ext4", Turns { a: own("1"), b: own("2"), ..turns(60.0) }, 1));
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
