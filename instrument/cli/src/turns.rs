//! `prefetch compare`: the user's own program without and with the library, in turns.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use analysis::paired::Output;
use apps::prefetch::library;
use camino::Utf8PathBuf;
use clap::{Args, ValueHint};
use indicatif::ProgressBar;
use journal::PrivateTree;
use lab::paired::compare::{self, Conditions};
use lab::paired::trial::TrialSetup;
use lab::paired::{Budget, PairedError, RunStart, Side};
use report::harm::program::{self, RunConditions};
use stats::harmless::Verdict;

use crate::cleanup::{utf8, with_journal};
use crate::console::{self, Exit, bad_input};
use crate::harm::{seconds, unavailable_exit, wrong};
use crate::options::Options;

/// Options of `prefetch compare`.
#[derive(Debug, Args)]
#[command(after_help = "\
The gain is the median wall time without the library over that with it, with a 90 % bootstrap interval over rounds. \
`faster`: all of the interval is at 1.03 or more; `no harm`: at 0.97 or more; `SLOWER`: below 0.97 as a whole, in most \
single rounds, and after three more rounds again; else `untold`. Standard output and the exit code of all runs are \
compared. The program gets no input; what it prints is not shown. Without --cold it runs once before \
the rounds; without --drop, too, it then reads what is in the page cache: the library has nothing to gain there.

Examples:
  loadline prefetch compare --drop big.db -- sqlite3 big.db 'select sum(x) from t'
  loadline prefetch compare --drop src -- grep -rc text src
  loadline prefetch compare --cold --memory 2G -- ./analyse data             as root
  loadline prefetch compare --drop . --prepare 'make clean' -- make
Exit codes: 0 faster or no harm, and the same output; 1 slower, or another output; 3 this machine cannot; 4 untold; 130 \
interrupted.")]
pub struct CompareOptions {
    /// Drop the whole page cache before each run (as root)
    #[arg(long)]
    cold: bool,
    /// Drop this file, or the files below this directory, from the page cache before each run; may be repeated
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    drop: Vec<PathBuf>,
    /// A line for the shell before each run; it is not timed
    #[arg(long, value_name = "LINE")]
    prepare: Option<OsString>,
    /// Run in a memory cgroup of this size, such as 512M (as root)
    #[arg(long, value_name = "SIZE")]
    memory: Option<String>,
    /// Pairs of runs
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// While the gain is untold, three more at a time
    #[arg(long, value_name = "N", default_value_t = 15)]
    rounds_max: u64,
    /// No more rounds that would take longer than so long in all
    #[arg(long, value_name = "N", default_value_t = 300.0)]
    seconds: f64,
    /// Of the library
    #[arg(long, value_name = "MODE", default_value = "auto")]
    mode: String,
    /// The library is loaded but off: what is said then is chance, or the price of loading it
    #[arg(long, conflicts_with = "mode")]
    control: bool,
    /// Write a line for each run
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    csv: Option<PathBuf>,
    /// The library [default: as `loadline prefetch -- COMMAND` finds it]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    library: Option<PathBuf>,
    /// No progress, only the result
    #[arg(short, long)]
    quiet: bool,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Runs the program in turns and says what came out.
pub fn compare(options: &Options, arguments: &CompareOptions) -> anyhow::Result<Exit> {
    measure(options, arguments).or_else(unavailable_exit)
}

fn measure(options: &Options, arguments: &CompareOptions) -> anyhow::Result<Exit> {
    let library = crate::library::library(arguments.library.as_deref(), &arguments.mode, arguments.control)?;
    let effort = Budget {
        rounds: arguments.rounds as usize,
        rounds_max: arguments.rounds_max as usize,
        time: seconds("--seconds", arguments.seconds)?,
    };
    let conditions = conditions(arguments, &library)?;
    let display = crate::progress::bar(arguments.quiet);
    let words = &arguments.command;
    let (compared, followed) = with_journal(options, "compare", |_, journal, stop| {
        let temporary: Utf8PathBuf = utf8(std::env::temp_dir())?.canonicalize_utf8()?;
        let tree = PrivateTree::new(journal, &temporary)?;
        let scratch = tree.path().as_std_path();
        let statistics = scratch.join("statistics");
        let setting = TrialSetup { journal, stop, scratch };
        let variant = |side| {
            Ok(match side {
                Side::Baseline => library::without(words)?,
                Side::Candidate => library.command(words, &statistics)?,
            })
        };
        let compared = compare::compare(setting, &conditions, effort, &variant, &mut |turn| {
            show(&display, arguments.quiet, turn);
        });
        Ok((compared, library::has_followed(&statistics)))
    })?;
    display.finish_and_clear();
    let compared = match compared {
        Err(PairedError::Interrupted) => {
            host::note!("loadline: interrupted before the first round was there");
            return Ok(Exit::Interrupted);
        }
        compared => compared.map_err(wrong)?,
    };
    if let Some(csv) = &arguments.csv {
        crate::report::write(csv, &program::csv(&compared.rounds))?;
    }
    let words: Vec<_> = words.iter().map(|word| word.display().to_string()).collect();
    let circumstances = RunConditions {
        idle: library.mode.is_some() && !followed,
        cache_kept: !arguments.cold && arguments.drop.is_empty(),
    };
    console::print(&program::text(&words.join(" "), &compared, circumstances))?;
    if compared.interrupted {
        host::note!("loadline: interrupted");
        return Ok(Exit::Interrupted);
    }
    Ok(match (compared.output(), compared.verdict) {
        (Output::Differs(_), _) | (_, Verdict::Harms) => Exit::Failed,
        (_, Verdict::Untold) => Exit::CannotTell,
        _ => Exit::Done,
    })
}

fn conditions(arguments: &CompareOptions, library: &library::Library) -> anyhow::Result<Conditions> {
    let memory = arguments.memory.as_deref().map(units::parse_bytes).transpose();
    let conditions = Conditions {
        prepare: arguments.prepare.clone(),
        cold: arguments.cold,
        drop: arguments.drop.clone(),
        warm: vec![library.path.clone()],
        memory: memory.map_err(|error| bad_input(format!("--memory: {error}")))?,
    };
    conditions.check().map_err(wrong)?;
    Ok(conditions)
}

fn show(bar: &ProgressBar, quiet: bool, turn: RunStart) {
    let RunStart { round, of, side } = turn;
    let how = if side == Side::Candidate { "with the library" } else { "alone" };
    let text = match round {
        0 => "a run to begin with".into(),
        _ => format!("round {round} of {of}: {how}"),
    };
    bar.set_length(2 * of as u64);
    bar.set_message(text.clone());
    if round > 0 {
        bar.inc(1);
        bar.enable_steady_tick(Duration::from_millis(500));
    }
    if bar.is_hidden() && !quiet {
        host::note!("{text}");
    }
}
