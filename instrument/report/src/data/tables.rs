//! What stands in the tables. Columns are only ever added, at the right of their table.

use stats::{Histogram, OpOutcome, Outcome};
use study::results::{Cell, Run, Status, Trial};

use super::{Column, Table, Values};
use crate::csv::{QUANTILES, class_word, direction_word, message};

/// The tables of a run: trials, flowops, series, histograms, metrics.
pub fn tables(run: &Run) -> Vec<Table> {
    vec![trials(run), flowops(run), series(run), histograms(run), metrics(run)]
}

/// A row that is looked at: a trial, and what of it.
struct Row<'a, T> {
    cell: &'a Cell,
    trial: &'a Trial,
    of: T,
}

/// Columns under construction: each is a function of a row.
struct Columns<'a, T> {
    rows: Vec<Row<'a, T>>,
    columns: Vec<Column>,
}

impl<'a, T> Columns<'a, T> {
    /// Rows of a run, with the columns that say of which run, cell and trial they are.
    fn new<I: IntoIterator<Item = T>>(run: &'a Run, of: impl Fn(&'a Trial) -> I) -> Columns<'a, T> {
        let known = run.trials.iter().filter_map(|trial| Some((run.cell(trial.cell)?, trial)));
        let rows =
            known.flat_map(|(cell, trial)| of(trial).into_iter().map(move |of| Row { cell, trial, of }));
        let parameters = |cell: &Cell| {
            let each: Vec<String> =
                cell.parameters.iter().map(|one| format!("{}={}", one.name, one.value)).collect();
            each.join(" ")
        };
        Columns { rows: rows.collect(), columns: Vec::new() }
            .text("run", |_| Some(run.id.clone()))
            .text("workload", |row| Some(row.cell.workload.clone()))
            .text("parameters", |row| Some(parameters(row.cell)))
            .text("stack", |row| Some(row.cell.stack.clone()))
            .int("cell", |row| Some(row.cell.id.into()))
            .int("trial", |row| Some(row.trial.index.into()))
            .text("status", |row| Some(row.trial.status.word().into()))
    }

    fn put(mut self, name: impl Into<String>, values: impl FnOnce(&[Row<'a, T>]) -> Values) -> Self {
        let values = values(&self.rows);
        self.columns.push(Column { name: name.into(), values });
        self
    }

    fn text(self, name: &str, value: impl Fn(&Row<'a, T>) -> Option<String>) -> Self {
        self.put(name, |rows| Values::Text(rows.iter().map(value).collect()))
    }

    fn int(self, name: impl Into<String>, value: impl Fn(&Row<'a, T>) -> Option<u64>) -> Self {
        let signed = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        self.put(name, |rows| Values::Int(rows.iter().map(|row| value(row).map(signed)).collect()))
    }

    fn float(self, name: impl Into<String>, value: impl Fn(&Row<'a, T>) -> Option<f64>) -> Self {
        self.put(name, |rows| Values::Float(rows.iter().map(value).collect()))
    }

    /// Mean, smallest, quantiles and largest of a histogram, when it has values.
    fn latencies(mut self, kind: &str, of: impl Fn(&T) -> Option<&Histogram>) -> Self {
        self = self.float(format!("{kind}_mean_ns"), |row| of(&row.of)?.mean());
        self = self.int(format!("{kind}_min_ns"), |row| of(&row.of)?.min());
        for (name, quantile) in QUANTILES {
            self = self.int(format!("{kind}_{name}_ns"), |row| of(&row.of)?.quantile(quantile));
        }
        self.int(format!("{kind}_max_ns"), |row| of(&row.of)?.max())
    }

    fn table(self, name: &'static str) -> Table {
        Table { name, columns: self.columns }
    }
}

fn rate(amount: u64, seconds: f64) -> Option<f64> {
    (seconds > 0.0).then(|| amount as f64 / seconds)
}

/// A row for each trial.
fn trials(run: &Run) -> Table {
    let sum = |outcome: &Outcome, of: fn(&OpOutcome) -> u64| outcome.io().map(of).sum::<u64>();
    Columns::new(run, |trial| [trial.outcome.as_ref()])
        .int("order", |row| Some(row.trial.order.into()))
        .text("message", |row| match &row.trial.status {
            Status::Done | Status::Interrupted => None,
            other => Some(message(other)),
        })
        .put("started", |rows| {
            Values::Time(rows.iter().map(|row| Some(row.trial.started.as_microsecond())).collect())
        })
        .float("wall_seconds", |row| Some(row.trial.seconds))
        .float("measured_seconds", |row| Some(row.of?.measured_seconds))
        .float("warmup_seconds", |row| Some(row.of?.warmup_seconds))
        .int("operations", |row| Some(row.of?.io_ops()))
        .int("bytes", |row| Some(row.of?.io_bytes()))
        .int("errors", |row| Some(sum(row.of?, |op| op.errors)))
        .int("starved", |row| Some(sum(row.of?, |op| op.starved)))
        .float("operations_per_second", |row| rate(row.of?.io_ops(), row.of?.measured_seconds))
        .float("bytes_per_second", |row| rate(row.of?.io_bytes(), row.of?.measured_seconds))
        .table("trials")
}

/// A row for each trial and flowop.
fn flowops(run: &Run) -> Table {
    fn each(trial: &Trial) -> Vec<(&Outcome, &OpOutcome)> {
        trial.outcome.iter().flat_map(|outcome| outcome.ops.iter().map(move |op| (outcome, op))).collect()
    }
    Columns::new(run, each)
        .text("flowop", |row| Some(row.of.1.name.clone()))
        .text("kind", |row| Some(row.of.1.kind.clone()))
        .text("class", |row| Some(class_word(row.of.1.class).into()))
        .text("direction", |row| Some(direction_word(row.of.1.direction).into()))
        .int("operations", |row| Some(row.of.1.ops))
        .int("bytes", |row| Some(row.of.1.bytes))
        .int("errors", |row| Some(row.of.1.errors))
        .int("starved", |row| Some(row.of.1.starved))
        .float("operations_per_second", |row| rate(row.of.1.ops, row.of.0.op_seconds(row.of.1)))
        .float("bytes_per_second", |row| rate(row.of.1.bytes, row.of.0.op_seconds(row.of.1)))
        .latencies("service", |of| Some(&of.1.service))
        .latencies("intended", |of| of.1.intended.as_ref())
        .table("flowops")
}

/// A row for each trial and whole second of its measured interval.
fn series(run: &Run) -> Table {
    let each = |trial: &Trial| -> Vec<(u64, u64, Option<u64>)> {
        let Some(outcome) = &trial.outcome else { return Vec::new() };
        let bytes = outcome.io_bytes_by_second();
        let seconds = outcome.io_ops_by_second().into_iter().enumerate();
        seconds.map(|(at, ops)| (at as u64, ops, bytes.get(at).copied())).collect()
    };
    Columns::new(run, each)
        .int("second", |row| Some(row.of.0))
        .int("operations", |row| Some(row.of.1))
        .int("bytes", |row| row.of.2)
        .table("series")
}

/// A row for each bucket that counted something.
fn histograms(run: &Run) -> Table {
    fn each(trial: &Trial) -> Vec<(&OpOutcome, &'static str, stats::Bucket)> {
        let ops = trial.outcome.iter().flat_map(|outcome| &outcome.ops);
        let kinds = ops.flat_map(|op| {
            std::iter::once((op, "service", &op.service))
                .chain(op.intended.iter().map(move |intended| (op, "intended", intended)))
        });
        kinds.flat_map(|(op, kind, of)| of.iter().map(move |bucket| (op, kind, bucket))).collect()
    }
    Columns::new(run, each)
        .text("flowop", |row| Some(row.of.0.name.clone()))
        .text("latency", |row| Some(row.of.1.into()))
        .int("low_ns", |row| Some(row.of.2.low))
        .int("high_ns", |row| Some(row.of.2.high_exclusive))
        .int("count", |row| Some(row.of.2.count))
        .text("class", |row| Some(class_word(row.of.0.class).into()))
        .table("histograms")
}

/// A row for each trial and further figure.
fn metrics(run: &Run) -> Table {
    Columns::new(run, |trial| trial.outcome.iter().flat_map(|outcome| &outcome.metrics).collect::<Vec<_>>())
        .text("metric", |row| Some(row.of.name.clone()))
        .text("unit", |row| Some(row.of.unit.clone()))
        .float("value", |row| Some(row.of.value))
        .table("metrics")
}
