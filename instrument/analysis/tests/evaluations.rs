//! Columns of made-up evaluations, and quantiles of too few operations.

mod fixture;

use analysis::grid::Grid;
use analysis::{judge, turns};
use fixture::complete;
use stats::compleat::Compleat;
use stats::{Doubt, Metric, OpOutcome, Outcome, Thresholds, Verdict};
use study::Study;
use study::results::{Answer, Cell, Run};

fn study(text: &str) -> Study {
    Study::parse(text, "made-up.toml", &|_| unreachable!()).unwrap_or_else(|error| panic!("{error}"))
}

/// The rows "ours" and "base" in columns of load `l`, each with what is given.
fn rows(columns: &str) -> Study {
    let mut text = "stacks = ['tmpfs']\n[study]\ntrials = 5\n[[table]]\nid = 't'\ntitle = 'T'\n\
                    [[workload]]\nname = 'l'\ntext = ''\n"
        .to_string();
    for row in ["ours", "base"] {
        text += &format!("[[row]]\nid = '{row}'\nparameters = {{ is = '{row}' }}\n");
    }
    study(&(text + columns))
}

fn column(id: &str, more: &str) -> String {
    format!("[[column]]\nid = '{id}'\nload = 'l'\ntable = 't'\n{more}\n")
}

fn filled(study: &Study, fill: impl Fn(&Cell, u32, &mut Outcome)) -> Run {
    let mut run = complete(study);
    for trial in &mut run.trials {
        let cell = run.cells.iter().find(|cell| cell.id == trial.cell).unwrap();
        fill(cell, trial.index, trial.outcome.as_mut().unwrap());
    }
    run
}

#[test]
fn a_column_of_one_operation_divides_by_its_own_seconds() {
    let columns = [
        column("rate", "metric = 'throughput'\nop = 'op'\nunit = 'op/s'"),
        column("bytes", "metric = 'bandwidth'\nop = 'op'\nunit = 'MB/s'"),
        column("all", "metric = 'throughput'\nunit = 'op/s'"),
    ];
    let run = filled(&rows(&columns.concat()), |_, _, outcome| {
        outcome.measured_seconds = 10.0;
        (outcome.ops[0].ops, outcome.ops[0].bytes) = (100, 4_000_000);
        outcome.metrics.push(Metric::duration("op/seconds", 2.0));
    });
    let grid = Grid::of(&run).unwrap();
    let median = |column| grid.place("ours", column).unwrap().median();
    assert_eq!((median("rate"), median("bytes"), median("all")), (Some(50.0), Some(2.0), Some(10.0)));
}

#[test]
fn seconds_are_seconds_in_each_unit() {
    let columns = [("s", 12.0), ("ms", 12e3), ("", 12.0)];
    let text: String = columns
        .iter()
        .map(|(unit, _)| column(&format!("in{unit}"), &format!("metric = 'seconds'\nunit = '{unit}'")))
        .collect();
    let text = text + &column("mean", "metric = 'latency_mean'\nunit = 'ms'");
    let run = filled(&rows(&text), |_, _, outcome| {
        outcome.measured_seconds = 12.0;
        outcome.ops[0].service.record(2_000_000);
    });
    let grid = Grid::of(&run).unwrap();
    for (unit, value) in columns {
        assert_eq!(grid.place("ours", &format!("in{unit}")).unwrap().median(), Some(value), "{unit}");
    }
    let mean = grid.place("ours", "mean").unwrap().median().unwrap();
    assert!((mean - 2.0).abs() < 0.02, "{mean}");
}

/// So many operations; "ours" answers in half the time.
fn latencies(op: &mut OpOutcome, of: &str, index: u32, operations: u64) {
    let scale = if of == "ours" { 1 } else { 2 };
    op.ops = operations;
    op.service.record_n((100_000 + 1000 * u64::from(index)) * scale, operations);
}

#[test]
fn claims_by_a_quantile_need_enough_beyond_it_in_each_trial() {
    let columns = column("p99", "metric = 'latency_p99'\nunit = 'us'\nbetter = 'less'");
    let of = |row: &str| format!("{{ workload = 'l', parameters = {{ is = '{row}' }} }}");
    let claims = format!(
        "[[claim]]\nmetric = 'latency_p99'\nat_most = 0.8\nratio = {{ of = {}, to = {} }}\n\
         [[claim]]\nrow = 'ours'\nover = 'base'\nat_least = 1.2\ncolumns = ['p99']\n\
         [[claim]]\nrow = 'base'\nnone_below = 0.1\n\
         [[claim]]\nrow = 'ours'\nmost_at = 0.9\n",
        of("ours"),
        of("base")
    );
    let judged = |fewest: u64| {
        let run = filled(&rows(&(columns.clone() + &claims)), |cell, index, outcome| {
            let row = cell.parameters[0].value.as_str();
            let operations = if row == "base" && index == 3 { fewest } else { 20_000 };
            latencies(&mut outcome.ops[0], row, index, operations);
        });
        let grid = Grid::of(&run).unwrap();
        let compleat = grid.compleat(grid.row("ours").unwrap());
        (judge::claims(&run, &Thresholds::default()).unwrap(), compleat)
    };
    let (enough, compleat) = judged(10_000);
    assert!(enough.iter().all(|one| one.answer == Answer::Reproduced), "{enough:#?}");
    assert_eq!(compleat, Compleat::Yes);
    let (short, compleat) = judged(500);
    assert!(short.iter().all(|one| one.answer == Answer::CannotTell), "{short:#?}");
    assert!(
        short[..2].iter().all(|one| one.reason.contains("5 operations of a trial beyond it")),
        "{short:#?}"
    );
    assert_eq!(compleat, Compleat::Unknown);
}

#[test]
fn turns_by_a_quantile_end_when_trials_are_too_short_for_it() {
    let text = "stacks = ['ext4', 'xfs']\n[study]\ntrials = 40\nseed = 3\n\
                turns = { budget = '10m', target = 0.01, metric = 'latency_p99' }\n\
                [[workload]]\nname = 'l'\ntext = ''\n";
    let run = |operations: u64| {
        filled(&study(text), |cell, index, outcome| {
            let row = if cell.stack == "xfs" { "ours" } else { "base" };
            latencies(&mut outcome.ops[0], row, index % 3, operations);
        })
    };
    assert_eq!(turns::of_run(&run(10_000)).unwrap().verdict, Some(Verdict::Better));
    let why = Doubt::ShortTail { have: 5, need: 100 };
    let mut short = run(500);
    let found = turns::of_run(&short).unwrap();
    assert_eq!((found.verdict, found.next_look), (Some(Verdict::CannotTell { why }), None));
    short.trials.truncate(3);
    assert_eq!(turns::of_run(&short).unwrap().verdict, None, "no block is whole");
}
