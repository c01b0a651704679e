//! Storage around storage: one whose writes go elsewhere, so that a file system can be opened and looked at without a
//! change, and one that can be opened twice.

use std::any::Any;
use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::{Arc, Mutex, MutexGuard};

use betree::Storage;
use betree::storage::UNIT;

/// So many bytes of what is written stay in memory; the rest goes to a file.
const MEMORY_BYTES_MAX: usize = 64 << 20;
/// Where that file is, unless `TMPDIR` says otherwise: what is in `/tmp` may be in memory all the same.
const FILE_DIR: &str = "/var/tmp";

/// What is written over what is there.
pub(crate) struct Overlay<S> {
    below: S,
    written: Mutex<Written>,
    memory_max: usize,
}

/// The units that were written.
#[derive(Default)]
struct Written {
    memory: HashMap<u64, Box<[u8]>>,
    /// A file without a name, once it was needed; none if it cannot be had.
    file: Option<Option<File>>,
    /// Units that are in the file, in the places that they have on the storage.
    in_file: HashSet<u64>,
}

impl Written {
    fn put(&mut self, unit: u64, bytes: &[u8], memory_max: usize) -> io::Result<()> {
        let is_full = self.memory.len() * UNIT >= memory_max && !self.memory.contains_key(&unit);
        let file = if is_full { self.file.get_or_insert_with(|| nameless().ok()).as_ref() } else { None };
        let Some(file) = file else {
            self.memory.insert(unit, bytes.into());
            return Ok(());
        };
        file.write_all_at(bytes, unit * UNIT as u64)?;
        self.in_file.insert(unit);
        Ok(())
    }

    /// False if the unit was not written.
    fn get(&self, unit: u64, bytes: &mut [u8]) -> io::Result<bool> {
        if let Some(written) = self.memory.get(&unit) {
            bytes.copy_from_slice(&written[..bytes.len()]);
            return Ok(true);
        }
        let file = self.file.iter().flatten().next().filter(|_| self.in_file.contains(&unit));
        file.map_or(Ok(false), |file| file.read_exact_at(bytes, unit * UNIT as u64).map(|()| true))
    }
}

fn nameless() -> io::Result<File> {
    let dir = std::env::var_os("TMPDIR").unwrap_or_else(|| FILE_DIR.into());
    OpenOptions::new().read(true).write(true).mode(0o600).custom_flags(libc::O_TMPFILE).open(dir)
}

impl<S: Storage> Overlay<S> {
    pub fn new(below: S) -> Overlay<S> {
        Overlay { below, written: Mutex::default(), memory_max: MEMORY_BYTES_MAX }
    }

    fn written(&self) -> MutexGuard<'_, Written> {
        self.written.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl<S: Storage> Storage for Overlay<S> {
    fn len(&self) -> io::Result<u64> {
        self.below.len()
    }

    fn read_at(&self, buf: &mut [u8], off: u64) -> io::Result<()> {
        self.below.read_at(buf, off)?;
        let written = self.written();
        for (unit, bytes) in (off / UNIT as u64..).zip(buf.chunks_mut(UNIT)) {
            written.get(unit, bytes)?;
        }
        Ok(())
    }

    fn write_at(&self, buf: &[u8], off: u64) -> io::Result<()> {
        let mut written = self.written();
        (off / UNIT as u64..)
            .zip(buf.chunks(UNIT))
            .try_for_each(|(unit, bytes)| written.put(unit, bytes, self.memory_max))
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn discard(&self, _off: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }
}

/// Storage with several owners.
#[derive(Clone)]
pub struct Shared {
    storage: Arc<dyn Storage>,
    /// Behind the storage, so that it goes after it.
    _kept: Arc<dyn Any + Send + Sync>,
}

impl Shared {
    /// Shares `storage`. Its last owner drops `kept`, after the storage.
    pub fn new(storage: impl Storage + 'static, kept: impl Any + Send + Sync) -> Shared {
        Shared { storage: Arc::new(storage), _kept: Arc::new(kept) }
    }
}

impl Storage for Shared {
    fn len(&self) -> io::Result<u64> {
        self.storage.len()
    }

    fn read_at(&self, buf: &mut [u8], off: u64) -> io::Result<()> {
        self.storage.read_at(buf, off)
    }

    fn read_many(&self, reads: &mut [(u64, &mut [u8])]) -> io::Result<()> {
        self.storage.read_many(reads)
    }

    fn write_at(&self, buf: &[u8], off: u64) -> io::Result<()> {
        self.storage.write_at(buf, off)
    }

    fn write_many(&self, writes: &[(u64, &[u8])]) -> io::Result<()> {
        self.storage.write_many(writes)
    }

    fn flush(&self) -> io::Result<()> {
        self.storage.flush()
    }

    fn flush_stacked(&self) -> io::Result<()> {
        self.storage.flush_stacked()
    }

    fn discard(&self, off: u64, len: u64) -> io::Result<()> {
        self.storage.discard(off, len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use betree::SimStorage;

    #[test]
    fn what_is_written_over_is_read_wherever_it_is_kept() {
        let below = SimStorage::new(64 * UNIT as u64);
        below.write_at(&[1; 64 * UNIT], 0).expect("write below");
        let image = below.image();
        let overlay = Overlay { memory_max: 8 * UNIT, ..Overlay::new(below.clone()) };
        let mut expected = image.clone();
        for (turn, unit) in [3, 40, 7, 20, 3, 41, 60, 10, 20, 0, 40].into_iter().enumerate() {
            let (off, bytes) = (unit * UNIT, vec![turn as u8 + 2; 3 * UNIT]);
            overlay.write_at(&bytes, off as u64).expect("write");
            expected[off..off + bytes.len()].copy_from_slice(&bytes);
            let mut all = vec![0; expected.len()];
            overlay.read_at(&mut all, 0).expect("read");
            assert!(all == expected, "after turn {turn}");
        }
        let written = overlay.written();
        assert_eq!(written.memory.len(), 8);
        assert!(written.in_file.len() > 8, "{} units in the file", written.in_file.len());
        assert!(below.image() == image, "what is below has changed");
    }
}
