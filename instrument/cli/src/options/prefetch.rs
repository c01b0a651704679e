//! Options of `prefetch`.

use clap::{Args, Subcommand};

/// Options of `prefetch`.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "\
Examples:
  loadline prefetch -- sqlite3 big.db 'select sum(x) from t'
  loadline prefetch --observe -- make         changes nothing, says what would be saved
  loadline prefetch --explain -- grep -r text tree
  loadline prefetch stat
  loadline prefetch explain 4711
  loadline prefetch daemon -- ./static-or-go-program      as root
  loadline prefetch harm --dir /data          does it harm on this machine?
  loadline prefetch compare --drop big.db -- sqlite3 big.db 'select sum(x) from t'
Modes: auto; predict (streams only); fetch-all (whole files at once); os-only (the program's hints are dropped);
app-only (nothing); observe. LOADLINE_PREFETCH=off in the environment turns it off in all programs started later."
)]
pub struct Prefetch {
    /// What to show
    #[command(subcommand)]
    pub what: Option<PrefetchCommand>,
    /// What is done
    #[arg(long, value_name = "MODE", default_value = "auto")]
    pub mode: String,
    /// Change nothing; say afterwards how much time prefetching would save
    #[arg(long, conflicts_with = "mode")]
    pub observe: bool,
    /// Say afterwards, on standard error, what was done for each file
    #[arg(long)]
    pub explain: bool,
    /// The largest file that is fetched for reads without order, in MiB [default: any]
    #[arg(long, value_name = "MIB")]
    pub budget: Option<u64>,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<std::ffi::OsString>,
}

/// What `prefetch` shows.
#[derive(Debug, Subcommand)]
pub enum PrefetchCommand {
    /// One line for each process that runs, or ran, under the prefetcher
    #[command(after_help = "Examples:\n  loadline prefetch stat\n  loadline prefetch stat 4711")]
    Stat {
        /// Only this process
        pid: Option<u32>,
    },
    /// What was done for each file of a process, and why not more
    #[command(after_help = "Examples:\n  loadline prefetch explain 4711")]
    Explain {
        /// The process
        pid: u32,
    },
    /// Prefetch for programs that cannot be preloaded: static, Go, musl, readers of mappings (needs root)
    Daemon(PrefetchDaemon),
    /// Does it harm on this machine? Programs that read in known patterns, without and with it in turns, judged
    Harm(Box<crate::harm::HarmOptions>),
    /// Does it harm, or help, this program? It is run without and with it in turns
    Compare(Box<crate::turns::CompareOptions>),
    /// Read a file in a pattern: the program that `harm` runs
    #[command(hide = true)]
    Reader(crate::harm::ReaderOptions),
}

/// Options of `prefetch daemon`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  loadline prefetch daemon -- ./go-program
  loadline prefetch daemon --pid 1234 --explain
  loadline prefetch daemon --cgroup system.slice/db.service
SIGINT and SIGTERM end it; SIGHUP has it close the files it holds, so that they can be unmounted.")]
pub struct PrefetchDaemon {
    /// Watch the processes of this cgroup (its directory, or its path below /sys/fs/cgroup) until a signal
    #[arg(long, value_name = "PATH", conflicts_with_all = ["pid", "command"])]
    pub cgroup: Option<std::path::PathBuf>,
    /// Watch these processes and those they make, until all of them have ended
    #[arg(long, value_name = "PID", num_args = 1.., conflicts_with = "command")]
    pub pid: Vec<u32>,
    /// What is done: auto, predict, fetch-all or observe
    #[arg(long, value_name = "MODE", default_value = "auto")]
    pub mode: String,
    /// Say at the end, on standard error, what was done for each file
    #[arg(long)]
    pub explain: bool,
    /// The largest file that is fetched for reads without order, in MiB [default: any]
    #[arg(long, value_name = "MIB")]
    pub budget: Option<u64>,
    /// Start this program and watch it
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<std::ffi::OsString>,
}
