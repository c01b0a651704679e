//! A cell over many runs (`loadline trend`): its points, and where its level changed.
//!
//! Runs belong to one series when they asked the same: load and parameters, stack, and every setting that a result depends
//! on. The rule is that of [`stats::change`]; which changes an earlier look had raised is found by looking at the series
//! as it grew, so that a trend depends on nothing but the stored runs.

mod asks;

use std::collections::HashMap;

use jiff::Timestamp;
use serde::Serialize;
use stats::change::{self, ChangeStatus};

use crate::compare::{Conclusion, PastResult};
use crate::diff::Difference;
use study::results::MetricName;

pub use asks::{CellDefinitions, DefinedCell, VERSION as ASKS_VERSION, defined_cells};

/// How far back it is replayed which changes had been raised, in points beyond the window of [`stats::change`].
const REPLAYED: usize = 2 * change::WINDOW;

/// Which series are wanted.
#[derive(Debug, Clone, PartialEq)]
pub struct SeriesFilter<'a> {
    /// Label of the workload, with or without its parameters; `None`: each.
    pub workload: Option<&'a str>,
    /// Label of the stack; `None`: each.
    pub stack: Option<&'a str>,
    /// A stack that was not changed: each value is taken by its ratio to this stack's in the same run.
    pub anchor: Option<&'a str>,
    /// By what the values were measured.
    pub metric: MetricName,
    /// Runs that began in the same stretch of so many seconds count as one point; 0: every run is one.
    pub every_seconds: f64,
}

/// A cell over many runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Trend {
    /// The workload with its parameters.
    pub load: String,
    /// The stack.
    pub stack: String,
    /// What the workload sets, and settings other than the usual ones, e.g. `nfiles=200`, `seconds=1`.
    pub settings: Vec<String>,
    /// What the values are; ratios to the anchor, when there is one.
    pub metric: MetricName,
    /// The stack that values are ratios to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anchor: Option<String>,
    /// The oldest first.
    pub points: Vec<Point>,
    /// Where the level changed, the oldest first.
    pub changes: Vec<Change>,
}

/// One run, or the runs of one stretch of time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Point {
    /// When the first of them began.
    pub started: Timestamp,
    /// Ids of the runs.
    pub runs: Vec<String>,
    /// Trials of all of them.
    pub trials: usize,
    /// Geometric mean.
    pub value: f64,
}

/// A change of level between two points.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// Position of the first point of the new level.
    pub at: usize,
    /// The last run of the old level, and the first of the new one.
    pub runs: (String, String),
    /// Geometric mean of the level before.
    pub before: f64,
    /// Geometric mean of the level after.
    pub after: f64,
    /// Whether that is better.
    pub better: bool,
    /// Permutation p-value.
    pub p: f64,
    /// How sure it is.
    pub standing: ChangeStatus,
    /// What the two runs' environments differ in, when the caller looked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub environment: Vec<Difference>,
}

impl Change {
    /// New level by old level.
    pub fn ratio(&self) -> f64 {
        self.after / self.before
    }
}

impl Trend {
    /// Whether the last change of level that is certain was for the worse; cannot tell below
    /// [`change::POINTS_MIN`] points.
    pub fn conclusion(&self) -> Conclusion {
        if self.points.len() < change::POINTS_MIN {
            return Conclusion::CannotTell;
        }
        let certain = self.changes.iter().rfind(|change| change.standing == ChangeStatus::Reported);
        if certain.is_some_and(|change| !change.better) { Conclusion::SomeWorse } else { Conclusion::NoWorse }
    }
}

/// Some worse, else cannot tell when none has enough points, else none worse.
pub fn conclusion(trends: &[Trend]) -> Conclusion {
    let any = |wanted| trends.iter().any(|trend| trend.conclusion() == wanted);
    if any(Conclusion::SomeWorse) {
        Conclusion::SomeWorse
    } else if any(Conclusion::NoWorse) {
        Conclusion::NoWorse
    } else {
        Conclusion::CannotTell
    }
}

/// The series that are wanted, the one with most points first. `asks` knows every study, `past` has the values, the oldest
/// run first.
pub fn trends(asks: &CellDefinitions, past: &[PastResult], wanted: &SeriesFilter<'_>) -> Vec<Trend> {
    let logs: HashMap<(&str, u32), Option<f64>> = match wanted.anchor {
        Some(_) => past.iter().map(|one| ((one.run.as_str(), one.cell), mean_log(&one.values))).collect(),
        None => HashMap::new(),
    };
    let mut places: HashMap<&str, usize> = HashMap::new();
    let mut trends: Vec<Trend> = Vec::new();
    for one in past {
        let Some(asked) = asks.cell(&one.study_hash, one.cell) else { continue };
        let Some(mut value) = is_wanted(asked, wanted).then(|| mean_log(&one.values)).flatten() else {
            continue;
        };
        if let Some(anchor) = wanted.anchor {
            let Some(other) = asks.same_load_on(&one.study_hash, &asked.cell, anchor) else {
                continue;
            };
            let Some(base) = logs.get(&(one.run.as_str(), other)).copied().flatten() else { continue };
            value -= base;
        }
        let at = *places.entry(&asked.series).or_insert_with(|| {
            trends.push(Trend {
                load: asked.load.clone(),
                stack: asked.cell.stack.clone(),
                settings: asked.settings.clone(),
                metric: wanted.metric,
                anchor: wanted.anchor.map(Into::into),
                points: Vec::new(),
                changes: Vec::new(),
            });
            trends.len() - 1
        });
        add(&mut trends[at].points, one, value.exp(), wanted.every_seconds);
    }
    trends.iter_mut().for_each(|trend| trend.changes = changes(trend));
    trends.sort_by_key(|trend| std::cmp::Reverse(trend.points.len()));
    trends
}

fn is_wanted(asked: &DefinedCell, wanted: &SeriesFilter<'_>) -> bool {
    wanted.workload.is_none_or(|name| asked.cell.workload == name || asked.load == name)
        && wanted.stack.is_none_or(|stack| asked.cell.stack == stack)
        && wanted.anchor.is_none_or(|anchor| asked.cell.stack != anchor)
}

fn mean_log(values: &[f64]) -> Option<f64> {
    let all_positive = values.iter().all(|value| value.is_finite() && *value > 0.0);
    (all_positive && !values.is_empty())
        .then(|| values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64)
}

/// Adds a run: to the last point when it began in the same stretch of time.
fn add(points: &mut Vec<Point>, one: &PastResult, value: f64, every_seconds: f64) {
    let stretch = |time: Timestamp| (time.as_second() as f64 / every_seconds).floor();
    let trials = one.values.len();
    match points.last_mut() {
        Some(last) if every_seconds > 0.0 && stretch(last.started) == stretch(one.started) => {
            let runs = last.runs.len() as f64;
            last.value = ((last.value.ln() * runs + value.ln()) / (runs + 1.0)).exp();
            last.trials += trials;
            last.runs.push(one.run.clone());
        }
        _ => points.push(Point { started: one.started, runs: vec![one.run.clone()], trials, value }),
    }
}

fn changes(trend: &Trend) -> Vec<Change> {
    let series: Vec<f64> = trend.points.iter().map(|point| point.value.ln()).collect();
    let mut raised: Vec<usize> = Vec::new();
    let first = change::POINTS_MIN.max(series.len().saturating_sub(REPLAYED));
    let mut found = Vec::new();
    for length in first..=series.len() {
        found = change::points(&series[..length], &raised, change::SEED).unwrap_or_default();
        for one in &found {
            if one.standing == ChangeStatus::Reported && !raised.contains(&one.at) {
                raised.push(one.at);
            }
        }
    }
    let described = |one: change::Change| {
        let run = |at: usize, last: bool| {
            let runs = &trend.points[at].runs;
            if last { runs.last() } else { runs.first() }.cloned().unwrap_or_default()
        };
        Change {
            at: one.at,
            runs: (run(one.at.saturating_sub(1), true), run(one.at, false)),
            before: one.before.exp(),
            after: one.after.exp(),
            better: (one.after > one.before) == trend.metric.higher_is_better(),
            p: one.p,
            standing: one.standing,
            environment: Vec::new(),
        }
    };
    found.into_iter().map(described).collect()
}

#[cfg(test)]
mod tests;
