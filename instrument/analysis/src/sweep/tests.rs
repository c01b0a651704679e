use stats::outcome::{Direction, Ended, Metric, OpClass};

use super::*;
use study::Study;
use study::plan;
use study::results::{Status, VERSION};

const CAPACITY: f64 = 1_000.0;

fn run() -> Run {
    let text = "stacks = ['ext4']\n[study]\ntrials = 1\noffered = 'max,50%,100%,110%,120%,150%'\n\
                [[workload]]\napp = 'tree'\n";
    let study = Study::from_stored(text).unwrap();
    Run {
        version: VERSION,
        id: "r".into(),
        title: "t".into(),
        started: "2026-01-01T00:00:00Z".parse().unwrap(),
        finished: None,
        seed: 1,
        command_line: Vec::new(),
        loadline: String::new(),
        study: study.to_toml(),
        study_hash: String::new(),
        planned_trials: 1,
        shard: None,
        parts: Vec::new(),
        cells: plan::cells(&study),
        published: Vec::new(),
        trials: Vec::new(),
    }
}

/// A trial of a system with a capacity: 10 s, latency 1 ms below it, 1 s above.
fn trial(run: &Run, cell: u32, status: Status) -> Trial {
    let rate = rate_of(run, &run.cells[cell as usize]).unwrap_or(None);
    let done = rate.unwrap_or(f64::INFINITY).min(CAPACITY);
    let latency_ns = if rate.is_some_and(|rate| rate > CAPACITY) { 1_000_000_000 } else { 1_000_000 };
    let values: Histogram = std::iter::repeat_n(latency_ns, 10 * done as usize).collect();
    let op = OpOutcome {
        ops: 10 * done as u64,
        service: values.clone(),
        intended: rate.map(|_| values),
        ops_per_second: vec![done as u64; 10],
        ..OpOutcome::new("read", "read", OpClass::Io, Direction::Read)
    };
    let outcome = Outcome {
        measured_seconds: 10.0,
        warmup_seconds: 0.0,
        ended: Ended::TimeUp,
        ops: vec![op],
        metrics: rate.map(|value| Metric::machine(OFFERED_RATE, "op/s", value)).into_iter().collect(),
        notes: Vec::new(),
    };
    Trial {
        cell,
        index: 0,
        order: cell,
        outcome: status.is_done().then_some(outcome),
        status,
        environment: None,
        commands: Vec::new(),
        log: Vec::new(),
        raw_output: String::new(),
        started: run.started,
        seconds: 10.0,
        fsync: None,
        extras: Default::default(),
        variables: Vec::new(),
    }
}

fn add(run: &mut Run, cell: u32, status: Status) {
    let one = trial(run, cell, status);
    run.trials.push(one);
}

#[test]
fn a_share_needs_its_saturation() {
    let mut run = run();
    let half = run.cells[1].clone();
    assert!(rate_of(&run, &half).unwrap_err().contains("offered=max has no result"));
    assert!(to_close(&run).is_empty(), "it may still come");
    add(&mut run, 0, Status::Done);
    assert_eq!(rate_of(&run, &half), Ok(Some(500.0)));
    assert_eq!(rate_of(&run, &run.cells[0]), Ok(None));
}

#[test]
fn shares_of_a_closed_loop_that_failed_are_not_tried() {
    let mut run = run();
    add(&mut run, 0, Status::Failed { message: "no".into() });
    assert_eq!(to_close(&run), [1, 2, 3, 4, 5]);
    assert_eq!(curves(&run, None)[0].faults, ["failed: no"]);
}

#[test]
fn two_rates_that_are_not_met_end_the_sweep() {
    let mut run = run();
    for cell in 0..4 {
        add(&mut run, cell, Status::Done);
        assert!(to_close(&run).is_empty(), "after {cell}");
    }
    add(&mut run, 4, Status::Done);
    assert_eq!(to_close(&run), [5]);
}

#[test]
fn the_curve_of_a_run() {
    let mut run = run();
    (0..5).for_each(|cell| add(&mut run, cell, Status::Done));
    let curves = curves(&run, Some(2_000_000));
    let [curve] = curves.as_slice() else { panic!("{curves:?}") };
    assert_eq!((curve.load.as_str(), curve.saturation, curve.points.len()), ("tree", Some(CAPACITY), 4));
    let knee = curve.knee.unwrap();
    assert!((knee.value - CAPACITY).abs() < 1.0 && knee.low <= CAPACITY && knee.high >= CAPACITY, "{knee:?}");
    assert_eq!(curve.held, Some(HighestRate { at: Some(1000.0), not_at: Some(1100.0) }));
    let last = &curve.points[3];
    assert_eq!((last.offered, last.achieved, last.kept), (1200.0, 1000.0, StepOutcome::Behind));
    assert_eq!(last.ops[0].name, "read");
    assert!(last.latency.p99.unwrap() > 900_000_000);
    assert!(serde_json::to_string(curve).unwrap().contains("\"kept\":\"behind\""));
}

#[test]
fn a_run_that_sweeps_no_rates_has_no_curves() {
    let mut run = run();
    run.cells.iter_mut().for_each(|cell| cell.parameters.clear());
    assert!(curves(&run, None).is_empty() && to_close(&run).is_empty());
    assert_eq!(rate_of(&run, &run.cells[0]), Ok(None));
}
