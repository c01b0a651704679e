//! One large file: written with a closing fsync inside the timer, read back cold.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;

use stats::Direction;

use super::MEGA;
use super::data::{BLOCK_BYTES, Buffers};
use crate::error::at;
use crate::{AppError, Bench, Load, LoadSite, Parameters};

const NAME: &str = "large-file";

/// `seq-write`: `pwrite` of 40,960 B from prepared random buffers, one fsync within the timer. `seq-read`: the
/// same file read in 40,960 B pieces, cold. MB/s are computed from bytes and seconds (the artifact takes a word of
/// dd's output, which is in GB/s above 1 GB/s).
#[derive(Debug)]
pub struct LargeFile {
    file_bytes: u64,
    buffers: u64,
}

impl LargeFile {
    /// Parameters `file_bytes` and `buffers`.
    ///
    /// # Errors
    /// A value out of range.
    pub fn new(parameters: &mut Parameters) -> Result<LargeFile, AppError> {
        Ok(LargeFile {
            file_bytes: parameters.bytes("file_bytes", 1 << 30, 1..=1 << 50)?,
            buffers: parameters.number("buffers", 64, 1..=100_000)?,
        })
    }
}

impl Load for LargeFile {
    fn phases(&self) -> u32 {
        2
    }

    fn seconds_guess(&self) -> f64 {
        self.file_bytes as f64 / (200.0 * MEGA)
    }

    fn run(&self, phase: u32, place: LoadSite<'_>, bench: &mut Bench<'_>) -> Result<(), AppError> {
        let path = place.root.join(NAME);
        if phase == 0 {
            let buffers = Buffers::new(self.buffers, place.seed);
            write(&path, self.file_bytes, &buffers, "seq-write", bench)
        } else {
            read(&path, bench)
        }
    }
}

/// Writes a file of `bytes` and measures it as `column`.
pub(super) fn write(
    path: &std::path::Path,
    bytes: u64,
    buffers: &Buffers,
    column: &'static str,
    bench: &mut Bench<'_>,
) -> Result<(), AppError> {
    let file =
        File::options().read(true).write(true).create(true).truncate(true).open(path).map_err(at(path))?;
    let section = bench.open(column, "pwrite", Direction::Write);
    let mut tally = section.tally();
    for index in 0..bytes.div_ceil(BLOCK_BYTES as u64) {
        let offset = index * BLOCK_BYTES as u64;
        let length = (bytes - offset).min(BLOCK_BYTES as u64);
        file.write_all_at(&buffers.block(index)[..length as usize], offset).map_err(at(path))?;
        tally.op(length);
        if index % 1024 == 0 {
            bench.check()?;
        }
    }
    file.sync_all().map_err(at(path))?;
    let took = bench.close(section, &tally, None)?;
    bench.metric(column, "MB/s", bytes as f64 / MEGA / took.seconds);
    Ok(())
}

fn read(path: &std::path::Path, bench: &mut Bench<'_>) -> Result<(), AppError> {
    let mut file = File::open(path).map_err(at(path))?;
    let mut buffer = vec![0; BLOCK_BYTES];
    let section = bench.open("seq-read", "read", Direction::Read);
    let mut tally = section.tally();
    loop {
        let got = file.read(&mut buffer).map_err(at(path))?;
        if got == 0 {
            break;
        }
        tally.op(got as u64);
    }
    let took = bench.close(section, &tally, None)?;
    bench.metric("seq-read", "MB/s", tally.bytes() as f64 / MEGA / took.seconds);
    Ok(())
}
