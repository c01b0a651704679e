//! Reading, also of a file that is still being written or whose end is torn.

use std::fs::File;
use std::io::{self, BufReader, Read};

use camino::{Utf8Path, Utf8PathBuf};

use super::{Event, EventKind, FILE_HEADER_BYTES, HEADER_BYTES, Header, MAGIC, RecordError, VERSION};

/// The events of a recording, in order. A last record of which only a part is there ends the iteration; see
/// [`Reader::torn_at`].
#[derive(Debug)]
pub struct Reader {
    path: Utf8PathBuf,
    from: BufReader<File>,
    device_bytes: u64,
    /// Where the next record begins, and where the file ended when it was opened.
    at: u64,
    end: u64,
    torn_at: Option<u64>,
    over: bool,
}

impl Reader {
    /// Opens a recording. What is appended from now on is not seen.
    ///
    /// # Errors
    /// [`RecordError::Io`]; [`RecordError::NotOne`].
    pub fn open(path: &Utf8Path) -> Result<Reader, RecordError> {
        let failed = |source| RecordError::Io { path: path.to_owned(), source };
        let file = File::open(path).map_err(failed)?;
        let end = file.metadata().map_err(failed)?.len();
        let mut from = BufReader::with_capacity(1 << 18, file);
        let mut header = [0; FILE_HEADER_BYTES];
        let whole = match from.read_exact(&mut header) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => false,
            Err(error) => return Err(failed(error)),
        };
        let mut expected = MAGIC.to_vec();
        expected.extend_from_slice(&VERSION.to_le_bytes());
        expected.extend_from_slice(&(ssd::BLOCK_BYTES as u32).to_le_bytes());
        if !whole || header[..16] != expected[..] {
            return Err(RecordError::NotOne { path: path.to_owned() });
        }
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&header[16..24]);
        let device_bytes = u64::from_le_bytes(bytes);
        let at = FILE_HEADER_BYTES as u64;
        Ok(Reader { path: path.to_owned(), from, device_bytes, at, end, torn_at: None, over: false })
    }

    /// Capacity of the device in bytes.
    pub fn device_bytes(&self) -> u64 {
        self.device_bytes
    }

    /// Where the next record begins in the file.
    pub fn position(&self) -> u64 {
        self.at
    }

    /// After the last event: where a record begins of which only a part is there.
    pub fn torn_at(&self) -> Option<u64> {
        self.torn_at
    }

    fn damaged(&self, what: &'static str) -> RecordError {
        RecordError::Damaged { path: self.path.clone(), at: self.at, what }
    }

    fn failed(&self, source: io::Error) -> RecordError {
        RecordError::Io { path: self.path.clone(), source }
    }

    /// The next event; None at the end.
    fn read(&mut self) -> Result<Option<Event>, RecordError> {
        let left = self.end - self.at;
        if left < HEADER_BYTES as u64 {
            self.torn_at = (left > 0).then_some(self.at);
            return Ok(None);
        }
        let mut bytes = [0; HEADER_BYTES];
        self.from.read_exact(&mut bytes).map_err(|e| self.failed(e))?;
        let Some(header) = Header::decode(&bytes) else {
            // space that a file system had given to the file when the machine went down
            if bytes == [0; HEADER_BYTES] {
                self.torn_at = Some(self.at);
                return Ok(None);
            }
            return Err(self.damaged("wrong checksum"));
        };
        let Some(end) = header.data_bytes().checked_add(self.at + HEADER_BYTES as u64) else {
            return Err(self.damaged("impossible length"));
        };
        if end > self.end {
            self.torn_at = Some(self.at);
            return Ok(None);
        }
        if !header.is_on(self.device_bytes) {
            return Err(self.damaged("not whole blocks of the device"));
        }
        let mut data = vec![0; header.data_bytes() as usize];
        self.from.read_exact(&mut data).map_err(|e| self.failed(e))?;
        let event = self.event(header, data)?;
        self.at = end;
        Ok(Some(event))
    }

    fn event(&self, header: Header, data: Vec<u8>) -> Result<Event, RecordError> {
        let Header { kind, fua, errno, id, at_ns, offset, length } = header;
        let what = match kind {
            Header::WRITE => EventKind::Write { id, offset, data, fua },
            Header::DISCARD => EventKind::Discard { id, offset, length },
            Header::WRITE_ZEROES => EventKind::WriteZeroes { id, offset, length },
            Header::FLUSH => EventKind::Flush { id },
            Header::BARRIER => EventKind::Barrier { id },
            Header::COMPLETE => EventKind::Complete { id, errno },
            Header::MARK => {
                EventKind::Mark { text: String::from_utf8(data).map_err(|_| self.damaged("mark not UTF-8"))? }
            }
            Header::POWER_CUT => EventKind::PowerCut,
            _ => return Err(self.damaged("unknown kind of record")),
        };
        Ok(Event { at_ns, what })
    }
}

impl Iterator for Reader {
    type Item = Result<Event, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let item = self.read().transpose();
        self.over = !matches!(item, Some(Ok(_)));
        item
    }
}
