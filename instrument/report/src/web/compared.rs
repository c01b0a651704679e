//! A comparison, as `loadline compare` shows it: the same verdicts, reasons and figures.

use analysis::compare::{CellPair, MetricComparison, RunComparison};
use stats::Verdict;
use study::results::Run;

use crate::format;
use crate::html::charts;
use crate::terminal::comparison::{machine_words, metric, show};
use crate::view::verdict::{doubt, word};

/// What stands below the head of the page; without runs a form alone.
#[derive(Default)]
pub struct Part {
    pub a: String,
    pub b: String,
    pub rows: Vec<Row>,
    pub lists: Vec<(String, Vec<String>)>,
}

/// A verdict.
pub struct Row {
    pub load: String,
    pub stacks: String,
    pub metric: &'static str,
    pub class: &'static str,
    pub mark: &'static str,
    pub word: &'static str,
    pub doubt: String,
    pub candidate: String,
    pub baseline: String,
    pub ratio: String,
    pub interval: String,
    pub machine: Vec<String>,
    pub forest: String,
    pub p: String,
}

/// The verdicts as rows, and what else is to be said. `margin`: within it figures count as the same, as the verdicts had it.
pub fn part(compared: &RunComparison, margin: f64, a: &Run, b: Option<&Run>) -> Part {
    let lines = || compared.pairs.iter().flat_map(|pair| &pair.lines);
    let span = charts::forest_span(lines().map(|line| &line.finding));
    let rows = compared.pairs.iter().flat_map(|pair| rows(pair, margin, span)).collect();
    let mut differed: Vec<String> = Vec::new();
    for reason in lines().flat_map(|line| &line.differed) {
        if !differed.contains(reason) {
            differed.push(reason.clone());
        }
    }
    let known = |value: &Option<String>| value.clone().unwrap_or_else(|| "not known".into());
    let environment = compared.environment.iter().map(|difference| {
        format!("{}: {}, then {}", difference.name, known(&difference.left), known(&difference.right))
    });
    let corrected = std::iter::once(a).chain(b).flat_map(|run| {
        let affected = analysis::corrections::affected(run);
        affected.into_iter().map(|what| format!("run {}: {what}", run.id))
    });
    let mut lists = vec![
        ("Measured before a correction".to_string(), corrected.collect()),
        ("In what the machine differed".to_string(), differed),
        ("What differs between the environments".to_string(), environment.collect()),
        ("Only in the baseline".to_string(), compared.unpaired.0.clone()),
        ("Only in the candidate".to_string(), compared.unpaired.1.clone()),
    ];
    lists.retain(|(_, lines)| !lines.is_empty());
    let b = b.map_or_else(String::new, |run| run.id.clone());
    Part { a: a.id.clone(), b, rows, lists }
}

fn rows(pair: &CellPair, margin: f64, span: f64) -> Vec<Row> {
    let stacks = if pair.baseline == pair.candidate {
        pair.candidate.clone()
    } else {
        format!("{} / {}", pair.candidate, pair.baseline)
    };
    if pair.lines.is_empty() {
        let none = Row {
            load: pair.load.clone(),
            stacks,
            metric: "",
            class: "open",
            mark: "?",
            word: "no result",
            doubt: String::new(),
            candidate: String::new(),
            baseline: String::new(),
            ratio: String::new(),
            interval: String::new(),
            machine: Vec::new(),
            forest: String::new(),
            p: String::new(),
        };
        return vec![none];
    }
    pair.lines.iter().map(|line| row(pair, stacks.clone(), line, margin, span)).collect()
}

fn row(pair: &CellPair, stacks: String, line: &MetricComparison, margin: f64, span: f64) -> Row {
    let finding = &line.finding;
    let (class, mark) = match finding.verdict {
        Verdict::Better => ("good", "\u{25b2}"),
        Verdict::Worse => ("bad", "\u{25bc}"),
        Verdict::Same => ("same", "="),
        Verdict::CannotTell { .. } => ("open", "?"),
    };
    let range = finding.interval;
    Row {
        load: pair.load.clone(),
        stacks,
        metric: metric(line.metric),
        class,
        mark,
        word: word(&finding.verdict),
        doubt: doubt(&finding.verdict),
        candidate: show(line.metric, line.candidate),
        baseline: show(line.metric, line.baseline),
        ratio: format::ratio(finding.ratio),
        interval: format!("{}..{}", format::ratio(range.low), format::ratio(range.high)),
        machine: machine_words(line),
        forest: charts::forest(finding, margin, span),
        p: format::p_value(line.p_adjusted),
    }
}
