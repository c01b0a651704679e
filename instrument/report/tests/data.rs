//! CSV, JSON and the HDR log, read back.

mod fixture;

use report::json::{Report, SCHEMA, VERSION};
use report::{csv, hdr, json};
use stats::Histogram;

/// A strict reader of RFC 4180: rows of fields.
fn parse(text: &str) -> Vec<Vec<String>> {
    let mut rows = vec![vec![String::new()]];
    let mut chars = text.chars().peekable();
    let mut quoted = false;
    while let Some(c) = chars.next() {
        let row = rows.last_mut().unwrap();
        let field = row.last_mut().unwrap();
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                field.push('"');
            }
            '"' if quoted => quoted = false,
            '"' => {
                assert!(field.is_empty(), "a quote within {field:?}");
                quoted = true;
            }
            ',' if !quoted => row.push(String::new()),
            '\n' if !quoted => rows.push(vec![String::new()]),
            c => field.push(c),
        }
    }
    assert_eq!(rows.pop(), Some(vec![String::new()]), "the last row ends with a newline");
    rows
}

fn file(name: &str) -> Vec<Vec<String>> {
    let files = csv::files(&fixture::run());
    let (_, contents) = files.iter().find(|(known, _)| known == name).unwrap();
    let rows = parse(contents);
    assert!(rows.iter().all(|row| row.len() == rows[0].len()), "{name}: rows of unequal length");
    rows
}

fn column(rows: &[Vec<String>], name: &str) -> usize {
    rows[0].iter().position(|known| known == name).unwrap_or_else(|| panic!("no column {name}"))
}

#[test]
fn one_row_for_each_trial_and_flowop() {
    let run = fixture::run();
    let rows = file("trials.csv");
    let expected: usize =
        run.trials.iter().map(|trial| trial.outcome.as_ref().map_or(1, |outcome| outcome.ops.len())).sum();
    assert_eq!(rows.len() - 1, expected);
    let trial = run.trials.iter().find(|trial| trial.cell == 0 && trial.index == 3).unwrap();
    let op = &trial.outcome.as_ref().unwrap().ops[3];
    let row = rows
        .iter()
        .find(|row| {
            row[0] == "varmail" && row[2] == "ext4@image:2G" && row[3] == "3" && row.contains(&op.name)
        })
        .unwrap();
    let cell = |name| row[column(&rows, name)].clone();
    assert_eq!(cell("operations").parse::<u64>().unwrap(), op.ops);
    assert_eq!(cell("service_p99_ns").parse::<u64>().ok(), op.service.quantile(0.99));
    assert_eq!(cell("service_mean_ns").parse::<f64>().ok(), op.service.mean(), "floats survive");
    assert_eq!((cell("intended_p50_ns").as_str(), cell("status").as_str()), ("", "done"));
    let failed = rows.iter().find(|row| row[column(&rows, "status")] == "failed").unwrap();
    assert!(failed[column(&rows, "message")].contains("No space left"));
    assert_eq!(failed[column(&rows, "flowop")], "");
}

#[test]
fn a_trial_without_operations_has_a_row_all_the_same() {
    let mut run = fixture::single();
    run.trials.iter_mut().filter_map(|trial| trial.outcome.as_mut()).for_each(|outcome| outcome.ops.clear());
    run.trials[1].status = study::results::Status::Failed { message: "no operation, at all".into() };
    let files = csv::files(&run);
    let rows = parse(&files.iter().find(|(name, _)| name == "trials.csv").unwrap().1);
    assert_eq!(rows.len() - 1, run.trials.len());
    assert!(rows.iter().all(|row| row.len() == rows[0].len()));
    let of = |at: usize, name| rows[at + 1][column(&rows, name)].as_str();
    assert_eq!((of(1, "status"), of(1, "message"), of(1, "flowop")), ("failed", "no operation, at all", ""));
    assert_eq!((of(0, "measured_seconds"), of(0, "operations")), ("30.014", ""));
}

/// A simulation of one number of containers with these trials of a stack: operations, and how each ended.
fn simulated(stack: &str, trials: &[(u64, study::results::Status)]) -> study::results::Run {
    let mut run = fixture::single();
    let trial = run.trials[0].clone();
    let parameter =
        |name: &str, value: &str| study::results::Parameter { name: name.into(), value: value.into() };
    run.cells[0].parameters = vec![parameter("containers", "4"), parameter("stack", stack)];
    let of = |(index, (ops, status)): (usize, &(u64, study::results::Status))| {
        let mut trial =
            study::results::Trial { index: index as u32, status: status.clone(), ..trial.clone() };
        let outcome = trial.outcome.as_mut().unwrap();
        outcome.ops.truncate(1);
        (outcome.measured_seconds, outcome.ops[0].ops) = (1.0, *ops);
        trial
    };
    run.trials = trials.iter().enumerate().map(of).collect();
    run
}

#[test]
fn an_interrupted_simulation_counts_while_there_is_nothing_better() {
    use study::results::Status;
    let value = |trials: &[(u64, Status)]| {
        let scaling = report::scaling::Scaling::of(&simulated("bfs", trials)).unwrap();
        (scaling.lines[0].points[0].ops_per_second, scaling.lines[0].points[0].status.clone())
    };
    let interrupted = (10, Status::Interrupted);
    assert_eq!(value(std::slice::from_ref(&interrupted)), (Some(10.0), "interrupted".into()));
    assert_eq!(value(&[interrupted, (100, Status::Done)]), (Some(100.0), "done".into()));
}

#[test]
fn stacks_of_a_simulation_are_quoted() {
    let run = simulated("ext4,data=journal", &[(10, study::results::Status::Done)]);
    let rows = parse(&report::scaling::Scaling::of(&run).unwrap().csv());
    assert_eq!((rows[1].len(), rows[1][2].as_str()), (rows[0].len(), "ext4,data=journal"));
}

#[test]
fn one_row_for_each_cell() {
    let run = fixture::run();
    let view = report::view::View::new(&run);
    let rows = file("cells.csv");
    assert_eq!(rows.len() - 1, run.cells.len());
    for row in &rows[1..] {
        let stack = view.stacks.iter().position(|stack| stack.label == row[2]).unwrap();
        let load = view.loads.iter().position(|load| load.workload == row[0]).unwrap();
        let point = view.point(stack, load);
        assert_eq!(row[column(&rows, "median")].parse::<f64>().ok(), point.median());
        assert_eq!(row[column(&rows, "share_of_best")].parse::<f64>().ok(), point.share);
    }
    let quoted = file("cells.csv").into_iter().any(|row| row[2] == "btrfs,compress=zstd@image:2G");
    assert!(quoted, "a comma within a field survives");
}

#[test]
fn series_add_up_to_the_operations() {
    let run = fixture::run();
    let rows = file("series.csv");
    let sum: u64 = rows[1..].iter().map(|row| row[column(&rows, "operations")].parse::<u64>().unwrap()).sum();
    let outcomes = run.trials.iter().filter_map(|trial| trial.outcome.as_ref());
    assert_eq!(sum, outcomes.flat_map(|outcome| outcome.io_ops_by_second()).sum::<u64>());
    let rows = file("metrics.csv");
    assert!(
        rows.iter()
            .any(|row| row.contains(&"cpu_user_seconds".to_string()) && row.contains(&"s".to_string()))
    );
}

#[test]
fn heads_of_the_csv_files() {
    let heads: Vec<String> = csv::files(&fixture::run())
        .into_iter()
        .map(|(name, contents)| format!("{name}: {}", contents.lines().next().unwrap().replace(',', " ")))
        .collect();
    insta::assert_snapshot!(heads.join("\n"));
}

#[test]
fn json_holds_the_run_without_loss() {
    for run in [fixture::run(), fixture::partial(), fixture::single()] {
        let text = json::run(&run).unwrap();
        let report: Report = serde_json::from_str(&text).unwrap();
        assert_eq!(report.run, run);
        assert_eq!((report.schema.as_str(), report.version), (SCHEMA, VERSION));
        assert_eq!(report.summary, json::summary(&run));
        assert_eq!(report.summary.complete, run.finished.is_some());
    }
}

#[test]
fn summary_as_json() {
    let mut summary = json::summary(&fixture::run());
    // One of each kind is enough for the form.
    summary.cells.truncate(4);
    summary.verdicts.truncate(3);
    insta::assert_snapshot!(
        serde_json::to_string_pretty(&rounded(serde_json::to_value(&summary).unwrap())).unwrap()
    );
}

/// Twelve significant digits: what the last bits are is not part of the form.
fn rounded(value: serde_json::Value) -> serde_json::Value {
    use serde_json::Value;
    match value {
        Value::Number(number) if number.is_f64() => {
            let short = format!("{:.11e}", number.as_f64().unwrap());
            serde_json::json!(short.parse::<f64>().unwrap())
        }
        Value::Array(items) => items.into_iter().map(rounded).collect(),
        Value::Object(fields) => fields.into_iter().map(|(name, value)| (name, rounded(value))).collect(),
        other => other,
    }
}

#[test]
fn the_hdr_log_tells_the_seconds_of_an_operations_part() {
    let mut run = fixture::run();
    for outcome in run.trials.iter_mut().filter_map(|trial| trial.outcome.as_mut()) {
        outcome.metrics.push(stats::Metric::duration("fsyncfile2/seconds", 7.5));
    }
    let log = hdr::log(&run).unwrap();
    let length = |tag: &str| {
        let line =
            log.lines().find(|line| line.starts_with(&format!("Tag=varmail/ext4@image:2G/{tag}/"))).unwrap();
        line.split(',').nth(2).unwrap().to_string()
    };
    let whole = run.trials.iter().find(|trial| trial.cell == 0 && trial.index == 0).unwrap();
    let whole = format!("{:.3}", whole.outcome.as_ref().unwrap().measured_seconds);
    assert_eq!((length("fsyncfile2"), length("readfile4")), ("7.500".to_string(), whole));
}

#[test]
fn the_hdr_log_gives_the_histograms_back() {
    let run = fixture::run();
    let log = hdr::log(&run).unwrap();
    let mut lines = log.lines().skip_while(|line| line.starts_with('#'));
    assert!(lines.next().unwrap().starts_with("\"StartTimestamp\",\"Interval_Length\""));
    let mut read = 0;
    for line in lines {
        let fields: Vec<&str> = line.split(',').collect();
        assert_eq!(fields.len(), 5, "{line:.120}");
        assert!(fields[0].starts_with("Tag=") && !fields[0].contains(' '), "{}", fields[0]);
        assert!(fields[4].starts_with("HISTFAAA"), "compressed, as the Java and C readers want it");
        let histogram = Histogram::from_hdr_v2_base64(fields[4]).unwrap();
        assert!(histogram.count() > 0);
        if fields[0] == "Tag=varmail/ext4@image:2G/fsyncfile2/trial-1/service" {
            let trial = run.trials.iter().find(|trial| trial.cell == 0 && trial.index == 0).unwrap();
            let original = &trial.outcome.as_ref().unwrap().ops[3].service;
            assert_eq!(histogram.count(), original.count());
            let (a, b) = (histogram.quantile(0.99).unwrap() as f64, original.quantile(0.99).unwrap() as f64);
            assert!((a / b - 1.0).abs() < 0.02, "{a} {b}");
            let start = (trial.started.as_millisecond() - run.started.as_millisecond()) as f64 / 1e3;
            assert_eq!(fields[1].parse::<f64>().unwrap(), start);
            read += 1;
        }
    }
    assert_eq!(read, 1);
    assert!(log.contains("btrfs;compress=zstd@image:2G"), "commas are replaced");
}
