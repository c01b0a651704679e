//! `recorded`: does again what a program did to its files, by a recording of it.
//!
//! Replay is exact in what is asked of the file system: each recorded thread is a thread, and makes its calls in its order, on
//! the same files, offsets and lengths. Between threads an operation waits for those that it followed in the recording and that
//! touched the same (after "ARTC: Accurate benchmarking of file system traces", Weiss et al., FAST 2013); everything else is free.
//!
//! | module | holds |
//! |---|---|
//! | `source` | a recording that is read, item by item |
//! | `survey` | what one holds, for people |
//! | `paths` | names below the target |
//! | `touches` | who touched what, and what has to wait for whom |
//! | `segments` | operations by thread, in one private file |
//! | `split` | one pass over a recording: segments, and the files that have to be there |
//! | `files` | makes those |
//! | `calls` | does one operation |
//! | `progress` | how far each thread is, and waiting |
//! | `replay` | the threads |
//! | `tally` | what is measured, and what ended otherwise than recorded |

mod calls;
mod files;
mod paths;
mod progress;
mod replay;
mod segments;
mod source;
mod split;
mod survey;
mod tally;
mod touches;

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

pub use survey::Survey;

use self::calls::Target;
use self::source::Source;
use self::split::Split;
use crate::error::at;
use crate::{AppError, Bench, Load, LoadSite, Parameters};

/// The load's name.
pub const NAME: &str = "recorded";
/// The parameter that names the recording.
pub const TRACE: &str = "trace";
/// The parameter that says how fast it is replayed.
const SPEED: &str = "speed";
/// The end of a recording lies within so many bytes.
const TAIL_BYTES: u64 = 64;
/// Descriptors that a replay may have open.
const DESCRIPTORS: u64 = 1 << 20;
/// A guess of what a replay without pauses does in a second.
const OPERATIONS_PER_SECOND: f64 = 20_000.0;

/// Whether a file is a recording, by how it begins.
pub fn is_recording(path: &Path) -> bool {
    // what a pipe gives is gone once it is read
    if !path.is_file() {
        return false;
    }
    let mut head = Vec::new();
    let length = recording::format::MAGIC.len() as u64;
    let read = File::open(path).and_then(|file| file.take(length).read_to_end(&mut head));
    read.is_ok() && head == recording::format::MAGIC.as_bytes()
}

/// Refuses a recording that has no end, before anything is built for it. One that is damaged elsewhere is refused when it is
/// read.
///
/// # Errors
/// What is wrong with it, with the byte.
pub fn refuse_cut(path: &Path) -> Result<(), AppError> {
    match summary(path)? {
        Some(_) => Ok(()),
        None => Survey::of(path).map(drop),
    }
}

/// What a recording says at its end; `None` when it was cut.
fn summary(path: &Path) -> Result<Option<recording::Summary>, AppError> {
    let mut file = File::open(path).map_err(at(path))?;
    let length = file.metadata().map_err(at(path))?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES))).map_err(at(path))?;
    let mut tail = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut tail).map_err(at(path))?;
    Ok(recording::format::summary_at_end(&tail))
}

/// Replays a recording.
#[derive(Debug)]
pub struct Recorded {
    trace: PathBuf,
    /// How many times as fast as recorded; without it as fast as possible.
    speed: Option<f64>,
    is_cold: bool,
    seconds_guess: f64,
}

impl Recorded {
    /// Parameters `trace` (the recording's path), `speed` (`1x`, `2x`, `0.5x`, `max`) and `cold` (1: the files are not in memory
    /// when the replay begins; 0: as they were left by making them).
    ///
    /// # Errors
    /// A value out of range, no recording.
    pub fn new(parameters: &mut Parameters) -> Result<Recorded, AppError> {
        let trace = PathBuf::from(parameters.word(TRACE, ""));
        let speed = parameters.word(SPEED, "1x");
        let is_cold = parameters.number("cold", 1, 0..=1)? == 1;
        if trace.as_os_str().is_empty() {
            return Err(AppError::Parameter(format!(
                "{NAME} needs a recording: give its file to `loadline run`, or set {TRACE} to its path"
            )));
        }
        let speed = factor(&speed)?;
        // who reads the recording says what is wrong with it
        let summary = summary(&trace).ok().flatten().unwrap_or_default();
        let recorded_seconds = summary.length_ns as f64 / 1e9;
        let seconds_guess = match speed {
            Some(speed) => recorded_seconds / speed,
            None => summary.operations as f64 / OPERATIONS_PER_SECOND,
        };
        Ok(Recorded { trace, speed, is_cold, seconds_guess })
    }

    /// Reads the recording.
    fn split(&self, bench: &Bench<'_>) -> Result<Split, AppError> {
        bench.report("reading the recording");
        split::split(&mut Source::open(&self.trace)?, &|| bench.check())
    }

    fn prepare(&self, split: &Split, place: LoadSite<'_>, bench: &Bench<'_>) -> Result<(), AppError> {
        let (bytes, entries) = files::sum(&split.made);
        bench.report(&format!("making {entries} files, {}", units::format_bytes(bytes)));
        files::make(split, place.root, place.seed, &|| bench.check())
    }

    fn replay(&self, split: &Split, place: LoadSite<'_>, bench: &mut Bench<'_>) -> Result<(), AppError> {
        host::process::allow_descriptors(DESCRIPTORS);
        let root = files::open_root(place.root)?;
        let absolute = place.root.canonicalize().map_err(at(place.root))?;
        let target =
            Target::new(root, absolute, &split.paths, split.slots, split.write_bytes_max, place.seed);
        let mut not_open = 0;
        for file in &split.inherited {
            not_open += u64::from(target.inherit(*file).is_err());
        }
        bench.ready()?;
        bench.report(NAME);
        let outcome = replay::replay(split, &target, self.speed, bench.stopped())?;
        bench.took_over(outcome);
        self.remarks(split, &target, not_open, bench);
        Ok(())
    }

    fn remarks(&self, split: &Split, target: &Target<'_>, not_open: u64, bench: &mut Bench<'_>) {
        let summary = split.summary;
        for (count, what) in [
            (not_open, "files that were open before the recording could not be opened"),
            (target.undirected(), "opens were repeated without O_DIRECT, which this file system refuses"),
            (summary.lost, "calls are missing in the recording: the kernel's buffer had no room for them"),
            (
                summary.unseen_requests,
                "requests of the program to io_uring and libaio, and calls of msync, are not in the recording",
            ),
        ] {
            if count > 0 {
                bench.note(format!("{} {what}", tally::grouped(count)));
            }
        }
        if split.is_anonymous {
            bench.note("the names of the recording are hashes");
        }
    }
}

/// `2x`, `0.5x`, `2`; `None` is `max`.
fn factor(word: &str) -> Result<Option<f64>, AppError> {
    if word.trim() == "max" {
        return Ok(None);
    }
    let factor = word.trim().trim_end_matches('x').parse().ok();
    let factor = factor.filter(|factor: &f64| factor.is_finite() && (1e-6..=1e6).contains(factor));
    let wrong = || AppError::Parameter(format!("{SPEED} = {word} is no speed: write 2x, 0.5x, or max"));
    factor.map(Some).ok_or_else(wrong)
}

impl Load for Recorded {
    fn phases(&self) -> u32 {
        if self.is_cold { 2 } else { 1 }
    }

    fn seconds_guess(&self) -> f64 {
        self.seconds_guess
    }

    fn waits_at_gate(&self) -> bool {
        true
    }

    fn reads_host_files(&self) -> bool {
        true
    }

    fn run(&self, phase: u32, place: LoadSite<'_>, bench: &mut Bench<'_>) -> Result<(), AppError> {
        let split = self.split(bench)?;
        if phase == 0 {
            self.prepare(&split, place, bench)?;
        }
        if phase + 1 == self.phases() {
            return self.replay(&split, place, bench);
        }
        bench.ready()
    }
}

#[cfg(test)]
mod tests;
