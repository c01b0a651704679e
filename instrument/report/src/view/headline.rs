//! The answer in a sentence.

use stats::compleat::{Compleat, Grade};
use stats::{Sense, Verdict};

use super::verdict::{BaselineComparison, told};
use super::{GridPoint, Measure, Stack, View, notice};
use crate::format;

/// The head of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Headline {
    /// What was asked, e.g. `Which of ext4 and xfs carries the most of varmail?`.
    pub question: String,
    /// The answer with its figure and its confidence.
    pub answer: String,
    /// Set when trials of the plan are missing: how many have run.
    pub partial: Option<String>,
}

/// Puts the run into a question and its answer.
pub fn headline(view: &View<'_>) -> Headline {
    Headline { question: question(view), answer: answer(view), partial: partial(view) }
}

fn partial(view: &View<'_>) -> Option<String> {
    if view.run.finished.is_some() {
        return None;
    }
    // how many there will be is not planned
    if analysis::turns::of_run(view.run).is_some() {
        return Some("Not complete: it was interrupted; `--resume` goes on.".into());
    }
    let (done, planned) = (view.trials_done(), view.trials_planned());
    Some(format!(
        "Not complete: {done} of {} have a result. What is there is shown.",
        format::plural(planned, "planned trial")
    ))
}

fn question(view: &View<'_>) -> String {
    let mut loads: Vec<&str> = view.loads.iter().map(|load| load.workload.as_str()).collect();
    loads.dedup();
    let stacks: Vec<&str> = competing(view).map(|(_, stack)| stack.name.as_str()).collect();
    match (stacks.as_slice(), loads.as_slice()) {
        ([], _) | (_, []) => "Nothing was asked.".into(),
        ([stack], [load]) => format!("How much of {load} does {stack} carry?"),
        ([stack], loads) => format!("How much of {} does {stack} carry?", list(loads, "and")),
        (stacks, [load]) if view.loads.len() == 1 => match view.loads[0].measure {
            Measure::Throughput => format!("Which of {} carries the most of {load}?", list(stacks, "and")),
            Measure::PacedLatency => {
                format!("Which of {} answers {load} the fastest at its set rate?", list(stacks, "and"))
            }
        },
        (stacks, [load]) => format!("Is one of {} good at {load} throughout?", list(stacks, "and")),
        (stacks, loads) => {
            format!("Is one of {} good at all of {}?", list(stacks, "and"), list(loads, "and"))
        }
    }
}

fn answer(view: &View<'_>) -> String {
    if (0..view.loads.len()).all(|column| view.measured(column).next().is_none()) {
        return "There is no result yet.".into();
    }
    if let Some(so_far) = analysis::turns::of_run(view.run) {
        return crate::turns::answer(&so_far);
    }
    match (view.compares(), view.loads.as_slice()) {
        (false, [_]) => single(view, 0),
        (false, _) => format!("{} measured, one by one below.", format::plural(view.loads.len(), "load")),
        (true, [_]) => winner(view, &told(view), 0),
        (true, _) => overall(view),
    }
}

/// What one load's results say, in a sentence; `verdicts` are all that [`told`] gives.
pub fn of_load(view: &View<'_>, verdicts: &[BaselineComparison], column: usize) -> String {
    if view.compares() { winner(view, verdicts, column) } else { single(view, column) }
}

/// One stack, one load.
fn single(view: &View<'_>, column: usize) -> String {
    let load = &view.loads[column];
    let Some((_, _, point)) = view.measured(column).next() else { return String::new() };
    // some programs tell counts alone
    let tail = match (load.measure, point.service().quantile(0.99)) {
        (Measure::Throughput, Some(ns)) => {
            format!("; 99 % of its operations take {} or less", format::duration_ns(ns as f64))
        }
        _ => String::new(),
    };
    format!("{}{tail}.", with_interval(point, load.measure))
}

/// `110 k ops/s (98.2 k to 127 k in 5 trials)`.
pub fn with_interval(point: &GridPoint<'_>, measure: Measure) -> String {
    let Some(estimate) = point.estimate else { return "no result".into() };
    let value = measure.show_full(estimate.value);
    let trials = format::plural(point.values.len(), "trial");
    if point.values.len() < 2 {
        return format!("{value} in {trials}");
    }
    let (low, high) = (measure.show(estimate.interval.low), measure.show(estimate.interval.high));
    let level = notice::confidence(estimate.interval.coverage.min(super::LEVEL));
    format!("{value} ({low} to {high}, {level} confidence, {trials})")
}

/// Several stacks, one load: who leads, and whether that is certain.
fn winner(view: &View<'_>, verdicts: &[BaselineComparison], column: usize) -> String {
    let measure = view.loads[column].measure;
    let ranked = view.ranking(column);
    let Some(&(leader, point)) = ranked.first() else { return "No competing stack has a result.".into() };
    let name = |row: usize| &view.stacks[row].name;
    let lead = format!("{} leads with {}", name(leader), with_interval(point, measure));
    let Some(&(next, _)) = ranked.get(1) else { return format!("{lead}; no other has a result.") };
    let is_theirs = |one: &&BaselineComparison| {
        one.column == column && [(leader, next), (next, leader)].contains(&(one.baseline, one.candidate))
    };
    let Some(told) = verdicts.iter().find(is_theirs) else { return format!("{lead}.") };
    let leads_as_candidate = told.candidate == leader;
    let wins = if leads_as_candidate { Verdict::Better } else { Verdict::Worse };
    match told.finding.verdict {
        verdict if verdict == wins => {
            let is_times = leads_as_candidate == (measure.sense() == Sense::HigherIsBetter);
            let times = if is_times { told.finding.ratio } else { told.finding.ratio.recip() };
            format!("{lead}, {} times as good as the next, {}.", format::ratio(times), name(next))
        }
        Verdict::Same => format!(
            "{} and {} lead and are the same within 5 %: {}.",
            name(leader),
            name(next),
            with_interval(point, measure)
        ),
        _ => format!("{lead}, but whether it beats {} cannot be told from these trials.", name(next)),
    }
}

/// Several stacks, several loads: who is compleat.
fn overall(view: &View<'_>) -> String {
    let with = |wanted: Compleat| -> Vec<&str> {
        competing(view).filter(|(_, s)| s.compleat == Some(wanted)).map(|(_, s)| s.name.as_str()).collect()
    };
    let best: Vec<String> = competing(view)
        .map(|(row, stack)| (leads(view, row), stack))
        .filter(|(leads, _)| *leads > 0)
        .map(|(leads, stack)| format!("{} on {leads}", stack.name))
        .collect();
    let total = view.loads.len();
    let led = format!("Best of {}: {}.", format::plural(total, "load"), best.join(", "));
    match (with(Compleat::Yes).as_slice(), with(Compleat::Unknown).as_slice()) {
        ([], []) => format!(
            "No stack is compleat: each falls below 30 % of the best somewhere, or is rarely near it. {led}"
        ),
        ([], open) => format!(
            "No stack is known to be compleat; {} might be, with more results. {led}",
            list(open, "or")
        ),
        ([one], _) => format!(
            "{one} is compleat: never below 30 % of the best, and at 85 % or more on {}. {led}",
            good(view, one)
        ),
        (several, _) => format!(
            "{} are compleat: never below 30 % of the best, mostly at 85 % or more. {led}",
            list(several, "and")
        ),
    }
}

fn good(view: &View<'_>, name: &str) -> String {
    let row = view.stacks.iter().position(|stack| stack.name == name).unwrap_or(0);
    let good = view.row(row).iter().filter(|point| point.grade() == Some(Grade::Good)).count();
    format!("{good} of {}", format::plural(view.loads.len(), "load"))
}

/// Loads on which a row has the best median.
fn leads(view: &View<'_>, row: usize) -> usize {
    view.row(row).iter().filter(|point| point.share == Some(1.0)).count()
}

fn competing<'v>(view: &'v View<'_>) -> impl Iterator<Item = (usize, &'v Stack)> {
    view.stacks.iter().enumerate().filter(|(_, stack)| stack.competes)
}

/// `a`, `a and b`, `a, b and c`; long lists are cut.
fn list(items: &[&str], last: &str) -> String {
    match items {
        [] => String::new(),
        [one] => (*one).to_string(),
        [first @ .., end] if items.len() <= 6 => format!("{} {last} {end}", first.join(", ")),
        _ => format!("{} {last} {} more", items[..4].join(", "), items.len() - 4),
    }
}
