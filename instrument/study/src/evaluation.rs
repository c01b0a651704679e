//! What a study of a published evaluation says beside its loads: rows, columns, tables, figures, what was published.
//!
//! A *row* is a system or a setting (a stack, values of parameters, or both), a *column* a figure that a load yields. A
//! study with rows runs every load under every row; one with columns is told as its tables.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use spec::StackSpec;
use stats::Sense;

use super::field::Sweeps;
use crate::results::Parameter;

/// About the evaluation as a whole (`[evaluation]`).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Evaluation {
    /// Its word for `loadline reproduce`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The scale that it was worked out for; written by loadline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale: Option<String>,
    /// The device when none is named; `${device}` in stacks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Rows that run when none are named, as for `--rows`; without it all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<String>,
    /// Columns that run when none are named, as for `--columns`; without it all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub columns: Option<String>,
    /// Words that stand for several rows.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub row_sets: BTreeMap<String, Vec<String>>,
    /// The row that gains are over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// What a reader must know of the rows or tables.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// What was kept of the original's sizes, a line each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sizes: Vec<String>,
    /// What published values rest on: letters that `[[published]]` may bear as its `remark`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub remarks: BTreeMap<String, String>,
    /// Parts of the publication that cannot run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unavailable: Vec<Missing>,
    /// Costs that are summed up for each row.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub costs: Vec<Cost>,
    /// Whether counters explain the cells below 30 % of the best.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub explain_bad: bool,
    /// Published values are those of the very system that is simulated, so that values are compared and not only ratios:
    /// one that is farther off than this share is a miss, and told as one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within: Option<f64>,
    /// The shape of its artifact's result files, of those that loadline knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifact: Option<Artifact>,
}

/// An artifact whose result files loadline writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Artifact {
    /// BetrFS v0.6: a file for each row.
    Betrfs,
    /// CrossPrefetch: a file for each figure.
    Crossprefetch,
    /// OPIMQ: a file for each environment and benchmark, below `results`.
    Opimq,
}

/// A part of a publication that cannot run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Missing {
    /// Which.
    pub what: String,
    /// Why not.
    pub why: String,
    /// What comes nearest.
    pub nearest: String,
}

/// A cost of a row: metrics of its columns, summed (`[[evaluation.costs]]`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    /// Heading.
    pub title: String,
    /// Unit.
    pub unit: String,
    /// Ends of metric names; `/cpu_seconds` is that metric of each column's section.
    pub metrics: Vec<String>,
    /// One of the unit has so many of the metric's; 1 when left out.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub divide: f64,
}

fn one() -> f64 {
    1.0
}

fn is_one(number: &f64) -> bool {
    (*number - 1.0).abs() < f64::EPSILON
}

/// A system or a setting (`[[row]]`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// The word for `--rows`.
    pub id: String,
    /// As the publication calls it; without it the word.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// Its stack; without one those of the study.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack: Option<StackSpec>,
    /// Values of parameters, one each.
    #[serde(default, skip_serializing_if = "Sweeps::is_empty")]
    pub parameters: Sweeps,
    /// The tables that it belongs to: only what their columns need runs under it. Without any it belongs to all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<String>,
    /// Trials of its cells, when they are fewer than the load's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trials: Option<u32>,
    /// Whether it is one of those that claims compare with.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rival: bool,
    /// What the publication's row was, and what stands for it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// Its name in the artifact's files, when that is another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub csv: Option<String>,
    /// Not to be run; known, so that claims can say that it is missing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub skip: bool,
}

impl Row {
    /// Whether it belongs to a table.
    pub fn is_of_table(&self, table: &str) -> bool {
        self.tables.is_empty() || self.tables.iter().any(|own| own == table)
    }

    /// Whether a load runs under it: one of `columns` in a table of its own needs the load.
    pub fn runs(&self, columns: &[Column], load: &str) -> bool {
        self.tables.is_empty()
            || columns.iter().any(|column| column.load == load && self.is_of_table(&column.table))
    }

    /// What reports call it.
    pub fn title(&self) -> &str {
        if self.title.is_empty() { &self.id } else { &self.title }
    }

    /// The parameters' values.
    pub fn values(&self) -> Vec<Parameter> {
        let one = |(name, values): (&String, &Vec<String>)| {
            Some(Parameter { name: name.clone(), value: values.first()?.clone() })
        };
        self.parameters.iter().filter_map(one).collect()
    }
}

/// Something of the original's regime that loads are to reach within their timers (`[[regime]]`): a counter must grow
/// by more than so much. A scaled load that does not says so.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Regime {
    /// What it is: `log wrap`.
    pub name: String,
    /// The columns whose loads are to reach it.
    pub columns: Vec<String>,
    /// The rows that are; without any all rows that have the counter.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<String>,
    /// The counter, as trials record it within the column's timer: `journal_laps`.
    pub counter: String,
    /// It must grow by more than this in every trial.
    #[serde(default)]
    pub above: f64,
    /// How the original reaches it, or why it does not.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// Whether the original reaches it: what it does not reach either is told as that.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub original: bool,
}

fn yes() -> bool {
    true
}

fn is_true(answer: &bool) -> bool {
    *answer
}

/// A figure that a load yields (`[[column]]`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// The word for `--columns`.
    pub id: String,
    /// Heading; without it the word.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// The load that measures it.
    pub load: String,
    /// What is taken of a trial: `throughput`, `latency_p99` ..., or a metric that the load names; without it the metric
    /// of the column's word, and `throughput` of WML.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<String>,
    /// Only operations of this name count for `throughput`, `latency_p99` ...: `update` of a YCSB load. Without it all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub op: Option<String>,
    /// The part of the load that measures it, when it is called otherwise: the loads name their counters by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub section: Option<String>,
    /// Unit; without it that of the table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// Which way it improves: `more` (without a word) or `less`.
    #[serde(default, skip_serializing_if = "Better::is_more")]
    pub better: Better,
    /// The table in which it stands.
    pub table: String,
    /// What is shown beside each value: counters within its timer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<Cost>,
    /// Its name in the artifact's files, when that is another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub csv: Option<String>,
}

/// Which way a column improves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// More is better.
    #[default]
    More,
    /// Less is better.
    Less,
}

impl Better {
    fn is_more(&self) -> bool {
        *self == Better::More
    }

    /// For statistics.
    pub fn sense(self) -> Sense {
        match self {
            Better::More => Sense::HigherIsBetter,
            Better::Less => Sense::LowerIsBetter,
        }
    }
}

impl Column {
    /// Heading.
    pub fn title(&self) -> &str {
        if self.title.is_empty() { &self.id } else { &self.title }
    }

    /// The part of the load that measures it.
    pub fn section(&self) -> &str {
        self.section.as_deref().unwrap_or(&self.id)
    }

    /// Its name in the artifact's files.
    pub fn csv(&self) -> &str {
        self.csv.as_deref().unwrap_or(&self.id)
    }
}

/// A table of columns (`[[table]]`); its word stands for its columns in `--columns`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Its word.
    pub id: String,
    /// Heading.
    pub title: String,
    /// What a cell is compared with: the best row of its column, or the row `base`.
    #[serde(default)]
    pub against: TableBaseline,
    /// Unit of its columns.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unit: String,
    /// The metric of a column's word with this end is shown beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second: Option<SecondFigure>,
    /// A remedy for something in the original: not chosen by itself, shown when its load runs, not counted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub aside: bool,
    /// How it is drawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub figure: Option<Figure>,
    /// The artifact's result file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub csv: Option<String>,
}

/// What the cells of a table are compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TableBaseline {
    /// The best row of the column: shares, green from 0.85, red below 0.30.
    #[default]
    Best,
    /// The row `base` of `[evaluation]`: how many times its figure.
    Base,
}

/// A second figure for the same work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SecondFigure {
    /// What the metric's name ends with: `/timed`.
    pub metric: String,
    /// What it is, for a legend.
    pub title: String,
    /// Its mark in tables, a letter.
    pub mark: String,
}

/// How a table is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// Coloured cells.
    Grid,
    /// A panel of bars for each column, in its unit.
    Bars,
    /// A cluster of bars for each column: times `base`.
    Gains,
    /// A line for each row over the columns, in their unit.
    Lines,
}

/// Published values of one column (`[[published]]` with `column`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PublishedColumn {
    /// The column's word.
    pub column: String,
    /// Values by row, in the publication's unit.
    pub values: BTreeMap<String, f64>,
    /// Publication, table or figure.
    pub source: String,
    /// A letter of `[evaluation.remarks]`: what the values rest on.
    pub remark: Option<String>,
}
