//! The workload: plain data, fully resolved (no variables, no names to look up but targets of flowops). As JSON it goes from
//! the process that resolved it to the one that runs it.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// A workload, ready to run on any target.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Workload {
    /// Name for reports, usually the file's stem.
    pub name: String,
    /// Filesets in order of definition; flowops refer to them by index.
    pub filesets: Vec<Fileset>,
    /// Processes in order of definition.
    pub processes: Vec<Process>,
    /// Random variables; values refer to them by index.
    pub draws: Vec<Draw>,
    /// When the run ends.
    pub end: EndMode,
    /// What the script does, in order; holds exactly one [`Step::Run`], as its last step.
    pub script: Vec<Step>,
    /// Events per second of `eventgen`; `None` or 0: limiters let everything pass.
    pub events_per_second: Option<Value>,
    /// `enable lathist`: Filebench's power-of-two latency counters at the end of the run and in its text report.
    pub latency_counters: bool,
    /// Seed that the file itself asks for; the command line's goes before it.
    pub seed: Option<u64>,
}

/// A number: fixed, or drawn anew at every evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Value {
    /// A fixed value.
    Int(u64),
    /// Index into [`Workload::draws`].
    Draw(usize),
}

impl Default for Value {
    fn default() -> Self {
        Value::Int(0)
    }
}

impl Value {
    /// The value when it is fixed.
    pub fn fixed(self) -> Option<u64> {
        match self {
            Value::Int(value) => Some(value),
            Value::Draw(_) => None,
        }
    }
}

/// A random variable: `randvar(...)` or `cvar(...)`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Draw {
    /// The variable's name without `$`; empty for an anonymous one.
    pub name: String,
    /// Mixed into the run's seed for this variable's stream.
    pub seed: u64,
    /// The distribution of raw values.
    pub distribution: Distribution,
    /// Round to a multiple of this; 0: no rounding. (Filebench's two kinds of variables round differently,
    /// see [`Rounding`].)
    pub round: u64,
    /// Which rule `round` follows.
    pub rounding: Rounding,
    /// Lower clamp after rounding (custom variables only).
    pub clamp_min: Option<f64>,
    /// Upper clamp after rounding (custom variables only).
    pub clamp_max: Option<f64>,
}

/// How [`Draw::round`] rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rounding {
    /// To the nearest multiple, halves up (`randvar`).
    #[default]
    Nearest,
    /// The value is truncated to an integer first, then to the nearest multiple, halves down (`cvar`).
    TruncatedNearest,
}

/// Distributions; parameters are already in their final unit (never "x 1000").
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Distribution {
    /// Always this value.
    Constant(f64),
    /// Uniform on `[low, high)`.
    Uniform {
        /// Lower end.
        low: f64,
        /// Upper end, excluded.
        high: f64,
    },
    /// `shift + Gamma(shape, scale)`.
    Gamma {
        /// Added to every value.
        shift: f64,
        /// Shape k > 0.
        shape: f64,
        /// Scale theta > 0.
        scale: f64,
    },
    /// A piecewise uniform table: rows of (percent, segment low, segment high), then `value * factor + shift`.
    Table {
        /// Rows; the percents add up to 100.
        rows: Vec<TableRow>,
        /// Multiplied first.
        factor: f64,
        /// Added after.
        shift: f64,
    },
    /// Normal.
    Normal {
        /// Mean.
        mean: f64,
        /// Standard deviation >= 0.
        sigma: f64,
    },
    /// `exp(Normal(log_mean, log_sigma))`.
    LogNormal {
        /// Mean of the logarithm.
        log_mean: f64,
        /// Standard deviation of the logarithm.
        log_sigma: f64,
    },
    /// Exponential with this mean.
    Exponential {
        /// Mean >= 0.
        mean: f64,
    },
    /// Erlang: the mean of the result is `mean`.
    Erlang {
        /// Order >= 1.
        shape: u64,
        /// Mean of the result.
        mean: f64,
    },
    /// Weibull: `scale * (-ln U)^(1/shape)`.
    Weibull {
        /// Shape > 0.
        shape: f64,
        /// Scale > 0.
        scale: f64,
    },
    /// Triangular.
    Triangular {
        /// Lower end.
        low: f64,
        /// Upper end.
        high: f64,
        /// Most likely value, between the ends.
        mode: f64,
    },
}

/// One row of a table distribution.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TableRow {
    /// Share in percent.
    pub percent: f64,
    /// Lower end of the segment.
    pub low: f64,
    /// Upper end of the segment.
    pub high: f64,
}

/// A tree of files (`define fileset`), or a single file (`define file`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fileset {
    /// Name; the tree's root is `path/name`.
    pub name: String,
    /// Parent directory as the file writes it; the runner maps it into the target.
    pub path: String,
    /// `define file`: one entry, or a raw device when `path/name` is a block device.
    pub single: bool,
    /// Number of files.
    pub entries: u64,
    /// Number of empty leaf directories.
    pub leafdirs: u64,
    /// Mean entries per directory.
    pub dir_width: Value,
    /// Gamma shape of width and depth; 0: constant.
    pub dir_gamma: f64,
    /// Depth of each directory, drawn from this variable instead of the gamma one.
    pub dir_depth: Option<usize>,
    /// Size of a file in bytes, evaluated once for each file.
    pub size: Value,
    /// Share of the files that exist at the start, in percent, 0 to 100.
    pub prealloc_percent: u8,
    /// Create the files with several threads.
    pub parallel_alloc: bool,
    /// Keep a tree that is there.
    pub reuse: bool,
    /// Believe that the tree is there and right.
    pub trust_tree: bool,
    /// Open read-only.
    pub read_only: bool,
    /// Open write-only (unless `read_only`).
    pub write_only: bool,
    /// What its files hold when they are made.
    #[serde(default)]
    pub contents: Contents,
}

/// What a file holds when it is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Contents {
    /// Data, in all its size.
    #[default]
    Data,
    /// Nothing: blocks are allocated by `fallocate`, and the size is set. Where the file system cannot, it is empty.
    Allocated,
    /// Nothing: blocks are allocated, the size stays 0.
    AllocatedBeyondEnd,
    /// Nothing: the size is set by `ftruncate`.
    Hole,
    /// Nothing: its size is 0.
    Empty,
}

/// A process definition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Process {
    /// Name.
    pub name: String,
    /// How many of it.
    pub instances: u64,
    /// Added to the nice value.
    pub nice: i32,
    /// Its threads in order of definition.
    pub threads: Vec<Thread>,
}

/// A thread definition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Thread {
    /// Name.
    pub name: String,
    /// How many of it in each instance of the process.
    pub instances: u64,
    /// Bytes of buffer; 0: as large as its largest transfer.
    pub memory_bytes: Value,
    /// Best-effort I/O priority 0-7.
    pub io_priority: Option<u8>,
    /// The loop body. Of a [`Thread::stream`]: its operations in the order read, write, fsync, fdatasync.
    pub body: Vec<Node>,
    /// It issues a stream of transfers instead of running its body.
    #[serde(default)]
    pub stream: Option<Box<crate::Stream>>,
}

/// One step of a thread's loop: a flowop, or a composite one with its inner list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Node {
    /// A flowop.
    Op(FlowOp),
    /// A composite flowop: its body, `iters` times.
    Group {
        /// Instance name.
        name: String,
        /// Executions at each visit.
        iters: Value,
        /// Inner steps; their flowops are called `instance.inner`.
        body: Vec<Node>,
    },
}

/// Types of flowops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names are Filebench's; their semantics stand in docs/wml-reference.md")]
pub enum Kind {
    OpenFile,
    CreateFile,
    CloseFile,
    DeleteFile,
    StatFile,
    Read,
    Write,
    ReadWholeFile,
    WriteWholeFile,
    AppendFile,
    AppendFileRand,
    Fsync,
    FsyncSet,
    MakeDir,
    RemoveDir,
    ListDir,
    AioWrite,
    AioWait,
    SemBlock,
    SemPost,
    Block,
    Wakeup,
    EventLimit,
    IopsLimit,
    OpsLimit,
    BwLimit,
    FinishOnCount,
    FinishOnBytes,
    Delay,
    Hog,
    Print,
    TestRandVar,
}

impl Kind {
    /// Every kind, with its name in WML.
    pub const ALL: [(Kind, &'static str); 32] = [
        (Kind::OpenFile, "openfile"),
        (Kind::CreateFile, "createfile"),
        (Kind::CloseFile, "closefile"),
        (Kind::DeleteFile, "deletefile"),
        (Kind::StatFile, "statfile"),
        (Kind::Read, "read"),
        (Kind::Write, "write"),
        (Kind::ReadWholeFile, "readwholefile"),
        (Kind::WriteWholeFile, "writewholefile"),
        (Kind::AppendFile, "appendfile"),
        (Kind::AppendFileRand, "appendfilerand"),
        (Kind::Fsync, "fsync"),
        (Kind::FsyncSet, "fsyncset"),
        (Kind::MakeDir, "makedir"),
        (Kind::RemoveDir, "removedir"),
        (Kind::ListDir, "listdir"),
        (Kind::AioWrite, "aiowrite"),
        (Kind::AioWait, "aiowait"),
        (Kind::SemBlock, "semblock"),
        (Kind::SemPost, "sempost"),
        (Kind::Block, "block"),
        (Kind::Wakeup, "wakeup"),
        (Kind::EventLimit, "eventlimit"),
        (Kind::IopsLimit, "iopslimit"),
        (Kind::OpsLimit, "opslimit"),
        (Kind::BwLimit, "bwlimit"),
        (Kind::FinishOnCount, "finishoncount"),
        (Kind::FinishOnBytes, "finishonbytes"),
        (Kind::Delay, "delay"),
        (Kind::Hog, "hog"),
        (Kind::Print, "print"),
        (Kind::TestRandVar, "testrandvar"),
    ];

    /// The name in WML.
    pub fn name(self) -> &'static str {
        Kind::ALL.iter().find(|(kind, _)| *kind == self).map_or("?", |(_, name)| name)
    }

    /// The kind of that name.
    pub fn from_name(name: &str) -> Option<Kind> {
        Kind::ALL.iter().find(|(_, known)| *known == name).map(|(kind, _)| *kind)
    }
}

/// A flowop with its attributes; an attribute that a kind does not use is ignored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FlowOp {
    /// Instance name, for inner ones of composites `outer.inner`.
    pub name: String,
    /// What it does.
    pub kind: Kind,
    /// Executions at each visit.
    pub iters: Value,
    /// Index into [`Workload::filesets`].
    pub fileset: Option<usize>,
    /// File slot of the thread, 0-127.
    pub fd: u8,
    /// Slot whose file gives the size to `writewholefile`, 0-127.
    pub src_fd: u8,
    /// Bytes per transfer.
    pub io_size: Value,
    /// Limit of random offsets in bytes; 0: the file's nominal size.
    pub working_set: Value,
    /// Random offsets instead of sequential ones.
    pub random: bool,
    /// Explicit offset in bytes, evaluated at every execution (an extension); goes before `random`.
    pub offset: Option<Value>,
    /// `O_SYNC` when it opens; of `fsync`: data alone (fdatasync).
    pub dsync: bool,
    /// `O_DIRECT` when it opens.
    pub direct_io: bool,
    /// `POSIX_FADV_RANDOM` when it opens.
    pub no_read_ahead: bool,
    /// Pick file number `value mod entries` instead of the next in turn.
    pub index: Option<Value>,
    /// Rotate over the slots, with a file rotor of the thread's own.
    pub open_next: bool,
    /// The number that the kind needs: seconds, count, bytes, tokens ...
    pub value: Value,
    /// Text of `print`.
    pub text: Option<String>,
    /// Name of the flowop that this one refers to.
    pub target: Option<String>,
    /// Semaphore high-water mark.
    pub highwater: u64,
    /// `sempost`: wait while the high-water mark is reached.
    pub blocking: bool,
}

impl FlowOp {
    /// A flowop with Filebench's defaults.
    pub fn new(name: impl Into<String>, kind: Kind) -> Self {
        FlowOp {
            name: name.into(),
            kind,
            iters: Value::Int(1),
            fileset: None,
            fd: 0,
            src_fd: 0,
            io_size: Value::Int(0),
            working_set: Value::Int(0),
            random: false,
            offset: None,
            dsync: false,
            direct_io: false,
            no_read_ahead: false,
            index: None,
            open_next: false,
            value: Value::Int(0),
            text: None,
            target: None,
            highwater: 1,
            blocking: false,
        }
    }
}

/// When a run ends (`set mode quit ...`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndMode {
    /// When the time is up.
    #[default]
    Timeout,
    /// When every thread is done.
    AllDone,
    /// When the first thread is done.
    FirstDone,
}

/// A step of the script.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Print a line.
    Echo(String),
    /// Run a shell command.
    System(String),
    /// Print the filesets (`list fileset`).
    ListFilesets {
        /// How many of [`Workload::filesets`] were defined at that place.
        defined: usize,
    },
    /// Wait.
    SleepSeconds(u64),
    /// Create the filesets now (they are created by `Run` otherwise).
    CreateFiles,
    /// Run the processes.
    Run {
        /// Length; `None`: 60 s in mode timeout, else until done.
        seconds: Option<u64>,
        /// End after this many I/O operations (an extension).
        ops: Option<u64>,
        /// Seconds between periodic reports; negative: counters restart at each; `None`: no such reports.
        report_period_seconds: Option<i64>,
        /// Seconds of warm-up before the measured interval (`warmup N` of older dialects).
        warmup_seconds: u64,
    },
}

impl Workload {
    /// The shell commands that the script runs, in order.
    pub fn programs(&self) -> impl Iterator<Item = &str> {
        self.script.iter().filter_map(|step| match step {
            Step::System(command) => Some(command.as_str()),
            _ => None,
        })
    }

    /// The threads of all processes, each kind of thread once.
    pub fn threads(&self) -> impl Iterator<Item = &Thread> {
        self.processes.iter().flat_map(|process| &process.threads)
    }

    /// The streams of those threads that issue one.
    pub fn streams(&self) -> impl Iterator<Item = &crate::Stream> {
        self.threads().filter_map(|thread| thread.stream.as_deref())
    }

    /// Seconds for which all threads wait before they begin: the shortest delay of its streams. They are no part of the load.
    pub fn common_delay_seconds(&self) -> f64 {
        let of = |thread: &Thread| thread.stream.as_ref().map_or(0.0, |stream| stream.budget.delay_seconds);
        self.threads().map(of).reduce(f64::min).unwrap_or(0.0)
    }

    /// Bytes that the files of replayed traces take when they are made; 0 when nothing is replayed.
    pub fn replayed_bytes(&self) -> u64 {
        let files = self.streams().filter(|stream| stream.replay.is_some()).flat_map(|stream| &stream.files);
        let filesets: BTreeSet<usize> = files.map(|file| file.fileset).collect();
        let of = |fileset: &Fileset| match fileset.contents {
            Contents::Data | Contents::Allocated | Contents::AllocatedBeyondEnd => {
                fileset.size.fixed().unwrap_or(0)
            }
            Contents::Hole | Contents::Empty => 0,
        };
        filesets.into_iter().filter_map(|at| self.filesets.get(at)).map(of).fold(0, u64::saturating_add)
    }

    /// The sizes of replayed files come from offsets of a trace, which may be those of any device: nothing is made of them that
    /// fills a target with so many free bytes; 0: it does not say.
    ///
    /// # Errors
    /// What they take, what is free, and what to do.
    pub fn replayed_files_fit(&self, free_bytes: u64) -> Result<(), String> {
        let wanted = self.replayed_bytes();
        if free_bytes == 0 || wanted <= free_bytes {
            return Ok(());
        }
        let [wanted, free] = [wanted, free_bytes].map(units::format_bytes);
        Err(format!(
            "the files of what is replayed take {wanted}, and the target has {free} free: divide the offsets \
             (replay_scale=NUMBER), put all on one file (replay_redirect=FILE), or take a larger stack"
        ))
    }
}
