//! What the counters say about a bad cell, beside those of the best row.

use stats::compleat::Grade;
use stats::{Outcome, Sample};

use super::columns::{Column, Group};
use super::grid::{Cell, Grid};

/// A bad cell with its explanation.
#[derive(Debug, Clone, PartialEq)]
pub struct Explained {
    /// The row's title.
    pub row: &'static str,
    /// The column's title.
    pub column: &'static str,
    /// In words.
    pub text: String,
}

/// Explains every cell of Table 3 and Figure 2 that is below 30 % of the best.
pub fn bad_cells(grid: &Grid) -> Vec<Explained> {
    let mut found = Vec::new();
    for (row, cells) in grid.rows.iter().zip(&grid.cells) {
        for (at, (column, cell)) in grid.columns.iter().zip(cells).enumerate() {
            if column.group == Group::Corrected || cell.grade() != Some(Grade::Bad) {
                continue;
            }
            let Some(best) = grid.best(at) else { continue };
            let text = sentence(column, cell, grid.rows[best].title, &grid.cells[best][at]);
            found.push(Explained { row: row.title, column: column.title, text });
        }
    }
    found
}

/// Median over the trials of a counter of the column's section.
fn median(column: &Column, outcomes: &[Outcome], counter: &str) -> Option<f64> {
    let values: Vec<f64> = outcomes.iter().filter_map(|outcome| column.counter(outcome, counter)).collect();
    Sample::new(&values).ok().map(|sample| sample.median())
}

struct Facts {
    busy_percent: f64,
    read_mb: f64,
    written_mb: f64,
    requests: f64,
    flushes: f64,
    cpu_per_second: f64,
}

impl Facts {
    /// Counters of a cell; those of a personality are divided by its operations, since it runs for a fixed time.
    fn of(column: &Column, cell: &Cell) -> Option<Facts> {
        let get = |counter: &str| median(column, &cell.outcomes, counter);
        let seconds = get("counted_seconds").filter(|seconds| *seconds > 0.0)?;
        let operations: Vec<f64> = cell.outcomes.iter().map(|outcome| outcome.io_ops() as f64).collect();
        let operations = Sample::new(&operations).ok().map_or(1.0, |sample| sample.median());
        let per = if super::columns::is_filebench(column.load) { 1000.0 / operations.max(1.0) } else { 1.0 };
        let number = |counter: &str| get(counter).unwrap_or(0.0);
        Some(Facts {
            busy_percent: 100.0 * number("device_busy_seconds") / seconds,
            read_mb: per * number("device_read_bytes") / 1e6,
            written_mb: per * number("device_written_bytes") / 1e6,
            requests: per * (number("device_reads") + number("device_writes")),
            flushes: per * number("device_flushes"),
            cpu_per_second: number("machine_cpu_seconds") / seconds,
        })
    }

    fn text(&self) -> String {
        format!(
            "{:.0} MB read, {:.0} MB written in {:.0} requests, {:.0} flushes; device busy {:.0} %, {:.1} CPUs in all",
            self.read_mb,
            self.written_mb,
            self.requests,
            self.flushes,
            self.busy_percent,
            self.cpu_per_second
        )
    }
}

fn sentence(column: &Column, cell: &Cell, best: &str, theirs: &Cell) -> String {
    let share = cell.share.map_or(String::new(), |share| format!("{:.0} % of {best}", share * 100.0));
    let (Some(a), Some(b)) = (Facts::of(column, cell), Facts::of(column, theirs)) else {
        return format!("{share}; the counters say nothing");
    };
    let unit = if super::columns::is_filebench(column.load) { "for 1,000 operations: " } else { "" };
    format!("{share}. {}. {unit}{} ({best}: {})", cause(&a, &b), a.text(), b.text())
}

/// The first reason that the counters support.
fn cause(a: &Facts, b: &Facts) -> &'static str {
    if a.busy_percent < 50.0 && a.cpu_per_second > 0.9 {
        "Not the device but the way through the file system limits it"
    } else if a.flushes > 3.0 * b.flushes.max(7.0) {
        "It flushes the device's cache more often"
    } else if a.written_mb > 3.0 * b.written_mb.max(1.0) {
        "It writes more"
    } else if a.read_mb > 3.0 * b.read_mb.max(1.0) {
        "It reads more"
    } else if a.requests > 3.0 * b.requests.max(1.0) {
        "It sends more and smaller requests"
    } else if a.busy_percent > 80.0 {
        "It waits for the device on a like amount of data: the order of its requests costs"
    } else {
        "Neither device nor CPU is busy: it waits for its own steps one after another"
    }
}
