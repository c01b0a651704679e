//! Stored results: plain data, everything that a report needs. No I/O.
//!
//! The store writes and reads these types; `report` draws them. A field that is added later carries
//! `#[serde(default)]`, so that old stores still load; a change that does not fit this rule raises
//! [`VERSION`].

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::shard::{Shard, ShardOrigin};

pub use crate::period::{Period, PeriodOp, RankPart, ScriptExtras};

/// Version of the serialised form of these types, and of what their figures mean: `analysis::corrections` tells what
/// each version has corrected.
pub const VERSION: u32 = 5;

/// One execution of a study (whole, or the part that has run so far).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Version of the form it was written in, see [`VERSION`].
    pub version: u32,
    /// Short and sortable by time, e.g. `20261120-191500-ab12`.
    pub id: String,
    /// What the study calls itself.
    pub title: String,
    /// When it began (UTC).
    pub started: Timestamp,
    /// When it was completed; `None`: some of its trials have not run.
    pub finished: Option<Timestamp>,
    /// Seed of the trial order and, unless the study says otherwise, of the load.
    pub seed: u64,
    /// The command that began it, program name first.
    pub command_line: Vec<String>,
    /// Version of loadline that began it.
    pub loadline: String,
    /// The resolved study as TOML: workload texts are in it, so that it can be run again without other files.
    pub study: String,
    /// Hash of the resolved study, 16 hexadecimal digits: equal for runs of the same study.
    pub study_hash: String,
    /// Trials that the plan has for each cell (early stopping may leave some out).
    pub planned_trials: u32,
    /// The part of the plan that it has; `None`: the whole plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<Shard>,
    /// Of a run that was merged: the shards that it was made of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<ShardOrigin>,
    /// The points of the study, in the order in which the study names them.
    pub cells: Vec<Cell>,
    /// What others published for cells of this study.
    #[serde(default)]
    pub published: Vec<Published>,
    /// What has run, in the order in which it ran.
    pub trials: Vec<Trial>,
}

/// A published value for one cell, to show beside the measured one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Published {
    /// [`Cell::id`].
    pub cell: u32,
    /// What was measured.
    pub metric: MetricName,
    /// The value.
    pub value: f64,
    /// Its unit as published, e.g. `ops/s`.
    pub unit: String,
    /// Where it stands: publication, table or figure.
    pub source: String,
}

/// What of a trial a published value or a claim speaks of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MetricName {
    /// I/O operations per second.
    #[default]
    Throughput,
    /// Bytes moved per second.
    Bandwidth,
    /// Median service time of the I/O operations, in nanoseconds.
    LatencyP50,
    /// 99th percentile of the service time of the I/O operations, in nanoseconds.
    LatencyP99,
    /// 99.9th percentile of the service time of the I/O operations, in nanoseconds.
    LatencyP999,
    /// Mean service time of the I/O operations, in nanoseconds.
    LatencyMean,
    /// Wall seconds of what ends by itself.
    Seconds,
}

impl MetricName {
    /// The metric that a study means by a word such as `latency_p99`.
    pub fn of_word(word: &str) -> Option<MetricName> {
        Some(match word {
            "throughput" => MetricName::Throughput,
            "bandwidth" => MetricName::Bandwidth,
            "latency_p50" => MetricName::LatencyP50,
            "latency_p99" => MetricName::LatencyP99,
            "latency_p999" => MetricName::LatencyP999,
            "latency_mean" => MetricName::LatencyMean,
            "seconds" => MetricName::Seconds,
            _ => return None,
        })
    }

    /// Whether more is better.
    pub fn higher_is_better(self) -> bool {
        matches!(self, MetricName::Throughput | MetricName::Bandwidth)
    }

    /// The unit of [`MetricName::of`].
    pub fn unit(self) -> &'static str {
        match self {
            MetricName::Throughput => "ops/s",
            MetricName::Bandwidth => "bytes/s",
            MetricName::LatencyP50
            | MetricName::LatencyP99
            | MetricName::LatencyP999
            | MetricName::LatencyMean => "ns",
            MetricName::Seconds => "s",
        }
    }

    /// Which quantile of the latencies it is, 0..=1; `None`: it is none.
    pub fn quantile(self) -> Option<f64> {
        match self {
            MetricName::LatencyP50 => Some(0.5),
            MetricName::LatencyP99 => Some(0.99),
            MetricName::LatencyP999 => Some(0.999),
            _ => None,
        }
    }

    /// The value in one outcome; `None` when nothing was measured.
    pub fn of(self, outcome: &stats::outcome::Outcome) -> Option<f64> {
        if outcome.measured_seconds <= 0.0 {
            return None;
        }
        let service = if self.higher_is_better() { stats::Histogram::new() } else { latencies(outcome) };
        match self {
            MetricName::Throughput => Some(outcome.io_ops_per_second()),
            MetricName::Bandwidth => Some(outcome.io_bytes() as f64 / outcome.measured_seconds),
            MetricName::LatencyP50 | MetricName::LatencyP99 | MetricName::LatencyP999 => {
                service.quantile(self.quantile()?).map(|ns| ns as f64)
            }
            MetricName::LatencyMean => service.mean(),
            MetricName::Seconds => Some(outcome.measured_seconds),
        }
    }
}

/// Service times of all I/O operations.
pub fn latencies(outcome: &stats::outcome::Outcome) -> stats::Histogram {
    let mut service = stats::Histogram::new();
    outcome.io().for_each(|op| service.merge(&op.service));
    service
}

/// What became of one claim of a study (computed by `judge`, not stored).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// The claim in words, e.g. `varmail: xfs / ext4 = 1.8 +- 0.2 (throughput)`.
    pub claim: String,
    /// Where it was published.
    pub source: Option<String>,
    /// The measured ratio: median of the one over median of the other.
    pub measured: Option<f64>,
    /// Interval of the measured ratio: 5 % lie beyond each end.
    pub interval: Option<(f64, f64)>,
    /// The answer.
    pub answer: Answer,
    /// Why this answer.
    pub reason: String,
}

impl Judgement {
    /// One that says nothing yet.
    pub fn open(claim: String, source: Option<String>) -> Judgement {
        let (measured, interval, answer, reason) = (None, None, Answer::CannotTell, String::new());
        Judgement { claim, source, measured, interval, answer, reason }
    }
}

/// Answer to a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The whole interval lies within the tolerance.
    Reproduced,
    /// The whole interval lies outside it.
    NotReproduced,
    /// Too few trials, too much variance, or a cell without results.
    CannotTell,
}

/// One point of a study: a workload with parameters on a stack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// Position in [`Run::cells`], from 0.
    pub id: u32,
    /// The workload's label.
    pub workload: String,
    /// The stack's label, e.g. `ext4,data=journal@image:2G`.
    pub stack: String,
    /// Values of the swept parameters, in the study's order.
    pub parameters: Vec<Parameter>,
}

/// A parameter's value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Parameter {
    /// The variable's name, in WML without `$`.
    pub name: String,
    /// The value as it was written.
    pub value: String,
}

/// One isolated execution of a cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// [`Cell::id`].
    pub cell: u32,
    /// Which trial of its cell, from 0.
    pub index: u32,
    /// Position in the planned (shuffled) order of the whole run, from 0.
    pub order: u32,
    /// How it ended.
    pub status: Status,
    /// What was measured. Present when [`Status::Done`]; for an interrupted or timed-out trial it covers the
    /// part that ran, and is not a result.
    pub outcome: Option<stats::outcome::Outcome>,
    /// The machine as it was just before the load.
    pub environment: Option<crate::environment::Environment>,
    /// The commands that built the stack, in order.
    pub commands: Vec<Command>,
    /// Lines that the workload printed (`echo`, population figures ...).
    pub log: Vec<String>,
    /// Everything that the trial's process wrote to its standard error.
    pub raw_output: String,
    /// When it began (UTC).
    pub started: Timestamp,
    /// Wall time of the whole trial in seconds: building, creation, load and taking down.
    pub seconds: f64,
    /// Where its fsyncs spent their time, when that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fsync: Option<crate::fsync::FsyncSplit>,
    /// What its script asked to be told beside the result.
    #[serde(default, skip_serializing_if = "ScriptExtras::is_empty")]
    pub extras: ScriptExtras,
    /// Final values of the variables of its load, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<Parameter>,
}

/// A command that loadline ran, as one line that a shell would take.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    /// What it was for: `mkfs`, `mount` ...
    pub purpose: String,
    /// The command line.
    pub line: String,
}

/// How a trial ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "status")]
pub enum Status {
    /// It ran to its end; the outcome is a result.
    Done,
    /// It could not run to its end.
    Failed {
        /// What failed, with the system's error.
        message: String,
    },
    /// It took longer than the study's time-out, and was killed.
    TimedOut {
        /// The time-out in seconds.
        after_seconds: f64,
    },
    /// The user interrupted it.
    Interrupted,
    /// This machine cannot run it.
    Unavailable {
        /// Why.
        reason: String,
        /// What would help.
        remedy: String,
    },
}

impl Status {
    /// Whether the trial has given a result; a resumed run repeats every other one.
    pub fn is_done(&self) -> bool {
        matches!(self, Status::Done)
    }

    /// One word for tables: `done`, `failed`, `timed out`, `interrupted`, `unavailable`.
    pub fn word(&self) -> &'static str {
        match self {
            Status::Done => "done",
            Status::Failed { .. } => "failed",
            Status::TimedOut { .. } => "timed out",
            Status::Interrupted => "interrupted",
            Status::Unavailable { .. } => "unavailable",
        }
    }
}

impl Run {
    /// The cell with this id.
    pub fn cell(&self, id: u32) -> Option<&Cell> {
        self.cells.get(id as usize).filter(|cell| cell.id == id)
    }

    /// The trials of a cell, in the order in which they ran.
    pub fn trials_of(&self, cell: u32) -> impl Iterator<Item = &Trial> {
        self.trials.iter().filter(move |trial| trial.cell == cell)
    }

    /// The results of a cell: outcomes of its trials that are done, by trial index.
    pub fn outcomes_of(&self, cell: u32) -> Vec<&stats::outcome::Outcome> {
        let mut done: Vec<&Trial> = self.trials_of(cell).filter(|trial| trial.status.is_done()).collect();
        done.sort_by_key(|trial| trial.index);
        done.into_iter().filter_map(|trial| trial.outcome.as_ref()).collect()
    }

    /// I/O operations per second of each result of a cell, by trial index.
    pub fn throughputs_of(&self, cell: u32) -> Vec<f64> {
        self.outcomes_of(cell).into_iter().map(|outcome| outcome.io_ops_per_second()).collect()
    }

    /// Labels of the workloads in the study's order, each once.
    pub fn workloads(&self) -> Vec<&str> {
        unique(self.cells.iter().map(|cell| cell.workload.as_str()))
    }

    /// Labels of the stacks in the study's order, each once.
    pub fn stacks(&self) -> Vec<&str> {
        unique(self.cells.iter().map(|cell| cell.stack.as_str()))
    }
}

impl Cell {
    /// The workload with its parameters, e.g. `varmail nthreads=16`.
    pub fn load_label(&self) -> String {
        let mut label = self.workload.clone();
        for Parameter { name, value } in &self.parameters {
            label.push_str(&format!(" {name}={value}"));
        }
        label
    }

    /// The whole point, e.g. `varmail nthreads=16 on ext4`.
    pub fn label(&self) -> String {
        format!("{} on {}", self.load_label(), self.stack)
    }
}

fn unique<'a>(items: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = Vec::new();
    for item in items {
        if !seen.contains(&item) {
            seen.push(item);
        }
    }
    seen
}
