//! A cell over many runs (`loadline trend`): its points, and where its level changed.
//!
//! Runs belong to one series when they asked the same: load and parameters, stack, and every setting that a result depends
//! on. The rule is that of [`stats::change`]; which changes an earlier look had raised is found by looking at the series
//! as it grew, so that a trend depends on nothing but the stored runs.

use std::collections::HashMap;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};
use stats::change::{self, Standing};

use crate::compare::{Conclusion, Past};
use crate::diff::Difference;
use crate::results::{Cell, MetricName, Run};
use crate::study::{Settings, Study};

/// How far back it is replayed which changes had been raised, in points beyond the window of [`stats::change`].
const REPLAYED: usize = 2 * change::WINDOW;
/// Settings that a result does not depend on, and `containers`, which is a parameter of the cell.
const IRRELEVANT: [&str; 9] =
    ["title", "seed", "trials", "order", "timeout", "keep", "stop_early", "turns", "containers"];

/// Which series are wanted.
#[derive(Debug, Clone, PartialEq)]
pub struct Wanted<'a> {
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
    pub standing: Standing,
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
        let certain = self.changes.iter().rfind(|change| change.standing == Standing::Reported);
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

/// The series that are wanted, the one with most points first. `heads` has one run of each study, its trials are not
/// looked at; `past` has the values, the oldest run first.
pub fn trends(heads: &[Run], past: &[Past], wanted: &Wanted<'_>) -> Vec<Trend> {
    let heads: HashMap<&str, &Run> = heads.iter().rev().map(|run| (run.study_hash.as_str(), run)).collect();
    // studies recur, runs are many: what a cell was asked is read once
    let mut known: HashMap<(&str, u32), (String, Vec<String>)> = HashMap::new();
    let logs: HashMap<(&str, u32), Option<f64>> = match wanted.anchor {
        Some(_) => past.iter().map(|one| ((one.run.as_str(), one.cell), mean_log(&one.values))).collect(),
        None => HashMap::new(),
    };
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut trends: Vec<Trend> = Vec::new();
    for one in past {
        let Some(head) = heads.get(one.study_hash.as_str()) else { continue };
        let Some(cell) = head.cell(one.cell).filter(|cell| is_wanted(cell, wanted)) else { continue };
        let Some(mut value) = mean_log(&one.values) else { continue };
        if let Some(anchor) = wanted.anchor {
            let beside = |other: &&Cell| {
                other.stack == anchor
                    && other.workload == cell.workload
                    && other.parameters == cell.parameters
            };
            let Some(other) = head.cells.iter().find(beside) else { continue };
            let Some(base) = logs.get(&(one.run.as_str(), other.id)).copied().flatten() else { continue };
            value -= base;
        }
        let (key, settings) =
            known.entry((one.study_hash.as_str(), one.cell)).or_insert_with(|| asked(head, cell));
        let at = *places.entry(key.clone()).or_insert_with(|| {
            trends.push(Trend {
                load: cell.load_label(),
                stack: cell.stack.clone(),
                settings: settings.clone(),
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

fn is_wanted(cell: &Cell, wanted: &Wanted<'_>) -> bool {
    wanted.workload.is_none_or(|name| cell.workload == name || cell.load_label() == name)
        && wanted.stack.is_none_or(|stack| cell.stack == stack)
        && wanted.anchor.is_none_or(|anchor| cell.stack != anchor)
}

/// What a cell was asked, as a key, and for readers.
fn asked(head: &Run, cell: &Cell) -> (String, Vec<String>) {
    let (mut load, mut settings, mut set) = (Value::Null, Map::new(), Vec::new());
    if let Ok(study) = Study::from_stored(&head.study) {
        if let Some(workload) = study.workloads.into_iter().find(|one| one.label() == cell.workload) {
            set = workload.variables(&[]);
            load = serde_json::to_value(workload).unwrap_or_default();
            if let Value::Object(load) = &mut load {
                // how often, and what else was swept, is no matter of this cell; nor is where a text was read from
                load.retain(|name, _| !["trials", "parameters", "origin"].contains(&name.as_str()));
            }
        }
        settings = object(&study.study);
    }
    let usual = object(&Settings::default());
    settings.retain(|name, value| !IRRELEVANT.contains(&name.as_str()) && usual.get(name) != Some(value));
    let others = settings.iter().map(|(name, value)| match value {
        Value::String(text) => format!("{name}={text}"),
        other => format!("{name}={other}"),
    });
    let shown = set.into_iter().map(|(name, value)| format!("{name}={value}")).chain(others).collect();
    let parameters = serde_json::to_value(&cell.parameters).unwrap_or_default();
    (Value::from(vec![load, parameters, cell.stack.clone().into(), settings.into()]).to_string(), shown)
}

fn object(settings: &Settings) -> Map<String, Value> {
    match serde_json::to_value(settings) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

fn mean_log(values: &[f64]) -> Option<f64> {
    let all_positive = values.iter().all(|value| value.is_finite() && *value > 0.0);
    (all_positive && !values.is_empty())
        .then(|| values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64)
}

/// Adds a run: to the last point when it began in the same stretch of time.
fn add(points: &mut Vec<Point>, one: &Past, value: f64, every_seconds: f64) {
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
            if one.standing == Standing::Reported && !raised.contains(&one.at) {
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
