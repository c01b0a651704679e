//! Comparisons of made-up runs, and claims about them.

mod fixture;

use analysis::compare::{
    ComparisonBasis, Conclusion, RunComparison, compare, compare_stacks, environment_differences,
};
use analysis::judge;
use fixture::complete;
use stats::history::Spread;
use stats::{Thresholds, Verdict};
use study::Study;
use study::results::{Answer, Judgement, MetricName, Run, Status};

/// Loads of the comparisons.
const LOADS: usize = 20;

fn study(text: &str) -> Study {
    Study::parse(text, "made-up.toml", &|_| unreachable!()).unwrap_or_else(|error| panic!("{error}"))
}

/// A run of 20 loads in 5 blocks. All cells of a load are equal but for `off`, of the load's number and the stack, in logarithms.
fn run(stacks: &str, off: &dyn Fn(usize, &str) -> f64) -> Run {
    let mut text = format!("stacks = [{stacks}]\n[study]\ntrials = 5\n");
    (0..LOADS).for_each(|at| text += &format!("[[workload]]\nname = 'l{at}'\ntext = ''\n"));
    let mut run = complete(&study(&text));
    for trial in &mut run.trials {
        let cell = &run.cells[trial.cell as usize];
        let noise = if cell.stack == "xfs" { 0.01 * (f64::from(trial.index) - 2.0) } else { 0.0 };
        let value = 1e7 * (off(cell.workload[1..].parse().unwrap(), &cell.stack) + noise).exp();
        trial.outcome.as_mut().unwrap().ops[0].ops = value as u64;
    }
    run
}

fn verdicts(compared: &RunComparison) -> Vec<Verdict> {
    compared.pairs.iter().map(|pair| pair.lines[0].finding.verdict).collect()
}

/// As in `stats::family`: alone it is worse, among 20 it may be chance.
#[test]
fn one_borderline_cell_among_many_is_not_worse() {
    let one_off = |at: usize, stack: &str| if at == 0 && stack == "xfs" { -0.02 } else { 0.0 };
    let by = MetricName::Throughput;
    let within = compare_stacks(&run("'ext4', 'xfs'", &one_off), None, by, &Thresholds::default());
    let ground = ComparisonBasis { spread: Spread::NONE, known: Default::default(), anchor: None };
    let (before, after) = (run("'xfs'", &|_, _| 0.0), run("'xfs'", &one_off));
    let between = compare(&before, &after, &ground, by, &Thresholds::default());
    for compared in [within, between] {
        let verdicts = verdicts(&compared);
        // 2 % is within what counts as the same
        assert!(verdicts.iter().all(|one| *one == Verdict::Same), "{verdicts:?}");
        assert_eq!((verdicts.len(), compared.conclusion), (LOADS, Conclusion::NoWorse));
        let line = &compared.pairs[0].lines[0];
        assert!(line.p_adjusted > 0.05 && line.finding.p_value < line.p_adjusted, "{line:?}");
    }
}

/// Claims about two columns, where "ours" is twice as fast as the others. `spoil` is given each trial's row and column.
fn claims(claims: &str, spoil: &dyn Fn(&str, &str) -> Option<Status>) -> Vec<Judgement> {
    let mut text = "stacks = ['tmpfs']\n[study]\ntrials = 5\n[[table]]\nid = 't'\ntitle = 'T'\n".to_string();
    for row in ["ours", "base", "r1", "r2"] {
        let rival = row.starts_with('r');
        text += &format!("[[row]]\nid = '{row}'\nrival = {rival}\nparameters = {{ is = '{row}' }}\n");
    }
    for column in ["a", "b"] {
        text += &format!("[[workload]]\nname = '{column}'\ntext = ''\n");
        text += &format!("[[column]]\nid = '{column}'\nload = '{column}'\ntable = 't'\n");
    }
    let mut run = complete(&study(&(text + claims)));
    for trial in &mut run.trials {
        let cell = &run.cells[trial.cell as usize];
        let row = cell.parameters[0].value.as_str();
        let ops = 1_000_000 + 1000 * u64::from(trial.index);
        trial.outcome.as_mut().unwrap().ops[0].ops = if row == "ours" { 2 * ops } else { ops };
        if let Some(status) = spoil(row, &cell.workload) {
            (trial.status, trial.outcome) = (status, None);
        }
    }
    judge::claims(&run, &Thresholds::default()).unwrap()
}

#[test]
fn what_failed_shows_nothing_for_all_columns_or_rivals() {
    let told = "[[claim]]\nrow = 'ours'\nover = 'base'\nat_least = 1.0\nacross = 'all'\n\
                [[claim]]\nrow = 'ours'\nover = 'best rival'\nat_least = 1.0\ncolumns = ['a']\n";
    let failed = || Status::Failed { message: "No space left on device".into() };
    let absent = || Status::Unavailable { reason: "no module".into(), remedy: String::new() };
    let answers = |status: &dyn Fn() -> Status| -> Vec<(Answer, String)> {
        let spoiled = [("ours", "b"), ("r2", "a")];
        let judged = claims(told, &|row, column| spoiled.contains(&(row, column)).then(status));
        judged.into_iter().map(|one| (one.answer, one.reason)).collect()
    };
    let of_failed = answers(&failed);
    assert!(of_failed.iter().all(|(answer, _)| *answer == Answer::CannotTell), "{of_failed:?}");
    assert!(of_failed[0].1.contains("failed") && of_failed[1].1.contains("failed"), "{of_failed:?}");
    let of_absent = answers(&absent);
    assert!(of_absent.iter().all(|(answer, _)| *answer == Answer::Reproduced), "{of_absent:?}");
    // where it is slower in the other column, the failure does not hide that
    let slower = "[[claim]]\nrow = 'base'\nover = 'ours'\nat_least = 1.0\nacross = 'all'\n";
    let judged = claims(slower, &|row, column| (row == "base" && column == "b").then(failed));
    assert_eq!(judged[0].answer, Answer::NotReproduced, "{judged:?}");
}

#[test]
fn of_an_even_number_of_trials_the_median_of_waiting_threads_lies_between() {
    let waiting = |numbers: [u64; 2]| {
        let mut run =
            complete(&study("stacks = ['ext4']\n[study]\ntrials = 2\n[[workload]]\nname = 'l'\ntext = ''\n"));
        for (trial, number) in run.trials.iter_mut().zip(numbers) {
            trial.environment.get_or_insert_default().load.runnable = Some(number);
        }
        run
    };
    let found = environment_differences(&waiting([1, 9]), &waiting([5, 5]));
    assert!(found.is_empty(), "{found:?}");
    assert!(!environment_differences(&waiting([1, 9]), &waiting([9, 9])).is_empty());
}
