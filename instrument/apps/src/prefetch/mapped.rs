//! A file mapped once, copied out in units by several threads (Table 4).

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::time::Instant;

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};

use super::read::offsets;
use super::shared::{Done, Pattern, Side, run_threads};
use crate::AppError;
use crate::error::at;

/// Copies of a mapped file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Mapped {
    /// The file.
    pub file: PathBuf,
    /// Order of the units within each thread's part.
    pub pattern: Pattern,
    /// Threads.
    pub threads: usize,
    /// Bytes of a unit.
    pub block: u64,
    /// Whether the program tells its order with madvise(2).
    pub advise: bool,
    /// Seed of the shuffle.
    pub seed: u64,
}

/// A read-only mapping of a whole file.
struct Mapping {
    start: *mut libc::c_void,
    length: usize,
}

// SAFETY: the mapping is only read, and stays until it is dropped.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is one mapping of ours, and no reference into it is left.
        unsafe { libc::munmap(self.start, self.length) };
    }
}

impl Mapped {
    /// Maps the file, then copies; the time begins after the mapping.
    ///
    /// # Errors
    /// The file cannot be mapped.
    pub fn run(&self) -> Result<Done, AppError> {
        let file = File::open(&self.file).map_err(at(&self.file))?;
        let length = file.metadata().map_err(at(&self.file))?.len() as usize;
        // SAFETY: a new mapping at a place that the kernel chooses.
        let start = unsafe {
            libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        if start == libc::MAP_FAILED {
            return Err(at(&self.file)(std::io::Error::last_os_error()));
        }
        let mapping = Mapping { start, length };
        if self.advise {
            let random = self.pattern == Pattern::Random;
            let advice = if random { libc::MADV_RANDOM } else { libc::MADV_SEQUENTIAL };
            // SAFETY: a hint on a mapping of ours.
            unsafe { libc::madvise(mapping.start, mapping.length, advice) };
        }
        let (timed_seconds, main) =
            run_threads((0..self.threads).collect(), |thread, _| Ok(self.thread(thread, &mapping)))?;
        Ok(Done { timed_seconds, main, writes: Side::default() })
    }

    fn thread(&self, thread: usize, mapping: &Mapping) -> Side {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(self.seed.wrapping_add(thread as u64));
        let part = mapping.length as u64 / self.threads as u64 / self.block * self.block;
        let from = part * thread as u64;
        let mut buffer = vec![0u8; self.block as usize];
        let mut side = Side::default();
        for offset in offsets(self.pattern, from, from + part, self.block, &mut rng) {
            let start = Instant::now();
            // SAFETY: offset + block <= length of the mapping, which outlives this call; the bytes are only copied,
            // never referred to, so that another process's writes to the file do no harm.
            unsafe {
                let unit = mapping.start.cast::<u8>().add(offset as usize);
                std::ptr::copy_nonoverlapping(unit, buffer.as_mut_ptr(), buffer.len());
            }
            std::hint::black_box(&buffer);
            side.count(start, self.block);
        }
        side
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_file_is_copied() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("f");
        super::super::read::make(&file, 1 << 20, 3).unwrap();
        for (pattern, advise) in [(Pattern::Sequential, true), (Pattern::Random, false)] {
            let task = Mapped { file: file.clone(), pattern, threads: 4, block: 16384, advise, seed: 1 };
            let done = task.run().unwrap();
            assert_eq!((done.main.ops, done.main.bytes), (64, 1 << 20));
        }
    }
}
