//! Are the verdicts right? The same is compared with the same, and a planted difference is looked for, with the
//! program as its user runs it, on this machine as it is.
//!
//! The checks are those of docs/statistics.md, "Real checks". Each says a count and its limit. Beside a competing load
//! the same command says what holds then.
//!
//! | module | holds |
//! |---|---|
//! | `mod` | options, and which checks there are |
//! | `tally` | what was counted, and the table |
//! | `runs` | checks of runs compared with each other, and of stacks within one |
//! | `turns` | checks of `ab`: commands, stacks in slices |
//! | `device` | a file system on an emulated SSD of its own: where a slower device is planted |
//! | `program` | runs of `loadline` in a home of their own, and what they say |
//! | `spin` | work whose amount is known: what is planted in commands |

mod device;
mod program;
mod runs;
pub mod spin;
mod tally;
mod turns;

use std::time::Duration;

use clap::Args;

use program::Program;
use tally::Tally;

/// Options of `trust`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  loadline-bench trust --quick                       a few of each, some minutes
  loadline-bench trust --only between                all ten runs of each stack, 45 pairs each
  loadline-bench trust --only slices --count 100
  loadline-bench trust --only commands --minutes 5   as many as there is time for
Checks: between, anchored (R1); slices (R2); commands (R3); planted (R4); crowded (R5); within (R6): docs/statistics.md.
Ctrl-C, or the end of --minutes, ends it with a table of what there is.
Exit codes: 0 every limit is met; 1 one is missed; 130 interrupted.")]
pub struct Trust {
    /// Few of each: whether it works at all, no evidence
    #[arg(long)]
    quick: bool,
    /// Only checks whose name contains this
    #[arg(long, default_value = "")]
    only: String,
    /// How often each comparison is made; pairs between runs come of ten runs
    #[arg(long)]
    count: Option<usize>,
    /// Stacks of the checks between runs and of those in slices
    #[arg(long, value_delimiter = ';', default_value = "tmpfs;ext4@image;ext4@860evo")]
    on: Vec<String>,
    /// Seconds that one comparison in turns may take
    #[arg(long, default_value_t = 30.0)]
    budget: f64,
    /// No comparison begins after so many minutes
    #[arg(long, value_name = "N", value_parser = minutes)]
    minutes: Option<Duration>,
    /// The program [default: loadline beside this one]
    #[arg(long)]
    program: Option<std::path::PathBuf>,
}

/// The planted difference of commands.
const PLANTED: f64 = 0.02;
/// What is planted in a device and in loads: every request, every operation takes this much longer.
const SLOWER: f64 = 0.10;

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trusted {
    /// Every limit is met.
    Met,
    /// One is missed.
    Missed,
    /// The user ended it.
    Interrupted,
}

/// Makes the checks and prints the table.
///
/// # Errors
/// The program cannot be run, or fails for another reason than an interruption.
pub fn trust(trust: &Trust) -> anyhow::Result<Trusted> {
    let program = Program::new(trust.program.as_deref())?;
    crate::pairs::print_machine();
    let mut tally = Tally::new(trust.minutes)?;
    let ended = checks(trust, &program, &mut tally);
    let met = tally.print();
    match ended {
        // a program that was interrupted with this one
        Err(_) | Ok(()) if tally.interrupted() => Ok(Trusted::Interrupted),
        Err(error) => Err(error),
        Ok(()) if met => Ok(Trusted::Met),
        Ok(()) => Ok(Trusted::Missed),
    }
}

fn checks(trust: &Trust, program: &Program, tally: &mut Tally) -> anyhow::Result<()> {
    let wanted = |name: &str| name.contains(&trust.only);
    for stack in trust.on.iter().filter(|_| wanted("between")) {
        runs::between(trust, program, tally, stack)?;
    }
    if wanted("anchored") {
        runs::anchored(trust, program, tally)?;
    }
    for stack in trust.on.iter().filter(|_| wanted("slices")) {
        turns::in_slices(trust, program, tally, stack)?;
    }
    if wanted("commands") {
        turns::commands(trust, program, tally)?;
    }
    for stack in trust.on.iter().filter(|_| wanted("planted")) {
        turns::planted(trust, program, tally, stack)?;
    }
    if wanted("crowded") {
        runs::crowded(trust, program, tally)?;
    }
    if wanted("within") {
        runs::within(trust, program, tally)?;
    }
    Ok(())
}

impl Trust {
    fn times(&self, full: usize, quick: usize) -> usize {
        self.count.unwrap_or(if self.quick { quick } else { full })
    }
}

fn minutes(text: &str) -> Result<Duration, String> {
    let minutes = text.parse::<f64>().map_err(|error| error.to_string())?;
    Duration::try_from_secs_f64(minutes * 60.0).map_err(|error| error.to_string())
}
