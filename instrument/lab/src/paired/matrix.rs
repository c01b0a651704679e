//! Do no harm, measured: every pattern on every device with every size of memory, the same program without and
//! with the library in turns.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use analysis::paired::{Cell, Key};
use apps::prefetch::library;
use apps::prefetch::patterns::{Pattern, reader};
use host::Host;
use journal::{Journal, PrivateTree};
use stats::Histogram;
use stats::harmless::{CellVerdict, Figure, Pair, gain, tail};

use super::compare::drop_cache;
use super::plan::{self, Plan};
use super::trial::TrialSetup;
use super::{PairedError, RunStart, Side, in_turns, with_path};
use crate::stack_factory::{BuiltStack, StackFactory, StackSetupError};

const MIB: f64 = 1048576.0;

/// How a measurement ended that met no error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CellOutcome {
    /// Every cell is there.
    Done,
    /// No more cells were begun.
    TimeIsUp,
}

/// What a measurement tells while it runs.
#[derive(Debug)]
pub enum MatrixEvent<'a> {
    /// A device is attached and its file, of so many MiB, is written.
    Device(&'a str, u64),
    /// A cell begins.
    Begins {
        /// Which.
        key: &'a Key,
        /// Cells that are there.
        done: usize,
        /// Cells that are not, this one included.
        left: usize,
        /// How long these will take, when that is known.
        remaining: Option<Duration>,
    },
    /// A run begins.
    Run(RunStart),
    /// A run of a cell did not end in the time that it had; the cell is left out.
    GivenUp(&'a Key, Duration),
    /// A cell is there.
    Ended(&'a Cell),
}

/// Who is told.
pub type EventSink<'a> = dyn FnMut(MatrixEvent<'_>) -> Result<(), PairedError> + 'a;

/// A file on a device.
struct Device {
    file: PathBuf,
    bytes: u64,
    _built: BuiltStack,
}

/// One run of the reader.
struct Reading {
    /// From the first open.
    wall_seconds: f64,
    /// How long each read took.
    reads_ns: Histogram,
    peak_bytes: u64,
}

/// Measures what is not in `cells` yet, and adds it there as soon as it is measured. All that is made for it is in
/// `journal`.
///
/// # Errors
/// What `tell` or a run says; [`PairedError::Interrupted`] when `stop` was set.
pub fn measure(
    plan: &Plan,
    cells: &mut Vec<Cell>,
    journal: &Arc<Journal>,
    stop: &AtomicBool,
    tell: &mut EventSink<'_>,
) -> Result<CellOutcome, PairedError> {
    // Not in /tmp, where programs may be forbidden to run or files lie in memory.
    std::fs::create_dir_all(&plan.home).map_err(with_path("make", &plan.home))?;
    let home = plan.home.canonicalize_utf8().map_err(with_path("find", &plan.home))?;
    let tree = PrivateTree::new(journal, &home)?;
    let setting = TrialSetup { journal, stop, scratch: tree.path().as_std_path() };
    let bench = CellBench { plan, setting, reader: setting.scratch.join("reader") };
    library::name_this_program(&bench.reader)?;
    let site = StackFactory::new(&home, tree.path()).map_err(|error| bench.built(error))?;
    let keys = plan.keys();
    let is_there = |cells: &[Cell], key: &Key| cells.iter().any(|cell| cell.key == *key);
    let (begin, before) = (Instant::now(), cells.len());
    for planned in &plan.devices {
        let mine = keys.iter().filter(|(key, _)| key.device == planned.name);
        let todo: Vec<_> = mine.filter(|(key, _)| !is_there(cells, key)).collect();
        let Some((_, first)) = todo.first() else { continue };
        if begin.elapsed() >= plan.time {
            return Ok(CellOutcome::TimeIsUp);
        }
        tell(MatrixEvent::Device(&planned.name, planned.mib))?;
        let device = bench.prepare(planned, &site)?;
        // Warms the program, the library and the file system's own blocks.
        for side in [Side::Baseline, Side::Candidate] {
            bench.read(&device, first, None, side)?;
        }
        for (key, pattern) in todo {
            if begin.elapsed() >= plan.time {
                return Ok(CellOutcome::TimeIsUp);
            }
            let left = keys.iter().filter(|(key, _)| !is_there(cells, key)).count();
            let done = (cells.len() - before) as u32;
            let remaining = begin.elapsed().checked_div(done).map(|each| each * left as u32);
            tell(MatrixEvent::Begins { key, done: cells.len(), left, remaining })?;
            let cell = match bench.cell(&device, key, pattern, tell) {
                Err(PairedError::TooLong(time)) => {
                    tell(MatrixEvent::GivenUp(key, time))?;
                    continue;
                }
                measured => measured?,
            };
            tell(MatrixEvent::Ended(&cell))?;
            cells.push(cell);
        }
    }
    Ok(CellOutcome::Done)
}

/// What measuring a cell needs.
struct CellBench<'a> {
    plan: &'a Plan,
    setting: TrialSetup<'a>,
    reader: PathBuf,
}

impl CellBench<'_> {
    /// Builds a device; its file is written and synced.
    fn prepare(&self, planned: &plan::Device, site: &StackFactory) -> Result<Device, PairedError> {
        let spec = self.plan.stack(planned)?;
        let built = site.build(&spec, self.setting.journal).map_err(|error| self.built(error))?;
        if let Some(ssd) = built.ssd() {
            let device = ssd.device().file_name().unwrap_or_default();
            let window = format!("/sys/block/{device}/queue/read_ahead_kb");
            let kib = planned.readahead_kib.to_string();
            Host::system().write(&window, &kib).map_err(with_path("write", window))?;
        }
        let file = built.path().join("data").into_std_path_buf();
        self.write(&file, planned.mib)?;
        Ok(Device { file, bytes: planned.mib << 20, _built: built })
    }

    fn built(&self, error: StackSetupError) -> PairedError {
        // The terminal's Ctrl-C reaches mkfs and mount as well.
        if self.setting.stop.load(Ordering::Relaxed) {
            return PairedError::Interrupted;
        }
        match error.unavailable() {
            Some(why) => PairedError::CannotHere(format!("{}; {}", why.reason, why.remedy)),
            None => PairedError::Program(error.to_string()),
        }
    }

    fn write(&self, path: &Path, mib: u64) -> Result<(), PairedError> {
        let bytes: Vec<u8> = (0..1u64 << 17).flat_map(|word| (word * 8).to_le_bytes()).collect();
        let mut file = File::create(path).map_err(with_path("create", path))?;
        for _ in 0..mib {
            file.write_all(&bytes).map_err(with_path("write", path))?;
            if self.setting.stop.load(Ordering::Relaxed) {
                return Err(PairedError::Interrupted);
            }
        }
        file.sync_all().map_err(with_path("write", path))
    }

    fn cell(
        &self,
        device: &Device,
        key: &Key,
        pattern: &Pattern,
        tell: &mut EventSink<'_>,
    ) -> Result<Cell, PairedError> {
        let limit = key.memory.map(|percent| device.bytes * percent / 100);
        let one = |turn: RunStart| {
            tell(MatrixEvent::Run(turn))?;
            self.read(device, pattern, limit, turn.side)
        };
        let series = in_turns(self.plan.effort, one, |rounds| {
            let walls: Vec<_> = rounds.iter().map(|pair| pair.map(|run| run.wall_seconds)).collect();
            let reads: Vec<_> = rounds.iter().map(|pair| pair.map(|run| &run.reads_ns)).collect();
            let ((wall, speed), tail) = (gain(&walls)?, tail(&reads)?);
            let CellVerdict { verdict, strict } = CellVerdict::of(&wall, speed, &tail);
            Ok(((wall, tail.figure, strict), verdict))
        })?;
        if series.interrupted {
            return Err(PairedError::Interrupted);
        }
        let (wall, p99, strict) = series.judged;
        let peak_mib = |side: fn(&Pair<Reading>) -> &Reading| {
            series.rounds.iter().map(|pair| side(pair).peak_bytes).max().unwrap_or(0) as f64 / MIB
        };
        Ok(Cell {
            key: key.clone(),
            verdict: series.verdict,
            strict,
            rounds: series.rounds.len(),
            wall,
            p99: Figure { sides: p99.sides.map(|ns| ns / 1e6), ..p99 },
            limit_mib: limit.unwrap_or(0) as f64 / MIB,
            peak_mib: Pair {
                baseline: peak_mib(|pair| &pair.baseline),
                candidate: peak_mib(|pair| &pair.candidate),
            },
        })
    }

    /// Runs the reader; `limit`: bytes of memory.
    fn read(
        &self,
        device: &Device,
        pattern: &Pattern,
        limit: Option<u64>,
        side: Side,
    ) -> Result<Reading, PairedError> {
        drop_cache(&device.file)?;
        let mut words = vec![self.reader.clone().into_os_string()];
        words.extend(pattern.words(&device.file));
        let mut command: Command = match side {
            Side::Baseline => library::without(&words)?,
            Side::Candidate => self.plan.library.command(&words, &self.setting.scratch.join("statistics"))?,
        };
        // Without a limit it is there to count; where none can be made, nothing is counted.
        let group = match limit {
            None => self.setting.group(None).ok(),
            limit => Some(self.setting.group(limit)?),
        };
        let ran = self.setting.run(&mut command, group, self.plan.run_time())?;
        if !ran.status.success() {
            let killed = ran.status.signal() == Some(libc::SIGKILL) && limit.is_some();
            let hint =
                if killed { "; a limit of memory this low may be the cause: try a higher --mib" } else { "" };
            let said = self.setting.last_errors();
            return Err(PairedError::Program(format!("the reader ended with {}{hint} {said}", ran.status)));
        }
        let text = String::from_utf8_lossy(&ran.output);
        let told = reader::parse_output(&text);
        let (wall_ns, reads_ns) =
            told.ok_or_else(|| PairedError::Program(format!("the reader said {text}")))?;
        Ok(Reading { wall_seconds: wall_ns / 1e9, reads_ns, peak_bytes: ran.peak_bytes })
    }
}
