//! The statistics page that other processes read: a shared file of 64-bit words.
//!
//! The process that is watched writes single words with relaxed stores; readers may see a file's words of two
//! different moments. A record is published by its sequence word, which is 0 while the record is (re)used.

use std::sync::atomic::{AtomicU64, Ordering};

use prefetch::course::Shape;
use prefetch::device::Device;
use prefetch::file::Counters;
use prefetch::reason::Reason;
use prefetch::tuning::Mode;

/// First word: `LLPF` and the version of the layout.
pub const MAGIC: u64 = 0x4c4c_5046_0000_0001;
/// Words of the header.
pub const HEADER_WORDS: usize = 128;
/// Words of a file's record.
pub const RECORD_WORDS: usize = 64;
/// Files that are recorded; later ones replace closed ones.
pub const RECORDS: usize = 256;
/// Bytes of the whole area.
pub const BYTES: usize = (HEADER_WORDS + RECORDS * RECORD_WORDS) * 8;
/// Devices that are told apart.
pub const DEVICES: usize = 8;

const DEVICE_WORDS: usize = 6;
const DEVICE_AT: usize = 32;
const NAME_AT: usize = 96;
const NAME_WORDS: usize = 8;
const PATH_AT: usize = 32;
const PATH_WORDS: usize = RECORD_WORDS - PATH_AT;

/// Words of the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
#[expect(missing_docs, reason = "the fields of Snapshot say what they are")]
pub enum Head {
    Magic = 0,
    Pid,
    Mode,
    StartedNs,
    HookCalls,
    HookNs,
    Opens,
    Workers,
    BudgetTotal,
    BudgetOutstanding,
    Walked,
    WalkUsed,
    WalkBytes,
    Sleeps,
    Panics,
    Off,
    Lost,
    ThreadNs,
    Resting,
}

/// Words of the counters within a record, after sequence, device, inode and size.
const COUNTERS_AT: usize = 8;

/// The area as the watched process sees it.
#[derive(Debug, Clone, Copy)]
pub struct Area<'a> {
    words: &'a [AtomicU64],
}

impl<'a> Area<'a> {
    /// Over words; too few are allowed, what does not fit is not written.
    pub fn new(words: &'a [AtomicU64]) -> Area<'a> {
        Area { words }
    }

    fn set(&self, at: usize, value: u64) {
        if let Some(word) = self.words.get(at) {
            word.store(value, Ordering::Relaxed);
        }
    }

    /// Sets a word of the header.
    pub fn set_head(&self, head: Head, value: u64) {
        self.set(head as usize, value);
    }

    /// Adds to a word of the header.
    pub fn add_head(&self, head: Head, value: u64) {
        if let Some(word) = self.words.get(head as usize) {
            word.fetch_add(value, Ordering::Relaxed);
        }
    }

    /// Writes the program's name, cut to 64 bytes.
    pub fn set_name(&self, name: &[u8]) {
        self.set_text(NAME_AT, NAME_WORDS, name);
    }

    fn set_text(&self, at: usize, words: usize, text: &[u8]) {
        for word in 0..words {
            let mut bytes = [0; 8];
            for (byte, to) in text.iter().skip(word * 8).zip(&mut bytes) {
                *to = *byte;
            }
            self.set(at + word, u64::from_ne_bytes(bytes));
        }
    }

    /// Writes what was measured of a device.
    pub fn set_device(&self, at: usize, number: u64, device: &Device) {
        if at >= DEVICES {
            return;
        }
        let values = [
            number,
            device.latency_ns(),
            device.delivery.highest(),
            device.delivery.saturated(),
            device.limits.readahead_bytes(),
            device.streams(),
        ];
        for (word, value) in values.into_iter().enumerate() {
            self.set(DEVICE_AT + at * DEVICE_WORDS + word, value);
        }
    }

    fn record(at: usize) -> usize {
        HEADER_WORDS + at % RECORDS * RECORD_WORDS
    }

    /// Takes a record for a file.
    pub fn begin_file(&self, at: usize, sequence: u64, device: u64, inode: u64, path: &[u8]) {
        let base = Area::record(at);
        self.set(base, 0);
        for word in 1..RECORD_WORDS {
            self.set(base + word, 0);
        }
        self.set(base + 1, device);
        self.set(base + 2, inode);
        self.set_text(base + PATH_AT, PATH_WORDS, path);
        if let Some(word) = self.words.get(base) {
            word.store(sequence, Ordering::Release);
        }
    }

    /// Writes a file's counters and decision.
    pub fn set_file(
        &self,
        at: usize,
        size: u64,
        counters: &Counters,
        reason: Reason,
        latest: (Shape, u64, bool),
    ) {
        let base = Area::record(at);
        let (shape, depth, active) = latest;
        let (kind, stride) = match shape {
            Shape::Unknown => (0, 0),
            Shape::Forward => (1, 0),
            Shape::Backward => (2, 0),
            Shape::Stride(stride) => (3, stride as u64),
        };
        for (word, value) in [size, reason as u64, kind, stride, depth].into_iter().enumerate() {
            self.set(base + 3 + word, value);
        }
        let c = counters;
        let values = [
            c.reads,
            c.bytes,
            c.timed,
            c.slow,
            c.blocked_ns,
            c.issued,
            c.useful,
            c.late,
            c.wasted,
            c.redundant,
            c.evicted,
            c.saved_ns,
            u64::from(active),
        ];
        for (word, value) in values.into_iter().enumerate() {
            self.set(base + COUNTERS_AT + word, value);
        }
    }
}

/// One device of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceSeen {
    /// Its number (`st_dev`).
    pub number: u64,
    /// Latency of a small read, ns.
    pub latency_ns: u64,
    /// The highest rate seen, bytes/s.
    pub bandwidth: u64,
    /// The rate that more depth did not raise, bytes/s; 0 when never reached.
    pub saturated: u64,
    /// The kernel's read-ahead window, bytes.
    pub readahead_bytes: u64,
}

/// One file of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSeen {
    /// Its path when it was first looked at, or its device and inode.
    pub path: String,
    /// Its size, bytes.
    pub size: u64,
    /// The latest decision.
    pub reason: Reason,
    /// The shape of the stream read last.
    pub shape: Shape,
    /// Its depth, bytes.
    pub depth: u64,
    /// Counters.
    pub counters: Counters,
}

/// What another process reads out of an area.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The process that is watched.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// Its mode.
    pub mode: Mode,
    /// Calls seen by the hooks while awake.
    pub hook_calls: u64,
    /// Estimated time in the hooks, ns.
    pub hook_ns: u64,
    /// CPU time of the threads that follow the program, ns.
    pub thread_ns: u64,
    /// Times that the library turned itself off because it had cost more than it gave, and whether it is off now.
    pub off: (u64, bool),
    /// Worker threads started.
    pub workers: u64,
    /// Memory budget and what is outstanding of it, bytes.
    pub budget: (u64, u64),
    /// Files fetched in directory order, and how many of them the program opened.
    pub walked: (u64, u64),
    /// Times that watching was suspended because it cost more than it gave.
    pub sleeps: u64,
    /// Panics caught; the first one ends prefetching in that process.
    pub panics: u64,
    /// Trace events that the daemon lost.
    pub lost: u64,
    /// Devices.
    pub devices: Vec<DeviceSeen>,
    /// Files, in the order in which they were first looked at.
    pub files: Vec<FileSeen>,
}

/// The bytes are not an area of this version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotAnArea;

impl std::fmt::Display for NotAnArea {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("not a statistics area of this version of loadline prefetch")
    }
}

impl std::error::Error for NotAnArea {}

impl Snapshot {
    /// Reads an area.
    ///
    /// # Errors
    /// Bytes that are too short or begin otherwise.
    pub fn parse(bytes: &[u8]) -> Result<Snapshot, NotAnArea> {
        let words: Vec<u64> =
            bytes.chunks_exact(8).map(|b| u64::from_ne_bytes(b.try_into().unwrap_or_default())).collect();
        if bytes.len() < BYTES || words.first() != Some(&MAGIC) {
            return Err(NotAnArea);
        }
        let word = |at: usize| words.get(at).copied().unwrap_or(0);
        let head = |head: Head| word(head as usize);
        let devices = (0..DEVICES).map(|at| DEVICE_AT + at * DEVICE_WORDS).filter(|at| word(*at) != 0);
        let mut files: Vec<(u64, FileSeen)> = (0..RECORDS)
            .map(|at| HEADER_WORDS + at * RECORD_WORDS)
            .filter(|base| word(*base) != 0)
            .map(|base| (word(base), file_seen(&words, base)))
            .collect();
        files.sort_by_key(|(sequence, _)| *sequence);
        Ok(Snapshot {
            pid: head(Head::Pid) as u32,
            name: text(&words, NAME_AT, NAME_WORDS),
            mode: Mode::from_number(head(Head::Mode)),
            hook_calls: head(Head::HookCalls),
            hook_ns: head(Head::HookNs),
            thread_ns: head(Head::ThreadNs),
            off: (head(Head::Off), head(Head::Resting) != 0),
            workers: head(Head::Workers),
            budget: (head(Head::BudgetTotal), head(Head::BudgetOutstanding)),
            walked: (head(Head::Walked), head(Head::WalkUsed)),
            sleeps: head(Head::Sleeps),
            panics: head(Head::Panics),
            lost: head(Head::Lost),
            devices: devices
                .map(|at| DeviceSeen {
                    number: word(at),
                    latency_ns: word(at + 1),
                    bandwidth: word(at + 2),
                    saturated: word(at + 3),
                    readahead_bytes: word(at + 4),
                })
                .collect(),
            files: files.into_iter().map(|(_, file)| file).collect(),
        })
    }

    /// Bytes prefetched of which it is not known whether they were read: still ahead when it was last looked, or read
    /// by calls that nobody looked at.
    pub fn unknown(counters: &Counters) -> u64 {
        let known = counters.useful.saturating_add(counters.wasted).saturating_add(counters.redundant);
        counters.issued.saturating_sub(known)
    }

    /// The sums of all files.
    pub fn total(&self) -> Counters {
        let mut sum = Counters::default();
        for file in &self.files {
            let c = &file.counters;
            sum.reads += c.reads;
            sum.bytes += c.bytes;
            sum.timed += c.timed;
            sum.slow += c.slow;
            sum.blocked_ns += c.blocked_ns;
            sum.issued += c.issued;
            sum.useful += c.useful;
            sum.late += c.late;
            sum.wasted += c.wasted;
            sum.redundant += c.redundant;
            sum.evicted += c.evicted;
            sum.saved_ns += c.saved_ns;
        }
        sum
    }
}

fn text(words: &[u64], at: usize, len: usize) -> String {
    let bytes: Vec<u8> = words.iter().skip(at).take(len).flat_map(|word| word.to_ne_bytes()).collect();
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned()
}

fn file_seen(words: &[u64], base: usize) -> FileSeen {
    let word = |at: usize| words.get(base + at).copied().unwrap_or(0);
    let mut path = text(words, base + PATH_AT, PATH_WORDS);
    if path.is_empty() {
        path = format!("device {} inode {}", word(1), word(2));
    }
    let count = |at: usize| word(COUNTERS_AT + at);
    FileSeen {
        path,
        size: word(3),
        reason: Reason::from_number(word(4)),
        shape: match word(5) {
            1 => Shape::Forward,
            2 => Shape::Backward,
            3 => Shape::Stride(word(6) as i64),
            _ => Shape::Unknown,
        },
        depth: word(7),
        counters: Counters {
            reads: count(0),
            bytes: count(1),
            timed: count(2),
            slow: count(3),
            blocked_ns: count(4),
            issued: count(5),
            useful: count(6),
            late: count(7),
            wasted: count(8),
            redundant: count(9),
            evicted: count(10),
            saved_ns: count(11),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words() -> Vec<AtomicU64> {
        (0..BYTES / 8).map(|_| AtomicU64::new(0)).collect()
    }

    fn bytes(words: &[AtomicU64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes()).collect()
    }

    #[test]
    fn what_is_written_is_read() {
        let words = words();
        let area = Area::new(&words);
        area.set_head(Head::Magic, MAGIC);
        area.set_head(Head::Pid, 42);
        area.set_head(Head::Mode, Mode::Observe as u64);
        area.set_name(b"sqlite3");
        let device = Device::new();
        device.learn_miss(1_000_000, 0);
        area.set_device(0, 77, &device);
        area.begin_file(3, 9, 77, 5, b"/data/big.db");
        let counters = Counters { reads: 10, useful: 4096, saved_ns: 7, ..Counters::default() };
        area.set_file(3, 1 << 20, &counters, Reason::Prefetching, (Shape::Stride(-4096), 8192, true));
        area.begin_file(4, 8, 77, 6, b"");
        let seen = Snapshot::parse(&bytes(&words)).unwrap();
        assert_eq!((seen.pid, seen.name.as_str(), seen.mode), (42, "sqlite3", Mode::Observe));
        assert_eq!(seen.devices.len(), 1);
        assert_eq!(seen.files.len(), 2);
        assert_eq!(seen.files[0].path, "device 77 inode 6");
        assert_eq!(seen.files[1].path, "/data/big.db");
        assert_eq!(seen.files[1].shape, Shape::Stride(-4096));
        assert_eq!(seen.files[1].counters, counters);
        assert_eq!(seen.total(), counters);
    }

    #[test]
    fn other_bytes_are_refused() {
        assert_eq!(Snapshot::parse(b""), Err(NotAnArea));
        assert_eq!(Snapshot::parse(&vec![0; BYTES]), Err(NotAnArea));
    }

    #[test]
    fn a_small_area_drops_what_does_not_fit() {
        let words: Vec<AtomicU64> = (0..4).map(|_| AtomicU64::new(0)).collect();
        let area = Area::new(&words);
        area.begin_file(200, 1, 1, 1, b"/x");
        area.set_name(&[b'x'; 1000]);
        area.set_device(99, 1, &Device::new());
    }
}
