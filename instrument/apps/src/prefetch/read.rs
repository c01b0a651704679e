//! multi_read: every thread reads its part once.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};

use super::shared::{Done, Pattern, Side, run_threads};
use crate::AppError;
use crate::error::at;

/// Files that are read once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Read {
    /// The files. Several: thread `t` of `n` reads the files `t`, `t + n` and so on. One: each thread its part.
    pub files: Vec<PathBuf>,
    /// Order of the reads.
    pub pattern: Pattern,
    /// Threads.
    pub threads: usize,
    /// Bytes of a read.
    pub block: u64,
    /// Whether the program asks for each file with readahead(2) before it reads.
    pub hint: bool,
    /// Seed of the shuffle.
    pub seed: u64,
}

/// A part of a file that a thread reads.
struct Part {
    file: File,
    path: PathBuf,
    from: u64,
    to: u64,
}

impl Read {
    /// Opens all files, then reads; the time begins after the opening.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn run(&self) -> Result<Done, AppError> {
        let mut parts: Vec<Vec<Part>> = (0..self.threads).map(|_| Vec::new()).collect();
        let shared = self.files.len() == 1;
        for (number, path) in self.files.iter().enumerate() {
            let owners =
                if shared { 0..self.threads } else { number % self.threads..number % self.threads + 1 };
            for owner in owners {
                let file = File::open(path).map_err(at(path))?;
                let size = file.metadata().map_err(at(path))?.len();
                let share = size / self.threads as u64 / self.block * self.block;
                let (from, to) =
                    if shared { (share * owner as u64, share * (owner as u64 + 1)) } else { (0, size) };
                parts[owner].push(Part { file, path: path.clone(), from, to });
            }
        }
        let (timed_seconds, main) = run_threads(parts, |thread, parts| self.thread(thread, &parts))?;
        Ok(Done { timed_seconds, main, writes: Side::default() })
    }

    fn thread(&self, thread: usize, parts: &[Part]) -> Result<Side, AppError> {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(self.seed.wrapping_add(thread as u64));
        let mut buffer = vec![0; self.block as usize];
        let mut side = Side::default();
        for part in parts {
            if self.hint {
                // SAFETY: a descriptor of an open file and two numbers.
                unsafe {
                    libc::readahead(part.file.as_raw_fd(), part.from as i64, (part.to - part.from) as usize)
                };
            }
            for offset in offsets(self.pattern, part.from, part.to, self.block, &mut rng) {
                let start = Instant::now();
                let got = part.file.read_at(&mut buffer, offset).map_err(at(&part.path))?;
                side.count(start, got as u64);
            }
        }
        Ok(side)
    }
}

/// Where a thread reads, in order.
pub(super) fn offsets(
    pattern: Pattern,
    from: u64,
    to: u64,
    block: u64,
    rng: &mut Xoshiro256PlusPlus,
) -> Vec<u64> {
    let every = |step: u64| (0..((to - from) / block).div_ceil(step)).map(move |at| from + at * step * block);
    match pattern {
        Pattern::Sequential => every(1).collect(),
        Pattern::Stride => every(5).collect(),
        Pattern::Reverse => every(1).rev().collect(),
        Pattern::Random => {
            let mut all: Vec<u64> = every(1).collect();
            all.shuffle(rng);
            all
        }
    }
}

/// Writes a file of incompressible bytes.
pub(super) fn make(path: &Path, bytes: u64, seed: u64) -> Result<(), AppError> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut buffer = vec![0; 1 << 20];
    rng.fill_bytes(&mut buffer);
    let file = File::create(path).map_err(at(path))?;
    let mut offset = 0;
    while offset < bytes {
        // blocks that differ, at the price of a few bytes
        rng.fill_bytes(&mut buffer[..64]);
        let length = (bytes - offset).min(buffer.len() as u64);
        file.write_all_at(&buffer[..length as usize], offset).map_err(at(path))?;
        offset += length;
    }
    file.sync_all().map_err(at(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pattern_reads_what_it_says() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut of = |pattern| offsets(pattern, 100, 100 + 10 * 8 + 7, 8, &mut rng);
        let forward = of(Pattern::Sequential);
        assert_eq!((forward.len(), forward[0], forward[9]), (10, 100, 172));
        assert_eq!(of(Pattern::Stride), [100, 140]);
        assert_eq!(of(Pattern::Reverse), forward.iter().rev().copied().collect::<Vec<_>>());
        let mut random = of(Pattern::Random);
        assert_ne!(random, forward);
        random.sort_unstable();
        assert_eq!(random, forward);
    }

    #[test]
    fn threads_share_one_file_or_have_their_own() {
        let home = tempfile::tempdir().unwrap();
        let path = |name: &str| home.path().join(name);
        for name in ["a", "b", "c"] {
            make(&path(name), 1 << 18, 7).unwrap();
        }
        let task = |files: &[&str], pattern| Read {
            files: files.iter().map(|name| path(name)).collect(),
            pattern,
            threads: 2,
            block: 4096,
            hint: true,
            seed: 1,
        };
        let own = task(&["a", "b", "c"], Pattern::Reverse).run().unwrap();
        assert_eq!((own.main.ops, own.main.bytes), (192, 3 << 18));
        let shared = task(&["a"], Pattern::Random).run().unwrap();
        assert_eq!((shared.main.bytes, shared.main.service.count()), (1 << 18, 64));
        assert!(task(&["x"], Pattern::Random).run().is_err());
    }
}
