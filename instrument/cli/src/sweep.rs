//! `sweep`: the offered rate raised step by step, until the achieved rate stops rising.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use record::study::{Bytes, CommandLine, Io, Offered, Seconds, Settings, Study};
use record::sweep::curves;

use crate::options::Options;
use crate::run::{Launch, exit_of, loads, run_study};
use crate::screen::{self, Exit, bad_input};

/// Least measured time of a step, in seconds: from fewer nothing is said about it.
const STEP_SECONDS_MIN: f64 = 3.0;

/// Options of `sweep`.
#[derive(Debug, Args)]
#[command(after_help = "\
First each stack runs the load in a closed loop, as fast as it goes: that is `max`. Then shares of it are offered in an \
open loop, each on a fresh stack, from low to high; two steps that are not kept up with end it. The knee is read off the \
achieved rate, not off the latency (docs/sweep.md).

Examples:
  loadline sweep workloads/randomwrite.f --on ext4@980pro,xfs@980pro --html curve.html
  loadline sweep workloads/varmail.f --on ext4 --for 30s --trials 3 --limit 10ms
  loadline sweep workloads/oltp.f --on ext4,btrfs --quick
  loadline sweep oltp-read-write --set engine=innodb,myrocks --on ext4@980pro:8G --quick
  loadline sweep varmail.f --on ext4 --rates 500,1000,2000,4000 --csv curve.csv
Exit codes: 0 done; 1 a step failed; 130 interrupted (the steps that are done are kept; --resume goes on).")]
pub struct Sweep {
    /// A workload in Filebench's WML, or a built-in load by name (tpcc, oltp-insert ...)
    #[arg(required = true, value_name = "WORKLOAD", value_hint = ValueHint::FilePath)]
    files: Vec<PathBuf>,
    /// The stacks, as for `run`
    #[arg(long, value_name = "STACKS")]
    on: String,
    /// Rates: max, shares of it (50%), operations a second (5000 or 5k) [default: max, 10% to 300%]
    #[arg(long, value_name = "RATES", conflicts_with = "quick")]
    rates: Option<String>,
    /// Fewer and shorter steps: 5 s each
    #[arg(long)]
    quick: bool,
    /// Say up to which rate the 99th percentile from the intended start is within this, such as 10ms
    #[arg(long, value_name = "TIME")]
    limit: Option<String>,
    /// A variable of the workload; several values, separated by commas, are targets of their own
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// Measured time of each step [default: 20s]
    #[arg(long = "for", value_name = "TIME")]
    length: Option<String>,
    /// Load before it [default: 2s; with --quick 1s]
    #[arg(long, value_name = "TIME")]
    warmup: Option<String>,
    /// Trials of each step: the second goes from high to low, and so on
    #[arg(long, short = 'n', value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    trials: u32,
    /// How reads and writes are issued: psync, or uring:DEPTH
    #[arg(long, value_name = "ENGINE")]
    io: Option<String>,
    /// Unmount, mount and drop the caches before each step
    #[arg(long)]
    cold: bool,
    /// Memory limit of the load, page cache included, such as 512M
    #[arg(long, value_name = "SIZE")]
    memory: Option<String>,
    /// Seed of every random choice
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Let workloads start programs by `system`, with all your rights
    #[arg(long)]
    allow_system: bool,
    /// A block device, or a file for `backing=`, that may be overwritten; all data on it is lost
    #[arg(long, value_name = "DEVICE|FILE", value_hint = ValueHint::FilePath)]
    erase: Option<String>,
    /// Go on with the latest unfinished sweep of the same settings
    #[arg(long)]
    resume: bool,
    /// A name for the run, by which other commands find it
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Directory for image files [default: images/ in the home of results]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    work_dir: Option<PathBuf>,
    /// Print JSON instead of the table
    #[arg(long)]
    json: bool,
    /// Write the steps as CSV
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    csv: Option<PathBuf>,
    /// Draw the curves of all targets
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    svg: Option<PathBuf>,
    /// Write the curves as one HTML file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    html: Option<PathBuf>,
    /// No progress, only results
    #[arg(short, long)]
    quiet: bool,
}

/// Sweeps, and tells what came of it.
pub fn sweep(options: &Options, arguments: &Sweep) -> anyhow::Result<Exit> {
    let limit = arguments.limit.as_deref().map(|limit| seconds("--limit", limit)).transpose()?;
    let limit_ns = limit.map(|limit| (limit.0 * 1e9) as u64);
    let study = study(arguments)?;
    let launch = Launch {
        work_dir: arguments.work_dir.as_deref(),
        erase: arguments.erase.as_deref(),
        resume: arguments.resume,
        name: arguments.name.as_deref(),
        quiet: arguments.quiet,
        allow_system: arguments.allow_system,
    };
    let (run, ending) = run_study(options, study, &launch)?;
    let curves = curves(&run, limit_ns);
    if arguments.json {
        screen::print(&report::curve::json(&curves)?)?;
    } else {
        screen::print(&report::curve::terminal(&curves, screen::style(options)))?;
    }
    if let Some(file) = &arguments.csv {
        crate::report::write(file, &report::curve::csv(&curves))?;
    }
    if let Some(file) = &arguments.svg {
        crate::report::write(file, &report::curve::svg(&curves))?;
    }
    if let Some(file) = &arguments.html {
        let command = report::format::shell_line(&run.command_line);
        crate::report::write(file, &report::curve::page(&run.title, &curves, &command)?)?;
    }
    if !arguments.quiet {
        eprintln!("run {}: `loadline report {0}` shows it in full", run.id);
    }
    Ok(exit_of(&run, ending, &[]))
}

fn seconds(option: &str, text: &str) -> anyhow::Result<Seconds> {
    let length =
        workload::size::parse_duration(text).map_err(|error| bad_input(format!("{option}: {error}")))?;
    Seconds::new(length.as_secs_f64()).map_err(|error| bad_input(format!("{option}: {error}")))
}

/// The study that the options mean.
fn study(arguments: &Sweep) -> anyhow::Result<Study> {
    let quick = arguments.quick;
    let length = arguments.length.as_deref().unwrap_or(if quick { "5s" } else { "20s" });
    let length = seconds("--for", length)?;
    if length.0 < STEP_SECONDS_MIN {
        let least = format!("--for {} s is too short for a step: {STEP_SECONDS_MIN} s at least", length.0);
        return Err(bad_input(least));
    }
    let offered = match &arguments.rates {
        Some(rates) => rates.parse().map_err(|error| bad_input(format!("--rates: {error}")))?,
        None if quick => Offered::quick(),
        None => Offered::ladder(),
    };
    let io = arguments.io.as_deref().map(str::parse::<Io>).transpose();
    let memory = arguments.memory.as_deref().map(workload::size::parse_bytes).transpose();
    let settings = Settings {
        seconds: Some(length),
        warmup: Some(seconds(
            "--warmup",
            arguments.warmup.as_deref().unwrap_or(if quick { "1s" } else { "2s" }),
        )?),
        trials: arguments.trials,
        seed: arguments.seed,
        io: io.map_err(|error| bad_input(format!("--io: {error}")))?.unwrap_or_default(),
        memory: memory.map_err(|error| bad_input(format!("--memory: {error}")))?.map(Bytes),
        cold: arguments.cold,
        allow_system: arguments.allow_system,
        offered,
        ..Settings::default()
    };
    let is_study = |file: &PathBuf| file.extension().is_some_and(|extension| extension == "toml");
    if arguments.files.iter().any(is_study) {
        return Err(bad_input("sweep takes workloads; a study sweeps by `offered = [...]` under [study]"));
    }
    let (apps, files) = loads(&arguments.files);
    let line = CommandLine { files, apps, on: arguments.on.clone(), set: arguments.set.clone(), settings };
    lab::read::command_line(&line).map_err(bad_input)
}
