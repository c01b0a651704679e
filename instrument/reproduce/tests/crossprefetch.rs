//! `crossprefetch`: from a stored run to grid, claims and outputs.

use record::plan;
use record::results::{Answer, Run, Status, Trial};
use reproduce::Scale;
use reproduce::cell::Absent;
use reproduce::crossprefetch::{
    Grid, Group, Request, Sizes, claims, columns, csv, html, plan as planning, rows, study, svg, terminal,
};
use stats::{Ended, Metric, Outcome, Rules};

fn sizes() -> Sizes {
    Sizes::new(Scale::Quick, 24 << 30, true)
}

/// A run of these columns in which `value(row, column, trial)` was measured by wall time; by the artifact's timer it was
/// twice as much.
fn run(list: &str, trials: u32, value: impl Fn(&str, &str, u32) -> Option<f64>) -> Run {
    let request = Request {
        rows: rows::choose("app-only,os-only,auto,cat-first").unwrap(),
        columns: columns::choose(list).unwrap(),
        sizes: sizes(),
        device: planning::DEVICE.into(),
        trials: Some(trials),
        seed: 1,
    };
    let study = study(&request).unwrap();
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
        planned_trials: trials,
        cells: plan::cells(&study),
        published: vec![],
        trials: vec![],
    };
    for slot in plan::order(&study) {
        let cell = run.cells[slot.cell as usize].clone();
        let row = cell.parameters[0].value.clone();
        let load = cell.workload.strip_suffix(planning::OTHERS).unwrap_or(&cell.workload);
        let mut metrics = Vec::new();
        for column in columns::COLUMNS.iter().filter(|column| column.load == load) {
            let Some(value) = value(&row, column.id, slot.index) else { continue };
            let of = |name: &str| format!("{}/{name}", column.id);
            metrics.push((column.id.to_string(), value));
            metrics.push((of("timed"), 2.0 * value));
            metrics.push((of("wall_seconds"), 1.0));
            metrics.push((of("cpu_user_seconds"), 0.25));
            metrics.push((of("cpu_system_seconds"), 0.5));
            metrics.push((of("device_read_bytes"), 3e6));
            if row == "auto" {
                metrics.push((of("prefetched_bytes"), 2e6));
                metrics.push((of("useful_bytes"), 1.5e6));
            }
        }
        let status = match (row.as_str(), load) {
            ("os-only", "ycsb") => {
                Status::Unavailable { reason: "no <librocksdb>".into(), remedy: "install it".into() }
            }
            _ => Status::Done,
        };
        let metric = |(name, value)| Metric { name, unit: "x".into(), value };
        let outcome = Outcome {
            measured_seconds: 1.0,
            warmup_seconds: 0.0,
            ended: Ended::Done,
            ops: vec![],
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

/// `auto` reads 5 times as fast, and writes alike; cat first is slow.
fn good(row: &str, column: &str, trial: u32) -> Option<f64> {
    let base = match (row, column.starts_with("writers")) {
        ("auto", false) => 500.0,
        ("cat-first", _) => 50.0,
        _ => 100.0,
    };
    Some(base * (1.0 + f64::from(trial) * 0.001))
}

fn answer(judged: &[reproduce::Judged], claim: &str) -> (Answer, String) {
    let found = judged.iter().find(|one| one.claim.contains(claim));
    found.map(|one| (one.answer, one.reason.clone())).unwrap_or_else(|| panic!("no {claim} in {judged:?}"))
}

#[test]
fn gains_are_over_app_only_by_both_clocks() {
    let grid = Grid::new(&run("multi-read,ycsb,writers-4", 3, good));
    assert_eq!(grid.columns.len(), 8 + 6 + 2, "both sides of the shared file");
    let at = |id: &str| grid.columns.iter().position(|column| column.id == id).unwrap();
    let row = |id: &str| grid.rows.iter().position(|row| row.id() == id).unwrap();
    assert!((grid.gain(row("auto"), at("pvt-seq"), false).unwrap() - 5.0).abs() < 1e-9);
    assert!((grid.gain(row("auto"), at("writers-4"), true).unwrap() - 1.0).abs() < 1e-9);
    let cell = grid.cell("auto", "pvt-seq").unwrap();
    assert_eq!((cell.costs.cpu_seconds, cell.costs.device_mb, cell.costs.useful_mb), (0.75, 3.0, 1.5));
    assert!(cell.costs.wasted_mb.is_nan());
    assert_eq!(grid.cell("predict", "pvt-seq").unwrap().absent, Some(Absent::NotRun));
    assert_eq!(grid.run_rows().len(), 4);
    let absent = grid.absent();
    assert_eq!(absent.len(), 1, "{absent:?}");
    assert!(absent[0].contains("OSonly ycsb-a") && absent[0].contains("and 3 others: no <librocksdb>"));
}

#[test]
fn published_gains_are_judged_by_wall_time() {
    let judged = claims::judge(&Grid::new(&run("all", 3, good)), &Rules::default());
    assert_eq!(answer(&judged, "up to 3.7").0, Answer::Reproduced);
    let (told, why) = answer(&judged, "at least 1.22");
    assert_eq!(told, Answer::NotReproduced);
    assert!(why.contains("writers-4 1.00") && !why.contains("readers"), "{why}");
    let (told, why) = answer(&judged, "pvt-seq");
    assert_eq!(told, Answer::Reproduced, "5 is more than 80 % of 4.13");
    assert!(why.contains("5.00 x by the artifact's timer") && why.contains("cat first: 0.50 x"), "{why}");
    let (told, why) = answer(&judged, "pvt-rand");
    assert_eq!(told, Answer::NotReproduced, "5 is less than 80 % of 8.5");
    assert!(why.ends_with("; A"), "{why}");
    assert!(answer(&judged, "writers-1").1.ends_with("; B"));
    assert_eq!(answer(&judged, "never below").0, Answer::Reproduced);
}

#[test]
fn few_trials_tell_nothing_and_harm_is_found() {
    let judged = claims::judge(&Grid::new(&run("pvt-seq", 2, good)), &Rules::default());
    assert!(judged.iter().all(|one| one.answer == Answer::CannotTell), "{judged:?}");
    assert!(answer(&judged, "pvt-seq").1.contains("2 trials, 3 are needed"));
    assert_eq!(judged.len(), 4, "claims on columns that were not measured are left out");
    let harm = |row: &str, column: &str, trial: u32| {
        good(row, column, trial).map(|value| if row == "auto" && column == "readseq" { 60.0 } else { value })
    };
    let (told, why) = answer(&claims::judge(&Grid::new(&run("all", 3, harm)), &Rules::default()), "never");
    assert_eq!(told, Answer::NotReproduced);
    assert!(why.starts_with("below: readseq 0.60 x"), "{why}");
    let nothing = claims::judge(&Grid::new(&run("all", 3, |_, _, _| None)), &Rules::default());
    assert!(nothing.iter().all(|one| one.answer == Answer::CannotTell), "{nothing:?}");
}

#[test]
fn files_have_the_artifacts_form() {
    let files = csv::files(&Grid::new(&run("multi-read,shared-rw,ycsb", 3, good)));
    let of = |name: &str| {
        let found = files.iter().find(|(file, _)| file == name);
        found.unwrap_or_else(|| panic!("no {name}")).1.as_str()
    };
    assert_eq!(
        of("Figure-9a-RocksDB-YCSB-RESULT.csv"),
        "Workload,APPonly,OSonly,CrossP[+fetchall+opt],CrossP[+predict],CrossP[+predict+opt]\n\
         ycsbwklda,200,,,,1001\nycsbwkldb,200,,,,1001\nycsbwkldc,200,,,,1001\n\
         ycsbwkldd,200,,,,1001\nycsbwklde,200,,,,1001\nycsbwkldf,200,,,,1001\n"
    );
    assert_eq!(of("Figure-6-scalability-RESULT.csv"), "200,200,,200\n".repeat(4), "writers, no labels");
    assert!(of("Figure-5-multi_read-RESULT.csv").contains("\npvt_seq,200,200,,,1001\n"));
    assert!(of("WALL-Figure-6-scalability-RESULT.csv").contains("\nreaders-16,100.1,100.1,,500.5,,,50.0\n"));
    let details = of("DETAILS.csv");
    let line = details.lines().find(|line| line.starts_with("pvt-seq,auto,")).unwrap();
    assert_eq!(line, "pvt-seq,auto,MB/s,3,500.5000,1001.0000,1.0000,,,,0.7500,3.0000,2.0000,1.5000,");
    assert!(files.iter().all(|(name, text)| !name.contains('/') && text.ends_with('\n')));
}

#[test]
fn outputs_name_everything_and_escape_what_they_quote() {
    let grid = Grid::new(&run("all", 3, good));
    let judged = claims::judge(&grid, &Rules::default());
    let text = terminal::report(&grid, &judged, &sizes().lines(), false);
    for column in columns::COLUMNS {
        assert!(text.contains(column.id), "{}", column.id);
    }
    for told in ["[4.13x]", "F2FS", "NVMe-oF", "whole files within open", "500 5.00x [4.13x]", "mode auto"] {
        assert!(text.contains(told), "{told}\n{text}");
    }
    assert!(!text.contains('\x1b') && terminal::report(&grid, &judged, &[], true).contains("\x1b[32m"));
    let page = html::page(&grid, &judged, &sizes().lines(), &["a & b".into()]);
    assert!(page.contains("a &amp; b") && page.contains("no &lt;librocksdb&gt;"));
    assert!(!page.contains("no <librocksdb>") && page.matches("<svg").count() == Group::ALL.len());
    for group in Group::ALL {
        let drawing = svg::figure(&grid, group);
        assert_eq!(drawing.matches("<svg").count(), drawing.matches("</svg>").count());
        assert!(!drawing.contains("NaN") && drawing.contains("cat first"), "{drawing}");
    }
}
