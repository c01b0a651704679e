//! Do no harm, measured: every pattern on every device with every size of memory, the same program without and
//! with the library.
//!
//! `cargo run --release -p loadline-prefetch-os --example harm -- [OPTIONS]`, as root. Options:
//! `--devices raw,slow(1ms,1GB/s)`, `--patterns seq,random:4:4`, `--memory none,50` (percent of the file in a memory
//! cgroup), `--rounds 3`, `--mib 256`, `--library FILE`, `--loadline FILE`, `--mode auto`, `--csv FILE`. It needs the
//! example `reader` beside itself, the library (`cargo build --release -p loadline-prefetch-preload`) and, for
//! emulated devices, the program `loadline`.
//!
//! A cell fails when its wall time without the library is under 0.97 of that with it, or when its p99 of single
//! reads is above 1.1 times that without (and more than 0.1 ms above: the clock of a busy machine).

mod device;
mod group;
mod options;

use std::io::Write;
use std::path::Path;
use std::process::Command;

use device::Device;
use group::Group;
use options::{Options, Pattern};

type Anyhow<T> = Result<T, Box<dyn std::error::Error>>;

/// One run of the reader.
#[derive(Debug, Clone, Copy, Default)]
struct Run {
    wall_ns: f64,
    p99_ns: f64,
    peak_bytes: f64,
}

/// A cell of the matrix: medians.
struct Cell {
    device: String,
    pattern: String,
    memory: String,
    alone: Run,
    helped: Run,
}

impl Cell {
    fn gain(&self) -> f64 {
        self.alone.wall_ns / self.helped.wall_ns
    }

    fn p99_ratio(&self) -> f64 {
        self.helped.p99_ns / self.alone.p99_ns
    }

    fn fails(&self) -> bool {
        let p99 = self.p99_ratio() > 1.1 && self.helped.p99_ns > self.alone.p99_ns + 100_000.0;
        self.gain() < 0.97 || p99
    }

    fn line(&self) -> String {
        format!(
            "| {} | {} | {} | {:.3} | {:.3} | {:.2} | {:.2} | {:.2} | {:.2} | {:.0} | {:.0} | {} |",
            self.device,
            self.pattern,
            self.memory,
            self.alone.wall_ns / 1e9,
            self.helped.wall_ns / 1e9,
            self.gain(),
            self.alone.p99_ns / 1e6,
            self.helped.p99_ns / 1e6,
            self.p99_ratio(),
            self.alone.peak_bytes / 1048576.0,
            self.helped.peak_bytes / 1048576.0,
            if self.fails() { "FAILS" } else { "" }
        )
    }
}

fn median(runs: &[Run]) -> Run {
    let of = |value: fn(&Run) -> f64| {
        let mut all: Vec<f64> = runs.iter().map(value).collect();
        all.sort_by(f64::total_cmp);
        all.get(all.len() / 2).copied().unwrap_or(0.0)
    };
    Run { wall_ns: of(|r| r.wall_ns), p99_ns: of(|r| r.p99_ns), peak_bytes: of(|r| r.peak_bytes) }
}

fn run(options: &Options, file: &Path, pattern: &Pattern, memory: Option<u64>, library: bool) -> Anyhow<Run> {
    device::drop_cache(file)?;
    let size = std::fs::metadata(file)?.len();
    let group = Group::new(memory.map(|percent| size * percent / 100))?;
    let mut command = Command::new(&options.reader);
    command.arg(file).arg(&pattern.name).arg("--raw");
    command.args(["--threads", &pattern.threads.to_string(), "--block", &pattern.block_kib.to_string()]);
    command.args(pattern.shared.then_some("--shared"));
    if library {
        command.env("LD_PRELOAD", &options.library).env("LOADLINE_PREFETCH", &options.mode);
        command.env("LOADLINE_PREFETCH_DIR", options.scratch.path());
    }
    group.enter_with(&mut command)?;
    let output = command.output()?;
    if !output.status.success() {
        return Err(format!("reader: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    let text = String::from_utf8(output.stdout)?;
    let numbers: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [wall_ns, _, p99_ns, _] = numbers[..] else { return Err(format!("reader said {text}").into()) };
    Ok(Run { wall_ns, p99_ns, peak_bytes: group.peak_bytes() as f64 })
}

fn cell(options: &Options, device: &Device, pattern: &Pattern, memory: Option<u64>) -> Anyhow<Cell> {
    let (mut alone, mut helped) = (Vec::new(), Vec::new());
    for round in 0..options.rounds {
        for turn in 0..2 {
            let library = (round + turn) % 2 == 1;
            let run = run(options, device.file(), pattern, memory, library)?;
            if library { &mut helped } else { &mut alone }.push(run);
        }
    }
    Ok(Cell {
        device: device.name().to_owned(),
        pattern: pattern.label(),
        memory: memory.map_or("none".into(), |percent| format!("{percent} %")),
        alone: median(&alone),
        helped: median(&helped),
    })
}

fn main() -> Anyhow<()> {
    let options = Options::parse()?;
    let mut csv = options.csv.as_ref().map(std::fs::File::create).transpose()?;
    println!(
        "| device | pattern | memory | alone s | library s | gain | alone p99 ms | library p99 ms | ratio | alone peak MiB | library peak MiB | |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|");
    let mut cells = Vec::new();
    for name in &options.devices {
        let device = Device::prepare(name, &options)?;
        for pattern in &options.patterns {
            for memory in &options.memory {
                let cell = cell(&options, &device, pattern, *memory)?;
                println!("{}", cell.line());
                if let Some(csv) = &mut csv {
                    writeln!(csv, "{}", cell.line().trim_matches('|').replace(" | ", ",").trim())?;
                }
                cells.push(cell);
            }
        }
    }
    let failing: Vec<&Cell> = cells.iter().filter(|cell| cell.fails()).collect();
    println!("\n{} of {} cells fail", failing.len(), cells.len());
    for cell in &failing {
        println!("{}", cell.line());
    }
    Ok(())
}
