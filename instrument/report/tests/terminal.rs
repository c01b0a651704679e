//! Goldens of the terminal's tables, and what must hold for every width.

mod fixture;

use analysis::compare::ComparisonBasis;
use proptest::prelude::*;
use report::terminal::{Style, claims, comparison, compleat, summary};
use stats::Thresholds;
use stats::history::{Prior, Spread};

#[test]
fn summary_of_a_whole_run() {
    insta::assert_snapshot!(summary(&fixture::run(), Style::default()));
}

#[test]
fn summary_of_an_interrupted_run() {
    insta::assert_snapshot!(summary(&fixture::partial(), Style::default()));
}

#[test]
fn summary_of_a_single_stack() {
    insta::assert_snapshot!(summary(&fixture::single(), Style::default()));
}

#[test]
fn compleat_table_in_colour() {
    let text = compleat(&fixture::run(), Style { color: true, width: 160 });
    insta::assert_snapshot!(text.replace('\x1b', "^"));
}

#[test]
fn comparison_with_a_slower_run() {
    let baseline = fixture::run();
    let mut candidate = baseline.clone();
    for outcome in candidate.trials.iter_mut().filter_map(|trial| trial.outcome.as_mut()) {
        outcome.measured_seconds *= 1.5;
    }
    candidate.cells.truncate(7);
    candidate.trials.retain(|trial| trial.cell < 7);
    let spread = Spread::learn(&[], Prior::BARE_METAL);
    let ground = ComparisonBasis { spread, known: Default::default(), anchor: None };
    let compared = analysis::compare::compare(
        &baseline,
        &candidate,
        &ground,
        study::results::MetricName::Throughput,
        &Thresholds::default(),
    );
    insta::assert_snapshot!(comparison(&compared, Style::default()));
}

#[test]
fn claims_of_a_study() {
    insta::assert_snapshot!(claims(&fixture::judgements(), Style::default()));
}

#[test]
fn an_empty_run_says_so() {
    let mut run = fixture::run();
    run.trials.clear();
    run.finished = None;
    let text = summary(&run, Style::default());
    assert!(text.contains("There is no result yet.") && text.contains("not run"), "{text}");
    run.cells.clear();
    assert!(summary(&run, Style::default()).contains("There is no result yet."));
}

/// Without the escape sequences.
fn bare(text: &str) -> String {
    let mut bare = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\x1b') {
        bare.push_str(before);
        rest = after.split_once('m').map_or("", |(_, rest)| rest);
    }
    bare + rest
}

#[test]
fn colour_changes_nothing_but_the_colour() {
    let run = fixture::run();
    let plain = summary(&run, Style { color: false, width: 80 });
    assert!(!plain.contains('\x1b') && plain.is_ascii());
    assert_eq!(bare(&summary(&run, Style { color: true, width: 80 })), plain);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..Default::default() })]

    #[test]
    fn every_line_fits(width in 60usize..200) {
        for run in [fixture::partial(), fixture::single()] {
            let text = summary(&run, Style { color: false, width });
            for line in text.lines() {
                prop_assert!(line.chars().count() <= width, "{width}: {line}");
                prop_assert!(!line.ends_with(' '), "{line:?}");
            }
        }
    }
}

/// Every ext4 and xfs trial of the fixture with a split of its fsyncs; ext4's second trial is its median.
fn explained() -> study::results::Run {
    use study::fsync::Part;
    use study::fsync::summary::{LevelSummary, Summary, Times};
    let mut run = fixture::run();
    let fast = |cell: u32| run.cells[cell as usize].stack.starts_with("ext4");
    let slow = |cell: u32| run.cells[cell as usize].stack.starts_with("xfs");
    let cells: Vec<(u32, f64)> = (0..run.cells.len() as u32)
        .filter(|c| fast(*c) || slow(*c))
        .map(|c| (c, if fast(c) { 1.0 } else { 3.0 }))
        .collect();
    for trial in &mut run.trials {
        let Some((_, scale)) = cells.iter().find(|(cell, _)| *cell == trial.cell) else { continue };
        let times = |mean_ns: f64| {
            let mean_ns = mean_ns * scale * (1.0 + f64::from(trial.index) / 10.0);
            let ns = mean_ns as u64;
            Times { mean_ns, p50_ns: ns, p90_ns: ns, p99_ns: 2 * ns, max_ns: 3 * ns }
        };
        let parts = vec![
            (Part::DataWrite, times(5e5)),
            (Part::Flush, times(1.5e6)),
            (Part::Fua, times(4e6)),
            (Part::Queue, times(0.0)),
        ];
        let level = LevelSummary {
            name: "ext4 on loop0".into(),
            whole: times(6e6),
            parts,
            writes_mean: 7.0,
            written_bytes_mean: 28_672.0,
            flushes_mean: 2.0,
            syncs_mean: 0.0,
        };
        trial.fsync = Some(study::fsync::FsyncSplit {
            summary: Summary { fsyncs: 1000 + u64::from(trial.index), levels: vec![level] },
            typical: None,
            lost: if *scale > 1.0 { 12 } else { 0 },
            ended_early: *scale < 2.0,
            notes: vec!["the kernel sends a flush instead of FUA".into()],
        });
    }
    run
}

#[test]
fn the_split_of_fsyncs_is_shown_for_the_median_trial() {
    let text = summary(&explained(), Style { color: false, width: 140 });
    let from = text.find("what an fsync waits for").unwrap();
    insta::assert_snapshot!(text[from - 10..].split("\nWorth knowing").next().unwrap());
    let page = report::html::page(&explained(), &[]).unwrap();
    assert!(page.contains("id=\"fsyncs\"") && page.contains("12 trace events were lost"));
    assert!(!report::html::page(&fixture::run(), &[]).unwrap().contains("id=\"fsyncs\""));
}
