//! CSV files: one row for each trial and flowop, one for each cell, and the series behind the charts.
//!
//! RFC 4180 with newlines as row ends; the first row names the columns, with units in the names. An empty field
//! means that there is no such value. Columns are only ever added, at the right.

use std::fmt::Display;

use stats::{Direction, Histogram, OpClass, OpOutcome, Outcome};
use study::results::{Cell, Run, Status, Trial};

use crate::view::{LEVEL, Measure, View};

/// The files of a run: name and contents.
pub fn files(run: &Run) -> Vec<(String, String)> {
    let view = View::new(run);
    [
        ("cells.csv", cells(&view)),
        ("trials.csv", trials(run)),
        ("series.csv", series(run)),
        ("metrics.csv", metrics(run)),
    ]
    .into_iter()
    .map(|(name, contents)| (name.to_string(), contents))
    .collect()
}

pub(crate) const QUANTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99_9", 0.999), ("p99_99", 0.9999)];

/// A table under construction.
struct Table {
    text: String,
    columns: usize,
    filled: usize,
}

impl Table {
    fn new(columns: &[&str]) -> Table {
        let mut table = Table { text: String::new(), columns: columns.len(), filled: 0 };
        columns.iter().for_each(|name| table.put(name));
        table.end();
        table
    }

    fn put(&mut self, value: impl Display) {
        if self.filled > 0 {
            self.text.push(',');
        }
        self.filled += 1;
        let value = value.to_string();
        if value.contains(['"', ',', '\n', '\r']) {
            self.text.push_str(&format!("\"{}\"", value.replace('"', "\"\"")));
        } else {
            self.text.push_str(&value);
        }
    }

    fn put_some(&mut self, value: Option<impl Display>) {
        match value {
            Some(value) => self.put(value),
            None => self.put(""),
        }
    }

    /// Ends a row; what was not put stays empty.
    fn end(&mut self) {
        while self.filled < self.columns {
            self.put("");
        }
        debug_assert_eq!(self.filled, self.columns, "a row is longer than the head");
        self.filled = 0;
        self.text.push('\n');
    }
}

const KEY: [&str; 3] = ["workload", "parameters", "stack"];

fn put_key(table: &mut Table, cell: &Cell) {
    let parameters: Vec<String> = cell.parameters.iter().map(|p| format!("{}={}", p.name, p.value)).collect();
    table.put(&cell.workload);
    table.put(parameters.join(" "));
    table.put(&cell.stack);
}

fn head(rest: &[&'static str], latencies: &[&str]) -> Vec<String> {
    let mut head: Vec<String> = KEY.iter().chain(rest).map(ToString::to_string).collect();
    for kind in latencies {
        let names = ["mean", "min"].into_iter().chain(QUANTILES.iter().map(|(name, _)| *name)).chain(["max"]);
        head.extend(names.map(|name| format!("{kind}_{name}_ns")));
    }
    head
}

fn put_latencies(table: &mut Table, histogram: Option<&Histogram>) {
    table.put_some(histogram.and_then(Histogram::mean));
    table.put_some(histogram.and_then(Histogram::min));
    for (_, quantile) in QUANTILES {
        table.put_some(histogram.and_then(|h| h.quantile(quantile)));
    }
    table.put_some(histogram.and_then(Histogram::max));
}

/// One row for each cell: medians with intervals, pooled latencies.
fn cells(view: &View<'_>) -> String {
    let rest = [
        "standing",
        "competes",
        "trials",
        "trials_done",
        "measure",
        "measure_unit",
        "median",
        "interval_low",
        "interval_high",
        "interval_level",
        "interval_coverage",
        "share_of_best",
        "operations",
        "errors",
        "starved",
    ];
    let head = head(&rest, &["service", "intended"]);
    let mut table = Table::new(&head.iter().map(String::as_str).collect::<Vec<_>>());
    for (row, stack) in view.stacks.iter().enumerate() {
        for (column, load) in view.loads.iter().enumerate() {
            let point = view.point(row, column);
            let Some(cell) = point.cell else { continue };
            put_key(&mut table, cell);
            table.put(point.standing.word());
            table.put(stack.competes);
            table.put(point.trials.len());
            table.put(point.values.len());
            let (name, unit) = measure_words(load.measure);
            table.put(name);
            table.put(unit);
            let estimate = point.estimate;
            table.put_some(estimate.map(|e| e.value));
            table.put_some(estimate.map(|e| e.interval.low));
            table.put_some(estimate.map(|e| e.interval.high));
            table.put(LEVEL);
            table.put_some(estimate.map(|e| e.interval.coverage));
            table.put_some(point.share);
            let io = || point.results().flat_map(|(_, outcome)| outcome.io());
            table.put(io().map(|op| op.ops).sum::<u64>());
            table.put(io().map(|op| op.errors).sum::<u64>());
            table.put(io().map(|op| op.starved).sum::<u64>());
            put_latencies(&mut table, Some(&point.service()));
            put_latencies(&mut table, point.intended().as_ref());
            table.end();
        }
    }
    table.text
}

/// Machine-readable name and unit of a column's measure.
pub(crate) fn measure_words(measure: Measure) -> (&'static str, &'static str) {
    match measure {
        Measure::Throughput => ("throughput", "ops/s"),
        Measure::PacedLatency => ("intended_latency_p99", "ns"),
    }
}

/// One row for each trial and flowop; a trial without flowops has one row all the same.
fn trials(run: &Run) -> String {
    let rest = [
        "trial",
        "order",
        "status",
        "message",
        "started",
        "wall_seconds",
        "measured_seconds",
        "warmup_seconds",
        "flowop",
        "kind",
        "class",
        "direction",
        "operations",
        "bytes",
        "errors",
        "starved",
        "operations_per_second",
        "bytes_per_second",
    ];
    let head = head(&rest, &["service", "intended"]);
    let mut table = Table::new(&head.iter().map(String::as_str).collect::<Vec<_>>());
    for trial in &run.trials {
        let Some(cell) = run.cell(trial.cell) else { continue };
        let ops = trial.outcome.as_ref().map_or(&[][..], |outcome| &outcome.ops);
        let with = ops.iter().map(Some).chain(ops.is_empty().then_some(None));
        for op in with {
            put_trial(&mut table, cell, trial);
            if let Some(outcome) = &trial.outcome {
                table.put(outcome.measured_seconds);
                table.put(outcome.warmup_seconds);
                op.into_iter().for_each(|op| put_op(&mut table, outcome, op));
            }
            table.end();
        }
    }
    table.text
}

/// Why a trial has no result; empty when it has.
pub(crate) fn message(status: &Status) -> String {
    match status {
        Status::Failed { message } => message.clone(),
        Status::TimedOut { after_seconds } => format!("killed after {after_seconds} s"),
        Status::Unavailable { reason, .. } => reason.clone(),
        Status::Done | Status::Interrupted => String::new(),
    }
}

fn put_trial(table: &mut Table, cell: &Cell, trial: &Trial) {
    put_key(table, cell);
    table.put(trial.index);
    table.put(trial.order);
    table.put(trial.status.word());
    table.put(message(&trial.status));
    table.put(trial.started);
    table.put(trial.seconds);
}

fn put_op(table: &mut Table, outcome: &Outcome, op: &OpOutcome) {
    let seconds = outcome.op_seconds(op);
    let rate = |amount: u64| (seconds > 0.0).then(|| amount as f64 / seconds);
    table.put(&op.name);
    table.put(&op.kind);
    table.put(class_word(op.class));
    table.put(direction_word(op.direction));
    table.put(op.ops);
    table.put(op.bytes);
    table.put(op.errors);
    table.put(op.starved);
    table.put_some(rate(op.ops));
    table.put_some(rate(op.bytes));
    put_latencies(table, Some(&op.service));
    put_latencies(table, op.intended.as_ref());
}

pub(crate) fn class_word(class: OpClass) -> &'static str {
    match class {
        OpClass::Io => "io",
        OpClass::Aio => "aio",
        OpClass::Sync => "sync",
        OpClass::Other => "other",
        OpClass::Composite => "composite",
    }
}

pub(crate) fn direction_word(direction: Direction) -> &'static str {
    match direction {
        Direction::Read => "read",
        Direction::Write => "write",
        Direction::Neither => "neither",
    }
}

/// One row for each trial and whole second: I/O operations and bytes.
fn series(run: &Run) -> String {
    let head = head(&["trial", "status", "second", "operations", "bytes"], &[]);
    let mut table = Table::new(&head.iter().map(String::as_str).collect::<Vec<_>>());
    for trial in &run.trials {
        let (Some(cell), Some(outcome)) = (run.cell(trial.cell), &trial.outcome) else { continue };
        let bytes = outcome.io_bytes_by_second();
        for (second, ops) in outcome.io_ops_by_second().into_iter().enumerate() {
            put_key(&mut table, cell);
            table.put(trial.index);
            table.put(trial.status.word());
            table.put(second);
            table.put(ops);
            table.put_some(bytes.get(second));
            table.end();
        }
    }
    table.text
}

/// One row for each scalar result beside the operations.
fn metrics(run: &Run) -> String {
    let head = head(&["trial", "status", "metric", "unit", "value"], &[]);
    let mut table = Table::new(&head.iter().map(String::as_str).collect::<Vec<_>>());
    for trial in &run.trials {
        let (Some(cell), Some(outcome)) = (run.cell(trial.cell), &trial.outcome) else { continue };
        for metric in &outcome.metrics {
            put_key(&mut table, cell);
            table.put(trial.index);
            table.put(trial.status.word());
            table.put(&metric.name);
            table.put(&metric.unit);
            table.put(metric.value);
            table.end();
        }
    }
    table.text
}
