//! TokuBench: many small files are created by four threads in a tree of balanced directories.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rand::seq::SliceRandom;
use rand::{Rng, RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use stats::Direction;

use super::MEGA;
use crate::bench::Tally;
use crate::error::at;
use crate::{AppError, Bench, Load, LoadSite, Parameters};

/// Largest number of directories within a directory, and of files that make a leaf.
const FAN_OUT: u64 = 128;
/// Payload of a file.
const FILE_BYTES: usize = 200;

/// `tokubench`: open(O_CREAT), one pwrite of 200 B, close; neither fsync nor sync in the timer, as in the artifact.
/// `tokubench-synced` counts the closing write-back too.
#[derive(Debug)]
pub struct TokuBench {
    files: u64,
    threads: u64,
}

impl TokuBench {
    /// Parameters `files` and `threads`.
    ///
    /// # Errors
    /// A value out of range.
    pub fn new(parameters: &mut Parameters) -> Result<TokuBench, AppError> {
        Ok(TokuBench {
            files: parameters.number("files", 46_875, 1..=100_000_000)?,
            threads: parameters.number("threads", 4, 1..=1024)?,
        })
    }
}

/// The leaves below `path` for a share of `files`, each directory before those within it in `all`.
fn skeleton(path: &Path, files: u64, all: &mut Vec<PathBuf>, leaves: &mut Vec<PathBuf>) {
    if files <= FAN_OUT {
        leaves.push(path.to_owned());
        return;
    }
    let children = files.div_ceil(FAN_OUT).min(FAN_OUT);
    for child in 0..children {
        let path = path.join(format!("d{child}"));
        all.push(path.clone());
        skeleton(&path, files.div_ceil(children), all, leaves);
    }
}

/// The leaves of each thread and the files that it makes in them; threads share leaves where these are fewer.
fn parts(leaves: &[PathBuf], files: u64, threads: u64) -> Vec<(&[PathBuf], u64)> {
    let first = |thread: u64| (leaves.len() as u64 * thread / threads) as usize;
    let one = |thread: u64| {
        let (from, to) = (first(thread), first(thread + 1));
        (&leaves[from..to.max(from + 1)], files / threads + u64::from(thread < files % threads))
    };
    (0..threads).map(one).collect()
}

fn create(
    leaves: &[PathBuf],
    files: u64,
    seed: u64,
    mut tally: Tally,
    stopped: &dyn Fn() -> bool,
) -> Result<Tally, AppError> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut payload = [0_u8; FILE_BYTES];
    rng.fill_bytes(&mut payload);
    for index in 0..files {
        let leaf = &leaves[(index % leaves.len() as u64) as usize];
        let path = leaf.join(format!("benchfile.{}", rng.random::<u64>() >> 2));
        let file: File =
            OpenOptions::new().write(true).create(true).truncate(false).open(&path).map_err(at(&path))?;
        file.write_all_at(&payload, 0).map_err(at(&path))?;
        drop(file);
        tally.op(FILE_BYTES as u64);
        if index % 256 == 0 && stopped() {
            return Err(AppError::Interrupted);
        }
    }
    Ok(tally)
}

impl Load for TokuBench {
    fn phases(&self) -> u32 {
        1
    }

    fn seconds_guess(&self) -> f64 {
        self.files as f64 / 15_000.0
    }

    fn run(&self, _phase: u32, place: LoadSite<'_>, bench: &mut Bench<'_>) -> Result<(), AppError> {
        let (mut all, mut leaves) = (Vec::new(), Vec::new());
        let top = place.root.join("tokubench");
        std::fs::create_dir(&top).map_err(at(&top))?;
        skeleton(&top, self.files, &mut all, &mut leaves);
        for path in &all {
            std::fs::create_dir(path).map_err(at(path))?;
        }
        leaves.shuffle(&mut Xoshiro256PlusPlus::seed_from_u64(place.seed));
        let parts = parts(&leaves, self.files, self.threads);
        let stopped = bench.stopped();
        let section = bench.open("tokubench", "create", Direction::Write);
        let mut tally = section.tally();
        let results = std::thread::scope(|scope| {
            let running: Vec<_> = parts
                .into_iter()
                .enumerate()
                .map(|(index, (leaves, files))| {
                    let (tally, seed) = (section.tally(), place.seed.wrapping_add(1000 + index as u64));
                    scope.spawn(move || create(leaves, files, seed, tally, stopped))
                })
                .collect();
            running.into_iter().map(|thread| thread.join()).collect::<Vec<_>>()
        });
        for result in results {
            let one = result.map_err(|_| AppError::Protocol("a thread of TokuBench panicked".into()))??;
            tally.merge(&one);
        }
        let took = bench.close(section, &tally, Some(place.root))?;
        let bytes = tally.bytes() as f64 / MEGA;
        bench.metric("tokubench", "MB/s", bytes / took.seconds);
        bench.metric("tokubench-synced", "MB/s", bytes / took.synced_seconds);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thread_has_its_share_of_leaves_and_files() {
        for (files, threads) in [(600, 4), (100, 4), (46_875, 4), (300_000, 7)] {
            let mut leaves = Vec::new();
            skeleton(Path::new("top"), files, &mut Vec::new(), &mut leaves);
            let parts = parts(&leaves, files, threads);
            assert_eq!(parts.iter().map(|part| part.1).sum::<u64>(), files);
            assert!(parts.iter().all(|(leaves, files)| !leaves.is_empty() && *files > 0), "{files}");
            let mut used: Vec<_> = parts.iter().flat_map(|part| part.0).collect();
            used.dedup();
            assert!(used.into_iter().eq(&leaves), "{files}");
        }
    }

    /// The figures of the original program: 2,561 directories for 300,000 files, 49,281 for 3,000,000.
    #[test]
    fn the_skeleton_is_that_of_the_original() {
        for (files, directories, leaf_count) in
            [(300_000, 2_561, 2_432), (3_000_000, 49_281, 32_768), (100, 1, 1)]
        {
            let (mut all, mut leaves) = (Vec::new(), Vec::new());
            skeleton(Path::new("top"), files, &mut all, &mut leaves);
            assert_eq!((all.len() + 1, leaves.len()), (directories, leaf_count), "{files}");
        }
    }
}
