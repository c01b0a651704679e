//! From a stored run to grid, claims and outputs.

use record::results::{Answer, Run, Status, Trial};
use record::{Study, plan};
use reproduce::Scale;
use reproduce::betrfs::scale::Machine;
use reproduce::betrfs::{
    Grid, Request, Sizes, claims, columns, csv, explain, html, published, rows, study, svg, terminal,
};
use stats::compleat::Compleat;
use stats::{Direction, Ended, Histogram, Metric, OpClass, OpOutcome, Outcome, Rules};

fn sizes() -> Sizes {
    Sizes::new(Scale::Quick, Machine { memory_bytes: 24 << 30, device_bytes: None })
}

/// A run of these columns in which `value(row, column, trial)` was measured.
fn run(list: &str, value: impl Fn(&str, &str, u32) -> Option<f64>) -> Run {
    let request = Request {
        rows: rows::choose("ext4,xfs,f2fs,betrfs").unwrap(),
        columns: columns::choose(list).unwrap(),
        sizes: sizes(),
        device: "860evo:4G".into(),
        trials: Some(3),
        seed: 1,
    };
    let study: Study = study(&request).unwrap();
    let mut run = Run {
        version: 1,
        id: "20261120-1".into(),
        title: study.study.title.clone(),
        started: jiff::Timestamp::UNIX_EPOCH,
        finished: None,
        seed: 1,
        command_line: vec![],
        loadline: "0".into(),
        study: study.to_toml(),
        study_hash: study.hash(),
        planned_trials: 3,
        cells: plan::cells(&study),
        published: vec![],
        trials: vec![],
    };
    for slot in plan::order(&study) {
        let cell = run.cells[slot.cell as usize].clone();
        let row = rows::ROWS.iter().find(|row| row.is(&cell.stack)).unwrap().id;
        let mut metrics = Vec::new();
        for column in columns::COLUMNS.iter().filter(|column| column.load == cell.workload) {
            if let Some(value) = value(row, column.id, slot.index) {
                metrics.push((column.id.to_string(), value));
                for (counter, value) in [
                    ("counted_seconds", 2.0),
                    ("device_busy_seconds", 1.9),
                    ("device_flushes", if row == "ext4" { 900.0 } else { 3.0 }),
                ] {
                    metrics.push((format!("{}/{counter}", column.id), value));
                }
            }
        }
        let status = match row {
            "f2fs" => {
                Status::Unavailable { reason: "no f2fs <here>".into(), remedy: "another kernel".into() }
            }
            _ => Status::Done,
        };
        let metric = |(name, value)| Metric { name, unit: "x".into(), value };
        let outcome = Outcome {
            measured_seconds: 1.0,
            warmup_seconds: 0.0,
            ended: Ended::Done,
            ops: value(row, &cell.workload, slot.index).map(ops).into_iter().collect(),
            metrics: metrics.into_iter().map(metric).collect(),
            notes: vec![],
        };
        run.trials.push(Trial {
            cell: slot.cell,
            index: slot.index,
            order: slot.order,
            outcome: status.is_done().then_some(outcome),
            status,
            environment: None,
            commands: vec![],
            log: vec![],
            raw_output: String::new(),
            started: jiff::Timestamp::UNIX_EPOCH,
            seconds: 1.0,
            fsync: None,
            extras: Default::default(),
            variables: Vec::new(),
        });
    }
    run
}

/// What a personality did, ten operations for each unit of the value.
fn ops(value: f64) -> OpOutcome {
    OpOutcome {
        name: "op".into(),
        kind: "read".into(),
        class: OpClass::Io,
        direction: Direction::Read,
        ops: (value * 10.0) as u64,
        bytes: 0,
        errors: 0,
        starved: 0,
        service: Histogram::new(),
        intended: None,
        ops_per_second: vec![],
        bytes_per_second: vec![],
    }
}

/// betrfs writes 6.5 times as fast at random, ext4 is slow at random writes, everything else is alike.
fn paper_like(row: &str, column: &str, trial: u32) -> Option<f64> {
    let base = match (row, column.starts_with("rand-write")) {
        ("betrfs", true) => 65.0,
        ("ext4", true) => 4.0,
        _ => 10.0,
    };
    Some(base * (1.0 + f64::from(trial) * 0.001))
}

#[test]
fn shares_are_of_the_best_row_and_absent_rows_say_why() {
    let grid = Grid::new(&run("micro", paper_like));
    let share = |row, column| grid.cell(row, column).unwrap().share.unwrap();
    assert_eq!(share("betrfs", "rand-write-4096"), 1.0);
    assert!((share("ext4", "rand-write-4096") - 4.0 / 65.0).abs() < 1e-9);
    assert_eq!(share("xfs", "grep"), 1.0);
    let row = |id| grid.rows.iter().position(|row| row.id == id).unwrap();
    assert_eq!(grid.compleat(row("betrfs")), Compleat::Unknown, "the applications were not run");
    assert_eq!(grid.compleat(row("ext4")), Compleat::No);
    let whole = Grid::new(&run("micro,applications", paper_like));
    assert_eq!(whole.compleat(row("betrfs")), Compleat::Yes);
    assert_eq!(whole.cell("xfs", "oltp").unwrap().share, Some(1.0));
    let absent = grid.absent_rows();
    assert_eq!(absent.len(), 2, "rows of one reason stand together: {absent:?}");
    let of =
        |title: &str| absent.iter().find(|(titles, ..)| titles.split(", ").any(|one| one == title)).unwrap();
    assert!(of("F2FS").1.contains("no f2fs") && of("ZFS").2.contains("--rows"));
    assert_eq!(of("+SFL"), of("BetrFS v0.4"));
}

#[test]
fn claims_hold_by_ratio_and_say_why_not() {
    let answer = |list: &str, value: fn(&str, &str, u32) -> Option<f64>, at: usize| {
        let judged = claims::judge(&Grid::new(&run(list, value)), &Rules::default());
        (judged[at].answer, judged[at].reason.clone())
    };
    assert_eq!(answer("micro", paper_like, 0).0, Answer::Reproduced);
    assert_eq!(answer("grep", paper_like, 0).0, Answer::CannotTell, "no random writes were run");
    assert_eq!(answer("micro", paper_like, 1).0, Answer::CannotTell, "no IMAP was run");
    assert_eq!(answer("micro", paper_like, 3).0, Answer::CannotTell);
    assert_eq!(answer("micro,applications", paper_like, 3).0, Answer::Reproduced);
    assert_eq!(answer("micro,applications", paper_like, 4).0, Answer::Reproduced);
    assert_eq!(answer("micro,applications", paper_like, 5).0, Answer::CannotTell, "f2fs and zfs are missing");
    let slow: fn(&str, &str, u32) -> Option<f64> =
        |row, _, trial| Some(if row == "betrfs" { 2.0 } else { 10.0 } * (1.0 + f64::from(trial) * 0.001));
    let (told, why) = answer("rand-write-4096,rand-write-4", slow, 0);
    assert_eq!(told, Answer::NotReproduced, "{why}");
    assert!(why.contains("0.20"), "{why}");
    let (told, why) = answer("seq-read,rand-write-4", slow, 3);
    assert_eq!(told, Answer::NotReproduced);
    assert!(why.contains("seq. read 0.20"), "{why}");
}

#[test]
fn a_bad_cell_is_explained_by_its_counters() {
    let explained = explain::bad_cells(&Grid::new(&run("micro", paper_like)));
    let one = explained.iter().find(|one| one.row == "ext4" && one.column == "random 4 KiB").unwrap();
    assert!(
        one.text.contains("flushes the device's cache more often") && one.text.contains("900 flushes"),
        "{one:?}"
    );
}

#[test]
fn thirteen_files_bear_the_artifacts_names() {
    let files = csv::files(&Grid::new(&run("micro", paper_like)), "2026-11-20");
    assert_eq!(files.len(), 14);
    assert!(files[0].1.contains("master.mailserver") || files[0].1.contains("`mailserver`"));
    let (_, ext4) = files.iter().find(|(name, _)| name == "ext4-2026-11-20.csv").unwrap();
    assert!(ext4.starts_with("Name,N,Min,Max,Median,Avg,Stddev\n"), "{ext4}");
    let line = ext4.lines().find(|line| line.starts_with("master.del,")).unwrap();
    assert!(line.starts_with("master.del,3,10,"), "{line}");
    assert!(ext4.contains("master.seq-write80g,3,"));
    assert!(files.iter().any(|(name, _)| name == "betrfs-v0.6-query-path-opt-2026-11-20.csv"));
}

#[test]
fn outputs_show_every_row_and_escape_what_they_quote() {
    let grid = Grid::new(&run("micro,applications", paper_like));
    let judged = claims::judge(&grid, &Rules::default());
    let values = published::parse("ext4,grep,12.5").unwrap();
    let lines = sizes().lines();
    let text = terminal::report(&grid, &judged, &values, &lines, false);
    for row in rows::ROWS {
        assert!(text.contains(row.title), "{text}");
    }
    assert!(
        text.contains("[12.5]") && text.contains("reproduced: random writes") && !text.contains('\x1b'),
        "{text}"
    );
    let page = html::page(&grid, &judged, &values, &lines, &["a & b".into()]);
    assert!(page.contains("a &amp; b") && page.contains("no f2fs &lt;here&gt;") && page.contains("[12.5]"));
    assert!(!page.contains("no f2fs <here>"));
    for drawing in [svg::table3(&grid), svg::figure2(&grid)] {
        assert_eq!(drawing.matches("<svg").count(), drawing.matches("</svg>").count());
        assert!(drawing.contains("XFS"));
    }
}
