//! What one thread did, as it was recorded: its operations in their order, packed so that a million of them fit in a few
//! megabytes.
//!
//! A record takes 1 to [`RECORD_BYTES_MAX`] bytes. Its first byte says what it does and what follows; what does not follow is as
//! in the record before it. Numbers follow in groups of seven bits, the lowest first (LEB128):
//!
//! | bit | what follows |
//! |---|---|
//! | 0 to 2 | nothing: the action, by its place in [`Action::ALL`] |
//! | 3 | nanoseconds since the last due time; without it the record is due when the one before is done |
//! | 4 | the file |
//! | 5 | the offset less the end of the record before, zigzag; without it the record goes on there |
//! | 6 | bytes |

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Operations of a stream by number: the `value` of a flowop that stands for one in results.
pub const OPERATIONS: [&str; 5] = ["read", "write", "fsync", "fdatasync", "trim"];

/// The most bytes that a record takes: a head, two numbers of 64 bits, two of 32.
pub const RECORD_BYTES_MAX: usize = 1 + 10 + 10 + 5 + 5;
/// The most bytes of a packed trace: it is part of what a worker is told.
pub const TRACE_BYTES_MAX: usize = 40 << 20;

const ACTION: u8 = 0b111;
const DUE: u8 = 1 << 3;
const FILE: u8 = 1 << 4;
const OFFSET: u8 = 1 << 5;
const BYTES: u8 = 1 << 6;

/// What a record does. The first five are operations, in the order of [`OPERATIONS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Makes a file durable.
    Fsync,
    /// Makes a file's data durable.
    Fdatasync,
    /// Discards.
    Trim,
    /// Opens a file.
    Open,
    /// Closes it.
    Close,
}

impl Action {
    /// Every action, in the order of their numbers.
    pub const ALL: [Action; 7] = [
        Action::Read,
        Action::Write,
        Action::Fsync,
        Action::Fdatasync,
        Action::Trim,
        Action::Open,
        Action::Close,
    ];

    /// Its place in [`OPERATIONS`], when it is an operation.
    pub fn operation(self) -> Option<usize> {
        Some(self as usize).filter(|number| *number < OPERATIONS.len())
    }
}

/// One record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// What it does.
    pub action: Action,
    /// When, in nanoseconds since the trace's begin; `None`: when the record before is done.
    pub due_ns: Option<u64>,
    /// On which file: a place among the files of its stream.
    pub file: u32,
    /// Where, in bytes.
    pub offset: u64,
    /// How much, in bytes; 0 for what moves and discards nothing.
    pub bytes: u32,
}

/// Records of one thread.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Trace {
    #[serde(serialize_with = "as_base64", deserialize_with = "from_base64")]
    packed: Vec<u8>,
    /// Operations, by their places in [`OPERATIONS`].
    pub operations: [u64; OPERATIONS.len()],
    /// Their bytes.
    pub bytes: [u64; OPERATIONS.len()],
    /// The largest read or write, in bytes.
    pub transfer_bytes_max: u32,
    /// Some records have due times.
    pub is_timed: bool,
    /// Nanoseconds from its begin to its end.
    pub length_ns: u64,
}

impl Trace {
    /// The records, in their order. Packed bytes that no [`TraceBuilder`] has made end it early.
    pub fn records(&self) -> Records<'_> {
        Records { packed: &self.packed, last: Last::default() }
    }

    /// Bytes of memory that the records take.
    pub fn packed_bytes(&self) -> usize {
        self.packed.len()
    }

    /// Operations of all kinds.
    pub fn operation_count(&self) -> u64 {
        self.operations.iter().sum()
    }
}

/// What a record leaves for the next one.
#[derive(Debug, Clone, Copy, Default)]
struct Last {
    due_ns: u64,
    file: u32,
    end: u64,
    bytes: u32,
}

impl Last {
    fn after(record: &Record, due_ns: u64) -> Last {
        let end = record.offset.wrapping_add(u64::from(record.bytes));
        Last { due_ns, file: record.file, end, bytes: record.bytes }
    }
}

/// Packs records.
#[derive(Debug, Default)]
pub struct TraceBuilder {
    trace: Trace,
    last: Last,
}

impl TraceBuilder {
    /// Adds a record. One that is due before an earlier one is due with that one.
    pub fn push(&mut self, mut record: Record) {
        let last = self.last;
        record.due_ns = record.due_ns.map(|due| due.max(last.due_ns));
        let trace = &mut self.trace;
        let mut head = record.action as u8;
        let step = record.offset.wrapping_sub(last.end) as i64;
        let due = record.due_ns.map(|due| due - last.due_ns);
        let flags = [
            (DUE, due.is_some()),
            (FILE, record.file != last.file),
            (OFFSET, step != 0),
            (BYTES, record.bytes != last.bytes),
        ];
        flags.iter().filter(|(_, follows)| *follows).for_each(|(flag, _)| head |= flag);
        trace.packed.push(head);
        if let Some(due) = due {
            push_number(&mut trace.packed, due);
        }
        if head & FILE != 0 {
            push_number(&mut trace.packed, u64::from(record.file));
        }
        if head & OFFSET != 0 {
            push_number(&mut trace.packed, ((step << 1) ^ (step >> 63)) as u64);
        }
        if head & BYTES != 0 {
            push_number(&mut trace.packed, u64::from(record.bytes));
        }
        if let Some(operation) = record.action.operation() {
            trace.operations[operation] += 1;
            trace.bytes[operation] += u64::from(record.bytes);
        }
        if matches!(record.action, Action::Read | Action::Write) {
            trace.transfer_bytes_max = trace.transfer_bytes_max.max(record.bytes);
        }
        trace.is_timed |= record.due_ns.is_some();
        self.last = Last::after(&record, record.due_ns.unwrap_or(last.due_ns));
        trace.length_ns = trace.length_ns.max(self.last.due_ns);
    }

    /// Whether the trace has as many bytes as it may ([`TRACE_BYTES_MAX`]).
    pub fn is_full(&self) -> bool {
        self.trace.packed.len() > TRACE_BYTES_MAX - RECORD_BYTES_MAX
    }

    /// The trace, which ends after so many nanoseconds, or with its last record when that is later.
    pub fn finish(mut self, length_ns: u64) -> Trace {
        self.trace.length_ns = self.trace.length_ns.max(length_ns);
        self.trace.packed.shrink_to_fit();
        self.trace
    }
}

/// The records of a trace.
#[derive(Debug, Clone)]
pub struct Records<'t> {
    packed: &'t [u8],
    last: Last,
}

impl Iterator for Records<'_> {
    type Item = Record;

    #[inline]
    fn next(&mut self) -> Option<Record> {
        let (&head, rest) = self.packed.split_first()?;
        self.packed = rest;
        let last = self.last;
        let action = *Action::ALL.get(usize::from(head & ACTION))?;
        let due_ns = match head & DUE {
            0 => None,
            _ => Some(last.due_ns.wrapping_add(self.number()?)),
        };
        let file = if head & FILE == 0 { last.file } else { self.number()? as u32 };
        let offset = match head & OFFSET {
            0 => last.end,
            _ => {
                let zigzag = self.number()?;
                last.end.wrapping_add((zigzag >> 1) ^ 0u64.wrapping_sub(zigzag & 1))
            }
        };
        let bytes = if head & BYTES == 0 { last.bytes } else { self.number()? as u32 };
        let record = Record { action, due_ns, file, offset, bytes };
        self.last = Last::after(&record, due_ns.unwrap_or(last.due_ns));
        Some(record)
    }
}

impl Records<'_> {
    #[inline]
    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.packed.split_first()?;
            self.packed = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }
}

fn push_number(packed: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        packed.push(number as u8 | 0x80);
        number >>= 7;
    }
    packed.push(number as u8);
}

fn as_base64<S: Serializer>(packed: &[u8], to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&STANDARD_NO_PAD.encode(packed))
}

fn from_base64<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(from)?;
    STANDARD_NO_PAD.decode(text).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;

    /// Records with numbers of all lengths, by a seed.
    fn drawn(seed: u64, count: usize) -> Vec<Record> {
        let mut rng: Rng = crate::StreamId::of_run(seed, crate::Purpose::Operations).rng();
        let mut number = |bits: u32| {
            let bits = rng.bits() % u64::from(bits + 1);
            if bits == 0 { 0 } else { rng.bits() >> (64 - bits) }
        };
        let mut due = 0_u64;
        let mut record = |_| {
            due = due.saturating_add(number(40));
            Record {
                action: Action::ALL[number(3) as usize % Action::ALL.len()],
                due_ns: (number(1) == 1).then_some(due),
                file: number(32) as u32,
                offset: number(64),
                bytes: number(32) as u32,
            }
        };
        (0..count).map(&mut record).collect()
    }

    fn packed(records: &[Record]) -> Trace {
        let mut builder = TraceBuilder::default();
        records.iter().for_each(|record| builder.push(*record));
        builder.finish(0)
    }

    #[test]
    fn what_is_packed_comes_back() {
        for seed in 0..50 {
            let records = drawn(seed, 200);
            let trace = packed(&records);
            assert!(trace.records().eq(records.iter().copied()), "seed {seed}");
            assert!(trace.packed_bytes() <= RECORD_BYTES_MAX * records.len());
            let sums: u64 = records.iter().filter(|r| r.action.operation().is_some()).count() as u64;
            assert_eq!(trace.operation_count(), sums);
        }
    }

    /// The usual record: a due time 1 ms later, a random block of 4 KiB within 16 GiB.
    #[test]
    fn a_random_block_takes_ten_bytes_and_a_sequential_one_four() {
        let record = |number: u64, offset: u64| Record {
            action: Action::Read,
            due_ns: Some(number * 1_000_000),
            file: 0,
            offset,
            bytes: 4096,
        };
        let random: Vec<Record> =
            (0..1000).map(|number| record(number, ((number * 0x9e37_79b9) % (16 << 30)) & !4095)).collect();
        assert!(packed(&random).packed_bytes() <= 10_000, "{}", packed(&random).packed_bytes());
        let sequential: Vec<Record> = (0..1000).map(|number| record(number, number * 4096)).collect();
        assert!(packed(&sequential).packed_bytes() <= 4010, "{}", packed(&sequential).packed_bytes());
    }

    #[test]
    fn due_times_never_go_back() {
        let record =
            |due_ns| Record { action: Action::Read, due_ns: Some(due_ns), file: 0, offset: 0, bytes: 1 };
        let trace = packed(&[record(5), record(3), record(8)]);
        let due: Vec<_> = trace.records().map(|record| record.due_ns).collect();
        assert_eq!(due, [Some(5), Some(5), Some(8)]);
        assert_eq!((trace.length_ns, trace.is_timed), (8, true));
    }

    #[test]
    fn a_trace_is_a_text_in_json() {
        let trace = packed(&drawn(7, 30));
        let text = serde_json::to_string(&trace).unwrap();
        assert_eq!(serde_json::from_str::<Trace>(&text).unwrap(), trace);
    }

    /// A worker believes nothing that it is told.
    #[test]
    fn any_bytes_end() {
        let mut rng: Rng = crate::StreamId::of_run(3, crate::Purpose::Operations).rng();
        for length in 0..400 {
            let packed = (0..length).map(|_| rng.bits() as u8).collect();
            let trace = Trace { packed, ..Trace::default() };
            assert!(trace.records().count() <= length);
        }
    }
}
