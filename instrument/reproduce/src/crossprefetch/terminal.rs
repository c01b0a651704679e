//! Tables for people.

use super::claims::{OURS, remarks};
use super::columns::{Group, UNAVAILABLE};
use super::grid::Grid;
use super::published;
use crate::judged::Judged;
use crate::text::{claims, number, paint, section};

/// From which gain on a cell is green, below which it is red.
pub(super) const GREEN: f64 = 1.1;
/// See [`GREEN`].
pub(super) const RED: f64 = 0.97;
/// By how much the artifact's timer must tell otherwise to be shown.
const TOLD: f64 = 0.1;

/// Everything about a run: tables, costs, what is missing, claims.
pub fn report(grid: &Grid, judged: &[Judged], sizes: &[String], color: bool) -> String {
    let mut text = String::new();
    for group in Group::ALL {
        if !grid.of_group(group).is_empty() {
            text.push_str(&format!("{} ({})\n{}\n", group.title(), group.unit(), table(grid, group, color)));
        }
    }
    text.push_str(
        "Work by wall time of the whole program, its start and the opening of files included; times that of APPonly.\n\
         T: by the artifact's own timer, which begins after the opening, where that is 10 % or more apart. [..]: published,\n\
         by that timer.\n",
    );
    section(&mut text, "What it cost, all columns together", costs(grid));
    let rows = grid
        .run_rows()
        .into_iter()
        .map(|row| format!("{}: {}", grid.rows[row].title, grid.rows[row].mapping));
    section(&mut text, "Rows", rows.collect());
    section(&mut text, "Sizes", sizes.to_vec());
    section(&mut text, "Cells without results", grid.absent());
    section(&mut text, "Unavailable", unavailable());
    section(&mut text, "Claims", claims(judged, color));
    section(&mut text, "What published gains rest on beside prefetching", remarks(grid));
    text
}

/// What of the paper cannot run.
pub(super) fn unavailable() -> Vec<String> {
    UNAVAILABLE.iter().map(|(what, why, nearest)| format!("{what}: {why}; {nearest}")).collect()
}

fn gain(value: f64) -> String {
    if value >= 99.5 {
        format!("{value:.0}x")
    } else if value >= 9.95 {
        format!("{value:.1}x")
    } else {
        format!("{value:.2}x")
    }
}

fn shown(grid: &Grid, row: usize, at: usize) -> String {
    let cell = &grid.cells[row][at];
    let Some(wall) = cell.wall() else { return cell.word().to_string() };
    let mut text = number(wall);
    if row > 0
        && let Some(value) = grid.gain(row, at, false)
    {
        text.push_str(&format!(" {}", gain(value)));
        let differs = |timed: &f64| (timed / value - 1.0).abs() >= TOLD;
        if let Some(timed) = grid.gain(row, at, true).filter(differs) {
            text.push_str(&format!(" T{}", gain(timed)));
        }
    }
    if grid.rows[row].id() == OURS
        && let Some(value) = published_gain(grid, row, at)
    {
        text.push_str(&format!(" [{}]", gain(value)));
    }
    text
}

/// The published gain of a cell.
pub(super) fn published_gain(grid: &Grid, row: usize, at: usize) -> Option<f64> {
    let published = published::of(grid.columns[at].id)?;
    Some(published.of(grid.rows[row].id())? / published.app_only)
}

fn code(grid: &Grid, row: usize, at: usize) -> &'static str {
    match grid.gain(row, at, false) {
        Some(value) if value >= GREEN => "32",
        Some(value) if value < RED => "31",
        Some(_) => "0",
        None => "2",
    }
}

/// A line for each column, so that seven rows stand side by side.
fn table(grid: &Grid, group: Group, color: bool) -> String {
    let rows = grid.run_rows();
    let columns = grid.of_group(group);
    let first = columns.iter().map(|at| grid.columns[*at].id.len()).max().unwrap_or(0);
    let width = |row: usize| {
        let cells = columns.iter().map(|at| shown(grid, row, *at).chars().count());
        cells.chain([grid.rows[row].title.len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = rows.iter().map(|row| width(*row)).collect();
    let mut text = format!("{:first$}", "");
    for (row, width) in rows.iter().zip(&widths) {
        text.push_str(&format!("  {:>width$}", grid.rows[*row].title));
    }
    text.push('\n');
    for at in columns {
        text.push_str(&format!("{:first$}", grid.columns[at].id));
        for (row, width) in rows.iter().zip(&widths) {
            let cell = format!("{:>width$}", shown(grid, *row, at));
            text.push_str(&format!("  {}", paint(&cell, code(grid, *row, at), color)));
        }
        text.push('\n');
    }
    text
}

/// One line a row: device, prefetch, CPU; only the columns that every row of the run has.
pub(super) fn costs(grid: &Grid) -> Vec<String> {
    let rows = grid.run_rows();
    let both: Vec<usize> = (0..grid.columns.len())
        .filter(|at| !grid.columns[*at].id.starts_with("writers-"))
        .filter(|at| rows.iter().all(|row| grid.cells[*row][*at].wall().is_some()))
        .collect();
    if both.is_empty() {
        return Vec::new();
    }
    let line = |row: &usize| {
        let sum = |of: fn(&super::grid::Costs) -> f64| -> f64 {
            both.iter().map(|at| of(&grid.cells[*row][*at].costs)).filter(|value| value.is_finite()).sum()
        };
        let mut text = format!(
            "{}: {:.1} s wall, {:.1} s CPU, {:.2} GB from the device",
            grid.rows[*row].title,
            sum(|costs| costs.wall_seconds),
            sum(|costs| costs.cpu_seconds),
            sum(|costs| costs.device_mb) / 1e3
        );
        if grid.rows[*row].config.mode().is_some() {
            let [prefetched, useful, wasted] = [
                sum(|costs| costs.prefetched_mb) / 1e3,
                sum(|costs| costs.useful_mb) / 1e3,
                sum(|costs| costs.wasted_mb) / 1e3,
            ];
            text.push_str(&format!(
                "; {prefetched:.2} GB prefetched: {useful:.2} useful, {wasted:.2} wasted, {:.2} in neither count",
                (prefetched - useful - wasted).max(0.0)
            ));
        }
        text
    };
    rows.iter().map(line).collect()
}
