//! `sweep`: the offered rate raised step by step, until the stack no longer keeps up.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use report::load_curve::LoadCurves;
use study::Seconds;
use study::offered::OfferedRates;

use crate::arg_parsers;
use crate::console::{self, Exit, bad_input};
use crate::options::{self, Options};
use crate::run::{self, RunSettings};

/// Measured time of a step when nothing is said: enough seconds to see whether a rate is kept.
const SECONDS: f64 = 10.0;
/// Trials of each step when nothing is said: one upwards, one downwards.
const TRIALS: u32 = 2;

/// Options of `sweep`.
#[derive(Debug, Args)]
#[command(after_help = "\
First the load runs as fast as it goes; of what that achieves, shares are offered in an open loop: operations are due at \
fixed times, whether those before have ended or not, and their latency counts from when they were due. Two steps that fall \
behind end it.

Examples:
  loadline sweep workloads/varmail.f --on ext4@980pro,xfs@980pro --html curve.html
  loadline sweep workloads/randomread.f --on ext4 --rates 1000,2000,5000,10000 --for 20s
  loadline sweep tpcc --engine innodb,postgres --on ext4@980pro:8G --limit 50ms
  loadline sweep workloads/webserver.f --on dir:/mnt/data --rates quick --svg curve.svg")]
pub struct Sweep {
    /// What `run` takes
    #[command(flatten)]
    run: options::Run,
    /// Rates: `ladder` (15 shares of the highest, 10 to 120 %), `quick` (7), or a list such as max,50%,90% or 1000,5000
    #[arg(long, value_name = "RATES", default_value = "ladder")]
    rates: String,
    /// Also the highest rate whose 99th percentile is below this, such as 10ms
    #[arg(long, value_name = "TIME")]
    limit: Option<String>,
    /// The drawing
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    svg: Option<PathBuf>,
    /// A row for each rate and kind of operation
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    points: Option<PathBuf>,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// Sweeps, and shows the curves.
pub fn sweep(options: &Options, arguments: &Sweep) -> anyhow::Result<Exit> {
    let own = &arguments.run;
    if own.rate.is_some() {
        return Err(bad_input("--rate is for run, which offers one rate; write --rates 1000,2000"));
    }
    let limit = arguments.limit.as_deref().map(|text| arg_parsers::length("--limit", text)).transpose()?;
    let mut study = run::study(own)?;
    let settings = &mut study.study;
    settings.offered = rates(&arguments.rates)?;
    if own.length.is_none() && settings.seconds.is_none() {
        settings.seconds = Some(Seconds::new(SECONDS).map_err(bad_input)?);
    }
    if own.trials.is_none() {
        settings.trials = TRIALS;
    }
    let launch = RunSettings::of(own);
    let (run, ending) = run::run_study(options, study, &launch)?;
    let limit = limit.map(|limit| u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX));
    let curves =
        LoadCurves::of(&run, limit).ok_or_else(|| anyhow::anyhow!("the run {} has no rates", run.id))?;
    if let Some(file) = &arguments.svg {
        crate::report::write(file, &curves.drawing())?;
    }
    if let Some(file) = &arguments.points {
        crate::report::write(file, &curves.csv())?;
    }
    if let Some(file) = &own.html {
        crate::report::write(file, &report::html::page(&run, &[])?)?;
    }
    if let Some(directory) = &own.csv {
        crate::report::write_csv(directory, &run)?;
    }
    if arguments.json {
        console::print(&curves.json()?)?;
    } else {
        console::print(&curves.terminal(console::style(options)))?;
        console::print(&format!(
            "run {}: `loadline report {0} --html report.html` shows it in full",
            run.id
        ))?;
    }
    Ok(run::exit_of(&run, ending, &[]))
}

fn rates(text: &str) -> anyhow::Result<OfferedRates> {
    match text {
        "ladder" => Ok(OfferedRates::ladder()),
        "quick" => Ok(OfferedRates::quick()),
        list => list.parse().map_err(|error| bad_input(format!("--rates: {error}"))),
    }
}
