//! Rows x columns of an evaluation from a stored run.

use std::borrow::Cow;

use stats::blocked::Trial;
use stats::compleat::{Compleat, Grade, grade, shares_of_best};
use stats::shares::{StackResult, compleat};
use stats::{Effect, OpOutcome, Outcome, Sample, Thresholds};

use crate::blocks;
use crate::tail::ShortTail;
use study::evaluation::{Better, Evaluation, PublishedColumn};
use study::plan;
use study::results::{Cell, MetricName, Run, Status};
use study::{Column, Load, Published, Row, Study, Table};

/// What a run says about every row and column of its study.
#[derive(Debug, Clone)]
pub struct Grid {
    /// The study, with all its rows and columns.
    pub study: Study,
    /// `places[row][column]`, by position in the study.
    places: Vec<Vec<GridCell>>,
    /// Columns that the run measures.
    measured: Vec<bool>,
}

/// One row in one column.
#[derive(Debug, Clone, Default)]
pub struct GridCell {
    /// A value for each trial that is done, by trial index.
    pub values: Vec<f64>,
    /// The same with their blocks.
    pub trials: Vec<Trial>,
    /// The second figure of its table.
    pub second: Vec<Trial>,
    /// What the trials measured.
    pub outcomes: Vec<Outcome>,
    /// Its values are quantiles beyond which too few operations of a trial lie: they decide nothing.
    pub short_tail: Option<ShortTail>,
    /// Share of the best row of the same run, 0 to 1.
    pub share: Option<f64>,
    /// Why there is no value.
    pub absent: Option<AbsentReason>,
}

/// Why a place has no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AbsentReason {
    /// It has not run.
    NotRun,
    /// It cannot run here.
    Unavailable {
        /// Why.
        reason: String,
        /// What would help.
        remedy: String,
    },
    /// It failed.
    Failed(String),
}

impl AbsentReason {
    /// A word in place of a value.
    pub fn word(&self) -> &'static str {
        match self {
            AbsentReason::NotRun => "-",
            AbsentReason::Unavailable { .. } => "n/a",
            AbsentReason::Failed(_) => "failed",
        }
    }

    /// Why the cell has no value: what came of its latest trial.
    pub fn of(run: &Run, cell: u32) -> AbsentReason {
        match run.trials_of(cell).last().map(|trial| &trial.status) {
            Some(Status::Unavailable { reason, remedy }) => {
                AbsentReason::Unavailable { reason: reason.clone(), remedy: remedy.clone() }
            }
            Some(Status::Failed { message }) => AbsentReason::Failed(message.clone()),
            Some(Status::TimedOut { after_seconds }) => {
                AbsentReason::Failed(format!("it took longer than {after_seconds} s"))
            }
            Some(Status::Done) => AbsentReason::Failed("it measured nothing".into()),
            Some(Status::Interrupted) | None => AbsentReason::NotRun,
        }
    }

    /// A sentence; `None` for what has not run.
    pub fn why(&self) -> Option<String> {
        match self {
            AbsentReason::NotRun => None,
            AbsentReason::Unavailable { reason, remedy } if remedy.is_empty() => Some(reason.clone()),
            AbsentReason::Unavailable { reason, remedy } => Some(format!("{reason}; {remedy}")),
            AbsentReason::Failed(message) => Some(message.clone()),
        }
    }
}

impl GridCell {
    /// The median of its values.
    pub fn median(&self) -> Option<f64> {
        median(&self.values)
    }

    /// The median of the second figure.
    pub fn second_median(&self) -> Option<f64> {
        median(&blocks::values(&self.second))
    }

    /// Good, middle or bad by its share.
    pub fn grade(&self) -> Option<Grade> {
        self.share.map(grade)
    }

    /// The median over the trials of a metric.
    pub fn metric(&self, name: &str) -> Option<f64> {
        median(&self.outcomes.iter().filter_map(|outcome| metric(outcome, name)).collect::<Vec<_>>())
    }
}

fn median(values: &[f64]) -> Option<f64> {
    Sample::new(values).ok().map(|sample| sample.median())
}

fn metric(outcome: &Outcome, name: &str) -> Option<f64> {
    let found = outcome.metrics.iter().find(|metric| metric.name == name)?;
    Some(found.value).filter(|value| value.is_finite())
}

impl Grid {
    /// Reads a run; `None` when its study has no rows and columns, or cannot be read.
    pub fn of(run: &Run) -> Option<Grid> {
        let study = Study::from_stored(&run.study).ok().filter(|study| !study.columns.is_empty());
        match study {
            Some(study) => (!study.rows.is_empty()).then(|| Grid::new(study, run)),
            None => crate::earlier::evaluated(run).map(|(study, run)| Grid::new(study, &run)),
        }
    }

    pub(crate) fn new(study: Study, run: &Run) -> Grid {
        let measured: Vec<bool> = study.columns.iter().map(|column| measures(&study, column)).collect();
        let place = |row: &Row, at: usize| {
            if measured[at] { place(run, &study, row, &study.columns[at]) } else { not_run() }
        };
        let mut places: Vec<Vec<GridCell>> = study
            .rows
            .iter()
            .map(|row| (0..study.columns.len()).map(|at| place(row, at)).collect())
            .collect();
        for (at, column) in study.columns.iter().enumerate() {
            let medians: Vec<Option<f64>> =
                places.iter().map(|row: &Vec<GridCell>| row[at].median()).collect();
            for (row, share) in shares_of_best(&medians, column.better.sense()).into_iter().enumerate() {
                places[row][at].share = share;
            }
        }
        Grid { study, places, measured }
    }

    /// About the evaluation as a whole.
    pub fn evaluation(&self) -> Evaluation {
        self.study.evaluation.clone().unwrap_or_default()
    }

    /// The place of a row and a column by position in the study.
    ///
    /// # Panics
    /// Outside the grid.
    pub fn cell(&self, row: usize, column: usize) -> &GridCell {
        &self.places[row][column]
    }

    /// The place of a row and a column by their words.
    pub fn place(&self, row: &str, column: &str) -> Option<&GridCell> {
        Some(self.cell(self.row(row)?, self.column(column)?))
    }

    /// Position of a row by its word.
    pub fn row(&self, id: &str) -> Option<usize> {
        self.study.rows.iter().position(|row| row.id == id)
    }

    /// Position of a column by its word.
    pub fn column(&self, id: &str) -> Option<usize> {
        self.study.columns.iter().position(|column| column.id == id)
    }

    /// Rows that were run, in whole or in part.
    pub fn run_rows(&self) -> Vec<usize> {
        let ran =
            |row: &usize| self.places[*row].iter().any(|place| place.absent != Some(AbsentReason::NotRun));
        (0..self.study.rows.len()).filter(ran).collect()
    }

    /// Columns of a table that the run measures.
    pub fn columns_of(&self, table: &str) -> Vec<usize> {
        let is = |at: &usize| self.measured[*at] && self.study.columns[*at].table == table;
        (0..self.study.columns.len()).filter(is).collect()
    }

    /// Tables with a column that the run measures.
    pub fn tables(&self) -> impl Iterator<Item = &Table> {
        self.study.tables.iter().filter(|table| !self.columns_of(&table.id).is_empty())
    }

    /// The table of a column.
    pub fn table_of(&self, column: usize) -> Option<&Table> {
        self.study.tables.iter().find(|table| table.id == self.study.columns[column].table)
    }

    /// The unit of a column.
    pub fn unit(&self, column: usize) -> &str {
        let own = self.study.columns[column].unit.as_deref();
        own.or_else(|| self.table_of(column).map(|table| table.unit.as_str())).unwrap_or_default()
    }

    /// Whether a column counts for "compleat" and for claims about all columns.
    pub fn counts(&self, column: usize) -> bool {
        self.table_of(column).is_none_or(|table| !table.aside)
    }

    /// Whether the run measures a column.
    pub fn is_measured(&self, column: usize) -> bool {
        self.measured[column]
    }

    /// How many times a row's figure is that of the base row; by the second figure of the table if `second`.
    pub fn gain(&self, row: usize, column: usize, second: bool) -> Option<f64> {
        let of = |row: usize| {
            let place = self.cell(row, column);
            if second { place.second_median() } else { place.median() }
        };
        let base = self.row(self.study.evaluation.as_ref()?.base.as_deref()?)?;
        let (own, base) = (of(row)?, of(base).filter(|base| *base > 0.0)?);
        Some(match self.study.columns[column].better {
            Better::More => own / base,
            Better::Less => base / own,
        })
    }

    /// The columns that count, as positions, whether they were run or not.
    pub fn counted(&self) -> impl Iterator<Item = usize> {
        (0..self.study.columns.len()).filter(|at| self.counts(*at))
    }

    /// Effects of a row against every other row in a column, above 0 being better; rows without a result are left out.
    /// None when the row itself has none, or when a tail is too short to decide anything.
    pub fn effects(&self, row: usize, column: usize) -> Vec<Effect> {
        let (own, sense) = (self.cell(row, column), self.study.columns[column].better.sense());
        let others = (0..self.study.rows.len()).filter(|other| *other != row);
        let with: Vec<&GridCell> =
            others.map(|other| self.cell(other, column)).filter(|place| !place.trials.is_empty()).collect();
        if with.iter().any(|place| place.short_tail.is_some()) || own.short_tail.is_some() {
            return Vec::new();
        }
        with.iter().filter_map(|other| blocks::gain(&other.trials, &own.trials, sense).ok()).collect()
    }

    /// How near a row comes to every other row, in each column that counts for it.
    pub fn row_results(&self, row: usize) -> Vec<StackResult> {
        let its =
            self.counted().filter(|at| self.study.rows[row].is_of_table(&self.study.columns[*at].table));
        its.map(|at| StackResult::against(&self.effects(row, at))).collect()
    }

    /// Whether a row is compleat on all columns that count; what was not run, or too seldom, leaves it open.
    pub fn compleat(&self, row: usize) -> Compleat {
        compleat(&self.row_results(row), Thresholds::default().alpha)
    }

    /// The best row of a column.
    pub fn best(&self, column: usize) -> Option<usize> {
        (0..self.study.rows.len()).find(|row| self.cell(*row, column).share == Some(1.0))
    }

    /// What was published of a column.
    pub fn published(&self, column: usize) -> Option<&PublishedColumn> {
        let id = &self.study.columns[column].id;
        self.study.published.iter().find_map(|published| match published.as_ref() {
            Published::Column(one) if one.column == *id => Some(one),
            _ => None,
        })
    }

    /// The published value of a place.
    pub fn published_value(&self, row: usize, column: usize) -> Option<f64> {
        self.published(column)?.values.get(&self.study.rows[row].id).copied()
    }

    /// The published gain of a place over the base row; above 1 is better.
    pub fn published_gain(&self, row: usize, column: usize) -> Option<f64> {
        let base = self.study.evaluation.as_ref()?.base.as_deref()?;
        let values = &self.published(column)?.values;
        let (own, base) = (values.get(&self.study.rows[row].id)?, values.get(base)?);
        Some(match self.study.columns[column].better {
            Better::More => own / base,
            Better::Less => base / own,
        })
    }

    /// How far a place is off what was published, as a share of that; where values may be compared
    /// ([`Evaluation::within`]).
    pub fn distance_from_published(&self, row: usize, column: usize) -> Option<f64> {
        self.study.evaluation.as_ref()?.within?;
        let published = self.published_value(row, column).filter(|value| *value != 0.0)?;
        Some(self.cell(row, column).median()? / published - 1.0)
    }

    /// Places that failed or cannot run: those of one reason together, rows that have nothing else by their titles.
    pub fn absent(&self) -> Vec<(String, String)> {
        let mut groups: Vec<(String, Vec<String>)> = Vec::new();
        let mut add = |why: String, name: String| match groups.iter_mut().find(|(known, _)| *known == why) {
            Some((_, names)) => names.push(name),
            None => groups.push((why, vec![name])),
        };
        for row in self.run_rows() {
            let title = self.study.rows[row].title();
            let measured: Vec<usize> =
                (0..self.measured.len()).filter(|at| self.measured[*at] && self.counts(*at)).collect();
            let empty = measured.iter().all(|at| self.cell(row, *at).median().is_none());
            let reasons: Vec<(usize, String)> = measured
                .iter()
                .filter_map(|at| Some((*at, self.cell(row, *at).absent.as_ref()?.why()?)))
                .collect();
            match reasons.first() {
                Some((_, why)) if empty && reasons.iter().all(|(_, other)| other == why) => {
                    add(why.clone(), title.to_string());
                }
                _ => reasons.into_iter().for_each(|(at, why)| {
                    add(why, format!("{title}, {}", self.study.columns[at].title()));
                }),
            }
        }
        groups.into_iter().map(|(why, names)| (shortened(&names), why)).collect()
    }

    /// Rows of the study that the run leaves out, by their titles.
    pub fn left_out(&self) -> Vec<&str> {
        let ran = self.run_rows();
        let rows = self.study.rows.iter().enumerate();
        rows.filter(|(at, _)| !ran.contains(at)).map(|(_, row)| row.title()).collect()
    }
}

/// More names than this are counted.
const NAMES_MAX: usize = 6;

fn shortened(names: &[String]) -> String {
    match names.len() {
        0..=NAMES_MAX => names.join("; "),
        number => format!("{}; and {} others", names[..NAMES_MAX - 1].join("; "), number - NAMES_MAX + 1),
    }
}

fn not_run() -> GridCell {
    GridCell { absent: Some(AbsentReason::NotRun), ..GridCell::default() }
}

/// Whether a study runs what a column needs.
fn measures(study: &Study, column: &Column) -> bool {
    let Some(workload) = study.workloads.iter().find(|workload| workload.label() == column.load) else {
        return false;
    };
    let Some(variable) = &workload.sections else { return true };
    let sections = workload.set.get(variable).and_then(|values| values.first());
    sections.is_none_or(|sections| sections.split_whitespace().any(|section| section == column.section()))
}

fn place(run: &Run, study: &Study, row: &Row, column: &Column) -> GridCell {
    let is = |cell: &&Cell| cell.workload == column.load && plan::is_of_row(cell, row);
    let runs = !row.skip && row.is_of_table(&column.table);
    let Some(cell) = run.cells.iter().find(is).filter(|_| runs) else { return not_run() };
    let outcomes: Vec<Outcome> = run.outcomes_of(cell.id).into_iter().cloned().collect();
    let word = metric_word(study, column);
    let trials = blocks::of_cell(run, cell.id, |outcome| value(study, column, word, outcome));
    let counted: Vec<_> = outcomes.iter().map(|outcome| of_column(column, outcome)).collect();
    let short_tail = MetricName::of_word(word)
        .and_then(|metric| ShortTail::of_outcomes(metric, counted.iter().map(Cow::as_ref)));
    drop(counted);
    let table = study.tables.iter().find(|table| table.id == column.table);
    let second = table.and_then(|table| table.second.as_ref());
    let second = second.map(|second| format!("{}{}", column.id, second.metric));
    let second =
        second.map_or(Vec::new(), |name| blocks::of_cell(run, cell.id, |outcome| metric(outcome, &name)));
    let values = blocks::values(&trials);
    let place = GridCell { values, trials, second, outcomes, short_tail, ..GridCell::default() };
    let absent = place.median().is_none().then(|| AbsentReason::of(run, cell.id));
    GridCell { absent, ..place }
}

/// What a column measures: the word of a metric.
fn metric_word<'a>(study: &Study, column: &'a Column) -> &'a str {
    let load = study.workloads.iter().find(|workload| workload.label() == column.load);
    match (&column.metric, load.map(|workload| &workload.load)) {
        (Some(word), _) => word,
        (None, Some(Load::Wml { .. } | Load::Simulated { .. })) => "throughput",
        (None, _) => &column.id,
    }
}

/// A column's value in what a trial measured.
fn value(study: &Study, column: &Column, word: &str, outcome: &Outcome) -> Option<f64> {
    let outcome = of_column(column, outcome);
    match MetricName::of_word(word) {
        // operations a second are what they are, whatever the unit is called
        Some(MetricName::Throughput) => MetricName::Throughput.of(&outcome).filter(|value| *value > 0.0),
        Some(name) => {
            let value = name.of(&outcome).filter(|value| *value > 0.0)?;
            Some(value / parts(study, column, name))
        }
        None => metric(&outcome, word),
    }
}

/// What a trial measured of a column's operations, in their own seconds.
fn of_column<'a>(column: &Column, outcome: &'a Outcome) -> Cow<'a, Outcome> {
    let Some(name) = &column.op else { return Cow::Borrowed(outcome) };
    let ops: Vec<OpOutcome> = outcome.ops.iter().filter(|op| op.name == *name).cloned().collect();
    let seconds = ops.first().map_or(outcome.measured_seconds, |op| outcome.op_seconds(op));
    Cow::Owned(Outcome {
        measured_seconds: seconds,
        ops,
        metrics: outcome.metrics.clone(),
        notes: Vec::new(),
        ended: outcome.ended.clone(),
        ..*outcome
    })
}

/// How many of a metric's own unit are one of the column's.
fn parts(study: &Study, column: &Column, metric: MetricName) -> f64 {
    let table = study.tables.iter().find(|table| table.id == column.table);
    let unit = column.unit.as_deref().or(table.map(|table| table.unit.as_str())).unwrap_or_default();
    unit_size(unit).zip(unit_size(metric.unit())).map_or(1.0, |(unit, own)| unit / own)
}

/// A unit in nanoseconds, or in bytes a second.
fn unit_size(unit: &str) -> Option<f64> {
    Some(match unit {
        "ns" | "bytes/s" => 1.0,
        "us" => 1e3,
        "ms" | "MB/s" => 1e6,
        "s" => 1e9,
        "MiB/s" => f64::from(1 << 20),
        _ => return None,
    })
}
