//! Options of `run`, and of `check`, which reads what would be run.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};

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
  loadline run app.iolog --on xfs,btrfs --speed 2x    a log of `fio --write_iolog=app.iolog`
  loadline run app.trace --on ext4,xfs --speed max    a recording of what a program did to its files
  loadline run study.toml; loadline run study.toml --resume
  mpirun -n 64 loadline run workloads/varmail.f --on dir:/shared --for 60s
  mpirun -n 64 loadline run ior --on dir:/shared -- -F -b 1g -t 1m -e -C -w -r -R
  mpirun -n 64 loadline run mdtest --on dir:/shared -- -n 10000 -u -F -w 3901
  mpirun -n 64 loadline run io500 --on dir:/shared -- -D 300
  loadline run study.toml --shard 3/40 --home /shared/shard3; loadline merge /shared/shard*
  loadline run paper.toml --scale quick --rows ext4,xfs --columns table3")]
pub struct Run {
    /// Workloads in Filebench's WML, recordings of programs, job files (*.fio) and iologs of fio, property files of YCSB, built-in loads by name (tpcc, ycsb-a ...), or one study (*.toml)
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
    /// A database server that runs already, instead of a private one on the stack; @FILE reads the address from a file, so that
    /// no list of processes shows its password
    #[arg(long, value_name = "URL")]
    pub address: Option<String>,
    /// Values of a key-value load that say which record and version they are of, each checked when it is read
    #[arg(long)]
    pub verify: bool,
    /// Who runs job files of fio: loadline, or fio itself, whose JSON is kept; both, separated by a comma, are compared
    #[arg(long, value_name = "WHO")]
    pub with: Option<String>,
    /// How fast recordings and iologs of fio are replayed: 2x is twice as fast, max ignores their times; several, separated by
    /// commas, are swept [default: 1x]
    #[arg(long, value_name = "FACTOR|max")]
    pub speed: Option<String>,
    /// Trials of each cell [default: 6, or the study's]
    #[arg(long, short = 'n', value_name = "N")]
    pub trials: Option<u32>,
    /// After `--`: options of `run ior`, `run mdtest` and `run io500`, by the names that IOR and mdtest have for them; of `run fio`, its
    /// command line: loadline run fio --on tmpfs -- --name=x --rw=randread --size=64m
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
    /// Under mpirun or srun: what carries the ranks' messages; mpi only where loadline was built with it
    #[arg(long, value_enum, default_value_t = Transport::Tcp, value_name = "HOW")]
    pub transport: Transport,
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
    /// Trials of a block in turns, their stacks side by side: auto takes turns where that is valid and says so, off runs one trial
    /// after the other, a time such as 50ms is the length of a turn (docs/semantics.md). Ratios are several times more certain;
    /// rates are those beside another load. Without it the study's `interleave`, else off
    #[arg(long, value_name = "HOW")]
    pub interleave: Option<String>,
    /// Go on with the latest unfinished run of the same study
    #[arg(long)]
    pub resume: bool,
    /// Run part K of N of the plan only, such as 3/40, on this machine; `loadline merge` joins the parts
    #[arg(long, value_name = "K/N")]
    pub shard: Option<study::shard::Shard>,
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

/// What carries the messages of a launcher's ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Transport {
    /// TCP connections to rank 0
    Tcp,
    /// MPI itself
    Mpi,
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
    /// A workload (*.f), a recording, or a study (*.toml)
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// A variable of the workload or the study
    #[arg(long, value_name = "NAME=VALUE")]
    pub set: Vec<String>,
    #[command(flatten)]
    pub evaluating: crate::evaluation::Evaluating,
}
