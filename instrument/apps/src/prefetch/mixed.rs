//! Four writers and some readers at random places of one file (Figure 6).

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};

use super::shared::{Done, Side};
use crate::AppError;
use crate::error::at;

/// Writers and readers for some seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Mixed {
    /// The file.
    pub file: PathBuf,
    /// Threads that write.
    pub writers: usize,
    /// Threads that read.
    pub readers: usize,
    /// Bytes of an operation.
    pub block: u64,
    /// How long.
    pub seconds: f64,
    /// Seed of the places.
    pub seed: u64,
}

impl Mixed {
    /// Runs both sides together; every thread has a descriptor of its own.
    ///
    /// # Errors
    /// What failed.
    pub fn run(&self) -> Result<Done, AppError> {
        let open = |_| File::options().read(true).write(true).open(&self.file).map_err(at(&self.file));
        let files: Vec<File> = (0..self.writers + self.readers).map(open).collect::<Result<_, _>>()?;
        let blocks = files.first().map_or(Ok(0), |file| file.metadata().map(|data| data.len()));
        let blocks = (blocks.map_err(at(&self.file))? / self.block).max(1);
        let start = Instant::now();
        let end = start + Duration::from_secs_f64(self.seconds);
        let sides: Vec<Result<Side, AppError>> = std::thread::scope(|scope| {
            let threads: Vec<_> = files
                .into_iter()
                .enumerate()
                .map(|(at, file)| scope.spawn(move || self.thread(at, &file, blocks, end)))
                .collect();
            let died = || Err(AppError::Protocol("a thread of the load died".into()));
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| died())).collect()
        });
        let mut done = Done { timed_seconds: start.elapsed().as_secs_f64(), ..Done::default() };
        for (at, side) in sides.into_iter().enumerate() {
            let all = if at < self.writers { &mut done.writes } else { &mut done.main };
            *all = std::mem::take(all).merge(&side?);
        }
        Ok(done)
    }

    fn thread(&self, number: usize, file: &File, blocks: u64, end: Instant) -> Result<Side, AppError> {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(self.seed.wrapping_add(number as u64));
        let mut buffer = vec![number as u8; self.block as usize];
        let mut side = Side::default();
        loop {
            let start = Instant::now();
            if start >= end {
                return Ok(side);
            }
            let offset = rng.random_range(0..blocks) * self.block;
            if number < self.writers {
                file.write_all_at(&buffer, offset).map_err(at(&self.file))?;
            } else {
                file.read_exact_at(&mut buffer, offset).map_err(at(&self.file))?;
            }
            side.count(start, self.block);
        }
    }
}
