//! `prefetch harm`: does the library harm on this machine? `prefetch reader`: the program that it runs.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use analysis::paired::Cell;
use anyhow::Context;
use apps::AppError;
use apps::prefetch::Library;
use apps::prefetch::patterns::{self, Pattern, Reader};
use clap::{Args, ValueHint};
use indicatif::ProgressBar;
use lab::paired::held_out::{self, HeldOutSet};
use lab::paired::matrix::{self, CellOutcome, MatrixEvent};
use lab::paired::plan::{self, Device, Plan};
use lab::paired::{Budget, PairedError, simulated};
use prefetch::Mode;
use report::harm::cells::{self, label};
use stats::harmless::Verdict;

use crate::cleanup::with_journal;
use crate::console::{self, Exit, bad_input};
use crate::options::Options;

/// Options of `prefetch harm`.
#[derive(Debug, Args)]
#[command(after_help = "\
Patterns: seq, reverse, stride, small-stride, interleaved, permutation, windows (shuffled within 64 blocks), runs (16 \
blocks forward at random places), random, variable (several sizes), hot (within 16 MiB); once held out from those who \
chose the policy's constants, now retired: zipf, phases, gaps, two-strides, backward-stride, pingpong, btree, burst; \
drawn ones: mix@SEED... as --held-out prints them. --held-out SEED draws patterns, devices and a size of memory that \
nobody has seen; the same seed draws the same. Choose no constant of the policy by what it shows.

A cell is `ok` when the 90 % intervals of gain (ratio of median wall times, at least 0.97) and of p99 (all reads of all \
rounds; at most 1.1 times) are within these limits as a whole, of three rounds at least; it FAILS (bold) \
when one is outside as a whole and most single rounds are, too (sign test, 5 %); else it is untold (?). Where 0.1 ms more of p99, if it were forgiven, would change that, it is said \
beside. Ctrl-C ends it, \
detaches the device, and shows the cells that there are.

Examples:
  loadline prefetch harm --dir /data           this file system; without root, too
  loadline prefetch harm --devices 'slow(1ms,1GB/s)' --patterns stride,hot:2:4 --memory 25
  loadline prefetch harm --csv cells.csv --seconds 600      ten minutes of all; then again:
  loadline prefetch harm --csv cells.csv --seconds 600 --resume
  loadline prefetch harm --csv cells.csv --resume --seconds 0      only shows what there is
  loadline prefetch harm --held-out 4711                 a set of your own
  loadline prefetch harm --held-out 4711 --simulate      the same in virtual time, without root and in seconds
  loadline prefetch harm --devices retired --patterns retired --memory none
  loadline prefetch harm --control --devices raw --memory none --csv control.csv
Exit codes: 0 all cells are ok; 1 one FAILS; 3 this machine cannot; 4 none fails, but some are untold or not measured; \
130 interrupted.")]
pub struct HarmOptions {
    /// `raw` (the file system of --dir), profiles such as slow(1ms,1GB/s) (as root), `matrix`, `retired` or `known` (both)
    /// [default: matrix; raw when --dir is given, and without root]
    #[arg(long, value_name = "LIST")]
    devices: Option<String>,
    /// `NAME[:THREADS[:BLOCK_KIB[:shared]]]`, `matrix`, `retired` or `known` (both); unless said 4 threads and 64 KiB
    #[arg(long, value_name = "LIST", default_value = "matrix")]
    patterns: String,
    /// Draw patterns, devices with their files, and a size of memory from this number
    #[arg(long, value_name = "SEED", conflicts_with_all = ["devices", "patterns", "mib", "readahead", "dir"])]
    held_out: Option<u64>,
    /// In virtual time: the policy on a simulated device and page cache; devices such as slow(1ms,1GB/s) only
    #[arg(long, conflicts_with_all = ["dir", "control", "library", "resume"])]
    simulate: bool,
    /// With --simulate: reads and requests are late now and then, as on a machine with few processors; five rounds
    #[arg(long, requires = "simulate")]
    noise: bool,
    /// Percent of the file in a memory cgroup (as root), or `none` [default: none,75,50,25; none without root]
    #[arg(long, value_name = "LIST")]
    memory: Option<String>,
    /// Where the file of the device `raw` lies [default: the current directory]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    dir: Option<PathBuf>,
    /// Size of the file, MiB; a quarter of it on devices of 10 ms and more
    #[arg(long, value_name = "N", default_value_t = 256)]
    mib: u64,
    /// Pairs of runs of each cell
    #[arg(long, value_name = "N", default_value_t = 5)]
    rounds: usize,
    /// For cells that are untold, or fail for the first time, three more at a time
    #[arg(long, value_name = "N", default_value_t = 15)]
    rounds_max: usize,
    /// No more rounds of a cell that would take longer; a single run that does (and than a minute) is ended and the cell
    /// left out
    #[arg(long, value_name = "N", default_value_t = 60.0)]
    cell_seconds: f64,
    /// Begin no cell after so long [default: until all are measured]
    #[arg(long, value_name = "N")]
    seconds: Option<f64>,
    /// Add a line for each cell
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    csv: Option<PathBuf>,
    /// Leave out the cells that the file has, and show them in the tables
    #[arg(long, requires = "csv")]
    resume: bool,
    /// The library is loaded but off: every FAILS is a false alarm
    #[arg(long, conflicts_with = "mode")]
    control: bool,
    /// Of the library
    #[arg(long, value_name = "MODE", default_value = "auto")]
    mode: String,
    /// The kernel's read-ahead of emulated devices, KiB
    #[arg(long, value_name = "KIB", default_value_t = 128)]
    readahead: u64,
    /// The library [default: as `loadline prefetch -- COMMAND` finds it]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    library: Option<PathBuf>,
    /// No progress, only the tables
    #[arg(short, long)]
    quiet: bool,
}

/// Options of `prefetch reader`.
#[derive(Debug, Args)]
pub struct ReaderOptions {
    /// The file
    file: PathBuf,
    /// The pattern
    pattern: String,
    /// Threads
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=1024))]
    threads: u64,
    /// Bytes of a read, KiB
    #[arg(long, value_name = "KIB", default_value_t = 64, value_parser = clap::value_parser!(u64).range(4..=65536))]
    block: u64,
    /// One descriptor for all threads
    #[arg(long)]
    shared: bool,
    /// How often all is read
    #[arg(long, value_name = "N", default_value_t = 1)]
    passes: u64,
    /// Print wall, p50, p99, longest in ns
    #[arg(long)]
    raw: bool,
    /// Print the times of all reads, too, as an HdrHistogram (V2, base64)
    #[arg(long)]
    histogram: bool,
    /// Write a line for each read
    #[arg(long, value_name = "CSV")]
    trace: Option<PathBuf>,
}

/// Measures, and shows what there is.
pub fn harm(options: &Options, arguments: &HarmOptions) -> anyhow::Result<Exit> {
    measure(options, arguments).or_else(unavailable_exit)
}

fn measure(options: &Options, arguments: &HarmOptions) -> anyhow::Result<Exit> {
    let drawn = arguments.held_out.map(held_out::set);
    let plan = plan(options, arguments, drawn.as_ref())?;
    if let Some(set) = &drawn {
        console::print(&set.words())?;
    }
    if arguments.simulate {
        return simulate(&plan, arguments);
    }
    let mut cells = match &arguments.csv {
        Some(csv) => read(csv, arguments.resume)?,
        None => Vec::new(),
    };
    let mut display = Display::new(arguments.quiet);
    let ended = with_journal(options, "harm", |_, journal, stop| {
        Ok(matrix::measure(&plan, &mut cells, journal, stop, &mut |notice| {
            if let (MatrixEvent::Ended(cell), Some(csv)) = (&notice, &arguments.csv) {
                append(csv, cell).map_err(cannot_write(csv))?;
            }
            display.show(&notice);
            Ok(())
        }))
    })?;
    display.bar.finish_and_clear();
    let wanted = plan.keys().len();
    let cells = plan.sorted(cells);
    if ended.is_ok() || !cells.is_empty() {
        console::print(&cells::summary(&cells, wanted))?;
    }
    match ended {
        Ok(CellOutcome::Done) => {}
        Ok(CellOutcome::TimeIsUp) if arguments.csv.is_some() => {
            host::note!("loadline: time is up; --resume goes on")
        }
        Ok(CellOutcome::TimeIsUp) => host::note!("loadline: time is up; --csv FILE and --resume could go on"),
        Err(PairedError::Interrupted) => {
            let kept = if arguments.csv.is_some() { "; --resume goes on" } else { "" };
            host::note!("loadline: interrupted{kept}");
            return Ok(Exit::Interrupted);
        }
        Err(error) => return Err(wrong(error)),
    }
    Ok(exit(&cells, wanted))
}

/// The same in virtual time.
fn simulate(plan: &Plan, arguments: &HarmOptions) -> anyhow::Result<Exit> {
    if let Some(csv) = &arguments.csv {
        read(csv, false)?;
    }
    let display = Display::new(arguments.quiet);
    let ended = simulated::cells(plan, arguments.noise, &mut |cell| {
        if let Some(csv) = &arguments.csv {
            append(csv, cell).map_err(cannot_write(csv))?;
        }
        display.line(&format!("{}: {}", label(&cell.key), cells::short(cell)));
        Ok(())
    });
    display.bar.finish_and_clear();
    let cells = ended.map_err(wrong)?;
    console::print(&cells::summary(&cells, cells.len()))?;
    Ok(exit(&cells, cells.len()))
}

fn cannot_write(csv: &Path) -> impl FnOnce(std::io::Error) -> PairedError {
    move |why| PairedError::File { what: format!("cannot write {}", csv.display()), why }
}

/// The cells of a file; none may be there unless it is resumed.
fn read(csv: &Path, resume: bool) -> anyhow::Result<Vec<Cell>> {
    let name = csv.display();
    match std::fs::read_to_string(csv) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Ok(_) if !resume => Err(bad_input(format!("{name} exists: say --resume, or remove it"))),
        text => cells::read(&text.with_context(|| name.to_string())?)
            .map_err(|error| bad_input(format!("{name}: {error}"))),
    }
}

/// Adds a line, after the head if it is the first. One write(2): several processes may share a file.
fn append(csv: &Path, cell: &Cell) -> std::io::Result<()> {
    let mut file = File::options().create(true).append(true).open(csv)?;
    let head = if file.metadata()?.len() == 0 { format!("{}\n", cells::HEAD) } else { String::new() };
    file.write_all(format!("{head}{}\n", cells::line(cell)).as_bytes())
}

/// Reads a file in a pattern.
pub fn reader(arguments: &ReaderOptions) -> anyhow::Result<Exit> {
    let reader = Reader {
        file: arguments.file.clone(),
        pattern: Pattern {
            name: arguments.pattern.clone(),
            threads: arguments.threads,
            block_kib: arguments.block,
            shared: arguments.shared,
        },
        passes: arguments.passes,
        raw: arguments.raw,
        histogram: arguments.histogram,
        trace: arguments.trace.clone(),
    };
    console::print(&reader.run().map_err(|error| match error {
        AppError::Parameter(text) => bad_input(text),
        error => error.into(),
    })?)?;
    Ok(Exit::Done)
}

fn plan(options: &Options, arguments: &HarmOptions, drawn: Option<&HeldOutSet>) -> anyhow::Result<Plan> {
    let root = rustix::process::geteuid().is_root();
    let devices = arguments.devices.as_deref();
    let memory = arguments.memory.as_deref();
    let nothing_said = devices.is_none() && arguments.dir.is_none() || memory.is_none();
    if !root && !arguments.simulate && drawn.is_none() && nothing_said {
        host::note!(
            "note: without root no device is emulated and no memory limited: --devices raw --memory none"
        );
    }
    let here = if (root && arguments.dir.is_none()) || arguments.simulate { "matrix" } else { plan::RAW };
    let named = || -> anyhow::Result<Vec<Device>> {
        let mut names = plan::devices(devices.unwrap_or(here)).map_err(wrong)?;
        // Of the matrix, which is not said, what can be simulated.
        names.retain(|name| !(arguments.simulate && devices.is_none() && name == plan::RAW));
        let device = |name| Device::new(name, arguments.mib, arguments.readahead);
        Ok(names.into_iter().map(device).collect())
    };
    let listed =
        || patterns::list(&arguments.patterns).map_err(|error| bad_input(format!("--patterns {error}")));
    let sizes = memory.unwrap_or(if root || arguments.simulate { "none,75,50,25" } else { "none" });
    let devices = drawn.map_or_else(named, |set| Ok(set.devices.clone()))?;
    let patterns = drawn.map_or_else(listed, |set| Ok(set.patterns.clone()))?;
    let memory = match drawn {
        Some(set) if memory.is_none() => set.memory.clone(),
        _ => plan::memory(sizes).map_err(|error| bad_input(format!("--memory {error}")))?,
    };
    // Last: what is wrong with the words is told where there is no library, too.
    let library = if arguments.simulate {
        Library { path: PathBuf::new(), mode: Some(crate::library::mode_of(&arguments.mode, Mode::ALL)?) }
    } else {
        crate::library::library(arguments.library.as_deref(), &arguments.mode, arguments.control)?
    };
    let plan = Plan {
        devices,
        patterns,
        memory,
        effort: Budget {
            rounds: arguments.rounds,
            rounds_max: arguments.rounds_max,
            time: seconds("--cell-seconds", arguments.cell_seconds)?,
        },
        time: arguments.seconds.map_or(Ok(Duration::MAX), |time| seconds("--seconds", time))?,
        held_out: arguments.held_out,
        directory: arguments.dir.clone().unwrap_or_else(|| PathBuf::from(".")),
        library,
        home: crate::cleanup::utf8(crate::run::home(options)?)?,
    };
    if !arguments.simulate {
        plan.check().map_err(wrong)?;
    }
    Ok(plan)
}

/// A number of seconds.
pub fn seconds(name: &str, value: f64) -> anyhow::Result<Duration> {
    Duration::try_from_secs_f64(value).map_err(|error| bad_input(format!("{name} {value}: {error}")))
}

/// 0: all are ok; 1: some fail; 4: anything else.
fn exit(cells: &[Cell], wanted: usize) -> Exit {
    let any = |verdict| cells.iter().any(|cell| cell.verdict == verdict);
    if any(Verdict::Harms) {
        Exit::Failed
    } else if any(Verdict::Untold) || cells.len() < wanted {
        Exit::CannotTell
    } else {
        Exit::Done
    }
}

/// An error of the laboratory, as one of ours.
pub fn wrong(error: PairedError) -> anyhow::Error {
    match error {
        PairedError::Input(text) => bad_input(text),
        error => error.into(),
    }
}

/// What this machine cannot do has an exit code of its own.
pub fn unavailable_exit(error: anyhow::Error) -> anyhow::Result<Exit> {
    match error.downcast_ref::<PairedError>() {
        Some(PairedError::CannotHere(text)) => {
            host::note!("loadline: {text}");
            Ok(Exit::CannotHere)
        }
        _ => Err(error),
    }
}

/// The display on standard error: a line that moves on a terminal, and a line for each cell.
struct Display {
    quiet: bool,
    bar: ProgressBar,
    begins: String,
}

impl Display {
    fn new(quiet: bool) -> Display {
        Display { quiet, bar: crate::progress::bar(quiet), begins: String::new() }
    }

    fn show(&mut self, notice: &MatrixEvent<'_>) {
        match notice {
            MatrixEvent::Device(name, mib) => self.bar.set_message(format!("{name}: writing {mib} MiB")),
            MatrixEvent::Begins { key, done, left, remaining } => {
                let time = remaining
                    .map(|time| format!(", about {} left", report::format::span_seconds(time.as_secs_f64())))
                    .unwrap_or_default();
                self.bar.set_length((done + left) as u64);
                self.bar.set_position(*done as u64);
                self.begins = format!("{}{time}", label(key));
                self.bar.set_message(self.begins.clone());
            }
            MatrixEvent::Run(turn) => {
                self.bar.set_message(format!("{}: round {} of {}", self.begins, turn.round, turn.of));
            }
            // Said in any case: without it a cell would be missing for no reason.
            MatrixEvent::GivenUp(key, time) => {
                let hint = if key.memory.is_some() {
                    "; it may thrash: a higher --mib leaves it more memory"
                } else {
                    "; a higher --cell-seconds gives it more time"
                };
                let text =
                    format!("{}: left out, a run did not end in {} s{hint}", label(key), time.as_secs());
                self.bar.suspend(|| host::note!("loadline: {text}"));
            }
            MatrixEvent::Ended(cell) => {
                self.bar.inc(1);
                self.line(&format!("{}: {}", label(&cell.key), cells::short(cell)));
            }
        }
    }

    fn line(&self, text: &str) {
        crate::progress::line(&self.bar, self.quiet, text);
    }
}
