//! The words of the command line.

use std::path::PathBuf;
use std::time::Duration;

use crate::Anyhow;
use crate::table::Key;

/// One pattern of the reader: name, threads, block.
#[derive(Debug, Clone)]
pub struct Pattern {
    /// As the reader calls it.
    pub name: String,
    /// Threads.
    pub threads: u64,
    /// Bytes of a read, KiB.
    pub block_kib: u64,
    /// One descriptor for all threads.
    pub shared: bool,
}

impl Pattern {
    /// Reads `NAME[:THREADS[:BLOCK_KIB[:shared]]]`.
    fn parse(text: &str) -> Anyhow<Pattern> {
        let mut words = text.split(':');
        let name = words.next().ok_or("an empty pattern")?.to_owned();
        let number = |word: Option<&str>, default| word.map_or(Ok(default), str::parse::<u64>);
        let (threads, block_kib) = (number(words.next(), 4)?, number(words.next(), 64)?);
        Ok(Pattern { name, threads, block_kib, shared: words.next() == Some("shared") })
    }

    /// How tables call it: what is not said is 4 threads, 64 KiB, a descriptor a thread.
    fn title(&self) -> String {
        let threads = match self.threads {
            1 => ", 1 thread".into(),
            4 => String::new(),
            n => format!(", {n} threads"),
        };
        let block = if self.block_kib == 64 { String::new() } else { format!(", {} KiB", self.block_kib) };
        let shared = if self.shared { ", one descriptor" } else { "" };
        format!("{}{threads}{block}{shared}", self.name)
    }
}

const PATTERNS: &str = "seq:1,seq,seq:4:4,reverse,stride,small-stride:4:16,interleaved,interleaved:4:64:shared,\
    permutation,windows,runs,random:4:4,random:1:64,variable,hot:2:4";
const DEVICES: &str = "raw,slow(100us,3GB/s),slow(1ms,1GB/s),slow(20ms,400MB/s),slow(1ms,250MB/s)";
const HELD_OUT_PATTERNS: &str = "zipf:4:4,phases,gaps,two-strides,backward-stride,pingpong,btree:4:4,burst:2";
const HELD_OUT_DEVICES: &str = "slow(300us,600MB/s),slow(5ms,200MB/s)";

/// What `--help` prints.
pub const HELP: &str = "\
harm: the same program without and with the prefetching library, on every device, in every pattern

  cargo run --release -p loadline-prefetch-os --example harm -- [OPTIONS]      (as root)

  --devices LIST      `raw`, profiles such as slow(1ms,1GB/s), `matrix` or `held-out` [matrix]
  --patterns LIST     NAME[:THREADS[:BLOCK_KIB[:shared]]] of the example reader, `matrix` or `held-out` [matrix]
  --memory LIST       percent of the file in a memory cgroup, or `none` [none,75,50,25]
  --mib N             size of the file; a quarter of it on devices of 10 ms and more [256]
  --rounds N          pairs of runs of each cell [5]
  --rounds-max N      for cells that are untold, or fail for the first time, three more at a time [15]
  --cell-seconds N    no more rounds of a cell that would take longer [60]
  --seconds N         begin no cell after so long; 0 shows what --csv has
  --csv FILE          add a line for each cell
  --resume            leave out the cells that FILE has, and show them in the tables
  --control           the library is loaded but off: every FAILS is a false alarm (--mode off)
  --mode MODE         of the library [auto]
  --readahead KIB     of emulated devices [128]
  --library FILE      the library    --loadline FILE  the program that attaches devices [beside the examples]

A cell is `ok` when the 90 % intervals of gain (ratio of median wall times, at least 0.97) and of p99 (all reads of
all rounds; at most 1.1 times or 0.1 ms more) are within these limits as a whole, FAILS (bold) when one is outside as a
whole and most single rounds are, too (sign test, 5 %), and untold (?) else. Ctrl-C ends it, detaches the device, and shows what there is.

Examples:
  harm --devices 'slow(1ms,1GB/s)' --patterns stride,small-stride:4:16 --memory none,25
  harm --csv cells.csv --seconds 600        # ten minutes of the whole matrix; then again and again:
  harm --csv cells.csv --seconds 600 --resume
  harm --devices held-out --patterns held-out --memory none
  harm --control --devices raw --memory none --csv control.csv
";

/// What is measured, and with what.
pub struct Options {
    /// `raw` or profiles of the emulated SSD.
    pub devices: Vec<String>,
    /// The patterns.
    pub patterns: Vec<Pattern>,
    /// Percent of the file that fit into memory.
    pub memory: Vec<Option<u64>>,
    /// Pairs of runs of each cell at first.
    pub rounds: usize,
    /// And at most.
    pub rounds_max: usize,
    /// How long a cell may take to be told.
    pub cell_time: Duration,
    /// No cell begins after so long.
    pub time: Duration,
    /// Size of the file, MiB; see `mib_of`.
    mib: u64,
    /// The kernel's read-ahead window of emulated devices, KiB.
    pub readahead_kib: u64,
    /// The library.
    pub library: PathBuf,
    /// The program that attaches emulated devices.
    pub loadline: PathBuf,
    /// The example `reader`.
    pub reader: PathBuf,
    /// Mode of the library.
    pub mode: String,
    /// Where lines go too.
    pub csv: Option<PathBuf>,
    /// Whether it may have lines already.
    pub resume: bool,
    /// Where files lie.
    pub scratch: tempfile::TempDir,
}

/// Separated by commas outside of parentheses.
fn list(text: &str) -> Vec<String> {
    let mut depth = 0;
    text.split(|c: char| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c == ',' && depth == 0
    })
    .map(str::to_owned)
    .collect()
}

fn seconds(word: &str) -> Anyhow<Duration> {
    Ok(Duration::try_from_secs_f64(word.parse()?)?)
}

impl Options {
    /// Reads the command line; none: `--help`.
    pub fn parse() -> Anyhow<Option<Options>> {
        let own = std::env::current_exe()?;
        let examples = own.parent().ok_or("no directory")?;
        let release = examples.parent().ok_or("no directory")?;
        let library = prefetch_os::launch::find_library(&own).unwrap_or_default();
        let mut options = Options {
            devices: list(DEVICES),
            patterns: Vec::new(),
            memory: vec![None, Some(75), Some(50), Some(25)],
            rounds: 5,
            rounds_max: 15,
            cell_time: Duration::from_secs(60),
            time: Duration::MAX,
            mib: 256,
            readahead_kib: 128,
            library,
            loadline: release.join("loadline"),
            reader: examples.join("reader"),
            mode: "auto".into(),
            csv: None,
            resume: false,
            scratch: tempfile::tempdir_in(release)?,
        };
        let mut patterns = PATTERNS.to_owned();
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
            match word.as_str() {
                "--help" | "-h" => return Ok(None),
                "--devices" => {
                    options.devices = match value()?.as_str() {
                        "matrix" => list(DEVICES),
                        "held-out" => list(HELD_OUT_DEVICES),
                        names => list(names),
                    }
                }
                "--patterns" => {
                    patterns = match value()?.as_str() {
                        "matrix" => PATTERNS.to_owned(),
                        "held-out" => HELD_OUT_PATTERNS.to_owned(),
                        names => names.to_owned(),
                    }
                }
                "--memory" => {
                    let percent = |word: &str| if word == "none" { Ok(None) } else { word.parse().map(Some) };
                    options.memory = value()?.split(',').map(percent).collect::<Result<_, _>>()?;
                }
                "--rounds" => options.rounds = value()?.parse::<usize>()?.max(1),
                "--rounds-max" => options.rounds_max = value()?.parse()?,
                "--cell-seconds" => options.cell_time = seconds(&value()?)?,
                "--seconds" => options.time = seconds(&value()?)?,
                "--mib" => options.mib = value()?.parse()?,
                "--readahead" => options.readahead_kib = value()?.parse()?,
                "--library" => options.library = value()?.into(),
                "--loadline" => options.loadline = value()?.into(),
                "--mode" => options.mode = value()?,
                "--control" => options.mode = "off".into(),
                "--csv" => options.csv = Some(value()?.into()),
                "--resume" => options.resume = true,
                _ => return Err(format!("unknown option {word}; see --help").into()),
            }
        }
        options.patterns = patterns.split(',').map(Pattern::parse).collect::<Anyhow<_>>()?;
        if !options.library.exists() {
            return Err("no library: build loadline-prefetch-preload, or say --library FILE".into());
        }
        Ok(Some(options))
    }

    /// Size of the file on a device, MiB: far ones, of tens of milliseconds, get a quarter.
    pub fn mib_of(&self, device: &str) -> u64 {
        if device.contains("0ms") { self.mib / 4 } else { self.mib }
    }

    /// The cells of the matrix, in order.
    pub fn keys(&self) -> Vec<(Key, &Pattern)> {
        let mut keys = Vec::new();
        for device in &self.devices {
            for pattern in &self.patterns {
                keys.extend(self.memory.iter().map(|&memory| {
                    let (device, mode) = (device.clone(), self.mode.clone());
                    (
                        Key { mib: self.mib_of(&device), device, pattern: pattern.title(), memory, mode },
                        pattern,
                    )
                }));
            }
        }
        keys
    }
}
