//! Folder compression: one folder a thread, snappy (Figure 9b).

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};

use super::shared::{Done, Side, run_threads};
use crate::AppError;
use crate::error::at;

/// Compression of folders.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Compress {
    /// One folder for each thread.
    pub folders: Vec<PathBuf>,
}

/// Ending of what is written.
const ENDING: &str = "comp";

impl Compress {
    /// The files to compress, in the order of their names.
    pub fn files(&self) -> Vec<PathBuf> {
        self.folders.iter().flat_map(|folder| inputs(folder)).collect()
    }

    /// Compresses every file into one beside it. Each file is read by one call after FADV_SEQUENTIAL, and let go with
    /// FADV_DONTNEED, as the artifact's program does.
    ///
    /// # Errors
    /// What failed.
    pub fn run(&self) -> Result<Done, AppError> {
        let (timed_seconds, main) = run_threads(self.folders.clone(), |_, folder| {
            let mut side = Side::default();
            let (mut plain, mut packed) = (Vec::new(), Vec::new());
            let mut encoder = snap::raw::Encoder::new();
            for path in inputs(&folder) {
                let start = Instant::now();
                let bytes = compress_file(&path, &mut plain, &mut packed, &mut encoder)?;
                side.count(start, bytes);
            }
            Ok(side)
        })?;
        Ok(Done { timed_seconds, main, writes: Side::default() })
    }
}

fn inputs(folder: &Path) -> Vec<PathBuf> {
    let mut files = super::files_in(folder);
    files.retain(|file| file.extension().is_none_or(|ending| ending != ENDING));
    files
}

fn compress_file(
    path: &Path,
    plain: &mut Vec<u8>,
    packed: &mut Vec<u8>,
    encoder: &mut snap::raw::Encoder,
) -> Result<u64, AppError> {
    let mut file = File::open(path).map_err(at(path))?;
    advise(&file, libc::POSIX_FADV_SEQUENTIAL);
    let size = file.metadata().map_err(at(path))?.len() as usize;
    plain.resize(size, 0);
    file.read_exact(plain).map_err(at(path))?;
    packed.resize(snap::raw::max_compress_len(size), 0);
    let length = encoder
        .compress(plain, packed)
        .map_err(|error| AppError::Protocol(format!("{}: {error}", path.display())))?;
    let output = path.with_extension(ENDING);
    let mut written = File::create(&output).map_err(at(&output))?;
    written.write_all(&packed[..length]).map_err(at(&output))?;
    advise(&file, libc::POSIX_FADV_DONTNEED);
    Ok(size as u64)
}

/// A hint through libc, where a preloaded library sees it.
fn advise(file: &File, advice: libc::c_int) {
    // SAFETY: a descriptor of an open file and numbers.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, advice) };
}

/// Writes a file of which about half compresses.
pub(super) fn make(path: &Path, bytes: u64, seed: u64) -> Result<(), AppError> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut text = vec![0; bytes as usize];
    for piece in text.chunks_mut(4096) {
        let half = piece.len() / 2;
        rng.fill_bytes(&mut piece[..half]);
    }
    std::fs::write(path, text).map_err(at(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_compressed_once() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("a");
        std::fs::create_dir(&folder).unwrap();
        for name in ["1", "2"] {
            make(&folder.join(name), 100_000, 5).unwrap();
        }
        let task = Compress { folders: vec![folder.clone()] };
        for _ in 0..2 {
            let done = task.run().unwrap();
            assert_eq!((done.main.ops, done.main.bytes), (2, 200_000), "outputs are no inputs");
        }
        let packed = std::fs::read(folder.join("1.comp")).unwrap();
        assert!((45_000..60_000).contains(&packed.len()), "{}", packed.len());
        let plain = snap::raw::Decoder::new().decompress_vec(&packed).unwrap();
        assert_eq!(plain, std::fs::read(folder.join("1")).unwrap());
    }
}
