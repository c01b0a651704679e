//! The pages of `loadline serve` that are no report: lists, comparisons, counters, a run in progress. Style and script are
//! files beside the page; see [`crate::html::served`] and [`crate::trend::served`] for the others.
//!
//! | module | holds |
//! |---|---|
//! | `mod` | lists of runs and series, counters, messages; style and scripts |
//! | `compared` | two runs, or the stacks of one |
//! | `live` | a run in progress |

mod compared;
mod live;

use analysis::compare::RunComparison;
use askama::Template;
use jiff::Timestamp;
use stats::interval;
use stats::sample::Sample;
use study::results::Run;

use crate::format;
use crate::sheet::{CellTone, Head, Line, Sheet, SheetCell};
use crate::terminal::comparison::conclusion;
use crate::view::LEVEL;

pub use live::{CellProgress, RunProgress, live, progress};

/// Beginnings of the names of metrics that are counters of a device.
const DEVICE_PREFIXES: [&str; 3] = ["ssd_", "disk_", "device_"];

/// A file that pages refer to.
#[derive(Debug, Clone, Copy)]
pub struct Asset {
    /// Its name behind `/assets/`.
    pub name: &'static str,
    /// Its media type.
    pub kind: &'static str,
    /// Its contents.
    pub text: &'static str,
}

/// All of them.
pub const ASSETS: [Asset; 6] = [
    Asset { name: "style.css", kind: "text/css; charset=utf-8", text: crate::html::STYLE },
    Asset { name: "web.css", kind: "text/css; charset=utf-8", text: include_str!("../../templates/web.css") },
    Asset { name: "page.js", kind: "text/javascript; charset=utf-8", text: crate::html::SCRIPT },
    Asset {
        name: "web.js",
        kind: "text/javascript; charset=utf-8",
        text: include_str!("../../templates/web.js"),
    },
    Asset {
        name: "figure.js",
        kind: "text/javascript; charset=utf-8",
        text: include_str!("../../templates/figure.js"),
    },
    Asset { name: "icon.svg", kind: "image/svg+xml", text: include_str!("../../templates/icon.svg") },
];

/// A run in the list.
#[derive(Debug, Clone)]
pub struct RunLine {
    /// The run's id.
    pub id: String,
    /// What its user calls it.
    pub name: Option<String>,
    /// The study's title.
    pub title: String,
    /// When it began.
    pub started: Timestamp,
    /// It is complete.
    pub is_finished: bool,
    /// A living process extends it.
    pub is_extended: bool,
    /// Trials with a result.
    pub done: u64,
    /// Trials of the plan.
    pub planned: u64,
    /// Labels of its workloads.
    pub workloads: String,
    /// Labels of its stacks.
    pub stacks: String,
}

impl RunLine {
    fn name_or_id(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.id)
    }

    fn began(&self) -> String {
        self.started.strftime("%-d %b %Y %H:%M").to_string()
    }

    fn state(&self) -> &'static str {
        match (self.is_extended, self.is_finished) {
            (true, _) => "running",
            (_, true) => "complete",
            _ => "unfinished",
        }
    }

    fn class(&self) -> &'static str {
        match (self.is_extended, self.is_finished) {
            (true, _) => "open",
            (_, true) => "good",
            _ => "",
        }
    }
}

/// What of the runs is listed, as it was typed.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// In id, name or title.
    pub words: String,
    /// In the label of a workload.
    pub workload: String,
    /// In the label of a stack.
    pub stack: String,
    /// First day, `2026-11-20`, or empty.
    pub from: String,
    /// Last day, or empty.
    pub to: String,
}

/// A page of the list of runs.
#[derive(Debug, Clone)]
pub struct List {
    /// What was asked for.
    pub filter: Filter,
    /// Runs of this page.
    pub lines: Vec<RunLine>,
    /// Runs that fit the filter.
    pub found: usize,
    /// Runs of the store.
    pub stored: usize,
    /// Address of the page of newer runs.
    pub newer: Option<String>,
    /// Address of the page of older runs.
    pub older: Option<String>,
}

/// A series that can be looked at over time.
#[derive(Debug, Clone)]
pub struct SeriesLine {
    /// The workload with its parameters.
    pub load: String,
    /// The stack.
    pub stack: String,
    /// Runs that have it.
    pub runs: usize,
    /// Address of its page.
    pub link: String,
}

/// What stands below the head of a page.
enum Body {
    Runs(List),
    Sheets(Vec<Sheet>),
    Compared(compared::Part),
    Series(Vec<SeriesLine>),
    Live(String),
    Nothing,
}

#[derive(Template)]
#[template(path = "web.html")]
struct Page<'a> {
    title: &'a str,
    eyebrow: &'a str,
    answer: &'a str,
    /// Id of the run that the page is about; empty: of none.
    here: &'a str,
    body: Body,
}

/// The list of runs.
///
/// # Errors
/// When the template cannot be written, which nothing is known to provoke; so for each page here.
pub fn runs(list: List) -> Result<String, askama::Error> {
    let answer = if list.found == list.stored {
        format!("{} stored.", format::plural(list.stored, "run"))
    } else {
        format!("{} of {} stored.", list.found, format::plural(list.stored, "run"))
    };
    Page { title: "Runs", eyebrow: "loadline", answer: &answer, here: "", body: Body::Runs(list) }.render()
}

/// The list of series.
///
/// # Errors
/// See [`runs`].
pub fn series(lines: Vec<SeriesLine>) -> Result<String, askama::Error> {
    let answer = "A series is one workload with its parameters on one stack, over all stored runs.";
    Page { title: "Trends", eyebrow: "Results over time", answer, here: "", body: Body::Series(lines) }
        .render()
}

/// A page with a message only; `title` says what is wrong, `answer` what to do.
///
/// # Errors
/// See [`runs`].
pub fn message(title: &str, answer: &str) -> Result<String, askama::Error> {
    Page { title, eyebrow: "loadline", answer, here: "", body: Body::Nothing }.render()
}

/// Run `b` against run `a`, or the stacks of `a`, as `loadline compare` shows them. `margin`: within it figures count as the
/// same, as the verdicts had it.
///
/// # Errors
/// See [`runs`].
pub fn comparison(
    compared: &RunComparison,
    margin: f64,
    a: &Run,
    b: Option<&Run>,
) -> Result<String, askama::Error> {
    let eyebrow = match b {
        Some(b) => format!("Run {} against run {}", b.id, a.id),
        None => format!("The stacks of run {}", a.id),
    };
    let here = if b.is_none() { &a.id } else { "" };
    let body = Body::Compared(compared::part(compared, margin, a, b));
    Page { title: "Compared", eyebrow: &eyebrow, answer: conclusion(compared.conclusion), here, body }
        .render()
}

/// The page on which runs to compare are named.
///
/// # Errors
/// See [`runs`].
pub fn comparison_asked() -> Result<String, askama::Error> {
    let body = Body::Compared(compared::Part::default());
    let answer =
        "Name a baseline and a candidate by id, name, or last, last~2; or mark both in the list of runs.";
    Page { title: "Compare", eyebrow: "loadline", answer, here: "", body }.render()
}

/// What the devices of a run counted: for each cell the median over its trials.
///
/// # Errors
/// See [`runs`].
pub fn counters(run: &Run) -> Result<String, askama::Error> {
    let sheets: Vec<Sheet> =
        run.workloads().into_iter().filter_map(|load| counter_sheet(run, load)).collect();
    let answer = if sheets.is_empty() {
        "No trial of this run recorded counters of its device."
    } else {
        "Growth during the load: the median over the trials of each cell."
    };
    let body = Body::Sheets(sheets);
    Page { title: "Device counters", eyebrow: &run.title, answer, here: &run.id, body }.render()
}

fn counter_sheet(run: &Run, load: &str) -> Option<Sheet> {
    let cells: Vec<_> = run.cells.iter().filter(|cell| cell.workload == load).collect();
    let mut names: Vec<(String, String)> = Vec::new();
    for metric in cells.iter().flat_map(|cell| run.outcomes_of(cell.id)).flat_map(|outcome| &outcome.metrics)
    {
        let one = (metric.name.clone(), metric.unit.clone());
        if DEVICE_PREFIXES.iter().any(|prefix| metric.name.starts_with(prefix)) && !names.contains(&one) {
            names.push(one);
        }
    }
    let value = |cell: u32, name: &str| {
        let outcomes = run.outcomes_of(cell);
        let found = outcomes.iter().filter_map(|outcome| outcome.metrics.iter().find(|one| one.name == name));
        let sample = Sample::new(&found.map(|metric| metric.value).collect::<Vec<_>>()).ok()?;
        Some(interval::median(&sample, LEVEL).value)
    };
    let line = |(name, unit): &(String, String)| Line {
        head: Head {
            name: name.replace('_', " "),
            unit: if unit == "1" { String::new() } else { unit.clone() },
        },
        spots: cells
            .iter()
            .map(|cell| match value(cell.id, name) {
                Some(value) if unit == "bytes" => {
                    sheet_cell(&format!("{} MiB", format::mebibytes(value)), CellTone::Plain, Vec::new())
                }
                Some(value) => sheet_cell(&format::scaled(value), CellTone::Plain, Vec::new()),
                None => SheetCell::default(),
            })
            .collect(),
    };
    let lines: Vec<Line> = names.iter().map(line).collect();
    let heads = cells.iter().map(|cell| {
        let parameters = cell.load_label();
        Head {
            name: cell.stack.clone(),
            unit: parameters.strip_prefix(load).unwrap_or_default().trim().into(),
        }
    });
    let heads = heads.collect();
    (!lines.is_empty()).then(|| Sheet { title: load.to_string(), corner: "Counter".into(), heads, lines })
}

fn sheet_cell(value: &str, tint: CellTone, details: Vec<String>) -> SheetCell {
    SheetCell { value: value.into(), beside: String::new(), tint, details }
}
