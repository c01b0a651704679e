//! `trend`: a cell over all stored runs, and where its level changed.

use std::path::{Path, PathBuf};

use analysis::trend::{self, SeriesFilter, Trend};
use clap::{Args, ValueHint};
use lab::Store;
use study::results::MetricName;

use crate::console::{self, Exit, bad_input};
use crate::options::Options;

/// Series that are shown when nothing narrower was asked for.
const SHOWN_MAX: usize = 12;

/// Options of `trend`.
#[derive(Debug, Args)]
#[command(after_help = "\
A series is one workload with its parameters and settings on one stack, over all stored runs. A change is looked for from \
10 points on; it is suspected with two points after it and reported with three.

Examples:
  loadline trend                                   every series, the longest first
  loadline trend varmail --on ext4@860evo          one cell over time
  loadline trend varmail.f --on ext4 --anchor tmpfs  by its ratio to tmpfs in the same runs
  loadline trend varmail --metric latency_p99 --html trend.html

Exit codes: 0 the last change is none or for the better; 1 it is for the worse; 4 too few points.")]
pub struct Arguments {
    /// The workload's label, with or without parameters, or its file
    #[arg(value_name = "WORKLOAD")]
    pub workload: Option<String>,
    /// The stack, as after `run --on`
    #[arg(long, value_name = "STACK")]
    pub on: Option<String>,
    /// A stack that was not changed: values are taken by their ratio to its value in the same run
    #[arg(long, value_name = "STACK")]
    pub anchor: Option<String>,
    /// throughput, bandwidth, latency_p50, latency_p99, latency_p999, latency_mean or seconds
    #[arg(long, value_name = "METRIC", default_value = "throughput")]
    pub metric: String,
    /// Runs that began within the same stretch count as one point: those minutes apart are alike; 0: each counts
    #[arg(long, value_name = "TIME", default_value = "1h")]
    pub every: String,
    /// A page with the drawings
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub html: Option<PathBuf>,
    /// The drawing of a single series
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub svg: Option<PathBuf>,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// Shows how cells went over the runs.
pub fn trend(options: &Options, arguments: &Arguments) -> anyhow::Result<Exit> {
    let metric = metric(&arguments.metric)?;
    let every = arguments.every.parse::<study::Seconds>();
    let every = every.map_err(|error| bad_input(format!("--every: {error}")))?;
    let workload = arguments.workload.as_deref().map(label);
    let stacks = [&arguments.on, &arguments.anchor].map(|stack| stack.as_deref().map(stack_label));
    let [on, anchor] = stacks.map(Option::transpose);
    let (on, anchor) = (on?, anchor?);
    let store = Store::open_to_show(&crate::run::home(options)?)?;
    let past = match metric {
        MetricName::Throughput => store.past()?,
        other => store.past_by(other, |_| true)?,
    };
    let wanted = SeriesFilter {
        workload: workload.as_deref(),
        stack: on.as_deref(),
        anchor: anchor.as_deref(),
        metric,
        every_seconds: every.0,
    };
    let asks = store.cell_definitions()?;
    let mut trends = trend::trends(&asks, &past, &wanted);
    if trends.is_empty() {
        let any = SeriesFilter { workload: None, stack: None, anchor: None, ..wanted };
        return Err(bad_input(no_series_message(&trend::trends(&asks, &past, &any), arguments)));
    }
    // only of what changed, the environments are looked at
    for change in trends.iter_mut().flat_map(|trend| &mut trend.changes) {
        let environment = |id: &str| -> anyhow::Result<_> {
            Ok(store.load_run(id)?.trials.into_iter().find_map(|trial| trial.environment))
        };
        if let (Some(before), Some(after)) = (environment(&change.runs.0)?, environment(&change.runs.1)?) {
            change.environment = analysis::diff::diff(&before, &after);
        }
    }
    if let Some(file) = &arguments.svg {
        let [one] = trends.as_slice() else {
            return Err(bad_input(format!(
                "--svg draws a single series, and these are {}: name workload and stack, or take --html",
                trends.len()
            )));
        };
        crate::report::write(file, &report::trend::svg(one))?;
    }
    if let Some(file) = &arguments.html {
        let command: Vec<String> = std::env::args().collect();
        crate::report::write(file, &report::trend::page(&trends, &report::format::shell_line(&command))?)?;
    }
    if arguments.json {
        console::print(&serde_json::to_string_pretty(&trends)?)?;
    } else {
        print(options, &trends)?;
    }
    Ok(Exit::of_code(trend::conclusion(&trends).exit_code()))
}

fn print(options: &Options, trends: &[Trend]) -> anyhow::Result<()> {
    let style = console::style(options);
    let shown: Vec<String> =
        trends.iter().take(SHOWN_MAX).map(|trend| report::trend::terminal(trend, style)).collect();
    console::print(&shown.join("\n"))?;
    if let Some(more) = trends.len().checked_sub(SHOWN_MAX).filter(|more| *more > 0) {
        console::print(&format!("and {more} more series: name a workload, --on a stack, or --json for all"))?;
    }
    Ok(())
}

fn metric(word: &str) -> anyhow::Result<MetricName> {
    MetricName::of_word(word)
        .ok_or_else(|| bad_input(format!("--metric {word}: there are throughput, bandwidth, latency_p50, latency_p99, latency_p999, latency_mean, seconds")))
}

/// A workload's label: of a file its stem, as `run` gives it.
fn label(word: &str) -> String {
    let path = Path::new(word);
    let is_file = path.extension().is_some_and(|extension| extension == "f");
    let stem = path.file_stem().filter(|_| is_file).and_then(|stem| stem.to_str());
    stem.unwrap_or(word).to_string()
}

/// A stack's label, as `run` gives it.
fn stack_label(word: &str) -> anyhow::Result<String> {
    let stack: spec::StackSpec = word.parse().map_err(bad_input)?;
    Ok(stack.label())
}

/// Why nothing was found, and what there is.
fn no_series_message(known: &[Trend], arguments: &Arguments) -> String {
    if known.is_empty() {
        return "no results yet: `loadline run varmail --on ext4 --for 5s` makes one".into();
    }
    let cells: Vec<String> =
        known.iter().take(SHOWN_MAX).map(|trend| format!("  {} on {}", trend.load, trend.stack)).collect();
    let anchored = if arguments.anchor.is_some() { " that have the anchor beside them" } else { "" };
    format!("no runs of this cell{anchored}; the store has\n{}", cells.join("\n"))
}
