//! Options of `trust`, and how large the planted differences are.

use std::time::Duration;

use clap::Args;

/// Options of `trust`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  loadline-bench trust --quick                       a few of each, some minutes
  loadline-bench trust --only between                all ten runs of each stack, 45 pairs each
  loadline-bench trust --only slices --count 100
  loadline-bench trust --only alike --on 'tmpfs;ext4@860evo'
  loadline-bench trust --only deterministic          in guests: needs no quiet machine
  loadline-bench trust --only commands --minutes 5   as many as there is time for
  loadline-bench trust --only slices --beside 'cargo clean -q; cargo build -q -j1'
Checks: between, anchored (R1); slices (R2); commands (R3); planted (R4); crowded (R5); within (R6); deterministic (R7); alike (R8): docs/statistics.md.
Ctrl-C, or the end of --minutes, ends it with a table of what there is.
Exit codes: 0 every limit is met; 1 one is missed; 130 interrupted.")]
pub struct Trust {
    /// Few of each: whether it works at all, no evidence
    #[arg(long)]
    pub(super) quick: bool,
    /// Only checks whose name contains this
    #[arg(long, default_value = "")]
    pub(super) only: String,
    /// How often each comparison is made; pairs between runs come of ten runs
    #[arg(long)]
    pub(super) count: Option<usize>,
    /// Stacks of the checks between runs, of those in slices, and of equal ones in a run
    #[arg(long, value_delimiter = ';', default_value = "tmpfs;ext4@image;ext4@860evo")]
    pub(super) on: Vec<String>,
    /// Seconds that one comparison in turns may take
    #[arg(long, default_value_t = 30.0)]
    pub(super) budget: f64,
    /// No comparison begins after so many minutes
    #[arg(long, value_name = "N", value_parser = minutes)]
    pub(super) minutes: Option<Duration>,
    /// A line for the shell that runs over and over beside all checks: a machine with others on it
    #[arg(long, value_name = "LINE")]
    pub(super) beside: Option<std::ffi::OsString>,
    /// The program [default: loadline beside this one]
    #[arg(long)]
    pub(super) program: Option<std::path::PathBuf>,
}

/// The planted difference of commands.
pub(super) const PLANTED: f64 = 0.02;
/// What is planted in a device and in loads: every request, every operation takes this much longer.
pub(super) const SLOWER: f64 = 0.10;

impl Trust {
    /// How often a comparison is made.
    pub(super) fn times(&self, full: usize, quick: usize) -> usize {
        self.count.unwrap_or(if self.quick { quick } else { full })
    }
}

fn minutes(text: &str) -> Result<Duration, String> {
    let minutes = text.parse::<f64>().map_err(|error| error.to_string())?;
    Duration::try_from_secs_f64(minutes * 60.0).map_err(|error| error.to_string())
}
