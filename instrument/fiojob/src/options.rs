//! The options that are known, and what they mean for a job.

use crate::error::JobError;
use crate::names::{KNOWN, nearest_known};
use crate::number::{boolean, integer, seconds};
use crate::text::Section;

/// Options of fio that the engine cannot do as fio does: what to write instead.
const REFUSED: [(&str, &str); 10] = [
    ("rate", "offer a rate with `--rate`, or step by step with `loadline sweep`"),
    ("rate_iops", "offer a rate with `--rate`, or step by step with `loadline sweep`"),
    ("thinktime", "offer a rate with `--rate` instead of pauses"),
    ("bsrange", "write bssplit=4k/50:64k/50, or sweep sizes with `--set bs=4k,64k`"),
    ("filename", "leave it out: each job has files of its own on the stack; a device is named by --on"),
    ("offset", "leave it out: transfers begin at the start of the file"),
    ("verify", "leave it out: data is not read back"),
    ("latency_target", "use `loadline sweep --limit`, which finds the rate in an open loop"),
    ("include", "put the options into the file"),
    ("loops", "use time_based and runtime"),
];

/// Which way the data goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Way {
    /// Percent of the operations that read.
    pub reads: u64,
    /// Random offsets.
    pub random: bool,
}

/// A job.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// Its section.
    pub name: String,
    /// The line of its section.
    pub line: usize,
    /// Direction and order.
    pub way: Way,
    /// Bytes of a transfer.
    pub block: u64,
    /// Bytes of all its files together.
    pub size: u64,
    /// Files.
    pub files: u64,
    /// Clones.
    pub clones: u64,
    /// Transfers in flight of each clone; above 1 only with an asynchronous engine.
    pub depth: u32,
    /// libaio or io_uring.
    pub asynchronous: bool,
    /// O_DIRECT.
    pub direct: bool,
    /// O_SYNC.
    pub sync: bool,
    /// Sizes of transfers with their shares in percent; empty: all have the size of `block`, which is the largest else.
    pub split: Vec<(u64, f64)>,
    /// fsync or fdatasync after so many writes; 0: never.
    pub fsync: u64,
    /// It is fdatasync.
    pub data_only: bool,
    /// Time, and whether it goes on until then.
    pub seconds: Option<u64>,
    /// It goes on when its files are done.
    pub time_based: bool,
    /// Not measured, before.
    pub ramp_seconds: u64,
    /// fio's seed.
    pub seed: Option<u64>,
    /// It waits for those above.
    pub stonewall: bool,
}

impl Job {
    /// The job of a section.
    pub fn of(section: &Section) -> Result<Job, JobError> {
        let mut job = Job {
            name: section.name.clone(),
            line: section.line,
            way: Way { reads: 100, random: false },
            block: 4096,
            size: 0,
            files: 1,
            clones: 1,
            depth: 1,
            asynchronous: false,
            direct: false,
            sync: false,
            split: Vec::new(),
            fsync: 0,
            data_only: false,
            seconds: None,
            time_based: false,
            ramp_seconds: 0,
            seed: None,
            stonewall: false,
        };
        let (mut mixed, mut reads, mut filesize) = (false, 50, None);
        for (name, value, line) in &section.options {
            let at = |message: String| JobError::new(*line, format!("{name}: {message}"));
            match name.as_str() {
                "rw" | "readwrite" => (job.way, mixed) = way(value).map_err(at)?,
                "bs" | "blocksize" => (job.block, job.split) = (integer(value).map_err(at)?, Vec::new()),
                "bssplit" => {
                    job.split = split(value).map_err(at)?;
                    job.block = job.split.iter().map(|(size, _)| *size).max().unwrap_or(0);
                }
                "size" => job.size = integer(value).map_err(at)?,
                "filesize" => filesize = Some(integer(value).map_err(at)?),
                "nrfiles" => job.files = integer(value).map_err(at)?,
                "numjobs" => job.clones = integer(value).map_err(at)?,
                "iodepth" => job.depth = integer(value).map_err(at)?.clamp(1, 4096) as u32,
                "ioengine" => job.asynchronous = engine(value).map_err(at)?,
                "direct" => job.direct = boolean(value).map_err(at)?,
                "buffered" => job.direct = !boolean(value).map_err(at)?,
                "sync" => job.sync = boolean(value).map_err(at)?,
                "fsync" | "fdatasync" => {
                    let every = integer(value).map_err(at)?;
                    let data_only = name == "fdatasync";
                    if job.fsync > 0 && every > 0 && job.data_only != data_only {
                        return Err(at("a job has fsync or fdatasync, not both, here".into()));
                    }
                    // 0 of one kind does not switch the other one off
                    if every > 0 || job.data_only == data_only {
                        (job.fsync, job.data_only) = (every, data_only);
                    }
                }
                "runtime" => job.seconds = Some(seconds(value).map_err(at)?).filter(|seconds| *seconds > 0),
                "time_based" => job.time_based = boolean(value).map_err(at)?,
                "ramp_time" => job.ramp_seconds = seconds(value).map_err(at)?,
                "rwmixread" => reads = percent(value).map_err(at)?,
                "rwmixwrite" => reads = 100 - percent(value).map_err(at)?,
                "randseed" => job.seed = Some(integer(value).map_err(at)?),
                "stonewall" => job.stonewall = boolean(value).map_err(at)?,
                "random_distribution" if value == "random" => {}
                "random_distribution" => {
                    return Err(at(format!("`{value}` is not drawn yet; leave it out for `random`")));
                }
                "create_on_open" | "end_fsync" if boolean(value).map_err(at)? => {
                    return Err(at("1 is not done here; leave it out".into()));
                }
                // they change nothing that is measured here, or are as they are here anyway
                other if KNOWN.contains(&other) => {}
                other => {
                    let told = match REFUSED.iter().find(|(refused, _)| *refused == other) {
                        Some((_, instead)) => format!("`{other}` is not taken: {instead}"),
                        None => {
                            format!("`{other}` is not an option that is known here{}", nearest_known(other))
                        }
                    };
                    return Err(JobError::new(*line, told));
                }
            }
        }
        if mixed {
            job.way.reads = reads;
        }
        if let Some(each) = filesize {
            job.size = each
                .checked_mul(job.files)
                .ok_or_else(|| JobError::new(job.line, "filesize is too large"))?;
        }
        job.check()?;
        Ok(job)
    }

    fn check(&self) -> Result<(), JobError> {
        let at = |message: String| JobError::new(self.line, format!("[{}]: {message}", self.name));
        if self.size == 0 {
            return Err(at("`size` is missing: how large are its files together?".into()));
        }
        for (name, value, most) in
            [("numjobs", self.clones, 256), ("nrfiles", self.files, 32), ("fsync", self.fsync + 1, 4096)]
        {
            if !(1..=most).contains(&value) {
                return Err(at(format!("{name} is out of range; 1 to {most}")));
            }
        }
        if self.block == 0 || self.block > 1 << 30 || self.size / self.files < self.block {
            return Err(at(format!(
                "a file of {} bytes does not hold a block of {}",
                self.size / self.files,
                self.block
            )));
        }
        if self.time_based && self.seconds.is_none() {
            return Err(at("time_based needs `runtime`".into()));
        }
        Ok(())
    }
}

/// Direction and order, and whether reads and writes are mixed.
fn way(value: &str) -> Result<(Way, bool), String> {
    let (reads, random, mixed) = match value {
        "read" => (100, false, false),
        "write" => (0, false, false),
        "randread" => (100, true, false),
        "randwrite" => (0, true, false),
        "rw" | "readwrite" => (50, false, true),
        "randrw" => (50, true, true),
        other => {
            return Err(format!(
                "`{other}` is none of read, write, randread, randwrite, rw, readwrite, randrw"
            ));
        }
    };
    Ok((Way { reads, random }, mixed))
}

/// `4k/60:64k/40`; shares that are left out take equal parts of what is left.
fn split(value: &str) -> Result<Vec<(u64, f64)>, String> {
    if value.contains(',') {
        return Err("one list for reads and writes; different ones are not taken".into());
    }
    let one = |word: &str| -> Result<(u64, Option<u64>), String> {
        let (size, share) = word.split_once('/').unwrap_or((word, ""));
        let size = integer(size)?;
        if size == 0 {
            return Err("a size is 0".into());
        }
        Ok((size, if share.trim().is_empty() { None } else { Some(percent(share)?) }))
    };
    let parts = value.split(':').map(one).collect::<Result<Vec<_>, _>>()?;
    let given: u64 = parts.iter().filter_map(|(_, share)| *share).sum();
    let open = parts.iter().filter(|(_, share)| share.is_none()).count();
    if given > 100 || (open == 0 && given != 100) {
        return Err(format!("the shares add up to {given} %, not 100"));
    }
    let rest = (100 - given) as f64 / open.max(1) as f64;
    let parts = parts.into_iter().map(|(size, share)| (size, share.map_or(rest, |share| share as f64)));
    Ok(parts.filter(|(_, share)| *share > 0.0).collect())
}

fn engine(value: &str) -> Result<bool, String> {
    match value {
        "sync" | "psync" => Ok(false),
        "libaio" | "io_uring" => Ok(true),
        other => Err(format!("`{other}` is none of sync, psync, libaio, io_uring")),
    }
}

fn percent(value: &str) -> Result<u64, String> {
    match integer(value)? {
        share @ 0..=100 => Ok(share),
        other => Err(format!("{other} is no percentage")),
    }
}
