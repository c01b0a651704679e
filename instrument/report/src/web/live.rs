//! A run in progress: what of it has ended, and what that says so far.

use askama::Template;
use stats::interval;
use stats::sample::Sample;
use study::results::Run;

use super::{Body, Page};
use crate::format;
use crate::plot::{Anchor, Drawing, Quantity, Scale};
use crate::view::LEVEL;

/// Colours of stacks in the style sheet.
const INKS: usize = 8;

/// A cell of a run in progress.
#[derive(Debug, Clone)]
pub struct CellProgress {
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
pub struct RunProgress {
    /// Its cells in the study's order.
    pub cells: Vec<CellProgress>,
    /// Trials that are planned.
    pub planned: u64,
    /// It is complete.
    pub is_finished: bool,
    /// A living process extends it.
    pub is_extended: bool,
}

/// The page of a run in progress; what moves is [`progress`].
///
/// # Errors
/// See [`super::runs`].
pub fn live(run: &Run, so_far: &RunProgress) -> Result<String, askama::Error> {
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
/// See [`super::runs`].
pub fn progress(so_far: &RunProgress) -> Result<String, askama::Error> {
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

fn live_line(cell: &CellProgress, so_far: &RunProgress) -> LiveLine {
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
fn figure(so_far: &RunProgress) -> String {
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
    drawing.across(&across, Quantity::Place);
    drawing.up(&up, Quantity::Rate);
    for tick in up.ticks(4) {
        drawing.line("grid", (left, up.position(tick)), (right, up.position(tick)));
        drawing.text("tick", (left - 6.0, up.position(tick) + 4.0), Anchor::End, &format::scaled(tick));
    }
    for (cell, trial) in trials() {
        if let Some(value) = trial.2 {
            let title = format!("{}: {} ops/s", cell.label, format::scaled(value));
            let class = format!("trial s{}", cell.stack % INKS);
            drawing.dot(&class, (across.position(trial.0 as f64), up.position(value)), 3.2, &title);
        }
    }
    let label = "Throughput of each trial as it ended, ops/s";
    drawing.text("axis", (left, 14.0), Anchor::Start, label);
    format!("<figure data-file=\"trials.csv\">{}</figure>", drawing.finish(label))
}
