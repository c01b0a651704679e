//! The policy on recorded reads in virtual time, cell by cell: what a rule is worth is seen where it is left out.
//!
//!     cargo run -p loadline-lab --example prefetch_traces -- TRACES SEED...
//!     cargo run --release -p loadline-prefetch --example mutate -- TRACES > CELLS
//!
//! A line is a cell: gain, p99 as so many times that without prefetching, digest of all that was simulated for it. The
//! modes `predict` and `observe` are in the digest only. `mutate.py` beside this file leaves the rules out one by one.
//! In the place of TRACES, `files` stands for the programs of `tests/opens.rs`, which open one file after another.

use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, BufReader, Read};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

use prefetch::Mode;
use prefetch::sim::{MachineOptions, Noise, Outcome, Trace, replay};

#[path = "../tests/files/mod.rs"]
mod files;

struct Cell {
    name: String,
    trace: usize,
    machine: MachineOptions,
}

fn number(from: &mut impl Read) -> io::Result<u64> {
    let mut bytes = [0; 8];
    from.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

fn text(from: &mut impl Read) -> io::Result<String> {
    let mut bytes = vec![0; number(from)? as usize];
    from.read_exact(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The next trace of the file, and the cells of it, which are to have a number.
fn trace(from: &mut impl Read, at: usize) -> io::Result<(Trace, Vec<Cell>)> {
    let name = text(from)?;
    let mut trace = Trace { size: number(from)?, shared: number(from)? == 1, ..Trace::default() };
    for _ in 0..number(from)? {
        let (mut reads, mut pauses) = (Vec::new(), Vec::new());
        for _ in 0..number(from)? {
            reads.push((number(from)?, number(from)?));
            pauses.push(number(from)?);
        }
        trace.threads.push(reads);
        trace.pauses_ns.push(pauses);
    }
    let mut cells = Vec::new();
    for _ in 0..number(from)? {
        cells.push(Cell {
            name: format!("{name}/{}", text(from)?),
            trace: at,
            machine: MachineOptions {
                latency_ns: number(from)?,
                bandwidth: number(from)?,
                readahead_bytes: number(from)?,
                memory_bytes: number(from)?,
                request_bytes: 1 << 20,
                request_ns: 0,
            },
        });
    }
    Ok((trace, cells))
}

fn digest(outcomes: &[Outcome]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for Outcome { elapsed_ns, device_bytes, p99_ns, useful, issued, saved_ns } in outcomes {
        (elapsed_ns, device_bytes, p99_ns, useful, issued, saved_ns).hash(&mut hasher);
    }
    hasher.finish()
}

fn line(trace: &Trace, cell: &Cell, all: bool) -> String {
    let run = |mode| replay(trace, &cell.machine, mode);
    let (alone, helped) = (run(Mode::AppOnly), run(Mode::Auto));
    let mut outcomes = vec![alone, helped];
    if all {
        outcomes.extend([Mode::Predict, Mode::Observe, Mode::FetchAll].map(run));
    }
    let gain = alone.elapsed_ns as f64 / helped.elapsed_ns as f64;
    let p99 = helped.p99_ns as f64 / alone.p99_ns as f64;
    format!("{gain:.4}\t{p99:.4}\t{:016x}\t{}", digest(&outcomes), cell.name)
}

/// The programs that open one file after another, on each device.
fn print_files() {
    let programs = [("ordered", files::cells::ordered()), ("misleading", files::cells::misleading())];
    for (set, name, program) in
        programs.iter().flat_map(|(set, all)| all.iter().map(move |(name, program)| (set, name, program)))
    {
        for device in files::cells::DEVICES {
            let options = files::cells::options(device, program, None);
            let [alone, helped] = [false, true].map(|helped| files::replay(program, &options, helped));
            let gain = alone.elapsed_ns as f64 / helped.elapsed_ns as f64;
            let p99 = helped.p99_ns as f64 / alone.p99_ns as f64;
            let mut hasher = DefaultHasher::new();
            let all = [helped.elapsed_ns, helped.p99_ns, helped.device_bytes, helped.fetched];
            all.hash(&mut hasher);
            println!("{gain:.4}\t{p99:.4}\t{:016x}\t{set}/{name}/{}", hasher.finish(), device.0);
        }
    }
}

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().expect("TRACES [all] [late]");
    if file == "files" {
        print_files();
        return Ok(());
    }
    let words: Vec<String> = arguments.collect();
    let all = words.iter().any(|word| word == "all");
    let noise = if words.iter().any(|word| word == "late") { Noise::USUAL } else { Noise::default() };
    let mut from = BufReader::new(File::open(file)?);
    let (mut traces, mut cells) = (Vec::new(), Vec::new());
    loop {
        match trace(&mut from, traces.len()) {
            Ok((trace, more)) => {
                traces.push(Trace { noise, ..trace });
                cells.extend(more);
            }
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
            Err(error) => return Err(error),
        }
    }
    let next = AtomicUsize::new(0);
    let lines = Mutex::new(vec![String::new(); cells.len()]);
    let workers = std::env::var("MUTATE_THREADS").ok().and_then(|threads| threads.parse().ok());
    let workers = workers.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from));
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some((at, cell)) =
                    Some(next.fetch_add(1, Relaxed)).and_then(|at| Some((at, cells.get(at)?)))
                {
                    let line = line(&traces[cell.trace], cell, all);
                    lines.lock().expect("nobody panics with it")[at] = line;
                }
            });
        }
    });
    lines.into_inner().expect("nobody panics with it").iter().for_each(|line| println!("{line}"));
    Ok(())
}
