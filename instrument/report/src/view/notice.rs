//! What a reader must know beside the figures.

use stats::metric::names;
use stats::outcome::Ended;
use stats::steady::{self, ChangePoint, SteadyRule};
use stats::{OpOutcome, Outcome};
use study::results::{Status, Trial};

use super::{CellState, GridPoint, Stack, View, facts, flowop};
use crate::format;

/// Something a reader must know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// What it is about.
    pub kind: Kind,
    /// The stack, the load or both; empty for the whole run.
    pub place: String,
    /// What happened.
    pub text: String,
    /// What to do about it; may be empty.
    pub advice: String,
}

/// Kinds of notices, the weightiest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Trials that failed or were killed.
    Failure,
    /// Stacks that this machine cannot run.
    Unavailable,
    /// Operations that failed within a trial.
    Errors,
    /// Operations skipped for want of a file.
    Starvation,
    /// Reasons to doubt a figure: few trials, outliers, a stopped trial, unsteady load, a changed machine.
    Doubt,
    /// Remarks that the load engine made.
    Remark,
}

impl Kind {
    /// A word for tables.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Failure => "failed",
            Kind::Unavailable => "unavailable",
            Kind::Errors => "errors",
            Kind::Starvation => "starved",
            Kind::Doubt => "doubt",
            Kind::Remark => "remark",
        }
    }
}

/// All notices of a run, the weightiest first, else in the order of the grid. What is said of several cells
/// alike is said once.
pub fn notices(view: &View<'_>) -> Vec<Notice> {
    let mut said: Vec<CellRemark> = Vec::new();
    for row in 0..view.stacks.len() {
        for column in 0..view.loads.len() {
            let mut say = |kind, (text, advice): (String, &'static str)| match said
                .iter_mut()
                .find(|one| one.kind == kind && one.text == text)
            {
                Some(known) => known.places.push((row, column)),
                None => said.push(CellRemark { kind, text, advice, places: vec![(row, column)] }),
            };
            let point = view.point(row, column);
            failures(point).into_iter().for_each(|text| say(Kind::Failure, (text, "")));
            operations(point, &mut say);
            outliers(point).into_iter().for_each(|text| say(Kind::Doubt, (text, "")));
            stopped(point).into_iter().for_each(|text| say(Kind::Doubt, text));
            unsteady(point).into_iter().for_each(|text| say(Kind::Doubt, text));
            implausible(point).into_iter().for_each(|text| say(Kind::Doubt, text));
            remarks(point).into_iter().for_each(|text| say(Kind::Remark, (text, "")));
        }
    }
    let unavailable = view.stacks.iter().enumerate().filter_map(|(row, stack)| unavailable(view, row, stack));
    let mut all: Vec<Notice> = unavailable.collect();
    all.extend(said.into_iter().map(|one| Notice {
        kind: one.kind,
        place: place(view, &one.places),
        text: one.text,
        advice: one.advice.into(),
    }));
    all.extend(few_trials(view));
    all.extend(corrected_since(view));
    all.extend(changed_machine(view));
    all.sort_by_key(|notice| notice.kind);
    all
}

/// Those of an evaluation that its own tables and notes do not say.
pub fn beside_evaluation(view: &View<'_>) -> Vec<Notice> {
    let mut all = notices(view);
    all.retain(|notice| !matches!(notice.kind, Kind::Unavailable | Kind::Remark));
    all
}

/// Something said of cells, by row and column.
struct CellRemark {
    kind: Kind,
    text: String,
    advice: &'static str,
    places: Vec<(usize, usize)>,
}

/// Names the load only where there are several, and the stack likewise.
fn place(view: &View<'_>, places: &[(usize, usize)]) -> String {
    let Some(&(row, column)) = places.first() else { return String::new() };
    let (stack, load) = (&view.stacks[row].name, &view.loads[column].label);
    let number = places.len();
    if number == 1 {
        return match (view.loads.len() > 1, view.stacks.len() > 1) {
            (true, true) => format!("{load} on {stack}"),
            (false, true) => stack.clone(),
            _ => load.clone(),
        };
    }
    if places.iter().all(|place| place.0 == row) {
        format!("{stack}, {number} loads")
    } else if places.iter().all(|place| place.1 == column) {
        format!("{load}, {number} stacks")
    } else {
        format!("{number} cells")
    }
}

/// A stack that cannot run is said once, not for each load.
fn unavailable(view: &View<'_>, row: usize, stack: &Stack) -> Option<Notice> {
    let said = view.row(row).iter().find_map(|point| match point.standing {
        CellState::Unavailable { reason, remedy } => Some((reason, remedy)),
        _ => None,
    })?;
    Some(Notice {
        kind: Kind::Unavailable,
        place: stack.name.clone(),
        text: said.0.to_string(),
        advice: said.1.to_string(),
    })
}

/// Trials without a result, one line for each distinct reason.
fn failures(point: &GridPoint<'_>) -> Vec<String> {
    let mut reasons: Vec<(String, Vec<u32>)> = Vec::new();
    for trial in &point.trials {
        let Some(reason) = failure(trial) else { continue };
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, trials)) => trials.push(trial.index),
            None => reasons.push((reason, vec![trial.index])),
        }
    }
    let all = point.trials.len();
    reasons.into_iter().map(|(reason, trials)| format!("{} {reason}", trial_numbers(&trials, all))).collect()
}

fn failure(trial: &Trial) -> Option<String> {
    match &trial.status {
        Status::Failed { message } => Some(format!("failed: {message}")),
        Status::TimedOut { after_seconds } => {
            Some(format!("took longer than {} and was killed", format::span_seconds(*after_seconds)))
        }
        Status::Interrupted => Some("was interrupted".into()),
        Status::Done => match &trial.outcome.as_ref()?.ended {
            Ended::Failed { message } => Some(format!("ended early: {message}")),
            _ => None,
        },
        Status::Unavailable { .. } => None,
    }
}

/// `trial 3 of 5`, `trials 1, 3 of 5`, `every trial`. Trials are counted from 1 for people.
fn trial_numbers(trials: &[u32], all: usize) -> String {
    let numbers: Vec<String> = trials.iter().map(|index| (index + 1).to_string()).collect();
    match trials {
        _ if trials.len() == all && all > 1 => "every trial".into(),
        [_] => format!("trial {} of {all}", numbers[0]),
        _ => format!("trials {} of {all}", numbers.join(", ")),
    }
}

fn operations(point: &GridPoint<'_>, say: &mut impl FnMut(Kind, (String, &'static str))) {
    for op in flowop::flowops(point) {
        let tried = op.ops.saturating_add(op.starved).saturating_add(op.errors);
        if op.errors > 0 {
            let share = format::small_share(op.errors, tried);
            say(
                Kind::Errors,
                (format!("{}: {} operations failed ({share})", op.name, format::count(op.errors)), ""),
            );
        }
        if op.starved > 0 {
            let share = format::small_share(op.starved, tried);
            let text =
                format!("{}: {} operations found no file ({share})", op.name, format::count(op.starved));
            say(Kind::Starvation, (text, "give the fileset more files, or fewer threads"));
        }
    }
}

/// Outliers are shown, never dropped; with fewer than 5 values nothing can be said, and what lies within 5 % of
/// the median troubles nobody.
fn outliers(point: &GridPoint<'_>) -> Option<String> {
    let median = point.median()?;
    if point.values.len() < 5 {
        return None;
    }
    let far = |at: &usize| point.values.get(*at).is_some_and(|value| (value / median - 1.0).abs() > 0.05);
    let flagged: Vec<usize> = stats::outlier::flagged(&point.values).ok()?.into_iter().filter(far).collect();
    let indices: Vec<u32> = point.results().map(|(trial, _)| trial.index + 1).collect();
    let named: Vec<String> = flagged.iter().filter_map(|at| indices.get(*at)).map(u32::to_string).collect();
    let noun = if named.len() == 1 { "trial" } else { "trials" };
    let text = format!("{noun} {} far from the others (kept in the median)", named.join(", "));
    (!named.is_empty()).then_some(text)
}

/// Trials that were stopped, or whose machine was suspended, while they ran.
fn stopped(point: &GridPoint<'_>) -> Option<(String, &'static str)> {
    let seconds = |outcome: &Outcome| {
        outcome.metrics.iter().find(|m| m.name == names::STOPPED_SECONDS).map(|m| m.value)
    };
    let all: Vec<(u32, f64)> =
        point.results().filter_map(|(trial, outcome)| Some((trial.index, seconds(outcome)?))).collect();
    let longest = all.iter().map(|(_, seconds)| *seconds).reduce(f64::max)?;
    let indices: Vec<u32> = all.iter().map(|(index, _)| *index).collect();
    let longest = format::span_seconds(longest);
    let text = format!(
        "{} stood still for up to {longest}: the process was stopped, or the machine suspended",
        trial_numbers(&indices, point.trials.len())
    );
    Some((text, "run it again and leave it running"))
}

/// Trials that moved more bytes than the machine copies in its memory: all of it, or an operation in the seconds of its part.
fn implausible(point: &GridPoint<'_>) -> Option<(String, &'static str)> {
    let excess = |(trial, outcome): (&Trial, &Outcome)| {
        let most = trial.environment.as_ref()?.load.copied_bytes_per_second? as f64;
        let whole = (outcome.io_bytes() as f64 / outcome.measured_seconds, String::new());
        let part = |op: &OpOutcome| (op.bytes as f64 / outcome.op_seconds(op), format!("{}: ", op.name));
        let beyond = |(moved, _): &(f64, String)| moved.is_finite() && *moved > most;
        // what all of it did says more than what an operation of it did
        let moved = Some(whole).filter(beyond).or_else(|| {
            let parts = outcome.io().map(part).filter(beyond);
            parts.max_by(|one, other| one.0.total_cmp(&other.0))
        });
        moved.map(|(moved, of)| (moved, of, most))
    };
    let (moved, of, most) =
        point.results().filter_map(excess).max_by(|one, other| one.0.total_cmp(&other.0))?;
    let text = format!(
        "{of}{} MiB/s are more than the {} MiB/s that this machine copies in memory: its data were in the processors' caches, or its bytes \
         were not touched",
        format::mebibytes(moved),
        format::mebibytes(most)
    );
    Some((text, "take more data than the caches hold, or check what is read"))
}

/// Lasting changes of level within the measured interval.
fn unsteady(point: &GridPoint<'_>) -> Option<(String, &'static str)> {
    let judged: Vec<Vec<ChangePoint>> = point.results().filter_map(|(_, outcome)| changes(outcome)).collect();
    let unsteady = judged.iter().filter(|changes| !changes.is_empty()).count();
    // One trial in many may be a false alarm.
    if unsteady * 2 < judged.len() {
        return None;
    }
    let first = judged.iter().flatten().next()?;
    let text = format!(
        "throughput changed its level within {unsteady} of {}, e.g. at second {} from {} to {} ops/s",
        format::plural(judged.len(), "trial"),
        first.at,
        format::scaled(first.before),
        format::scaled(first.after),
    );
    Some((text, "a longer run or warm-up may be needed"))
}

/// Lasting changes of the throughput; `None` when the series is too short to judge.
pub fn changes(outcome: &Outcome) -> Option<Vec<ChangePoint>> {
    let series: Vec<f64> = outcome.io_ops_by_second().iter().map(|ops| *ops as f64).collect();
    if series.len() < 20 {
        return None;
    }
    steady::change_points(&series, &SteadyRule::default()).ok()
}

/// Remarks of the load engine, each once with the number of trials that made it.
fn remarks(point: &GridPoint<'_>) -> Vec<String> {
    let mut all: Vec<(String, usize)> = Vec::new();
    for note in point.results().flat_map(|(_, outcome)| &outcome.notes) {
        match all.iter_mut().find(|(known, _)| known == note) {
            Some((_, times)) => *times += 1,
            None => all.push((note.clone(), 1)),
        }
    }
    let trials = point.results().count();
    let said = |(note, times): (String, usize)| {
        if times == trials {
            note
        } else {
            format!("{note} ({times} of {})", format::plural(trials, "trial"))
        }
    };
    all.into_iter().map(said).collect()
}

fn few_trials(view: &View<'_>) -> Option<Notice> {
    let estimates = (0..view.stacks.len()).flat_map(|row| view.row(row)).filter_map(|point| point.estimate);
    let worst = estimates.map(|estimate| estimate.interval.coverage).reduce(f64::min)?;
    let needed = stats::interval::values_needed(0.5, super::LEVEL)?;
    let text = if worst > 0.0 {
        format!(
            "with few trials an interval is just their range: it covers the median with {} confidence at worst",
            confidence(worst)
        )
    } else {
        "a single trial has no interval, and nothing can be concluded from it".into()
    };
    (worst < super::LEVEL - 1e-9).then(|| Notice {
        kind: Kind::Doubt,
        place: String::new(),
        text,
        advice: format!("run {needed} trials or more for 95 %"),
    })
}

/// Rounded down to a tenth of a percent.
pub fn confidence(coverage: f64) -> String {
    let tenths = (coverage * 1000.0 + 1e-9).floor() / 10.0;
    if tenths.fract() == 0.0 { format!("{tenths:.0} %") } else { format!("{tenths:.1} %") }
}

/// Figures that were wrong when the run was measured.
fn corrected_since(view: &View<'_>) -> impl Iterator<Item = Notice> {
    analysis::corrections::affected(view.run).into_iter().map(|what| Notice {
        kind: Kind::Doubt,
        place: String::new(),
        text: format!("measured before a correction: {what}"),
        advice: "run it again".into(),
    })
}

fn changed_machine(view: &View<'_>) -> Option<Notice> {
    let changed: Vec<String> = facts::facts(view.run)
        .varying
        .into_iter()
        .filter(|one| !one.by_stack && one.fundamental)
        .map(|one| one.name)
        .collect();
    (!changed.is_empty()).then(|| Notice {
        kind: Kind::Doubt,
        place: String::new(),
        text: format!("the machine or its load was not the same in all trials: {}", changed.join(", ")),
        advice: "see the environment".into(),
    })
}
