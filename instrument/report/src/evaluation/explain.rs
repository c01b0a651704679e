//! What the counters say about a bad place, beside those of the best row.

use analysis::grid::{Grid, GridCell};
use stats::Sample;
use stats::compleat::Grade;
use study::Load;

/// A sentence for every place below 30 % of the best, in columns that count.
pub fn bad_places(grid: &Grid) -> Vec<String> {
    let mut found = Vec::new();
    for row in grid.run_rows() {
        for at in grid.counted().filter(|at| grid.is_measured(*at)) {
            let place = grid.cell(row, at);
            if place.grade() != Some(Grade::Bad) {
                continue;
            }
            let Some(best) = grid.best(at) else { continue };
            let (title, column) = (grid.study.rows[row].title(), grid.study.columns[at].title());
            found.push(format!("{title}, {column}: {}", sentence(grid, at, place, best)));
        }
    }
    found
}

/// Whether a column's load is WML: its counters are those of the whole trial, and it runs for a fixed time.
fn is_wml(grid: &Grid, at: usize) -> bool {
    let load = &grid.study.columns[at].load;
    grid.study
        .workloads
        .iter()
        .any(|workload| workload.label() == load && matches!(workload.load, Load::Wml { .. }))
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
    /// Counters of a place, those of a WML load for 1,000 of its operations; `None` when one of them is missing.
    fn of(grid: &Grid, at: usize, place: &GridCell) -> Option<Facts> {
        let (section, wml) = (grid.study.columns[at].section(), is_wml(grid, at));
        let get = |counter: &str| match wml {
            true => place.metric(counter),
            false => place.metric(&format!("{section}/{counter}")),
        };
        let seconds = get("counted_seconds").filter(|seconds| *seconds > 0.0)?;
        let operations: Vec<f64> = place.outcomes.iter().map(|outcome| outcome.io_ops() as f64).collect();
        let operations = Sample::new(&operations).ok().map_or(1.0, |sample| sample.median());
        let per = if wml { 1000.0 / operations.max(1.0) } else { 1.0 };
        Some(Facts {
            busy_percent: 100.0 * get("device_busy_seconds")? / seconds,
            read_mb: per * get("device_read_bytes")? / 1e6,
            written_mb: per * get("device_written_bytes")? / 1e6,
            requests: per * (get("device_reads")? + get("device_writes")?),
            flushes: per * get("device_flushes")?,
            cpu_per_second: get("machine_cpu_seconds")? / seconds,
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

fn sentence(grid: &Grid, at: usize, place: &GridCell, best: usize) -> String {
    let name = grid.study.rows[best].title();
    let share = place.share.map_or(String::new(), |share| format!("{:.0} % of {name}", share * 100.0));
    let (Some(a), Some(b)) = (Facts::of(grid, at, place), Facts::of(grid, at, grid.cell(best, at))) else {
        return format!("{share}; the counters say nothing");
    };
    let unit = if is_wml(grid, at) { "for 1,000 operations: " } else { "" };
    format!("{share}. {}. {unit}{} ({name}: {})", cause(&a, &b), a.text(), b.text())
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
