//! Touches the pages of a mapped file in a pattern and says how long it took: the sister of `loadline prefetch
//! reader` for mappings.
//!
//! `toucher FILE PATTERN [--threads N] [--block KIB] [--own] [--raw]`: all threads share a mapping, or each has its
//! own, and touch each page of their blocks, upwards. PATTERN is `seq`, `reverse`, `stride` (one of five blocks), `random` (2,000 blocks), or one of
//! these after `hinted-` (MADV_RANDOM). Prints pattern, wall seconds, MB/s, p50 and p99 of a block; with `--raw` wall,
//! p50, p99, longest in ns.

use std::fs::File;
use std::io::{Error, Result};
use std::os::fd::AsRawFd;
use std::time::Instant;

const PAGE: usize = 4096;

struct Options {
    path: String,
    pattern: String,
    threads: usize,
    block: usize,
    own: bool,
    raw: bool,
}

fn options() -> Option<Options> {
    let mut words = std::env::args().skip(1);
    let (path, pattern) = (words.next()?, words.next()?);
    let mut options = Options { path, pattern, threads: 4, block: 64 << 10, own: false, raw: false };
    while let Some(word) = words.next() {
        match word.as_str() {
            "--threads" => options.threads = words.next()?.parse().ok().filter(|threads| *threads > 0)?,
            "--block" => {
                options.block =
                    words.next()?.parse::<usize>().ok().filter(|kib| *kib > 0 && kib % 4 == 0)? << 10;
            }
            "--own" => options.own = true,
            "--raw" => options.raw = true,
            _ => return None,
        }
    }
    Some(options)
}

/// Where the blocks of a thread begin.
fn starts(pattern: &str, size: usize, threads: usize, block: usize, thread: usize) -> Option<Vec<usize>> {
    let part = size / threads / block * block;
    let base = part * thread;
    let every = |step: usize| (0..part / step).map(|at| base + at * step).collect::<Vec<_>>();
    Some(match pattern {
        "seq" => every(block),
        "reverse" => every(block).into_iter().rev().collect(),
        "stride" => every(5 * block),
        "random" => {
            let mut seed = 0x9e37_79b9_7f4a_7c15u64 ^ thread as u64;
            let mut random = || {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (seed >> 33) as usize
            };
            (0..2000).map(|_| base + random() % (part / block).max(1) * block).collect()
        }
        _ => return None,
    })
}

/// Touches the blocks; how long each took, ns.
fn touch(start: usize, blocks: &[usize], block: usize) -> Vec<u64> {
    let mut times = Vec::with_capacity(blocks.len());
    for at in blocks {
        let begin = Instant::now();
        for page in (0..block).step_by(PAGE) {
            // SAFETY: blocks lie inside the mapping, which lives until the program ends.
            unsafe { ((start + at + page) as *const u8).read_volatile() };
        }
        times.push(begin.elapsed().as_nanos() as u64);
    }
    times
}

/// Maps a file, for as long as the program runs; where.
fn map(file: &File, size: usize, hinted: bool) -> Result<usize> {
    // SAFETY: a fresh mapping of an open file, which nothing shortens.
    let mapped = unsafe {
        libc::mmap(std::ptr::null_mut(), size, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0)
    };
    // SAFETY: the mapping is this program's own.
    if mapped == libc::MAP_FAILED || hinted && unsafe { libc::madvise(mapped, size, libc::MADV_RANDOM) } != 0
    {
        return Err(Error::last_os_error());
    }
    Ok(mapped as usize)
}

fn main() -> Result<()> {
    let usage = || -> ! {
        eprintln!(
            "usage: toucher FILE [hinted-]seq|reverse|stride|random [--threads N] [--block KIB] [--own] [--raw]"
        );
        std::process::exit(2)
    };
    let Some(options) = options() else { usage() };
    let begin = Instant::now();
    let file = File::open(&options.path)?;
    let size = file.metadata()?.len() as usize;
    let unhinted = options.pattern.strip_prefix("hinted-");
    let pattern = unhinted.unwrap_or(&options.pattern);
    let of_thread = |thread| starts(pattern, size, options.threads, options.block, thread);
    let Some(blocks) = (0..options.threads).map(of_thread).collect::<Option<Vec<_>>>() else { usage() };
    let first = map(&file, size, unhinted.is_some())?;
    let mut mapped = vec![first; options.threads];
    for own in mapped.iter_mut().skip(1).filter(|_| options.own) {
        *own = map(&file, size, unhinted.is_some())?;
    }
    let mut times: Vec<u64> = std::thread::scope(|scope| {
        let each = blocks.iter().zip(mapped);
        let workers: Vec<_> =
            each.map(|(blocks, start)| scope.spawn(move || touch(start, blocks, options.block))).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("a thread")).collect()
    });
    let wall = begin.elapsed().as_secs_f64();
    let bytes = (times.len() * options.block) as f64;
    times.sort_unstable();
    let percentile = |share: usize| times.get(times.len() * share / 100).copied().unwrap_or(0);
    let (p50, p99, longest) = (percentile(50), percentile(99), times.last().copied().unwrap_or(0));
    if options.raw {
        println!("{:.0} {p50} {p99} {longest}", wall * 1e9);
    } else {
        let (p50, p99) = (p50 as f64 / 1e3, p99 as f64 / 1e3);
        println!(
            "{:16} {wall:8.3} s {:8.1} MB/s  p50 {p50:9.1} us  p99 {p99:9.1} us",
            options.pattern,
            bytes / wall / 1e6
        );
    }
    Ok(())
}
