//! What the view concludes from the records.

mod fixture;

use report::view::headline::headline;
use report::view::notice::{Kind, notices};
use report::view::verdict::{against_first, told, word};
use report::view::{CellState, Measure, View, facts};
use stats::compleat::Compleat;
use study::results::Status;

#[test]
fn memory_is_a_ceiling_and_never_the_best() {
    let run = fixture::run();
    let view = View::new(&run);
    let tmpfs = &view.stacks[4];
    assert!(!tmpfs.competes && tmpfs.compleat.is_none());
    assert!(view.point(4, 0).share.unwrap() > 4.0, "its share is of the best competitor");
    assert_eq!(view.point(1, 0).share, Some(1.0));
    assert!(!headline(&view).answer.contains("tmpfs"));
}

#[test]
fn memory_is_known_by_what_the_kernel_mounted() {
    let mut run = fixture::run();
    run.cells
        .iter_mut()
        .filter(|cell| cell.stack == "tmpfs")
        .for_each(|cell| cell.stack = "dir:/dev/shm".into());
    let view = View::new(&run);
    assert!(!view.stacks[4].competes, "its environment says tmpfs");
    run.trials.iter_mut().for_each(|trial| trial.environment = None);
    assert!(View::new(&run).stacks[4].competes);
}

#[test]
fn only_memory_competes_with_itself() {
    let mut run = fixture::run();
    run.cells.retain(|cell| cell.stack == "tmpfs");
    let view = View::new(&run);
    assert!(view.stacks[0].competes && !view.compares());
    assert_eq!(view.point(0, 0).share, None);
}

#[test]
fn a_shared_device_is_said_once() {
    let mut run = fixture::run();
    let view = View::new(&run);
    assert_eq!(view.device.as_deref(), Some("image:2G"));
    let names: Vec<&str> = view.stacks.iter().map(|stack| stack.name.as_str()).collect();
    assert_eq!(names, ["ext4", "xfs", "btrfs,compress=zstd", "f2fs", "tmpfs"]);
    let mut rename_xfs = |name: &str| {
        let cells = run.cells.iter_mut().filter(|cell| cell.stack.contains("xfs"));
        cells.for_each(|cell| cell.stack = name.into());
        let view = View::new(&run);
        (view.device, view.stacks[0].name.clone(), view.stacks[1].name.clone())
    };
    let behind_network = rename_xfs("sshfs,delay=1ms(xfs@image:2G)");
    assert_eq!(behind_network, (Some("image:2G".into()), "ext4".into(), "sshfs,delay=1ms(xfs)".into()));
    let (device, ext4, _) = rename_xfs("xfs@980pro");
    assert_eq!((device, ext4.as_str()), (None, "ext4@image:2G"));
}

#[test]
fn a_paced_load_is_compared_by_latency() {
    let mut run = fixture::run();
    let view = View::new(&run);
    assert_eq!(view.loads[3].measure, Measure::PacedLatency);
    assert_eq!(view.loads[0].measure, Measure::Throughput);
    let (ext4, btrfs) = (view.point(0, 3), view.point(2, 3));
    assert!(ext4.median().unwrap() < btrfs.median().unwrap() && btrfs.share.unwrap() < 0.01);
    // One unpaced flowop, and the throughput is no longer given.
    let paced =
        run.trials.iter_mut().filter(|trial| trial.cell == 15).filter_map(|trial| trial.outcome.as_mut());
    paced.for_each(|outcome| outcome.ops[0].intended = None);
    assert_eq!(View::new(&run).loads[3].measure, Measure::Throughput);
}

#[test]
fn places_without_results_say_why() {
    let mut run = fixture::run();
    let view = View::new(&run);
    assert!(matches!(view.point(3, 0).standing, CellState::Unavailable { .. }));
    assert!(
        matches!(view.point(2, 1).standing, CellState::Failed(message) if message.contains("os error 28"))
    );
    assert_eq!(view.point(1, 1).standing, CellState::Measured);
    assert_eq!(view.point(1, 1).values.len(), 4, "the trial that timed out is no result");
    run.trials.retain(|trial| trial.cell != 0);
    run.cells.retain(|cell| cell.id != 5);
    let view = View::new(&run);
    assert_eq!(
        (view.point(0, 0).standing, view.point(0, 1).standing),
        (CellState::NotRun, CellState::Absent)
    );
}

#[test]
fn an_interrupted_outcome_is_no_result() {
    let mut run = fixture::run();
    run.trials
        .iter_mut()
        .filter(|trial| trial.cell == 0)
        .for_each(|trial| trial.status = Status::Interrupted);
    let view = View::new(&run);
    assert_eq!((view.point(0, 0).values.len(), view.point(0, 0).standing), (0, CellState::Interrupted));
    assert_eq!(view.stacks[0].compleat, Some(Compleat::Unknown));
}

#[test]
fn verdicts_are_against_the_first_competitor() {
    let run = fixture::run();
    let view = View::new(&run);
    let said: Vec<String> = against_first(&view)
        .iter()
        .map(|one| {
            let verdict = word(&one.finding.verdict);
            format!("{} {} {verdict}", view.loads[one.column].workload, view.stacks[one.candidate].name)
        })
        .collect();
    let expected = [
        "varmail xfs better",
        "varmail btrfs,compress=zstd worse",
        "fileserver xfs cannot tell",
        "webserver xfs same",
        "webserver btrfs,compress=zstd worse",
        "mail at 2000/s xfs better",
        "mail at 2000/s btrfs,compress=zstd worse",
    ];
    assert_eq!(said, expected);
}

#[test]
fn nothing_that_went_wrong_is_hidden() {
    let run = fixture::run();
    let view = View::new(&run);
    let all = notices(&view);
    let of = |kind| all.iter().filter(|notice| notice.kind == kind).count();
    assert_eq!(
        (of(Kind::Failure), of(Kind::Unavailable), of(Kind::Errors), of(Kind::Starvation)),
        (2, 1, 1, 1)
    );
    let said = |part: &str| all.iter().any(|notice| notice.text.contains(part));
    assert!(said("at second 18"), "the change of level is placed: {all:#?}");
    assert!(said("trial 3 of 5 took longer than 2 min"));
    assert!(said("87.5 %"), "the weakest interval is named");
    let remark = all.iter().find(|notice| notice.kind == Kind::Remark).unwrap();
    assert_eq!(remark.place, "tmpfs, 4 loads", "said once");
    assert!(all.is_sorted_by_key(|notice| notice.kind));
}

#[test]
fn a_trial_that_stood_still_is_a_doubt() {
    let mut run = fixture::run();
    let doubts = |run: &study::results::Run| {
        let all = notices(&View::new(run));
        all.into_iter().filter(|notice| notice.text.contains("stood still")).collect::<Vec<_>>()
    };
    assert!(doubts(&run).is_empty());
    let trial =
        run.trials.iter_mut().find(|trial| trial.status.is_done() && trial.outcome.is_some()).unwrap();
    let stopped = stats::Metric::duration("stopped_seconds", 4.75);
    trial.outcome.as_mut().unwrap().metrics.push(stopped);
    let said = doubts(&run);
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].kind == Kind::Doubt && said[0].text.contains("trial 1 of"), "{said:?}");
    assert!(said[0].text.contains("was stopped"), "{said:?}");
}

#[test]
fn headlines_fit_what_was_asked() {
    let whole = fixture::run();
    let only = |loads: &[u32], run: &study::results::Run| {
        let mut run = run.clone();
        run.cells.retain(|cell| loads.contains(&(cell.id / 5)));
        headline(&View::new(&run))
    };
    let one = only(&[0], &whole);
    assert_eq!(one.question, "Which of ext4, xfs, btrfs,compress=zstd and f2fs carries the most of varmail?");
    assert!(one.answer.starts_with("xfs leads with 128 k ops/s"), "{}", one.answer);
    assert!(one.answer.ends_with("1.14 times as good as the next, ext4."), "{}", one.answer);
    let same = only(&[2], &whole);
    assert!(same.answer.starts_with("ext4 and xfs lead and are the same within 5 %"), "{}", same.answer);
    let paced = only(&[3], &whole);
    assert!(paced.question.contains("the fastest at its set rate"), "{}", paced.question);
    assert!(paced.answer.contains("times as good as the next"), "{}", paced.answer);
    let single = fixture::single();
    let single = headline(&View::new(&single));
    assert_eq!(single.question, "How much of varmail does ext4@image:2G carry?");
    assert!(single.answer.contains("99 % of its operations take 782 us or less"), "{}", single.answer);
    let partial = fixture::partial();
    let partial = headline(&View::new(&partial)).partial.unwrap();
    assert!(partial.starts_with("Not complete: 29 of 100 planned trials"), "{partial}");
}

#[test]
fn settings_are_sorted_by_whether_they_changed() {
    let facts = facts::facts(&fixture::run());
    let find = |name: &str| facts.varying.iter().find(|one| one.name == name);
    assert!(find("cpu.governor").is_some_and(|one| !one.by_stack && one.values.len() == 2));
    assert!(find("target.fs_type").is_some_and(|one| one.by_stack));
    assert!(!facts.varying[0].by_stack, "what changed during the run comes first");
    assert!(facts.common.contains(&("cpu.cores_online".into(), "8".into())));
    assert_eq!(
        facts::facts(&study::results::Run { trials: vec![], ..fixture::run() }),
        facts::Facts::default()
    );
}

#[test]
fn a_busy_machine_is_said() {
    let mut run = fixture::run();
    let environments = run.trials.iter_mut().filter_map(|trial| trial.environment.as_mut());
    environments.skip(20).for_each(|environment| environment.load.average = Some([40.0, 20.0, 5.0]));
    let all = notices(&View::new(&run));
    assert!(
        all.iter().any(|notice| notice.text.contains("not the same in all trials: load.average")),
        "{all:#?}"
    );
}

#[test]
fn a_rate_beyond_the_machines_memory_carries_a_doubt() {
    let mut run = fixture::run();
    let told = |run: &study::results::Run| {
        let all = notices(&View::new(run));
        all.into_iter().filter(|one| one.text.contains("copies in memory")).collect::<Vec<_>>()
    };
    assert_eq!(told(&run), [], "runs of before do not know how fast it is");
    let moved = |trial: &study::results::Trial| {
        let outcome = trial.outcome.as_ref()?;
        Some(outcome.io_bytes() as f64 / outcome.measured_seconds).filter(|rate| rate.is_finite())
    };
    let most = run.trials.iter().filter(|trial| trial.status.is_done()).filter_map(moved).fold(0.0, f64::max);
    let set = |run: &mut study::results::Run, rate: f64| {
        let environments = run.trials.iter_mut().filter_map(|trial| trial.environment.as_mut());
        environments.for_each(|one| one.load.copied_bytes_per_second = Some(rate as u64));
    };
    set(&mut run, most + 1.0);
    assert_eq!(told(&run), []);
    set(&mut run, most * 0.99);
    let found = told(&run);
    assert_eq!((found.len(), found[0].kind), (1, Kind::Doubt), "{found:?}");
}

#[test]
fn a_part_beyond_the_machines_memory_carries_a_doubt() {
    let mut run = fixture::run();
    let trial = run.trials.iter_mut().find(|trial| trial.cell == 0 && trial.status.is_done()).unwrap();
    let outcome = trial.outcome.as_mut().unwrap();
    let all = outcome.io_bytes() as f64 / outcome.measured_seconds;
    let op = outcome.ops.iter().find(|op| op.name == "readfile4").unwrap();
    // all of its bytes in so short a part that they are twice as fast as memory
    let most = all * 2.0;
    outcome.metrics.push(stats::Metric::duration("readfile4/seconds", op.bytes as f64 / (2.0 * most)));
    trial.environment.as_mut().unwrap().load.copied_bytes_per_second = Some(most as u64);
    let all = notices(&View::new(&run));
    let found: Vec<_> = all.iter().filter(|one| one.text.contains("copies in memory")).collect();
    assert_eq!(found.len(), 1, "{all:#?}");
    assert!(found[0].kind == Kind::Doubt && found[0].text.starts_with("readfile4: "), "{found:?}");
}

#[test]
fn figures_from_before_a_correction_carry_a_doubt() {
    let mut run = fixture::run();
    run.study = "stacks = ['ext4']\n[[workload]]\napp = 'tpcc'\n".into();
    let told = |run: &study::results::Run| {
        notices(&View::new(run)).into_iter().find(|one| one.text.contains("measured before a correction"))
    };
    assert_eq!(told(&run), None);
    run.version = 1;
    let found = told(&run).unwrap();
    assert!(found.kind == Kind::Doubt && found.text.contains("the tail is too short"), "{found:?}");
}

/// The mail load alone, in which no trial counted more than `most` operations of a flowop.
fn mail(most: u64) -> study::results::Run {
    let mut run = fixture::run();
    run.cells.retain(|cell| cell.workload.starts_with("mail"));
    run.trials.retain(|trial| (15..20).contains(&trial.cell));
    for op in run.trials.iter_mut().filter_map(|trial| trial.outcome.as_mut()).flat_map(|one| &mut one.ops) {
        let all = op.intended.take().unwrap_or_default();
        let mut kept = stats::Histogram::new();
        all.iter().for_each(|bucket| kept.record_n(bucket.low, (bucket.count * most / all.count()).max(1)));
        op.intended = Some(kept);
    }
    run
}

#[test]
fn a_tail_of_too_few_operations_decides_nothing() {
    let told = |run: &study::results::Run| {
        let view = View::new(run);
        let words: Vec<&str> = against_first(&view).iter().map(|one| word(&one.finding.verdict)).collect();
        (words, headline(&view).answer, view.stacks[1].compleat)
    };
    let (words, answer, compleat) = told(&mail(20_000));
    assert_eq!(words, ["better", "worse"]);
    assert!(answer.contains("times as good"), "{answer}");
    assert_eq!(compleat, Some(Compleat::Yes));
    let short = mail(400);
    let (words, answer, compleat) = told(&short);
    assert_eq!(words, ["cannot tell", "cannot tell"]);
    assert!(answer.contains("cannot be told"), "{answer}");
    assert_eq!(compleat, Some(Compleat::Unknown));
    let text = report::terminal::summary(&short, report::terminal::Style::default());
    assert!(text.contains("100 needed"), "{text}");
}

/// Loads on two or three stacks in five blocks: on the first load the second stack leads by so much that it is certain alone, and
/// among many it may be chance.
fn borderline(stacks: usize) -> study::results::Run {
    let mut run = fixture::run();
    let (trial, cell) = (run.trials[0].clone(), run.cells[0].clone());
    (run.cells, run.trials) = Default::default();
    for load in 0..20_u32 {
        for stack in 0..stacks {
            let id = run.cells.len() as u32;
            let (workload, stack_name) = (format!("load{load}"), fixture::STACKS[stack].to_string());
            run.cells.push(study::results::Cell { id, workload, stack: stack_name, ..cell.clone() });
            for index in 0..5 {
                let off = match (load, stack) {
                    (0, 1) => 0.032,
                    (0, 2) => -0.5,
                    _ => 0.0,
                };
                let noise = if stack == 1 { 0.01 * (f64::from(index) - 2.0) } else { 0.0 };
                let mut trial = study::results::Trial { cell: id, index, ..trial.clone() };
                trial.status = Status::Done;
                let outcome =
                    trial.outcome.get_or_insert_with(|| fixture::single().trials[0].outcome.clone().unwrap());
                outcome.ops.truncate(1);
                outcome.ops[0].intended = None;
                (outcome.measured_seconds, outcome.ops[0].ops) =
                    (1.0, (1e7_f64 * (off + noise).exp()) as u64);
                run.trials.push(trial);
            }
        }
    }
    run
}

#[test]
fn the_answer_of_a_load_is_that_of_the_table() {
    for stacks in [2, 3] {
        let run = borderline(stacks);
        let view = View::new(&run);
        let table = against_first(&view);
        let first = table.iter().find(|one| (one.column, one.candidate) == (0, 1)).unwrap();
        assert!(first.finding.p_value < 0.05, "alone it is certain: {first:?}");
        assert_eq!(word(&first.finding.verdict), "same");
        let answer = report::view::headline::of_load(&view, &told(&view), 0);
        assert!(answer.contains("are the same within 5 %"), "{answer}");
    }
}

#[test]
fn of_a_failed_trial_no_fsync_is_shown() {
    use study::fsync::summary::{LevelSummary, Summary, Times};
    let mut run = fixture::single();
    let times = |mean_ns| Times { mean_ns, p50_ns: 1, p90_ns: 1, p99_ns: 1, max_ns: 1 };
    for trial in &mut run.trials {
        let level = LevelSummary {
            name: "ext4 on loop0".into(),
            whole: times(1e6 * f64::from(trial.index + 1)),
            parts: Vec::new(),
            writes_mean: 0.0,
            written_bytes_mean: 0.0,
            flushes_mean: 0.0,
            syncs_mean: 0.0,
        };
        let summary = Summary { fsyncs: 10, levels: vec![level] };
        let (typical, notes) = (None, Vec::new());
        trial.fsync = Some(study::fsync::FsyncSplit { summary, typical, lost: 0, ended_early: false, notes });
        if trial.index < 4 {
            trial.status = Status::Failed { message: "no space".into() };
        }
    }
    let view = View::new(&run);
    let rows = report::view::fsync::fsyncs(&view);
    assert_eq!((rows[0].trials, rows[0].top.whole.mean_ns), (1, 5e6));
}
