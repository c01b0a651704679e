//! The requests of a device in a file: what was written, in the order in which it was submitted and completed.
//!
//! One header, then records, all numbers little-endian:
//!
//! | bytes | header (32) |
//! |---|---|
//! | 0..8 | `LLREQLOG` |
//! | 8..12 | version of the format: 1 |
//! | 12..16 | bytes of a block: 4096 |
//! | 16..24 | bytes of the device |
//! | 24..32 | zero |
//!
//! | bytes | record (48, then `length` bytes of data for a write or a mark) |
//! |---|---|
//! | 0 | kind: 1 write, 2 discard, 3 write-zeroes, 4 flush, 5 complete, 6 mark, 7 power cut, 8 epoch boundary |
//! | 1 | of a write, 1: it had FUA |
//! | 2..4 | zero |
//! | 4..8 | error number of a completion, 0 = success |
//! | 8..16 | id of the request, counted from 1; 0 for marks and power cuts |
//! | 16..24 | the device's time in nanoseconds |
//! | 24..32 | offset in bytes |
//! | 32..40 | length in bytes |
//! | 40..44 | zero |
//! | 44..48 | CRC-32C of the 44 bytes before |
//!
//! A request is recorded when the device takes it, before its completion. The completion is recorded when the
//! device has decided it, before the host hears of it: what the host submits because of an answer always stands
//! behind that answer. Reads are not recorded.

mod reader;
mod writer;

pub use reader::Reader;
pub use writer::{RecordStatus, Recorder};

use camino::Utf8PathBuf;
use thiserror::Error;

const MAGIC: &[u8; 8] = b"LLREQLOG";
const VERSION: u32 = 1;
const FILE_HEADER_BYTES: usize = 32;
const HEADER_BYTES: usize = 48;

/// Something that happened on the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The device's time in nanoseconds since it was attached (real time divided by the time scale).
    pub at_ns: u64,
    /// What happened.
    pub what: EventKind,
}

/// Kinds of events. Offsets and lengths are bytes, multiples of 4096; ids count the submissions from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// A write was submitted.
    Write {
        /// Id.
        id: u64,
        /// First byte.
        offset: u64,
        /// The bytes.
        data: Vec<u8>,
        /// Completed successfully, it is durable (FUA).
        fua: bool,
    },
    /// A discard was submitted; afterwards this device reads zeroes there.
    Discard {
        /// Id.
        id: u64,
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u64,
    },
    /// A write of zeroes was submitted.
    WriteZeroes {
        /// Id.
        id: u64,
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u64,
    },
    /// A flush was submitted: completed successfully, it makes durable what was completed before this event.
    Flush {
        /// Id.
        id: u64,
    },
    /// A flush was submitted that a device which keeps order takes for an epoch boundary: what was submitted before
    /// it persists before what is submitted after it, and nothing is durable because of it.
    Barrier {
        /// Id.
        id: u64,
    },
    /// The request `id` has completed.
    Complete {
        /// Id.
        id: u64,
        /// 0 or an error number of errno(3).
        errno: i32,
    },
    /// Somebody asked for a mark, see [`crate::mark`].
    Mark {
        /// Their text.
        text: String,
    },
    /// The power was cut; nothing follows. Requests without completion never completed.
    PowerCut,
}

/// A recording that cannot be read or written.
#[derive(Debug, Error)]
pub enum RecordError {
    /// The file's beginning is not that of a recording.
    #[error("{path} is not a recording of a device's requests (version {VERSION})")]
    NotOne {
        /// The file.
        path: Utf8PathBuf,
    },
    /// A record that was never written like this.
    #[error("{path}: damaged at byte {at}: {what}; only what stands before can be used")]
    Damaged {
        /// The file.
        path: Utf8PathBuf,
        /// Where the record begins.
        at: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// The system refused something.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: Utf8PathBuf,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
}

/// A record's fixed part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Header {
    kind: u8,
    fua: bool,
    errno: i32,
    id: u64,
    at_ns: u64,
    offset: u64,
    length: u64,
}

impl Header {
    const WRITE: u8 = 1;
    const DISCARD: u8 = 2;
    const WRITE_ZEROES: u8 = 3;
    const FLUSH: u8 = 4;
    const COMPLETE: u8 = 5;
    const MARK: u8 = 6;
    const POWER_CUT: u8 = 7;
    const BARRIER: u8 = 8;

    fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        out[0] = self.kind;
        out[1] = self.fua.into();
        out[4..8].copy_from_slice(&self.errno.to_le_bytes());
        for (i, value) in [self.id, self.at_ns, self.offset, self.length].into_iter().enumerate() {
            out[8 + 8 * i..16 + 8 * i].copy_from_slice(&value.to_le_bytes());
        }
        let crc = crc32c::crc32c(&out[..44]);
        out[44..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// None if the checksum is wrong.
    fn decode(bytes: &[u8; HEADER_BYTES]) -> Option<Header> {
        let half = |at: usize| [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        let long = |at: usize| {
            u64::from(u32::from_le_bytes(half(at))) | u64::from(u32::from_le_bytes(half(at + 4))) << 32
        };
        (u32::from_le_bytes(half(44)) == crc32c::crc32c(&bytes[..44])).then(|| Header {
            kind: bytes[0],
            fua: bytes[1] & 1 != 0,
            errno: i32::from_le_bytes(half(4)),
            id: long(8),
            at_ns: long(16),
            offset: long(24),
            length: long(32),
        })
    }

    /// Whether what it changes is whole blocks of a device of so many bytes.
    fn is_on(&self, device_bytes: u64) -> bool {
        let changes = matches!(self.kind, Self::WRITE | Self::DISCARD | Self::WRITE_ZEROES);
        let whole = |bytes: u64| bytes.is_multiple_of(ssd::BLOCK_BYTES);
        let end = self.offset.checked_add(self.length);
        !changes || whole(self.offset) && whole(self.length) && end.is_some_and(|end| end <= device_bytes)
    }

    /// Bytes of data behind the fixed part.
    fn data_bytes(&self) -> u64 {
        if matches!(self.kind, Self::WRITE | Self::MARK) { self.length } else { 0 }
    }
}

#[cfg(test)]
mod tests;
