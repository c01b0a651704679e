//! Options of commands that show stored runs.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use study::results::MetricName;

/// Options of `compare`.
#[derive(Debug, Args)]
#[command(after_help = "\
A run is named by its id, the beginning of it, its name (`run --name`), `last`, or `last~2`, two before the last.

Throughput, p99 and p99.9 of the service times each get a verdict. The sentence above the table and the exit code are by one of them: throughput, \
unless --by names another. A quantile takes 100 operations beyond it in each trial: 10,000 in all for p99, 100,000 for p99.9.

Examples:
  loadline compare 20261120-19 last
  loadline compare last                 the stacks of one run against the first of them
  loadline compare last --baseline xfs
  loadline compare before after --by p99        exit code 1 when some 99th percentile is worse
Exit codes: 0 nothing is worse; 1 something is; 4 cannot tell.")]
pub struct Compare {
    /// The baseline
    #[arg(value_name = "RUN_A")]
    pub a: String,
    /// The candidate; without it the stacks of the one run are compared
    #[arg(value_name = "RUN_B")]
    pub b: Option<String>,
    /// With one run: the stack that the others are compared with [default: the first]
    #[arg(long, value_name = "STACK")]
    pub baseline: Option<String>,
    /// With two runs: a stack that both hold and that was not changed; the others are compared by their ratio to it
    #[arg(long, value_name = "STACK", requires = "b")]
    pub anchor: Option<String>,
    /// What decides: the sentence and the exit code are by this
    #[arg(long, value_enum, default_value_t = CompareBy::Throughput, value_name = "METRIC")]
    pub by: CompareBy,
    /// Differences within this are the same, if the whole interval of the ratio lies within it
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0)]
    pub margin: f64,
    /// Probability of error allowed for better and worse
    #[arg(long, value_name = "P", default_value_t = 0.05)]
    pub alpha: f64,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// What decides a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CompareBy {
    /// I/O operations per second
    Throughput,
    /// 99th percentile of their service times
    P99,
    /// 99.9th percentile of their service times
    #[value(name = "p99.9")]
    P999,
}

impl CompareBy {
    /// The metric.
    pub fn metric(self) -> MetricName {
        match self {
            CompareBy::Throughput => MetricName::Throughput,
            CompareBy::P99 => MetricName::LatencyP99,
            CompareBy::P999 => MetricName::LatencyP999,
        }
    }
}

/// Options of `report`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  loadline report                              the latest run, in the terminal
  loadline report last --html r.html --csv out/
  loadline report 20261120-1915 --format filebench
  loadline report last --format json | jq .summary")]
pub struct Report {
    /// A run: its id, the beginning of it, or `last`
    #[arg(value_name = "RUN", default_value = "last")]
    pub run: String,
    /// What to print
    #[arg(long, value_enum, default_value_t = Format::Terminal)]
    pub format: Format,
    /// Write one self-contained HTML file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub html: Option<PathBuf>,
    /// Write CSV files into this directory
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub csv: Option<PathBuf>,
    /// Write the figures into this directory, each as an SVG file
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub svg: Option<PathBuf>,
    /// Write JSON
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub json: Option<PathBuf>,
    /// Write all histograms as an HdrHistogram log
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub hdr: Option<PathBuf>,
}

/// What `report` prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Tables
    Terminal,
    /// The text that Filebench 1.5 prints, for each trial
    Filebench,
    /// JSON
    Json,
    /// Nothing (with --html, --csv ...)
    None,
}

/// Options of `runs`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  loadline runs\n  loadline runs --filter ext4\n  loadline runs --delete before"
)]
pub struct Runs {
    /// Delete this run
    #[arg(long, value_name = "RUN")]
    pub delete: Option<String>,
    /// Only runs with this in their id, name or title
    #[arg(long, value_name = "TEXT")]
    pub filter: Option<String>,
}
