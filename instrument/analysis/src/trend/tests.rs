use stats::rng::SplitMix;

use super::*;
use study::Study;
use study::plan;
use study::results::Run;

/// A run without trials of one workload on two stacks.
fn head(settings: &str) -> Run {
    let text = format!("stacks = ['ext4', 'tmpfs']\n[study]\n{settings}\n[[workload]]\nfile = 'mail.f'\n");
    let study = Study::parse(&text, "s.toml", &|_| Ok("run 60".into())).unwrap();
    Run {
        version: study::results::VERSION,
        id: "r".into(),
        title: String::new(),
        started: Timestamp::UNIX_EPOCH,
        finished: None,
        seed: 1,
        command_line: vec![],
        loadline: String::new(),
        study_hash: settings.into(),
        planned_trials: 1,
        shard: None,
        parts: Vec::new(),
        cells: plan::cells(&study),
        study: study.to_toml(),
        published: vec![],
        trials: vec![],
    }
}

/// Runs an hour apart of both stacks: 2 % of noise, and a machine that both share.
fn past(head: &Run, levels: &[f64], machine: f64) -> Vec<PastResult> {
    let mut coins = SplitMix::new(3);
    let mut noise = |size: f64| 1.0 + size * (f64::from(coins.next_u64() as u32) / f64::from(u32::MAX) - 0.5);
    let mut past = Vec::new();
    for (hour, level) in levels.iter().enumerate() {
        let shared = noise(machine);
        for (cell, level) in [(0, *level), (1, 5000.0)] {
            past.push(PastResult {
                run: format!("r{hour}"),
                study_hash: head.study_hash.clone(),
                cell,
                started: Timestamp::from_second(3600 * hour as i64).unwrap(),
                values: (0..3).map(|_| level * shared * noise(0.04)).collect(),
            });
        }
    }
    past
}

fn wanted(stack: &'static str) -> SeriesFilter<'static> {
    SeriesFilter {
        workload: Some("mail"),
        stack: Some(stack),
        anchor: None,
        metric: MetricName::Throughput,
        every_seconds: 3600.0,
    }
}

fn levels(before: usize, after: usize, change: f64) -> Vec<f64> {
    [vec![1000.0; before], vec![1000.0 * change; after]].concat()
}

#[test]
fn a_lower_level_is_found_where_it_began() {
    let head = head("");
    let found = trends(
        &CellDefinitions::of(std::slice::from_ref(&head)),
        &past(&head, &levels(12, 6, 0.9), 0.0),
        &wanted("ext4"),
    );
    let [trend] = found.as_slice() else { panic!("{found:?}") };
    let [change] = trend.changes.as_slice() else { panic!("{trend:?}") };
    assert_eq!((change.at, change.better, change.standing), (12, false, ChangeStatus::Reported));
    assert_eq!(change.runs, ("r11".into(), "r12".into()));
    assert!((change.ratio() - 0.9).abs() < 0.02, "{change:?}");
    assert_eq!(trend.conclusion(), Conclusion::SomeWorse);
    // of the other stack nothing is to be told, of both together it is
    let other = trends(
        &CellDefinitions::of(std::slice::from_ref(&head)),
        &past(&head, &levels(12, 6, 0.9), 0.0),
        &wanted("tmpfs"),
    );
    assert_eq!((other[0].changes.len(), conclusion(&other)), (0, Conclusion::NoWorse));
}

#[test]
fn a_mended_level_is_no_failure_any_more() {
    let head = head("");
    let levels = [levels(12, 10, 0.8), vec![1000.0; 8]].concat();
    let found = trends(
        &CellDefinitions::of(std::slice::from_ref(&head)),
        &past(&head, &levels, 0.0),
        &wanted("ext4"),
    );
    assert_eq!(
        found[0].changes.iter().map(|change| (change.at, change.better)).collect::<Vec<_>>(),
        [(12, false), (22, true)]
    );
    assert_eq!(found[0].conclusion(), Conclusion::NoWorse);
}

#[test]
fn what_the_machine_did_to_both_stacks_goes_with_an_anchor() {
    let head = head("");
    let past = past(&head, &levels(12, 6, 0.9), 1.0);
    let blind = trends(&CellDefinitions::of(std::slice::from_ref(&head)), &past, &wanted("ext4"));
    assert_eq!(blind[0].changes, [], "a machine of +-50 % hides 10 %");
    let anchored = SeriesFilter { anchor: Some("tmpfs"), ..wanted("ext4") };
    let found = trends(&CellDefinitions::of(std::slice::from_ref(&head)), &past, &anchored);
    assert_eq!(found[0].changes.iter().map(|change| change.at).collect::<Vec<_>>(), [12]);
    assert!((found[0].points[0].value - 0.2).abs() < 0.02, "{:?}", found[0].points[0]);
}

#[test]
fn other_settings_are_another_series_and_other_trials_are_not() {
    let heads = [head(""), head("trials = 9"), head("seconds = 5")];
    let asks = CellDefinitions::of(&heads);
    let all: Vec<PastResult> = heads.iter().flat_map(|head| past(head, &[1000.0], 0.0)).collect();
    let each = SeriesFilter { every_seconds: 0.0, ..wanted("ext4") };
    let found = trends(&asks, &all, &each);
    let shown: Vec<_> = found.iter().map(|trend| (trend.points.len(), trend.settings.clone())).collect();
    assert_eq!(shown, [(2, vec![]), (1, vec!["seconds=5.0".to_string()])]);
    // the same hour is one point
    assert_eq!(trends(&asks, &all, &wanted("ext4"))[0].points[0].runs.len(), 2);
}

#[test]
fn what_is_kept_of_a_study_changes_with_its_version_only() {
    let text = "stacks = ['ext4']\n[study]\nseconds = 5\n[[workload]]\nfile = 'mail.f'\nset = { nfiles = 7 }\n\
                parameters = { nthreads = [1, 2] }\n";
    let study = Study::parse(text, "s.toml", &|_| Ok("run 60".into())).unwrap();
    let head = Run { cells: plan::cells(&study), study: study.to_toml(), ..head("") };
    let kept = serde_json::to_string(&defined_cells(&head)).unwrap();
    let cell = |id: u32, threads: u32, series: &str| {
        let parameters = format!(r#"[{{"name":"nthreads","value":"{threads}"}}]"#);
        let cell = format!(r#"{{"id":{id},"workload":"mail","stack":"ext4","parameters":{parameters}}}"#);
        let settings = r#"["nfiles=7","seconds=5.0"]"#;
        format!(
            r#"{{"cell":{cell},"load":"mail nthreads={threads}","series":"{series}","settings":{settings}}}"#
        )
    };
    let (one, two) = ("3a93f6f5eda4d49a2d6d222d9bbe9435", "aa933b36fae149f0dd2de76614f34d0e");
    let expected = (1, format!("[{},{}]", cell(0, 1, one), cell(1, 2, two)));
    assert_eq!(
        (ASKS_VERSION, kept.clone()),
        expected,
        "another outcome needs another `trend::asks::VERSION`"
    );
    assert_eq!(serde_json::from_str::<Vec<DefinedCell>>(&kept).unwrap(), defined_cells(&head));
}

#[test]
fn few_points_are_no_answer() {
    let head = head("");
    let found = trends(
        &CellDefinitions::of(std::slice::from_ref(&head)),
        &past(&head, &levels(5, 4, 0.5), 0.0),
        &wanted("ext4"),
    );
    assert_eq!((found[0].points.len(), conclusion(&found)), (9, Conclusion::CannotTell));
}
