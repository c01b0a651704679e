//! One round: the reader without and with the library.

use std::path::Path;
use std::process::Command;

use stats::Histogram;

use crate::Anyhow;
use crate::device;
use crate::group::Group;
use crate::options::{Options, Pattern};

/// One run of the reader.
#[derive(Debug, Clone)]
pub struct Run {
    /// Wall time from the first open, ns.
    pub wall_ns: f64,
    /// How long each read took, ns.
    pub reads: Histogram,
    /// The most memory of its cgroup, page cache included.
    pub peak_bytes: u64,
}

/// A pair of runs, one after the other.
#[derive(Debug, Clone)]
pub struct Round {
    /// Without the library.
    pub alone: Run,
    /// With it.
    pub helped: Run,
}

/// Runs both; `swapped`: with the library first. `limit`: bytes of memory.
pub fn round(
    options: &Options,
    file: &Path,
    pattern: &Pattern,
    limit: Option<u64>,
    swapped: bool,
) -> Anyhow<Round> {
    let first = run(options, file, pattern, limit, swapped)?;
    let second = run(options, file, pattern, limit, !swapped)?;
    let (alone, helped) = if swapped { (second, first) } else { (first, second) };
    Ok(Round { alone, helped })
}

fn run(options: &Options, file: &Path, pattern: &Pattern, limit: Option<u64>, library: bool) -> Anyhow<Run> {
    device::drop_cache(file)?;
    let group = Group::new(limit)?;
    let mut command = Command::new(&options.reader);
    command.arg(file).arg(&pattern.name).args(["--raw", "--histogram"]);
    command.args(["--threads", &pattern.threads.to_string(), "--block", &pattern.block_kib.to_string()]);
    command.args(pattern.shared.then_some("--shared"));
    if library {
        command.env("LD_PRELOAD", &options.library).env("LOADLINE_PREFETCH", &options.mode);
        command.env("LOADLINE_PREFETCH_DIR", options.scratch.path());
    }
    group.enter_with(&mut command)?;
    let output = command.output()?;
    if !output.status.success() {
        return Err(format!("reader, {}: {}", output.status, String::from_utf8_lossy(&output.stderr)).into());
    }
    let text = String::from_utf8(output.stdout)?;
    let unknown = || format!("reader said {text}");
    let (numbers, histogram) = text.trim().split_once('\n').ok_or_else(unknown)?;
    let wall_ns = numbers.split(' ').next().and_then(|word| word.parse().ok()).ok_or_else(unknown)?;
    let reads = Histogram::from_hdr_v2_base64(histogram)?;
    Ok(Run { wall_ns, reads, peak_bytes: group.peak_bytes() })
}
