//! Reads a file in a pattern and says how long it took: the program that measurements of prefetching run.
//!
//! `reader FILE PATTERN [--threads N] [--block KIB] [--shared] [--passes N] [--raw] [--slow US]`; PATTERN is one of
//! those that `offsets` knows. Prints one line: pattern, wall seconds, MB/s, p50, p99; with `--raw` wall, p50, p99,
//! longest in ns; with `--slow` before that each longer read: thread, number, when it began and how long it took, us.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Instant;

struct Options {
    path: String,
    pattern: String,
    threads: u64,
    block: u64,
    shared: bool,
    passes: u64,
    raw: bool,
    slow_us: Option<u64>,
}

fn options() -> Option<Options> {
    let mut words = std::env::args().skip(1);
    let (path, pattern) = (words.next()?, words.next()?);
    let mut options = Options {
        path,
        pattern,
        threads: 4,
        block: 64 << 10,
        shared: false,
        passes: 1,
        raw: false,
        slow_us: None,
    };
    while let Some(word) = words.next() {
        match word.as_str() {
            "--threads" => options.threads = words.next()?.parse().ok()?,
            "--block" => options.block = words.next()?.parse::<u64>().ok()? << 10,
            "--shared" => options.shared = true,
            "--passes" => options.passes = words.next()?.parse().ok()?,
            "--raw" => options.raw = true,
            "--slow" => options.slow_us = Some(words.next()?.parse().ok()?),
            _ => return None,
        }
    }
    Some(options)
}

/// The reads of one thread: offset and length.
fn offsets(options: &Options, size: u64, thread: u64) -> Option<Vec<(u64, u64)>> {
    let block = options.block;
    let part = size / options.threads / block * block;
    let base = part * thread;
    let every = |step: u64| (0..part / step).map(|i| base + i * step).collect::<Vec<_>>();
    let mut seed = 0x9e37_79b9_7f4a_7c15u64 ^ thread;
    let mut random = move |limit: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % limit.max(1)
    };
    let mut shuffled = |mut all: Vec<u64>, window: usize| {
        for part in all.chunks_mut(window) {
            (1..part.len()).rev().for_each(|at| part.swap(at, random(at as u64 + 1) as usize));
        }
        all
    };
    let starts = match options.pattern.as_str() {
        "seq" => every(block),
        "stride" => every(5 * block),
        "small-stride" => every(4 * block),
        "reverse" => every(block).into_iter().rev().collect(),
        "interleaved" => (0..part / block).map(|i| (i * options.threads + thread) * block).collect(),
        "permutation" => shuffled(every(block), usize::MAX),
        "windows" => shuffled(every(block), 64),
        "runs" => (0..part / block / 16)
            .flat_map(|_| {
                let start = base + random(part / block - 16) * block;
                (0..16).map(move |i| start + i * block)
            })
            .collect(),
        "random" => (0..2000).map(|_| base + random(part / block) * block).collect(),
        "hot" => (0..200_000).map(|_| random((16 << 20) / block) * block).collect(),
        "variable" => {
            let mut reads = Vec::new();
            let mut at = base;
            while at < base + part {
                let len = (4096 * (1 + random(block / 2048))).min(base + part - at);
                reads.push((at, len));
                at += len;
            }
            return Some(reads);
        }
        _ => return None,
    };
    Some(starts.into_iter().map(|start| (start, block)).collect())
}

fn main() -> std::io::Result<()> {
    let Some(options) = options() else {
        eprintln!(
            "usage: reader FILE PATTERN [--threads N] [--block KIB] [--shared] [--passes N] [--raw] [--slow US]"
        );
        std::process::exit(2);
    };
    let begin = Instant::now();
    let shared = File::open(&options.path)?;
    let size = shared.metadata()?.len();
    let results: Vec<(u64, Vec<u64>)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..options.threads)
            .map(|thread| {
                let (options, shared) = (&options, &shared);
                scope.spawn(move || {
                    let own = File::open(&options.path).expect("the file");
                    let file = if options.shared { shared } else { &own };
                    let mut buffer = vec![0; 2 * options.block as usize];
                    let mut times = Vec::new();
                    let mut bytes = 0;
                    for _ in 0..options.passes {
                        for (offset, len) in offsets(options, size, thread).expect("a known pattern") {
                            let start = Instant::now();
                            let room = &mut buffer[..len as usize];
                            bytes += file.read_at(room, offset).expect("a read") as u64;
                            let elapsed = start.elapsed();
                            if options.slow_us.is_some_and(|least| elapsed.as_micros() >= u128::from(least)) {
                                let begun = (start - begin).as_micros();
                                println!("{thread} {} {begun} {}", times.len(), elapsed.as_micros());
                            }
                            times.push(elapsed.as_nanos() as u64);
                        }
                    }
                    (bytes, times)
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().expect("a reader")).collect()
    });
    let wall = begin.elapsed().as_secs_f64();
    let bytes: u64 = results.iter().map(|(bytes, _)| bytes).sum();
    let mut times: Vec<u64> = results.into_iter().flat_map(|(_, times)| times).collect();
    times.sort_unstable();
    let percentile = |share: usize| times.get(times.len() * share / 100).copied().unwrap_or(0);
    if options.raw {
        let longest = times.last().copied().unwrap_or(0);
        println!("{:.0} {} {} {longest}", wall * 1e9, percentile(50), percentile(99));
        return Ok(());
    }
    println!(
        "{:12} {wall:8.3} s {:8.1} MB/s  p50 {:9.1} us  p99 {:9.1} us",
        options.pattern,
        bytes as f64 / wall / 1e6,
        percentile(50) as f64 / 1000.0,
        percentile(99) as f64 / 1000.0
    );
    Ok(())
}
