//! What a simulation of containers says: operations a second and the latency of fsync, by containers and stack.
//!
//! One table for the terminal, CSV, JSON and a drawing, all from the same [`Scaling`].

use std::fmt::Display;

use serde::Serialize;
use stats::outcome::Outcome;
use study::results::{Cell as RunCell, Run, Status};

use crate::format;
use crate::ink::Ink;
use crate::plot::{Anchor, Drawing, Quantity, Scale, csv_line};
use crate::terminal::table::{Align, Cell, Table};
use crate::terminal::{Paint, Style};

/// Points of a sweep over containers and stacks. Several trials count with their median.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Scaling {
    /// What runs.
    pub workload: String,
    /// Virtual time, as every reader must know.
    pub note: String,
    /// Stacks; ratios are to the first.
    pub stacks: Vec<String>,
    /// A line for each number of containers.
    pub lines: Vec<Line>,
}

/// The points of one number of containers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Line {
    /// Containers.
    pub containers: u32,
    /// A point for each stack.
    pub points: Vec<Point>,
}

/// What one stack carries. Without trials that were done, all but the word is missing.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Point {
    /// The stack.
    pub stack: String,
    /// How its trials ended: `done`, `failed` ...; `not run` when there are none.
    pub status: String,
    /// Operations a second.
    pub ops_per_second: Option<f64>,
    /// Times the first stack's.
    pub ratio: Option<f64>,
    /// Mean of fsync, ms.
    pub fsync_mean_ms: Option<f64>,
    /// Median of fsync, ms.
    pub fsync_p50_ms: Option<f64>,
    /// 99th percentile of fsync, ms.
    pub fsync_p99_ms: Option<f64>,
}

const NOTE: &str = "simulated in virtual time";

impl Scaling {
    /// The sweep of a run whose cells have the parameters `containers` and `stack`; `None` for any other run.
    pub fn of(run: &Run) -> Option<Scaling> {
        let parameter = |cell: &RunCell, name: &str| {
            cell.parameters.iter().find(|one| one.name == name).map(|one| one.value.clone())
        };
        let keyed: Vec<(u32, String, &RunCell)> = run
            .cells
            .iter()
            .map(|cell| Some((parameter(cell, "containers")?.parse().ok()?, parameter(cell, "stack")?, cell)))
            .collect::<Option<_>>()?;
        let workload = run.cells.first()?.workload.clone();
        let mut stacks: Vec<String> = Vec::new();
        let mut counts: Vec<u32> = Vec::new();
        for (containers, stack, _) in &keyed {
            if !stacks.contains(stack) {
                stacks.push(stack.clone());
            }
            if !counts.contains(containers) {
                counts.push(*containers);
            }
        }
        counts.sort_unstable();
        let line = |containers: u32| {
            let mut points: Vec<Point> = stacks
                .iter()
                .map(|stack| {
                    let cell = keyed.iter().find(|(count, of, _)| *count == containers && of == stack);
                    point(run, stack, cell.map(|(_, _, cell)| cell.id))
                })
                .collect();
            let base = points.first().and_then(|point| point.ops_per_second).filter(|base| *base > 0.0);
            for point in &mut points {
                point.ratio = point.ops_per_second.zip(base).map(|(value, base)| value / base);
            }
            Line { containers, points }
        };
        let lines = counts.into_iter().map(line).collect();
        Some(Scaling { workload, note: NOTE.into(), stacks, lines })
    }

    /// The table for people.
    pub fn terminal(&self, style: Style) -> String {
        let head = |text: &str| (Cell::new(text, Paint::Strong).line("op/s", Paint::Faint), Align::Right);
        let first = (Cell::new("containers", Paint::Strong), Align::Right);
        let heads = std::iter::once(first).chain(self.stacks.iter().map(|stack| head(stack)));
        let mut table = Table::new(heads.collect()).airy();
        for line in &self.lines {
            let mut cells = vec![Cell::new(line.containers.to_string(), Paint::Plain)];
            cells.extend(line.points.iter().enumerate().map(|(at, point)| point_cell(point, at == 0)));
            table.row(cells);
        }
        let legend = format!(
            "{}: {NOTE}. Below each figure: fsync, mean / p50 / p99 in ms. Ratios are to {}.\n",
            self.workload,
            self.stacks.first().map_or("", String::as_str)
        );
        format!("{legend}\n{}", table.render(style))
    }

    /// A row for each point.
    pub fn csv(&self) -> String {
        let mut text = String::from(
            "workload,containers,stack,status,ops_per_second,ratio,fsync_mean_ms,fsync_p50_ms,fsync_p99_ms\n",
        );
        let number = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
        for line in &self.lines {
            for point in &line.points {
                let numbers = [
                    point.ops_per_second,
                    point.ratio,
                    point.fsync_mean_ms,
                    point.fsync_p50_ms,
                    point.fsync_p99_ms,
                ];
                let numbers = numbers.map(number);
                let key: [&dyn Display; 4] = [&self.workload, &line.containers, &point.stack, &point.status];
                let numbers = numbers.iter().map(|number| number as &dyn Display);
                csv_line(&mut text, &key.into_iter().chain(numbers).collect::<Vec<_>>());
            }
        }
        text
    }

    /// The same for programs.
    ///
    /// # Errors
    /// None in practice: a number that JSON cannot hold.
    pub fn json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(self)
    }

    /// Operations a second over containers, a curve for each stack, as an SVG file.
    pub fn drawing(&self) -> String {
        self.drawn().file(&self.label())
    }

    /// The same as a part of a page, which has the styles.
    pub fn figure(&self) -> String {
        self.drawn().finish(&self.label())
    }

    fn label(&self) -> String {
        format!("{} over containers, {NOTE}", self.workload)
    }

    fn drawn(&self) -> Drawing {
        const SIZE: (f64, f64) = (720.0, 380.0);
        const ROOM: (f64, f64, f64, f64) = (64.0, 580.0, 24.0, 330.0);
        let (left, right, top, bottom) = ROOM;
        let all = || self.lines.iter().flat_map(|line| &line.points).filter_map(|point| point.ops_per_second);
        let most = self.lines.iter().map(|line| line.containers).max().unwrap_or(1);
        let across = Scale::linear(0.0, f64::from(most), left, right);
        let up = Scale::linear(0.0, all().fold(0.0, f64::max) * 1.05, bottom, top);
        let mut drawing = Drawing::new(SIZE.0, SIZE.1);
        drawing.across(&across, Quantity::Count);
        drawing.up(&up, Quantity::Rate);
        for tick in up.ticks(5) {
            let y = up.position(tick);
            drawing.line("grid", (left, y), (right, y));
            drawing.text("tick", (left - 6.0, y + 4.0), Anchor::End, &format::scaled(tick));
        }
        for line in &self.lines {
            let x = across.position(f64::from(line.containers));
            drawing.text("tick", (x, bottom + 18.0), Anchor::Middle, &line.containers.to_string());
        }
        drawing.text("axis", (left, 14.0), Anchor::Start, "operations/s, simulated in virtual time");
        drawing.text("axis", ((left + right) / 2.0, bottom + 38.0), Anchor::Middle, "containers");
        for (number, stack) in self.stacks.iter().enumerate() {
            let class = Ink::Stack(number).class();
            let points: Vec<(f64, f64)> = self
                .lines
                .iter()
                .filter_map(|line| {
                    let value = line.points[number].ops_per_second?;
                    Some((across.position(f64::from(line.containers)), up.position(value)))
                })
                .collect();
            drawing.path(&format!("curve {class}"), &points, stack);
            points.iter().for_each(|at| drawing.dot(&format!("trial {class}"), *at, 3.0, stack));
            // in a column of its own: curves end close together
            let y = top + 18.0 * number as f64;
            drawing.path(&format!("curve {class}"), &[(right + 16.0, y), (right + 46.0, y)], stack);
            drawing.text("name", (right + 52.0, y + 4.0), Anchor::Start, stack);
        }
        drawing
    }
}

fn point_cell(point: &Point, is_first: bool) -> Cell {
    let Some(value) = point.ops_per_second else { return Cell::new(point.status.clone(), Paint::Warn) };
    let ratio = point
        .ratio
        .filter(|_| !is_first)
        .map_or(String::new(), |ratio| format!("  {}", format::ratio(ratio)));
    let paint = if point.status == "done" { Paint::Plain } else { Paint::Warn };
    let cell = Cell::new(format!("{}{ratio}", format::scaled(value)), paint);
    let ms = |value: Option<f64>| value.map_or("-".into(), format::digits);
    let fsync = [point.fsync_mean_ms, point.fsync_p50_ms, point.fsync_p99_ms].map(ms).join(" / ");
    let cell = cell.line(fsync, Paint::Faint);
    if point.status == "done" { cell } else { cell.line(point.status.clone(), Paint::Warn) }
}

fn point(run: &Run, stack: &str, cell: Option<u32>) -> Point {
    let trials: Vec<_> = cell.into_iter().flat_map(|cell| run.trials_of(cell)).collect();
    let of = |wanted: fn(&Status) -> bool| -> Vec<&Outcome> {
        let trials = trials.iter().filter(|trial| wanted(&trial.status));
        trials.filter_map(|trial| trial.outcome.as_ref()).collect()
    };
    let mut done = of(Status::is_done);
    // what an interrupted trial has measured counts while there is nothing better
    if done.is_empty() {
        done = of(|status| *status == Status::Interrupted);
    }
    let metric = |name: &str| {
        median(done.iter().filter_map(|outcome| {
            outcome.metrics.iter().find(|metric| metric.name == name).map(|metric| metric.value)
        }))
    };
    let finished = trials.iter().find(|trial| trial.status.is_done());
    let status = finished.or(trials.first()).map_or("not run", |trial| trial.status.word());
    Point {
        stack: stack.into(),
        status: status.into(),
        ops_per_second: median(done.iter().map(|outcome| outcome.io_ops_per_second())),
        ratio: None,
        fsync_mean_ms: metric("fsync_mean_ms").or_else(|| metric("total_ms")),
        fsync_p50_ms: metric("fsync_p50_ms"),
        fsync_p99_ms: metric("fsync_p99_ms"),
    }
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(values[middle]),
        _ => Some(f64::midpoint(values[middle - 1], values[middle])),
    }
}
