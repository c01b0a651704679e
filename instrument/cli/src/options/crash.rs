//! Options of `crash`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

/// Options of `crash`.
#[derive(Debug, Args)]
#[command(after_help = "\
Stacks: ext4, xfs, btrfs, f2fs or betrfs on an emulated SSD, with the ordering it promises:
  ext4@980pro:flush          flushes count, nothing else does (today's drives)
  ext4@plp-datacenter        completed writes survive
  ext4,nobarrier@980pro:none flushes are ignored: shows how this file system breaks
  f2fs@860evo+kernel:debian-6.12  another kernel's, recorded and judged in a guest (docs/guests.md)
Workloads: create-fsync, append-fsync, overwrite-fdatasync, rename-replace, names, random, or a file in WML (then
only the file system's consistency is checked, since what it had synced is not known).
With --engine a database runs TPC-C instead; the power is cut under it, it recovers, and what it had acknowledged must be
there (docs/sql.md).
Behind -- stands a program of your own. It runs as you, in the stack's directory ({dir} in its arguments, LOADLINE_DIR), and
says by marks what it has made durable: `loadline mark NAME`, or a line to the pipe LOADLINE_MARKS. --check judges each state by
its exit code, in the mounted state; LOADLINE_MARK is the last mark that was passed, LOADLINE_MARKS_PASSED their number.

Examples:
  loadline crash --on ext4,xfs,btrfs@980pro
  loadline crash --on ext4@980pro:flush rename-replace --states 5000 --seed 7
  loadline crash --on ext4,nobarrier@980pro:none --keep broken/
  loadline crash --on ext4@980pro:barrier --order-only
  loadline crash --on xfs@980pro:1G workloads/varmail.f --for 2s --budget 5m
  loadline crash --engine innodb,myrocks,postgres --on ext4@980pro --cuts 100
  loadline crash --engine innodb --flush 0 --on ext4@980pro       must lose commits
  loadline crash --on ext4,xfs@980pro --check $PWD/check.sh -- $PWD/store --sync
  loadline crash --on ext4@980pro --check 'python3 $HOME/check.py {dir}/log' -- python3 $PWD/append.py {dir}/log
Exit code 1: some state is not what it must be (docs/crash.md).")]
pub struct Crash {
    /// A built-in workload, or a file in WML
    #[arg(value_name = "WORKLOAD", default_value = "random")]
    pub workload: String,
    /// The stacks
    #[arg(long, value_name = "STACKS")]
    pub on: String,
    /// Cut the power under a database: innodb, myrocks, postgres; several are checked one after the other
    #[arg(long, value_name = "ENGINES")]
    pub engine: Option<String>,
    /// Power cuts under a database
    #[arg(long, value_name = "N", default_value_t = 100, requires = "engine")]
    pub cuts: u32,
    /// When a database's commits are on the device: 1 before they are acknowledged, 2 and 0 later
    #[arg(long, value_name = "0|1|2", default_value_t = 1, requires = "engine", value_parser = clap::value_parser!(u8).range(0..=2))]
    pub flush: u8,
    /// Terminals of a database
    #[arg(long, value_name = "N", default_value_t = 8, requires = "engine", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub terminals: u32,
    /// A command for the shell that judges each state of a program: exit code 0 if it is what it must be
    #[arg(long, value_name = "COMMAND", requires = "program")]
    pub check: Option<String>,
    /// How long that command may take for a state; one that takes longer hangs, which is a violation
    #[arg(long, value_name = "TIME", default_value = "10s", requires = "check")]
    pub check_limit: String,
    /// A command for the shell that prepares the program's directory before the recording
    #[arg(long, value_name = "COMMAND", requires = "program")]
    pub setup: Option<String>,
    /// Distinct states to check, at most
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub states: usize,
    /// Seed of the workload and of the sample of states
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Workers [default: one for each processor]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub jobs: usize,
    /// Time for checking each stack, such as 5m
    #[arg(long, value_name = "TIME")]
    pub budget: Option<String>,
    /// How long a workload in WML runs
    #[arg(long = "for", value_name = "TIME", default_value = "1s")]
    pub length: String,
    /// Let a workload in WML start programs by `system`, with all your rights; `loadline check` lists them
    #[arg(long)]
    pub allow_system: bool,
    /// Keep the smallest failing case there: image, list of writes, checker's output
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub keep: Option<PathBuf>,
    /// Take flushes for cache barriers, which order and make nothing durable (regimes barrier and streams)
    #[arg(long)]
    pub order_only: bool,
    /// Count known weaknesses of a file system as violations, too
    #[arg(long)]
    pub strict: bool,
    /// Directory for images [default: /dev/shm, else the home of results]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub work_dir: Option<PathBuf>,
    /// No progress, only results
    #[arg(short, long)]
    pub quiet: bool,
    /// A program of your own, and its arguments
    #[arg(last = true, value_name = "PROGRAM", conflicts_with_all = ["workload", "engine", "length", "allow_system"])]
    pub program: Vec<String>,
}
