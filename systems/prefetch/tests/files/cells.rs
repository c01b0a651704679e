//! Programs and devices, by name.

use super::{DiskOptions, File, Program};

/// Latency in ns, and bytes/s.
pub const DEVICES: [(&str, u64, u64); 6] = [
    ("0.1ms,3GB/s", 100_000, 3_000_000_000),
    ("0.3ms,600MB/s", 300_000, 600_000_000),
    ("1ms,1GB/s", 1_000_000, 1_000_000_000),
    ("1ms,250MB/s", 1_000_000, 250_000_000),
    ("5ms,200MB/s", 5_000_000, 200_000_000),
    ("20ms,400MB/s", 20_000_000, 400_000_000),
];

/// A device with 128 KiB of kernel read-ahead. Memory has room for so many percent of the program's files, for all of them
/// without.
pub fn options(
    (_, latency_ns, bandwidth): (&str, u64, u64),
    program: &Program,
    percent: Option<u64>,
) -> DiskOptions {
    let all: u64 = program.files.iter().map(|file| file.size).sum();
    let memory_bytes = percent.map_or(10 * all, |percent| all * percent / 100);
    DiskOptions { latency_ns, bandwidth, readahead_bytes: 128 << 10, memory_bytes }
}

const MIB: u64 = 1 << 20;

/// Numbers in no order: a permutation, the same one for a seed.
fn shuffled(number: usize, seed: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..number).collect();
    let mut state = 88_172_645_463_325_252u64 + seed;
    for at in (1..number).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        order.swap(at, (state % (at as u64 + 1)) as usize);
    }
    order
}

/// Numbered files in a directory, which lists them in no order.
fn shards(directories: u64, number: usize, size: u64) -> Vec<File> {
    let file = |key, at| File { key, name: format!("part-{at:05}.bin"), size };
    (1..=directories).flat_map(|key| shuffled(number, 0).into_iter().map(move |at| file(key, at))).collect()
}

/// Where the file of a number is, in the directory of a number.
fn at(files: &[File], key: u64, number: usize) -> Option<usize> {
    let name = format!("part-{number:05}.bin");
    files.iter().position(|file| file.key == key && file.name == name)
}

/// One thread opens these numbers of one directory.
fn numbered(number: usize, size: u64, opened: impl Iterator<Item = usize>) -> Program {
    let files = shards(1, number, size);
    let threads = vec![opened.filter_map(|each| at(&files, 1, each)).collect()];
    Program { files, threads, percent: 100, ..Program::default() }
}

/// A tree of directories of small files, in words: names without numbers, 4 to 64 KiB.
fn tree(directories: u64, number: usize) -> Vec<File> {
    let letters = |mut at: usize| -> String {
        let letter = |at: usize| char::from(b'a' + (at % 26) as u8);
        (0..4).map(|_| (letter(at), at /= 26).0).collect()
    };
    let size = |key: u64, at: usize| 4096 + (key * 7919 + at as u64 * 104_729) % (60 << 10);
    let of = |key: u64| (0..number).map(move |at| File { key, name: letters(at), size: size(key, at) });
    (1..=directories).flat_map(of).collect()
}

/// One thread opens these files.
fn walker(files: Vec<File>, opened: Vec<usize>) -> Program {
    Program { files, threads: vec![opened], percent: 100, ..Program::default() }
}

/// Programs whose files come in an order that can be told.
pub fn ordered() -> Vec<(&'static str, Program)> {
    let folders = shards(4, 60, MIB);
    let through = |key| (0..60).filter_map(|each| at(&folders, key, each)).collect();
    let threads: Vec<Vec<usize>> = (1..=4).map(through).collect();
    let many = tree(50, 60);
    let all: Vec<usize> = (0..many.len()).collect();
    let listed = Program { threads: vec![(0..600).collect()], ..numbered(600, 64 << 10, 0..0) };
    vec![
        ("series of 16 KiB", numbered(1_500, 16 << 10, 0..1_500)),
        ("series of 1 MiB", numbered(200, MIB, 0..200)),
        ("series of 8 MiB", numbered(40, 8 * MIB, 0..40)),
        ("series downward", numbered(200, MIB, (0..200).rev())),
        ("series, every third", numbered(600, MIB, (0..600).step_by(3))),
        ("series, computing 3 ms", Program { think_ns: 3_000_000, ..numbered(200, MIB, 0..200) }),
        (
            "series of four folders",
            Program { files: folders.clone(), threads, percent: 100, ..Program::default() },
        ),
        ("walk", walker(many.clone(), all.clone())),
        ("walk, computing 0.3 ms", Program { think_ns: 300_000, ..walker(many.clone(), all) }),
        ("walk, every second", walker(many.clone(), (0..many.len()).step_by(2).collect())),
        ("walk of numbers as listed in no order", listed),
    ]
}

/// Programs in which a few files look like an order, and nothing comes of it.
pub fn misleading() -> Vec<(&'static str, Program)> {
    let many = tree(50, 60);
    let here_and_there: Vec<usize> = shuffled(50, 1).into_iter().flat_map(|d| d * 60..d * 60 + 4).collect();
    let by_chance: Vec<usize> = shuffled(many.len(), 2);
    let short = shuffled(100, 3).into_iter().flat_map(|begin| begin * 6..begin * 6 + 4);
    let mut holes: Vec<usize> = (0..600).collect();
    holes.retain(|each| each % 5 != 4);
    let lacking = {
        let mut program = numbered(600, 256 << 10, 0..0);
        program.files.retain(|file| !file.name.ends_with("4.bin") && !file.name.ends_with("9.bin"));
        program.threads = vec![holes.into_iter().filter_map(|each| at(&program.files, 1, each)).collect()];
        program
    };
    vec![
        ("numbers in no order", numbered(300, 512 << 10, shuffled(300, 4).into_iter())),
        ("numbers, four in a row", numbered(600, 512 << 10, short)),
        ("numbers, the first quarter of each", Program { percent: 25, ..numbered(300, MIB, 0..300) }),
        ("numbers, each fifth lacks", lacking),
        ("numbers, all cached", Program { warm: true, ..numbered(600, 64 << 10, 0..600) }),
        ("four files of each directory", walker(many.clone(), here_and_there)),
        ("directories in no order", walker(many.clone(), by_chance)),
        ("directories, every tenth", walker(many.clone(), (0..many.len()).step_by(10).collect())),
        (
            "directories, all cached",
            Program { warm: true, ..walker(many.clone(), (0..many.len()).collect()) },
        ),
    ]
}
