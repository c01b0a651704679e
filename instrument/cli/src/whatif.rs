//! `whatif`: what a load would gain if the device kept order, predicted from its recorded fsyncs.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use analysis::whatif::{BreakEven, COST_OF_ORDER, Contract, Observed, Predicted};
use clap::{Args, Subcommand, ValueHint};
use serde::Serialize;
use spec::{Regime, StackSpec};
use study::fsync::Breakdown;

use crate::console::{self, Exit, bad_input};
use crate::explain::{self, Fsyncs};
use crate::options::Options;

/// Appends before those that are recorded: the first ones find the log's block map, the programs and the processors cold,
/// and the parts of so short calls must not hold that.
const WARMUP_APPENDS: u64 = 50;

/// What is asked.
#[derive(Debug, Subcommand)]
pub enum Whatif {
    /// What would this load gain if the device kept order? From the parts of its fsyncs, with the break-even latencies
    Order(Order),
}

/// Options of `whatif order`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  loadline explain fsync --on dir:/mnt/db --job load.f --json > fsyncs.json
  loadline whatif order --trace fsyncs.json
  loadline whatif order --workload workloads/varmail.f --on ext4@980pro
  loadline whatif order --on ext4@980pro --validate         200 appends with fsync, on the device under each contract

The parts of each fsync are scaled; the callers do as much between two fsyncs as before. docs/order.md says how.")]
pub struct Order {
    /// Fsyncs that `loadline explain fsync --json` has recorded
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["workload", "on", "validate"], required_unless_present = "on")]
    pub trace: Option<PathBuf>,
    /// Record the fsyncs of this workload (*.f) [default: appends of 4 KiB]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "on")]
    pub workload: Option<PathBuf>,
    /// The stack to record on; its device must flush
    #[arg(long, value_name = "STACK")]
    pub on: Option<String>,
    /// How long the workload runs
    #[arg(long = "for", value_name = "TIME", default_value = "5s")]
    pub length: String,
    /// Appends with fsync, without a workload
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub count: u64,
    /// Run it on the emulated SSD under each contract too, and show prediction beside measurement
    #[arg(long)]
    pub validate: bool,
    /// Throughput that keeping order costs in the device, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = COST_OF_ORDER * 100.0)]
    pub cost: f64,
    /// Let the workload start programs by `system`, with all your rights; `loadline check` lists them
    #[arg(long)]
    pub allow_system: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// All that is said.
#[derive(Debug, Serialize)]
struct Answer {
    source: String,
    observed: Observed,
    predictions: Vec<Line>,
    break_even: BreakEven,
}

/// A contract: what was predicted, and what came of it.
#[derive(Debug, Serialize)]
struct Line {
    #[serde(flatten)]
    predicted: Predicted,
    measured: Option<Measured>,
}

/// A run on the device under that contract.
#[derive(Debug, Clone, Copy, Serialize)]
struct Measured {
    sync_ns: f64,
    syncs_per_second: f64,
}

impl Measured {
    fn of(breakdowns: &[Breakdown]) -> Option<Measured> {
        let first = breakdowns.iter().map(|one| one.start_ns).min()?;
        let last = breakdowns.iter().map(|one| one.start_ns + one.total_ns).max()?;
        let number = breakdowns.len() as f64;
        let sync_ns = breakdowns.iter().map(|one| one.total_ns as f64).sum::<f64>() / number;
        Some(Measured { sync_ns, syncs_per_second: number / last.saturating_sub(first) as f64 * 1e9 })
    }
}

/// Answers.
pub fn whatif(options: &Options, what: &Whatif) -> anyhow::Result<Exit> {
    let Whatif::Order(arguments) = what;
    if !(0.0..100.0).contains(&arguments.cost) {
        return Err(bad_input(format!("--cost {}: from 0 to less than 100 is right", arguments.cost)));
    }
    let (source, breakdowns) = match &arguments.trace {
        Some(file) => (file.display().to_string(), read(file)?),
        None => {
            let spec = stack(arguments)?;
            match record(options, arguments, &spec)? {
                Ok(breakdowns) => (spec.to_string(), breakdowns),
                Err(exit) => return Ok(exit),
            }
        }
    };
    let observed = Observed::of(&breakdowns).map_err(|error| bad_input(format!("{source}: {error}")))?;
    let mut predictions = Vec::new();
    for contract in Contract::ALL {
        let predicted = observed.predict(contract);
        let measured = if arguments.validate { measure(options, arguments, contract)? } else { None };
        predictions.push(Line { predicted, measured });
    }
    let break_even = observed.break_even(arguments.cost / 100.0);
    let answer = Answer { source, observed, predictions, break_even };
    if arguments.json {
        console::print(&serde_json::to_string_pretty(&answer)?)?;
    } else {
        console::print(&answer.text())?;
    }
    Ok(Exit::Done)
}

fn read(file: &Path) -> anyhow::Result<Vec<Breakdown>> {
    let opened = File::open(file).map_err(|error| bad_input(format!("{}: {error}", file.display())))?;
    serde_json::from_reader(BufReader::new(opened)).map_err(|error| {
        let right = "what `loadline explain fsync --json` prints is right";
        bad_input(format!("{}: {error}; {right}", file.display()))
    })
}

fn stack(arguments: &Order) -> anyhow::Result<StackSpec> {
    let on = arguments.on.as_deref().unwrap_or_default();
    on.parse().map_err(|error| bad_input(format!("--on: {error}")))
}

/// The fsyncs on a stack, or how the command ends.
fn record(
    options: &Options,
    arguments: &Order,
    spec: &StackSpec,
) -> anyhow::Result<Result<Vec<Breakdown>, Exit>> {
    let job = arguments.workload.as_deref().map(|job| explain::load(job, arguments.allow_system));
    let wanted = Fsyncs {
        count: arguments.count,
        warmup: WARMUP_APPENDS,
        job: job.transpose()?,
        seconds: explain::seconds(&arguments.length)?,
        allow_system: arguments.allow_system,
    };
    Ok(match explain::fsyncs_on(options, spec, &wanted)? {
        Ok(recording) => Ok(recording.breakdowns().to_vec()),
        Err(error) => Err(explain::explain_unavailable(error.unavailable(), &error)?),
    })
}

/// The same on the same device under a contract; `None` for what an unmodified file system cannot show.
fn measure(options: &Options, arguments: &Order, contract: Contract) -> anyhow::Result<Option<Measured>> {
    let (regime, word) = match contract {
        Contract::Flush => (Regime::Flush, None),
        Contract::FlushForFua => (Regime::Flush, Some("fua=flush")),
        Contract::Ordered => (Regime::Streams, None),
        Contract::OrderedStreams => return Ok(None),
        Contract::Nothing => (Regime::None, None),
    };
    let spec = stack(arguments)?;
    let under = spec.under(regime).and_then(|spec| match word {
        Some(word) => spec.with_word(word),
        None => Some(spec),
    });
    let spec = under.ok_or_else(|| {
        bad_input(format!("--validate needs an emulated SSD such as {}@980pro, not {spec}", spec.fs().name()))
    })?;
    Ok(match record(options, arguments, &spec)? {
        Ok(breakdowns) => Measured::of(&breakdowns),
        Err(_) => None,
    })
}

impl Answer {
    fn text(&self) -> String {
        let seen = &self.observed;
        let ms = |ns: f64| ns / 1e6;
        let validated = self.predictions.iter().any(|line| line.measured.is_some());
        let mut text = format!(
            "what if the device kept order: {} fsyncs of {} threads in {:.1} s ({})\n\
             one flush {:.3} ms, one commit record with FUA {:.3} ms, as a plain write {:.3} ms; {:.0} % of the fsyncs \
             waited for a commit; {:.3} ms between two fsyncs of a thread\n\n",
            seen.syncs,
            seen.callers,
            seen.seconds,
            self.source,
            ms(seen.flush_ns),
            ms(seen.fua_ns),
            ms(seen.record_ns),
            seen.commits * 100.0,
            ms(seen.think_ns),
        );
        text += &format!("{:<38} {:>9} {:>10} {:>6}", "contract", "fsync ms", "fsyncs/s", "ratio");
        if validated {
            text += &format!("   {:>11} {:>10} {:>7}", "measured ms", "fsyncs/s", "off");
        }
        text.push('\n');
        for Line { predicted, measured } in &self.predictions {
            let rate = predicted.syncs_per_second;
            text += &format!(
                "{:<38} {:>9.3} {rate:>10.1} {:>6.2}",
                predicted.contract.name(),
                ms(predicted.sync_ns),
                predicted.ratio,
            );
            if let Some(found) = measured {
                let off = (rate / found.syncs_per_second - 1.0) * 100.0;
                text +=
                    &format!("   {:>11.3} {:>10.1} {off:>+6.1}%", ms(found.sync_ns), found.syncs_per_second);
            }
            text.push('\n');
        }
        text + &last_lines(&self.break_even)
    }
}

/// From when on order pays, in words.
fn last_lines(even: &BreakEven) -> String {
    let cost = even.cost * 100.0;
    let fua = match even.fua_ns {
        Some(ns) => format!("while a commit record with FUA takes more than {:.3} ms", ns / 1e6),
        None => "whatever a commit record with FUA takes".into(),
    };
    let flush = match even.flush_ns {
        Some(ns) => format!("pays while a flush takes more than {:.3} ms", ns / 1e6),
        None => "never pays".into(),
    };
    format!(
        "\nKeeping order, the file system as it is, gains more than the {cost:.2} % that it costs in the device {fua}, the \
         flush being as recorded. On a device without FUA it {flush}.\n"
    )
}
