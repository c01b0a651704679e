//! JSON: the stored records with a computed summary beside them. Described in `docs/formats.md`.

use serde::{Deserialize, Serialize};
use stats::compleat::{Compleat, Grade};
use stats::{Estimate, Finding};
use study::results::{Parameter, Run};

use crate::csv::measure_words;
use crate::view::headline::headline;
use crate::view::notice::notices;
use crate::view::verdict::against_first;
use crate::view::{GridPoint, View};

/// Name of the form.
pub const SCHEMA: &str = "loadline.report";
/// Version of the form. A field may be added without raising it; anything else raises it.
pub const VERSION: u32 = 2;

/// A whole report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: String,
    /// [`VERSION`].
    pub version: u32,
    /// What the records say.
    pub summary: Summary,
    /// The records themselves, as stored.
    pub run: Run,
}

/// What the records say.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The question.
    pub question: String,
    /// The answer in a sentence.
    pub answer: String,
    /// Whether every planned trial has run.
    pub complete: bool,
    /// The stacks, in the study's order.
    pub stacks: Vec<StackSummary>,
    /// The cells, row by row.
    pub cells: Vec<CellSummary>,
    /// Every stack against the first.
    pub verdicts: Vec<VerdictSummary>,
    /// What a reader must know.
    pub notices: Vec<NoticeSummary>,
}

/// A stack.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StackSummary {
    /// Its label.
    pub stack: String,
    /// `false`: it lives in memory, and is a ceiling.
    pub competes: bool,
    /// Good at everything, bad at nothing?
    pub compleat: Option<Compleat>,
}

/// A cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CellSummary {
    /// The cell's id in the records.
    pub cell: u32,
    /// The workload's label.
    pub workload: String,
    /// Swept parameters.
    pub parameters: Vec<Parameter>,
    /// The stack's label.
    pub stack: String,
    /// `measured`, `unavailable`, `failed`, `timed out`, `interrupted` or `not run`.
    pub standing: String,
    /// What the stacks are compared by: `throughput` or `intended_latency_p99`.
    pub measure: String,
    /// Its unit: `ops/s` or `ns`.
    pub unit: String,
    /// Its value in each result, by trial index.
    pub values: Vec<f64>,
    /// Median and interval.
    pub median: Option<Estimate>,
    /// Share of the best.
    pub share_of_best: Option<f64>,
    /// Grade of the share.
    pub grade: Option<Grade>,
    /// Service time of all I/O operations of all results.
    pub service: Option<Latency>,
    /// Latency from the intended start, when a rate was set.
    pub intended: Option<Latency>,
}

/// Percentiles in nanoseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Number of operations.
    pub count: u64,
    /// Mean.
    pub mean_ns: f64,
    /// Median.
    pub p50_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p99_9_ns: u64,
    /// Largest.
    pub max_ns: u64,
}

/// One stack against the first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VerdictSummary {
    /// The load.
    pub load: String,
    /// The first stack.
    pub baseline: String,
    /// The other one.
    pub candidate: String,
    /// The verdict with all that it rests on.
    pub finding: Finding,
    /// Its p-value, adjusted for the number of verdicts of the report.
    pub p_adjusted: f64,
}

/// What a reader must know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NoticeSummary {
    /// `failed`, `unavailable`, `errors`, `starved`, `doubt` or `remark`.
    pub kind: String,
    /// Load, stack or both; empty for the whole run.
    pub place: String,
    /// What happened.
    pub text: String,
    /// What to do about it; may be empty.
    pub advice: String,
}

/// The whole report as one JSON object, indented, with a newline at its end.
///
/// # Errors
/// When a record cannot be written as JSON, which none is known to provoke.
pub fn run(run: &Run) -> serde_json::Result<String> {
    let report = Report { schema: SCHEMA.into(), version: VERSION, summary: summary(run), run: run.clone() };
    Ok(serde_json::to_string_pretty(&report)? + "\n")
}

/// What the records say, without the records.
pub fn summary(run: &Run) -> Summary {
    let view = View::new(run);
    let head = headline(&view);
    let label = |row: usize| view.stacks[row].label.clone();
    let verdicts = against_first(&view).into_iter().map(|one| VerdictSummary {
        load: view.loads[one.column].label.clone(),
        baseline: label(one.baseline),
        candidate: label(one.candidate),
        finding: one.finding,
        p_adjusted: one.p,
    });
    let notices = notices(&view).into_iter().map(|notice| NoticeSummary {
        kind: notice.kind.word().into(),
        place: notice.place,
        text: notice.text,
        advice: notice.advice,
    });
    let stacks = view.stacks.iter().map(|stack| StackSummary {
        stack: stack.label.clone(),
        competes: stack.competes,
        compleat: stack.compleat,
    });
    Summary {
        question: head.question,
        answer: head.answer,
        complete: run.finished.is_some(),
        stacks: stacks.collect(),
        cells: cells(&view),
        verdicts: verdicts.collect(),
        notices: notices.collect(),
    }
}

fn cells(view: &View<'_>) -> Vec<CellSummary> {
    let places =
        (0..view.stacks.len()).flat_map(|row| (0..view.loads.len()).map(move |column| (row, column)));
    places.filter_map(|(row, column)| cell(view, view.point(row, column), column)).collect()
}

fn cell(view: &View<'_>, point: &GridPoint<'_>, column: usize) -> Option<CellSummary> {
    let cell = point.cell?;
    let (measure, unit) = measure_words(view.loads[column].measure);
    Some(CellSummary {
        cell: cell.id,
        workload: cell.workload.clone(),
        parameters: cell.parameters.clone(),
        stack: cell.stack.clone(),
        standing: point.standing.word().into(),
        measure: measure.into(),
        unit: unit.into(),
        values: point.values.clone(),
        median: point.estimate,
        share_of_best: point.share,
        grade: point.grade(),
        service: latency(&point.service()),
        intended: point.intended().as_ref().and_then(latency),
    })
}

fn latency(histogram: &stats::Histogram) -> Option<Latency> {
    Some(Latency {
        count: histogram.count(),
        mean_ns: histogram.mean()?,
        p50_ns: histogram.quantile(0.5)?,
        p90_ns: histogram.quantile(0.9)?,
        p99_ns: histogram.quantile(0.99)?,
        p99_9_ns: histogram.quantile(0.999)?,
        max_ns: histogram.max()?,
    })
}
