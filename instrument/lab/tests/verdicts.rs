//! Comparisons and judgements on made-up results.

mod common;

use analysis::compare::{
    self, ComparisonBasis, Conclusion, Machines, PastResult, RunComparison, compare_stacks,
};
use analysis::judge;
use common::{outcome, study};
use lab::Store;
use stats::between::Basis;
use stats::history::{Prior, Spread};
use stats::machine::{Conditions, MachineHistory};
use stats::{Doubt, Thresholds, Verdict};
use study::Study;
use study::results::{Answer, MetricName, Run, Status, Trial};

/// A run of a study with these throughputs for each cell.
fn run(study: &Study, throughputs: &[&[u64]]) -> Run {
    let folder = tempfile::tempdir().unwrap();
    let mut run = Store::open(folder.path()).unwrap().begin(study, &[]).unwrap();
    for (cell, values) in throughputs.iter().enumerate() {
        for (index, ops) in values.iter().enumerate() {
            run.trials.push(Trial {
                cell: cell as u32,
                index: index as u32,
                order: 0,
                status: Status::Done,
                outcome: Some(outcome(*ops)),
                environment: Some(study::environment::Environment::default()),
                commands: vec![],
                log: vec![],
                raw_output: String::new(),
                started: run.started,
                seconds: 1.0,
                fsync: None,
                extras: Default::default(),
                variables: Vec::new(),
            });
        }
    }
    run
}

const SLOW: &[u64] = &[1000, 1010, 990, 1005, 995];
const FAST: &[u64] = &[1800, 1810, 1790, 1805, 1795];
const NOISY: &[u64] = &[500, 2500, 900, 1700, 1300];

fn on(stacks: &str, rest: &str) -> Study {
    study(&format!(
        "stacks = [{stacks}]\n[study]\ntrials = 5\n[[workload]]\nname = 'a'\ntext = 'run'\n{rest}"
    ))
}

/// Compares two runs on a machine whose runs do not differ.
fn compare(baseline: &Run, candidate: &Run) -> RunComparison {
    let ground = ComparisonBasis { spread: Spread::NONE, known: MachineHistory::default(), anchor: None };
    compare::compare(baseline, candidate, &ground, MetricName::Throughput, &Thresholds::default())
}

fn conclusion(baseline: &[u64], candidate: &[u64]) -> Conclusion {
    let study = on("'ext4'", "");
    compare(&run(&study, &[baseline]), &run(&study, &[candidate])).conclusion
}

#[test]
fn conclusions_have_exit_codes() {
    assert_eq!(conclusion(SLOW, FAST), Conclusion::NoWorse);
    assert_eq!(conclusion(SLOW, SLOW), Conclusion::NoWorse);
    assert_eq!(conclusion(FAST, SLOW), Conclusion::SomeWorse);
    assert_eq!(conclusion(SLOW, NOISY), Conclusion::CannotTell);
    assert_eq!(conclusion(SLOW, &FAST[..1]), Conclusion::CannotTell);
    assert_eq!(conclusion(SLOW, &[]), Conclusion::CannotTell);
    let codes =
        [Conclusion::NoWorse, Conclusion::SomeWorse, Conclusion::CannotTell].map(Conclusion::exit_code);
    assert_eq!(codes, [0, 1, 4]);
}

#[test]
fn cells_pair_by_workload_parameters_and_stack() {
    let (two, three) = (on("'ext4', 'xfs'", ""), on("'xfs', 'btrfs', 'ext4'", ""));
    let compared = compare(&run(&two, &[SLOW, SLOW]), &run(&three, &[FAST, SLOW, NOISY]));
    let pairs: Vec<(&str, &str)> =
        compared.pairs.iter().map(|pair| (pair.baseline.as_str(), pair.candidate.as_str())).collect();
    assert_eq!(pairs, [("xfs", "xfs"), ("ext4", "ext4")]);
    assert_eq!(compared.unpaired, (vec![], vec!["a on btrfs".to_string()]));
    let line = &compared.pairs[0].lines[0];
    assert_eq!((line.metric, line.baseline, line.candidate), (MetricName::Throughput, 1000.0, 1800.0));
    assert_eq!(line.finding.verdict, Verdict::Better);
    assert_eq!(compared.pairs[0].lines[1].metric, MetricName::LatencyP99);
    // one operation in a hundred of 990 lies beyond it
    let why = Doubt::ShortTail { have: 9, need: 100 };
    assert_eq!(compared.pairs[0].lines[1].finding.verdict, Verdict::CannotTell { why });
}

#[test]
fn runs_of_one_stack_each_pair_whatever_the_stacks_are() {
    let (plain, journal) = (on("'ext4'", ""), on("'ext4,data=journal'", ""));
    let compared = compare(&run(&plain, &[FAST]), &run(&journal, &[SLOW]));
    assert_eq!(compared.pairs[0].candidate, "ext4,data=journal");
    assert_eq!((compared.unpaired, compared.conclusion), ((vec![], vec![]), Conclusion::SomeWorse));
}

#[test]
fn the_spread_between_runs_stands_in_the_interval_and_an_anchor_takes_it_out() {
    let study = on("'ext4', 'xfs'", "");
    let before = run(&study, &[SLOW, SLOW]);
    // everything is 8 % faster, and xfs by 80 % beside that
    let ext4: Vec<u64> = SLOW.iter().map(|ops| ops * 108 / 100).collect();
    let xfs: Vec<u64> = FAST.iter().map(|ops| ops * 108 / 100).collect();
    let after = run(&study, &[&ext4, &xfs]);
    let spread = Spread::learn(&[], Prior::VIRTUAL);
    let lines = |anchor| {
        let compared = compare::compare(
            &before,
            &after,
            &ComparisonBasis { spread, known: MachineHistory::default(), anchor },
            MetricName::Throughput,
            &Thresholds::default(),
        );
        compared.pairs.into_iter().map(|pair| pair.lines[0].clone()).collect::<Vec<_>>()
    };
    let plain = lines(None);
    assert!(
        matches!(plain[0].finding.verdict, Verdict::CannotTell { .. }),
        "8 % may be the machine: {plain:?}"
    );
    assert_eq!((plain[1].finding.verdict, plain[1].basis), (Verdict::Better, Some(Basis::History)));
    assert!(plain[0].machine_half_width > 0.05);
    let anchored = lines(Some("ext4"));
    assert_eq!(anchored[1].basis, Some(Basis::Anchor));
    assert!((anchored[1].finding.ratio - 1.8).abs() < 0.01, "{anchored:?}");
    assert_eq!(anchored[0].basis, Some(Basis::History), "the anchor has none itself");
}

#[test]
fn another_kernel_is_no_ground_for_a_verdict() {
    let study = on("'ext4'", "");
    let (before, mut after) = (run(&study, &[SLOW]), run(&study, &[FAST]));
    let kernel = |run: &mut Run, release: &str| {
        run.trials[0].environment.as_mut().unwrap().kernel.release = Some(release.into());
    };
    let mut before = before;
    kernel(&mut before, "6.1");
    kernel(&mut after, "6.18");
    let compared = compare(&before, &after);
    let line = &compared.pairs[0].lines[0];
    assert_eq!(line.finding.verdict, Verdict::CannotTell { why: Doubt::OtherMachine });
    assert!(line.differed[0].contains("the kernel is 6.18, before 6.1"), "{line:?}");
    assert_eq!(compared.conclusion, Conclusion::CannotTell);
}

#[test]
fn a_run_that_others_disturbed_is_no_ground_for_a_verdict() {
    let study = on("'ext4'", "");
    // on two cores, others took so many CPU seconds of each second
    let crowded = |others: f64, throughputs: &[u64]| {
        let mut run = run(&study, &[throughputs]);
        for trial in &mut run.trials {
            trial.environment.as_mut().unwrap().cpu.cores_online = Some(2);
            let metrics = &mut trial.outcome.as_mut().unwrap().metrics;
            for (name, value) in [("counted_seconds", 4.0), ("others_cpu_seconds", 4.0 * others)] {
                metrics.push(stats::Metric::machine(name, "s", value));
            }
        }
        run
    };
    let line = |others| compare(&crowded(0.02, SLOW), &crowded(others, FAST)).pairs[0].lines[0].clone();
    assert_eq!((line(0.15).finding.verdict, line(0.15).differed.len()), (Verdict::Better, 0));
    let line = line(0.82);
    assert_eq!(line.finding.verdict, Verdict::CannotTell { why: Doubt::OtherMachine });
    assert_eq!(line.differed, ["others took 41 % of the CPU, before 1 %"]);
}

/// Of eight cores the load may use one (`taskset`): what others took of it is a share of one.
#[test]
fn a_load_that_is_bound_to_a_core_has_no_more_than_that() {
    let study = on("'ext4'", "");
    let bound = |others: f64, throughputs: &[u64]| {
        let mut run = run(&study, &[throughputs]);
        for trial in &mut run.trials {
            let cpu = &mut trial.environment.as_mut().unwrap().cpu;
            (cpu.cores_online, cpu.cores_allowed) = (Some(8), Some(1));
            let metrics = &mut trial.outcome.as_mut().unwrap().metrics;
            for (name, value) in [
                ("counted_seconds", 4.0),
                ("others_cpu_seconds", 4.0 * others),
                // a fiftieth of a core, of all eight
                ("stolen_cpu_seconds", 4.0 * 0.02),
                ("cpu_user_seconds", 3.0),
                ("cpu_system_seconds", 0.0),
            ] {
                metrics.push(stats::Metric::machine(name, "s", value));
            }
        }
        run
    };
    let line = compare(&bound(0.01, SLOW), &bound(0.41, FAST)).pairs[0].lines[0].clone();
    assert_eq!(line.finding.verdict, Verdict::CannotTell { why: Doubt::OtherMachine });
    assert_eq!(line.differed, ["others took 41 % of the CPU, before 1 %"]);
    assert_eq!(line.of_cpu_left, 0.0, "nobody knows on which cores others were");
    let mut free = bound(0.01, FAST);
    for trial in &mut free.trials {
        trial.environment.as_mut().unwrap().cpu.cores_allowed = Some(8);
    }
    let line = compare(&bound(0.01, SLOW), &free).pairs[0].lines[0].clone();
    assert!(line.differed.iter().any(|what| what.contains("1 of 8 CPUs")), "{:?}", line.differed);
}

#[test]
fn the_cpu_that_others_took_is_taken_out_between_runs() {
    let study = on("'ext4'", "");
    // on two cores, of which the load could use all that others left
    let beside = |others: f64, used: f64| {
        let throughputs: Vec<u64> =
            SLOW.iter().map(|ops| (*ops as f64 * (2.0 - others) / 2.0) as u64).collect();
        let mut run = run(&study, &[&throughputs]);
        for trial in &mut run.trials {
            trial.environment.as_mut().unwrap().cpu.cores_online = Some(2);
            let metrics = &mut trial.outcome.as_mut().unwrap().metrics;
            for (name, value) in [
                ("counted_seconds", 4.0),
                ("others_cpu_seconds", 4.0 * others),
                ("cpu_user_seconds", 4.0 * used),
                ("cpu_system_seconds", 0.0),
            ] {
                metrics.push(stats::Metric::machine(name, "s", value));
            }
        }
        run
    };
    let line = |used: f64| compare(&beside(0.0, used), &beside(0.18, used * 0.91)).pairs[0].lines[0].clone();
    let busy = line(2.0);
    assert!((busy.finding.ratio - 1.0).abs() < 0.005 && (busy.of_cpu_left + 0.09).abs() < 0.005, "{busy:?}");
    // a load that waits for its device does not care, and is forgiven nothing
    let waiting = line(0.0);
    assert!((waiting.finding.ratio - 0.91).abs() < 0.005 && waiting.of_cpu_left == 0.0, "{waiting:?}");
}

#[test]
fn another_boot_is_no_ground_unless_the_history_spans_boots() {
    let study = on("'ext4'", "");
    let booted = |boot: &str, at: i64| {
        let mut run = run(&study, &[SLOW]);
        let kernel = &mut run.trials[0].environment.as_mut().unwrap().kernel;
        (kernel.boot, kernel.booted) = (Some(boot.into()), Some(at));
        run
    };
    let (a, b) = (booted("one", 1000), booted("two", 5000));
    let past = |starts: &[i64]| -> Vec<PastResult> {
        let of = |at: &i64| PastResult {
            run: format!("r{at}"),
            study_hash: a.study_hash.clone(),
            cell: 0,
            started: jiff::Timestamp::from_second(*at).unwrap(),
            values: SLOW.iter().map(|ops| *ops as f64).collect(),
        };
        starts.iter().map(of).collect()
    };
    let differed = |past: &[PastResult]| {
        let known = compare::machine_history(past, &Machines::new(), &a, &b);
        let ground = ComparisonBasis { spread: Spread::NONE, known, anchor: None };
        let compared = compare::compare(&a, &b, &ground, MetricName::Throughput, &Thresholds::default());
        compared.pairs[0].lines[0].differed.clone()
    };
    assert_eq!(differed(&past(&[2000, 3000])), ["the machine was started anew in between"]);
    assert_eq!(differed(&past(&[2000, 6000])), Vec::<String>::new());
    let tau = |b: &Run| compare::spread(&[], &Machines::new(), &a, b).tau;
    assert!(tau(&b) > tau(&a), "boots differ by more");
}

/// Twelve runs of the past whose throughputs differ by this share.
fn twelve(like: &Run, scale: f64) -> Vec<PastResult> {
    let past = |at: u32| PastResult {
        run: format!("r{at}"),
        study_hash: like.study_hash.clone(),
        cell: 0,
        started: like.started,
        values: SLOW.iter().map(|ops| *ops as f64 * (1.0 + scale * f64::from(at % 3))).collect(),
    };
    (0..12).map(past).collect()
}

/// The same machine for all of them.
fn on_machine(past: &[PastResult], machine: &Conditions) -> Machines {
    past.iter().map(|one| (one.run.clone(), machine.clone())).collect()
}

#[test]
fn the_spread_is_learned_from_other_runs_of_the_same_study() {
    let study = on("'ext4'", "");
    let (a, b) = (run(&study, &[SLOW]), run(&study, &[SLOW]));
    let tau =
        |past: &[PastResult]| compare::spread(past, &on_machine(past, &Conditions::default()), &a, &b).tau;
    let (calm, restless) = (tau(&twelve(&a, 0.001)), tau(&twelve(&a, 0.1)));
    assert!(calm < 0.02 && restless > 0.05, "{calm} {restless}");
    let mut own = twelve(&a, 0.1);
    own.iter_mut().for_each(|one| one.run = a.id.clone());
    assert!((tau(&own) - tau(&[])).abs() < 1e-12, "the runs themselves are not their own history");
}

/// Runs of another machine or kernel, and those that others disturbed, say nothing of how much quiet runs differ here.
#[test]
fn the_spread_is_learned_from_undisturbed_runs_of_this_machine_alone() {
    let study = on("'ext4'", "");
    let with_kernel = |release: &str| {
        let mut run = run(&study, &[SLOW]);
        run.trials[0].environment.as_mut().unwrap().kernel.release = Some(release.into());
        run
    };
    let (a, b) = (with_kernel("6.1"), with_kernel("6.1"));
    let past = twelve(&a, 0.1);
    let runs = |machine: &Conditions| compare::spread(&past, &on_machine(&past, machine), &a, &b).runs;
    let here = Conditions { kernel: Some("6.1".into()), cores: Some(2.0), ..Conditions::default() };
    assert_eq!(runs(&here), 12);
    assert_eq!(runs(&Conditions { kernel: Some("6.12".into()), ..here.clone() }), 0, "another kernel");
    assert_eq!(
        runs(&Conditions { others: Some(0.5), ..here.clone() }),
        0,
        "others took a quarter of the CPU"
    );
    assert_eq!(compare::spread(&past, &Machines::new(), &a, &b).runs, 0, "nothing is known of them");
}

#[test]
fn a_yardstick_that_was_always_restless_is_no_difference() {
    let study = on("'ext4'", "");
    let (a, b) = (run(&study, &[SLOW]), run(&study, &[SLOW]));
    let past = twelve(&a, 0.0);
    let machines: Machines = (past.iter().enumerate())
        .map(|(at, one)| {
            let yardstick = Some(0.1 * (at % 3) as f64);
            (one.run.clone(), Conditions { yardstick, ..Conditions::default() })
        })
        .collect();
    let sd = compare::machine_history(&past, &machines, &a, &b).yardstick_sd.unwrap();
    assert!((sd - 0.0853).abs() < 0.001, "{sd}");
    let few: Machines = machines.into_iter().take(4).collect();
    assert_eq!(compare::machine_history(&past, &few, &a, &b).yardstick_sd, None);
}

#[test]
fn the_machine_is_asked_of_the_latest_runs_and_of_other_studies_where_there_are_few() {
    let study = on("'ext4'", "");
    let (a, b) = (run(&study, &[SLOW]), run(&study, &[SLOW]));
    let one = |at: usize, study_hash: &str| PastResult {
        run: format!("{study_hash}{at}"),
        study_hash: study_hash.into(),
        cell: 0,
        started: a.started,
        values: vec![1.0],
    };
    let own = a.study_hash.clone();
    let mut past: Vec<PastResult> = (0..60).map(|at| one(at, &own)).collect();
    past.extend((0..60).map(|at| one(at, "other")));
    let asked = compare::consulted(&past, &a, &b);
    assert_eq!((asked.len(), asked[0].as_str()), (50, format!("{own}10").as_str()));
    let few = compare::consulted(&past[57..], &a, &b);
    assert_eq!((few.len(), few[0].as_str(), few[52].as_str()), (53, "other10", format!("{own}59").as_str()));
    let mut old = past[57..60].to_vec();
    old.iter_mut().for_each(|one| one.started = a.started - jiff::SignedDuration::from_hours(91 * 24));
    assert!(compare::consulted(&old, &a, &b).is_empty());
}

/// Throughput is the same; the slowest 2 % take ten times as long.
#[test]
fn a_worse_tail_decides_when_it_is_asked_for() {
    let study = on("'ext4'", "");
    let with_tail = |slow_ns: u64| {
        let mut run = run(&study, &[SLOW]);
        for trial in &mut run.trials {
            let outcome = trial.outcome.as_mut().unwrap();
            let mut service = stats::Histogram::new();
            let jitter = u64::from(trial.index);
            service.record_n(10_000, 980_000);
            service.record_n(slow_ns + 100 * jitter, 20_000);
            outcome.ops[0].service = service;
        }
        run
    };
    let (fast, slow) = (with_tail(20_000), with_tail(200_000));
    let by = |by: MetricName| {
        let ground = ComparisonBasis { spread: Spread::NONE, known: MachineHistory::default(), anchor: None };
        let compared = compare::compare(&fast, &slow, &ground, by, &Thresholds::default());
        let verdicts: Vec<Verdict> =
            compared.pairs[0].lines.iter().map(|line| line.finding.verdict).collect();
        assert_eq!(verdicts, [Verdict::Same, Verdict::Worse, Verdict::Worse]);
        (compared.by, compared.conclusion)
    };
    assert_eq!(by(MetricName::Throughput), (MetricName::Throughput, Conclusion::NoWorse));
    assert_eq!(by(MetricName::LatencyP99), (MetricName::LatencyP99, Conclusion::SomeWorse));
    assert_eq!(by(MetricName::LatencyP999), (MetricName::LatencyP999, Conclusion::SomeWorse));
}

#[test]
fn stacks_of_a_run_are_compared_with_one_of_them() {
    let study = on("'ext4', 'xfs', 'btrfs'", "");
    let run = run(&study, &[SLOW, FAST, SLOW]);
    let candidates = |baseline: Option<&str>| -> Vec<(String, Verdict)> {
        let compared = compare_stacks(&run, baseline, MetricName::Throughput, &Thresholds::default());
        compared.pairs.into_iter().map(|pair| (pair.candidate, pair.lines[0].finding.verdict)).collect()
    };
    let expect =
        |pairs: [(&str, Verdict); 2]| pairs.map(|(stack, verdict)| (stack.to_string(), verdict)).to_vec();
    assert_eq!(candidates(None), expect([("xfs", Verdict::Better), ("btrfs", Verdict::Same)]));
    assert_eq!(candidates(Some("xfs")), expect([("ext4", Verdict::Worse), ("btrfs", Verdict::Worse)]));
    assert_eq!(candidates(Some("zfs")), []);
}

#[test]
fn the_environment_is_diffed_without_what_always_differs() {
    let study = on("'ext4'", "");
    let (left, mut right) = (run(&study, &[SLOW]), run(&study, &[SLOW]));
    let environment = right.trials[0].environment.as_mut().unwrap();
    environment.cpu.governor = Some("powersave".into());
    environment.load.available_bytes = Some(1);
    // Every trial of the second run found the machine busy; one of the first did.
    let mut left = left;
    left.trials.iter_mut().for_each(|trial| trial.environment.as_mut().unwrap().load.runnable = Some(1));
    left.trials[2].environment.as_mut().unwrap().load.runnable = Some(30);
    right.trials.iter_mut().for_each(|trial| trial.environment.as_mut().unwrap().load.runnable = Some(20));
    right.trials[3].environment.as_mut().unwrap().load.average = Some([20.0, 1.0, 1.0]);
    let compared = compare(&left, &right);
    let names: Vec<&str> = compared.environment.iter().map(|difference| difference.name.as_str()).collect();
    assert_eq!(names, ["load.runnable", "cpu.governor"]);
}

fn answer(claim: &str, of: &[u64], to: &[u64]) -> (Answer, String) {
    let study = on(
        "'ext4', 'xfs'",
        &format!(
            "[[claim]]\nratio.of.stack = 'xfs'\nratio.to.stack = 'ext4'\nsource = 'figure 1'\n{claim}\n"
        ),
    );
    let mut judgements = judge::claims(&run(&study, &[to, of]), &Thresholds::default()).unwrap();
    let judgement = judgements.remove(0);
    assert_eq!(judgement.source.as_deref(), Some("figure 1"));
    (judgement.answer, judgement.reason)
}

#[test]
fn claims_are_judged_by_the_interval_of_the_ratio() {
    for (claim, of, to, expected) in [
        ("expect = 1.8\ntolerance = 0.1", FAST, SLOW, Answer::Reproduced),
        ("expect = 1.8\ntolerance = 0.1", SLOW, FAST, Answer::NotReproduced),
        ("expect = 2.3", FAST, SLOW, Answer::NotReproduced),
        ("expect = 2.2", FAST, SLOW, Answer::Reproduced),
        ("expect = 1.0", NOISY, SLOW, Answer::CannotTell),
        ("at_least = 1.5", FAST, SLOW, Answer::Reproduced),
        ("at_least = 1.9", FAST, SLOW, Answer::NotReproduced),
        ("at_most = 1.9", FAST, SLOW, Answer::Reproduced),
        ("at_most = 1.5", FAST, SLOW, Answer::NotReproduced),
        ("expect = 1.0", SLOW, SLOW, Answer::Reproduced),
        ("expect = 1.8", &FAST[..2], SLOW, Answer::CannotTell),
        ("expect = 1.8", &[], SLOW, Answer::CannotTell),
    ] {
        let (answer, reason) = answer(claim, of, to);
        assert_eq!(answer, expected, "{claim}: {reason}");
        assert!(!reason.is_empty());
    }
    let latency = "metric = 'latency_p50'\nexpect = 1.0";
    assert_eq!(answer(latency, FAST, SLOW).0, Answer::Reproduced);
}

#[test]
fn reasons_name_what_is_missing() {
    assert_eq!(answer("expect = 1.8", &[], SLOW).1, "a on xfs has no result: it has not run");
    assert_eq!(answer("expect = 1.8", &FAST[..2], SLOW).1, "2 trials; 3 on each side are needed");
    let reason = answer("at_least = 1.9", FAST, SLOW).1;
    assert!(
        reason.starts_with("1.800 (1.7") && reason.ends_with(") is outside of 1.900 or more"),
        "{reason}"
    );
}

#[test]
fn judgements_have_exit_codes() {
    let judgement = |answer| study::results::Judgement {
        claim: String::new(),
        source: None,
        measured: None,
        interval: None,
        answer,
        reason: String::new(),
    };
    let code =
        |answers: &[Answer]| judge::exit_code(&answers.iter().map(|a| judgement(*a)).collect::<Vec<_>>());
    assert_eq!(code(&[]), 0);
    assert_eq!(code(&[Answer::Reproduced]), 0);
    assert_eq!(code(&[Answer::Reproduced, Answer::CannotTell]), 4);
    assert_eq!(code(&[Answer::CannotTell, Answer::NotReproduced]), 1);
}

#[test]
fn a_claim_without_words_is_described() {
    let study =
        on("'ext4', 'xfs'", "[[claim]]\nratio.of.stack = 'xfs'\nratio.to.stack = 'ext4'\nexpect = 1.8\n");
    let judgements = judge::claims(&run(&study, &[SLOW, FAST]), &Thresholds::default()).unwrap();
    assert_eq!(judgements[0].claim, "throughput of a on xfs to a on ext4 is 1.8 (within 20 %)");
    assert!((judgements[0].measured.unwrap() - 1.8).abs() < 1e-3);
    assert!(judgements[0].interval.is_some());
}
