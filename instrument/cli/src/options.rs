//! Every option, once.
//!
//! | module | holds the options of |
//! |---|---|
//! | `options` | all commands together; `doctor`, `completions`, `man` |
//! | `run` | `run`, `check` |
//! | `stored` | `compare`, `report`, `runs` |
//! | `explain` | `explain` |
//! | `crash` | `crash` |
//! | `ssd` | `ssd` |
//! | `prefetch` | `prefetch` |

mod crash;
mod explain;
mod prefetch;
mod run;
mod ssd;
mod stored;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};

pub use crash::Crash;
pub use explain::{Explain, ExplainCache, ExplainFsync, ExplainFuse, Watched};
pub use prefetch::{Prefetch, PrefetchCommand, PrefetchDaemon};
pub use run::{Check, Run, Share, Transport};
pub use ssd::{Ssd, SsdAttach};
pub use stored::{Compare, Format, Report, Runs};

/// A laboratory for storage stacks: puts a known load on a stack, says how much it carries, and which is better.
#[derive(Debug, Parser)]
#[command(name = "loadline", version, about, max_term_width = 100, after_help = EXIT_CODES)]
pub struct Options {
    /// Where results, journals and images are kept [default: $XDG_STATE_HOME/loadline or ~/.local/state/loadline]
    #[arg(long, global = true, env = "LOADLINE_HOME", value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub home: Option<PathBuf>,
    /// Colours in the terminal
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    pub color: Color,
    /// More of what happens, on standard error
    #[arg(short, long, global = true)]
    pub verbose: bool,
    /// What to do
    #[command(subcommand)]
    pub command: Command,
}

const EXIT_CODES: &str = "\
Exit codes: 0 done; 1 ran, but a trial, claim or comparison failed; 2 bad input; 3 this machine cannot;
4 cannot tell; 130 interrupted (partial results are kept).";

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run workloads on stacks, or a study, and say which is better
    Run(Box<Run>),
    /// Read a workload or a study and say what it would do
    Check(Check),
    /// Compare two runs (or the stacks of one) and give verdicts
    Compare(Compare),
    /// Two stacks, workload settings or commands in turns until it is decided
    Ab(Box<crate::ab::Ab>),
    /// Raise the offered rate step by step: latency over the rate, and where the stack falls behind
    Sweep(Box<crate::sweep::Sweep>),
    /// A cell over all stored runs, and where its level changed
    Trend(crate::trend::Arguments),
    /// Say where the time of each fsync goes
    #[command(subcommand)]
    Explain(Explain),
    /// What would a load gain on another device? From its recorded fsyncs
    #[command(subcommand)]
    Whatif(crate::whatif::Whatif),
    /// Check the states that a power cut may leave: record a workload, bring each one up, judge it
    Crash(Crash),
    /// Record what a program does to its files, to run it again or to make a workload of it
    Record(crate::record::Record),
    /// Make a workload of a recording, and say how well it fits
    Describe(crate::describe::Describe),
    /// Say what a program under `crash` has made durable
    Mark(crate::mark::Mark),
    /// Show a stored run: terminal, HTML, CSV, JSON, Filebench's text
    Report(Report),
    /// Write stored runs as tables for other programs: Parquet, CSV
    Export(crate::export::Export),
    /// Run a published evaluation and judge its claims: BetrFS, CrossPrefetch, HotOS 2011, OPIMQ,
    /// Swissknife
    Reproduce(Box<crate::reproduce::Reproduce>),
    /// Run a workload in virtual time: containers on order-preserving and other stacks
    Simulate(Box<crate::simulate::Simulate>),
    /// Join the runs of shards (`run --shard`) to one, without loss
    Merge(crate::merge::Merge),
    /// List or delete stored runs
    Runs(Runs),
    /// Show stored runs and runs in progress as pages, on this machine
    Serve(crate::serve::Serve),
    /// Write a commented study or workload to begin with
    New(crate::new::New),
    /// Emulated SSDs as block devices: modelled timing, volatile cache, power cuts
    #[command(subcommand)]
    Ssd(Ssd),
    /// Make a file system of loadline's own
    Mkfs(crate::betrfs::Mkfs),
    /// Mount one
    Mount(crate::betrfs::Mount),
    /// Unmount one, and say if its store has failed
    Umount(crate::betrfs::Umount),
    /// Check one, and repair it
    Fsck(crate::betrfs::Fsck),
    /// Print what one consists of
    Dump(crate::betrfs::Dump),
    /// Run any program with its files prefetched ahead of its reads; say what was done for it
    Prefetch(Prefetch),
    /// Say what this machine can run; clean up what a killed run left behind
    Doctor(Doctor),
    /// Print shell completions
    Completions(Completions),
    /// Write the man pages
    Man(Man),
}

/// Options of `doctor`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  loadline doctor\n  loadline doctor --dry-run")]
pub struct Doctor {
    /// Only list what a killed run left behind
    #[arg(long)]
    pub dry_run: bool,
}

/// Options of `completions`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  loadline completions bash > /etc/bash_completion.d/loadline")]
pub struct Completions {
    /// The shell
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

/// Options of `man`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  loadline man /usr/local/share/man/man1\n  loadline man --markdown docs/reference"
)]
pub struct Man {
    /// Write one page of Markdown with all commands instead: `commands.md`
    #[arg(long)]
    pub markdown: bool,
    /// Directory for the pages
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub directory: PathBuf,
}
