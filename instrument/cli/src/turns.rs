//! `prefetch compare`: the user's own program without and with the library, in turns.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};
use harm::HarmError;
use harm::plan;
use harm::turns::{Begins, Outcome, Output, Round, Run, Turns, Verdict, median};
use indicatif::ProgressBar;

use crate::harm::{bar, cannot_here, journal, seconds, stop_on_signals, wrong};
use crate::options::Options;
use crate::screen::{self, Exit, bad_input};

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
    measure(options, arguments).or_else(cannot_here)
}

fn measure(options: &Options, arguments: &CompareOptions) -> anyhow::Result<Exit> {
    let turns = turns(arguments)?;
    turns.check().map_err(wrong)?;
    let stop = stop_on_signals()?;
    let display = bar(arguments.quiet);
    let journal = journal(options, "compare")?;
    let outcome = turns.run(&journal, &stop, &mut |begins| show(&display, arguments.quiet, begins));
    display.finish_and_clear();
    let outcome = match outcome {
        Err(HarmError::Interrupted) => {
            eprintln!("loadline: interrupted before the first round was there");
            return Ok(Exit::Interrupted);
        }
        outcome => outcome.map_err(wrong)?,
    };
    if let Some(csv) = &arguments.csv {
        crate::report::write(csv, &lines(&outcome))?;
    }
    screen::print(&text(&turns, &outcome))?;
    if outcome.interrupted {
        eprintln!("loadline: interrupted");
        return Ok(Exit::Interrupted);
    }
    Ok(match (outcome.output, outcome.verdict) {
        (Output::Differs { .. }, _) | (_, Verdict::Slower) => Exit::Failed,
        (_, Verdict::Untold) => Exit::CannotTell,
        _ => Exit::Done,
    })
}

fn turns(arguments: &CompareOptions) -> anyhow::Result<Turns> {
    let memory = arguments.memory.as_deref().map(workload::size::parse_bytes).transpose();
    Ok(Turns {
        words: arguments.command.clone(),
        prepare: arguments.prepare.clone(),
        cold: arguments.cold,
        drop: arguments.drop.clone(),
        memory: memory.map_err(|error| bad_input(format!("--memory: {error}")))?,
        rounds: arguments.rounds as usize,
        rounds_max: arguments.rounds_max as usize,
        time: seconds("--seconds", arguments.seconds)?,
        mode: if arguments.control { plan::OFF.into() } else { arguments.mode.clone() },
        library: plan::library(arguments.library.as_ref(), &std::env::current_exe()?).map_err(wrong)?,
    })
}

fn show(bar: &ProgressBar, quiet: bool, begins: Begins) {
    let Begins { round, of, library } = begins;
    let how = if library { "with the library" } else { "alone" };
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
        eprintln!("{text}");
    }
}

/// A line for each run.
fn lines(outcome: &Outcome) -> String {
    let mut text = String::from("round,library,wall_s,user_s,system_s,exit_code,output_bytes\n");
    for (at, round) in outcome.rounds.iter().enumerate() {
        for (library, run) in [(0, round.alone), (1, round.helped)] {
            let Run { wall, cpu: [user, system], said } = run;
            let _ = writeln!(
                text,
                "{},{library},{wall:.6},{user:.6},{system:.6},{},{}",
                at + 1,
                said.code,
                said.bytes
            );
        }
    }
    text
}

fn text(turns: &Turns, outcome: &Outcome) -> String {
    let words: Vec<_> = turns.words.iter().map(|word| word.display().to_string()).collect();
    let rounds = &outcome.rounds;
    let mut text = format!("{}: {} rounds\n", words.join(" "), rounds.len());
    for library in [false, true] {
        let name = if library { "library" } else { "alone" };
        let pick = |round: &Round| if library { round.helped } else { round.alone };
        let runs: Vec<Run> = rounds.iter().map(pick).collect();
        let walls: Vec<f64> = runs.iter().map(|run| run.wall).collect();
        let (low, high) =
            walls.iter().fold((f64::MAX, 0f64), |(low, high), wall| (low.min(*wall), high.max(*wall)));
        let cpu = median(runs.iter().map(|run| run.cpu[0] + run.cpu[1]).collect());
        let _ =
            writeln!(text, "  {name:8} {:.3} s ({low:.3} to {high:.3}), CPU time {cpu:.3} s", median(walls));
    }
    let (gain, interval) = (outcome.gain.value, outcome.gain.interval);
    let _ = writeln!(text, "  gain     {gain:.2} ({:.2} to {:.2})", interval.low, interval.high);
    let _ = writeln!(text, "  output   {}", output(outcome));
    if !outcome.watched && turns.mode != plan::OFF && outcome.verdict != Verdict::Faster {
        text.push_str(
            "  note     the library followed no file: the program is static or Go (see `loadline prefetch daemon`), its \
             files are\n           in the page cache or under 256 KiB, or it reads them too rarely\n",
        );
    }
    if let Some(errors) = &outcome.errors {
        let _ = writeln!(text, "  note     without the library it fails as well: {errors}");
    }
    if !turns.cold && turns.drop.is_empty() {
        text.push_str("  note     the page cache was kept: --drop PATH, or --cold, has the program read from the device\n");
    }
    text.push_str(match outcome.verdict {
        Verdict::Faster => "faster",
        Verdict::NoHarm => "no harm",
        Verdict::Slower => "SLOWER",
        Verdict::Untold => "untold: more --rounds-max, longer --seconds, or a quieter machine",
    });
    if matches!(outcome.output, Output::Differs { .. }) {
        text.push_str(", but the output DIFFERS");
    }
    text
}

fn output(outcome: &Outcome) -> String {
    match outcome.output {
        Output::Same(said) => {
            format!(
                "the same in all {} runs: {} bytes, exit code {}",
                2 * outcome.rounds.len(),
                said.bytes,
                said.code
            )
        }
        Output::Varies => "varies without the library, too: only exit codes were compared".into(),
        Output::Differs { alone, helped } => format!(
            "DIFFERS: alone {} bytes, exit code {}; with the library {} bytes, exit code {}",
            alone.bytes, alone.code, helped.bytes, helped.code
        ),
    }
}
