//! Goldens of the terminal's tables, and what must hold for every width.

mod fixture;

use proptest::prelude::*;
use report::terminal::{Style, claims, comparison, compleat, summary};

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
    let compared = lab::compare::compare(&baseline, &candidate, &stats::Rules::default());
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
