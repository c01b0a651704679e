//! A worker's image: a sparse file in memory that goes back to what it was without being copied whole.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::Arc;

use camino::Utf8Path;
use rustix::fs::{FallocateFlags, SeekFrom, fallocate, seek};

use crate::recording::BLOCK;

/// Bytes compared at a time: a buffer that stays in the processor's cache.
const PIECE: usize = 256 << 10;

/// What every state starts from.
#[derive(Debug)]
pub(crate) struct BaseImage {
    /// All bytes; memory only where they are not zero.
    bytes: Vec<u8>,
    filled: Vec<u64>,
}

impl BaseImage {
    pub(crate) fn new(blocks: u64, filled: &BTreeMap<u64, Vec<u8>>) -> BaseImage {
        let mut bytes = vec![0; blocks as usize * BLOCK];
        for (lba, block) in filled {
            bytes[*lba as usize * BLOCK..][..BLOCK].copy_from_slice(block);
        }
        BaseImage { bytes, filled: filled.keys().copied().collect() }
    }

    fn block(&self, lba: u64) -> &[u8] {
        &self.bytes[lba as usize * BLOCK..][..BLOCK]
    }
}

/// A file that was not there, also not as a link, and that is its owner's alone: an image holds whatever a program has written.
pub(crate) fn new_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    options
}

/// The file.
#[derive(Debug)]
pub(crate) struct Image {
    file: File,
    pristine: Arc<BaseImage>,
    buffer: Vec<u8>,
}

impl Image {
    /// A new file that holds the pristine bytes.
    pub(crate) fn create(path: &Utf8Path, pristine: Arc<BaseImage>) -> io::Result<Image> {
        let file = new_file().read(true).open(path)?;
        file.set_len(pristine.bytes.len() as u64)?;
        for lba in &pristine.filled {
            file.write_all_at(pristine.block(*lba), lba * BLOCK as u64)?;
        }
        Ok(Image { file, pristine, buffer: vec![0; PIECE] })
    }

    /// Overwrites blocks.
    pub(crate) fn apply<'b>(&self, blocks: impl Iterator<Item = (u64, &'b [u8])>) -> io::Result<()> {
        for (lba, bytes) in blocks {
            self.file.write_all_at(bytes, lba * BLOCK as u64)?;
        }
        Ok(())
    }

    /// Makes the file what it was; how many blocks had changed. Looks only at what is not a hole.
    pub(crate) fn restore(&mut self) -> io::Result<u64> {
        let end = self.pristine.bytes.len() as u64;
        let (mut at, mut changed) = (0, 0);
        // the filled blocks that no run of data has covered so far
        let mut filled = 0;
        while at < end {
            let data = match seek(&self.file, SeekFrom::Data(at)) {
                Ok(data) => data,
                Err(rustix::io::Errno::NXIO) => end,
                Err(error) => return Err(error.into()),
            };
            changed += self.refill(&mut filled, data)?;
            if data >= end {
                break;
            }
            let hole = seek(&self.file, SeekFrom::Hole(data))?.min(end);
            changed += self.restore_run(data / BLOCK as u64 * BLOCK as u64, hole)?;
            while self.pristine.filled.get(filled).is_some_and(|lba| lba * (BLOCK as u64) < hole) {
                filled += 1;
            }
            at = hole;
        }
        Ok(changed)
    }

    /// Fills what should be filled before `to` and is a hole: it was discarded.
    fn refill(&self, filled: &mut usize, to: u64) -> io::Result<u64> {
        let first = *filled;
        while let Some(lba) = self.pristine.filled.get(*filled).filter(|lba| **lba * (BLOCK as u64) < to) {
            self.file.write_all_at(self.pristine.block(*lba), lba * BLOCK as u64)?;
            *filled += 1;
        }
        Ok((*filled - first) as u64)
    }

    fn restore_run(&mut self, from: u64, to: u64) -> io::Result<u64> {
        let (mut at, mut changed) = (from, 0);
        while at < to {
            let length = PIECE.min((to - at) as usize);
            let piece = &mut self.buffer[..length];
            self.file.read_exact_at(piece, at)?;
            for (i, block) in piece.chunks(BLOCK).enumerate() {
                let lba = at / BLOCK as u64 + i as u64;
                let due = self.pristine.block(lba);
                if block == due {
                    continue;
                }
                changed += 1;
                let place = lba * BLOCK as u64;
                if due.iter().all(|byte| *byte == 0) {
                    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                    fallocate(&self.file, punch, place, BLOCK as u64)?;
                } else {
                    self.file.write_all_at(due, place)?;
                }
            }
            at += length as u64;
        }
        Ok(changed)
    }
}

/// Copies a sparse file, holes and all.
pub(crate) fn copy_sparse(from: &Utf8Path, to: &Utf8Path) -> io::Result<()> {
    let source = File::open(from)?;
    let target = new_file().open(to)?;
    let end = source.metadata()?.len();
    target.set_len(end)?;
    let (mut at, mut buffer) = (0, vec![0; PIECE]);
    while at < end {
        let data = match seek(&source, SeekFrom::Data(at)) {
            Ok(data) => data,
            Err(rustix::io::Errno::NXIO) => break,
            Err(error) => return Err(error.into()),
        };
        let hole = seek(&source, SeekFrom::Hole(data))?;
        let mut place = data;
        while place < hole {
            let piece = &mut buffer[..PIECE.min((hole - place) as usize)];
            source.read_exact_at(piece, place)?;
            target.write_all_at(piece, place)?;
            place += piece.len() as u64;
        }
        at = hole;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use stats::rng::SplitMix;

    #[test]
    fn whatever_is_done_to_it_is_undone() {
        let dir = tempfile::tempdir().unwrap();
        let path = Utf8Path::from_path(dir.path()).unwrap().join("image");
        let filled = [(0u64, 1u8), (3, 2), (4, 3), (700, 4)].map(|(lba, byte)| (lba, vec![byte; BLOCK]));
        let pristine = Arc::new(BaseImage::new(1000, &BTreeMap::from(filled)));
        let mut image = Image::create(&path, pristine.clone()).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), pristine.bytes);
        let copy = path.with_extension("copy");
        copy_sparse(&path, &copy).unwrap();
        for file in [&path, &copy] {
            assert_eq!(std::fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600, "{file}");
        }
        let mut rng = SplitMix::new(1);
        for round in 0..30 {
            let blocks: Vec<(u64, Vec<u8>)> =
                (0..20).map(|_| (rng.below(1000) as u64, vec![rng.below(4) as u8; BLOCK])).collect();
            image.apply(blocks.iter().map(|(lba, bytes)| (*lba, &bytes[..]))).unwrap();
            let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            let hole = [0, 3, 4, 600][rng.below(4)] * BLOCK as u64;
            fallocate(&image.file, punch, hole, 150 * BLOCK as u64).unwrap();
            assert!(image.restore().unwrap() > 0);
            assert_eq!(std::fs::read(&path).unwrap(), pristine.bytes, "round {round}");
            assert_eq!(image.restore().unwrap(), 0);
        }
    }
}
