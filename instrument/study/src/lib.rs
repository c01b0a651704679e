//! What is asked and what came of it, as plain data: study files, their plan, and the records of runs. The waist between the
//! laboratory that measures and the report that draws. No I/O, no clock, no threads.
//!
//! A study is workloads x stacks x parameters, and what others say about them: one TOML file (`docs/studies.md`), or what a
//! command line means.
//!
//! | module | holds |
//! |---|---|
//! | this one | the study itself: read from TOML, written as TOML |
//! | [`mod@file`] | reads a study, embeds its workload files, checks it |
//! | [`load`] | a workload: what it issues, its settings, and how a study writes it down |
//! | [`command`] | builds the study that a command line means |
//! | [`variant`], [`formula`] | sizes by formulas of the machine, at several scales |
//! | [`evaluation`] | rows, columns, tables and figures of a published evaluation |
//! | [`claim`] | what others published, and what is to be shown |
//! | `selector` | chooses cells |
//! | `names` | checks that what an evaluation names is there |
//! | `lines` | published values as lines of text |
//! | `choose` | the rows and columns that are to run |
//! | [`counts`] | numbers of containers |
//! | [`offered`] | rates of a sweep |
//! | [`turns`] | settings of two systems in turns |
//! | [`secrets`] | passwords of addresses, beside the study |
//! | `field` | values with a spelling of their own: seconds, percents, sizes, engines, sweeps |
//! | [`error`], `text_position`, `nearest` | what is wrong, where, and what would be right |
//! | [`embedded`] | the published evaluations that every `loadline` has with it |
//! | [`files`] | its workloads, and other studies |
//! | [`plan`] | the cells of a study, and the shuffled order of their trials |
//! | [`shard`], [`deal`] | parts of a plan for many machines, and which trials are theirs |
//! | [`estimate`] | how long the rest of a run will take |
//! | [`results`] | the answer: runs, cells, trials as they are stored |
//! | `period` | of these, what a script asked for beside the result: `psrun`, `enable lathist` |
//! | [`environment`] | of these, the machine as a trial found it |
//! | [`fsync`] | of these, where fsyncs spent their time |

mod choose;
pub mod claim;
pub mod command;
pub mod counts;
pub mod deal;
pub mod embedded;
pub mod environment;
pub mod error;
pub mod estimate;
pub mod evaluation;
mod field;
pub mod file;
pub mod files;
pub mod formula;
pub mod fsync;
mod lines;
pub mod load;
mod names;
mod nearest;
pub mod offered;
mod period;
pub mod plan;
pub mod results;
pub mod secrets;
mod selector;
pub mod shard;
mod text_position;
pub mod turns;
pub mod variant;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use spec::StackSpec;
use toml::Spanned;
use workload::address::redact;

pub use claim::{Claim, Published};
pub use command::{AppFile, CommandLine};
pub use counts::Counts;
pub use error::StudyError;
pub use evaluation::{Column, Evaluation, Regime, Row, Table};
pub use field::{Bytes, Io, Percent, Seconds, Share, Sweeps};
pub use load::{Load, Workload};
pub use offered::OfferedRates;
pub use secrets::Secrets;
pub use selector::Selector;
pub use turns::InterleavedDesign;
pub use variant::StudyVariant;

/// A study. Its workloads are resolved: it names no other files. As its author writes it, it is a
/// `Study<load::Written>`, which [`Study::parse`] resolves.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Study<W = Workload> {
    /// The systems under test; they may be left out when rows name theirs.
    #[serde(default)]
    pub stacks: Vec<StackSpec>,
    /// Settings of the whole study.
    #[serde(default)]
    pub study: Settings,
    /// Variables to sweep in every workload.
    #[serde(default, skip_serializing_if = "Sweeps::is_empty")]
    pub parameters: Sweeps,
    /// The loads.
    #[serde(rename = "workload")]
    pub workloads: Vec<W>,
    /// About a published evaluation as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evaluation: Option<Evaluation>,
    /// Variables of each scale; gone once one is chosen.
    #[serde(default, skip_serializing)]
    pub scale: BTreeMap<String, toml::Table>,
    /// Variables: formulas as they are written, values once they are worked out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub variables: BTreeMap<String, toml::Value>,
    /// Systems and settings under which every load runs.
    #[serde(default, rename = "row", skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<Row>,
    /// Figures that the loads yield.
    #[serde(default, rename = "column", skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<Column>,
    /// Tables of columns.
    #[serde(default, rename = "table", skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<Table>,
    /// What of the original's regime the loads are to reach.
    #[serde(default, rename = "regime", skip_serializing_if = "Vec::is_empty")]
    pub regimes: Vec<Regime>,
    /// Values that others have published for cells of this study.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<Spanned<Published>>,
    /// What the study is to show.
    #[serde(default, rename = "claim", skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<Spanned<Claim>>,
}

/// Settings of a whole study (`[study]`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// What the study calls itself.
    pub title: String,
    /// Seed of the trial order and of every load.
    pub seed: u64,
    /// Trials of each cell.
    pub trials: u32,
    /// Order of the trials.
    pub order: Order,
    /// Measured seconds of each trial; without it the workload's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<Seconds>,
    /// Load before the measured interval; without it the workload's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warmup: Option<Seconds>,
    /// End a trial after this many I/O operations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ops: Option<u64>,
    /// Offered load in I/O operations per second; without it as fast as it goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// How reads and writes are issued.
    pub io: Io,
    /// Wall seconds after which a trial is killed, file creation included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Seconds>,
    /// Unmount, mount and drop the page cache between file creation and load.
    pub cold: bool,
    /// Memory limit of the load (cgroup).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Bytes>,
    /// How many containers run each load at once, one cell for each number; without it the load runs without containers.
    #[serde(skip_serializing_if = "Counts::is_empty")]
    pub containers: Counts,
    /// Offered rates, one cell for each, step by step; without it there is one rate, or none.
    #[serde(skip_serializing_if = "OfferedRates::is_empty")]
    pub offered: OfferedRates,
    /// Compressible share of written data.
    pub compress: Percent,
    /// Share of written blocks that repeat others.
    pub duplicate: Percent,
    /// End a trial without a result when no file can be picked, as Filebench does.
    pub strict: bool,
    /// Trace the load and split its fsyncs into what they waited for.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub explain: bool,
    /// Leave the last stack mounted for inspection.
    pub keep: bool,
    /// Let workloads start programs by `system`, with the rights of loadline. Without it they are refused.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub allow_system: bool,
    /// Give a cell no further trials when the interval of its median is narrower than +- this share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_early: Option<Share>,
    /// The trials of a block take turns of this length, their stacks side by side; without it they run one after the other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interleave: Option<Seconds>,
    /// Two systems in turns, A B B A, until it is decided, instead of so many trials (`loadline ab`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns: Option<InterleavedDesign>,
    /// Passwords of addresses among the variables, which no record holds.
    #[serde(skip)]
    pub secrets: Secrets,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            title: String::new(),
            seed: 1,
            trials: 6,
            order: Order::Shuffled,
            seconds: None,
            warmup: None,
            ops: None,
            rate: None,
            io: Io::default(),
            timeout: None,
            cold: false,
            memory: None,
            containers: Counts::default(),
            offered: OfferedRates::default(),
            compress: Percent(0),
            duplicate: Percent(0),
            strict: false,
            explain: false,
            keep: false,
            allow_system: false,
            stop_early: None,
            interleave: None,
            turns: None,
            secrets: Secrets::default(),
        }
    }
}

/// Order of the trials.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// In blocks that hold one trial of each cell, shuffled within: drift of the machine hits all cells
    /// alike.
    #[default]
    Shuffled,
    /// In the same blocks, but within each in the order of the study.
    Listed,
}

impl<W> Default for Study<W> {
    fn default() -> Self {
        Study {
            stacks: Vec::new(),
            study: Settings::default(),
            parameters: Sweeps::default(),
            workloads: Vec::new(),
            evaluation: None,
            scale: BTreeMap::new(),
            variables: BTreeMap::new(),
            rows: Vec::new(),
            columns: Vec::new(),
            tables: Vec::new(),
            regimes: Vec::new(),
            published: Vec::new(),
            claims: Vec::new(),
        }
    }
}

impl Study {
    /// The study as TOML; reading it gives an equal study, but for passwords, which are left out.
    pub fn to_toml(&self) -> String {
        // Every field is of a kind that TOML can write; a key order that TOML cannot write does not occur,
        // since the serialiser puts plain values before tables.
        redact(&toml::to_string(self).unwrap_or_default()).into_owned()
    }

    /// Hash of [`Study::to_toml`], 16 hexadecimal digits.
    pub fn hash(&self) -> String {
        format!("{:016x}", xxhash_rust::xxh3::xxh3_64(self.to_toml().as_bytes()))
    }
}
