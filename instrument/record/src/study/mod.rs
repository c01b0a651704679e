//! A study: workloads x stacks x parameters, and what others say about them. One TOML file
//! (`docs/studies.md`).
//!
//! | module | holds |
//! |---|---|
//! | `mod` | the study itself: read from TOML, written as TOML |
//! | [`mod@file`] | reads a study, embeds its workload files, checks it |
//! | [`load`] | a workload: what it issues, its settings, and how a study writes it down |
//! | [`command`] | builds the study that a command line means |
//! | `field` | values with a spelling of their own: seconds, percents, sizes, engines, sweeps |
//! | [`error`] | what is wrong, where, and what would be right |

pub mod command;
pub mod error;
mod field;
pub mod file;
pub mod load;
mod nearest;

use serde::{Deserialize, Serialize};
use spec::StackSpec;
use toml::Spanned;

use crate::results::{MetricName, Parameter};
pub use command::CommandLine;
pub use error::StudyError;
pub use field::{Bytes, Io, Percent, Seconds, Share, Sweeps};
pub use load::{Load, Workload};
pub use nearest::nearest;

/// A study. Its workloads are resolved: it names no other files. As its author writes it, it is a
/// `Study<load::Written>`, which [`Study::parse`] resolves.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Study<W = Workload> {
    /// The systems under test.
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
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            title: String::new(),
            seed: 1,
            trials: 5,
            order: Order::Shuffled,
            seconds: None,
            warmup: None,
            ops: None,
            rate: None,
            io: Io::default(),
            timeout: None,
            cold: false,
            memory: None,
            compress: Percent(0),
            duplicate: Percent(0),
            strict: false,
            explain: false,
            keep: false,
            allow_system: false,
            stop_early: None,
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

/// Chooses cells: what is left out matches every value.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Selector {
    /// A workload's label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// A stack.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stack: Option<StackSpec>,
    /// Values of swept parameters.
    #[serde(skip_serializing_if = "Sweeps::is_empty")]
    pub parameters: Sweeps,
}

/// A published value (`[[published]]`); it must choose exactly one cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// The cell.
    #[serde(default)]
    pub cell: Selector,
    /// What was measured.
    #[serde(default)]
    pub metric: MetricName,
    /// The value.
    pub value: f64,
    /// Its unit as published.
    pub unit: String,
    /// Publication, table or figure.
    pub source: String,
}

/// A claim (`[[claim]]`) about the ratio of two cells. Exactly one of `expect`, `at_least`, `at_most` is
/// given.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The claim in words; without it one is made up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// What is compared.
    #[serde(default)]
    pub metric: MetricName,
    /// The two cells.
    pub ratio: Ratio,
    /// The ratio is this, within `tolerance`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect: Option<f64>,
    /// Relative: 0.2 lets the ratio be 20 % off. Belongs to `expect`; 0.2 when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tolerance: Option<Share>,
    /// The ratio is this or more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<f64>,
    /// The ratio is this or less.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<f64>,
    /// Publication, table or figure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// Two cells: the value of `of` divided by the value of `to`. Each must choose exactly one cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ratio {
    /// Numerator.
    pub of: Selector,
    /// Denominator.
    pub to: Selector,
}

impl Study {
    /// The study as TOML; reading it gives an equal study.
    pub fn to_toml(&self) -> String {
        // Every field is of a kind that TOML can write; a key order that TOML cannot write does not occur,
        // since the serialiser puts plain values before tables.
        toml::to_string(self).unwrap_or_default()
    }

    /// Hash of [`Study::to_toml`], 16 hexadecimal digits.
    pub fn hash(&self) -> String {
        format!("{:016x}", xxhash_rust::xxh3::xxh3_64(self.to_toml().as_bytes()))
    }
}

impl Selector {
    /// Whether the cell of this workload, stack and parameters is chosen.
    pub fn matches(&self, workload: &str, stack: &str, parameters: &[Parameter]) -> bool {
        self.workload.as_deref().is_none_or(|wanted| wanted == workload)
            && self.stack.as_ref().is_none_or(|wanted| wanted.label() == stack)
            && self
                .parameters
                .iter()
                .all(|(name, values)| parameters.iter().any(|p| p.name == *name && values.contains(&p.value)))
    }
}
