//! The whole run: head, tables, notices, verdicts.

use analysis::grid::Grid;
use stats::{Histogram, Verdict};
use study::results::Run;

use super::table::{Align, Cell, Table};
use super::{Paint, Style, compleat, evaluation};
use crate::view::flowop::{self, Flowop};
use crate::view::fsync::{fsyncs, parts};
use crate::view::notice::{self, Kind, Notice};
use crate::view::verdict::{against_first, doubt, sign, word};
use crate::view::{Measure, View, headline};
use crate::{filebench, format};

/// Flowops shown below each stack when there are several stacks.
const SLOWEST: usize = 2;
const LABEL_WIDTH: usize = 26;

/// The summary of a run: the answer, the compleat table (several stacks) or the flowops (one stack), latencies,
/// what went wrong, verdicts.
pub fn summary(run: &Run, style: Style) -> String {
    let view = View::new(run);
    let grid = Grid::of(run);
    let mut text = head(&view, grid.is_none(), style);
    if let Some(grid) = grid {
        text.push_str(&evaluation::of_grid(&grid, style));
        text.push_str(&explained(&view, style));
        text.push_str(&notices(notice::beside_evaluation(&view), style));
        return text;
    }
    if view.stacks.len() > 1 || view.loads.len() > 1 {
        text.push('\n');
        text.push_str(&compleat::of_view(&view, style));
    }
    if view.stacks.len() > 1 {
        text.push_str(&latencies(&view, style));
        text.push_str(&verdicts(&view, style));
    } else {
        for column in 0..view.loads.len() {
            text.push_str(&flowops(&view, column, style));
        }
    }
    text.push_str(&explained(&view, style));
    text.push_str(&latency_counters(&view, style));
    text.push_str(&notices(notice::notices(&view), style));
    text
}

/// `answer`: with the answer; that of an evaluation are its claims.
fn head(view: &View<'_>, answer: bool, style: Style) -> String {
    let head = headline::headline(view);
    let run = view.run;
    let mut text = String::new();
    let title = if run.title.is_empty() { &head.question } else { &run.title };
    text.push_str(&style.paint(Paint::Strong, &style.paragraph(title, 0)));
    text.push('\n');
    if answer {
        text.push_str(&style.paragraph(&head.answer, 0));
        text.push('\n');
    }
    if let Some(partial) = &head.partial {
        text.push_str(&style.paint(Paint::Warn, &style.paragraph(partial, 0)));
        text.push('\n');
    }
    let facts = format!(
        "run {}  {}  {} of {} done  seed {}  loadline {}",
        run.id,
        run.started.strftime("%Y-%m-%d %H:%M UTC"),
        view.trials_done(),
        format::plural(view.trials_planned(), "trial"),
        run.seed,
        run.loadline,
    );
    text.push_str(&style.paint(Paint::Faint, &style.paragraph(&facts, 0)));
    text.push('\n');
    text
}

fn right(text: &str) -> (Cell, Align) {
    (Cell::new(text, Paint::Strong), Align::Right)
}

fn left(text: &str) -> (Cell, Align) {
    (Cell::new(text, Paint::Strong), Align::Left)
}

/// p50, p99, p99.9 and maximum.
fn percentiles(histogram: &Histogram, paint: Paint) -> Vec<Cell> {
    let at = |quantile| Cell::new(format::latency(histogram.quantile(quantile)), paint);
    vec![at(0.5), at(0.99), at(0.999), Cell::new(format::latency(histogram.max()), paint)]
}

/// Latencies of each load by stack, and of the flowops that take most of its time.
fn latencies(view: &View<'_>, style: Style) -> String {
    let mut text = String::new();
    for (column, load) in view.loads.iter().enumerate() {
        let paced = load.measure == Measure::PacedLatency;
        let what = if paced { "latency from the intended start" } else { "service time" };
        let mut table = Table::new(vec![
            left("stack, slowest flowops"),
            right("p50"),
            right("p99"),
            right("p99.9"),
            right("max"),
        ]);
        for (_, stack, point) in view.measured(column) {
            let whole = if paced { point.intended().unwrap_or_default() } else { point.service() };
            let mut row = vec![Cell::label(&stack.name, LABEL_WIDTH, Paint::Plain)];
            row.extend(percentiles(&whole, Paint::Plain));
            table.row(row);
            for op in flowop::slowest(point, SLOWEST) {
                let histogram = if paced { op.intended.unwrap_or_default() } else { op.service };
                let mut row = vec![Cell::label(&format!("  {}", op.name), LABEL_WIDTH, Paint::Faint)];
                row.extend(percentiles(&histogram, Paint::Faint));
                table.row(row);
            }
        }
        if !table.is_empty() {
            text.push_str(&style.heading(&format!("{}: {what}", load.label)));
            text.push_str(&table.render(style));
        }
    }
    text
}

/// Where the time of each stack's fsyncs went.
fn explained(view: &View<'_>, style: Style) -> String {
    let rows = fsyncs(view);
    let mut text = String::new();
    for (column, load) in view.loads.iter().enumerate() {
        let rows: Vec<_> = rows.iter().filter(|row| row.column == column).cloned().collect();
        if rows.is_empty() {
            continue;
        }
        let parts = parts(&rows);
        let mut head = vec![left("stack"), right("fsyncs"), right("mean")];
        head.extend(parts.iter().map(|part| right(part.name())));
        let mut table = Table::new(head);
        for row in &rows {
            let mut cells = vec![
                Cell::label(&view.stacks[row.row].name, LABEL_WIDTH, Paint::Plain),
                format::scaled(row.split.summary.fsyncs as f64).into(),
                format::duration_ns(row.top.whole.mean_ns).into(),
            ];
            cells.extend(parts.iter().map(|part| {
                let time = Cell::new(format::duration_ns(row.mean_ns(*part)), Paint::Plain);
                time.line(format::share(row.share(*part)), Paint::Faint)
            }));
            table.row(cells);
        }
        text.push_str(
            &style.heading(&format!("{}: what an fsync waits for (mean of the median trial)", load.label)),
        );
        text.push_str(&table.render(style));
        for row in &rows {
            for remark in row.remarks() {
                text.push_str(&style.paragraph(&format!("{}: {remark}.", view.stacks[row.row].name), 0));
                text.push('\n');
            }
        }
    }
    text
}

/// Filebench's latency counters of the cells whose script asked for them (`enable lathist`): all results together, the
/// flowops in Filebench's order. The lines are for reading and for parsers alike, so that they are never broken.
fn latency_counters(view: &View<'_>, style: Style) -> String {
    let mut text = String::new();
    for (row, stack) in view.stacks.iter().enumerate() {
        for (load, point) in view.loads.iter().zip(view.row(row)) {
            if !point.results().any(|(trial, _)| trial.extras.latency_counters) {
                continue;
            }
            let what = "operations by latency, at 0 ns and then below each power of 2 ns (lathist)";
            text.push_str(&style.heading(&format!("{} on {}: {what}", load.label, stack.name)));
            for op in flowop::flowops(point).iter().rev() {
                let counters = filebench::counters(&op.service.power_of_two_counts());
                text.push_str(&format!("{:<20}\t{counters}\n", op.name));
            }
        }
    }
    text
}

/// All flowops of one stack on one load.
fn flowops(view: &View<'_>, column: usize, style: Style) -> String {
    let (load, point) = (&view.loads[column], view.point(0, column));
    if point.estimate.is_none() {
        return String::new();
    }
    let value = headline::with_interval(point, load.measure);
    let mut text = style.heading(&format!("{}: {value}", load.label));
    let ops = flowop::flowops(point);
    let failed = ops.iter().any(|op| op.errors > 0);
    let starved = ops.iter().any(|op| op.starved > 0);
    let mut head = vec![left("flowop")];
    head.extend(["ops", "ops/s", "MiB/s", "mean", "p50", "p99", "p99.9", "max"].map(right));
    head.extend(starved.then(|| right("starved")));
    head.extend(failed.then(|| right("errors")));
    let mut table = Table::new(head);
    for op in &ops {
        let paint = if op.is_io() { Paint::Plain } else { Paint::Faint };
        let mut row = vec![Cell::label(&op.name, LABEL_WIDTH, paint)];
        row.extend(figures(op, paint));
        row.extend(starved.then(|| Cell::new(format::scaled(op.starved as f64), count_paint(op.starved))));
        row.extend(failed.then(|| Cell::new(format::scaled(op.errors as f64), count_paint(op.errors))));
        table.row(row);
    }
    text.push_str(&table.render(style));
    if let Some(intended) = point.intended() {
        let line = format!(
            "From the intended start: p50 {}, p99 {}, p99.9 {}, max {}.",
            format::latency(intended.quantile(0.5)),
            format::latency(intended.quantile(0.99)),
            format::latency(intended.quantile(0.999)),
            format::latency(intended.max()),
        );
        text.push_str(&style.paragraph(&line, 0));
        text.push('\n');
    }
    text
}

fn count_paint(number: u64) -> Paint {
    if number > 0 { Paint::Warn } else { Paint::Faint }
}

fn figures(op: &Flowop, paint: Paint) -> Vec<Cell> {
    let mean = op.service.mean().map_or_else(|| "-".into(), format::duration_ns);
    let mut cells: Vec<Cell> = [
        format::scaled(op.ops as f64),
        format::scaled(op.ops_per_second),
        format::mebibytes(op.bytes_per_second),
        mean,
    ]
    .into_iter()
    .map(|text| Cell::new(text, paint))
    .collect();
    cells.extend(percentiles(&op.service, paint));
    cells
}

fn verdicts(view: &View<'_>, style: Style) -> String {
    let all = against_first(view);
    let Some(first) = all.first() else { return String::new() };
    let baseline = &view.stacks[first.baseline].name;
    let mut table = Table::new(vec![
        left("load"),
        left("stack"),
        left("verdict"),
        right("ratio"),
        right("interval"),
        right("p"),
    ]);
    for one in &all {
        let verdict = one.finding.verdict;
        let interval = one.finding.interval;
        let said = Cell::new(format!("{} {}", sign(&verdict), word(&verdict)), verdict_paint(&verdict));
        let why = doubt(&verdict);
        let said = if why.is_empty() { said } else { why_lines(said, &why) };
        table.row(vec![
            Cell::label(&view.loads[one.column].label, 16, Paint::Plain),
            Cell::label(&view.stacks[one.candidate].name, 16, Paint::Plain),
            said,
            Cell::new(format::ratio(one.finding.ratio), Paint::Plain),
            Cell::new(
                format!("{} .. {}", format::ratio(interval.low), format::ratio(interval.high)),
                Paint::Plain,
            ),
            Cell::new(format::p_value(one.p), Paint::Faint),
        ]);
    }
    format!("{}{}", style.heading(&format!("Against {baseline}")), table.render(style))
}

pub(super) fn why_lines(cell: Cell, why: &str) -> Cell {
    super::table::wrap(why, 18).into_iter().fold(cell, |cell, line| cell.line(line, Paint::Faint))
}

pub(super) fn verdict_paint(verdict: &Verdict) -> Paint {
    match verdict {
        Verdict::Better => Paint::Good,
        Verdict::Worse => Paint::Bad,
        Verdict::Same => Paint::Plain,
        Verdict::CannotTell { .. } => Paint::Warn,
    }
}

fn notices(all: Vec<Notice>, style: Style) -> String {
    if all.is_empty() {
        return String::new();
    }
    let mut text = style.heading("Worth knowing");
    for notice in all {
        let paint = match notice.kind {
            Kind::Failure | Kind::Errors => Paint::Bad,
            Kind::Remark => Paint::Faint,
            _ => Paint::Warn,
        };
        let label = format!("{:<12}", notice.kind.word());
        let place = if notice.place.is_empty() { String::new() } else { format!("{}: ", notice.place) };
        let advice = if notice.advice.is_empty() { String::new() } else { format!(" ({})", notice.advice) };
        let body = style.indented(&format!("{place}{}{advice}", notice.text), 13);
        text.push_str(&format!("{} {body}\n", style.paint(paint, &label)));
    }
    text
}
