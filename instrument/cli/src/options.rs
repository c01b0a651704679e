//! Every option, once.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};

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
    /// Mount one; `umount` ends it
    Mount(crate::betrfs::Mount),
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

/// Options of `run`.
#[derive(Debug, Args)]
#[command(after_help = "\
Stacks are written FS[,option...][@DEVICE]; a comma before a known file system begins the next stack:
  ext4,xfs,btrfs             each on a fresh sparse image, on a loop device with direct I/O
  ext4,data=journal@image:8G mount options, and the size of the image
  'ext4,mkfs:-O ^has_journal' words for mkfs
  tmpfs                      memory, as the ceiling
  dir:/mnt/data              a private directory in a file system that is mounted already
  xfs@/dev/sdx               a real device; it must be named again with --erase
  f2fs@nvme+kernel:debian-6.12  in a guest with a kernel of Debian, on QEMU's NVMe device (see docs/guests.md)

A workload is a file, a load by name (tpcc, ycsb-a ...), or one that loadline has with it, which needs no file: varmail.
`loadline new workload mine.f --from varmail` writes that one out, to change.

Examples:
  loadline run varmail --on ext4,xfs,btrfs --trials 5
  loadline run varmail.f --on dir:/mnt/data --set nfiles=50000 --set nthreads=32 --for 30s
  loadline run workloads/randomread.f --on ext4 --set nthreads=1,4,16 --cold --memory 1G
  loadline run workloads/randomwrite.f --on xfs --io uring:32 --html report.html
  loadline run workloads/varmail.f --on ext4 --rate 5000 --for 60s
  loadline run workloads/varmail.f --on ext4@980pro --containers 40,100,200
  loadline run workloads/varmail.f --on ext4@980pro,xfs@980pro --explain --html report.html
  loadline run workloads/varmail.f --on f2fs@nvme+kernel:debian-6.12,ext4@nvme+kernel:debian-6.12
  loadline run workloads/varmail.f --on ext4@null,xfs@null --deterministic --for 1s
  loadline run tpcc --engine innodb,myrocks,postgres --terminals 32 --on ext4@980pro:8G --for 60s
  loadline run oltp-insert --engine innodb,myrocks --on ext4,xfs --set rows=1000000 --rate 500
  loadline run oltp-read-only --address mysql://user:password@host:3306/empty --on dir:/tmp
  loadline run ycsb-a --engine rocksdb,sqlite,lmdb --on ext4@860evo,xfs@860evo --set recordcount=1000000
  loadline run ycsb-b --engine redis,redis-cluster --terminals 50 --rate 20000 --verify --on ext4
  loadline run workloada --engine rocksdb --on ext4     a property file of YCSB, unchanged
  loadline run job.fio --on ext4@980pro --with loadline,fio --for 10s
  loadline run study.toml; loadline run study.toml --resume
  mpirun -n 64 loadline run workloads/varmail.f --on dir:/shared --for 60s
  mpirun -n 64 loadline run ior --on dir:/shared -- -F -b 1g -t 1m -e -C -w -r -R
  mpirun -n 64 loadline run mdtest --on dir:/shared -- -n 10000 -u -F -w 3901
  mpirun -n 64 loadline run io500 --on dir:/shared -- -D 300
  loadline run study.toml --shard 3/40 --home /shared/shard3; loadline merge /shared/shard*
  loadline run paper.toml --scale quick --rows ext4,xfs --columns table3")]
pub struct Run {
    /// Workloads in Filebench's WML, job files of fio (*.fio), property files of YCSB, built-in loads by name (tpcc, ycsb-a ...), or one study (*.toml)
    #[arg(required = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub files: Vec<PathBuf>,
    /// The stacks to compare [default: dir:. , a private directory in the current one]
    #[arg(long, value_name = "STACKS")]
    pub on: Option<String>,
    /// A variable of the workload; several values, separated by commas, are swept. Of a study: one of its variables
    #[arg(long, value_name = "NAME=VALUE")]
    pub set: Vec<String>,
    /// What stores the data of a database load: innodb, myrocks, postgres; of a key-value load: rocksdb, sqlite, lmdb,
    /// redis, redis-cluster; several, separated by commas, are swept
    #[arg(long, value_name = "ENGINES")]
    pub engine: Option<String>,
    /// Terminals of a database load, each with a connection; several numbers are swept
    #[arg(long, value_name = "N")]
    pub terminals: Option<String>,
    /// A database server that runs already, instead of a private one on the stack
    #[arg(long, value_name = "URL")]
    pub address: Option<String>,
    /// Values of a key-value load that say which record and version they are of, each checked when it is read
    #[arg(long)]
    pub verify: bool,
    /// Who runs job files of fio: loadline, or fio itself, whose JSON is kept; both, separated by a comma, are compared
    #[arg(long, value_name = "WHO")]
    pub with: Option<String>,
    /// Trials of each cell [default: 6, or the study's]
    #[arg(long, short = 'n', value_name = "N")]
    pub trials: Option<u32>,
    /// After `--`: options of `run ior`, `run mdtest` and `run io500`, by the names that IOR and mdtest have for them
    #[arg(last = true, value_name = "OPTIONS", allow_hyphen_values = true)]
    pub own: Vec<String>,
    /// Measured time of each trial, such as 30s or 5m [default: the workload's own]
    #[arg(long = "for", value_name = "TIME")]
    pub length: Option<String>,
    /// Load before the measured interval
    #[arg(long, value_name = "TIME")]
    pub warmup: Option<String>,
    /// End each trial after this many I/O operations
    #[arg(long, value_name = "N")]
    pub ops: Option<u64>,
    /// Offered load in I/O operations a second; latency is then measured from the intended start too
    #[arg(long, value_name = "OPS")]
    pub rate: Option<f64>,
    /// How reads and writes are issued: psync, or uring:DEPTH
    #[arg(long, value_name = "ENGINE")]
    pub io: Option<String>,
    /// Seed of every random choice: the same seed gives the same operations
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Unmount, mount and drop the caches between creating the files and the load
    #[arg(long)]
    pub cold: bool,
    /// Trace the load and show where its fsyncs spend their time
    #[arg(long)]
    pub explain: bool,
    /// Memory limit of the load, page cache included (a cgroup), such as 512M; with --containers, of each
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<String>,
    /// Build every stack in a guest of virtual time that repeats to the bit (on `+kernel:debian-6.12` where none is named);
    /// differences of half a percent show in few trials
    #[arg(long)]
    pub deterministic: bool,
    /// Run the load in N containers at once, begun together; several numbers, separated by commas, are swept
    #[arg(long, value_name = "N")]
    pub containers: Option<String>,
    /// Under mpirun or srun: each rank has files of its own, or all work on one set of files
    #[arg(long, value_enum, default_value_t = Share::PerRank, value_name = "HOW")]
    pub share: Share,
    /// Under mpirun or srun: a directory that all hosts see, where the ranks meet [default: in the home of results]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub rendezvous: Option<PathBuf>,
    /// Stretch the emulated SSD's time, so that a small machine is bound by the device and ratios hold; 0.01 to 10000
    #[arg(long, value_name = "FACTOR")]
    pub time_scale: Option<f64>,
    /// How much of each written block is compressible
    #[arg(long, value_name = "PERCENT")]
    pub compress: Option<u8>,
    /// Share of written blocks that repeat others
    #[arg(long, value_name = "PERCENT")]
    pub duplicate: Option<u8>,
    /// End a trial without a result when no file can be picked, as Filebench does
    #[arg(long)]
    pub strict: bool,
    /// Kill a trial that takes longer, creation of files included
    #[arg(long, value_name = "TIME")]
    pub timeout: Option<String>,
    /// No more trials for a cell once the 95 % interval of its median is within +- this share
    #[arg(long, value_name = "PERCENT")]
    pub stop_early: Option<f64>,
    /// Go on with the latest unfinished run of the same study
    #[arg(long)]
    pub resume: bool,
    /// Run part K of N of the plan only, such as 3/40, on this machine; `loadline merge` joins the parts
    #[arg(long, value_name = "K/N")]
    pub shard: Option<record::shard::Shard>,
    /// A block device, or a file for `backing=`, that may be overwritten; all data on it is lost
    #[arg(long, value_name = "DEVICE|FILE", value_hint = ValueHint::FilePath)]
    pub erase: Option<String>,
    /// Let workloads start programs by `system`, with all your rights; `loadline check` lists them
    #[arg(long)]
    pub allow_system: bool,
    /// Leave the last stack mounted for inspection (`loadline doctor` takes it down)
    #[arg(long)]
    pub keep: bool,
    /// Directory for image files [default: images/ in the home of results]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub work_dir: Option<PathBuf>,
    /// Write the report as one HTML file too
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub html: Option<PathBuf>,
    /// Write CSV files into this directory; of an evaluation its artifact's too, and the drawings
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub csv: Option<PathBuf>,
    /// A title for the report
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,
    /// A name for the run, by which other commands find it: --name before; loadline compare before after
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    #[command(flatten)]
    pub evaluating: crate::evaluation::Evaluating,
    /// No progress, only results
    #[arg(short, long)]
    pub quiet: bool,
}

/// How the ranks of a launcher use the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Share {
    /// Files of its own for each rank
    PerRank,
    /// One set of files for all
    Shared,
}

/// Options of `check`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  loadline check varmail.f\n  loadline check old.f --set nfiles=50000\n  loadline check study.toml"
)]
pub struct Check {
    /// A workload (*.f) or a study (*.toml)
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// A variable of the workload or the study
    #[arg(long, value_name = "NAME=VALUE")]
    pub set: Vec<String>,
    #[command(flatten)]
    pub evaluating: crate::evaluation::Evaluating,
}

/// Options of `compare`.
#[derive(Debug, Args)]
#[command(after_help = "\
A run is named by its id, the beginning of it, its name (`run --name`), `last`, or `last~2`, two before the last.

Examples:
  loadline compare 20261120-19 last
  loadline compare last                 the stacks of one run against the first of them
  loadline compare last --baseline xfs")]
pub struct Compare {
    /// The baseline
    #[arg(value_name = "RUN_A")]
    pub a: String,
    /// The candidate; without it the stacks of the one run are compared
    #[arg(value_name = "RUN_B")]
    pub b: Option<String>,
    /// With one run: the stack that the others are compared with [default: the first]
    #[arg(long, value_name = "STACK")]
    pub baseline: Option<String>,
    /// With two runs: a stack that both hold and that was not changed; the others are compared by their ratio to it
    #[arg(long, value_name = "STACK", requires = "b")]
    pub anchor: Option<String>,
    /// Differences within this are the same, if the whole interval of the ratio lies within it
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0)]
    pub margin: f64,
    /// Probability of error allowed for better and worse
    #[arg(long, value_name = "P", default_value_t = 0.05)]
    pub alpha: f64,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// What to do with emulated SSDs.
#[derive(Debug, Subcommand)]
pub enum Ssd {
    /// Start one and print its block device
    Attach(SsdAttach),
    /// Stop one; its contents are lost unless they are in a file
    Detach(SsdDetach),
    /// List the ones that are attached
    #[command(after_help = "Examples:\n  loadline ssd list")]
    List,
    /// Counters: write amplification, cache hits, erases, queue depths (Prometheus text)
    Stats(SsdName),
    /// Make what is recorded of a device readable up to now, behind a mark if one is given
    Record(SsdRecord),
    /// Cut its power: freeze it and write what a reboot would find into an image file
    PowerCut(SsdPowerCut),
}

/// Options of `ssd attach`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  loadline ssd attach --profile 980pro --size 8G
  loadline ssd attach --profile 860evo --size 4G --name slow --time-scale 2
  loadline ssd attach --profile 980pro --size 1G --record writes.log
  dev=$(loadline ssd attach --profile ideal --size 2G) && mkfs.ext4 $dev && mount $dev /mnt
Profiles: 860evo, 980pro, optane, plp-datacenter, hdd, ideal, or a TOML file (docs/ssd.md).")]
pub struct SsdAttach {
    /// Model of the device
    #[arg(long)]
    pub profile: String,
    /// Size, such as 8G
    #[arg(long, value_name = "SIZE")]
    pub size: String,
    /// A name for the other commands [default: the profile]
    #[arg(long)]
    pub name: Option<String>,
    /// Ordering contract: none, flush, barrier or streams
    #[arg(long, default_value = "flush")]
    pub regime: String,
    /// Modelled times are multiplied by this
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    pub time_scale: f64,
    /// Where the contents are: `ram`, or a file; one that exists is attached as it is and must have the device's size
    #[arg(long, value_name = "ram|FILE", default_value = "ram")]
    pub backing: String,
    /// What a flush costs that stands in for FUA: `modelled` (a FUA write of the device) or `flush`
    #[arg(long, value_name = "modelled|flush", default_value = "modelled")]
    pub fua: String,
    /// The way to the daemon: classic (/dev/fuse), uring (FUSE over io_uring), auto: uring where the kernel's
    /// switch is on, or fastest: uring where it works
    #[arg(long, default_value = "auto")]
    pub transport: String,
    /// Record every write, discard and flush in this new file (docs/blockdev.md)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub record: Option<PathBuf>,
}

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
    pub what: Option<PrefetchWhat>,
    /// What is done
    #[arg(long, value_name = "MODE", default_value = "auto")]
    pub mode: String,
    /// Change nothing; say afterwards how much time prefetching would save
    #[arg(long, conflicts_with = "mode")]
    pub observe: bool,
    /// Say afterwards, on standard error, what was done for each file
    #[arg(long)]
    pub explain: bool,
    /// The most that may be prefetched and unread, in MiB [default: by the free memory and the cgroup]
    #[arg(long, value_name = "MIB")]
    pub budget: Option<u64>,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<std::ffi::OsString>,
}

/// What `prefetch` shows.
#[derive(Debug, Subcommand)]
pub enum PrefetchWhat {
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
    /// The most that may be prefetched and unread, in MiB [default: by the free memory and the cgroup]
    #[arg(long, value_name = "MIB")]
    pub budget: Option<u64>,
    /// Start this program and watch it
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<std::ffi::OsString>,
}

/// Options of `ssd detach`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  loadline ssd detach 980pro\n  loadline ssd detach /dev/loop0")]
pub struct SsdDetach {
    /// Its name, or the block device that `attach` printed
    pub name: String,
    /// Even when it is in use: whoever uses it gets I/O errors
    #[arg(long)]
    pub force: bool,
}

/// Names an emulated SSD.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  loadline ssd stats 980pro\n  loadline ssd stats /dev/loop0")]
pub struct SsdName {
    /// Its name, or the block device that `attach` printed
    pub name: String,
}

/// Options of `ssd record`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  loadline ssd record 980pro\n  loadline ssd record 980pro --mark 'after the fsync'"
)]
pub struct SsdRecord {
    /// Its name, or the block device that `attach` printed
    pub name: String,
    /// Text to stand behind all that was answered before
    #[arg(long, value_name = "TEXT")]
    pub mark: Option<String>,
}

/// Options of `ssd power-cut`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  loadline ssd power-cut 980pro after.img")]
pub struct SsdPowerCut {
    /// Its name, or the block device that `attach` printed
    pub name: String,
    /// The image file to write, which must not exist
    #[arg(value_hint = ValueHint::FilePath)]
    pub image: PathBuf,
}

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

/// Options of `explain fuse`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  loadline explain fuse --on betrfs@860evo --job workloads/webserver.f
  loadline explain fuse --on dir:/mnt/sshfs --job workloads/varmail.f --for 10s --json

Any FUSE file system will do; its daemon is not changed. queue: from sending until the daemon takes it; daemon: until
the answer is there; elsewhere: what a flowop spends in no request, as in locks, waiting for a CPU, or computing.")]
pub struct ExplainFuse {
    /// The stack
    #[arg(long, value_name = "STACK")]
    pub on: String,
    /// The workload
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub job: PathBuf,
    /// How long the workload runs
    #[arg(long = "for", value_name = "TIME", default_value = "5s")]
    pub length: String,
    /// Let the workload start programs by `system`, with all your rights; `loadline check` lists them
    #[arg(long)]
    pub allow_system: bool,
    /// Print everything as JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of `explain cache`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  loadline explain cache --on ext4 --job workloads/seqread.f
  loadline explain cache --on xfs@980pro:2G --job workloads/randomread.f --for 10s --files 50
  loadline explain cache --on dir:/mnt/data --job workloads/webserver.f --warm

Columns: MiB asked for; share that was in the cache; share that read-ahead had brought in time; MiB read in; read-ahead
windows and their mean size; share of what was read in that nobody asked for; MiB in the cache at the end.")]
pub struct ExplainCache {
    /// The stack
    #[arg(long, value_name = "STACK")]
    pub on: String,
    /// The workload
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub job: PathBuf,
    /// How long the workload runs
    #[arg(long = "for", value_name = "TIME", default_value = "5s")]
    pub length: String,
    /// Let the workload start programs by `system`, with all your rights; `loadline check` lists them
    #[arg(long)]
    pub allow_system: bool,
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

/// Options of `crash`.
#[derive(Debug, Args)]
#[command(after_help = "\
Stacks: ext4, xfs, btrfs or betrfs on an emulated SSD, with the ordering it promises:
  ext4@980pro:flush          flushes count, nothing else does (today's drives)
  ext4@plp-datacenter        completed writes survive
  ext4,nobarrier@980pro:none flushes are ignored: shows how this file system breaks
Workloads: create-fsync, append-fsync, overwrite-fdatasync, rename-replace, names, random, or a file in WML (then
only the file system's consistency is checked, since what it had synced is not known).
With --engine a database runs TPC-C instead; the power is cut under it, it recovers, and what it had acknowledged must be
there (docs/sql.md).

Examples:
  loadline crash --on ext4,xfs,btrfs@980pro
  loadline crash --on ext4@980pro:flush rename-replace --states 5000 --seed 7
  loadline crash --on ext4,nobarrier@980pro:none --keep broken/
  loadline crash --on ext4@980pro:barrier --order-only
  loadline crash --on xfs@980pro:1G workloads/varmail.f --for 2s --budget 5m
  loadline crash --engine innodb,myrocks,postgres --on ext4@980pro --cuts 100
  loadline crash --engine innodb --flush 0 --on ext4@980pro       must lose commits
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
}

/// Options of `report`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  loadline report                              the latest run, in the terminal
  loadline report last --html r.html --csv out/
  loadline report 20261120-1915 --format filebench
  loadline report last --format json | jq .summary")]
pub struct Report {
    /// A run: its id, the beginning of it, or `last`
    #[arg(value_name = "RUN", default_value = "last")]
    pub run: String,
    /// What to print
    #[arg(long, value_enum, default_value_t = Format::Terminal)]
    pub format: Format,
    /// Write one self-contained HTML file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub html: Option<PathBuf>,
    /// Write CSV files into this directory
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub csv: Option<PathBuf>,
    /// Write JSON
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub json: Option<PathBuf>,
    /// Write all histograms as an HdrHistogram log
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub hdr: Option<PathBuf>,
}

/// What `report` prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Tables
    Terminal,
    /// The text that Filebench 1.5 prints, for each trial
    Filebench,
    /// JSON
    Json,
    /// Nothing (with --html, --csv ...)
    None,
}

/// Options of `runs`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  loadline runs\n  loadline runs --filter ext4\n  loadline runs --delete before"
)]
pub struct Runs {
    /// Delete this run
    #[arg(long, value_name = "RUN")]
    pub delete: Option<String>,
    /// Only runs with this in their id, name or title
    #[arg(long, value_name = "TEXT")]
    pub filter: Option<String>,
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
