//! Rows x columns from a stored run.

use record::results::Run;
use stats::compleat::{Compleat, Grade, grade, is_compleat, shares_of_best};
use stats::{Outcome, Sample};

use super::columns::{COLUMNS, Column, Group};
use super::rows::{ROWS, Row};
use crate::cell::Absent;

/// What a run says about every row and column.
#[derive(Debug, Clone)]
pub struct Grid {
    /// The rows, in the order of Table 3.
    pub rows: Vec<Row>,
    /// The columns that the run measures, in the paper's order.
    pub columns: Vec<Column>,
    /// `cells[row][column]`.
    pub cells: Vec<Vec<Cell>>,
}

/// One row in one column.
#[derive(Debug, Clone, Default)]
pub struct Cell {
    /// A value for each trial that is done.
    pub values: Vec<f64>,
    /// Their median.
    pub median: Option<f64>,
    /// Share of the best row of the same run, 0 to 1.
    pub share: Option<f64>,
    /// What the trials measured.
    pub outcomes: Vec<Outcome>,
    /// Why there is no value.
    pub absent: Option<Absent>,
}

impl Cell {
    /// Good, middle or bad.
    pub fn grade(&self) -> Option<Grade> {
        self.share.map(grade)
    }

    /// A word in place of a value.
    pub fn word(&self) -> &'static str {
        self.absent.as_ref().map_or("", Absent::word)
    }
}

impl Grid {
    /// Reads a run. Every row of Table 3 is there, whether the run has it or not.
    pub fn new(run: &Run) -> Grid {
        let loads = run.workloads();
        let columns: Vec<Column> =
            COLUMNS.into_iter().filter(|column| loads.contains(&column.load)).collect();
        let cell = |row: &Row, column: &Column| cell(run, row, column);
        let mut cells: Vec<Vec<Cell>> =
            ROWS.iter().map(|row| columns.iter().map(|column| cell(row, column)).collect()).collect();
        for (at, column) in columns.iter().enumerate() {
            let medians: Vec<Option<f64>> = cells.iter().map(|row: &Vec<Cell>| row[at].median).collect();
            for (row, share) in shares_of_best(&medians, column.sense).into_iter().enumerate() {
                cells[row][at].share = share;
            }
        }
        Grid { rows: ROWS.to_vec(), columns, cells }
    }

    /// The cell of a row and a column by their words.
    pub fn cell(&self, row: &str, column: &str) -> Option<&Cell> {
        let row = self.rows.iter().position(|one| one.id == row)?;
        let column = self.columns.iter().position(|one| one.id == column)?;
        self.cells.get(row)?.get(column)
    }

    /// Positions of the columns of a group.
    pub fn of_group(&self, group: Group) -> Vec<usize> {
        (0..self.columns.len()).filter(|at| self.columns[*at].group == group).collect()
    }

    /// Whether a row is compleat on Table 3 and Figure 2 together; what was not run leaves it open.
    pub fn compleat(&self, row: usize) -> Compleat {
        let shares = self.shares(row);
        if shares.iter().all(Option::is_none) { Compleat::Unknown } else { is_compleat(&shares) }
    }

    /// Shares of a row in all columns of Table 3 and Figure 2, also those that were not run.
    pub fn shares(&self, row: usize) -> Vec<Option<f64>> {
        let counted = COLUMNS.iter().filter(|column| column.group != Group::Corrected);
        let place = |column: &Column| self.columns.iter().position(|one| one == column);
        counted.map(|column| place(column).and_then(|at| self.cells[row][at].share)).collect()
    }

    /// The best row of a column.
    pub fn best(&self, column: usize) -> Option<usize> {
        (0..self.rows.len()).find(|row| self.cells[*row][column].share == Some(1.0))
    }

    /// Rows without any value, those of one reason together: titles, reason, remedy.
    pub fn absent_rows(&self) -> Vec<(String, String, String)> {
        let mut groups: Vec<(String, String, String)> = Vec::new();
        for (row, reason, remedy) in self.each_absent_row() {
            match groups.iter_mut().find(|group| (&group.1, &group.2) == (&reason, &remedy)) {
                Some(group) => group.0.push_str(&format!(", {}", row.title)),
                None => groups.push((row.title.to_string(), reason, remedy)),
            }
        }
        groups
    }

    fn each_absent_row(&self) -> Vec<(&Row, String, String)> {
        let absent = |(_, cells): (&'_ Row, &Vec<Cell>)| {
            if cells.is_empty() || cells.iter().any(|cell| cell.median.is_some()) {
                return None;
            }
            match cells.iter().find_map(|cell| cell.absent.clone())? {
                Absent::Unavailable { reason, remedy } => Some((reason, remedy)),
                Absent::Failed(message) => Some((message, String::new())),
                Absent::NotRun => Some(("not part of this run".into(), "name it in --rows".into())),
            }
        };
        let pairs = self.rows.iter().zip(&self.cells);
        pairs.filter_map(|pair| absent(pair).map(|(reason, remedy)| (pair.0, reason, remedy))).collect()
    }

    /// Cells that failed or cannot run, in rows that have other values: `(row, column, why)`.
    pub fn absent_cells(&self) -> Vec<(&Row, &Column, String)> {
        let mut found = Vec::new();
        for (row, cells) in self.rows.iter().zip(&self.cells) {
            if cells.iter().all(|cell| cell.median.is_none()) {
                continue;
            }
            for (column, cell) in
                self.columns.iter().zip(cells).filter(|(column, _)| column.group != Group::Corrected)
            {
                match &cell.absent {
                    Some(Absent::Unavailable { reason, remedy }) => {
                        found.push((row, column, format!("{reason}; {remedy}")));
                    }
                    Some(Absent::Failed(message)) => found.push((row, column, message.clone())),
                    _ => {}
                }
            }
        }
        found
    }
}

fn cell(run: &Run, row: &Row, column: &Column) -> Cell {
    let Some(planned) = run.cells.iter().find(|cell| cell.workload == column.load && row.is(&cell.stack))
    else {
        return Cell { absent: Some(Absent::NotRun), ..Cell::default() };
    };
    let outcomes: Vec<Outcome> = run.outcomes_of(planned.id).into_iter().cloned().collect();
    let values: Vec<f64> = outcomes.iter().filter_map(|outcome| column.value(outcome)).collect();
    let median = Sample::new(&values).ok().map(|sample| sample.median());
    let absent = median.is_none().then(|| Absent::of(run, planned.id));
    Cell { values, median, share: None, outcomes, absent }
}
