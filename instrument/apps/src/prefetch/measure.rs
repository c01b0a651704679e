//! Runs a program under a configuration and measures it.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use prefetch::Mode;
use prefetch_os::areas;
use stats::Direction;

use super::config::{Config, READ_AHEAD_KIB};
use super::library::{self, Library};
use super::task::{ARGUMENT, Done, Task};
use crate::bench::Section;
use crate::error::at;
use crate::programs::{Program, program};
use crate::{AppError, Bench, LoadSite, source};

const MEGA: f64 = 1e6;

/// One measured program: where, and under what.
pub(super) struct Measured<'a> {
    pub config: Config,
    pub place: LoadSite<'a>,
    pub column: &'static str,
}

/// What the program did, in the artifact's own timed region.
pub(super) struct Timed {
    pub seconds: f64,
    pub ops: u64,
    pub bytes: u64,
    /// `op/s` for operations, else MB/s.
    pub unit: &'static str,
    pub p50_us: f64,
    pub p99_us: f64,
    pub service: stats::Histogram,
}

/// Whether a configuration can run here; makes the program of our own tasks.
pub(super) fn provide(config: Config, home: &Path) -> Result<(), AppError> {
    link(home)?;
    if config == Config::CatFirst {
        program("cat", "coreutils")?;
    }
    if let Some(mode) = config.mode() {
        library(mode)?;
    }
    Ok(())
}

fn library(mode: Mode) -> Result<Library, AppError> {
    Library::find(None, Some(mode)).map_err(|error| AppError::Unavailable {
        reason: error.to_string(),
        remedy: "build it (cargo build --release -p loadline-prefetch-preload) beside loadline".into(),
    })
}

/// Where the program of our own tasks is: this executable under another name, since the library leaves `loadline`
/// itself alone.
fn reader(home: &Path) -> PathBuf {
    home.join(source::FOLDER).join("prefetch-load")
}

/// Makes that name, as a hard link, or a copy where there can be none; renewed when this executable is another one.
fn link(home: &Path) -> Result<(), AppError> {
    let folder = source::own_folder(home)?;
    let (own, reader) = (library::own()?, reader(home));
    let of =
        |path: &Path| std::fs::metadata(path).map(|data| (data.dev(), data.ino(), data.len(), data.mtime()));
    if let (Ok(a), Ok(b)) = (of(&own), of(&reader))
        && (a == b || (a.1 != b.1 && a.2 == b.2 && a.3 <= b.3))
    {
        return Ok(());
    }
    let new = folder.join(format!("prefetch-load.{}", std::process::id()));
    let _ = std::fs::remove_file(&new);
    library::name_this_program(&new)?;
    std::fs::rename(&new, &reader).map_err(at(&reader))
}

impl Measured<'_> {
    /// Runs one of our own tasks.
    pub fn task(&self, bench: &mut Bench<'_>, task: &Task, unit: &'static str) -> Result<Done, AppError> {
        let text = serde_json::to_string(task).map_err(|error| AppError::Protocol(error.to_string()))?;
        let words = [reader(self.place.home).into_os_string(), ARGUMENT.into(), text.into()];
        let mut done = None;
        self.run(bench, &words, &task.files(), |output| {
            let did: Done = serde_json::from_slice(output)
                .map_err(|error| AppError::Protocol(format!("the load answered badly: {error}")))?;
            let us = |share| did.main.service.quantile(share).map_or(f64::NAN, |ns| ns as f64 / 1e3);
            let timed = Timed {
                seconds: did.timed_seconds,
                ops: did.main.ops,
                bytes: did.main.bytes,
                unit,
                p50_us: us(0.5),
                p99_us: us(0.99),
                service: did.main.service.clone(),
            };
            done = Some(did);
            Ok(timed)
        })?;
        done.ok_or_else(|| AppError::Protocol("the load answered nothing".into()))
    }

    /// Runs a program to its end; its wall time includes its start, the opening of its files, and `cat` where the
    /// configuration has it. `read` takes from its output what the artifact would have timed.
    pub fn run(
        &self,
        bench: &mut Bench<'_>,
        words: &[OsString],
        files: &[PathBuf],
        read: impl FnOnce(&[u8]) -> Result<Timed, AppError>,
    ) -> Result<(), AppError> {
        bench.check()?;
        let _raised =
            (self.config == Config::ReadAhead).then(|| ReadAhead::raise(self.place.root)).transpose()?;
        let statistics = tempfile::tempdir().map_err(at(&std::env::temp_dir()))?;
        let started = self.program(words, statistics.path())?;
        warm(words);
        let section = bench.open(self.column, "program", Direction::Read);
        if self.config == Config::CatFirst {
            program("cat", "coreutils")?.args(files).into_file(Path::new("/dev/null"))?.output()?;
        }
        let output = started.output()?;
        let wall = section.elapsed();
        let timed = read(&output.stdout)?;
        self.tell(bench, section, &timed, wall, statistics.path())
    }

    fn program(&self, words: &[OsString], statistics: &Path) -> Result<Program, AppError> {
        Ok(Program::of(match self.config.mode() {
            Some(mode) => library(mode)?.command(words, statistics)?,
            None => library::without(words)?,
        }))
    }

    fn tell(
        &self,
        bench: &mut Bench<'_>,
        section: Section,
        timed: &Timed,
        wall_seconds: f64,
        statistics: &Path,
    ) -> Result<(), AppError> {
        let column = self.column;
        let mut tally = section.tally();
        tally.add(timed.ops, timed.bytes, &timed.service);
        bench.close(section, &tally, None)?;
        let amount = if timed.unit == "op/s" { timed.ops as f64 } else { timed.bytes as f64 / MEGA };
        bench.metric(column, timed.unit, amount / wall_seconds);
        let mut put =
            |name: &str, unit: &str, value: f64| bench.metric(format!("{column}/{name}"), unit, value);
        put("wall_seconds", "s", wall_seconds);
        put("timed", timed.unit, amount / timed.seconds.max(1e-9));
        put("timed_seconds", "s", timed.seconds);
        put("used_bytes", "bytes", timed.bytes as f64);
        put("p50_us", "us", timed.p50_us);
        put("p99_us", "us", timed.p99_us);
        let (mut issued, mut useful) = (0u64, 0);
        for found in areas::all(&[statistics]) {
            let total = found.snapshot.total();
            issued += total.issued;
            useful += total.useful;
        }
        if self.config.mode().is_some() {
            put("prefetched_bytes", "bytes", issued as f64);
            put("useful_bytes", "bytes", useful as f64);
            put("wasted_bytes", "bytes", issued.saturating_sub(useful) as f64);
        }
        Ok(())
    }
}

/// Brings a program's own file into the page cache, which was dropped: loading it from the machine's disk is no part
/// of the experiment.
fn warm(words: &[OsString]) {
    if words.first().and_then(|word| word.to_str()).is_none_or(|word| !word.ends_with("db_bench")) {
        return; // ourselves: mapped, and so never dropped
    }
    if let Some(path) = words.first() {
        let _ = std::fs::read(path);
    }
    for folder in ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"] {
        for file in super::files_in(Path::new(folder)) {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with("librocksdb.so") || name.starts_with("libstdc++.so") {
                let _ = std::fs::read(file);
            }
        }
    }
}

/// The kernel's read-ahead of a device, raised for a while.
struct ReadAhead {
    knob: PathBuf,
    before: String,
}

impl ReadAhead {
    fn raise(root: &Path) -> Result<ReadAhead, AppError> {
        let device = std::fs::metadata(root).map_err(at(root))?.dev();
        let knob = knob(device).ok_or_else(|| AppError::Unavailable {
            reason: "the read-ahead of this file system's device has no knob in /sys/class/bdi".into(),
            remedy: "use ext4 or XFS on a block device".into(),
        })?;
        let before = std::fs::read_to_string(&knob).map_err(at(&knob))?.trim().to_string();
        std::fs::write(&knob, READ_AHEAD_KIB.to_string()).map_err(at(&knob))?;
        Ok(ReadAhead { knob, before })
    }
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        let _ = std::fs::write(&self.knob, &self.before);
    }
}

fn knob(device: u64) -> Option<PathBuf> {
    let (major, minor) = (libc::major(device), libc::minor(device));
    let path = PathBuf::from(format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb"));
    path.exists().then_some(path)
}

/// What the kernel reads ahead on the device of a directory, KiB.
pub(super) fn read_ahead_kib(root: &Path) -> Option<u64> {
    let device = std::fs::metadata(root).ok()?.dev();
    std::fs::read_to_string(knob(device)?).ok()?.trim().parse().ok()
}
