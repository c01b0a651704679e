//! What a sweep of offered rates says: latency over the rate, the knee, what each kind of operation waits.
//!
//! One table for the terminal, CSV, JSON and a drawing, all from the same [`Curve`]s.

use analysis::sweep::{self, Curve, IntervalEstimate, Latency, Point};
use stats::knee::StepOutcome;
use study::results::Run;

use crate::format;
use crate::ink::Ink;
use crate::plot::{Anchor, Drawing, Quantity, Scale};
use crate::terminal::table::{Align, Cell, Table};
use crate::terminal::{Paint, Style};

/// The curves of a run that swept offered rates.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadCurves {
    curves: Vec<Curve>,
    /// What the 99th percentile must hold, when something was asked.
    limit_ns: Option<u64>,
}

impl LoadCurves {
    /// Those of a run; `None` for a run that swept no rates. `limit_ns`: for the highest rate whose 99th percentile is
    /// below it.
    pub fn of(run: &Run, limit_ns: Option<u64>) -> Option<LoadCurves> {
        let curves = sweep::curves(run, limit_ns);
        (!curves.is_empty()).then_some(LoadCurves { curves, limit_ns })
    }

    /// The tables for people.
    pub fn terminal(&self, style: Style) -> String {
        let all: Vec<String> = self.curves.iter().map(|curve| self.curve_text(curve, style)).collect();
        format!("{}\n{LEGEND}\n", all.join("\n"))
    }

    fn curve_text(&self, curve: &Curve, style: Style) -> String {
        let heads = ["offered", "achieved", "p50", "p95", "p99", "p99.9"];
        let heads = heads.map(|text| (Cell::new(text, Paint::Strong), Align::Right)).into_iter();
        let mut table = Table::new(heads.chain([(Cell::new("", Paint::Strong), Align::Left)]).collect());
        if let (Some(rate), Some(closed)) = (curve.saturation, &curve.closed) {
            let note = Cell::new("closed loop", Paint::Faint);
            table.row(line("max", rate, closed, note, Paint::Faint));
        }
        for point in &curve.points {
            let (note, paint) = match point.kept {
                StepOutcome::Up => ("", Paint::Plain),
                StepOutcome::Behind => ("behind", Paint::Warn),
                StepOutcome::Unknown => ("too short", Paint::Faint),
            };
            let note = Cell::new(note, Paint::Faint);
            table.row(line(&format::scaled(point.offered), point.achieved, &point.latency, note, paint));
        }
        let mut text = format!("{} on {}, operations/s\n{}", curve.load, curve.stack, table.render(style));
        text.push_str(&format!("  {}\n", self.conclusion(curve)));
        for fault in &curve.faults {
            text.push_str(&format!("  {fault}\n"));
        }
        text
    }

    /// What a curve says in words.
    fn conclusion(&self, curve: &Curve) -> String {
        let knee = match (&curve.knee, &curve.plateau) {
            (Some(knee), Some(plateau)) => {
                format!("keeps up to {}; beyond, it does {}", found(knee), found(plateau))
            }
            (Some(knee), None) => format!("keeps up to {}", found(knee)),
            (None, _) => "no rate was too high: offer more to find where it falls behind".to_string(),
        };
        let (Some(held), Some(limit)) = (&curve.held, self.limit_ns) else { return knee };
        let told = format::duration_ns(limit as f64);
        let rate = |rate: f64| format!("{} op/s", format::scaled(rate));
        let broken = held.not_at.map(|not| {
            let point = curve.points.iter().find(|point| point.offered.total_cmp(&not).is_eq());
            let is_sure = point.is_some_and(|point| {
                point.kept == StepOutcome::Behind || point.latency.p99.is_some_and(|p99| p99 > limit)
            });
            if is_sure {
                format!("not at {}", rate(not))
            } else {
                format!("at {} that is not sure", rate(not))
            }
        });
        let below = match (held.at, broken) {
            (Some(at), Some(broken)) => format!("p99 below {told} up to {}, {broken}", rate(at)),
            (Some(at), None) => format!("p99 below {told} up to {}, the highest rate", rate(at)),
            (None, Some(broken)) => format!("p99 below {told}: {broken}, the lowest rate"),
            (None, None) => format!("whether p99 is below {told} cannot be said"),
        };
        format!("{knee}; {below}")
    }

    /// A row for each point and each kind of operation in it; `all` is all of them.
    pub fn csv(&self) -> String {
        let mut text = String::from(
            "load,stack,level,offered_per_second,achieved_per_second,kept,trials,operation,operations,mean_ns,p50_ns,\
             p95_ns,p99_ns,p999_ns,max_ns\n",
        );
        let quoted = |word: &str| format!("\"{}\"", word.replace('"', "\"\""));
        for curve in &self.curves {
            for point in &curve.points {
                let all = std::iter::once(("all", &point.latency));
                for (name, latency) in all.chain(point.ops.iter().map(|op| (op.name.as_str(), &op.latency))) {
                    let head = [quoted(&curve.load), quoted(&curve.stack), quoted(&point.level)].join(",");
                    text.push_str(&format!(
                        "{head},{},{},{},{},{},{}\n",
                        point.offered,
                        point.achieved,
                        outcome_word(point),
                        point.trials,
                        quoted(name),
                        numbers(latency)
                    ));
                }
            }
        }
        text
    }

    /// The same for programs.
    ///
    /// # Errors
    /// None in practice: a number that JSON cannot hold.
    pub fn json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(&self.curves)
    }

    /// The 99th percentile over the achieved rate, a curve for each target, as an SVG file.
    pub fn drawing(&self) -> String {
        self.drawn().file(LABEL)
    }

    /// The same as a part of a page, which has the styles.
    pub fn figure(&self) -> String {
        self.drawn().finish(LABEL)
    }

    fn drawn(&self) -> Drawing {
        const SIZE: (f64, f64) = (760.0, 380.0);
        const ROOM: (f64, f64, f64, f64) = (64.0, 560.0, 24.0, 330.0);
        let (left, right, top, bottom) = ROOM;
        let points = || self.curves.iter().flat_map(|curve| &curve.points);
        let waits = || points().filter_map(|point| point.latency.p99).map(|ns| ns.max(1) as f64);
        let most = points().map(|point| point.offered.max(point.achieved)).fold(1.0, f64::max);
        let (least, longest) = (waits().fold(f64::INFINITY, f64::min), waits().fold(1.0, f64::max));
        let across = Scale::linear(0.0, most * 1.02, left, right);
        let up = Scale::log(least.min(longest) / 1.3, longest * 1.3, bottom, top);
        let mut drawing = Drawing::new(SIZE.0, SIZE.1);
        drawing.across(&across, Quantity::Rate);
        drawing.up(&up, Quantity::Nanoseconds);
        for tick in up.ticks(5) {
            let y = up.position(tick);
            drawing.line("grid", (left, y), (right, y));
            drawing.text("tick", (left - 6.0, y + 4.0), Anchor::End, &format::duration_ns(tick));
        }
        for tick in across.ticks(6) {
            let x = across.position(tick);
            drawing.line("grid", (x, top), (x, bottom));
            drawing.text("tick", (x, bottom + 18.0), Anchor::Middle, &format::scaled(tick));
        }
        drawing.text("axis", (left, 14.0), Anchor::Start, "99th percentile from the intended start");
        let middle = (left + right) / 2.0;
        drawing.text("axis", (middle, bottom + 38.0), Anchor::Middle, "operations/s achieved; bar: the knee");
        for (number, curve) in self.curves.iter().enumerate() {
            let class = Ink::Stack(number).class();
            let name = self.name(curve);
            if let Some(knee) = &curve.knee {
                // its interval as a bar at the bottom, a row for each curve
                let y = bottom - 4.0 - 7.0 * number as f64;
                let (low, high) = (across.position(knee.low.max(0.0)), across.position(knee.high.min(most)));
                drawing.path(&format!("curve {class}"), &[(low, y), (high, y)], &name);
                drawing.dot(
                    &format!("trial {class}"),
                    (across.position(knee.value.min(most)), y),
                    4.0,
                    &name,
                );
            }
            let at = |point: &Point| {
                Some((across.position(point.achieved), up.position(point.latency.p99?.max(1) as f64)))
            };
            let spots: Vec<((f64, f64), &Point)> =
                curve.points.iter().filter_map(|point| Some((at(point)?, point))).collect();
            let line: Vec<(f64, f64)> = spots.iter().map(|(spot, _)| *spot).collect();
            drawing.path(&format!("curve {class}"), &line, &name);
            for (spot, point) in spots {
                let told = format!(
                    "{name}: offered {}, achieved {}, p99 {}",
                    format::scaled(point.offered),
                    format::scaled(point.achieved),
                    format::latency(point.latency.p99)
                );
                drawing.dot(&format!("trial {class}"), spot, 3.0, &told);
            }
            // in a column of its own: curves end close together
            let y = top + 18.0 * number as f64;
            drawing.path(&format!("curve {class}"), &[(right + 16.0, y), (right + 46.0, y)], &name);
            drawing.text("name", (right + 52.0, y + 4.0), Anchor::Start, &name);
        }
        drawing
    }

    /// The stack where the loads are the same, else both.
    fn name(&self, curve: &Curve) -> String {
        if self.curves.iter().all(|other| other.load == curve.load) {
            curve.stack.clone()
        } else {
            format!("{} on {}", curve.load, curve.stack)
        }
    }
}

const LEGEND: &str = "Latency from when an operation was due; behind: a rate that is not kept, whose latency is that of a \
                      queue that grows.\nclosed loop: each operation begins when the one before has ended. Figures in \
                      brackets: 95 % interval.";

const LABEL: &str = "latency over the rate";

fn line(offered: &str, achieved: f64, latency: &Latency, note: Cell, paint: Paint) -> Vec<Cell> {
    let waits = [latency.p50, latency.p95, latency.p99, latency.p999].map(format::latency);
    let mut cells = vec![Cell::new(offered.to_string(), paint), Cell::new(format::scaled(achieved), paint)];
    cells.extend(waits.map(|wait| Cell::new(wait, paint)));
    cells.push(note);
    cells
}

fn found(found: &IntervalEstimate) -> String {
    let [value, low, high] = [found.value, found.low, found.high].map(format::scaled);
    format!("{value} op/s ({low} to {high})")
}

fn outcome_word(point: &Point) -> &'static str {
    match point.kept {
        StepOutcome::Up => "up",
        StepOutcome::Behind => "behind",
        StepOutcome::Unknown => "unknown",
    }
}

fn numbers(latency: &Latency) -> String {
    let mean = latency.mean.map_or(String::new(), |mean| format!("{mean:.0}"));
    let waits = [latency.p50, latency.p95, latency.p99, latency.p999, latency.max];
    let waits = waits.map(|wait| wait.map_or(String::new(), |wait| wait.to_string()));
    format!("{},{mean},{}", latency.count, waits.join(","))
}
