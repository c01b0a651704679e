//! What the options of a job mean.

use workload::Contents;
use workload::stream::{
    Check, FileOrder, IoQueue, NextFile, OffsetDistribution, OffsetOrder, OffsetStep, OpenFlags, QueueEngine,
    StreamBudget, StreamPacing, SyncPolicy, TransferDirection, TransferSizes, Verify,
};

use crate::error::JobError;
use crate::names::{NEUTRAL, nearest_known};
use crate::number::{Base, boolean, fraction, integer, microseconds, percent, seconds};
use crate::replay::ReplayOptions;
use crate::text::{Section, between_colons};

/// Options of fio that are not done: what to write instead.
const REFUSED: [(&str, &str); 12] = [
    ("latency_target", "use `loadline sweep --limit`, which finds the rate in an open loop"),
    ("fill_device", "give a size: a load that ends with a full device is not repeatable"),
    ("exec_prerun", "programs are not started for a job"),
    ("exec_postrun", "programs are not started for a job"),
    ("merge_blktrace_file", "logs are replayed side by side: a job for each"),
    ("write_iolog", "use `--explain`, or trace the run"),
    ("cpus_allowed", "use `taskset` for the whole run"),
    ("buffer_compress_percentage", "use `--compress`"),
    ("dedupe_percentage", "use `--duplicate`"),
    ("rate_cycle", "rates are kept over the whole run"),
    ("wait_for", "use stonewall"),
    ("flow", "give each job a rate"),
];

/// fio's default of `randseed`.
const SEED: u64 = 0x89;
/// fio's default of `bs`.
const BLOCK_BYTES: u64 = 4096;
/// Most clones of a job.
const CLONES_MAX: u64 = 1024;
/// Bytes of a pattern, at most: fio's own limit.
const PATTERN_BYTES_MAX: usize = 512;
/// Most files of a job.
const FILES_MAX: u64 = 65_536;

/// How a file that is only written is made before the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reserve {
    /// `fallocate`, with its size.
    Allocate,
    /// `fallocate`, its size stays 0.
    KeepSize,
    /// `ftruncate`.
    Truncate,
    /// Empty.
    Nothing,
}

impl Reserve {
    /// What such a file holds.
    pub fn contents(self) -> Contents {
        match self {
            Reserve::Allocate => Contents::Allocated,
            Reserve::KeepSize => Contents::AllocatedBeyondEnd,
            Reserve::Truncate => Contents::Hole,
            Reserve::Nothing => Contents::Empty,
        }
    }
}

/// A number of bytes, or a share of something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// Bytes.
    Bytes(u64),
    /// Percent.
    Percent(u64),
}

/// A job.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// Its name.
    pub name: String,
    /// The line of its section.
    pub line: usize,
    /// Names of its files that it was given.
    pub names: Vec<String>,
    /// Files.
    pub files: u64,
    /// Bytes of all its files together.
    pub size: Option<Amount>,
    /// Bytes that it moves, when it says so.
    pub io_size: Option<Amount>,
    /// Bytes of each file.
    pub filesize: Option<u64>,
    /// Where it begins in each file.
    pub offset: Amount,
    /// Added for each clone.
    pub offset_increment: Amount,
    /// Clones.
    pub clones: u64,
    /// Files are written before the run even if it does not read.
    pub overwrite: bool,
    /// How they are made otherwise.
    pub reserve: Reserve,
    /// It waits for those above.
    pub stonewall: bool,
    /// Nice value.
    pub nice: i32,
    /// Best-effort I/O priority.
    pub priority: Option<u8>,
    /// Direction, order, sizes and the rest, as the engine has them.
    pub way: TransferDirection,
    /// Which seed it has; `None`: that of the run.
    pub seed: Option<u64>,
    /// Each pass draws the same numbers again.
    pub repeat: bool,
    /// Its offsets are those that fio draws whatever `randseed` says.
    pub usual_offsets: bool,
    /// Where transfers go.
    pub order: OffsetOrder,
    /// Sizes of reads and writes.
    pub sizes: [TransferSizes; 2],
    /// How files take turns.
    pub turns: FileOrder,
    /// How transfers are issued.
    pub queue: IoQueue,
    /// When it is done; the bytes come from the files.
    pub budget: StreamBudget,
    /// Rates and pauses.
    pub pace: StreamPacing,
    /// Syncs.
    pub syncs: SyncPolicy,
    /// How files are opened.
    pub open: OpenFlags,
    /// What written blocks hold, so that they can be checked.
    pub verify: Option<Verify>,
    /// What it replays.
    pub replay: ReplayOptions,
}

/// What is only known when all options are read.
struct Pending {
    base: Base,
    mixed: bool,
    reads: u64,
    repeat: bool,
    seed: u64,
    seeded: bool,
    rate_iops: [u64; 2],
    align: [u64; 2],
    depth: u64,
    norandommap: bool,
    openfiles: Option<u64>,
    create_on_open: bool,
    pause: bool,
    /// The engine, if its transfers can have flags.
    flagged: Option<&'static str>,
    /// Sizes of discards, when they were given.
    trims: Option<TransferSizes>,
    check: Option<Check>,
    pattern: Vec<u8>,
    interval: u64,
    read_back: bool,
    backlog: u64,
    batch: u64,
}

impl Job {
    /// The job of a section, and its mistakes.
    pub fn of(section: &Section) -> (Job, Vec<JobError>) {
        let mut job = Job::new(section);
        let mut mistakes = Vec::new();
        let mut pending = Pending {
            base: Base::default(),
            mixed: false,
            reads: 50,
            repeat: true,
            seed: SEED,
            seeded: false,
            rate_iops: [0; 2],
            align: [0; 2],
            depth: 1,
            norandommap: false,
            openfiles: None,
            create_on_open: false,
            pause: false,
            flagged: None,
            trims: None,
            check: None,
            pattern: Vec::new(),
            interval: 0,
            read_back: true,
            backlog: 0,
            batch: 0,
        };
        for (name, value, line) in &section.options {
            if name == "kb_base" {
                match value.as_str() {
                    "1000" => pending.base = Base::Standard,
                    "1024" => pending.base = Base::Compatible,
                    _ => mistakes.push(JobError::new(*line, "kb_base: 1000 or 1024")),
                }
            }
        }
        for (name, value, line) in &section.options {
            if let Err(message) = job.option(&mut pending, name, value) {
                mistakes.push(JobError::new(*line, message));
            }
        }
        job.settle(&pending);
        // what is wrong with the whole is told when its parts are right
        if mistakes.is_empty()
            && let Err(message) = job.check(&pending)
        {
            mistakes.push(JobError::new(job.line, format!("[{}]: {message}", job.name)));
        }
        (job, mistakes)
    }

    fn new(section: &Section) -> Job {
        Job {
            name: section.name.clone(),
            line: section.line,
            names: Vec::new(),
            files: 1,
            size: None,
            io_size: None,
            filesize: None,
            offset: Amount::Bytes(0),
            offset_increment: Amount::Bytes(0),
            clones: 1,
            overwrite: false,
            reserve: Reserve::Allocate,
            stonewall: section.waits(),
            nice: 0,
            priority: None,
            way: TransferDirection::Read,
            seed: None,
            repeat: true,
            usual_offsets: true,
            order: OffsetOrder {
                random: false,
                random_percent: 100,
                spread: OffsetDistribution::Uniform,
                visit_once: true,
                step: 0,
                every: 0,
                between: OffsetStep::Sequential,
                align: [BLOCK_BYTES; 2],
            },
            sizes: [TransferSizes::One(BLOCK_BYTES), TransferSizes::One(BLOCK_BYTES)],
            turns: FileOrder { next: NextFile::InTurn, operations: 1 },
            queue: IoQueue {
                engine: QueueEngine::Blocking,
                depth: 1,
                submit: 1,
                complete_min: 1,
                low: 0,
                uncached: false,
                atomic: false,
            },
            budget: StreamBudget {
                bytes: 0,
                passes: 1,
                transfers: None,
                more_passes: false,
                time_based: false,
                seconds: None,
                delay_seconds: 0.0,
                ramp_seconds: 0.0,
            },
            pace: StreamPacing::default(),
            syncs: SyncPolicy::default(),
            open: OpenFlags { advise: true, invalidate: true, ..OpenFlags::default() },
            verify: None,
            replay: ReplayOptions::default(),
        }
    }

    fn option(&mut self, pending: &mut Pending, name: &str, value: &str) -> Result<(), String> {
        let told = |message: String| format!("{name}: {message}");
        let done = self.files_option(pending, name, value).map_err(told)?
            || self.transfers_option(pending, name, value).map_err(told)?
            || self.issue_option(pending, name, value).map_err(told)?
            || verify_option(pending, name, value).map_err(told)?
            || self.replay.option(pending.base, name, value).map_err(told)?
            || self.time_option(name, value).map_err(told)?
            || sides_with_the_default(name, value).map_err(told)?
            // they change nothing that is measured here, or are as they are here anyway
            || NEUTRAL.contains(&name);
        match done {
            true => Ok(()),
            false => Err(match REFUSED.iter().find(|(refused, _)| *refused == name) {
                Some((_, instead)) => format!("`{name}` is not taken: {instead}"),
                None => format!("`{name}` is not an option that is known here{}", nearest_known(name)),
            }),
        }
    }

    fn files_option(&mut self, pending: &mut Pending, name: &str, value: &str) -> Result<bool, String> {
        let bytes = |value: &str| integer(value, pending.base);
        match name {
            "filename" => self.names = filenames(value)?,
            "size" => self.size = Some(amount(value, pending.base)?),
            "io_size" | "io_limit" => self.io_size = Some(amount(value, pending.base)?),
            "filesize" => {
                let (low, high) = value.split_once('-').unwrap_or((value, value));
                let (low, high) = (bytes(low)?, bytes(high)?);
                if low != high {
                    return Err("one size; files of drawn sizes are not made".into());
                }
                self.filesize = Some(low);
            }
            "nrfiles" | "nr_files" => self.files = bytes(value)?,
            "openfiles" => pending.openfiles = Some(bytes(value)?),
            "offset" => self.offset = amount(value, pending.base)?,
            "offset_increment" => self.offset_increment = amount(value, pending.base)?,
            "numjobs" => self.clones = bytes(value)?,
            "overwrite" => self.overwrite = boolean(value)?,
            "create_on_open" => pending.create_on_open = boolean(value)?,
            "fallocate" => {
                self.reserve = match value {
                    "none" | "0" => Reserve::Nothing,
                    "posix" | "1" | "native" => Reserve::Allocate,
                    "keep" => Reserve::KeepSize,
                    "truncate" => Reserve::Truncate,
                    other => return Err(format!("`{other}` is none of none, native, posix, keep, truncate")),
                }
            }
            "file_service_type" => self.turns = turns(value)?,
            "direct" => self.open.direct = boolean(value)?,
            "buffered" => self.open.direct = !boolean(value)?,
            "sync" => {
                (self.open.sync, self.open.dsync) = match value {
                    "0" | "none" => (false, false),
                    "1" | "sync" => (true, false),
                    "dsync" => (false, true),
                    other => return Err(format!("`{other}` is none of none, sync, dsync, 0, 1")),
                }
            }
            "invalidate" => self.open.invalidate = boolean(value)?,
            "fadvise_hint" => match value {
                "1" => self.open.advise = true,
                "0" | "none" => self.open.advise = false,
                _ => return Err("0 or 1".into()),
            },
            "unlink" => self.open.unlink = boolean(value)?,
            "name" => {}
            "kb_base" => {}
            "stonewall" | "wait_for_previous" => {}
            "nice" => self.nice = value.trim().parse().map_err(|_| format!("`{value}` is not a number"))?,
            "prio" => match bytes(value)? {
                level @ 0..=7 => self.priority = Some(level as u8),
                _ => return Err("from 0 to 7".into()),
            },
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn transfers_option(&mut self, pending: &mut Pending, name: &str, value: &str) -> Result<bool, String> {
        let base = pending.base;
        match name {
            "rw" | "readwrite" => pending.mixed = self.direction(value, base)?,
            "rw_sequencer" => {
                self.order.between = match value {
                    "sequential" => OffsetStep::Sequential,
                    "identical" => OffsetStep::Identical,
                    other => return Err(format!("`{other}` is neither sequential nor identical")),
                }
            }
            "bs" | "blocksize" => {
                // what is left out has fio's own size
                let one = |word: &str| {
                    if word.is_empty() { Ok(BLOCK_BYTES) } else { integer(word, base) }
                        .map(TransferSizes::One)
                };
                self.sizes = both(value, one)?;
                pending.trims = value.split(',').nth(2).map(|word| one(word.trim())).transpose()?;
            }
            "bsrange" | "blocksize_range" => {
                self.sizes = both(value, |one| {
                    let (low, high) = one.split_once(['-', ':']).ok_or("write it as 4k-64k")?;
                    Ok(TransferSizes::Range(integer(low, base)?, integer(high, base)?))
                })?;
            }
            "bssplit" => self.sizes = both(value, |one| split(one, base))?,
            "ba" | "blockalign" => pending.align = both(value, |one| integer(one, base))?,
            "rwmixread" => pending.reads = percent(value)?,
            "rwmixwrite" => pending.reads = 100 - percent(value)?,
            "randseed" => (pending.seed, pending.seeded) = (integer(value, base)?, true),
            "randrepeat" | "allrandrepeat" => pending.repeat = boolean(value)?,
            "norandommap" => pending.norandommap = boolean(value)?,
            "percentage_random" => {
                let shares: [u64; 2] = both(value, percent)?;
                if shares[0] != shares[1] {
                    return Err("one share for reads and writes".into());
                }
                self.order.random_percent = shares[0] as u8;
            }
            "random_distribution" => self.order.spread = spread(value)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn issue_option(&mut self, pending: &mut Pending, name: &str, value: &str) -> Result<bool, String> {
        let number = |value: &str| integer(value, pending.base);
        let small = |value: &str| Ok::<u32, String>(number(value)?.min(u64::from(u32::MAX)) as u32);
        match name {
            "ioengine" => {
                self.queue.engine = engine(value)?;
                pending.flagged = ["pvsync2", "libaio", "io_uring"].into_iter().find(|name| *name == value);
            }
            "iodepth" => pending.depth = number(value)?,
            "iodepth_batch" | "iodepth_batch_submit" => self.queue.submit = small(value)?,
            "iodepth_batch_complete" | "iodepth_batch_complete_min" => {
                self.queue.complete_min = small(value)?
            }
            "iodepth_batch_complete_max" => drop(small(value)?),
            "iodepth_low" => self.queue.low = small(value)?,
            "uncached" => self.queue.uncached = number(value)? > 0,
            "atomic" => self.queue.atomic = boolean(value)?,
            "fsync" => self.syncs.fsync = number(value)?,
            "fdatasync" => self.syncs.fdatasync = number(value)?,
            "end_fsync" => self.syncs.at_end = boolean(value)?,
            "fsync_on_close" => self.syncs.on_close = boolean(value)?,
            "rate" => self.pace.bytes_per_second = both(value, |one| number_or_none(one, pending.base))?,
            "rate_iops" => pending.rate_iops = both(value, |one| number_or_none(one, pending.base))?,
            "rate_process" => {
                self.pace.poisson = match value {
                    "linear" => false,
                    "poisson" => true,
                    other => return Err(format!("`{other}` is neither linear nor poisson")),
                }
            }
            "thinktime" => {
                self.pace.pause_us = microseconds(value, 1)?;
                pending.pause = self.pace.pause_us > 0;
            }
            "thinktime_spin" => self.pace.spin_us = microseconds(value, 1)?,
            "thinktime_blocks" => self.pace.pause_every = number(value)?,
            "thinktime_blocks_type" if matches!(value, "complete" | "issue") => {}
            "thinktime_blocks_type" => return Err("complete or issue".into()),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn time_option(&mut self, name: &str, value: &str) -> Result<bool, String> {
        match name {
            "runtime" | "timeout" => {
                self.budget.seconds = Some(seconds(value)?).filter(|seconds| *seconds > 0.0)
            }
            "time_based" => self.budget.time_based = boolean(value)?,
            "ramp_time" => self.budget.ramp_seconds = seconds(value)?,
            "startdelay" => self.budget.delay_seconds = seconds(value)?,
            "loops" => self.budget.passes = integer(value, Base::default())?.max(1),
            "number_ios" => {
                self.budget.transfers =
                    Some(integer(value, Base::default())?).filter(|transfers| *transfers > 0);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// `rw`; whether reads and writes are mixed.
    fn direction(&mut self, value: &str, base: Base) -> Result<bool, String> {
        let (word, more) = value.split_once(':').map_or((value, None), |(word, more)| (word, Some(more)));
        let (way, random, mixed) = match word {
            "read" => (TransferDirection::Read, false, false),
            "write" => (TransferDirection::Write, false, false),
            "randread" => (TransferDirection::Read, true, false),
            "randwrite" => (TransferDirection::Write, true, false),
            "rw" | "readwrite" => (TransferDirection::Mixed { read_percent: 50 }, false, true),
            "randrw" => (TransferDirection::Mixed { read_percent: 50 }, true, true),
            "trim" => (TransferDirection::Trim, false, false),
            "randtrim" => (TransferDirection::Trim, true, false),
            "trimwrite" => (TransferDirection::TrimWrite, false, false),
            "randtrimwrite" => (TransferDirection::TrimWrite, true, false),
            other => {
                return Err(format!(
                    "`{other}` is none of read, write, randread, randwrite, rw, readwrite, randrw, trim, randtrim, \
                     trimwrite, randtrimwrite"
                ));
            }
        };
        (self.way, self.order.random, self.order.every, self.order.step) = (way, random, 0, 0);
        match more {
            None => {}
            Some(every) if random => self.order.every = integer(every, base)?,
            Some(step) => {
                let (digits, sign) = match step.strip_prefix('-') {
                    Some(digits) => (digits, -1),
                    None => (step.strip_prefix('+').unwrap_or(step), 1),
                };
                self.order.step = sign * integer(digits, base)?.min(i64::MAX as u64) as i64;
            }
        }
        Ok(mixed)
    }

    /// What follows from the options together.
    fn settle(&mut self, pending: &Pending) {
        if pending.mixed {
            self.way = TransferDirection::Mixed { read_percent: pending.reads as u8 };
        }
        // fio does not repeat the numbers of a job that has a seed of its own
        self.repeat = pending.repeat && !pending.seeded;
        // it draws offsets before it has seen the seed
        self.usual_offsets = pending.repeat;
        self.seed = (pending.repeat || pending.seeded).then_some(pending.seed);
        if let (TransferDirection::Trim, Some(sizes)) = (self.way, &pending.trims) {
            self.sizes[1] = sizes.clone();
        }
        self.order.visit_once = !pending.norandommap && self.order.spread == OffsetDistribution::Uniform;
        for way in 0..2 {
            let least = self.sizes[way].min();
            self.order.align[way] = if pending.align[way] > 0 { pending.align[way] } else { least };
            if pending.rate_iops[way] > 0 {
                self.pace.bytes_per_second[way] = pending.rate_iops[way].saturating_mul(least);
                self.pace.by_count |= matches!(self.sizes[way], TransferSizes::Split(_));
            }
        }
        self.pace.pause_every = if pending.pause { self.pace.pause_every.max(1) } else { 0 };
        self.pace.spin_us = self.pace.spin_us.min(self.pace.pause_us);
        self.queue.depth = match self.queue.engine {
            QueueEngine::Blocking | QueueEngine::Mapped => 1,
            _ => pending.depth.clamp(1, 4096) as u32,
        };
        self.queue.submit = self.queue.submit.clamp(1, self.queue.depth);
        self.queue.complete_min = self.queue.complete_min.clamp(1, self.queue.depth);
        self.queue.low = self.queue.low.min(self.queue.depth);
        if pending.create_on_open {
            self.reserve = Reserve::Nothing;
        }
        if !self.names.is_empty() {
            self.files = self.files.max(self.names.len() as u64).min(self.names.len() as u64);
        }
        self.budget.more_passes = self.io_size.is_some();
        self.verify = pending.check.map(|method| {
            let (least, most) = (self.sizes[1].min(), self.sizes[1].max());
            // blocks of several sizes are checked by parts that all have
            let wanted =
                if pending.interval == 0 && least != most { least } else { pending.interval.min(least) };
            let divides = wanted > 0 && least.is_multiple_of(wanted) && most.is_multiple_of(wanted);
            Verify {
                method,
                pattern: pending.pattern.clone(),
                interval: if divides || pending.interval == 0 && least == most {
                    wanted
                } else {
                    divisor(least, most)
                },
                read_back: pending.read_back && self.way.writes(),
                backlog: pending.backlog,
                batch: if pending.batch > 0 { pending.batch } else { pending.backlog },
            }
        });
    }

    fn check(&self, pending: &Pending) -> Result<(), String> {
        let replays = self.replay.replays();
        if self.size.is_none() && self.filesize.is_none() && !replays {
            return Err("`size` is missing: how large are its files together?".into());
        }
        if let Some(unfit) = self.unfit_for_replay() {
            return Err(format!("`{unfit}` beside read_iolog is not done: leave it out"));
        }
        for (name, value, most) in [("numjobs", self.clones, CLONES_MAX), ("nrfiles", self.files, FILES_MAX)]
        {
            if !(1..=most).contains(&value) {
                return Err(format!("{name} is out of range; 1 to {most}"));
            }
        }
        for sizes in &self.sizes {
            if sizes.min() == 0 || sizes.max() > 1 << 30 || sizes.min() > sizes.max() {
                return Err("block sizes are from 1 byte to 1 GiB, the smaller one first".into());
            }
        }
        if self.budget.time_based && self.budget.seconds.is_none() {
            return Err("time_based needs `runtime`".into());
        }
        if pending.openfiles.is_some_and(|open| open > 0 && open < self.files) && !replays {
            return Err("openfiles below nrfiles is not done: all files stay open".into());
        }
        let device = !self.names.is_empty() && self.names.iter().all(|name| name.starts_with("/dev/"));
        if self.way.trims() && !device && !replays {
            return Err("only a block device is trimmed: give a block device: filename=/dev/...".into());
        }
        if self.way == TransferDirection::TrimWrite
            && pending.trims.as_ref().is_some_and(|sizes| *sizes != self.sizes[1])
        {
            return Err(
                "trimwrite with a size of its own for trims is not done: each block is discarded and written"
                    .into(),
            );
        }
        if self.queue.uncached && !matches!(pending.flagged, Some("pvsync2" | "io_uring")) {
            return Err("uncached needs ioengine=pvsync2 or io_uring".into());
        }
        if self.queue.atomic && !matches!(pending.flagged, Some("pvsync2" | "io_uring" | "libaio")) {
            return Err("atomic needs ioengine=pvsync2, libaio or io_uring".into());
        }
        if self.queue.atomic && !self.open.direct {
            return Err("atomic needs direct=1: the kernel refuses it otherwise".into());
        }
        let (syncs, page) = (&self.syncs, 4096);
        let least = self.sizes[0].min().min(self.sizes[1].min());
        if self.queue.engine == QueueEngine::Mapped
            && !least.is_multiple_of(page)
            && (self.open.direct || syncs.fsync > 0 || syncs.fdatasync > 0)
        {
            return Err(format!("mmap with syncs or direct=1 needs blocks that are multiples of {page}"));
        }
        self.check_verify(device)?;
        if self.budget.delay_seconds > 0.0 && self.budget.ramp_seconds > 0.0 {
            return Err(
                "startdelay and ramp_time together are not done: what is measured has one begin".into()
            );
        }
        Ok(())
    }
}

impl Job {
    /// An option that changes what a log says, in a job that replays one.
    fn unfit_for_replay(&self) -> Option<&'static str> {
        let unfit = [
            ("verify", self.verify.is_some()),
            ("rate", self.pace.bytes_per_second != [0, 0]),
            ("thinktime", self.pace.pause_every > 0),
            ("number_ios", self.budget.transfers.is_some()),
            ("io_size", self.io_size.is_some()),
        ];
        unfit.into_iter().find(|(_, is_set)| *is_set && self.replay.replays()).map(|(name, _)| name)
    }

    fn check_verify(&self, device: bool) -> Result<(), String> {
        let Some(verify) = &self.verify else { return Ok(()) };
        if self.way.trims() {
            return Err("verify with trim is not done: discarded blocks are not checked".into());
        }
        if !self.way.writes() && !device {
            return Err("verify: a job that only reads finds fresh files here, nothing that could be checked: let the job \
                        that writes read back (do_verify=1), or read a device (filename=/dev/...)"
                .into());
        }
        if verify.method == Check::Pattern && verify.pattern.is_empty() {
            return Err("verify=pattern needs verify_pattern, such as 0xdeadbeef".into());
        }
        let head = match verify.method {
            Check::Md5 => 56,
            Check::Crc32c => 44,
            Check::Header => 40,
            Check::Pattern | Check::Nothing => 0,
        };
        let least = if verify.interval > 0 {
            verify.interval
        } else {
            self.sizes[usize::from(self.way.writes())].min()
        };
        if least <= head {
            return Err(format!("verify: blocks of {least} bytes hold no header of {head} bytes and data"));
        }
        Ok(())
    }
}

/// Options of `verify`.
fn verify_option(pending: &mut Pending, name: &str, value: &str) -> Result<bool, String> {
    match name {
        "verify" => {
            pending.check = match value {
                "0" | "none" => None,
                "md5" => Some(Check::Md5),
                "crc32c" | "crc32c-intel" => Some(Check::Crc32c),
                "meta" => Some(Check::Header),
                "pattern" => Some(Check::Pattern),
                "null" => Some(Check::Nothing),
                other => {
                    return Err(format!(
                        "`{other}` is none of md5, crc32c, meta, pattern, null, none; other sums of fio are not made"
                    ));
                }
            }
        }
        "verify_pattern" => pending.pattern = pattern(value)?,
        "verify_interval" => pending.interval = integer(value, pending.base)?,
        "do_verify" => pending.read_back = boolean(value)?,
        "verify_backlog" => pending.backlog = integer(value, pending.base)?,
        "verify_backlog_batch" => pending.batch = integer(value, pending.base)?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// A pattern as fio reads one: numbers, hexadecimal numbers and texts in quotes, one behind the other.
fn pattern(value: &str) -> Result<Vec<u8>, String> {
    let wrong = || format!("`{value}` is no pattern: write 0xdeadbeef, a number, or \"text\"");
    let (mut bytes, mut rest) = (Vec::new(), value.trim());
    while !rest.is_empty() {
        if let Some(text) = rest.strip_prefix('"') {
            let (text, more) = text.split_once('"').ok_or_else(wrong)?;
            bytes.extend_from_slice(text.as_bytes());
            rest = more;
        } else if let Some(digits) = rest.strip_prefix("0x").or_else(|| rest.strip_prefix("0X")) {
            let end = digits.find(|letter: char| !letter.is_ascii_hexdigit()).unwrap_or(digits.len());
            let (digits, more) = digits.split_at(end);
            let padded = if digits.len() % 2 == 1 { format!("0{digits}") } else { digits.to_string() };
            if padded.is_empty() {
                return Err(wrong());
            }
            for pair in padded.as_bytes().chunks(2) {
                let pair = std::str::from_utf8(pair).map_err(|_| wrong())?;
                bytes.push(u8::from_str_radix(pair, 16).map_err(|_| wrong())?);
            }
            rest = more;
        } else {
            let behind = rest.char_indices().skip(1).find(|(_, letter)| !letter.is_ascii_digit());
            let end = behind.map_or(rest.len(), |(at, _)| at);
            let number: i64 = rest.get(..end).and_then(|digits| digits.parse().ok()).ok_or_else(wrong)?;
            // the bytes that say something, the lowest first
            let all = number.to_le_bytes();
            let filler = if number < 0 { 0xff } else { 0 };
            let used = all.iter().rposition(|byte| *byte != filler).map_or(1, |last| last + 1);
            bytes.extend_from_slice(&all[..used]);
            rest = &rest[end..];
        }
    }
    if bytes.is_empty() || bytes.len() > PATTERN_BYTES_MAX {
        return Err(format!("a pattern has 1 to {PATTERN_BYTES_MAX} bytes"));
    }
    Ok(bytes)
}

/// The largest number that divides both.
fn divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { divisor(b, a % b) }
}

/// Options that are taken as long as they say what happens here anyway.
fn sides_with_the_default(name: &str, value: &str) -> Result<bool, String> {
    let only = |allowed: &[&str], why: &str| match allowed.contains(&value) {
        true => Ok(true),
        false => Err(format!("{value} is not done: {why}")),
    };
    match name {
        // nothing is written beside the job's files
        "verify_dump" => only(&["0", "1"], "0 or 1"),
        "verify_offset" => only(&["0"], "headers stand at the begin of a block"),
        "verify_only" => {
            only(&["0"], "verify_only checks what an earlier run has left, and files are fresh here")
        }
        "create_only" => only(&["0"], "files are made before each run; leave it out"),
        "bs_unaligned" => only(&["0"], "sizes are multiples of the smallest one"),
        "random_generator" => only(&["tausworthe"], "offsets are drawn by fio's default generator"),
        "rate_min" | "rate_iops_min" => {
            only(&["0"], "a load that is too slow is not ended; read it off the result")
        }
        "continue_on_error" => only(&["0", "none"], "the first error ends the run"),
        "exitall" => only(&["0"], "each job ends by itself"),
        "rate_ignore_thinktime" => only(&["0"], "pauses count as time of the rate"),
        "zonemode" => only(&["none"], "zones are not kept"),
        "trim_percentage" => only(&["0"], "blocks are not discarded"),
        "zero_buffers" => {
            only(&["0"], "written data is never the same twice; `--compress` says how much of it compresses")
        }
        "buffer_pattern" => Err(
            "a pattern is not done: written data is never the same twice; `--compress` and `--duplicate` say how much \
             of it is alike, and verify=pattern with verify_pattern writes one"
                .into(),
        ),
        "softrandommap" => only(&["0", "1"], "0 or 1"),
        "size_percent" => Err("write size=50%".into()),
        _ => Ok(false),
    }
}

fn amount(value: &str, base: Base) -> Result<Amount, String> {
    match value.trim().strip_suffix('%') {
        Some(_) => Ok(Amount::Percent(percent(value)?)),
        None => Ok(Amount::Bytes(integer(value, base)?)),
    }
}

fn number_or_none(value: &str, base: Base) -> Result<u64, String> {
    if value.trim().is_empty() { Ok(0) } else { integer(value, base) }
}

/// Values for reads and writes: `4k`, `4k,8k`; one is for both.
fn both<T: Clone>(value: &str, one: impl Fn(&str) -> Result<T, String>) -> Result<[T; 2], String> {
    let parts: Vec<&str> = value.split(',').map(str::trim).collect();
    let read = one(parts[0])?;
    // a third is for discards
    let write = match parts.get(1) {
        Some(part) if parts.len() <= 3 && (!part.is_empty() || parts.len() == 3) => one(part)?,
        Some(_) if parts.len() > 3 => return Err("at most three values: of reads, writes, trims".into()),
        _ => read.clone(),
    };
    Ok([read, write])
}

/// `4k/60:64k/40`; shares that are left out take equal parts of what is left.
fn split(value: &str, base: Base) -> Result<TransferSizes, String> {
    let one = |word: &str| -> Result<(u64, Option<u64>), String> {
        let (size, share) = word.split_once('/').unwrap_or((word, ""));
        let size = integer(size, base)?;
        if size == 0 {
            return Err("a size is 0".into());
        }
        Ok((size, if share.trim().is_empty() { None } else { Some(percent(share)?) }))
    };
    let parts = value.split(':').map(one).collect::<Result<Vec<_>, _>>()?;
    let given: u64 = parts.iter().filter_map(|(_, share)| *share).sum();
    let open = parts.iter().filter(|(_, share)| share.is_none()).count() as u64;
    if given > 100 || (open == 0 && given != 100) {
        return Err(format!("the shares add up to {given} %, not 100"));
    }
    let rest = (100 - given).checked_div(open).unwrap_or(0);
    let mut parts: Vec<(u64, u64)> =
        parts.into_iter().map(|(size, share)| (size, share.unwrap_or(rest))).collect();
    // fio draws by shares in this order
    parts.sort_by_key(|(_, share)| *share);
    Ok(TransferSizes::Split(parts))
}

/// `zipf:1.2`, `zoned:50/5:50/95` ...
fn spread(value: &str) -> Result<OffsetDistribution, String> {
    let (word, rest) = value.split_once(':').unwrap_or((value, ""));
    let (first, center) = rest.split_once(':').map_or((rest, None), |(first, center)| (first, Some(center)));
    let number = |default: f64| if first.is_empty() { Ok(default) } else { fraction(first) };
    let center = || match center.map(fraction).transpose()? {
        Some(center) if !(0.0..=1.0).contains(&center) => Err("the centre is from 0 to 1".to_string()),
        center => Ok(center),
    };
    match word {
        "random" => Ok(OffsetDistribution::Uniform),
        "zipf" => match number(1.1)? {
            theta if theta > 0.0 && theta != 1.0 => Ok(OffsetDistribution::Zipf { theta, center: center()? }),
            _ => Err("zipf's theta is above 0, and not 1".into()),
        },
        "pareto" => match number(0.2)? {
            power if power > 0.0 && power < 1.0 => {
                Ok(OffsetDistribution::Pareto { power, center: center()? })
            }
            _ => Err("pareto's h is between 0 and 1".into()),
        },
        "normal" => match number(0.0)? {
            deviation if (0.0..=100.0).contains(&deviation) => {
                Ok(OffsetDistribution::Normal { deviation, center: center()? })
            }
            _ => Err("the deviation is from 0 to 100 percent".into()),
        },
        "zoned" => Ok(OffsetDistribution::Zoned(both(rest, zoned)?)),
        "zoned_abs" => Err("zones in bytes are not done; write zoned with percentages".into()),
        other => Err(format!("`{other}` is none of random, zipf, pareto, normal, zoned")),
    }
}

/// `60/10:30/20:8/30:2/40`: percent of the transfers, percent of the file; the last length may be left out.
fn zoned(value: &str) -> Result<Vec<(u64, u64)>, String> {
    let one = |word: &str| -> Result<(u64, Option<u64>), String> {
        let (share, length) = word.split_once('/').ok_or("write zones as 60/10:40/90")?;
        Ok((percent(share)?, if length.trim().is_empty() { None } else { Some(percent(length)?) }))
    };
    let mut zones = value.split(':').map(one).collect::<Result<Vec<_>, _>>()?;
    let given: u64 = zones.iter().filter_map(|zone| zone.1).sum();
    if let Some((_, length)) = zones.last_mut() {
        length.get_or_insert(100_u64.saturating_sub(given));
    }
    let zones: Vec<(u64, u64)> =
        zones.into_iter().map(|(share, length)| (share, length.unwrap_or(0))).collect();
    let sums = zones.iter().fold((0, 0), |sum, zone| (sum.0 + zone.0, sum.1 + zone.1));
    if sums != (100, 100) {
        return Err(format!("shares add up to {} %, lengths to {} %, not 100", sums.0, sums.1));
    }
    Ok(zones)
}

fn turns(value: &str) -> Result<FileOrder, String> {
    let (word, operations) =
        value.split_once(':').map_or((value, None), |(word, number)| (word, Some(number)));
    let operations =
        operations.map(|number| integer(number, Base::default())).transpose()?.unwrap_or(1).max(1);
    match word {
        "roundrobin" => Ok(FileOrder { next: NextFile::InTurn, operations }),
        "sequential" => Ok(FileOrder { next: NextFile::InTurn, operations: 0 }),
        "random" => Ok(FileOrder { next: NextFile::Random, operations }),
        other => Err(format!("`{other}` is none of random, roundrobin, sequential")),
    }
}

fn engine(value: &str) -> Result<QueueEngine, String> {
    match value {
        "sync" | "psync" | "pvsync" | "pvsync2" => Ok(QueueEngine::Blocking),
        "libaio" => Ok(QueueEngine::LibAio),
        "io_uring" => Ok(QueueEngine::Uring),
        "mmap" => Ok(QueueEngine::Mapped),
        other => Err(format!("`{other}` is none of sync, psync, pvsync, pvsync2, libaio, io_uring, mmap")),
    }
}

/// Plain names, or devices, between colons.
fn filenames(value: &str) -> Result<Vec<String>, String> {
    let names = between_colons(value);
    for name in &names {
        let device = name.starts_with("/dev/");
        if name.is_empty() || name == "." || name == ".." || (!device && name.contains('/')) {
            return Err(format!(
                "`{name}`: a plain name, or a block device; where files lie is what --on says"
            ));
        }
    }
    Ok(names)
}
