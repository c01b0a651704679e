//! A device in memory that holds an image of which some bytes were changed; copies share what is written to it.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex};

/// Bytes of a unit of the store.
const UNIT: usize = 4096;

/// The image itself is never written to.
#[derive(Clone)]
pub struct Image {
    base: &'static [u8],
    written: Arc<Mutex<HashMap<usize, Vec<u8>>>>,
}

impl Image {
    pub fn new(base: &'static [u8]) -> Image {
        Image { base, written: Arc::default() }
    }

    /// Bytes at places.
    pub fn bytes(&self, places: &[usize]) -> Vec<u8> {
        let written = self.written.lock().expect("no panic");
        let one = |at: &usize| written.get(&(at / UNIT)).map_or(self.base[*at], |unit| unit[at % UNIT]);
        places.iter().map(one).collect()
    }

    /// Changes one byte.
    pub fn set(&self, at: usize, byte: u8) {
        let mut written = self.written.lock().expect("no panic");
        let unit = at / UNIT;
        written.entry(unit).or_insert_with(|| self.base[unit * UNIT..(unit + 1) * UNIT].to_vec())
            [at % UNIT] = byte;
    }

    /// Whether anything in this unit was changed.
    pub fn is_written(&self, unit: usize) -> bool {
        self.written.lock().expect("no panic").contains_key(&unit)
    }

    fn units(&self, off: u64, len: usize) -> io::Result<std::ops::Range<usize>> {
        let (first, units) = ((off / UNIT as u64) as usize, len / UNIT);
        let fits = first.checked_add(units).is_some_and(|end| end <= self.base.len() / UNIT);
        if !fits || !off.is_multiple_of(UNIT as u64) || !len.is_multiple_of(UNIT) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "transfer not inside, or not in units"));
        }
        Ok(first..first + units)
    }
}

impl betree::Storage for Image {
    fn len(&self) -> io::Result<u64> {
        Ok(self.base.len() as u64)
    }

    fn read_at(&self, buf: &mut [u8], off: u64) -> io::Result<()> {
        let units = self.units(off, buf.len())?;
        let written = self.written.lock().expect("no panic");
        for (unit, to) in units.zip(buf.chunks_mut(UNIT)) {
            let base = &self.base[unit * UNIT..(unit + 1) * UNIT];
            to.copy_from_slice(written.get(&unit).map_or(base, |unit| unit));
        }
        Ok(())
    }

    fn write_at(&self, buf: &[u8], off: u64) -> io::Result<()> {
        let units = self.units(off, buf.len())?;
        let mut written = self.written.lock().expect("no panic");
        units.zip(buf.chunks(UNIT)).for_each(|(unit, from)| _ = written.insert(unit, from.to_vec()));
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn discard(&self, _off: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }
}
