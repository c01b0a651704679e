//! The pages of `loadline serve` that are no report: lists, comparisons, counters, a run in progress. Style and script are
//! files beside the page; see [`crate::html::served`] and [`crate::trend::served`] for the others.

use askama::Template;
use jiff::Timestamp;
use record::compare::{Compared, Pair};
use record::results::Run;
use stats::interval;
use stats::sample::Sample;

use crate::format;
use crate::plot::{Anchor, Drawing, Scale};
use crate::sheet::{Head, Line, Sheet, Spot, Tint};
use crate::terminal::comparison::{conclusion, metric, show};
use crate::view::LEVEL;
use crate::view::verdict::{doubt, word};

/// Beginnings of the names of metrics that are counters of a device.
const DEVICE_PREFIXES: [&str; 3] = ["ssd_", "disk_", "device_"];
/// Colours of stacks in the style sheet.
const INKS: usize = 8;

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
pub const ASSETS: [Asset; 5] = [
    Asset { name: "style.css", kind: "text/css; charset=utf-8", text: crate::html::STYLE },
    Asset { name: "web.css", kind: "text/css; charset=utf-8", text: include_str!("../templates/web.css") },
    Asset { name: "page.js", kind: "text/javascript; charset=utf-8", text: crate::html::SCRIPT },
    Asset {
        name: "web.js",
        kind: "text/javascript; charset=utf-8",
        text: include_str!("../templates/web.js"),
    },
    Asset { name: "icon.svg", kind: "image/svg+xml", text: include_str!("../templates/icon.svg") },
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

/// A cell of a run in progress.
#[derive(Debug, Clone)]
pub struct CellSoFar {
    /// Its id.
    pub cell: u32,
    /// Its label.
    pub label: String,
    /// Number of its stack, for the colour.
    pub stack: usize,
    /// Its trials that have ended: position in the order of all trials, status in a word, operations per second, seconds.
    pub trials: Vec<(usize, String, Option<f64>, f64)>,
    /// Trials that are planned for it.
    pub planned: u32,
    /// It has the next trial of the plan that has not ended.
    pub is_next: bool,
}

/// How far a run is.
#[derive(Debug, Clone)]
pub struct SoFar {
    /// Its cells in the study's order.
    pub cells: Vec<CellSoFar>,
    /// Trials that are planned.
    pub planned: u64,
    /// It is complete.
    pub is_finished: bool,
    /// A living process extends it.
    pub is_extended: bool,
}

/// What stands below the head of a page.
enum Body {
    Runs(List),
    Sheets(Vec<Sheet>),
    Compared(ComparedPart),
    Series(Vec<SeriesLine>),
    Live(String),
    Nothing,
}

struct ComparedPart {
    sheet: Sheet,
    lists: Vec<(String, Vec<String>)>,
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

/// A comparison, as `loadline compare` shows it.
///
/// # Errors
/// See [`runs`].
pub fn comparison(compared: &Compared, a: &str, b: Option<&str>) -> Result<String, askama::Error> {
    let lines = compared.pairs.iter().flat_map(pair_lines).collect();
    let heads = ["verdict", "candidate", "baseline", "ratio", "p"].into_iter().map(head).collect();
    let sheet = Sheet { title: "Verdicts".into(), corner: "Load".into(), heads, lines };
    let mut differed: Vec<String> = Vec::new();
    for reason in compared.pairs.iter().flat_map(|pair| &pair.lines).flat_map(|line| &line.differed) {
        if !differed.contains(reason) {
            differed.push(reason.clone());
        }
    }
    let known = |value: &Option<String>| value.clone().unwrap_or_else(|| "not known".into());
    let environment = compared.environment.iter().map(|difference| {
        format!("{}: {}, then {}", difference.name, known(&difference.left), known(&difference.right))
    });
    let mut lists = vec![
        ("In what the machine differed".to_string(), differed),
        ("What differs between the environments".to_string(), environment.collect()),
        ("Only in the baseline".to_string(), compared.unpaired.0.clone()),
        ("Only in the candidate".to_string(), compared.unpaired.1.clone()),
    ];
    lists.retain(|(_, lines)| !lines.is_empty());
    let eyebrow = match b {
        Some(b) => format!("Run {b} against run {a}"),
        None => format!("The stacks of run {a}"),
    };
    let here = if b.is_none() { a } else { "" };
    let body = Body::Compared(ComparedPart { sheet, lists });
    Page { title: "Compared", eyebrow: &eyebrow, answer: conclusion(compared.conclusion), here, body }
        .render()
}

fn pair_lines(pair: &Pair) -> Vec<Line> {
    let stacks = if pair.baseline == pair.candidate {
        pair.candidate.clone()
    } else {
        format!("{} / {}", pair.candidate, pair.baseline)
    };
    let title = Head { name: format!("{} {stacks}", pair.load), unit: String::new() };
    if pair.lines.is_empty() {
        return vec![Line { head: title, spots: vec![spot("no result", Tint::None, Vec::new())] }];
    }
    let line = |line: &record::compare::Line| {
        let (verdict, range) = (&line.finding.verdict, line.finding.interval);
        let tint = match verdict {
            stats::Verdict::Better => Tint::Good,
            stats::Verdict::Worse => Tint::Bad,
            stats::Verdict::Same => Tint::Plain,
            stats::Verdict::CannotTell { .. } => Tint::Middle,
        };
        let why = Some(doubt(verdict)).filter(|why| !why.is_empty());
        let interval = format!("{}..{}", format::ratio(range.low), format::ratio(range.high));
        Line {
            head: Head { name: title.name.clone(), unit: metric(line.metric).into() },
            spots: vec![
                spot(word(verdict), tint, why.into_iter().collect()),
                spot(&show(line.metric, line.candidate), Tint::Plain, Vec::new()),
                spot(&show(line.metric, line.baseline), Tint::Plain, Vec::new()),
                spot(&format::ratio(line.finding.ratio), Tint::Plain, vec![interval]),
                spot(&format::p_value(line.finding.p_value), Tint::Plain, Vec::new()),
            ],
        }
    };
    pair.lines.iter().map(line).collect()
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
                    spot(&format!("{} MiB", format::mebibytes(value)), Tint::Plain, Vec::new())
                }
                Some(value) => spot(&format::scaled(value), Tint::Plain, Vec::new()),
                None => Spot::default(),
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

fn head(name: &str) -> Head {
    Head { name: name.into(), unit: String::new() }
}

fn spot(value: &str, tint: Tint, details: Vec<String>) -> Spot {
    Spot { value: value.into(), beside: String::new(), tint, details }
}

/// The page of a run in progress; what moves is [`progress`].
///
/// # Errors
/// See [`runs`].
pub fn live(run: &Run, so_far: &SoFar) -> Result<String, askama::Error> {
    let body = Body::Live(progress(so_far)?);
    Page { title: "Progress", eyebrow: &run.title, answer: "", here: &run.id, body }.render()
}

#[derive(Template)]
#[template(path = "web_live.html")]
struct LivePart {
    state: &'static str,
    said: String,
    figure: String,
    lines: Vec<LiveLine>,
}

struct LiveLine {
    cell: u32,
    label: String,
    state: &'static str,
    class: &'static str,
    trials: String,
    median: String,
    interval: String,
    last: String,
}

/// The part of the page of a run in progress that is sent again and again.
///
/// # Errors
/// See [`runs`].
pub fn progress(so_far: &SoFar) -> Result<String, askama::Error> {
    let trials = || so_far.cells.iter().flat_map(|cell| &cell.trials);
    let done = trials().filter(|trial| trial.1 == "done").count() as u64;
    let (state, said) = match (so_far.is_finished, so_far.is_extended) {
        (true, _) => ("complete", format!("Complete: {done} of {} trials have a result.", so_far.planned)),
        (false, true) => {
            let spent: Vec<f64> = trials().map(|trial| trial.3).collect();
            let left = so_far.planned.saturating_sub(spent.len() as u64) as f64;
            let about = if spent.is_empty() {
                String::new()
            } else {
                let seconds = left * spent.iter().sum::<f64>() / spent.len() as f64;
                format!("; about {} left, if trials go on to take as long", format::span_seconds(seconds))
            };
            ("running", format!("Running: {done} of {} trials have a result{about}.", so_far.planned))
        }
        (false, false) => (
            "unfinished",
            format!(
                "Not complete, and no process extends it: {done} of {} trials. `--resume` goes on.",
                so_far.planned
            ),
        ),
    };
    let lines = so_far.cells.iter().map(|cell| live_line(cell, so_far)).collect();
    LivePart { state, said, figure: figure(so_far), lines }.render()
}

fn live_line(cell: &CellSoFar, so_far: &SoFar) -> LiveLine {
    let results: Vec<f64> =
        cell.trials.iter().filter(|trial| trial.1 == "done").filter_map(|trial| trial.2).collect();
    let estimate = Sample::new(&results).ok().map(|sample| interval::median(&sample, LEVEL));
    let (state, class) = if cell.is_next && so_far.is_extended && !so_far.is_finished {
        ("being run", "open")
    } else if results.len() >= cell.planned as usize {
        ("done", "good")
    } else if so_far.is_finished {
        ("ended", "")
    } else if cell.trials.is_empty() {
        ("to come", "")
    } else {
        ("begun", "")
    };
    LiveLine {
        cell: cell.cell,
        label: cell.label.clone(),
        state,
        class,
        trials: format!("{}/{}", results.len(), cell.planned),
        median: estimate.as_ref().map_or(String::new(), |estimate| format::scaled(estimate.value)),
        interval: estimate.filter(|_| results.len() > 1).map_or(String::new(), |estimate| {
            let range = estimate.interval;
            let less = if range.reached() { "" } else { " (range)" };
            format!("{}..{}{less}", format::scaled(range.low), format::scaled(range.high))
        }),
        last: cell.trials.last().map_or(String::new(), |trial| match (trial.1.as_str(), trial.2) {
            ("done", Some(value)) => format!("{} ops/s", format::scaled(value)),
            (status, _) => status.to_string(),
        }),
    }
}

/// The throughput of each trial in the order in which they ended; empty before the first.
fn figure(so_far: &SoFar) -> String {
    const SIZE: (f64, f64) = (760.0, 220.0);
    const ROOM: (f64, f64, f64, f64) = (76.0, 744.0, 26.0, 190.0);
    let (left, right, top, bottom) = ROOM;
    let trials = || so_far.cells.iter().flat_map(|cell| cell.trials.iter().map(move |trial| (cell, trial)));
    let most = trials().filter_map(|(_, trial)| trial.2).fold(0.0, f64::max);
    if most <= 0.0 {
        return String::new();
    }
    let ended = trials().map(|(_, trial)| trial.0 + 1).max().unwrap_or(0);
    let across = Scale::linear(-0.5, ended as f64 - 0.5, left, right);
    let up = Scale::linear(0.0, most * 1.08, bottom, top);
    let mut drawing = Drawing::new(SIZE.0, SIZE.1);
    for tick in up.ticks(4) {
        drawing.line("grid", (left, up.at(tick)), (right, up.at(tick)));
        drawing.text("tick", (left - 6.0, up.at(tick) + 4.0), Anchor::End, &format::scaled(tick));
    }
    for (cell, trial) in trials() {
        if let Some(value) = trial.2 {
            let title = format!("{}: {} ops/s", cell.label, format::scaled(value));
            let class = format!("trial s{}", cell.stack % INKS);
            drawing.dot(&class, (across.at(trial.0 as f64), up.at(value)), 3.2, &title);
        }
    }
    let label = "Throughput of each trial as it ended, ops/s";
    drawing.text("axis", (left, 14.0), Anchor::Start, label);
    format!("<figure>{}</figure>", drawing.finish(label))
}
