//! The words of the command line.

use std::path::PathBuf;

use crate::Anyhow;

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

    /// How tables call it.
    pub fn label(&self) -> String {
        let shared = if self.shared { " shared" } else { "" };
        format!("{} {}x{}K{shared}", self.name, self.threads, self.block_kib)
    }
}

const PATTERNS: &str = "seq:1,seq,seq:4:4,reverse,stride,small-stride:4:16,interleaved,interleaved:4:64:shared,\
    permutation,windows,runs,random:4:4,random:1:64,variable,hot:2:4";
const DEVICES: &str = "raw,slow(100us,3GB/s),slow(1ms,1GB/s),slow(20ms,400MB/s),slow(1ms,250MB/s)";

/// What is measured, and with what.
pub struct Options {
    /// `raw` or profiles of the emulated SSD.
    pub devices: Vec<String>,
    /// The patterns.
    pub patterns: Vec<Pattern>,
    /// Percent of the file that fit into memory.
    pub memory: Vec<Option<u64>>,
    /// Runs of each cell, without and with.
    pub rounds: usize,
    /// Size of the file, MiB; an eighth of it on devices of 10 ms and more.
    pub mib: u64,
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

impl Options {
    /// Reads the command line.
    pub fn parse() -> Anyhow<Options> {
        let own = std::env::current_exe()?;
        let examples = own.parent().ok_or("no directory")?;
        let release = examples.parent().ok_or("no directory")?;
        let library = prefetch_os::launch::find_library(&own).unwrap_or_default();
        let mut options = Options {
            devices: list(DEVICES),
            patterns: Vec::new(),
            memory: vec![None, Some(75), Some(50), Some(25)],
            rounds: 3,
            mib: 256,
            readahead_kib: 128,
            library,
            loadline: release.join("loadline"),
            reader: examples.join("reader"),
            mode: "auto".into(),
            csv: None,
            scratch: tempfile::tempdir_in(release)?,
        };
        let mut patterns = PATTERNS.to_owned();
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
            match word.as_str() {
                "--devices" => options.devices = list(&value),
                "--patterns" => patterns = value,
                "--memory" => {
                    let percent = |word: &str| if word == "none" { Ok(None) } else { word.parse().map(Some) };
                    options.memory = value.split(',').map(percent).collect::<Result<_, _>>()?;
                }
                "--rounds" => options.rounds = value.parse()?,
                "--mib" => options.mib = value.parse()?,
                "--readahead" => options.readahead_kib = value.parse()?,
                "--library" => options.library = value.into(),
                "--loadline" => options.loadline = value.into(),
                "--mode" => options.mode = value,
                "--csv" => options.csv = Some(value.into()),
                _ => {
                    return Err(
                        format!("unknown option {word}; see the head of examples/harm/main.rs").into()
                    );
                }
            }
        }
        options.patterns = patterns.split(',').map(Pattern::parse).collect::<Anyhow<_>>()?;
        if !options.library.exists() {
            return Err("no library: build loadline-prefetch-preload, or say --library FILE".into());
        }
        Ok(options)
    }
}
