//! The figures of the page, as static SVG.

use stats::{Finding, Histogram};

use super::text::pretty;
use crate::format;
use crate::ink::Ink;
use crate::plot::{Anchor, Drawing, Quantity, Scale};
use crate::view::flowop::Flowop;
use crate::view::{GridPoint, Measure, Stack, View};

/// Width of a figure that takes half the page, in pixels.
pub(super) const HALF: f64 = 520.0;
/// Width of one of three figures side by side.
const THIRD: f64 = 336.0;

/// How far beyond the best competitor a scale goes to show a ceiling.
const CUT: f64 = 1.4;

/// Every trial a dot, the median a stroke, its interval a bar; stacks below each other, from 0.
pub fn results(view: &View<'_>, column: usize, inks: &[Ink]) -> String {
    let measure = view.loads[column].measure;
    let paced = measure == Measure::PacedLatency;
    let rows: Vec<_> = view.measured(column).collect();
    let values = |all: bool| {
        let shown = rows.iter().filter(move |(_, stack, _)| all || stack.competes);
        shown.flat_map(|(_, _, point)| point.values.iter().copied())
    };
    let largest = |all| values(all).fold(0.0, f64::max);
    let low = values(true).fold(f64::INFINITY, f64::min);
    // A ceiling far above would press the competitors against the axis: it is cut off instead.
    let cut = !paced && largest(false) > 0.0 && largest(true) > CUT * largest(false);
    let high = if cut { largest(false) * CUT } else { largest(true) };
    let (left, right, top, step) = (12.0, HALF - 12.0, 8.0, 46.0);
    let bottom = top + step * rows.len() as f64;
    let x = if paced {
        Scale::log(low / 1.5, high * 1.5, left, right)
    } else {
        Scale::linear(0.0, high * 1.02, left, right)
    };
    let mut d = Drawing::new(HALF, bottom + 38.0);
    d.across(&x, if paced { Quantity::Nanoseconds } else { Quantity::Rate });
    d.datum(&[&"stack", &"trial", &if paced { "p99_ns" } else { "operations_per_second" }]);
    for tick in x.ticks(5) {
        d.line("grid", (x.position(tick), top), (x.position(tick), bottom));
        d.text(
            "tick",
            (x.position(tick), bottom + 15.0),
            Anchor::Middle,
            &pretty(&round(&measure.show(tick))),
        );
    }
    for (at, (row, stack, point)) in rows.iter().enumerate() {
        let ink = inks[*row].class();
        let (label, y) = (top + step * at as f64 + 14.0, top + step * at as f64 + 30.0);
        let Some(estimate) = point.estimate else { continue };
        let value = pretty(&measure.show(estimate.value));
        d.text("name", (left, label), Anchor::Start, &stack.name);
        d.text("value", (right, label), Anchor::End, &value);
        if !paced {
            d.rect(&format!("fill {ink}"), (left, y - 6.0), (x.position(estimate.value) - left, 12.0));
        }
        if cut && estimate.value > high {
            d.text("tick", (right, y + 4.0), Anchor::End, "beyond this scale \u{2192}");
            continue;
        }
        let (from, to) = (x.position(estimate.interval.low), x.position(estimate.interval.high));
        d.rect(&format!("interval {ink}"), (from, y - 3.0), (to - from, 6.0));
        d.line(
            &format!("median {ink}"),
            (x.position(estimate.value), y - 10.0),
            (x.position(estimate.value), y + 10.0),
        );
        for ((trial, _), value) in point.results().zip(&point.values) {
            let title = format!("{}, trial {}: {}", stack.name, trial.index + 1, measure.show_full(*value));
            d.datum(&[&stack.name, &(trial.index + 1), value]);
            let class = format!("trial {ink} t{}", trial.index + 1);
            d.dot(&class, (x.position(*value), y), 3.5, &pretty(&title));
        }
    }
    let unit =
        if paced { "p99 latency from the intended start (log scale)" } else { "I/O operations per second" };
    d.text("axis", ((left + right) / 2.0, bottom + 33.0), Anchor::Middle, unit);
    d.finish(&format!("Results of every trial of {}", view.loads[column].label))
}

/// A curve with its name and ink.
pub struct Curve<'a> {
    /// For the tooltip and the label.
    pub name: &'a str,
    /// CSS classes.
    pub class: String,
    /// What is drawn.
    pub histogram: &'a Histogram,
}

impl Curve<'_> {
    /// Which latencies these are, as the tables say it.
    fn kind(&self) -> &'static str {
        if self.class.ends_with(" due") { "intended" } else { "service" }
    }
}

/// Shares of operations above which percentiles are drawn: 1 - q.
const TAILS: [(f64, &str); 6] =
    [(0.5, "p50"), (0.1, "p90"), (0.01, "p99"), (0.001, "p99.9"), (1e-4, "p99.99"), (1e-5, "p99.999")];

/// Latency (logarithmic) by percentile, the tail drawn out: each step to the right is a tenth of the operations.
pub fn percentiles(curves: &[Curve<'_>], label: &str) -> String {
    let full: Vec<&Curve<'_>> = curves.iter().filter(|curve| curve.histogram.count() > 0).collect();
    let low = full.iter().filter_map(|c| c.histogram.quantile(0.25)).min().unwrap_or(1).max(1) as f64;
    let high = full.iter().filter_map(|c| c.histogram.max()).max().unwrap_or(10) as f64;
    let count = full.iter().map(|c| c.histogram.count()).max().unwrap_or(1) as f64;
    let deepest = (1.0 / count).clamp(1e-6, 0.1);
    let (left, right, top, bottom) = (62.0, HALF - 12.0, 10.0, 226.0);
    let y = Scale::log(low / 1.3, high * 1.3, bottom, top);
    // From half of the operations on; log10(1 / tail) grows to the right.
    let depth = |tail: f64| -(tail.max(deepest)).log10();
    let x = Scale::linear(depth(0.5), depth(deepest), left, right);
    let mut d = Drawing::new(HALF, bottom + 38.0);
    d.across(&x, Quantity::Depth);
    d.up(&y, Quantity::Nanoseconds);
    d.datum(&[&"curve", &"latency", &"share_above", &"ns"]);
    for tick in y.ticks(7) {
        d.line("grid", (left, y.position(tick)), (right, y.position(tick)));
        d.text("tick", (left - 8.0, y.position(tick) + 4.0), Anchor::End, &pretty(&short_duration(tick)));
    }
    for (tail, name) in TAILS.iter().filter(|(tail, _)| *tail >= deepest * 0.999) {
        d.line("grid", (x.position(depth(*tail)), top), (x.position(depth(*tail)), bottom));
        d.text("tick", (x.position(depth(*tail)), bottom + 15.0), Anchor::Middle, name);
    }
    for curve in full {
        let own = (1.0 / curve.histogram.count() as f64).clamp(1e-6, 0.5);
        let steps = 96;
        let (first, last) = (depth(0.5), depth(own));
        let mut rows = Vec::new();
        let points: Vec<(f64, f64)> = (0..=steps)
            .filter_map(|step| {
                let depth = first + (last - first) * f64::from(step) / f64::from(steps);
                let tail = 10f64.powf(-depth);
                let value = curve.histogram.quantile(1.0 - tail)?;
                rows.push((tail, value));
                Some((x.position(depth), y.position(value as f64)))
            })
            .collect();
        for (tail, value) in rows {
            d.datum(&[&curve.name, &curve.kind(), &format!("{tail:.3e}"), &value]);
        }
        d.path(&format!("curve {}", curve.class), &points, curve.name);
    }
    d.text("axis", ((left + right) / 2.0, bottom + 33.0), Anchor::Middle, "percentile of the operations");
    d.finish(label)
}

/// Points of a distribution's curve.
const CDF_POINTS: usize = 120;

/// The tail of one flowop's distribution: the share of operations that took longer, 1 - F, both axes logarithmic, down to one
/// in 100,000 (99.999 %). A curve ends at its longest operation but one: beyond the longest there is none.
pub fn tail(curves: &[Curve<'_>], label: &str) -> String {
    let full: Vec<&Curve<'_>> = curves.iter().filter(|curve| curve.histogram.count() > 0).collect();
    let low = full.iter().filter_map(|c| c.histogram.min()).min().unwrap_or(1).max(1) as f64;
    let high = full.iter().filter_map(|c| c.histogram.max()).max().unwrap_or(10) as f64;
    let most = full.iter().map(|c| c.histogram.count()).max().unwrap_or(1) as f64;
    let (left, right, top, bottom) = (56.0, THIRD - 10.0, 8.0, 138.0);
    let x = Scale::log(low / 1.2, high * 1.2, left, right);
    let y = Scale::log((1.0 / most).clamp(DEEPEST, 0.1), 1.0, bottom, top);
    let mut d = Drawing::new(THIRD, bottom + 20.0);
    d.across(&x, Quantity::Nanoseconds);
    d.up(&y, Quantity::Tail);
    d.datum(&[&"stack", &"ns", &"share_longer"]);
    for tick in y.ticks(6) {
        d.line("grid", (left, y.position(tick)), (right, y.position(tick)));
        let percent = (tick * 1e5).round() / 1e3;
        d.text("tick", (left - 6.0, y.position(tick) + 4.0), Anchor::End, &format!("{percent} %"));
    }
    for tick in x.ticks(5) {
        d.line("grid", (x.position(tick), top), (x.position(tick), bottom));
        d.text("tick", (x.position(tick), bottom + 15.0), Anchor::Middle, &pretty(&short_duration(tick)));
    }
    for curve in full {
        let mut points = vec![(x.position(curve.histogram.min().unwrap_or(1) as f64), y.position(1.0))];
        for (value, longer) in tail_points(curve.histogram) {
            points.push((x.position(value), y.position(longer)));
            d.datum(&[&curve.name, &value, &longer]);
        }
        d.path(&format!("curve {}", curve.class), &points, curve.name);
    }
    d.finish(label)
}

/// The smallest share of a tail that is drawn: beyond p99.999.
const DEEPEST: f64 = 1e-5;

/// `(value, share of the values above it)`: even in the logarithm of the share, where its curve is seen.
fn tail_points(histogram: &Histogram) -> Vec<(f64, f64)> {
    let count = histogram.count() as f64;
    let mut above = histogram.count();
    let mut points: Vec<(f64, f64)> = Vec::new();
    for bucket in histogram.iter() {
        above -= bucket.count;
        let longer = above as f64 / count;
        let far = |&(_, last): &(f64, f64)| last / longer >= TAIL_STEP;
        if longer >= DEEPEST && points.last().is_none_or(far) {
            points.push(((bucket.high_exclusive - 1) as f64, longer));
        }
    }
    points
}

/// Points of a tail lie this factor apart, at least: 120 of them down to 1 in 100,000.
const TAIL_STEP: f64 = 1.1;

/// Cumulative distribution of one flowop, a curve for each stack.
pub fn cdf(curves: &[Curve<'_>], label: &str) -> String {
    let full: Vec<&Curve<'_>> = curves.iter().filter(|curve| curve.histogram.count() > 0).collect();
    let low = full.iter().filter_map(|c| c.histogram.min()).min().unwrap_or(1).max(1) as f64;
    let high = full.iter().filter_map(|c| c.histogram.max()).max().unwrap_or(10) as f64;
    let (left, right, top, bottom) = (40.0, THIRD - 10.0, 8.0, 138.0);
    let x = Scale::log(low / 1.2, high * 1.2, left, right);
    let y = Scale::linear(0.0, 1.0, bottom, top);
    let mut d = Drawing::new(THIRD, bottom + 20.0);
    d.across(&x, Quantity::Nanoseconds);
    d.up(&y, Quantity::Share);
    d.datum(&[&"stack", &"ns", &"share_not_longer"]);
    for (share, name) in [(0.0, "0 %"), (0.5, "50 %"), (1.0, "100 %")] {
        d.line("grid", (left, y.position(share)), (right, y.position(share)));
        d.text("tick", (left - 6.0, y.position(share) + 4.0), Anchor::End, name);
    }
    for tick in x.ticks(5) {
        d.line("grid", (x.position(tick), top), (x.position(tick), bottom));
        d.text("tick", (x.position(tick), bottom + 15.0), Anchor::Middle, &pretty(&short_duration(tick)));
    }
    for curve in full {
        let start = curve.histogram.min().unwrap_or(1) as f64;
        let mut points = vec![(x.position(start), y.position(0.0))];
        for (value, share) in curve.histogram.cdf_points(CDF_POINTS) {
            points.push((x.position(value as f64), y.position(share)));
            d.datum(&[&curve.name, &value, &share]);
        }
        d.path(&format!("curve {}", curve.class), &points, curve.name);
    }
    d.finish(label)
}

/// Throughput of each trial in each second. The competitors' panels of a load share a scale; a ceiling has its own.
pub fn over_time(view: &View<'_>, column: usize, row: usize, ink: Ink) -> Option<String> {
    let group = |(_, stack, _): &(usize, &Stack, &GridPoint<'_>)| stack.competes == view.stacks[row].competes;
    let all = view.measured(column).filter(group).flat_map(|(_, _, point)| point.results());
    let series: Vec<Vec<u64>> = all.map(|(_, outcome)| outcome.io_ops_by_second()).collect();
    let high = series.iter().flatten().copied().max()? as f64;
    let length = series.iter().map(Vec::len).max()?;
    let (left, right, top, bottom) = (44.0, THIRD - 10.0, 8.0, 112.0);
    let x = Scale::linear(0.0, length.saturating_sub(1).max(1) as f64, left, right);
    let y = Scale::linear(0.0, high * 1.05, bottom, top);
    let mut d = Drawing::new(THIRD, bottom + 20.0);
    d.across(&x, Quantity::Seconds);
    d.up(&y, Quantity::Rate);
    d.datum(&[&"stack", &"trial", &"second", &"operations"]);
    for tick in y.ticks(3) {
        d.line("grid", (left, y.position(tick)), (right, y.position(tick)));
        d.text("tick", (left - 6.0, y.position(tick) + 4.0), Anchor::End, &round(&format::scaled(tick)));
    }
    for tick in x.ticks(5).into_iter().filter(|tick| tick.fract() == 0.0) {
        d.text("tick", (x.position(tick), bottom + 15.0), Anchor::Middle, &format!("{tick:.0} s"));
    }
    let stack = &view.stacks[row];
    for (trial, outcome) in view.point(row, column).results() {
        let seconds = outcome.io_ops_by_second();
        let points: Vec<(f64, f64)> = seconds
            .iter()
            .enumerate()
            .map(|(at, ops)| (x.position(at as f64), y.position(*ops as f64)))
            .collect();
        for (second, ops) in seconds.iter().enumerate() {
            d.datum(&[&stack.name, &(trial.index + 1), &second, ops]);
        }
        let title = format!("{}, trial {}", stack.name, trial.index + 1);
        d.path(&format!("series {} t{}", ink.class(), trial.index + 1), &points, &title);
    }
    Some(d.finish(&format!("Throughput over time of {} on {}", view.loads[column].label, stack.name)))
}

/// A ratio with its interval on a logarithmic axis; the band is the margin within which results are the same.
pub fn forest(finding: &Finding, margin: f64, span: f64) -> String {
    let (width, height, middle) = (180.0, 22.0, 11.0);
    let x = Scale::log(1.0 / span, span, 4.0, width - 4.0);
    let mut d = Drawing::new(width, height);
    let (from, to) = (x.position(1.0 / (1.0 + margin)), x.position(1.0 + margin));
    d.rect("band", (from, 1.0), ((to - from).max(1.0), height - 2.0));
    d.line("one", (x.position(1.0), 1.0), (x.position(1.0), height - 1.0));
    let (ratio, interval) = (finding.ratio, finding.interval);
    d.line("whisker", (x.position(interval.low), middle), (x.position(interval.high), middle));
    if ratio > span {
        d.text("beyond", (width - 2.0, middle + 5.0), Anchor::End, "\u{25b6}");
    } else if ratio < 1.0 / span {
        d.text("beyond", (2.0, middle + 5.0), Anchor::Start, "\u{25c0}");
    } else {
        d.dot("ratio", (x.position(ratio), middle), 4.0, &format::ratio(ratio));
    }
    d.finish(&format!("ratio {}", format::ratio(ratio)))
}

/// Factor of the axis to both sides of 1: shows every ratio if 2.5 suffices; what lies beyond is an arrow.
pub fn forest_span<'a>(all: impl Iterator<Item = &'a Finding>) -> f64 {
    let off = |value: f64| if value > 0.0 { value.max(value.recip()) } else { 1.0 };
    let widest = all.map(|one| off(one.interval.low).max(off(one.interval.high))).fold(1.2, f64::max);
    (widest * 1.1).min(2.5)
}

/// Names of all I/O flowops of a load over all stacks, in order of definition.
pub fn flowop_names(by_stack: &[Vec<Flowop>]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for op in by_stack.iter().flatten().filter(|op| op.is_io() && op.service.count() > 0) {
        if !names.contains(&op.name.as_str()) {
            names.push(&op.name);
        }
    }
    names
}

/// Ticks are round: `50.0 k` is written as `50 k`.
pub(super) fn round(text: &str) -> String {
    let (number, unit) = text.split_once(' ').unwrap_or((text, ""));
    let number =
        if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number };
    format!("{number} {unit}").trim_end().to_string()
}

/// Ticks are powers of ten, or 2 and 5 times them: no decimals.
pub(super) fn short_duration(ns: f64) -> String {
    let (size, unit) = match ns {
        _ if ns >= 0.999e9 => (ns / 1e9, "s"),
        _ if ns >= 0.999e6 => (ns / 1e6, "ms"),
        _ if ns >= 0.999e3 => (ns / 1e3, "us"),
        _ => (ns, "ns"),
    };
    format!("{size:.0} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_is_exact_where_it_has_points() {
        let histogram: Histogram = (1..=1_000_000_u64).collect();
        let points = tail_points(&histogram);
        assert!((20..=130).contains(&points.len()), "{}", points.len());
        for (value, longer) in &points {
            assert!((longer - (1.0 - value / 1e6)).abs() < 1e-9, "{value} {longer}");
        }
        let (value, last) = points.last().unwrap();
        assert!(*last >= DEEPEST && *last < 1e-2 && *value < 1e6, "{value} {last}");
        assert!(tail_points(&Histogram::new()).is_empty());
        // of a single value none is longer
        assert!(tail_points(&[7].into_iter().collect()).is_empty());
    }
}
