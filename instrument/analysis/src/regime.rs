//! What of the original's regime the loads of an evaluation reached, by counters within their timers.

use crate::grid::{Grid, GridCell};
use study::{Load, Regime};

/// A part of the regime in a column.
#[derive(Debug, Clone)]
pub struct RegimeStatus<'a> {
    /// Which.
    pub regime: &'a Regime,
    /// Position of the column.
    pub column: usize,
    /// Rows that were measured, by position, and the least of their trials; `None`: no trial has the counter.
    pub rows: Vec<(usize, Option<f64>)>,
}

impl RegimeStatus<'_> {
    /// Rows that have the counter, and whether they reached it in every trial.
    pub fn reached(&self) -> impl Iterator<Item = (usize, f64, bool)> {
        let above = self.regime.above;
        self.rows.iter().filter_map(move |(row, least)| least.map(|least| (*row, least, least > above)))
    }
}

/// All parts of the regime in the columns that the run measures, in the study's order of columns.
pub fn regime_statuses(grid: &Grid) -> Vec<RegimeStatus<'_>> {
    let mut all = Vec::new();
    for column in (0..grid.study.columns.len()).filter(|at| grid.is_measured(*at)) {
        let id = &grid.study.columns[column].id;
        for regime in grid.study.regimes.iter().filter(|regime| regime.columns.contains(id)) {
            let asked =
                |row: &usize| regime.rows.is_empty() || regime.rows.contains(&grid.study.rows[*row].id);
            let rows: Vec<_> = grid
                .run_rows()
                .into_iter()
                .filter(asked)
                .filter(|row| !grid.cell(*row, column).values.is_empty())
                .map(|row| (row, least(grid.cell(row, column), &name(grid, column, &regime.counter))))
                .collect();
            if !rows.is_empty() {
                all.push(RegimeStatus { regime, column, rows });
            }
        }
    }
    all
}

/// A column's counter as trials name it: those of a WML load are of the whole timer.
pub fn name(grid: &Grid, column: usize, counter: &str) -> String {
    let column = &grid.study.columns[column];
    let load = grid.study.workloads.iter().find(|workload| workload.label() == column.load);
    match load.map(|workload| &workload.load) {
        Some(Load::Wml { .. } | Load::Simulated { .. }) => counter.to_string(),
        _ => format!("{}/{counter}", column.section()),
    }
}

/// The least of a place's trials.
fn least(place: &GridCell, name: &str) -> Option<f64> {
    let of =
        |outcome: &stats::Outcome| outcome.metrics.iter().find(|metric| metric.name == name).map(|m| m.value);
    place.outcomes.iter().filter_map(of).min_by(f64::total_cmp)
}
