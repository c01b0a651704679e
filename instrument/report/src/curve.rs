//! Load curves (`loadline sweep`): latency and achieved rate over the offered rate, several targets in one picture.

use askama::Template;
use record::sweep::{Curve, Found, Latency, Point};
use serde::Serialize;
use stats::knee::Kept;

use crate::format;
use crate::ink::Ink;
use crate::plot::{Anchor, Drawing, Scale};
use crate::terminal::table::{Align, Cell, Table};
use crate::terminal::{Paint, Style};

/// Size of a drawing and of its plot: left, right, top, bottom.
const SIZE: (f64, f64) = (760.0, 340.0);
const ROOM: (f64, f64, f64, f64) = (70.0, 560.0, 28.0, 290.0);
/// Kinds of operations that get a drawing of their own.
const KINDS_MAX: usize = 6;

/// For the terminal: a table of the steps of each target, and what they say.
pub fn terminal(curves: &[Curve], style: Style) -> String {
    let mut text = String::new();
    for curve in curves {
        text += &style.heading(&name(curve));
        let head = |text: &str| (Cell::new(text, Paint::Strong), Align::Right);
        let heads = ["offered/s", "achieved/s", "p50", "p95", "p99", "p99.9", "max", ""].map(head);
        let mut table = Table::new(heads.into_iter().collect());
        if let (Some(rate), Some(closed)) = (curve.saturation, &curve.closed) {
            let first = [Cell::new("max", Paint::Faint), Cell::new(format::scaled(rate), Paint::Faint)];
            let last = Cell::new("closed loop", Paint::Faint);
            table.row(first.into_iter().chain(latencies(closed, Paint::Faint)).chain([last]).collect());
        }
        for point in &curve.points {
            table.row(row(point));
        }
        text += &table.render(style);
        for line in told(curve) {
            text += &format!("{}\n", style.paragraph(&line, 2));
        }
    }
    let legend = "Latency counts from the intended start. Steps that were not kept up with are marked: their latency is that \
                  of a queue that grows as long as the step lasts.";
    text + &format!("\n{}\n", style.paint(Paint::Faint, &style.paragraph(legend, 0)))
}

/// Name of a target.
fn name(curve: &Curve) -> String {
    format!("{} on {}", curve.load, curve.stack)
}

fn row(point: &Point) -> Vec<Cell> {
    let (paint, mark) = match point.kept {
        Kept::Up => (Paint::Plain, ""),
        Kept::Behind => (Paint::Warn, "behind"),
        Kept::Unknown => (Paint::Faint, "too short"),
    };
    let first = [point.offered, point.achieved].map(|rate| Cell::new(format::scaled(rate), paint));
    let last = Cell::new(mark, paint);
    first.into_iter().chain(latencies(&point.latency, paint)).chain([last]).collect()
}

fn latencies(latency: &Latency, paint: Paint) -> [Cell; 5] {
    [latency.p50, latency.p95, latency.p99, latency.p999, latency.max]
        .map(|ns| Cell::new(format::latency(ns), paint))
}

/// What a curve says, a sentence each.
pub fn told(curve: &Curve) -> Vec<String> {
    let mut lines = Vec::new();
    match (&curve.knee, curve.points.iter().rfind(|point| point.kept == Kept::Up)) {
        (Some(knee), _) => lines.push(format!("knee {} op/s", interval(knee))),
        (None, Some(last)) => {
            lines.push(format!("no knee: {} op/s was still kept up with", format::scaled(last.offered)));
        }
        (None, None) => {}
    }
    if let Some(plateau) = &curve.plateau {
        lines.push(format!("plateau {} op/s", interval(plateau)));
    }
    if let Some(held) = &curve.held {
        let not =
            held.not_at.map_or(String::new(), |rate| format!(", not (surely) at {}", format::scaled(rate)));
        lines.push(match held.at {
            Some(rate) => format!("p99 holds the limit up to {} op/s{not}", format::scaled(rate)),
            None => format!("p99 holds the limit at no rate that was offered{not}"),
        });
    }
    lines.extend(curve.faults.iter().cloned());
    lines
}

fn interval(found: &Found) -> String {
    let Found { value, low, high } = found;
    format!("{} (95 %: {} to {})", format::scaled(*value), format::scaled(*low), format::scaled(*high))
}

/// A row for each step and kind of operation; `all` are all kinds together.
pub fn csv(curves: &[Curve]) -> String {
    let mut text = String::from(
        "load,stack,level,offered,achieved,kept,op,count,mean_ns,p50_ns,p95_ns,p99_ns,p999_ns,max_ns\n",
    );
    let quoted = |word: &str| format!("\"{}\"", word.replace('"', "\"\""));
    let number = |value: Option<u64>| value.map_or(String::new(), |value| value.to_string());
    for curve in curves {
        for point in &curve.points {
            let all = std::iter::once(("all", &point.latency));
            let kept = match point.kept {
                Kept::Up => "up",
                Kept::Behind => "behind",
                Kept::Unknown => "unknown",
            };
            for (op, latency) in all.chain(point.ops.iter().map(|op| (op.name.as_str(), &op.latency))) {
                let numbers =
                    [latency.p50, latency.p95, latency.p99, latency.p999, latency.max].map(number).join(",");
                let mean = latency.mean.map_or(String::new(), |mean| mean.to_string());
                text += &format!(
                    "{},{},{},{},{},{kept},{},{},{mean},{numbers}\n",
                    quoted(&curve.load),
                    quoted(&curve.stack),
                    point.level,
                    point.offered,
                    point.achieved,
                    quoted(op),
                    latency.count
                );
            }
        }
    }
    text
}

/// For programs.
///
/// # Errors
/// None in practice: a number that JSON cannot hold.
pub fn json(curves: &[Curve]) -> Result<String, serde_json::Error> {
    #[derive(Serialize)]
    struct Told<'a> {
        unit: &'static str,
        latency_unit: &'static str,
        curves: &'a [Curve],
    }
    serde_json::to_string_pretty(&Told { unit: "op/s", latency_unit: "ns", curves })
}

/// The 99th percentile over the achieved rate, all targets, as an SVG file.
pub fn svg(curves: &[Curve]) -> String {
    latency(curves, None).file("99th percentile of latency over achieved rate")
}

/// The page: the curves of all targets in one picture, achieved against offered, each kind of operation apart.
///
/// # Errors
/// When the template cannot be written, which nothing in a curve is known to provoke.
pub fn page(title: &str, curves: &[Curve], command: &str) -> Result<String, askama::Error> {
    let mut figures = vec![
        Figure {
            title: "Latency over achieved rate".into(),
            svg: latency(curves, None).finish("99th percentile of latency over achieved rate"),
        },
        Figure {
            title: "Achieved over offered rate".into(),
            svg: achieved(curves).finish("achieved rate over offered rate"),
        },
    ];
    let kinds = kinds(curves);
    if kinds.len() > 1 {
        figures.extend(kinds.iter().take(KINDS_MAX).map(|kind| Figure {
            title: format!("Latency of {kind}"),
            svg: latency(curves, Some(kind)).finish(&format!("99th percentile of {kind} over achieved rate")),
        }));
    }
    let targets = curves.iter().map(|curve| Target { name: name(curve), told: told(curve) }).collect();
    let style = include_str!("../templates/style.css");
    Page { title, figures, targets, command, style }.render()
}

#[derive(Template)]
#[template(path = "curve.html")]
struct Page<'a> {
    title: &'a str,
    figures: Vec<Figure>,
    targets: Vec<Target>,
    command: &'a str,
    style: &'static str,
}

#[derive(Debug)]
struct Figure {
    title: String,
    svg: String,
}

#[derive(Debug)]
struct Target {
    name: String,
    told: Vec<String>,
}

/// Names of operations, each once.
fn kinds(curves: &[Curve]) -> Vec<String> {
    let mut kinds: Vec<String> = Vec::new();
    for op in curves.iter().flat_map(|curve| &curve.points).flat_map(|point| &point.ops) {
        if !kinds.contains(&op.name) {
            kinds.push(op.name.clone());
        }
    }
    kinds
}

/// The 99th percentile of a kind of operation, or of all, over the achieved rate.
fn latency(curves: &[Curve], kind: Option<&str>) -> Drawing {
    let of = |point: &Point| -> Option<f64> {
        let latency = match kind {
            None => Some(&point.latency),
            Some(kind) => point.ops.iter().find(|op| op.name == kind).map(|op| &op.latency),
        };
        Some(latency?.p99? as f64)
    };
    let values = || curves.iter().flat_map(|curve| &curve.points).filter_map(of);
    let (low, high) =
        values().fold((f64::INFINITY, 1.0), |(low, high), value| (value.min(low), value.max(high)));
    let up = Scale::log(low * 0.8, high * 1.25, ROOM.3, ROOM.2);
    let points = |curve: &Curve| -> Vec<(f64, f64, Kept)> {
        curve.points.iter().filter_map(|point| Some((point.achieved, of(point)?, point.kept))).collect()
    };
    let format = |value: f64| format::duration_ns(value);
    draw(curves, "99th percentile from the intended start", "achieved operations/s", (up, &format), &points)
}

fn achieved(curves: &[Curve]) -> Drawing {
    let most = curves.iter().flat_map(|curve| &curve.points).map(|point| point.achieved).fold(1.0, f64::max);
    let up = Scale::linear(0.0, most * 1.05, ROOM.3, ROOM.2);
    let points = |curve: &Curve| -> Vec<(f64, f64, Kept)> {
        curve.points.iter().map(|point| (point.offered, point.achieved, point.kept)).collect()
    };
    draw(curves, "achieved operations/s", "offered operations/s", (up, &format::scaled), &points)
}

/// A curve for each target. Steps that were not kept up with are hollow, the others full; the knee is a band.
fn draw(
    curves: &[Curve],
    vertical: &str,
    horizontal: &str,
    (up, tick): (Scale, &dyn Fn(f64) -> String),
    points: &dyn Fn(&Curve) -> Vec<(f64, f64, Kept)>,
) -> Drawing {
    let (left, right, top, bottom) = ROOM;
    let most = curves.iter().flat_map(points).map(|(x, _, _)| x).fold(1.0, f64::max);
    let across = Scale::linear(0.0, most * 1.03, left, right);
    let mut drawing = Drawing::new(SIZE.0, SIZE.1);
    for value in up.ticks(5) {
        let y = up.at(value);
        drawing.line("grid", (left, y), (right, y));
        drawing.text("tick", (left - 6.0, y + 4.0), Anchor::End, &tick(value));
    }
    for value in across.ticks(6) {
        drawing.text("tick", (across.at(value), bottom + 18.0), Anchor::Middle, &format::scaled(value));
    }
    drawing.text("axis", (left, 14.0), Anchor::Start, vertical);
    drawing.text("axis", (f64::midpoint(left, right), bottom + 38.0), Anchor::Middle, horizontal);
    for (number, curve) in curves.iter().enumerate() {
        let (class, name) = (Ink::Stack(number).class(), name(curve));
        if let Some(knee) = &curve.knee {
            let (from, to) = (across.at(knee.low), across.at(knee.high));
            drawing.rect(&format!("fill {class}"), (from, top), ((to - from).max(1.5), bottom - top));
        }
        let points = points(curve);
        let path: Vec<(f64, f64)> = points.iter().map(|(x, y, _)| (across.at(*x), up.at(*y))).collect();
        drawing.path(&format!("curve {class}"), &path, &name);
        for ((at, (x, y, kept)), _) in path.iter().zip(&points).zip(0..) {
            let look = if *kept == Kept::Behind { "trial" } else { "bars" };
            let title = format!("{name}: {} op/s, {}", format::scaled(*x), tick(*y));
            drawing.dot(&format!("{look} {class}"), *at, 3.5, &title);
        }
        let y = top + 18.0 * number as f64;
        drawing.path(&format!("curve {class}"), &[(right + 12.0, y), (right + 36.0, y)], &name);
        drawing.text("name", (right + 42.0, y + 4.0), Anchor::Start, &curve.stack);
    }
    drawing
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(offered: f64, achieved: f64, kept: Kept, p99: u64) -> Point {
        let latency = Latency { count: 1_000, p50: Some(p99 / 2), p99: Some(p99), ..Latency::default() };
        let op = |name: &str| record::sweep::OpPoint { name: name.into(), latency };
        let ops = vec![op("read"), op("update")];
        Point { level: "50%".into(), offered, achieved, kept, trials: 1, latency, ops }
    }

    fn curve() -> Curve {
        Curve {
            load: "a \"b\", c".into(),
            stack: "<ext4>".into(),
            saturation: Some(1_000.0),
            closed: Some(Latency::default()),
            points: vec![
                point(500.0, 500.0, Kept::Up, 1_000_000),
                point(1_200.0, 1_000.0, Kept::Behind, 2_000_000_000),
            ],
            knee: Some(Found { value: 1_000.0, low: 990.0, high: 1_010.0 }),
            plateau: None,
            held: Some(stats::knee::Held { at: Some(500.0), not_at: Some(1_200.0) }),
            faults: vec!["failed: full".into()],
        }
    }

    #[test]
    fn the_terminal_shows_the_steps_and_what_they_say() {
        let text = terminal(&[curve()], Style::default());
        for part in ["behind", "closed loop", "knee 1", "up to 500", "failed: full", "intended start"] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn every_kind_has_its_rows_and_its_drawing() {
        let curves = [curve()];
        let table = csv(&curves);
        assert_eq!(table.lines().count(), 1 + 2 * 3);
        assert!(
            table.contains("\"a \"\"b\"\", c\",\"<ext4>\",50%,500,500,up,\"update\",1000,,500000,,1000000,,"),
            "{table}"
        );
        let page = page("t", &curves, "loadline sweep").unwrap();
        assert_eq!(page.matches("<figure>").count(), 4);
        assert!(!page.contains("<ext4>"), "text is escaped");
        assert!(svg(&curves).starts_with("<svg") && json(&curves).unwrap().contains("\"not_at\": 1200.0"));
        assert!(terminal(&[], Style::default()).contains("intended") && svg(&[]).contains("</svg>"));
    }
}
