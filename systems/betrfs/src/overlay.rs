//! Storage around storage: one whose writes stay in memory, so that a file system can be opened and looked at without a
//! change, and one that can be opened twice.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use betree::Storage;
use betree::storage::UNIT;

/// What is written over what is there.
pub(crate) struct Overlay<S> {
    below: S,
    units: Mutex<HashMap<u64, Box<[u8]>>>,
}

impl<S: Storage> Overlay<S> {
    pub fn new(below: S) -> Overlay<S> {
        Overlay { below, units: Mutex::default() }
    }

    fn units(&self) -> MutexGuard<'_, HashMap<u64, Box<[u8]>>> {
        self.units.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl<S: Storage> Storage for Overlay<S> {
    fn len(&self) -> io::Result<u64> {
        self.below.len()
    }

    fn read_at(&self, buf: &mut [u8], off: u64) -> io::Result<()> {
        self.below.read_at(buf, off)?;
        let units = self.units();
        for (i, unit) in buf.chunks_mut(UNIT).enumerate() {
            if let Some(written) = units.get(&(off / UNIT as u64 + i as u64)) {
                unit.copy_from_slice(&written[..unit.len()]);
            }
        }
        Ok(())
    }

    fn write_at(&self, buf: &[u8], off: u64) -> io::Result<()> {
        let mut units = self.units();
        for (i, unit) in buf.chunks(UNIT).enumerate() {
            units.insert(off / UNIT as u64 + i as u64, unit.into());
        }
        Ok(())
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
pub struct Shared(Arc<dyn Storage>);

impl Shared {
    /// Shares `storage`.
    pub fn new(storage: impl Storage + 'static) -> Shared {
        Shared(Arc::new(storage))
    }
}

impl Storage for Shared {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read_at(&self, buf: &mut [u8], off: u64) -> io::Result<()> {
        self.0.read_at(buf, off)
    }

    fn read_many(&self, reads: &mut [(u64, &mut [u8])]) -> io::Result<()> {
        self.0.read_many(reads)
    }

    fn write_at(&self, buf: &[u8], off: u64) -> io::Result<()> {
        self.0.write_at(buf, off)
    }

    fn write_many(&self, writes: &[(u64, &[u8])]) -> io::Result<()> {
        self.0.write_many(writes)
    }

    fn flush(&self) -> io::Result<()> {
        self.0.flush()
    }

    fn flush_stacked(&self) -> io::Result<()> {
        self.0.flush_stacked()
    }

    fn discard(&self, off: u64, len: u64) -> io::Result<()> {
        self.0.discard(off, len)
    }
}
