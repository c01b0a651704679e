//! Small writes at random places of a file that exists.

use std::fs::File;
use std::os::unix::fs::FileExt;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use stats::Direction;

use super::data::Buffers;
use super::{MEGA, large_file};
use crate::error::at;
use crate::{AppError, Bench, Load, LoadSite, Parameters};

const NAME: &str = "random-file";

/// `rand-write-4096` or `rand-write-4`: writes at any byte of the file, as in the artifact, where nearly every
/// 4 KiB write straddles two pages; one fsync within the timer. Then the same cold again at aligned offsets
/// (`...-aligned`). The file is written sequentially first (`seq-write10g`).
#[derive(Debug)]
pub struct RandomWrite {
    file_bytes: u64,
    writes: u64,
    small: bool,
    buffers: u64,
}

impl RandomWrite {
    /// Parameters `file_bytes`, `writes`, `write_bytes` (4096 or 4) and `buffers`.
    ///
    /// # Errors
    /// A value out of range.
    pub fn new(parameters: &mut Parameters) -> Result<RandomWrite, AppError> {
        let write_bytes = parameters.bytes("write_bytes", 4096, 4..=4096)?;
        if ![4, 4096].contains(&write_bytes) {
            return Err(AppError::Parameter(format!("write_bytes = {write_bytes} is neither 4 nor 4096")));
        }
        Ok(RandomWrite {
            file_bytes: parameters.bytes("file_bytes", 160 << 20, 8192..=1 << 50)?,
            writes: parameters.number("writes", 4096, 1..=1 << 40)?,
            small: write_bytes == 4,
            buffers: parameters.number("buffers", 64, 1..=100_000)?,
        })
    }

    fn write_bytes(&self) -> usize {
        if self.small { 4 } else { 4096 }
    }
}

/// A place for a write: any byte up to `file_bytes - 4` (the artifact's rule, whatever the size of the write), or
/// a multiple of the size.
fn offset(rng: &mut Xoshiro256PlusPlus, file_bytes: u64, write_bytes: u64, aligned: bool) -> u64 {
    if aligned {
        rng.random_range(0..file_bytes / write_bytes) * write_bytes
    } else {
        rng.random_range(0..file_bytes - 4)
    }
}

impl Load for RandomWrite {
    fn phases(&self) -> u32 {
        3
    }

    fn seconds_guess(&self) -> f64 {
        self.file_bytes as f64 / (200.0 * MEGA) + self.writes as f64 / 3000.0
    }

    fn run(&self, phase: u32, place: LoadSite<'_>, bench: &mut Bench<'_>) -> Result<(), AppError> {
        let path = place.root.join(NAME);
        if phase == 0 {
            let buffers = Buffers::new(self.buffers, place.seed);
            return large_file::write(&path, self.file_bytes, &buffers, "seq-write10g", bench);
        }
        let aligned = phase == 2;
        let column = match (self.small, aligned) {
            (true, false) => "rand-write-4",
            (true, true) => "rand-write-4-aligned",
            (false, false) => "rand-write-4096",
            (false, true) => "rand-write-4096-aligned",
        };
        let (size, buffers) = (self.write_bytes(), Buffers::new(1, place.seed ^ u64::from(phase)));
        let mut rng =
            Xoshiro256PlusPlus::seed_from_u64(place.seed.wrapping_mul(2).wrapping_add(u64::from(phase)));
        let file = File::options().read(true).write(true).open(&path).map_err(at(&path))?;
        let section = bench.open(column, "pwrite", Direction::Write);
        let mut tally = section.tally();
        for index in 0..self.writes {
            let place = offset(&mut rng, self.file_bytes, size as u64, aligned);
            file.write_all_at(&buffers.block(0)[..size], place).map_err(at(&path))?;
            tally.op(size as u64);
            if index % 256 == 0 {
                bench.check()?;
            }
        }
        file.sync_all().map_err(at(&path))?;
        let took = bench.close(section, &tally, None)?;
        bench.metric(column, "MB/s", (self.writes * size as u64) as f64 / MEGA / took.seconds);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_lie_where_the_artifact_and_the_corrected_variant_put_them() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(42);
        let any: Vec<u64> = (0..4000).map(|_| offset(&mut rng, 1 << 20, 4096, false)).collect();
        assert!(any.iter().all(|at| *at < (1 << 20) - 4));
        assert!(any.iter().filter(|at| *at % 4096 != 0).count() > 3900);
        assert!(any.iter().any(|at| at + 4096 > 1 << 20), "the artifact's writes may extend the file");
        assert!((0..4000).all(|_| {
            let at = offset(&mut rng, 1 << 20, 4096, true);
            at.is_multiple_of(4096) && at + 4096 <= 1 << 20
        }));
    }
}
