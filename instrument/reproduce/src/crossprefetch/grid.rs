//! Rows x columns from a stored run.

use record::Study;
use record::results::Run;
use stats::{Outcome, Sample};

use super::columns::{COLUMNS, Column, Group};
use super::plan::{self, OTHERS, PARAMETER};
use super::rows::{ROWS, Row};
use crate::cell::Absent;

/// What a run says about every row and column.
#[derive(Debug, Clone)]
pub struct Grid {
    /// All rows.
    pub rows: Vec<Row>,
    /// The columns that the run measures.
    pub columns: Vec<Column>,
    /// `cells[row][column]`.
    pub cells: Vec<Vec<Cell>>,
}

/// One row in one column; medians of the trials that are done.
#[derive(Debug, Clone, Default)]
pub struct Cell {
    /// Work by wall time, from the start of the program to its end, for each trial. `MB/s` or `op/s`.
    pub wall: Vec<f64>,
    /// Work by the artifact's own timer, which begins after the opening of files.
    pub timed: Vec<f64>,
    /// What it cost.
    pub costs: Costs,
    /// Why there is no value.
    pub absent: Option<Absent>,
}

/// What a cell cost; what is not known is not a number.
#[derive(Debug, Clone, Copy)]
pub struct Costs {
    /// Wall seconds.
    pub wall_seconds: f64,
    /// Seconds of the artifact's timer.
    pub timed_seconds: f64,
    /// Median of single operations, us.
    pub p50_us: f64,
    /// 99th percentile, us.
    pub p99_us: f64,
    /// CPU seconds of the program, user and kernel.
    pub cpu_seconds: f64,
    /// MB read from the device.
    pub device_mb: f64,
    /// MB that the library asked for.
    pub prefetched_mb: f64,
    /// MB of it that were read.
    pub useful_mb: f64,
    /// MB of it that were never read.
    pub wasted_mb: f64,
}

impl Default for Costs {
    fn default() -> Self {
        let none = f64::NAN;
        Costs {
            wall_seconds: none,
            timed_seconds: none,
            p50_us: none,
            p99_us: none,
            cpu_seconds: none,
            device_mb: none,
            prefetched_mb: none,
            useful_mb: none,
            wasted_mb: none,
        }
    }
}

/// The median of what there is.
pub fn median(values: &[f64]) -> Option<f64> {
    Sample::new(values).ok().map(|sample| sample.median())
}

impl Cell {
    /// Median work by wall time.
    pub fn wall(&self) -> Option<f64> {
        median(&self.wall)
    }

    /// Median work by the artifact's timer.
    pub fn timed(&self) -> Option<f64> {
        median(&self.timed)
    }

    /// A word in place of a value.
    pub fn word(&self) -> &'static str {
        self.absent.as_ref().map_or("", Absent::word)
    }
}

impl Grid {
    /// Reads a run.
    pub fn new(run: &Run) -> Grid {
        let study = Study::from_stored(&run.study).ok();
        let workloads = study.map(|study| study.workloads).unwrap_or_default();
        let planned = |column: &Column| workloads.iter().any(|workload| plan::measures(workload, column));
        let columns: Vec<Column> = COLUMNS.into_iter().filter(planned).collect();
        let cells =
            ROWS.iter().map(|row| columns.iter().map(|column| cell(run, row, column)).collect()).collect();
        Grid { rows: ROWS.to_vec(), columns, cells }
    }

    /// The cell of a row and a column by their words.
    pub fn cell(&self, row: &str, column: &str) -> Option<&Cell> {
        let row = self.rows.iter().position(|one| one.id() == row)?;
        let column = self.columns.iter().position(|one| one.id == column)?;
        self.cells.get(row)?.get(column)
    }

    /// Positions of the columns of a group.
    pub fn of_group(&self, group: Group) -> Vec<usize> {
        (0..self.columns.len()).filter(|at| self.columns[*at].group == group).collect()
    }

    /// Positions of the rows that were run, in whole or in part.
    pub fn run_rows(&self) -> Vec<usize> {
        let ran = |row: &usize| self.cells[*row].iter().any(|cell| cell.absent != Some(Absent::NotRun));
        (0..self.rows.len()).filter(ran).collect()
    }

    /// How many times a row's work is that of APPonly, by wall time or by the artifact's timer.
    pub fn gain(&self, row: usize, column: usize, timed: bool) -> Option<f64> {
        let of = |row: usize| {
            let cell = &self.cells[row][column];
            if timed { cell.timed() } else { cell.wall() }
        };
        Some(of(row)? / of(0).filter(|base| *base > 0.0)?)
    }

    /// Cells that failed or cannot run, those of one reason together.
    pub fn absent(&self) -> Vec<String> {
        let mut groups: Vec<(String, Vec<String>)> = Vec::new();
        for (row, cells) in self.rows.iter().zip(&self.cells) {
            for (column, cell) in self.columns.iter().zip(cells) {
                let why = match &cell.absent {
                    Some(Absent::Unavailable { reason, remedy }) => format!("{reason}; {remedy}"),
                    Some(Absent::Failed(message)) => message.clone(),
                    Some(Absent::NotRun) | None => continue,
                };
                let name = format!("{} {}", row.title, column.id);
                match groups.iter_mut().find(|(known, _)| *known == why) {
                    Some((_, names)) => names.push(name),
                    None => groups.push((why, vec![name])),
                }
            }
        }
        let shown = |names: Vec<String>| match names.len() {
            0..=4 => names.join(", "),
            number => format!("{} and {} others", names[..3].join(", "), number - 3),
        };
        groups.into_iter().map(|(why, names)| format!("{}: {why}", shown(names))).collect()
    }
}

fn load_of(cell: &record::results::Cell) -> &str {
    cell.workload.strip_suffix(OTHERS).unwrap_or(&cell.workload)
}

fn cell(run: &Run, row: &Row, column: &Column) -> Cell {
    let is = |cell: &&record::results::Cell| {
        let config = cell.parameters.iter().find(|one| one.name == PARAMETER).map(|one| one.value.as_str());
        load_of(cell) == column.load && config == Some(row.id())
    };
    let Some(planned) = run.cells.iter().find(is) else {
        return Cell { absent: Some(Absent::NotRun), ..Cell::default() };
    };
    let outcomes: Vec<&Outcome> = run.outcomes_of(planned.id).into_iter().collect();
    let named =
        |name: &str| -> Vec<f64> { outcomes.iter().filter_map(|outcome| metric(outcome, name)).collect() };
    let wall = named(column.id);
    if wall.is_empty() {
        return Cell { absent: Some(Absent::of(run, planned.id)), ..Cell::default() };
    }
    // CPU and device are those of both sides of a column.
    let section = column.section();
    let of = |name: &str, place: &str| median(&named(&format!("{place}/{name}"))).unwrap_or(f64::NAN);
    let costs = Costs {
        wall_seconds: of("wall_seconds", column.id),
        timed_seconds: of("timed_seconds", &section),
        p50_us: of("p50_us", column.id),
        p99_us: of("p99_us", column.id),
        cpu_seconds: of("cpu_user_seconds", &section) + of("cpu_system_seconds", &section),
        device_mb: of("device_read_bytes", &section) / 1e6,
        prefetched_mb: of("prefetched_bytes", &section) / 1e6,
        useful_mb: of("useful_bytes", &section) / 1e6,
        wasted_mb: of("wasted_bytes", &section) / 1e6,
    };
    Cell { wall, timed: named(&format!("{}/timed", column.id)), costs, absent: None }
}

fn metric(outcome: &Outcome, name: &str) -> Option<f64> {
    let found = outcome.metrics.iter().find(|metric| metric.name == name)?;
    Some(found.value).filter(|value| value.is_finite())
}
