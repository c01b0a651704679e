//! A cell over many runs (`loadline trend`): lines for the terminal, a drawing, a page.

use analysis::diff::Importance;
use analysis::trend::{Change, Point, Trend};
use askama::Template;
use jiff::Timestamp;
use stats::change::{ChangeStatus, POINTS_MIN};
use study::results::MetricName;

use crate::format;
use crate::plot::{Anchor, Drawing, Quantity, Scale};
use crate::terminal::comparison::{metric, show};
use crate::terminal::{Paint, Style};

/// Heights of a sparkline, the lowest first.
const SPARKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Points of a sparkline: the latest ones.
const SPARKS_MAX: usize = 60;
/// Differences of the environments that are listed below a change.
const DIFFERENCES_MAX: usize = 5;

/// What it says of one cell: name, points, a sparkline, a line for each change.
pub fn terminal(trend: &Trend, style: Style) -> String {
    let mut text = style.heading(&title(trend));
    text.push_str(&format!("  {}\n", span(trend)));
    text.push_str(&format!("  {}  {}\n", sparkline(&trend.points), range(trend)));
    let (lines, faint) = answer(trend);
    let paint = if faint { Paint::Faint } else { Paint::Plain };
    for line in lines {
        text.push_str(&format!("  {}\n", style.paint(paint, &line)));
    }
    for change in &trend.changes {
        let paint = match (change.standing, change.better) {
            (ChangeStatus::Spike | ChangeStatus::Suspected, _) => Paint::Warn,
            (ChangeStatus::Reported, true) => Paint::Good,
            (ChangeStatus::Reported, false) => Paint::Bad,
        };
        let ChangeSummary { what, runs, differences } = summarize_change(trend, change);
        text.push_str(&format!(
            "  {}\n    {}\n",
            style.paint(paint, &what),
            style.paint(Paint::Faint, &runs)
        ));
        for difference in differences {
            text.push_str(&format!("    {difference}\n"));
        }
    }
    text
}

/// The cell: `varmail nthreads=16 on ext4 (seconds=1), throughput`.
fn title(trend: &Trend) -> String {
    let settings =
        if trend.settings.is_empty() { String::new() } else { format!(" ({})", trend.settings.join(", ")) };
    let what = metric(trend.metric);
    let to = trend.anchor.as_ref().map(|anchor| format!(" by that of {anchor}")).unwrap_or_default();
    format!("{} on {}{settings}: {what}{to}", trend.load, trend.stack)
}

fn span(trend: &Trend) -> String {
    let (Some(first), Some(last)) = (trend.points.first(), trend.points.last()) else {
        return "no runs".into();
    };
    let runs = trend.points.iter().map(|point| point.runs.len()).sum::<usize>();
    let (from, to) = (day(first.started), day(last.started));
    let when = if from == to { from } else { format!("{from} to {to}") };
    format!("{} of {}, {when}", format::plural(trend.points.len(), "point"), format::plural(runs, "run"))
}

fn range(trend: &Trend) -> String {
    let values = || trend.points.iter().map(|point| point.value);
    let (low, high) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
    format!("{} to {}", value(trend, low), value(trend, high))
}

fn value(trend: &Trend, value: f64) -> String {
    if trend.anchor.is_some() { format::ratio(value) } else { show(trend.metric, value) }
}

fn day(time: Timestamp) -> String {
    time.strftime("%-d %b %Y").to_string()
}

/// What is said when nothing changed, and whether it is only that more points are needed.
fn answer(trend: &Trend) -> (Vec<String>, bool) {
    if trend.points.len() < POINTS_MIN {
        let missing = POINTS_MIN - trend.points.len();
        let more = format!("A change is looked for from {POINTS_MIN} points on: {missing} more");
        let why = if trend.points.iter().any(|point| point.runs.len() > 1) {
            "; runs close together count as one point, as --every says"
        } else {
            ""
        };
        (vec![format!("{more}{why}.")], true)
    } else if trend.changes.is_empty() {
        (vec!["No change of level.".into()], false)
    } else {
        (Vec::new(), false)
    }
}

/// What is said of a change.
struct ChangeSummary {
    what: String,
    runs: String,
    differences: Vec<String>,
}

fn summarize_change(trend: &Trend, change: &Change) -> ChangeSummary {
    let when = trend.points[change.at].started.strftime("%-d %b %Y, %H:%M UTC");
    let percent = format::digits((change.ratio() - 1.0).abs() * 100.0);
    let way = if change.ratio() > 1.0 { "up" } else { "down" };
    let word = match (change.standing, change.better) {
        (ChangeStatus::Reported, true) => "Better",
        (ChangeStatus::Reported, false) => "Worse",
        (ChangeStatus::Suspected, true) => "Suspected, better",
        (ChangeStatus::Suspected, false) => "Suspected, worse",
        (ChangeStatus::Spike, _) => "Came and went",
    };
    let (before, after) = (value(trend, change.before), value(trend, change.after));
    let p = format::p_value(change.p);
    let shown = |known: &Option<String>| known.clone().unwrap_or_else(|| "unknown".into());
    let settings = change.environment.iter().filter(|one| one.weight != Importance::Incidental);
    let mut differences: Vec<String> = settings
        .map(|one| format!("{}: {}, then {}", one.name, shown(&one.left), shown(&one.right)))
        .collect();
    if differences.len() > DIFFERENCES_MAX {
        let more = differences.len() - DIFFERENCES_MAX;
        differences.truncate(DIFFERENCES_MAX);
        differences.push(format!("and {more} more: loadline compare {} {}", change.runs.0, change.runs.1));
    }
    ChangeSummary {
        what: format!("{word}: {way} by {percent} % since {when}: {before} to {after}, p {p}"),
        runs: format!("run {}, then {}", change.runs.0, change.runs.1),
        differences,
    }
}

fn sparkline(points: &[Point]) -> String {
    let latest = &points[points.len().saturating_sub(SPARKS_MAX)..];
    let logs: Vec<f64> = latest.iter().map(|point| point.value.ln()).collect();
    let (low, high) = (
        logs.iter().copied().fold(f64::INFINITY, f64::min),
        logs.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    );
    let step = |log: f64| {
        let share = if high > low { (log - low) / (high - low) } else { 0.5 };
        SPARKS[((share * SPARKS.len() as f64) as usize).min(SPARKS.len() - 1)]
    };
    logs.into_iter().map(step).collect()
}

fn quantity(trend: &Trend) -> Quantity {
    if trend.anchor.is_some() {
        return Quantity::Ratio;
    }
    match trend.metric {
        MetricName::Throughput => Quantity::Rate,
        MetricName::Bandwidth => Quantity::Bandwidth,
        MetricName::LatencyP50
        | MetricName::LatencyP99
        | MetricName::LatencyP999
        | MetricName::LatencyMean => Quantity::Nanoseconds,
        MetricName::Seconds => Quantity::Seconds,
    }
}

/// Values over time, levels and changes, as an SVG element.
fn drawing(trend: &Trend) -> Drawing {
    const SIZE: (f64, f64) = (760.0, 260.0);
    const ROOM: (f64, f64, f64, f64) = (76.0, 744.0, 26.0, 216.0);
    let (left, right, top, bottom) = ROOM;
    let most = trend.points.iter().map(|point| point.value).fold(0.0, f64::max);
    // by number, not by time: nights and holidays would leave the points in heaps
    let across = Scale::linear(-0.5, trend.points.len() as f64 - 0.5, left, right);
    let up = Scale::linear(0.0, most * 1.08, bottom, top);
    let mut drawing = Drawing::new(SIZE.0, SIZE.1);
    drawing.across(&across, Quantity::Place);
    drawing.up(&up, quantity(trend));
    for tick in up.ticks(4) {
        let y = up.position(tick);
        drawing.line("grid", (left, y), (right, y));
        drawing.text("tick", (left - 6.0, y + 4.0), Anchor::End, &value(trend, tick));
    }
    let mut edges = vec![0];
    edges.extend(trend.changes.iter().map(|change| change.at));
    edges.push(trend.points.len());
    for (number, ends) in edges.windows(2).enumerate() {
        let [from, to] = [ends[0], ends[1]];
        let logs: Vec<f64> = trend.points[from..to].iter().map(|point| point.value.ln()).collect();
        let level = (logs.iter().sum::<f64>() / logs.len().max(1) as f64).exp();
        let (x1, x2) = (across.position(from as f64 - 0.5), across.position(to as f64 - 0.5));
        if !logs.is_empty() {
            let title = format!("level {}: {}", number + 1, value(trend, level));
            drawing.path("curve s0", &[(x1, up.position(level)), (x2, up.position(level))], &title);
        }
        if from > 0 {
            drawing.line("one", (x1, top), (x1, bottom));
            let when = trend.points[from].started.strftime("%-d %b %H:%M").to_string();
            drawing.text("axis", (x1 + 4.0, top + 8.0), Anchor::Start, &when);
        }
    }
    for (at, point) in trend.points.iter().enumerate() {
        let title = format!(
            "{}, {}, run {}",
            value(trend, point.value),
            point.started.strftime("%-d %b %Y %H:%M UTC"),
            point.runs.join(", ")
        );
        drawing.dot("trial s0", (across.position(at as f64), up.position(point.value)), 3.2, &title);
    }
    let dates = [(trend.points.first(), left, Anchor::Start), (trend.points.last(), right, Anchor::End)];
    for (point, x, anchor) in dates {
        if let Some(point) = point {
            drawing.text("tick", (x, bottom + 20.0), anchor, &day(point.started));
        }
    }
    drawing.text("axis", (left, 14.0), Anchor::Start, &title(trend));
    drawing
}

/// The drawing of one trend as an SVG file.
pub fn svg(trend: &Trend) -> String {
    drawing(trend).file(&title(trend))
}

/// All trends as one self-contained page.
///
/// # Errors
/// When the template cannot be written, which nothing is known to provoke.
pub fn page(trends: &[Trend], command: &str) -> Result<String, askama::Error> {
    render(trends, command, false)
}

/// The same page for a server: style and script are files of their own, and a bar leads to the other pages.
///
/// # Errors
/// As [`page`].
pub fn served(trends: &[Trend], command: &str) -> Result<String, askama::Error> {
    render(trends, command, true)
}

fn render(trends: &[Trend], command: &str, served: bool) -> Result<String, askama::Error> {
    let part = |trend: &Trend| Part {
        title: title(trend),
        span: span(trend),
        answer: answer(trend).0.join(" "),
        figure: drawing(trend).finish(&title(trend)),
        changes: trend.changes.iter().map(|change| summarize_change(trend, change)).collect(),
    };
    let parts = trends.iter().map(part).collect();
    Page { parts, command, style: crate::html::STYLE, served }.render()
}

#[derive(Template)]
#[template(path = "trend.html")]
struct Page<'a> {
    parts: Vec<Part>,
    command: &'a str,
    style: &'static str,
    served: bool,
}

struct Part {
    title: String,
    span: String,
    answer: String,
    figure: String,
    changes: Vec<ChangeSummary>,
}
