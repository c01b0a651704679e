//! From a stored run of an embedded study to tables, claims and outputs.

use analysis::grid::{AbsentReason, Grid};
use analysis::judge;
use report::evaluation::{artifact, explain, figure, notes, parts};
use report::terminal::{self, Style};
use stats::compleat::Compleat;
use stats::{Direction, Ended, Metric, OpClass, OpOutcome, Outcome, Thresholds};
use study::embedded::EmbeddedStudy;
use study::plan;
use study::results::{Answer, Judgement, Run, Status, Trial};
use study::{Load, Study, StudyVariant};

/// What was measured: row, column and trial give a value.
type Value = fn(&str, &str, u32) -> Option<f64>;

fn study(name: &str, rows: &str, columns: &str, trials: u32) -> Study {
    let scene = StudyVariant {
        scale: Some("quick".into()),
        ram_bytes: 24 << 30,
        cores: 2,
        ..StudyVariant::default()
    };
    let mut study = EmbeddedStudy::named(name).unwrap().study(&scene).unwrap();
    study.choose(Some(rows), Some(columns)).unwrap();
    study.all_trials(trials);
    study
}

/// A run of such a study. `more` are further metrics of a column: row, column, value.
fn run(study: &Study, value: Value, more: fn(&str, &str, f64) -> Vec<(String, f64)>) -> Run {
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
        planned_trials: study.study.trials,
        shard: None,
        parts: Vec::new(),
        cells: plan::cells(study),
        published: vec![],
        trials: vec![],
    };
    for slot in plan::order(study) {
        let cell = run.cells[slot.cell as usize].clone();
        let row = study.rows.iter().find(|row| plan::is_of_row(&cell, row)).unwrap();
        let mut metrics = Vec::new();
        for column in study.columns.iter().filter(|column| column.load == cell.workload) {
            if let Some(value) = value(&row.id, &column.id, slot.index) {
                metrics.push((column.id.clone(), value));
                metrics.extend(more(&row.id, &column.id, value));
            }
        }
        let status = match (row.id.as_str(), cell.workload.as_str()) {
            ("f2fs", _) | ("os-only", "ycsb") => {
                Status::Unavailable { reason: "no <library> here".into(), remedy: "install it".into() }
            }
            _ => Status::Done,
        };
        let is_wml = study.workloads.iter().any(|one| one.name == cell.workload && one.load.wml().is_some());
        let personality = value(&row.id, &cell.workload, slot.index).filter(|_| is_wml);
        let metric = |(name, value)| Metric::rate(name, "x", value);
        let outcome = Outcome {
            measured_seconds: 1.0,
            warmup_seconds: 0.0,
            ended: Ended::Done,
            ops: personality.map(ops).into_iter().collect(),
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
            variables: Default::default(),
        });
    }
    run
}

/// What a personality did, ten operations for each unit of the value.
fn ops(value: f64) -> OpOutcome {
    OpOutcome { ops: (value * 10.0) as u64, ..OpOutcome::new("op", "read", OpClass::Io, Direction::Read) }
}

fn betrfs(columns: &str, value: Value) -> Run {
    let more = |row: &str, column: &str, _| {
        let flushes = if row == "ext4" { 900.0 } else { 3.0 };
        let mut counters = vec![
            ("counted_seconds", 2.0),
            ("device_busy_seconds", 1.9),
            ("device_flushes", flushes),
            ("device_written_bytes", 123e6),
            ("device_writes", 4567.0),
            ("device_reads", 0.0),
            ("device_read_bytes", 0.0),
            ("machine_cpu_seconds", 1.0),
            ("memory_pages_out", 100.0),
            ("flash_gc_programs", 0.0),
        ];
        if row == "betrfs" {
            counters.extend([("journal_laps", 0.4), ("checkpoints", 3.0), ("betrfs_evictions", 9.0)]);
        }
        counters.into_iter().map(|(counter, value)| (format!("{column}/{counter}"), value)).collect()
    };
    run(&study("betrfs", "ext4,xfs,f2fs,betrfs", columns, 3), value, more)
}

/// By the artifact's timer it was twice as much as by wall time.
fn crossprefetch(columns: &str, trials: u32, value: Value) -> Run {
    let more = |row: &str, column: &str, value: f64| {
        let mut metrics = vec![
            ("timed", 2.0 * value),
            ("wall_seconds", 1.0),
            ("cpu_user_seconds", 0.25),
            ("cpu_system_seconds", 0.5),
            ("device_read_bytes", 3e6),
        ];
        if row == "auto" {
            metrics.extend([("prefetched_bytes", 2e6), ("useful_bytes", 1.5e6)]);
        }
        metrics.into_iter().map(|(name, value)| (format!("{column}/{name}"), value)).collect()
    };
    run(&study("crossprefetch", "app-only,os-only,auto,cat-first", columns, trials), value, more)
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

/// `auto` reads 5 times as fast, and writes alike; cat first is slow.
fn good(row: &str, column: &str, trial: u32) -> Option<f64> {
    let base = match (row, column.starts_with("writers")) {
        ("auto", false) => 500.0,
        ("cat-first", _) => 50.0,
        _ => 100.0,
    };
    Some(base * (1.0 + f64::from(trial) * 0.001))
}

fn judged(run: &Run) -> Vec<Judgement> {
    judge::claims(run, &Thresholds::default()).unwrap()
}

fn answer(judged: &[Judgement], claim: &str) -> (Answer, String) {
    let found = judged.iter().find(|one| one.claim.contains(claim));
    found.map(|one| (one.answer, one.reason.clone())).unwrap_or_else(|| panic!("no {claim} in {judged:?}"))
}

#[test]
fn shares_are_of_the_best_row_and_absent_rows_say_why() {
    let grid = Grid::of(&betrfs("micro", paper_like)).unwrap();
    let share = |row, column| grid.place(row, column).unwrap().share.unwrap();
    assert_eq!(share("betrfs", "rand-write-4096"), 1.0);
    assert!((share("ext4", "rand-write-4096") - 4.0 / 65.0).abs() < 1e-9);
    assert_eq!(share("xfs", "grep"), 1.0);
    let row = |id| grid.row(id).unwrap();
    assert_eq!(grid.compleat(row("betrfs")), Compleat::Unknown, "the applications were not run");
    assert_eq!(grid.compleat(row("ext4")), Compleat::No);
    let whole = Grid::of(&betrfs("micro,applications", paper_like)).unwrap();
    assert_eq!(whole.compleat(row("betrfs")), Compleat::Yes);
    assert_eq!(whole.place("xfs", "oltp").unwrap().share, Some(1.0));
    assert_eq!(grid.absent(), [("F2FS".to_string(), "no <library> here; install it".to_string())]);
    let left_out = grid.left_out();
    assert!(left_out.contains(&"ZFS") && left_out.contains(&"+SFL") && !left_out.contains(&"XFS"));
}

#[test]
fn claims_hold_by_ratio_and_say_why_not() {
    let answer = |list: &str, value: Value, at: usize| {
        let judged = judged(&betrfs(list, value));
        (judged[at].answer, judged[at].reason.clone())
    };
    assert_eq!(answer("micro", paper_like, 0).0, Answer::Reproduced);
    assert_eq!(answer("grep", paper_like, 0).0, Answer::CannotTell, "no random writes were run");
    assert_eq!(answer("micro", paper_like, 1).0, Answer::CannotTell, "no IMAP was run");
    assert_eq!(answer("micro", paper_like, 3).0, Answer::CannotTell);
    assert_eq!(answer("micro,applications", paper_like, 3).0, Answer::Reproduced);
    assert_eq!(answer("micro,applications", paper_like, 4).0, Answer::Reproduced);
    assert_eq!(answer("micro,applications", paper_like, 5).0, Answer::CannotTell, "f2fs and zfs are missing");
    let slow: Value =
        |row, _, trial| Some(if row == "betrfs" { 2.0 } else { 10.0 } * (1.0 + f64::from(trial) * 0.001));
    let (told, why) = answer("rand-write-4096,rand-write-4", slow, 0);
    assert_eq!(told, Answer::NotReproduced, "{why}");
    assert!(why.contains("0.20"), "{why}");
    let (told, why) = answer("seq-read,rand-write-4", slow, 3);
    assert_eq!(told, Answer::NotReproduced);
    assert!(why.contains("seq. read 0.20"), "{why}");
}

#[test]
fn a_bad_place_is_explained_by_its_counters() {
    let explained = explain::bad_places(&Grid::of(&betrfs("micro", paper_like)).unwrap());
    let one = explained.iter().find(|one| one.starts_with("ext4, random 4 KiB:")).unwrap();
    assert!(one.contains("flushes the device's cache more often") && one.contains("900 flushes"), "{one}");
}

#[test]
fn what_a_scaled_load_does_not_reach_of_the_original_is_said_by_counters() {
    let grid = Grid::of(&betrfs("micro", paper_like)).unwrap();
    let notes = notes(&grid);
    let regime = notes.iter().find(|notes| notes.title.starts_with("The original's regime")).unwrap();
    let line = regime.lines.iter().find(|line| line.starts_with("random 4 KiB: ")).unwrap();
    for part in [
        "does not reach log wrap (journal_laps: +query path = v0.6 0.400, above 1.00 asked; the writes fit into",
        "; reaches checkpoint (checkpoints: +query path = v0.6 3.00)",
        "reaches, unlike the original, overflow of the tree's cache (betrfs_evictions: +query path = v0.6 9.00)",
        "does not reach, as little as the original, overflow of the page cache (memory_pages_out: ext4 100, XFS 100",
        "collection of the device (flash_gc_programs: ext4 0, XFS 0, +query path = v0.6 0, above 0 asked; no load",
    ] {
        assert!(line.contains(part), "{part}\n{line}");
    }
    let large = regime.lines.iter().find(|line| line.starts_with("seq. write: ")).unwrap();
    assert!(
        large.contains("does not reach overflow of the page cache (memory_pages_out: ext4 100"),
        "{large}"
    );
    assert!(!regime.lines.iter().any(|line| line.starts_with("grep")), "nothing is asked of it");
}

#[test]
fn device_bytes_and_requests_stand_beside_random_writes() {
    let text = terminal::summary(&betrfs("micro", paper_like), Style { color: false, width: 200 });
    assert!(text.contains("written 123 MB") && text.contains("in 4567 requests"), "{text}");
    let page = report::html::page(&betrfs("micro", paper_like), &[]).unwrap();
    assert!(page.contains("written 123 MB"), "the page has them, too");
}

#[test]
fn each_row_that_was_run_has_a_file_of_the_artifacts_name() {
    let files = artifact::files(&Grid::of(&betrfs("micro", paper_like)).unwrap(), "2026-11-20");
    let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    let expected = [
        "UNITS.txt",
        "ext4-2026-11-20.csv",
        "xfs-2026-11-20.csv",
        "betrfs-v0.6-query-path-opt-2026-11-20.csv",
        "micro.svg",
    ];
    assert_eq!(names, expected, "none for F2FS, which has no result, nor for rows that were not run");
    assert!(files[0].1.contains("`mailserver`") && files[0].1.contains("master.del: s"));
    let ext4 = &files[1].1;
    assert!(ext4.starts_with("Name,N,Min,Max,Median,Avg,Stddev\n"), "{ext4}");
    let line = ext4.lines().find(|line| line.starts_with("master.del,")).unwrap();
    assert!(line.starts_with("master.del,3,10,"), "{line}");
    assert!(ext4.contains("master.seq-write80g,3,"));
}

#[test]
fn gains_are_over_the_base_row_by_both_clocks() {
    let grid = Grid::of(&crossprefetch("multi-read,ycsb,writers-4", 3, good)).unwrap();
    let measured = (0..grid.study.columns.len()).filter(|at| grid.is_measured(*at)).count();
    assert_eq!(measured, 8 + 6 + 2, "both sides of the shared file");
    let (at, row) = (|id: &str| grid.column(id).unwrap(), |id: &str| grid.row(id).unwrap());
    assert!((grid.gain(row("auto"), at("pvt-seq"), false).unwrap() - 5.0).abs() < 1e-9);
    assert!((grid.gain(row("auto"), at("writers-4"), true).unwrap() - 1.0).abs() < 1e-9);
    assert_eq!(grid.place("predict", "pvt-seq").unwrap().absent, Some(AbsentReason::NotRun));
    assert_eq!(grid.run_rows().len(), 4);
    let absent = grid.absent();
    assert_eq!(absent.len(), 1, "{absent:?}");
    assert!(absent[0].0.starts_with("OSonly, ycsb-a; ") && absent[0].1.starts_with("no <library>"));
}

#[test]
fn published_gains_are_judged_by_wall_time() {
    let judged = judged(&crossprefetch("all", 3, good));
    assert_eq!(answer(&judged, "up to 3.7").0, Answer::Reproduced);
    let (told, why) = answer(&judged, "at least 1.22");
    assert_eq!(told, Answer::NotReproduced);
    assert!(why.contains("writers-4 1.00") && !why.contains("readers"), "{why}");
    let (told, why) = answer(&judged, "pvt-seq");
    assert_eq!(told, Answer::Reproduced, "5 is more than 80 % of 4.13");
    assert!(why.contains("5.00 x by the artifact's timer"), "{why}");
    let (told, why) = answer(&judged, "pvt-rand");
    assert_eq!(told, Answer::NotReproduced, "5 is less than 80 % of 8.5");
    assert!(why.ends_with("; remark A"), "{why}");
    assert!(answer(&judged, "writers-1").1.ends_with("; remark B"));
    assert_eq!(answer(&judged, "never below").0, Answer::Reproduced);
}

#[test]
fn few_trials_tell_nothing_and_harm_is_found() {
    let few = judged(&crossprefetch("pvt-seq", 2, good));
    assert!(few.iter().all(|one| one.answer == Answer::CannotTell), "{few:?}");
    assert!(answer(&few, "pvt-seq").1.contains("2 trials, 3 are needed"));
    assert_eq!(few.len(), 4, "claims on columns that were not measured are left out");
    let harm: Value = |row, column, trial| {
        good(row, column, trial).map(|value| if row == "auto" && column == "readseq" { 60.0 } else { value })
    };
    let (told, why) = answer(&judged(&crossprefetch("all", 3, harm)), "never");
    assert_eq!(told, Answer::NotReproduced);
    assert!(why.contains("below 0.97 x in 1 of 46 columns: readseq 0.60 x"), "{why}");
    let nothing = judged(&crossprefetch("all", 3, |_, _, _| None));
    assert!(nothing.iter().all(|one| one.answer == Answer::CannotTell), "{nothing:?}");
}

#[test]
fn files_have_the_artifacts_form() {
    let files = artifact::files(&Grid::of(&crossprefetch("multi-read,shared-rw,ycsb", 3, good)).unwrap(), "");
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
    assert!(of("WALL-Figure-6-scalability-RESULT.csv").contains("\nreaders-16,100.1,100.1,500.5,50.0\n"));
    let details = of("DETAILS.csv");
    let line = details.lines().find(|line| line.starts_with("pvt-seq,auto,")).unwrap();
    assert_eq!(line, "pvt-seq,auto,MB/s,3,500.5000,1001.0000,1.0000,,,,0.7500,3.0000,2.0000,1.5000,");
    assert!(files.iter().all(|(name, text)| !name.contains('/') && text.ends_with('\n')));
}

#[test]
fn outputs_name_everything_and_escape_what_they_quote() {
    for run in [betrfs("micro,applications", paper_like), crossprefetch("all", 3, good)] {
        let grid = Grid::of(&run).unwrap();
        let text = terminal::summary(&run, Style { color: false, width: 200 });
        for row in grid.run_rows() {
            let first = grid.study.rows[row].title().split(' ').next().unwrap();
            assert!(text.contains(first), "{first}\n{text}");
        }
        assert!(!text.contains('\x1b'));
        assert!(terminal::summary(&run, Style { color: true, width: 200 }).contains("\x1b[32m"));
        let page = report::html::page(&run, &judged(&run)).unwrap();
        assert!(page.contains("no &#60;library&#62;") && !page.contains("no <library>"), "escaped");
        assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
        assert!(!page.contains("NaN"));
        for table in grid.tables() {
            let Some(drawing) = figure::file(&grid, table) else { continue };
            assert!(drawing.contains("xmlns") && !drawing.contains("NaN"), "{drawing}");
        }
        assert!(
            parts(&grid).iter().all(|part| part
                .sheet
                .lines
                .iter()
                .all(|line| line.spots.len() == part.sheet.heads.len()))
        );
    }
    let grid = Grid::of(&crossprefetch("all", 3, good)).unwrap();
    let told: String = notes(&grid).iter().flat_map(|notes| notes.lines.clone()).collect();
    for word in ["F2FS", "NVMe-oF", "whole files within open", "mode auto", "memory of the load: 512 MiB"] {
        assert!(told.contains(word), "{word}\n{told}");
    }
}

#[test]
fn a_load_that_is_wml_is_measured_by_its_operations() {
    let study = study("betrfs", "ext4", "webserver", 1);
    assert!(matches!(study.workloads[0].load, Load::Wml { .. }));
    let grid = Grid::of(&betrfs("webserver", paper_like)).unwrap();
    assert_eq!(grid.place("ext4", "webserver").unwrap().values, [100.0, 100.0, 100.0]);
}

#[test]
fn an_evaluation_hides_no_doubt() {
    let mut run = betrfs("webserver", paper_like);
    let stopped = Metric::process(stats::metric::names::STOPPED_SECONDS, "s", 3.0);
    for outcome in run.trials.iter_mut().filter_map(|trial| trial.outcome.as_mut()) {
        outcome.metrics.push(stopped.clone());
        outcome.ops.iter_mut().for_each(|op| op.errors = 7);
    }
    let text = terminal::summary(&run, Style { color: false, width: 300 });
    let page = report::html::page(&run, &[]).unwrap();
    for said in [&text, &page] {
        // 7 in each of three trials
        for part in ["Worth knowing", "stood still for up to", "21 operations failed"] {
            assert!(said.contains(part), "{part}\n{said}");
        }
        let reasons = ["no <library> here", "no &#60;library&#62; here"].map(|why| said.matches(why).count());
        assert_eq!(reasons.iter().sum::<usize>(), 1, "what the tables say is not said again");
    }
}

#[test]
fn missing_counters_explain_nothing() {
    let mut run = betrfs("micro", paper_like);
    for outcome in run.trials.iter_mut().filter_map(|trial| trial.outcome.as_mut()) {
        outcome.metrics.retain(|metric| !metric.name.ends_with("/device_busy_seconds"));
    }
    let explained = explain::bad_places(&Grid::of(&run).unwrap());
    assert!(!explained.is_empty());
    assert!(explained.iter().all(|one| one.ends_with("the counters say nothing")), "{explained:#?}");
}

#[test]
fn texts_in_tables_are_quoted() {
    let text = "stacks = ['tmpfs']\n[study]\ntrials = 1\n[[table]]\nid = 't'\ntitle = 'T'\nunit = 'op/s, all'\n\
                [[workload]]\nname = 'l'\ntext = ''\n[[row]]\nid = 'r'\n\
                [[column]]\nid = 'c'\nload = 'l'\ntable = 't'\n";
    let study = Study::parse(text, "made-up.toml", &|_| unreachable!()).unwrap();
    let files =
        artifact::files(&Grid::of(&run(&study, |_, _, _| Some(3.0), |_, _, _| Vec::new())).unwrap(), "");
    assert!(files[0].1.contains("\nt,c,r,\"op/s, all\",1,"), "{}", files[0].1);
}
