//! Small writes anywhere in large files, hardly any of them synced: the load for which the store holds its log back, spills
//! memtables and binds records to what was spilled. Between them whatever else a file system is asked for.

use std::sync::Arc;

use betrfs::Fs;

use super::cuts::REFUSED_AT_FIRST;
use super::{Done, Model, Path, What, World, errno};

/// A file of so many bytes is large: far more than a memtable of the trials has place for.
const LARGE: usize = 128 << 10;
/// Bytes by which a file grows at a time. A longer write would be all that a log of the trials has place for.
const GROWTH: usize = 48 << 10;
/// Large files, unless the device shall get full.
const LARGE_FILES_MAX: usize = 2;

impl World {
    /// As [`World::step`], with mostly small writes.
    pub fn scatter(&mut self, fs: &Fs, dying: bool) -> bool {
        let (_, mut files) = self.model.paths();
        files.retain(|path| self.model.data(path).is_some());
        let large: Vec<Path> = files.iter().filter(|path| self.model.len(path) >= LARGE).cloned().collect();
        // A device that shall be full is filled at first, and again as space comes back.
        let fills = self.full && (self.refused <= REFUSED_AT_FIRST || self.random.below(40) == 0);
        let few = large.len() < LARGE_FILES_MAX || fills;
        // Without more files the one would grow for ever.
        let grows: Vec<Path> = if fills { files.clone() } else { less(&files, &large) };
        let before = self.full.then(|| self.model.clone());
        let kind = self.random.below(100);
        let (expected, what, result) = match kind {
            0..8 => return self.step(fs, dying),
            _ if files.is_empty() => return self.step(fs, dying),
            8..40 if few && !grows.is_empty() => {
                let path = self.pick(&grows);
                let bytes = self.random.bytes(GROWTH);
                let off = self.model.len(&path);
                self.write_at(fs, &path, off, &bytes)
            }
            _ if large.is_empty() => return self.step(fs, dying),
            40..43 => self.copy(fs, &files, &large),
            _ => {
                let path = self.pick(&large);
                let mut off = self.random.below(self.model.len(&path) as u64) as usize;
                let len = match self.random.below(12) {
                    0 => 1 + self.random.below(30) as usize,
                    1 => {
                        off = off / 4096 * 4096;
                        4096
                    }
                    _ => 1 + self.random.below(900) as usize,
                };
                let bytes = self.random.bytes(len);
                self.write_at(fs, &path, off, &bytes)
            }
        };
        self.conclude(fs, before, expected, &what, result, dying)
    }

    fn write_at(&mut self, fs: &Fs, path: &Path, off: usize, bytes: &[u8]) -> (Done, String, Done) {
        let written = Self::walk(fs, path).and_then(|inos| {
            let done = fs.write(inos[inos.len() - 1], off as u64, bytes, false);
            Self::leave(fs, &inos);
            done
        });
        let what = format!("scatter {path:?} {off} {}", bytes.len());
        let bytes = self.taken(&written, bytes);
        let node = self.model.resolve(path);
        let mut data = self.model.data(path).expect("a file").to_vec();
        data.resize(data.len().max(off + bytes.len()), 0);
        data[off..off + bytes.len()].copy_from_slice(bytes);
        self.model.things[node].what = What::File(Arc::new(data));
        (Ok(()), what, errno(written.map(drop)))
    }

    /// What `copy_file_range` does where nothing can be shared: reads here, writes there.
    fn copy(&mut self, fs: &Fs, files: &[Path], large: &[Path]) -> (Done, String, Done) {
        let (from, to) = (self.pick(large), self.pick(files));
        let off = self.random.below(self.model.len(&from) as u64) as usize;
        let len = 1 + self.random.below(20_000) as usize;
        let read = Self::walk(fs, &from).and_then(|inos| {
            let read = fs.read(inos[inos.len() - 1], off as u64, len);
            Self::leave(fs, &inos);
            read
        });
        let what = format!("copy {from:?} {off} {len} to {to:?}");
        let bytes = match read {
            Ok(bytes) => bytes,
            Err(e) => return (Ok(()), what, errno(Err(e))),
        };
        let data = self.model.data(&from).expect("a file");
        assert!(bytes[..] == data[off..(off + len).min(data.len())], "{what}");
        let at = self.random.below(self.model.len(&to) as u64 + 1) as usize;
        let (expected, _, result) = self.write_at(fs, &to, at, &bytes);
        (expected, format!("{what} {at}"), result)
    }
}

/// The first without the others.
fn less(files: &[Path], others: &[Path]) -> Vec<Path> {
    files.iter().filter(|path| !others.contains(path)).cloned().collect()
}

impl Model {
    fn data(&self, path: &[Vec<u8>]) -> Option<&Arc<Vec<u8>>> {
        match &self.things[self.resolve(path)].what {
            What::File(data) => Some(data),
            _ => None,
        }
    }

    fn len(&self, path: &[Vec<u8>]) -> usize {
        self.data(path).map_or(0, |data| data.len())
    }
}
