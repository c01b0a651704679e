//! Reads a recording from its file, and knows where it is in it.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::rc::Rc;

use recording::{Header, Item, Reader, RecordingError};

use crate::AppError;

/// Read at once.
const BUFFER_BYTES: usize = 256 << 10;

/// A recording that is read, item by item.
#[derive(Debug)]
pub(super) struct Source {
    reader: Reader<Counted>,
    byte: Rc<Cell<u64>>,
    shown: String,
}

/// Counts what was taken, not what was read ahead.
#[derive(Debug)]
struct Counted {
    from: BufReader<File>,
    byte: Rc<Cell<u64>>,
}

impl Read for Counted {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(to)?;
        self.byte.set(self.byte.get() + count as u64);
        Ok(count)
    }
}

impl Source {
    /// Opens a recording and reads its header.
    ///
    /// # Errors
    /// A file that cannot be read, or is none.
    pub(super) fn open(path: &Path) -> Result<Source, AppError> {
        let shown = path.display().to_string();
        let told = |error: &dyn std::fmt::Display| AppError::Parameter(format!("{shown}: {error}"));
        let file = File::open(path).map_err(|error| told(&error))?;
        let byte = Rc::new(Cell::new(0));
        let from = Counted { from: BufReader::with_capacity(BUFFER_BYTES, file), byte: byte.clone() };
        let reader = Reader::new(from).map_err(|error| told(&error))?;
        Ok(Source { reader, byte, shown })
    }

    /// What was known when it began.
    pub(super) fn header(&self) -> &Header {
        self.reader.header()
    }

    /// The next item and the byte at which it begins; `None` behind the last.
    ///
    /// # Errors
    /// A recording that was cut or is damaged, with the byte.
    pub(super) fn next(&mut self) -> Result<Option<(u64, Item)>, AppError> {
        let byte = self.byte.get();
        match self.reader.next().transpose() {
            Ok(item) => Ok(item.map(|item| (byte, item))),
            Err(error) => Err(AppError::Parameter(format!("{}: {error}", self.shown))),
        }
    }

    /// An item that begins at `byte` makes no sense.
    pub(super) fn damaged(&self, byte: u64, what: impl Into<String>) -> AppError {
        let error = RecordingError::Damaged { byte, what: what.into() };
        AppError::Parameter(format!("{}: {error}", self.shown))
    }
}
