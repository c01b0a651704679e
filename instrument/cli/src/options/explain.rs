//! Options of `explain`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

/// What to explain.
#[derive(Debug, Subcommand)]
pub enum Explain {
    /// Split every fsync into host, data write, journal write, flush and FUA, from the kernel's own tracepoints
    Fsync(ExplainFsync),
    /// Show for each file what the page cache did: hits, read-ahead and what of it nobody asked for
    Cache(ExplainCache),
    /// Show what the requests of a FUSE file system cost: by kind and flowop, in the queue and in the daemon
    Fuse(ExplainFuse),
}

/// Options of `explain fsync`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  loadline explain fsync --on ext4
  loadline explain fsync --on xfs --count 1000 --svg fsync.svg --flame flame.svg
  loadline explain fsync --on btrfs --job workloads/varmail.f --for 5s
  loadline explain fsync --on ext4@980pro                on an emulated SSD
  loadline explain fsync --on dir:/mnt/data --table trace.txt")]
pub struct ExplainFsync {
    /// The stack
    #[arg(long, value_name = "STACK")]
    pub on: String,
    /// Fsyncs to make, each after an append of 4 KiB
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub count: u64,
    /// Explain the fsyncs of this workload instead
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub job: Option<PathBuf>,
    /// A variable of the workload
    #[arg(long, value_name = "NAME=VALUE", requires = "job")]
    pub set: Vec<String>,
    /// How long the workload runs
    #[arg(long = "for", value_name = "TIME", default_value = "5s")]
    pub length: String,
    /// Let the workload start programs by `system`, with all your rights; `loadline check` lists them
    #[arg(long)]
    pub allow_system: bool,
    /// Write the waterfall of a typical fsync as SVG
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub svg: Option<PathBuf>,
    /// Write where the time of all fsyncs went, level below level, as SVG
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub flame: Option<PathBuf>,
    /// Write every request as a row `Timestamp PName PID [sid1, eid1] [sid2, eid2] bflag qid optype`
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub table: Option<PathBuf>,
    /// Print every breakdown as JSON
    #[arg(long)]
    pub json: bool,
}

/// A workload that is watched on a stack.
#[derive(Debug, Args)]
pub struct Watched {
    /// The stack
    #[arg(long, value_name = "STACK")]
    pub on: String,
    /// The workload
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub job: PathBuf,
    /// A variable of the workload
    #[arg(long, value_name = "NAME=VALUE")]
    pub set: Vec<String>,
    /// How long the workload runs
    #[arg(long = "for", value_name = "TIME", default_value = "5s")]
    pub length: String,
    /// Let the workload start programs by `system`, with all your rights; `loadline check` lists them
    #[arg(long)]
    pub allow_system: bool,
}

/// Options of `explain cache`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  loadline explain cache --on ext4 --job workloads/seqread.f
  loadline explain cache --on xfs@980pro:2G --job workloads/randomread.f --set nthreads=4 --for 10s --files 50
  loadline explain cache --on dir:/mnt/data --job workloads/webserver.f --warm

Columns: MiB asked for; share that was in the cache; share that read-ahead had brought in time; MiB read in; read-ahead
windows and their mean size; share of what was read in that nobody asked for; MiB in the cache at the end.")]
pub struct ExplainCache {
    #[command(flatten)]
    pub watched: Watched,
    /// Leave in the cache what creating the files has put there
    #[arg(long)]
    pub warm: bool,
    /// Files to list, the most wanted first
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub files: usize,
    /// Print everything as JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of `explain fuse`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  loadline explain fuse --on betrfs@860evo --job workloads/webserver.f
  loadline explain fuse --on dir:/mnt/sshfs --job workloads/varmail.f --for 10s --json

Any FUSE file system will do; its daemon is not changed. queue: from sending until the daemon takes it; daemon: until
the answer is there; elsewhere: what a flowop spends in no request, as in locks, waiting for a CPU, or computing.")]
pub struct ExplainFuse {
    #[command(flatten)]
    pub watched: Watched,
    /// Print everything as JSON
    #[arg(long)]
    pub json: bool,
}
